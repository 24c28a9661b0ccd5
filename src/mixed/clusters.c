/* mixed/clusters.c - units that are moved together: coarsening by matching.
 *
 * A placement whose stages are not limited may be of any shape, so that clusters need not be
 * intervals of an order. The rating is that of multilevel partitioning: what a pair shares, over
 * the product of its work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mixed/clusters.h"

enum { WIDEST_NET = 32, FEWEST_FOR_A_DEVICE = 2 };

typedef struct matcher {
    const ft_ground *g;
    int n;        /* clusters */
    int *of;      /* by unit */
    double *work; /* by cluster */
    int *mate, *turn;
    double *shared; /* by cluster: with the one that is looked at */
    int *near;      /* clusters that share something with it */
} matcher;

static int compare_work(const void *left, const void *right, void *context)
{
    const double *work = context;
    int a = *(const int *)left, b = *(const int *)right;
    if (work[a] != work[b]) return work[a] < work[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* Fills `near` and `shared` for the units of a cluster; returns how many are near. */
static int look_around(matcher *m, const int *units, int n_units, int cluster)
{
    const ft_ground *g = m->g;
    int n_near = 0;
    for (int i = 0; i < n_units; i++)
        for (int k = g->pins_first[units[i]]; k < g->pins_first[units[i] + 1]; k++) {
            const ft_net *v = &g->nets[g->pins[k].net];
            if (v->n_units > WIDEST_NET) continue;
            double bytes = 1 + (double)(v->bytes + v->grad_bytes);
            for (int j = 0; j < v->n_units; j++) {
                int other = m->of[v->units[j]];
                if (other == cluster) continue;
                if (m->shared[other] == 0) m->near[n_near++] = other;
                m->shared[other] += bytes / (v->n_units - 1);
            }
        }
    return n_near;
}

static void match(matcher *m, const int *first, const int *list, double mean)
{
    for (int i = 0; i < m->n; i++) m->mate[i] = -1, m->turn[i] = i;
    qsort_r(m->turn, (size_t)m->n, sizeof *m->turn, compare_work, m->work);
    for (int i = 0; i < m->n; i++) {
        int c = m->turn[i], best = -1;
        double most = 0;
        if (m->mate[c] >= 0) continue;
        int n_near = look_around(m, &list[first[c]], first[c + 1] - first[c], c);
        for (int k = 0; k < n_near; k++) {
            int other = m->near[k];
            double rating = m->shared[other] / ((mean + m->work[c]) * (mean + m->work[other]));
            m->shared[other] = 0;
            if (m->mate[other] >= 0 || !(rating > most)) continue;
            most = rating;
            best = other;
        }
        if (best < 0) continue;
        m->mate[c] = best;
        m->mate[best] = c;
    }
}

/* Numbers pairs as one; fills the next level. */
static bool next_level(matcher *m, clusters *out, int *number)
{
    const ft_ground *g = m->g;
    int n = 0, level = out->n_levels;
    for (int c = 0; c < m->n; c++)
        number[c] = m->mate[c] >= 0 && m->mate[c] < c ? number[m->mate[c]] : n++;
    int *of = ft_arena_array(g->arena, g->n_units, sizeof *of);
    int *first = ft_arena_array(g->arena, n + 2, sizeof *first);
    int *list = ft_arena_array(g->arena, g->n_units, sizeof *list);
    if (!of || !first || !list) return false;
    memset(m->work, 0, (size_t)m->n * sizeof *m->work);
    for (int u = 0; u < g->n_units; u++) {
        of[u] = number[m->of[u]];
        first[of[u] + 2]++;
        m->work[of[u]] += g->work[u];
    }
    for (int c = 2; c <= n; c++) first[c] += first[c - 1];
    for (int u = 0; u < g->n_units; u++) list[first[of[u] + 1]++] = u;
    out->of[level] = m->of = of;
    out->first[level] = first;
    out->list[level] = list;
    out->n_levels++;
    m->n = n;
    return true;
}

bool clusters_make(const ft_ground *g, clusters *out)
{
    matcher m = {.g = g, .n = g->n_units};
    int n = g->n_units;
    double total = 0;
    *out = (clusters){0};
    int *space = ft_arena_array(g->arena, 7 * (int64_t)n + 1, sizeof *space);
    m.work = ft_arena_array(g->arena, 2 * (int64_t)n, sizeof *m.work);
    if (!space || !m.work) return false;
    m.shared = m.work + n;
    m.of = space;
    m.mate = space + n;
    m.turn = space + 2 * n;
    m.near = space + 3 * n;
    int *number = space + 4 * n, *list = space + 5 * n, *first = space + 6 * n;
    for (int u = 0; u < n; u++) {
        m.of[u] = list[u] = first[u] = u;
        m.work[u] = g->work[u];
        total += g->work[u];
    }
    first[n] = n;
    while (out->n_levels < MOST_LEVELS && m.n > FEWEST_FOR_A_DEVICE * g->problem->n_devices) {
        int before = m.n;
        match(&m, first, list, 1 + total / before);
        if (!next_level(&m, out, number)) return false;
        first = out->first[out->n_levels - 1];
        list = out->list[out->n_levels - 1];
        if (m.n * 20 > before * 19) break;
    }
    return true;
}
