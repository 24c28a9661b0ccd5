/* sentencepiece/lists.c - ids and bytes in lists that grow. */
#include "sentencepiece/lists.h"

#include <string.h>

#include "base/alloc.h"

bool ft_ids_make_room(ft_ids *list, int64_t n)
{
    if (list->data && list->n + n <= list->capacity) return true;
    int64_t capacity = list->capacity * 2 > list->n + n ? list->capacity * 2 : list->n + n + 16;
    int32_t *data = ft_realloc(list->data, capacity * (int64_t)sizeof *data);
    if (!data) return false;
    list->data = data;
    list->capacity = capacity;
    return true;
}

bool ft_ids_add(ft_ids *list, const int32_t *ids, int64_t n)
{
    if (!ft_ids_make_room(list, n)) return false;
    for (int64_t i = 0; i < n; i++) list->data[list->n + i] = ids[i];
    list->n += n;
    return true;
}

ft_status ft_ids_no_memory(const ft_ids *list, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "tokenizer: no memory for ids past %lld", (long long)list->n);
}

bool ft_bytes_make_room(ft_bytes *text, int64_t n)
{
    if (text->n + n + 1 <= text->capacity) return true;
    int64_t capacity = 2 * (text->n + n) + 32;
    char *data = ft_realloc(text->data, capacity);
    if (!data) return false;
    text->data = data;
    text->capacity = capacity;
    return true;
}

bool ft_bytes_add(ft_bytes *text, const char *bytes, int64_t n)
{
    if (!ft_bytes_make_room(text, n)) return false;
    memcpy(text->data + text->n, n ? bytes : "", (size_t)n);
    text->n += n;
    text->data[text->n] = 0;
    return true;
}

ft_status ft_bytes_no_memory(const ft_bytes *text, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "tokenizer: no memory for text past %lld bytes",
                   (long long)text->n);
}
