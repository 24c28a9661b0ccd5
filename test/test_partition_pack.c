/* test/test_partition_pack.c - packs of swapping devices on random problems. */
#include "check.h"

#include <string.h>

#include "base/rng.h"
#include "partition/partition.h"

enum { MOST_NODES = 24, MOST_EDGES = 80, MOST_DEVICES = 4, N_CASES = CASES(4000) };

typedef struct random_case {
    ft_partition_problem problem;
    ft_partition_device devices[MOST_DEVICES];
    double node_ns[MOST_NODES];
    int64_t fixed_bytes[MOST_NODES], saved_bytes[MOST_NODES], edge_bytes[MOST_EDGES];
    int edge_from[MOST_EDGES], edge_to[MOST_EDGES];
    int64_t least; /* memory of the smallest device */
} random_case;

static void make_case(random_case *c, uint64_t seed)
{
    ft_rng rng;
    ft_rng_init(&rng, seed, 0);
    memset(c, 0, sizeof *c);
    int n = 1 + (int)ft_rng_below(&rng, MOST_NODES);
    c->problem = (ft_partition_problem){.n_nodes = n,
                                        .n_kinds = 1,
                                        .node_ns = c->node_ns,
                                        .fixed_bytes = c->fixed_bytes,
                                        .saved_bytes = c->saved_bytes,
                                        .edge_from = c->edge_from,
                                        .edge_to = c->edge_to,
                                        .edge_bytes = c->edge_bytes,
                                        .n_devices = 1 + (int)ft_rng_below(&rng, MOST_DEVICES),
                                        .devices = c->devices,
                                        .swaps = true};
    c->least = INT64_MAX;
    for (int d = 0; d < c->problem.n_devices; d++) {
        int64_t memory = 11 + (int64_t)ft_rng_below(&rng, 30);
        c->devices[d] = (ft_partition_device){.slowdown = 1, .memory_bytes = memory};
        if (memory < c->least) c->least = memory;
    }
    for (int i = 0; i < n; i++) {
        int64_t bytes = (int64_t)ft_rng_below(&rng, 4);
        c->node_ns[i] = (double)ft_rng_below(&rng, 10);
        c->fixed_bytes[i] = (int64_t)ft_rng_below(&rng, 8);
        c->saved_bytes[i] = (int64_t)ft_rng_below(&rng, 3);
        for (int to = i + 1; to < n && c->problem.n_edges < MOST_EDGES; to++) {
            if (ft_rng_below(&rng, to == i + 1 ? 2 : 8)) continue;
            c->edge_from[c->problem.n_edges] = i;
            c->edge_to[c->problem.n_edges] = to;
            c->edge_bytes[c->problem.n_edges++] = bytes;
        }
    }
}

/* Bytes of a set of nodes and of the values it uses that are made elsewhere, each once. */
static int64_t set_bytes(const random_case *c, const int *stage, int s)
{
    const ft_partition_problem *p = &c->problem;
    int64_t bytes = 0;
    bool counted[MOST_NODES] = {false};
    for (int i = 0; i < p->n_nodes; i++)
        if (stage[i] == s) bytes += c->fixed_bytes[i] + c->saved_bytes[i];
    for (int e = 0; e < p->n_edges; e++) {
        int from = c->edge_from[e];
        if (stage[from] == s || stage[c->edge_to[e]] != s || counted[from]) continue;
        counted[from] = true;
        bytes += c->edge_bytes[e];
    }
    return bytes;
}

static bool every_node_fits(const random_case *c)
{
    int alone[MOST_NODES];
    bool fits = true;
    for (int i = 0; i < c->problem.n_nodes; i++) alone[i] = i;
    for (int i = 0; i < c->problem.n_nodes; i++) fits &= set_bytes(c, alone, i) <= c->least;
    return fits;
}

static void check_packs(const random_case *c, const ft_partition_result *r)
{
    const ft_partition_problem *p = &c->problem;
    bool ordered = true, in_turn = true, fit = true;
    int n_of[MOST_NODES] = {0};
    int64_t largest[MOST_DEVICES] = {0};
    for (int e = 0; e < p->n_edges; e++)
        ordered &= r->stage[c->edge_from[e]] <= r->stage[c->edge_to[e]];
    for (int i = 0; i < p->n_nodes; i++) {
        n_of[r->stage[i]]++;
        in_turn &= r->device[i] == r->stage[i] % p->n_devices;
    }
    for (int s = 0; s < r->n_stages; s++) {
        int64_t bytes = set_bytes(c, r->stage, s);
        fit &= n_of[s] > 0 && bytes <= c->least;
        if (bytes > largest[r->stage_device[s]]) largest[r->stage_device[s]] = bytes;
    }
    for (int d = 0; d < p->n_devices; d++) fit &= r->loads[d].memory_bytes == largest[d];
    CHECK(ordered);
    CHECK(in_turn);
    CHECK(fit);
}

