/* test/test_engine_forwards.c - runs of forwards alone: what they hand out, and refuse. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/internal.h"
#include "engine_run.h"

enum { BATCHES = 10, ALL = MICRO * ROWS };

typedef struct outcome {
    double losses[BATCHES];
    float y[BATCHES][ALL * OUT];
} outcome;

/* Batch number k of a few that differ. */
static ft_status feed_batch(ft_run *run, int k, ft_error *err)
{
    float x[ALL * IN], t[ALL * OUT];
    fill(x, (int64_t)ALL * IN, (uint32_t)k + 20);
    fill(t, (int64_t)ALL * OUT, (uint32_t)k + 40);
    const ft_spec x_spec = {FT_F32, {2, {ALL, IN}}}, t_spec = {FT_F32, {2, {ALL, OUT}}};
    const ft_view inputs[] = {ft_view_of(&x_spec, x), ft_view_of(&t_spec, t)};
    const ft_feed f = {.bucket = 0, .n_inputs = 2, .inputs = inputs};
    return ft_run_feed(run, &f, err);
}

static void forwards(ft_run *run, const ft_plan *plan, bool threaded, outcome *out)
{
    ft_error err = {FT_OK, ""};
    char at[FT_AT_WORDS];
    CHECK_STATUS(ft_run_begin(run, plan, 1, threaded, &err), FT_OK);
    tell_work(run, at);
    CHECK(!strcmp(at, "stage 0 on cpu:0: forward of batch 0, micro-batch 0, of an evaluation"));
    for (int fed = 0, taken = 0; taken < BATCHES; taken++) {
        ft_result result;
        const char *name = "";
        ft_view y = {0};
        while (ft_run_wants(run)) CHECK_STATUS(feed_batch(run, fed++, &err), FT_OK);
        CHECK_STATUS(ft_run_next(run, &result, (int64_t)600e9, &err), FT_OK);
        CHECK_STATUS(ft_run_output(run, 0, &name, &y, &err), FT_OK);
        CHECK(!strcmp(name, "y") && y.shape.n_dims == 2 && y.shape.dims[0] == ALL);
        CHECK(isnan(result.grad_norm));
        out->losses[taken] = result.loss;
        memcpy(out->y[taken], y.data, sizeof out->y[taken]);
    }
    CHECK_STATUS(ft_run_end(run, &err), FT_OK);
}

static void forward_on(const char *devices, bool threaded, outcome *out)
{
    pipeline p, training;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    const char *name;
    ft_value_id loss;
    ft_view y;
    if (!pipeline_init(&p, devices, "evaluate")) return;
    if (!pipeline_init(&training, devices, "1f1b")) return;
    ft_graph_free(p.g);
    p.g = make_forward_graph(ROWS, "loss", &loss);
    p.cut.forward_only = true;
    p.recompute[1] = false;
    CHECK_STATUS(pipeline_plan(&training, &err), FT_OK);
    if (CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK) &&
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK)) {
        CHECK_STATUS(set_params(run, &err), FT_OK);
        CHECK_STATUS(ft_run_output(run, 0, &name, &y, &err), FT_INVALID);
        CHECK_STATUS(ft_run_begin(run, training.plan, 1, threaded, &err), FT_INVALID);
        CHECK(!strcmp(err.message, "engine: the leg's plan is of training, the run is not"));
        for (int leg = 0; leg < 2; leg++) forwards(run, &b->plan, threaded, out);
        CHECK(ft_run_n_outputs(run) == 1);
    } else
        fprintf(stderr, "%s\n", err.message);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
    pipeline_free(&training);
}

/* Of every batch what it gives, whatever the devices and the timing. */
static void test_outputs_are_of_their_batches(void)
{
    static outcome one, other;
    forward_on("cpu:1", false, &one);
    for (int i = 1; i < BATCHES; i++) CHECK(memcmp(one.y[i], one.y[i - 1], sizeof one.y[i]) != 0);
    for (int d = 1; d <= 3; d++)
        for (int threaded = 0; threaded < 2; threaded++) {
            char devices[16];
            snprintf(devices, sizeof devices, "cpu:%d", d);
            forward_on(devices, threaded, &other);
            CHECK(memcmp(&one, &other, sizeof one) == 0);
        }
}

/* In the memory of a run that trains, with its weights. */
static void test_evaluation_beside_training(void)
{
    static outcome one, beside;
    pipeline p, q;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    ft_value_id loss;
    forward_on("cpu:1", false, &one);
    if (!pipeline_init(&p, "cpu:3", "1f1b") || !pipeline_init(&q, "cpu:3", "evaluate")) return;
    ft_graph_free(q.g);
    q.g = make_forward_graph(ROWS, "loss", &loss);
    q.cut.forward_only = true;
    q.recompute[1] = false;
    CHECK_STATUS(pipeline_plan(&q, &err), FT_OK);
    const ft_evaluation_options evaluation = {.graphs = &q.g, .n_graphs = 1, .plan = q.plan};
    p.options.evaluation = &evaluation;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK);
    CHECK_STATUS(set_params(run, &err), FT_OK);
    ft_run *evaluates = ft_run_evaluation(run);
    const ft_plan *plan = ft_blueprint_plan(ft_blueprint_evaluation(b));
    forwards(evaluates, plan, true, &beside);
    CHECK(memcmp(&one, &beside, sizeof one) == 0);
    CHECK_STATUS(ft_run_begin(evaluates, plan, 1, true, &err), FT_OK);
    CHECK_STATUS(ft_run_begin(run, &b->plan, 1, true, &err), FT_INVALID);
    CHECK_STATUS(ft_run_refresh(run, &err), FT_INVALID);
    ft_run_close(run);
    CHECK(!leg_is_under_way(run));
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
    pipeline_free(&q);
}

int main(void)
{
    RUN(test_outputs_are_of_their_batches);
    RUN(test_evaluation_beside_training);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
