/* test/engine_run.h - training runs of the chain of test/engine_case.h. */
#ifndef FT_TEST_ENGINE_RUN_H
#define FT_TEST_ENGINE_RUN_H

#include <stdlib.h>

#include "engine/engine.h"
#include "engine_case.h"
#include "fit/fit.h"
#include "planfile/planfile.h"

/* Gives every parameter the same numbers each time. */
static inline ft_status set_params(ft_run *run, ft_error *err)
{
    for (int p = 0; p < ft_run_n_params(run); p++) {
        ft_view view = ft_run_param(run, p);
        fill(view.data, ft_shape_count(&view.shape), (uint32_t)p + 3);
    }
    return ft_run_refresh(run, err);
}

/* Feeds a batch, the same each time, of so many rows; its losses are scaled. */
static inline ft_status feed_scaled(ft_run *run, int64_t rows, double rate, double scale,
                                    ft_error *err)
{
    float x[MICRO * ROWS * IN], t[MICRO * ROWS * OUT];
    fill(x, MICRO * ROWS * IN, 11);
    fill(t, MICRO * ROWS * OUT, 12);
    const ft_spec x_spec = {FT_F32, {2, {rows, IN}}}, t_spec = {FT_F32, {2, {rows, OUT}}};
    const ft_view inputs[] = {ft_view_of(&x_spec, x), ft_view_of(&t_spec, t)};
    const ft_feed f = {
        .bucket = 0, .n_inputs = 2, .inputs = inputs, .rate = rate, .loss_scale = scale};
    return ft_run_feed(run, &f, err);
}

static inline ft_status feed_at(ft_run *run, int64_t rows, double rate, ft_error *err)
{
    return feed_scaled(run, rows, rate, 0, err);
}

static inline ft_status feed(ft_run *run, int64_t rows, ft_error *err)
{
    return feed_at(run, rows, 0.05, err);
}

/* Trains for the plan's batches; losses gets one for each. */
static inline ft_status train(ft_run *run, const ft_plan *plan, bool threaded, double *losses,
                              ft_error *err)
{
    FT_TRY(ft_run_begin(run, plan, 1, threaded, err));
    for (int fed = 0, taken = 0; taken < plan->n_batches;) {
        ft_result result;
        while (fed < plan->n_batches && ft_run_wants(run)) {
            FT_TRY(feed(run, (int64_t)MICRO * ROWS, err));
            fed++;
        }
        FT_TRY(ft_run_next(run, &result, (int64_t)600e9, err));
        CHECK(result.step == taken + 1 && result.rate == 0.05);
        losses[taken++] = result.loss;
    }
    return ft_run_end(run, err);
}

/* What passes along the edge is sent and received by itself. */
static inline ft_status pipeline_add_copies(pipeline *p, int edge, ft_error *err)
{
    ft_plan *old = p->plan, changed = *old;
    ft_device_plan devices[MOST_DEVICES] = {{.warmup = {.n = 0}}};
    ft_action *lists[MOST_DEVICES];
    ft_text text = {0};
    const ft_edge *e = &old->edges[edge];
    for (int d = 0; d < old->n_devices; d++) {
        int n = 0;
        lists[d] = malloc((size_t)(3 * ft_plan_length(old, d) + 1) * sizeof(ft_action));
        for (int64_t i = 0; i < ft_plan_length(old, d); i++) {
            ft_action a = ft_plan_at(old, d, i), copy = a;
            copy.item = (int16_t)edge;
            copy.kind = a.stage == e->to ? FT_ACT_RECEIVE : FT_ACT_SEND;
            if (a.kind == e->to_kind && a.stage == e->to) lists[d][n++] = copy;
            lists[d][n++] = a;
            if (a.kind == e->from_kind && a.stage == e->from) lists[d][n++] = copy;
        }
        devices[d].warmup = (ft_action_list){.n = n, .actions = lists[d]};
    }
    changed.devices = devices;
    changed.body_repeats = changed.body_batches = 0;
    ft_status status = ft_plan_write(&changed, &text, err);
    if (status == FT_OK) status = ft_plan_parse(&p->plan, text.data, err);
    if (status == FT_OK) ft_plan_free(old);
    for (int d = 0; d < changed.n_devices; d++) free(lists[d]);
    ft_text_fini(&text);
    return status;
}

/* The plan moves to host memory and back all that may; over a slow link, so that packed copies are
 * made where that is asked for. */
static inline ft_status pipeline_swap(pipeline *p, ft_blueprint **b, bool makes, ft_error *err)
{
    const int64_t spare[MOST_DEVICES] = {0};
    const ft_fit fit = {.least = true, .spare = spare, .classes = ~0U, .makes = makes};
    ft_plan *moved = NULL, *old = p->plan;
    for (int d = 0; makes && d < p->cut.n_devices; d++) (*b)->copy_bytes_per_s[d] = 1;
    FT_TRY(ft_fit_plan(&moved, *b, &fit, err));
    ft_blueprint_free(*b);
    p->plan = moved;
    ft_status status = pipeline_draw(b, p, err);
    ft_plan_free(old);
    return status;
}

#endif
