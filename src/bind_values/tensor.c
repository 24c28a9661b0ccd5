/* bind_values/tensor.c - core.tensor: the class, its views, and elements in and out.
 *
 * lua/ftpipe/base/tensor.lua adds arithmetic and the operators of the table (ops.c) on top. */
#include <math.h>
#include <string.h>

#include "bind_values/bind_values.h"
#include "base/alloc.h"
#include "ops/ops.h"

static const char tensor_class[] = "ftpipe.tensor";

/* -- boxes ------------------------------------------------------------------------------------ */

ft_tensor **script_push_tensor_box(lua_State *L)
{
    return (ft_tensor **)script_box_new(L, tensor_class);
}

void script_push_tensor(lua_State *L, ft_tensor *tensor)
{
    *script_push_tensor_box(L) = tensor;
}

ft_tensor *script_check_tensor(lua_State *L, int i)
{
    return script_box_check(L, i, tensor_class);
}

ft_tensor *script_test_tensor(lua_State *L, int i)
{
    return script_box_test(L, i, tensor_class);
}

const ft_view *script_check_view(lua_State *L, int i)
{
    return ft_tensor_view(script_check_tensor(L, i));
}

/* t:free(): gives its memory back at once, not when nobody has it any more. */
static int tensor_free(lua_State *L)
{
    void **box = script_box(L, 1, tensor_class);
    ft_tensor_release(*box);
    *box = NULL;
    return 0;
}

/* Ends a binding whose result is in the box at the top. */
static int finish(lua_State *L, ft_status status, const ft_error *err)
{
    return status == FT_OK ? 1 : script_blame(L, err);
}

/* -- elements --------------------------------------------------------------------------------- */

static void push_element(lua_State *L, const ft_view *view, int64_t index)
{
    double value = ft_view_get(view, index);
    if (view->dtype == FT_BOOL)
        lua_pushboolean(L, value != 0);
    else
        lua_pushnumber(L, value);
}

static bool range_of(ft_dtype dtype, double *lo, double *hi)
{
    switch (dtype) {
    case FT_I32: *lo = -2147483648.0, *hi = 2147483647.0; return true;
    case FT_I64: *lo = -9007199254740992.0, *hi = 9007199254740992.0; return true;
    case FT_U8: *lo = 0, *hi = 255; return true;
    case FT_BOOL: *lo = 0, *hi = 1; return true;
    default: return false;
    }
}

/* The number at index i of the stack, if the dtype holds it. `arg` is blamed. */
static double check_element(lua_State *L, int i, ft_dtype dtype, int arg)
{
    if (lua_isboolean(L, i) && dtype == FT_BOOL) return lua_toboolean(L, i);
    if (lua_type(L, i) != LUA_TNUMBER)
        script_arg_error(L, arg, "elements of %s are numbers, got %s", ft_dtype_name(dtype),
                         luaL_typename(L, i));
    double value = lua_tonumber(L, i), lo = 0, hi = 0;
    if (range_of(dtype, &lo, &hi) && (value != floor(value) || value < lo || value > hi))
        script_arg_error(L, arg, "%.17g is no value of %s", value, ft_dtype_name(dtype));
    return value;
}

/* The flat index of the n indices from stack index `first`. */
static int64_t check_place(lua_State *L, const ft_view *view, int first, int n)
{
    if (n != view->shape.n_dims)
        script_arg_error(L, 1, "the tensor has %d dimensions, %d indices were given",
                         view->shape.n_dims, n);
    int64_t flat = 0;
    for (int d = 0; d < n; d++)
        flat = flat * view->shape.dims[d] +
               script_check_index(L, first + d, view->shape.dims[d], "index");
    return flat;
}

/* t:get(...): an element, by one index for each dimension, from 1 or from -1 backwards. */
static int tensor_get(lua_State *L)
{
    const ft_view *view = script_check_view(L, 1);
    push_element(L, view, check_place(L, view, 2, lua_gettop(L) - 1));
    return 1;
}

/* t:set(...): sets an element: t:set(i, j, value). */
static int tensor_set(lua_State *L)
{
    const ft_view *view = script_check_view(L, 1);
    int n = lua_gettop(L) - 2;
    int64_t place = check_place(L, view, 2, n);
    ft_view_set(view, place, check_element(L, n + 2, view->dtype, n + 2));
    lua_settop(L, 1);
    return 1;
}

