/* kernels/tables.cu - kernels that move rows: picked by ids, cut out of an axis, appended. */
#include "numbers.h"

FT_KERNEL(embedding)
{
    int64_t i = blockIdx.x;
    int32_t id = a.ids[i];
    bool good = id >= 0 && id < a.rows;
    if (!good && threadIdx.x == 0) ft_report(a.fault, FT_CUDA_BAD_ID, id, i, a.rows);
    for (int64_t d = threadIdx.x; d < a.D; d += blockDim.x)
        ft_write(a.y, i * a.D + d, good ? a.table[id * a.D + d] : NAN);
}

/* A block is the one of the first position with its id: it adds that position and all later ones
 * with the same id, in their order; blockDim.x positions are looked at together. */
FT_KERNEL(embedding_grad)
{
    FT_SHARED(double, room, 5);
    int64_t i = blockIdx.x;
    int32_t id = a.ids[i];
    double earlier = 0;
    for (int64_t j = threadIdx.x; j < i; j += blockDim.x)
        if (a.ids[j] == id) earlier = 1;
    if (ft_block_sum(earlier, room) > 0) return;
    if (id < 0 || id >= a.rows) {
        if (threadIdx.x == 0) ft_report(a.fault, FT_CUDA_BAD_ID, id, i, a.rows);
        return;
    }
    if (id == a.padding) return;
    float *row = a.dtable + id * a.D;
    for (int64_t from = i; from < a.n; from += blockDim.x) {
        int64_t own = from + threadIdx.x, end = ft_least(from + blockDim.x, a.n);
        if (ft_block_sum(own < end && a.ids[own] == id, room) == 0) continue;
        for (int64_t j = from; j < end; j++)
            for (int64_t d = threadIdx.x; a.ids[j] == id && d < a.D; d += blockDim.x)
                row[d] += ft_read(a.dy, j * a.D + d);
    }
}

FT_KERNEL(span)
{
    int64_t wide = a.n * a.inner, narrow = a.count * a.inner, from = a.from * a.inner;
    if (!a.back || a.add) {
        FT_EACH(i, a.outer * narrow)
        {
            int64_t at = i / narrow * wide + from + i % narrow;
            if (a.back)
                ft_write(a.whole, at, ft_read(a.whole, at) + ft_read(a.part, i));
            else
                ft_write(a.part, i, ft_read(a.whole, at));
        }
        return;
    }
    FT_EACH(i, a.outer * wide)
    {
        int64_t k = i % wide - from;
        bool inside = k >= 0 && k < narrow;
        ft_write(a.whole, i, inside ? ft_read(a.part, i / wide * narrow + k) : 0.0f);
    }
}

FT_KERNEL(cache_append)
{
    int64_t wide = a.n * a.width, narrow = a.t * a.width;
    int64_t position = a.position[0], from = position * a.width;
    bool good = position >= 0 && position + a.t <= a.n;
    if (!good && blockIdx.x == 0 && threadIdx.x == 0)
        ft_report(a.fault, FT_CUDA_BAD_POSITION, (int32_t)position, a.t, a.n);
    FT_EACH(i, a.samples * wide)
    {
        int64_t k = i % wide - from;
        if (good && k >= 0 && k < narrow)
            a.out[i] = a.added[i / wide * narrow + k];
        else if (a.out != a.cache)
            a.out[i] = a.cache[i];
    }
}
