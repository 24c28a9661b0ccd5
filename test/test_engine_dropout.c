/* test/test_engine_dropout.c - what a run drops, against draws that are written out here.
 *
 * loss = mean(drop(drop(w x))), with w = 1 at rate 0: the loss and the norm of its gradient say
 * which elements were kept in the forward and in the backward of every step. */
#include "base/alloc.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine_case.h"

enum { WIDTH = 21, SAMPLES = MICRO * ROWS, STEPS = 3, FIRST_STEP = 7, FIRST_DROP = 2, DROPS = 2 };

static const uint64_t SEED = 0x0123456789abcdefull;
static const double SHARES[DROPS] = {0.25, 0.5}; /* dropped by the nodes 2 and 3 */

/* As many nodes as the chain of engine_case.h, cut where that is: a drop in either stage. */
static ft_graph *make_drops(void)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    const ft_spec spec = {FT_F32, {2, {ROWS, WIDTH}}};
    const ft_op *copy = ft_op_find("copy"), *drop = ft_op_find("dropout");
    ft_value_id x, w, v;
    bool ok = ft_graph_new(&g, &err) == FT_OK && ft_graph_input(g, "x", &spec, &x, &err) == FT_OK &&
              ft_graph_param(g, "w", &spec, &w, &err) == FT_OK &&
              ft_graph_add(g, ft_op_find("mul"), (ft_value_id[]){x, w}, 2, NULL, &v, &err) == FT_OK;
    for (int n = 1; ok && n < NODES - 1; n++) {
        int i = n - FIRST_DROP;
        bool drops = i >= 0 && i < DROPS;
        ok = ft_graph_add(g, drops ? drop : copy, &v, 1, drops ? &SHARES[i] : NULL, &v, &err) ==
             FT_OK;
    }
    ok = ok && ft_graph_add(g, ft_op_find("mean"), &v, 1, NULL, &v, &err) == FT_OK &&
         ft_graph_output(g, "loss", v, &err) == FT_OK && ft_graph_grad(g, v, &err) == FT_OK &&
         ft_graph_n_forward(g) == NODES;
    if (CHECK(ok)) return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

/* -- the draws --------------------------------------------------------------------------------- */

/* What an element is multiplied by: the formula at the top of ops/op_dropout.c. */
static double factor(uint32_t step, uint32_t node, uint32_t sample, uint32_t index, double share)
{
    const uint32_t key[2] = {(uint32_t)SEED ^ node * 0x9E3779B9u, (uint32_t)(SEED >> 32) ^ step};
    const uint32_t counter[4] = {index / 8, 0, sample, 0x44524F50u};
    uint32_t block[4], bits;
    ft_philox(key, counter, block);
    bits = index % 2 ? block[index % 8 / 2] >> 16 : block[index % 8 / 2] & 0xffff;
    return (double)bits < share * 65536 ? 0 : 1 / (1 - share);
}

/* The loss of a batch: the sum of its micro-batches' means; and the norm of its gradient. */
static double work_out(const float *x, uint32_t step, double *norm)
{
    double grad[ROWS * WIDTH] = {0}, loss = 0, squares = 0;
    for (uint32_t s = 0; s < SAMPLES; s++)
        for (uint32_t i = 0; i < WIDTH; i++) {
            double share = (double)x[s * WIDTH + i] / (ROWS * WIDTH);
            for (uint32_t d = 0; d < DROPS; d++)
                share *= factor(step, FIRST_DROP + d, s, i, SHARES[d]);
            loss += share;
            grad[s % ROWS * WIDTH + i] += share; /* w is 1 */
        }
    for (int i = 0; i < ROWS * WIDTH; i++) squares += grad[i] * grad[i];
    *norm = sqrt(squares);
    return loss;
}

/* -- the run ----------------------------------------------------------------------------------- */

static ft_status take_steps(ft_run *run, const ft_plan *plan, float *x, ft_result *results,
                            ft_error *err)
{
    const ft_spec spec = {FT_F32, {2, {SAMPLES, WIDTH}}};
    const ft_view view = ft_view_of(&spec, x);
    const ft_feed f = {.n_inputs = 1, .inputs = &view, .rate = 0};
    ft_view w = ft_run_param(run, 0);
    for (int i = 0; i < ROWS * WIDTH; i++) ((float *)w.data)[i] = 1;
    FT_TRY(ft_run_refresh(run, err));
    FT_TRY(ft_run_begin(run, plan, FIRST_STEP, false, err));
    for (int fed = 0, taken = 0; taken < STEPS; taken++) {
        for (; fed < STEPS && ft_run_wants(run); fed++) FT_TRY(ft_run_feed(run, &f, err));
        FT_TRY(ft_run_next(run, &results[taken], (int64_t)600e9, err));
    }
    return ft_run_end(run, err);
}

static void test_draws(void)
{
    float x[SAMPLES * WIDTH];
    fill(x, SAMPLES * WIDTH, 5);
    for (int devices = 1; devices <= 3; devices++) {
        const char name[] = {'c', 'p', 'u', ':', (char)('0' + devices), 0};
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        ft_run *run = NULL;
        ft_result results[STEPS];
        if (!pipeline_init(&p, name, "1f1b")) return;
        ft_graph_free(p.g);
        p.g = make_drops();
        if (!p.g) return;
        p.options.seed = SEED;
        p.cut.n_batches = STEPS;
        if (CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK) &&
            CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK) &&
            CHECK_STATUS(take_steps(run, ft_blueprint_plan(b), x, results, &err), FT_OK))
            for (int i = 0; i < STEPS; i++) {
                double norm, loss = work_out(x, (uint32_t)(FIRST_STEP + i), &norm);
                CHECK_NEAR(results[i].loss, loss, 1e-6);
                CHECK_NEAR(results[i].grad_norm, norm, 1e-6);
            }
        else
            fprintf(stderr, "%s\n", err.message);
        ft_run_free(run);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
}

int main(void)
{
    RUN(test_draws);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
