/* data/model_check.c - the parts of a sentencepiece model that its library takes on trust.
 *
 * The normaliser of a model is a table of bytes: a Darts double array (a trie) and the texts that
 * its leaves point to. libsentencepiece follows its offsets without looking at the bounds, so a
 * damaged or hostile model would make it read anywhere. Here every offset is checked once, at load.
 * The table is found by walking the protobuf fields: ModelProto 3 (normalizer_spec) and 5
 * (denormalizer_spec), each with 2 (precompiled_charsmap). Whatever else is wrong the library finds
 * itself. */
#include "data/tokenizer.h"

#include <string.h>

enum { FIELD_NORMALIZER = 3, FIELD_DENORMALIZER = 5, FIELD_CHARSMAP = 2 };
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

typedef struct ft_span {
    const unsigned char *data;
    int64_t size;
} ft_span;

typedef struct ft_field {
    uint64_t number;
    int wire;
    ft_span bytes; /* of WIRE_BYTES */
} ft_field;

/* Takes a varint off the front of the span. */
static bool take_varint(ft_span *in, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && in->size > 0; shift += 7) {
        unsigned char byte = *in->data++;
        in->size--;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool take_bytes(ft_span *in, uint64_t size, ft_span *out)
{
    if (size > (uint64_t)in->size) return false;
    *out = (ft_span){in->data, (int64_t)size};
    in->data += size;
    in->size -= (int64_t)size;
    return true;
}

/* Takes one field off the front of a message. Groups, which no model has, are refused. */
static bool take_field(ft_span *in, ft_field *out)
{
    uint64_t tag, value;
    if (!take_varint(in, &tag)) return false;
    *out = (ft_field){.number = tag >> 3, .wire = (int)(tag & 7)};
    switch (out->wire) {
    case WIRE_VARINT:
        return take_varint(in, &value);
    case WIRE_FIXED64:
        return take_bytes(in, 8, &out->bytes);
    case WIRE_FIXED32:
        return take_bytes(in, 4, &out->bytes);
    case WIRE_BYTES:
        return take_varint(in, &value) && take_bytes(in, value, &out->bytes);
    default:
        return false;
    }
}

static uint32_t unit_at(ft_span units, int64_t i)
{
    uint32_t unit;
    memcpy(&unit, units.data + 4 * i, 4);
    return unit;
}

/* The double array (Darts-clone): a unit with the top bit is a leaf and holds a value, any other
 * leads on to position ^ offset ^ byte, for any byte. */
static ft_status check_trie(ft_span units, int64_t n_texts, ft_error *err)
{
    int64_t n = units.size / 4;
    if (n == 0 || units.size % 4 != 0)
        return ft_fail(err, FT_FORMAT,
                       "sentencepiece model: character map of %lld bytes is not units of 4",
                       (long long)units.size);
    for (int64_t i = 0; i < n; i++) {
        uint32_t unit = unit_at(units, i);
        bool leaf = unit & 0x80000000u;
        uint32_t offset = (unit >> 10) << ((unit & 0x200u) >> 6); /* at most 2^30 */
        int64_t reach = leaf ? (int64_t)(unit & 0x7FFFFFFFu) : (i ^ offset) | 0xFF;
        if (reach >= (leaf ? n_texts : n))
            return ft_fail(err, FT_FORMAT,
                           "sentencepiece model: character map unit %lld leads to %lld of %lld",
                           (long long)i, (long long)reach, (long long)(leaf ? n_texts : n));
    }
    return FT_OK;
}

/* u32 bytes of the double array, the double array, NUL-terminated texts. */
static ft_status check_charsmap(ft_span map, ft_error *err)
{
    if (map.size == 0) return FT_OK;
    uint32_t trie = 0;
    if (map.size > 4) memcpy(&trie, map.data, 4);
    if (map.size <= 4 || trie >= map.size - 4)
        return ft_fail(err, FT_FORMAT, "sentencepiece model: character map of %lld bytes is cut",
                       (long long)map.size);
    if (map.data[map.size - 1] != 0)
        return ft_fail(err, FT_FORMAT, "sentencepiece model: character map does not end in NUL");
    return check_trie((ft_span){map.data + 4, trie}, map.size - 4 - trie, err);
}

static ft_status check_normalizer(ft_span spec, ft_error *err)
{
    ft_field field;
    while (spec.size > 0) {
        if (!take_field(&spec, &field))
            return ft_fail(err, FT_FORMAT, "sentencepiece model: malformed normalizer");
        if (field.number == FIELD_CHARSMAP && field.wire == WIRE_BYTES)
            FT_TRY(check_charsmap(field.bytes, err));
    }
    return FT_OK;
}

ft_status ft_spm_check(const void *bytes, int64_t size, ft_error *err)
{
    ft_span model = {bytes, size};
    ft_field field;
    while (model.size > 0) {
        int64_t at = size - model.size;
        if (!take_field(&model, &field))
            return ft_fail(err, FT_FORMAT, "sentencepiece model: malformed at byte %lld of %lld",
                           (long long)at, (long long)size);
        bool normalizer = field.number == FIELD_NORMALIZER || field.number == FIELD_DENORMALIZER;
        if (normalizer && field.wire == WIRE_BYTES) FT_TRY(check_normalizer(field.bytes, err));
    }
    return FT_OK;
}
