/* test/test_graph_grad.c - gradients against central differences, and the rules of the pass. */
#include "graph_case.h"

/* -- numbers -------------------------------------------------------------------------------- */

/* The worst difference between the gradient of the graph and central differences of the loss,
 * relative to the size of the gradient. */
static double worst_error(const ft_graph *g, double **values)
{
    ft_value_id loss = ft_graph_find(g, "loss");
    int n_forward = ft_graph_n_forward(g);
    double worst = 0;
    case_run(g, values, ft_graph_n_nodes(g));
    for (int p = 0; p < ft_graph_n_params(g); p++) {
        ft_value_id param = ft_graph_param_value(g, p);
        for (int64_t i = 0; i < ft_shape_count(&ft_graph_value(g, param)->spec.shape); i++) {
            double graded = 0, scale = 1;
            for (int t = 0; t < ft_graph_n_grads(g); t++)
                if (ft_graph_grad_term(g, t)->param == p)
                    graded += values[ft_graph_grad_term(g, t)->value][i];
            double x = values[param][i], h = 1e-5, losses[2];
            for (int side = 0; side < 2; side++) {
                values[param][i] = side ? x + h : x - h;
                case_run(g, values, n_forward);
                losses[side] = *values[loss];
            }
            values[param][i] = x;
            case_run(g, values, n_forward);
            double numeric = (losses[1] - losses[0]) / (2 * h);
            if (fabs(numeric) > scale) scale = fabs(numeric);
            if (fabs(numeric - graded) / scale > worst) worst = fabs(numeric - graded) / scale;
        }
    }
    return worst;
}

static void test_against_central_differences(void)
{
    ft_rng rng;
    ft_rng_init(&rng, 17, 0);
    for (int i = 0; i < 60; i++) {
        case_plan plan = {.n_nodes = 1 + i % 13, .n_params = 1 + i % 4, .table_only = i % 3 == 2};
        ft_graph *g = case_random(&rng, &plan);
        ft_error err = {0};
        if (CHECK(ft_graph_grad(g, ft_graph_find(g, "loss"), &err) == FT_OK)) {
            CHECK_STATUS(ft_graph_verify(g, &err), FT_OK);
            double **values = case_values(g, &rng);
            double error = worst_error(g, values);
            if (!CHECK(error < 1e-6)) fprintf(stderr, "  graph %d: %g\n", i, error);
            case_values_free(g, values);
        } else
            fprintf(stderr, "  %s\n", err.message);
        ft_graph_free(g);
    }
}

/* -- structure ------------------------------------------------------------------------------ */

/* Every backward node leads to a gradient term; terms are where their users are, in graph order. */
static void check_structure(const ft_graph *g)
{
    int n_nodes = ft_graph_n_nodes(g), n_forward = ft_graph_n_forward(g), previous = 0;
    bool *live = ft_alloc(n_nodes);
    int *readers = ft_alloc(ft_graph_n_values(g) * 4);
    for (int t = 0; t < ft_graph_n_grads(g); t++) {
        const ft_grad_term *term = ft_graph_grad_term(g, t);
        const ft_node *node = ft_graph_node(g, term->node);
        live[term->node] = true;
        case_need(node->origin >= previous, "terms in graph order");
        previous = node->origin;
        readers[term->value]++;
    }
    for (int n = n_nodes - 1; n >= n_forward; n--) {
        const ft_node *node = ft_graph_node(g, n);
        case_need(live[n] && node->phase == FT_BACKWARD, "a node that a term needs");
        case_need(node->key == ft_graph_node(g, node->origin)->key, "the key of its origin");
        case_need(node->scope == ft_graph_node(g, node->origin)->scope, "the scope of its origin");
        for (int i = 0; i < node->n_in; i++) {
            if (node->in[i] == FT_NO_VALUE) continue;
            const ft_value *value = ft_graph_value(g, node->in[i]);
            readers[node->in[i]]++;
            if (value->kind == FT_VALUE_NODE) live[value->source] = true;
        }
    }
    for (int t = 0; t < ft_graph_n_grads(g); t++)
        case_need(readers[ft_graph_grad_term(g, t)->value] == 1, "a term that nothing reads");
    ft_free(live);
    ft_free(readers);
}

