/* bind_data/spans.c - core.data.spans: answers from the logits of a question's windows. */
#include "bind_data/internal.h"

static const char SPANS[] = "ftpipe.spans";

enum { MAX_WINDOWS = 1 << 20 };

/*** Spans of one question, none yet.
 * @function data.spans
 * @treturn spans `#`: how many */
static int data_spans(lua_State *L)
{
    ft_error err;
    void **box = script_box_new(L, SPANS);
    if (ft_spans_new((ft_spans **)box, &err) != FT_OK) return script_raise(L, &err);
    return 1;
}

static int spans_free(lua_State *L)
{
    void **box = script_box(L, 1, SPANS);
    ft_spans_free(*box);
    *box = NULL;
    return 0;
}

/* Pushes the list of windows { first =, n = } at argument t as an array in a userdata. */
static const ft_span_window *check_windows(lua_State *L, int t, int *n)
{
    script_check_table(L, t);
    *n = (int)lua_objlen(L, t);
    if (*n < 1 || *n > MAX_WINDOWS) script_arg_error(L, t, "expected windows, got %d", *n);
    ft_span_window *windows = lua_newuserdata(L, (size_t)*n * sizeof *windows);
    for (int i = 0; i < *n; i++) {
        lua_rawgeti(L, t, i + 1);
        script_check_table(L, lua_gettop(L));
        windows[i].first = script_field_int(L, lua_gettop(L), "first") - 1;
        windows[i].n = script_field_int(L, lua_gettop(L), "n");
        lua_pop(L, 1);
    }
    return windows;
}

/* A row of logits: the tensor at argument i, (B, L) f32. */
static const float *check_logits(lua_State *L, int i, int64_t row, int64_t *length)
{
    const ft_view *view = script_check_view(L, i);
    if (view->dtype != FT_F32 || view->shape.n_dims != 2 || !ft_view_contiguous(view))
        script_arg_error(L, i, "expected a matrix of logits, f32");
    if (row >= view->shape.dims[0])
        script_arg_error(L, i, "has %d rows, asked for row %d", (int)view->shape.dims[0],
                         (int)row + 1);
    *length = view->shape.dims[1];
    return (const float *)view->data + row * *length;
}

/*** Adds the best spans of a window: at most twenty starts and ends, and thirty pieces.
 * @function spans:add
 * @tparam {table,...} windows all of the question, in order: { first = piece, n = pieces }
 * @tparam integer number of this window
 * @tparam integer query pieces of the question
 * @tparam tensor starts logits (B, L) from [CLS] on; what lies past the window is not looked at
 * @tparam tensor ends likewise
 * @tparam integer row of both
 * @raise invalid argument: fewer logits than the window has ids */
static int spans_add(lua_State *L)
{
    ft_error err;
    ft_span_logits logits = {0};
    int64_t ends = 0;
    ft_spans *spans = script_box_check(L, 1, SPANS);
    logits.query = script_check_int(L, 4, 0, INT32_MAX);
    int64_t row = script_check_int(L, 7, 1, INT32_MAX) - 1;
    logits.starts = check_logits(L, 5, row, &logits.length);
    logits.ends = check_logits(L, 6, row, &ends);
    if (ends != logits.length)
        return script_arg_error(L, 6, "has %d columns, expected %d as of starts", (int)ends,
                                (int)logits.length);
    logits.windows = check_windows(L, 2, &logits.n_windows);
    logits.window = (int)script_check_int(L, 3, 1, logits.n_windows) - 1;
    if (ft_spans_add(spans, &logits, &err) != FT_OK) return script_blame(L, &err);
    return 0;
}

/*** Puts those with the greatest sums of logits first; of equal ones that of the first window.
 * @function spans:sort
 * @treturn spans itself */
static int spans_sort(lua_State *L)
{
    ft_spans_sort(script_box_check(L, 1, SPANS));
    lua_settop(L, 1);
    return 1;
}

/*** A span.
 * @function spans:get
 * @tparam integer i from 1
 * @treturn integer first piece of the context
 * @treturn integer last piece
 * @treturn number logit of the start
 * @treturn number logit of the end */
static int spans_get(lua_State *L)
{
    const ft_spans *spans = script_box_check(L, 1, SPANS);
    const ft_span *span =
        ft_spans_get(spans, script_check_index(L, 2, ft_spans_size(spans), "spans"));
    lua_pushnumber(L, (double)(span->first + 1));
    lua_pushnumber(L, (double)(span->last + 1));
    lua_pushnumber(L, span->start);
    lua_pushnumber(L, span->stop);
    return 4;
}

static int spans_length(lua_State *L)
{
    lua_pushnumber(L, (double)ft_spans_size(script_box_check(L, 1, SPANS)));
    return 1;
}

void script_add_spans(lua_State *L)
{
    static const luaL_Reg functions[] = {{"spans", data_spans}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"free", spans_free},
                                       {"add", spans_add},
                                       {"sort", spans_sort},
                                       {"get", spans_get},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", spans_free}, {"__len", spans_length}, {NULL, NULL}};
    script_class(L, SPANS, methods, meta);
    lua_pop(L, 1);
    luaL_register(L, NULL, functions);
}
