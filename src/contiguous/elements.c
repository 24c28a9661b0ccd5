/* contiguous/elements.c - what a contiguous partition moves as one. */
#include <stdlib.h>
#include <string.h>

#include "contiguous/elements.h"

typedef struct arc {
    int from, to;
} arc;

typedef struct grouping {
    const ft_ground *g;
    arc *arcs; /* between units */
    int n_arcs;
    int *of;      /* by unit: a number of its group */
    bool *orphan; /* by unit: it has backward nodes only */
} grouping;

static int compare_arcs(const void *left, const void *right)
{
    const arc *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

/* Order among units: that of their forward nodes. Units that only have backward nodes are ordered
 * as if these were mirrored: what runs later in the backward pass stands earlier. */
static void collect_arcs(grouping *x)
{
    const ft_ground *g = x->g;
    const ft_partition_problem *p = g->problem;
    for (int u = 0; u < g->n_units; u++)
        x->orphan[u] = g->rank[g->unit_nodes[g->unit_first[u]]] >= g->n_forward;
    for (int e = 0; e < p->n_edges; e++) {
        int from = p->edge_from[e], to = p->edge_to[e];
        int a = g->unit[from], b = g->unit[to];
        bool back_from = g->rank[from] >= g->n_forward, back_to = g->rank[to] >= g->n_forward;
        if (a == b) continue;
        if (!back_from && !back_to)
            x->arcs[x->n_arcs++] = (arc){a, b};
        else if (back_from && back_to && (x->orphan[a] || x->orphan[b]))
            x->arcs[x->n_arcs++] = (arc){b, a};
    }
}

/* -- cycles ------------------------------------------------------------------------------------ */

typedef struct tarjan {
    const int *first, *next;
    int *index, *low, *stack, *call, *at, *component;
    int n_index, n_stack, n_components;
} tarjan;

static void close_component(tarjan *t, int node)
{
    int top;
    do {
        top = t->stack[--t->n_stack];
        t->component[top] = t->n_components;
    } while (top != node);
    t->n_components++;
}

/* Strongly connected components (Tarjan 1972), without recursion. */
static void visit(tarjan *t, int root)
{
    int depth = 0;
    t->call[0] = root;
    t->at[root] = t->first[root];
    t->index[root] = t->low[root] = ++t->n_index;
    t->stack[t->n_stack++] = root;
    while (depth >= 0) {
        int node = t->call[depth];
        if (t->at[node] < t->first[node + 1]) {
            int next = t->next[t->at[node]++];
            if (!t->index[next]) {
                t->index[next] = t->low[next] = ++t->n_index;
                t->stack[t->n_stack++] = next;
                t->at[next] = t->first[next];
                t->call[++depth] = next;
            } else if (t->component[next] < 0 && t->index[next] < t->low[node])
                t->low[node] = t->index[next];
            continue;
        }
        if (t->low[node] == t->index[node]) close_component(t, node);
        depth--;
        if (depth >= 0 && t->low[node] < t->low[t->call[depth]])
            t->low[t->call[depth]] = t->low[node];
    }
}

/* CSR of arcs between the groups of `of`, without loops and doubles. */
static bool index_arcs(grouping *x, int n, int **first_out, int **list_out)
{
    arc *arcs = ft_arena_array(x->g->arena, x->n_arcs + 1, sizeof *arcs);
    int *first = ft_arena_array(x->g->arena, n + 2, sizeof *first);
    int *list = ft_arena_array(x->g->arena, x->n_arcs + 1, sizeof *list);
    if (!arcs || !first || !list) return false;
    int m = 0, kept = 0;
    for (int i = 0; i < x->n_arcs; i++) {
        arc a = {x->of[x->arcs[i].from], x->of[x->arcs[i].to]};
        if (a.from != a.to) arcs[m++] = a;
    }
    qsort(arcs, (size_t)m, sizeof *arcs, compare_arcs);
    for (int i = 0; i < m; i++) {
        if (i && !compare_arcs(&arcs[i], &arcs[i - 1])) continue;
        first[arcs[i].from + 1]++;
        list[kept++] = arcs[i].to;
    }
    for (int i = 0; i < n; i++) first[i + 1] += first[i];
    *first_out = first;
    *list_out = list;
    return true;
}

static bool fuse_cycles(grouping *x, int *n_groups)
{
    const ft_ground *g = x->g;
    int n = *n_groups;
    int *first, *list;
    if (!index_arcs(x, n, &first, &list)) return false;
    int *space = ft_arena_array(g->arena, 6 * (int64_t)n, sizeof *space);
    if (!space) return false;
    tarjan t = {.first = first,
                .next = list,
                .index = space,
                .low = space + n,
                .stack = space + 2 * n,
                .call = space + 3 * n,
                .at = space + 4 * n,
                .component = space + 5 * n};
    for (int i = 0; i < n; i++) t.component[i] = -1;
    for (int i = 0; i < n; i++)
        if (!t.index[i]) visit(&t, i);
    /* components are numbered from the last one on: turned round, numbers are topological */
    for (int u = 0; u < g->n_units; u++) x->of[u] = t.n_components - 1 - t.component[x->of[u]];
    *n_groups = t.n_components;
    return true;
}

/* -- units that cost nothing ------------------------------------------------------------------- */

/* Bytes may keep it from its neighbour's device only where everything does not fit on one. */
static bool costs_nothing(const ft_ground *g, int unit)
{
    const ft_load *w = &g->weight[unit];
    for (int k = 0; k < g->problem->n_kinds; k++)
        if (w->ns[k] > 0) return false;
    return true;
}

/* Moves groups that cost nothing and have one neighbour into it; returns whether any was. */
static bool absorb(grouping *x, int n, const bool *free_group, int *neighbour, int *into)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        neighbour[i] = -1;
        into[i] = i;
    }
    for (int i = 0; i < x->n_arcs; i++) {
        int ends[2] = {x->of[x->arcs[i].from], x->of[x->arcs[i].to]};
        for (int side = 0; side < 2 && ends[0] != ends[1]; side++) {
            int *known = &neighbour[ends[side]], other = ends[!side];
            *known = *known == -1 || *known == other ? other : -2;
        }
    }
    for (int i = 0; i < n; i++) {
        int to = neighbour[i];
        if (!free_group[i] || to < 0 || into[i] != i || into[to] != to) continue;
        into[i] = to;
        neighbour[to] = -2; /* it does not move in this round */
        any = true;
    }
    for (int u = 0; u < x->g->n_units; u++) x->of[u] = into[x->of[u]];
    return any;
}

