/* kernels/rows.cu - kernels over the rows and columns of matrices. Sums are f64. */
#include "numbers.h"

/* -- softmax ----------------------------------------------------------------------------------- */

FT_KERNEL(softmax)
{
    int64_t row = ft_warp_row(), at = row * a.n;
    if (row >= a.rows) return;
    const ft_numbers x = ft_from(a.a, at), p = ft_from(a.b, at), y = ft_from(a.y, at);
    double sum = 0;
    if (p.at) {
        for (int64_t i = ft_lane(); i < a.n; i += FT_WARP)
            sum += (double)ft_read(x, i) * (double)ft_read(p, i);
        float dot = (float)ft_warp_sum(sum);
        for (int64_t i = ft_lane(); i < a.n; i += FT_WARP)
            ft_write(y, i, ft_read(p, i) * (ft_read(x, i) - dot));
        return;
    }
    float top = -INFINITY;
    for (int64_t i = ft_lane(); i < a.n; i += FT_WARP) top = ft_larger(top, ft_read(x, i));
    top = ft_warp_max(top);
    for (int64_t i = ft_lane(); i < a.n; i += FT_WARP) sum += (double)expf(ft_read(x, i) - top);
    float inverse = (float)(1.0 / ft_warp_sum(sum));
    for (int64_t i = ft_lane(); i < a.n; i += FT_WARP)
        ft_write(y, i, expf(ft_read(x, i) - top) * inverse);
}

/* -- norms ------------------------------------------------------------------------------------- */

FT_KERNEL(norm)
{
    int64_t row = ft_warp_row();
    if (row >= a.rows) return;
    const ft_numbers x = ft_from(a.x, row * a.D), y = ft_from(a.y, row * a.D);
    double mean = 0, squares = 0;
    if (a.centred) {
        for (int64_t i = ft_lane(); i < a.D; i += FT_WARP) mean += (double)ft_read(x, i);
        mean = ft_warp_sum(mean) / (double)a.D;
    }
    for (int64_t i = ft_lane(); i < a.D; i += FT_WARP) {
        double d = (double)ft_read(x, i) - mean;
        squares += d * d;
    }
    float rstd = (float)(1.0 / sqrt(ft_warp_sum(squares) / (double)a.D + (double)a.eps));
    float middle = (float)mean;
    for (int64_t i = ft_lane(); i < a.D; i += FT_WARP) {
        float n = (ft_read(x, i) - middle) * rstd * a.w[i];
        ft_write(y, i, a.centred ? n + a.b[i] : n);
    }
    if (ft_lane()) return;
    if (a.centred) a.stats[2 * row] = middle;
    a.stats[a.centred ? 2 * row + 1 : row] = rstd;
}

/* dx = rstd (g - mean(g) - n mean(g n)), g = dy w, n = (x - mean) rstd */
FT_KERNEL(norm_grad)
{
    int64_t row = ft_warp_row();
    if (row >= a.rows) return;
    const ft_numbers x = ft_from(a.x, row * a.D), dy = ft_from(a.dy, row * a.D);
    const ft_numbers dx = ft_from(a.dx, row * a.D);
    float mean = a.centred ? a.stats[2 * row] : 0.0f;
    float rstd = a.stats[a.centred ? 2 * row + 1 : row];
    double sum_g = 0, sum_gn = 0;
    for (int64_t i = ft_lane(); i < a.D; i += FT_WARP) {
        float g = ft_read(dy, i) * a.w[i];
        sum_g += (double)g;
        sum_gn += (double)g * (double)((ft_read(x, i) - mean) * rstd);
    }
    float mean_g = a.centred ? (float)(ft_warp_sum(sum_g) / (double)a.D) : 0.0f;
    float mean_gn = (float)(ft_warp_sum(sum_gn) / (double)a.D);
    for (int64_t i = ft_lane(); i < a.D; i += FT_WARP)
        ft_write(dx, i, rstd * (ft_read(dy, i) * a.w[i] - mean_g -
                                (ft_read(x, i) - mean) * rstd * mean_gn));
}

/* -- sums over rows ---------------------------------------------------------------------------- */

FT_INLINE double addend(const ft_column_parts_args &a, int64_t row, int64_t d)
{
    double dy = (double)ft_read(a.dy, row * a.D + d);
    if (!a.x.at) return dy;
    float mean = a.centred ? a.stats[2 * row] : 0.0f;
    float rstd = a.stats[a.centred ? 2 * row + 1 : row];
    return dy * (double)((ft_read(a.x, row * a.D + d) - mean) * rstd);
}

FT_KERNEL(column_parts)
{
    FT_SHARED(double, sums, 256);
    int64_t d = (int64_t)blockIdx.x * FT_CUDA_COLUMNS + threadIdx.x % FT_CUDA_COLUMNS;
    int64_t from = (int64_t)blockIdx.y * a.per_part, end = ft_least(from + a.per_part, a.rows);
    int group = (int)threadIdx.x / FT_CUDA_COLUMNS, groups = (int)blockDim.x / FT_CUDA_COLUMNS;
    double sum = 0;
    if (d < a.D)
        for (int64_t row = from + group; row < end; row += groups)
            sum += addend(a, row, d);
    sums[threadIdx.x] = sum;
    FT_BLOCK_BARRIER();
    if (group || d >= a.D) return;
    for (int k = 1; k < groups; k++) sum += sums[threadIdx.x + k * FT_CUDA_COLUMNS];
    a.parts[(int64_t)blockIdx.y * a.D + d] = sum;
}

