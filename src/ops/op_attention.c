/* ops/op_attention.c - the rows of multi-head attention; kernels are in attention_kernel.c.
 *
 *   q (B,Tq,H*D)  k (B,Tk,H*D)  v (B,Tk,H*D)  [mask i32 (B,Tk)]  [table (R,H)]  [position i32 (1)]
 *     ->  y (B,Tq,H*D)   lse (B,H,Tq)
 *   score(i,j) = scale * q_i . k_j + table[bucket(j - i - position)][head]
 *   y_i = sum over j of dropout(softmax_j(score(i,j))) * v_j        lse_i = log(sum exp score(i,j))
 *
 * Keys j with mask 0, and with `causal` those with j > i + position, have probability exactly 0. A
 * query whose keys are all excluded gets y = 0, and 0 in the place of its lse, which is not finite.
 * position is where the first query stands (decoding with a cache), 0 if absent; the gradient is
 * for 0, so a node with a position has none.
 * k and v may be absent: then q is (B,T,3*H*D), the three of each position one after the other, as
 * one product gives them, and so is its gradient. T is Tq and Tk.
 * Dropout draws for element (h * Tq + i) * Tk + j of sample b (ops.h); the gradient draws again.
 * Sources: Vaswani et al., arXiv:1706.03762, eq. 1; the gradient through lse: Dao et al.,
 * arXiv:2205.14135, appendix B.2; the bias: relative_bias.c. */
#include "ops/attention.h"
#include "ops/rounding.h"

#include <math.h>
#include <stddef.h>

enum { MASK = 3, TABLE = 4, POSITION = 5, GRAD_MASK = 6, GRAD_TABLE = 7 };

static const ft_attr_rule attention_attrs[] = {
    {.name = "heads",
     .preset = 1,
     .min = 1,
     .max = 65536,
     .integer = true,
     .help = "heads that the last dimension is cut into"},
    {.name = "causal",
     .preset = 0,
     .min = 0,
     .max = 1,
     .integer = true,
     .help = "1: a query sees no key after its own position"},
    {.name = "bidirectional",
     .preset = 1,
     .min = 0,
     .max = 1,
     .integer = true,
     .help = "1: half of the buckets of the bias are for keys after the query"},
    {.name = "max_distance",
     .preset = 128,
     .min = 1,
     .max = 1048576,
     .integer = true,
     .help = "distance from which on all keys share the last bucket of the bias"},
    {.name = "scale",
     .preset = 1,
     .min = -1e6,
     .max = 1e6,
     .help = "factor of q.k; 1 in T5, 1/sqrt(D) elsewhere"},
    {.name = "dropout",
     .preset = 0,
     .min = 0,
     .max = 0.999,
     .help = "probability that a probability is dropped"},
    {.name = "rounding",
     .preset = FT_ATTENTION_F32,
     .min = FT_ATTENTION_F32,
     .max = FT_ATTENTION_TF32,
     .integer = true,
     .help = "operands of products on cards: 0 f32; where heads have a multiple of 4 numbers, and "
             "at most 128, 1 bf16 or 3 tf32, and at most 64, 2 f16"},
    {.name = NULL},
};

ft_attention ft_attention_of(const ft_shape *q, const ft_shape *k, const ft_shape *table,
                             const double *attrs)
{
    static const int64_t most[] = {
        [FT_ATTENTION_BF16] = 128, [FT_ATTENTION_F16] = 64, [FT_ATTENTION_TF32] = 128};
    int64_t heads = (int64_t)attrs[FT_ATTENTION_HEADS], D = q->dims[2] / heads / (k ? 1 : 3);
    ft_attention_rounding rounding = (ft_attention_rounding)attrs[FT_ATTENTION_ROUNDING];
    return (ft_attention){.B = q->dims[0],
                          .Tq = q->dims[1],
                          .Tk = k ? k->dims[1] : q->dims[1],
                          .H = heads,
                          .D = D,
                          .packed = !k,
                          .R = table ? table->dims[0] : 0,
                          .causal = attrs[FT_ATTENTION_CAUSAL] != 0.0,
                          .bidirectional = attrs[FT_ATTENTION_BIDIRECTIONAL] != 0.0,
                          .max_distance = (int64_t)attrs[FT_ATTENTION_MAX_DISTANCE],
                          .scale = attrs[FT_ATTENTION_SCALE],
                          .threshold = ft_dropout_threshold(attrs[FT_ATTENTION_DROPOUT]),
                          .rounding =
                              D <= most[rounding] && D % 4 == 0 ? rounding : FT_ATTENTION_F32};
}

