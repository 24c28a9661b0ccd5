/* base/utf8.h - is this text? */
#ifndef FT_BASE_UTF8_H
#define FT_BASE_UTF8_H

#include <stdint.h>

/* The position of the first byte that does not belong to well-formed UTF-8, or -1 when all `size`
 * bytes do. Overlong forms, surrogates and code points past U+10FFFF are not well-formed (Unicode,
 * table 3-7); U+0000 is. */
int64_t ft_utf8_check(const char *text, int64_t size);

#endif
