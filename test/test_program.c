/* test/test_program.c - the whole of a small chain as one program. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "chain_case.h"

typedef struct numbers {
    float x[ROWS * IN], t[ROWS * OUT], w1[HIDDEN * IN], w2[HIDDEN * HIDDEN], w3[OUT * HIDDEN];
} numbers;

static numbers make_numbers(void)
{
    numbers n;
    fill(n.x, ROWS * IN, 1);
    fill(n.t, ROWS * OUT, 2);
    fill(n.w1, HIDDEN * IN, 3);
    fill(n.w2, HIDDEN * HIDDEN, 4);
    fill(n.w3, OUT * HIDDEN, 5);
    return n;
}

static void multiply(const double *x, const float *w, int n_in, int n_out, double *y)
{
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < n_out; o++) {
            y[r * n_out + o] = 0;
            for (int i = 0; i < n_in; i++)
                y[r * n_out + o] += x[r * n_in + i] * (double)w[o * n_in + i];
        }
}

/* The loss, by loops in f64. */
static double naive_loss(const numbers *n)
{
    double x[ROWS * IN], a[ROWS * HIDDEN], b[ROWS * HIDDEN], y[ROWS * OUT], sum = 0;
    for (int i = 0; i < ROWS * IN; i++) x[i] = (double)n->x[i];
    multiply(x, n->w1, IN, HIDDEN, a);
    for (int i = 0; i < ROWS * HIDDEN; i++) a[i] = a[i] > 0 ? a[i] : 0;
    multiply(a, n->w2, HIDDEN, HIDDEN, b);
    multiply(b, n->w2, HIDDEN, HIDDEN, a);
    multiply(a, n->w3, HIDDEN, OUT, y);
    for (int i = 0; i < ROWS * OUT; i++) sum += (y[i] - (double)n->t[i]) * (y[i] - (double)n->t[i]);
    return sum / (ROWS * OUT);
}

enum { MOST_VALUES = 64, MOST_TERMS = 4 };

typedef struct whole {
    ft_graph *g;
    ft_program *program;
    float *terms[MOST_TERMS];
    void *params[PARAMS], *inputs[2], *grads[MOST_TERMS];
    char *work;
    numbers n;
    float storage[MOST_TERMS][HIDDEN * HIDDEN];
} whole;

/* The whole graph as one program, the loss and y kept. */
static ft_status compile(whole *w, ft_error *err)
{
    ft_place places[MOST_VALUES];
    int nodes[MOST_VALUES], terms[MOST_TERMS];
    const ft_value_id kept[] = {ft_graph_find(w->g, "loss"), ft_graph_find(w->g, "y")};
    for (int v = 0; v < ft_graph_n_values(w->g); v++) {
        const ft_value *value = ft_graph_value(w->g, v);
        ft_home home = value->kind == FT_VALUE_INPUT   ? FT_HOME_INPUT
                       : value->kind == FT_VALUE_PARAM ? FT_HOME_PARAM
                                                       : FT_HOME_WORK;
        places[v] = (ft_place){home, home == FT_HOME_WORK ? 0 : value->source};
    }
    for (int n = 0; n < ft_graph_n_nodes(w->g); n++) nodes[n] = n;
    for (int t = 0; t < ft_graph_n_grads(w->g); t++) terms[t] = t;
    const ft_program_request q = {.graph = w->g,
                                  .nodes = nodes,
                                  .n_nodes = ft_graph_n_nodes(w->g),
                                  .places = places,
                                  .keep = kept,
                                  .n_keep = 2,
                                  .terms = terms,
                                  .n_terms = ft_graph_n_grads(w->g),
                                  .team_size = 1};
    return ft_program_new(&w->program, &q, err);
}

static double run_whole(whole *w, bool accumulate, ft_high_water *water)
{
    ft_error err = {FT_OK, ""};
    const ft_bases bases = {.work = w->work,
                            .inputs = w->inputs,
                            .params = w->params,
                            .grads = w->grads,
                            .accumulate = accumulate,
                            .high_water = water};
    CHECK_STATUS(ft_program_run(w->program, &bases, &err), FT_OK);
    ft_place place = ft_program_place(w->program, ft_graph_find(w->g, "loss"));
    double loss = (double)*(float *)ft_place_address(&bases, place), sum = 0;
    const float *y =
        ft_place_address(&bases, ft_program_place(w->program, ft_graph_find(w->g, "y")));
    for (int i = 0; i < ROWS * OUT; i++) sum += pow((double)(y[i] - w->n.t[i]), 2);
    CHECK_NEAR(sum / (ROWS * OUT), loss, 1e-6); /* y is still there */
    return loss;
}

