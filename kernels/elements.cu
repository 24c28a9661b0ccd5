/* kernels/elements.cu - kernels that look at every number by itself. */
#include "numbers.h"

FT_INLINE float sigmoid(float x)
{
    return ft_reciprocal(1.0f + expf(-x));
}

/* What gelu (the tanh form) multiplies x by: (1 + tanh u) / 2 is the sigmoid of 2 u. */
FT_INLINE float gelu_gate(float x)
{
    return sigmoid(2.0f * 0.79788456080286535588f * (x + 0.044715f * x * x * x));
}

/* The slope of gelu (the tanh form) at x, of which that is the gate. */
FT_INLINE float gelu_slope(float x, float gate)
{
    float inner = 2.0f * 0.79788456080286535588f * (1.0f + 3.0f * 0.044715f * x * x);
    return gate + x * gate * (1.0f - gate) * inner;
}

/* The normal distribution at x, and its density. */
FT_INLINE float normal(float x)
{
    return 0.5f + 0.5f * erff(x * 0.70710678118654752440f);
}

FT_INLINE float density(float x)
{
    return expf(-0.5f * x * x) * 0.39894228040143267794f;
}

/* The slope of z sigmoid(z). */
FT_INLINE float swish_slope(float z)
{
    float gate = sigmoid(z);
    return gate * (1.0f + z * (1.0f - gate));
}

FT_INLINE float mish_gate(float x)
{
    return tanhf(log1pf(expf(x)));
}

FT_INLINE float apply(ft_cuda_map map, float x, float y, float factor)
{
    switch (map) {
    case FT_CUDA_RELU: return x < 0.0f ? 0.0f : x;
    case FT_CUDA_GELU: return x * gelu_gate(x);
    case FT_CUDA_RELU6: return x > 6.0f ? 6.0f : x < 0.0f ? 0.0f : x;
    case FT_CUDA_RELU2: return x < 0.0f ? 0.0f : x * x;
    case FT_CUDA_LEAKY_RELU: return x < 0.0f ? 0.01f * x : x;
    case FT_CUDA_GELU_ERF: return x * normal(x);
    case FT_CUDA_GELU_10: return x * normal(x) > 10.0f ? 10.0f : x * normal(x);
    case FT_CUDA_SIGMOID: return sigmoid(x);
    case FT_CUDA_SILU: return x * sigmoid(x);
    case FT_CUDA_QUICK_GELU: return x * sigmoid(1.702f * x);
    case FT_CUDA_MISH: return x * mish_gate(x);
    case FT_CUDA_TANH: return tanhf(x);
    case FT_CUDA_EXP: return expf(x);
    case FT_CUDA_LOG: return logf(x);
    case FT_CUDA_SQRT: return sqrtf(x);
    case FT_CUDA_NEG: return -x;
    case FT_CUDA_RELU_GRAD: return y > 0.0f ? x : 0.0f;
    case FT_CUDA_GELU_GRAD: return x * gelu_slope(y, gelu_gate(y));
    case FT_CUDA_RELU6_GRAD: return y > 0.0f && y < 6.0f ? x : 0.0f;
    case FT_CUDA_RELU2_GRAD: return y > 0.0f ? 2.0f * x * y : 0.0f;
    case FT_CUDA_LEAKY_RELU_GRAD: return y > 0.0f ? x : 0.01f * x;
    case FT_CUDA_GELU_ERF_GRAD: return x * (normal(y) + y * density(y));
    case FT_CUDA_GELU_10_GRAD:
        return y * normal(y) > 10.0f ? 0.0f : x * (normal(y) + y * density(y));
    case FT_CUDA_SIGMOID_GRAD: return x * y * (1.0f - y);
    case FT_CUDA_SILU_GRAD: return x * swish_slope(y);
    case FT_CUDA_QUICK_GELU_GRAD: return x * swish_slope(1.702f * y);
    case FT_CUDA_MISH_GRAD: {
        float gate = mish_gate(y);
        return x * (gate + y * (1.0f - gate * gate) * sigmoid(y));
    }
    case FT_CUDA_TANH_GRAD: return x * (1.0f - y * y);
    case FT_CUDA_SQRT_GRAD: return 0.5f * x / y;
    case FT_CUDA_ONE: return 1.0f;
    case FT_CUDA_SCALE: return factor * x;
    }
    return NAN; /* a row without a case here */
}

