/* graph/parse.c - a graph from its text form.
 *
 * One line per thing, words parted by one space each, values by number in order of creation:
 *
 *   graph  = "ftpipe graph 1" { input | param | frozen | scope | node | back } { output } { grad }
 *   input  = "input" value name spec                  a tensor fed with each micro-batch
 *   param  = "param" value name spec                  a parameter
 *   frozen = "frozen" value name spec                 one that is not trained
 *   scope  = "scope" name                             of the nodes below
 *   node   = "node" value row ins attrs outs          the value is the first output
 *   back   = "back" value "of" value row ins attrs outs    the second is an output of its origin
 *   output = "output" value name
 *   grad   = "grad" value "of" value                  a term of the gradient of a parameter
 *   ins    = { value | "-" }                          "-" is an optional input that is absent
 *   attrs  = { attribute "=" number }                 left out: the row's preset
 *   outs   = ":" spec { "," spec }                    what the row's shape rule gives, for readers
 *   spec   = dtype "(" [ dim { "," dim } ] ")"        "f32 (8,128)"
 *   value  = "%" number
 *   name   = word | '"' { character | '\"' | '\\' | "\x" hex hex } '"'
 *
 * Whatever differs from what ft_graph_write would have written for a valid graph, apart from
 * presets and the digits of numbers, is refused with its line number. */
#include "graph/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORD = 1024 };

typedef struct parser {
    ft_graph *g;
    const char *at; /* in the present line */
    int line;
    char word[MAX_WORD]; /* the last one read */
    bool quoted;         /* whether it stood in quotes */
    ft_error *err;
} parser;

/* -- words ---------------------------------------------------------------------------------- */

static ft_status expected(const parser *p, const char *what)
{
    char rest[48];
    size_t n = strcspn(p->at, "\n");
    if (n >= sizeof rest) n = sizeof rest - 1;
    for (size_t i = 0; i < n; i++) rest[i] = (unsigned char)p->at[i] < ' ' ? '?' : p->at[i];
    rest[n] = 0;
    return ft_fail(p->err, FT_FORMAT, "expected %s before \"%s\"", what, rest);
}

static bool at_end(const parser *p)
{
    return *p->at == '\n' || !*p->at;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a quoted word at *at, behind which *at is put; negative when it is not one. */
static int quoted_byte(const char **at)
{
    const char *c = *at;
    if ((unsigned char)*c < ' ' || *c == '"') return -1;
    *at = c + 1;
    if (*c != '\\') return (unsigned char)*c;
    *at = c + 2;
    if (c[1] == '"' || c[1] == '\\') return c[1];
    if (c[1] != 'x' || hex_digit(c[2]) < 0 || hex_digit(c[3]) < 0) return -1;
    *at = c + 4;
    int byte = hex_digit(c[2]) * 16 + hex_digit(c[3]);
    return byte ? byte : -1;
}

static ft_status read_quoted(parser *p, const char *what)
{
    const char *at = p->at + 1;
    int n = 0;
    while (*at != '"') {
        int byte = quoted_byte(&at);
        if (byte < 0 || n == MAX_WORD - 1) return expected(p, what);
        p->word[n++] = (char)byte;
    }
    p->word[n] = 0;
    p->at = at + 1;
    p->quoted = true;
    return FT_OK;
}

/* The next word into p->word, and the space behind it. */
static ft_status read_word(parser *p, const char *what)
{
    if (*p->at == '"')
        FT_TRY(read_quoted(p, what));
    else {
        size_t n = 0;
        while ((unsigned char)p->at[n] > ' ' && p->at[n] != '"' && p->at[n] != '\\') n++;
        if (n == 0 || n >= MAX_WORD) return expected(p, what);
        memcpy(p->word, p->at, n);
        p->word[n] = 0;
        p->at += n;
        p->quoted = false;
    }
    if (at_end(p)) return FT_OK;
    if (*p->at != ' ' || p->at[1] == ' ' || p->at[1] == '\n' || !p->at[1])
        return expected(p, "one space or the end of the line");
    p->at++;
    return FT_OK;
}

/* Whether the next word is this one, which is then read. */
static bool take(parser *p, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0) return false;
    if (p->at[n] == ' ' && p->at[n + 1] != ' ' && p->at[n + 1] != '\n' && p->at[n + 1]) {
        p->at += n + 1;
        return true;
    }
    if (p->at[n] != '\n' && p->at[n]) return false;
    p->at += n;
    return true;
}

