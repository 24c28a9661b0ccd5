/* contiguous/lattice.c - the down-sets of a graph, enumerated. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "contiguous/lattice.h"

typedef struct finder {
    const ft_elements *e;
    int64_t most;
    int n, words;      /* sets found; 64-bit words of a set */
    int64_t room;      /* for sets */
    uint64_t *sets;    /* bits of set s: sets[s * words ...] */
    uint64_t *hashes;  /* by set */
    int *parent, *via; /* by set: the set it was first found from, and the element that it adds */
    uint64_t *keys;    /* by element: a random number; a set's hash is their exclusive or */
    int64_t n_slots;   /* a power of two */
    int *slots;        /* set + 1, or 0 */
    int *step_first, *step_element, *step_state;
    int64_t n_steps, step_room, first_room;
} finder;

static bool grow(void *array, int64_t *room, int64_t need, int64_t size)
{
    if (need <= *room) return true;
    int64_t more = need * 2 + 64;
    void **at = array;
    void *block = ft_realloc(*at, more * size);
    if (!block) return false;
    *at = block;
    *room = more;
    return true;
}

static void put_slot(finder *f, int set)
{
    int64_t at = (int64_t)(f->hashes[set] & (uint64_t)(f->n_slots - 1));
    while (f->slots[at]) at = (at + 1) & (f->n_slots - 1);
    f->slots[at] = set + 1;
}

static bool grow_table(finder *f)
{
    if (2 * (int64_t)(f->n + 1) < f->n_slots) return true;
    ft_free(f->slots);
    f->n_slots = f->n_slots ? f->n_slots * 4 : 1024;
    f->slots = ft_alloc(f->n_slots * (int64_t)sizeof *f->slots);
    if (!f->slots) return false;
    for (int s = 0; s < f->n; s++) put_slot(f, s);
    return true;
}

/* The set with one element more than set s; -1 when there is no memory. */
static int find_set(finder *f, int s, int element)
{
    int64_t words = f->words;
    if (!grow_table(f)) return -1;
    if (f->n + 1 >= f->room) {
        int64_t room = f->room * 2 + 1024;
        uint64_t *sets = ft_realloc(f->sets, room * words * 8);
        if (sets) f->sets = sets;
        uint64_t *hashes = sets ? ft_realloc(f->hashes, room * 8) : NULL;
        if (hashes) f->hashes = hashes;
        int *parent = hashes ? ft_realloc(f->parent, room * 4) : NULL;
        if (parent) f->parent = parent;
        int *via = parent ? ft_realloc(f->via, room * 4) : NULL;
        if (!via) return -1;
        f->via = via;
        f->room = room;
    }
    uint64_t *wanted = &f->sets[f->n * words];
    memcpy(wanted, &f->sets[s * words], (size_t)words * 8);
    wanted[element / 64] |= (uint64_t)1 << (element % 64);
    uint64_t hash = f->hashes[s] ^ f->keys[element];
    for (int64_t at = (int64_t)(hash & (uint64_t)(f->n_slots - 1)); f->slots[at];
         at = (at + 1) & (f->n_slots - 1)) {
        int known = f->slots[at] - 1;
        if (f->hashes[known] == hash && !memcmp(&f->sets[known * words], wanted, (size_t)words * 8))
            return known;
    }
    f->hashes[f->n] = hash;
    f->parent[f->n] = s;
    f->via[f->n] = element;
    put_slot(f, f->n);
    return f->n++;
}

static bool can_add(const finder *f, int s, int element)
{
    const uint64_t *set = &f->sets[(int64_t)s * f->words];
    if (set[element / 64] >> (element % 64) & 1) return false;
    for (int i = f->e->back_first[element]; i < f->e->back_first[element + 1]; i++)
        if (!(set[f->e->back[i] / 64] >> (f->e->back[i] % 64) & 1)) return false;
    return true;
}

static bool add_step(finder *f, int s, int element, bool *too_many)
{
    if (!can_add(f, s, element)) return true;
    int64_t room = f->step_room;
    if (!grow(&f->step_element, &room, f->n_steps + 1, sizeof(int)) ||
        !grow(&f->step_state, &f->step_room, f->n_steps + 1, sizeof(int)))
        return false;
    int to = find_set(f, s, element);
    if (to < 0) return false;
    f->step_element[f->n_steps] = element;
    f->step_state[f->n_steps++] = to;
    *too_many = f->n > f->most;
    return true;
}

