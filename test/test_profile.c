/* test_profile.c - blocks of a graph, and what measuring them gives. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "memory/memory.h"
#include "profile/internal.h"

/* Four equal layers x = relu(W x) + x of a width, between an embedding and a loss; other tests have
 * other layers there. */
enum { LAYERS = 4, WIDTH = 24, ROWS = 6, WORDS = 50, FORWARD = 1 + 3 * LAYERS + 2 };

static bool add_layer(ft_graph *g, int layer, ft_value_id *x, ft_error *err)
{
    char name[32], scope[32];
    const ft_spec spec = {FT_F32, {2, {WIDTH, WIDTH}}};
    ft_value_id w, y;
    snprintf(name, sizeof name, "layer.%d.w", layer);
    snprintf(scope, sizeof scope, "body/layer.%d/ff", layer);
    return ft_graph_scope(g, scope, err) == FT_OK &&
           ft_graph_param(g, name, &spec, &w, err) == FT_OK &&
           ft_graph_add(g, ft_op_find("linear"), (ft_value_id[]){*x, w}, 2, NULL, &y, err) ==
               FT_OK &&
           ft_graph_add(g, ft_op_find("relu"), &y, 1, NULL, &y, err) == FT_OK &&
           ft_graph_add(g, ft_op_find("add"), (ft_value_id[]){y, *x}, 2, NULL, x, err) == FT_OK;
}

static ft_graph *make_graph_of(bool (*layer)(ft_graph *g, int number, ft_value_id *x,
                                             ft_error *err),
                               int n_layers, bool with_gradients)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    const ft_spec ids = {FT_I32, {1, {ROWS}}}, table = {FT_F32, {2, {WORDS, WIDTH}}};
    ft_value_id x, t, loss;
    bool ok =
        ft_graph_new(&g, &err) == FT_OK && ft_graph_scope(g, "embed", &err) == FT_OK &&
        ft_graph_input(g, "ids", &ids, &x, &err) == FT_OK &&
        ft_graph_param(g, "table", &table, &t, &err) == FT_OK &&
        ft_graph_add(g, ft_op_find("embedding"), (ft_value_id[]){x, t}, 2, NULL, &x, &err) == FT_OK;
    for (int i = 0; ok && i < n_layers; i++) ok = layer(g, i, &x, &err);
    ok = ok && ft_graph_scope(g, "head", &err) == FT_OK &&
         ft_graph_add(g, ft_op_find("mul"), (ft_value_id[]){x, x}, 2, NULL, &x, &err) == FT_OK &&
         ft_graph_add(g, ft_op_find("mean"), &x, 1, NULL, &loss, &err) == FT_OK &&
         ft_graph_output(g, "loss", loss, &err) == FT_OK &&
         (!with_gradients || ft_graph_grad(g, loss, &err) == FT_OK);
    if (ok) return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

static ft_graph *make_graph(bool with_gradients)
{
    return make_graph_of(add_layer, LAYERS, with_gradients);
}

typedef struct setting {
    ft_device devices[FT_MAX_DEVICES];
    double hypers[FT_MAX_HYPERS];
    ft_measure_options options;
} setting;

static void make_setting(setting *s, ft_graph *g, const char *devices, int busy)
{
    int n;
    const ft_optimizer *adamw = ft_optimizer_find("adamw");
    CHECK_STATUS(ft_devices_parse(devices, s->devices, &n, NULL), FT_OK);
    CHECK_STATUS(ft_optimizer_hypers(adamw, NULL, NULL, 0, s->hypers, NULL), FT_OK);
    s->options = (ft_measure_options){.graph = g,
                                      .device = s->devices,
                                      .n_busy = busy,
                                      .optimizer = adamw,
                                      .hypers = s->hypers,
                                      .recompute = true,
                                      .accumulate = true};
}

