/* bind_data/data.c - core.data: tokenizers, text. More of them: tokenizer.c; datasets and
 * batches: batches.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "device/device.h"
#include "bind_data/internal.h"

static const char TOKENIZER[] = "ftpipe.tokenizer";
static const char TEXTS[] = "ftpipe.texts";
static const char BLOCK[] = "ftpipe.block"; /* a result of C on its way into Lua */

enum { MAX_EXTRA_IDS = 1 << 20 };

/* -- lists of ids ----------------------------------------------------------------------------- */

static int block_free(lua_State *L)
{
    void **box = script_box(L, 1, BLOCK);
    ft_free(*box);
    *box = NULL;
    return 0;
}

void **script_block_box(lua_State *L)
{
    return script_box_new(L, BLOCK);
}

/* Pushes the list of token ids at argument t as an array in a userdata; *n is its length. */
static const int32_t *check_ids(lua_State *L, int t, int64_t *n)
{
    script_check_table(L, t);
    size_t count = lua_objlen(L, t);
    int32_t *ids = lua_newuserdata(L, (count + 1) * sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, t, (int)i + 1);
        double id = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
        if (!(id >= 0 && id <= INT32_MAX) || id != (double)(int32_t)id)
            script_arg_error(L, t, "element %d is not a token id (an integer from 0)", (int)i + 1);
        ids[i] = (int32_t)id;
        lua_pop(L, 1);
    }
    *n = (int64_t)count;
    return ids;
}

void script_push_ids(lua_State *L, const int32_t *ids, int64_t n)
{
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        lua_pushinteger(L, ids[i]);
        lua_rawseti(L, -2, (int)i + 1);
    }
}

/* -- tokenizers ------------------------------------------------------------------------------- */

ft_tokenizer *script_check_tokenizer(lua_State *L, int i)
{
    return script_box_check(L, i, TOKENIZER);
}

/*** A T5 tokenizer from a sentencepiece model.
 * @function data.tokenizer
 * @tparam table options `path` of the model, or its `bytes`; `extra_ids` (100)
 * @treturn tokenizer
 * @raise not found, malformed data */
static int data_tokenizer(lua_State *L)
{
    static const char *const names[] = {"path", "bytes", "extra_ids", NULL};
    ft_error err;
    script_options(L, 1, names);
    const char *path = script_opt_string(L, 1, "path", NULL);
    const char *bytes = script_opt_string(L, 1, "bytes", NULL);
    int extra_ids = (int)script_opt_int(L, 1, "extra_ids", 100, 0, MAX_EXTRA_IDS);
    if (!path == !bytes) return script_arg_error(L, 1, "expected either path or bytes");
    size_t size = 0;
    lua_getfield(L, 1, "bytes");
    lua_tolstring(L, -1, &size);
    void **box = script_box_new(L, TOKENIZER);
    ft_tokenizer **out = (ft_tokenizer **)box;
    ft_status status = path ? ft_tokenizer_open(out, path, extra_ids, &err)
                            : ft_tokenizer_load(out, bytes, (int64_t)size, extra_ids, &err);
    if (status != FT_OK) return script_raise(L, &err);
    return 1;
}

static int tokenizer_free(lua_State *L)
{
    void **box = script_box(L, 1, TOKENIZER);
    ft_tokenizer_free(*box);
    *box = NULL;
    return 0;
}

/*** Token ids of a text; </s> is not appended.
 * @function tokenizer:encode
 * @tparam string text UTF-8
 * @treturn {integer,...} raw vocabulary ids, from 0
 * @raise malformed data: the text is not UTF-8 */
static int tokenizer_encode(lua_State *L)
{
    ft_error err;
    const ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    const char *text = script_check_string(L, 2);
    int64_t size = (int64_t)lua_objlen(L, 2), n = 0;
    int32_t *ids = NULL;
    void **box = script_box_new(L, BLOCK);
    if (ft_tokenizer_encode(tokenizer, text, size, &ids, &n, &err) != FT_OK)
        return script_raise(L, &err);
    *box = ids;
    script_push_ids(L, ids, n);
    ft_free(*box);
    *box = NULL;
    return 1;
}

