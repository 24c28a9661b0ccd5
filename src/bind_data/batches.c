/* bind_data/batches.c - core.data: datasets and batches.
 *
 * A batcher reads its dataset from a thread, so the dataset is shared between its own object and
 * the batchers on it, dies with the last of them, and takes no examples once there was a batcher.
 */
#include <string.h>

#include "base/alloc.h"
#include "bind_data/internal.h"

static const char DATASET[] = "ftpipe.dataset";
static const char BATCHER[] = "ftpipe.batcher";

enum { PRESET_PREFETCH = 2 };

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

/* Reads the name at the top of the stack as the next of the fields, and pops it. */
static void check_field(lua_State *L, ft_data_field *fields, int *n, int group)
{
    size_t size = 0;
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &size) : NULL;
    if (!name || size >= FT_MAX_NAME)
        script_arg_error(L, 1, "length group %d: expected names of at most %d bytes", group + 1,
                         FT_MAX_NAME - 1);
    if (*n == FT_MAX_FIELDS) script_arg_error(L, 1, "more than %d fields", FT_MAX_FIELDS);
    fields[*n] = (ft_data_field){.group = group};
    memcpy(fields[(*n)++].name, name, size);
    lua_pop(L, 1);
}

/* Reads a list of length groups: names, or lists of names. */
static int check_fields(lua_State *L, ft_data_field *fields)
{
    int n = 0, groups = (int)lua_objlen(L, 1);
    for (int g = 0; g < groups; g++) {
        lua_rawgeti(L, 1, g + 1);
        int together = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
        for (int i = 0; i < together; i++) {
            lua_rawgeti(L, -1, i + 1);
            check_field(L, fields, &n, g);
        }
        if (together)
            lua_pop(L, 1);
        else
            check_field(L, fields, &n, g);
    }
    return n;
}

static script_dataset *push_dataset(lua_State *L)
{
    ft_error err;
    void **box = script_box_new(L, DATASET);
    script_dataset *shared = ft_alloc(sizeof *shared);
    if (!shared) {
        ft_fail(&err, FT_NOMEM, "dataset: no memory");
        script_raise(L, &err);
        return NULL;
    }
    shared->holders = 1;
    *box = shared;
    return shared;
}

/*** An empty dataset. Fields of one length group have equally many ids in a row; batches are padded
 * to length buckets by the first group.
 * @function data.dataset
 * @tparam table groups a list of names of fields, or of lists of names that are of one group
 * @treturn dataset
 * @usage data.dataset { "source", "target" }; data.dataset { { "source", "segments" }, "start" } */
static int data_dataset(lua_State *L)
{
    ft_error err;
    ft_data_field fields[FT_MAX_FIELDS];
    script_check_table(L, 1);
    int n = check_fields(L, fields);
    script_dataset *shared = push_dataset(L);
    if (ft_dataset_new(&shared->dataset, fields, n, &err) != FT_OK) return script_blame(L, &err);
    return 1;
}

static int dataset_free(lua_State *L)
{
    void **box = script_box(L, 1, DATASET);
    release_dataset(*box);
    *box = NULL;
    return 0;
}

/* The ids at the top of the stack: a vector, or a list, in whose place comes a userdata that holds
 * them. */
static ft_id_run check_ids(lua_State *L, const char *field)
{
    ft_id_run run = {NULL, 0};
    if (script_test_vector(L, lua_gettop(L), &run)) return run;
    if (!lua_istable(L, -1)) script_arg_error(L, 2, "field '%s' is no list of token ids", field);
    size_t n = lua_objlen(L, -1);
    int32_t *ids = lua_newuserdata(L, (n + 1) * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, -2, (int)i + 1);
        double id = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
        if (!script_is_id(id))
            script_arg_error(L, 2, "element %d of field '%s' is not a token id (an integer from 0)",
                             (int)i + 1, field);
        ids[i] = (int32_t)id;
        lua_pop(L, 1);
    }
    lua_replace(L, -2);
    return (ft_id_run){ids, (int64_t)n};
}

/* Refuses a key of the row that is no field. */
static void check_keys(lua_State *L, const ft_dataset *dataset)
{
    lua_pushnil(L);
    while (lua_next(L, 2)) {
        lua_pop(L, 1);
        bool known =
            lua_type(L, -1) == LUA_TSTRING && ft_dataset_find(dataset, lua_tostring(L, -1)) >= 0;
        if (known) continue;
        lua_getglobal(L, "tostring");
        lua_pushvalue(L, -2);
        lua_call(L, 1, 1);
        script_arg_error(L, 2, "the dataset has no field '%s'", lua_tostring(L, -1));
    }
}