static void fill(const ft_view *view, double value)
{
    int64_t n = ft_shape_count(&view->shape);
    for (int64_t i = 0; i < n; i++) ft_view_set(view, i, value);
}

/* t:fill(value): sets all elements. */
static int tensor_fill(lua_State *L)
{
    const ft_view *view = script_check_view(L, 1);
    fill(view, check_element(L, 2, view->dtype, 2));
    lua_settop(L, 1);
    return 1;
}

/* t[i]: an element of a vector, a view of anything larger; t.name: a method. */
static int tensor_index(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TNUMBER) {
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(1));
        return 1;
    }
    ft_tensor *tensor = script_check_tensor(L, 1);
    const ft_view *view = ft_tensor_view(tensor);
    if (view->shape.n_dims == 0) return script_arg_error(L, 1, "a scalar has no index; use :get()");
    int64_t i = script_check_index(L, 2, view->shape.dims[0], "index");
    if (view->shape.n_dims == 1) {
        push_element(L, view, i);
        return 1;
    }
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    return finish(L, ft_tensor_select(box, tensor, 0, i, &err), &err);
}

/* Copies a tensor into a view, by a copy of its own where the two overlap. */
static ft_status copy_into(const ft_view *to, const ft_tensor *source, ft_error *err)
{
    const ft_view *from = ft_tensor_view(source);
    if (!ft_view_overlaps(to, from)) return ft_view_copy(to, from, err);
    ft_tensor *own;
    FT_TRY(ft_tensor_copy(&own, source, from->dtype, err));
    ft_status status = ft_view_copy(to, ft_tensor_view(own), err);
    ft_tensor_release(own);
    return status;
}

/* t[i] = a number (all of t[i] gets it) or a tensor of the same shape. */
static int tensor_newindex(lua_State *L)
{
    ft_tensor *tensor = script_check_tensor(L, 1);
    const ft_view *view = ft_tensor_view(tensor);
    if (lua_type(L, 2) != LUA_TNUMBER || view->shape.n_dims == 0)
        return script_arg_error(L, 2, "only elements and rows of a tensor can be set, by number");
    int64_t i = script_check_index(L, 2, view->shape.dims[0], "index");
    const ft_tensor *source = script_test_tensor(L, 3);
    double value = source ? 0 : check_element(L, 3, view->dtype, 3);
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    ft_status status = ft_tensor_select(box, tensor, 0, i, &err);
    if (status == FT_OK && source)
        status = copy_into(ft_tensor_view(*box), source, &err);
    else if (status == FT_OK)
        fill(ft_tensor_view(*box), value);
    return status == FT_OK ? 0 : script_blame(L, &err);
}

/* -- from and to tables ----------------------------------------------------------------------- */

/* The shape of nested tables, read along their first items. */
static ft_shape nested_shape(lua_State *L, int i)
{
    ft_shape shape = {.n_dims = 0};
    lua_pushvalue(L, i);
    while (lua_istable(L, -1)) {
        if (shape.n_dims == FT_MAX_DIMS)
            script_arg_error(L, i, "tables nested past %d dimensions", FT_MAX_DIMS);
        shape.dims[shape.n_dims++] = (int64_t)lua_objlen(L, -1);
        lua_rawgeti(L, -1, 1);
        lua_remove(L, -2);
    }
    lua_pop(L, 1);
    return shape;
}

/* Raises for a key of the table at the top that is none of 1 to n, as one behind a nil. */
static void check_keys(lua_State *L, int depth, long long n)
{
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        bool number = lua_type(L, -2) == LUA_TNUMBER;
        double key = number ? lua_tonumber(L, -2) : 0;
        if (key >= 1 && key <= (double)n && key == floor(key)) continue;
        bool named = number || lua_type(L, -2) == LUA_TSTRING;
        script_fault(L,
                     "ft.tensor: key '%.60s' in a table at depth %d, expected 1 to %lld, no hole",
                     named ? lua_tostring(L, -2) : luaL_typename(L, -2), depth + 1, n);
    }
}

