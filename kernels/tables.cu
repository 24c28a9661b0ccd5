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

/* Positions from *from on that have this id and, where there are marks, one of those; in their
 * order, `most` of them at most: how many. *from: where to go on, n at the end. room: a number for
 * each warp. */
FT_INLINE int collect(const ft_embedding_grad_args &a, const int32_t *marks, int32_t id,
                      int64_t *from, int most, int32_t *list, int32_t *room)
{
    int count = 0, warps = (int)(blockDim.x / FT_WARP);
    int64_t at = *from;
    for (; at < a.n && count < most; at += blockDim.x) {
        int64_t own = at + threadIdx.x;
        bool found = own < a.n && a.ids[own] == id && (!marks || marks[own]);
        uint32_t votes = ft_ballot(found);
        FT_BLOCK_BARRIER();
        if (ft_lane() == 0) room[ft_warp()] = ft_count_bits(votes);
        FT_BLOCK_BARRIER();
        int place = count + ft_count_bits(votes & ((1u << ft_lane()) - 1));
        for (int w = 0; w < warps; w++) {
            if (w < ft_warp()) place += room[w];
            count += room[w];
        }
        if (found && place < most) list[place] = (int32_t)own;
    }
    FT_BLOCK_BARRIER();
    if (count >= most) at = list[most - 1] + 1;
    *from = ft_least(at, a.n);
    return count < most ? count : most;
}

/* to (D) = or += rows of x, in the order of the list. */
FT_INLINE void add_listed(float *to, bool adds, const ft_numbers &x, int64_t D, const int32_t *list,
                          int count)
{
    const ft_numbers y = ft_f32(to);
    for (int64_t d = 4 * (int64_t)threadIdx.x; d < D; d += 4 * (int64_t)blockDim.x) {
        const ft_four zeros = {{0, 0, 0, 0}};
        ft_four sum = adds ? ft_read_four(y, d, D) : zeros;
        for (int k = 0; k < count; k++) {
            const ft_four z = ft_read_four(ft_from(x, list[k] * D), d, D);
FT_UNROLL
            for (int e = 0; e < 4; e++) sum.x[e] += z.x[e];
        }
        ft_write_four(y, d, D, sum);
    }
}

FT_KERNEL(embedding_grad)
{
    FT_SHARED(double, sums, 5);
    FT_SHARED(int32_t, list, FT_CUDA_PIECE + 1);
    FT_SHARED(int32_t, room, 4);
    int64_t i = blockIdx.x, next = i;
    int32_t id = a.ids[i];
    double earlier = 0;
    for (int64_t j = threadIdx.x; j < i; j += blockDim.x)
        if (a.ids[j] == id) earlier += 1;
    int64_t before = (int64_t)ft_block_sum(earlier, sums);
    bool known = id >= 0 && id < a.rows, begins = before % FT_CUDA_PIECE == 0;
    if (!known && before == 0 && threadIdx.x == 0)
        ft_report(a.fault, FT_CUDA_BAD_ID, id, i, a.rows);
    int count = 0;
    if (known && begins && id != a.padding)
        count = collect(a, NULL, id, &next, FT_CUDA_PIECE + 1, list, room);
    bool whole = before == 0 && count <= FT_CUDA_PIECE;
    if (a.marks && threadIdx.x == 0)
        a.marks[i] = count == 0 || whole ? 0 : before == 0 ? FT_CUDA_FIRST_PART : FT_CUDA_PART;
    if (count > FT_CUDA_PIECE) count = FT_CUDA_PIECE;
    if (count > 0)
        add_listed(whole ? a.dtable + id * a.D : a.parts + i * a.D, whole, a.dy, a.D, list, count);
}

FT_KERNEL(embedding_pieces)
{
    FT_SHARED(int32_t, list, FT_CUDA_PIECE);
    FT_SHARED(int32_t, room, 4);
    int64_t next = blockIdx.x;
    if (a.marks[next] != FT_CUDA_FIRST_PART) return;
    int32_t id = a.ids[next];
    while (next < a.n) {
        int count = collect(a, a.marks, id, &next, FT_CUDA_PIECE, list, room);
        add_listed(a.dtable + id * a.D, true, ft_f32(a.parts), a.D, list, count);
        FT_BLOCK_BARRIER(); /* before the list is another one */
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
