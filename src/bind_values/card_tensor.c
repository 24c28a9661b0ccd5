/* bind_values/card_tensor.c - tensors in the memory of an open device, and operators on them.
 *
 * lua/ftpipe/base/tensor.lua gives them the methods that tensors of the host have. */
#include <string.h>

#include "bind_values/internal.h"
#include "base/alloc.h"

static const char class_name[] = "ftpipe.card_tensor";

typedef struct card_tensor {
    card_memory *memory; /* a reference */
    ft_spec spec;
} card_tensor;

static card_tensor *check(lua_State *L, int i)
{
    return script_box_check(L, i, class_name);
}

static void free_tensor(card_tensor *t)
{
    if (!t) return;
    card_memory_release(t->memory);
    ft_free(t);
}

static int tensor_free(lua_State *L)
{
    void **box = script_box(L, 1, class_name);
    free_tensor(*box);
    *box = NULL;
    return 0;
}

/* Pushes a tensor of zeros. */
static card_tensor *push_new(lua_State *L, card *c, const ft_spec *spec)
{
    ft_error err;
    void **box = script_box_new(L, class_name);
    card_tensor *t = *box = ft_alloc(sizeof *t);
    if (!t) script_fault(L, "no memory for a tensor");
    t->spec = *spec;
    if (card_memory_new(&t->memory, c, ft_spec_bytes(spec), &err) != FT_OK) script_raise(L, &err);
    script_gc_step(L, ft_spec_bytes(spec));
    return t;
}

/* -- there and back ---------------------------------------------------------------------------- */

/*** A copy of a tensor on an open device, or on that of another tensor.
 * @function card.tensor */
static int from_host(lua_State *L)
{
    const card_tensor *beside = script_box_test(L, 1, class_name);
    card *c = beside ? beside->memory->card : script_check_card(L, 1);
    const ft_view *view = script_check_view(L, 2);
    ft_error err;
    if (!ft_view_contiguous(view)) {
        ft_tensor **box = script_push_tensor_box(L);
        if (ft_tensor_copy(box, script_check_tensor(L, 2), view->dtype, &err) != FT_OK)
            return script_blame(L, &err);
        view = ft_tensor_view(*box);
    }
    const ft_spec spec = ft_view_spec(view);
    card_tensor *t = push_new(L, c, &spec);
    return card_memory_fill(t->memory, view->data, &err) == FT_OK ? 1 : script_raise(L, &err);
}

/*** A copy of it in the host. */
static int tensor_host(lua_State *L)
{
    const card_tensor *t = check(L, 1);
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    if (ft_tensor_new(box, &t->spec, &err) != FT_OK) return script_raise(L, &err);
    script_gc_step(L, ft_spec_bytes(&t->spec));
    if (card_memory_read(t->memory, ft_tensor_view(*box)->data, &err) != FT_OK)
        return script_raise(L, &err);
    return 1;
}

/*** A copy of it on another device of the same kind; nil, where that is of another. */
static int tensor_move(lua_State *L)
{
    const card_tensor *from = check(L, 1);
    card *c = script_check_card(L, 2);
    ft_error err;
    if (c->device.driver != from->memory->card->device.driver) return 0;
    const card_tensor *to = push_new(L, c, &from->spec);
    if (card_memory_copy(to->memory, from->memory, &err) != FT_OK) return script_raise(L, &err);
    return 1;
}

/* -- questions and views ----------------------------------------------------------------------- */

static int tensor_dtype(lua_State *L)
{
    lua_pushstring(L, ft_dtype_name(check(L, 1)->spec.dtype));
    return 1;
}

static int tensor_shape(lua_State *L)
{
    script_push_shape(L, &check(L, 1)->spec.shape);
    return 1;
}

static int tensor_count(lua_State *L)
{
    lua_pushnumber(L, (double)ft_shape_count(&check(L, 1)->spec.shape));
    return 1;
}

static int tensor_device(lua_State *L)
{
    lua_pushstring(L, check(L, 1)->memory->card->device.name);
    return 1;
}

/*** t:view { 2, 3 }: the same elements in another shape. */
static int tensor_view(lua_State *L)
{
    const card_tensor *t = check(L, 1);
    const ft_spec spec = {t->spec.dtype, script_check_shape(L, 2)};
    char from[96], to[96];
    ft_error err;
    if (ft_spec_check(&spec, &err) != FT_OK) return script_blame(L, &err);
    if (ft_shape_count(&spec.shape) != ft_shape_count(&t->spec.shape))
        script_arg_error(L, 2, "a tensor of %s has no view of %s",
                         ft_shape_format(&t->spec.shape, from, sizeof from),
                         ft_shape_format(&spec.shape, to, sizeof to));
    void **box = script_box_new(L, class_name);
    card_tensor *view = *box = ft_alloc(sizeof *view);
    if (!view) return script_fault(L, "no memory for a tensor");
    *view = (card_tensor){t->memory, spec};
    t->memory->references++;
    return 1;
}

/* -- operators --------------------------------------------------------------------------------- */