static void test_nodes_and_parameters(void)
{
    setting s;
    ft_profile *p = NULL;
    ft_error err = {FT_OK, ""};
    ft_graph *g = make_graph(true);
    if (!CHECK(g != NULL)) return;
    make_setting(&s, g, "cpu:2", 2);
    if (CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_OK)) {
        CHECK(p->n_nodes == ft_graph_n_nodes(g) && p->n_forward == FORWARD);
        CHECK(p->n_params == LAYERS + 1 && p->n_rounds >= 1);
        double sum = 0;
        for (int n = 0; n < p->n_nodes; n++) {
            CHECK(p->node_ns[n] >= 0 && p->node_ns[n] < 1e9 && p->output_bytes[n] > 0);
            sum += p->node_ns[n];
        }
        CHECK(sum > 0 && fabs(sum / p->pass_ns - 1) < 1e-9);
        for (int i = 0; i < p->n_params; i++) CHECK(p->update_ns[i] > 0 && p->norm_ns[i] >= 0);
        CHECK(p->copy_bytes_per_s > 1e6 && p->handoff_ns > 0);
        CHECK(p->output_bytes[1] == ROWS * WIDTH * 4);
    }
    ft_profile_free(p);
    ft_graph_free(g);
}

/* The n-th time it is asked. */
static bool ask_down(void *owner)
{
    int *left = owner;
    return --*left <= 0;
}

/* However long it was to take; both workers leave. */
static void test_cancelled(void)
{
    for (int n = 1; n < 40; n += 6) {
        setting s;
        ft_profile *p = NULL;
        ft_error err = {FT_OK, ""};
        int left = n;
        ft_graph *g = make_graph(true);
        if (!CHECK(g != NULL)) return;
        make_setting(&s, g, "cpu:2", 2);
        s.options.seconds = 1e6;
        s.options.cancelled = ask_down;
        s.options.owner = &left;
        CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_CANCELLED);
        CHECK(!p && left <= 0 && strcmp(err.message, "profile: stopped") == 0);
        ft_graph_free(g);
    }
}

/* embed, four layers, head: the first layer has no other before it, so all four are wired alike. */
static void test_equal_blocks_are_measured_once(void)
{
    setting s;
    ft_profile *p = NULL;
    ft_graph *g = make_graph(true);
    if (!CHECK(g != NULL)) return;
    make_setting(&s, g, "cpu:1", 1);
    if (CHECK_STATUS(ft_profile_measure(&p, &s.options, NULL), FT_OK)) {
        CHECK(p->n_blocks == LAYERS + 2);
        CHECK(p->n_distinct == 3);
        for (int layer = 1; layer < LAYERS; layer++)
            for (int i = 0; i < 3; i++) CHECK(p->node_ns[1 + 3 * layer + i] == p->node_ns[1 + i]);
        CHECK(p->pack_ns[1] == p->pack_ns[4]);
    }
    ft_profile_free(p);
    ft_graph_free(g);
}

/* -- layers that are not equal ----------------------------------------------------------------- */

static bool add_node(ft_graph *g, const char *op, ft_value_id a, ft_value_id b, double attr,
                     ft_value_id *out, ft_error *err)
{
    const ft_value_id in[] = {a, b};
    return ft_graph_add(g, ft_op_find(op), in, b == FT_NO_VALUE ? 1 : 2, &attr, out, err) == FT_OK;
}

/* x * 2, x * 2, x * 3 */
static bool add_scale(ft_graph *g, int layer, ft_value_id *x, ft_error *err)
{
    static const char *const scopes[] = {"body/layer.0", "body/layer.1", "body/layer.2"};
    return ft_graph_scope(g, scopes[layer], err) == FT_OK &&
           add_node(g, "scale", *x, FT_NO_VALUE, layer < 2 ? 2 : 3, x, err);
}

/* a = b = tanh(x), then tanh(a) - tanh(b), the same, tanh(b) - tanh(a): the last one has the same
 * nodes in the same order, which read others. */
