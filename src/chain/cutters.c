/* chain/cutters.c - what cuts text: Metaspace, WhitespaceSplit, Whitespace, Punctuation, Digits,
 * Split. */
#include <string.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "chain/internal.h"
#include "io/io.h"

bool ft_cuts_add(ft_cuts *cuts, ft_cut cut)
{
    if (cuts->n >= cuts->capacity) {
        int64_t capacity = 2 * cuts->n + 16;
        ft_cut *data = ft_realloc(cuts->data, capacity * (int64_t)sizeof *data);
        if (!data) return false;
        cuts->data = data;
        cuts->capacity = capacity;
    }
    cuts->data[cuts->n++] = cut;
    return true;
}

static ft_status no_memory(const ft_work *work)
{
    return ft_fail(work->err, FT_NOMEM, "tokenizer: no memory to cut text");
}

bool ft_char_is_blank(int32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    utf8proc_category_t category = utf8proc_category(c);
    return c == 0x85 || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

bool ft_char_is_word(int32_t c)
{
    static const int32_t enclosed[][2] = {
        {0x200C, 0x200D},   {0x24B6, 0x24E9},   {0x1F130, 0x1F149},
        {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
    };
    utf8proc_category_t category = utf8proc_category(c);
    if (category == UTF8PROC_CATEGORY_NO) return false;
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_PC) return true;
    for (size_t i = 0; i < sizeof enclosed / sizeof *enclosed; i++)
        if (c >= enclosed[i][0] && c <= enclosed[i][1]) return true;
    return false;
}

static bool is_punctuation(int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    bool sign = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
                (c >= 123 && c <= 126);
    return sign || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

static bool is_number(int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

/* -- by class --------------------------------------------------------------------------------- */

static bool (*const classes[])(int32_t c) = {ft_char_is_blank, is_punctuation, is_number};
enum { BLANK, PUNCTUATION, NUMBER };

/* Each character of the class is one find, what lies between two is no find. */
static ft_status find_class(ft_work *work, const ft_step *step, ft_stretch text, ft_cuts *out)
{
    int64_t from = 0, n;
    for (int64_t at = 0; at < text.size; at += n) {
        utf8proc_int32_t c;
        n = utf8proc_iterate((const utf8proc_uint8_t *)text.bytes + at, text.size - at, &c);
        if (!classes[step->form](c)) continue;
        if ((from < at && !ft_cuts_add(out, (ft_cut){from, at, false})) ||
            !ft_cuts_add(out, (ft_cut){at, at + n, true}))
            return no_memory(work);
        from = at + n;
    }
    bool fits = from == text.size || ft_cuts_add(out, (ft_cut){from, text.size, false});
    return fits ? FT_OK : no_memory(work);
}

/* Runs of word characters and runs of what is neither word nor blank; blanks are finds. */
static ft_status find_runs(ft_work *work, const ft_step *step, ft_stretch text, ft_cuts *out)
{
    (void)step;
    int64_t from = 0, n;
    int before = -1;
    for (int64_t at = 0; at <= text.size; at += n) {
        utf8proc_int32_t c = 0;
        n = 1;
        if (at < text.size)
            n = utf8proc_iterate((const utf8proc_uint8_t *)text.bytes + at, text.size - at, &c);
        int class = at == text.size ? -1 : ft_char_is_word(c) ? 1 : ft_char_is_blank(c) ? 0 : 2;
        if (class == before) continue;
        if (from < at && !ft_cuts_add(out, (ft_cut){from, at, before == 0})) return no_memory(work);
        from = at;
        before = class;
    }
    return FT_OK;
}

static ft_status find_pattern(ft_work *work, const ft_step *step, ft_stretch text, ft_cuts *out)
{
    ft_cut match = {.found = true};
    for (int64_t at = 0; at < text.size; at = match.to) {
        FT_TRY(ft_pattern_next(work, step, text, at, &match));
        bool inverted = step->first;
        if ((at < match.from && !ft_cuts_add(out, (ft_cut){at, match.from, inverted})) ||
            (match.found && !ft_cuts_add(out, (ft_cut){match.from, match.to, !inverted})))
            return no_memory(work);
    }
    return FT_OK;
}

/* -- reading ---------------------------------------------------------------------------------- */

/* A cutter without settings drops the blanks that it finds. */
static ft_status read_blanks(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    (void)r, (void)part, (void)err;
    step->form = BLANK;
    step->joins = FT_CUT_REMOVED;
    return FT_OK;
}

static ft_status read_behavior(const ft_reading *r, ft_step *step, const json_t *part,
                               ft_error *err)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *behavior = ft_part_text(part, "behavior");
    step->joins = *behavior ? -1 : FT_CUT_ISOLATED;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(names[i], behavior) == 0) step->joins = i;
    if (step->joins >= 0) return FT_OK;
    return ft_part_fail(r, part, FT_UNSUPPORTED, "has a behavior that is not supported", err);
}

static ft_status read_punctuation(const ft_reading *r, ft_step *step, const json_t *part,
                                  ft_error *err)
{
    step->form = PUNCTUATION;
    return read_behavior(r, step, part, err);
}

static ft_status read_digits(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    (void)r, (void)err;
    bool each = ft_part_flag(part, "individual_digits", false);
    step->form = NUMBER;
    step->joins = each ? FT_CUT_ISOLATED : FT_CUT_CONTIGUOUS;
    return FT_OK;
}

static ft_status read_split(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    step->first = ft_part_flag(part, "invert", false);
    FT_TRY(read_behavior(r, step, part, err));
    return ft_part_pattern(r, step, part, err);
}

/* -- Metaspace -------------------------------------------------------------------------------- */

enum { ALWAYS, NEVER, FIRST };

static ft_status read_metaspace(const ft_reading *r, ft_step *step, const json_t *part,
                                ft_error *err)
{
    static const char *const schemes[] = {"always", "never", "first"};
    const char *mark = ft_part_text(part, "replacement");
    const char *scheme = ft_part_text(part, "prepend_scheme");
    bool prefix = ft_part_flag(part, "add_prefix_space", true);
    if (!*mark || ft_char_size(mark) != (int64_t)strlen(mark))
        return ft_part_fail(r, part, FT_FORMAT, "has a replacement that is not one character", err);
    step->form = *scheme ? -1 : ALWAYS;
    for (int i = 0; i < 3; i++)
        if (strcmp(schemes[i], scheme) == 0) step->form = i;
    if (step->form < 0)
        return ft_part_fail(r, part, FT_UNSUPPORTED, "has a prepend_scheme that is not supported",
                            err);
    if (!prefix) step->form = NEVER;
    step->first = ft_part_flag(part, "split", true);
    step->joins = FT_CUT_NEXT;
    return ft_bytes_add(&step->text, mark, (int64_t)strlen(mark))
               ? FT_OK
               : ft_bytes_no_memory(&step->text, err);
}

/* A mark for each space, and one in front where the scheme wants it. */
static ft_status mark_spaces(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out)
{
    const ft_bytes *mark = &step->text;
    bool marked = text.bytes[0] == ' ' ||
                  (text.size >= mark->n && memcmp(text.bytes, mark->data, (size_t)mark->n) == 0);
    bool wanted = step->form == ALWAYS || (step->form == FIRST && text.head > 0);
    bool fits = marked || !wanted || ft_bytes_add(&out->bytes, mark->data, mark->n);
    for (int64_t at = 0, to; fits && at < text.size; at = to + 1) {
        const char *space = memchr(text.bytes + at, ' ', (size_t)(text.size - at));
        to = space ? space - text.bytes : text.size;
        fits = ft_bytes_add(&out->bytes, text.bytes + at, to - at) &&
               (!space || ft_bytes_add(&out->bytes, mark->data, mark->n));
    }
    if (!fits) return no_memory(work);
    out->head = text.head > 0 && wanted && !marked ? text.head + mark->n : text.head;
    for (int64_t i = 0; i < text.head; i++) out->head += text.bytes[i] == ' ' ? mark->n - 1 : 0;
    return FT_OK;
}

static ft_status find_marks(ft_work *work, const ft_step *step, ft_stretch text, ft_cuts *out)
{
    const ft_bytes *mark = &step->text;
    for (int64_t at = 0, to; at < text.size; at = to) {
        const char *next = step->first ? memmem(text.bytes + at, (size_t)(text.size - at),
                                                mark->data, (size_t)mark->n)
                                       : NULL;
        int64_t from = next ? next - text.bytes : text.size;
        to = next ? from + mark->n : text.size;
        if ((at < from && !ft_cuts_add(out, (ft_cut){at, from, false})) ||
            (next && !ft_cuts_add(out, (ft_cut){from, to, true})))
            return no_memory(work);
    }
    return FT_OK;
}

/* -- all of them ------------------------------------------------------------------------------ */

const ft_step_row ft_cutter_rows[] = {
    {.type = "Metaspace", .read = read_metaspace, .normalize = mark_spaces, .find = find_marks},
    {.type = "WhitespaceSplit", .read = read_blanks, .find = find_class},
    {.type = "Whitespace", .read = read_blanks, .find = find_runs},
    {.type = "Punctuation", .read = read_punctuation, .find = find_class},
    {.type = "Digits", .read = read_digits, .find = find_class},
    {.type = "Split", .read = read_split, .find = find_pattern},
    {0},
};
