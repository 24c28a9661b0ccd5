/* mixed/mixed.c - Mixed-pipe: blocks that may sit on any device, in any order (Eliad et al.,
 * "FTPipe", USENIX ATC 2021).
 *
 * Every way to coarsen the graph to L blocks, for a sweep of L, is assigned by branch and bound;
 * the best of them, the contiguous optimum and placements found before are starting points of
 * refinement, which in turn begins afresh with blocks. Small problems are solved by branch and
 * bound alone. */
#include <math.h>
#include <string.h>

#include "contiguous/contiguous.h"
#include "mixed/anneal.h"
#include "mixed/merged.h"
#include "mixed/mixed.h"

enum { EXACT_UNITS = 12, EXACT_STEPS = 4000000, ASSIGN_STEPS = 20000 };
enum { SWEEP_STEPS = 400000000 }; /* of work, of all assignments of a sweep: some seconds */
enum {
    STEPS_A_UNIT = 500000, /* of ROUNDS rounds */
    DEFAULT_TIMES = 4,     /* and so many times as many when nobody says how many */
    ROUND = 2,             /* restarts of one length */
    ROUNDS = 6,            /* that these steps suffice for */
    MOST_ROUNDS = 40,
    SETTLING = 16, /* a part of that: fewer bytes at the same speed */
    POOL = 4,
    FEW_NODES = 256,
    MERGED_A_DEVICE = 5 /* blocks, or one more, that units are merged to */
};

typedef struct mixed {
    ft_ground *g;
    placing p;
    incumbent best;
    int *order, *device;         /* of units, by unit */
    double seq_ns;               /* the contiguous one; HUGE_VAL: there is none */
    int *seq_stage, *seq_device; /* by node, by unit */
    incumbent pool[POOL];        /* the best of the sweep, which need not be valid */
    int n_pool;
    clusters groups;
    int64_t spent; /* steps of restarts */
    bool whole;    /* all placements were looked at */
} mixed;

/* Blocks to move: as many as there may be stages, two for a device where there is no limit. */
static int most_stages(const ft_ground *g)
{
    const ft_partition_options *o = g->options;
    if (o->max_stages) return o->max_stages;
    return (o->max_stages_per_device ? o->max_stages_per_device : 2) * g->problem->n_devices;
}

/* Whether the deadline has passed and there is something to show. */
static bool is_due(const mixed *m)
{
    return ft_ground_late(m->g) && (m->best.price < HUGE_VAL || m->seq_ns < HUGE_VAL);
}

static bool mixed_new(mixed *m, ft_ground *g)
{
    *m = (mixed){.g = g, .best = {.price = HUGE_VAL, .moved = INT64_MAX}, .seq_ns = HUGE_VAL};
    m->best.device = ft_arena_array(g->arena, g->n, sizeof(int));
    m->order = ft_arena_array(g->arena, g->n_units, sizeof(int));
    m->device = ft_arena_array(g->arena, g->n_units, sizeof(int));
    m->seq_stage = ft_arena_array(g->arena, g->n, sizeof(int));
    m->seq_device = ft_arena_array(g->arena, g->n_units, sizeof(int));
    if (!m->seq_stage || !m->seq_device) return false;
    return m->best.device && m->order && m->device && placing_new(&m->p, g) &&
           order_units(g, 0, m->order);
}

/* The best known, by unit: until the next call. */
static const int *best_units(const mixed *m)
{
    for (int i = 0; i < m->g->n; i++) m->device[m->g->unit[i]] = m->best.device[i];
    return m->device;
}

static void offer(mixed *m, const int *device, int from)
{
    placing_set(&m->p, device);
    incumbent_offer(&m->best, &m->p, from);
}

/* The quickest start, which is never lost either. A failure says that it found none. */
static ft_status start_from_greedy(mixed *m, ft_error *err)
{
    ft_partition_result result = {0};
    ft_status status = ft_solve_greedy(m->g, &result, err);
    for (int i = 0; status == FT_OK && i < m->g->n; i++)
        m->device[m->g->unit[i]] = result.device[i];
    if (status == FT_OK) offer(m, m->device, 0);
    ft_partition_result_free(&result);
    return status == FT_INFEASIBLE ? FT_OK : status;
}

