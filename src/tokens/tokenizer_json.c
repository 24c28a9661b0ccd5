/* tokens/tokenizer_json.c - tokenizers out of JSON: vocab.json with merges.txt, and tokenizer.json.
 *
 * tokenizer.json describes a chain of parts. What the three kinds do is one such chain each; a part
 * that would do something else is refused by its name, so that no text is cut differently from
 * what its model learned. Truncation and padding, which are no business of a tokenizer here, and
 * post-processors, whose effect is fixed by kind, are passed over. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tokens/internal.h"
#include "io/io.h"

/* What is being read, and what came of it so far. */
typedef struct reader {
    const char *name;
    const json_t *root, *model;
    ft_json_settings settings; /* of tokenizer.json */
    ft_vocabulary vocabulary;
    ft_merges merges;
    ft_specials specials;
} reader;

static void reader_fini(reader *r)
{
    ft_vocabulary_fini(&r->vocabulary);
    ft_merges_fini(&r->merges);
    ft_specials_fini(&r->specials);
}

/* -- reading JSON ----------------------------------------------------------------------------- */

/* Puts "name: where" in front of the error of a failed call. */
static ft_status at(const reader *r, const char *where, ft_status status, ft_error *err)
{
    if (status == FT_OK || !err) return status;
    return ft_error_wrap(err, "%s: %s", r->name, where);
}

static ft_status unsupported(const reader *r, const char *what, const char *value, ft_error *err)
{
    return ft_fail(err, FT_UNSUPPORTED, "%s: %s '%.64s' is not supported", r->name, what, value);
}

/* The `type` of a part; "null" when it is null or absent, "?" when it has none. */
static const char *type_of(const json_t *part)
{
    if (!part || json_is_null(part)) return "null";
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "?";
}

/* A flag of a part, `preset` when it is null or absent. */
static bool flag_of(const json_t *part, const char *key, bool preset)
{
    const json_t *value = json_object_get(part, key);
    return json_is_boolean(value) ? json_is_true(value) : preset;
}

/* What settings say, else the flag of a part. */
static bool setting_of(int said, const json_t *part, const char *key, bool preset)
{
    return said < 0 ? flag_of(part, key, preset) : said != 0;
}

static ft_status read_id(const reader *r, const json_t *value, const char *piece, int32_t *id,
                         ft_error *err)
{
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || number > INT32_MAX)
        return ft_fail(err, FT_FORMAT, "%s: piece '%.64s' has no id, expected an integer from 0",
                       r->name, piece);
    *id = (int32_t)number;
    return FT_OK;
}

/* { piece: id }. Ids that are missing are looked for when the special tokens are known. */
static ft_status read_vocabulary(reader *r, const json_t *object, ft_error *err)
{
    const char *piece;
    json_t *value;
    int32_t id = FT_NO_ID;
    if (!json_is_object(object))
        return ft_fail(err, FT_FORMAT, "%s: the vocabulary is not an object of ids by piece",
                       r->name);
    int64_t n = (int64_t)json_object_size(object);
    json_object_foreach((json_t *)(uintptr_t)object, piece, value)
    {
        FT_TRY(read_id(r, value, piece, &id, err));
        if (id >= 2 * n + 1024) /* far past what could be filled; and no table of that size */
            return ft_fail(err, FT_FORMAT, "%s: piece '%.64s' has id %d of %lld pieces", r->name,
                           piece, (int)id, (long long)n);
        int64_t size = (int64_t)strlen(piece);
        FT_TRY(at(r, "vocabulary", ft_vocabulary_add(&r->vocabulary, piece, size, id, err), err));
    }
    return FT_OK;
}

/* -- merges ----------------------------------------------------------------------------------- */

