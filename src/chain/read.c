/* chain/read.c - the steps of a chain out of JSON, and their patterns.
 *
 * A regular expression is executed where PCRE2 and the library's own (Oniguruma) are sure to mean
 * the same by it: characters, groups, classes, alternatives, repetition and \s. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "chain/internal.h"
#include "io/io.h"

const char *ft_part_text(const json_t *part, const char *key)
{
    const char *text = json_string_value(json_object_get(part, key));
    return text ? text : "";
}

bool ft_part_flag(const json_t *part, const char *key, bool preset)
{
    const json_t *value = json_object_get(part, key);
    return json_is_boolean(value) ? json_is_true(value) : preset;
}

ft_status ft_part_fail(const ft_reading *r, const json_t *part, ft_status status, const char *what,
                       ft_error *err)
{
    return ft_fail(err, status, "%s: part '%.64s' %s", r->name, ft_part_text(part, "type"), what);
}

/* -- patterns --------------------------------------------------------------------------------- */

/* What a backslash and this character mean; NULL: not sure to be the same. */
static const char *escaped(char c, bool in_class)
{
    static const char *const rows[][3] = {
        {"s", "[" FT_CHAR_BLANKS "]", FT_CHAR_BLANKS},
        {"n", "\\n", "\\n"},
        {"t", "\\t", "\\t"},
        {"r", "\\r", "\\r"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i][0][0] == c) return rows[i][in_class ? 2 : 1];
    return NULL;
}

/* Appends one item of an expression; returns its bytes, 0 when it is none that is executed. */
static int64_t put_item(ft_bytes *out, const char *regex, bool *in_class, bool *fits)
{
    static const char signs[] = "\\.^$|?*+()[]{}-/\"'&,:;<=>!#%@_~`";
    char c = regex[0], next = regex[1];
    bool opens = c == '[' && !*in_class, closes = c == ']' && *in_class;
    if (c == '\\') {
        const char *as = escaped(next, *in_class);
        if (!as && !(next && strchr(signs, next))) return 0;
        *fits = as ? ft_bytes_add(out, as, (int64_t)strlen(as)) : ft_bytes_add(out, regex, 2);
        return 2;
    }
    bool never = *in_class ? c == '[' || c == '&' : c == '.' || c == '^' || c == '$';
    bool odd = !*in_class && ((c == '(' && next == '?' && regex[2] != ':') ||
                              (c == '{' && !(next >= '0' && next <= '9')) ||
                              (c == '}' && next && strchr("+?*{", next)));
    if (never || odd) return 0;
    *in_class = opens || (*in_class && !closes);
    int64_t n = opens && next == '^' ? 2 : c == '(' && next == '?' ? 3 : 1;
    if (opens && (regex[n] == ']' || !regex[n])) return 0;
    *fits = ft_bytes_add(out, regex, n);
    return n;
}

static ft_status translate(const ft_reading *r, ft_bytes *out, const json_t *part,
                           const char *regex, ft_error *err)
{
    bool in_class = false, fits = true;
    for (int64_t n; fits && *regex; regex += n) {
        n = put_item(out, regex, &in_class, &fits);
        if (n == 0)
            return ft_fail(err, FT_UNSUPPORTED,
                           "%s: part '%.64s': the regular expression is not supported from '%.64s' "
                           "on",
                           r->name, ft_part_text(part, "type"), regex);
    }
    return fits ? FT_OK : ft_bytes_no_memory(out, err);
}

static ft_status compile(const ft_reading *r, ft_step *step, const json_t *part, const char *text,
                         int64_t size, uint32_t options, ft_error *err)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(r->chain->memory);
    if (!context) return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    step->pattern =
        pcre2_compile((PCRE2_SPTR)text, (PCRE2_SIZE)size, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    r->chain->has_patterns = true;
    if (step->pattern) return FT_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED) return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    return ft_part_fail(r, part, FT_FORMAT, "has a malformed regular expression", err);
}

/* Refuses what matches where nothing is. */
static ft_status check_matches(const ft_reading *r, ft_step *step, const json_t *part,
                               ft_error *err)
{
    pcre2_match_data *match = pcre2_match_data_create(1, r->chain->memory);
    if (!match) return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    int rc = pcre2_match(step->pattern, (PCRE2_SPTR) "", 0, 0, 0, match, NULL);
    pcre2_match_data_free(match);
    if (rc == PCRE2_ERROR_NOMATCH) return FT_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    return ft_part_fail(r, part, FT_UNSUPPORTED, "has a pattern that matches an empty text", err);
}

