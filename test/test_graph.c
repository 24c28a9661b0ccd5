/* test/test_graph.c - building, verifying, text. */
#include "graph_case.h"

#include <time.h>

#include "graph/internal.h"

/* -- building ------------------------------------------------------------------------------- */

static void test_building(void)
{
    ft_graph *g;
    ft_value_id x, w, again, y;
    ft_spec vector = {FT_F32, ft_shape_of(4, 3)}, matrix = {FT_F32, ft_shape_of(5, 3)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &vector, &x, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &matrix, &w, NULL), FT_OK);
    CHECK_STATUS(ft_graph_scope(g, "encoder", NULL), FT_OK);
    CHECK_STATUS(ft_graph_add(g, ft_op_find("linear"), (ft_value_id[]){x, w, FT_NO_VALUE}, 3, NULL,
                              &y, NULL),
                 FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &matrix, &again, NULL), FT_OK);
    CHECK_STATUS(ft_graph_output(g, "y", y, NULL), FT_OK);
    CHECK_STATUS(ft_graph_output(g, "y", y, NULL), FT_OK);
    CHECK_STATUS(ft_graph_output(g, "y", w, NULL), FT_INVALID);
    CHECK(again == w && ft_graph_n_params(g) == 1 && ft_graph_n_inputs(g) == 1);
    CHECK(ft_graph_n_values(g) == 3 && ft_graph_n_nodes(g) == 1 && ft_graph_n_forward(g) == 1);
    CHECK(ft_graph_n_outputs(g) == 1 && ft_graph_output_value(g, 0, NULL) == y);
    CHECK(ft_graph_param_value(g, 0) == w && ft_graph_input_value(g, 0) == x);
    CHECK(ft_graph_find(g, "w") == w && ft_graph_find(g, "y") == y);
    CHECK(ft_graph_find(g, "z") == FT_NO_VALUE);
    const ft_node *node = ft_graph_node(g, 0);
    CHECK(node->out == y && node->in[2] == FT_NO_VALUE && !strcmp(node->scope, "encoder"));
    CHECK(node->origin == 0 && node->key == 0 && node->phase == FT_FORWARD);
    const ft_value *value = ft_graph_value(g, y);
    CHECK(value->kind == FT_VALUE_NODE && value->source == 0 && !value->name);
    CHECK(value->spec.shape.dims[0] == 4 && value->spec.shape.dims[1] == 5);
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
    ft_graph_free(g);
    ft_graph_free(NULL);
}

static void check_says(const ft_error *err, const char *says)
{
    if (!CHECK(strstr(err->message, says))) fprintf(stderr, "  %s\n", err->message);
}

static void test_refused_names(void)
{
    ft_graph *g;
    ft_error err = {0};
    ft_value_id v;
    ft_spec a = {FT_F32, ft_shape_of(4)}, b = {FT_F32, ft_shape_of(5)},
            bad = {FT_F32, ft_shape_of(-1)};
    char long_name[2000];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &a, &v, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &b, &v, &err), FT_INVALID);
    check_says(&err,
               "\"w\" cannot be a parameter of f32 (5): it is a parameter of f32 (4) already");
    CHECK(v == FT_NO_VALUE);
    CHECK_STATUS(ft_graph_input(g, "w", &a, &v, &err), FT_INVALID);
    CHECK_STATUS(ft_graph_param(g, "bad", &bad, &v, &err), FT_SHAPE);
    check_says(&err, "a parameter \"bad\": shape (-1)");
    CHECK_STATUS(ft_graph_output(g, "w", 0, &err), FT_INVALID);
    check_says(&err, "the name is that of %0 already");
    CHECK_STATUS(ft_graph_output(g, "y", 1, &err), FT_INVALID);
    CHECK_STATUS(ft_graph_param(g, long_name, &a, &v, &err), FT_INVALID);
    check_says(&err, "longer than");
    CHECK_STATUS(ft_graph_scope(g, long_name, &err), FT_INVALID);
    CHECK_STATUS(ft_graph_output(g, long_name, 0, &err), FT_INVALID);
    CHECK(ft_graph_n_values(g) == 1 && ft_graph_n_outputs(g) == 0);
    ft_graph_free(g);
}

