/* bind_data/tokenizer.c - core.data: tokenizers of BERT and GPT-2, and what all kinds can do
 * besides encoding and decoding (data.c). */
#include <string.h>

#include "base/alloc.h"
#include "bind_data/internal.h"

static const char TOKENIZER[] = "ftpipe.tokenizer";
static const char STRINGS[] = "ftpipe.strings"; /* words of C on their way into Lua */
static const char PAIR[] = "ftpipe.pair";       /* ids and segments on theirs */

/* An option of table t that holds the bytes of a file, NULL when it is absent; they live as long as
 * the table holds them. */
static ft_slice opt_bytes(lua_State *L, int t, const char *key)
{
    size_t n = 0;
    if (!script_opt_string(L, t, key, NULL)) return (ft_slice){0};
    lua_getfield(L, t, key);
    const char *bytes = lua_tolstring(L, -1, &n);
    lua_pop(L, 1);
    return (ft_slice){bytes, (int64_t)n};
}

/* The same of the first table, where it has to be there. */
static ft_slice check_bytes(lua_State *L, const char *key)
{
    ft_slice bytes = opt_bytes(L, 1, key);
    if (!bytes.bytes) script_arg_error(L, 1, "option '%s' is missing", key);
    return bytes;
}

/* A string argument. */
static ft_slice check_slice(lua_State *L, int i)
{
    const char *text = script_check_string(L, i);
    return (ft_slice){text, (int64_t)lua_objlen(L, i)};
}

/* -- making ----------------------------------------------------------------------------------- */

static ft_basic_options check_basic(lua_State *L)
{
    bool lower = script_opt_bool(L, 1, "lower", true);
    return (ft_basic_options){.lower = lower,
                              .strip_accents = script_opt_bool(L, 1, "strip_accents", lower),
                              .split_han = script_opt_bool(L, 1, "split_han", true)};
}

/* A flag of the first table: 0 or 1, -1 when it is absent. */
static int said(lua_State *L, const char *key)
{
    bool preset_true = script_opt_bool(L, 1, key, true);
    return preset_true == script_opt_bool(L, 1, key, false) ? preset_true : -1;
}

/*** A WordPiece tokenizer, as BERT has it.
 * @function data.wordpiece
 * @tparam table options `vocab` (the bytes of vocab.txt); `name` of the file ("vocab.txt"); `lower`
 *   (true); `strip_accents` (as lower); `split_han` (true): each Chinese character is a word;
 *   `unknown` ("[UNK]"): the piece that unknown words become
 * @treturn tokenizer
 * @raise malformed data */
static int data_wordpiece(lua_State *L)
{
    static const char *const names[] = {"vocab",     "name",    "lower", "strip_accents",
                                        "split_han", "unknown", NULL};
    ft_error err;
    script_options(L, 1, names);
    ft_slice vocab = check_bytes(L, "vocab");
    const char *name = script_opt_string(L, 1, "name", "vocab.txt");
    ft_basic_options options = check_basic(L);
    void **box = script_box_new(L, TOKENIZER);
    if (ft_tokenizer_load_wordpiece((ft_tokenizer **)box, vocab.bytes, vocab.size, name, &options,
                                    script_opt_string(L, 1, "unknown", NULL), &err) != FT_OK)
        return script_raise(L, &err);
    return 1;
}

/*** A byte-level BPE tokenizer, as GPT-2 has it.
 * @function data.byte_bpe
 * @tparam table options `vocab` and `merges` (the bytes of vocab.json and merges.txt); `name` of
 *   their directory ("."); `prefix_space` (false): a space goes before text that begins with none
 * @treturn tokenizer
 * @raise malformed data */
static int data_byte_bpe(lua_State *L)
{
    static const char *const names[] = {"vocab", "merges", "name", "prefix_space", NULL};
    ft_error err;
    script_options(L, 1, names);
    ft_slice vocab = check_bytes(L, "vocab");
    ft_slice merges = check_bytes(L, "merges");
    const char *name = script_opt_string(L, 1, "name", ".");
    bool prefix_space = script_opt_bool(L, 1, "prefix_space", false);
    void **box = script_box_new(L, TOKENIZER);
    if (ft_tokenizer_load_byte_bpe((ft_tokenizer **)box, vocab, merges, prefix_space, name, &err) !=
        FT_OK)
        return script_raise(L, &err);
    return 1;
}

/*** A tokenizer whose ids are bytes, as ByT5 has it: byte + 3, behind <pad>, </s> and <unk>, which
 * take the blanks around them away.
 * @function data.bytes
 * @tparam table options `extra_ids` (125): sentinels behind the bytes
 * @treturn tokenizer
 * @raise invalid argument */
