/* bench/bench_attention.c - attention and its gradient against the peak of this core.
 *
 *    bench_attention [rounds]     a table; the peak loop runs in turns with what it is compared
 * with bench_attention serve        the child of bench/attention.lua: for each line "samples heads
 *                                 queries keys D dropout" one run; prints its seconds, forward and
 *                                 gradient, or 0 for the gradient of a single query (decoding)
 *
 * Rows with T5's bias table, scale 1, on one thread; times are the thread's CPU time. Counted are
 * 4 D flops for a pair of query and key forward and 10 D in the gradient, which computes scores
 * again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ops/ops.h"
#include "median.h"

enum { MAX_ROUNDS = 101, BUCKETS = 32, PEAK_TURNS = 200000 };

typedef struct sizes {
    int64_t B, H, Tq, Tk, D;
    double dropout;
} sizes;

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "bench_attention: %s failed\n", what);
    exit(1);
}

/* -- the peak of a core -------------------------------------------------------------------------*/

/* Flops of PEAK_TURNS turns of multiply-adds in twelve independent chains. */
#if defined(__x86_64__)
#define CHAINS(step)                                                                               \
    step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10)       \
        step(11)
#define WIDE(i) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" #i "\n"
#define HALF(i) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" #i "\n"
#define ZERO(i) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n"
#define USED                                                                                       \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",       \
        "xmm11", "xmm12", "cc"
static double peak_loop(void)
{
    int64_t n = PEAK_TURNS;
    bool wide = ft_cpu_isa() == FT_ISA_AVX512;
    if (ft_cpu_isa() == FT_ISA_BASE) return 0.0;
    if (wide)
        __asm__ volatile(CHAINS(ZERO) ZERO(12) "1:\n" CHAINS(WIDE) "dec %0\njnz 1b\nvzeroupper\n"
                         : "+r"(n)
                         :
                         : USED);
    else
        __asm__ volatile(CHAINS(ZERO) ZERO(12) "1:\n" CHAINS(HALF) "dec %0\njnz 1b\nvzeroupper\n"
                         : "+r"(n)
                         :
                         : USED);
    return PEAK_TURNS * 12.0 * 2.0 * (wide ? 16.0 : 8.0);
}
#else
static double peak_loop(void)
{
    return 0.0;
}
#endif

/* -- our rows -----------------------------------------------------------------------------------*/

/* A row with its memory. */
typedef struct runner {
    const ft_op *op;
    ft_spec in_spec[FT_MAX_IN], out_spec[FT_MAX_OUT];
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT];
    double attrs[FT_MAX_ATTRS];
    void *work;
    int64_t work_bytes;
    ft_call call;
} runner;

static ft_view noise(const ft_spec *spec, uint64_t seed)
{
    if (spec->shape.n_dims < 0) return (ft_view){.dtype = spec->dtype};
    ft_view view = ft_view_of(spec, ft_pages_alloc(ft_spec_bytes(spec) + 64));
    must(view.data, "allocation");
    ft_rng rng;
    ft_rng_init(&rng, seed, 1);
    for (int64_t i = 0; i < ft_shape_count(&spec->shape); i++)
        ft_view_set(&view, i, 0.5 * ft_rng_normal(&rng));
    return view;
}

static void runner_init(runner *r, const char *name, const ft_spec *in, const double *attrs)
{
    *r = (runner){.op = ft_op_find(name)};
    memcpy(r->in_spec, in, sizeof r->in_spec);
    memcpy(r->attrs, attrs, sizeof r->attrs);
    must(r->op->shape(r->in_spec, r->attrs, r->out_spec, NULL) == FT_OK, "shape");
    for (int i = 0; i < FT_MAX_IN; i++) r->in[i] = noise(&r->in_spec[i], (uint64_t)i + 1);
    for (int i = 0; i < r->op->n_out; i++) r->out[i] = noise(&r->out_spec[i], 99);
    r->work_bytes = r->op->workspace(r->in_spec, r->attrs, 1) + 64;
    r->work = ft_pages_alloc(r->work_bytes);
    must(r->work, "allocation");
    r->call = (ft_call){.in = r->in,
                        .out = r->out,
                        .attrs = r->attrs,
                        .work = r->work,
                        .key = {.seed = 1, .step = 2, .node = 3}};
}

static void runner_fini(runner *r)
{
    for (int i = 0; i < FT_MAX_IN; i++)
        if (r->in[i].data) ft_pages_free(r->in[i].data, ft_spec_bytes(&r->in_spec[i]) + 64);
    for (int i = 0; i < FT_MAX_OUT; i++)
        if (r->out[i].data) ft_pages_free(r->out[i].data, ft_spec_bytes(&r->out_spec[i]) + 64);
    if (r->work) ft_pages_free(r->work, r->work_bytes);
}

static double runner_run(runner *r)
{
    int64_t start = ft_thread_cpu_ns();
    must(r->op->kernel(&r->call, NULL) == FT_OK, r->op->name);
    return (double)(ft_thread_cpu_ns() - start) * 1e-9;
}