static void test_refused_nodes(void)
{
    ft_graph *g;
    ft_error err = {0};
    ft_value_id x, w, v;
    ft_spec a = {FT_F32, ft_shape_of(4, 3)}, b = {FT_F32, ft_shape_of(5, 2)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "x", &a, &x, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &b, &w, NULL), FT_OK);
    CHECK_STATUS(ft_graph_scope(g, "encoder/block.0", NULL), FT_OK);
    const ft_op *linear = ft_op_find("linear");
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){x, w}, 2, NULL, &v, &err), FT_SHAPE);
    check_says(&err, "node %2 (linear) in encoder/block.0: ");
    CHECK(v == FT_NO_VALUE);
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){x}, 1, NULL, &v, &err), FT_SHAPE);
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){x, 7}, 2, NULL, &v, &err), FT_INVALID);
    check_says(&err, "input 1 is value %7");
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){x, 2}, 2, NULL, &v, &err), FT_INVALID);
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){x, x, x, x}, 4, NULL, &v, &err),
                 FT_INVALID);
    CHECK_STATUS(ft_graph_add(g, NULL, &x, 1, NULL, &v, &err), FT_INVALID);
    CHECK_STATUS(ft_graph_add(g, linear, &x, 99, NULL, &v, &err), FT_INVALID);
    double attrs[FT_MAX_ATTRS] = {7};
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){x, x}, 2, attrs, &v, &err), FT_INVALID);
    CHECK(ft_graph_n_nodes(g) == 0 && ft_graph_n_values(g) == 2);
    ft_graph_free(g);
}

static double attr_of(const ft_graph *g, int node, const char *name)
{
    const ft_node *n = ft_graph_node(g, node);
    for (int i = 0; i < ft_op_attr_count(n->op); i++)
        if (strcmp(n->op->attrs[i].name, name) == 0) return n->attrs[i];
    return -1;
}

/* What attention rounds to: bf16 is 1, f16 is 2, tf32 is 3. */
static void test_products_in_bf16(void)
{
    ft_graph *g;
    ft_value_id x, w, y, q;
    ft_spec spec = {FT_F32, ft_shape_of(4, 4)}, packed = {FT_F32, ft_shape_of(1, 4, 12)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &x, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "q", &packed, &q, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &spec, &w, NULL), FT_OK);
    y = case_node(g, ft_op_find("linear"), x, w);
    case_node(g, ft_op_find("tanh"), y, FT_NO_VALUE);
    case_node(g, ft_op_find("attention"), q, FT_NO_VALUE);
    ft_graph_tf32(g);
    CHECK(attr_of(g, 0, "tf32") == 1 && attr_of(g, 2, "rounding") == 3);
    if (ft_cpu_bf16()) {
        CHECK_STATUS(ft_graph_bf16(g, NULL), FT_OK);
        CHECK(attr_of(g, 0, "bf16") == 1 && attr_of(g, 2, "rounding") == 3);
    }
    ft_graph_free(g);
}

static ft_dtype dtype_of(const ft_graph *g, ft_value_id v)
{
    return ft_graph_value(g, v)->spec.dtype;
}

/* In 16 bits is what nodes give, where who makes it and all who read it can have it so: not what
 * the weight of a norm is made of, nor statistics, scalars, outputs and gradients of parameters. */
static void test_store(ft_dtype kept, const char *attr)
{
    ft_graph *g;
    ft_value_id x, w, n;
    ft_spec spec = {FT_F32, ft_shape_of(4, 4)}, row = {FT_F32, ft_shape_of(4)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &x, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &spec, &w, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "n", &row, &n, NULL), FT_OK);
    ft_value_id y = case_node(g, ft_op_find("linear"), x, w);
    ft_value_id slow = case_node(g, ft_op_find("tanh"), n, FT_NO_VALUE);
    ft_value_id normed = case_node(g, ft_op_find("rms_norm"), y, slow);
    ft_value_id z = case_node(g, ft_op_find("linear"), normed, w);
    ft_value_id loss = case_node(g, ft_op_find("sum"), z, FT_NO_VALUE);
    CHECK_STATUS(ft_graph_output(g, "loss", loss, NULL), FT_OK);
    CHECK_STATUS(ft_graph_output(g, "z", z, NULL), FT_OK);
    CHECK_STATUS(ft_graph_grad(g, loss, NULL), FT_OK);
    CHECK_STATUS(ft_graph_store(g, kept, NULL), FT_OK);
    CHECK(dtype_of(g, y) == kept && dtype_of(g, normed) == kept);
    CHECK(dtype_of(g, slow) == FT_F32 && dtype_of(g, normed + 1) == FT_F32);
    CHECK(dtype_of(g, z) == FT_F32 && dtype_of(g, loss) == FT_F32);
    for (int i = 0; i < ft_graph_n_grads(g); i++)
        CHECK(dtype_of(g, ft_graph_grad_term(g, i)->value) == FT_F32);
    CHECK(attr_of(g, 0, attr) == 1);
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
    g->values[slow].spec.dtype = kept; /* which a norm cannot read */
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_SHAPE);
    ft_graph_free(g);
}

