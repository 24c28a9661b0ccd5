/* tokens/added.c - tokens that checkpoints name in files beside the vocabulary.
 *
 * added_tokens.json gives further texts ids: { "text": 30522 }. special_tokens_map.json says which
 * texts are special, and what for: { "sep_token": "[SEP]", "mask_token": { "content": "[MASK]",
 * "lstrip": true }, "additional_special_tokens": ["..."] }. A tokenizer.json has both inside.
 *
 * What is special stands in text as it is written, and is left out where special tokens are. What
 * is only added is printed, and a tokenizer that makes letters small finds it whatever its case. So
 * do the tokenizers of transformers, which read these files when there is no other. */
#include <stdio.h>
#include <string.h>

#include "tokens/internal.h"
#include "io/io.h"

static ft_slice slice_of(const char *text)
{
    return (ft_slice){text, (int64_t)strlen(text)};
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
        if (id < 0 || id > INT32_MAX)
            return ft_fail(err, FT_FORMAT, "'%.64s' has no id, expected an integer from 0", text);
        FT_TRY(ft_tokenizer_add_text(tokenizer, slice_of(text), (int32_t)id, err));
    }
    return FT_OK;
}

/* A text, or an object with its `content` and how it is matched; *flags is what that comes to. */
static const char *content_of(const json_t *token, int *flags)
{
    static const struct {
        const char *key;
        int flag;
    } keys[] = {{"lstrip", FT_SPECIAL_STRIP_LEFT},
                {"rstrip", FT_SPECIAL_STRIP_RIGHT},
                {"single_word", FT_SPECIAL_WORD}};
    *flags = FT_SPECIAL_HIDDEN;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_is_true(json_object_get(token, keys[i].key))) *flags |= keys[i].flag;
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* `key` is "sep_token" for what is called "sep". */
static ft_status add_special(ft_tokenizer *tokenizer, const char *key, const json_t *token,
                             ft_error *err)
{
    static const char ending[] = "_token";
    char role[32] = "";
    int flags;
    const char *text = content_of(token, &flags);
    size_t n = strlen(key), n_ending = sizeof ending - 1;
    if (!text || !*text)
        return ft_fail(err, FT_FORMAT, "%.64s is not a text, or an object with one as content",
                       key);
    if (n > n_ending && n - n_ending < sizeof role && strcmp(key + n - n_ending, ending) == 0)
        memcpy(role, key, n - n_ending);
    return ft_tokenizer_set_special(tokenizer, slice_of(text), flags, role, err);
}

static ft_status add_map(ft_tokenizer *tokenizer, const json_t *object, ft_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return ft_fail(err, FT_FORMAT, "expected an object of texts by what they are for");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        bool list = json_is_array(value);
        for (size_t i = 0; list && i < json_array_size(value); i++)
            FT_TRY(add_special(tokenizer, key, json_array_get(value, i), err));
        if (!list && !json_is_null(value)) FT_TRY(add_special(tokenizer, key, value, err));
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

ft_status ft_tokenizer_add_files(ft_tokenizer *tokenizer, ft_slice added, ft_slice map,
                                 const char *dir, ft_error *err)
{
    FT_TRY(read_file(tokenizer, added, dir, "added_tokens.json", add_texts, err));
    return read_file(tokenizer, map, dir, "special_tokens_map.json", add_map, err);
}