/* One term for each use of a parameter that the loss depends on: here all are used. */
static void test_structure_of_random_graphs(void)
{
    ft_rng rng;
    ft_rng_init(&rng, 18, 0);
    for (int i = 0; i < 100; i++) {
        case_plan plan = {.n_nodes = 1 + i % 40, .n_params = 1 + i % 5, .table_only = i % 4 == 3};
        ft_graph *g = case_random(&rng, &plan);
        int uses = 0;
        for (int n = 0; n < ft_graph_n_nodes(g); n++)
            for (int k = 0; k < ft_graph_node(g, n)->n_in; k++)
                uses += ft_graph_value(g, ft_graph_node(g, n)->in[k])->kind == FT_VALUE_PARAM;
        CHECK_STATUS(ft_graph_grad(g, ft_graph_find(g, "loss"), NULL), FT_OK);
        CHECK(ft_graph_n_grads(g) == uses);
        check_structure(g);
        ft_graph_free(g);
    }
}

/* y is used at nodes 1, 2 and 3: its gradient is (d3 + d2) + d1, each sum where the newer term is.
 */
static void test_order_of_sums(void)
{
    ft_graph *g;
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    const ft_op *add = ft_op_find("add"), *mul = ft_op_find("mul"), *act = ft_op_find("tanh");
    ft_value_id p = case_param(g, 0, (ft_shape){0}), y = case_node(g, act, p, FT_NO_VALUE);
    ft_value_id a = case_node(g, act, y, FT_NO_VALUE);
    ft_value_id b = case_node(g, mul, a, y), c = case_node(g, mul, b, y);
    CHECK_STATUS(ft_graph_grad(g, c, NULL), FT_OK);
    int origins[8], n = 0;
    ft_value_id previous = FT_NO_VALUE;
    for (int i = ft_graph_n_forward(g); i < ft_graph_n_nodes(g); i++) {
        const ft_node *node = ft_graph_node(g, i);
        if (node->op != add || n == 8) continue;
        CHECK(previous == FT_NO_VALUE || node->in[0] == previous);
        previous = node->out;
        origins[n++] = node->origin;
    }
    CHECK(n == 2 && origins[0] == 2 && origins[1] == 1);
    CHECK(ft_graph_n_grads(g) == 1 &&
          ft_graph_node(g, ft_graph_grad_term(g, 0)->node)->origin == 0);
    ft_graph_free(g);
}

/* A rule that passes a gradient through to parameters: each term gets a node of its own. */
static void test_terms_are_owned(void)
{
    ft_graph *g;
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    const ft_op *add = ft_op_find("add"), *act = ft_op_find("tanh");
    ft_value_id p = case_param(g, 0, (ft_shape){0}), q = case_param(g, 1, (ft_shape){0});
    ft_value_id twice = case_node(g, add, p, p), sum = case_node(g, add, twice, q);
    ft_value_id loss = case_node(g, act, sum, FT_NO_VALUE);
    CHECK_STATUS(ft_graph_grad(g, loss, NULL), FT_OK);
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
    if (CHECK(ft_graph_n_grads(g) == 3)) {
        const ft_grad_term *terms[3];
        for (int i = 0; i < 3; i++) terms[i] = ft_graph_grad_term(g, i);
        CHECK(terms[0]->param == 0 && terms[1]->param == 0 && terms[2]->param == 1);
        CHECK(ft_graph_node(g, terms[0]->node)->origin == 0);
        CHECK(ft_graph_node(g, terms[1]->node)->origin == 0);
        CHECK(ft_graph_node(g, terms[2]->node)->origin == 1);
        CHECK(terms[0]->value != terms[1]->value);
    }
    ft_graph_free(g);
}

/* Terms of one node are in the order of its inputs. */
static void test_order_within_a_node(void)
{
    ft_graph *g;
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    ft_value_id p = case_param(g, 0, (ft_shape){0}), q = case_param(g, 1, (ft_shape){0});
    CHECK_STATUS(ft_graph_grad(g, case_node(g, ft_op_find("mul"), p, q), NULL), FT_OK);
    if (CHECK(ft_graph_n_grads(g) == 2))
        CHECK(ft_graph_grad_term(g, 0)->param == 0 && ft_graph_grad_term(g, 1)->param == 1);
    ft_graph_free(g);
}

