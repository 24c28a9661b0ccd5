/* sentencepiece/piece_trie.c - a trie of pieces that takes one step a byte.
 *
 * A double array (Aoe, IEEE Transactions on Software Engineering 15(9), 1989), filled block by
 * block: the bases of nodes are looked for where there is room, and not for long. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sentencepiece/spm_file.h"

enum { FREE = -1, ROOT = -2, NO_PIECE = -1, BLOCK = 256, MAX_NODES = 1 << 24 };

void ft_piece_trie_fini(ft_piece_trie *t)
{
    ft_free(t->nodes);
    *t = (ft_piece_trie){0};
}

static bool add_block(ft_piece_trie *t)
{
    int64_t n = t->n + BLOCK;
    ft_piece_node *nodes = n <= MAX_NODES ? ft_realloc(t->nodes, n * (int64_t)sizeof *nodes) : NULL;
    if (!nodes) return false;
    for (int64_t i = t->n; i < n; i++) nodes[i] = (ft_piece_node){0, FREE, NO_PIECE};
    t->nodes = nodes;
    t->n = n;
    return true;
}

/* Pieces [from, to) in order of their bytes, which begin with the same `depth` and lead to `node`.
 */
typedef struct stretch {
    int64_t node;
    int from, to;
    int64_t depth;
} stretch;

/* The end of the pieces from `from` on that have the same next byte. */
static int same_byte(const ft_scored_piece *pieces, const stretch *all, int from)
{
    int to = from + 1;
    unsigned char c = pieces[from].text.data[all->depth];
    while (to < all->to && pieces[to].text.data[all->depth] == c) to++;
    return to;
}

/* The bytes that lead on from a node. */
typedef struct steps {
    unsigned char bytes[BLOCK];
    int n;
} steps;

static steps find_steps(const ft_scored_piece *pieces, const stretch *all)
{
    steps found = {.n = 0};
    for (int i = all->from; i < all->to; i = same_byte(pieces, all, i))
        found.bytes[found.n++] = pieces[i].text.data[all->depth];
    return found;
}

/* Whether the nodes that they lead to are free from this base. */
static bool base_fits(const ft_piece_trie *t, const steps *from, int64_t base)
{
    for (int i = 0; i < from->n; i++) {
        int64_t at = base ^ from->bytes[i];
        if (t->nodes[at].parent != FREE) return false;
    }
    return true;
}

/* Where bases are looked for: in a few blocks from `open` on, then in the last one. A block that
 * was of no use so often is closed. */
typedef struct search {
    int64_t open;
    int failures;
} search;

static int64_t find_base(ft_piece_trie *t, const steps *from, search *where)
{
    enum { MAX_FAILURES = 4, NEAR = 8 };
    for (int64_t base = where->open * BLOCK;; base++) {
        if (base == (where->open + NEAR) * BLOCK && base < t->n - BLOCK) base = t->n - BLOCK;
        if (base == t->n && !add_block(t)) return -1;
        if (base_fits(t, from, base)) return base;
        if (base % BLOCK == BLOCK - 1 && base / BLOCK == where->open &&
            ++where->failures == MAX_FAILURES)
            *where = (search){.open = where->open + 1};
    }
}

/* Enters the nodes behind one node; the stretches that they have go to `list`. */
static void enter(ft_piece_trie *t, const ft_scored_piece *pieces, stretch all, int64_t base,
                  stretch *list, int64_t *n)
{
    t->nodes[all.node].base = (uint32_t)base;
    for (int i = all.from, to; i < all.to; i = to) {
        int64_t at = base ^ pieces[i].text.data[all.depth];
        to = same_byte(pieces, &all, i);
        t->nodes[at].parent = (int32_t)all.node;
        stretch next = {at, i, to, all.depth + 1};
        for (; next.from < to && pieces[next.from].text.size == next.depth; next.from++)
            t->nodes[at].id = pieces[next.from].id;
        if (next.from < to) list[(*n)++] = next;
    }
}

static int compare_pieces(const void *a, const void *b)
{
    const ft_scored_piece *x = a, *y = b;
    int64_t n = x->text.size < y->text.size ? x->text.size : y->text.size;
    int order = n ? memcmp(x->text.data, y->text.data, (size_t)n) : 0;
    if (order == 0) order = (x->text.size > y->text.size) - (x->text.size < y->text.size);
    return order ? order : x->id - y->id; /* of equal ones the last is found */
}

bool ft_piece_trie_make(ft_piece_trie *t, ft_scored_piece *pieces, int n_pieces)
{
    /* Stretches that wait have no piece in common. */
    stretch *list = ft_alloc((n_pieces + 1) * (int64_t)sizeof *list);
    int64_t n = 0;
    search where = {0};
    bool fits = list && add_block(t);
    qsort(pieces, (size_t)n_pieces, sizeof *pieces, compare_pieces);
    if (fits) t->nodes[0].parent = ROOT;
    if (fits && n_pieces > 0) list[n++] = (stretch){0, 0, n_pieces, 0};
    while (fits && n > 0) {
        stretch all = list[--n];
        steps from = find_steps(pieces, &all);
        int64_t base = find_base(t, &from, &where);
        fits = base >= 0;
        if (fits) enter(t, pieces, all, base, list, &n);
    }
    ft_free(list);
    return fits;
}