/* The loop is within each case. */
FT_INLINE void apply_to_eight(ft_eight &z, int32_t map, const ft_eight &x, const ft_eight &y,
                              float factor)
{
    switch (map) {
#define CASE(row, number, ...)                                                                     \
    case FT_CUDA_##number:                                                                         \
        FT_UNROLL                                                                                  \
        for (int k = 0; k < 8; k++) z.x[k] = apply(FT_CUDA_##number, x.x[k], y.x[k], factor);      \
        return;
        FT_MAP1_LIST(CASE)
        FT_MAP2_LIST(CASE)
        CASE(one, ONE)
        CASE(scale, SCALE)
#undef CASE
    }
}

FT_CROWDED_KERNEL(10, map)
{
    int64_t i = ft_first_of_eight();
    if (i >= a.n) return;
    const ft_numbers nothing = {NULL, FT_CUDA_F32}, from[3] = {a.a, a.b, a.add ? a.y : nothing};
    ft_eight x[3], z;
    ft_read_eights(x, from, i, a.n);
    apply_to_eight(z, a.map, x[0], x[1], a.factor);
FT_UNROLL
    for (int k = 0; k < 8; k++) z.x[k] = a.add ? x[2].x[k] + z.x[k] : z.x[k];
    ft_write_eight(a.y, i, a.n, z);
}

/* Number i of a tensor of nb numbers that begins again behind its end. */
FT_INLINE int64_t again(int64_t i, int64_t nb)
{
    return i < nb ? i : i - ft_whole_times(i, nb) * nb;
}

/* b's eight numbers that belong to a's from number i on. */
FT_INLINE ft_eight eight_of_b(const ft_binary_args &a, int64_t i)
{
    int64_t at = again(i, a.nb);
    if (at + 8 <= a.nb) return ft_read_eight(a.b, at, a.nb);
    ft_eight y = {{0, 0, 0, 0, 0, 0, 0, 0}};
FT_UNROLL
    for (int k = 0; k < 8; k++)
        if (i + k < a.n) y.x[k] = ft_read(a.b, again(at + k, a.nb));
    return y;
}

FT_KERNEL(binary)
{
    int64_t i = ft_first_of_eight();
    if (i >= a.n) return;
    const ft_numbers nothing = {NULL, FT_CUDA_F32};
    const ft_numbers from[3] = {a.a, a.nb == a.n ? a.b : nothing, nothing};
    ft_eight x[3], z;
    ft_read_eights(x, from, i, a.n);
    if (a.nb != a.n) x[1] = eight_of_b(a, i);
    const float *of_a = x[0].x, *of_b = x[1].x;
#define EACH_OF_EIGHT                                                                              \
    FT_UNROLL                                                                                      \
    for (int k = 0; k < 8; k++)
    if (a.kind == FT_CUDA_ADD) {
        EACH_OF_EIGHT z.x[k] = of_a[k] + of_b[k];
    } else if (a.kind == FT_CUDA_SUB) {
        EACH_OF_EIGHT z.x[k] = of_a[k] - of_b[k];
    } else if (a.kind == FT_CUDA_MUL) {
        EACH_OF_EIGHT z.x[k] = of_a[k] * of_b[k];
    } else {
        EACH_OF_EIGHT z.x[k] = of_a[k] / of_b[k];
    }
#undef EACH_OF_EIGHT
    ft_write_eight(a.y, i, a.n, z);
}

FT_KERNEL(gated_gelu)
{
    int64_t i = ft_first_of_eight();
    if (i >= a.n) return;
    const ft_numbers from[3] = {a.a, a.b, a.dy};
    ft_eight x[3], gate, slope;
    ft_read_eights(x, from, i, a.n);
FT_UNROLL
    for (int k = 0; k < 8; k++) {
        float of_a = x[0].x[k], t = gelu_gate(of_a);
        gate.x[k] = of_a * t * (a.dy.at ? x[2].x[k] : x[1].x[k]);
        slope.x[k] = gelu_slope(of_a, t) * (x[2].x[k] * x[1].x[k]);
    }
    if (!a.dy.at) {
        ft_write_eight(a.y, i, a.n, gate);
        return;
    }
    ft_write_eight(a.da, i, a.n, slope);
    ft_write_eight(a.db, i, a.n, gate);
}

FT_KERNEL(dropout)
{
    int64_t blocks = (a.per_sample + 7) / 8;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= a.samples * blocks) return;
    int64_t sample = ft_whole_times(at, blocks), block = at - sample * blocks;
    int64_t i = sample * a.per_sample + 8 * block, end = (sample + 1) * a.per_sample;
    uint32_t bits[4] = {0};
    bool draws = a.draw.threshold && !a.seen.at;
    if (draws) ft_philox(a.draw.key, (uint64_t)block, a.draw.sample + (uint32_t)sample, bits);
    const ft_numbers from[3] = {a.x, a.residual, a.seen};
    ft_eight x[3], y;
    ft_read_eights(x, from, i, end);
FT_UNROLL
    for (int k = 0; k < 8; k++) {
        float own = a.relu && x[0].x[k] < 0.0f ? 0.0f : x[0].x[k];
        bool kept = a.seen.at ? x[2].x[k] > 0.0f : !draws || ft_kept(bits, k, a.draw.threshold);
        own = kept ? own * a.draw.scale : 0.0f;
        y.x[k] = a.residual.at ? x[1].x[k] + own : own;
    }
    ft_write_eight(a.y, i, end, y);
}

