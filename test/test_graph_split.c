/* test/test_graph_split.c - stages of random graphs: nothing lost, nothing missing, nothing spare.
 */
#include "graph_case.h"

enum { MAX_STAGES = 8, MAX_VALUES = 2048 };

/* Forward nodes to stages: by position (mode 0: always without a cycle), or anyhow. */
static void random_stages(ft_rng *rng, int n_forward, int n_stages, int mode, int *stage_of)
{
    for (int n = 0; n < n_forward; n++)
        stage_of[n] = mode == 0 ? (int)((int64_t)n * n_stages / n_forward)
                                : (int)ft_rng_below(rng, (uint64_t)n_stages);
    for (int s = 0; s < n_stages && mode; s++) stage_of[s] = s; /* none is empty */
}

static ft_graph *random_graph(ft_rng *rng, int n_nodes)
{
    ft_graph *g = case_random(rng, &(case_plan){n_nodes, 3, false});
    CHECK_STATUS(ft_graph_grad(g, ft_graph_find(g, "loss"), NULL), FT_OK);
    CHECK(ft_graph_n_values(g) < MAX_VALUES);
    return g;
}

/* -- what a split must be, worked out anew --------------------------------------------------- */

/* Whether stages of `phase` wait for each other, from the definition: the closure of "needs". */
static bool has_cycle(const ft_graph *g, const int *stage_of, int n_stages, ft_phase phase)
{
    bool needs[MAX_STAGES][MAX_STAGES] = {{false}};
    for (int n = 0; n < ft_graph_n_nodes(g); n++) {
        const ft_node *node = ft_graph_node(g, n);
        for (int i = 0; i < node->n_in; i++) {
            const ft_value *value = ft_graph_value(g, node->in[i]);
            if (value->kind != FT_VALUE_NODE) continue;
            const ft_node *maker = ft_graph_node(g, value->source);
            int from = stage_of[maker->origin], to = stage_of[node->origin];
            if (maker->phase == phase && from != to) needs[to][from] = true;
        }
    }
    for (int k = 0; k < n_stages; k++)
        for (int i = 0; i < n_stages; i++)
            for (int j = 0; j < n_stages; j++)
                if (needs[i][k] && needs[k][j]) needs[i][j] = true;
    for (int i = 0; i < n_stages; i++)
        if (needs[i][i]) return true;
    return false;
}

static void check_ascending(const int *list, int n)
{
    bool good = true;
    for (int i = 1; i < n; i++) good = good && list[i - 1] < list[i];
    case_need(good, "an ascending list");
}

/* Every node in exactly one program, of the right stage and phase; recomputed ones besides. */
static void check_programs(const ft_graph *g, const int *stage_of, const ft_split *split)
{
    int runs[MAX_VALUES] = {0}, wrong = 0;
    for (int s = 0; s < split->n_stages; s++) {
        const ft_stage *stage = &split->stages[s];
        check_ascending(stage->forward, stage->n_forward);
        check_ascending(stage->backward, stage->n_backward);
        check_ascending(stage->saved, stage->n_saved);
        check_ascending(stage->params, stage->n_params);
        check_ascending(stage->grads, stage->n_grads);
        wrong += stage->n_forward == 0 || (!stage->recompute && stage->n_recompute > 0);
        for (int i = 0; i < stage->n_forward; i++) {
            runs[stage->forward[i]]++;
            wrong += stage_of[stage->forward[i]] != s;
        }
        for (int i = 0; i < stage->n_backward; i++) {
            const ft_node *node = ft_graph_node(g, stage->backward[i]);
            wrong += stage_of[node->origin] != s;
            wrong += (node->phase == FT_FORWARD) != (i < stage->n_recompute);
            if (i >= stage->n_recompute) runs[stage->backward[i]]++;
        }
    }
    for (int n = 0; n < ft_graph_n_nodes(g); n++) {
        wrong += runs[n] != 1;
        wrong += split->node_stage[n] != stage_of[ft_graph_node(g, n)->origin];
    }
    CHECK(wrong == 0);
}

