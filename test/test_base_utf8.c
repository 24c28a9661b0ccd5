/* test/test_base_utf8.c - UTF-8 against a decoder that works from the definition. */
#include "base/utf8.h"

#include <string.h>

#include "check.h"

/* Encodes any number up to 21 bits in `length` bytes, well-formed or not. */
static void encode(uint32_t point, int length, char *out)
{
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = length - 1; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(lead[length] | point);
}

static int shortest(uint32_t point)
{
    return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

/* Every number in every length that holds it: one of the lengths is right, or none. */
static void every_code_point(void)
{
    static const uint32_t holds[] = {0, 0x80, 0x800, 0x10000, 0x200000};
    int wrong = 0;
    for (int length = 1; length <= 4; length++)
        for (uint32_t point = 0; point < holds[length]; point++) {
            char text[4];
            encode(point, length, text);
            bool surrogate = point >= 0xD800 && point <= 0xDFFF;
            bool good = length == shortest(point) && !surrogate && point <= 0x10FFFF;
            wrong += ft_utf8_check(text, length) != (good ? -1 : 0);
        }
    CHECK(wrong == 0);
}

static void positions(void)
{
    char text[64];
    for (int at = 0; at < 40; at++) {
        memset(text, 'a', sizeof text);
        text[at] = (char)0xFF;
        CHECK(ft_utf8_check(text, 64) == at);
        memcpy(text + at, "\xE2\x96\x81", 3);
        CHECK(ft_utf8_check(text, 64) == -1);
        CHECK(ft_utf8_check(text, at + 2) == at); /* cut inside a character */
        text[at] = 0;
        CHECK(ft_utf8_check(text, at + 1) == -1); /* U+0000 is text */
    }
    CHECK(ft_utf8_check("", 0) == -1);
    CHECK(ft_utf8_check("\x80", 1) == 0);
    CHECK(ft_utf8_check("\xF5\x80\x80\x80", 4) == 0);
}

int main(void)
{
    RUN(every_code_point);
    RUN(positions);
    return check_report();
}