/* The contiguous optimum, or the best found, is never lost. */
static void keep_contiguous(mixed *m, const ft_partition_result *found)
{
    for (int i = 0; i < m->g->n; i++) m->device[m->g->unit[i]] = found->device[i];
    offer(m, m->device, 0);
    if (ft_stages_allowed(m->g, found->stage_device, found->n_stages))
        m->seq_ns = found->objective_ns;
    memcpy(m->seq_stage, found->stage, (size_t)m->g->n * sizeof(int));
    memcpy(m->seq_device, m->device, (size_t)m->g->n_units * sizeof(int));
}

/* A failure says that there is none. */
static ft_status start_from_seq(mixed *m, ft_error *err)
{
    ft_partition_result result = {0};
    if (m->g->contiguous) {
        keep_contiguous(m, m->g->contiguous);
        return FT_OK;
    }
    ft_status status = ft_solve_seq_within(m->g, &result, err);
    if (status == FT_OK) keep_contiguous(m, &result);
    ft_partition_result_free(&result);
    return status == FT_INFEASIBLE ? FT_OK : status;
}

static bool each_unit(mixed *m)
{
    const ft_ground *g = m->g;
    int *first = ft_arena_array(g->arena, g->n_units + 1, sizeof *first);
    int *list = ft_arena_array(g->arena, g->n_units, sizeof *list);
    if (!first || !list) return false;
    for (int u = 0; u < g->n_units; u++) first[u + 1] = u + 1, list[u] = u;
    blocks all = {.n = g->n_units, .first = first, .list = list};
    double price = assign_blocks(g, &all, EXACT_STEPS, m->device, &m->whole);
    if (price >= 0 && price < HUGE_VAL) offer(m, m->device, 0);
    return price >= 0;
}

/* Numbers of blocks to try: as asked for, or from twice to eight times the devices. */
static int next_blocks(const mixed *m, int n)
{
    int devices = m->g->problem->n_devices, most = 8 * devices;
    if (m->g->options->blocks) return n ? 0 : m->g->options->blocks;
    if (!n) return devices < m->g->n_units ? devices : m->g->n_units;
    n += n < 3 * devices ? (devices + 3) / 4 : devices;
    return n <= most && n <= m->g->n_units ? n : 0;
}

/* Keeps what the sweep found if it is among the best. */
static bool pool_add(mixed *m, double price)
{
    int at = m->n_pool, worst = 0;
    for (int i = 0; i < m->n_pool; i++) {
        if (m->pool[i].price == price) return true; /* most often the same one */
        if (m->pool[i].price > m->pool[worst].price) worst = i;
    }
    if (at == POOL) at = worst;
    incumbent *slot = &m->pool[at];
    if (m->n_pool == POOL && price >= slot->price) return true;
    if (at == m->n_pool) {
        slot->device = ft_arena_array(m->g->arena, m->g->n_units, sizeof(int));
        if (!slot->device) return false;
        m->n_pool++;
    }
    slot->price = price;
    memcpy(slot->device, m->device, (size_t)m->g->n_units * sizeof(int));
    return true;
}

/* How many assignments a sweep makes. */
static int count_sweep(const mixed *m)
{
    int count = 0;
    for (int n = next_blocks(m, 0); n; n = next_blocks(m, n)) count += coarsen_rules();
    return count;
}

/* What one assignment leaves of its share, the others have. */
static bool sweep(mixed *m)
{
    const ft_ground *g = m->g;
    ft_ground own = *g;
    int left = count_sweep(m);
    int64_t end = g->tally->steps + SWEEP_STEPS;
    for (int n = next_blocks(m, 0); n; n = next_blocks(m, n))
        for (int rule = 0; rule < coarsen_rules() && !ft_ground_stopped(g) && !is_due(m); rule++) {
            blocks b;
            bool whole;
            if (!(own.arena = ft_arena_new())) return false;
            double price = -1;
            int64_t limit = ft_ground_limit(g, (end - g->tally->steps) / left--);
            if (coarsen(&own, rule, m->order, n, &b))
                price = assign_blocks(&own, &b, ASSIGN_STEPS / (1 + n / 64), m->device, &whole);
            g->tally->limit = limit;
            ft_arena_free(own.arena);
            if (price < 0) return false;
            if (price == HUGE_VAL) continue;
            offer(m, m->device, 0);
            if (!pool_add(m, price)) return false;
        }
    return true;
}