/* Adds the pair of two pieces; `number` is its line, or its place in a list, from 1. */
static ft_status add_merge(reader *r, const char *name, ft_piece left, ft_piece right,
                           int64_t number, ft_error *err)
{
    ft_bytes whole = {0};
    if (!ft_bytes_add(&whole, left.text, left.size) ||
        !ft_bytes_add(&whole, right.text, right.size)) {
        ft_free(whole.data);
        return ft_bytes_no_memory(&whole, err);
    }
    int32_t ids[3] = {ft_vocabulary_find(&r->vocabulary, left.text, left.size),
                      ft_vocabulary_find(&r->vocabulary, right.text, right.size),
                      ft_vocabulary_find(&r->vocabulary, whole.data, whole.n)};
    ft_piece parts[3] = {left, right, {whole.data, (int32_t)whole.n}};
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < 3; i++)
        if (ids[i] == FT_NO_ID)
            status =
                ft_fail(err, FT_FORMAT, "%s:%lld: '%.*s' is not in the vocabulary", name,
                        (long long)number, parts[i].size < 64 ? parts[i].size : 64, parts[i].text);
    if (status == FT_OK && !ft_merges_add(&r->merges, ids[0], ids[1], ids[2]))
        status = ft_fail(err, FT_NOMEM, "tokenizer: no memory for merges");
    ft_free(whole.data);
    return status;
}

/* "left right". */
static ft_status add_merge_text(reader *r, const char *name, const char *text, int64_t size,
                                int64_t number, ft_error *err)
{
    const char *space = memchr(text, ' ', (size_t)size);
    int64_t n = space ? space - text : 0, rest = size - n - 1;
    if (n == 0 || rest <= 0 || memchr(space + 1, ' ', (size_t)rest))
        return ft_fail(err, FT_FORMAT, "%s:%lld: '%.*s' is not two pieces with a space between",
                       name, (long long)number, (int)(size < 64 ? size : 64), text);
    return add_merge(r, name, (ft_piece){text, (int32_t)n}, (ft_piece){space + 1, (int32_t)rest},
                     number, err);
}

/* merges.txt: a pair a line, in order of rank, maybe after a line "#version: 0.2". */
static ft_status read_merge_lines(reader *r, const char *text, int64_t size, const char *name,
                                  ft_error *err)
{
    static const char version[] = "#version";
    int64_t number = 1;
    for (int64_t from = 0; from < size; number++) {
        const char *newline = memchr(text + from, '\n', (size_t)(size - from));
        int64_t end = newline ? newline - text : size, next = end + 1;
        if (end > from && text[end - 1] == '\r') end--;
        bool skip = end == from || (number == 1 && end - from >= (int64_t)sizeof version - 1 &&
                                    memcmp(text, version, sizeof version - 1) == 0);
        if (!skip) FT_TRY(add_merge_text(r, name, text + from, end - from, number, err));
        from = next;
    }
    return FT_OK;
}

/* The merges of tokenizer.json: "left right", or ["left", "right"]. */
static ft_status read_merge_list(reader *r, const json_t *list, ft_error *err)
{
    char name[512];
    snprintf(name, sizeof name, "%s: model.merges", r->name);
    if (!json_is_array(list)) return ft_fail(err, FT_FORMAT, "%s is not a list", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const char *left = json_string_value(json_array_get(pair, 0));
        const char *right = json_string_value(json_array_get(pair, 1));
        int64_t number = (int64_t)i + 1;
        if (json_is_string(pair))
            FT_TRY(add_merge_text(r, name, json_string_value(pair),
                                  (int64_t)json_string_length(pair), number, err));
        else if (left && right && json_array_size(pair) == 2)
            FT_TRY(add_merge(r, name, (ft_piece){left, (int32_t)strlen(left)},
                             (ft_piece){right, (int32_t)strlen(right)}, number, err));
        else
            return ft_fail(err, FT_FORMAT, "%s:%zu: expected a string or a list of two", name,
                           i + 1);
    }
    return FT_OK;
}