/* Every gradient term in the stage of its use, every parameter where it is used. */
static void check_params(const ft_graph *g, const ft_split *split)
{
    int n_terms = 0, wrong = 0;
    for (int s = 0; s < split->n_stages; s++) {
        const ft_stage *stage = &split->stages[s];
        bool used[MAX_VALUES] = {false};
        n_terms += stage->n_grads;
        for (int i = 0; i < stage->n_grads; i++)
            wrong += split->node_stage[ft_graph_grad_term(g, stage->grads[i])->node] != s;
        for (int n = 0; n < ft_graph_n_nodes(g); n++)
            for (int i = 0; split->node_stage[n] == s && i < ft_graph_node(g, n)->n_in; i++) {
                const ft_value *value = ft_graph_value(g, ft_graph_node(g, n)->in[i]);
                if (value->kind == FT_VALUE_PARAM) used[value->source] = true;
            }
        int n_used = 0;
        for (int p = 0; p < ft_graph_n_params(g); p++) n_used += used[p];
        wrong += n_used != stage->n_params;
        for (int i = 0; i < stage->n_params; i++) wrong += !used[stage->params[i]];
    }
    CHECK(n_terms == ft_graph_n_grads(g) && wrong == 0);
}

/* -- execution with sets ---------------------------------------------------------------------- */

typedef struct machine {
    const ft_graph *g;
    const ft_split *split;
    bool have[MAX_STAGES][MAX_VALUES];
    bool used[MAX_STAGES][MAX_VALUES]; /* in the present phase */
    int missing;
} machine;

static void run_node(machine *m, int stage, int n)
{
    const ft_node *node = ft_graph_node(m->g, n);
    for (int i = 0; i < node->n_in; i++) {
        m->used[stage][node->in[i]] = true;
        if (ft_graph_value(m->g, node->in[i])->kind == FT_VALUE_NODE)
            m->missing += !m->have[stage][node->in[i]];
    }
    for (int k = 0; k < node->op->n_out; k++) m->have[stage][node->out + k] = true;
}

/* Whether all that others send to the stage in this phase is there to be sent. */
static bool is_ready(const machine *m, int stage, ft_phase phase)
{
    for (int i = 0; i < m->split->n_transfers; i++) {
        const ft_transfer *t = &m->split->transfers[i];
        if (t->to == stage && t->phase == phase && !m->have[t->from][t->value]) return false;
    }
    return true;
}

/* Runs each stage's action once, when what it receives is there; false when none can go on. */
static bool run_phase(machine *m, ft_phase phase)
{
    bool done[MAX_STAGES] = {false};
    memset(m->used, 0, sizeof m->used);
    for (int rounds = 0; rounds < m->split->n_stages; rounds++) {
        int s = 0;
        while (s < m->split->n_stages && (done[s] || !is_ready(m, s, phase))) s++;
        if (s == m->split->n_stages) return false;
        done[s] = true;
        for (int i = 0; i < m->split->n_transfers; i++) {
            const ft_transfer *t = &m->split->transfers[i];
            if (t->to == s && t->phase == phase) m->have[s][t->value] = true;
        }
        const ft_stage *stage = &m->split->stages[s];
        const int *nodes = phase == FT_FORWARD ? stage->forward : stage->backward;
        int n = phase == FT_FORWARD ? stage->n_forward : stage->n_backward;
        for (int i = 0; i < n; i++) run_node(m, s, nodes[i]);
    }
    return true;
}

/* Between the phases a stage keeps what it saved, and nothing else. */
static void keep_saved(machine *m)
{
    for (int s = 0; s < m->split->n_stages; s++) {
        const ft_stage *stage = &m->split->stages[s];
        bool keep[MAX_VALUES] = {false};
        for (int i = 0; i < stage->n_saved; i++) {
            ft_value_id v = stage->saved[i];
            const ft_value *value = ft_graph_value(m->g, v);
            case_need(m->have[s][v] && value->kind == FT_VALUE_NODE, "saved what is there");
            case_need(!stage->recompute || m->split->node_stage[value->source] != s,
                      "saved what cannot be made again");
            keep[v] = true;
        }
        memcpy(m->have[s], keep, sizeof keep);
    }
}

static void check_saved_is_used(const machine *m)
{
    int spare = 0;
    for (int s = 0; s < m->split->n_stages; s++)
        for (int i = 0; i < m->split->stages[s].n_saved; i++)
            spare += !m->used[s][m->split->stages[s].saved[i]];
    CHECK(spare == 0);
}

