/* planfile/words.c - the words and numbers of a plan's text.
 *
 * Numbers are limited before anything is allocated for them. */
#include "planfile/internal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

ft_status parser_fault(const parser *p, ft_error *err, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ft_fail(err, FT_FORMAT, "plan, line %d: %s", p->line, text);
}

ft_status parser_no_memory(const parser *p, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "plan, line %d: no memory", p->line);
}

void *growing_add(growing *g, int64_t size)
{
    if (g->n == g->capacity) {
        int64_t capacity = g->capacity ? 2 * g->capacity : 64;
        void *items = ft_realloc(g->items, capacity * size);
        if (!items) return NULL;
        g->items = items;
        g->capacity = capacity;
    }
    return (char *)g->items + g->n++ * size;
}

/* -- words and numbers ---------------------------------------------------------------------------
 */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

word next_word(parser *p)
{
    while (p->at < p->end && is_space(*p->at)) p->at++;
    word w = {.text = p->at};
    while (p->at < p->end && !is_space(*p->at)) p->at++;
    w.length = p->at - w.text > INT_MAX ? INT_MAX : (int)(p->at - w.text);
    return w;
}

int shown(word w)
{
    return w.length > 100 ? 100 : w.length;
}

bool word_is(word w, const char *text)
{
    return (int)strlen(text) == w.length && !memcmp(w.text, text, (size_t)w.length);
}

bool scan_number(const char **at, const char *end, int64_t most, int64_t *out)
{
    const char *begin = *at;
    int64_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        int digit = **at - '0';
        if (value > most / 10 || value * 10 > most - digit) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return *at > begin;
}

bool scan_char(const char **at, const char *end, char c)
{
    if (*at >= end || **at != c) return false;
    ++*at;
    return true;
}

ft_status read_number(parser *p, const char *what, int64_t least, int64_t most, int64_t *out,
                      ft_error *err)
{
    word w = next_word(p);
    const char *at = w.text;
    if (scan_number(&at, w.text + w.length, most, out) && at == w.text + w.length && *out >= least)
        return FT_OK;
    return parser_fault(p, err, "%s is '%.*s', expected a number from %lld to %lld", what, shown(w),
                        w.text, (long long)least, (long long)most);
}

ft_status read_int(parser *p, const char *what, int64_t least, int64_t most, int *out,
                   ft_error *err)
{
    int64_t value;
    FT_TRY(read_number(p, what, least, most, &value, err));
    *out = (int)value;
    return FT_OK;
}

ft_status expect(parser *p, const char *text, ft_error *err)
{
    word w = next_word(p);
    if (word_is(w, text)) return FT_OK;
    return parser_fault(p, err, "found '%.*s', expected '%s'", shown(w), w.text, text);
}

bool takes_word(parser *p, const char *text)
{
    const char *before = p->at;
    if (word_is(next_word(p), text)) return true;
    p->at = before;
    return false;
}

bool scan_kind(const char **at, const char *end, ft_action_kind *kind)
{
    for (int k = 0; k < FT_ACT_COUNT; k++)
        if (scan_char(at, end, ft_action_letter(k))) {
            *kind = k;
            return true;
        }
    return false;
}

ft_status read_classes(parser *p, int64_t bytes[FT_MEMORY_CLASSES], ft_error *err)
{
    unsigned seen = 0;
    for (word w = next_word(p); w.length; w = next_word(p)) {
        int c = 0;
        while (c < FT_MEMORY_CLASSES && !word_is(w, ft_memory_classes[c].name)) c++;
        if (c == FT_MEMORY_CLASSES)
            return parser_fault(p, err, "found '%.*s', expected a class of memory, as '%s'",
                                shown(w), w.text, ft_memory_classes[0].name);
        if (seen >> c & 1)
            return parser_fault(p, err, "'%s' stands twice", ft_memory_classes[c].name);
        seen |= 1U << c;
        FT_TRY(read_number(p, ft_memory_classes[c].name, 0, INT64_MAX, &bytes[c], err));
    }
    return FT_OK;
}
