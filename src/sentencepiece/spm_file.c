/* sentencepiece/spm_file.c - reads protobuf fields. */
#include "sentencepiece/spm_file.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

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

bool ft_field_take(ft_span *message, ft_field *out)
{
    uint64_t tag, size;
    if (!take_varint(message, &tag)) return false;
    *out = (ft_field){.number = tag >> 3, .is_bytes = (tag & 7) == WIRE_BYTES};
    switch (tag & 7) {
    case WIRE_VARINT: return take_varint(message, &out->value);
    case WIRE_FIXED64: return take_bytes(message, 8, &out->fixed);
    case WIRE_FIXED32: return take_bytes(message, 4, &out->fixed);
    case WIRE_BYTES: return take_varint(message, &size) && take_bytes(message, size, &out->bytes);
    default: return false;
    }
}
