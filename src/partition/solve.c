/* partition/solve.c - the partitioners by name. */
#include <stdio.h>
#include <string.h>

#include "contiguous/contiguous.h"
#include "mixed/mixed.h"
#include "partition/internal.h"
#include "partition/partition.h"

typedef enum method_kind {
    PLACES,    /* priced by the cost model, so that `best` can compare it */
    SPLITS,    /* has a price of its own; its stages without replicas are compared */
    STANDS_OUT /* for devices that work in another way; `best` leaves it out */
} method_kind;

typedef struct method {
    const char *name, *doc;
    ft_status (*solve)(ft_ground *g, ft_partition_result *result, ft_error *err);
    method_kind kind;
} method;

/* Runs what is feasible and keeps the best. */
static ft_status solve_best(ft_ground *g, ft_partition_result *result, ft_error *err);

static const method methods[] = {
    {"seq", "the contiguous optimum: one stage a device, exact over down-sets", ft_solve_seq,
     PLACES},
    {"mixed", "Mixed-pipe: blocks on any device in any order, refined", ft_solve_mixed, PLACES},
    {"pipedream", "contiguous stages with replicas, over a hierarchy of links", ft_solve_pipedream,
     SPLITS},
    {"greedy", "contiguous stages refined level by level, for graphs of any size", ft_solve_greedy,
     PLACES},
    {"pack", "Harmony: contiguous packs of equal time for devices that swap, dealt in turn",
     ft_solve_pack, STANDS_OUT},
    {"best", "the best of all", solve_best, PLACES},
};

enum { STRAIGHT_STEPS = 200000000 }; /* of work, some seconds */
enum { N_METHODS = sizeof methods / sizeof *methods };

static const method *method_at(int i)
{
    return i >= 0 && i < N_METHODS ? &methods[i] : NULL;
}

static const method *method_find(const char *name)
{
    for (int i = 0; i < N_METHODS; i++)
        if (!strcmp(methods[i].name, name)) return &methods[i];
    return NULL;
}

const char *ft_partition_method_name(int i)
{
    return method_at(i) ? method_at(i)->name : NULL;
}

const char *ft_partition_method_doc(int i)
{
    return method_at(i) ? method_at(i)->doc : NULL;
}

static bool is_better(const ft_partition_result *a, const ft_partition_result *b)
{
    if (a->objective_ns != b->objective_ns) return a->objective_ns < b->objective_ns;
    if (a->moved_bytes != b->moved_bytes) return a->moved_bytes < b->moved_bytes;
    return a->n_stages < b->n_stages;
}

/* Pipedream's stages without replicas, priced by the cost model of the others. */
static ft_status solve_straight(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    ft_partition_options options = *g->options;
    const ft_partition_options *given = g->options;
    options.straight = true;
    g->options = &options;
    int64_t before = ft_ground_limit(g, STRAIGHT_STEPS);
    ft_status status = ft_solve_pipedream(g, result, err);
    g->tally->limit = before;
    g->options = given;
    if (status == FT_INVALID) return FT_INFEASIBLE; /* it does not apply */
    if (status != FT_OK) return status;
    if (!ft_stages_allowed(g, result->stage_device, result->n_stages)) return FT_INFEASIBLE;
    result->objective_ns = 0;
    result->lower_bound_ns = g->lower_bound_ns;
    result->proved = false;
    for (int d = 0; d < g->problem->n_devices; d++) {
        const ft_partition_load *own = &result->loads[d];
        int64_t limit = g->problem->devices[d].memory_bytes;
        if (limit && own->memory_bytes > limit) return FT_INFEASIBLE;
        if (own->price_ns > result->objective_ns) result->objective_ns = own->price_ns;
    }
    for (int i = 0; i < g->n; i++)
        if (!ft_ground_allows(g, g->unit[i], result->device[i])) return FT_INFEASIBLE;
    return FT_OK;
}

