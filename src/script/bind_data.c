/* script/bind_data.c - core.data: text into batches.
 *
 * A batcher reads its dataset from a thread, so the dataset is shared between its own object and
 * the batchers on it, dies with the last of them, and takes no examples once there was a batcher.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/data.h"
#include "script/script.h"

static const char TOKENIZER[] = "ftpipe.tokenizer";
static const char DATASET[] = "ftpipe.dataset";
static const char BATCHER[] = "ftpipe.batcher";
static const char BLOCK[] = "ftpipe.block"; /* a result of C on its way into Lua */

enum { MAX_EXTRA_IDS = 1 << 20, PRESET_PREFETCH = 2 };

/* -- lists of ids ----------------------------------------------------------------------------- */

static int block_free(lua_State *L)
{
    void **box = script_box(L, 1, BLOCK);
    ft_free(*box);
    *box = NULL;
    return 0;
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

/* -- tokenizers ------------------------------------------------------------------------------- */

static ft_tokenizer *check_tokenizer(lua_State *L, int i)
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
    const ft_tokenizer *tokenizer = check_tokenizer(L, 1);
    const char *text = script_check_string(L, 2);
    int64_t size = (int64_t)lua_objlen(L, 2), n = 0;
    int32_t *ids = NULL;
    void **box = script_box_new(L, BLOCK);
    if (ft_tokenizer_encode(tokenizer, text, size, &ids, &n, &err) != FT_OK)
        return script_raise(L, &err);
    *box = ids;
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        lua_pushinteger(L, ids[i]);
        lua_rawseti(L, -2, (int)i + 1);
    }
    ft_free(*box);
    *box = NULL;
    return 1;
}

/*** Text of token ids.
 * @function tokenizer:decode
 * @tparam {integer,...} ids
 * @tparam[opt=true] boolean skip_special leave out </s>, <pad>, <unk> and the sentinels
 * @treturn string
 * @raise invalid argument: an id past the vocabulary */
static int tokenizer_decode(lua_State *L)
{
    ft_error err;
    const ft_tokenizer *tokenizer = check_tokenizer(L, 1);
    bool skip = lua_isnoneornil(L, 3) || lua_toboolean(L, 3);
    int64_t n = 0;
    char *text = NULL;
    const int32_t *ids = check_ids(L, 2, &n);
    void **box = script_box_new(L, BLOCK);
    if (ft_tokenizer_decode(tokenizer, ids, n, skip, &text, &err) != FT_OK)
        return script_blame(L, &err);
    *box = text;
    lua_pushstring(L, text);
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
    const ft_tokenizer *tokenizer = check_tokenizer(L, 1);
    int64_t id = script_check_int(L, 2, INT32_MIN, INT32_MAX);
    lua_pushstring(L, ft_tokenizer_piece(tokenizer, (int32_t)id));
    return 1;
}

/*** The number of ids: pieces and extra ids.
 * @function tokenizer:size
 * @treturn integer */
