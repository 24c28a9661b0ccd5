/* test/test_blueprint_costs.c - what a small chain of three stages takes, and what it sends. */
#include "base/alloc.h"
#include "engine_case.h"
#include "program/roofline.h"

/* A node takes its arithmetic or its traffic, whatever is longer; what stays takes no time. */
static void test_modelled_costs(void)
{
    enum { SUB = 5 };
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:1", "1f1b")) return;
    ft_device slow = {.flops_per_s = 1e15, .bytes_per_s = 1e6}, fast = slow;
    fast.bytes_per_s *= 2;
    double traffic = 3 * ROWS * OUT * (double)sizeof(float); /* two are read, one is written */
    CHECK_NEAR(ft_node_time_ns(p.g, SUB, &slow) - ft_node_time_ns(p.g, SUB, &fast),
               1e9 * traffic / 2e6, 1e-6);
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_plan *plan = ft_blueprint_plan(b);
    for (int e = 0; e < plan->n_edges; e++) CHECK(ft_blueprint_costs(b)->transfer_ns[e] == 0);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

enum { MOST_NODES = 64 };

/* Work that takes no time but for copies: a byte takes 1 us. */
static const double none[MOST_NODES];
static const ft_work_costs copies_alone = {
    .node_ns = none, .pack_ns = none, .update_ns = none, .norm_ns = none, .copy_bytes_per_s = 1e6};

/* Measured costs alone: a value between devices is copied by its maker, and by its user where that
 * keeps it, at their own rates; on one device by such a user alone. A packed weight belongs to the
 * update of its owner and to the adoption of another stage. */
static void test_measured_costs(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    double pack_ns[MOST_NODES] = {[0] = 100, [2] = 30, [3] = 7, [4] = 2}; /* the products */
    ft_work_costs costs[3];
    const ft_work_costs *by_device[3] = {&costs[0], &costs[1], &costs[2]};
    CHECK(ft_graph_n_nodes(p.g) <= MOST_NODES);
    for (int d = 0; d < 3; d++)
        costs[d] = (ft_work_costs){.node_ns = none,
                                   .pack_ns = pack_ns,
                                   .update_ns = none,
                                   .norm_ns = none,
                                   .copy_bytes_per_s = 1e6 * (d + 1),
                                   .handoff_ns = 5};
    p.options.costs = by_device;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_stage_costs *c = ft_blueprint_costs(b);
    double us = ROWS * HIDDEN * (double)sizeof(float); /* one value, at a byte per us */
    const double forward[] = {us, us / 2 + us / 2, us / 3}, backward[] = {0, us / 2, us / 3};
    for (int s = 0; s < 3; s++) {
        CHECK_NEAR(c->forward_ns[s], 1000 * forward[s], 1e-6);
        CHECK_NEAR(c->backward_ns[s], 1000 * backward[s], 1e-6);
        CHECK(b->copy_bytes_per_s[s] == 1e6 * (s + 1)); /* of moves, when the costs are gone */
    }
    /* w2 belongs to stage 0, which reads it as stage 1 does */
    double adopts = 1e9 * 2 * HIDDEN * HIDDEN * sizeof(float) / p.devices[1].bytes_per_s;
    CHECK_NEAR(c->update_ns[0], 130, 1e-9);
    CHECK_NEAR(c->update_ns[1], 0, 1e-9);
    CHECK_NEAR(c->update_ns[2], 2, 1e-9);
    CHECK_NEAR(c->adopt_ns[0], 0, 1e-9);
    CHECK_NEAR(c->adopt_ns[1], 7 + adopts, 1e-9);
    CHECK_NEAR(c->adopt_ns[2], 0, 1e-9);
    /* stage 1 reads its term and writes it to stage 0, which reads two and writes their sum */
    CHECK_NEAR(c->reduce_ns[0], adopts / 2 * 3, 1e-6);
    CHECK_NEAR(c->reduce_ns[1], adopts, 1e-6);
    CHECK_NEAR(c->reduce_ns[2], 0, 1e-9);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* loss = mean(tanh(E tanh(E[x]))): E is read by rows in the first stage, and whole in the last. */
static ft_graph *make_tied_graph(void)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    ft_value_id e, v;
    const ft_spec x = {FT_I32, {1, {ROWS}}}, e_spec = {FT_F32, {2, {HIDDEN, HIDDEN}}};
    const ft_op *tanh_op = ft_op_find("tanh");
    bool ok =
        ft_graph_new(&g, &err) == FT_OK && ft_graph_input(g, "x", &x, &v, &err) == FT_OK &&
        ft_graph_param(g, "e", &e_spec, &e, &err) == FT_OK &&
        ft_graph_add(g, ft_op_find("embedding"), (ft_value_id[]){v, e}, 2, NULL, &v, &err) == FT_OK;
    for (int i = 0; ok && i < 3; i++) ok = ft_graph_add(g, tanh_op, &v, 1, NULL, &v, &err) == FT_OK;
    ok = ok &&
         ft_graph_add(g, ft_op_find("linear"), (ft_value_id[]){v, e}, 2, NULL, &v, &err) == FT_OK;
    for (int i = 0; ok && i < 2; i++) ok = ft_graph_add(g, tanh_op, &v, 1, NULL, &v, &err) == FT_OK;
    ok = ok && ft_graph_add(g, ft_op_find("mean"), &v, 1, NULL, &v, &err) == FT_OK &&
         ft_graph_output(g, "loss", v, &err) == FT_OK && ft_graph_grad(g, v, &err) == FT_OK;
    if (CHECK(ok && ft_graph_n_forward(g) == NODES)) return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

/* An owner whose own term is by rows copies the whole one that it is sent, and clears it later. */
static void test_measured_costs_of_terms_by_rows(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    ft_graph_free(p.g);
    if (!(p.g = make_tied_graph())) return;
    const ft_work_costs *by_device[3] = {&copies_alone, &copies_alone, &copies_alone};
    p.options.costs = by_device;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_stage_costs *c = ft_blueprint_costs(b);
    double pass = 1e9 * HIDDEN * HIDDEN * sizeof(float) / p.devices[0].bytes_per_s;
    CHECK_NEAR(c->reduce_ns[0], 3 * pass, 1e-6);
    CHECK_NEAR(c->reduce_ns[1], 0, 1e-9);
    CHECK_NEAR(c->reduce_ns[2], 2 * pass, 1e-6);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

enum { WORDS = 8 * MICRO * ROWS };

/* loss = mean(tanh(E[y] + tanh(E[x]))): E is read by rows in the first stage and in the last. */
static ft_graph *make_graph_of_rows(void)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    ft_value_id e, y, v, w;
    const ft_spec ids = {FT_I32, {1, {ROWS}}}, e_spec = {FT_F32, {2, {WORDS, HIDDEN}}};
    const ft_op *embedding = ft_op_find("embedding"), *tanh_op = ft_op_find("tanh");
    bool ok = ft_graph_new(&g, &err) == FT_OK && ft_graph_input(g, "x", &ids, &v, &err) == FT_OK &&
              ft_graph_input(g, "y", &ids, &y, &err) == FT_OK &&
              ft_graph_param(g, "e", &e_spec, &e, &err) == FT_OK &&
              ft_graph_add(g, embedding, (ft_value_id[]){v, e}, 2, NULL, &v, &err) == FT_OK;
    for (int i = 0; ok && i < 3; i++) ok = ft_graph_add(g, tanh_op, &v, 1, NULL, &v, &err) == FT_OK;
    ok = ok && ft_graph_add(g, embedding, (ft_value_id[]){y, e}, 2, NULL, &w, &err) == FT_OK &&
         ft_graph_add(g, ft_op_find("add"), (ft_value_id[]){v, w}, 2, NULL, &v, &err) == FT_OK &&
         ft_graph_add(g, tanh_op, &v, 1, NULL, &v, &err) == FT_OK &&
         ft_graph_add(g, ft_op_find("mean"), &v, 1, NULL, &v, &err) == FT_OK &&
         ft_graph_output(g, "loss", v, &err) == FT_OK && ft_graph_grad(g, v, &err) == FT_OK;
    if (CHECK(ok && ft_graph_n_forward(g) == NODES)) return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

static const ft_edge *find_term_edge(const ft_plan *plan)
{
    for (int e = 0; e < plan->n_edges; e++)
        if (plan->edges[e].from == 2 && plan->edges[e].to == 0 &&
            plan->edges[e].from_kind == FT_ACT_REDUCE)
            return &plan->edges[e];
    return NULL;
}

/* Of a gradient by rows those pass that the ids of a batch may pick: read and written there, read
 * and added where they are summed. Where they are as much as all of it, or cards know no rows, all
 * of it passes. */
static void check_rows_that_pass(const char *devices, int micro, int64_t rows)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    const ft_work_costs *by_device[3] = {&copies_alone, &copies_alone, &copies_alone};
    const int64_t row = HIDDEN * (int64_t)sizeof(float), all = WORDS * row;
    int64_t passes = rows ? ft_picked_bytes(rows, HIDDEN) : all;
    if (!pipeline_init(&p, devices, "1f1b")) return;
    ft_graph_free(p.g);
    if (!(p.g = make_graph_of_rows())) return;
    p.cut.micro_batches = micro;
    p.options.costs = by_device;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_edge *edge = find_term_edge(ft_blueprint_plan(b));
    const ft_stage_costs *c = ft_blueprint_costs(b);
    double per_byte = 1e9 / p.devices[0].bytes_per_s;
    CHECK(passes <= all && edge && edge->bytes == passes);
    CHECK_NEAR(c->reduce_ns[0], per_byte * (double)(rows ? 3 * rows * row : all), 1e-6);
    CHECK_NEAR(c->reduce_ns[2], per_byte * 2 * (double)passes, 1e-6);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static void test_rows_that_pass(void)
{
    check_rows_that_pass("cpu:3", MICRO, (int64_t)MICRO * ROWS);
    check_rows_that_pass("cpu:3", 7 * MICRO, 0);
    check_rows_that_pass("sim:3x8GB", MICRO, 0);
}

/* On one device a value is made and read in its slot: what a user keeps is copied, once. */
static void test_measured_costs_of_one_device(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:1", "1f1b")) return;
    const ft_work_costs *by_device[1] = {&copies_alone};
    p.options.costs = by_device;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_stage_costs *c = ft_blueprint_costs(b);
    double us = ROWS * HIDDEN * (double)sizeof(float);
    for (int s = 0; s < 3; s++) {
        CHECK_NEAR(c->forward_ns[s], s ? 1000 * us : 0, 1e-6);
        CHECK_NEAR(c->backward_ns[s], 0, 1e-6);
    }
    ft_blueprint_free(b);
    pipeline_free(&p);
}

int main(void)
{
    RUN(test_modelled_costs);
    RUN(test_measured_costs);
    RUN(test_measured_costs_of_terms_by_rows);
    RUN(test_rows_that_pass);
    RUN(test_measured_costs_of_one_device);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
