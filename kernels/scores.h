/* kernels/scores.h - scores of attention on tensor cores: what is added to them, whom they are of,
 * and what dropout leaves. */
#ifndef FT_SCORES_H
#define FT_SCORES_H

#include "together.h"

/* Which part of the problem a block and a warp have. */
struct part {
    int number;     /* head of a sample */
    int first, own; /* the block's first row, the warp's */
    int strip;      /* the latter, counted from the former */
    int d;          /* the warp's first number of rows */
};

/* The compiler is to see that lanes of a group do not part. */
template <typename kind> FT_INLINE int warp_of()
{
    return kind::GROUPED ? (int)ft_from_lane((uint32_t)ft_warp(), 0) : ft_warp();
}

/* Of n rows a block has so many. The blocks of a head follow each other, so that they find its rows
 * in the cache; where those with later rows have more to do, or less, they are spread over all
 * heads, and those with most come first: so none of these is left for the end. */
typedef enum { ALIKE, LATER_HAVE_MORE, LATER_HAVE_LESS } amounts;

template <typename kind, int ROWS, int PART> FT_INLINE part part_of(int64_t n, amounts work)
{
    unsigned blocks = (unsigned)((n + ROWS - 1) / ROWS), heads = gridDim.x / blocks;
    unsigned turn = blockIdx.x / heads, number = blockIdx.x % heads;
    unsigned block = work == LATER_HAVE_MORE ? blocks - 1 - turn : turn;
    if (work == ALIKE) {
        block = blockIdx.x % blocks;
        number = blockIdx.x / blocks;
    }
    int first = (int)block * ROWS, row = warp_of<kind>() * STRIP;
    bool whole = ROWS == BLOCK; /* rows are of one warp */
    int strip = whole ? row : row % ROWS, d = whole ? 0 : row / ROWS * PART;
    part p = {(int)number, first, first + strip, strip, d};
    return p;
}

/* The warp's numbers of rows. */
FT_INLINE rows part_of_rows(rows x, const part &at)
{
    rows y = {x.of, x.first + at.d, x.n, x.step, x.D - at.d};
    return y;
}

/* The first row of the warps that do everything at once. */
template <typename kind> FT_INLINE int first_of(const part &at)
{
    return at.own - at.strip % kind::TOGETHER;
}

/* Their queries see keys before this one at most. */
template <typename kind>
FT_INLINE int end_of_own(const ft_attention_args &a, const head &x, const part &at)
{
    int first = first_of<kind>(at);
    return first < a.Tq ? (int)end_of_keys(a, x, first, kind::TOGETHER) : 0;
}

/* Scores and logarithms of their sums are of base 2, whose powers a card has an instruction for. */
#define LOG2_E 1.44269504088896340736f
#define LN_2   0.69314718055994530942f

/* Some queries and some keys that meet, and what their scores need. Both are counted from the first
 * of them. */
struct meeting {
    float *line;       /* shared: by key - query, from the least on */
    float *bars;       /* shared, of a key: 0, or minus infinity where nobody sees it */
    float slope;       /* what a product is multiplied by */
    float scale;       /* what a probability is that dropout keeps */
    int queries;
    bool biased;       /* the line is added */
    int ahead;         /* by how much a key's number may exceed a query's that sees it */
    float bias, bar;   /* of the next meeting: what this thread has of the line and the bars */
    float own_bars[2]; /* where a warp has keys: of this lane's two */
};

FT_INLINE meeting meeting_of(const ft_attention_args &a, float *bars)
{
    meeting m = {NULL, bars, a.scale * LOG2_E, a.draw.scale, 0, a.line != NULL, 0, 0, 0, {0}};
    return m;
}

FT_INLINE float bar_of(const ft_attention_args &a, const head &x, int key)
{
    return key < (int)a.Tk && (!x.mask || x.mask[key]) ? 0.0f : -INFINITY;
}

/* Reads what the next meeting needs; there are threads enough for one number each. */
FT_INLINE void foresee(meeting *m, const ft_attention_args &a, const head &x, int query,
                       int queries, int key, int keys)
{
    int e = (int)threadIdx.x;
    if (m->biased) {
        int distance = key - query + e - (queries - 1);
        bool there = e < queries + keys - 1 && distance > -(int)a.Tq && distance < (int)a.Tk;
        m->bias = there ? LOG2_E * x.line[distance] : 0.0f;
    }
    if (m->bars && e < keys) m->bar = bar_of(a, x, key + e);
}

/* Puts it where every thread of the block sees it, after a barrier; at bars NULL: not those. */
FT_INLINE void meet(meeting *m, const ft_attention_args &a, const head &x, int query, int queries,
                    int key, int keys)
{
    int e = (int)threadIdx.x;
    m->queries = queries;
    m->ahead = a.causal ? query + (int)x.offset - key : 1 << 30;
    if (m->bars && e < keys) m->bars[e] = m->bar;
    if (m->biased && e < queries + keys - 1) m->line[e] = m->bias;
}

/* Adds the bias to scores of the warp's 16 rows, and takes away keys that a query does not see.
 * `distance`: key - query of this lane's first score, both counted from those of the meeting;
 * `most`: the largest of the warp. SIGN: 1 where queries are rows, -1 where keys are. */
template <int SIGN, int N>
FT_INLINE void see(const meeting &m, sums<N> &s, int distance, int most)
{
    if (m.biased) {
        const float *from = m.line + distance + m.queries - 1;
FT_UNROLL
        for (int n = 0; n < N; n++)
FT_UNROLL
            for (int e = 0; e < 4; e++) s.x[n][e] += from[SIGN * (8 * n + e % 2 - e / 2 * 8)];
    }
    if (most <= m.ahead) return;
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++)
            if (distance + SIGN * (8 * n + e % 2 - e / 2 * 8) > m.ahead) s.x[n][e] = -INFINITY;
}

/* Of 32 keys, from a multiple of 32 on, a bit each: whether dropout keeps them for a query. */
FT_INLINE uint32_t kept_keys(const ft_attention_args &a, int64_t number, int query, int key)
{
    if (!a.kept || query >= (int)a.Tq || key >= (int)a.Tk) return ~0u;
    const uint32_t *of_head = a.kept + number * ((a.Tk + 31) / 32) * a.Tq;
    return of_head[key / 32 * (int)a.Tq + query];
}

/* The same for this lane's two queries of the warp: of the keys from `key` on as many as are left
 * of 32. Bit 0: of this lane's first. */
FT_INLINE void look_up(uint32_t kept[2], const ft_attention_args &a, const part &at, int key)
{
    for (int half = 0; half < 2; half++) {
        int query = at.own + own_row() + 8 * half;
        kept[half] = kept_keys(a, at.number, query, key) >> (key % 32 + own_number());
    }
}

/* As many words of 32 keys. */
template <int WORDS>
FT_INLINE void look_up_all(uint32_t (&kept)[WORDS][2], const ft_attention_args &a, const part &at,
                           int key)
{
FT_UNROLL
    for (int w = 0; w < WORDS; w++) look_up(kept[w], a, at, key + 32 * w);
}

FT_INLINE float if_kept(uint32_t kept, int key, float x)
{
    return kept >> key & 1 ? x : 0.0f;
}

#endif
