/* memory/layout.c - offsets for tensors with known lifetimes.
 *
 * One tensor after the other, each into the smallest hole that no tensor alive at the same time
 * uses. Larger ones first is "greedy by size" of Pisarchyk and Lee, "Efficient memory management
 * for deep neural net inference", arXiv:2001.03288; where it loses (short-lived scores larger than
 * what is kept), another order loses less, so a few are tried. Zero bytes take no room.
 *
 * Most tensors are there for a short time, and meet few of the others: who has been placed is found
 * by ranges of steps, as long as each is there. */
#include "memory/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

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
    ft_interval *times; /* when it is there, one after the other; NULL: from begin to end */
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
    for (int i = 0, j = 0; i < a->n_times && j < b->n_times;) {
        const ft_interval *x = &a->times[i], *y = &b->times[j];
        if (x->begin <= y->end && y->begin <= x->end) return true;
        if (x->end < y->end)
            i++;
        else
            j++;
    }
    return false;
}

static bool alive_together(const block *a, const block *b)
{
    bool near = a->begin <= b->end && b->begin <= a->end;
    return near && (!a->times || meet_between(a, b));
}

/* -- places ------------------------------------------------------------------------------------ */

enum { LEVELS = 32 };

/* Bytes that a block has, of one that is there. */
typedef struct extent {
    int64_t from, to;
} extent;

/* Who has been placed, by step: level k has ranges of width << k steps each, and a block is in the
 * range in which it begins, at the first level whose ranges are as long as the block is there. The
 * blocks of a range are in the order of their offsets. */
typedef struct placements {
    const block *blocks;
    int begin; /* the first step of all */
    int64_t width;
    int n_levels, n_ranges[LEVELS];
    int *first[LEVELS];  /* by range: the lowest block; -1: none */
    int *next;           /* by block: the one above it */
    extent *near, *room; /* of who meets the block that is placed next; to sort them */
} placements;

static int64_t range_at(const placements *p, int level, int64_t step)
{
    return (step - p->begin) / (p->width << level);
}

static void add_placed(placements *p, int i)
{
    const block *b = &p->blocks[i];
    int level = 0;
    while (p->width << level <= steps_of(b)) level++;
    int *link = &p->first[level][range_at(p, level, b->begin)];
    while (*link >= 0 && p->blocks[*link].offset < b->offset) link = &p->next[*link];
    p->next[i] = *link;
    *link = i;
}

/* Behind the extents from number i on that ascend. */
static int end_of_run(const extent *x, int i, int n)
{
    for (i++; i < n && x[i - 1].from <= x[i].from;) i++;
    return i;
}

/* x from i to middle, and from there to end, as one. */
static void merge(extent *out, const extent *x, int i, int middle, int end)
{
    int at = i, j = middle;
    while (i < middle && j < end) {
        bool first = x[i].from <= x[j].from;
        out[at++] = x[first ? i : j];
        i += first;
        j += !first;
    }
    memcpy(out + at, x + i, (size_t)(middle - i) * sizeof *x);
    memcpy(out + at + middle - i, x + j, (size_t)(end - j) * sizeof *x);
}

/* Sorts n near ones, which come range by range: few runs that ascend, two of which become one at a
 * time. */
static void sort_near(placements *p, int n)
{
    while (n && end_of_run(p->near, 0, n) < n) {
        for (int i = 0, end; i < n; i = end) {
            int middle = end_of_run(p->near, i, n);
            end = middle < n ? end_of_run(p->near, middle, n) : n;
            merge(p->room, p->near, i, middle, end);
        }
        extent *sorted = p->room;
        p->room = p->near;
        p->near = sorted;
    }
}

/* What those have that meet block i, by their offsets; returns how many they are. */
static int find_near(placements *p, int i)
{
    const block *b = &p->blocks[i];
    int n = 0;
    for (int k = p->n_levels - 1; k >= 0; k--) {
        int64_t from = range_at(p, k, b->begin), to = range_at(p, k, b->end);
        for (int64_t r = from ? from - 1 : 0; r <= to; r++) /* it may have begun one before */
            for (int other = p->first[k][r]; other >= 0; other = p->next[other]) {
                const block *x = &p->blocks[other];
                if (alive_together(b, x)) p->near[n++] = (extent){x->offset, x->offset + x->size};
            }
    }
    sort_near(p, n);
    return n;
}

/* The offset of the smallest hole for a block of that size, between the n near ones. */
static int64_t best_fit(int64_t size, const extent *near, int n)
{
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    for (int i = 0; i < n; i++) {
        int64_t hole = near[i].from - top;
        if (hole >= size && hole < best_size) {
            best = top;
            best_size = hole;
        }
        if (near[i].to > top) top = near[i].to;
    }
    return best >= 0 ? best : top;
}