static ft_status try_method(ft_ground *g, const method *how, ft_partition_result *out,
                            ft_error *err)
{
    if (how->kind == STANDS_OUT) return FT_INFEASIBLE;
    if (how->kind == SPLITS)
        return g->cost->judge ? how->solve(g, out, err) : solve_straight(g, out, err);
    if (g->cost->judge) return FT_INFEASIBLE;
    return how->solve == ft_solve_seq ? ft_solve_seq_within(g, out, err) : how->solve(g, out, err);
}

static ft_status solve_best(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    bool found = false, said = false; /* the first to fail says why */
    int64_t effort = 0;
    for (int i = 0; i < N_METHODS; i++) {
        if (methods[i].solve == solve_best) continue;
        ft_partition_result own = {0};
        ft_error why = {FT_OK, ""};
        /* seq stands before mixed, which begins with what it found */
        g->contiguous = methods[i].solve == ft_solve_mixed && found ? result : NULL;
        ft_status status = try_method(g, &methods[i], &own, &why);
        own.method = methods[i].name;
        effort += own.effort;
        if (status == FT_OK && (!found || is_better(&own, result))) {
            ft_partition_result_free(result);
            *result = own;
            own = (ft_partition_result){0};
            found = true;
        }
        ft_partition_result_free(&own);
        if (status == FT_OK || (status == FT_INFEASIBLE && (said || !why.message[0]))) continue;
        if (err) *err = why;
        said = true;
        if (status != FT_INFEASIBLE) {
            ft_partition_result_free(result);
            return status;
        }
    }
    result->effort = effort;
    return found ? FT_OK : FT_INFEASIBLE;
}

/* "a, b, c" of the names of a table. */
static const char *list_names(const char *(*name)(int), char *buffer, int size)
{
    buffer[0] = '\0';
    for (int i = 0; name(i); i++) {
        int used = (int)strlen(buffer);
        snprintf(buffer + used, (size_t)(size - used), "%s%s", i ? ", " : "", name(i));
    }
    return buffer;
}

static ft_status check_options(const ft_partition_problem *p, const ft_partition_options *o,
                               ft_error *err)
{
    const struct {
        const char *name;
        int64_t value, most;
    } counts[] = {
        {"effort", o->effort, (int64_t)1 << 60},
        {"deadline_ns", o->deadline_ns, (int64_t)1 << 60},
        {"max_stages", o->max_stages, 1 << 30},
        {"max_stages_per_device", o->max_stages_per_device, 1 << 30},
        {"blocks", o->blocks, 1 << 30},
        {"max_down_sets", o->max_down_sets, 1 << 24},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < 0 || counts[i].value > counts[i].most)
            return ft_fail(err, FT_INVALID, "partition: %s is %lld, expected 0 to %lld",
                           counts[i].name, (long long)counts[i].value, (long long)counts[i].most);
    int stages = o->in_order ? p->n_devices : o->blocks;
    if (stages > p->n_nodes)
        return ft_fail(err, FT_INVALID,
                       "partition: %d stages of a graph of %d nodes, expected no more; take fewer "
                       "devices or stages",
                       stages, p->n_nodes);
    return FT_OK;
}

static ft_status find_cost(const char *name, const ft_cost_model **out, ft_error *err)
{
    char names[256];
    *out = cost_find(name ? name : "overlap");
    if (*out) return FT_OK;
    return ft_fail(err, FT_INVALID, "partition: cost model '%s', expected one of %s", name,
                   list_names(ft_partition_cost_name, names, sizeof names));
}