/* A whole number of digits at *at, behind which *at is put. */
static bool read_digits(const char **at, int64_t *out)
{
    const char *c = *at;
    int64_t value = 0;
    if (*c < '0' || *c > '9' || (*c == '0' && c[1] >= '0' && c[1] <= '9')) return false;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c - '0', &value))
            return false;
    *at = c;
    *out = value;
    return true;
}

/* A value that exists. */
static ft_status read_value(parser *p, ft_value_id *out)
{
    const char *start = p->at, *c = p->word + 1;
    int64_t number;
    FT_TRY(read_word(p, "a value such as %3"));
    if (p->quoted || *p->word != '%' || !read_digits(&c, &number) || *c) {
        p->at = start;
        return expected(p, "a value such as %3");
    }
    if (number >= p->g->n_values)
        return ft_fail(p->err, FT_FORMAT, "value %s is used before it is made", p->word);
    *out = (ft_value_id)number;
    return FT_OK;
}

/* The number of the value that this line makes. */
static ft_status read_new_value(parser *p)
{
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%%%d", p->g->n_values);
    if (take(p, wanted)) return FT_OK;
    char what[64];
    snprintf(what, sizeof what, "the next value, %s,", wanted);
    return expected(p, what);
}

static ft_status read_spec(parser *p, ft_spec *out)
{
    static const char what[] = "a dtype and a shape such as f32 (8,128)";
    const char *start = p->at, *c = p->word + 1;
    *out = (ft_spec){0};
    FT_TRY(read_word(p, what));
    bool good = !p->quoted && ft_dtype_find(p->word, &out->dtype) &&
                !strcmp(p->word, ft_dtype_name(out->dtype));
    if (good) FT_TRY(read_word(p, what));
    good = good && !p->quoted && *p->word == '(';
    while (good && *c != ')') {
        good =
            out->shape.n_dims < FT_MAX_DIMS && read_digits(&c, &out->shape.dims[out->shape.n_dims]);
        out->shape.n_dims++;
        if (good && *c == ',' && c[1] != ')')
            c++;
        else
            good = good && *c == ')';
    }
    if (good && !c[1]) return FT_OK;
    p->at = start;
    return expected(p, what);
}

/* -- lines ---------------------------------------------------------------------------------- */

static ft_status parse_source(parser *p, ft_value_kind kind, bool frozen)
{
    ft_spec spec;
    ft_value_id v;
    char name[MAX_WORD];
    int next = p->g->n_values;
    FT_TRY(read_new_value(p));
    FT_TRY(read_word(p, "a name"));
    memcpy(name, p->word, sizeof name);
    FT_TRY(read_spec(p, &spec));
    FT_TRY(kind == FT_VALUE_INPUT ? ft_graph_input(p->g, name, &spec, &v, p->err)
                                  : ft_graph_param(p->g, name, &spec, &v, p->err));
    if (v != next)
        return ft_fail(p->err, FT_FORMAT, "\"%.200s\" is there already, as %%%d", name, v);
    p->g->values[v].frozen = frozen;
    return FT_OK;
}

static ft_status parse_scope(parser *p)
{
    FT_TRY(read_word(p, "a scope"));
    return ft_graph_scope(p->g, p->word, p->err);
}

