/* ops/attention_reference.c - attention in plain loops over f64 data: the judge of the kernels. */
#include "ops/attention.h"

#include <math.h>

/* What scores are made of, whichever row asks. */
typedef struct terms {
    ft_attention a;
    const double *q, *k, *v, *table;
    const int32_t *mask;
    ft_rng_key key;
} terms;

/* k and v of packed inputs lie behind q. */
static terms terms_of(const ft_call *call, const ft_attention *a, int q, int mask)
{
    terms t = {*a,
               ft_in64(call, q),
               ft_in64(call, q + 1),
               ft_in64(call, q + 2),
               ft_in64(call, mask + 1),
               ft_ids(call, mask),
               call->key};
    if (a->packed) {
        t.k = t.q + a->H * a->D;
        t.v = t.k + a->H * a->D;
    }
    return t;
}

static double dot(const double *x, const double *y, int64_t D)
{
    double sum = 0.0;
    for (int64_t d = 0; d < D; d++) sum += x[d] * y[d];
    return sum;
}

/* Number of the first element of head h at position i of sample b, of T positions: in y, and in q,
 * k or v. */
static int64_t head_at(const ft_attention *a, int64_t T, int64_t b, int64_t i, int64_t h)
{
    return ((b * T + i) * a->H + h) * a->D;
}

static int64_t input_at(const ft_attention *a, int64_t T, int64_t b, int64_t i, int64_t h)
{
    return (b * T + i) * ft_attention_step(a) + h * a->D;
}

static bool sees(const terms *t, int64_t b, int64_t i, int64_t j)
{
    return j < ft_attention_keys(&t->a, i) && (!t->mask || t->mask[b * t->a.Tk + j]);
}

static int64_t bucket(const terms *t, int64_t i, int64_t j)
{
    return ft_relative_bucket(j - i - t->a.offset, t->a.R, t->a.max_distance, t->a.bidirectional);
}

static double score(const terms *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const ft_attention *a = &t->a;
    double s = a->scale *
               dot(t->q + input_at(a, a->Tq, b, i, h), t->k + input_at(a, a->Tk, b, j, h), a->D);
    return t->table ? s + t->table[bucket(t, i, j) * a->H + h] : s;
}

/* Dropout's factor of a probability: 0 or what makes up for the dropped ones. */
static double kept(const terms *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const ft_attention *a = &t->a;
    if (!a->threshold) return 1.0;
    uint64_t index = (uint64_t)((h * a->Tq + i) * a->Tk + j);
    if (!ft_dropout_keeps(&t->key, t->key.sample + (uint32_t)b, index, a->threshold)) return 0.0;
    return 65536.0 / (65536.0 - a->threshold);
}

/* log of the sum of exp(score) of a query; false if it sees no key. */
static bool row_lse(const terms *t, int64_t b, int64_t h, int64_t i, double *lse)
{
    double most = -HUGE_VAL, sum = 0.0;
    *lse = 0.0;
    for (int64_t j = 0; j < t->a.Tk; j++)
        if (sees(t, b, i, j)) most = fmax(most, score(t, b, h, i, j));
    if (most == -HUGE_VAL) return false;
    for (int64_t j = 0; j < t->a.Tk; j++)
        if (sees(t, b, i, j)) sum += exp(score(t, b, h, i, j) - most);
    *lse = most + log(sum);
    return true;
}

static void row_forward(const terms *t, double *y, double lse, const int64_t bhi[3])
{
    const ft_attention *a = &t->a;
    int64_t b = bhi[0], h = bhi[1], i = bhi[2];
    double *row = y + head_at(a, a->Tq, b, i, h);
    for (int64_t j = 0; j < a->Tk; j++) {
        if (!sees(t, b, i, j)) continue;
        double p = exp(score(t, b, h, i, j) - lse) * kept(t, b, h, i, j);
        for (int64_t d = 0; d < a->D; d++) row[d] += p * t->v[input_at(a, a->Tk, b, j, h) + d];
    }
}

ft_status ft_attention_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_attention problem = ft_attention_of_call(call);
    terms t = terms_of(call, &problem, 0, 3);
    const ft_attention *a = &t.a;
    double *y = ft_out64(call, 0), *lse = ft_out64(call, 1);
    for (int64_t n = 0; n < a->B * a->Tq * a->H * a->D; n++) y[n] = 0.0;
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++)
            for (int64_t i = 0; i < a->Tq; i++) {
                double *at = &lse[(b * a->H + h) * a->Tq + i];
                if (row_lse(&t, b, h, i, at)) row_forward(&t, y, *at, (int64_t[]){b, h, i});
            }
    return FT_OK;
}

/* Adds what query i of head h gives to the four gradients. */
static void row_backward(const terms *t, const ft_call *call, const int64_t bhi[3])
{
    const ft_attention *a = &t->a;
    int64_t b = bhi[0], h = bhi[1], i = bhi[2], at = head_at(a, a->Tq, b, i, h);
    int64_t query = input_at(a, a->Tq, b, i, h), inner = a->packed ? a->H * a->D : 0;
    const double *dy = ft_in64(call, 0) + at;
    double lse = ft_in64(call, 5)[(b * a->H + h) * a->Tq + i];
    double delta = dot(dy, ft_in64(call, 4) + at, a->D);
    double *dq = ft_out64(call, 0) + query;
    double *dk = inner ? ft_out64(call, 0) + inner : ft_out64(call, 1);
    double *dv = inner ? ft_out64(call, 0) + 2 * inner : ft_out64(call, 2);
    for (int64_t j = 0; j < a->Tk; j++) {
        if (!sees(t, b, i, j)) continue;
        int64_t key = input_at(a, a->Tk, b, j, h);
        double p = exp(score(t, b, h, i, j) - lse), keep = kept(t, b, h, i, j);
        double ds = p * (keep * dot(dy, t->v + key, a->D) - delta);
        for (int64_t d = 0; d < a->D; d++) {
            dv[key + d] += p * keep * dy[d];
            dq[d] += a->scale * ds * t->k[key + d];
            dk[key + d] += a->scale * ds * t->q[query + d];
        }
        if (t->table) ft_out64(call, 3)[bucket(t, i, j) * a->H + h] += ds;
    }
}

ft_status ft_attention_grad_reference(const ft_call *call, ft_error *err)
{
    (void)err;
    ft_attention problem = ft_attention_of_grad_call(call);
    terms t = terms_of(call, &problem, 1, 6);
    const ft_attention *a = &t.a;
    for (int out = 0; out < 4; out++) {
        int64_t n = ft_shape_count(&call->out[out].shape);
        if (!ft_adds(call, out))
            for (int64_t e = 0; e < n; e++) ft_out64(call, out)[e] = 0.0;
    }
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++)
            for (int64_t i = 0; i < a->Tq; i++) row_backward(&t, call, (int64_t[]){b, h, i});
    return FT_OK;
}
