/* bind_values/internal.h - what the files of this room share. */
#ifndef FT_BIND_VALUES_INTERNAL_H
#define FT_BIND_VALUES_INTERNAL_H

#include "bind_values/bind_values.h"
#include "bind_values/card.h"
#include "ops/ops.h"

/* The row of that name; the attributes of the table at i, presets for the others; how many inputs
 * the list at i has, as many as the row takes. */
const ft_op *script_check_op(lua_State *L, int i);
void script_read_attrs(lua_State *L, int i, const ft_op *op, double *attrs);
int script_count_inputs(lua_State *L, int i, const ft_op *op);

card *script_check_card(lua_State *L, int i);
/* Adds functions of tensors on devices, their methods and metatable to the table at the top. */
void script_card_tensor_class(lua_State *L);

#endif