/* Reads the table at the top as dimension `depth` of the view, from flat index *next on. */
static void read_nested(lua_State *L, const ft_view *view, int depth, int64_t *next)
{
    if (depth == view->shape.n_dims) {
        ft_view_set(view, (*next)++, check_element(L, -1, view->dtype, 1));
        return;
    }
    long long wanted = view->shape.dims[depth];
    if (!lua_istable(L, -1))
        script_fault(L, "ft.tensor: expected a table of %lld at depth %d, got %s", wanted,
                     depth + 1, luaL_typename(L, -1));
    if ((long long)lua_objlen(L, -1) != wanted)
        script_fault(L, "ft.tensor: ragged tables: %lld items at depth %d, %lld in the first there",
                     (long long)lua_objlen(L, -1), depth + 1, wanted);
    check_keys(L, depth, wanted);
    for (int i = 1; i <= wanted; i++) {
        lua_rawgeti(L, -1, i);
        read_nested(L, view, depth + 1, next);
        lua_pop(L, 1);
    }
}

/* Pushes a zeroed tensor. */
static const ft_view *push_zeros(lua_State *L, ft_dtype dtype, const ft_shape *shape)
{
    ft_spec spec = {dtype, *shape};
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    if (ft_tensor_new(box, &spec, &err) != FT_OK) script_blame(L, &err);
    script_gc_step(L, ft_spec_bytes(&spec));
    return ft_tensor_view(*box);
}

/* zeros(dims, dtype): a tensor of zeros: zeros({ 2, 3 }, "i32"); f32 when dtype is absent. */
static int tensor_zeros(lua_State *L)
{
    ft_shape shape = script_check_shape(L, 1);
    push_zeros(L, script_arg_dtype(L, 2, FT_F32), &shape);
    return 1;
}

/* from_table(values, dtype): a tensor of a number, of a table of numbers, or of tables of them; f32
 * when dtype is absent. ft.tensor(values, dtype) is the same. */
static int tensor_from_table(lua_State *L)
{
    luaL_checkany(L, 1);
    ft_dtype dtype = script_arg_dtype(L, 2, FT_F32);
    ft_shape shape = nested_shape(L, 1);
    const ft_view *view = push_zeros(L, dtype, &shape);
    int64_t next = 0;
    lua_pushvalue(L, 1);
    read_nested(L, view, 0, &next);
    lua_pop(L, 1);
    return 1;
}

static void push_nested(lua_State *L, const ft_view *view, int depth, int64_t *next)
{
    if (depth == view->shape.n_dims) {
        push_element(L, view, (*next)++);
        return;
    }
    int64_t n = view->shape.dims[depth];
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        push_nested(L, view, depth + 1, next);
        lua_rawseti(L, -2, (int)i + 1);
    }
}

/* t:totable(): the elements as nested tables. */
static int tensor_totable(lua_State *L)
{
    int64_t next = 0;
    push_nested(L, script_check_view(L, 1), 0, &next);
    return 1;
}

/* t:draw(law, scale, seed, stream): fills with numbers of a law: "constant", all of them the scale
 * (1); "normal", of mean 0 and that standard deviation; "uniform", equally likely from -scale to
 * scale. Streams (0) of one seed (0) are independent. */
static int tensor_draw(lua_State *L)
{
    const ft_view *view = script_check_view(L, 1);
    if (!ft_dtype_is_float(view->dtype))
        return script_arg_error(L, 1, "expected a tensor of a floating dtype");
    uint64_t seed;
    ft_draw draw = script_check_draw(L, 2, &seed);
    ft_view_draw(view, &draw, seed, ft_cpu_cores());
    lua_settop(L, 1);
    return 1;
}

/* t:fill_range(start, step): fills with start, start + step, ... in row-major order. */
static int tensor_fill_range(lua_State *L)
{
    const ft_view *view = script_check_view(L, 1);
    double start = script_check_number(L, 2), step = script_check_number(L, 3);
    int64_t n = ft_shape_count(&view->shape);
    for (int64_t i = 0; i < n; i++) ft_view_set(view, i, start + (double)i * step);
    lua_settop(L, 1);
    return 1;
}

/* -- views ------------------------------------------------------------------------------------ */

/* t:narrow(axis, start, length): a view of `length` indices of an axis. */
static int tensor_narrow(lua_State *L)
{
    ft_tensor *tensor = script_check_tensor(L, 1);
    const ft_shape *shape = &ft_tensor_view(tensor)->shape;
    int axis = script_check_axis(L, 2, shape->n_dims);
    int64_t start = script_check_index(L, 3, shape->dims[axis], "index");
    int64_t length = script_check_int(L, 4, 0, shape->dims[axis] - start);
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    return finish(L, ft_tensor_narrow(box, tensor, axis, start, length, &err), &err);
}