/* "name=number", which p->word holds; *given has bits of those that the line had already. */
static ft_status parse_attr(parser *p, ft_node *node, uint64_t *given)
{
    char *equals = strchr(p->word, '=');
    char *end;
    if (p->quoted || !equals || !strchr("-0123456789", equals[1]) || !equals[1])
        return ft_fail(p->err, FT_FORMAT, "\"%.100s\" is not an attribute such as p=0.1", p->word);
    double number = strtod(equals + 1, &end);
    if (*end || !isfinite(number))
        return ft_fail(p->err, FT_FORMAT, "\"%.100s\" is not a number", equals + 1);
    *equals = 0;
    for (int i = 0; i < ft_op_attr_count(node->op); i++)
        if (!strcmp(node->op->attrs[i].name, p->word)) {
            if (*given >> i & 1)
                return ft_fail(p->err, FT_FORMAT, "attribute \"%.100s\" is given twice", p->word);
            *given |= (uint64_t)1 << i;
            node->attrs[i] = number;
            return FT_OK;
        }
    return ft_fail(p->err, FT_FORMAT, "row %s has no attribute \"%.100s\"", node->op->name,
                   p->word);
}

/* Row, inputs and attributes, up to the colon. */
static ft_status parse_call(parser *p, ft_node *node)
{
    FT_TRY(read_word(p, "the name of a row"));
    node->op = p->quoted ? NULL : ft_op_find(p->word);
    if (!node->op)
        return ft_fail(p->err, FT_NOT_FOUND, "there is no row \"%.100s\" in the table", p->word);
    ft_graph_attrs(node->op, NULL, node->attrs);
    while (*p->at == '%' || *p->at == '-') {
        if (node->n_in == node->op->n_in)
            return ft_fail(p->err, FT_FORMAT, "more inputs than the %d of row %s", node->op->n_in,
                           node->op->name);
        ft_value_id *in = &node->in[node->n_in++];
        *in = FT_NO_VALUE;
        if (!take(p, "-")) FT_TRY(read_value(p, in));
    }
    uint64_t given = 0;
    while (*p->at != ':') {
        FT_TRY(read_word(p, "an attribute, or \":\" and the outputs"));
        FT_TRY(parse_attr(p, node, &given));
    }
    return FT_OK;
}

static ft_status parse_outputs(parser *p, const ft_node *node, ft_value_id first)
{
    for (int k = 0; k < node->op->n_out; k++) {
        ft_spec spec;
        const ft_spec *made = &p->g->values[first + k].spec;
        if (!take(p, k ? "," : ":")) return expected(p, k ? "\",\" and an output" : "the outputs");
        FT_TRY(read_spec(p, &spec));
        if (spec.dtype == made->dtype && ft_shape_equal(&spec.shape, &made->shape)) continue;
        char text[160];
        return ft_fail(p->err, FT_FORMAT, "output %d of row %s is %s %s, not what the line says", k,
                       node->op->name, ft_dtype_name(made->dtype),
                       ft_shape_format(&made->shape, text, sizeof text));
    }
    return FT_OK;
}

static ft_status parse_node(parser *p)
{
    ft_graph *g = p->g;
    ft_node node = {0};
    ft_value_id out;
    FT_TRY(read_new_value(p));
    FT_TRY(parse_call(p, &node));
    FT_TRY(ft_graph_add(g, node.op, node.in, node.n_in, node.attrs, &out, p->err));
    return parse_outputs(p, &node, out);
}

static ft_status parse_back(parser *p)
{
    ft_graph *g = p->g;
    ft_node node = {.scope = g->scope, .phase = FT_BACKWARD};
    ft_value_id origin, out;
    FT_TRY(read_new_value(p));
    if (!take(p, "of")) return expected(p, "\"of\" and a value of forward");
    FT_TRY(read_value(p, &origin));
    if (!ft_graph_made_in(g, origin, FT_FORWARD))
        return ft_fail(p->err, FT_FORMAT, "%%%d is not made by a forward node", origin);
    node.origin = node.key = g->values[origin].source;
    FT_TRY(parse_call(p, &node));
    ft_graph_end_forward(g);
    FT_TRY(ft_graph_append(g, &node, &out, p->err));
    return parse_outputs(p, &node, out);
}

