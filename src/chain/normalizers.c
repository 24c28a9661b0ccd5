/* chain/normalizers.c - what changes text: Precompiled, Replace, Strip, normal forms, case. */
#include <string.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "chain/internal.h"
#include "io/io.h"

static ft_status no_memory(const ft_draft *out, const ft_work *work)
{
    return ft_bytes_no_memory(&out->bytes, work->err);
}

static bool put(ft_draft *out, const char *bytes, int64_t n, bool of_head)
{
    if (!ft_bytes_add(&out->bytes, bytes, n)) return false;
    if (of_head) out->head = out->bytes.n;
    return true;
}

static bool put_char(ft_draft *out, int32_t c, bool of_head)
{
    char bytes[4];
    return put(out, bytes, utf8proc_encode_char(c, (utf8proc_uint8_t *)bytes), of_head);
}

/* The code point at text[at], and its bytes. */
static int32_t char_at(ft_stretch text, int64_t at, int64_t *n)
{
    utf8proc_int32_t c = 0;
    *n = utf8proc_iterate((const utf8proc_uint8_t *)text.bytes + at, text.size - at, &c);
    return c;
}

static ft_status read_nothing(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    (void)r, (void)part, (void)err;
    step->form = step->row->form;
    return FT_OK;
}

/* -- character by character ------------------------------------------------------------------- */

enum { GONE = -1, I_WITH_DOT = 0x130, DOT_ABOVE = 0x307 };

