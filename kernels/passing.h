/* kernels/passing.h - rows that pass by a block: from memory to tiles in shared memory, from which
 * tensor cores take them. Each row of a tile has D numbers: zeros follow those of a shorter one. */
#ifndef FT_PASSING_H
#define FT_PASSING_H

#include "attention.h"
#include "kept.h"

enum {
    STRIP = FT_CUDA_TOGETHER, /* rows of a fragment */
    BLOCK = FT_CUDA_WIDE,
    WARPS = BLOCK / STRIP,
    THREADS = WARPS * FT_WARP
};

/* Rows that pass by at once: those that take no registers on their way, and others. */
template <typename kind, int D> struct at_once {
    enum { ROWS = (kind::AS_READ ? 4096 : 2048) / D };
};

/* Where number d of a row lies. A row's pieces of 8 numbers change places with its number: of one
 * place eight rows' pieces of 16 bits, or of 32 bits those of rows 0 to 3, 4 to 7, the even and the
 * odd ones, are in different banks. Pieces 8 p to 8 p + 7 stay together. */
template <typename number, int D> FT_INLINE int cell(int row, int d)
{
    int turned = sizeof(number) == 4 ? row % 8 ^ row % 8 / 4 : row % 8;
    return row * D + ((d / 8) ^ turned) * 8 + d % 8;
}

/* The same in a tile of ROWS rows of a kind, from one of whose rows to the next there are STEP
 * numbers. Of those for groups (groups.h) each part of 64 numbers is a tile. */
template <typename kind, int D, int ROWS> struct layout {
    enum { WIDE = kind::GROUPED ? FT_TILE_ROW / 2 : D, STEP = WIDE };
    FT_INLINE int place(int row, int d)
    {
        return d / WIDE * ROWS * WIDE + cell<typename kind::number, WIDE>(row, d % WIDE);
    }
};

template <typename kind> FT_INLINE typename kind::memory *memory_of(const rows &x)
{
    return (typename kind::memory *)x.of.at + x.first;
}

/* Rows that pass by a block: this thread's 4 numbers of the next one that it takes. */
template <typename kind> struct passing_rows {
    const typename kind::memory *first; /* of the head */
    int at, step, left; /* 0 where the thread's numbers are behind those of the rows */
};

template <typename kind, int D> FT_INLINE passing_rows<kind> pass(const rows &from, int first)
{
    int row = first + (int)threadIdx.x / (D / 4), d = (int)threadIdx.x % (D / 4) * 4;
    passing_rows<kind> p = {memory_of<kind>(from), row * (int)from.step + d, (int)from.step,
                            d < from.D ? (int)from.n - row : 0};
    return p;
}

/* ROWS rows on their way from memory to a tile, between `fetch` and `settle`, which nobody reads
 * meanwhile. A thread has the same 4 numbers of every STEPth row; STEP is a multiple of 8, so they
 * lie alike in `cell`. They pass through registers where they are rounded, or where `held` says so:
 * then the tile may be read until `settle`. The tile has OF rows. */
template <typename kind, int ROWS, int D, bool held = false, int OF = ROWS> struct moving_rows {
    enum {
        LANES = D / 4,
        STEP = THREADS / LANES,
        PIECES = ROWS / STEP,
        DIRECT = kind::AS_READ && !held
    };
    typename kind::four x[PIECES];
};

/* Where this thread's first numbers go. */
template <typename kind, int ROWS, int D, bool held, int OF>
FT_INLINE typename kind::number *own_place(const moving_rows<kind, ROWS, D, held, OF> &m,
                                           typename kind::number *tile)
{
    int row = (int)threadIdx.x / m.LANES, d = (int)threadIdx.x % m.LANES * 4;
    return tile + layout<kind, D, OF>::place(row, d);
}

template <typename kind, int ROWS, int D, bool held, int OF>
FT_INLINE void fetch(moving_rows<kind, ROWS, D, held, OF> &m, passing_rows<kind> *from,
                     typename kind::number *tile)
{
    const typename kind::four zeros = {};
    const int ROW = layout<kind, D, OF>::STEP;
    typename kind::number *to = own_place(m, tile);
FT_UNROLL
    for (int p = 0; p < m.PIECES; p++) {
        const typename kind::memory *at = from->first + from->at;
        if constexpr (m.DIRECT)
            ft_copy_eight(to + p * m.STEP * ROW, at, from->left > 0);
        else
            m.x[p] = from->left > 0 ? *(const typename kind::four *)at : zeros;
        from->at += m.STEP * from->step;
        from->left -= m.STEP;
    }
}

/* Rows that came past the registers are there behind the next barrier. */
template <typename kind> FT_INLINE void await_copies()
{
    ft_copies_done();
    if constexpr (kind::GROUPED) ft_group_sees();
}

template <typename kind, int ROWS, int D, bool held, int OF>
FT_INLINE void settle(const moving_rows<kind, ROWS, D, held, OF> &m, typename kind::number *tile)
{
    if constexpr (m.DIRECT) return;
    const int ROW = layout<kind, D, OF>::STEP;
    typename kind::number *to = own_place(m, tile);
FT_UNROLL
    for (int p = 0; p < m.PIECES; p++) {
        const auto pairs = kind::pairs(m.x[p]);
        *(decltype(kind::pairs(m.x[p])) *)(to + p * m.STEP * ROW) = pairs;
    }
}

/* Tiles of two kinds of rows that come together, in PLACES places: of two, what comes next goes to
 * the one that nobody reads; of one, it stays in registers until it may. */
template <typename kind, int ROWS, int D, int PLACES> struct passing_tiles {
    moving_rows<kind, ROWS, D, PLACES == 1> moving[2];
    passing_rows<kind> from[2];     /* of as many rows */
    typename kind::number *room[2]; /* shared, of all places */
    int place;                      /* of the latest that is there */
};

/* x and y pass by, from row `first` on. */
template <typename kind, int ROWS, int D, int PLACES>
FT_INLINE void begin(passing_tiles<kind, ROWS, D, PLACES> &t, const rows &x, const rows &y,
                     int first)
{
    t.from[0] = pass<kind, D>(x, first);
    t.from[1] = pass<kind, D>(y, first);
    t.place = PLACES - 1;
}

template <typename kind, int ROWS, int D, int PLACES>
FT_INLINE typename kind::number *tile_of(const passing_tiles<kind, ROWS, D, PLACES> &t, int which,
                                         int place)
{
    return t.room[which] + place * ROWS * D;
}

template <typename kind, int ROWS, int D, int PLACES>
FT_INLINE void fetch(passing_tiles<kind, ROWS, D, PLACES> &t)
{
    t.from[1].left = t.from[0].left; /* so that one register has both */
FT_UNROLL
    for (int i = 0; i < 2; i++)
        fetch(t.moving[i], &t.from[i], tile_of(t, i, PLACES - 1 - t.place));
}

/* They are there behind the next barrier. */
template <typename kind, int ROWS, int D, int PLACES>
FT_INLINE void settle(passing_tiles<kind, ROWS, D, PLACES> &t)
{
    t.place = PLACES - 1 - t.place;
    if (t.moving[0].DIRECT) await_copies<kind>();
FT_UNROLL
    for (int i = 0; i < 2; i++) settle(t.moving[i], tile_of(t, i, t.place));
}

#endif