/* What a norm keeps of its rows has no gradient, and carries none. */
static void test_outputs_without_gradient(void)
{
    ft_graph *g;
    ft_error err = {0};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    ft_value_id x = case_param(g, 0, ft_shape_of(3)), w = case_param(g, 1, ft_shape_of(3));
    ft_value_id kept = case_node(g, ft_op_find("rms_norm"), x, w) + 1;
    CHECK_STATUS(ft_graph_grad(g, kept, &err), FT_INVALID);
    CHECK(strstr(err.message, "no parameter that is trained influences"));
    ft_graph_free(g);
}

/* a + b, whose rule makes one node and gives it to both inputs. */
static void shared_grad(ft_builder *b, const ft_grad_site *site)
{
    site->din[0] = site->din[1] = b->add(b, ft_op_find("copy"), site->dout, 1, NULL);
}

/* A term that something else reads, or that is two terms, could not be accumulated where it is. */
static void test_shared_terms_are_copied(void)
{
    for (int both = 0; both < 2; both++) {
        ft_graph *g;
        ft_op shared = *ft_op_find("add");
        shared.grad = shared_grad;
        CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
        ft_value_id p = case_param(g, 0, (ft_shape){0}), q = case_param(g, 1, (ft_shape){0});
        ft_value_id x = case_node(g, ft_op_find("tanh"), q, FT_NO_VALUE);
        ft_value_id loss = case_node(g, &shared, both ? p : x, p);
        loss = case_node(g, ft_op_find("mul"), loss, x);
        CHECK_STATUS(ft_graph_grad(g, loss, NULL), FT_OK);
        CHECK(ft_graph_n_grads(g) == 2 + both);
        CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
        check_structure(g);
        ft_graph_free(g);
    }
}

static void test_gradient_draws_as_forward(void)
{
    ft_graph *g;
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    ft_value_id p = case_param(g, 0, ft_shape_of(2, 3)), dropped;
    p = case_node(g, ft_op_find("tanh"), p, FT_NO_VALUE);
    double attrs[FT_MAX_ATTRS];
    const ft_op *dropout = ft_op_find("dropout");
    CHECK_STATUS(ft_op_attrs(dropout, (const char *[]){"p"}, (double[]){0.25}, 1, attrs, NULL),
                 FT_OK);
    CHECK_STATUS(ft_graph_add(g, dropout, &p, 1, attrs, &dropped, NULL), FT_OK);
    ft_value_id loss = case_node(g, &case_op_total, dropped, FT_NO_VALUE);
    CHECK_STATUS(ft_graph_grad(g, loss, NULL), FT_OK);
    int n_random = 0;
    for (int n = ft_graph_n_forward(g); n < ft_graph_n_nodes(g); n++) {
        if (!ft_graph_node(g, n)->op->random) continue;
        n_random++;
        CHECK(ft_graph_node(g, n)->key == 1 && ft_graph_node(g, n)->attrs[0] == 0.25);
    }
    CHECK(n_random == 1);
    ft_graph_free(g);
}

/* -- refusals ------------------------------------------------------------------------------- */

static void check_refused(ft_graph *g, ft_value_id loss, ft_status status, const char *says)
{
    ft_error err = {0};
    int n_nodes = ft_graph_n_nodes(g), n_values = ft_graph_n_values(g);
    CHECK_STATUS(ft_graph_grad(g, loss, &err), status);
    if (!CHECK(strstr(err.message, says))) fprintf(stderr, "  %s\n", err.message);
    CHECK(ft_graph_n_nodes(g) == n_nodes && ft_graph_n_values(g) == n_values);
    CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
}

static void silent_grad(ft_builder *b, const ft_grad_site *site)
{
    (void)b;
    (void)site;
}

static void wrong_grad(ft_builder *b, const ft_grad_site *site)
{
    const ft_spec *spec = b->spec(b, site->in[0]);
    CHECK(spec->shape.n_dims == 2 && b->spec(b, FT_NO_VALUE)->shape.n_dims < 0);
    site->din[0] = site->dout[0];
}

static void failing_grad(ft_builder *b, const ft_grad_site *site)
{
    ft_value_id v = b->add(b, &case_op_pair, (ft_value_id[]){site->dout[0], site->in[0]}, 2, NULL);
    site->din[0] = b->add(b, ft_op_find("add"), (ft_value_id[]){v, v}, 2, NULL);
    CHECK(v == FT_NO_VALUE && site->din[0] == FT_NO_VALUE);
}

