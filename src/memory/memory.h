/* memory/memory.h - which byte is free when.
 *
 * Pure: intervals in, offsets out; of extents there is a memory, which changes no answer. */
#ifndef FT_MEMORY_H
#define FT_MEMORY_H

#include <stdint.h>

#include "base/error.h"
#include "base/memory_class.h"

/* Everything in a device's block starts at a multiple of this. */
enum { FT_MEMORY_ALIGN = 64 };

/* bytes rounded up to FT_MEMORY_ALIGN. */
int64_t ft_memory_round(int64_t bytes);

/* Behind every tensor or slot in a block lies a guard, which nobody writes but who made it. */
enum { FT_GUARD_BYTES = FT_MEMORY_ALIGN };

/* What a tensor or slot of `bytes` takes of a block, with its guard; nothing of no bytes. */
int64_t ft_place_bytes(int64_t bytes);
/* What a place of `bytes` has room for. */
int64_t ft_place_room(int64_t bytes);

/* A tensor that occupies `bytes` from step `begin` to step `end`, both included. */
typedef struct ft_interval {
    int64_t bytes;
    int begin, end;
} ft_interval;

/* Gives every interval an offset so that no two that are alive together overlap; *total is the
 * extent. Deterministic: best fit, in the best of four orders (larger first, longer alive first,
 * larger times longer first, as they begin), ties by number. Offsets and extents are multiples of
 * FT_MEMORY_ALIGN. FT_INVALID when an interval ends before it begins or has negative bytes. */
ft_status ft_memory_layout(const ft_interval *intervals, int n, int64_t *offsets, int64_t *total,
                           ft_error *err);

/* The total of ft_memory_layout alone. Of intervals that were asked for before, by any thread, it
 * is mostly remembered. */
ft_status ft_memory_extent(const ft_interval *intervals, int n, int64_t *total, ft_error *err);

/* As ft_memory_layout, of n_items tensors that are there at several times, always in one place:
 * interval i is a time of item[i]. Those of an item are of the same bytes and do not meet. */
ft_status ft_memory_layout_times(const ft_interval *intervals, const int *item, int n, int n_items,
                                 int64_t *offsets, int64_t *total, ft_error *err);

/* The largest sum of rounded bytes alive at one step: no layout can be smaller. -1 without
 * memory to find it. */
int64_t ft_memory_lower_bound(const ft_interval *intervals, int n);

#endif
