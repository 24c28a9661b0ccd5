/* test/test_ops_bf16.c - rows whose operands are rounded to bf16: that they are, and where they may
 * run. */
#include <string.h>

#include "check.h"
#include "op_case.h"
#include "ops/internal.h"
#include "source.h"

enum { BYTES = 1 << 14, M = 37, N = 40, K = 50 };

/* A row, with where its attribute is. */
typedef struct row {
    const char *name;
    int attr;
    ft_spec in[FT_MAX_IN];
} row;

static const row rows[] = {
    {"linear", 2, {FT_F32_OF(2, M, K), FT_F32_OF(2, N, K), FT_ABSENT}},
    {"linear_grad_input", 0, {FT_F32_OF(2, M, N), FT_F32_OF(2, N, K)}},
    {"linear_grad_weight", 0, {FT_F32_OF(2, M, N), FT_F32_OF(2, M, K)}},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* One execution of a row with its memory. */
typedef struct trial {
    const ft_op *op;
    const row *row;
    ft_spec out_spec[FT_MAX_OUT];
    double attrs[FT_MAX_ATTRS];
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT];
    void *packed;
    ft_call call;
} trial;

static void trial_init(trial *t, const row *r, bool bf16)
{
    *t = (trial){.op = ft_op_find(r->name), .row = r};
    t->attrs[r->attr] = bf16;
    CHECK_STATUS(t->op->shape(r->in, t->attrs, t->out_spec, NULL), FT_OK);
    for (int i = 0; i < 2; i++) {
        t->in[i] = ft_view_of(&r->in[i], guarded_new(BYTES));
        draw(t->in[i].data, ft_shape_count(&r->in[i].shape), (uint32_t)i + 1);
    }
    t->out[0] = ft_view_of(&t->out_spec[0], guarded_new(BYTES));
    t->call = (ft_call){.in = t->in, .out = t->out, .attrs = t->attrs};
    t->call.work = guarded_new(t->op->workspace(r->in, t->attrs, 1));
}

static void trial_free(trial *t)
{
    guarded_free(t->in[0].data);
    guarded_free(t->in[1].data);
    guarded_free(t->out[0].data);
    guarded_free(t->call.work);
    guarded_free(t->packed);
}

static ft_status pack(trial *t, ft_error *err)
{
    t->packed = guarded_new(t->op->pack_bytes(t->row->in, t->attrs));
    t->call.packed = t->packed;
    return t->op->pack(t->row->in, t->attrs, t->in[1].data, t->packed, NULL, err);
}

/* Kernels that are not allowed, or that the CPU has not, are not run; nor is f32 in their place. */
static void test_where_it_is_ruled_out(void)
{
    const char *best = ft_cpu_kernels_name();
    for (int r = 0; r < N_ROWS; r++) {
        trial t;
        ft_error err = {0};
        trial_init(&t, &rows[r], true);
        CHECK_STATUS(ft_cpu_allow("avx512", NULL), FT_OK);
        CHECK_STATUS(t.op->kernel(&t.call, &err), FT_UNSUPPORTED);
        CHECK(strstr(err.message, "FTPIPE_KERNELS rules out") != NULL);
        CHECK(*(const unsigned char *)t.out[0].data == GARBAGE); /* nothing is written */
        if (t.op->pack) CHECK_STATUS(pack(&t, &err), FT_UNSUPPORTED);
        CHECK_STATUS(ft_cpu_allow(best, NULL), FT_OK);
        trial_free(&t);
    }
}

/* Ties to even. */
static void halve(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
        memcpy(&x[i], &bits, 4);
    }
}

/* Runs it, with operands that are rounded before, if asked, and a weight that is packed. */
static void run(trial *t, const row *r, bool bf16, bool before, bool packs)
{
    trial_init(t, r, bf16);
    for (int i = 0; i < 2 && before; i++) halve(t->in[i].data, ft_shape_count(&r->in[i].shape));
    if (packs) CHECK_STATUS(pack(t, NULL), FT_OK);
    CHECK_STATUS(t->op->kernel(&t->call, NULL), FT_OK);
}

/* Operands that have been rounded give the same bits as those that have not, which those of f32 do
 * not. */
static void test_operands_are_rounded(void)
{
    if (!ft_cpu_bf16()) {
        printf("skipped: this CPU's vectors have no bf16\n");
        return;
    }
    for (int r = 0; r < N_ROWS; r++)
        for (int packs = 0; packs <= (ft_op_find(rows[r].name)->pack != NULL); packs++) {
            trial plain, half, halved;
            run(&plain, &rows[r], false, false, packs);
            run(&half, &rows[r], true, false, packs);
            run(&halved, &rows[r], true, true, packs);
            size_t bytes = (size_t)ft_spec_bytes(&half.out_spec[0]);
            CHECK(!memcmp(half.out[0].data, halved.out[0].data, bytes));
            CHECK(memcmp(half.out[0].data, plain.out[0].data, bytes) != 0);
            trial_free(&plain);
            trial_free(&half);
            trial_free(&halved);
        }
}

/* What is packed for one arithmetic is not read by another: kinds are told apart. */
static void test_kinds_of_packed_weights(void)
{
    const ft_op *linear = ft_op_find("linear"), *input = ft_op_find("linear_grad_input");
    const char *kinds[6];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        kinds[3 * bf16] = linear->pack_kind((double[FT_MAX_ATTRS]){0, 0, bf16});
        kinds[3 * bf16 + 1] = linear->pack_kind((double[FT_MAX_ATTRS]){0, 1, bf16});
        kinds[3 * bf16 + 2] = input->pack_kind((double[FT_MAX_ATTRS]){bf16});
        CHECK(!strcmp(kinds[3 * bf16 + 1], kinds[3 * bf16 + 2])); /* both read (k,n) */
    }
    for (int i = 0; i < 5; i++)
        for (int k = i + 1; k < 5; k++)
            if (i != 1 || k != 2) CHECK(strcmp(kinds[i], kinds[k]) != 0);
}

int main(void)
{
    RUN(test_where_it_is_ruled_out);
    RUN(test_operands_are_rounded);
    RUN(test_kinds_of_packed_weights);
    return check_report();
}