/*** The same as a vector of ids (data.ids).
 * @function tokenizer:vector
 * @tparam string text UTF-8
 * @treturn ids
 * @raise malformed data: the text is not UTF-8 */
static int tokenizer_vector(lua_State *L)
{
    ft_error err;
    const ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    const char *text = script_check_string(L, 2);
    int32_t *ids = NULL;
    int64_t n = 0;
    void **box = script_box_new(L, BLOCK);
    if (ft_tokenizer_encode(tokenizer, text, (int64_t)lua_objlen(L, 2), &ids, &n, &err) != FT_OK)
        return script_raise(L, &err);
    *box = ids;
    script_push_vector(L, ids, n);
    ft_free(*box);
    *box = NULL;
    return 1;
}

/* Texts on their way through ft_encode_texts, in a userdata that frees their ids. */
typedef struct script_texts {
    int64_t n;
    ft_encoding texts[];
} script_texts;

static int texts_free(lua_State *L)
{
    script_texts *all = lua_touserdata(L, 1);
    for (int64_t i = 0; i < all->n; i++) ft_free(all->texts[i].ids);
    all->n = 0;
    return 0;
}

/* Pushes the list of texts at argument t; the list has to outlive the result. */
static script_texts *check_texts(lua_State *L, int t)
{
    script_check_table(L, t);
    size_t n = lua_objlen(L, t);
    script_texts *all = lua_newuserdata(L, sizeof *all + n * sizeof *all->texts);
    memset(all, 0, sizeof *all + n * sizeof *all->texts);
    luaL_getmetatable(L, TEXTS);
    lua_setmetatable(L, -2);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, t, (int)i + 1);
        if (lua_type(L, -1) != LUA_TSTRING)
            script_arg_error(L, t, "element %d is not a text", (int)i + 1);
        all->texts[i].text = lua_tostring(L, -1);
        all->texts[i].size = (int64_t)lua_objlen(L, -1);
        lua_pop(L, 1);
    }
    all->n = (int64_t)n;
    return all;
}

/*** Token ids of many texts, encoded on all cores.
 * @function tokenizer:encode_all
 * @tparam {string,...} texts UTF-8
 * @treturn {ids,...} for each a vector of what encode gives
 * @raise malformed data: a text is not UTF-8 */