static int data_bytes(lua_State *L)
{
    static const char *const names[] = {"extra_ids", NULL};
    ft_error err;
    script_options(L, 1, names);
    int extra_ids = (int)script_opt_int(L, 1, "extra_ids", 125, 0, INT32_MAX);
    void **box = script_box_new(L, TOKENIZER);
    if (ft_tokenizer_load_bytes((ft_tokenizer **)box, extra_ids, &err) != FT_OK)
        return script_raise(L, &err);
    return 1;
}

/*** A unigram, WordPiece or byte-level BPE tokenizer, from tokenizer.json.
 * @function data.tokenizer_json
 * @tparam table options `bytes` of the file; its `name` ("tokenizer.json"); `lower`,
 *   `strip_accents` and `split_han` of WordPiece and `prefix_space` of BPE, each as the file has it
 *   where it is absent
 * @treturn tokenizer
 * @raise malformed data; unsupported: a part that is not executed */
static int data_tokenizer_json(lua_State *L)
{
    static const char *const names[] = {"bytes",     "name",         "lower", "strip_accents",
                                        "split_han", "prefix_space", NULL};
    ft_error err;
    script_options(L, 1, names);
    ft_slice bytes = check_bytes(L, "bytes");
    const char *name = script_opt_string(L, 1, "name", "tokenizer.json");
    ft_json_settings settings = {.lower = said(L, "lower"),
                                 .strip_accents = said(L, "strip_accents"),
                                 .split_han = said(L, "split_han"),
                                 .prefix_space = said(L, "prefix_space")};
    void **box = script_box_new(L, TOKENIZER);
    if (ft_tokenizer_load_json((ft_tokenizer **)box, bytes.bytes, bytes.size, &settings, name,
                               &err) != FT_OK)
        return script_raise(L, &err);
    return 1;
}

/*** Adds the tokens of files beside the vocabulary, before the tokenizer is used.
 * @function tokenizer:add_files
 * @tparam table options `settings`, `added` and `map` (the bytes of tokenizer_config.json,
 *   added_tokens.json and special_tokens_map.json, each optional); `name` of their directory (".")
 * @treturn tokenizer itself
 * @raise malformed data */
static int tokenizer_add_files(lua_State *L)
{
    static const char *const names[] = {"settings", "added", "map", "name", NULL};
    ft_error err;
    ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    script_options(L, 2, names);
    ft_token_files files = {.settings = opt_bytes(L, 2, "settings"),
                            .added = opt_bytes(L, 2, "added"),
                            .map = opt_bytes(L, 2, "map")};
    const char *name = script_opt_string(L, 2, "name", ".");
    if (ft_tokenizer_add_files(tokenizer, &files, name, &err) != FT_OK)
        return script_raise(L, &err);
    lua_settop(L, 1);
    return 1;
}

/*** Makes ids up to n - 1 known that the vocabulary lacks, before the tokenizer is used: rows that
 * a model has besides. Decoded, they are no text.
 * @function tokenizer:reserve
 * @tparam integer n
 * @treturn tokenizer itself */
static int tokenizer_reserve(lua_State *L)
{
    ft_tokenizer_reserve(script_check_tokenizer(L, 1), (int)script_check_int(L, 2, 0, INT32_MAX));
    lua_settop(L, 1);
    return 1;
}

/* -- asking ----------------------------------------------------------------------------------- */

/*** The kind: "unigram", "wordpiece", "byte_bpe" or "bytes".
 * @function tokenizer:kind
 * @treturn string */
static int tokenizer_kind(lua_State *L)
{
    lua_pushstring(L, ft_tokenizer_kind(script_check_tokenizer(L, 1)));
    return 1;
}

/*** The id of a special token by what it is for.
 * @function tokenizer:special
 * @tparam string name pad, unk, bos, eos, cls, sep or mask
 * @treturn integer nil when the vocabulary has none */
static int tokenizer_special(lua_State *L)
{
    int32_t id = ft_tokenizer_special(script_check_tokenizer(L, 1), script_check_string(L, 2));
    if (id == FT_NO_ID) return 0;
    lua_pushinteger(L, id);
    return 1;
}

/* Two blocks that are freed together. */
typedef struct script_pair {
    int32_t *ids, *segments;
} script_pair;

static int pair_free(lua_State *L)
{
    script_pair *pair = lua_touserdata(L, 1);
    ft_free(pair->ids);
    ft_free(pair->segments);
    *pair = (script_pair){0};
    return 0;
}

/* Pushes an empty pair. */
static script_pair *new_pair(lua_State *L)
{
    script_pair *pair = lua_newuserdata(L, sizeof *pair);
    *pair = (script_pair){0};
    luaL_getmetatable(L, PAIR);
    lua_setmetatable(L, -2);
    return pair;
}