static void test_refusals(void)
{
    static const struct {
        void (*grad)(ft_builder *, const ft_grad_site *);
        ft_status status;
        const char *says;
    } rules[] = {
        {NULL, FT_UNSUPPORTED, "node %2 (odd) in top/odd: the row has no gradient"},
        {silent_grad, FT_UNSUPPORTED, "gives no gradient of input 0"},
        {wrong_grad, FT_SHAPE, "gradient of input 0 is f32 (), expected f32 (2, 3)"},
        {failing_grad, FT_SHAPE, "gradient of node %2 (odd) in top/odd: node %4 (case_pair)"},
    };
    for (int i = 0; i < 4; i++) {
        ft_op odd = case_op_total;
        odd.name = "odd";
        odd.grad = rules[i].grad;
        ft_graph *g;
        CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
        ft_value_id p = case_param(g, 0, ft_shape_of(2, 3));
        ft_value_id y = case_node(g, ft_op_find("tanh"), p, FT_NO_VALUE);
        CHECK_STATUS(ft_graph_scope(g, "top/odd", NULL), FT_OK);
        check_refused(g, case_node(g, &odd, y, FT_NO_VALUE), rules[i].status, rules[i].says);
        check_refused(g, y, FT_INVALID, "expected an f32 scalar");
        check_refused(g, p, FT_INVALID, "not computed by a node");
        check_refused(g, 99, FT_INVALID, "no value %99");
        ft_graph_free(g);
    }
}

static void test_only_once_and_nothing_after(void)
{
    ft_rng rng;
    ft_rng_init(&rng, 19, 0);
    ft_graph *g = case_random(&rng, &(case_plan){5, 2, true});
    ft_value_id loss = ft_graph_find(g, "loss"), v;
    ft_spec spec = {.dtype = FT_F32};
    CHECK_STATUS(ft_graph_grad(g, loss, NULL), FT_OK);
    check_refused(g, loss, FT_INVALID, "a gradient already");
    CHECK_STATUS(ft_graph_input(g, "late", &spec, &v, NULL), FT_INVALID);
    CHECK_STATUS(ft_graph_add(g, ft_op_find("tanh"), &loss, 1, NULL, &v, NULL), FT_INVALID);
    CHECK(v == FT_NO_VALUE);
    ft_graph_free(g);
}

static void test_constant_loss(void)
{
    ft_graph *g;
    ft_value_id x;
    ft_spec spec = {.dtype = FT_F32};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    case_param(g, 0, (ft_shape){0});
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &x, NULL), FT_OK);
    check_refused(g, case_node(g, ft_op_find("tanh"), x, FT_NO_VALUE), FT_INVALID, "no parameter");
    ft_graph_free(g);
}

/* Of random graphs with some parameters frozen: those have no term, the others all of theirs, and
 * no backward node is there but for them. The text says which are frozen. */
static void test_frozen_parameters(void)
{
    ft_rng rng;
    ft_rng_init(&rng, 21, 0);
    for (int i = 0; i < 60; i++) {
        case_plan plan = {.n_nodes = 1 + i % 40, .n_params = 2 + i % 4, .table_only = i % 4 == 3};
        ft_graph *g = case_random(&rng, &plan), *again = NULL;
        int uses = 0;
        CHECK_STATUS(ft_graph_freeze(g, "p0.weight", NULL), FT_OK);
        for (int n = 0; n < ft_graph_n_nodes(g); n++)
            for (int k = 0; k < ft_graph_node(g, n)->n_in; k++) {
                const ft_value *value = ft_graph_value(g, ft_graph_node(g, n)->in[k]);
                uses += value->kind == FT_VALUE_PARAM && !value->frozen;
            }
        ft_status status = ft_graph_grad(g, ft_graph_find(g, "loss"), NULL);
        CHECK_STATUS(status, uses ? FT_OK : FT_INVALID);
        CHECK(ft_graph_n_grads(g) == uses);
        for (int t = 0; t < ft_graph_n_grads(g); t++) CHECK(ft_graph_grad_term(g, t)->param != 0);
        if (uses) check_structure(g);
        ft_text text = {0}, second = {0};
        CHECK_STATUS(ft_graph_write(g, &text, NULL), FT_OK);
        if (plan.table_only) CHECK_STATUS(ft_graph_parse(&again, text.data, NULL), FT_OK);
        if (again) {
            CHECK(ft_graph_value(again, ft_graph_find(again, "p0.weight"))->frozen);
            CHECK(!ft_graph_value(again, ft_graph_find(again, "p1.weight"))->frozen);
            CHECK_STATUS(ft_graph_write(again, &second, NULL), FT_OK);
            CHECK(strcmp(second.data, text.data) == 0);
        }
        ft_text_fini(&text);
        ft_text_fini(&second);
        CHECK_STATUS(ft_graph_freeze(g, "nobody", NULL), FT_NOT_FOUND);
        CHECK_STATUS(ft_graph_freeze(g, "loss", NULL), FT_NOT_FOUND);
        CHECK_STATUS(ft_graph_freeze(g, "p1.weight", NULL), uses ? FT_INVALID : FT_OK);
        ft_graph_free(again);
        ft_graph_free(g);
    }
}

