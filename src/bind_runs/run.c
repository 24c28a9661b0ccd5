/* bind_runs/run.c - runs: weights in, batches in, results out.
 *
 * A run is shared by its box and by the tensors that look at its parameters: the memory goes when
 * the last of them goes, so that no Lua value can dangle. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "bind_runs/internal.h"
#include "proof/proof.h"

static const char RUN[] = "ftpipe.run";

typedef struct shared_run {
    ft_run *run;
    ft_run *now;  /* whose leg is under way or was the last: `run`, or its evaluation */
    ft_plan *leg; /* of that leg */
    atomic_int references;
} shared_run;

static void drop(void *owner)
{
    shared_run *shared = owner;
    if (atomic_fetch_sub(&shared->references, 1) != 1) return;
    ft_run_free(shared->run);
    ft_plan_free(shared->leg);
    ft_free(shared);
}

static shared_run *check_run(lua_State *L, int i)
{
    return script_box_check(L, i, RUN);
}

/* As --transport says it; nil: auto. */
static ft_transport check_transport(lua_State *L, int i)
{
    static const char *const words[] = {
        [FT_CHANNELS_IF_ANY] = "auto", [FT_CHANNELS_OR_FAIL] = "nccl", [FT_NO_CHANNELS] = "mpi"};
    const char *word = luaL_optstring(L, i, words[0]);
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        if (strcmp(word, words[n]) == 0) return (ft_transport)n;
    script_arg_error(L, i, "transport is '%s', expected auto, nccl or mpi", word);
    return FT_CHANNELS_IF_ANY;
}

int script_run_new(lua_State *L)
{
    ft_error err = {FT_OK, ""};
    const ft_blueprint *b = script_check_blueprint(L, 1);
    const char *swap_dir = luaL_optstring(L, 2, NULL);
    ft_transport transport = check_transport(L, 3);
    /* the collector does not see how large a run is: those that nobody holds go before more comes
     */
    lua_gc(L, LUA_GCCOLLECT, 0);
    void **box = script_box_new(L, RUN);
    lua_createtable(L, 1, 0); /* holds on to the blueprint */
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_setfenv(L, -2);
    shared_run *shared = ft_alloc(sizeof *shared);
    if (!shared) {
        ft_fail(&err, FT_NOMEM, "run: no memory");
        return script_raise(L, &err);
    }
    atomic_init(&shared->references, 1);
    *box = shared;
    if (ft_run_join(&shared->run, b, script_world(L), transport, swap_dir, &err) != FT_OK)
        return script_raise(L, &err);
    shared->now = shared->run;
    return 1;
}

/* The leg ends with the box, while the blueprint is still there; a card's memory goes with it, what
 * tensors look at stays. */
static int run_free(lua_State *L)
{
    void **box = script_box(L, 1, RUN);
    shared_run *shared = *box;
    *box = NULL;
    if (!shared) return 0;
    ft_run_close(shared->run);
    drop(shared);
    return 0;
}

/* -- parameters -------------------------------------------------------------------------------- */

static int push_shared_view(lua_State *L, shared_run *shared, const ft_view *view)
{
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    atomic_fetch_add(&shared->references, 1);
    if (ft_tensor_wrap(box, view, drop, shared, &err) == FT_OK) return 1;
    drop(shared);
    return script_raise(L, &err);
}

/*** The parameter's memory at its owner, as a tensor. Do not touch it while a leg runs. Where a
 * card or another process has it, a copy in memory that the next leg takes back: ask again after
 * it.
 * @function run:param
 * @tparam int number in the graph's order of parameters */
static int run_param(lua_State *L)
{
    shared_run *shared = check_run(L, 1);
    int i = (int)script_check_index(L, 2, ft_run_n_params(shared->run), "parameter");
    ft_error err;
    if (ft_run_fetch(shared->run, i, false, &err) != FT_OK) return script_raise(L, &err);
    ft_view view = ft_run_param(shared->run, i);
    return push_shared_view(L, shared, &view);
}

