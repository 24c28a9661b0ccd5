/* tokens/merges.c - byte-pair merging.
 *
 * The ids of a word are a linked list; a binary heap holds the pairs that can be put together, by
 * rank and then by position. A pair that has changed since it was put there is found out when it
 * comes up, and skipped. So a word of n bytes costs O(n log n), however long it is. */
#include <string.h>

#include "base/alloc.h"
#include "tokens/internal.h"

typedef struct ft_symbol {
    int32_t id, previous, next; /* positions, or -1; id FT_NO_ID: swallowed by its left neighbour */
} ft_symbol;

/* -- the table of pairs ----------------------------------------------------------------------- */

static uint64_t pair_hash(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return key * UINT64_C(0x9E3779B97F4A7C15) >> 24; /* Fibonacci hashing */
}

/* The slot of the pair, or the free one where it belongs; there are slots. */
static ft_merge *probe(const ft_merges *merges, int32_t left, int32_t right)
{
    uint64_t mask = (uint64_t)merges->n_slots - 1;
    for (uint64_t i = pair_hash(left, right) & mask;; i = (i + 1) & mask) {
        ft_merge *slot = &merges->slots[i];
        if (slot->left == FT_NO_ID || (slot->left == left && slot->right == right)) return slot;
    }
}

static bool grow(ft_merges *merges)
{
    ft_merges bigger = {.n_slots = merges->n_slots ? 2 * merges->n_slots : 1024, .n = merges->n};
    bigger.slots = ft_alloc(bigger.n_slots * (int64_t)sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (int64_t i = 0; i < bigger.n_slots; i++) bigger.slots[i].left = FT_NO_ID;
    for (int64_t i = 0; i < merges->n_slots; i++) {
        const ft_merge *merge = &merges->slots[i];
        if (merge->left != FT_NO_ID) *probe(&bigger, merge->left, merge->right) = *merge;
    }
    ft_free(merges->slots);
    *merges = bigger;
    return true;
}

bool ft_merges_add(ft_merges *merges, int32_t left, int32_t right, int32_t whole)
{
    if (2 * ((int64_t)merges->n + 1) > merges->n_slots && !grow(merges)) return false;
    ft_merge *slot = probe(merges, left, right);
    if (slot->left == FT_NO_ID) *slot = (ft_merge){left, right, merges->n, whole};
    merges->n++;
    return true;
}

void ft_merges_fini(ft_merges *merges)
{
    ft_free(merges->slots);
    *merges = (ft_merges){0};
}

/* -- merging ---------------------------------------------------------------------------------- */

void ft_merge_space_fini(ft_merge_space *space)
{
    ft_free(space->symbols);
    ft_free(space->heap);
    *space = (ft_merge_space){0};
}

static bool push(ft_merge_space *space, uint64_t key)
{
    if (space->n_heap >= space->room_heap) {
        int64_t room = 2 * space->n_heap + 64;
        uint64_t *heap = ft_realloc(space->heap, room * (int64_t)sizeof *heap);
        if (!heap) return false;
        space->heap = heap;
        space->room_heap = room;
    }
    int64_t i = space->n_heap++;
    for (; i > 0 && space->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        space->heap[i] = space->heap[(i - 1) / 2];
    space->heap[i] = key;
    return true;
}

static uint64_t pop(ft_merge_space *space)
{
    uint64_t least = space->heap[0], key = space->heap[--space->n_heap];
    int64_t i = 0, n = space->n_heap;
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && space->heap[child + 1] < space->heap[child]) child++;
        if (space->heap[child] >= key) break;
        space->heap[i] = space->heap[child];
    }
    space->heap[i] = key;
    return least;
}

/* The merge of the symbol at `at` with the next one, NULL when there is none. */
static const ft_merge *merge_at(const ft_merges *merges, const ft_symbol *symbols, int32_t at)
{
    if (symbols[at].id == FT_NO_ID || symbols[at].next < 0) return NULL;
    const ft_merge *slot = probe(merges, symbols[at].id, symbols[symbols[at].next].id);
    return slot->left == FT_NO_ID ? NULL : slot;
}

static bool offer(const ft_merges *merges, ft_merge_space *space, int32_t at)
{
    const ft_merge *merge = at < 0 ? NULL : merge_at(merges, space->symbols, at);
    return !merge || push(space, (uint64_t)(uint32_t)merge->rank << 32 | (uint32_t)at);
}

static bool begin(const ft_merges *merges, ft_merge_space *space, const int32_t *ids, int64_t n)
{
    if (n > space->room_symbols) {
        int64_t room = n < 64 ? 64 : n;
        ft_symbol *symbols = ft_realloc(space->symbols, room * (int64_t)sizeof *symbols);
        if (!symbols) return false;
        space->symbols = symbols;
        space->room_symbols = room;
    }
    space->n_heap = 0;
    for (int32_t i = 0; i < n; i++)
        space->symbols[i] = (ft_symbol){ids[i], i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < n; i++)
        if (!offer(merges, space, i)) return false;
    return true;
}

int64_t ft_merges_apply(const ft_merges *merges, ft_merge_space *space, int32_t *ids, int64_t n)
{
    if (n < 2 || !merges->n_slots) return n;
    if (!begin(merges, space, ids, n)) return -1;
    ft_symbol *symbols = space->symbols;
    while (space->n_heap > 0) {
        uint64_t key = pop(space);
        int32_t at = (int32_t)(uint32_t)key, swallowed = symbols[at].next;
        const ft_merge *merge = merge_at(merges, symbols, at);
        if (!merge || (uint64_t)(uint32_t)merge->rank != key >> 32) continue;
        symbols[at].id = merge->whole;
        symbols[at].next = symbols[swallowed].next;
        symbols[swallowed].id = FT_NO_ID;
        if (symbols[at].next >= 0) symbols[symbols[at].next].previous = at;
        if (!offer(merges, space, symbols[at].previous) || !offer(merges, space, at)) return -1;
    }
    int64_t left = 0;
    for (int32_t i = 0; i >= 0; i = symbols[i].next) ids[left++] = symbols[i].id;
    return left;
}
