/* base/text.h - a growing string, for dumps and writers, and sizes as people read them.
 *
 * Running out of memory sets `failed` and makes further appends do nothing, so that a writer
 * checks once, at its end. */
#ifndef FT_BASE_TEXT_H
#define FT_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_text {
    char *data; /* NUL-terminated once anything was appended, else NULL */
    int64_t length;
    int64_t capacity;
    bool failed; /* an allocation failed; the text is not complete */
} ft_text;

/* Appends as printf does. Start from a zeroed ft_text. */
void ft_text_add(ft_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Frees the bytes and zeroes the struct. */
void ft_text_fini(ft_text *text);

typedef struct ft_size_text {
    char text[32];
} ft_size_text;

/* "24.0 GB", "512 B". Of a call in an argument list, `.text` lives as long as the call that it is
 * given to. */
ft_size_text ft_text_of_bytes(int64_t bytes);

#endif