/* Each transfer once, sorted, of a value of its phase that the stage's nodes read. */
static void check_transfers(const ft_graph *g, const ft_split *split)
{
    int wrong = 0;
    for (int i = 0; i < split->n_transfers; i++) {
        const ft_transfer *t = &split->transfers[i], *before = t - 1;
        const ft_value *value = ft_graph_value(g, t->value);
        bool read = false;
        for (int n = 0; n < ft_graph_n_nodes(g); n++)
            for (int k = 0; split->node_stage[n] == t->to && k < ft_graph_node(g, n)->n_in; k++)
                read = read || ft_graph_node(g, n)->in[k] == t->value;
        wrong += !read || t->from == t->to || value->kind != FT_VALUE_NODE;
        wrong += split->node_stage[value->source] != t->from;
        wrong += ft_graph_node(g, value->source)->phase != t->phase;
        if (i == 0) continue;
        int order[4] = {t->from - before->from, t->to - before->to,
                        (int)t->phase - (int)before->phase, t->value - before->value};
        int k = 0;
        while (k < 3 && order[k] == 0) k++;
        wrong += order[k] <= 0;
    }
    CHECK(wrong == 0);
}

static void check_split(const ft_graph *g, const int *stage_of, const ft_split *split)
{
    static machine m;
    memset(&m, 0, sizeof m);
    m.g = g;
    m.split = split;
    check_programs(g, stage_of, split);
    check_params(g, split);
    check_transfers(g, split);
    CHECK(run_phase(&m, FT_FORWARD));
    keep_saved(&m);
    CHECK(run_phase(&m, FT_BACKWARD));
    check_saved_is_used(&m);
    CHECK(m.missing == 0);
}

static void test_random_splits(void)
{
    ft_rng rng;
    int n_good = 0, n_cycles = 0;
    ft_rng_init(&rng, 31, 0);
    for (int i = 0; i < 400; i++) {
        ft_graph *g = random_graph(&rng, 8 + (int)ft_rng_below(&rng, 40));
        int n_forward = ft_graph_n_forward(g), stage_of[CASE_MAX];
        int n_stages = 1 + (int)ft_rng_below(&rng, MAX_STAGES);
        bool recompute[MAX_STAGES];
        for (int s = 0; s < n_stages; s++) recompute[s] = ft_rng_below(&rng, 2);
        random_stages(&rng, n_forward, n_stages, i % 2, stage_of);
        if (i % 4 == 3) { /* nearly contiguous: a few nodes moved, so that some have no cycle */
            random_stages(&rng, n_forward, n_stages, 0, stage_of);
            stage_of[n_forward - 1 - (int)ft_rng_below(&rng, 5)] = n_stages - 1;
            if (n_stages > 2) stage_of[n_forward / n_stages + 1] = 0;
        }
        bool cycle = has_cycle(g, stage_of, n_stages, FT_FORWARD) ||
                     has_cycle(g, stage_of, n_stages, FT_BACKWARD);
        const ft_split *split;
        ft_error err = {0};
        ft_status status = ft_graph_split(g, stage_of, recompute, n_stages, &split, &err);
        bool empty = strstr(err.message, "no forward node"); /* a node was moved out of it */
        if (!empty && cycle) {
            CHECK(status == FT_INVALID && !split && strstr(err.message, "wait for each other"));
            n_cycles++;
        } else if (!empty && CHECK(status == FT_OK)) {
            check_split(g, stage_of, split);
            n_good++;
        } else if (!empty)
            fprintf(stderr, "  %s\n", err.message);
        ft_graph_free(g);
    }
    printf("%d splits, %d refused for cycles\n", n_good, n_cycles);
    CHECK(n_good >= 200 && n_cycles >= 50);
}

/* -- small cases by hand ---------------------------------------------------------------------- */

/* x -> tanh a -> mul(a, p) b -> mul(b, a) c -> total, cut after each node. */
static ft_graph *small_graph(void)
{
    ft_graph *g;
    ft_value_id x;
    ft_spec spec = {FT_F32, ft_shape_of(2, 3)};
    CHECK_STATUS(ft_graph_new(&g, NULL), FT_OK);
    CHECK_STATUS(ft_graph_input(g, "x", &spec, &x, NULL), FT_OK);
    ft_value_id p = case_param(g, 0, spec.shape);
    x = case_node(g, ft_op_find("mul"), x, p);                        /* %2 */
    ft_value_id a = case_node(g, ft_op_find("tanh"), x, FT_NO_VALUE); /* %3 */
    ft_value_id b = case_node(g, ft_op_find("mul"), a, p);            /* %4 */
    ft_value_id c = case_node(g, ft_op_find("mul"), b, a);            /* %5 */
    CHECK_STATUS(ft_graph_grad(g, case_node(g, &case_op_total, c, FT_NO_VALUE), NULL), FT_OK);
    return g;
}