/*** The optimizer's state of a parameter, as tensors at its owner. Do not touch them while a leg
 * runs.
 * @function run:state
 * @tparam int number in the graph's order of parameters
 * @treturn table a list of { name =, tensor = }; empty for what is not trained */
static int run_state(lua_State *L)
{
    shared_run *shared = check_run(L, 1);
    int i = (int)script_check_index(L, 2, ft_run_n_params(shared->run), "parameter");
    const char *name;
    ft_view view;
    ft_error err;
    if (ft_run_fetch(shared->run, i, true, &err) != FT_OK) return script_raise(L, &err);
    lua_createtable(L, FT_MAX_STATE_PARTS, 0);
    for (int part = 0; ft_run_state(shared->run, i, part, &name, &view); part++) {
        lua_createtable(L, 0, 2);
        lua_pushstring(L, name);
        lua_setfield(L, -2, "name");
        push_shared_view(L, shared, &view);
        lua_setfield(L, -2, "tensor");
        lua_rawseti(L, -2, part + 1);
    }
    return 1;
}

/*** The parts of a parameter's optimizer state; nothing is brought here.
 * @function run:state_names
 * @tparam int number in the graph's order of parameters
 * @treturn table a list of names; empty for what is not trained */
static int run_state_names(lua_State *L)
{
    const shared_run *shared = check_run(L, 1);
    int i = (int)script_check_index(L, 2, ft_run_n_params(shared->run), "parameter");
    const char *name;
    lua_createtable(L, FT_MAX_STATE_PARTS, 0);
    for (int part = 0; (name = ft_run_state_name(shared->run, i, part)); part++) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, part + 1);
    }
    return 1;
}

static int run_write(lua_State *L)
{
    return script_run_write(L, check_run(L, 1)->run);
}

static int run_read(lua_State *L)
{
    return script_run_read(L, check_run(L, 1)->run);
}

/*** Fills a parameter with numbers that are drawn; a refresh is to follow. The processes that have
 * it draw it themselves.
 * @function run:draw
 * @tparam int number in the graph's order of parameters
 * @tparam string law this, and what follows, as of tensor:draw
 * @tparam[opt=1] number scale
 * @tparam[opt=0] int seed
 * @tparam[opt=0] int stream */
