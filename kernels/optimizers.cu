/* kernels/optimizers.cu - what a step does to the parameters (optim/ has the formulas). */
#include "numbers.h"

#define FT_ELEMENT FT_INLINE
#include "optim/element.h"

/* A thread has four numbers that follow each other: 16 bytes at a time, where they are aligned. */
FT_KERNEL(adamw)
{
    unsigned block;
    const ft_adamw_tensor &x = a.of[ft_tensor_of(a.blocks, &block)];
    const ft_numbers to_p = ft_f32(x.p), to_m = ft_f32(x.m), to_v = ft_f32(x.v);
    int64_t i = (int64_t)block * FT_CUDA_EACH + 4 * threadIdx.x;
    if (i >= x.n) return;
    ft_four g = ft_read_four(ft_f32(x.g), i, x.n), p = ft_read_four(to_p, i, x.n);
    ft_four m = ft_read_four(to_m, i, x.n), v = ft_read_four(to_v, i, x.n);
    FT_UNROLL
    for (int k = 0; k < 4; k++) ft_adamw_element(&x.step, g.x[k], &p.x[k], &m.x[k], &v.x[k]);
    ft_write_four(to_p, i, x.n, p);
    ft_write_four(to_m, i, x.n, m);
    ft_write_four(to_v, i, x.n, v);
    if (x.copy.at) ft_write_four(x.copy, i, x.n, p);
}