/* t:select(axis, i): a view without the axis. */
static int tensor_select(lua_State *L)
{
    ft_tensor *tensor = script_check_tensor(L, 1);
    const ft_shape *shape = &ft_tensor_view(tensor)->shape;
    int axis = script_check_axis(L, 2, shape->n_dims);
    int64_t i = script_check_index(L, 3, shape->dims[axis], "index");
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    return finish(L, ft_tensor_select(box, tensor, axis, i, &err), &err);
}

/* t:transpose(axis, other): a view with two axes swapped, the last two by default. */
static int tensor_transpose(lua_State *L)
{
    ft_tensor *tensor = script_check_tensor(L, 1);
    int n = ft_tensor_view(tensor)->shape.n_dims;
    if (n < 2) return script_arg_error(L, 1, "expected at least 2 dimensions, got %d", n);
    int axis = lua_isnoneornil(L, 2) ? n - 2 : script_check_axis(L, 2, n);
    int other = lua_isnoneornil(L, 3) ? n - 1 : script_check_axis(L, 3, n);
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    return finish(L, ft_tensor_transpose(box, tensor, axis, other, &err), &err);
}

/* t:view(dims): the same elements in another shape, { 2, 3 }, of a contiguous tensor. */
static int tensor_view(lua_State *L)
{
    ft_tensor *tensor = script_check_tensor(L, 1);
    ft_shape shape = script_check_shape(L, 2);
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    return finish(L, ft_tensor_reshape(box, tensor, &shape, &err), &err);
}

/* t:copy(): a contiguous copy; t:to(dtype) converts it. */
static int tensor_to(lua_State *L)
{
    ft_tensor *tensor = script_check_tensor(L, 1);
    const ft_view *view = ft_tensor_view(tensor);
    ft_dtype dtype = script_arg_dtype(L, 2, view->dtype);
    ft_error err;
    ft_tensor **box = script_push_tensor_box(L);
    ft_status status = ft_tensor_copy(box, tensor, dtype, &err);
    script_gc_step(L, ft_shape_count(&view->shape) * ft_dtype_bytes(dtype));
    return finish(L, status, &err);
}

/* t:copy_from(other): copies the elements of a tensor of the same shape, converting. */
static int tensor_copy_from(lua_State *L)
{
    const ft_view *view = script_check_view(L, 1);
    ft_error err;
    if (copy_into(view, script_check_tensor(L, 2), &err) != FT_OK) return script_blame(L, &err);
    lua_settop(L, 1);
    return 1;
}

/* -- questions -------------------------------------------------------------------------------- */

/* t:dtype(): "f32", "f64", "f16", "bf16", "i32", "i64", "u8" or "bool". */
static int tensor_dtype(lua_State *L)
{
    lua_pushstring(L, ft_dtype_name(script_check_view(L, 1)->dtype));
    return 1;
}

/* t:shape(): the sizes of its dimensions, a table. */
static int tensor_shape(lua_State *L)
{
    script_push_shape(L, &script_check_view(L, 1)->shape);
    return 1;
}

/* t:count(): how many elements there are. */
static int tensor_count(lua_State *L)
{
    lua_pushnumber(L, (double)ft_shape_count(&script_check_view(L, 1)->shape));
    return 1;
}

static int tensor_length(lua_State *L)
{
    const ft_shape *shape = &script_check_view(L, 1)->shape;
    if (shape->n_dims == 0) return script_arg_error(L, 1, "a scalar has no length");
    lua_pushnumber(L, (double)shape->dims[0]);
    return 1;
}

/* t:is_contiguous(): whether its elements follow each other in memory, in row-major order. */
static int tensor_contiguous(lua_State *L)
{
    lua_pushboolean(L, ft_view_contiguous(script_check_view(L, 1)));
    return 1;
}

/* t:equals(other): whether dtype, shape and elements are the same (nan differs from nan). */
static int tensor_equal(lua_State *L)
{
    const ft_view *a = script_check_view(L, 1), *b = script_check_view(L, 2);
    bool same = a->dtype == b->dtype && ft_shape_equal(&a->shape, &b->shape);
    int64_t n = same ? ft_shape_count(&a->shape) : 0;
    for (int64_t i = 0; i < n && same; i++) same = ft_view_get(a, i) == ft_view_get(b, i);
    lua_pushboolean(L, same);
    return 1;
}

/* t:is_finite(): whether no element of a contiguous f32 tensor is NaN or infinite. */
static int tensor_is_finite(lua_State *L)
{
    const ft_view *view = script_check_view(L, 1);
    if (view->dtype != FT_F32 || !ft_view_contiguous(view))
        script_arg_error(L, 1, "expected a contiguous f32 tensor");
    lua_pushboolean(L, ft_all_finite(view->data, ft_shape_count(&view->shape), NULL));
    return 1;
}

