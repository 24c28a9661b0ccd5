/* blueprint/blueprint.c - a plan and a graph, and the place of all that they need. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "blueprint/internal.h"
#include "proof/proof.h"

/* -- options ----------------------------------------------------------------------------------- */

static ft_status copy_options(ft_blueprint *b, const ft_blueprint_options *o, ft_error *err)
{
    b->options = *o;
    b->options.hypers = ft_arena_copy(b->arena, o->hypers, FT_MAX_HYPERS, sizeof(double));
    b->options.weight_decays = b->options.rate_factors = NULL; /* the caller's: assign_hypers */
    return b->options.hypers ? FT_OK : no_memory(err);
}

static int find_decay(const ft_optimizer *optimizer)
{
    for (int i = 0; optimizer->hypers[i].name; i++)
        if (strcmp(optimizer->hypers[i].name, "weight_decay") == 0) return i;
    return -1;
}

/* Hypers of a parameter that has a weight_decay of its own; those of all where it is the same. */
static ft_status own_hypers(const ft_blueprint *b, int p, double decay, const double **out,
                            ft_error *err)
{
    int at = find_decay(b->options.optimizer);
    *out = b->options.hypers;
    if (at < 0 || isnan(decay) || decay == (*out)[at]) return FT_OK;
    const ft_hyper_rule *rule = &b->options.optimizer->hypers[at];
    if (!(decay >= rule->min && decay <= rule->max))
        return ft_fail(err, FT_INVALID, "'%s': weight_decay is %g, expected %g to %g",
                       b->params[p].name, decay, rule->min, rule->max);
    double *own = ft_arena_copy(b->arena, b->options.hypers, FT_MAX_HYPERS, sizeof(double));
    if (!own) return no_memory(err);
    own[at] = decay;
    *out = own;
    return FT_OK;
}

/* What parameters have of their own. Those of seats with late weights are kept ahead, by an
 * optimizer that can. */
static ft_status assign_hypers(ft_blueprint *b, const ft_blueprint_options *o, ft_error *err)
{
    for (int p = 0; p < b->n_params; p++) {
        ft_param_layout *info = &b->params[p];
        info->hypers = b->options.hypers;
        if (o->weight_decays) FT_TRY(own_hypers(b, p, o->weight_decays[p], &info->hypers, err));
        info->rate_factor = o->rate_factors ? o->rate_factors[p] : 1;
        if (!(info->rate_factor >= 0 && info->rate_factor <= DBL_MAX))
            return ft_fail(err, FT_INVALID,
                           "'%s': its rate is multiplied by %g, expected 0 or more", info->name,
                           info->rate_factor);
        info->ahead = ft_blueprint_ahead(b, b->seats[info->owner].stage);
    }
    return FT_OK;
}

/* -- plan -------------------------------------------------------------------------------------- */

static ft_status check_plan(const ft_blueprint_options *o, ft_error *err)
{
    const ft_plan *plan = o->plan;
    int n_forward = ft_graph_n_forward(o->graphs[0]);
    if (plan->n_nodes != n_forward)
        return ft_fail(err, FT_INVALID,
                       "the plan says of %d forward nodes in which stage they are, this graph has "
                       "%d",
                       plan->n_nodes, n_forward);
    if (plan->n_devices != o->n_devices)
        return ft_fail(err, FT_INVALID, "the plan is for %d devices, there are %d", plan->n_devices,
                       o->n_devices);
    if (!plan->forward_only && !ft_graph_n_grads(o->graphs[0]))
        return ft_fail(err, FT_INVALID, "the plan trains, the graph has no gradients");
    if (o->micro_batch_size < 1)
        return ft_fail(err, FT_INVALID, "micro-batches of %lld samples, expected 1 or more",
                       (long long)o->micro_batch_size);
    return ft_plan_check(plan, err);
}

static ft_status cut_of(const ft_blueprint *b, const ft_blueprint_options *o, ft_cut *out,
                        ft_error *err)
{
    const ft_plan *plan = o->plan;
    bool *splits = ft_arena_array(b->arena, 3 * (int64_t)plan->n_stages, sizeof *splits);
    if (!splits) return no_memory(err);
    bool *predicts = splits + plan->n_stages, *attenuates = predicts + plan->n_stages;
    for (int s = 0; s < plan->n_stages; s++) {
        splits[s] = ft_plan_has(plan, s, FT_ACT_BACKWARD_INPUT);
        predicts[s] = ft_plan_has(plan, s, FT_ACT_PREDICT);
        attenuates[s] = ft_plan_has(plan, s, FT_ACT_ATTENUATE);
    }
    *out = (ft_cut){.graphs = o->graphs,
                    .n_graphs = o->n_graphs,
                    .joint_graphs = o->joint_graphs,
                    .n_stages = plan->n_stages,
                    .node_stage = plan->node_stage,
                    .recompute = plan->recompute,
                    .joint = plan->joint,
                    .stage_device = plan->device,
                    .replica_first = plan->replica_first,
                    .replica_device = plan->replica_device,
                    .replica_rule = plan->replica_rule,
                    .devices = o->devices,
                    .n_devices = o->n_devices,
                    .micro_batches = plan->micro_batches,
                    .n_batches = plan->n_batches,
                    .forward_only = plan->forward_only,
                    .splits = splits,
                    .predicts = predicts,
                    .attenuates = attenuates,
                    .keeps = blueprint_keeps(plan),
                    .costs = o->costs,
                    .machine = o->machine};
    return FT_OK;
}

