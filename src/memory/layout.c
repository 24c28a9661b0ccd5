/* memory/layout.c - offsets for tensors with known lifetimes.
 *
 * One tensor after the other, each into the smallest hole that no tensor alive at the same time
 * uses. Larger ones first is "greedy by size" of Pisarchyk and Lee, "Efficient memory management
 * for deep neural net inference", arXiv:2001.03288; where it loses (short-lived scores larger than
 * what is kept), another order loses less, so a few are tried. Zero bytes take no room. */
#include "memory/memory.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"

int64_t ft_memory_round(int64_t bytes)
{
    return (bytes + FT_MEMORY_ALIGN - 1) / FT_MEMORY_ALIGN * FT_MEMORY_ALIGN;
}

int64_t ft_place_bytes(int64_t bytes)
{
    return bytes ? ft_memory_round(bytes) + FT_GUARD_BYTES : 0;
}

int64_t ft_place_room(int64_t bytes)
{
    return bytes ? bytes - FT_GUARD_BYTES : 0;
}

/* What is alive changes: at the step where a tensor begins, and behind the one where it ends. */
typedef struct change {
    int64_t at, bytes;
} change;

static int compare_changes(const void *left, const void *right)
{
    const change *a = left, *b = right;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* who goes goes first */
}

int64_t ft_memory_lower_bound(const ft_interval *intervals, int n)
{
    int64_t most = 0, alive = 0, room;
    change *changes =
        ft_size_mul(2 * (int64_t)n + 1, sizeof *changes, &room) ? ft_alloc(room) : NULL;
    if (!changes) return -1;
    for (int i = 0; i < n; i++) {
        int64_t bytes = ft_memory_round(intervals[i].bytes);
        changes[2 * i] = (change){intervals[i].begin, bytes};
        changes[2 * i + 1] = (change){(int64_t)intervals[i].end + 1, -bytes};
    }
    qsort(changes, 2 * (size_t)n, sizeof *changes, compare_changes);
    for (int64_t i = 0; i < 2 * (int64_t)n; i++) {
        alive += changes[i].bytes;
        if (alive > most) most = alive;
    }
    ft_free(changes);
    return most;
}

/* A tensor while it is placed. */
typedef struct block {
    int64_t size; /* rounded */
    int64_t offset;
    int begin, end; /* from its first time to its last */
    int number;
    ft_interval *times; /* when it is there; NULL: from begin to end */
    int n_times;
} block;

static ft_status check_intervals(const ft_interval *intervals, int n, ft_error *err)
{
    int64_t sum = 0;
    if (n < 0) return ft_fail(err, FT_INVALID, "layout: %d intervals, expected 0 or more", n);
    for (int i = 0; i < n; i++) {
        const ft_interval *v = &intervals[i];
        if (v->bytes < 0)
            return ft_fail(err, FT_INVALID,
                           "layout: interval %d has %lld bytes, expected 0 or more", i,
                           (long long)v->bytes);
        if (v->end < v->begin)
            return ft_fail(err, FT_INVALID,
                           "layout: interval %d ends at step %d, before it begins at %d", i, v->end,
                           v->begin);
        if (v->bytes > INT64_MAX / 2 ||
            __builtin_add_overflow(sum, ft_memory_round(v->bytes), &sum))
            return ft_fail(err, FT_INVALID,
                           "layout: the bytes up to interval %d are more than 2^62", i);
    }
    return FT_OK;
}

/* -- orders: who is placed first --------------------------------------------------------------- */

static int compare_sizes(const block *a, const block *b)
{
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static int by_size(const void *left, const void *right)
{
    return compare_sizes(left, right);
}

static int64_t steps_of(const block *b)
{
    return (int64_t)b->end - b->begin;
}

/* Those that live longest first, so that the short-lived ones share what is left. */
static int by_life(const void *left, const void *right)
{
    const block *a = left, *b = right;
    if (steps_of(a) != steps_of(b)) return steps_of(a) > steps_of(b) ? -1 : 1;
    return compare_sizes(a, b);
}

/* Size times life. */
static int by_area(const void *left, const void *right)
{
    const block *a = left, *b = right;
    double area_a = (double)a->size * (double)(steps_of(a) + 1);
    double area_b = (double)b->size * (double)(steps_of(b) + 1);
    if (area_a != area_b) return area_a > area_b ? -1 : 1;
    return compare_sizes(a, b);
}

/* As a stack grows: by the step at which they begin, those that live longest first. */
static int by_begin(const void *left, const void *right)
{
    const block *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return by_life(a, b);
}

static bool meet_between(const block *a, const block *b)
{
    for (int i = 0; i < a->n_times; i++)
        for (int j = 0; j < b->n_times; j++)
            if (a->times[i].begin <= b->times[j].end && b->times[j].begin <= a->times[i].end)
                return true;
    return false;
}

static bool alive_together(const block *a, const block *b)
{
    bool near = a->begin <= b->end && b->begin <= a->end;
    return near && (!a->times || meet_between(a, b));
}

/* The offset of the smallest hole for `b`: `placed` blocks stand in order of their offsets. */
static int64_t best_fit(const block *b, const block *placed, int n)
{
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (!alive_together(b, &placed[i])) continue;
        int64_t hole = placed[i].offset - top;
        if (hole >= b->size && hole < best_size) {
            best = top;
            best_size = hole;
        }
        int64_t end = placed[i].offset + placed[i].size;
        if (end > top) top = end;
    }
    return best >= 0 ? best : top;
}