/* The device with the least to do, by increasing order of units: a start when nothing else fits. */
static void fill(placing *p, const int *order, ft_rng *rng)
{
    const ft_ground *g = p->g;
    for (int u = 0; u < g->n_units; u++) placing_move(p, u, -1);
    for (int i = 0; i < g->n_units; i++) {
        int unit = order[i], best = -1;
        placing_price(p);
        for (int d = 0; d < g->problem->n_devices; d++) {
            if (!ft_ground_allows(g, unit, d)) continue;
            if (best < 0 || p->price[d] < p->price[best] || (rng && ft_rng_below(rng, 8) == 0))
                best = d;
        }
        placing_move(p, unit, best);
    }
}

static int64_t steps_of(const ft_ground *g, int times)
{
    int64_t steps = (int64_t)STEPS_A_UNIT * times * g->n_units;
    return steps < FT_PARTITION_EFFORT ? steps : FT_PARTITION_EFFORT;
}

/* Steps of restart r. They double from round to round, and do not depend on the budget: a larger
 * one makes the same restarts and then longer ones. */
static int64_t restart_steps(const ft_ground *g, int r)
{
    return (steps_of(g, 1) / ((1 << ROUNDS) - 1) / ROUND) << r / ROUND;
}

/* Where stages are limited and there are many nodes, blocks are moved: counting the stages anew
 * after each move of a unit would take too long. Elsewhere a quarter of the restarts moves blocks:
 * they find what single units do not, as a long last stage that needs no recomputation. */
static bool moves_blocks(const ft_ground *g, int restart)
{
    if (!ft_stages_limited(g)) return restart % 4 == 2;
    return g->n > FEW_NODES || restart % 2;
}

/* The placement that a restart which is not fresh begins with. */
static const int *start_of(const mixed *m, bool by_blocks, int r)
{
    bool limited = ft_stages_limited(m->g);
    if (!by_blocks || !m->n_pool || (limited && r % 2 == 0)) return best_units(m);
    return m->pool[(limited ? r / 2 : r / 4) % m->n_pool].device;
}

/* A fresh start: blocks are placed as units are. They are few, and it is cheap to cut between them,
 * so that other ways to share the whole graph out are in reach, which units come to only by worse
 * ones, layer after layer. */
static bool place_merged(mixed *m, int r, const cooling *units, ft_rng *rng)
{
    merged b;
    int share = MERGED_A_DEVICE + r / 2 % 2;
    bool ok = merged_new(&b, m->g, share * m->g->problem->n_devices, (uint64_t)(r / 2));
    if (ok) {
        cooling how = *units;
        how.order = b.order;
        how.groups = b.groups.n_levels ? &b.groups : NULL;
        fill(&b.p, b.order, rng);
        ok = anneal(&b.p, &how, rng, &m->best);
        for (int i = 0; i < m->g->n; i++) m->device[m->g->unit[i]] = b.p.device[b.g.unit[i]];
    }
    merged_free(&b);
    if (ok) placing_set(&m->p, m->device);
    return ok;
}

/* The last stage needs no recomputation, which single units cannot see: its length is only known
 * when stages are made. So the units of the incumbent's stay, with what they save, and the others
 * are placed around them. */
static bool hold_last(const ft_ground *g, placing *p, cooling *how)
{
    int *stage_of = ft_arena_array(g->arena, g->n, sizeof *stage_of);
    int *stage_device = ft_arena_array(g->arena, g->n, sizeof *stage_device);
    bool *held = ft_arena_array(g->arena, g->n_units, sizeof *held);
    if (!stage_of || !stage_device || !held) return false;
    int last = ft_stages_make(g, p->device, 0, stage_of, stage_device) - 1;
    if (last < 0) return false;
    int device = stage_device[last];
    for (int i = 0; i < g->n; i++)
        if (stage_of[i] == last) held[g->unit[i]] = true;
    placing_gain(p, device, ft_stages_gain_ns(g, stage_of, last, g->problem->devices[device].kind));
    how->held = held;
    return true;
}

