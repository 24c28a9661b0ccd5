/* bind_runs/engine.c - devices, and lists of what there is. Plans and blueprints are in
 * blueprint.c, runs in run.c. */
#include <string.h>

#include "base/alloc.h"
#include "bind_runs/internal.h"

/* -- devices ----------------------------------------------------------------------------------- */

/* What its kind can do, in the table at the top. */
static void set_traits(lua_State *L, const ft_device *device)
{
    const ft_device_traits *kind = &ft_device_kinds[device->kind];
    const struct {
        const char *name;
        bool has;
    } columns[] = {{"executes", kind->executes},
                   {"in_host", kind->in_host},
                   {"measures", kind->measures},
                   {"gaps", kind->gaps},
                   {"channels", device->driver && device->driver->name_channel}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        lua_pushboolean(L, columns[i].has);
        lua_setfield(L, -2, columns[i].name);
    }
}

/*** The devices that a text means.
 * @function engine.devices
 * @param text as in --devices, or a list of such rows as this gives
 * @treturn table list of { name =, kind = what lists call it ("cpu", "cuda", "sim"), executes =
 *   (else it is there for plans alone), in_host = (it computes on this machine's cores), measures =
 *   (profiles of it can be measured), gaps = (plans may have runs measure gaps), channels = (to
 *   devices like it of other processes values may pass by NCCL), threads =, card = (of a GPU, from
 *   0), rank = (of the process that has it), memory_bytes =, flops_per_s =,
 *   bf16_flops_per_s =, f16_flops_per_s =, tf32_flops_per_s =, bytes_per_s =, link_bytes_per_s =,
 *   link_latency_ns =, library_bytes = (what products are computed in, beside what plans place),
 *   host_limit = (bytes a second; 0: none), unpacked = (no packed copies of weights are kept),
 *   of_machine = (its budget is a part of the machine's memory: the text says none) } */
static int engine_devices(lua_State *L)
{
    int n;
    const ft_device *devices = script_check_devices(L, 1, &n);
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
        lua_createtable(L, 0, 22);
        lua_pushstring(L, devices[d].name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, devices[d].driver ? devices[d].driver->name : "sim");
        lua_setfield(L, -2, "kind");
        set_traits(L, &devices[d]);
        script_set_number(L, "threads", devices[d].n_threads);
        script_set_number(L, "card", devices[d].card);
        script_set_number(L, "rank", devices[d].rank);
        script_set_number(L, "memory_bytes", (double)devices[d].memory_bytes);
        script_set_number(L, "flops_per_s", devices[d].flops_per_s);
        script_set_number(L, "bf16_flops_per_s", devices[d].bf16_flops_per_s);
        script_set_number(L, "f16_flops_per_s", devices[d].f16_flops_per_s);
        script_set_number(L, "tf32_flops_per_s", devices[d].tf32_flops_per_s);
        script_set_number(L, "bytes_per_s", devices[d].bytes_per_s);
        script_set_number(L, "link_bytes_per_s", devices[d].link_bytes_per_s);
        script_set_number(L, "link_latency_ns", (double)devices[d].link_latency_ns);
        script_set_number(L, "library_bytes", (double)devices[d].library_bytes);
        script_set_number(L, "host_limit", devices[d].host_limit);
        lua_pushboolean(L, devices[d].unpacked);
        lua_setfield(L, -2, "unpacked");
        lua_pushboolean(L, devices[d].of_machine);
        lua_setfield(L, -2, "of_machine");
        lua_rawseti(L, -2, d + 1);
    }
    return 1;
}

/*** Raises `unsupported` when devices of this process, which have channels, cannot open any here.
 * @function engine.check_channels
 * @param devices as in engine.devices */
static int engine_check_channels(lua_State *L)
{
    ft_error err;
    int n;
    const ft_device *devices = script_check_devices(L, 1, &n);
    if (ft_run_check_channels(devices, n, script_rank(L), &err) != FT_OK)
        return script_raise(L, &err);
    return 0;
}

/*** The cards that can be planned for.
 * @function engine.cards
 * @treturn table list of { name =, memory_bytes =, flops_per_s =, bf16_flops_per_s =,
 *   f16_flops_per_s =, tf32_flops_per_s =, bytes_per_s =, link_bytes_per_s =, tensor =, products =
 *   (the parts of the peaks that tensor cores and others reach) }: rates that work reaches */
