/* test/test_mixed.c - graphs that are made coarser before they are placed. */
#include <unistd.h>

#include "check.h"
#include "mixed/merged.h"
#include "no_memory.h"

enum { MOST = 12, DEVICES = 2 };

static double price(double compute_ns, double out, double out_grad, double in, double in_grad)
{
    return compute_ns + out + out_grad + in + in_grad;
}

/* A chain of so many nodes, and the blocks that it is asked for. */
typedef struct chain {
    int n_nodes, wanted;
    int n_units, n_blocks; /* that were found */
} chain;

static ft_status merge_chain(void *with, ft_error *err)
{
    static const ft_cost_model cost = {.name = "all", .price = price};
    chain *c = with;
    double node_ns[MOST];
    int from[MOST], to[MOST];
    int64_t bytes[MOST];
    ft_partition_device devices[DEVICES];
    for (int i = 0; i < MOST; i++) {
        node_ns[i] = 1;
        from[i] = i;
        to[i] = i + 1;
        bytes[i] = 1;
    }
    for (int d = 0; d < DEVICES; d++) devices[d] = (ft_partition_device){.slowdown = 1};
    const ft_partition_problem problem = {.n_nodes = c->n_nodes,
                                          .n_kinds = 1,
                                          .node_ns = node_ns,
                                          .n_edges = c->n_nodes - 1,
                                          .edge_from = from,
                                          .edge_to = to,
                                          .edge_bytes = bytes,
                                          .n_devices = DEVICES,
                                          .devices = devices};
    const ft_partition_options options = {.seed = 1};
    ft_tally tally = {0};
    ft_ground g;
    ft_status status = ft_ground_new(&g, &problem, &options, &cost, err);
    g.tally = &tally;
    if (status == FT_OK) {
        merged m;
        if (!merged_new(&m, &g, c->wanted, 0)) status = ft_fail(err, FT_NOMEM, "no memory");
        c->n_units = g.n_units;
        c->n_blocks = status == FT_OK ? m.g.n_units : -1;
        merged_free(&m);
    }
    ft_ground_free(&g);
    return status;
}

/* Half as many as there are units at most, and one at least. */
static void test_blocks_are_fewer(void)
{
    static const struct {
        int n_nodes, wanted, least, most;
    } cases[] = {{1, 10, 1, 1}, {2, 10, 1, 2}, {3, 10, 1, 3}, {12, 10, 6, 8}, {12, 3, 3, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        chain c = {.n_nodes = cases[i].n_nodes, .wanted = cases[i].wanted};
        ft_error err;
        alarm(300); /* merging may not end */
        CHECK_STATUS(merge_chain(&c, &err), FT_OK);
        alarm(0);
        CHECK(c.n_units == c.n_nodes);
        if (!CHECK(c.n_blocks >= cases[i].least && c.n_blocks <= cases[i].most))
            fprintf(stderr, "  %d blocks of %d units\n", c.n_blocks, c.n_units);
    }
}

static void test_without_memory(void)
{
    chain c = {.n_nodes = MOST, .wanted = 4};
    check_without_memory(merge_chain, &c, 2);
}

int main(void)
{
    RUN(test_blocks_are_fewer);
    RUN(test_without_memory);
    return check_report();
}