/* Sorts the blocks and places them one by one; returns what they take, or, as soon as it is `most`
 * or more, that. */
static int64_t place_all(block *blocks, placements *p, int n, int64_t most,
                         int (*order)(const void *, const void *))
{
    int64_t total = 0;
    qsort(blocks, (size_t)n, sizeof *blocks, order);
    for (int k = 0; k < p->n_levels; k++)
        for (int r = 0; r < p->n_ranges[k]; r++) p->first[k][r] = -1;
    for (int i = 0; i < n && total < most; i++) {
        block *b = &blocks[i];
        b->offset = 0;
        if (!b->size) continue;
        int n_near = find_near(p, i);
        b->offset = best_fit(b->size, p->near, n_near);
        if (b->offset + b->size > total) total = b->offset + b->size;
        add_placed(p, i);
    }
    return total;
}

/* As many ranges as blocks at the first level, and half as many at each of the others. */
static bool make_ranges(placements *p, const block *blocks, int n, ft_arena *arena)
{
    int64_t end = blocks[0].end;
    *p = (placements){.blocks = blocks, .begin = blocks[0].begin};
    for (int i = 1; i < n; i++) {
        if (blocks[i].begin < p->begin) p->begin = blocks[i].begin;
        if (blocks[i].end > end) end = blocks[i].end;
    }
    p->width = (end - p->begin) / n + 1;
    p->near = ft_arena_array(arena, n, sizeof *p->near);
    p->room = ft_arena_array(arena, n, sizeof *p->room);
    p->next = ft_arena_array(arena, n, sizeof *p->next);
    bool made = p->near && p->room && p->next;
    for (int k = 0; made; k++) {
        p->n_levels = k + 1;
        p->n_ranges[k] = (int)range_at(p, k, end) + 1;
        p->first[k] = ft_arena_array(arena, p->n_ranges[k], sizeof(int));
        made = p->first[k] != NULL;
        if (p->n_ranges[k] == 1) break;
    }
    return made;
}

/* The best of all orders; false: no memory. */
static bool place_best(block *blocks, int n, int64_t least, ft_arena *arena, int64_t *offsets,
                       int64_t *total)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_life, by_area,
                                                                by_begin};
    placements p;
    if (!make_ranges(&p, blocks, n, arena)) return false;
    for (size_t i = 0; i < sizeof orders / sizeof *orders && (!i || *total > least); i++) {
        int64_t most = i ? *total : INT64_MAX, taken = place_all(blocks, &p, n, most, orders[i]);
        if (taken >= most) continue;
        *total = taken;
        for (int j = 0; j < n; j++) offsets[blocks[j].number] = blocks[j].offset;
    }
    return true;
}

ft_status ft_memory_layout(const ft_interval *intervals, int n, int64_t *offsets, int64_t *total,
                           ft_error *err)
{
    *total = 0;
    FT_TRY(check_intervals(intervals, n, err));
    if (!n) return FT_OK;
    int64_t least = ft_memory_lower_bound(intervals, n);
    ft_arena *arena = ft_arena_new();
    block *blocks = arena && least >= 0 ? ft_arena_array(arena, n, sizeof *blocks) : NULL;
    for (int i = 0; blocks && i < n; i++)
        blocks[i] = (block){.size = ft_memory_round(intervals[i].bytes),
                            .begin = intervals[i].begin,
                            .end = intervals[i].end,
                            .number = i};
    bool placed = blocks && place_best(blocks, n, least, arena, offsets, total);
    ft_arena_free(arena);
    return placed ? FT_OK : ft_fail(err, FT_NOMEM, "layout: no memory for %d intervals", n);
}

static int by_time(const void *left, const void *right)
{
    const ft_interval *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Gives every item its times, in `times`, one after the other. */
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
    for (int i = 0; i < n_items; i++)
        qsort(blocks[i].times, (size_t)blocks[i].n_times, sizeof *times, by_time);
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
    ft_arena *arena = ft_arena_new();
    block *blocks = arena && least >= 0 ? ft_arena_array(arena, n_items, sizeof *blocks) : NULL;
    ft_interval *times = blocks ? ft_arena_array(arena, n, sizeof *times) : NULL;
    if (times) gather_times(blocks, n_items, intervals, item, n, times);
    bool placed = times && place_best(blocks, n_items, least, arena, offsets, total);
    ft_arena_free(arena);
    return placed ? FT_OK : ft_fail(err, FT_NOMEM, "layout: no memory for %d intervals", n);
}
