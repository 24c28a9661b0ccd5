/* test/test_blueprint.c - blueprints of a small chain of three stages: what they decide, and
 * what they refuse. */
#include <string.h>

#include "blueprint/actions.h"
#include "proof/proof.h"
#include "state/places.h"
#include "blueprint/states.h"
#include "base/alloc.h"
#include "engine_case.h"
#include "simulate/simulate.h"

static void test_blueprint(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    const ft_plan *plan = ft_blueprint_plan(b);
    CHECK(plan->n_stages == 3 && plan->n_devices == 3 && plan->n_batches == 10);
    CHECK(plan->in_flight[0] == 3 && plan->in_flight[1] == 2 && plan->in_flight[2] == 1);
    CHECK(!plan->recompute[0] && plan->recompute[1]);
    CHECK(plan->n_nodes == NODES);
    CHECK(memcmp(plan->node_stage, p.node_stage, sizeof p.node_stage) == 0);
    CHECK(ft_blueprint_costs(b)->forward_ns[0] > 0 && ft_blueprint_costs(b)->backward_ns[2] > 0);
    /* Stage 0 adds the other term of w2 (reads two, writes one) and reads w1 and w2 for the norm.
     */
    double bytes = 4 * (3 * HIDDEN * HIDDEN + HIDDEN * IN + HIDDEN * HIDDEN);
    CHECK_NEAR(ft_blueprint_costs(b)->reduce_ns[0], 1e9 * bytes / p.devices[0].bytes_per_s, 1e-9);
    /* w2 is in two stages: its term goes to the owner, the new values come back. */
    bool term = false, weight = false;
    for (int e = 0; e < plan->n_edges; e++) {
        const ft_edge *edge = &plan->edges[e];
        bool w2 = edge->bytes == HIDDEN * HIDDEN * (int64_t)sizeof(float);
        term |= w2 && edge->from == 1 && edge->to == 0 && edge->from_kind == FT_ACT_REDUCE;
        weight |= w2 && edge->from == 0 && edge->to == 1 && edge->to_kind == FT_ACT_ADOPT;
    }
    CHECK(term && weight);
    ft_plan *leg = NULL;
    CHECK_STATUS(ft_plan_cut(&leg, ft_blueprint_plan(b), 2, &err), FT_OK);
    CHECK(leg && leg->n_batches == 2);
    ft_plan_free(leg);
    CHECK_STATUS(ft_blueprint_check_memory(b, &err), FT_OK);
    ft_blueprint_free(b);

    p.devices[1].memory_bytes = ft_memory_round(1);
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    CHECK_STATUS(ft_blueprint_check_memory(b, &err), FT_INFEASIBLE);
    CHECK(strstr(err.message, "device cpu:1 needs"));
    CHECK(strstr(err.message, "its budget is") != NULL);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

enum { MOST_GUARDS = 512 };

typedef struct guard_list {
    ft_guard of[MOST_GUARDS];
    int n;
} guard_list;

static void note_guard(void *user, const ft_guard *guard)
{
    guard_list *list = user;
    if (CHECK(list->n < MOST_GUARDS)) list->of[list->n++] = *guard;
}

/* Every place ends at its own guard: no two end together, and none outside its class. Edges have
 * as many slots as the plan says where their receiver is. */
static void test_places_are_apart(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "async"};
    for (int i = 0; i < 3; i++) {
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        static guard_list guards;
        int buffers = 0, wanted = 2; /* what stages 0 and 2 read of the batch */
        if (!pipeline_init(&p, "cpu:3", schedules[i])) return;
        if (!CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK)) return;
        guards.n = 0;
        places_visit(b, note_guard, &guards);
        for (int g = 0; g < guards.n; g++) {
            const ft_guard *one = &guards.of[g];
            const ft_block_layout *block = &b->blocks[one->device];
            int64_t at = one->at - block->begin[one->class];
            CHECK(at > 0 && at + FT_GUARD_BYTES <= block->bytes[one->class]);
            for (int k = 0; k < g; k++)
                CHECK(guards.of[k].device != one->device || guards.of[k].at != one->at);
            buffers += one->class == FT_MEMORY_BUFFERS;
        }
        wanted *= b->batch_slots;
        for (int e = 0; e < b->n_edges; e++)
            if (b->edges[e].bytes > 0) wanted += b->edges[e].slots;
        CHECK(buffers == wanted);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
}

