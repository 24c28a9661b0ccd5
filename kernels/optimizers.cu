/* kernels/optimizers.cu - what a step does to the parameters (optim/ has the formulas). */
#include "kernel.h"

FT_KERNEL(adamw)
{
    const ft_adamw_step &s = a.step;
    FT_EACH(i, a.n)
    {
        float g = a.g[i] * s.grad_scale, old = a.m[i];
        float m = s.beta1 * old + s.rest1 * g, v = s.beta2 * a.v[i] + s.rest2 * g * g;
        float way = s.ahead != 0.0f ? m + s.ahead * (m - s.before * old) : m;
        a.m[i] = m;
        a.v[i] = v;
        a.p[i] = a.p[i] * s.keep - s.size * way / (sqrtf(v) * s.root + s.eps);
    }
}

FT_KERNEL(sgd)
{
    FT_EACH(i, a.n)
    {
        float old = a.m[i];
        float m = a.momentum * old + a.g[i] * a.grad_scale + a.decay * a.p[i];
        a.m[i] = m;
        a.p[i] -= a.rate * (m + a.ahead * (m - old));
    }
}

FT_KERNEL(predict)
{
    float keep = a.keep;
    if (a.squares)
        keep = (float)(1.0 - (double)keep * fmax(a.eps2, sqrt(*a.squares / (double)a.n)));
    FT_EACH(i, a.n)
    {
        float p = (a.p ? a.p[i] : a.out[i]) * keep;
        if (a.v)
            p -= a.size * a.m[i] / (sqrtf(a.v[i]) * a.root + a.eps);
        else if (a.m)
            p -= a.size * a.m[i];
        a.out[i] = p;
    }
}

/* -- gradients of older weights (optim/gap.c) -------------------------------------------------  */

FT_KERNEL(note_step)
{
    const float keep = 0.999f;
    FT_EACH(i, a.n)
    {
        float step = (a.before[i] - a.p[i]) / a.rate;
        a.mean[i] = keep * a.mean[i] + (1.0f - keep) * (step * step);
    }
    if (blockIdx.x || threadIdx.x) return;
    if (a.rate > a.scales[0]) a.scales[0] = a.rate;
    a.scales[1] = keep * a.scales[1] + (1.0f - keep);
}

FT_KERNEL(attenuate)
{
    FT_SHARED(double, room, 9);
    const float weight = a.scales[1] > 0.0f ? a.scales[1] : 1.0f;
    int64_t from = (int64_t)blockIdx.x * a.per_part, end = ft_least(from + a.per_part, a.n);
    double squares = 0;
    for (int64_t i = from + threadIdx.x; i < end; i += blockDim.x) {
        float size = a.scales[0] * sqrtf(a.mean[i] / weight) + 1e-8f, gap = a.p[i] - a.old[i];
        float on = a.next ? 1.0f + fabsf(a.p[i] - a.next[i]) / size : 1.0f;
        a.g[i] *= on / (1.0f + fabsf(gap) / size);
        squares += (double)gap * (double)gap;
    }
    squares = ft_block_sum(squares, room);
    if (threadIdx.x) return;
    ft_cuda_look found = {squares, 1, 0};
    a.parts[blockIdx.x] = found;
}

/* -- Adafactor --------------------------------------------------------------------------------- */

FT_INLINE double square(const ft_adafactor_args &a, int64_t i)
{
    float g = a.g[i] * a.grad_scale;
    return (double)(g * g + a.eps1);
}

FT_INLINE float moved(const ft_adafactor_args &a, float old, double mean)
{
    return (float)(a.beta * (double)old + (1.0 - a.beta) * mean);
}

FT_KERNEL(adafactor_rows)
{
    int64_t row = ft_warp_row();
    if (row >= a.n * a.R) return;
    double sum = 0;
    for (int64_t c = ft_lane(); c < a.C; c += FT_WARP) sum += square(a, row * a.C + c);
    sum = ft_warp_sum(sum);
    if (ft_lane() == 0) a.row[row] = moved(a, a.row[row], sum / (double)a.C);
}