/* -- sums of tensors, what is in them ---------------------------------------------------------- */

FT_KERNEL(sum_terms)
{
    FT_EACH(i, a.n)
    {
        float sum = a.x[0][i];
        for (int t = 1; t < a.n_terms; t++) sum += a.x[t][i];
        a.y[i] = sum;
    }
}

/* Of a block: what was found by its threads. */
FT_INLINE ft_cuda_look join(double squares, double odd, double nan, double *room)
{
    squares = ft_block_sum(squares, room);
    odd = ft_block_sum(odd, room);
    nan = ft_block_sum(nan, room);
    ft_cuda_look found = {squares, odd == 0, nan > 0};
    return found;
}

FT_KERNEL(look_parts)
{
    FT_SHARED(double, room, 9);
    unsigned part;
    const ft_look_tensor &t = a.of[ft_tensor_of(a.blocks, &part)];
    int64_t from = part * t.per_part, end = ft_least(from + t.per_part, t.n);
    double squares = 0, odd = 0, nan = 0;
    for (int64_t i = from + 4 * (int64_t)threadIdx.x; i < end; i += 4 * (int64_t)blockDim.x) {
        const ft_four four = ft_read_four(t.x, i, end);
FT_UNROLL
        for (int k = 0; k < 4; k++) {
            float x = four.x[k];
            squares += (double)x * (double)x;
            if (!isfinite(x)) odd = 1;
            if (isnan(x)) nan = 1;
        }
    }
    ft_cuda_look found = join(squares, odd, nan, room);
    if (threadIdx.x == 0) a.parts[blockIdx.x] = found;
}

FT_KERNEL(look)
{
    FT_SHARED(double, room, 9);
    ft_cuda_look *out = a.of[blockIdx.x].out;
    double squares = 0, odd = 0, nan = 0;
    for (unsigned i = a.blocks.first[blockIdx.x] + threadIdx.x;
         i < a.blocks.first[blockIdx.x + 1]; i += blockDim.x) {
        squares += a.parts[i].squares;
        if (!a.parts[i].finite) odd = 1;
        if (a.parts[i].nan) nan = 1;
    }
    ft_cuda_look found = join(squares, odd, nan, room);
    if (threadIdx.x) return;
    out->squares = found.squares;
    out->finite = out->finite && found.finite;
    out->nan = out->nan || found.nan;
}