static void test_stores(void)
{
    test_store(FT_BF16, "bf16");
    test_store(FT_F16, "f16");
}

static int64_t pitch_of(const ft_graph *g, ft_value_id v)
{
    return ft_graph_value(g, v)->spec.pitch;
}

/* Rows of logits and of their gradient are apart, where products and losses alone have to do with
 * them, and where they do not begin at 16 bytes anyway. */
static void test_align(int64_t classes, ft_dtype kept, int64_t pitch)
{
    ft_graph *g;
    ft_value_id x, w, labels, weight, loss;
    ft_spec spec = {FT_F32, ft_shape_of(3, 4)}, table = {FT_F32, ft_shape_of(classes, 4)};
    ft_spec ids = {FT_I32, ft_shape_of(3)}, one = {FT_F32, ft_shape_of(1)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &x, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "labels", &ids, &labels, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "weight", &one, &weight, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &table, &w, NULL), FT_OK);
    ft_value_id logits = case_node(g, ft_op_find("linear"), x, w);
    ft_value_id other = case_node(g, ft_op_find("linear"), x, w);
    case_node(g, ft_op_find("tanh"), other, FT_NO_VALUE);
    CHECK_STATUS(ft_graph_add(g, ft_op_find("cross_entropy"),
                              (ft_value_id[]){logits, labels, weight}, 3, NULL, &loss, NULL),
                 FT_OK);
    CHECK_STATUS(ft_graph_output(g, "loss", loss, NULL), FT_OK);
    CHECK_STATUS(ft_graph_grad(g, loss, NULL), FT_OK);
    if (kept != FT_F32) CHECK_STATUS(ft_graph_store(g, kept, NULL), FT_OK);
    CHECK_STATUS(ft_graph_align(g, NULL), FT_OK);
    int apart = 0;
    for (int v = 0; v < ft_graph_n_values(g); v++) apart += pitch_of(g, v) != 0;
    CHECK(pitch_of(g, logits) == pitch && pitch_of(g, other) == 0);
    CHECK(apart == (pitch ? 2 : 0)); /* and the logits' gradient */
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
    g->values[x].spec.pitch = 8; /* whose rows nobody reads so but products of gradients */
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_SHAPE);
    ft_graph_free(g);
}

static void test_aligns(void)
{
    test_align(5, FT_BF16, 8);
    test_align(5, FT_F32, 8);
    test_align(9, FT_F16, 16);
    test_align(9, FT_F32, 12);
    test_align(8, FT_BF16, 0);
    test_align(4, FT_F32, 0);
}

/* -- verifying ------------------------------------------------------------------------------ */

static void break_graph(ft_graph *g, int way)
{
    ft_node *last = &g->nodes[g->n_nodes - 1], *first = &g->nodes[0];
    switch (way) {
    case 0: first->in[0] = first->out; break;
    case 1: first->in[0] = -7; break;
    case 2: first->in[FT_MAX_IN - 1] = 0; break;
    case 3: first->n_in = FT_MAX_IN + 1; break;
    case 4: first->phase = FT_BACKWARD; break;
    case 5: first->key++; break;
    case 6: last->key++; break;
    case 7: last->origin = g->n_nodes - 1; break;
    case 8: last->origin = -1; break;
    case 9: g->values[first->out].spec.dtype = FT_I32; break;
    case 10: g->values[first->out].source++; break;
    case 11: first->out = g->n_values; break;
    case 12: g->values[0].name = "other"; break;
    case 13: g->params[0] = 0; break;
    case 14: g->values[1].spec.shape.n_dims = -1; break;
    case 15: g->outputs[0].value = 0; break;
    case 16: g->grads[0].value = 0; break;
    case 17: g->grads[0].node--; break;
    case 18: g->grads[0].param = 99; break;
    case 19: g->grads[1] = g->grads[0]; break;
    case 20: g->n_forward--; break;
    default: g->nodes[g->n_forward - 1].in[0] = last->out; break;
    }
}

enum { WAYS_TO_BREAK = 22 };

