/* kernels/together.h - products of a block's rows with tiles of others, by groups of four warps
 * (groups.h) where the kind of numbers is for them, else as tiles.h has them.
 *
 * A kernel begins products, makes one or several, hands them over, and goes on; it completes sums
 * before it reads them, and before anything is written to what they are made of. Of other kinds
 * sums are there at once. */
#ifndef FT_TOGETHER_H
#define FT_TOGETHER_H

#include "tiles.h"

/* A tile of ROWS rows for groups, from some row on. */
template <int ROWS> struct group_tile {
    ft_tile first;
};

/* Of its columns those from number d on, a multiple of 16. */
template <int ROWS> FT_INLINE ft_tile column_of(const group_tile<ROWS> &tile, int d)
{
    const int WIDE = FT_TILE_ROW / 2;
    return ft_further(tile.first, d / WIDE * ROWS * FT_TILE_ROW + d % WIDE * 2);
}

/* The block's room for so many numbers of tiles: kinds for groups take more than a kernel can have
 * without the launch. */
template <typename kind, int COUNT> FT_INLINE typename kind::number *room_for_tiles()
{
    typedef typename kind::number number;
    FT_TILE(number, own, kind::GROUPED ? 1 : COUNT);
    return kind::GROUPED ? (number *)ft_room(COUNT * sizeof(number)) : own;
}

/* A tile of ROWS rows as the kind's products take it, from some row on. */
template <typename kind, int D, int ROWS>
FT_INLINE auto look_at(const typename kind::number *tile, int row)
{
    const typename kind::number *first = tile + row * layout<kind, D, ROWS>::STEP;
    if constexpr (kind::GROUPED)
        return group_tile<ROWS>{ft_tile_of(first)};
    else
        return lanes_at<D>(first);
}

/* -- products ---------------------------------------------------------------------------------- */

template <int D, typename kind, int N, int ROWS>
FT_INLINE void multiply_rows(sums<N> &c, const own_rows<grouped<kind>, D> &own,
                             const group_tile<ROWS> &tile)
{
FT_UNROLL
    for (int k = 0; k < D / 16; k++)
        ft_multiply_tile<kind::IS_F16, 8 * N, 0>(c.x, own.x[k], column_of(tile, 16 * k));
}

/* The group's rows are in a tile of the block's. */
template <typename kind, int D> struct tile_rows<grouped<kind>, D> {
    enum { PART = D, IN_TILE = 1 };
    group_tile<BLOCK> place;
};

template <int D, typename kind, int N, int ROWS>
FT_INLINE void multiply_rows(sums<N> &c, const tile_rows<grouped<kind>, D> &own,
                             const group_tile<ROWS> &tile)
{
FT_UNROLL
    for (int k = 0; k < D / 16; k++)
        ft_multiply_tiles<kind::IS_F16, 8 * N, 0>(c.x, column_of(own.place, 16 * k),
                                                  column_of(tile, 16 * k));
}

/* Left operands that are all rounded before products are made. */
template <typename kind, int N> struct lefts {
    typename kind::two x[N / 2][4];
};

/* Factors as add_rows takes them. */
template <typename kind, int N, template <int> class factors>
FT_INLINE auto factors_of(const factors<N> &by)
{
    if constexpr (!kind::GROUPED) {
        return by;
    } else {
        lefts<kind, N> a;
FT_UNROLL
        for (int i = 0; i < 2 * N; i++) a.x[i / 4][i % 4] = factor_of<kind>(by, i / 4, i % 4);
        return a;
    }
}

template <typename kind, int D, int P, int N, int ROWS>
FT_INLINE void add_rows(sums<P> &c, const lefts<kind, N> &factors, const group_tile<ROWS> &tile)
{
    const int WIDE = FT_TILE_ROW / 2;
FT_UNROLL
    for (int k = 0; k < N / 2; k++)
FT_UNROLL
        for (int d = 0; d < 8 * P; d += WIDE)
            ft_multiply_tile<kind::IS_F16, WIDE, 1>(
                c.x + d / 8, factors.x[k], ft_further(column_of(tile, d), 16 * FT_TILE_ROW * k));
}

/* -- their order ------------------------------------------------------------------------------- */

template <int N> FT_INLINE void pin(sums<N> &x)
{
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) ft_pin(x.x[n][e]);
}
template <typename kind, int N> FT_INLINE void pin(lefts<kind, N> &a)
{
FT_UNROLL
    for (int i = 0; i < 2 * N; i++) ft_pin(a.x[i / 4][i % 4]);
}

/* Before products that are made of `operands` or added to them. */
template <typename kind, typename... types> FT_INLINE void begin(types &...operands)
{
    if constexpr (kind::GROUPED) {
        (pin(operands), ...);
        ft_group_begins();
    }
}

/* Products since the last time are one batch. */
template <typename kind> FT_INLINE void hand_over()
{
    if constexpr (kind::GROUPED) ft_group_hands_over();
}

/* Sums of all batches but the LATER last ones are there: these. */
template <typename kind, int LATER, typename... types> FT_INLINE void complete(types &...sums)
{
    if constexpr (kind::GROUPED) {
        ft_group_waits<LATER>();
        (pin(sums), ...);
    }
}

#endif