/* Inputs are where they are read: x in stage 0, t in stage 2; both stages on one device, both. */
static void test_inputs_are_where_they_are_read(void)
{
    static const struct {
        const char *devices;
        bool x[3], t[3];
    } rows[] = {{"cpu:3", {true, false, false}, {false, false, true}},
                {"cpu:2", {true, false}, {true, false}},
                {"cpu:1", {true}, {true}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        if (!pipeline_init(&p, rows[i].devices, "1f1b")) return;
        if (!CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK)) return;
        for (int d = 0; d < b->cut.n_devices; d++) {
            const ft_block_layout *block = &b->blocks[d];
            int64_t x = ft_memory_round(MICRO * ROWS * IN * 4) * rows[i].x[d];
            int64_t t = ft_memory_round(MICRO * ROWS * OUT * 4) * rows[i].t[d];
            CHECK(block->input_at[0] == (rows[i].x[d] ? 0 : -1));
            CHECK(block->input_at[1] == (rows[i].t[d] ? x : -1));
            CHECK(block->batch_slot_bytes == ft_place_bytes(x + t));
        }
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
}

/* Replicas are joined where a micro-batch passes from one to the other, and those that send to one
 * share its slots; the parameters of a stage are dealt to its replicas by their bytes. */
static void test_replicas(void)
{
    static const int replicas[] = {4, 2, 1}, ends[][2] = {{0, 4}, {1, 5}, {2, 4}, {3, 5}};
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    int n = 0;
    if (!pipeline_init(&p, "cpu:3", "1f1b") || !pipeline_replicate(&p, replicas, 3)) return;
    if (!CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK)) return;
    CHECK(b->seating.n_seats == 7 && b->plan.n_stages == 3);
    for (int e = 0; e < b->n_edges; e++) {
        if (b->cargoes[e].edge != 0) continue;
        if (!CHECK(n < 4)) break;
        CHECK(b->edges[e].from == ends[n][0] && b->edges[e].to == ends[n][1]);
        CHECK(b->cargoes[e].slots_of == n % 2);
        n++;
    }
    CHECK(n == 4 && b->plan_edges[0].slots == 4);
    /* w2 is in stages 0 and 1, w1 in stage 0: the larger one goes first, the next to another */
    CHECK(b->params[1].owner == 0 && b->params[0].owner == 1 && b->params[2].owner == 6);
    /* each replica of stages 0 and 1 sends its term of w2, those of stage 0 that of w1 */
    int64_t w1 = HIDDEN * IN * 4, w2 = HIDDEN * HIDDEN * 4, sent = 0;
    for (int e = 0; e < b->n_edges; e++)
        if (b->edges[e].from_kind == FT_ACT_EXCHANGE) sent += b->edges[e].bytes;
    CHECK(sent == (3 + 2) * w2 + 3 * w1);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* Replicas that predict know the optimizer's state of all weights of their stage: what others own
 * comes with their weights, and lies with the versions. */
static void test_replicas_that_predict(void)
{
    static const int replicas[] = {2, 1, 1};
    int64_t bytes[2] = {0}, state[2] = {0};
    for (int predicts = 0; predicts < 2; predicts++) {
        pipeline p;
        ft_error err = {FT_OK, ""};
        ft_blueprint *b = NULL;
        if (!pipeline_init(&p, "cpu:4", "async") || !pipeline_replicate(&p, replicas, 3)) return;
        p.weights = predicts ? FT_WEIGHTS_PREDICT : FT_WEIGHTS_LATEST;
        if (!CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK)) {
            pipeline_free(&p);
            return;
        }
        for (int e = 0; e < b->n_edges; e++)
            if (b->edges[e].from_kind == FT_ACT_UPDATE && b->edges[e].from < 2 &&
                b->edges[e].to < 2)
                bytes[predicts] += b->edges[e].bytes;
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < b->seats[s].n_params; i++) {
                const ft_seat_param *sp = &b->seats[s].params[i];
                int64_t own = ft_blueprint_state_bytes(b, sp->param);
                CHECK(sp->with_state == (predicts && !sp->owned));
                state[predicts] += sp->with_state ? own : 0;
            }
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
    CHECK(state[0] == 0 && state[1] > 0 && bytes[0] > 0 && bytes[1] == bytes[0] + state[1]);
}

