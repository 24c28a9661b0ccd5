/* contiguous/pack.c - packs for devices that hold one stage at a time and keep the others in host
 * memory: contiguous, of equal time, as few as fit, dealt to the devices in turn.
 *
 * The rule is that of Harmony (Li et al., "Harmony: Overcoming the Hurdles of GPU Memory Capacity
 * to Train Massive DNN Models on Commodity Servers", VLDB 2022): of S packs, pack k begins with the
 * first layer at whose end k / S of the time has passed. Where no S gives packs that fit, each is
 * filled as far as memory goes, which succeeds whenever every layer fits by itself. */
#include <math.h>

#include "base/text.h"
#include "contiguous/contiguous.h"
#include "contiguous/elements.h"

typedef struct packer {
    ft_ground *g;
    ft_elements e;
    double *time_before; /* by element, itself included: time of all up to it */
    int64_t most;        /* bytes a pack may have */
    int *held;           /* see ft_load_change */
    int *pack;           /* by element */
    int *unit_stage;     /* by unit */
} packer;

static int64_t smallest_memory(const ft_partition_problem *p)
{
    int64_t least = INT64_MAX;
    for (int d = 0; d < p->n_devices; d++)
        if (p->devices[d].memory_bytes && p->devices[d].memory_bytes < least)
            least = p->devices[d].memory_bytes;
    return least;
}

static bool packer_new(packer *x, ft_ground *g)
{
    *x = (packer){.g = g, .most = smallest_memory(g->problem)};
    if (!ft_elements_make(g, &x->e)) return false;
    x->time_before = ft_arena_array(g->arena, x->e.n, sizeof *x->time_before);
    x->held = ft_arena_array(g->arena, g->n_nets + 1, sizeof *x->held);
    x->pack = ft_arena_array(g->arena, x->e.n, sizeof *x->pack);
    x->unit_stage = ft_arena_array(g->arena, g->n_units, sizeof *x->unit_stage);
    if (!x->time_before || !x->held || !x->pack || !x->unit_stage) return false;
    double total = 0;
    int kind = g->problem->devices[0].kind;
    for (int i = 0; i < x->e.n; i++) {
        for (int at = x->e.first[i]; at < x->e.first[i + 1]; at++)
            total += g->weight[x->e.list[at]].ns[kind];
        x->time_before[i] = total;
    }
    return true;
}

static void change_element(packer *x, ft_load *sums, int element, int sign)
{
    for (int at = x->e.first[element]; at < x->e.first[element + 1]; at++)
        ft_load_change(x->g, sums, x->held, x->e.list[at], sign);
}

/* Bytes of elements [begin, end) as one pack. */
static int64_t range_bytes(packer *x, int begin, int end)
{
    ft_load sums = {.out = 0}, discarded = {.out = 0};
    for (int i = begin; i < end; i++) change_element(x, &sums, i, 1);
    for (int i = begin; i < end; i++) change_element(x, &discarded, i, -1);
    return ft_pack_bytes(&sums);
}

/* n packs of equal time; false when one is empty or too large. */
static bool pack_equally(packer *x, int n)
{
    int begin = 0, end = 0;
    double share = x->time_before[x->e.n - 1] / n;
    for (int k = 1; k <= n; k++, begin = end) {
        while (end < x->e.n && (k == n || x->time_before[end] < k * share)) end++;
        if (end == begin || range_bytes(x, begin, end) > x->most) return false;
        for (int i = begin; i < end; i++) x->pack[i] = k - 1;
    }
    return true;
}

/* Fills pack after pack; false, with the element, when one is too large by itself. */
static bool pack_greedily(packer *x, int *culprit)
{
    int n = 0;
    for (int begin = 0, end; begin < x->e.n; begin = end, n++) {
        ft_load sums = {.out = 0}, discarded = {.out = 0};
        for (end = begin; end < x->e.n; end++) {
            change_element(x, &sums, end, 1);
            if (ft_pack_bytes(&sums) > x->most) break;
            x->pack[end] = n;
        }
        for (int i = begin; i <= end && i < x->e.n; i++) change_element(x, &discarded, i, -1);
        *culprit = begin;
        if (end == begin) return false;
    }
    return true;
}

static bool find_packs(packer *x, int *culprit)
{
    const ft_partition_options *o = x->g->options;
    double total = 0;
    for (int u = 0; u < x->g->n_units; u++)
        total += (double)(x->g->weight[u].fixed + x->g->weight[u].saved);
    double least = fmin(fmax(1, ceil(total / (double)x->most)), x->e.n);
    int first = o->blocks ? o->blocks : (int)least;
    int last = o->blocks ? o->blocks : x->e.n;
    for (int n = first; n <= last; n++)
        if (pack_equally(x, n)) return true;
    *culprit = -1;
    return !o->blocks && pack_greedily(x, culprit);
}

static ft_status no_packs(const packer *x, int culprit, ft_error *err)
{
    const ft_ground *g = x->g;
    char name[96];
    if (culprit < 0)
        return ft_fail(err, FT_INFEASIBLE, "partition: no %d packs of equal time fit in %s each",
                       g->options->blocks, ft_text_of_bytes(x->most).text);
    ft_ground_name(g, g->unit_nodes[g->unit_first[x->e.list[x->e.first[culprit]]]], name);
    return ft_fail(err, FT_INFEASIBLE,
                   "partition: %s with the values it needs is larger than the smallest device, "
                   "which has %s",
                   name, ft_text_of_bytes(x->most).text);
}

/* Packs go to devices in turn. */
static ft_status deal(const packer *x, int *unit_device, int *stage_of, int *n_stages,
                      ft_error *err)
{
    const ft_ground *g = x->g;
    char name[96];
    *n_stages = x->pack[x->e.n - 1] + 1;
    for (int u = 0; u < g->n_units; u++) {
        int stage = x->pack[x->e.of[u]];
        unit_device[u] = stage % g->problem->n_devices;
        if (!ft_ground_allows(g, u, unit_device[u]))
            return ft_fail(err, FT_INFEASIBLE,
                           "partition: stage %d is for device %d in turn, where %s may not be",
                           stage, unit_device[u],
                           ft_ground_name(g, g->unit_nodes[g->unit_first[u]], name));
        for (int at = g->unit_first[u]; at < g->unit_first[u + 1]; at++)
            stage_of[g->unit_nodes[at]] = stage;
    }
    return FT_OK;
}

ft_status ft_solve_pack(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    packer x;
    int culprit = -1, n_stages;
    if (!g->problem->swaps)
        return ft_fail(err, FT_INVALID,
                       "partition: pack is for devices that swap; give the problem swaps = "
                       "true, or take another method");
    if (!packer_new(&x, g)) return ft_ground_no_memory(g, err);
    int *unit_device = ft_arena_array(g->arena, g->n_units, sizeof *unit_device);
    int *stage_of = ft_arena_array(g->arena, g->n, sizeof *stage_of);
    if (!unit_device || !stage_of) return ft_ground_no_memory(g, err);
    if (!find_packs(&x, &culprit)) return no_packs(&x, culprit, err);
    FT_TRY(deal(&x, unit_device, stage_of, &n_stages, err));
    return ft_result_make(g, unit_device, stage_of, result, err);
}
