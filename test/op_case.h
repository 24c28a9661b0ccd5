/* test/op_case.h - one sample of a row with memory for it: drawn inputs, outputs between guards.
 *
 * Everything is there twice, as the kernel sees it (f32, or what a card keeps in 16 bits) and as
 * the reference does (f64). */
#ifndef FT_TEST_OP_CASE_H
#define FT_TEST_OP_CASE_H

#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"

/* Where blocks come from; a test may have its own. */
#ifndef FT_TEST_TAKE
#define FT_TEST_TAKE(bytes)  aligned_alloc(64, bytes)
#define FT_TEST_GIVE(memory) free(memory)
#endif

enum { GUARD = 64, GARBAGE = 0xA5 }; /* bytes around every block, and what is in them */

/* `bytes` aligned to 64 with guards around; never NULL. */
static inline void *guarded_new(int64_t bytes)
{
    char *block = FT_TEST_TAKE((size_t)((bytes + 63) / 64 * 64 + 2 * GUARD));
    if (!block) abort();
    memset(block, GARBAGE, (size_t)((bytes + 63) / 64 * 64 + 2 * GUARD));
    return block + GUARD;
}

static inline bool guarded_intact(const void *data, int64_t bytes)
{
    const unsigned char *p = data;
    for (int64_t i = -GUARD; i < 0; i++)
        if (p[i] != GARBAGE) return false;
    for (int64_t i = bytes; i < bytes + GUARD; i++)
        if (p[i] != GARBAGE) return false;
    return true;
}

static inline void guarded_free(void *data)
{
    if (data) FT_TEST_GIVE((char *)data - GUARD);
}

/* A tensor as the kernel and as the reference see it; absent when both pointers are NULL. */
typedef struct twin {
    ft_spec spec;
    void *fast;   /* f32, bf16, f16 or i32 */
    void *judged; /* f64 or i32 */
} twin;

static inline ft_spec judged_spec(const ft_spec *spec)
{
    ft_spec s = {.dtype = spec->dtype, .shape = spec->shape};
    if (s.dtype != FT_I32) s.dtype = FT_F64;
    return s;
}

static inline twin twin_new(const ft_spec *spec)
{
    if (spec->shape.n_dims < 0) return (twin){.spec = *spec};
    ft_spec judged = judged_spec(spec);
    return (twin){*spec, guarded_new(ft_spec_bytes(spec)), guarded_new(ft_spec_bytes(&judged))};
}

static inline void twin_free(twin *t)
{
    guarded_free(t->fast);
    guarded_free(t->judged);
}

static inline int64_t twin_count(const twin *t)
{
    return t->fast ? ft_shape_count(&t->spec.shape) : 0;
}

static inline ft_view twin_view(const twin *t, bool judged)
{
    if (!t->fast) return (ft_view){.dtype = t->spec.dtype, .shape = {.n_dims = -1}};
    ft_spec spec = judged ? judged_spec(&t->spec) : t->spec;
    return ft_view_of(&spec, judged ? t->judged : t->fast);
}

/* Where the kernel has number i. */
static inline void *twin_at(const twin *t, int64_t i)
{
    int64_t pitch = ft_spec_pitch(&t->spec), rows = t->spec.shape.n_dims - 1;
    int64_t width = rows >= 0 ? t->spec.shape.dims[rows] : 1;
    return (char *)t->fast + (i / width * pitch + i % width) * ft_dtype_bytes(t->spec.dtype);
}

/* Both get the number as the kernel's dtype keeps it. */
static inline void twin_set(twin *t, int64_t i, double x)
{
    void *fast = twin_at(t, i);
    ft_convert(fast, t->spec.dtype, &x, FT_F64, 1);
    ft_convert((double *)t->judged + i, FT_F64, fast, t->spec.dtype, 1);
}

/* Ids below the limit; floats at least 0.25 away from 0, where kinks and poles are, with a random
 * sign unless they must be positive. */
static inline void twin_draw(twin *t, ft_rng *rng, int64_t id_limit, bool positive)
{
    int64_t n = twin_count(t);
    if (t->spec.pitch) memset(t->fast, 0, (size_t)ft_spec_bytes(&t->spec)); /* between rows */
    for (int64_t i = 0; i < n; i++) {
        if (t->spec.dtype == FT_I32) {
            int32_t id = id_limit ? (int32_t)ft_rng_below(rng, (uint64_t)id_limit) : 0;
            ((int32_t *)t->fast)[i] = ((int32_t *)t->judged)[i] = id;
        } else {
            double x = 0.25 + fabs(ft_rng_normal(rng));
            twin_set(t, i, !positive && ft_rng_below(rng, 2) ? -x : x);
        }
    }
}

/* The inputs and outputs that are in 16 bits, by bit, of those that a card may keep so; and whose
 * rows are `gap` more apart than they are long. */
