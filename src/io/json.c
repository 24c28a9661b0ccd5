/* io/json.c - JSON through jansson, with our errors.
 *
 * A value takes up to 300 bytes of memory and two of text, so values are counted first.
 * jansson refuses what we want refused: nesting past 2048 levels, text that is not UTF-8, a NUL
 * within a string (it would cut the string for every C reader), numbers that do not fit. */
#include "io/io.h"

#include <string.h>

#include "base/alloc.h"
#include "io/internal.h"

/* jansson takes a NUL byte for the end of the text and does not look behind it. */
static ft_status refuse_nul(const char *text, int64_t size, const char *name, ft_error *err)
{
    const char *nul = memchr(text, 0, (size_t)size);
    if (!nul) return FT_OK;
    int line = 1;
    const char *start = text;
    for (const char *p = text; p < nul; p++)
        if (*p == '\n') {
            line++;
            start = p + 1;
        }
    return ft_fail(err, FT_FORMAT, "%s:%d:%lld: NUL byte", name, line,
                   (long long)(nul - start) + 1);
}

/* Counts what begins a value or follows one, outside strings. */
static int64_t count_values(const char *text, int64_t size)
{
    int64_t n = 0;
    bool quoted = false;
    for (int64_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted)
            n += c == ',' || c == '{' || c == '[';
    }
    return n;
}

/* What is wrong, in words that do not need jansson's manual. */
static const char *reason(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_null_character: return "a string has a NUL character (\\u0000) in it";
    case json_error_null_byte_in_key: return "a key has a NUL character (\\u0000) in it";
    default: return error->text;
    }
}

ft_status ft_json_parse(json_t **out, const char *text, int64_t size, const char *name,
                        ft_error *err)
{
    json_error_t error;
    *out = NULL;
    if (size == 0) text = ""; /* may be NULL */
    FT_TRY(refuse_nul(text, size, name, err));
    int64_t n_values = count_values(text, size);
    if (n_values > FT_MAX_JSON_VALUES)
        return ft_fail(err, FT_FORMAT, "%s: holds %lld JSON values, over the limit of %d", name,
                       (long long)n_values, FT_MAX_JSON_VALUES);
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    *out = json_loadb(text, (size_t)size, flags, &error);
    if (*out) return FT_OK;
    bool no_memory = json_error_code(&error) == json_error_out_of_memory;
    ft_shown what = ft_show(reason(&error));
    return ft_fail(err, no_memory ? FT_NOMEM : FT_FORMAT, "%s:%d:%d: %s", name, error.line,
                   error.column, what.text);
}

ft_status ft_json_read(json_t **out, const char *path, ft_error *err)
{
    *out = NULL;
    char *text = NULL;
    int64_t size = 0;
    FT_TRY(ft_file_read(path, &text, &size, err));
    ft_status status = ft_json_parse(out, text, size, path, err);
    ft_free(text);
    return status;
}