/* t:stats(): what numbers it holds: a table with count, min, max, mean, deviation (of those that
 * are finite; absent when none is), nan and infinite (how many). */
static int tensor_stats(lua_State *L)
{
    ft_stats s = ft_view_stats(script_check_view(L, 1));
    int64_t n_odd = s.n_nan + s.n_infinite;
    const struct {
        const char *name;
        double value;
        bool is_known;
    } fields[] = {
        {"count", (double)s.count, true},
        {"nan", (double)s.n_nan, true},
        {"infinite", (double)s.n_infinite, true},
        {"min", s.min, n_odd < s.count},
        {"max", s.max, n_odd < s.count},
        {"mean", s.mean, n_odd < s.count},
        {"deviation", s.deviation, n_odd < s.count},
    };
    lua_newtable(L);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!fields[i].is_known) continue;
        lua_pushnumber(L, fields[i].value);
        lua_setfield(L, -2, fields[i].name);
    }
    return 1;
}

static int push_text(lua_State *L, const ft_view *view, bool whole)
{
    ft_text text = {0};
    if (ft_tensor_format(view, whole, &text) != FT_OK) {
        ft_text_fini(&text);
        return script_fault(L, "no memory for the text of a tensor");
    }
    lua_pushlstring(L, text.data, (size_t)text.length);
    ft_text_fini(&text);
    return 1;
}

static int tensor_tostring(lua_State *L)
{
    const ft_tensor *tensor = *script_box(L, 1, tensor_class);
    if (tensor) return push_text(L, ft_tensor_view(tensor), false);
    lua_pushliteral(L, "tensor (freed)");
    return 1;
}

/* t:text(): every element as text; tostring(t) leaves out the middle of large ones. */
static int tensor_text(lua_State *L)
{
    return push_text(L, script_check_view(L, 1), true);
}

/* The address of the first element and the C type behind it, for ffi.cast in base/tensor.lua. */
static int tensor_address(lua_State *L)
{
    static const char *const types[FT_DTYPE_COUNT] = {
        [FT_F32] = "float *",     [FT_F64] = "double *",   [FT_F16] = "uint16_t *",
        [FT_BF16] = "uint16_t *", [FT_I32] = "int32_t *",  [FT_I64] = "int64_t *",
        [FT_U8] = "uint8_t *",    [FT_BOOL] = "uint8_t *",
    };
    const ft_view *view = script_check_view(L, 1);
    if (!ft_view_contiguous(view))
        return script_arg_error(L, 1, "only a contiguous tensor has a pointer; copy it first");
    lua_pushlightuserdata(L, view->data);
    lua_pushstring(L, types[view->dtype]);
    return 2;
}

int script_bind_tensor(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"free", tensor_free},       {"get", tensor_get},
        {"set", tensor_set},         {"fill", tensor_fill},
        {"draw", tensor_draw},       {"fill_range", tensor_fill_range},
        {"totable", tensor_totable}, {"narrow", tensor_narrow},
        {"select", tensor_select},   {"transpose", tensor_transpose},
        {"view", tensor_view},       {"to", tensor_to},
        {"copy", tensor_to},         {"copy_from", tensor_copy_from},
        {"dtype", tensor_dtype},     {"shape", tensor_shape},
        {"count", tensor_count},     {"is_contiguous", tensor_contiguous},
        {"equals", tensor_equal},    {"stats", tensor_stats},
        {"text", tensor_text},       {"is_finite", tensor_is_finite},
        {"address", tensor_address}, {NULL, NULL},
    };
    static const luaL_Reg meta[] = {
        {"__gc", tensor_free},  {"__tostring", tensor_tostring}, {"__len", tensor_length},
        {"__eq", tensor_equal}, {"__newindex", tensor_newindex}, {NULL, NULL},
    };
    static const luaL_Reg functions[] = {
        {"zeros", tensor_zeros}, {"from_table", tensor_from_table}, {NULL, NULL}};
    script_class(L, tensor_class, methods, meta);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    lua_getfield(L, -2, "__index");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods"); /* base/tensor.lua adds to it */
    lua_pushcclosure(L, tensor_index, 1);
    lua_setfield(L, -3, "__index");
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "meta");
    return 1;
}