static void test_program(void)
{
    ft_error err = {FT_OK, ""};
    whole w = {.g = make_graph(ROWS, "loss"), .n = make_numbers()};
    if (!CHECK(w.g) || !CHECK_STATUS(compile(&w, &err), FT_OK)) return;
    CHECK(ft_graph_n_values(w.g) <= MOST_VALUES);
    CHECK(ft_graph_n_grads(w.g) == MOST_TERMS); /* two of w2 */
    void *params[] = {w.n.w1, w.n.w2, w.n.w3}, *inputs[] = {w.n.x, w.n.t};
    memcpy(w.params, params, sizeof params);
    memcpy(w.inputs, inputs, sizeof inputs);
    for (int t = 0; t < MOST_TERMS; t++) w.grads[t] = w.storage[t];
    int64_t bytes = ft_program_work_bytes(w.program);
    w.work = ft_pages_alloc(bytes);
    if (!CHECK(w.work)) return;

    ft_high_water water = {0, 0};
    int64_t blocks = ft_alloc_thread_count();
    CHECK_NEAR(run_whole(&w, false, &water), naive_loss(&w.n), 1e-6);
    CHECK(ft_alloc_thread_count() == blocks);
    CHECK(water.work == bytes && water.saved == 0); /* laid out: as much as is really touched */

    /* Terms of w2 together are its gradient. */
    double analytic = 0, step = 1e-3;
    for (int t = 0; t < MOST_TERMS; t++)
        if (ft_graph_grad_term(w.g, t)->param == 1) analytic += (double)w.storage[t][7];
    numbers up = w.n, down = w.n;
    up.w2[7] += (float)step;
    down.w2[7] -= (float)step;
    CHECK_NEAR(analytic, (naive_loss(&up) - naive_loss(&down)) / (2 * step), 1e-4);

    /* Accumulating adds to every term; not accumulating starts again. */
    float once[MOST_TERMS][HIDDEN * HIDDEN];
    memcpy(once, w.storage, sizeof once);
    run_whole(&w, true, NULL);
    for (int t = 0; t < MOST_TERMS; t++) CHECK(w.storage[t][3] == 2 * once[t][3]);
    run_whole(&w, false, NULL);
    CHECK(memcmp(once, w.storage, sizeof once) == 0);

    ft_pages_free(w.work, bytes);
    ft_program_free(w.program);
    ft_graph_free(w.g);
}

/* A packed copy for each weight, however many products read it; none of what is computed. */
static void test_packs(void)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    ft_pack packs[4];
    const ft_spec spec = {FT_F32, {2, {64, 64}}};
    const ft_op *linear = ft_op_find("linear");
    ft_value_id x, a, b, v;
    CHECK_STATUS(ft_graph_new(&g, &err), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &x, &err), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "a", &spec, &a, &err), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "b", &spec, &b, &err), FT_OK);
    const ft_value_id weights[] = {a, b, a};
    v = x;
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(
            ft_graph_add(g, linear, (ft_value_id[]){v, i < 3 ? weights[i] : v}, 2, NULL, &v, &err),
            FT_OK);
    CHECK(ft_program_packs(g, (int[]){0, 1, 2, 3}, 4, &ft_cpu_kernels, packs) == 2);
    CHECK(packs[0].param == 0 && packs[1].param == 1 && packs[0].bytes == packs[1].bytes);
    ft_graph_free(g);
}

/* Four nodes in a row need the places of two values at a time, and that of the first if it is kept.
 */
static void test_kept_values_have_a_place(void)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    const ft_spec spec = {FT_F32, {1, {1000}}};
    ft_value_id v[5];
    CHECK_STATUS(ft_graph_new(&g, &err), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &v[0], &err), FT_OK);
    for (int i = 0; i < 4; i++)
        CHECK_STATUS(ft_graph_add(g, ft_op_find("tanh"), &v[i], 1, NULL, &v[i + 1], &err), FT_OK);
    ft_place places[5] = {{FT_HOME_INPUT, 0}};
    for (int n_keep = 1; n_keep <= 2; n_keep++) {
        ft_program *program = NULL;
        const ft_program_request q = {.graph = g,
                                      .nodes = (int[]){0, 1, 2, 3},
                                      .n_nodes = 4,
                                      .places = places,
                                      .keep = (ft_value_id[]){v[4], v[1]},
                                      .n_keep = n_keep,
                                      .team_size = 1};
        CHECK_STATUS(ft_program_new(&program, &q, &err), FT_OK);
        CHECK(ft_program_work_bytes(program) / ft_spec_bytes(&spec) == 1 + n_keep);
        ft_program_free(program);
    }
    ft_graph_free(g);
}

int main(void)
{
    RUN(test_program);
    RUN(test_kept_values_have_a_place);
    RUN(test_packs);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
