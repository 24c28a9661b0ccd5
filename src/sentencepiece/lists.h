/* sentencepiece/lists.h - ids and bytes in lists that grow. */
#ifndef FT_SENTENCEPIECE_LISTS_H
#define FT_SENTENCEPIECE_LISTS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/error.h"

enum { FT_NO_ID = -1 };

/* Ids; starts zeroed, data is for ft_free. */
typedef struct ft_ids {
    int32_t *data;
    int64_t n, capacity;
} ft_ids;

/* Room for n more; false when out of memory, as what adds. */
bool ft_ids_make_room(ft_ids *list, int64_t n);
bool ft_ids_add(ft_ids *list, const int32_t *ids, int64_t n); /* false when out of memory */
ft_status ft_ids_no_memory(const ft_ids *list, ft_error *err);

/* Bytes, with a NUL behind them that does not count; starts zeroed, data is for ft_free. */
typedef struct ft_bytes {
    char *data;
    int64_t n, capacity;
} ft_bytes;

bool ft_bytes_make_room(ft_bytes *text, int64_t n);
bool ft_bytes_add(ft_bytes *text, const char *bytes, int64_t n); /* false when out of memory */
ft_status ft_bytes_no_memory(const ft_bytes *text, ft_error *err);

#ifdef __cplusplus
}
#endif

#endif
