/* kernels/elements.cu - kernels that look at every number by itself. */
#include "numbers.h"

FT_INLINE float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
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

FT_KERNEL(map)
{
    FT_EACH_FOUR(i, a.n)
    {
        const ft_four zeros = {{0, 0, 0, 0}};
        const ft_four x = a.a.at ? ft_read_four(a.a, i, a.n) : zeros;
        const ft_four y = a.b.at ? ft_read_four(a.b, i, a.n) : zeros;
        ft_four z = a.add ? ft_read_four(a.y, i, a.n) : zeros;
FT_UNROLL
        for (int k = 0; k < 4; k++) {
            float given = apply((ft_cuda_map)a.map, x.x[k], y.x[k], a.factor);
            z.x[k] = a.add ? z.x[k] + given : given;
        }
        ft_write_four(a.y, i, a.n, z);
    }
}

/* b's four numbers that belong to a's from number i on. */
FT_INLINE ft_four four_of_b(const ft_binary_args &a, int64_t i)
{
    ft_four y = {{0, 0, 0, 0}};
    int64_t at = a.nb == a.n ? i : i % a.nb;
    if (at + 4 <= a.nb) return ft_read_four(a.b, at, a.nb);
FT_UNROLL
    for (int k = 0; k < 4; k++)
        if (i + k < a.n) y.x[k] = ft_read(a.b, (at + k) % a.nb);
    return y;
}

FT_KERNEL(binary)
{
    FT_EACH_FOUR(i, a.n)
    {
        const ft_four x = ft_read_four(a.a, i, a.n), y = four_of_b(a, i);
        ft_four z;
FT_UNROLL
        for (int k = 0; k < 4; k++)
            z.x[k] = a.kind == FT_CUDA_ADD   ? x.x[k] + y.x[k]
                     : a.kind == FT_CUDA_SUB ? x.x[k] - y.x[k]
                     : a.kind == FT_CUDA_MUL ? x.x[k] * y.x[k]
                                             : x.x[k] / y.x[k];
        ft_write_four(a.y, i, a.n, z);
    }
}

FT_KERNEL(gated_gelu)
{
    FT_EACH_FOUR(i, a.n)
    {
        const ft_four x = ft_read_four(a.a, i, a.n), b = ft_read_four(a.b, i, a.n);
        ft_four gate, slope;
FT_UNROLL
        for (int k = 0; k < 4; k++) {
            float t = gelu_gate(x.x[k]);
            gate.x[k] = x.x[k] * t;
            slope.x[k] = gelu_slope(x.x[k], t);
        }
        if (!a.dy.at) {
FT_UNROLL
            for (int k = 0; k < 4; k++) gate.x[k] *= b.x[k];
            ft_write_four(a.y, i, a.n, gate);
            continue;
        }
        const ft_four dy = ft_read_four(a.dy, i, a.n);
FT_UNROLL
        for (int k = 0; k < 4; k++) {
            gate.x[k] *= dy.x[k];
            slope.x[k] *= dy.x[k] * b.x[k];
        }
        ft_write_four(a.da, i, a.n, slope);
        ft_write_four(a.db, i, a.n, gate);
    }
}

/* Four elements of a block of eight, from element i on of those before `end`; the first of them is
 * number `first` of the eight. */
FT_INLINE void drop_four(const ft_dropout_args &a, const uint32_t bits[4], int first, int64_t i,
                         int64_t end)
{
    const ft_four zeros = {{0, 0, 0, 0}};
    const ft_four seen = a.seen.at ? ft_read_four(a.seen, i, end) : zeros;
    const ft_four residual = a.residual.at ? ft_read_four(a.residual, i, end) : zeros;
    ft_four x = ft_read_four(a.x, i, end);
FT_UNROLL
    for (int k = 0; k < 4; k++) {
        float y = a.relu && x.x[k] < 0.0f ? 0.0f : x.x[k];
        bool kept = a.seen.at ? seen.x[k] > 0.0f
                              : !a.draw.threshold || ft_kept(bits, first + k, a.draw.threshold);
        y = kept ? y * a.draw.scale : 0.0f;
        x.x[k] = a.residual.at ? residual.x[k] + y : y;
    }
    ft_write_four(a.y, i, end, x);
}

FT_KERNEL(dropout)
{
    int64_t blocks = (a.per_sample + 7) / 8;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= a.samples * blocks) return;
    int64_t sample = at / blocks, first = at % blocks * 8;
    int64_t i = sample * a.per_sample + first, end = (sample + 1) * a.per_sample;
    uint32_t bits[4] = {0};
    if (a.draw.threshold && !a.seen.at)
        ft_philox(a.draw.key, (uint64_t)(at % blocks), a.draw.sample + (uint32_t)sample, bits);
    drop_four(a, bits, 0, i, end);
    if (first + 4 < a.per_sample) drop_four(a, bits, 4, i + 4, end);
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