static void test_verify_sees_what_is_broken(void)
{
    for (int way = 0; way < WAYS_TO_BREAK; way++) {
        ft_rng rng;
        ft_error err = {0};
        ft_rng_init(&rng, 5, 0);
        ft_graph *g = case_random(&rng, &(case_plan){10, 2, true});
        CHECK_STATUS(ft_graph_grad(g, ft_graph_find(g, "loss"), NULL), FT_OK);
        CHECK_STATUS(ft_graph_verify(g, &err), FT_OK);
        break_graph(g, way);
        if (!CHECK(ft_graph_verify(g, &err) != FT_OK && *err.message))
            fprintf(stderr, "  way %d\n", way);
        ft_graph_free(g);
    }
}

/* -- text ----------------------------------------------------------------------------------- */

static char *text_of(const ft_graph *g, ft_text *text)
{
    *text = (ft_text){0};
    CHECK_STATUS(ft_graph_write(g, text, NULL), FT_OK);
    return text->data;
}

static void check_round_trip(const ft_graph *g)
{
    ft_text first, second;
    ft_graph *parsed = NULL;
    ft_error err = {0};
    text_of(g, &first);
    if (!CHECK(ft_graph_parse(&parsed, first.data, &err) == FT_OK))
        fprintf(stderr, "  %s\n", err.message);
    else {
        text_of(parsed, &second);
        CHECK(!strcmp(first.data, second.data));
        CHECK(ft_graph_n_forward(g) == ft_graph_n_forward(parsed));
        for (int n = 0; n < ft_graph_n_nodes(g); n++) {
            const ft_node *a = ft_graph_node(g, n), *b = ft_graph_node(parsed, n);
            case_need(a->op == b->op && a->origin == b->origin && a->key == b->key, "same node");
            case_need(!memcmp(a->attrs, b->attrs, sizeof a->attrs), "same attributes");
            case_need(!memcmp(a->in, b->in, sizeof a->in), "same inputs");
            case_need(!strcmp(a->scope, b->scope), "same scope");
        }
        for (int t = 0; t < ft_graph_n_grads(g); t++)
            case_need(!memcmp(ft_graph_grad_term(g, t), ft_graph_grad_term(parsed, t),
                              sizeof(ft_grad_term)),
                      "same term");
        ft_text_fini(&second);
    }
    ft_graph_free(parsed);
    ft_text_fini(&first);
}

static void test_round_trip(void)
{
    ft_rng rng;
    ft_rng_init(&rng, 3, 0);
    for (int i = 0; i < 40; i++) {
        ft_graph *g = case_random(&rng, &(case_plan){1 + i, 1 + i % 3, true});
        check_round_trip(g);
        CHECK_STATUS(ft_graph_grad(g, ft_graph_find(g, "loss"), NULL), FT_OK);
        check_round_trip(g);
        ft_graph_free(g);
    }
}

static void test_odd_names_and_numbers(void)
{
    static const char *const names[] = {"",     "a b", "quote\"d", "back\\slash", "tab\tnew\nline",
                                        "\x7f", "é/ß", "%3",       "-",           "x=1"};
    static const double numbers[] = {0.1, 1.0 / 3, 0.0, 0.65656565656565657, 1e-300};
    ft_graph *g;
    ft_value_id v;
    ft_spec spec = {FT_F32, ft_shape_of(2, 0, 7)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_STATUS(ft_graph_scope(g, names[i], NULL), FT_OK);
        CHECK_STATUS(ft_graph_param(g, names[i], &spec, &v, NULL), FT_OK);
        double attrs[FT_MAX_ATTRS] = {numbers[i % 5]};
        CHECK_STATUS(ft_graph_add(g, ft_op_find("dropout"), &v, 1, attrs, &v, NULL), FT_OK);
        char output[64];
        snprintf(output, sizeof output, "out %s", names[i]);
        CHECK_STATUS(ft_graph_output(g, output, v, NULL), FT_OK);
    }
    check_round_trip(g);
    ft_graph_free(g);
}

static const char good_text[] = "ftpipe graph 1\n"
                                "input %0 x f32 (4,3)\n"
                                "param %1 w f32 (5,3)\n"
                                "scope encoder/block.0\n"
                                "node %2 linear %0 %1 - activation=1 : f32 (4,5)\n"
                                "node %3 tanh %2 : f32 (4,5)\n"
                                "node %4 mean %3 : f32 ()\n"
                                "output %4 loss\n";

