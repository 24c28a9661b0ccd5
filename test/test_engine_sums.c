/* test/test_engine_sums.c - what a run makes of gradients, against numbers worked out by hand; and
 * what its workers do when they are asked one by one.
 *
 * loss = w a + w b + w c, in three stages that share w, summed over micro-batches: its gradient has
 * one term for each of a, b and c, and is their sum. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "engine/internal.h"
#include "engine_case.h"

enum { INPUTS = 3 };

/* As many nodes as the chain of engine_case.h, cut where that is. */
static ft_graph *make_sum(void)
{
    static const char *const names[INPUTS] = {"a", "b", "c"};
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    const ft_spec one = {FT_F32, {1, {1}}};
    ft_value_id in[INPUTS], w, product[INPUTS], v;
    const ft_op *mul = ft_op_find("mul"), *add = ft_op_find("add"), *copy = ft_op_find("copy");
    CHECK_STATUS(ft_graph_new(&g, &err), FT_OK);
    for (int i = 0; i < INPUTS; i++)
        CHECK_STATUS(ft_graph_input(g, names[i], &one, &in[i], &err), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &one, &w, &err), FT_OK);
    for (int i = 0; i < INPUTS; i++) {
        CHECK_STATUS(ft_graph_add(g, mul, (ft_value_id[]){w, in[i]}, 2, NULL, &product[i], &err),
                     FT_OK);
        for (int k = 0; i == 0 && k < 2; k++) /* the first stage has three nodes */
            CHECK_STATUS(ft_graph_add(g, copy, &product[0], 1, NULL, &product[0], &err), FT_OK);
    }
    v = product[0];
    for (int i = 1; i < INPUTS; i++)
        CHECK_STATUS(ft_graph_add(g, add, (ft_value_id[]){v, product[i]}, 2, NULL, &v, &err),
                     FT_OK);
    CHECK_STATUS(ft_graph_add(g, ft_op_find("mean"), &v, 1, NULL, &v, &err), FT_OK);
    CHECK_STATUS(ft_graph_output(g, "loss", v, &err), FT_OK);
    CHECK_STATUS(ft_graph_grad(g, v, &err), FT_OK);
    return g;
}

typedef struct step_case {
    float in[INPUTS][MICRO];
    double clip;
    ft_result result;
    float w; /* before the step, then after it */
    ft_error err;
} step_case;