static ft_status parse_output(parser *p)
{
    ft_value_id v;
    FT_TRY(read_value(p, &v));
    FT_TRY(read_word(p, "a name"));
    if (ft_graph_find(p->g, p->word) != FT_NO_VALUE)
        return ft_fail(p->err, FT_FORMAT, "there is a \"%.200s\" already", p->word);
    return ft_graph_output(p->g, p->word, v, p->err);
}

static ft_status parse_grad(parser *p)
{
    ft_graph *g = p->g;
    ft_value_id v, param;
    FT_TRY(read_value(p, &v));
    if (!take(p, "of")) return expected(p, "\"of\" and a parameter");
    FT_TRY(read_value(p, &param));
    if (g->values[param].kind != FT_VALUE_PARAM || !ft_graph_made_in(g, v, FT_BACKWARD))
        return ft_fail(p->err, FT_FORMAT, "%%%d of %%%d is not backward's output of a parameter", v,
                       param);
    if (g->values[param].frozen)
        return ft_fail(p->err, FT_FORMAT, "%%%d is frozen: it has no gradient", param);
    ft_grad_term term = {g->values[param].source, v, g->values[v].source};
    return ft_graph_append_grad(g, &term, p->err);
}

/* Lines come in sections, in the order of the grammar. */
static ft_status parse_line(parser *p, int *section)
{
    static const char *const words[] = {"input", "param", "frozen", "scope",
                                        "node",  "back",  "output", "grad"};
    static const int sections[] = {0, 0, 0, 0, 0, 0, 1, 2};
    enum { WORDS = sizeof words / sizeof *words };
    int i = 0;
    while (i < WORDS && !take(p, words[i])) i++;
    if (i == WORDS) return expected(p, "input, param, frozen, scope, node, back, output or grad");
    if (sections[i] < *section)
        return ft_fail(p->err, FT_FORMAT, "a line \"%s\" after outputs or gradients", words[i]);
    *section = sections[i];
    switch (i) {
    case 0: FT_TRY(parse_source(p, FT_VALUE_INPUT, false)); break;
    case 1: FT_TRY(parse_source(p, FT_VALUE_PARAM, false)); break;
    case 2: FT_TRY(parse_source(p, FT_VALUE_PARAM, true)); break;
    case 3: FT_TRY(parse_scope(p)); break;
    case 4: FT_TRY(parse_node(p)); break;
    case 5: FT_TRY(parse_back(p)); break;
    case 6: FT_TRY(parse_output(p)); break;
    default: FT_TRY(parse_grad(p)); break;
    }
    return at_end(p) ? FT_OK : expected(p, "the end of the line");
}

static ft_status parse_lines(parser *p)
{
    int section = 0;
    if (!take(p, "ftpipe graph 1")) return expected(p, "\"ftpipe graph 1\"");
    while (*p->at == '\n' && p->at[1]) {
        p->at++;
        p->line++;
        FT_TRY(parse_line(p, &section));
    }
    return FT_OK;
}

ft_status ft_graph_parse(ft_graph **out, const char *text, ft_error *err)
{
    *out = NULL;
    parser p = {.at = text, .line = 1, .err = err};
    FT_TRY(ft_graph_new(&p.g, err));
    ft_status status = parse_lines(&p);
    if (status != FT_OK)
        ft_error_wrap(err, "graph, line %d", p.line);
    else {
        status = ft_graph_verify(p.g, err);
        if (status != FT_OK) ft_error_wrap(err, "graph");
    }
    if (status == FT_OK)
        *out = p.g;
    else
        ft_graph_free(p.g);
    return status;
}
