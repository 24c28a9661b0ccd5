/* base/text.c - a growing string, and sizes as people read them. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static bool reserve(ft_text *text, int64_t more)
{
    int64_t need = text->length + more + 1;
    if (need <= text->capacity) return true;
    int64_t capacity = text->capacity ? text->capacity * 2 : 256;
    if (capacity < need) capacity = need;
    char *data = ft_realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void ft_text_add(ft_text *text, const char *format, ...)
{
    if (text->failed) return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve(text, n)) {
        vsnprintf(text->data + text->length, (size_t)n + 1, format, again);
        text->length += n;
    }
    va_end(again);
    va_end(args);
}

void ft_text_fini(ft_text *text)
{
    ft_free(text->data);
    memset(text, 0, sizeof *text);
}

ft_size_text ft_text_of_bytes(int64_t bytes)
{
    static const struct {
        double least;
        const char *name;
    } units[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
    const double n = (double)bytes;
    ft_size_text size;
    snprintf(size.text, sizeof size.text, "%lld B", (long long)bytes);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (n < units[i].least) continue;
        snprintf(size.text, sizeof size.text, "%.1f %s", n / units[i].least, units[i].name);
        break;
    }
    return size;
}