static int engine_cards(lua_State *L)
{
    lua_createtable(L, FT_CARDS, 0);
    for (int i = 0; i < FT_CARDS; i++) {
        const ft_card *card = &ft_cards[i];
        lua_createtable(L, 0, 10);
        lua_pushstring(L, card->name);
        lua_setfield(L, -2, "name");
        script_set_number(L, "memory_bytes", card->memory_bytes);
        script_set_number(L, "flops_per_s", card->flops_per_s * FT_CARD_PRODUCTS);
        script_set_number(L, "bf16_flops_per_s", card->bf16_flops_per_s * FT_CARD_TENSOR);
        script_set_number(L, "f16_flops_per_s", card->f16_flops_per_s * FT_CARD_TENSOR);
        script_set_number(L, "tf32_flops_per_s",
                          ft_tf32_rate(card->bf16_flops_per_s * FT_CARD_TENSOR));
        script_set_number(L, "bytes_per_s", card->bytes_per_s * FT_CARD_MEMORY);
        script_set_number(L, "link_bytes_per_s", card->link_bytes_per_s);
        script_set_number(L, "tensor", FT_CARD_TENSOR);
        script_set_number(L, "products", FT_CARD_PRODUCTS);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* -- lists of what there is -------------------------------------------------------------------- */

/*** What a step may do to the parameters.
 * @function engine.optimizers
 * @treturn {table,...} { name =, memory = (bytes that training keeps for a byte of parameters) } */
static int engine_optimizers(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; ft_optimizers[i]; i++) {
        lua_createtable(L, 0, 2);
        lua_pushstring(L, ft_optimizers[i]->name);
        lua_setfield(L, -2, "name");
        script_set_number(L, "memory", ft_optimizers[i]->memory);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/*** Whether an optimizer has a momentum, by which it can keep parameters ahead.
 * @function engine.looks_ahead
 * @tparam table options optimizer, hypers
 * @treturn boolean */
static int engine_looks_ahead(lua_State *L)
{
    const ft_optimizer *optimizer = script_opt_optimizer(L, 1);
    lua_pushboolean(L, ft_optimizer_looks_ahead(optimizer, script_opt_hypers(L, 1, optimizer)));
    return 1;
}

/*** What training keeps of parameters beside the weights, were all of them trained.
 * @function engine.training_bytes
 * @tparam table options optimizer, hypers
 * @tparam graph graph
 * @treturn int bytes of gradients and of the optimizer's state, one copy of each */
static int engine_training_bytes(lua_State *L)
{
    const ft_optimizer *optimizer = script_opt_optimizer(L, 1);
    const double *hypers = script_opt_hypers(L, 1, optimizer);
    const ft_graph *g = script_check_graph(L, 2);
    int64_t bytes = 0;
    for (int i = 0; i < ft_graph_n_params(g); i++) {
        const ft_spec *spec = &ft_graph_value(g, ft_graph_param_value(g, i))->spec;
        ft_state_part parts[FT_MAX_STATE_PARTS];
        int64_t state;
        optimizer->state(spec, hypers, parts, &state);
        bytes += ft_spec_bytes(spec) + state;
    }
    lua_pushnumber(L, (double)bytes);
    return 1;
}

/*** What a learning rate may do behind its warm-up.
 * @function engine.rate_schedules
 * @treturn {table,...} { name =, words =, ends = (falls to 0 at the last step) } */
static int engine_rate_schedules(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; ft_rate_schedules[i].name; i++) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, ft_rate_schedules[i].name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, ft_rate_schedules[i].words);
        lua_setfield(L, -2, "words");
        lua_pushboolean(L, ft_rate_schedules[i].ends);
        lua_setfield(L, -2, "ends");
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/*** Learning rate at a step.
 * @function engine.rate
 * @tparam table rate { schedule =, peak =, warmup =, steps = }
 * @tparam int step counts from 1 */
static int engine_rate(lua_State *L)
{
    ft_error err;
    static const char *const names[] = {"schedule", "peak", "warmup", "steps", NULL};
    script_check_table(L, 1);
    script_options(L, 1, names);
    ft_rate rate = {.schedule = script_opt_string(L, 1, "schedule", "constant"),
                    .peak = script_opt_number(L, 1, "peak", 0),
                    .warmup = script_opt_int(L, 1, "warmup", 0, 0, INT32_MAX),
                    .steps = script_opt_int(L, 1, "steps", 1, 0, INT32_MAX)};
    if (ft_rate_check(&rate, &err) != FT_OK) return script_blame(L, &err);
    lua_pushnumber(L, ft_rate_at(&rate, script_check_int(L, 2, 1, INT32_MAX)));
    return 1;
}

/*** Whether plans like this one are executed; where not, they can be simulated.
 * @function engine.runs
 * @tparam schedule_plan plan
 * @treturn boolean; where false, also what the engine lacks */
static int engine_runs(lua_State *L)
{
    ft_error err = {FT_OK, ""};
    ft_status status = ft_run_check_plan(script_check_plan(L, 1), &err);
    lua_pushboolean(L, status == FT_OK);
    if (status == FT_OK) return 1;
    lua_pushstring(L, err.message);
    return 2;
}

int script_bind_engine(lua_State *L)
{
    static const luaL_Reg functions[] = {{"devices", engine_devices},
                                         {"check_channels", engine_check_channels},
                                         {"cards", engine_cards},
                                         {"runs", engine_runs},
                                         {"optimizers", engine_optimizers},
                                         {"looks_ahead", engine_looks_ahead},
                                         {"training_bytes", engine_training_bytes},
                                         {"rate_schedules", engine_rate_schedules},
                                         {"rate", engine_rate},
                                         {"plan", script_engine_plan},
                                         {"blueprint", script_engine_blueprint},
                                         {NULL, NULL}};
    script_blueprint_class(L);
    script_run_class(L);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    script_set_number(L, "most_devices", FT_MAX_DEVICES); /* of a cluster */
    return 1;
}
