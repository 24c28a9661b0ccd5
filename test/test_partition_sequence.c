/* test/test_partition_sequence.c - the contiguous optimum of an order against brute force, prices
 * worked out by hand. */
#include "check.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "partition/sequence.h"

enum { MOST_NODES = 10, MOST_EDGES = 40 };

typedef struct partition_case {
    ft_sequence_problem problem;
    double node_ns[MOST_NODES];
    int64_t node_bytes[MOST_NODES], edge_bytes[MOST_EDGES];
    int edge_from[MOST_EDGES], edge_to[MOST_EDGES], edge_value[MOST_EDGES];
} partition_case;

static void init_case(partition_case *c, int n_nodes, int n_stages)
{
    memset(c, 0, sizeof *c);
    c->problem = (ft_sequence_problem){.n_nodes = n_nodes,
                                        .node_ns = c->node_ns,
                                        .node_bytes = c->node_bytes,
                                        .edge_from = c->edge_from,
                                        .edge_to = c->edge_to,
                                        .edge_bytes = c->edge_bytes,
                                        .edge_value = c->edge_value,
                                        .n_stages = n_stages};
}

static void add_edge(partition_case *c, int from, int to, int value, int64_t bytes)
{
    int e = c->problem.n_edges++;
    c->edge_from[e] = from;
    c->edge_to[e] = to;
    c->edge_value[e] = value;
    c->edge_bytes[e] = bytes;
}

/* -- prices by hand ------------------------------------------------------------------------------
 */

/* Four nodes of 10 ns; node 0's value of 30 bytes is used by 1, 2 and 3, at a byte per ns. */
static void test_prices_worked_out_by_hand(void)
{
    partition_case c;
    ft_error err = {0};
    int copy[4];
    ft_sequence_result result = {.stage = copy};
    init_case(&c, 4, 3);
    for (int i = 0; i < 4; i++) c.node_ns[i] = 10;
    for (int to = 1; to < 4; to++) add_edge(&c, 0, to, 7, 30);
    c.problem.link_bytes_per_s = 1e9;
    /* sent to two stages at once: out 30 against 10 of work; the others send back 30 */
    CHECK_STATUS(ft_sequence_price(&c.problem, (const int[]){0, 1, 2, 2}, &result, &err),
                 FT_OK);
    CHECK_NEAR(result.slowest_ns, 20 + (30 - 20) + 0, 0); /* stage 2; stages 0 and 1: 10 + 20 */
    CHECK(result.cut_bytes == 60 && copy[3] == 2);
    CHECK_NEAR(result.lower_bound_ns, 40.0 / 3, 1e-12);
    CHECK_STATUS(ft_sequence_price(&c.problem, (const int[]){0, 0, 0, 1}, &result, &err),
                 FT_OK);
    CHECK_NEAR(result.slowest_ns, 30, 0); /* 30 of work hide 30 of sending; stage 1: 10 + 20 */
    CHECK(result.cut_bytes == 30);
    /* not contiguous, and a stage that sends and receives: 1 -> 2 */
    add_edge(&c, 1, 2, 9, 25);
    CHECK_STATUS(ft_sequence_price(&c.problem, (const int[]){0, 1, 0, 0}, &result, &err),
                 FT_OK);
    CHECK_NEAR(result.slowest_ns, 10 + (25 - 10) + (30 - 10), 0);
    CHECK(result.cut_bytes == 55);
    c.problem.link_bytes_per_s = 0;
    CHECK_STATUS(ft_sequence_price(&c.problem, (const int[]){0, 1, 2, 2}, &result, &err),
                 FT_OK);
    CHECK_NEAR(result.slowest_ns, 20, 0);
}

/* The fastest cuts are equally fast: the one that cuts fewer bytes wins, though it does not have
 * the fastest first part. */
static void test_bytes_break_ties_of_the_whole(void)
{
    partition_case c;
    ft_error err = {0};
    int stage[5];
    ft_sequence_result result = {.stage = stage};
    const double node_ns[] = {1, 1, 1, 1, 5};
    init_case(&c, 5, 3);
    memcpy(c.node_ns, node_ns, sizeof node_ns);
    add_edge(&c, 0, 1, 0, 40);
    add_edge(&c, 1, 2, 1, 90);
    add_edge(&c, 2, 3, 2, 10);
    add_edge(&c, 3, 4, 3, 20);
    CHECK_STATUS(ft_sequence_cut(&c.problem, &result, &err), FT_OK);
    CHECK_NEAR(result.slowest_ns, 5, 0);
    CHECK(result.cut_bytes == 30);
    CHECK(!memcmp(stage, (const int[]){0, 0, 0, 1, 2}, sizeof stage));
}

/* -- brute force ---------------------------------------------------------------------------------
 */

typedef struct best {
    double slowest_ns;
    int64_t cut_bytes;
    bool found;
} best;