FT_KERNEL(sgd)
{
    unsigned block;
    const ft_sgd_tensor &x = a.of[ft_tensor_of(a.blocks, &block)];
    const ft_numbers to_p = ft_f32(x.p), to_m = ft_f32(x.m);
    int64_t i = (int64_t)block * FT_CUDA_EACH + 4 * threadIdx.x;
    if (i >= x.n) return;
    ft_four g = ft_read_four(ft_f32(x.g), i, x.n), p = ft_read_four(to_p, i, x.n);
    ft_four m = ft_read_four(to_m, i, x.n);
    FT_UNROLL
    for (int k = 0; k < 4; k++) ft_sgd_element(&x.step, g.x[k], &p.x[k], &m.x[k]);
    ft_write_four(to_p, i, x.n, p);
    ft_write_four(to_m, i, x.n, m);
    if (x.copy.at) ft_write_four(x.copy, i, x.n, p);
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

FT_INLINE double square(const ft_adafactor_tensor &x, int64_t i)
{
    float g = x.g[i] * x.grad_scale;
    return (double)(g * g + x.eps1);
}

FT_INLINE float moved(const ft_adafactor_tensor &x, float old, double mean)
{
    return (float)(x.beta * (double)old + (1.0 - x.beta) * mean);
}

FT_KERNEL(adafactor_rows)
{
    unsigned block;
    const ft_adafactor_tensor &x = a.of[ft_tensor_of(a.blocks, &block)];
    int64_t row = (int64_t)block * FT_CUDA_WARPS + ft_warp();
    if (row >= x.n * x.R) return;
    double sum = 0;
    for (int64_t c = ft_lane(); c < x.C; c += FT_WARP) sum += square(x, row * x.C + c);
    sum = ft_warp_sum(sum);
    if (ft_lane() == 0) x.row[row] = moved(x, x.row[row], sum / (double)x.C);
}

FT_KERNEL(adafactor_columns)
{
    FT_SHARED(double, sums, 256);
    unsigned block;
    const ft_adafactor_tensor &x = a.of[ft_tensor_of(a.blocks, &block)];
    unsigned strips = (unsigned)((x.C + FT_CUDA_COLUMNS - 1) / FT_CUDA_COLUMNS);
    int64_t c = (int64_t)(block % strips) * FT_CUDA_COLUMNS + threadIdx.x % FT_CUDA_COLUMNS;
    int64_t matrix = block / strips;
    int group = (int)threadIdx.x / FT_CUDA_COLUMNS, groups = (int)blockDim.x / FT_CUDA_COLUMNS;
    double sum = 0;
    if (c < x.C)
        for (int64_t r = group; r < x.R; r += groups)
            sum += square(x, (matrix * x.R + r) * x.C + c);
    sums[threadIdx.x] = sum;
    FT_BLOCK_BARRIER();
    if (group || c >= x.C) return;
    for (int k = 1; k < groups; k++) sum += sums[threadIdx.x + k * FT_CUDA_COLUMNS];
    float *col = x.col + matrix * x.C + c;
    *col = moved(x, *col, sum / (double)x.R);
}

FT_KERNEL(adafactor_mean)
{
    FT_SHARED(double, room, 9);
    unsigned matrix;
    const ft_adafactor_tensor &x = a.of[ft_tensor_of(a.blocks, &matrix)];
    const float *row = x.row + (int64_t)matrix * x.R;
    double sum = 0;
    for (int64_t r = threadIdx.x; r < x.R; r += blockDim.x) sum += (double)row[r];
    sum = ft_block_sum(sum, room);
    if (threadIdx.x == 0) x.means[matrix] = sum / (double)x.R;
}

/* Rows from, from + 1, ... end - 1 of a matrix, where a thread has column c. */
struct piece {
    int64_t matrix, c, from, end;
};

FT_INLINE piece piece_of(const ft_adafactor_tensor &x, unsigned block, int64_t rows)
{
    unsigned strips = (unsigned)((x.C + blockDim.x - 1) / blockDim.x);
    unsigned down = (unsigned)((x.R + rows - 1) / rows), above = block / strips;
    int64_t from = above % down * rows;
    piece y = {above / down, (int64_t)(block % strips) * blockDim.x + threadIdx.x, from,
               ft_least(from + rows, x.R)};
    return y;
}

/* u of an element before its size is the gradient times a factor of its row and one of its column:
 * f64 roots and quotients, so they are not made for every element. Of FT_CUDA_ROWS rows from
 * `first` on, into shared memory. */
FT_INLINE void row_factors(float *factors, const ft_adafactor_tensor &x, const piece &y,
                           int64_t first)
{
    int64_t r = first + threadIdx.x;
    FT_BLOCK_BARRIER();
    if (threadIdx.x < FT_CUDA_ROWS && r < y.end)
        factors[threadIdx.x] =
            (float)sqrt(x.means[y.matrix] / (double)x.row[y.matrix * x.R + r]);
    FT_BLOCK_BARRIER();
}

FT_INLINE float column_factor(const ft_adafactor_tensor &x, const piece &y)
{
    return y.c < x.C ? (float)(1.0 / sqrt((double)x.col[y.matrix * x.C + y.c])) : 0.0f;
}

/* Squares of u and of p. */
struct sizes {
    double u, p;
};

FT_INLINE sizes measure_vector(const ft_adafactor_tensor &x, unsigned block)
{
    int64_t from = block * x.per_part, end = ft_least(from + x.per_part, x.C);
    sizes sum = {0, 0};
    for (int64_t i = from + threadIdx.x; i < end; i += blockDim.x) {
        x.row[i] = moved(x, x.row[i], square(x, i));
        float u = x.g[i] / sqrtf(x.row[i]) * x.grad_scale;
        sum.u += (double)u * (double)u;
        sum.p += (double)x.p[i] * (double)x.p[i];
    }
    return sum;
}

FT_INLINE sizes measure_matrix(const ft_adafactor_tensor &x, unsigned block, float *factors)
{
    piece y = piece_of(x, block, x.per_part);
    float of_column = column_factor(x, y);
    sizes sum = {0, 0};
    for (int64_t first = y.from; first < y.end; first += FT_CUDA_ROWS) {
        row_factors(factors, x, y, first);
        int64_t end = y.c < x.C ? ft_least(first + FT_CUDA_ROWS, y.end) : first;
        for (int64_t r = first; r < end; r++) {
            int64_t i = (y.matrix * x.R + r) * x.C + y.c;
            float u = x.g[i] * (factors[r - first] * of_column) * x.grad_scale;
            sum.u += (double)u * (double)u;
            sum.p += (double)x.p[i] * (double)x.p[i];
        }
    }
    return sum;
}

FT_ROOMY_KERNEL(adafactor_measure)
{
    FT_SHARED(double, room, 9);
    FT_SHARED(float, factors, FT_CUDA_ROWS);
    unsigned block;
    const ft_adafactor_tensor &x = a.of[ft_tensor_of(a.blocks, &block)];
    sizes sum = x.R ? measure_matrix(x, block, factors) : measure_vector(x, block);
    sum.u = ft_block_sum(sum.u, room);
    sum.p = ft_block_sum(sum.p, room);
    if (threadIdx.x) return;
    x.parts[block] = sum.u;
    x.parts[x.n_parts + block] = sum.p;
}

FT_KERNEL(adafactor_size)
{
    FT_SHARED(double, room, 9);
    const ft_adafactor_tensor &x = a.of[blockIdx.x];
    double all = (double)(x.R ? x.n * x.R * x.C : x.C), squares = 0, size = 0, rate = x.rate;
    for (int64_t i = threadIdx.x; i < x.n_parts; i += blockDim.x) {
        squares += x.parts[i];
        size += x.parts[x.n_parts + i];
    }
    squares = ft_block_sum(squares, room);
    size = ft_block_sum(size, room);
    if (threadIdx.x) return;
    if (x.scale_parameter) rate *= fmax(x.eps2, sqrt(size / all));
    x.size[0] = (float)(rate / fmax(1.0, sqrt(squares / all) / x.clip) * (double)x.grad_scale);
    x.size[1] = (float)(1.0 - rate * x.decay);
}

FT_INLINE void put_number(const ft_adafactor_tensor &x, int64_t i, float p)
{
    const ft_numbers copy = {x.copy, x.copy_kept};
    x.p[i] = p;
    if (copy.at) ft_write(copy, i, p);
}

FT_KERNEL(adafactor_apply)
{
    FT_SHARED(float, factors, FT_CUDA_ROWS);
    unsigned block;
    const ft_adafactor_tensor &x = a.of[ft_tensor_of(a.blocks, &block)];
    const float size = x.size[0], keep = x.size[1];
    if (!x.R) {
        FT_EACH_OF(i, block, x.C)
            put_number(x, i, x.p[i] * keep - size * (x.g[i] / sqrtf(x.row[i])));
        return;
    }
    piece y = piece_of(x, block, FT_CUDA_ROWS);
    float of_column = column_factor(x, y);
    row_factors(factors, x, y, y.from);
    if (y.c >= x.C) return;
    for (int64_t r = y.from; r < y.end; r++) {
        int64_t i = (y.matrix * x.R + r) * x.C + y.c;
        put_number(x, i, x.p[i] * keep - size * (x.g[i] * (factors[r - y.from] * of_column)));
    }
}