static void test_saved_by_hand(void)
{
    ft_graph *g = small_graph();
    const ft_split *split;
    CHECK_STATUS(ft_graph_split(g, (int[]){0, 0, 1, 1, 1}, (bool[]){false, true}, 2, &split, NULL),
                 FT_OK);
    const ft_stage *s = split->stages;
    /* tanh's gradient needs its output; the second stage receives a and makes b and c again */
    CHECK(s[0].n_saved == 1 && s[0].saved[0] == 3 && s[0].n_recompute == 0);
    CHECK(s[1].n_saved == 1 && s[1].saved[0] == 3);
    CHECK(s[1].n_recompute == 2 && s[1].backward[0] == 2); /* b and c, not the loss */
    CHECK(s[0].n_params == 1 && s[1].n_params == 1 && s[0].n_grads == 1 && s[1].n_grads == 1);
    int forward = 0, backward = 0;
    for (int i = 0; i < split->n_transfers; i++)
        split->transfers[i].phase == FT_FORWARD ? forward++ : backward++;
    CHECK(forward == 1 && split->transfers[0].value == 3 && split->transfers[0].from == 0);
    CHECK(backward == 1);
    ft_graph_free(g);
}

static void test_forward_only_graph(void)
{
    ft_rng rng;
    ft_rng_init(&rng, 32, 0);
    ft_graph *g = case_random(&rng, &(case_plan){20, 2, false});
    int n = ft_graph_n_nodes(g), stage_of[CASE_MAX];
    const ft_split *split;
    random_stages(&rng, n, 3, 0, stage_of);
    CHECK_STATUS(ft_graph_split(g, stage_of, NULL, 3, &split, NULL), FT_OK);
    check_split(g, stage_of, split);
    for (int s = 0; s < 3; s++) {
        CHECK(split->stages[s].n_backward == 0 && split->stages[s].n_saved == 0);
        CHECK(split->stages[s].n_grads == 0);
    }
    ft_graph_free(g);
}

static void check_refused(ft_graph *g, const int *stage_of, int n_stages, const char *says)
{
    const ft_split *split;
    ft_error err = {0};
    CHECK_STATUS(ft_graph_split(g, stage_of, NULL, n_stages, &split, &err), FT_INVALID);
    CHECK(!split);
    if (!CHECK(strstr(err.message, says))) fprintf(stderr, "  %s\n", err.message);
}

static void test_refusals(void)
{
    ft_graph *g = small_graph();
    check_refused(g, (int[]){0, 0, 0, 0, 0}, 0, "0 stages for 5 forward nodes, expected 1 to 5");
    check_refused(g, (int[]){0, 0, 0, 0, 0}, 6, "6 stages");
    check_refused(g, (int[]){0, 0, 0, 0, 0}, 2, "stage 1 of 2 has no forward node");
    check_refused(g, (int[]){0, 0, 2, 1, 1}, 2, "node %4 (mul) is in stage 2, expected 0 to 1");
    check_refused(g, (int[]){0, 0, -1, 1, 1}, 2, "is in stage -1");
    check_refused(g, (int[]){0, 1, 0, 1, 1}, 2,
                  "stages 0 -> 1 -> 0 wait for each other in forward");
    check_refused(g, (int[]){2, 1, 0, 2, 2}, 3, "stages 0 -> 2 -> 1 -> 0 wait for each other");
    ft_graph_free(g);
}

static void test_failing_allocations(void)
{
    int64_t live = ft_alloc_live();
    int failures = 0;
    for (int n = 1;; n++) {
        ft_graph *g = small_graph();
        const ft_split *split;
        ft_alloc_fail_after(n);
        ft_status status =
            ft_graph_split(g, (int[]){0, 0, 1, 1, 1}, (bool[]){true, true}, 2, &split, NULL);
        ft_alloc_fail_after(0);
        ft_graph_free(g);
        CHECK(ft_alloc_live() == live);
        if (status != FT_NOMEM) {
            CHECK(status == FT_OK);
            break;
        }
        CHECK(!split);
        failures++;
    }
    CHECK(failures > 5);
}

int main(void)
{
    RUN(test_random_splits);
    RUN(test_saved_by_hand);
    RUN(test_forward_only_graph);
    RUN(test_refusals);
    RUN(test_failing_allocations);
    return check_report();
}