ft_attention ft_attention_of_call(const ft_call *call)
{
    const ft_view *k = &call->in[1], *table = &call->in[TABLE];
    ft_attention a = ft_attention_of(&call->in[0].shape, k->data ? &k->shape : NULL,
                                     table->data ? &table->shape : NULL, call->attrs);
    if (call->in[POSITION].data) a.offset = ft_ids(call, POSITION)[0];
    return a;
}

ft_attention ft_attention_of_grad_call(const ft_call *call)
{
    const ft_view *k = &call->in[2], *table = &call->in[GRAD_TABLE];
    return ft_attention_of(&call->in[1].shape, k->data ? &k->shape : NULL,
                           table->data ? &table->shape : NULL, call->attrs);
}

static const ft_shape *shape_if(const ft_spec *spec)
{
    return ft_present(spec) ? &spec->shape : NULL;
}

/* q, k and v against each other. */
static ft_status check_qkv(const char *op, const ft_spec *qkv, int64_t heads, ft_error *err)
{
    static const char *const names[] = {"q", "k", "v"};
    bool packed = !ft_present(&qkv[1]);
    if (packed != !ft_present(&qkv[2]))
        return ft_fail(err, FT_SHAPE, "%s: %s without %s, expected both or, packed in q, neither",
                       op, names[1 + packed], names[2 - packed]);
    for (int i = 0; i < (packed ? 1 : 3); i++) {
        FT_TRY(ft_need_dtype(op, names[i], &qkv[i], FT_F32, err));
        if (qkv[i].shape.n_dims != 3)
            return ft_shape_fail(err, op, names[i], &qkv[i], "(samples, positions, heads * D)");
    }
    const ft_shape *q = &qkv[0].shape;
    if (q->dims[2] % (packed ? 3 * heads : heads))
        return ft_fail(err, FT_SHAPE,
                       "%s: the last dimension of q, %lld, is not a multiple of %sheads = %lld", op,
                       (long long)q->dims[2], packed ? "3 * " : "", (long long)heads);
    if (packed) return FT_OK;
    ft_shape keys = ft_shape_of(q->dims[0], qkv[1].shape.dims[1], q->dims[2]);
    FT_TRY(ft_need_shape(op, "k", &qkv[1], &keys, err));
    return ft_need_shape(op, "v", &qkv[2], &keys, err);
}

/* q, k, v, mask and table against each other. */
static ft_status check_common(const char *op, const ft_spec *qkv, const ft_spec *mask,
                              const ft_spec *table, const double *attrs, ft_error *err)
{
    const ft_shape *q = &qkv[0].shape, *k = ft_present(&qkv[1]) ? &qkv[1].shape : q;
    int64_t heads = (int64_t)attrs[FT_ATTENTION_HEADS];
    FT_TRY(check_qkv(op, qkv, heads, err));
    if (ft_present(mask)) {
        ft_shape wanted = ft_shape_of(q->dims[0], k->dims[1]);
        FT_TRY(ft_need_dtype(op, "mask", mask, FT_I32, err));
        FT_TRY(ft_need_shape(op, "mask", mask, &wanted, err));
    }
    if (ft_present(table)) {
        FT_TRY(ft_need_dtype(op, "bias_table", table, FT_F32, err));
        int64_t least = attrs[FT_ATTENTION_BIDIRECTIONAL] != 0.0 ? 2 : 1;
        if (table->shape.n_dims != 2 || table->shape.dims[1] != heads ||
            table->shape.dims[0] < least)
            return ft_shape_fail(err, op, "bias_table", table,
                                 "(buckets, heads), at least 1 bucket for each direction");
    }
    return FT_OK;
}

/* What y and lse are for these q and k. */
static void outputs_of(const ft_spec *q, const ft_spec *k, const double *attrs, ft_spec *out)
{
    int64_t B = q->shape.dims[0], T = q->shape.dims[1], width = q->shape.dims[2];
    out[0] = ft_spec_of(FT_F32, ft_shape_of(B, T, ft_present(k) ? width : width / 3));
    out[1] = ft_spec_of(FT_F32, ft_shape_of(B, (int64_t)attrs[FT_ATTENTION_HEADS], T));
}