/* Notes whose reduces an action of the seat waits for. */
static void note_reduced(const ft_blueprint *b, int to, ft_action_kind kind, int *waited_by)
{
    const ft_seat_layout *seat = &b->seats[to];
    for (int i = 0; i < seat->n_in_edges[kind]; i++)
        waited_by[b->edges[seat->in_edges[kind][i]].from] = to;
}

/* Two seats of which the second updates without the norms of the first, the first such one.
 * waited_by: room for a number of each seat. */
static bool find_hasty(const ft_blueprint *b, bool may_be_late, int *waited_by, int *from, int *to)
{
    int n = b->seating.n_seats;
    *from = n;
    for (int s = 0; s < n; s++) waited_by[s] = -1;
    for (int s = 0; s < n; s++) {
        note_reduced(b, s, FT_ACT_UPDATE, waited_by);
        if (may_be_late) note_reduced(b, s, FT_ACT_TAKE_NORMS, waited_by);
        int first = 0;
        while (first < *from && (first == s || waited_by[first] == s)) first++;
        if (first == *from) continue;
        *from = first;
        *to = s;
    }
    return *from < n;
}

/* Norms serve the clipping of late updates alone; where seats update together they are shown. */
static ft_status check_clipping(ft_blueprint *b, ft_error *err)
{
    int from = 0, to = 0, *waited_by = ft_arena_array(b->arena, b->seating.n_seats, sizeof(int));
    bool clips = b->options.clip > 0 && !b->cut.forward_only;
    if (!waited_by) return no_memory(err);
    b->together = !b->cut.forward_only && !find_hasty(b, false, waited_by, &from, &to);
    b->norms = b->together || (clips && !find_hasty(b, true, waited_by, &from, &to));
    b->squares = b->norms || (b->options.gnorm && !b->cut.forward_only);
    b->norm_seat = -1;
    for (int s = b->seating.n_seats - 1; b->norms && s >= 0; s--)
        if (!b->seats[s].n_in_edges[FT_ACT_TAKE_NORMS]) b->norm_seat = s;
    if (!clips || b->norms) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "clipping goes by the norm of all gradients, but in this plan ('%s') stage %d "
                   "updates without those of stage %d: expected an edge R%d>U%d, or R%d>N%d and N "
                   "actions, as of every two stages",
                   b->plan.schedule, b->seats[to].stage, b->seats[from].stage, b->seats[from].stage,
                   b->seats[to].stage, b->seats[from].stage, b->seats[to].stage);
}

/* Norms of a batch are there until every seat has taken them. */
static void count_norm_slots(ft_blueprint *b)
{
    b->norm_slots = b->batch_slots;
    for (int e = 0; e < b->n_edges; e++)
        if (b->edges[e].to_kind == FT_ACT_TAKE_NORMS && b->edges[e].slots >= b->norm_slots)
            b->norm_slots = b->edges[e].slots + 1;
}

static ft_status annotate_memory(ft_blueprint *b, ft_error *err)
{
    int n = b->cut.n_devices;
    int64_t(*memory)[FT_MEMORY_CLASSES] = ft_arena_array(b->arena, n, sizeof *memory);
    if (!memory) return no_memory(err);
    for (int d = 0; d < n; d++)
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            memory[d][c] = b->blocks[d].bytes[c] + b->stays.parts[d].most[c];
    b->plan.memory = (const int64_t(*)[FT_MEMORY_CLASSES])memory;
    return FT_OK;
}

/* -- all of it --------------------------------------------------------------------------------- */

