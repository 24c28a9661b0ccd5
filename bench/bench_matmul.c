/* bench/bench_matmul.c - our matrix products against oneDNN's own best call, in one run.
 *
 * Ours is what a training step runs: the rows linear and linear_grad_input with packed weights, and
 * linear_grad_weight adding to its output. The peer is a matmul primitive made once, with weights
 * in the layout that it asked for; for the weight gradient the better of that primitive (with a sum
 * after it) and dnnl_sgemm. All run in turn on one thread, each on its own buffers, so that none
 * finds its operands warm from another; times are the thread's CPU time, medians over the rounds.
 *
 * Usage: bench_matmul [rounds] [rows...]. Prints `name ratio` lines: above 1, ours is faster;
 * the geomeans of kinds are gates of bench/gates.lua. */
#include <oneapi/dnnl/dnnl.h>

#include <omp.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ops/ops.h"
#include "median.h"

enum { MAX_ROUNDS = 101, N_SIZES = 7, N_KINDS = 3 };

static const int64_t sizes[N_SIZES][2] = {{512, 512},   {768, 768},   {3072, 768},  {768, 3072},
                                          {4096, 1024}, {1024, 4096}, {16384, 1024}};

/* NT: y = x w^T; NN: dx = dy w; TN: dw += dy^T x. */
static const char *const kinds[N_KINDS] = {"NT", "NN", "TN"};
static const char *const rows[N_KINDS] = {"linear", "linear_grad_input", "linear_grad_weight"};

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "bench_matmul: %s failed\n", what);
    exit(1);
}

static float *noise(int64_t n)
{
    float *x = ft_pages_alloc(n * 4 + 64);
    must(x, "allocation");
    ft_rng rng;
    ft_rng_init(&rng, 1, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)ft_rng_uniform(&rng) - 0.5f;
    return x;
}

/* One of our rows, ready to run. */
typedef struct ours {
    const ft_op *op;
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT];
    double attrs[FT_MAX_ATTRS];
    ft_call call;
} ours;

static void ours_init(ours *o, int kind, float *a, float *b, float *c, const int64_t mnk[3])
{
    *o = (ours){.op = ft_op_find(rows[kind])};
    int64_t M = mnk[0], N = mnk[1], K = mnk[2];
    ft_spec in[FT_MAX_IN] = {{FT_F32, ft_shape_of(M, kind == 0 ? K : N)},
                             {FT_F32, ft_shape_of(kind == 2 ? M : N, K)}};
    for (int i = 2; i < FT_MAX_IN; i++) in[i].shape.n_dims = -1;
    ft_spec out[FT_MAX_OUT];
    must(o->op->shape(in, o->attrs, out, NULL) == FT_OK, "shape");
    o->in[0] = ft_view_of(&in[0], a);
    o->in[1] = ft_view_of(&in[1], b);
    o->out[0] = ft_view_of(&out[0], c);
    o->call = (ft_call){.in = o->in, .out = o->out, .attrs = o->attrs, .accumulate = kind == 2};
    if (o->op->workspace) o->call.work = noise(o->op->workspace(in, o->attrs, 1) / 4 + 16);
    if (!o->op->pack_input) return;
    void *packed = noise(o->op->pack_bytes(in, o->attrs) / 4);
    must(o->op->pack(in, o->attrs, b, packed, NULL, NULL) == FT_OK, "pack");
    o->call.packed = packed;
}

/* oneDNN's primitive for the same product, or its sgemm. */
typedef struct peer {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[4];
    dnnl_stream_t stream;
} peer;

static dnnl_memory_desc_t plain(int64_t r, int64_t c, int64_t rs, int64_t cs)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims = {r, c}, steps = {rs, cs};
    must(!dnnl_memory_desc_init_by_strides(&md, 2, dims, dnnl_f32, steps), "memory description");
    return md;
}