/*** Appends one example. Not possible once a batcher was made on the dataset.
 * @function dataset:add
 * @tparam table row for each field a list, or a vector (data.ids), of at least one token id; -100
 * is a label that does not count
 * @treturn integer the number of the example, from 1 */
static int dataset_add(lua_State *L)
{
    ft_error err;
    ft_id_run row[FT_MAX_FIELDS];
    script_dataset *shared = check_dataset(L, 1);
    script_check_table(L, 2);
    int n = ft_dataset_n_fields(shared->dataset);
    check_keys(L, shared->dataset);
    for (int f = 0; f < n; f++) {
        const char *name = ft_dataset_field(shared->dataset, f)->name;
        lua_getfield(L, 2, name);
        row[f] = check_ids(L, name);
    }
    if (shared->sealed)
        return script_arg_error(L, 1, "a batcher was made on the dataset, it takes no more");
    if (ft_dataset_add(shared->dataset, row, &err) != FT_OK) return script_blame(L, &err);
    lua_pushnumber(L, (double)ft_dataset_size(shared->dataset));
    return 1;
}

static int dataset_size(lua_State *L)
{
    lua_pushnumber(L, (double)ft_dataset_size(check_dataset(L, 1)->dataset));
    return 1;
}

/* The field that argument i names. */
static int check_field_name(lua_State *L, int i, const ft_dataset *dataset)
{
    const char *name = script_check_string(L, i);
    int field = ft_dataset_find(dataset, name);
    if (field < 0) script_arg_error(L, i, "the dataset has no field '%s'", name);
    return field;
}

/*** The most ids of a field in one example.
 * @function dataset:longest
 * @tparam string field
 * @treturn integer */
static int dataset_longest(lua_State *L)
{
    const ft_dataset *dataset = check_dataset(L, 1)->dataset;
    lua_pushnumber(L, (double)ft_dataset_longest(dataset, check_field_name(L, 2, dataset)));
    return 1;
}

/* Of dataset, number of the example, field. */
static ft_id_run check_example(lua_State *L)
{
    const ft_dataset *dataset = check_dataset(L, 1)->dataset;
    int64_t i = script_check_int(L, 2, 1, ft_dataset_size(dataset)) - 1;
    return ft_dataset_get(dataset, i, check_field_name(L, 3, dataset));
}

/*** The ids of a field in one example.
 * @function dataset:get
 * @tparam integer number of the example, from 1
 * @tparam string field
 * @treturn {integer,...} */
static int dataset_get(lua_State *L)
{
    ft_id_run ids = check_example(L);
    script_push_ids(L, ids.ids, ids.n);
    return 1;
}

/*** The same as a vector.
 * @function dataset:ids
 * @tparam integer number of the example, from 1
 * @tparam string field
 * @treturn ids */
static int dataset_ids(lua_State *L)
{
    ft_id_run ids = check_example(L);
    script_push_vector(L, ids.ids, ids.n);
    return 1;
}

/*** The length groups with the names of their fields, as data.dataset takes them, each a list.
 * @function dataset:groups
 * @treturn {{string,...},...} */
static int dataset_groups(lua_State *L)
{
    const ft_dataset *dataset = check_dataset(L, 1)->dataset;
    lua_newtable(L);
    for (int f = 0; f < ft_dataset_n_fields(dataset); f++) {
        const ft_data_field *field = ft_dataset_field(dataset, f);
        lua_rawgeti(L, -1, field->group + 1);
        if (lua_isnil(L, -1)) {
            lua_pop(L, 1);
            lua_newtable(L);
            lua_pushvalue(L, -1);
            lua_rawseti(L, -3, field->group + 1);
        }
        lua_pushstring(L, field->name);
        lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
        lua_pop(L, 1);
    }
    return 1;
}

/*** The dataset as bytes, for a file.
 * @function dataset:pack
 * @treturn string */
static int dataset_pack(lua_State *L)
{
    ft_error err;
    uint8_t *bytes = NULL;
    int64_t size = 0;
    const ft_dataset *dataset = check_dataset(L, 1)->dataset;
    void **box = script_block_box(L);
    if (ft_dataset_pack(dataset, &bytes, &size, &err) != FT_OK) return script_raise(L, &err);
    *box = bytes;
    lua_pushlstring(L, (const char *)bytes, (size_t)size);
    ft_free(*box);
    *box = NULL;
    return 1;
}

/*** A dataset of what dataset:pack gave.
 * @function data.unpack
 * @tparam string bytes
 * @treturn dataset
 * @raise malformed data, invalid argument */
