/* kernels/tiles.h - products of a block's rows with tiles of others, by tensor cores.
 *
 * A warp has STRIP rows of its own: left operands, in registers. Tiles of other rows are rounded,
 * if they are f32 in memory, on their way to shared memory, where each row has D numbers: zeros
 * follow those of a shorter one. Where registers are too few for rows of D numbers two warps share
 * their rows: each has PART numbers of them, and makes that part of a product along the numbers.
 * `kind`: of numbers, as kept.h has them. */
#ifndef FT_TILES_H
#define FT_TILES_H

#include "passing.h"

/* A row of a fragment is of this lane and the three beside it, and so is the row 8 further on. */
FT_INLINE int own_row()
{
    return ft_lane() / 4;
}
/* This lane's first number of a row. */
FT_INLINE int own_number()
{
    return ft_lane() % 4 * 2;
}

/* -- fragments --------------------------------------------------------------------------------- */

/* The warp's rows, from `first` on, as left operands of products along their numbers. */
template <typename kind, int D> struct own_rows {
    enum { PART = D, IN_TILE = 0 };
    typename kind::two x[D / 16][4];
};

template <typename kind, int D>
FT_INLINE void take(own_rows<kind, D> &own, const rows &from, int first)
{
FT_UNROLL
    for (int k = 0; k < D / 16; k++)
FT_UNROLL
        for (int part = 0; part < 4; part++) {
            int row = first + own_row() + part % 2 * 8;
            int d = 16 * k + part / 2 * 8 + own_number();
            const typename kind::two zeros = {};
            bool there = row < from.n && d < from.D;
            own.x[k][part] =
                there ? kind::get_two(memory_of<kind>(from) + row * from.step + d) : zeros;
        }
}

/* c: scores of the warp's 16 rows with 8 N rows of the tile, or sums over D = 8 N numbers. */
template <int N> struct sums {
    float x[N][4];
};

/* A tile of others, from some row on, a multiple of 16. Of 16 bits: where this lane's rows are that
 * ft_load_matrices is told, along the numbers of rows and across them; so the pieces that `cell`
 * puts a number in are an exclusive or away from those of the first. */
template <typename number> struct tile_at {
    ft_shared_at along, across;
};
template <> struct tile_at<float> {
    const float *first;
};

template <int D> FT_INLINE tile_at<uint16_t> lanes_at(const uint16_t *tile)
{
    int lane = ft_lane(), low = lane % 8;
    int along = cell<uint16_t, D>(lane / 16 * 8 + low, lane / 8 % 2 * 8);
    int across = cell<uint16_t, D>(lane / 8 % 2 * 8 + low, lane / 16 * 8);
    ft_shared_at first = ft_at(tile);
    return {first + (ft_shared_at)(2 * along), first + (ft_shared_at)(2 * across)};
}
template <int D> FT_INLINE tile_at<float> lanes_at(const float *tile)
{
    return {tile};
}

/* Of a lane's place, that of number d, a multiple of 16, in a row that is `row` further on. */
template <int D> FT_INLINE ft_shared_at place_of(ft_shared_at lane, int row, int d)
{
    return (lane ^ (ft_shared_at)(2 * d)) + (ft_shared_at)(2 * D * row);
}

/* The right operands of two products side by side. */
template <int D>
FT_INLINE void load_along(uint32_t b[4], const tile_at<uint16_t> &tile, int row, int d)
{
    ft_load_matrices(b, place_of<D>(tile.along, row, d));
}
template <int D> FT_INLINE void load_along(ft_two b[4], const tile_at<float> &tile, int row, int d)
{
FT_UNROLL
    for (int m = 0; m < 4; m++)
        b[m] = *(const ft_two *)(tile.first + cell<float, D>(row + m / 2 * 8 + own_row(),
                                                      d + m % 2 * 8 + own_number()));
}
template <int D>
FT_INLINE void load_across(uint32_t b[4], const tile_at<uint16_t> &tile, int row, int d)
{
    ft_load_transposed(b, place_of<D>(tile.across, row, d));
}
template <int D> FT_INLINE void load_across(ft_two b[4], const tile_at<float> &tile, int row, int d)
{
FT_UNROLL
    for (int m = 0; m < 4; m++)
FT_UNROLL
        for (int e = 0; e < 2; e++) {
            int from = row + m % 2 * 8 + own_number() + e;
            b[m].x[e] = tile.first[cell<float, D>(from, d + m / 2 * 8 + own_row())];
        }
}

/* c += the left operand k times numbers 16 k ... of the tile's rows. */
template <typename kind, int D, int N>
FT_INLINE void multiply_along(sums<N> &c, const typename kind::two a[4],
                              const tile_at<typename kind::number> &tile, int k)
{
FT_UNROLL
    for (int n = 0; n < N; n += 2) {
        typename kind::two b[4];
        load_along<D>(b, tile, 8 * n, 16 * k);
        kind::multiply(c.x[n], a, b);
        kind::multiply(c.x[n + 1], a, b + 2);
    }
}