static bool absorb_free(grouping *x, int *n_groups)
{
    const ft_ground *g = x->g;
    bool *free_group = ft_arena_array(g->arena, *n_groups, sizeof *free_group);
    int *neighbour = ft_arena_array(g->arena, *n_groups, sizeof *neighbour);
    int *into = ft_arena_array(g->arena, *n_groups, sizeof *into);
    if (!free_group || !neighbour || !into) return false;
    do {
        memset(free_group, true, (size_t)*n_groups);
        for (int u = 0; u < g->n_units; u++)
            if (!costs_nothing(g, u)) free_group[x->of[u]] = false;
    } while (absorb(x, *n_groups, free_group, neighbour, into));
    return fuse_cycles(x, n_groups); /* also numbers the groups again */
}

/* fuse_cycles numbers groups that are no more too: close the gaps, in order. */
static int close_gaps(grouping *x, int n, int *number)
{
    int kept = 0;
    for (int i = 0; i < n; i++) number[i] = -1;
    for (int u = 0; u < x->g->n_units; u++) number[x->of[u]] = 0;
    for (int i = 0; i < n; i++)
        if (number[i] == 0) number[i] = kept++;
    for (int u = 0; u < x->g->n_units; u++) x->of[u] = number[x->of[u]];
    return kept;
}

/* Whether everything fits on any one device. */
static bool memory_is_ample(const ft_ground *g)
{
    ft_load all = {.out = 0};
    bool ample = true;
    for (int u = 0; u < g->n_units; u++) {
        all.fixed += g->weight[u].fixed;
        all.saved += g->weight[u].saved;
    }
    for (int d = 0; d < g->problem->n_devices; d++)
        ample &= ft_load_fits(g, &all, d, g->problem->in_flight > 1 ? g->problem->in_flight : 1);
    return ample;
}

bool ft_elements_make(const ft_ground *g, ft_elements *out)
{
    int n = g->n_units;
    grouping x = {.g = g};
    x.arcs = ft_arena_array(g->arena, g->problem->n_edges + 1, sizeof *x.arcs);
    x.of = ft_arena_array(g->arena, n, sizeof *x.of);
    x.orphan = ft_arena_array(g->arena, n, sizeof *x.orphan);
    int *number = ft_arena_array(g->arena, n, sizeof *number);
    if (!x.arcs || !x.of || !x.orphan || !number) return false;
    for (int u = 0; u < n; u++) x.of[u] = u;
    collect_arcs(&x);
    bool kept_apart = g->problem->pin || g->problem->n_forbids || g->options->in_order;
    if (!fuse_cycles(&x, &n)) return false;
    if (!kept_apart && memory_is_ample(g) && !absorb_free(&x, &n)) return false;
    n = close_gaps(&x, n, number);
    *out = (ft_elements){.n = n, .of = x.of};
    out->first = ft_arena_array(g->arena, n + 2, sizeof *out->first);
    out->list = ft_arena_array(g->arena, g->n_units, sizeof *out->list);
    if (!out->first || !out->list) return false;
    for (int u = 0; u < g->n_units; u++) out->first[x.of[u] + 2]++;
    for (int i = 2; i <= n; i++) out->first[i] += out->first[i - 1];
    for (int u = 0; u < g->n_units; u++) out->list[out->first[x.of[u] + 1]++] = u;
    if (!index_arcs(&x, n, &out->next_first, &out->next)) return false;
    for (int i = 0; i < x.n_arcs; i++) x.arcs[i] = (arc){x.arcs[i].to, x.arcs[i].from};
    return index_arcs(&x, n, &out->back_first, &out->back);
}

ft_dag ft_elements_dag(const ft_elements *e)
{
    return (ft_dag){e->n, e->next_first, e->next, e->back_first, e->back};
}
