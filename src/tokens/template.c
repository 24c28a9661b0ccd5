/* tokens/template.c - what a tokenizer.json puts around texts: { "type": "TemplateProcessing",
 * "single": [...], "pair": [...], "special_tokens": {...} }. */
#include <string.h>

#include "io/io.h"
#include "tokens/internal.h"

static ft_status fail(const char *name, const char *what, ft_error *err)
{
    return ft_fail(err, FT_FORMAT, "%s: post_processor: %s", name, what);
}

static ft_status add_item(ft_template *out, int32_t id, const json_t *part, const char *name,
                          ft_error *err)
{
    const json_t *segment = json_object_get(part, "type_id");
    json_int_t number = json_is_integer(segment) ? json_integer_value(segment) : 0;
    if (out->n == FT_TEMPLATE_ITEMS)
        return ft_fail(err, FT_UNSUPPORTED,
                       "%s: post_processor: more than %d items are not supported", name,
                       FT_TEMPLATE_ITEMS);
    if (number < 0 || number > INT32_MAX) return fail(name, "type_id is out of range", err);
    out->items[out->n].id = id;
    out->items[out->n++].segment = (int32_t)number;
    return FT_OK;
}

/* The ids of { "id": "</s>" }, which `tokens` lists. */
static ft_status add_token(ft_template *out, const json_t *part, const json_t *tokens, int n,
                           const char *name, ft_error *err)
{
    const char *text = json_string_value(json_object_get(part, "id"));
    const json_t *ids = json_object_get(json_object_get(tokens, text ? text : ""), "ids");
    if (json_array_size(ids) == 0) return fail(name, "a token has no ids in special_tokens", err);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number < 0 || number >= n)
            return fail(name, "special_tokens has an id that is none of the tokenizer's", err);
        FT_TRY(add_item(out, (int32_t)number, part, name, err));
    }
    return FT_OK;
}

static ft_status read_template(ft_template *out, const json_t *processor, const char *key, int n,
                               const char *name, ft_error *err)
{
    const json_t *list = json_object_get(processor, key);
    const json_t *tokens = json_object_get(processor, "special_tokens");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *text = json_object_get(item, "Sequence");
        const json_t *token = json_object_get(item, "SpecialToken");
        const char *which = json_string_value(json_object_get(text, "id"));
        bool a = which && strcmp(which, "A") == 0, b = which && strcmp(which, "B") == 0;
        bool ok = a || (b && strcmp(key, "pair") == 0) || (!text && token);
        if (!ok) return fail(name, "an item is neither a Sequence nor a SpecialToken", err);
        if (text)
            FT_TRY(add_item(out, a ? FT_TEMPLATE_A : FT_TEMPLATE_B, text, name, err));
        else
            FT_TRY(add_token(out, token, tokens, n, name, err));
    }
    return out->n > 0 ? FT_OK : fail(name, "a template is empty", err);
}

ft_status ft_templates_read(ft_templates *out, const json_t *processor, int n, const char *name,
                            ft_error *err)
{
    const char *type = json_string_value(json_object_get(processor, "type"));
    *out = (ft_templates){0};
    if (!type || strcmp(type, "TemplateProcessing") != 0) return FT_OK;
    FT_TRY(read_template(&out->single, processor, "single", n, name, err));
    return read_template(&out->pair, processor, "pair", n, name, err);
}