static ft_status assemble(ft_blueprint *b, const ft_blueprint_options *options, ft_error *err)
{
    ft_cut cut;
    FT_TRY(check_plan(options, err));
    FT_TRY(cut_of(b, options, &cut, err));
    FT_TRY(copy_options(b, options, err));
    FT_TRY(blueprint_cut(b, &cut, err));
    FT_TRY(blueprint_take_plan(b, options->plan, err));
    FT_TRY(check_clipping(b, err));
    if (b->trains) FT_TRY(blueprint_find_trained(b, err));
    if (b->n_terms) FT_TRY(assign_hypers(b, options, err));
    FT_TRY(blueprint_find_outputs(b, err));
    FT_TRY(blueprint_size_programs(b, err));
    FT_TRY(blueprint_estimate(b, err));
    if (b->trains) FT_TRY(blueprint_plan_visits(b, err));
    FT_TRY(blueprint_lay_out(b, err));
    FT_TRY(blueprint_add_evaluation(b, err));
    if (!b->trains) blueprint_finish_layout(b);
    b->cut.costs = b->options.costs = NULL; /* the caller's */
    b->options.evaluation = NULL;
    count_norm_slots(b);
    return annotate_memory(b, err);
}

ft_status blueprint_build(ft_blueprint **out, const ft_blueprint_options *options,
                          const ft_blueprint *trains, ft_error *err)
{
    *out = NULL;
    ft_arena *arena = ft_arena_new();
    ft_blueprint *b = arena ? ft_arena_alloc(arena, sizeof *b) : NULL;
    if (!b) {
        ft_arena_free(arena);
        return no_memory(err);
    }
    b->arena = arena;
    b->trains = trains;
    ft_status status = assemble(b, options, err);
    if (status == FT_OK)
        *out = b;
    else
        ft_blueprint_free(b);
    return status;
}

ft_status ft_blueprint_new(ft_blueprint **out, const ft_blueprint_options *options, ft_error *err)
{
    return blueprint_build(out, options, NULL, err);
}

void ft_blueprint_free(ft_blueprint *b)
{
    if (!b) return;
    ft_blueprint_free(b->evaluation);
    ft_arena_free(b->arena);
}

const ft_plan *ft_blueprint_plan(const ft_blueprint *b)
{
    return &b->plan;
}

const ft_stage_costs *ft_blueprint_costs(const ft_blueprint *b)
{
    return &b->costs;
}

double ft_blueprint_ahead(const ft_blueprint *b, int stage)
{
    const ft_blueprint_options *o = &b->options;
    bool ahead = o->look_ahead && ft_optimizer_looks_ahead(o->optimizer, o->hypers) &&
                 ft_plan_reads_newest(&b->plan);
    return ahead ? ft_plan_mean_staleness(&b->plan, stage) : 0;
}

int64_t ft_blueprint_slot_bytes(const ft_blueprint *b, int stage)
{
    return b->seats[b->seating.of[stage].first].slot_bytes;
}

double ft_blueprint_traffic(const ft_blueprint *b, int edge, double *messages)
{
    double bytes = 0;
    *messages = 0;
    if (ft_action_per_micro(b->plan_edges[edge].from_kind)) {
        *messages = b->cut.micro_batches;
        return (double)b->plan_edges[edge].bytes * *messages;
    }
    int first = b->edge_first[edge]; /* those of an edge of the plan are one behind the other */
    for (int e = first; e >= 0 && e < b->n_edges && b->cargoes[e].edge == edge; e++) {
        bytes += (double)b->edges[e].bytes;
        *messages += 1;
    }
    return bytes;
}

static void add_sends(const ft_blueprint *b, int device, const ft_action_list *list, int64_t times,
                      int64_t by_kind[FT_ACT_COUNT])
{
    ft_row_end at;
    for (int i = 0; i < list->n; i++) {
        const ft_action a = ft_seated(&b->seating, device, list->actions[i]);
        for (int k = 0; ft_blueprint_fills(b, &a, k, &at); k++)
            by_kind[b->edges[at.edge].from_kind] +=
                times * ft_blueprint_sent(b, at, b->cut.n_graphs - 1);
    }
}

void ft_blueprint_sends(const ft_blueprint *b, int device, int64_t by_kind[FT_ACT_COUNT])
{
    const ft_device_plan *lists = &b->plan.devices[device];
    for (int k = 0; k < FT_ACT_COUNT; k++) by_kind[k] = 0;
    add_sends(b, device, &lists->warmup, 1, by_kind);
    add_sends(b, device, &lists->body, b->plan.body_repeats, by_kind);
    add_sends(b, device, &lists->drain, 1, by_kind);
}

double ft_blueprint_copy_rate(const ft_blueprint *b, int device)
{
    double rate = b->copy_bytes_per_s[device], limit = b->cut.devices[device].host_limit;
    return limit > 0 && limit < rate ? limit : rate;
}

const ft_machine *ft_blueprint_machine(const ft_blueprint *b)
{
    return b->cut.machine;
}
