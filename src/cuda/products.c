/* cuda/products.c - matrix products by cuBLASLt.
 *
 * Rows of ours are columns of the library: c = op(a) op(b) is given to it as c^T = op(b)^T op(a)^T,
 * so its first operand is b. */
#include "cuda/products.h"

#include <string.h>

#include "base/alloc.h"

/* What an algorithm is chosen by. */
typedef struct shape {
    int64_t M, N, K, batch, pitch_a, pitch_c;
    bool transpose_a, transpose_b, relu, bias;
    int32_t rounding, result; /* what c is kept in */
    uint32_t alignment;       /* of all its matrices, in bytes */
} shape;

typedef struct plan {
    shape of;
    cublas_product product;
    cublas_layout a, b, c;
    cublas_algorithm algorithm;
    bool usable; /* the library has an algorithm */
} plan;

/* More than a model's graphs have; when they are full, all are made anew. */
enum { PLANS = 256 };

struct ft_products {
    const ft_cublas_api *api;
    cublas_handle handle;
    int n;
    plan plans[PLANS];
};

static ft_status check(int answer, const char *what, ft_error *err)
{
    if (answer == 0) return FT_OK;
    return ft_fail(err, FT_DEVICE, "cuBLASLt: %s failed (status %d)", what, answer);
}

ft_status ft_products_new(ft_products **out, const ft_cublas_api *api, ft_error *err)
{
    ft_products *p = ft_alloc(sizeof *p);
    *out = NULL;
    if (!p) return ft_fail(err, FT_NOMEM, "no memory for products");
    *p = (ft_products){.api = api};
    ft_status status = check(api->open(&p->handle), "opening it", err);
    if (status == FT_OK)
        *out = p;
    else
        ft_free(p);
    return status;
}

static void free_plan(const ft_cublas_api *api, plan *x)
{
    if (x->product) api->product_free(x->product);
    if (x->a) api->layout_free(x->a);
    if (x->b) api->layout_free(x->b);
    if (x->c) api->layout_free(x->c);
}

static void forget_plans(ft_products *p)
{
    while (p->n > 0) free_plan(p->api, &p->plans[--p->n]);
}

void ft_products_free(ft_products *p)
{
    if (!p) return;
    forget_plans(p);
    p->api->close(p->handle);
    ft_free(p);
}

/* -- plans ------------------------------------------------------------------------------------- */

static bool same_shape(const shape *x, const shape *y)
{
    return x->M == y->M && x->N == y->N && x->K == y->K && x->batch == y->batch &&
           x->pitch_a == y->pitch_a && x->pitch_c == y->pitch_c &&
           x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b &&
           x->alignment == y->alignment && x->relu == y->relu && x->bias == y->bias &&
           x->rounding == y->rounding && x->result == y->result;
}

/* The library counts on 256 bytes where it is not told. */
static uint32_t alignment_of(const ft_product_args *args)
{
    uintptr_t all = (uintptr_t)args->a.at | (uintptr_t)args->b.at | (uintptr_t)args->c.at | 256;
    return (uint32_t)(all & -all);
}

/* `batch` matrices of ours. */
typedef struct matrices {
    int type;
    int64_t rows, width, pitch, batch;
} matrices;

static ft_status make_layout(const ft_cublas_api *api, cublas_layout *out, matrices m,
                             ft_error *err)
{
    int32_t count = (int32_t)m.batch;
    int64_t step = m.rows * m.pitch;
    FT_TRY(check(api->layout_new(out, m.type, (uint64_t)m.width, (uint64_t)m.rows, m.pitch),
                 "a layout", err));
    FT_TRY(check(api->layout_set(*out, CUBLAS_BATCH_COUNT, &count, sizeof count), "a layout", err));
    return check(api->layout_set(*out, CUBLAS_BATCH_STEP, &step, sizeof step), "a layout", err);
}

static ft_status set(const ft_cublas_api *api, cublas_product product, int attribute, int32_t value,
                     ft_error *err)
{
    return check(api->product_set(product, attribute, &value, sizeof value), "a product", err);
}

static const int TYPES[] = {[FT_CUDA_F32] = CUBLAS_F32,
                            [FT_CUDA_TF32] = CUBLAS_F32,
                            [FT_CUDA_BF16] = CUBLAS_BF16,
                            [FT_CUDA_F16] = CUBLAS_F16};

static ft_status describe(const ft_cublas_api *api, plan *x, ft_error *err)
{
    const shape *s = &x->of;
    int type = TYPES[s->rounding];
    int32_t epilogue = (s->relu ? CUBLAS_EPILOGUE_RELU : 0) | (s->bias ? CUBLAS_EPILOGUE_BIAS : 0);
    int compute = s->rounding == FT_CUDA_TF32 ? CUBLAS_COMPUTE_TF32 : CUBLAS_COMPUTE_F32;
    FT_TRY(check(api->product_new(&x->product, compute, CUBLAS_F32), "a product", err));
    FT_TRY(set(api, x->product, CUBLAS_TRANSPOSE_A, s->transpose_b, err));
    FT_TRY(set(api, x->product, CUBLAS_TRANSPOSE_B, s->transpose_a, err));
    FT_TRY(set(api, x->product, CUBLAS_EPILOGUE, epilogue ? epilogue : CUBLAS_EPILOGUE_NONE, err));
    bool ta = s->transpose_a, tb = s->transpose_b;
    int64_t rows_b = tb ? s->N : s->K, width_b = tb ? s->K : s->N;
    const matrices a = {type, ta ? s->K : s->M, ta ? s->M : s->K, s->pitch_a, s->batch};
    const matrices b = {type, rows_b, width_b, width_b, s->batch};
    const matrices c = {TYPES[s->result], s->M, s->N, s->pitch_c, s->batch};
    FT_TRY(make_layout(api, &x->a, a, err));
    FT_TRY(make_layout(api, &x->b, b, err));
    return make_layout(api, &x->c, c, err);
}