static int run_draw(lua_State *L)
{
    ft_run *run = check_run(L, 1)->run;
    ft_error err;
    int param = (int)script_check_index(L, 2, ft_run_n_params(run), "parameter");
    uint64_t seed;
    ft_draw draw = script_check_draw(L, 3, &seed);
    if (ft_run_draw(run, param, &draw, seed, &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** To be called after parameters were written: replicas and packed copies follow.
 * @function run:refresh */
static int run_refresh(lua_State *L)
{
    ft_error err;
    if (ft_run_refresh(check_run(L, 1)->run, &err) != FT_OK) return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/* -- legs -------------------------------------------------------------------------------------- */

/* That of the run at index 1. */
static const ft_blueprint *push_blueprint(lua_State *L)
{
    lua_getfenv(L, 1);
    lua_rawgeti(L, -1, 1);
    return script_check_blueprint(L, lua_gettop(L));
}

/*** Starts a leg.
 * @function run:begin
 * @tparam int batches
 * @tparam int first_step counts from 1
 * @tparam[opt=true] boolean threaded
 * @tparam[opt] boolean evaluation a leg of evaluation, whose results have `outputs` */
static int run_begin(lua_State *L)
{
    ft_error err;
    shared_run *shared = check_run(L, 1);
    int batches = (int)script_check_int(L, 2, 1, INT32_MAX);
    int64_t first = script_check_int(L, 3, 1, INT32_MAX);
    bool threaded = lua_isnoneornil(L, 4) || lua_toboolean(L, 4);
    bool evaluates = lua_toboolean(L, 5);
    const ft_blueprint *b = push_blueprint(L);
    ft_run *run = shared->run;
    if (evaluates) {
        b = ft_blueprint_evaluation(b);
        run = ft_run_evaluation(run);
        if (!b) return script_arg_error(L, 5, "this run has no evaluation");
    }
    ft_plan *leg = NULL;
    ft_status status = ft_plan_cut(&leg, ft_blueprint_plan(b), batches, &err);
    if (status == FT_OK) status = ft_run_begin(run, leg, first, threaded, &err);
    if (status != FT_OK) {
        ft_plan_free(leg);
        return script_raise(L, &err);
    }
    ft_plan_free(shared->leg);
    shared->leg = leg;
    shared->now = run;
    return 0;
}

static int run_wants(lua_State *L)
{
    lua_pushboolean(L, ft_run_wants(check_run(L, 1)->now));
    return 1;
}

/* The list of tensors at index 2 and the bucket at index 3; the views are a userdata on the stack.
 */
static ft_feed read_feed(lua_State *L)
{
    script_check_table(L, 2);
    int n = (int)lua_objlen(L, 2);
    ft_feed feed = {.bucket = (int)script_check_int(L, 3, 1, INT32_MAX) - 1};
    ft_view *views = lua_newuserdata(L, ((size_t)n + 1) * sizeof *views);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, 2, i + 1);
        views[i] = *script_check_view(L, lua_gettop(L));
        if (!ft_view_contiguous(&views[i]))
            script_arg_error(L, 2, "input %d is not contiguous", i + 1); /* does not return */
        lua_pop(L, 1);
    }
    feed.inputs = views;
    feed.n_inputs = n;
    return feed;
}

/*** Raises what a batch has against the graphs: the number, sizes or types of its inputs.
 * @function blueprint:check_feed
 * @tparam table inputs tensors in the order of the graph's inputs
 * @tparam int bucket */
int script_blueprint_check_feed(lua_State *L)
{
    ft_error err;
    const ft_blueprint *b = script_check_blueprint(L, 1);
    ft_feed feed = read_feed(L);
    if (ft_feed_check(b, &feed, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/*** Feeds a batch.
 * @function run:feed
 * @tparam table inputs tensors in the order of the graph's inputs
 * @tparam int bucket
 * @tparam number rate
 * @tparam[opt] number loss_scale by which the losses are too large: the update, the loss and the
 *   norm that come of it are without it. Gradients that are not finite then end nothing, the batch
 *   updates nothing. */
static int run_feed(lua_State *L)
{
    ft_error err;
    shared_run *shared = check_run(L, 1);
    lua_settop(L, 5);
    ft_feed feed = read_feed(L);
    feed.rate = script_check_number(L, 4);
    if (!lua_isnoneornil(L, 5)) feed.loss_scale = script_check_number(L, 5);
    if (ft_run_feed(shared->now, &feed, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/*** Ends the leg with the batches that were fed so far; they are finished as usual.
 * @function run:drain */
static int run_drain(lua_State *L)
{
    ft_run_drain(check_run(L, 1)->now);
    return 0;
}

/* Pushes copies of the outputs of the batch that was taken last, by name. */
static void push_outputs(lua_State *L, ft_run *run)
{
    ft_error err;
    int n = ft_run_n_outputs(run);
    lua_createtable(L, 0, n);
    for (int i = 0; i < n; i++) {
        const char *name;
        ft_view view = {0};
        ft_tensor **box = script_push_tensor_box(L);
        ft_status status = ft_run_output(run, i, &name, &view, &err);
        ft_spec spec = ft_view_spec(&view);
        if (status == FT_OK) status = ft_tensor_new(box, &spec, &err);
        if (status != FT_OK) script_raise(L, &err);
        memcpy(ft_tensor_view(*box)->data, view.data, (size_t)ft_spec_bytes(&spec));
        lua_setfield(L, -2, name);
    }
}

/* `gaps` of the table at the top, where a stage has one: 0 of those that have not. */
static void set_gaps(lua_State *L, const ft_run *run)
{
    int n = ft_run_n_stages(run), known = 0;
    for (int s = 0; s < n; s++) known += !isnan(ft_run_gap(run, s));
    if (!known) return;
    lua_createtable(L, n, 0);
    for (int s = 0; s < n; s++) {
        double gap = ft_run_gap(run, s);
        lua_pushnumber(L, isnan(gap) ? 0 : gap);
        lua_rawseti(L, -2, s + 1);
    }
    lua_setfield(L, -2, "gaps");
}

/* Seconds at argument i in ns; a year stands for all that is longer. */
static int64_t check_seconds_ns(lua_State *L, int i)
{
    static const double year = 3.2e7;
    double seconds = script_check_number(L, i);
    if (!(seconds >= 0)) script_arg_error(L, i, "expected seconds, 0 or more, got %g", seconds);
    return (int64_t)((seconds < year ? seconds : year) * 1e9);
}

/*** The next finished batch, or nil when none was within the time.
 * @function run:next
 * @tparam number timeout seconds
 * @treturn table { step =, loss =, grad_norm =, rate =, end_ns =, skipped = (true: its scaled
 *   gradients were not finite, and nothing was updated), gaps = by stage, norms of what
 *   weights have gone since forwards (where they are divided by it, or recorded), outputs = of an
 *   evaluation: tensors by name, its micro-batches along the first axis } */
static int run_next(lua_State *L)
{
    ft_error err;
    ft_result r;
    shared_run *shared = check_run(L, 1);
    int64_t timeout_ns = check_seconds_ns(L, 2);
    ft_status status = ft_run_next(shared->now, &r, timeout_ns, &err);
    if (status == FT_CANCELLED) return 0;
    if (status != FT_OK) return script_raise(L, &err);
    lua_createtable(L, 0, 5);
    const struct {
        const char *key;
        double value;
    } fields[] = {{"step", (double)r.step},
                  {"loss", r.loss},
                  {"grad_norm", r.grad_norm},
                  {"rate", r.rate},
                  {"end_ns", (double)r.end_ns}};
    for (int i = 0; i < 5; i++) {
        lua_pushnumber(L, fields[i].value);
        lua_setfield(L, -2, fields[i].key);
    }
    if (r.skipped) {
        lua_pushboolean(L, true);
        lua_setfield(L, -2, "skipped");
    }
    set_gaps(L, shared->now);
    if (!ft_run_n_outputs(shared->now)) return 1;
    push_outputs(L, shared->now);
    lua_setfield(L, -2, "outputs");
    return 1;
}

/*** Ends the leg.
 * @function run:finish
 * @tparam[opt] boolean trace with the Chrome trace of what happened
 * @treturn table as blueprint:simulate, with allocations = blocks that workers allocated while
 * actions ran */
static int run_finish(lua_State *L)
{
    ft_error err;
    shared_run *shared = check_run(L, 1);
    bool trace = lua_toboolean(L, 2);
    const ft_blueprint *b = push_blueprint(L);
    if (shared->now != shared->run) b = ft_blueprint_evaluation(b);
    if (ft_run_end(shared->now, &err) != FT_OK) return script_raise(L, &err);
    const ft_timeline *timeline = ft_run_timeline(shared->now);
    if (!timeline || !shared->leg) return 0;
    const ft_holdings holdings = script_holdings(L, b, shared->leg);
    script_push_timeline(L, timeline, &holdings, trace);
    lua_pushnumber(L, (double)ft_run_allocations(shared->now));
    lua_setfield(L, -2, "allocations");
    return 1;
}

/*** Of a process besides rank 0: does what rank 0 says until that frees its run.
 * @function run:serve
 * @raise lost worker: another process is lost */
static int run_serve(lua_State *L)
{
    ft_error err;
    if (ft_run_serve(check_run(L, 1)->run, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/*** Actions that all devices have behind them in this leg: grows while anything moves. */
static int run_progress(lua_State *L)
{
    lua_pushnumber(L, (double)ft_run_progress(check_run(L, 1)->now));
    return 1;
}

/*** What the actions of this leg took, by device, in ns; the rest of the time a device waited. */
static int run_busy(lua_State *L)
{
    const ft_run *run = check_run(L, 1)->now;
    int n = ft_run_n_devices(run);
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        lua_pushnumber(L, (double)ft_run_busy_ns(run, d));
        lua_rawseti(L, -2, d + 1);
    }
    return 1;
}

/*** Who waits for whom: what each device is at, since when, and what it waits for.
 * @function run:describe
 * @tparam[opt] int events that many last ones of each device instead */
static int run_describe(lua_State *L)
{
    ft_error err;
    ft_text text = {0};
    shared_run *shared = check_run(L, 1);
    int events = (int)script_arg_int(L, 2, 0, 0, INT32_MAX);
    ft_status status = events ? ft_run_describe_past(shared->now, events, &text, &err)
                              : ft_run_describe(shared->now, &text, &err);
    if (status == FT_OK) lua_pushstring(L, text.data ? text.data : "");
    ft_text_fini(&text);
    return status == FT_OK ? 1 : script_raise(L, &err);
}

/*** Ends a leg in which nothing moves, without finishing it.
 * @function run:give_up
 * @tparam number seconds to wait for workers
 * @raise lost worker: one does not come back; the process has to end then */
static int run_give_up(lua_State *L)
{
    ft_error err;
    shared_run *shared = check_run(L, 1);
    int64_t wait_ns = check_seconds_ns(L, 2);
    if (ft_run_give_up(shared->now, wait_ns, &err) != FT_OK) return script_raise(L, &err);
    return 0;
}

/*** How fast the files of a swap directory were written when the run was made.
 * @function run:swap_rate
 * @treturn number bytes per second, of the slowest; 0 without such a directory */
static int run_swap_rate(lua_State *L)
{
    lua_pushnumber(L, ft_run_swap_rate(check_run(L, 1)->run));
    return 1;
}

/*** What people should know of the devices' work, which goes on; each once. Between legs.
 * @function run:remarks
 * @treturn {string,...} */
static int run_remarks(lua_State *L)
{
    shared_run *shared = check_run(L, 1);
    char text[300];
    lua_newtable(L);
    for (int d = 0; d < ft_run_n_devices(shared->run); d++)
        if (ft_run_take_remark(shared->run, d, text, sizeof text)) {
            lua_pushstring(L, text);
            lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
        }
    return 1;
}

/*** Measured memory: by device, the high-water mark of each class, and `total`. */
static int run_measured(lua_State *L)
{
    shared_run *shared = check_run(L, 1);
    int n = ft_run_n_devices(shared->run);
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        int64_t bytes[FT_MEMORY_CLASSES];
        int64_t total = ft_run_measured(shared->run, d, bytes);
        lua_createtable(L, 0, FT_MEMORY_CLASSES + 1);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            lua_pushnumber(L, (double)bytes[c]);
            lua_setfield(L, -2, ft_memory_classes[c].name);
        }
        lua_pushnumber(L, (double)total);
        lua_setfield(L, -2, "total");
        lua_rawseti(L, -2, d + 1);
    }
    return 1;
}

void script_run_class(lua_State *L)
{
    static const luaL_Reg methods[] = {{"param", run_param},
                                       {"draw", run_draw},
                                       {"refresh", run_refresh},
                                       {"begin", run_begin},
                                       {"wants", run_wants},
                                       {"feed", run_feed},
                                       {"next", run_next},
                                       {"finish", run_finish},
                                       {"progress", run_progress},
                                       {"describe", run_describe},
                                       {"measured", run_measured},
                                       {"swap_rate", run_swap_rate},
                                       {"remarks", run_remarks},
                                       {"free", run_free},
                                       {"state", run_state},
                                       {"drain", run_drain},
                                       {"busy", run_busy},
                                       {"give_up", run_give_up},
                                       {"serve", run_serve},
                                       {"read", run_read},
                                       {"write", run_write},
                                       {"state_names", run_state_names},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", run_free}, {NULL, NULL}};
    script_class(L, RUN, methods, meta);
    lua_pop(L, 1);
}