ft_status ft_tokenizer_load_byte_bpe(ft_tokenizer **out, ft_slice vocab, ft_slice merges,
                                     bool prefix_space, const char *name, ft_error *err)
{
    reader r = {.name = name};
    json_t *root = NULL;
    void *model = NULL;
    char vocab_name[512], merges_name[512];
    ft_status status = FT_OK;
    *out = NULL;
    snprintf(vocab_name, sizeof vocab_name, "%s/vocab.json", name);
    snprintf(merges_name, sizeof merges_name, "%s/merges.txt", name);
    r.name = vocab_name;
    FT_GO(ft_json_parse(&root, vocab.bytes, vocab.size, vocab_name, err));
    FT_GO(read_vocabulary(&r, root, err));
    FT_GO(ft_vocabulary_check(&r.vocabulary, vocab_name, err));
    FT_GO(read_merge_lines(&r, merges.bytes, merges.size, merges_name, err));
    FT_GO(ft_specials_add_names(&r.specials, ft_kind_byte_bpe.specials, &r.vocabulary, err));
    FT_GO(ft_byte_bpe_new(&model, &r.vocabulary, &r.merges, prefix_space, err));
    status = ft_tokenizer_new(out, &ft_kind_byte_bpe, model, &r.specials, err);
done:
    json_decref(root);
    reader_fini(&r);
    return status;
}

/* -- tokenizer.json: special tokens ----------------------------------------------------------- */

static ft_status add_token(reader *r, const json_t *token, ft_error *err)
{
    static const struct {
        const char *key;
        int flag;
    } keys[] = {{"special", FT_SPECIAL_HIDDEN},
                {"lstrip", FT_SPECIAL_STRIP_LEFT},
                {"rstrip", FT_SPECIAL_STRIP_RIGHT},
                {"single_word", FT_SPECIAL_WORD},
                {"normalized", FT_SPECIAL_NORMALIZED}};
    const char *text = json_string_value(json_object_get(token, "content"));
    int32_t id = FT_NO_ID;
    int flags = 0;
    if (!text) return ft_fail(err, FT_FORMAT, "%s: an added token has no content", r->name);
    FT_TRY(read_id(r, json_object_get(token, "id"), text, &id, err));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (flag_of(token, keys[i].key, false)) flags |= keys[i].flag;
    ft_status status = ft_specials_add(&r->specials, text, (int64_t)strlen(text), id, flags, err);
    return at(r, "added token", status, err);
}

static ft_status read_added(reader *r, ft_error *err)
{
    const json_t *list = json_object_get(r->root, "added_tokens");
    for (size_t i = 0; i < json_array_size(list); i++)
        FT_TRY(add_token(r, json_array_get(list, i), err));
    return FT_OK;
}

/* -- tokenizer.json: WordPiece ---------------------------------------------------------------- */

static ft_status json_wordpiece(reader *r, void **model, ft_error *err)
{
    const json_t *normalizer = json_object_get(r->root, "normalizer");
    const json_t *cutter = json_object_get(r->root, "pre_tokenizer");
    const json_t *longest = json_object_get(r->model, "max_input_chars_per_word");
    if (strcmp(type_of(normalizer), "BertNormalizer") != 0)
        return unsupported(r, "normalizer", type_of(normalizer), err);
    if (!flag_of(normalizer, "clean_text", true))
        return unsupported(r, "BertNormalizer with clean_text", "false", err);
    if (strcmp(type_of(cutter), "BertPreTokenizer") != 0)
        return unsupported(r, "pre_tokenizer", type_of(cutter), err);
    const ft_json_settings *said = &r->settings;
    bool lower = setting_of(said->lower, normalizer, "lowercase", true);
    ft_wordpiece_options options = {
        .basic = {.lower = lower,
                  .strip_accents =
                      setting_of(said->strip_accents, normalizer, "strip_accents", lower),
                  .split_han =
                      setting_of(said->split_han, normalizer, "handle_chinese_chars", true)},
        .unknown = json_string_value(json_object_get(r->model, "unk_token")),
        .prefix = json_string_value(json_object_get(r->model, "continuing_subword_prefix")),
        .longest_word = json_is_integer(longest) ? (int64_t)json_integer_value(longest)
                                                 : FT_WORDPIECE_LONGEST_WORD,
    };
    if (!options.unknown) options.unknown = "[UNK]";
    if (!options.prefix) options.prefix = "##";
    FT_TRY(read_vocabulary(r, json_object_get(r->model, "vocab"), err));
    FT_TRY(ft_vocabulary_check(&r->vocabulary, r->name, err));
    FT_TRY(read_added(r, err));
    return ft_wordpiece_new(model, &r->vocabulary, &options, r->name, err);
}

/* -- tokenizer.json: byte-level BPE ----------------------------------------------------------- */

