/* bind_data/spans.c - core.data.spans: answers from the logits of a question's windows. */
#include <string.h>

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
        if (windows[i].first < 0)
            script_arg_error(L, t, "window %d has no 'first', expected a piece, 1 or more", i + 1);
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
        script_arg_error(L, i, "has no row %d of %d", (int)row + 1, (int)view->shape.dims[0]);
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

/*** The number of answers: none before tokenizer:answer.
 * @function spans:answers
 * @treturn integer */
static int spans_answers(lua_State *L)
{
    lua_pushinteger(L, ft_spans_n_answers(script_box_check(L, 1, SPANS)));
    return 1;
}

/*** An answer, the best one first.
 * @function spans:answer
 * @tparam integer i from 1
 * @treturn string text
 * @treturn number probability among the answers
 * @treturn number logit of the start
 * @treturn number logit of the end */
static int spans_answer(lua_State *L)
{
    const ft_spans *spans = script_box_check(L, 1, SPANS);
    int64_t i = script_check_index(L, 2, ft_spans_n_answers(spans), "answers");
    ft_span_answer answer = ft_spans_answer_at(spans, (int)i);
    lua_pushlstring(L, answer.text, (size_t)answer.size);
    lua_pushnumber(L, answer.probability);
    lua_pushnumber(L, answer.start);
    lua_pushnumber(L, answer.stop);
    return 4;
}

/* -- texts of spans --------------------------------------------------------------------------- */

/* A context; arrays are userdata on the stack, words are borrowed from their table. */
typedef struct context_words {
    const ft_tokenizer *tokenizer;
    ft_id_run ids;
    int64_t n_words;
    ft_slice *words;
    int64_t *first; /* piece of each */
    char *joined;   /* room for all words with blanks between them */
} context_words;

/* Pushes the list at a key of the table at t; how long it is. */
static int64_t push_list(lua_State *L, int t, const char *key)
{
    lua_getfield(L, t, key);
    if (!lua_istable(L, -1)) script_arg_error(L, t, "expected a list '%s'", key);
    return (int64_t)lua_objlen(L, -1);
}

static void read_words(lua_State *L, int t, context_words *c)
{
    size_t bytes = 1;
    c->n_words = push_list(L, t, "words");
    int list = lua_gettop(L);
    c->words = lua_newuserdata(L, (size_t)(c->n_words + 1) * sizeof *c->words);
    for (int64_t i = 0; i < c->n_words; i++) {
        lua_rawgeti(L, list, (int)i + 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            script_arg_error(L, t, "word %d is no text", (int)i + 1);
        c->words[i] = (ft_slice){lua_tostring(L, -1), (int64_t)lua_objlen(L, -1)};
        bytes += (size_t)c->words[i].size + 1;
        lua_pop(L, 1);
    }
    c->joined = lua_newuserdata(L, bytes);
}

/* Every piece is of a word: the first word begins with piece 1. */
static void read_first(lua_State *L, int t, context_words *c)
{
    if (push_list(L, t, "first") != c->n_words)
        script_arg_error(L, t, "expected a number in 'first' for each word");
    if (!c->n_words && c->ids.n) script_arg_error(L, t, "its pieces are of no word");
    int list = lua_gettop(L);
    c->first = lua_newuserdata(L, (size_t)(c->n_words + 1) * sizeof *c->first);
    for (int64_t w = 0; w < c->n_words; w++) {
        int64_t least = w ? c->first[w - 1] + 1 : 1, most = w ? c->ids.n + 1 : 1;
        lua_rawgeti(L, list, (int)w + 1);
        double first = lua_tonumber(L, -1);
        if (!(first >= (double)least && first <= (double)most))
            script_arg_error(L, t, "word %d begins with piece %g, expected %d to %d", (int)w + 1,
                             first, (int)least, (int)most);
        c->first[w] = (int64_t)first - 1;
        lua_pop(L, 1);
    }
}

/* The last word that begins at the piece or before it. */
static int64_t word_of(const context_words *c, int64_t piece)
{
    int64_t w = 0;
    while (w + 1 < c->n_words && c->first[w + 1] <= piece) w++;
    return w;
}

/* The words that a span touches, cut to what its pieces mean. */
static ft_status span_text(void *context, const ft_span *span, const char **text, int64_t *size,
                           ft_error *err)
{
    const context_words *c = context;
    if (span->last >= c->ids.n)
        return ft_fail(err, FT_INVALID, "a span ends at piece %lld, the context has %lld",
                       (long long)span->last + 1, (long long)c->ids.n);
    int64_t n = 0, last = word_of(c, span->last);
    for (int64_t w = word_of(c, span->first); w <= last; w++) {
        memcpy(c->joined + n, c->words[w].bytes, (size_t)c->words[w].size);
        n += c->words[w].size;
        if (w < last) c->joined[n++] = ' ';
    }
    ft_slice part, original = {c->joined, n};
    FT_TRY(ft_tokenizer_original(c->tokenizer, c->ids.ids + span->first,
                                 span->last - span->first + 1, original, &part, err));
    *text = part.bytes;
    *size = part.size;
    return FT_OK;
}

/*** Makes the spans of a question its answers (spans:answer), and keeps no other.
 * @function tokenizer:answer
 * @tparam spans spans of all its windows
 * @tparam table context `ids` of its pieces, `words` (strings), `first` (piece of each, from 1)
 * @treturn spans
 * @raise invalid argument: spans of another context; malformed data: words that are not UTF-8 */
int script_answer_spans(lua_State *L)
{
    ft_error err;
    context_words c = {.tokenizer = script_check_tokenizer(L, 1)};
    ft_spans *spans = script_box_check(L, 2, SPANS);
    script_check_table(L, 3);
    lua_getfield(L, 3, "ids");
    if (!script_test_vector(L, lua_gettop(L), &c.ids))
        return script_arg_error(L, 3, "expected ids in field 'ids'");
    read_words(L, 3, &c);
    read_first(L, 3, &c);
    if (ft_spans_answer(spans, span_text, &c, &err) != FT_OK) return script_raise(L, &err);
    lua_pushvalue(L, 2);
    return 1;
}

void script_add_spans(lua_State *L)
{
    static const luaL_Reg functions[] = {{"spans", data_spans}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"free", spans_free},     {"add", spans_add},
                                       {"get", spans_get},       {"answers", spans_answers},
                                       {"answer", spans_answer}, {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", spans_free}, {"__len", spans_length}, {NULL, NULL}};
    script_class(L, SPANS, methods, meta);
    lua_pop(L, 1);
    luaL_register(L, NULL, functions);
}
