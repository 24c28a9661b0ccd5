/* bind_values/json_text.h - JSON to text. */
#ifndef FT_BIND_VALUES_JSON_TEXT_H
#define FT_BIND_VALUES_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"

/* Appends the value; text->failed when memory ran out. indent 0 gives one line. */
void script_json_write(ft_text *text, const json_t *value, int indent, bool sort);

#endif
