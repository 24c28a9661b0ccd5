/* mixed/greedy.c - contiguous stages for graphs of any size: a topological order divided at
 * random into equal work, and refined level by level, from long runs of the order to single
 * elements. A run may go to any stage between those that it depends on and those that depend on it,
 * which keeps the stages acyclic, and goes where the slower of the two devices gets faster. */
#include <math.h>
#include <string.h>

#include "contiguous/elements.h"
#include "mixed/anneal.h"
#include "mixed/mixed.h"

enum { GREEDY_RESTARTS = 8, LONGEST_RUN = 64, PASSES = 10 };

typedef struct greedy {
    const ft_ground *g;
    ft_elements e;
    placing p;
    int n_stages, *on;  /* devices of the stages */
    int *order, *stage; /* of elements */
    int *unit_device;
    incumbent best;
} greedy;

/* As many devices as there may be stages: the fastest ones, in their own order. */
static bool choose_devices(greedy *x)
{
    const ft_ground *g = x->g;
    int n = g->problem->n_devices, most = g->options->max_stages;
    if (!(x->on = ft_arena_array(g->arena, n, sizeof *x->on))) return false;
    for (int d = 0; d < n; d++) {
        int faster = 0;
        for (int other = 0; other < n; other++)
            faster += g->rate[other] > g->rate[d] || (g->rate[other] == g->rate[d] && other < d);
        if (!most || faster < most) x->on[x->n_stages++] = d;
    }
    return true;
}

static bool greedy_new(greedy *x, ft_ground *g)
{
    *x = (greedy){.g = g, .best = {.price = HUGE_VAL, .moved = INT64_MAX}};
    if (!ft_elements_make(g, &x->e) || !placing_new(&x->p, g) || !choose_devices(x)) return false;
    x->order = ft_arena_array(g->arena, x->e.n, sizeof *x->order);
    x->stage = ft_arena_array(g->arena, x->e.n, sizeof *x->stage);
    x->unit_device = ft_arena_array(g->arena, g->n_units, sizeof *x->unit_device);
    x->best.device = ft_arena_array(g->arena, g->n, sizeof *x->best.device);
    return x->order && x->stage && x->unit_device && x->best.device;
}

/* Stages of work in proportion to what their devices do in a ns, give or take a tenth. */
static void divide(greedy *x, ft_rng *rng)
{
    const ft_ground *g = x->g;
    int s = 0;
    double left = 0, rate = 0, work = 0;
    for (int u = 0; u < g->n_units; u++) left += g->work[u];
    for (int i = 0; i < x->n_stages; i++) rate += g->rate[x->on[i]];
    double wanted = rate > 0 ? left * g->rate[x->on[0]] / rate : 0;
    for (int at = 0; at < x->e.n; at++) {
        int element = x->order[at];
        double own = 0;
        for (int i = x->e.first[element]; i < x->e.first[element + 1]; i++)
            own += g->work[x->e.list[i]];
        if (s + 1 < x->n_stages && work > 0 && work + own / 2 > wanted) {
            rate -= g->rate[x->on[s++]];
            left -= work;
            work = 0;
            wanted = left * g->rate[x->on[s]] / rate * (0.95 + 0.1 * ft_rng_uniform(rng));
        }
        work += own;
        x->stage[element] = s;
        for (int i = x->e.first[element]; i < x->e.first[element + 1]; i++)
            x->unit_device[x->e.list[i]] = x->on[s];
    }
}

static void move_element(greedy *x, int element, int stage)
{
    x->stage[element] = stage;
    for (int i = x->e.first[element]; i < x->e.first[element + 1]; i++)
        placing_move(&x->p, x->e.list[i], x->on[stage]);
}

/* Stages that the elements order[from] ... order[to - 1], now all in one, may go to. */
static void range_of(const greedy *x, int from, int to, const int *place, int *low, int *high)
{
    const ft_elements *e = &x->e;
    *low = 0;
    *high = x->n_stages - 1;
    for (int at = from; at < to; at++) {
        int element = x->order[at];
        for (int i = e->back_first[element]; i < e->back_first[element + 1]; i++) {
            int other = e->back[i], inside = place[other] >= from && place[other] < to;
            if (!inside && x->stage[other] > *low) *low = x->stage[other];
        }
        for (int i = e->next_first[element]; i < e->next_first[element + 1]; i++) {
            int other = e->next[i], inside = place[other] >= from && place[other] < to;
            if (!inside && x->stage[other] < *high) *high = x->stage[other];
        }
    }
}