/* Sets are found by size, as steps add one element: set s is looked at before what it leads to. */
static bool find_all(finder *f, bool *too_many)
{
    f->n = 1;
    if (!grow_table(f)) return false;
    put_slot(f, 0);
    for (int s = 0; s < f->n; s++) {
        if (!grow(&f->step_first, &f->first_room, s + 2, sizeof *f->step_first)) return false;
        f->step_first[s] = (int)f->n_steps;
        /* what its parent could add, but for the element it did add, and what that one released */
        int first = s ? f->step_first[f->parent[s]] : 0;
        int end = s ? f->step_first[f->parent[s] + 1] : f->e->n;
        for (int i = first; i < end && !*too_many; i++) {
            int x = s ? f->step_element[i] : i;
            if ((!s || x != f->via[s]) && !add_step(f, s, x, too_many)) return false;
        }
        for (int i = s ? f->e->next_first[f->via[s]] : 0;
             s && i < f->e->next_first[f->via[s] + 1] && !*too_many; i++)
            if (!add_step(f, s, f->e->next[i], too_many)) return false;
        if (*too_many) return true;
        f->step_first[s + 1] = (int)f->n_steps;
    }
    return true;
}

static bool copy_lattice(const ft_ground *g, const finder *f, lattice *out)
{
    *out = (lattice){.n = f->n, .n_elements = f->e->n, .words = f->words};
    out->sets = ft_arena_array(g->arena, (int64_t)f->n * f->words, 8);
    out->step_first = ft_arena_array(g->arena, f->n + 1, sizeof(int));
    out->step_element = ft_arena_array(g->arena, f->n_steps + 1, sizeof(int));
    out->step_state = ft_arena_array(g->arena, f->n_steps + 1, sizeof(int));
    if (!out->step_first || !out->step_element || !out->step_state || !out->sets) return false;
    memcpy(out->sets, f->sets, (size_t)f->n * (size_t)f->words * 8);
    memcpy(out->step_first, f->step_first, (size_t)(f->n + 1) * sizeof(int));
    if (!f->n_steps) return true;
    memcpy(out->step_element, f->step_element, (size_t)f->n_steps * sizeof(int));
    memcpy(out->step_state, f->step_state, (size_t)f->n_steps * sizeof(int));
    return true;
}

bool lattice_all(const ft_ground *g, const ft_elements *e, int64_t most, lattice *out,
                 bool *too_many)
{
    finder f = {.e = e, .most = most, .words = e->n / 64 + 1};
    ft_rng rng;
    ft_rng_init(&rng, 1, 0);
    *too_many = false;
    f.keys = ft_alloc((int64_t)e->n * 8);
    f.sets = ft_alloc((int64_t)f.words * 8 * 1024);
    f.hashes = ft_alloc((int64_t)8 * 1024);
    f.parent = ft_alloc((int64_t)4 * 1024);
    f.via = ft_alloc((int64_t)4 * 1024);
    f.room = 1024;
    bool ok = f.keys && f.sets && f.hashes && f.parent && f.via;
    for (int i = 0; ok && i < e->n; i++)
        f.keys[i] = (uint64_t)ft_rng_u32(&rng) << 32 | ft_rng_u32(&rng);
    ok = ok && find_all(&f, too_many);
    if (ok && !*too_many) ok = copy_lattice(g, &f, out);
    void *const blocks[] = {f.keys, f.sets,       f.hashes,       f.slots,     f.parent,
                            f.via,  f.step_first, f.step_element, f.step_state};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) ft_free(blocks[i]);
    return ok;
}

bool lattice_chain(const ft_ground *g, const ft_elements *e, const int *order, lattice *out)
{
    *out = (lattice){.n = e->n + 1, .n_elements = e->n};
    out->step_first = ft_arena_array(g->arena, e->n + 2, sizeof(int));
    out->step_element = ft_arena_array(g->arena, e->n + 1, sizeof(int));
    out->step_state = ft_arena_array(g->arena, e->n + 1, sizeof(int));
    out->place = ft_arena_array(g->arena, e->n + 1, sizeof(int));
    if (!out->step_first || !out->step_element || !out->step_state || !out->place) return false;
    for (int i = 0; i < e->n; i++) {
        out->step_first[i] = i;
        out->step_element[i] = order[i];
        out->step_state[i] = i + 1;
        out->place[order[i]] = i;
    }
    out->step_first[e->n] = out->step_first[e->n + 1] = e->n;
    return true;
}

bool lattice_holds(const lattice *l, int s, int element)
{
    if (!l->sets) return l->place[element] < s;
    return l->sets[(int64_t)s * l->words + element / 64] >> (element % 64) & 1;
}
