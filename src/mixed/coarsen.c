/* mixed/coarsen.c - a topological order cut into blocks.
 *
 * Every rule starts with one interval for each unit and merges neighbours, those under the greatest
 * pressure first, until as many are left as are wanted. What the rules are after is that of
 * Mixed-pipe's coarsening (Eliad et al., "FTPipe", USENIX ATC 2021, section 4); intervals of an
 * order make each merge acyclic without a search. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contiguous/orders.h"
#include "mixed/placing.h"

/* -- rules: the pressure to merge neighbours i and i + 1, the highest goes first --------------- */

/* What sends longer than it works has to grow until its work covers that. */
static double uncovered(const sequence *s, int i)
{
    return s->cut_ns[i] - s->ns[i];
}

static double heavy_edge(const sequence *s, int i)
{
    return s->cut_ns[i];
}

static double smallest(const sequence *s, int i)
{
    return -fmin(s->ns[i], s->ns[i + 1]);
}

/* Equal work, as far as one pass can tell. */
static double balanced(const sequence *s, int i)
{
    return -(s->ns[i] + s->ns[i + 1]);
}

/* Equal numbers of units that do something, around centers at equal distances. */
static double centers(const sequence *s, int i)
{
    return -(double)(s->count[i] + s->count[i + 1]);
}

/* Rating of matchings in multilevel partitioning: heavy edges between light nodes. */
static double matching(const sequence *s, int i)
{
    return s->cut_ns[i] * s->cut_ns[i] / (1 + s->ns[i] * s->ns[i + 1]);
}

static double (*const rules[])(const sequence *s, int i) = {
    smallest, centers, balanced, uncovered, heavy_edge, matching,
};

enum { N_RULES = sizeof rules / sizeof *rules };

int coarsen_rules(void)
{
    return N_RULES;
}

/* -- orders ------------------------------------------------------------------------------------ */

/* Units where the first of their forward nodes stands; units that only have backward nodes last. */
bool order_units(const ft_ground *g, uint64_t rule, int *order)
{
    const ft_dag d = {g->n, g->next_first, g->next, g->back_first, g->back};
    int *nodes = ft_arena_array(g->arena, g->n, sizeof *nodes), n = 0;
    bool *done = ft_arena_array(g->arena, g->n_units, sizeof *done);
    if (!nodes || !done || !ft_dag_order(g->arena, &d, g->options->seed, rule, nodes)) return false;
    for (int i = 0; i < g->n; i++) {
        int unit = g->unit[nodes[i]];
        if (g->rank[nodes[i]] >= g->n_forward || done[unit]) continue;
        order[n++] = unit;
        done[unit] = true;
    }
    for (int u = 0; u < g->n_units; u++)
        if (!done[u]) order[n++] = u;
    return true;
}

/* -- merging ----------------------------------------------------------------------------------- */

static double unit_work(const ft_ground *g, int unit)
{
    return g->weight[unit].ns[0];
}

static bool sequence_new(sequence *s, const ft_ground *g, const int *order, int wanted)
{
    int n = g->n_units;
    *s = (sequence){.g = g, .n = n, .wanted = wanted, .n_units = n};
    s->ns = ft_arena_array(g->arena, n, sizeof *s->ns);
    s->cut_ns = ft_arena_array(g->arena, n + 1, sizeof *s->cut_ns);
    s->count = ft_arena_array(g->arena, n, sizeof *s->count);
    s->begin = ft_arena_array(g->arena, n + 1, sizeof *s->begin);
    int *place = ft_arena_array(g->arena, n, sizeof *place);
    if (!s->ns || !s->cut_ns || !s->count || !s->begin || !place) return false;
    double rate = 0;
    for (int d = 0; d < g->problem->n_devices; d++)
        if (g->problem->devices[d].bytes_per_s > 0) rate = g->problem->devices[d].bytes_per_s;
    for (int i = 0; i < n; i++) {
        place[order[i]] = i;
        s->begin[i] = i;
        s->ns[i] = unit_work(g, order[i]);
        s->count[i] = s->ns[i] > 0;
    }
    s->begin[n] = n;
    for (int v = 0; v < g->n_nets; v++) {
        int first = n, last = 0;
        for (int i = 0; i < g->nets[v].n_units; i++) {
            int at = place[g->nets[v].units[i]];
            first = at < first ? at : first;
            last = at > last ? at : last;
        }
        double ns = rate > 0 ? 1e9 * (double)(g->nets[v].bytes + g->nets[v].grad_bytes) / rate : 0;
        s->cut_ns[first] += ns;
        s->cut_ns[last] -= ns;
    }
    for (int i = 1; i < n; i++) s->cut_ns[i] += s->cut_ns[i - 1];
    return true;
}

static int compare_pressure(const void *left, const void *right, void *context)
{
    const double *pressure = context;
    int a = *(const int *)left, b = *(const int *)right;
    if (pressure[a] != pressure[b]) return pressure[a] > pressure[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* Removes the borders that `gone` marks. */
static void merge_marked(sequence *s, const bool *gone)
{
    int kept = 0;
    for (int i = 0; i < s->n; i++) {
        if (i && gone[i - 1]) {
            s->ns[kept - 1] += s->ns[i];
            s->count[kept - 1] += s->count[i];
            s->cut_ns[kept - 1] = s->cut_ns[i];
            continue;
        }
        s->ns[kept] = s->ns[i];
        s->count[kept] = s->count[i];
        s->cut_ns[kept] = s->cut_ns[i];
        s->begin[kept++] = s->begin[i];
    }
    s->begin[kept] = s->n_units;
    s->n = kept;
}

/* Merges an eighth of what is too many, and one by one in the end; first of all whatever does
 * nothing. An interval takes part in one merge a round. */
static void merge_round(sequence *s, int rule, double *pressure, int *by, bool *gone)
{
    int most = 1 + (s->n - s->wanted) / 8;
    for (int i = 0; i < s->n; i++) {
        by[i] = i;
        gone[i] = false;
        if (i + 1 == s->n) break;
        bool empty = s->ns[i] == 0 || s->ns[i + 1] == 0;
        pressure[i] = empty ? HUGE_VAL : rules[rule](s, i);
    }
    qsort_r(by, (size_t)(s->n - 1), sizeof *by, compare_pressure, pressure);
    for (int k = 0; k + 1 < s->n && most > 0; k++) {
        int i = by[k];
        if ((i && gone[i - 1]) || gone[i + 1]) continue;
        gone[i] = true;
        most--;
    }
    merge_marked(s, gone);
}

bool coarsen(const ft_ground *g, int rule, const int *order, int wanted, blocks *out)
{
    sequence s;
    int n = g->n_units;
    double *pressure = ft_arena_array(g->arena, n + 1, sizeof *pressure);
    int *by = ft_arena_array(g->arena, n + 1, sizeof *by);
    bool *gone = ft_arena_array(g->arena, n + 1, sizeof *gone);
    int *list = ft_arena_array(g->arena, n, sizeof *list);
    if (!pressure || !by || !gone || !list || !sequence_new(&s, g, order, wanted)) return false;
    memcpy(list, order, (size_t)n * sizeof *list);
    while (s.n > wanted) merge_round(&s, rule, pressure, by, gone);
    *out = (blocks){.n = s.n, .first = s.begin, .list = list};
    return true;
}