static bool fits(const greedy *x, int stage)
{
    const ft_ground *g = x->g;
    return ft_load_fits(g, &x->p.sums[x->on[stage]], x->on[stage],
                        ft_ground_in_flight(g, stage, x->n_stages));
}

static bool may_be_on(const greedy *x, int from, int to, int stage)
{
    for (int at = from; at < to; at++)
        for (int i = x->e.first[x->order[at]]; i < x->e.first[x->order[at] + 1]; i++)
            if (!ft_ground_allows(x->g, x->e.list[i], x->on[stage])) return false;
    return true;
}

/* The slowest of the devices that were touched. */
static double slowest_touched(placing *p)
{
    double slowest = 0;
    placing_price(p);
    for (int t = 0; t < p->n_touched; t++) slowest = fmax(slowest, p->price[p->touched[t]]);
    return slowest;
}

/* Whether it was better there: the slower device faster, or as fast with fewer bytes moved. */
static bool try_move(greedy *x, int from, int to, int stage)
{
    int before = x->stage[x->order[from]];
    if (stage == before || !may_be_on(x, from, to, stage)) return false;
    placing_price(&x->p);
    double slower = fmax(x->p.price[x->on[before]], x->p.price[x->on[stage]]);
    int64_t moved = placing_moved(&x->p);
    bool fitted = fits(x, before);
    placing_watch(&x->p);
    for (int at = from; at < to; at++) move_element(x, x->order[at], stage);
    double now = slowest_touched(&x->p);
    bool better = now < slower || (now == slower && placing_moved(&x->p) < moved);
    if (fits(x, stage) && (better || !fitted)) return true;
    for (int at = from; at < to; at++) move_element(x, x->order[at], before);
    return false;
}

/* Tries every run of at most `length` elements of one stage once; returns whether any moved. */
static bool pass(greedy *x, int length, const int *place)
{
    bool any = false;
    for (int from = 0, to; from < x->e.n; from = to) {
        int low, high, own = x->stage[x->order[from]];
        for (to = from + 1; to < x->e.n && to - from < length; to++)
            if (x->stage[x->order[to]] != own) break;
        range_of(x, from, to, place, &low, &high);
        const int targets[] = {own - 1, own + 1, low, high};
        for (int i = 0; i < 4; i++)
            if (targets[i] >= low && targets[i] <= high && try_move(x, from, to, targets[i])) {
                any = true;
                break;
            }
    }
    return any;
}

static bool restart(greedy *x, int r)
{
    ft_ground own = *x->g;
    const ft_dag d = ft_elements_dag(&x->e);
    ft_rng rng;
    if (!(own.arena = ft_arena_new())) return false;
    ft_rng_init(&rng, x->g->options->seed, (uint64_t)r + 1);
    int *place = ft_arena_array(own.arena, x->e.n, sizeof *place);
    bool ok = place && ft_dag_order(own.arena, &d, x->g->options->seed, (uint64_t)r, x->order);
    if (ok) {
        for (int at = 0; at < x->e.n; at++) place[x->order[at]] = at;
        divide(x, &rng);
        placing_set(&x->p, x->unit_device);
        for (int length = LONGEST_RUN; length; length /= 4)
            for (int i = 0; i < PASSES && pass(x, length, place); i++) continue;
        incumbent_offer(&x->best, &x->p, r + 1);
    }
    ft_arena_free(own.arena);
    return ok;
}

ft_status ft_solve_greedy(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    greedy x;
    if (!greedy_new(&x, g)) return ft_ground_no_memory(g, err);
    for (int r = 0; r < GREEDY_RESTARTS && !ft_ground_stopped(g) && !(r && ft_ground_late(g)); r++)
        if (!restart(&x, r)) return ft_ground_no_memory(g, err);
    if (ft_ground_stopped(g)) return ft_ground_cancelled(err);
    if (x.best.price == HUGE_VAL)
        return ft_ground_infeasible(g, "contiguous cut", ", as far as greedy searched", err);
    for (int i = 0; i < g->n; i++) x.unit_device[g->unit[i]] = x.best.device[i];
    return ft_result_make(g, x.unit_device, NULL, result, err);
}