static void test_good_text(void)
{
    ft_graph *g = NULL;
    ft_error err = {0};
    if (!CHECK(ft_graph_parse(&g, good_text, &err) == FT_OK))
        fprintf(stderr, "  %s\n", err.message);
    if (g) {
        CHECK(ft_graph_n_nodes(g) == 3 && ft_graph_node(g, 0)->attrs[0] == 1);
        CHECK(ft_graph_find(g, "loss") == 4);
        CHECK_STATUS(ft_graph_grad(g, 4, NULL), FT_OK);
        check_round_trip(g);
    }
    ft_graph_free(g);
}

/* Puts `with` where `from` stands in the good text, and looks at what the parser says. */
static void check_bad(const char *from, const char *with, const char *says)
{
    char text[1024];
    const char *at = strstr(good_text, from);
    if (!CHECK(at != NULL)) return;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good_text), good_text, with,
             at + strlen(from));
    ft_graph *g = NULL;
    ft_error err = {0};
    CHECK(ft_graph_parse(&g, text, &err) != FT_OK);
    CHECK(!g);
    check_says(&err, says);
    ft_graph_free(g);
}

static void test_bad_text(void)
{
    check_bad("graph 1", "graph 2", "line 1: expected \"ftpipe graph 1\"");
    check_bad("input", "inptu", "line 2: expected input, param");
    check_bad("input %0", "input %1", "line 2: expected the next value, %0, before \"%1 x f32");
    check_bad("f32 (4,3)", "f99 (4,3)", "line 2: expected a dtype and a shape");
    check_bad("f32 (4,3)", "F32 (4,3)", "line 2: expected a dtype");
    check_bad("(4,3)", "(4,,3)", "line 2: expected a dtype");
    check_bad("(4,3)", "(4,3,)", "line 2: expected a dtype");
    check_bad("(4,3)", "(4,03)", "line 2: expected a dtype");
    check_bad("(4,3)", "(1,1,1,1,1,1,1)", "line 2: expected a dtype");
    check_bad("(4,3)", "(99999999999999999999)", "line 2: expected a dtype");
    check_bad("(4,3)", "(4611686018427387904,3)", "line 2: an input \"x\"");
    check_bad("(4,3)\n", "(4,3) more\n", "line 2: expected the end of the line before \"more\"");
    check_bad("x f32", "x  f32", "line 2: expected one space");
    check_bad("(4,3)\n", "(4,3) \n", "line 2: expected one space");
    check_bad("(4,3)\n", "(4,3)\r\n", "line 2: expected one space");
    check_bad("w f32", "x f32", "line 3: \"x\" cannot be a parameter");
    check_bad("w f32", "\"w f32", "line 3: expected a name");
    check_bad("w f32", "\"\\x00\" f32", "line 3: expected a name");
    check_bad("scope encoder/block.0", "scope", "line 4: expected a scope");
    check_bad("linear %0", "liner %0", "line 5: there is no row \"liner\"");
    check_bad("%0 %1 -", "%0 %9 -", "line 5: value %9 is used before it is made");
    check_bad("%0 %1 -", "%0 %1 - %0", "line 5: more inputs than the 3 of row linear");
    check_bad("activation=1", "activation=2", "line 5: node %2 (linear) in encoder/block.0");
    check_bad("activation=1", "activation=nan", "line 5: \"activation=nan\" is not an attribute");
    check_bad("activation=1", "activation=1x", "line 5: \"1x\" is not a number");
    check_bad("activation=1", "activation=1 activation=0",
              "line 5: attribute \"activation\" is given twice");
    check_bad("activation=1", "active=1", "line 5: row linear has no attribute \"active\"");
    check_bad(" : f32 (4,5)", "", "line 5: expected an attribute, or \":\"");
    check_bad("(4,5)", "(4,6)", "line 5: output 0 of row linear is f32 (4, 5)");
    check_bad("(4,5)", "(4,5) , f32 ()", "line 5: expected the end of the line");
    check_bad("%4 loss", "%5 loss", "line 8: value %5");
    check_bad("%4 loss", "%4 w", "line 8: there is a \"w\" already");
    check_bad("loss\n", "loss\nscope late\n", "line 9: a line \"scope\" after outputs");
    check_bad("loss\n", "loss\n\n", "line 9: expected input, param");
    check_bad("loss\n", "loss\ngrad %1 of %1\n", "line 9: %1 of %1 is not backward's output");
    check_bad("output %4", "back %5 of %1 one : f32 ()\noutput %4", "line 8: %1 is not made by a");
    check_bad("output %4", "back %5 of %4 one : f32 ()\nnode %6 tanh %5 : f32 ()\noutput %4",
              "line 9: tanh in \"encoder/block.0\" comes after the gradient pass");
    check_bad("output %4", "back %5 of %4 one : f32 ()\noutput %4 l\ngrad %5 of %1\noutput %4",
              "line 11: a line \"output\" after");
    check_bad("output %4 loss\n", "frozen %5 z f32 ()\nback %6 of %4 one : f32 ()\ngrad %6 of %5\n",
              "line 10: %5 is frozen: it has no gradient");
    check_bad("output %4 loss\n", "back %5 of %4 one : f32 ()\ngrad %5 of %1\n",
              "graph: gradient term 0: %5 has not the spec of parameter \"w\"");
}