static void test_failing_allocations(void)
{
    int64_t live = ft_alloc_live();
    int failures = 0;
    for (int n = 1;; n++) {
        ft_rng rng;
        ft_rng_init(&rng, 20, 0);
        ft_graph *g = case_random(&rng, &(case_plan){60, 3, false});
        ft_alloc_fail_after(n);
        ft_status status = ft_graph_grad(g, ft_graph_find(g, "loss"), NULL);
        ft_alloc_fail_after(0);
        CHECK_STATUS(ft_graph_verify(g, NULL), FT_OK);
        ft_graph_free(g);
        CHECK(ft_alloc_live() == live);
        if (status != FT_NOMEM) {
            CHECK(status == FT_OK);
            break;
        }
        failures++;
    }
    CHECK(failures > 4);
}

/* -- rounding ------------------------------------------------------------------------------- */

/* By name: rows have an attribute at different places. */
static double attr_of(const ft_node *node, const char *name)
{
    for (int i = 0; i < ft_op_attr_count(node->op); i++)
        if (strcmp(node->op->attrs[i].name, name) == 0) return node->attrs[i];
    return -1;
}

/* What operands of a product are rounded to is so in the products of its gradient: three of them,
 * for x is not graded. */
static void check_rounding(const double *attrs, const char *rounds)
{
    ft_graph *g;
    ft_value_id x, w, v, y, z;
    const ft_op *linear = ft_op_find("linear");
    ft_spec spec = {FT_F32, ft_shape_of(4, 4)};
    int n = 0;
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &x, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &spec, &w, NULL), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "v", &spec, &v, NULL), FT_OK);
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){x, w}, 2, attrs, &y, NULL), FT_OK);
    CHECK_STATUS(ft_graph_add(g, linear, (ft_value_id[]){y, v}, 2, attrs, &z, NULL), FT_OK);
    CHECK_STATUS(ft_graph_grad(g, case_node(g, ft_op_find("sum"), z, FT_NO_VALUE), NULL), FT_OK);
    for (int i = ft_graph_n_forward(g); i < ft_graph_n_nodes(g); i++) {
        const ft_node *node = ft_graph_node(g, i);
        const char *names[] = {"bf16", "tf32", "f16"};
        if (strncmp(node->op->name, "linear", 6) != 0) continue;
        for (int k = 0; k < 3; k++) CHECK(attr_of(node, names[k]) == !strcmp(names[k], rounds));
        n++;
    }
    CHECK(n == 3);
    ft_graph_free(g);
}

static void test_gradient_rounds_as_forward(void)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        check_rounding((const double[FT_MAX_ATTRS]){0, transposed, 1, 0, 0}, "bf16");
        check_rounding((const double[FT_MAX_ATTRS]){0, transposed, 0, 1, 0}, "tf32");
        check_rounding((const double[FT_MAX_ATTRS]){0, transposed, 0, 0, 1}, "f16");
    }
}

int main(void)
{
    RUN(test_against_central_differences);
    RUN(test_structure_of_random_graphs);
    RUN(test_order_of_sums);
    RUN(test_terms_are_owned);
    RUN(test_order_within_a_node);
    RUN(test_outputs_without_gradient);
    RUN(test_shared_terms_are_copied);
    RUN(test_gradient_draws_as_forward);
    RUN(test_gradient_rounds_as_forward);
    RUN(test_refusals);
    RUN(test_only_once_and_nothing_after);
    RUN(test_constant_loss);
    RUN(test_frozen_parameters);
    RUN(test_failing_allocations);
    return check_report();
}