static void test_packs_fit(void)
{
    static random_case c;
    int infeasible = 0;
    for (int i = 0; i < N_CASES; i++) {
        make_case(&c, (uint64_t)i);
        ft_partition_options options = {.method = "pack"};
        ft_partition_result r, again;
        ft_status status = ft_partition_solve(&c.problem, &options, &r, NULL);
        CHECK(status == FT_OK || status == FT_INFEASIBLE);
        CHECK(status == FT_OK || !every_node_fits(&c));
        infeasible += status != FT_OK;
        if (status == FT_OK) {
            check_packs(&c, &r);
            CHECK_STATUS(ft_partition_solve(&c.problem, &options, &again, NULL), FT_OK);
            CHECK(!memcmp(r.stage, again.stage, (size_t)c.problem.n_nodes * sizeof *r.stage));
            ft_partition_result_free(&again);
            CHECK_STATUS(ft_partition_evaluate(&c.problem, NULL, r.device, r.stage, &again, NULL),
                         FT_OK);
            CHECK_NEAR(again.objective_ns, r.objective_ns, 1e-9);
            ft_partition_result_free(&again);
        }
        ft_partition_result_free(&r);
    }
    CHECK(infeasible > N_CASES / 20 && infeasible < N_CASES / 2);
}

/* Equal layers that fill a device three at a time. */
static void test_equal_layers(void)
{
    double ns[10];
    int64_t bytes[10];
    for (int i = 0; i < 10; i++) {
        ns[i] = 5;
        bytes[i] = 4;
    }
    ft_partition_device devices[2] = {{.slowdown = 1, .memory_bytes = 13},
                                      {.slowdown = 1, .memory_bytes = 13}};
    ft_partition_problem p = {.n_nodes = 10,
                              .n_kinds = 1,
                              .node_ns = ns,
                              .fixed_bytes = bytes,
                              .n_devices = 2,
                              .devices = devices,
                              .swaps = true};
    ft_partition_options options = {.method = "pack"};
    ft_partition_result r;
    CHECK_STATUS(ft_partition_solve(&p, &options, &r, NULL), FT_OK);
    CHECK(r.n_stages == 4);
    CHECK(r.loads[0].memory_bytes == 12);
    ft_partition_result_free(&r);
    options.blocks = 5;
    CHECK_STATUS(ft_partition_solve(&p, &options, &r, NULL), FT_OK);
    CHECK(r.n_stages == 5);
    ft_partition_result_free(&r);
}

static void test_refusals(void)
{
    double ns[2] = {1, 1};
    int64_t bytes[2] = {4, 40};
    int pins[2] = {-1, 1};
    ft_error err;
    ft_partition_device devices[2] = {{.slowdown = 1, .memory_bytes = 10},
                                      {.slowdown = 1, .memory_bytes = 50}};
    ft_partition_problem p = {.n_nodes = 2,
                              .n_kinds = 1,
                              .node_ns = ns,
                              .fixed_bytes = bytes,
                              .n_devices = 2,
                              .devices = devices};
    ft_partition_options options = {.method = "pack"};
    ft_partition_result r;
    CHECK_STATUS(ft_partition_solve(&p, &options, &r, &err), FT_INVALID);
    CHECK(strstr(err.message, "give the problem swaps = true"));
    ft_partition_result_free(&r);
    p.swaps = true;
    CHECK_STATUS(ft_partition_solve(&p, &options, &r, &err), FT_INFEASIBLE);
    CHECK(strstr(err.message, "node 2 with the values it needs is larger than"));
    ft_partition_result_free(&r);
    devices[0].memory_bytes = 100;
    p.pin = pins;
    bytes[0] = 1;
    CHECK_STATUS(ft_partition_solve(&p, &options, &r, &err), FT_INFEASIBLE);
    CHECK(strstr(err.message, "stage 0 is for device 0 in turn, where node 2 may not be"));
    ft_partition_result_free(&r);
}

int main(void)
{
    RUN(test_packs_fit);
    RUN(test_equal_layers);
    RUN(test_refusals);
    return check_report();
}
