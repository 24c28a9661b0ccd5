/* contiguous/seq.c - the contiguous optimum: every device gets one stage that nothing leaves and
 * enters again. Exact over the down-sets of the graph while there are not too many; beyond that the
 * best over several topological orders. */
#include <math.h>
#include <string.h>

#include "contiguous/contiguous.h"
#include "contiguous/lattice.h"

enum { N_ORDERS = 8, MOST_DOWN_SETS = 60000, ORDERED_ELEMENTS = 12000 };
/* Within some seconds: down-sets, and those times units, since their stages grow as well. */
enum { QUICK_DOWN_SETS = 20000, QUICK_WORK = 8000000, QUICK_STEPS = 400000000 };

static const double FIRST_STEP = 0.004; /* from the lower bound on, relatively */
static const double ROUNDING = 1e-9;

typedef struct seq {
    ft_ground *g;
    ft_elements e;
    int *device, *stage, *best_device, *best_stage; /* by unit */
    double best_ns;
    int64_t states;
    bool all_orders; /* of unequal devices, in the last cut */
} seq;

static bool seq_new(seq *s, ft_ground *g)
{
    *s = (seq){.g = g, .best_ns = HUGE_VAL};
    if (!ft_elements_make(g, &s->e)) return false;
    int *space = ft_arena_array(g->arena, 4 * (int64_t)g->n_units, sizeof *space);
    s->device = space;
    if (!space) return false;
    s->stage = space + g->n_units;
    s->best_device = space + 2 * g->n_units;
    s->best_stage = space + 3 * g->n_units;
    return true;
}

/* Cuts along the lattice; false without memory. */
static bool cut(seq *s, const lattice *l, double limit_ns)
{
    double ns = lattice_cut(s->g, &s->e, l, limit_ns, s->device, s->stage, &s->all_orders);
    if (ns < 0) return false;
    s->states += l->n;
    if (ns >= s->best_ns) return true;
    s->best_ns = ns;
    memcpy(s->best_device, s->device, (size_t)s->g->n_units * sizeof(int));
    memcpy(s->best_stage, s->stage, (size_t)s->g->n_units * sizeof(int));
    return true;
}

/* Nothing is slower than everything in one place, and every transfer besides. */
static double most_ns(const ft_ground *g)
{
    double most = 0;
    for (int d = 0; d < g->problem->n_devices; d++) {
        const ft_partition_device *device = &g->problem->devices[d];
        double ns = 0, bytes = 0;
        for (int u = 0; u < g->n_units; u++) ns += g->weight[u].ns[device->kind];
        for (int v = 0; v < g->n_nets; v++)
            bytes += (double)(g->nets[v].bytes + g->nets[v].grad_bytes);
        if (device->bytes_per_s > 0) bytes *= 1e9 / device->bytes_per_s;
        most = fmax(most, ns * device->slowdown + (device->bytes_per_s > 0 ? bytes : 0));
    }
    return most;
}

/* Widens the limit from the lower bound on until the order can be cut within it. */
static bool cut_order(seq *s, const int *order)
{
    lattice l;
    if (!lattice_chain(s->g, &s->e, order, &l)) return false;
    if (s->best_ns < HUGE_VAL) return cut(s, &l, s->best_ns);
    double step = s->g->lower_bound_ns * FIRST_STEP;
    for (double limit = s->g->lower_bound_ns + step;
         step > 0 && s->best_ns == HUGE_VAL && ft_ground_spend(s->g, 0); limit += step *= 2) {
        if (!cut(s, &l, limit)) return false;
        if (limit > most_ns(s->g)) break;
    }
    return s->best_ns < HUGE_VAL || cut(s, &l, HUGE_VAL);
}

static bool cut_by_rule(seq *s, int rule)
{
    int *order = ft_arena_array(s->g->arena, s->e.n, sizeof *order);
    const ft_dag d = ft_elements_dag(&s->e);
    return order && ft_dag_order(s->g->arena, &d, s->g->options->seed, (uint64_t)rule, order) &&
           cut_order(s, order);
}