static int tokenizer_encode_all(lua_State *L)
{
    ft_error err;
    const ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    script_texts *all = check_texts(L, 2);
    int threads = ft_cpu_cores();
    if (ft_encode_texts(tokenizer, all->texts, all->n, threads, &err) != FT_OK)
        return script_raise(L, &err);
    lua_createtable(L, (int)all->n, 0);
    for (int64_t i = 0; i < all->n; i++) {
        script_push_vector(L, all->texts[i].ids, all->texts[i].n);
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

/*** Text of token ids.
 * @function tokenizer:decode
 * @tparam {integer,...} ids
 * @tparam[opt=true] boolean skip_special leave out </s>, <pad>, <unk> and the sentinels
 * @treturn string
 * @raise invalid argument: an id past the vocabulary, and what is reserved */
static int tokenizer_decode(lua_State *L)
{
    ft_error err;
    const ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    bool skip = lua_isnoneornil(L, 3) || lua_toboolean(L, 3);
    int64_t n = 0, size = 0;
    char *text = NULL;
    const int32_t *ids = check_ids(L, 2, &n);
    void **box = script_box_new(L, BLOCK);
    if (ft_tokenizer_decode(tokenizer, ids, n, skip, &text, &size, &err) != FT_OK)
        return script_blame(L, &err);
    *box = text;
    lua_pushlstring(L, text, (size_t)size);
    ft_free(*box);
    *box = NULL;
    return 1;
}

/*** The piece of an id, nil past the vocabulary.
 * @function tokenizer:piece
 * @tparam integer id
 * @treturn string */
static int tokenizer_piece(lua_State *L)
{
    const ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    int64_t id = script_check_int(L, 2, INT32_MIN, INT32_MAX);
    lua_pushstring(L, ft_tokenizer_piece(tokenizer, (int32_t)id));
    return 1;
}

/*** The number of ids: pieces and extra ids.
 * @function tokenizer:size
 * @treturn integer */
static int tokenizer_size(lua_State *L)
{
    lua_pushinteger(L, ft_tokenizer_size(script_check_tokenizer(L, 1)));
    return 1;
}

static int tokenizer_tostring(lua_State *L)
{
    const ft_tokenizer *tokenizer = script_box_test(L, 1, TOKENIZER);
    if (tokenizer)
        lua_pushfstring(L, "tokenizer: %d ids", ft_tokenizer_size(tokenizer));
    else
        lua_pushliteral(L, "tokenizer (freed)");
    return 1;
}

/* -- text ------------------------------------------------------------------------------------- */

/*** Where a text stops being UTF-8.
 * @function data.utf8_fault
 * @tparam string text
 * @treturn integer position of the first bad byte, from 1; nil when there is none */
static int data_utf8_fault(lua_State *L)
{
    const char *text = script_check_string(L, 1);
    int64_t position = ft_utf8_check(text, (int64_t)lua_objlen(L, 1));
    if (position < 0) return 0;
    lua_pushnumber(L, (double)(position + 1));
    return 1;
}

/* Calls a function from text to text on the string at argument 1 and pushes its result. */
static int map_text(lua_State *L, ft_status (*map)(const char *text, int64_t size, char **out,
                                                   int64_t *n, ft_error *err))
{
    ft_error err;
    const char *text = script_check_string(L, 1);
    char *out = NULL;
    int64_t n = 0;
    void **box = script_box_new(L, BLOCK);
    if (map(text, (int64_t)lua_objlen(L, 1), &out, &n, &err) != FT_OK) return script_raise(L, &err);
    *box = out;
    lua_pushlstring(L, out, (size_t)n);
    ft_free(*box);
    *box = NULL;
    return 1;
}

/*** An answer as SQuAD's official evaluation compares it: lower case, no ASCII punctuation, no
 * articles, blanks joined.
 * @function data.normal_answer
 * @tparam string text UTF-8
 * @treturn string
 * @raise malformed data: the text is not UTF-8 */
static int data_normal_answer(lua_State *L)
{
    return map_text(L, ft_answer_normal);
}

/*** Text with every run of blanks, those of Unicode too, made one space, and none at its ends.
 * @function data.squeeze
 * @tparam string text UTF-8
 * @treturn string
 * @raise malformed data: the text is not UTF-8 */
static int data_squeeze(lua_State *L)
{
    return map_text(L, ft_answer_squeeze);
}

static void add_classes(lua_State *L)
{
    static const luaL_Reg tokenizer[] = {
        {"free", tokenizer_free},     {"encode", tokenizer_encode},
        {"vector", tokenizer_vector}, {"encode_all", tokenizer_encode_all},
        {"decode", tokenizer_decode}, {"piece", tokenizer_piece},
        {"size", tokenizer_size},     {NULL, NULL}};
    static const luaL_Reg tokenizer_meta[] = {{"__gc", tokenizer_free},
                                              {"__len", tokenizer_size},
                                              {"__tostring", tokenizer_tostring},
                                              {NULL, NULL}};
    static const luaL_Reg texts_meta[] = {{"__gc", texts_free}, {NULL, NULL}};
    static const luaL_Reg block_meta[] = {{"__gc", block_free}, {NULL, NULL}};
    script_class(L, TOKENIZER, tokenizer, tokenizer_meta);
    script_class(L, BLOCK, NULL, block_meta);
    script_class(L, TEXTS, NULL, texts_meta);
    lua_pop(L, 3);
}

int script_bind_data(lua_State *L)
{
    static const luaL_Reg functions[] = {{"tokenizer", data_tokenizer},
                                         {"utf8_fault", data_utf8_fault},
                                         {"normal_answer", data_normal_answer},
                                         {"squeeze", data_squeeze},
                                         {NULL, NULL}};
    add_classes(L);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    script_add_ids(L);
    script_add_batches(L);
    script_add_spans(L);
    script_add_tokenizers(L);
    return 1;
}