static int data_unpack(lua_State *L)
{
    ft_error err;
    const char *bytes = script_check_string(L, 1);
    int64_t size = (int64_t)lua_objlen(L, 1);
    script_dataset *shared = push_dataset(L);
    ft_status status = ft_dataset_unpack(&shared->dataset, (const uint8_t *)bytes, size, &err);
    return status == FT_OK ? 1 : script_raise(L, &err);
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

/* The length at the top of the stack, popped; `what` names it in the message. */
static int64_t pop_length(lua_State *L, int t, const char *what)
{
    double length = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
    if (!(length >= 1 && length <= INT32_MAX) || length != (double)(int64_t)length)
        script_arg_error(L, t, "%s is not an integer from 1", what);
    lua_pop(L, 1);
    return (int64_t)length;
}

/* Pushes option `key`, a list of at most `most`, and returns how many there are. */
static int check_list(lua_State *L, int t, const char *key, int most, const char *of)
{
    lua_getfield(L, t, key);
    int n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
    if (n < 1 || n > most)
        script_arg_error(L, t, "option '%s': expected a list of 1 to %d %s", key, most, of);
    return n;
}

static void check_buckets(lua_State *L, int t, ft_batcher_options *options)
{
    char what[64];
    options->n_buckets = check_list(L, t, "buckets", FT_MAX_BUCKETS, "lengths");
    for (int i = 0; i < options->n_buckets; i++) {
        snprintf(what, sizeof what, "option 'buckets': element %d", i + 1);
        lua_rawgeti(L, -1, i + 1);
        options->buckets[i] = pop_length(L, t, what);
    }
    lua_pop(L, 1);
}

/* Reads option `lengths`, a length by name of a field. */
static void check_lengths(lua_State *L, int t, const ft_dataset *dataset,
                          ft_batcher_options *options)
{
    char what[96];
    lua_getfield(L, t, "lengths");
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return;
    }
    if (!lua_istable(L, -1)) script_arg_error(L, t, "option 'lengths': expected a table");
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        int field = ft_dataset_find(dataset, name);
        if (field < 0)
            script_arg_error(L, t, "option 'lengths': the dataset has no field '%s'", name);
        int group = ft_dataset_field(dataset, field)->group;
        if (group == 0)
            script_arg_error(L, t, "option 'lengths': field '%s' is padded to buckets", name);
        snprintf(what, sizeof what, "option 'lengths': '%s'", name);
        options->lengths[group] = pop_length(L, t, what);
    }
    lua_pop(L, 1);
}

/* Reads one row of option `columns`, which is at the top of the stack and stays there. */
static ft_column check_column(lua_State *L, int t, int number)
{
    static const char *const names[] = {"name", "field", "as", "pad", "first", NULL};
    int row = lua_gettop(L);
    if (!lua_istable(L, row))
        script_arg_error(L, t, "option 'columns': element %d is no table", number);
    script_options(L, row, names);
    ft_column column = {.name = script_opt_string(L, row, "name", NULL),
                        .field = script_opt_string(L, row, "field", NULL),
                        .as = script_opt_string(L, row, "as", "ids"),
                        .first = (int32_t)script_opt_int(L, row, "first", 0, 0, INT32_MAX)};
    bool scalar = strcmp(column.as, "scalar") == 0; /* a label, where nothing else is said */
    column.pad = (int32_t)script_opt_int(L, row, "pad", scalar ? FT_IGNORED_LABEL : 0,
                                         FT_IGNORED_LABEL, INT32_MAX);
    if (!column.name || !column.field)
        script_arg_error(L, t, "option 'columns': element %d has no name or no field", number);
    return column;
}