static bool add_difference(ft_graph *g, int layer, ft_value_id *x, ft_error *err)
{
    static const char *const scopes[] = {"body/layer.0", "body/layer.1", "body/layer.2"};
    ft_value_id a, b, c, d;
    return ft_graph_scope(g, scopes[layer], err) == FT_OK &&
           add_node(g, "tanh", *x, FT_NO_VALUE, 0, &a, err) &&
           add_node(g, "tanh", *x, FT_NO_VALUE, 0, &b, err) &&
           add_node(g, "tanh", layer < 2 ? a : b, FT_NO_VALUE, 0, &c, err) &&
           add_node(g, "tanh", layer < 2 ? b : a, FT_NO_VALUE, 0, &d, err) &&
           add_node(g, "sub", c, d, 0, x, err);
}

/* tanh(tanh(x)) of layer 1, tanh(x) of layer 10 */
static bool add_tanh(ft_graph *g, int node, ft_value_id *x, ft_error *err)
{
    static const char *const scopes[] = {"body/layer.1", "body/layer.1/ff", "body/layer.10"};
    return ft_graph_scope(g, scopes[node], err) == FT_OK &&
           add_node(g, "tanh", *x, FT_NO_VALUE, 0, x, err);
}

static bool add_square(ft_graph *g, int layer, ft_value_id *x, ft_error *err)
{
    (void)layer;
    return ft_graph_scope(g, "body/square", err) == FT_OK && add_node(g, "mul", *x, *x, 0, x, err);
}

static ft_profile *measure_layers(bool (*layer)(ft_graph *g, int number, ft_value_id *x,
                                                ft_error *err),
                                  int n_layers, bool whole)
{
    setting s;
    ft_profile *p = NULL;
    ft_error err = {FT_OK, ""};
    ft_graph *g = make_graph_of(layer, n_layers, true);
    if (!CHECK(g != NULL)) return NULL;
    make_setting(&s, g, "cpu:1", 1);
    s.options.whole = whole;
    if (!CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_OK))
        fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return p;
}

/* An attribute, who reads whom, and the number in a layer's name make another block. */
static void test_unequal_blocks_are_measured_apart(void)
{
    static const struct {
        bool (*layer)(ft_graph *g, int number, ft_value_id *x, ft_error *err);
        int n_blocks, n_distinct;
    } rows[] = {{add_scale, 5, 4}, {add_difference, 5, 4}, {add_tanh, 4, 4}};
    for (int i = 0; i < 3; i++) {
        ft_profile *p = measure_layers(rows[i].layer, 3, false);
        CHECK(p && p->n_blocks == rows[i].n_blocks && p->n_distinct == rows[i].n_distinct);
        ft_profile_free(p);
    }
}

/* x * x keeps x for its gradient: each one more needs the place of one more tensor. */
static void test_saved_values_have_places_of_their_own(void)
{
    int64_t bytes[3] = {0};
    for (int n = 0; n < 3; n++) {
        ft_profile *p = measure_layers(add_square, 2 + n, true);
        if (p) bytes[n] = p->whole_bytes;
        ft_profile_free(p);
    }
    CHECK(bytes[1] - bytes[0] == ft_memory_round(ROWS * WIDTH * (int64_t)sizeof(float)));
    CHECK(bytes[2] - bytes[1] == bytes[1] - bytes[0]);
}

/* As many nodes either way: not the same time in a test, but no multiple of it. Means of so short a
 * time may have others' in them, which is not so each time. */
static bool takes_as_long_whole(const setting *s)
{
    bool alike = false;
    for (int tries = 0; tries < 20 && !alike; tries++) {
        ft_profile *p = NULL;
        if (!CHECK_STATUS(ft_profile_measure(&p, &s->options, NULL), FT_OK)) return false;
        alike = p->whole_ns > p->pass_ns / 5 && p->whole_ns < 5 * p->pass_ns;
        ft_profile_free(p);
    }
    return alike;
}