/* What the normalizer of neural machine translation makes of a character. */
static int32_t nmt_char(int32_t c)
{
    bool control = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                   c == 0x8F || c == 0x9F;
    bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                 (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                 c == 0xFEFF || c == 0xFFFD;
    return control ? GONE : blank ? ' ' : c;
}

static int32_t plain_char(int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    bool mark = category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
    return mark ? GONE : c;
}

static int32_t small_char(int32_t c)
{
    return utf8proc_tolower(c);
}

static int32_t (*const char_maps[])(int32_t c) = {nmt_char, plain_char, small_char};
enum { NMT, PLAIN, SMALL };

static ft_status run_map(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out)
{
    int64_t n;
    for (int64_t at = 0; at < text.size; at += n) {
        int32_t c = char_at(text, at, &n), to = char_maps[step->form](c);
        bool of_head = at < text.head, dotted = step->form == SMALL && c == I_WITH_DOT;
        if (to == GONE) continue;
        bool fits = dotted    ? put_char(out, 'i', of_head) && put_char(out, DOT_ABOVE, of_head)
                    : to == c ? put(out, text.bytes + at, n, of_head)
                              : put_char(out, to, of_head);
        if (!fits) return no_memory(out, work);
    }
    return FT_OK;
}

/* -- normal forms ----------------------------------------------------------------------------- */

static ft_status run_form(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out)
{
    utf8proc_option_t options = UTF8PROC_STABLE | (utf8proc_option_t)step->form;
    int64_t i = 0, n;
    while (i < text.size && (unsigned char)text.bytes[i] < 0x80) i++;
    if (i == text.size) {
        out->head = text.head;
        return ft_bytes_add(&out->bytes, text.bytes, text.size) ? FT_OK : no_memory(out, work);
    }
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text.bytes;
    n = utf8proc_decompose(bytes, text.size, NULL, 0, options);
    int32_t *points = n < 0 ? NULL : ft_alloc(n * (int64_t)sizeof *points);
    bool fits = points;
    if (points) utf8proc_decompose(bytes, text.size, points, n, options);
    if (points) n = utf8proc_normalize_utf32(points, n, options);
    for (i = 0; fits && i < n; i++) fits = put_char(out, points[i], i == 0 && text.head > 0);
    bool kept = fits && out->bytes.n >= text.head &&
                memcmp(out->bytes.data, text.bytes, (size_t)text.head) == 0;
    if (kept) out->head = text.head;
    ft_free(points);
    return fits ? FT_OK : no_memory(out, work);
}

/* -- Strip, Prepend --------------------------------------------------------------------------- */

static ft_status read_strip(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    (void)r, (void)err;
    step->first = ft_part_flag(part, "strip_left", true);
    step->second = ft_part_flag(part, "strip_right", true);
    return FT_OK;
}

static ft_status run_strip(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out)
{
    int64_t from = 0, to = text.size, n;
    while (step->first && from < to && ft_char_is_blank(char_at(text, from, &n))) from += n;
    while (step->second && to > from) {
        int64_t last = to - 1;
        while (last > from && ((unsigned char)text.bytes[last] & 0xC0) == 0x80) last--;
        if (!ft_char_is_blank(char_at(text, last, &n))) break;
        to = last;
    }
    ft_stretch rest = ft_stretch_part(text, from, to);
    out->head = rest.head;
    return ft_bytes_add(&out->bytes, rest.bytes, rest.size) ? FT_OK : no_memory(out, work);
}

static ft_status read_prepend(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    const json_t *text = json_object_get(part, "prepend");
    if (!json_is_string(text)) return ft_part_fail(r, part, FT_FORMAT, "has no 'prepend'", err);
    bool fits =
        ft_bytes_add(&step->text, json_string_value(text), (int64_t)json_string_length(text));
    return fits ? FT_OK : ft_bytes_no_memory(&step->text, err);
}

static ft_status run_prepend(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out)
{
    if (text.size > 0 && !put(out, step->text.data, step->text.n, text.head > 0))
        return no_memory(out, work);
    out->head += text.head;
    return ft_bytes_add(&out->bytes, text.bytes, text.size) ? FT_OK : no_memory(out, work);
}

/* -- Replace ---------------------------------------------------------------------------------- */

static ft_status read_replace(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    const json_t *content = json_object_get(part, "content");
    if (!json_is_string(content)) return ft_part_fail(r, part, FT_FORMAT, "has no 'content'", err);
    if (!ft_bytes_add(&step->text, json_string_value(content),
                      (int64_t)json_string_length(content)))
        return ft_bytes_no_memory(&step->text, err);
    return ft_part_pattern(r, step, part, err);
}

/* What takes the place of a match is where its last character was. */
static ft_status run_replace(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out)
{
    ft_cut match = {.found = true};
    for (int64_t at = 0; at < text.size && match.found; at = match.to) {
        FT_TRY(ft_pattern_next(work, step, text, at, &match));
        ft_stretch before = ft_stretch_part(text, at, match.from);
        if (!ft_bytes_add(&out->bytes, before.bytes, before.size)) return no_memory(out, work);
        if (before.head > 0) out->head = out->bytes.n - before.size + before.head;
        bool of_head = match.to <= text.head;
        if (match.found && step->text.n > 0 && !put(out, step->text.data, step->text.n, of_head))
            return no_memory(out, work);
    }
    return FT_OK;
}

/* -- Precompiled ------------------------------------------------------------------------------ */

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static ft_status read_base64(ft_bytes *out, const char *text, const char *name, ft_error *err)
{
    uint32_t bits = 0;
    int n_bits = 0;
    for (const char *p = text; *p && *p != '='; p++) {
        int value = base64_value(*p);
        if (value < 0)
            return ft_fail(err, FT_FORMAT, "%s: precompiled_charsmap is not base64 at byte %lld",
                           name, (long long)(p - text));
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        char byte = (char)(bits >> n_bits);
        if (!ft_bytes_add(out, &byte, 1)) return ft_bytes_no_memory(out, err);
    }
    return FT_OK;
}

static ft_status read_precompiled(const ft_reading *r, ft_step *step, const json_t *part,
                                  ft_error *err)
{
    ft_bytes bytes = {0};
    ft_status status =
        read_base64(&bytes, ft_part_text(part, "precompiled_charsmap"), r->name, err);
    if (status == FT_OK && bytes.n > 0) {
        status = ft_charmap_new(&step->map, bytes.data, bytes.n, err);
        if (status != FT_OK && err) ft_error_wrap(err, "%s", r->name);
    }
    ft_free(bytes.data);
    return status;
}

/* Where the character as readers see it (extended grapheme cluster) that begins at text[at] ends.
 */
static int64_t cluster_end(ft_stretch text, int64_t at)
{
    const unsigned char *bytes = (const unsigned char *)text.bytes;
    int64_t n, next = at + 1;
    bool ascii = bytes[at] < 0x80 && (next == text.size || bytes[next] < 0x80);
    if (ascii && !(bytes[at] == '\r' && next < text.size && bytes[next] == '\n')) return next;
    utf8proc_int32_t state = 0, c = char_at(text, at, &n);
    for (at += n; at < text.size; at += n) {
        int32_t other = char_at(text, at, &n);
        if (utf8proc_grapheme_break_stateful(c, other, &state)) break;
        c = other;
    }
    return at;
}

static int64_t count_chars(const char *text, int64_t size)
{
    int64_t n = 0;
    for (int64_t i = 0; i < size; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* Old text that new characters take the place of, one by one. */
typedef struct cursor {
    ft_stretch old;
    int64_t at;
    int64_t
        further; /* bytes of the last new character, if it is one that no old one stands behind */
} cursor;

static void skip_chars(cursor *c, int64_t n)
{
    for (; n > 0 && c->at < c->old.size; n--) c->at += ft_char_size(c->old.bytes + c->at);
}

/* `to` in place of n_old characters: further ones belong to the last of them. Characters that
 * nothing stands for at the beginning stay where they are, as the library has it. */
static bool put_instead(cursor *c, ft_draft *out, int64_t n_old, const char *to, int64_t size)
{
    int64_t last = c->at, i = 0;
    for (int64_t at = 0, n; at < size; at += n, i++) {
        n = ft_char_size(to + at);
        if (i < n_old) last = c->at;
        c->further = i < n_old ? 0 : n;
        if (!put(out, to + at, n, last < c->old.head)) return false;
        if (i < n_old) skip_chars(c, 1);
    }
    if (i >= n_old || out->bytes.n == 0) return true;
    /* a further one takes the place of what goes */
    if (c->at >= c->old.head && out->head == out->bytes.n) out->head -= c->further;
    c->further = 0;
    skip_chars(c, n_old - i);
    return true;
}

enum { LONGEST_CLUSTER = 5 }; /* bytes; longer ones are looked at character by character */

/* A cluster is replaced as a whole by what its first few bytes, if they are a key, stand for. */
static bool put_cluster(cursor *c, const ft_charmap *map, const char *text, int64_t size,
                        ft_draft *out)
{
    const char *to = size <= LONGEST_CLUSTER ? ft_charmap_shortest(map, text, size) : NULL;
    if (to) return put_instead(c, out, count_chars(text, size), to, (int64_t)strlen(to));
    for (int64_t at = 0, n; at < size; at += n) {
        n = ft_char_size(text + at);
        to = ft_charmap_shortest(map, text + at, n);
        bool fits = to ? put_instead(c, out, 1, to, (int64_t)strlen(to))
                       : put_instead(c, out, 1, text + at, n);
        if (!fits) return false;
    }
    return true;
}

static ft_status run_precompiled(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out)
{
    cursor c = {.old = text};
    for (int64_t at = 0, end; at < text.size; at = end) {
        end = step->map ? cluster_end(text, at) : text.size;
        if (!step->map) out->head = text.head;
        bool fits = step->map ? put_cluster(&c, step->map, text.bytes + at, end - at, out)
                              : ft_bytes_add(&out->bytes, text.bytes, text.size);
        if (!fits) return no_memory(out, work);
    }
    return FT_OK;
}

/* -- all of them ------------------------------------------------------------------------------ */

const ft_step_row ft_normalizer_rows[] = {
    {.type = "Precompiled", .read = read_precompiled, .normalize = run_precompiled},
    {.type = "Replace", .read = read_replace, .normalize = run_replace},
    {.type = "Strip", .read = read_strip, .normalize = run_strip},
    {.type = "Prepend", .read = read_prepend, .normalize = run_prepend},
    {.type = "Lowercase", .read = read_nothing, .normalize = run_map, .form = SMALL},
    {.type = "StripAccents", .read = read_nothing, .normalize = run_map, .form = PLAIN},
    {.type = "Nmt", .read = read_nothing, .normalize = run_map, .form = NMT},
    {.type = "NFC", .read = read_nothing, .normalize = run_form, .form = UTF8PROC_COMPOSE},
    {.type = "NFD", .read = read_nothing, .normalize = run_form, .form = UTF8PROC_DECOMPOSE},
    {.type = "NFKC",
     .read = read_nothing,
     .normalize = run_form,
     .form = UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {.type = "NFKD",
     .read = read_nothing,
     .normalize = run_form,
     .form = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
    {0},
};