static ft_status attention_shape(const ft_spec *in, const double *attrs, ft_spec *out,
                                 ft_error *err)
{
    FT_TRY(check_common("attention", in, &in[MASK], &in[TABLE], attrs, err));
    if (ft_present(&in[POSITION])) {
        ft_shape one = ft_shape_of(1);
        FT_TRY(ft_need_dtype("attention", "position", &in[POSITION], FT_I32, err));
        FT_TRY(ft_need_shape("attention", "position", &in[POSITION], &one, err));
    }
    outputs_of(&in[0], &in[1], attrs, out);
    return FT_OK;
}

/* Pairs of query and key that are computed, over all samples and heads: with a causal mask query i
 * sees i + 1 keys, and all of them where those are fewer. */
static double score_count(const ft_attention *a)
{
    double queries = (double)a->Tq, keys = (double)a->Tk, early = fmin(queries, keys);
    double pairs =
        a->causal ? early * (early + 1.0) / 2.0 + (queries - early) * keys : queries * keys;
    return pairs * (double)a->B * (double)a->H;
}

/* So many products of D numbers for each pair, and other flops. */
static ft_cost cost_of(const ft_attention *a, ft_cost cost, double products, double others)
{
    cost.flops = score_count(a) * (2.0 * products * (double)a->D + others);
    cost.bf16 = a->rounding == FT_ATTENTION_BF16;
    cost.f16 = a->rounding == FT_ATTENTION_F16;
    cost.tf32 = a->rounding == FT_ATTENTION_TF32;
    return cost;
}

static ft_cost attention_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    ft_attention a = ft_attention_of(&in[0].shape, shape_if(&in[1]), NULL, attrs);
    return cost_of(&a, ft_cost_per_element(in, 6, out, 2, 0.0), 2.0, 10.0);
}

static int64_t attention_work(const ft_spec *in, const double *attrs, int team_size)
{
    ft_attention a = ft_attention_of(&in[0].shape, shape_if(&in[1]), shape_if(&in[TABLE]), attrs);
    return ft_attention_work(&a, team_size);
}

static void attention_grad(ft_builder *b, const ft_grad_site *site)
{
    if (site->in[POSITION] != FT_NO_VALUE) return;
    const ft_value_id in[] = {site->dout[0], site->in[0],  site->in[1],    site->in[2],
                              site->out[0],  site->out[1], site->in[MASK], site->in[TABLE]};
    ft_value_id first = b->add(b, &ft_op_attention_grad, in, 8, site->attrs);
    if (first == FT_NO_VALUE) return;
    for (int i = 0; i < 3; i++)
        if (site->in[i] != FT_NO_VALUE && site->wanted[i]) site->din[i] = first + i;
    if (site->in[TABLE] != FT_NO_VALUE && site->wanted[TABLE]) site->din[TABLE] = first + 3;
}

