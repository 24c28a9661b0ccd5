/* blueprint/blueprint.c - everything decided before a run. */
#include <string.h>

#include "base/alloc.h"
#include "blueprint/internal.h"

/* -- options ----------------------------------------------------------------------------------- */

static void *copy_array(ft_arena *arena, const void *source, int64_t n, int64_t size)
{
    void *copy = ft_arena_array(arena, n + 1, size);
    if (copy && n) memcpy(copy, source, (size_t)(n * size));
    return copy;
}

static ft_status check_options(const ft_blueprint_options *o, ft_error *err)
{
    if (o->n_graphs < 1 || o->n_stages < 1 || o->n_devices < 1 || o->micro_batches < 1 ||
        o->n_batches < 1 || o->micro_batch_size < 1)
        return ft_fail(
            err, FT_INVALID,
            "engine: graphs %d, stages %d, devices %d, micro-batches %d of %lld, batches "
            "%d: each must be at least 1",
            o->n_graphs, o->n_stages, o->n_devices, o->micro_batches,
            (long long)o->micro_batch_size, o->n_batches);
    for (int s = 0; s < o->n_stages; s++)
        if (o->stage_device[s] < 0 || o->stage_device[s] >= o->n_devices)
            return ft_fail(err, FT_INVALID, "engine: stage %d is on device %d, there are %d", s,
                           o->stage_device[s], o->n_devices);
    if (o->machine && o->machine->n_devices != o->n_devices)
        return ft_fail(err, FT_INVALID, "engine: a machine of %d devices, there are %d",
                       o->machine->n_devices, o->n_devices);
    if (o->clip > 0 && !o->schedule->synchronous)
        return ft_fail(err, FT_INVALID,
                       "engine: clipping by the global norm needs a synchronous schedule, "
                       "'%s' updates each stage at its own time",
                       o->schedule->name);
    return FT_OK;
}

/* NULL stays NULL; `ok` turns false without memory. */
static void *copy_given(ft_arena *arena, const void *source, int64_t n, int64_t size, bool *ok)
{
    void *copy = source ? copy_array(arena, source, n, size) : NULL;
    *ok = *ok && (copy || !source);
    return copy;
}

static ft_status copy_machine(ft_blueprint *b, const ft_machine *m, ft_error *err)
{
    if (!m) return FT_OK;
    ft_machine *c = ft_arena_alloc(b->arena, sizeof *c);
    bool ok = c;
    if (ok) {
        *c = *m;
        c->links = copy_given(b->arena, m->links, m->n_links, sizeof *m->links, &ok);
        c->home = copy_given(b->arena, m->home, m->n_devices, sizeof *m->home, &ok);
        c->copy_bytes_per_s = copy_given(b->arena, m->copy_bytes_per_s, m->n_devices,
                                         sizeof *m->copy_bytes_per_s, &ok);
        c->launch_ns = copy_given(b->arena, m->launch_ns, m->n_devices, sizeof *m->launch_ns, &ok);
    }
    b->options.machine = c;
    return ok ? FT_OK : ft_fail(err, FT_NOMEM, "engine: no memory for the machine");
}

static ft_status copy_options(ft_blueprint *b, const ft_blueprint_options *o, ft_error *err)
{
    ft_blueprint_options *c = &b->options;
    int n_forward = ft_graph_n_forward(o->graphs[0]);
    *c = *o;
    c->graphs = copy_array(b->arena, o->graphs, o->n_graphs, sizeof *o->graphs);
    c->node_stage = copy_array(b->arena, o->node_stage, n_forward, sizeof(int));
    c->recompute = copy_array(b->arena, o->recompute, o->n_stages, sizeof(bool));
    c->stage_device = copy_array(b->arena, o->stage_device, o->n_stages, sizeof(int));
    c->devices = copy_array(b->arena, o->devices, o->n_devices, sizeof *o->devices);
    c->hypers = copy_array(b->arena, o->hypers, FT_MAX_HYPERS, sizeof(double));
    c->no_decay = NULL; /* in what each parameter's hypers are: assign_hypers */
    bool ok = c->graphs && c->node_stage && c->recompute && c->stage_device && c->devices;
    if (!ok || !c->hypers) return ft_fail(err, FT_NOMEM, "engine: no memory for the options");
    return copy_machine(b, o->machine, err);
}