static void insert_by_offset(block *placed, int n, block b)
{
    int i = n;
    for (; i > 0 && placed[i - 1].offset > b.offset; i--) placed[i] = placed[i - 1];
    placed[i] = b;
}

/* Sorts the blocks and places them one by one; returns the extent. */
static int64_t place_all(block *blocks, block *placed, int n,
                         int (*order)(const void *, const void *))
{
    int64_t total = 0;
    int n_placed = 0;
    qsort(blocks, (size_t)n, sizeof *blocks, order);
    for (int i = 0; i < n; i++) {
        block *b = &blocks[i];
        b->offset = 0;
        if (!b->size) continue;
        b->offset = best_fit(b, placed, n_placed);
        if (b->offset + b->size > total) total = b->offset + b->size;
        insert_by_offset(placed, n_placed++, *b);
    }
    return total;
}

/* The best of all orders, of blocks with as much room again behind them. */
static void place_best(block *blocks, int n, int64_t least, int64_t *offsets, int64_t *total)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_life, by_area,
                                                                by_begin};
    for (size_t i = 0; i < sizeof orders / sizeof *orders && (!i || *total > least); i++) {
        int64_t extent = place_all(blocks, blocks + n, n, orders[i]);
        if (i && extent >= *total) continue;
        *total = extent;
        for (int j = 0; j < n; j++) offsets[blocks[j].number] = blocks[j].offset;
    }
}

static block *new_blocks(int n)
{
    int64_t bytes;
    return ft_size_mul(2 * (int64_t)n, sizeof(block), &bytes) ? ft_alloc(bytes) : NULL;
}

ft_status ft_memory_layout(const ft_interval *intervals, int n, int64_t *offsets, int64_t *total,
                           ft_error *err)
{
    *total = 0;
    FT_TRY(check_intervals(intervals, n, err));
    if (!n) return FT_OK;
    int64_t least = ft_memory_lower_bound(intervals, n);
    block *blocks = least < 0 ? NULL : new_blocks(n);
    if (!blocks) return ft_fail(err, FT_NOMEM, "layout: no memory for %d intervals", n);
    for (int i = 0; i < n; i++)
        blocks[i] = (block){.size = ft_memory_round(intervals[i].bytes),
                            .begin = intervals[i].begin,
                            .end = intervals[i].end,
                            .number = i};
    place_best(blocks, n, least, offsets, total);
    ft_free(blocks);
    return FT_OK;
}

/* Gives every item its times, in `times`. */
static void gather_times(block *blocks, int n_items, const ft_interval *intervals, const int *item,
                         int n, ft_interval *times)
{
    for (int i = 0; i < n_items; i++) blocks[i] = (block){.number = i, .begin = INT32_MAX};
    for (int i = 0; i < n; i++) blocks[item[i]].n_times++;
    for (int i = 0; i < n_items; i++) {
        blocks[i].times = times;
        times += blocks[i].n_times;
        blocks[i].n_times = 0;
    }
    for (int i = 0; i < n; i++) {
        block *b = &blocks[item[i]];
        b->times[b->n_times++] = intervals[i];
        b->size = ft_memory_round(intervals[i].bytes);
        if (intervals[i].begin < b->begin) b->begin = intervals[i].begin;
        if (intervals[i].end > b->end) b->end = intervals[i].end;
    }
}

ft_status ft_memory_layout_times(const ft_interval *intervals, const int *item, int n, int n_items,
                                 int64_t *offsets, int64_t *total, ft_error *err)
{
    *total = 0;
    FT_TRY(check_intervals(intervals, n, err));
    for (int i = 0; i < n; i++)
        if (item[i] < 0 || item[i] >= n_items)
            return ft_fail(err, FT_INVALID, "layout: interval %d is of item %d, there are %d", i,
                           item[i], n_items);
    if (!n) return FT_OK;
    int64_t least = ft_memory_lower_bound(intervals, n);
    block *blocks = least < 0 ? NULL : new_blocks(n_items);
    ft_interval *times = ft_alloc((int64_t)n * (int64_t)sizeof *times);
    ft_status status = FT_OK;
    if (blocks && times) {
        gather_times(blocks, n_items, intervals, item, n, times);
        place_best(blocks, n_items, least, offsets, total);
    } else {
        status = ft_fail(err, FT_NOMEM, "layout: no memory for %d intervals", n);
    }
    ft_free(blocks);
    ft_free(times);
    return status;
}
