/* kernels/rows.cu - kernels over the rows and columns of matrices. Of rows four numbers are taken
 * at once and added in f32; sums of such sums are f64, for which many cards have few units. */
#include "numbers.h"

/* The first of four numbers of this lane of a row of n; of this thread, where a block has a row. */
#define LANE_FOURS(i, n) for (int64_t i = 4 * ft_lane(); i < (n); i += 4 * FT_WARP)
#define THREAD_FOURS(i, n)                                                                         \
    for (int64_t i = 4 * (int64_t)threadIdx.x; i < (n); i += 4 * (int64_t)blockDim.x)

FT_INLINE float sum_of(const ft_four &x)
{
    return (x.x[0] + x.x[1]) + (x.x[2] + x.x[3]);
}

/* Four numbers from number i on, `other` past n. */
FT_INLINE ft_four read_or(const ft_numbers &x, int64_t i, int64_t n, float other)
{
    ft_four y = ft_read_four(x, i, n);
FT_UNROLL
    for (int k = 0; k < 4; k++)
        if (i + k >= n) y.x[k] = other;
    return y;
}

FT_INLINE float largest_of(const ft_four &x)
{
    return ft_larger(ft_larger(x.x[0], x.x[1]), ft_larger(x.x[2], x.x[3]));
}

/* factor * e^(x - top), from number i on; 0 past n. */
FT_INLINE ft_four exponentials(const ft_numbers &x, int64_t i, int64_t n, float top, float factor)
{
    ft_four y = read_or(x, i, n, -INFINITY);
FT_UNROLL
    for (int k = 0; k < 4; k++) y.x[k] = expf(y.x[k] - top) * factor;
    return y;
}

/* -- softmax ----------------------------------------------------------------------------------- */

/* y = p (dy - sum(dy p)) */
FT_INLINE void softmax_grad(const ft_numbers &y, const ft_numbers &dy, const ft_numbers &p,
                            int64_t n)
{
    double sum = 0;
    LANE_FOURS(i, n)
    {
        ft_four d = ft_read_four(dy, i, n);
        const ft_four q = ft_read_four(p, i, n);
FT_UNROLL
        for (int k = 0; k < 4; k++) d.x[k] *= q.x[k];
        sum += (double)sum_of(d);
    }
    float dot = (float)ft_warp_sum(sum);
    LANE_FOURS(i, n)
    {
        ft_four d = ft_read_four(dy, i, n);
        const ft_four q = ft_read_four(p, i, n);
FT_UNROLL
        for (int k = 0; k < 4; k++) d.x[k] = q.x[k] * (d.x[k] - dot);
        ft_write_four(y, i, n, d);
    }
}

FT_KERNEL(softmax)
{
    int64_t row = ft_warp_row(), at = row * a.n;
    if (row >= a.rows) return;
    const ft_numbers x = ft_from(a.a, at), p = ft_from(a.b, at), y = ft_from(a.y, at);
    if (p.at) {
        softmax_grad(y, x, p, a.n);
        return;
    }
    double sum = 0;
    float top = -INFINITY;
    LANE_FOURS(i, a.n) top = ft_larger(top, largest_of(read_or(x, i, a.n, -INFINITY)));
    top = ft_warp_max(top);
    LANE_FOURS(i, a.n) sum += (double)sum_of(exponentials(x, i, a.n, top, 1.0f));
    float inverse = (float)(1.0 / ft_warp_sum(sum));
    LANE_FOURS(i, a.n) ft_write_four(y, i, a.n, exponentials(x, i, a.n, top, inverse));
}

/* -- reductions -------------------------------------------------------------------------------- */

FT_KERNEL(reduce)
{
    FT_SHARED(double, room, 9);
    int64_t row = blockIdx.x;
    const ft_numbers x = ft_from(a.x, row / a.inner * a.n * a.inner + row % a.inner);
    double sum = 0;
    float top = -INFINITY;
    if (a.inner == 1) {
        THREAD_FOURS(i, a.n)
        {
            sum += (double)sum_of(ft_read_four(x, i, a.n));
            top = ft_larger(top, largest_of(read_or(x, i, a.n, -INFINITY)));
        }
    } else {
        for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
            float value = ft_read(x, i * a.inner);
            sum += (double)value;
            top = ft_larger(top, value);
        }
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
    const ft_numbers x = ft_from(a.x, row * a.pitch);
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
    const ft_numbers x = ft_from(a.logits, row * a.pitch);
    float most = -INFINITY; /* of this thread so far: its exponentials are of x - most */
    double sum = 0;
    THREAD_FOURS(i, a.V)
    {
        const ft_four y = read_or(x, i, a.V, -INFINITY);
        float larger = ft_larger(most, largest_of(y));
        if (larger == -INFINITY) continue;
        if (larger != most) sum *= (double)expf(most - larger);
        most = larger;
        sum += (double)((expf(y.x[0] - most) + expf(y.x[1] - most)) +
                        (expf(y.x[2] - most) + expf(y.x[3] - most)));
    }
    float top = ft_block_max(most, room);
    sum = ft_block_sum(most == -INFINITY ? 0.0 : sum * (double)expf(most - top), room);
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
    const ft_numbers x = ft_from(a.logits, row * a.pitch);
    const ft_numbers dx = ft_from(a.dlogits, row * a.pitch_of_dlogits);
    int32_t label = a.labels[row];
    bool counts = label >= 0 && label < a.V;
    float top = a.stats[2 * row], factor = a.dloss[0] * a.weight[0] / a.stats[2 * row + 1];
    double sum = 0;
    const ft_four zeros = {{0, 0, 0, 0}};
    THREAD_FOURS(i, a.V)
    {
        const ft_four p = counts ? exponentials(x, i, a.V, top, factor) : zeros;
        sum += (double)sum_of(p);
        ft_write_four(dx, i, a.V, p);
    }
    for (int64_t i = a.V + threadIdx.x; i < a.pitch_of_dlogits; i += blockDim.x)
        ft_write(dx, i, 0.0f);
    sum = ft_block_sum(sum, room);
    if (counts && threadIdx.x == 0) /* after a barrier */
        ft_write(dx, label, (float)((double)(expf(ft_read(x, label) - top) * factor) - sum));
}