static const ft_sample attention_samples[] = {
    {.in = {FT_F32_OF(3, 2, 7, 24), FT_F32_OF(3, 2, 7, 24), FT_F32_OF(3, 2, 7, 24),
            FT_I32_OF(2, 2, 7), FT_F32_OF(2, 6, 3), FT_ABSENT},
     .attrs = {3, 0, 1, 5, 1, 0},
     .tolerance = 2e-6,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 1, 8), FT_F32_OF(3, 1, 1, 8), FT_F32_OF(3, 1, 1, 8), FT_ABSENT,
            FT_ABSENT, FT_ABSENT},
     .attrs = {1, 1, 0, 128, 0.25, 0},
     .tolerance = 2e-6},
    {.in = {FT_F32_OF(3, 1, 33, 45), FT_F32_OF(3, 1, 33, 45), FT_F32_OF(3, 1, 33, 45), FT_ABSENT,
            FT_F32_OF(2, 8, 3), FT_ABSENT},
     .attrs = {3, 1, 0, 20, 0.3, 0.2},
     .tolerance = 5e-6},
    {.in = {FT_F32_OF(3, 1, 2, 48), FT_F32_OF(3, 1, 9, 48), FT_F32_OF(3, 1, 9, 48),
            FT_I32_OF(2, 1, 9), FT_F32_OF(2, 4, 6), FT_I32_OF(1, 1)},
     .attrs = {6, 1, 0, 16, 1, 0},
     .tolerance = 2e-6,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 130, 64), FT_F32_OF(3, 1, 7, 64), FT_F32_OF(3, 1, 7, 64),
            FT_I32_OF(2, 1, 7), FT_ABSENT, FT_ABSENT},
     .attrs = {1, 0, 1, 128, 0.125, 0.1},
     .tolerance = 5e-6,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 19, 150), FT_F32_OF(3, 1, 40, 150), FT_F32_OF(3, 1, 40, 150), FT_ABSENT,
            FT_ABSENT, FT_ABSENT},
     .attrs = {1, 0, 1, 128, 0.08, 0},
     .tolerance = 5e-6},
    {.in = {FT_F32_OF(3, 2, 37, 72), FT_ABSENT, FT_ABSENT, FT_I32_OF(2, 2, 37), FT_F32_OF(2, 4, 3),
            FT_ABSENT},
     .attrs = {3, 1, 0, 20, 0.3, 0.2},
     .tolerance = 5e-6,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 150, 384), FT_ABSENT, FT_ABSENT, FT_ABSENT, FT_ABSENT, FT_ABSENT},
     .attrs = {2, 1, 1, 128, 0.125, 0.1, FT_ATTENTION_BF16},
     .tolerance = 2 * FT_BF16_GAP},
    {.in = {FT_F32_OF(3, 2, 20, 256), FT_F32_OF(3, 2, 72, 256), FT_F32_OF(3, 2, 72, 256),
            FT_I32_OF(2, 2, 72), FT_F32_OF(2, 8, 2), FT_ABSENT},
     .attrs = {2, 0, 1, 20, 0.1, 0.2, FT_ATTENTION_BF16},
     .tolerance = 2 * FT_BF16_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 2, 48), FT_F32_OF(3, 1, 9, 48), FT_F32_OF(3, 1, 9, 48),
            FT_I32_OF(2, 1, 9), FT_F32_OF(2, 4, 4), FT_I32_OF(1, 1)},
     .attrs = {4, 1, 0, 16, 0.3, 0, FT_ATTENTION_F16},
     .tolerance = 2 * FT_TF32_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 37, 120), FT_F32_OF(3, 1, 70, 120), FT_F32_OF(3, 1, 70, 120),
            FT_I32_OF(2, 1, 70), FT_ABSENT, FT_ABSENT},
     .attrs = {2, 0, 1, 128, 0.1, 0.1, FT_ATTENTION_F16},
     .tolerance = 2 * FT_TF32_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 150, 384), FT_ABSENT, FT_ABSENT, FT_ABSENT, FT_F32_OF(2, 8, 2),
            FT_ABSENT},
     .attrs = {2, 1, 1, 20, 0.125, 0.1, FT_ATTENTION_TF32},
     .tolerance = 2 * FT_TF32_GAP},
    {.in = {FT_F32_OF(3, 2, 20, 200), FT_F32_OF(3, 2, 72, 200), FT_F32_OF(3, 2, 72, 200),
            FT_I32_OF(2, 2, 72), FT_F32_OF(2, 8, 2), FT_ABSENT},
     .attrs = {2, 0, 1, 20, 0.1, 0.2, FT_ATTENTION_TF32},
     .tolerance = 2 * FT_TF32_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 3, 18), FT_F32_OF(3, 1, 4, 18), FT_F32_OF(3, 1, 4, 18), FT_ABSENT,
            FT_ABSENT, FT_ABSENT},
     .attrs = {3, 0, 1, 128, 0.4, 0, FT_ATTENTION_BF16},
     .tolerance = 2e-6},
};

const ft_op ft_op_attention = {
    .name = "attention",
    .doc = "y (B,Tq,H*D), lse (B,H,Tq) = softmax(scale q k^T + bias, masked) v by head",
    .min_in = 1,
    .n_in = 6,
    .n_out = 2,
    .half_in = 1u | 1u << 1 | 1u << 2,
    .half_out = 1u,
    .attrs = attention_attrs,
    .shape = attention_shape,
    .cost = attention_cost,
    .grad = attention_grad,
    .kernel = ft_attention_kernel,
    .reference = ft_attention_reference,
    .workspace = attention_work,
    .no_grad_out = 2,
    .random = true,
    .samples = attention_samples,
    .n_samples = sizeof attention_samples / sizeof *attention_samples,
};