FT_KERNEL(column_sum)
{
    int64_t d = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= a.D) return;
    double sum = 0;
    for (int64_t i = 0; i < a.n_parts; i++) sum += a.parts[i * a.D + d];
    float rounded = (float)sum; /* what is added is what would be given alone */
    a.y[d] = a.add ? a.y[d] + rounded : rounded;
}

/* -- reductions -------------------------------------------------------------------------------- */

FT_KERNEL(reduce)
{
    FT_SHARED(double, room, 9);
    int64_t row = blockIdx.x;
    const ft_numbers x = ft_from(a.x, row / a.inner * a.n * a.inner + row % a.inner);
    double sum = 0;
    float top = -INFINITY;
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
        float value = ft_read(x, i * a.inner);
        sum += (double)value;
        top = ft_larger(top, value);
    }
    if (a.largest)
        top = ft_block_max(top, room);
    else
        sum = ft_block_sum(sum, room) * a.factor;
    if (threadIdx.x) return;
    if (a.largest)
        a.y[row] = top;
    else
        a.y[row] = a.add ? a.y[row] + (float)sum : (float)sum;
}

FT_KERNEL(spread)
{
    FT_EACH(i, a.outer * a.n * a.inner)
    {
        int64_t from = i / (a.n * a.inner) * a.inner + i % a.inner;
        ft_write(a.dx, i, a.factor * ft_read(a.dy, from));
    }
}

FT_KERNEL(max_grad)
{
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= a.outer * a.inner) return;
    int64_t at = column / a.inner * a.n * a.inner + column % a.inner;
    bool given = false;
    for (int64_t i = 0; i < a.n; i++) {
        bool here = !given && ft_read(a.x, at + i * a.inner) == ft_read(a.y, column);
        ft_write(a.dx, at + i * a.inner, here ? ft_read(a.dy, column) : 0.0f);
        given = given || here;
    }
}

/* The first of the largest; nan is never larger than what came before. */
FT_KERNEL(argmax)
{
    int64_t row = ft_warp_row();
    if (row >= a.rows) return;
    const ft_numbers x = ft_from(a.x, row * a.n);
    float first = ft_read(x, 0), best = -INFINITY;
    int64_t at = a.n;
    for (int64_t i = ft_lane(); i < a.n; i += FT_WARP) {
        float value = ft_read(x, i);
        if (value > best || (at == a.n && value == best)) {
            best = value;
            at = i;
        }
    }
    for (int mask = FT_WARP / 2; mask; mask /= 2) {
        float other = ft_xor_lane(best, mask);
        int64_t other_at = (int64_t)ft_xor_lane((double)at, mask);
        if (other > best || (other == best && other_at < at)) {
            best = other;
            at = other_at;
        }
    }
    if (ft_lane() == 0) a.y[row] = first != first || at == a.n ? 0 : (int32_t)at;
}

/* -- cross-entropy ----------------------------------------------------------------------------- */

enum { IGNORED = -100 };

FT_KERNEL(cross_entropy)
{
    FT_SHARED(double, room, 9);
    int64_t row = blockIdx.x;
    const ft_numbers x = ft_from(a.logits, row * a.V);
    float top = -INFINITY;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.V; i += blockDim.x) top = ft_larger(top, ft_read(x, i));
    top = ft_block_max(top, room);
    for (int64_t i = threadIdx.x; i < a.V; i += blockDim.x)
        sum += (double)expf(ft_read(x, i) - top);
    sum = ft_block_sum(sum, room);
    if (threadIdx.x) return;
    int32_t label = a.labels[row];
    float nll = 0;
    if (label != IGNORED && (label < 0 || label >= a.V))
        ft_report(a.fault, FT_CUDA_BAD_LABEL, label, row, a.V);
    else if (label != IGNORED)
        nll = (float)(log(sum) + ((double)top - (double)ft_read(x, label)));
    a.nll[row] = nll;
    a.stats[2 * row] = top;
    a.stats[2 * row + 1] = (float)sum;
}

FT_KERNEL(loss)
{
    FT_SHARED(double, room, 9);
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x) sum += (double)a.nll[i];
    sum = ft_block_sum(sum, room);
    if (threadIdx.x == 0) a.loss[0] = (float)(sum * (double)a.weight[0]);
}

/* What the label gets makes the sum of the row, as it was rounded, 0. */
FT_KERNEL(cross_entropy_grad)
{
    FT_SHARED(double, room, 9);
    int64_t row = blockIdx.x;
    const ft_numbers x = ft_from(a.logits, row * a.V), dx = ft_from(a.dlogits, row * a.V);
    int32_t label = a.labels[row];
    bool counts = label >= 0 && label < a.V;
    float top = a.stats[2 * row], factor = a.dloss[0] * a.weight[0] / a.stats[2 * row + 1];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.V; i += blockDim.x) {
        float p = counts ? expf(ft_read(x, i) - top) * factor : 0.0f;
        sum += (double)p;
        ft_write(dx, i, p);
    }
    sum = ft_block_sum(sum, room);
    if (counts && label % (int)blockDim.x == (int)threadIdx.x)
        ft_write(dx, label, (float)((double)(expf(ft_read(x, label) - top) * factor) - sum));
}