static void test_failing_allocations(void)
{
    int64_t live = ft_alloc_live();
    int failures = 0;
    for (int n = 1;; n++) {
        ft_graph *g = NULL;
        ft_text text = {0};
        ft_alloc_fail_after(n);
        ft_status status = ft_graph_parse(&g, good_text, NULL);
        if (status == FT_OK) status = ft_graph_write(g, &text, NULL);
        ft_alloc_fail_after(0);
        ft_graph_free(g);
        ft_text_fini(&text);
        CHECK(ft_alloc_live() == live);
        if (status != FT_NOMEM) {
            CHECK(status == FT_OK);
            break;
        }
        failures++;
    }
    CHECK(failures > 6);
}

/* -- size ----------------------------------------------------------------------------------- */

/* Processor time of all passes over a chain of layers, which other processes do not lengthen. */
static clock_t time_passes(int n_layers)
{
    clock_t start = clock();
    ft_graph *g;
    ft_value_id v;
    ft_spec spec = {FT_F32, ft_shape_of(8, 128, 1024)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &v, NULL), FT_OK);
    for (int i = 0; i < n_layers; i++) {
        char scope[64];
        snprintf(scope, sizeof scope, "block.%d", i);
        CHECK_STATUS(ft_graph_scope(g, scope, NULL), FT_OK);
        ft_value_id w = case_param(g, i, ft_shape_of(1024, 1024));
        ft_value_id h = case_node(g, ft_op_find("linear"), v, w);
        h = case_node(g, ft_op_find("tanh"), h, FT_NO_VALUE);
        v = case_node(g, ft_op_find("add"), v, h);
    }
    v = case_node(g, &case_op_total, v, FT_NO_VALUE);
    CHECK_STATUS(ft_graph_grad(g, v, NULL), FT_OK);
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
    int n = ft_graph_n_forward(g), *stage_of = ft_alloc(n * 4);
    const ft_split *split;
    for (int i = 0; i < n; i++) stage_of[i] = i * 8 / n;
    CHECK_STATUS(ft_graph_split(g, stage_of, NULL, 8, &split, NULL), FT_OK);
    CHECK(n == 3 * n_layers + 1 && ft_graph_n_grads(g) == n_layers);
    ft_free(stage_of);
    ft_graph_free(g);
    return clock() - start;
}

static double least_seconds(int n_layers)
{
    clock_t best = time_passes(n_layers);
    for (int i = 0; i < 2; i++) {
        clock_t ticks = time_passes(n_layers);
        if (ticks < best) best = ticks;
    }
    return (double)best / CLOCKS_PER_SEC;
}

/* Ten times as many layers take some ten times as long; anything quadratic would make it a hundred.
 * A T5 of 24 + 24 layers has about as many nodes as 500 of these. */
static void test_growth(void)
{
    double some = least_seconds(500), many = least_seconds(5000);
    printf("graph, gradient, verification and split: %.1f ms of 1501 nodes, %.1f of 15001\n",
           some * 1e3, many * 1e3);
    CHECK(many < 40 * some);
}

int main(void)
{
    RUN(test_building);
    RUN(test_refused_names);
    RUN(test_refused_nodes);
    RUN(test_products_in_bf16);
    RUN(test_stores);
    RUN(test_aligns);
    RUN(test_verify_sees_what_is_broken);
    RUN(test_round_trip);
    RUN(test_odd_names_and_numbers);
    RUN(test_good_text);
    RUN(test_bad_text);
    RUN(test_failing_allocations);
    RUN(test_growth);
    return check_report();
}