typedef struct pair {
    sizes s;
    runner forward, grad; /* grad.op NULL: none */
} pair;

static void pair_init(pair *p, const sizes *s)
{
    const double attrs[FT_MAX_ATTRS] = {(double)s->H, 0, 1, 128, 1, s->dropout};
    const ft_spec q = {FT_F32, ft_shape_of(s->B, s->Tq, s->H * s->D)};
    const ft_spec k = {FT_F32, ft_shape_of(s->B, s->Tk, s->H * s->D)};
    const ft_spec table = {FT_F32, ft_shape_of(BUCKETS, s->H)}, none = {FT_F32, {-1, {0}}};
    const ft_spec position = {FT_I32, ft_shape_of(1)};
    const ft_spec in[FT_MAX_IN] = {q, k, k, none, table, s->Tq == 1 ? position : none, none, none};
    *p = (pair){.s = *s};
    runner_init(&p->forward, "attention", in, attrs);
    if (s->Tq == 1) {
        *(int32_t *)p->forward.in[5].data = (int32_t)(s->Tk - 1);
        return;
    }
    const ft_spec *out = p->forward.out_spec;
    const ft_spec grad_in[FT_MAX_IN] = {q, q, k, k, out[0], out[1], none, table};
    runner_init(&p->grad, "attention_grad", grad_in, attrs);
    runner_run(&p->forward);
    memcpy(p->grad.in[5].data, p->forward.out[1].data, (size_t)ft_spec_bytes(&out[1]));
}

static void pair_fini(pair *p)
{
    runner_fini(&p->forward);
    runner_fini(&p->grad);
}

static double pair_flops(const sizes *s, double per_pair)
{
    return per_pair * (double)(s->B * s->H * s->Tq * s->Tk * s->D);
}

/* -- the table ----------------------------------------------------------------------------------*/

static void print_line(const sizes *s, int rounds)
{
    pair p;
    pair_init(&p, s);
    double peak[MAX_ROUNDS], forward[MAX_ROUNDS], grad[MAX_ROUNDS], flops = 0.0;
    for (int i = -1; i < rounds; i++) { /* the first round warms up */
        int at = i < 0 ? 0 : i;
        int64_t start = ft_thread_cpu_ns();
        flops = peak_loop();
        peak[at] = (double)(ft_thread_cpu_ns() - start) * 1e-9;
        forward[at] = runner_run(&p.forward);
        if (p.grad.op) grad[at] = runner_run(&p.grad);
    }
    double top = flops / median(peak, rounds) * 1e-9;
    double rate = pair_flops(s, 4.0) / median(forward, rounds) * 1e-9;
    printf("attention_%s%lld_d%lld_p%g forward %.1f GFLOP/s", s->Tq == 1 ? "decode" : "T",
           (long long)s->Tk, (long long)s->D, s->dropout, rate);
    if (top > 0.0) printf(" (%.2f of peak)", rate / top);
    if (p.grad.op) {
        rate = pair_flops(s, 10.0) / median(grad, rounds) * 1e-9;
        printf(" grad %.1f GFLOP/s", rate);
        if (top > 0.0) printf(" (%.2f of peak)", rate / top);
    }
    printf(top > 0.0 ? ", peak %.1f\n" : "\n", top);
    fflush(stdout);
    pair_fini(&p);
}

static int serve(void)
{
    char line[256];
    pair p = {.s = {.B = -1}};
    while (fgets(line, sizeof line, stdin)) {
        long long n[5];
        sizes s;
        must(sscanf(line, "%lld %lld %lld %lld %lld %lf", &n[0], &n[1], &n[2], &n[3], &n[4],
                    &s.dropout) == 6,
             "reading a line");
        s = (sizes){n[0], n[1], n[2], n[3], n[4], s.dropout};
        if (memcmp(&s, &p.s, sizeof s) != 0) {
            pair_fini(&p);
            pair_init(&p, &s);
        }
        double forward = runner_run(&p.forward), grad = p.grad.op ? runner_run(&p.grad) : 0.0;
        printf("%.9f %.9f\n", forward, grad);
        fflush(stdout);
    }
    pair_fini(&p);
    return 0;
}

int main(int argc, char **argv)
{
    static const int64_t lengths[] = {64, 128, 320, 512}, samples[] = {8, 4, 2, 2};
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    if (argc > 1 && !strcmp(argv[1], "serve")) return serve();
    if (rounds < 1 || rounds > MAX_ROUNDS) rounds = 9;
    for (int64_t D = 64; D <= 128; D += 64)
        for (int dropout = 0; dropout < 2; dropout++)
            for (int i = 0; i < 4; i++)
                print_line(&(sizes){samples[i], 8, lengths[i], lengths[i], D, dropout * 0.1},
                           rounds);
    print_line(&(sizes){8, 8, 1, 512, 64, 0.0}, rounds);
    return 0;
}