/* One worker of so many, by its number: the stop where it begins when it knows what a round takes.
 */
static void check_first_stop(setting *s, const bench *b, block_samples *const *notes, int number)
{
    const crew_part part = {b, 0, b->n_blocks, notes};
    float *noise = worker_noise();
    worker w = {.parts = &part, .n_parts = 1, .noise = noise, .number = number, .part = &part};
    CHECK(noise != NULL);
    if (CHECK_STATUS(worker_make(&w, NULL), FT_OK)) {
        const worker_tour *tour = &w.tours[0];
        CHECK(tour->n > b->n_blocks && !tour->chosen && tour->first == 0);
        CHECK_STATUS(worker_passes(&w, NULL), FT_OK);
        double all = 0, before = 0;
        for (int i = 0; i < tour->n; i++) all += (double)tour->stops[i].ns;
        int first = 0;
        while (before < all * number / s->options.n_busy) before += (double)tour->stops[first++].ns;
        CHECK(tour->chosen && tour->first == first % tour->n);
        CHECK((first > 0) == (number > 0));
        first = tour->first;
        for (int i = 0; i < 3; i++) CHECK_STATUS(worker_passes(&w, NULL), FT_OK);
        CHECK(tour->first == first); /* it stays there */
    }
    worker_free(&w);
    ft_free(noise);
}

/* Two workers are half a round from each other, so that both are not in the same blocks. */
static void test_workers_are_apart(void)
{
    setting s;
    profile_cut cut;
    bench b;
    block_samples *notes[2] = {NULL, NULL}; /* nothing is noted */
    ft_graph *g = make_graph(true);
    ft_arena *arena = ft_arena_new();
    if (!CHECK(g && arena)) return;
    make_setting(&s, g, "cpu:2", 2);
    CHECK_STATUS(profile_cut_graph(&cut, &s.options, false, arena, NULL), FT_OK);
    if (CHECK_STATUS(bench_new(&b, &s.options, &cut, arena, NULL), FT_OK)) {
        notes[0] = notes[1] = ft_arena_array(arena, b.n_blocks, sizeof(block_samples));
        for (int i = 0; i < b.n_blocks; i++)
            for (int pass = 0; pass < PASS_COUNT; pass++)
                notes[0][i].node[pass] =
                    ft_arena_array(arena, b.blocks[i].n_nodes[pass] + 1, sizeof(samples));
        for (int number = 0; number < 2; number++) check_first_stop(&s, &b, notes, number);
    }
    bench_free(&b);
    ft_arena_free(arena);
    ft_graph_free(g);
}

static void test_whole(void)
{
    setting s;
    ft_profile *p = NULL;
    ft_graph *g = make_graph(true);
    if (!CHECK(g != NULL)) return;
    make_setting(&s, g, "cpu:2", 2);
    s.options.whole = true;
    if (CHECK_STATUS(ft_profile_measure(&p, &s.options, NULL), FT_OK)) {
        CHECK(p->n_blocks == LAYERS + 2 && p->n_distinct == 3);
        CHECK(takes_as_long_whole(&s));
        CHECK(p->whole_bytes > 4 * (int64_t)sizeof(float) * LAYERS * WIDTH * WIDTH);
    }
    ft_profile_free(p);
    s.devices[0].memory_bytes = 64 << 10; /* a block at a time */
    if (CHECK_STATUS(ft_profile_measure(&p, &s.options, NULL), FT_OK))
        CHECK(p->whole_ns == 0 && p->whole_bytes > 64 << 10 && p->pass_ns > 0);
    ft_profile_free(p);
    ft_graph_free(g);
}