ft_status ft_partition_solve(const ft_partition_problem *problem,
                             const ft_partition_options *options, ft_partition_result *result,
                             ft_error *err)
{
    const ft_cost_model *cost;
    char names[256];
    *result = (ft_partition_result){0};
    const method *how = method_find(options->method ? options->method : "best");
    if (!how)
        return ft_fail(err, FT_INVALID, "partition: method '%s', expected one of %s",
                       options->method ? options->method : "best",
                       list_names(ft_partition_method_name, names, sizeof names));
    FT_TRY(find_cost(options->cost, &cost, err));
    FT_TRY(check_options(problem, options, err));
    if (cost->judge && how->kind == PLACES && how->solve != solve_best)
        return ft_fail(err, FT_INVALID,
                       "partition: method %s cannot search by cost model %s, expected method "
                       "pipedream",
                       how->name, cost->name);
    if (options->in_order && how->solve != ft_solve_seq)
        return ft_fail(err, FT_INVALID, "partition: method %s keeps no order, expected seq",
                       how->name);
    ft_ground g;
    ft_partition_options own = *options;
    if (!own.max_stages) own.max_stages = own.blocks;
    ft_status status = ft_ground_new(&g, problem, &own, cost, err);
    result->method = how->name;
    if (status == FT_OK && how->kind == PLACES && !cost->judge) status = ft_ground_room(&g, err);
    if (status == FT_OK) status = how->solve(&g, result, err);
    if (g.tally) result->work = g.tally->steps;
    ft_ground_free(&g);
    return status;
}

/* Nodes that are tied share a device. */
static ft_status check_devices(const ft_ground *g, const int *device, int *unit_device,
                               ft_error *err)
{
    char name[96];
    for (int i = 0; i < g->n; i++) {
        if (device[i] < 0 || device[i] >= g->problem->n_devices)
            return ft_fail(err, FT_INVALID, "partition: %s is on device %d, expected 0 to %d",
                           ft_ground_name(g, i, name), device[i], g->problem->n_devices - 1);
        int *known = &unit_device[g->unit[i]];
        if (*known && *known != device[i] + 1)
            return ft_fail(err, FT_INVALID,
                           "partition: %s is on device %d, a node tied to it on device %d",
                           ft_ground_name(g, i, name), device[i], *known - 1);
        *known = device[i] + 1;
    }
    for (int u = 0; u < g->n_units; u++) unit_device[u]--;
    return FT_OK;
}

/* A stage is on one device, and no value goes to an earlier stage. */
static ft_status check_stages(const ft_ground *g, const int *device, const int *stage, int *owner,
                              ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    char name[96], other[96];
    for (int i = 0; i < g->n; i++) {
        if (stage[i] < 0 || stage[i] >= g->n)
            return ft_fail(err, FT_INVALID, "partition: %s is in stage %d, expected 0 to %d",
                           ft_ground_name(g, i, name), stage[i], g->n - 1);
        if (owner[stage[i]] && owner[stage[i]] != device[i] + 1)
            return ft_fail(err, FT_INVALID, "partition: stage %d is on devices %d and %d", stage[i],
                           owner[stage[i]] - 1, device[i]);
        owner[stage[i]] = device[i] + 1;
    }
    for (int e = 0; e < p->n_edges; e++) {
        int from = p->edge_from[e], to = p->edge_to[e];
        if (p->backward && (p->backward[from] || p->backward[to])) continue;
        if (stage[from] > stage[to])
            return ft_fail(err, FT_INVALID,
                           "partition: %s is in stage %d and uses %s, which is in stage %d",
                           ft_ground_name(g, to, name), stage[to], ft_ground_name(g, from, other),
                           stage[from]);
    }
    return FT_OK;
}

ft_status ft_partition_evaluate(const ft_partition_problem *problem, const char *cost_name,
                                const int *device, const int *stage, ft_partition_result *result,
                                ft_error *err)
{
    static const ft_partition_options none;
    const ft_cost_model *cost;
    ft_ground g;
    *result = (ft_partition_result){.method = "given"};
    FT_TRY(find_cost(cost_name, &cost, err));
    ft_status status = ft_ground_new(&g, problem, &none, cost, err);
    if (status != FT_OK) goto done;
    int *space = ft_arena_array(g.arena, 2 * (int64_t)g.n, sizeof *space);
    if (!space) FT_GO(ft_ground_no_memory(&g, err));
    FT_GO(check_devices(&g, device, space, err));
    if (stage) FT_GO(check_stages(&g, device, stage, space + g.n, err));
    status = ft_result_make(&g, space, stage, result, err);
    if (cost->judge && (status == FT_OK || status == FT_INFEASIBLE)) /* it counts memory its way */
        status = cost->judge(&g, result, err);
done:
    ft_ground_free(&g);
    return status;
}