static void peer_init(peer *p, dnnl_engine_t engine, int kind, float *const abc[3],
                      const int64_t mnk[3])
{
    int64_t M = mnk[0], N = mnk[1], K = mnk[2];
    dnnl_memory_desc_t a = kind == 0   ? plain(M, K, K, 1)
                           : kind == 1 ? plain(M, N, N, 1)
                                       : plain(N, M, 1, N);
    dnnl_memory_desc_t c = kind == 0   ? plain(M, N, N, 1)
                           : kind == 1 ? plain(M, K, K, 1)
                                       : plain(N, K, K, 1);
    dnnl_memory_desc_t b = plain(M, K, K, 1);
    if (kind < 2) {
        dnnl_dims_t dims = {kind == 0 ? K : N, kind == 0 ? N : K};
        dnnl_memory_desc_init_by_tag(&b, 2, dims, dnnl_f32, dnnl_format_tag_any);
    }
    dnnl_matmul_desc_t desc;
    must(!dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c), "matmul description");
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t after;
    must(!dnnl_primitive_attr_create(&attr) && !dnnl_post_ops_create(&after), "attributes");
    if (kind == 2) must(!dnnl_post_ops_append_sum(after, 1.0f), "sum");
    must(!dnnl_primitive_attr_set_post_ops(attr, after), "post-ops");
    dnnl_primitive_desc_t pd;
    must(!dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL), "primitive description");
    must(!dnnl_primitive_create(&p->primitive, pd), "primitive");
    const dnnl_memory_desc_t *layout = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    float *weight = kind == 2 ? abc[1] : noise((int64_t)dnnl_memory_desc_get_size(layout) / 4);
    must(!dnnl_memory_create(&p->args[0].memory, &a, engine, abc[0]) &&
             !dnnl_memory_create(&p->args[1].memory, layout, engine, weight) &&
             !dnnl_memory_create(&p->args[2].memory, &c, engine, abc[2]),
         "memory");
    p->args[0].arg = DNNL_ARG_SRC;
    p->args[1].arg = DNNL_ARG_WEIGHTS;
    p->args[2].arg = DNNL_ARG_DST;
    must(!dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags), "stream");
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    dnnl_post_ops_destroy(after);
}

/* Prints one line; returns the ratio. */
static double compare(dnnl_engine_t engine, int kind, const int64_t mnk[3], int rounds)
{
    int64_t M = mnk[0], N = mnk[1], K = mnk[2], most = N * K;
    if (M * N > most) most = M * N;
    if (M * K > most) most = M * K;
    float *buffers[9];
    for (int i = 0; i < 9; i++) buffers[i] = noise(most);
    ours o;
    peer p;
    ours_init(&o, kind, buffers[0], buffers[1], buffers[2], mnk);
    peer_init(&p, engine, kind, buffers + 3, mnk);
    double mine[MAX_ROUNDS], theirs[MAX_ROUNDS], sgemm[MAX_ROUNDS];
    for (int round = -1; round < rounds; round++) {
        int at = round < 0 ? 0 : round; /* the first round warms up */
        int64_t t0 = ft_thread_cpu_ns();
        must(o.op->kernel(&o.call, NULL) == FT_OK, rows[kind]);
        int64_t t1 = ft_thread_cpu_ns();
        must(!dnnl_primitive_execute(p.primitive, p.stream, 3, p.args), "matmul");
        int64_t t2 = ft_thread_cpu_ns();
        if (kind == 2)
            dnnl_sgemm('T', 'N', N, K, M, 1.0f, buffers[6], N, buffers[7], K, 1.0f, buffers[8], K);
        int64_t t3 = ft_thread_cpu_ns();
        mine[at] = (double)(t1 - t0);
        theirs[at] = (double)(t2 - t1);
        sgemm[at] = kind == 2 ? (double)(t3 - t2) : (double)INFINITY;
    }
    double us = median(mine, rounds), other = median(theirs, rounds);
    double alternative = median(sgemm, rounds);
    if (alternative < other) other = alternative;
    double flops = 2.0 * (double)M * (double)N * (double)K;
    printf("%s_M%lld_N%lld_K%lld %.3f ours %.1f GFLOP/s peer %.1f GFLOP/s\n", kinds[kind],
           (long long)M, (long long)N, (long long)K, other / us, flops / us, flops / other);
    fflush(stdout);
    dnnl_primitive_destroy(p.primitive);
    dnnl_stream_destroy(p.stream);
    for (int i = 0; i < 3; i++) dnnl_memory_destroy(p.args[i].memory);
    for (int i = 0; i < 9; i++) ft_pages_free(buffers[i], most * 4 + 64);
    return other / us;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 7;
    if (rounds < 1 || rounds > MAX_ROUNDS) rounds = 7;
    static const int64_t preset[] = {64, 512, 2048};
    int n_rows = argc > 2 ? argc - 2 : 3;
    omp_set_num_threads(1); /* the peer would take a thread for each core */
    dnnl_engine_t engine;
    must(!dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    double all = 0.0;
    for (int kind = 0; kind < N_KINDS; kind++) {
        double sum = 0.0;
        for (int r = 0; r < n_rows; r++)
            for (int s = 0; s < N_SIZES; s++) {
                int64_t M = argc > 2 ? atoll(argv[2 + r]) : preset[r];
                sum += log(compare(engine, kind, (int64_t[]){M, sizes[s][0], sizes[s][1]}, rounds));
            }
        printf("matmul_%s %.3f geomean of %d\n", kinds[kind], exp(sum / (n_rows * N_SIZES)),
               n_rows * N_SIZES);
        printf("gate matmul-%s %.3f\n", kinds[kind], exp(sum / (n_rows * N_SIZES)));
        all += sum;
    }
    printf("matmul_packed_vs_onednn %.3f geomean\n", exp(all / (N_KINDS * n_rows * N_SIZES)));
    dnnl_engine_destroy(engine);
    return 0;
}