static void test_blocks_that_do_not_fit_together(void)
{
    setting s;
    ft_profile *p = NULL;
    ft_error err = {FT_OK, ""};
    ft_graph *g = make_graph(true);
    if (!CHECK(g != NULL)) return;
    make_setting(&s, g, "cpu:1", 1);
    s.devices[0].memory_bytes = 64 << 10; /* the four layers' copies alone take more */
    CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_OK);
    ft_profile_free(p);
    s.devices[0].memory_bytes = 100;
    CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_NOMEM);
    CHECK(p == NULL && strstr(err.message, "block 'embed' takes") != NULL);
    ft_graph_free(g);
}

static void test_refusals(void)
{
    setting s;
    ft_profile *p;
    ft_error err;
    ft_graph *g = make_graph(true), *forward = make_graph(false);
    if (!CHECK(g && forward)) return;
    make_setting(&s, g, "sim:1x11GB", 1);
    CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_INVALID);
    CHECK(strstr(err.message, "sim:0 card cannot be measured") != NULL);
    make_setting(&s, forward, "cpu:1", 1);
    CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_INVALID);
    CHECK(strstr(err.message, "no gradients") != NULL);
    make_setting(&s, g, "cpu:1", 0);
    CHECK_STATUS(ft_profile_measure(&p, &s.options, &err), FT_INVALID);
    CHECK(strstr(err.message, "0 busy devices") != NULL);
    CHECK_STATUS(ft_profile_rates(&s.devices[0], 0, &err), FT_INVALID);
    ft_graph_free(g);
    ft_graph_free(forward);
}

static void test_descriptions(void)
{
    ft_text first = {0}, second = {0};
    ft_graph *g = make_graph(true);
    if (!CHECK(g != NULL)) return;
    ft_profile_describe(g, 1, &first);
    ft_profile_describe(g, 4, &second);
    CHECK(strncmp(first.data, "linear f32(6, 24) f32(24, 24)", 29) == 0);
    CHECK(strcmp(first.data, second.data) == 0);
    ft_text_fini(&first);
    ft_text_fini(&second);
    ft_graph_free(g);
}

static void test_rates(void)
{
    ft_device devices[FT_MAX_DEVICES];
    int n;
    CHECK_STATUS(ft_devices_parse("cpu:2", devices, &n, NULL), FT_OK);
    CHECK_STATUS(ft_profile_rates(devices, 2, NULL), FT_OK);
    CHECK(devices[0].flops_per_s > 1e7 && devices[0].bytes_per_s > 1e6);
    CHECK(devices[0].link_bytes_per_s > 1e6 && devices[0].link_latency_ns >= 0);
}

/* Every allocation fails once; nothing is left behind. */
static void test_out_of_memory(void)
{
    setting s;
    ft_profile *p = NULL;
    ft_error err;
    ft_graph *g = make_graph(true);
    if (!CHECK(g != NULL)) return;
    make_setting(&s, g, "cpu:1", 1);
    ft_status status = FT_NOMEM;
    for (int64_t n = 1; status == FT_NOMEM && n < 3000; n += n < 100 ? 1 : 7) {
        int64_t live = ft_alloc_live();
        ft_graph *fresh = make_graph(true);
        s.options.graph = fresh;
        ft_alloc_fail_after(n);
        status = ft_profile_measure(&p, &s.options, &err);
        ft_alloc_fail_after(0);
        ft_profile_free(p);
        ft_graph_free(fresh);
        CHECK(ft_alloc_live() == live);
    }
    CHECK(status == FT_OK);
    ft_graph_free(g);
}

int main(void)
{
    RUN(test_nodes_and_parameters);
    RUN(test_cancelled);
    RUN(test_equal_blocks_are_measured_once);
    RUN(test_unequal_blocks_are_measured_apart);
    RUN(test_saved_values_have_places_of_their_own);
    RUN(test_workers_are_apart);
    RUN(test_whole);
    RUN(test_blocks_that_do_not_fit_together);
    RUN(test_refusals);
    RUN(test_descriptions);
    RUN(test_rates);
    RUN(test_out_of_memory);
    return check_report();
}
