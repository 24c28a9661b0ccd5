/* kernels/scores.h - scores of attention on tensor cores: what is added to them, whom they are of,
 * and what dropout leaves. */
#ifndef FT_SCORES_H
#define FT_SCORES_H

#include "tiles.h"

/* Which part of the problem a block and a warp have. */
struct part {
    int64_t number; /* head of a sample */
    int first, own; /* the block's first row, the warp's */
    int strip;      /* the latter, counted from the former */
    int d;          /* the warp's first number of rows */
};

/* Of n rows a block has so many. The blocks of a head follow each other, so that they find its rows
 * in the cache; where those with later rows have more to do, or less, they are spread over all
 * heads, and those with most come first: so none of these is left for the end. */
typedef enum { ALIKE, LATER_HAVE_MORE, LATER_HAVE_LESS } amounts;

template <int ROWS, int PART> FT_INLINE part part_of(int64_t n, amounts work)
{
    unsigned blocks = (unsigned)((n + ROWS - 1) / ROWS), heads = gridDim.x / blocks;
    unsigned turn = blockIdx.x / heads, number = blockIdx.x % heads;
    unsigned block = work == LATER_HAVE_MORE ? blocks - 1 - turn : turn;
    if (work == ALIKE) {
        block = blockIdx.x % blocks;
        number = blockIdx.x / blocks;
    }
    int first = (int)block * ROWS, strip = ft_warp() * STRIP % ROWS;
    part p = {number, first, first + strip, strip, ft_warp() * STRIP / ROWS * PART};
    return p;
}

/* The warp's numbers of rows. */
FT_INLINE rows part_of_rows(rows x, const part &at)
{
    rows y = {x.of, x.first + at.d, x.n, x.step, x.D - at.d};
    return y;
}

/* The warp's queries see keys before this one at most. */
FT_INLINE int end_of_own(const ft_attention_args &a, const head &x, const part &at)
{
    return at.own < a.Tq ? (int)end_of_keys(a, x, at.own, STRIP) : 0;
}

/* Scores and logarithms of their sums are of base 2, whose powers a card has an instruction for. */
#define LOG2_E 1.44269504088896340736f
#define LN_2   0.69314718055994530942f

/* Some queries and some keys that meet, and what their scores need. Both are counted from the first
 * of them. */
struct meeting {
    float *line;    /* shared: by key - query, from the least on; NULL: nothing is added */
    float *bars;    /* shared, of a key: 0, or minus infinity where nobody sees it */
    float slope;    /* what a product is multiplied by */
    int query, key; /* the first ones */
    int queries;
    int ahead; /* by how much a key's number may exceed a query's that sees it */
    float bias, bar;   /* of the next meeting: what this thread has of the line and the bars */
    float own_bars[2]; /* where a warp has keys: of this lane's two */
};

FT_INLINE meeting meeting_of(const ft_attention_args &a, const head &x, float *line, float *bars)
{
    meeting m = {x.line ? line : (float *)0, bars, a.scale * LOG2_E, 0, 0, 0, 0, 0, 0, {0}};
    return m;
}

FT_INLINE float bar_of(const ft_attention_args &a, const head &x, int key)
{
    return key < a.Tk && (!x.mask || x.mask[key]) ? 0.0f : -INFINITY;
}

/* Reads what the next meeting needs; there are threads enough for one number each. */
FT_INLINE void foresee(meeting *m, const ft_attention_args &a, const head &x, int query,
                       int queries, int key, int keys)
{
    int e = (int)threadIdx.x, distance = key - query + e - (queries - 1);
    bool there = e < queries + keys - 1 && distance > -a.Tq && distance < a.Tk;
    m->bias = m->line && there ? LOG2_E * x.line[distance] : 0.0f;
    m->bar = m->bars && e < keys ? bar_of(a, x, key + e) : 0.0f;
}

/* Puts it where every thread of the block sees it, after a barrier. */
FT_INLINE void meet(meeting *m, const ft_attention_args &a, const head &x, int query, int queries,
                    int key, int keys)
{
    int e = (int)threadIdx.x;
    m->query = query;
    m->key = key;
    m->queries = queries;
    m->ahead = a.causal ? query + (int)x.offset - key : 1 << 30;
    if (m->bars && e < keys) m->bars[e] = m->bar;
    if (m->line && e < queries + keys - 1) m->line[e] = m->bias;
}

/* Of query i and key j, from what their product and the bar came to: with the bias, and without the
 * keys that it does not see. */
FT_INLINE float seen_score(const meeting &m, float s, int i, int j)
{
    if (m.line) s += m.line[j - i + m.queries - 1];
    return j - i > m.ahead ? -INFINITY : s;
}

/* Whether the largest key minus the smallest query of a warp asks for that. */
FT_INLINE bool is_plain(const meeting &m, int distance)
{
    return !m.line && distance <= m.ahead;
}

/* Of 8 elements from `at` on, a bit each: whether dropout keeps them. */
FT_INLINE uint32_t kept_of_8(const ft_attention_args &a, const head &x, uint64_t block)
{
    uint32_t drawn[4], kept = 0;
    ft_philox(a.draw.key, block, a.draw.sample + (uint32_t)x.b, drawn);
FT_UNROLL
    for (int e = 0; e < 8; e++) kept |= (uint32_t)ft_kept(drawn, e, a.draw.threshold) << e;
    return kept;
}

/* Of 16 queries and 16 keys: lanes 2 q and 2 q + 1 get the bits of query q, one for each key. */
FT_INLINE uint32_t draw_square(const ft_attention_args &a, const head &x, int i0, int j0)
{
    int side = ft_lane() % 2 * 8;
    uint64_t at = (uint64_t)((x.h * a.Tq + i0 + ft_lane() / 2) * a.Tk + j0 + side);
    int past = (int)(at % 8);
    uint32_t kept = kept_of_8(a, x, at / 8);
    if (past) kept = (kept | kept_of_8(a, x, at / 8 + 1) << 8) >> past & 0xff;
    kept <<= side;
    return kept | ft_xor_lane(kept, 1);
}

/* Of 8 scores: the first four elements of two fragments side by side. A bit each: whether dropout
 * keeps it. */
typedef uint32_t kept_scores;

FT_INLINE float factor_of(const ft_attention_args &a, kept_scores kept, int e)
{
    return kept >> e & 1 ? a.draw.scale : 0.0f;
}

/* Of 16 queries, which are rows, and 16 keys. */
FT_INLINE kept_scores kept_by_query(const ft_attention_args &a, const head &x, int i0, int j0)
{
    if (!a.draw.threshold) return 0xff;
    uint32_t drawn = draw_square(a, x, i0, j0), kept = 0;
FT_UNROLL
    for (int half = 0; half < 2; half++) {
        uint32_t row = ft_from_lane(drawn, 2 * own_row() + 16 * half) >> own_number();
        kept |= ((row & 3) | (row >> 8 & 3) << 4) << 2 * half;
    }
    return kept;
}

/* Of 16 keys, which are rows, and 16 queries. */
FT_INLINE kept_scores kept_by_key(const ft_attention_args &a, const head &x, int i0, int j0)
{
    if (!a.draw.threshold) return 0xff;
    uint32_t drawn = draw_square(a, x, i0, j0), kept = 0;
FT_UNROLL
    for (int e = 0; e < 4; e++) {
        int query = e / 2 * 8 + own_number() + e % 2;
        uint32_t row = ft_from_lane(drawn, 2 * query) >> own_row();
        kept |= ((row & 1) | (row >> 8 & 1) << 2) << (e / 2 * 4 + e % 2);
    }
    return kept;
}

#endif