/* The graphs of all buckets are one graph with other shapes. */
static ft_status check_buckets(const ft_blueprint_options *o, ft_error *err)
{
    const ft_graph *first = o->graphs[0];
    for (int i = 1; i < o->n_graphs; i++) {
        const ft_graph *g = o->graphs[i];
        bool same = ft_graph_n_nodes(g) == ft_graph_n_nodes(first) &&
                    ft_graph_n_values(g) == ft_graph_n_values(first) &&
                    ft_graph_n_params(g) == ft_graph_n_params(first) &&
                    ft_graph_n_inputs(g) == ft_graph_n_inputs(first) &&
                    ft_graph_n_grads(g) == ft_graph_n_grads(first);
        for (int n = 0; same && n < ft_graph_n_nodes(g); n++)
            same = ft_graph_node(g, n)->op == ft_graph_node(first, n)->op &&
                   ft_graph_node(g, n)->out == ft_graph_node(first, n)->out;
        if (!same)
            return ft_fail(err, FT_INVALID,
                           "engine: the graph of length bucket %d has other nodes than the first",
                           i);
    }
    return FT_OK;
}

/* -- stages ------------------------------------------------------------------------------------ */

static ft_status cut_graphs(ft_blueprint *b, ft_error *err)
{
    const ft_blueprint_options *o = &b->options;
    b->splits = ft_arena_array(b->arena, o->n_graphs, sizeof *b->splits);
    b->stages = ft_arena_array(b->arena, o->n_stages, sizeof *b->stages);
    if (!b->splits || !b->stages) return ft_fail(err, FT_NOMEM, "engine: no memory for stages");
    for (int i = 0; i < o->n_graphs; i++)
        FT_TRY(ft_graph_split(o->graphs[i], o->node_stage, o->recompute, o->n_stages, &b->splits[i],
                              err));
    for (int s = 0; s < o->n_stages; s++) {
        ft_stage_layout *stage = &b->stages[s];
        stage->device = o->stage_device[s];
        stage->cut = ft_arena_array(b->arena, o->n_graphs, sizeof *stage->cut);
        if (!stage->cut) return ft_fail(err, FT_NOMEM, "engine: no memory for stages");
        for (int i = 0; i < o->n_graphs; i++) stage->cut[i] = &b->splits[i]->stages[s];
    }
    return FT_OK;
}

/* Parameters that do not decay get hypers of their own, in which weight_decay is 0. */
static ft_status assign_hypers(ft_blueprint *b, const bool *no_decay, ft_error *err)
{
    const ft_hyper_rule *rules = b->options.optimizer->hypers;
    double *others = copy_array(b->arena, b->options.hypers, FT_MAX_HYPERS, sizeof(double));
    if (!others) return ft_fail(err, FT_NOMEM, "engine: no memory for the options");
    for (int i = 0; rules[i].name; i++)
        if (strcmp(rules[i].name, "weight_decay") == 0) others[i] = 0;
    for (int p = 0; p < b->n_params; p++)
        b->params[p].hypers = no_decay && no_decay[p] ? others : b->options.hypers;
    return FT_OK;
}

/* -- plan -------------------------------------------------------------------------------------- */

ft_status ft_blueprint_leg(ft_plan **out, const ft_blueprint *b, int n_batches, ft_error *err)
{
    ft_pipeline pipeline = {.n_stages = b->options.n_stages,
                            .n_devices = b->options.n_devices,
                            .device = b->options.stage_device,
                            .micro_batches = b->options.micro_batches,
                            .n_batches = n_batches,
                            .reduces = !b->options.schedule->forward_only,
                            .n_edges = b->n_edges,
                            .edges = b->edges,
                            .weights = b->options.weights,
                            .costs = &b->costs};
    FT_TRY(ft_plan_make(out, &pipeline, b->options.schedule, err));
    ft_status status = ft_plan_check(*out, err);
    if (status == FT_OK)
        status = ft_plan_annotate(*out, ft_graph_n_forward(b->options.graphs[0]),
                                  b->options.node_stage, b->options.recompute, NULL, err);
    for (int s = 0; status == FT_OK && b->plan && s < b->options.n_stages; s++)
        if ((*out)->in_flight[s] > b->plan->in_flight[s])
            status =
                ft_fail(err, FT_INVALID,
                        "engine: a leg of %d batches holds %d micro-batches in stage %d, memory "
                        "was laid out for %d",
                        n_batches, (*out)->in_flight[s], s, b->plan->in_flight[s]);
    if (status != FT_OK) {
        ft_plan_free(*out);
        *out = NULL;
    }
    return status;
}

/* Edges start with the buffers that equal stages need; a plan that cannot complete with them
 * (uneven branches) gets more. */