/* loss = mean(W2 relu(W1 x)), with nodes behind it that only make another output. */
static ft_graph *make_graph_with_a_tail(void)
{
    ft_error err = {FT_OK, ""};
    ft_graph *g = NULL;
    ft_value_id w1, w2, v, h, loss;
    const ft_spec x = {FT_F32, {2, {ROWS, IN}}}, w1_spec = {FT_F32, {2, {HIDDEN, IN}}};
    const ft_spec w2_spec = {FT_F32, {2, {HIDDEN, HIDDEN}}};
    const ft_op *linear = ft_op_find("linear"), *tanh_op = ft_op_find("tanh");
    bool ok = ft_graph_new(&g, &err) == FT_OK && ft_graph_input(g, "x", &x, &v, &err) == FT_OK &&
              ft_graph_param(g, "w1", &w1_spec, &w1, &err) == FT_OK &&
              ft_graph_param(g, "w2", &w2_spec, &w2, &err) == FT_OK &&
              ft_graph_add(g, linear, (ft_value_id[]){v, w1}, 2, NULL, &v, &err) == FT_OK &&
              ft_graph_add(g, ft_op_find("relu"), &v, 1, NULL, &v, &err) == FT_OK &&
              ft_graph_add(g, linear, (ft_value_id[]){v, w2}, 2, NULL, &h, &err) == FT_OK &&
              ft_graph_add(g, ft_op_find("mean"), &h, 1, NULL, &loss, &err) == FT_OK &&
              ft_graph_output(g, "loss", loss, &err) == FT_OK &&
              ft_graph_add(g, ft_op_find("mean"), &h, 1, NULL, &v, &err) == FT_OK;
    for (int i = 0; ok && i < 3; i++) ok = ft_graph_add(g, tanh_op, &v, 1, NULL, &v, &err) == FT_OK;
    if (CHECK(ok && ft_graph_output(g, "tail", v, &err) == FT_OK &&
              ft_graph_grad(g, loss, &err) == FT_OK && ft_graph_n_forward(g) == NODES))
        return g;
    fprintf(stderr, "%s\n", err.message);
    ft_graph_free(g);
    return NULL;
}

/* The loss is read when its stage's forward is done: what comes behind it has other places. */
static void test_the_loss_stays_until_it_is_read(void)
{
    enum { LOSS = 3 };
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
    ft_graph_free(p.g);
    p.g = make_graph_with_a_tail();
    if (!p.g) return;
    const int stages[NODES] = {0, 0, 1, 2, 2, 2, 2, 2};
    memcpy(p.node_stage, stages, sizeof stages);
    if (CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK)) {
        ft_program *program;
        CHECK_STATUS(ft_blueprint_compile(b, 2, 0, FT_ACT_FORWARD, &program, &err), FT_OK);
        ft_place loss = ft_program_place(program, ft_graph_node(p.g, LOSS)->out);
        CHECK(loss.home == FT_HOME_WORK);
        for (int n = LOSS + 1; n < NODES; n++) {
            ft_place other = ft_program_place(program, ft_graph_node(p.g, n)->out);
            CHECK(other.home == FT_HOME_WORK && other.at != loss.at);
        }
        ft_program_free(program);
    } else
        fprintf(stderr, "%s\n", err.message);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

/* The first half of a backward has what other stages wait for, the second what is left; only what
 * both need is held, and a half takes the time of its nodes. */