static int tokenizer_size(lua_State *L)
{
    lua_pushinteger(L, ft_tokenizer_size(check_tokenizer(L, 1)));
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

/* -- datasets --------------------------------------------------------------------------------- */

/* A dataset and how many hold it: its own box, and the batchers on it. Main thread only. */
typedef struct script_dataset {
    ft_dataset *dataset;
    int holders;
    bool sealed; /* a batcher was made on it */
} script_dataset;

static void release_dataset(script_dataset *shared)
{
    if (!shared || --shared->holders > 0) return;
    ft_dataset_free(shared->dataset);
    ft_free(shared);
}

static script_dataset *check_dataset(lua_State *L, int i)
{
    return script_box_check(L, i, DATASET);
}

/*** An empty dataset.
 * @function data.dataset
 * @treturn dataset */
static int data_dataset(lua_State *L)
{
    ft_error err;
    void **box = script_box_new(L, DATASET);
    script_dataset *shared = ft_alloc(sizeof *shared);
    if (!shared) {
        ft_fail(&err, FT_NOMEM, "dataset: no memory");
        return script_raise(L, &err);
    }
    shared->holders = 1;
    *box = shared;
    if (ft_dataset_new(&shared->dataset, &err) != FT_OK) return script_raise(L, &err);
    return 1;
}

static int dataset_free(lua_State *L)
{
    void **box = script_box(L, 1, DATASET);
    release_dataset(*box);
    *box = NULL;
    return 0;
}

/*** Appends one example. Not possible once a batcher was made on the dataset.
 * @function dataset:add
 * @tparam {integer,...} source token ids, at least one
 * @tparam {integer,...} target token ids, at least one
 * @treturn integer the number of the example, from 1 */
static int dataset_add(lua_State *L)
{
    ft_error err;
    script_dataset *shared = check_dataset(L, 1);
    int64_t n_source = 0, n_target = 0;
    const int32_t *source = check_ids(L, 2, &n_source);
    const int32_t *target = check_ids(L, 3, &n_target);
    if (shared->sealed)
        return script_arg_error(L, 1, "a batcher was made on the dataset, it takes no more");
    if (ft_dataset_add(shared->dataset, source, n_source, target, n_target, &err) != FT_OK)
        return script_blame(L, &err);
    lua_pushnumber(L, (double)ft_dataset_size(shared->dataset));
    return 1;
}

static int dataset_size(lua_State *L)
{
    lua_pushnumber(L, (double)ft_dataset_size(check_dataset(L, 1)->dataset));
    return 1;
}

/*** The number of ids of the longest source.
 * @function dataset:longest_source
 * @treturn integer */
static int dataset_longest_source(lua_State *L)
{
    lua_pushnumber(L, (double)ft_dataset_longest_source(check_dataset(L, 1)->dataset));
    return 1;
}

/*** The number of ids of the longest target.
 * @function dataset:longest_target
 * @treturn integer */
static int dataset_longest_target(lua_State *L)
{
    lua_pushnumber(L, (double)ft_dataset_longest_target(check_dataset(L, 1)->dataset));
    return 1;
}

static int dataset_tostring(lua_State *L)
{
    const script_dataset *shared = script_box_test(L, 1, DATASET);
    if (shared)
        lua_pushfstring(L, "dataset: %f examples", (double)ft_dataset_size(shared->dataset));
    else
        lua_pushliteral(L, "dataset (freed)");
    return 1;
}

/* -- batchers --------------------------------------------------------------------------------- */

typedef struct script_batcher {
    ft_batcher *batcher;
    script_dataset *source;
} script_batcher;

static ft_batcher *check_batcher(lua_State *L, int i)
{
    return ((script_batcher *)script_box_check(L, i, BATCHER))->batcher;
}

static int batcher_free(lua_State *L)
{
    void **box = script_box(L, 1, BATCHER);
    script_batcher *held = *box;
    *box = NULL;
    if (!held) return 0;
    ft_batcher_free(held->batcher);
    release_dataset(held->source);
    ft_free(held);
    return 0;
}

/* Reads option `buckets`, a list of lengths. */
static void check_buckets(lua_State *L, int t, ft_batcher_options *options)
{
    lua_getfield(L, t, "buckets");
    int n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
    if (n < 1 || n > FT_MAX_BUCKETS)
        script_arg_error(L, t, "option 'buckets': expected a list of 1 to %d lengths",
                         FT_MAX_BUCKETS);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        double length = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
        if (!(length >= 1 && length <= INT32_MAX) || length != (double)(int64_t)length)
            script_arg_error(L, t, "option 'buckets': element %d is not an integer from 1", i + 1);
        options->source_buckets[options->n_buckets++] = (int64_t)length;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* Reads every option but `dataset`. */
static ft_batcher_options check_options(lua_State *L, int t)
{
    static const int64_t max_exact = INT64_C(1) << 53;
    ft_batcher_options options = {
        .batch = script_opt_int(L, t, "batch", 0, 1, INT32_MAX),
        .target_length = script_opt_int(L, t, "target_length", 0, 1, INT32_MAX),
        .pad_id = (int32_t)script_opt_int(L, t, "pad_id", 0, 0, INT32_MAX),
        .decoder_start_id = (int32_t)script_opt_int(L, t, "decoder_start_id", 0, 0, INT32_MAX),
        .seed = (uint64_t)script_opt_int(L, t, "seed", 0, 0, max_exact),
        .shuffle = script_opt_bool(L, t, "shuffle", true),
        .prefetch = (int)script_opt_int(L, t, "prefetch", PRESET_PREFETCH, 0, 1024),
    };
    if (options.batch == 0) script_arg_error(L, t, "option 'batch' is missing");
    if (options.target_length == 0) script_arg_error(L, t, "option 'target_length' is missing");
    check_buckets(L, t, &options);
    return options;
}

/*** Draws batches from a dataset, from a thread that keeps `prefetch` of them ready.
 * @function data.batcher
 * @tparam table options `dataset`; `batch` (samples); `buckets` (a list of source lengths,
 *   ascending); `target_length`; `pad_id` (0); `decoder_start_id` (0); `seed` (0); `shuffle` (true:
 *   endless, a new order each epoch; false: the dataset's order, once); `prefetch` (2; 0: no
 * thread)
 * @treturn batcher
 * @raise invalid argument: the dataset is empty or does not fit */
static int data_batcher(lua_State *L)
{
    static const char *const names[] = {
        "dataset",          "batch",   "buckets",  "pad_id",        "seed",
        "decoder_start_id", "shuffle", "prefetch", "target_length", NULL};
    ft_error err;
    script_options(L, 1, names);
    ft_batcher_options options = check_options(L, 1);
    lua_getfield(L, 1, "dataset");
    script_dataset *source = script_box_test(L, lua_gettop(L), DATASET);
    if (!source) return script_arg_error(L, 1, "option 'dataset' is no dataset, or was freed");
    void **box = script_box_new(L, BATCHER);
    script_batcher *held = ft_alloc(sizeof *held);
    if (!held) {
        ft_fail(&err, FT_NOMEM, "batcher: no memory");
        return script_raise(L, &err);
    }
    *box = held;
    if (ft_batcher_new(&held->batcher, source->dataset, &options, &err) != FT_OK) {
        *box = NULL;
        ft_free(held);
        return script_blame(L, &err);
    }
    held->source = source;
    source->holders++;
    source->sealed = true;
    return 1;
}

/* Sets field `name` of the table at the top to an i32 tensor (rows, columns) that copies `ids`. */
static void set_ids(lua_State *L, const char *name, const int32_t *ids, int64_t rows,
                    int64_t columns)
{
    ft_error err;
    ft_spec spec = {FT_I32, ft_shape_of(rows, columns)};
    ft_tensor **box = script_push_tensor_box(L);
    if (ft_tensor_new(box, &spec, &err) != FT_OK) script_raise(L, &err);
    memcpy(ft_tensor_view(*box)->data, ids, (size_t)ft_spec_bytes(&spec));
    lua_setfield(L, -2, name);
}

static void set_number(lua_State *L, const char *name, int64_t value)
{
    lua_pushnumber(L, (double)value);
    lua_setfield(L, -2, name);
}

static void push_batch(lua_State *L, const ft_batch *batch)
{
    int64_t B = batch->batch, S = batch->source_length, T = batch->target_length;
    lua_createtable(L, 0, 8);
    set_number(L, "number", batch->number + 1);
    set_number(L, "bucket", batch->bucket + 1);
    set_number(L, "n_tokens", batch->n_tokens);
    set_ids(L, "input_ids", batch->input_ids, B, S);
    set_ids(L, "mask", batch->mask, B, S);
    set_ids(L, "decoder_ids", batch->decoder_ids, B, T);
    set_ids(L, "labels", batch->labels, B, T);
    lua_createtable(L, (int)B, 0);
    for (int64_t b = 0; b < B; b++) {
        lua_pushnumber(L, (double)(batch->index[b] + 1));
        lua_rawseti(L, -2, (int)b + 1);
    }
    lua_setfield(L, -2, "index");
    script_gc_step(L, B * (S + T) * 2 * (int64_t)sizeof(int32_t));
}

/*** The next batch; its tensors are the caller's.
 * @function batcher:next
 * @treturn table nil past the end; else `number` (from 1, over all epochs), `bucket` (from 1),
 *   `n_tokens` (labels that count), i32 tensors `input_ids` and `mask` (B, S), `decoder_ids` and
 *   `labels` (B, T; -100 where padded), and `index`, the numbers of the examples in the dataset
 *   (0 for a row that is not there) */
static int batcher_next(lua_State *L)
{
    ft_error err;
    const ft_batch *batch = NULL;
    if (ft_batcher_next(check_batcher(L, 1), &batch, &err) != FT_OK) return script_raise(L, &err);
    if (!batch) return 0;
    push_batch(L, batch);
    return 1;
}

/*** The next batch will be the one of this number.
 * @function batcher:seek
 * @tparam integer number from 1 */
static int batcher_seek(lua_State *L)
{
    ft_error err;
    ft_batcher *batcher = check_batcher(L, 1);
    int64_t number = script_check_int(L, 2, 1, INT64_C(1) << 53);
    if (ft_batcher_seek(batcher, number - 1, &err) != FT_OK) return script_blame(L, &err);
    return 0;
}

/*** Batches of one pass over the dataset; the last one may be short.
 * @function batcher:per_epoch
 * @treturn integer */
static int batcher_per_epoch(lua_State *L)
{
    lua_pushnumber(L, (double)ft_batcher_per_epoch(check_batcher(L, 1)));
    return 1;
}

static int batcher_tostring(lua_State *L)
{
    const script_batcher *held = script_box_test(L, 1, BATCHER);
    if (held)
        lua_pushfstring(L, "batcher: %f batches an epoch",
                        (double)ft_batcher_per_epoch(held->batcher));
    else
        lua_pushliteral(L, "batcher (freed)");
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

static void add_classes(lua_State *L)
{
    static const luaL_Reg tokenizer[] = {{"free", tokenizer_free},     {"encode", tokenizer_encode},
                                         {"decode", tokenizer_decode}, {"piece", tokenizer_piece},
                                         {"size", tokenizer_size},     {NULL, NULL}};
    static const luaL_Reg tokenizer_meta[] = {{"__gc", tokenizer_free},
                                              {"__len", tokenizer_size},
                                              {"__tostring", tokenizer_tostring},
                                              {NULL, NULL}};
    static const luaL_Reg dataset[] = {{"free", dataset_free},
                                       {"add", dataset_add},
                                       {"size", dataset_size},
                                       {"longest_source", dataset_longest_source},
                                       {"longest_target", dataset_longest_target},
                                       {NULL, NULL}};
    static const luaL_Reg dataset_meta[] = {{"__gc", dataset_free},
                                            {"__len", dataset_size},
                                            {"__tostring", dataset_tostring},
                                            {NULL, NULL}};
    static const luaL_Reg batcher[] = {{"free", batcher_free},
                                       {"next", batcher_next},
                                       {"seek", batcher_seek},
                                       {"per_epoch", batcher_per_epoch},
                                       {NULL, NULL}};
    static const luaL_Reg batcher_meta[] = {
        {"__gc", batcher_free}, {"__tostring", batcher_tostring}, {NULL, NULL}};
    static const luaL_Reg block_meta[] = {{"__gc", block_free}, {NULL, NULL}};
    script_class(L, TOKENIZER, tokenizer, tokenizer_meta);
    script_class(L, DATASET, dataset, dataset_meta);
    script_class(L, BATCHER, batcher, batcher_meta);
    script_class(L, BLOCK, NULL, block_meta);
    lua_pop(L, 4);
}

int script_bind_data(lua_State *L)
{
    static const luaL_Reg functions[] = {{"tokenizer", data_tokenizer},
                                         {"dataset", data_dataset},
                                         {"batcher", data_batcher},
                                         {"utf8_fault", data_utf8_fault},
                                         {NULL, NULL}};
    add_classes(L);
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