static bool restart(mixed *m, int r, int64_t steps)
{
    static const double heats[] = {0.03, 0.02, 0.03, 0.04}, block_heats[] = {0.001, 0.01, 0.05};
    static const double AIM = 0.02, BLOCKS_AIM = 1e-4, MERGED_SHARE = 0.7, MERGED_HEAT = 0.005;
    ft_ground own = *m->g; /* what a restart needs is freed with it */
    intervals v;
    ft_rng rng;
    bool fresh = m->best.price == HUGE_VAL || r % 2; /* where memory is tight, the best is a trap */
    bool by_blocks = m->best.price < HUGE_VAL && moves_blocks(m->g, r);
    cooling how = {.order = m->order, .steps = steps, .from = r + 1};
    how.heat = by_blocks ? block_heats[r % 3] : heats[r % 4];
    how.aim = by_blocks ? BLOCKS_AIM : AIM;
    if (!(own.arena = ft_arena_new())) return false;
    ft_rng_init(&rng, m->g->options->seed, (uint64_t)r + 1);
    if (!by_blocks && m->groups.n_levels) how.groups = &m->groups;
    bool ok = true;
    if (!fresh || by_blocks) {
        placing_set(&m->p, start_of(m, by_blocks, r));
    } else if (r) {
        how.steps = (int64_t)(MERGED_SHARE * (double)steps);
        ok = place_merged(m, r, &how, &rng);
        how.steps = steps - how.steps;
        how.heat = MERGED_HEAT;
    } else {
        fill(&m->p, m->order, NULL);
    }
    ok = ok && (!by_blocks || intervals_new(&v, &own, m->p.device, most_stages(&own), (uint64_t)r));
    if (by_blocks) how.blocks = &v;
    m->p.g = &own;
    if (ok && !fresh && !by_blocks && own.problem->last_ns) ok = hold_last(&own, &m->p, &how);
    ok = ok && anneal(&m->p, &how, &rng, &m->best);
    m->p.g = m->g;
    ft_arena_free(own.arena);
    return ok;
}

/* Restarts within the budget, but one at least; one that a deadline ends is not kept. */
static bool restart_within(mixed *m, int64_t budget, int64_t *spent)
{
    const ft_ground *g = m->g;
    int *known = ft_arena_array(g->arena, g->n, sizeof *known);
    if (!known) return false;
    *spent = 0;
    for (int r = 0; r < MOST_ROUNDS * ROUND && *spent < budget; r++) {
        int64_t steps = restart_steps(g, r);
        if (r && *spent + steps > budget) break;
        if (ft_ground_stopped(g) || ft_ground_late(g)) break;
        if (m->best.price <= g->lower_bound_ns) break; /* nothing is faster */
        incumbent before = m->best;
        memcpy(known, m->best.device, (size_t)g->n * sizeof *known);
        if (steps > budget) steps = budget;
        if (!restart(m, r, steps)) return false;
        if (ft_ground_late(g)) {
            m->best = before;
            memcpy(m->best.device, known, (size_t)g->n * sizeof *known);
            break;
        }
        *spent += steps;
    }
    return true;
}

static bool refine(mixed *m)
{
    const ft_ground *g = m->g;
    int64_t budget = g->options->effort ? g->options->effort : steps_of(g, DEFAULT_TIMES);
    if (!clusters_make(g, &m->groups)) return false;
    if (!restart_within(m, budget, &m->spent)) return false;
    if (m->best.price == HUGE_VAL) return true;
    bool by_blocks = moves_blocks(g, 1);
    intervals v;
    ft_rng rng;
    ft_rng_init(&rng, g->options->seed, 0);
    placing_set(&m->p, best_units(m));
    if (by_blocks && !intervals_new(&v, g, m->p.device, most_stages(g), 0)) return false;
    int64_t least = restart_steps(g, 0);
    cooling how = {.order = m->order,
                   .blocks = by_blocks ? &v : NULL,
                   .steps = m->spent / SETTLING > least ? m->spent / SETTLING : least};
    return settle(&m->p, &how, &rng, &m->best);
}

ft_status ft_solve_mixed(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    mixed m;
    if (!mixed_new(&m, g)) return ft_ground_no_memory(g, err);
    if (g->n_units <= EXACT_UNITS && !each_unit(&m)) return ft_ground_no_memory(g, err);
    if (!m.whole) FT_TRY(start_from_greedy(&m, err));
    if (!m.whole && !is_due(&m)) {
        FT_TRY(start_from_seq(&m, err));
        if (!sweep(&m) || !refine(&m)) return ft_ground_no_memory(g, err);
    }
    if (ft_ground_stopped(g)) return ft_ground_cancelled(err);
    if (m.best.price == HUGE_VAL && m.seq_ns == HUGE_VAL)
        return ft_ground_infeasible(g, "placement", m.whole ? "" : ", as far as was searched", err);
    /* cut into stages anew, what is contiguous can lose some of what its last stage saves */
    if (m.seq_ns < m.best.price)
        FT_TRY(ft_result_make(g, m.seq_device, m.seq_stage, result, err));
    else
        FT_TRY(ft_result_make(g, best_units(&m), NULL, result, err));
    result->proved = m.whole && !g->problem->last_ns;
    result->effort = m.spent;
    return FT_OK;
}
