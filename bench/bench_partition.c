/* bench/bench_partition.c - how long partitioners take as graphs and clusters grow. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "partition/partition.h"

typedef struct sample {
    ft_partition_problem problem;
    double *node_ns;
    int *from, *to;
    int64_t *bytes;
    ft_partition_device devices[64];
} sample;

/* Layers as in an encoder and a decoder: a chain, every fourth node also feeds one three further
 * on, and the encoder's last value goes to every eighth node of the decoder. */
static bool make_sample(sample *s, int n, int n_devices)
{
    ft_rng rng;
    ft_rng_init(&rng, 1, 0);
    *s = (sample){.node_ns = ft_alloc(n * (int64_t)sizeof *s->node_ns),
                  .from = ft_alloc(3 * n * (int64_t)sizeof *s->from),
                  .to = ft_alloc(3 * n * (int64_t)sizeof *s->to),
                  .bytes = ft_alloc(3 * n * (int64_t)sizeof *s->bytes)};
    if (!s->node_ns || !s->from || !s->to || !s->bytes) return false;
    int edges = 0;
    for (int i = 0; i < n; i++) {
        s->node_ns[i] =
            (i % 5 ? 2e5 : 4e6) * (0.9 + 0.2 * ft_rng_uniform(&rng)) * (i < n / 2 ? 6 : 1);
        const int ends[3] = {i + 1, i % 4 ? n : i + 3, i == n / 2 ? i + 2 : n};
        for (int k = 0; k < 3; k++)
            if (ends[k] < n)
                s->from[edges] = i, s->to[edges] = ends[k], s->bytes[edges++] = 8 << 20;
        if (i > n / 2 + 2 && i % 8 == 0)
            s->from[edges] = n / 2, s->to[edges] = i, s->bytes[edges++] = 8 << 20;
    }
    for (int d = 0; d < n_devices; d++)
        s->devices[d] = (ft_partition_device){.slowdown = 1, .bytes_per_s = 12e9};
    s->problem = (ft_partition_problem){.n_nodes = n,
                                        .n_kinds = 1,
                                        .node_ns = s->node_ns,
                                        .n_edges = edges,
                                        .edge_from = s->from,
                                        .edge_to = s->to,
                                        .edge_bytes = s->bytes,
                                        .edge_grad_bytes = s->bytes,
                                        .n_devices = n_devices,
                                        .devices = s->devices};
    return true;
}

static void time_method(sample *s, const char *method, int blocks)
{
    ft_partition_options options = {.method = method, .blocks = blocks};
    ft_partition_result r;
    ft_error err;
    int64_t begin = ft_thread_cpu_ns();
    if (ft_partition_solve(&s->problem, &options, &r, &err) != FT_OK) {
        printf("%s: %s\n", method, err.message);
    } else {
        printf("%6d nodes %3d devices  %-6s %6d blocks  %9.1f ms of CPU  objective %10.1f ms  "
               "%5.1f %% above "
               "the bound, %d stages\n",
               s->problem.n_nodes, s->problem.n_devices, method, blocks,
               (double)(ft_thread_cpu_ns() - begin) / 1e6, r.objective_ns / 1e6,
               100 * (r.objective_ns / r.lower_bound_ns - 1), r.n_stages);
    }
    ft_partition_result_free(&r);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    static const int sizes[][2] = {{100, 4},   {1000, 4},  {1000, 8},  {3000, 8},
                                   {3000, 32}, {10000, 8}, {10000, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sample s;
        int devices = sizes[i][1];
        if (make_sample(&s, sizes[i][0], devices)) {
            time_method(&s, "greedy", 0);
            time_method(&s, "seq", 0);
            time_method(&s, "mixed", 2 * devices);
        }
        ft_free(s.node_ns);
        ft_free(s.from);
        ft_free(s.to);
        ft_free(s.bytes);
    }
    return 0;
}