typedef struct case_kept {
    ft_dtype dtype;
    uint32_t in, out;
    int gap;
} case_kept;

static inline case_kept case_all_kept(ft_dtype dtype)
{
    return (case_kept){dtype, UINT32_MAX, UINT32_MAX};
}

typedef struct op_case {
    const ft_op *op;
    const ft_sample *sample;
    case_kept kept;
    int n_in;
    ft_spec in_specs[FT_MAX_IN];
    twin in[FT_MAX_IN], out[FT_MAX_OUT];
    ft_rng_key key;
    uint8_t *rows; /* of calls of a row by rows; or NULL */
} op_case;

/* Rows whose inputs must be positive. */
static inline bool case_positive(const ft_op *op)
{
    return strcmp(op->name, "log") == 0 || strcmp(op->name, "sqrt") == 0;
}

/* Samples that only a CPU with bf16 can run. */
static inline bool case_needs_bf16(const ft_op *op, const ft_sample *sample)
{
    for (int i = 0; i < ft_op_attr_count(op); i++)
        if (strcmp(op->attrs[i].name, "bf16") == 0) return sample->attrs[i] != 0.0;
    return false;
}

/* Runs a row's reference on inputs and outputs as they are. */
static inline ft_status case_judge(const ft_op *op, const twin *in, const twin *out,
                                   const double *attrs, const ft_rng_key *key, ft_error *err)
{
    ft_view ins[FT_MAX_IN] = {0}, outs[FT_MAX_OUT] = {0};
    for (int i = 0; i < op->n_in; i++) ins[i] = twin_view(&in[i], true);
    for (int i = 0; i < op->n_out; i++) outs[i] = twin_view(&out[i], true);
    ft_call call = {.in = ins, .out = outs, .attrs = attrs, .key = *key};
    return op->reference(&call, err);
}

/* The gradient of attention gets what attention gives, y and lse: a mean under its probabilities,
 * which may be taken from either, is the same then. */
static inline ft_status case_draw_results(op_case *c, ft_error *err)
{
    if (strcmp(c->op->name, "attention_grad") != 0) return FT_OK;
    const ft_op *op = ft_op_find("attention");
    const twin in[FT_MAX_IN] = {c->in[1], c->in[2], c->in[3], c->in[6], c->in[7]};
    const twin out[FT_MAX_OUT] = {c->in[4], c->in[5]};
    FT_TRY(case_judge(op, in, out, c->sample->attrs, &c->key, err));
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < twin_count(&out[k]); i++)
            twin_set(&c->in[4 + k], i, ((double *)out[k].judged)[i]);
    return FT_OK;
}

/* As a card keeps it. */
static inline void case_keep(ft_spec *spec, case_kept kept, bool half, bool apart)
{
    if (half) spec->dtype = kept.dtype;
    if (apart && kept.gap && spec->shape.n_dims > 1 && ft_shape_count(&spec->shape) > 0)
        spec->pitch = ft_spec_pitch(spec) + kept.gap;
}

/* False when the shape rule refuses the sample. */
static inline bool case_init_kept(op_case *c, const ft_op *op, const ft_sample *sample,
                                  case_kept kept, ft_error *err)
{
    *c = (op_case){.op = op,
                   .sample = sample,
                   .kept = kept,
                   .n_in = op->n_in,
                   .key = {.seed = 0x1234567890abcdefu, .step = 3, .node = 17, .sample = 5}};
    ft_spec out[FT_MAX_OUT];
    memcpy(c->in_specs, sample->in, sizeof c->in_specs);
    if (ft_op_shape(op, c->in_specs, c->n_in, sample->attrs, out, err) != FT_OK) return false;
    ft_rng rng;
    ft_rng_init(&rng, 42, (uint64_t)(sample - op->samples));
    for (int i = 0; i < op->n_out; i++)
        case_keep(&out[i], kept, (op->half_out & kept.out) >> i & 1, op->apart_out >> i & 1);
    for (int i = 0; i < op->n_in; i++) {
        case_keep(&c->in_specs[i], kept, (op->half_in & kept.in) >> i & 1, op->apart_in >> i & 1);
        c->in[i] = twin_new(&c->in_specs[i]);
        twin_draw(&c->in[i], &rng, sample->id_limit, case_positive(op));
    }
    for (int i = 0; i < op->n_out; i++) c->out[i] = twin_new(&out[i]);
    return case_draw_results(c, err) == FT_OK;
}

static inline bool case_init(op_case *c, const ft_op *op, const ft_sample *sample, ft_error *err)
{
    return case_init_kept(c, op, sample, case_all_kept(FT_F32), err);
}

static inline void case_free(op_case *c)
{
    for (int i = 0; i < FT_MAX_IN; i++) twin_free(&c->in[i]);
    for (int i = 0; i < FT_MAX_OUT; i++) twin_free(&c->out[i]);
}

#endif