/* -- gradient --------------------------------------------------------------------------------- */

static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY(check_common("attention_grad", &in[1], &in[GRAD_MASK], &in[GRAD_TABLE], attrs, err));
    ft_spec wanted[2];
    outputs_of(&in[1], &in[2], attrs, wanted);
    FT_TRY(ft_need_spec("attention_grad", "dy", &in[0], &wanted[0], err));
    FT_TRY(ft_need_spec("attention_grad", "y", &in[4], &wanted[0], err));
    FT_TRY(ft_need_spec("attention_grad", "lse", &in[5], &wanted[1], err));
    const ft_spec none = ft_spec_of(FT_F32, ft_shape_of(0));
    for (int i = 0; i < 3; i++) out[i] = ft_present(&in[1 + i]) ? in[1 + i] : none;
    out[3] = ft_present(&in[GRAD_TABLE]) ? in[GRAD_TABLE] : none;
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    ft_attention a = ft_attention_of(&in[1].shape, shape_if(&in[2]), NULL, attrs);
    return cost_of(&a, ft_cost_per_element(in, 8, out, 4, 0.0), 5.0, 12.0);
}

static int64_t grad_work(const ft_spec *in, const double *attrs, int team_size)
{
    ft_attention a =
        ft_attention_of(&in[1].shape, shape_if(&in[2]), shape_if(&in[GRAD_TABLE]), attrs);
    return ft_attention_grad_work(&a, team_size);
}