typedef struct run {
    const ft_op *op;
    card *card; /* of the inputs */
    int n_in;
    card_memory *from[FT_MAX_IN];
    card_tensor *to[FT_MAX_OUT];
    ft_spec in_specs[FT_MAX_IN], out_specs[FT_MAX_OUT];
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT];
    double attrs[FT_MAX_ATTRS];
} run;

static void read_input(lua_State *L, int i, int k, run *r)
{
    const card_tensor *t = script_box_test(L, -1, class_name);
    if (!t && script_test_tensor(L, -1))
        script_arg_error(L, i, "input %d is in the host and another on a device; move it with :to",
                         k + 1);
    if (!t)
        script_arg_error(L, i, "input %d: expected a tensor that was not freed, got %s", k + 1,
                         luaL_typename(L, -1));
    card *c = t->memory->card;
    if (r->card && r->card != c)
        script_arg_error(L, i, "input %d is on %s, one before it on %s; move it with :to", k + 1,
                         c->device.name, r->card->device.name);
    r->card = c;
    r->from[k] = t->memory;
    r->in_specs[k] = t->spec;
    r->in[k] = ft_view_of(&t->spec, t->memory->address);
}

static void read_inputs(lua_State *L, int i, run *r)
{
    r->n_in = script_count_inputs(L, i, r->op);
    for (int k = 0; k < FT_MAX_IN; k++) r->in_specs[k].shape.n_dims = -1;
    for (int k = 0; k < r->n_in; k++) {
        lua_rawgeti(L, i, k + 1);
        if (!lua_isboolean(L, -1) || lua_toboolean(L, -1)) read_input(L, i, k, r);
        lua_pop(L, 1);
    }
    if (!r->card) script_arg_error(L, i, "none of the inputs is on a device");
}

/* Gives the row to the stream, behind what wrote its inputs. */
static ft_status submit(run *r, const ft_call *call, int64_t work_bytes, ft_error *err)
{
    ft_device_stream *stream = call->stream;
    const ft_driver *driver = r->card->device.driver;
    ft_row_run row = {.op = r->op,
                      .kernel = ft_op_kernel(r->op, r->card->device.kind, FT_F32),
                      .call = call,
                      .work_bytes = work_bytes};
    if (!row.kernel)
        return ft_fail(err, FT_UNSUPPORTED, "device %s: no kernel for %s", r->card->device.name,
                       r->op->name);
    for (int k = 0; k < r->n_in; k++)
        if (r->from[k]) FT_TRY(card_memory_need(r->from[k], stream, err));
    FT_TRY(driver->launch(stream, &ft_row_task, &row, err));
    for (int k = 0; k < r->op->n_out; k++) FT_TRY(card_memory_wrote(r->to[k]->memory, stream, err));
    return FT_OK;
}

/* With memory that the row works in, which is waited for before it goes. */
static ft_status submit_with_work(run *r, ft_call *call, int64_t bytes, ft_error *err)
{
    card_memory *work = NULL;
    if (bytes == 0) return submit(r, call, 0, err);
    FT_TRY(card_memory_new(&work, r->card, bytes, err));
    call->work = work->address;
    ft_status status = submit(r, call, bytes, err);
    card_memory_release(work);
    return status;
}

/*** Runs an operator on tensors of one device: as ops.apply. Returns before it is done.
 * @function card.apply */
static int apply(lua_State *L)
{
    run r = {.op = script_check_op(L, 1)};
    ft_error err;
    ft_rng_key key = {.seed = (uint64_t)script_arg_int(L, 4, 0, 0, INT64_C(1) << 53)};
    script_read_attrs(L, 3, r.op, r.attrs);
    read_inputs(L, 2, &r);
    if (ft_op_shape(r.op, r.in_specs, r.n_in, r.attrs, r.out_specs, &err) != FT_OK)
        return script_blame(L, &err);
    luaL_checkstack(L, FT_MAX_OUT, "too many values");
    for (int k = 0; k < r.op->n_out; k++) {
        r.to[k] = push_new(L, r.card, &r.out_specs[k]);
        r.out[k] = ft_view_of(&r.out_specs[k], r.to[k]->memory->address);
    }
    ft_team *team = r.card->executor->team;
    int64_t work =
        ft_op_workspace(r.op, r.card->device.kind, FT_F32, r.in_specs, r.attrs, ft_team_size(team));
    ft_call call = {.in = r.in,
                    .out = r.out,
                    .attrs = r.attrs,
                    .key = key,
                    .team = team,
                    .stream = r.card->now};
    if (submit_with_work(&r, &call, work, &err) != FT_OK) return script_raise(L, &err);
    return r.op->n_out;
}

void script_card_tensor_class(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"free", tensor_free},   {"host", tensor_host},     {"move", tensor_move},
        {"dtype", tensor_dtype}, {"shape", tensor_shape},   {"count", tensor_count},
        {"view", tensor_view},   {"device", tensor_device}, {NULL, NULL},
    };
    static const luaL_Reg meta[] = {{"__gc", tensor_free}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"tensor", from_host}, {"apply", apply}, {NULL, NULL}};
    luaL_register(L, NULL, functions);
    script_class(L, class_name, methods, meta);
    lua_getfield(L, -1, "__index");
    lua_setfield(L, -3, "methods"); /* base/tensor.lua adds to both */
    lua_setfield(L, -2, "meta");
}