/* c += own rows times the tile's, each with each. */
template <int D, typename kind, int PART, int N>
FT_INLINE void multiply_rows(sums<N> &c, const own_rows<kind, PART> &own,
                             const tile_at<typename kind::number> &tile)
{
FT_UNROLL
    for (int k = 0; k < PART / 16; k++) multiply_along<kind, D>(c, own.x[k], tile, k);
}

/* The warp's rows out of a tile of the block's, where registers are too few for them. */
template <typename kind, int D> struct tile_rows {
    enum { PART = D, IN_TILE = 1 };
    ft_shared_at place; /* as tile_at's `across` */
};

template <int D, typename kind, int N>
FT_INLINE void multiply_rows(sums<N> &c, const tile_rows<kind, D> &own,
                             const tile_at<typename kind::number> &tile)
{
FT_UNROLL
    for (int k = 0; k < D / 16; k++) {
        typename kind::two a[4];
        ft_load_matrices(a, place_of<D>(own.place, 0, 16 * k));
        multiply_along<kind, D>(c, a, tile, k);
    }
}

/* How two warps that share rows add up their parts of two products. */
template <int SHARERS, int N> struct joint {
    ft_four *room; /* shared: 2 N for each thread; NULL: rows are of one warp */
};

template <int SHARERS, int N> FT_INLINE joint<SHARERS, N> joint_of()
{
    joint<SHARERS, N> j = {NULL};
    if constexpr (SHARERS > 1) {
        FT_SHARED(ft_four, room, 2 * N * THREADS);
        j.room = room;
    }
    return j;
}

/* Every thread of the block comes here, and to a barrier before it does again. */
template <int SHARERS, int N>
FT_INLINE void join(const joint<SHARERS, N> &by, sums<N> &x, sums<N> &y)
{
    if constexpr (SHARERS == 1) return;
    const int other = THREADS / SHARERS; /* from a thread to the one of the other warp */
    int self = (int)threadIdx.x;
FT_UNROLL
    for (int n = 0; n < 2 * N; n++) {
        const float *c = n < N ? x.x[n] : y.x[n - N];
        by.room[n * THREADS + self] = {{c[0], c[1], c[2], c[3]}};
    }
    FT_BLOCK_BARRIER();
FT_UNROLL
    for (int n = 0; n < 2 * N; n++) {
        float *c = n < N ? x.x[n] : y.x[n - N];
        const ft_four its = by.room[n * THREADS + (self + other) % THREADS];
        for (int e = 0; e < 4; e++) c[e] += its.x[e];
    }
}

/* Sums (16, 8 N) of which dropout keeps some: each pair of words has bits of 32 numbers, of a
 * lane's two rows, from its first number on. */
template <int N> struct kept_sums {
    const sums<N> &of;
    const uint32_t (*kept)[2];
};

/* Sums as left operands of products along their numbers: pair `part` of the operand k. */
template <typename kind, int N>
FT_INLINE typename kind::two factor_of(const sums<N> &s, int k, int part)
{
    const float *x = s.x[2 * k + part / 2] + part % 2 * 2;
    return kind::pair(x[0], x[1]);
}
template <typename kind, int N>
FT_INLINE typename kind::two factor_of(const kept_sums<N> &s, int k, int part)
{
    int n = 2 * k + part / 2;
    uint32_t mask = ft_spread_bits(s.kept[n / 4][part % 2], n % 4);
    return ft_masked(mask, factor_of<kind>(s.of, k, part));
}

/* c += factors (16, 8 N) times the 8 N rows of the tile, their first 8 P numbers. */
template <typename kind, int D, int P, int N, template <int> class factors>
FT_INLINE void add_rows(sums<P> &c, const factors<N> &by,
                        const tile_at<typename kind::number> &tile)
{
FT_UNROLL
    for (int k = 0; k < N / 2; k++) {
        const typename kind::two a[4] = {factor_of<kind>(by, k, 0), factor_of<kind>(by, k, 1),
                                         factor_of<kind>(by, k, 2), factor_of<kind>(by, k, 3)};
FT_UNROLL
        for (int n = 0; n < P; n += 2) {
            typename kind::two b[4];
            load_across<D>(b, tile, 16 * k, 8 * n);
            kind::multiply(c.x[n], a, b);
            kind::multiply(c.x[n + 1], a, b + 2);
        }
    }
}

/* factors[e / 2] times the sums of row `first` + own_row() + e / 2 * 8, to `to`. */
template <typename kind, int P>
FT_INLINE void put_rows(const rows &to, int first, const sums<P> &c, const float factors[2])
{
FT_UNROLL
    for (int half = 0; half < 2; half++) {
        int row = first + own_row() + half * 8;
        typename kind::memory *at = memory_of<kind>(to) + row * to.step + own_number();
FT_UNROLL
        for (int n = 0; n < P; n++)
            if (row < to.n && 8 * n + own_number() < to.D)
                kind::put_two(at + 8 * n, factors[half] * c.x[n][2 * half],
                              factors[half] * c.x[n][2 * half + 1]);
    }
}

#endif
