/* bind_graphs/program.c - a whole graph run at once, outside a pipeline.
 *
 * What evaluation, decoding and checks need: parameters and inputs in, named outputs (and
 * gradients) out. Outputs are tensors of the program's own, overwritten by each run; an output
 * given back as an input of the next run (a key/value cache) is updated in place. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "bind_graphs/internal.h"

static const char PROGRAM[] = "ftpipe.program";

enum { HELD_GRAPH = 1, HELD_PACKS, HELD = HELD_PACKS }; /* in its environment, so that they stay */

typedef struct whole {
    ft_arena *arena;
    const ft_graph *graph; /* anchored by the box */
    ft_program *program;
    ft_team *team;
    void *work;
    int64_t work_bytes;
    int n_nodes, n_outputs, n_terms;
    int *nodes, *terms;
    ft_tensor **outputs; /* by graph output */
    void **inputs, **params, **grads, **bound;
    float **sums; /* by term: accumulators */
    ft_pack *packs;
    const void **packed, **packed_from; /* by pack: the copy, and the weight that it is of */
    int n_packs;
    bool finite; /* all that it makes has to be */
} whole;

static void whole_free(whole *w)
{
    if (!w) return;
    for (int i = 0; w->outputs && i < w->n_outputs; i++) ft_tensor_release(w->outputs[i]);
    for (int t = 0; w->sums && t < w->n_terms; t++) ft_free(w->sums[t]);
    ft_program_free(w->program);
    ft_team_free(w->team);
    ft_pages_free(w->work, w->work_bytes);
    ft_arena_free(w->arena);
}

static int program_gc(lua_State *L)
{
    void **box = script_box(L, 1, PROGRAM);
    whole_free(*box);
    *box = NULL;
    return 0;
}

/* -- making ------------------------------------------------------------------------------------ */

static ft_status allocate(whole *w, ft_error *err)
{
    const ft_graph *g = w->graph;
    w->nodes = ft_arena_array(w->arena, w->n_nodes + 1, sizeof(int));
    w->terms = ft_arena_array(w->arena, w->n_terms + 1, sizeof(int));
    w->sums = ft_arena_array(w->arena, w->n_terms + 1, sizeof(float *));
    w->outputs = ft_arena_array(w->arena, w->n_outputs + 1, sizeof(ft_tensor *));
    w->bound = ft_arena_array(w->arena, w->n_outputs + 1, sizeof(void *));
    w->inputs = ft_arena_array(w->arena, ft_graph_n_inputs(g) + 1, sizeof(void *));
    w->params = ft_arena_array(w->arena, ft_graph_n_params(g) + 1, sizeof(void *));
    w->grads = ft_arena_array(w->arena, w->n_terms + 1, sizeof(void *));
    if (!w->nodes || !w->terms || !w->sums || !w->outputs || !w->bound || !w->inputs ||
        !w->params || !w->grads)
        return ft_fail(err, FT_NOMEM, "program: no memory");
    for (int n = 0; n < w->n_nodes; n++) w->nodes[n] = n;
    for (int t = 0; t < w->n_terms; t++) {
        const ft_grad_term *term = ft_graph_grad_term(g, t);
        w->terms[t] = t;
        w->sums[t] = ft_alloc(ft_spec_bytes(&ft_graph_value(g, term->value)->spec));
        if (!w->sums[t]) return ft_fail(err, FT_NOMEM, "program: no memory for gradients");
        w->grads[t] = w->sums[t];
    }
    for (int i = 0; i < w->n_outputs; i++) {
        ft_value_id v = ft_graph_output_value(g, i, NULL);
        FT_TRY(ft_tensor_new(&w->outputs[i], &ft_graph_value(g, v)->spec, err));
        w->bound[i] = ft_tensor_view(w->outputs[i])->data;
    }
    return FT_OK;
}

/* The packed copies that products could read; they are made when weights are there. */
static ft_status list_packs(whole *w, ft_error *err)
{
    w->packs = ft_arena_array(w->arena, w->n_nodes + 1, sizeof *w->packs);
    w->packed = ft_arena_array(w->arena, w->n_nodes + 1, sizeof *w->packed);
    w->packed_from = ft_arena_array(w->arena, w->n_nodes + 1, sizeof *w->packed_from);
    if (!w->packs || !w->packed || !w->packed_from)
        return ft_fail(err, FT_NOMEM, "program: no memory");
    w->n_packs = ft_program_packs(w->graph, w->nodes, w->n_nodes, &ft_cpu_kernels, w->packs);
    return FT_OK;
}