static void check_columns(lua_State *L, int t, ft_batcher_options *options)
{
    options->n_columns = check_list(L, t, "columns", FT_MAX_COLUMNS, "rows { name =, field = }");
    for (int c = 0; c < options->n_columns; c++) {
        lua_rawgeti(L, -1, c + 1);
        options->columns[c] = check_column(L, t, c + 1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* Reads every option but `dataset`; strings live as long as the table at t. */
static ft_batcher_options check_options(lua_State *L, int t, const ft_dataset *dataset)
{
    static const int64_t max_exact = INT64_C(1) << 53;
    ft_batcher_options options = {
        .batch = script_opt_int(L, t, "batch", 0, 1, INT32_MAX),
        .seed = (uint64_t)script_opt_int(L, t, "seed", 0, 0, max_exact),
        .shuffle = script_opt_bool(L, t, "shuffle", true),
        .longest_first = script_opt_bool(L, t, "longest_first", false),
        .prefetch = (int)script_opt_int(L, t, "prefetch", PRESET_PREFETCH, 0, 1024),
    };
    if (options.batch == 0) script_arg_error(L, t, "option 'batch' is missing");
    check_buckets(L, t, &options);
    check_lengths(L, t, dataset, &options);
    check_columns(L, t, &options);
    return options;
}

/*** Draws batches from a dataset, from a thread that keeps `prefetch` of them ready.
 * @function data.batcher
 * @tparam table options `dataset`; `batch` (samples); `buckets` (a list of lengths of the first
 *   length group, ascending); `lengths` (of other groups, by a field of them; the dataset's
 *   longest); `columns` (a list of { name =, field =, as =, pad =, first = }: the tensors of a
 *   batch, see ft_column; as: "ids", "mask", "shift_right", "shift_left", "scalar"); `seed` (0);
 *   `shuffle` (true: endless, a new order each epoch; false: the dataset's order, once);
 *   `longest_first` (false; true: without shuffling, examples by their length); `prefetch` (2; 0:
 *   no thread)
 * @treturn batcher
 * @raise invalid argument: the dataset is empty or does not fit */
static int data_batcher(lua_State *L)
{
    static const char *const names[] = {"dataset",  "batch", "buckets", "lengths",
                                        "columns",  "seed",  "shuffle", "longest_first",
                                        "prefetch", NULL};
    ft_error err;
    script_options(L, 1, names);
    lua_getfield(L, 1, "dataset");
    script_dataset *source = script_box_test(L, lua_gettop(L), DATASET);
    if (!source) return script_arg_error(L, 1, "option 'dataset' is no dataset, or was freed");
    ft_batcher_options options = check_options(L, 1, source->dataset);
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

/* -- one batch -------------------------------------------------------------------------------- */

static void set_number(lua_State *L, const char *name, int64_t value)
{
    lua_pushnumber(L, (double)value);
    lua_setfield(L, -2, name);
}

/* Sets the field of that column in the table at the top: an i32 tensor that copies it. */
static void set_column(lua_State *L, const ft_batch *batch, const ft_batch_column *column)
{
    ft_error err;
    ft_spec spec = {FT_I32, column->length ? ft_shape_of(batch->batch, column->length)
                                           : ft_shape_of(batch->batch)};
    ft_tensor **box = script_push_tensor_box(L);
    if (ft_tensor_new(box, &spec, &err) != FT_OK) script_raise(L, &err);
    memcpy(ft_tensor_view(*box)->data, column->ids, (size_t)ft_spec_bytes(&spec));
    script_gc_step(L, ft_spec_bytes(&spec));
    lua_setfield(L, -2, column->name);
}

static void set_index(lua_State *L, const ft_batch *batch)
{
    lua_createtable(L, (int)batch->batch, 0);
    for (int64_t b = 0; b < batch->batch; b++) {
        lua_pushnumber(L, (double)(batch->index[b] + 1));
        lua_rawseti(L, -2, (int)b + 1);
    }
    lua_setfield(L, -2, "index");
}

/*** The next batch; its tensors are the caller's.
 * @function batcher:next
 * @treturn table nil past the end; else an i32 tensor (B, L), or (B) for scalars, for each column
 *   by its name; `number` (from 1, over all epochs), `bucket` (from 1), `counts` (by column, how
 *   many of its values are not -100), `tokens` (ids of its examples, without padding), and `index`,
 *   the numbers of the examples in the dataset (0 for a row that is not there) */
static int batcher_next(lua_State *L)
{
    ft_error err;
    const ft_batch *batch = NULL;
    if (ft_batcher_next(check_batcher(L, 1), &batch, &err) != FT_OK) return script_raise(L, &err);
    if (!batch) return 0;
    lua_createtable(L, 0, batch->n_columns + 5);
    for (int c = 0; c < batch->n_columns; c++) set_column(L, batch, &batch->columns[c]);
    set_number(L, "number", batch->number + 1);
    set_number(L, "bucket", batch->bucket + 1);
    set_number(L, "tokens", batch->tokens);
    set_index(L, batch);
    lua_createtable(L, 0, batch->n_columns);
    for (int c = 0; c < batch->n_columns; c++)
        set_number(L, batch->columns[c].name, batch->columns[c].counted);
    lua_setfield(L, -2, "counts");
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

/* -- opening ---------------------------------------------------------------------------------- */

static void add_classes(lua_State *L)
{
    static const luaL_Reg dataset[] = {
        {"free", dataset_free},       {"add", dataset_add},       {"size", dataset_size},
        {"longest", dataset_longest}, {"get", dataset_get},       {"ids", dataset_ids},
        {"pack", dataset_pack},       {"groups", dataset_groups}, {NULL, NULL}};
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
    script_class(L, DATASET, dataset, dataset_meta);
    script_class(L, BATCHER, batcher, batcher_meta);
    lua_pop(L, 2);
}

void script_add_batches(lua_State *L)
{
    static const luaL_Reg functions[] = {{"dataset", data_dataset},
                                         {"batcher", data_batcher},
                                         {"unpack", data_unpack},
                                         {NULL, NULL}};
    add_classes(L);
    luaL_register(L, NULL, functions);
}
