/* base/utf8.c - is this text?
 * Most text is ASCII, so eight bytes are looked at together until one of them is not. */
#include "base/utf8.h"

#include <string.h>

/* Bytes of the well-formed sequence at p, of which `left` bytes are there; 0 when there is none. */
static int sequence_length(const unsigned char *p, int64_t left)
{
    unsigned char first = p[0];
    if (first < 0x80) return 1;
    int length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0 || length > left) return 0;
    unsigned char low = 0x80, high = 0xBF; /* of the second byte */
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
    if (p[1] < low || p[1] > high) return 0;
    for (int i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return length;
}

int64_t ft_utf8_check(const char *text, int64_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    int64_t i = 0;
    while (i < size) {
        uint64_t word;
        if (size - i >= 8) {
            memcpy(&word, p + i, 8);
            if ((word & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        int length = sequence_length(p + i, size - i);
        if (length == 0) return i;
        i += length;
    }
    return -1;
}
