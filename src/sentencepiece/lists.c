/* sentencepiece/lists.c - ids and bytes in lists that grow. */
#include "sentencepiece/lists.h"

#include <string.h>

#include "base/alloc.h"

bool ft_ids_add(ft_ids *list, const int32_t *ids, int64_t n)
{
    if (!list->data || list->n + n > list->capacity) {
        int64_t capacity = list->capacity * 2 > list->n + n ? list->capacity * 2 : list->n + n + 16;
        int32_t *data = ft_realloc(list->data, capacity * (int64_t)sizeof *data);
        if (!data) return false;
        list->data = data;
        list->capacity = capacity;
    }
    for (int64_t i = 0; i < n; i++) list->data[list->n + i] = ids[i];
    list->n += n;
    return true;
}

ft_status ft_ids_no_memory(const ft_ids *list, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "tokenizer: no memory for ids past %lld", (long long)list->n);
}

bool ft_bytes_add(ft_bytes *text, const char *bytes, int64_t n)
{
    if (text->n + n + 1 > text->capacity) {
        int64_t capacity = 2 * (text->n + n) + 32;
        char *data = ft_realloc(text->data, capacity);
        if (!data) return false;
        text->data = data;
        text->capacity = capacity;
    }
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
