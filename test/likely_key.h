/* test/likely_key.h - the gradient of attention where one key has nearly all of the probability.
 *
 * A query sees `keys` keys, the first of which has all but e^-gap of its probability, as each other
 * one has: dq = p0 p1 (dy.v1 - dy.v0) (k1 - k0), which is far below the rounding of dy.y. */
#ifndef FT_TEST_LIKELY_KEY_H
#define FT_TEST_LIKELY_KEY_H

#include <math.h>
#include <string.h>

#include "op_case.h"

typedef struct likely_key {
    double gap; /* of the first key's score and the others' */
    int64_t keys;
    ft_sample sample;
    op_case test;     /* to be run, and then judged and freed */
    double wanted[2]; /* of the first number of dq, and of the first key's dk */
} likely_key;

static inline bool likely_key_init(likely_key *l)
{
    enum { D = 40 };
    const ft_spec one = {FT_F32, ft_shape_of(1, 1, D)}, all = {FT_F32, ft_shape_of(1, l->keys, D)};
    const ft_spec none = {.shape.n_dims = -1};
    l->sample =
        (ft_sample){.in = {one, one, all, all, one, {FT_F32, ft_shape_of(1, 1, 1)}, none, none},
                    .attrs = {1, 0, 0, 128, 1, 0, 0}};
    ft_error err = {FT_OK, ""};
    if (!CHECK_STATUS(case_init(&l->test, ft_op_find("attention_grad"), &l->sample, &err), true))
        return false;
    float *in[6];
    for (int i = 0; i < 6; i++) {
        in[i] = l->test.in[i].fast;
        memset(in[i], 0, (size_t)twin_count(&l->test.in[i]) * sizeof *in[i]);
    }
    float *dy = in[0], *q = in[1], *k = in[2], *v = in[3], *y = in[4];
    double of_v[2] = {0, 0}, others = (double)(l->keys - 1);
    double p1 = exp(-l->gap) / (1 + others * exp(-l->gap)), p0 = 1 - others * p1;
    in[5][0] = (float)log(1 + others * exp(-l->gap));
    q[0] = 1.0f;
    for (int64_t j = 1; j < l->keys; j++) k[j * D] = (float)-l->gap;
    for (int64_t d = 0; d < D; d++) {
        dy[d] = 0.3f + 0.7f * (float)(d % 7);
        for (int64_t j = 0; j < l->keys; j++)
            v[j * D + d] = (float)((d * 5 + (j ? 3 : 0)) % 11) - 4.3f;
        y[d] = (float)((double)v[d] * p0 + (double)v[D + d] * others * p1);
        for (int i = 0; i < 2; i++) of_v[i] += (double)dy[d] * (double)v[i * D + d];
    }
    l->wanted[1] = -p0 * p1 * others * (of_v[1] - of_v[0]);
    l->wanted[0] = l->wanted[1] * l->gap;
    return true;
}

static inline void likely_key_judge(const likely_key *l)
{
    for (int i = 0; i < 2; i++)
        CHECK_NEAR((double)*(const float *)l->test.out[i].fast / l->wanted[i], 1.0, 1e-5);
}

#endif