static void try_all(const ft_sequence_problem *p, int *stage, int node, best *b)
{
    if (node == p->n_nodes) {
        ft_sequence_result r = {0};
        if (stage[node - 1] != p->n_stages - 1) return;
        if (ft_sequence_price(p, stage, &r, NULL) != FT_OK) return;
        bool better = !b->found || r.slowest_ns < b->slowest_ns ||
                      (r.slowest_ns == b->slowest_ns && r.cut_bytes < b->cut_bytes);
        if (better) *b = (best){r.slowest_ns, r.cut_bytes, true};
        return;
    }
    for (int step = 0; step < 2; step++) {
        stage[node] = stage[node - 1] + step;
        if (stage[node] < p->n_stages) try_all(p, stage, node + 1, b);
    }
}

static void random_case(partition_case *c, ft_rng *rng)
{
    int n = 1 + (int)ft_rng_below(rng, MOST_NODES);
    init_case(c, n, 1 + (int)ft_rng_below(rng, (uint64_t)n));
    for (int i = 0; i < n; i++) {
        c->node_ns[i] = (double)ft_rng_below(rng, 20);
        c->node_bytes[i] = (int64_t)ft_rng_below(rng, 50);
    }
    int value = 100;
    for (int from = 0; from < n - 1; from++)
        for (int v = 0; v < 2; v++, value -= 3) {
            int64_t bytes = (int64_t)ft_rng_below(rng, 40);
            for (int to = from + 1; to < n && c->problem.n_edges < MOST_EDGES; to++)
                if (!ft_rng_below(rng, 4)) add_edge(c, from, to, value, bytes);
        }
    if (ft_rng_below(rng, 3)) c->problem.link_bytes_per_s = 1e9;
    if (ft_rng_below(rng, 2)) c->problem.stage_memory_bytes = 50 + (int64_t)ft_rng_below(rng, 150);
}

static void test_contiguous_is_the_optimum(void)
{
    int infeasible = 0;
    for (int seed = 0; seed < 1500; seed++) {
        partition_case c;
        ft_rng rng;
        ft_error err = {0};
        int stage[MOST_NODES], trial[MOST_NODES] = {0};
        ft_sequence_result result = {.stage = stage}, again = {0};
        best b = {0};
        ft_rng_init(&rng, 5, (uint64_t)seed);
        random_case(&c, &rng);
        try_all(&c.problem, trial, 1, &b);
        ft_status status = ft_sequence_cut(&c.problem, &result, &err);
        if (!b.found) {
            CHECK_STATUS(status, FT_INFEASIBLE);
            infeasible++;
            continue;
        }
        if (!CHECK_STATUS(status, FT_OK)) continue;
        CHECK(result.slowest_ns == b.slowest_ns && result.cut_bytes == b.cut_bytes);
        CHECK(result.slowest_ns >= result.lower_bound_ns - 1e-9);
        CHECK(stage[0] == 0 && stage[c.problem.n_nodes - 1] == c.problem.n_stages - 1);
        for (int i = 1; i < c.problem.n_nodes; i++)
            CHECK(stage[i] == stage[i - 1] || stage[i] == stage[i - 1] + 1);
        CHECK_STATUS(ft_sequence_price(&c.problem, stage, &again, &err), FT_OK);
        CHECK(again.slowest_ns == result.slowest_ns && again.cut_bytes == result.cut_bytes);
    }
    CHECK(infeasible > 50 && infeasible < 1000);
}

/* -- errors --------------------------------------------------------------------------------------
 */

static void check_refused(const ft_sequence_problem *p, ft_status wanted, const char *words)
{
    ft_error err = {0};
    int stage[MOST_NODES];
    ft_sequence_result result = {.stage = stage};
    CHECK_STATUS(ft_sequence_cut(p, &result, &err), wanted);
    if (!CHECK(strstr(err.message, words))) fprintf(stderr, "said: %s\n", err.message);
}

static void test_too_little_memory_is_named(void)
{
    partition_case c;
    ft_error err = {0};
    ft_sequence_result result = {0};
    init_case(&c, 4, 2);
    for (int i = 0; i < 4; i++) c.node_bytes[i] = 10 + i;
    c.problem.stage_memory_bytes = 12;
    check_refused(&c.problem, FT_INFEASIBLE, "node 3 alone needs 13 bytes, a stage has 12");
    c.problem.stage_memory_bytes = 22;
    check_refused(
        &c.problem, FT_INFEASIBLE,
        "with the 1 stages before it full, stage 1 is left with nodes 2 to 3, which need 25 "
        "bytes, a stage has 22");
    c.problem.stage_memory_bytes = 25;
    CHECK_STATUS(ft_sequence_cut(&c.problem, &result, &err), FT_OK);
    CHECK_STATUS(ft_sequence_price(&c.problem, (const int[]){0, 0, 0, 1}, &result, &err),
                 FT_INFEASIBLE);
    CHECK(strstr(err.message, "stage 0 needs 33 bytes, it has 25"));
}