static ft_status make_plan(ft_blueprint *b, ft_error *err)
{
    enum { MOST_SLOTS = 256 };
    for (;;) {
        ft_status status = ft_blueprint_leg(&b->plan, b, b->options.n_batches, err);
        if (status != FT_INFEASIBLE) return status;
        for (int e = 0; e < b->n_edges; e++) {
            b->edges[e].slots *= 2;
            if (b->edges[e].slots > MOST_SLOTS) return status;
        }
    }
}

static ft_status annotate_memory(ft_blueprint *b, ft_error *err)
{
    int n = b->options.n_devices;
    int64_t(*memory)[FT_PLAN_CLASSES] = ft_arena_array(b->arena, n, sizeof *memory);
    if (!memory) return ft_fail(err, FT_NOMEM, "engine: no memory for the plan");
    for (int d = 0; d < n; d++) memcpy(memory[d], b->blocks[d].bytes, sizeof memory[d]);
    return ft_plan_annotate(b->plan, ft_graph_n_forward(b->options.graphs[0]),
                            b->options.node_stage, b->options.recompute,
                            (const int64_t(*)[FT_PLAN_CLASSES])memory, err);
}

static ft_status assemble(ft_blueprint *b, const ft_blueprint_options *options, ft_error *err)
{
    FT_TRY(check_options(options, err));
    FT_TRY(check_buckets(options, err));
    FT_TRY(copy_options(b, options, err));
    const ft_graph *g = options->graphs[0];
    b->n_params = ft_graph_n_params(g);
    b->n_inputs = ft_graph_n_inputs(g);
    b->n_terms = ft_graph_n_grads(g);
    b->backward = options->schedule->splits ? FT_ACT_BACKWARD_INPUT : FT_ACT_BACKWARD;
    b->loss = ft_graph_find(g, "loss");
    if (b->loss == FT_NO_VALUE || ft_graph_value(g, b->loss)->spec.shape.n_dims != 0)
        return ft_fail(err, FT_INVALID, "engine: the graph has no scalar output named 'loss'");
    FT_TRY(cut_graphs(b, err));
    FT_TRY(blueprint_find_owners(b, err));
    if (b->trains) FT_TRY(blueprint_find_trained(b, err));
    if (b->n_terms) FT_TRY(assign_hypers(b, options->no_decay, err));
    FT_TRY(blueprint_find_outputs(b, err));
    FT_TRY(blueprint_find_edges(b, err));
    FT_TRY(blueprint_estimate(b, err));
    b->options.costs = NULL;
    FT_TRY(make_plan(b, err));
    FT_TRY(blueprint_compile(b, err));
    FT_TRY(blueprint_add_evaluation(b, err));
    b->options.evaluation = NULL; /* the caller's */
    FT_TRY(blueprint_lay_out(b, err));
    return annotate_memory(b, err);
}

ft_status blueprint_build(ft_blueprint **out, const ft_blueprint_options *options,
                          const ft_blueprint *trains, int *trained_stage, ft_error *err)
{
    *out = NULL;
    ft_arena *arena = ft_arena_new();
    ft_blueprint *b = arena ? ft_arena_alloc(arena, sizeof *b) : NULL;
    if (!b) {
        ft_arena_free(arena);
        return ft_fail(err, FT_NOMEM, "engine: no memory for a blueprint");
    }
    b->arena = arena;
    b->trains = trains;
    b->trained_stage = trained_stage;
    ft_status status = assemble(b, options, err);
    if (status == FT_OK)
        *out = b;
    else
        ft_blueprint_free(b);
    return status;
}

ft_status ft_blueprint_new(ft_blueprint **out, const ft_blueprint_options *options, ft_error *err)
{
    return blueprint_build(out, options, NULL, NULL, err);
}

void ft_blueprint_free(ft_blueprint *b)
{
    if (!b) return;
    for (int s = 0; b->stages && s < b->options.n_stages; s++)
        for (int i = 0; b->stages[s].forward && i < b->options.n_graphs; i++) {
            ft_program_free(b->stages[s].forward[i]);
            ft_program_free(b->stages[s].backward[i]);
        }
    ft_plan_free(b->plan);
    ft_blueprint_free(b->evaluation);
    ft_arena_free(b->arena);
}

const ft_plan *ft_blueprint_plan(const ft_blueprint *b)
{
    return b->plan;
}

const ft_stage_costs *ft_blueprint_costs(const ft_blueprint *b)
{
    return &b->costs;
}

int64_t ft_blueprint_slot_bytes(const ft_blueprint *b, int stage)
{
    return b->stages[stage].slot_bytes;
}

const ft_machine *ft_blueprint_machine(const ft_blueprint *b)
{
    return b->options.machine;
}