static void test_halves(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    if (!pipeline_init(&p, "cpu:3", "zero-bubble")) return;
    CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
    for (int s = 0; s < 3; s++) {
        const ft_seat_layout *seat = &b->seats[s];
        const ft_stage *cut = seat->cut[0];
        int first = seat->n_nodes[FT_ACT_BACKWARD_INPUT];
        int second = seat->n_nodes[FT_ACT_BACKWARD_WEIGHT], i = 0, g = 0;
        for (int k = 0; k < cut->n_backward; k++) {
            bool is_first = i < first && seat->nodes[FT_ACT_BACKWARD_INPUT][i] == cut->backward[k];
            bool is_second =
                g < second && seat->nodes[FT_ACT_BACKWARD_WEIGHT][g] == cut->backward[k];
            CHECK(is_first != is_second);
            i += is_first;
            g += is_second;
        }
        CHECK(i == first && g == second && second > 0);
        CHECK(s == 0 ? first == 0 : first > 0); /* nobody waits for stage 0 */
        CHECK(seat->n_held >= 1 && seat->n_held_slots == s + 1 && !seat->nodes[FT_ACT_BACKWARD]);
        for (int t = 0; t < cut->n_grads; t++) { /* of products: by the second half alone */
            ft_value_id term = ft_graph_grad_term(p.g, cut->grads[t])->value;
            for (int h = 0; h < seat->n_held; h++) CHECK(seat->held[h] != term);
        }
        const ft_stage_costs *costs = ft_blueprint_costs(b);
        CHECK_NEAR(costs->backward_ns[s],
                   costs->backward_input_ns[s] + costs->backward_weight_ns[s], 1e-6);
        CHECK((costs->backward_input_ns[s] > 0) == (s > 0) && costs->backward_weight_ns[s] > 0);
    }
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static int64_t simulated_ns(const ft_blueprint *b)
{
    ft_error err = {FT_OK, ""};
    ft_timeline *timeline = NULL;
    const ft_simulation options = {.costs = ft_blueprint_costs(b),
                                   .machine = ft_blueprint_machine(b)};
    CHECK_STATUS(ft_plan_simulate_on(&timeline, ft_blueprint_plan(b), &options, &err), FT_OK);
    int64_t end = timeline ? ft_timeline_end_ns(timeline) : -1;
    ft_timeline_free(timeline);
    return end;
}

/* Links of described devices price transfers while they are idle, and are shared in simulations;
 * the caller's may go. */
static void test_machine(void)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    int64_t end[2] = {0};
    for (int shared = 0; shared < 2; shared++) {
        ft_blueprint *b = NULL;
        ft_cable links[3];
        for (int d = 0; d < 3; d++)
            links[d] =
                (ft_cable){.a = d, .b = 3, .bytes_per_s = 1e6, .latency_ns = 50, .duplex = !shared};
        const ft_machine machine = {.n_devices = 3, .n_places = 4, .n_links = 3, .links = links};
        if (!pipeline_init(&p, "cpu:3", "1f1b")) return;
        p.cut.machine = &machine;
        CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK);
        memset(links, 0, sizeof links);
        const ft_plan *plan = ft_blueprint_plan(b);
        for (int e = 0; e < plan->n_edges; e++)
            CHECK_NEAR(ft_blueprint_costs(b)->transfer_ns[e],
                       100 + 1000 * (double)plan->edges[e].bytes, 1e-6);
        end[shared] = simulated_ns(b);
        ft_blueprint_free(b);
        pipeline_free(&p);
    }
    CHECK(end[0] > 0 && end[1] > end[0]);
}

static void refused(pipeline *p, const char *words)
{
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    CHECK_STATUS(pipeline_draw(&b, p, &err), FT_INVALID);
    if (!CHECK(!b && strstr(err.message, words))) fprintf(stderr, "%s\n", err.message);
    ft_blueprint_free(b);
    pipeline_free(p);
}

static void test_contradictions(void)
{
    pipeline p;
    pipeline_init(&p, "cpu:3", "async");
    p.options.clip = 1;
    refused(&p, "in this plan ('async') stage 1 updates without those of stage 0: expected an edge "
                "R0>U1, or R0>N1");
    pipeline_init(&p, "cpu:2", "gpipe");
    p.stage_device[1] = 2;
    refused(&p, "stage 1 is on device 2, there are 2");
    const ft_machine machine = {.n_devices = 3, .n_places = 3};
    pipeline_init(&p, "cpu:2", "gpipe");
    p.cut.machine = &machine;
    refused(&p, "a machine of 3 devices, there are 2");
    pipeline_init(&p, "cpu:3", "gpipe");
    p.cut.machine = &machine;
    refused(&p, "there is no way from device 0 to device 1");
    pipeline_init(&p, "cpu:2", "gpipe");
    p.cut.micro_batches = 0;
    refused(&p, "micro-batches 0, batches 10");
    pipeline_init(&p, "cpu:2", "gpipe");
    p.node_stage[3] = 0;
    refused(&p, "stage 1");
    pipeline_init(&p, "cpu:2", "gpipe");
    pipeline_free(&p);
    p.g = make_graph(ROWS, "cost");
    refused(&p, "no scalar output named 'loss'");

    pipeline_init(&p, "cpu:2", "gpipe");
    ft_graph *other = NULL, *graphs[2] = {p.g, NULL};
    ft_error err;
    ft_graph_new(&other, &err);
    graphs[1] = other;
    p.cut.graphs = graphs;
    p.cut.n_graphs = 2;
    refused(&p, "length bucket 1 has other nodes");
    ft_graph_free(other);
}

int main(void)
{
    RUN(test_blueprint);
    RUN(test_places_are_apart);
    RUN(test_inputs_are_where_they_are_read);
    RUN(test_replicas);
    RUN(test_replicas_that_predict);
    RUN(test_the_loss_stays_until_it_is_read);
    RUN(test_halves);
    RUN(test_machine);
    RUN(test_contradictions);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