/* Outputs made by nodes are written straight into their tensors. */
static ft_status compile(whole *w, ft_error *err)
{
    const ft_graph *g = w->graph;
    int n_values = ft_graph_n_values(g);
    ft_place *places = ft_arena_array(w->arena, n_values + 1, sizeof *places);
    if (!places) return ft_fail(err, FT_NOMEM, "program: no memory");
    for (int v = 0; v < n_values; v++) {
        const ft_value *value = ft_graph_value(g, v);
        places[v] = (ft_place){FT_HOME_WORK, 0};
        if (value->kind == FT_VALUE_INPUT) places[v] = (ft_place){FT_HOME_INPUT, value->source};
        if (value->kind == FT_VALUE_PARAM) places[v] = (ft_place){FT_HOME_PARAM, value->source};
    }
    for (int i = 0; i < w->n_outputs; i++) {
        ft_value_id v = ft_graph_output_value(g, i, NULL);
        if (ft_graph_value(g, v)->kind == FT_VALUE_NODE) places[v] = (ft_place){FT_HOME_BOUND, i};
    }
    ft_program_request q = {.graph = g,
                            .nodes = w->nodes,
                            .n_nodes = w->n_nodes,
                            .places = places,
                            .terms = w->terms,
                            .n_terms = w->n_terms,
                            .packs = w->packs,
                            .n_packs = w->n_packs,
                            .team_size = ft_team_size(w->team)};
    FT_TRY(ft_program_new(&w->program, &q, err));
    w->work_bytes = ft_program_work_bytes(w->program);
    w->work = ft_pages_alloc(w->work_bytes);
    return w->work ? FT_OK : ft_fail(err, FT_NOMEM, "program: no memory for its work area");
}

/*** A graph made ready to run as a whole.
 * @function program.new
 * @tparam graph graph
 * @tparam[opt] table options grads (true: gradients as well), threads, finite (true: a run raises
 * `diverged` at the first number that is not), packs (of program.packs: products read packed copies
 * of the parameters)
 * @treturn program */
static int program_new(lua_State *L)
{
    static const char *const names[] = {"grads", "threads", "finite", "packs", NULL};
    ft_error err = {FT_OK, ""};
    const ft_graph *g = script_check_graph(L, 1);
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        lua_newtable(L);
    }
    script_options(L, 2, names);
    bool grads = script_opt_bool(L, 2, "grads", false);
    int threads = (int)script_opt_int(L, 2, "threads", 1, 1, 1024);
    bool finite = script_opt_bool(L, 2, "finite", false);
    lua_createtable(L, HELD, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, HELD_GRAPH);
    bool packed = packs_option(L, 2);
    lua_rawseti(L, -2, HELD_PACKS);
    void **box = script_box_new(L, PROGRAM);
    lua_pushvalue(L, -2);
    lua_setfenv(L, -2);
    ft_arena *arena = ft_arena_new();
    whole *w = arena ? ft_arena_alloc(arena, sizeof *w) : NULL;
    if (!w) {
        ft_arena_free(arena);
        ft_fail(&err, FT_NOMEM, "program: no memory");
        return script_raise(L, &err);
    }
    *box = w;
    w->arena = arena;
    w->graph = g;
    w->finite = finite;
    w->n_nodes = grads ? ft_graph_n_nodes(g) : ft_graph_n_forward(g);
    w->n_terms = grads ? ft_graph_n_grads(g) : 0;
    w->n_outputs = ft_graph_n_outputs(g);
    ft_status status = ft_team_new(&w->team, threads, &err);
    if (status == FT_OK) status = allocate(w, &err);
    if (status == FT_OK && packed) status = list_packs(w, &err);
    if (status == FT_OK) status = compile(w, &err);
    if (status != FT_OK) return script_raise(L, &err);
    script_gc_step(L, w->work_bytes);
    return 1;
}

/* -- running ----------------------------------------------------------------------------------- */

/* Addresses of the tensors in the list at index t, which must be what the values' specs say. */
static void bind_list(lua_State *L, int t, const ft_graph *g, int n,
                      ft_value_id (*value_of)(const ft_graph *, int), void **addresses)
{
    script_check_table(L, t);
    for (int i = 0; i < n; i++) {
        const ft_value *value = ft_graph_value(g, value_of(g, i));
        lua_rawgeti(L, t, i + 1);
        const ft_view *view = script_check_view(L, lua_gettop(L));
        ft_spec spec = ft_view_spec(view);
        char have[96], want[96];
        if (view->dtype != value->spec.dtype || !ft_shape_equal(&spec.shape, &value->spec.shape))
            script_arg_error(
                L, t, "'%s' is %s %s, expected %s %s", value->name, ft_dtype_name(view->dtype),
                ft_shape_format(&spec.shape, have, sizeof have), ft_dtype_name(value->spec.dtype),
                ft_shape_format(&value->spec.shape, want, sizeof want));
        if (!ft_view_contiguous(view))
            script_arg_error(L, t, "'%s' is not contiguous", value->name);
        addresses[i] = view->data;
        lua_pop(L, 1);
    }
}