static ft_status prefer(const ft_cublas_api *api, cublas_preference preference, const plan *x,
                        size_t scratch_bytes, ft_error *err)
{
    static const int attributes[] = {CUBLAS_ALIGNMENT_A, CUBLAS_ALIGNMENT_B, CUBLAS_ALIGNMENT_C,
                                     CUBLAS_ALIGNMENT_D};
    FT_TRY(check(api->preference_set(preference, CUBLAS_MOST_WORKSPACE, &scratch_bytes,
                                     sizeof scratch_bytes),
                 "a preference", err));
    for (int i = 0; i < 4; i++)
        FT_TRY(check(api->preference_set(preference, attributes[i], &x->of.alignment,
                                         sizeof x->of.alignment),
                     "a preference", err));
    return FT_OK;
}

static ft_status choose(const ft_products *p, plan *x, size_t scratch_bytes, ft_error *err)
{
    const ft_cublas_api *api = p->api;
    cublas_preference preference;
    cublas_choice choice = {.state = -1};
    int n = 0, answer = 0;
    FT_TRY(check(api->preference_new(&preference), "a preference", err));
    ft_status status = prefer(api, preference, x, scratch_bytes, err);
    if (status == FT_OK)
        answer =
            api->choose(p->handle, x->product, x->b, x->a, x->c, x->c, preference, 1, &choice, &n);
    if (status == FT_OK && answer != CUBLAS_NOT_SUPPORTED)
        status = check(answer, "choosing an algorithm", err);
    x->usable = n > 0 && choice.state == 0;
    x->algorithm = choice.algorithm;
    api->preference_free(preference);
    return status;
}

static ft_status set_bias(const ft_products *p, const plan *x, const ft_product_args *args,
                          ft_error *err)
{
    if (!args->bias) return FT_OK;
    return check(p->api->product_set(x->product, CUBLAS_BIAS, &args->bias, sizeof args->bias),
                 "a bias", err);
}

/* The first time that a shape comes, which is in a run's first step. The choice sees where the
 * bias is. */
static ft_status add_plan(ft_products *p, const shape *of, const ft_product_args *args,
                          size_t scratch_bytes, ft_error *err)
{
    if (p->n == PLANS) forget_plans(p);
    plan *x = &p->plans[p->n];
    *x = (plan){.of = *of};
    ft_status status = describe(p->api, x, err);
    if (status == FT_OK) status = set_bias(p, x, args, err);
    if (status == FT_OK) status = choose(p, x, scratch_bytes, err);
    if (status == FT_OK)
        p->n++;
    else
        free_plan(p->api, x);
    return status;
}

static ft_status find_plan(ft_products *p, const ft_product_args *args, int64_t batch,
                           const ft_product_place *place, const plan **out, ft_error *err)
{
    const shape of = {.M = args->M,
                      .N = args->N,
                      .K = args->K,
                      .batch = batch,
                      .pitch_a = args->pitch_a,
                      .pitch_c = args->pitch_c,
                      .transpose_a = args->transpose_a,
                      .transpose_b = args->transpose_b,
                      .relu = args->relu,
                      .bias = args->bias != NULL,
                      .rounding = args->rounding,
                      .result = (int32_t)args->c.kept,
                      .alignment = alignment_of(args)};
    for (int i = 0; i < p->n; i++) {
        *out = &p->plans[i];
        if (same_shape(&p->plans[i].of, &of)) return FT_OK;
    }
    FT_TRY(add_plan(p, &of, args, place->scratch_bytes, err));
    *out = &p->plans[p->n - 1];
    return FT_OK;
}

ft_status ft_products_have(ft_products *p, const ft_product_args *args, int64_t batch,
                           const ft_product_place *place, bool *out, ft_error *err)
{
    const plan *x;
    *out = false;
    FT_TRY(find_plan(p, args, batch, place, &x, err));
    *out = x->usable;
    return FT_OK;
}

ft_status ft_products_multiply(ft_products *p, const ft_product_args *args, int64_t batch,
                               const ft_product_place *place, ft_error *err)
{
    const float one = 1.0f, kept = args->add ? 1.0f : 0.0f;
    const plan *x;
    FT_TRY(find_plan(p, args, batch, place, &x, err));
    FT_TRY(set_bias(p, x, args, err));
    return check(p->api->multiply(p->handle, x->product, &one, args->b.at, x->b, args->a.at, x->a,
                                  &kept, args->c.at, x->c, args->c.at, x->c, &x->algorithm,
                                  place->scratch, place->scratch_bytes, place->stream),
                 "a product", err);
}
