/* tokens/unigram_json.c - a sentencepiece model out of a Unigram tokenizer.json.
 *
 * The JSON holds what the model was made from: pieces with scores, and the table of characters that
 * its normaliser replaces, in base64. It is written as a protobuf ModelProto, 1 pieces {1 piece,
 * 2 score, 3 type}, 2 trainer_spec {3 model_type}, 3 normalizer_spec {2 precompiled_charsmap,
 * 4 remove_extra_whitespaces}, and read by the library like any other model. */
#include <string.h>

#include "base/alloc.h"
#include "tokens/internal.h"
#include "io/io.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3 };
enum { VARINT = 0, BYTES = 2, FIXED32 = 5 };

/* -- protobuf --------------------------------------------------------------------------------- */

static bool put_varint(ft_bytes *out, uint64_t value)
{
    char bytes[10];
    int n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = (char)(value | 0x80);
    bytes[n++] = (char)value;
    return ft_bytes_add(out, bytes, n);
}

static bool put_number(ft_bytes *out, unsigned field, uint64_t value)
{
    return put_varint(out, field << 3 | VARINT) && put_varint(out, value);
}

static bool put_bytes(ft_bytes *out, unsigned field, const char *bytes, int64_t n)
{
    return put_varint(out, field << 3 | BYTES) && put_varint(out, (uint64_t)n) &&
           ft_bytes_add(out, bytes, n);
}

static bool put_piece(ft_bytes *out, const char *piece, float score, int type)
{
    ft_bytes message = {0};
    bool fits = put_bytes(&message, 1, piece, (int64_t)strlen(piece)) &&
                put_varint(&message, 2 << 3 | FIXED32) &&
                ft_bytes_add(&message, (const char *)&score, sizeof score) &&
                put_number(&message, 3, (uint64_t)type) &&
                put_bytes(out, 1, message.data, message.n);
    ft_free(message.data);
    return fits;
}

/* -- parts ------------------------------------------------------------------------------------ */

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static ft_status put_base64(ft_bytes *out, const char *text, const char *name, ft_error *err)
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

/* What the chain of normalizer and pre-tokenizer comes to. */
typedef struct unigram_chain {
    const char *charsmap; /* base64, or NULL */
    bool collapse;        /* runs of spaces become one, outer ones go */
    bool marks;           /* spaces become U+2581, one more in front */
} unigram_chain;

static const char *text_of(const json_t *part, const char *key)
{
    const char *text = json_string_value(json_object_get(part, key));
    return text ? text : "";
}

/* Whether a Replace part is the one that collapses spaces. */
static bool is_collapse(const json_t *part)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *content = text_of(part, "content");
    return strcmp(text_of(pattern, "Regex"), " {2,}") == 0 &&
           (strcmp(content, " ") == 0 || strcmp(content, "\xE2\x96\x81") == 0);
}

/* Whether a Metaspace part puts a mark before every stretch of text. */
static bool is_metaspace(const json_t *part)
{
    const char *scheme = text_of(part, "prepend_scheme");
    const json_t *prefix = json_object_get(part, "add_prefix_space");
    return strcmp(text_of(part, "replacement"), "\xE2\x96\x81") == 0 &&
           (strcmp(scheme, "always") == 0 || (!*scheme && !json_is_false(prefix)));
}

static ft_status add_part(unigram_chain *chain, const json_t *part, const char *name, ft_error *err)
{
    const char *type = text_of(part, "type");
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(part, "normalizers");
        if (!list) list = json_object_get(part, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *inner = json_array_get(list, i);
            if (strcmp(text_of(inner, "type"), "Sequence") == 0)
                return ft_fail(err, FT_UNSUPPORTED, "%s: a Sequence in a Sequence is not supported",
                               name);
            FT_TRY(add_part(chain, inner, name, err));
        }
        return FT_OK;
    }
    bool strip = strcmp(type, "WhitespaceSplit") == 0 || strcmp(type, "Strip") == 0 ||
                 (strcmp(type, "Replace") == 0 && is_collapse(part));
    if (strcmp(type, "Precompiled") == 0)
        chain->charsmap = text_of(part, "precompiled_charsmap");
    else if (strcmp(type, "Metaspace") == 0 && is_metaspace(part))
        chain->marks = true;
    else if (strip)
        chain->collapse = true;
    else
        return ft_fail(err, FT_UNSUPPORTED,
                       "%s: part '%.64s' of a Unigram tokenizer is not supported", name, type);
    return FT_OK;
}

static ft_status read_chain(unigram_chain *chain, const json_t *root, const char *name,
                            ft_error *err)
{
    const json_t *normalizer = json_object_get(root, "normalizer");
    if (normalizer && !json_is_null(normalizer)) FT_TRY(add_part(chain, normalizer, name, err));
    FT_TRY(add_part(chain, json_object_get(root, "pre_tokenizer"), name, err));
    if (chain->marks) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED,
                   "%s: a Unigram tokenizer without Metaspace is not supported", name);
}

static ft_status put_pieces(ft_bytes *out, const json_t *model, const ft_specials *specials,
                            const char *name, ft_error *err)
{
    const json_t *list = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    int64_t unknown = json_is_integer(unk) ? (int64_t)json_integer_value(unk) : -1;
    int64_t n = (int64_t)json_array_size(list);
    if (unknown < 0 || unknown >= n)
        return ft_fail(err, FT_FORMAT, "%s: model.unk_id is not a piece of the %lld", name,
                       (long long)n);
    for (int64_t id = 0; id < n; id++) {
        const json_t *row = json_array_get(list, (size_t)id), *score = json_array_get(row, 1);
        const char *piece = json_string_value(json_array_get(row, 0));
        if (!piece || !*piece || !json_is_number(score) || json_array_size(row) != 2)
            return ft_fail(err, FT_FORMAT, "%s: model.vocab[%lld] is not a [piece, score]", name,
                           (long long)id);
        int type = id == unknown                                 ? TYPE_UNKNOWN
                   : ft_specials_get(specials, (int32_t)id).text ? TYPE_CONTROL
                                                                 : TYPE_NORMAL;
        if (!put_piece(out, piece, (float)json_number_value(score), type))
            return ft_bytes_no_memory(out, err);
    }
    return FT_OK;
}

ft_status ft_unigram_write(ft_bytes *out, const json_t *root, const ft_specials *specials,
                           const char *name, ft_error *err)
{
    const json_t *model = json_object_get(root, "model");
    unigram_chain chain = {0};
    ft_bytes charsmap = {0}, normalizer = {0};
    ft_status status = FT_OK;
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return ft_fail(err, FT_UNSUPPORTED, "%s: Unigram with byte_fallback is not supported",
                       name);
    FT_GO(read_chain(&chain, root, name, err));
    FT_GO(put_pieces(out, model, specials, name, err));
    if (chain.charsmap) FT_GO(put_base64(&charsmap, chain.charsmap, name, err));
    bool fits = (!charsmap.n || put_bytes(&normalizer, 2, charsmap.data, charsmap.n)) &&
                put_number(&normalizer, 4, chain.collapse) &&
                put_bytes(out, 2, "\x18\x01", 2) && /* model_type: unigram */
                put_bytes(out, 3, normalizer.data, normalizer.n);
    if (!fits) FT_GO(ft_bytes_no_memory(out, err));
done:
    ft_free(charsmap.data);
    ft_free(normalizer.data);
    return status;
}