static const ft_sample grad_samples[] = {
    {.in = {FT_F32_OF(3, 2, 7, 24), FT_F32_OF(3, 2, 7, 24), FT_F32_OF(3, 2, 7, 24),
            FT_F32_OF(3, 2, 7, 24), FT_F32_OF(3, 2, 7, 24), FT_F32_OF(3, 2, 3, 7),
            FT_I32_OF(2, 2, 7), FT_F32_OF(2, 6, 3)},
     .attrs = {3, 0, 1, 5, 0.2, 0},
     .tolerance = 5e-6,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 33, 45), FT_F32_OF(3, 1, 33, 45), FT_F32_OF(3, 1, 33, 45),
            FT_F32_OF(3, 1, 33, 45), FT_F32_OF(3, 1, 33, 45), FT_F32_OF(3, 1, 3, 33), FT_ABSENT,
            FT_F32_OF(2, 8, 3)},
     .attrs = {3, 1, 0, 20, 0.2, 0.2},
     .tolerance = 1e-5},
    {.in = {FT_F32_OF(3, 1, 130, 64), FT_F32_OF(3, 1, 130, 64), FT_F32_OF(3, 1, 9, 64),
            FT_F32_OF(3, 1, 9, 64), FT_F32_OF(3, 1, 130, 64), FT_F32_OF(3, 1, 1, 130),
            FT_I32_OF(2, 1, 9), FT_ABSENT},
     .attrs = {1, 0, 1, 128, 0.125, 0.1},
     .tolerance = 1e-5,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 19, 150), FT_F32_OF(3, 1, 19, 150), FT_F32_OF(3, 1, 40, 150),
            FT_F32_OF(3, 1, 40, 150), FT_F32_OF(3, 1, 19, 150), FT_F32_OF(3, 1, 1, 19), FT_ABSENT,
            FT_ABSENT},
     .attrs = {1, 0, 1, 128, 0.08, 0},
     .tolerance = 1e-5},
    {.in = {FT_F32_OF(3, 2, 1, 8), FT_F32_OF(3, 2, 1, 8), FT_F32_OF(3, 2, 1, 8),
            FT_F32_OF(3, 2, 1, 8), FT_F32_OF(3, 2, 1, 8), FT_F32_OF(3, 2, 1, 1), FT_ABSENT,
            FT_ABSENT},
     .attrs = {1, 1, 0, 128, 1, 0},
     .tolerance = 5e-6},
    {.in = {FT_F32_OF(3, 2, 37, 24), FT_F32_OF(3, 2, 37, 72), FT_ABSENT, FT_ABSENT,
            FT_F32_OF(3, 2, 37, 24), FT_F32_OF(3, 2, 3, 37), FT_I32_OF(2, 2, 37),
            FT_F32_OF(2, 4, 3)},
     .attrs = {3, 1, 0, 20, 0.2, 0.2},
     .tolerance = 1e-5,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 150, 128), FT_F32_OF(3, 1, 150, 384), FT_ABSENT, FT_ABSENT,
            FT_F32_OF(3, 1, 150, 128), FT_F32_OF(3, 1, 2, 150), FT_I32_OF(2, 1, 150),
            FT_F32_OF(2, 8, 2)},
     .attrs = {2, 1, 1, 20, 0.1, 0.1, FT_ATTENTION_BF16},
     .tolerance = 3 * FT_BF16_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 2, 20, 200), FT_F32_OF(3, 2, 20, 200), FT_F32_OF(3, 2, 72, 200),
            FT_F32_OF(3, 2, 72, 200), FT_F32_OF(3, 2, 20, 200), FT_F32_OF(3, 2, 2, 20), FT_ABSENT,
            FT_F32_OF(2, 8, 2)},
     .attrs = {2, 0, 1, 20, 0.08, 0.2, FT_ATTENTION_BF16},
     .tolerance = 3 * FT_BF16_GAP},
    {.in = {FT_F32_OF(3, 2, 33, 24), FT_F32_OF(3, 2, 33, 24), FT_F32_OF(3, 2, 7, 24),
            FT_F32_OF(3, 2, 7, 24), FT_F32_OF(3, 2, 33, 24), FT_F32_OF(3, 2, 3, 33),
            FT_I32_OF(2, 2, 7), FT_F32_OF(2, 6, 3)},
     .attrs = {3, 0, 1, 5, 0.2, 0.1, FT_ATTENTION_F16},
     .tolerance = 3 * FT_TF32_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 130, 128), FT_F32_OF(3, 1, 130, 128), FT_F32_OF(3, 1, 140, 128),
            FT_F32_OF(3, 1, 140, 128), FT_F32_OF(3, 1, 130, 128), FT_F32_OF(3, 1, 2, 130),
            FT_ABSENT, FT_ABSENT},
     .attrs = {2, 0, 1, 128, 0.09, 0, FT_ATTENTION_F16},
     .tolerance = 3 * FT_TF32_GAP},
    {.in = {FT_F32_OF(3, 2, 37, 128), FT_F32_OF(3, 2, 37, 384), FT_ABSENT, FT_ABSENT,
            FT_F32_OF(3, 2, 37, 128), FT_F32_OF(3, 2, 2, 37), FT_I32_OF(2, 2, 37),
            FT_F32_OF(2, 4, 2)},
     .attrs = {2, 1, 0, 20, 0.1, 0.1, FT_ATTENTION_TF32},
     .tolerance = 3 * FT_TF32_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 130, 256), FT_F32_OF(3, 1, 130, 256), FT_F32_OF(3, 1, 140, 256),
            FT_F32_OF(3, 1, 140, 256), FT_F32_OF(3, 1, 130, 256), FT_F32_OF(3, 1, 2, 130),
            FT_I32_OF(2, 1, 140), FT_F32_OF(2, 8, 2)},
     .attrs = {2, 0, 1, 20, 0.07, 0.2, FT_ATTENTION_TF32},
     .tolerance = 3 * FT_TF32_GAP,
     .id_limit = 2},
    {.in = {FT_F32_OF(3, 1, 150, 100), FT_F32_OF(3, 1, 150, 300), FT_ABSENT, FT_ABSENT,
            FT_F32_OF(3, 1, 150, 100), FT_F32_OF(3, 1, 1, 150), FT_ABSENT, FT_ABSENT},
     .attrs = {1, 1, 1, 20, 0.1, 0.1, FT_ATTENTION_TF32},
     .tolerance = 3 * FT_TF32_GAP},
};

const ft_op ft_op_attention_grad = {
    .name = "attention_grad",
    .doc = "dq, dk, dv, dtable = gradients of attention; dtable (R,H) accumulates, (0) if no table",
    .min_in = 2,
    .n_in = 8,
    .n_out = 4,
    .half_in = 1u | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4,
    .half_out = 1u | 1u << 1 | 1u << 2,
    .attrs = attention_attrs,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = ft_attention_grad_kernel,
    .reference = ft_attention_grad_reference,
    .workspace = grad_work,
    .accumulates = 8,
    .random = true,
    .samples = grad_samples,
    .n_samples = sizeof grad_samples / sizeof *grad_samples,
};