static ft_status json_byte_bpe(reader *r, void **model, ft_error *err)
{
    static const char *const never[] = {"dropout",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "fuse_unk",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix"};
    const json_t *normalizer = json_object_get(r->root, "normalizer");
    const json_t *cutter = json_object_get(r->root, "pre_tokenizer");
    if (strcmp(type_of(normalizer), "null") != 0)
        return unsupported(r, "normalizer of BPE", type_of(normalizer), err);
    if (strcmp(type_of(cutter), "ByteLevel") != 0)
        return unsupported(r, "pre_tokenizer of BPE", type_of(cutter), err);
    if (!flag_of(cutter, "use_regex", true))
        return unsupported(r, "ByteLevel with use_regex", "false", err);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        const json_t *value = json_object_get(r->model, never[i]);
        bool set = json_is_true(value) || json_string_length(value) > 0 ||
                   (json_is_number(value) && json_number_value(value) > 0);
        if (set) return unsupported(r, "BPE with", never[i], err);
    }
    FT_TRY(read_vocabulary(r, json_object_get(r->model, "vocab"), err));
    FT_TRY(read_merge_list(r, json_object_get(r->model, "merges"), err));
    FT_TRY(read_added(r, err));
    FT_TRY(ft_vocabulary_check(&r->vocabulary, r->name, err));
    bool prefix_space = setting_of(r->settings.prefix_space, cutter, "add_prefix_space", true);
    return ft_byte_bpe_new(model, &r->vocabulary, &r->merges, prefix_space, err);
}

/* -- tokenizer.json: unigram ------------------------------------------------------------------ */

static ft_status json_unigram(reader *r, void **model, ft_error *err)
{
    FT_TRY(read_added(r, err));
    return ft_unigram_json_new(model, r->root, r->name, err);
}

/* -- tokenizer.json --------------------------------------------------------------------------- */

typedef struct model_row {
    const char *type;
    const ft_tokenizer_kind_row *kind;
    ft_status (*read)(reader *r, void **model, ft_error *err);
} model_row;

static const model_row models[] = {
    {"WordPiece", &ft_kind_wordpiece, json_wordpiece},
    {"BPE", &ft_kind_byte_bpe, json_byte_bpe},
    {"Unigram", &ft_kind_unigram_json, json_unigram},
};

/* The row of the model; older files have no type, and are told by what they hold. */
static const model_row *find_model(const json_t *model)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type)
        type = json_object_get(model, "merges")   ? "BPE"
               : json_object_get(model, "unk_id") ? "Unigram"
                                                  : "WordPiece";
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].type, type) == 0) return &models[i];
    return NULL;
}

static ft_status load_root(ft_tokenizer **out, reader *r, ft_error *err)
{
    void *model = NULL;
    r->model = json_object_get(r->root, "model");
    if (!json_is_object(r->model))
        return ft_fail(err, FT_FORMAT, "%s: has no object \"model\"", r->name);
    const model_row *row = find_model(r->model);
    if (!row) return unsupported(r, "model", type_of(r->model), err);
    FT_TRY(row->read(r, &model, err));
    ft_status status = ft_tokenizer_new(out, row->kind, model, &r->specials, err);
    FT_TRY(at(r, "vocabulary", status, err));
    ft_templates templates;
    status = ft_templates_read(&templates, json_object_get(r->root, "post_processor"),
                               ft_tokenizer_size(*out), r->name, err);
    if (status == FT_OK) {
        ft_tokenizer_set_templates(*out, &templates);
        return FT_OK;
    }
    ft_tokenizer_free(*out);
    *out = NULL;
    return status;
}

ft_status ft_tokenizer_load_json(ft_tokenizer **out, const char *json, int64_t size,
                                 const ft_json_settings *settings, const char *name, ft_error *err)
{
    static const ft_json_settings nothing_said = {-1, -1, -1, -1};
    reader r = {.name = name, .settings = settings ? *settings : nothing_said};
    json_t *root = NULL;
    *out = NULL;
    FT_TRY(ft_json_parse(&root, json, size, name, err));
    r.root = root;
    ft_status status = load_root(out, &r, err);
    json_decref(root);
    reader_fini(&r);
    return status;
}