/* Finds packed copies of the parameters in the list at index t. */
static ft_status find_packs(lua_State *L, int t, whole *w, ft_error *err)
{
    ft_status status = FT_OK;
    for (int i = 0; i < w->n_packs && status == FT_OK; i++) {
        const ft_pack *pack = &w->packs[i];
        const void *weight = w->params[pack->param];
        if (w->packed_from[i] == weight) continue;
        lua_getfenv(L, 1);
        lua_rawgeti(L, -1, HELD_PACKS);
        lua_rawgeti(L, t, pack->param + 1);
        status = packs_get(L, w->graph, pack, weight, w->team, &w->packed[i], err);
        lua_pop(L, 3);
        w->packed_from[i] = status == FT_OK ? weight : NULL;
    }
    return status;
}

static void push_outputs(lua_State *L, const whole *w)
{
    lua_createtable(L, 0, w->n_outputs);
    for (int i = 0; i < w->n_outputs; i++) {
        const char *name;
        ft_graph_output_value(w->graph, i, &name);
        ft_tensor **box = script_push_tensor_box(L);
        *box = ft_tensor_retain(w->outputs[i]);
        lua_setfield(L, -2, name);
    }
}

/* What a run that has to be finite found. */
static ft_status check_watch(const ft_watch *watch, ft_error *err)
{
    char what[256];
    if (!watch->node) return FT_OK;
    ft_watch_words(watch, what, sizeof what);
    return ft_fail(err, FT_DIVERGED, "%s, expected finite numbers", what);
}

/*** Runs the graph.
 * @function program:run
 * @tparam table params tensors in the graph's order of parameters
 * @tparam table inputs tensors in the graph's order of inputs
 * @tparam[opt] table key seed, step: for rows that draw random numbers
 * @treturn table output tensors by name; they hold until the next run */
static int program_run(lua_State *L)
{
    static const char *const names[] = {"seed", "step", NULL};
    ft_error err;
    whole *w = script_box_check(L, 1, PROGRAM);
    bind_list(L, 2, w->graph, ft_graph_n_params(w->graph), ft_graph_param_value, w->params);
    bind_list(L, 3, w->graph, ft_graph_n_inputs(w->graph), ft_graph_input_value, w->inputs);
    ft_rng_key key = {0};
    if (!lua_isnoneornil(L, 4)) {
        script_check_table(L, 4);
        script_options(L, 4, names);
        key.seed = (uint64_t)script_opt_int(L, 4, "seed", 0, 0, (int64_t)1 << 53);
        key.step = (uint32_t)script_opt_int(L, 4, "step", 0, 0, UINT32_MAX);
    }
    ft_status status = find_packs(L, 2, w, &err);
    if (status != FT_OK) return script_raise(L, &err);
    ft_watch watch = {.every = true};
    ft_bases bases = {.work = w->work,
                      .inputs = w->inputs,
                      .params = w->params,
                      .grads = w->grads,
                      .bound = w->bound,
                      .packed = w->packed,
                      .key = key,
                      .team = w->team,
                      .watch = w->finite ? &watch : NULL};
    status = ft_program_run(w->program, &bases, &err);
    if (status == FT_OK) status = check_watch(&watch, &err);
    if (status != FT_OK) return script_raise(L, &err);
    push_outputs(L, w);
    return 1;
}

/*** Gradient of a parameter in the last run: its terms, summed in graph order.
 * @function program:grad
 * @tparam int number of the parameter
 * @treturn tensor a new one */
static int program_grad(lua_State *L)
{
    ft_error err;
    whole *w = script_box_check(L, 1, PROGRAM);
    int param = (int)script_check_index(L, 2, ft_graph_n_params(w->graph), "parameter");
    const ft_spec *spec = &ft_graph_value(w->graph, ft_graph_param_value(w->graph, param))->spec;
    ft_tensor **box = script_push_tensor_box(L);
    if (ft_tensor_new(box, spec, &err) != FT_OK) return script_raise(L, &err);
    float *sum = ft_tensor_view(*box)->data;
    for (int t = 0; t < w->n_terms; t++)
        if (ft_graph_grad_term(w->graph, t)->param == param)
            ft_sum_into(sum, w->sums[t], ft_shape_count(&spec->shape), w->team);
    return 1;
}

int script_bind_program(lua_State *L)
{
    static const luaL_Reg methods[] = {{"run", program_run}, {"grad", program_grad}, {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", program_gc}, {NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"new", program_new}, {"packs", program_packs}, {NULL, NULL}};
    script_class(L, PROGRAM, methods, meta);
    lua_pop(L, 1);
    script_packs_class(L);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