FT_KERNEL(adafactor_columns)
{
    FT_SHARED(double, sums, 256);
    int64_t c = (int64_t)blockIdx.x * FT_CUDA_COLUMNS + threadIdx.x % FT_CUDA_COLUMNS;
    int64_t matrix = blockIdx.y;
    int group = (int)threadIdx.x / FT_CUDA_COLUMNS, groups = (int)blockDim.x / FT_CUDA_COLUMNS;
    double sum = 0;
    if (c < a.C)
        for (int64_t r = group; r < a.R; r += groups)
            sum += square(a, (matrix * a.R + r) * a.C + c);
    sums[threadIdx.x] = sum;
    FT_BLOCK_BARRIER();
    if (group || c >= a.C) return;
    for (int k = 1; k < groups; k++) sum += sums[threadIdx.x + k * FT_CUDA_COLUMNS];
    float *col = a.col + matrix * a.C + c;
    *col = moved(a, *col, sum / (double)a.R);
}

FT_KERNEL(adafactor_mean)
{
    FT_SHARED(double, room, 9);
    const float *row = a.row + (int64_t)blockIdx.x * a.R;
    double sum = 0;
    for (int64_t r = threadIdx.x; r < a.R; r += blockDim.x) sum += (double)row[r];
    sum = ft_block_sum(sum, room);
    if (threadIdx.x == 0) a.means[blockIdx.x] = sum / (double)a.R;
}

/* u of element i, before its size, from the state as it is. */
FT_INLINE float direction(const ft_adafactor_args &a, int64_t i)
{
    if (!a.R) return a.g[i] / sqrtf(a.v[i]);
    int64_t row = i / a.C, matrix = row / a.R;
    float of_row = (float)sqrt(a.means[matrix] / (double)a.row[row]);
    float of_col = (float)(1.0 / sqrt((double)a.col[matrix * a.C + i % a.C]));
    return a.g[i] * (of_row * of_col);
}

FT_ROOMY_KERNEL(adafactor_measure)
{
    FT_SHARED(double, room, 9);
    int64_t all = a.R ? a.n * a.R * a.C : a.C;
    int64_t from = (int64_t)blockIdx.x * a.per_part, end = ft_least(from + a.per_part, all);
    double squares = 0, size = 0;
    for (int64_t i = from + threadIdx.x; i < end; i += blockDim.x) {
        if (!a.R) a.v[i] = moved(a, a.v[i], square(a, i));
        float u = direction(a, i) * a.grad_scale;
        squares += (double)u * (double)u;
        size += (double)a.p[i] * (double)a.p[i];
    }
    squares = ft_block_sum(squares, room);
    size = ft_block_sum(size, room);
    if (threadIdx.x) return;
    a.parts[blockIdx.x] = squares;
    a.parts[a.n_parts + blockIdx.x] = size;
}

FT_KERNEL(adafactor_size)
{
    if (threadIdx.x) return;
    double all = (double)(a.R ? a.n * a.R * a.C : a.C), squares = 0, size = 0, rate = a.rate;
    for (int64_t i = 0; i < a.n_parts; i++) {
        squares += a.parts[i];
        size += a.parts[a.n_parts + i];
    }
    if (a.scale_parameter) rate *= fmax(a.eps2, sqrt(size / all));
    a.size[0] = (float)(rate / fmax(1.0, sqrt(squares / all) / a.clip) * (double)a.grad_scale);
    a.size[1] = (float)(1.0 - rate * a.decay);
}

FT_KERNEL(adafactor_apply)
{
    int64_t all = a.R ? a.n * a.R * a.C : a.C;
    FT_EACH(i, all)
    {
        a.p[i] = a.p[i] * a.size[1] - a.size[0] * direction(a, i);
    }
}