/* Elements stand where their first nodes do. */
static ft_status cut_in_order(seq *s, ft_error *err)
{
    const ft_ground *g = s->g;
    const ft_partition_problem *p = g->problem;
    char name[96], other[96];
    int n = 0, *order = ft_arena_array(g->arena, s->e.n, sizeof *order);
    int *place = ft_arena_array(g->arena, s->e.n, sizeof *place);
    if (!order || !place) return ft_ground_no_memory(g, err);
    for (int i = 0; i < g->n; i++) {
        int element = s->e.of[g->unit[i]];
        if (place[element]) continue;
        order[n++] = element;
        place[element] = n;
    }
    for (int e = 0; e < p->n_edges; e++) {
        int from = p->edge_from[e], to = p->edge_to[e];
        if (g->rank[from] >= g->n_forward || g->rank[to] >= g->n_forward) continue;
        if (place[s->e.of[g->unit[from]]] > place[s->e.of[g->unit[to]]])
            return ft_fail(err, FT_INVALID,
                           "partition: %s uses %s, which stands after it; expected nodes in an "
                           "order in which they can run",
                           ft_ground_name(g, to, name), ft_ground_name(g, from, other));
    }
    return cut_order(s, order) ? FT_OK : ft_ground_no_memory(g, err);
}

/* All down-sets when there are few enough, several orders otherwise. *proved says whether nothing
 * was left out, neither sets nor orders of unequal devices. */
static ft_status cut_any_order(seq *s, bool *proved, ft_error *err)
{
    ft_ground *g = s->g;
    lattice all;
    bool too_many = false;
    int64_t most = g->options->max_down_sets ? g->options->max_down_sets : MOST_DOWN_SETS;
    if (!cut_by_rule(s, 0)) return ft_ground_no_memory(g, err);
    const ft_dag d = ft_elements_dag(&s->e);
    int width = ft_dag_width(g->arena, &d);
    if (width < 0) return ft_ground_no_memory(g, err);
    if (width >= 24 || 1 << width > most)
        too_many = true;
    else if (!lattice_all(g, &s->e, most, &all, &too_many))
        return ft_ground_no_memory(g, err);
    if (!too_many && !cut(s, &all, s->best_ns)) return ft_ground_no_memory(g, err);
    for (int rule = 1; too_many && rule < N_ORDERS && rule * s->e.n <= ORDERED_ELEMENTS; rule++)
        if (!cut_by_rule(s, rule)) return ft_ground_no_memory(g, err);
    *proved = !too_many && s->all_orders && ft_ground_spend(g, 0);
    return FT_OK;
}

ft_status ft_solve_seq(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    seq s;
    bool proved = true;
    if (!seq_new(&s, g)) return ft_ground_no_memory(g, err);
    FT_TRY(g->options->in_order ? cut_in_order(&s, err) : cut_any_order(&s, &proved, err));
    if (ft_ground_stopped(g)) return ft_ground_cancelled(err);
    proved = proved && ft_ground_spend(g, 0);
    if (s.best_ns == HUGE_VAL)
        return ft_ground_infeasible(g, "contiguous cut", proved ? "" : ", as far as seq searched",
                                    err);
    int *stage_of = ft_arena_array(g->arena, g->n, sizeof *stage_of);
    if (!stage_of) return ft_ground_no_memory(g, err);
    for (int i = 0; i < g->n; i++) stage_of[i] = s.best_stage[g->unit[i]];
    FT_TRY(ft_result_make(g, s.best_device, stage_of, result, err));
    /* sums of one stage do not know to how many devices it sends a value: prices can only rise */
    if (proved) result->method_bound_ns = fmin(s.best_ns, result->objective_ns);
    result->proved = proved && result->objective_ns <= s.best_ns * (1 + ROUNDING);
    result->down_sets = s.states;
    return FT_OK;
}

ft_status ft_solve_seq_within(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    const ft_partition_options *given = g->options;
    ft_partition_options options = *given;
    int64_t most = QUICK_WORK / g->n_units;
    if (!options.max_down_sets)
        options.max_down_sets = most < QUICK_DOWN_SETS ? most : QUICK_DOWN_SETS;
    g->options = &options;
    int64_t limit = ft_ground_limit(g, QUICK_STEPS);
    ft_status status = ft_solve_seq(g, result, err);
    g->tally->limit = limit;
    g->options = given;
    return status;
}
