/* tokens/added.c - tokens that checkpoints name in files beside the vocabulary.
 *
 * added_tokens.json gives further texts ids: { "text": 30522 }. special_tokens_map.json says which
 * texts are special, and what for: { "sep_token": "[SEP]", "mask_token": { "content": "[MASK]",
 * "lstrip": true }, "additional_special_tokens": ["..."] }. Newer checkpoints have both in
 * tokenizer_config.json: { "added_tokens_decoder": { "30522": { "content": "text", "special": true
 * } }, "sep_token": "[SEP]" }, which goes first. A tokenizer.json has all of it inside.
 *
 * What is special stands in text as it is written, and is left out where special tokens are. What
 * is only added is printed, and a tokenizer that makes letters small finds it whatever its case. So
 * do the tokenizers of transformers, which read these files when there is no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokens/internal.h"
#include "io/io.h"

static ft_slice slice_of(const char *text)
{
    return (ft_slice){text, (int64_t)strlen(text)};
}

/* What a token is that has no more than a text. */
static int flags_of_text(const ft_tokenizer *tokenizer)
{
    const ft_basic_options *basic = ft_tokenizer_basic(tokenizer);
    return basic && basic->lower ? FT_SPECIAL_CASELESS : 0;
}

static ft_status add_text(ft_tokenizer *tokenizer, const char *text, json_int_t id, int flags,
                          ft_error *err)
{
    if (id < 0 || id > INT32_MAX)
        return ft_fail(err, FT_FORMAT, "'%.64s' has no id, expected an integer from 0", text);
    return ft_tokenizer_add_text(tokenizer, slice_of(text), (int32_t)id, flags, err);
}

/* { text: id } */
static ft_status add_texts(ft_tokenizer *tokenizer, const json_t *object, ft_error *err)
{
    const char *text;
    json_t *value;
    if (!json_is_object(object))
        return ft_fail(err, FT_FORMAT, "expected an object of ids by text");
    json_object_foreach((json_t *)(uintptr_t)object, text, value)
    {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        FT_TRY(add_text(tokenizer, text, id, flags_of_text(tokenizer), err));
    }
    return FT_OK;
}

/* How a token that is an object is matched. */
static int flags_of(const json_t *token)
{
    static const struct {
        const char *key;
        int flag;
    } keys[] = {{"lstrip", FT_SPECIAL_STRIP_LEFT},
                {"rstrip", FT_SPECIAL_STRIP_RIGHT},
                {"single_word", FT_SPECIAL_WORD}};
    int flags = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_is_true(json_object_get(token, keys[i].key))) flags |= keys[i].flag;
    return flags;
}

/* A text, or an object with its `content`. */
static const char *content_of(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* `key` is "sep_token" for what is called "sep". */
static ft_status add_special(ft_tokenizer *tokenizer, const char *key, const json_t *token,
                             ft_error *err)
{
    static const char ending[] = "_token";
    char role[32] = "";
    /* a text alone says nothing of how it is matched */
    int flags = json_is_object(token) ? flags_of(token) : FT_SPECIAL_AS_BEFORE;
    const char *text = content_of(token);
    size_t n = strlen(key), n_ending = sizeof ending - 1;
    if (!text || !*text)
        return ft_fail(err, FT_FORMAT, "%.64s is not a text, or an object with one as content",
                       key);
    if (n > n_ending && n - n_ending < sizeof role && strcmp(key + n - n_ending, ending) == 0)
        memcpy(role, key, n - n_ending);
    return ft_tokenizer_set_special(tokenizer, slice_of(text), flags, role, err);
}

/* A token, or a list of them. */
static ft_status add_tokens(ft_tokenizer *tokenizer, const char *key, const json_t *value,
                            ft_error *err)
{
    if (!json_is_array(value)) return add_special(tokenizer, key, value, err);
    for (size_t i = 0; i < json_array_size(value); i++)
        FT_TRY(add_special(tokenizer, key, json_array_get(value, i), err));
    return FT_OK;
}

static ft_status add_map(ft_tokenizer *tokenizer, const json_t *object, ft_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return ft_fail(err, FT_FORMAT, "expected an object of texts by what they are for");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (!json_is_null(value)) FT_TRY(add_tokens(tokenizer, key, value, err));
    }
    return FT_OK;
}

/* { "30522": { "content": text, "special": true, "normalized": false } } */
static ft_status add_decoder(ft_tokenizer *tokenizer, const json_t *object, ft_error *err)
{
    const char *key;
    json_t *token;
    json_object_foreach((json_t *)(uintptr_t)object, key, token)
    {
        const char *text = content_of(token);
        char *end;
        long long id = strtoll(key, &end, 10);
        if (!text || !*text || end == key || *end)
            return ft_fail(err, FT_FORMAT,
                           "added_tokens_decoder: '%.64s' is no id of an object with a text as "
                           "content",
                           key);
        int flags = flags_of(token);
        if (json_is_true(json_object_get(token, "special"))) flags |= FT_SPECIAL_HIDDEN;
        if (json_is_true(json_object_get(token, "normalized"))) flags |= flags_of_text(tokenizer);
        FT_TRY(add_text(tokenizer, text, id, flags, err));
        if (flags & FT_SPECIAL_HIDDEN)
            FT_TRY(ft_tokenizer_set_special(tokenizer, slice_of(text), flags, "", err));
    }
    return FT_OK;
}

/* Whether a key of tokenizer_config.json names special tokens: of "sep_token", "add_bos_token" and
 * "additional_special_tokens" the first and the last. */
static bool names_tokens(const char *key, const json_t *value)
{
    size_t n = strlen(key), n_ending = sizeof "_token" - 1;
    if (json_is_array(value)) return strstr(key, "special_tokens") != NULL;
    if (n <= n_ending || strcmp(key + n - n_ending, "_token") != 0) return false;
    const char *text = content_of(value);
    return text && *text;
}

static ft_status add_settings(ft_tokenizer *tokenizer, const json_t *object, ft_error *err)
{
    const char *key;
    json_t *value;
    FT_TRY(add_decoder(tokenizer, json_object_get(object, "added_tokens_decoder"), err));
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (names_tokens(key, value)) FT_TRY(add_tokens(tokenizer, key, value, err));
    }
    return FT_OK;
}

typedef ft_status file_reader(ft_tokenizer *tokenizer, const json_t *root, ft_error *err);

static ft_status read_file(ft_tokenizer *tokenizer, ft_slice file, const char *dir,
                           const char *base, file_reader *read, ft_error *err)
{
    char name[512];
    json_t *root = NULL;
    if (!file.bytes) return FT_OK;
    snprintf(name, sizeof name, "%s/%s", dir, base);
    FT_TRY(ft_json_parse(&root, file.bytes, file.size, name, err));
    ft_status status = read(tokenizer, root, err);
    json_decref(root);
    if (status == FT_OK) status = ft_tokenizer_check(tokenizer, err);
    return status == FT_OK || !err ? status : ft_error_wrap(err, "%s", name);
}

ft_status ft_tokenizer_add_files(ft_tokenizer *tokenizer, const ft_token_files *files,
                                 const char *dir, ft_error *err)
{
    FT_TRY(read_file(tokenizer, files->settings, dir, "tokenizer_config.json", add_settings, err));
    FT_TRY(read_file(tokenizer, files->added, dir, "added_tokens.json", add_texts, err));
    return read_file(tokenizer, files->map, dir, "special_tokens_map.json", add_map, err);
}
