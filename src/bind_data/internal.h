/* bind_data/internal.h - what the files of this room share. */
#ifndef FT_BIND_DATA_INTERNAL_H
#define FT_BIND_DATA_INTERNAL_H

#include "data/data.h"
#include "tokens/tokens.h"
#include "bind_data/bind_data.h"
#include "bind_values/bind_values.h"

/* Pushes a box for a block of ft_alloc on its way into Lua; it frees what it still holds. */
void **script_block_box(lua_State *L);

/* The tokenizer in the box at index i. */
ft_tokenizer *script_check_tokenizer(lua_State *L, int i);
/* Pushes a list of ids. */
void script_push_ids(lua_State *L, const int32_t *ids, int64_t n);

/* Pushes ids as a vector (ids.c), copied. */
void script_push_vector(lua_State *L, const int32_t *ids, int64_t n);
/* Whether the value at index i is such a vector; its ids are borrowed while it is there. */
bool script_test_vector(lua_State *L, int i, ft_id_run *run);
/* Whether a number is a token id, or a label that does not count. */
bool script_is_id(double id);
/* Adds vectors of ids to core.data, the table at the top. */
void script_add_ids(lua_State *L);

/* Adds datasets and batchers to core.data, the table at the top. */
void script_add_batches(lua_State *L);

/* Adds spans of questions to core.data, the table at the top. */
void script_add_spans(lua_State *L);
/* tokenizer:answer. */
int script_answer_spans(lua_State *L);

/* Adds the other kinds of tokenizers to core.data, the table at the top, and methods to their
 * class, which is there. */
void script_add_tokenizers(lua_State *L);

#endif
