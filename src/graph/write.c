/* graph/write.c - a graph as text; the grammar is in parse.c. */
#include "graph/internal.h"

#include <stdlib.h>
#include <string.h>

/* A word as it is, or quoted when it is empty or holds what would end or start a word. */
static void write_word(ft_text *text, const char *word)
{
    bool plain = *word;
    for (const char *c = word; *c; c++)
        plain = plain && (unsigned char)*c > ' ' && *c != 127 && *c != '"' && *c != '\\';
    if (plain) {
        ft_text_add(text, " %s", word);
        return;
    }
    ft_text_add(text, " \"");
    for (const char *c = word; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            ft_text_add(text, "\\%c", byte);
        else
            ft_text_add(text, byte < ' ' || byte == 127 ? "\\x%02x" : "%c", byte);
    }
    ft_text_add(text, "\"");
}

static void write_spec(ft_text *text, const ft_spec *spec)
{
    ft_text_add(text, " %s (", ft_dtype_name(spec->dtype));
    for (int i = 0; i < spec->shape.n_dims; i++)
        ft_text_add(text, "%s%lld", i ? "," : "", (long long)spec->shape.dims[i]);
    ft_text_add(text, ")");
}

static void write_source(const ft_graph *g, ft_value_id v, ft_text *text)
{
    const ft_value *value = &g->values[v];
    const char *word = value->frozen ? "frozen" : "param";
    ft_text_add(text, "%s %%%d", value->kind == FT_VALUE_INPUT ? "input" : word, v);
    write_word(text, value->name);
    write_spec(text, &value->spec);
    ft_text_add(text, "\n");
}

/* Fifteen digits when they are enough to read the number back, else the seventeen that always are.
 */
static void write_number(ft_text *text, double number)
{
    int64_t start = text->length;
    ft_text_add(text, "%.15g", number);
    if (text->failed || strtod(text->data + start, NULL) == number) return;
    text->length = start;
    ft_text_add(text, "%.17g", number);
}

static void write_node(const ft_graph *g, const ft_node *node, ft_text *text)
{
    if (node->phase == FT_FORWARD)
        ft_text_add(text, "node %%%d %s", node->out, node->op->name);
    else
        ft_text_add(text, "back %%%d of %%%d %s", node->out, g->nodes[node->origin].out,
                    node->op->name);
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] == FT_NO_VALUE)
            ft_text_add(text, " -");
        else
            ft_text_add(text, " %%%d", node->in[i]);
    for (int i = 0; i < ft_op_attr_count(node->op); i++) {
        ft_text_add(text, " %s=", node->op->attrs[i].name);
        write_number(text, node->attrs[i]);
    }
    for (int k = 0; k < node->op->n_out; k++) {
        ft_text_add(text, k ? " ," : " :");
        write_spec(text, &g->values[node->out + k].spec);
    }
    ft_text_add(text, "\n");
}

ft_status ft_graph_write(const ft_graph *g, ft_text *text, ft_error *err)
{
    const char *scope = "";
    ft_text_add(text, "ftpipe graph 1\n");
    for (int v = 0; v < g->n_values; v++) {
        const ft_value *value = &g->values[v];
        if (value->kind != FT_VALUE_NODE) {
            write_source(g, v, text);
            continue;
        }
        if (value->output) continue;
        const ft_node *node = &g->nodes[value->source];
        if (strcmp(node->scope, scope) != 0) {
            scope = node->scope;
            ft_text_add(text, "scope");
            write_word(text, scope);
            ft_text_add(text, "\n");
        }
        write_node(g, node, text);
    }
    for (int i = 0; i < g->n_outputs; i++) {
        ft_text_add(text, "output %%%d", g->outputs[i].value);
        write_word(text, g->outputs[i].name);
        ft_text_add(text, "\n");
    }
    for (int i = 0; i < g->n_grads; i++)
        ft_text_add(text, "grad %%%d of %%%d\n", g->grads[i].value, g->params[g->grads[i].param]);
    return text->failed ? ft_fail(err, FT_NOMEM, "no memory for a graph as text") : FT_OK;
}