/*** Ids of one or two texts with what models put around them: BERT [CLS] a [SEP] b [SEP],
 * T5 a </s> b </s>, GPT-2 a b.
 * @function tokenizer:encode_pair
 * @tparam string a
 * @tparam[opt] string b
 * @treturn {integer,...} ids
 * @treturn {integer,...} the segment of each: with BERT 0 up to the first [SEP], then 1; else 0
 * @raise malformed data: not UTF-8; not found: the vocabulary lacks such a token */
static int tokenizer_encode_pair(lua_State *L)
{
    ft_error err;
    const ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    ft_slice a = check_slice(L, 2), b = {0};
    bool pair_of_two = !lua_isnoneornil(L, 3);
    if (pair_of_two) b = check_slice(L, 3);
    int64_t n = 0;
    script_pair *pair = new_pair(L);
    if (ft_tokenizer_encode_pair(tokenizer, a, pair_of_two ? &b : NULL, &pair->ids, &pair->segments,
                                 &n, &err) != FT_OK)
        return script_raise(L, &err);
    script_push_ids(L, pair->ids, n);
    script_push_ids(L, pair->segments, n);
    return 2;
}

/*** The pieces of a text, as the vocabulary writes them ("##ing").
 * @function tokenizer:pieces
 * @tparam string text
 * @treturn {string,...}
 * @raise malformed data: the text is not UTF-8 */
static int tokenizer_pieces(lua_State *L)
{
    ft_error err;
    const ft_tokenizer *tokenizer = script_check_tokenizer(L, 1);
    const char *text = script_check_string(L, 2);
    int64_t n = 0;
    script_pair *pair = new_pair(L);
    if (ft_tokenizer_encode(tokenizer, text, (int64_t)lua_objlen(L, 2), &pair->ids, &n, &err) !=
        FT_OK)
        return script_raise(L, &err);
    lua_createtable(L, (int)n, 0);
    for (int64_t i = 0; i < n; i++) {
        lua_pushstring(L, ft_tokenizer_piece(tokenizer, pair->ids[i]));
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

static int strings_free(lua_State *L)
{
    ft_strings_fini(lua_touserdata(L, 1));
    return 0;
}

static int push_words(lua_State *L, const char *text, int64_t size, const ft_basic_options *options)
{
    ft_error err;
    ft_strings *words = lua_newuserdata(L, sizeof *words);
    *words = (ft_strings){0};
    luaL_getmetatable(L, STRINGS);
    lua_setmetatable(L, -2);
    if (ft_basic_split(text, size, options, words, &err) != FT_OK) return script_raise(L, &err);
    lua_createtable(L, (int)words->n, 0);
    for (int64_t i = 0, from = 0; i < words->n; from = words->ends[i++]) {
        lua_pushlstring(L, words->bytes + from, (size_t)(words->ends[i] - from));
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

/*** The words into which BERT cuts a text before it looks for pieces.
 * @function tokenizer:basic
 * @tparam string text
 * @tparam[opt] boolean lower in lower case and without accents; as the tokenizer does it
 * @treturn {string,...}
 * @raise malformed data: the text is not UTF-8 */
static int tokenizer_basic(lua_State *L)
{
    const ft_basic_options *own = ft_tokenizer_basic(script_check_tokenizer(L, 1));
    ft_basic_options options = {true, true, true};
    const char *text = script_check_string(L, 2);
    if (own) options = *own;
    if (!lua_isnoneornil(L, 3)) options.lower = options.strip_accents = lua_toboolean(L, 3);
    return push_words(L, text, (int64_t)lua_objlen(L, 2), &options);
}

void script_add_tokenizers(lua_State *L)
{
    static const luaL_Reg functions[] = {{"wordpiece", data_wordpiece},
                                         {"byte_bpe", data_byte_bpe},
                                         {"bytes", data_bytes},
                                         {"tokenizer_json", data_tokenizer_json},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"kind", tokenizer_kind},
                                       {"special", tokenizer_special},
                                       {"add_files", tokenizer_add_files},
                                       {"encode_pair", tokenizer_encode_pair},
                                       {"reserve", tokenizer_reserve},
                                       {"pieces", tokenizer_pieces},
                                       {"basic", tokenizer_basic},
                                       {"answer", script_answer_spans},
                                       {NULL, NULL}};
    static const luaL_Reg pair_meta[] = {{"__gc", pair_free}, {NULL, NULL}};
    static const luaL_Reg strings_meta[] = {{"__gc", strings_free}, {NULL, NULL}};
    script_class(L, PAIR, NULL, pair_meta);
    script_class(L, STRINGS, NULL, strings_meta);
    luaL_getmetatable(L, TOKENIZER);
    lua_getfield(L, -1, "__index");
    luaL_register(L, NULL, methods);
    lua_pop(L, 4);
    luaL_register(L, NULL, functions);
}