static ft_status feed_case(ft_run *run, step_case *c)
{
    ft_view views[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        views[i] = ft_view_of(&(ft_spec){FT_F32, {1, {MICRO}}}, c->in[i]);
    const ft_feed f = {.n_inputs = INPUTS, .inputs = views, .rate = 0.05};
    return ft_run_feed(run, &f, &c->err);
}

/* loss = w a, with inputs that nothing reads: w has one use, in a product whose gradient is made in
 * its place. */
static ft_graph *make_product(void)
{
    static const char *const names[INPUTS] = {"a", "b", "c"};
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    const ft_spec one = {FT_F32, {1, {1}}}, matrix = {FT_F32, {2, {1, 1}}};
    ft_value_id in[INPUTS], v;
    CHECK_STATUS(ft_graph_new(&g, &err), FT_OK);
    for (int i = 0; i < INPUTS; i++)
        CHECK_STATUS(ft_graph_input(g, names[i], &one, &in[i], &err), FT_OK);
    CHECK_STATUS(ft_graph_param(g, "w", &matrix, &v, &err), FT_OK);
    CHECK_STATUS(
        ft_graph_add(g, ft_op_find("linear"), (ft_value_id[]){in[0], v}, 2, NULL, &v, &err), FT_OK);
    for (int k = 2; k < NODES; k++)
        CHECK_STATUS(ft_graph_add(g, ft_op_find("copy"), &v, 1, NULL, &v, &err), FT_OK);
    CHECK_STATUS(ft_graph_add(g, ft_op_find("mean"), &v, 1, NULL, &v, &err), FT_OK);
    CHECK_STATUS(ft_graph_output(g, "loss", v, &err), FT_OK);
    CHECK_STATUS(ft_graph_grad(g, v, &err), FT_OK);
    return g;
}

/* Runs body with a run of the graph. */
static void with_run(step_case *c, const char *devices, ft_graph *(*make)(void),
                     void (*body)(ft_run *, step_case *))
{
    pipeline p;
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    if (!pipeline_init(&p, devices, "1f1b")) return;
    ft_graph_free(p.g);
    p.g = make();
    p.options.clip = c->clip;
    if (CHECK_STATUS(pipeline_draw(&b, &p, &c->err), FT_OK) &&
        CHECK_STATUS(ft_run_new(&run, b, &c->err), FT_OK)) {
        *(float *)ft_run_param(run, 0).data = c->w;
        CHECK_STATUS(ft_run_refresh(run, &c->err), FT_OK);
        CHECK_STATUS(ft_run_begin(run, ft_blueprint_plan(b), 1, false, &c->err), FT_OK);
        body(run, c);
        (void)ft_run_end(run, &c->err);
    } else
        fprintf(stderr, "%s\n", c->err.message);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static void take_step(ft_run *run, step_case *c)
{
    CHECK_STATUS(feed_case(run, c), FT_OK);
    ft_run_drain(run);
    if (ft_run_next(run, &c->result, (int64_t)600e9, &c->err) == FT_OK) c->err.status = FT_OK;
    c->w = *(float *)ft_run_param(run, 0).data;
}

/* One step of AdamW moves a weight by the rate, whatever the size of its gradient. */
static void test_sums_of_micro_batches(void)
{
    for (int devices = 1; devices <= 3; devices++) {
        const char name[] = {'c', 'p', 'u', ':', (char)('0' + devices), 0};
        step_case c = {.in = {{1, 2, 3, 4}, {0.5f, 0, 0, 0}, {0, 0, 0, 2}}, .w = 1};
        with_run(&c, name, make_sum, take_step);
        CHECK_NEAR(c.result.loss, 12.5, 1e-6);
        CHECK_NEAR(c.result.grad_norm, 12.5, 1e-6);
        CHECK_NEAR(c.w, 0.95, 2e-3);
    }
}

/* (1e8 + 1) - 1e8 is 0 in f32, and 1 in the other order. */
static void test_terms_are_in_graph_order(void)
{
    step_case c = {.in = {{1e8f}, {1}, {-1e8f}}};
    with_run(&c, "cpu:3", make_sum, take_step);
    CHECK_NEAR(c.result.grad_norm, 0, 1e-9);
}

/* Terms that are finite, and their sum is not; the loss, times 0, is. */
static void test_sum_that_is_not_finite(void)
{
    step_case c = {.in = {{3e38f}, {3e38f}, {0}}};
    with_run(&c, "cpu:3", make_sum, take_step);
    CHECK_STATUS(c.err.status, FT_DIVERGED);
    if (!CHECK(strstr(c.err.message, "the gradient of 'w', summed over its 3 uses, is not finite")))
        fprintf(stderr, "  %s\n", c.err.message);
    CHECK(c.w == 0);
}

/* A gradient overflows in any of the micro-batches, the last one among them; each loss is finite.
 */
static void test_gradient_that_is_not_finite(void)
{
    for (int m = 1; m < MICRO; m++) {
        step_case c = {.in = {{3e38f}}};
        c.in[0][m] = 3e38f;
        with_run(&c, "cpu:3", make_product, take_step);
        CHECK_STATUS(c.err.status, FT_DIVERGED);
        char words[64];
        snprintf(words, sizeof words, "gave inf; stage 0 of 3, micro-batch %d of %d", m, MICRO);
        if (!CHECK(strstr(c.err.message, words))) fprintf(stderr, "  %s\n", c.err.message);
        CHECK(c.w == 0);
    }
}

static void read_late_weights(ft_run *run, step_case *c)
{
    const ft_action late = {.kind = FT_ACT_FORWARD, .stage = 0, .lag = 1};
    CHECK_STATUS(execute_action(&run->workers[0], &late, &c->err), FT_INVALID);
    if (!CHECK(strstr(c->err.message, "stage 0 is 0 updates behind, the plan says 1")))
        fprintf(stderr, "  %s\n", c->err.message);
}

/* The engine counts updates itself, and does not take the plan's word for them. */
static void test_lag_is_checked(void)
{
    step_case c = {.clip = 0};
    with_run(&c, "cpu:3", make_sum, read_late_weights);
}

/* A worker looked at its action before the leg was drained, and waits after that. A wait for what
 * is not there ends at once, since the run is stopped. */
static void wait_after_a_drain(ft_run *run, step_case *c)
{
    ft_action last = {.kind = FT_ACT_FORWARD, .seat = 2};
    CHECK_STATUS(feed_case(run, c), FT_OK);
    ft_run_drain(run);
    atomic_store(&run->stop, true);
    CHECK_STATUS(wait_for_action(&run->workers[2], &last, &c->err), FT_CANCELLED);
    last.batch = 1;
    CHECK_STATUS(wait_for_action(&run->workers[2], &last, &c->err), FT_OK);
    atomic_store(&run->stop, false);
}

static void test_drained_batches_are_not_waited_for(void)
{
    step_case c = {.clip = 0};
    with_run(&c, "cpu:3", make_sum, wait_after_a_drain);
}

/* A slot that a micro-batch has left is still said to be its own. */
static void keep_a_slot(ft_run *run, step_case *c)
{
    take_step(run, c);
    atomic_store(&run->seats[1].slots.holders[0], 7);
    CHECK_STATUS(ft_run_end(run, &c->err), FT_INVALID);
    if (!CHECK(!strcmp(c->err.message, "engine: number 6 is still in slot 0 of activations of "
                                       "stage 1 at the end of a leg")))
        fprintf(stderr, "  %s\n", c->err.message);
}

static void test_slots_are_given_back(void)
{
    step_case c = {.clip = 0};
    with_run(&c, "cpu:3", make_sum, keep_a_slot);
}

int main(void)
{
    RUN(test_sums_of_micro_batches);
    RUN(test_terms_are_in_graph_order);
    RUN(test_sum_that_is_not_finite);
    RUN(test_gradient_that_is_not_finite);
    RUN(test_lag_is_checked);
    RUN(test_drained_batches_are_not_waited_for);
    RUN(test_slots_are_given_back);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