ft_status ft_part_pattern(const ft_reading *r, ft_step *step, const json_t *part, ft_error *err)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *literal = json_object_get(pattern, "String");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    ft_bytes text = {0};
    ft_status status = FT_OK;
    if (json_is_string(literal))
        FT_GO(compile(r, step, part, json_string_value(literal),
                      (int64_t)json_string_length(literal), PCRE2_UTF | PCRE2_LITERAL, err));
    else if (regex) {
        FT_GO(translate(r, &text, part, regex, err));
        FT_GO(compile(r, step, part, text.n > 0 ? text.data : "", text.n, PCRE2_UTF, err));
    } else
        FT_GO(
            ft_part_fail(r, part, FT_FORMAT, "has no pattern, expected a String or a Regex", err));
    status = check_matches(r, step, part, err);
done:
    ft_free(text.data);
    return status;
}

ft_status ft_pattern_next(ft_work *work, const ft_step *step, ft_stretch text, int64_t at,
                          ft_cut *out)
{
    *out = (ft_cut){text.size, text.size, false};
    int rc = pcre2_match(step->pattern, (PCRE2_SPTR)text.bytes, (PCRE2_SIZE)text.size,
                         (PCRE2_SIZE)at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, work->match, NULL);
    if (rc == PCRE2_ERROR_NOMATCH) return FT_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return ft_fail(work->err, FT_NOMEM, "tokenizer: no memory to cut text");
    if (rc < 0)
        return ft_fail(work->err, FT_UNSUPPORTED,
                       "text at byte %lld cannot be cut (PCRE2 error %d)", (long long)at, rc);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(work->match);
    *out = (ft_cut){(int64_t)span[0], (int64_t)span[1], true};
    return FT_OK;
}

/* -- steps ------------------------------------------------------------------------------------ */

/* One of the two halves of a chain. */
typedef struct half {
    const char *what;  /* in messages */
    const char *parts; /* what a Sequence calls its parts */
    const ft_step_row *rows;
    ft_step *steps;
    int *n;
} half;

static ft_status add_step(const ft_reading *r, const half *to, const json_t *part, ft_error *err)
{
    const char *type = ft_part_text(part, "type");
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(part, to->parts);
        for (size_t i = 0; i < json_array_size(list); i++)
            FT_TRY(add_step(r, to, json_array_get(list, i), err));
        return FT_OK;
    }
    const ft_step_row *row = to->rows;
    while (row->type && strcmp(row->type, type) != 0) row++;
    if (!row->type)
        return ft_fail(err, FT_UNSUPPORTED,
                       "%s: %s '%.64s' of a Unigram tokenizer is not supported", r->name, to->what,
                       type);
    if (*to->n == FT_CHAIN_STEPS)
        return ft_fail(err, FT_UNSUPPORTED, "%s: more than %d steps of the %s are not supported",
                       r->name, FT_CHAIN_STEPS, to->what);
    ft_step *step = &to->steps[(*to->n)++];
    step->row = row;
    return row->read(r, step, part, err);
}

ft_status ft_chain_new(ft_chain **out, const json_t *normalizer, const json_t *cutter,
                       const char *name, ft_error *err)
{
    *out = NULL;
    ft_chain *chain = ft_alloc(sizeof *chain);
    if (chain) chain->memory = pcre2_general_context_create(ft_alloc_for, ft_free_for, NULL);
    if (!chain || !chain->memory) {
        ft_chain_free(chain);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    }
    ft_reading r = {.name = name, .chain = chain};
    half first = {"normalizer", "normalizers", ft_normalizer_rows, chain->normalizers,
                  &chain->n_normalizers};
    half second = {"pre_tokenizer", "pretokenizers", ft_cutter_rows, chain->cutters,
                   &chain->n_cutters};
    ft_status status = FT_OK;
    if (normalizer && !json_is_null(normalizer)) status = add_step(&r, &first, normalizer, err);
    if (status == FT_OK && cutter && !json_is_null(cutter))
        status = add_step(&r, &second, cutter, err);
    if (status == FT_OK)
        *out = chain;
    else
        ft_chain_free(chain);
    return status;
}