static void test_bad_problems_are_refused_in_words(void)
{
    partition_case c;
    ft_error err = {0};
    ft_sequence_result result = {0};
    init_case(&c, 3, 4);
    check_refused(&c.problem, FT_INVALID, "4 stages for 3 nodes");
    c.problem.n_stages = 0;
    check_refused(&c.problem, FT_INVALID, "0 stages");
    c.problem.n_stages = 2;
    c.node_ns[1] = NAN;
    check_refused(&c.problem, FT_INVALID, "node 1 takes nan ns");
    c.node_ns[1] = 1;
    c.node_bytes[2] = -1;
    check_refused(&c.problem, FT_INVALID, "node 2 needs -1 bytes");
    c.node_bytes[2] = 0;
    c.problem.link_bytes_per_s = -1;
    check_refused(&c.problem, FT_INVALID, "links of -1 bytes/s");
    c.problem.link_bytes_per_s = 0;
    add_edge(&c, 1, 1, 0, 5);
    check_refused(&c.problem, FT_INVALID, "edge 0 goes from node 1 to 1 of 3");
    c.edge_to[0] = 2;
    add_edge(&c, 1, 2, 0, 6);
    check_refused(&c.problem, FT_INVALID, "value 0 has 5 bytes on edge 0, 6 on 1");
    c.edge_from[1] = 0;
    check_refused(&c.problem, FT_INVALID, "value 0 leaves two nodes");
    c.problem.edge_value = NULL;
    CHECK_STATUS(ft_sequence_cut(&c.problem, &result, &err), FT_OK);
    CHECK_STATUS(ft_sequence_price(&c.problem, (const int[]){0, 2, 0}, &result, &err),
                 FT_INVALID);
    CHECK(strstr(err.message, "node 1 is in stage 2 of 2"));
}

static void test_no_memory_is_an_error(void)
{
    partition_case c;
    ft_rng rng;
    int64_t before = ft_alloc_live();
    ft_rng_init(&rng, 5, 3);
    random_case(&c, &rng);
    c.problem.stage_memory_bytes = 0;
    for (int n = 1;; n++) {
        ft_error err = {0};
        ft_sequence_result result = {0};
        ft_alloc_fail_after(n);
        ft_status status = ft_sequence_cut(&c.problem, &result, &err);
        ft_alloc_fail_after(0);
        CHECK(ft_alloc_live() == before);
        if (status == FT_OK) {
            CHECK(n > 1);
            return;
        }
        if (!CHECK_STATUS(status, FT_NOMEM)) return;
    }
}

/* -- size ----------------------------------------------------------------------------------------
 */

/* A transformer of 2000 nodes, with values that skip over the whole of it, on 16 stages. */
static void test_two_thousand_nodes(void)
{
    enum { N = 2000, E = 3 * N };
    static double node_ns[N];
    static int64_t edge_bytes[E];
    static int from[E], to[E], stage[N];
    ft_sequence_problem p = {.n_nodes = N,
                              .node_ns = node_ns,
                              .edge_from = from,
                              .edge_to = to,
                              .edge_bytes = edge_bytes,
                              .n_stages = 16,
                              .link_bytes_per_s = 1e9};
    ft_sequence_result result = {.stage = stage};
    ft_error err = {0};
    ft_rng rng;
    double most = 0, total = 0;
    ft_rng_init(&rng, 6, 0);
    for (int i = 0; i < N; i++) {
        node_ns[i] = 1e5 * ft_rng_uniform(&rng);
        total += node_ns[i];
        if (node_ns[i] > most) most = node_ns[i];
        for (int k = 0; k < 3 && i + 1 < N; k++) {
            int ahead = k < 2 ? 1 + (int)ft_rng_below(&rng, 8) : 1 + (int)ft_rng_below(&rng, N);
            int e = p.n_edges++;
            from[e] = i;
            to[e] = i + ahead < N ? i + ahead : N - 1;
            edge_bytes[e] = 1 + (int64_t)ft_rng_below(&rng, 1000);
        }
    }
    int64_t begin = ft_now_ns();
    CHECK_STATUS(ft_sequence_cut(&p, &result, &err), FT_OK);
    printf("2000 nodes, 16 stages: %.0f ms\n", (double)(ft_now_ns() - begin) / 1e6);
    CHECK(result.slowest_ns < total / 16 + most);
}

int main(void)
{
    RUN(test_prices_worked_out_by_hand);
    RUN(test_bytes_break_ties_of_the_whole);
    RUN(test_contiguous_is_the_optimum);
    RUN(test_too_little_memory_is_named);
    RUN(test_bad_problems_are_refused_in_words);
    RUN(test_no_memory_is_an_error);
    RUN(test_two_thousand_nodes);
    return check_report();
}
