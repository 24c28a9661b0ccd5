/* kernels/attention_cores_grad.cu - the gradient of attention on tensor cores, as
 * attention_cores.cu.
 *
 * In one kernel a block has BLOCK queries and all keys pass by, for dq and the lines of the bias;
 * in another it has BLOCK keys and all queries pass by, for dk and dv. Both make the scores again,
 * and no sum is of several blocks: the order of each follows from the shape. */
#include "scores.h"

/* What is known of a query, for scores of base 2. */
FT_INLINE query known_of(const ft_attention_args &a, const float *delta, int64_t number, int64_t i)
{
    query q = query_of(a, delta, number, i);
    q.lse *= LOG2_E;
    return q;
}

/* -- queries ----------------------------------------------------------------------------------- */

/* Sums of a strip's score gradients by key - query: 16 queries and 16 keys at a time. Each lane has
 * the sum of one distance, from the least of the square on. */
struct strip_line {
    float *at;    /* Tk + STRIP - 1 numbers; NULL: nobody wants them */
    float *room;  /* the warp's, of a square */
    int next;     /* key whose square comes next */
    float sum;
};

enum { SQUARE_PITCH = STRIP + 1 };

/* The distances of 16 keys are complete once the next 16 have come. */
FT_INLINE void put_line(const strip_line &line, float sum, int64_t Tk)
{
    int to = line.next + ft_lane();
    if (ft_lane() < STRIP && to < Tk + STRIP - 1) line.at[to] = sum;
}

/* Takes in the squares of columns n and n + 1. */
FT_INLINE void add_square(strip_line *line, const float (*ds)[4], int64_t Tk)
{
    float sum = line->sum;
FT_UNROLL
    for (int e = 0; e < 8; e++)
        line->room[(own_row() + e % 4 / 2 * 8) * SQUARE_PITCH + e / 4 * 8 + own_number() + e % 2] =
            ds[e / 4][e % 4];
    FT_WARP_BARRIER();
    for (int i = 0; i < STRIP; i++) {
        int j = ft_lane() - (STRIP - 1) + i;
        if (j >= 0 && j < STRIP) sum += line->room[i * SQUARE_PITCH + j];
    }
    FT_WARP_BARRIER();
    put_line(*line, sum, Tk);
    float rest = ft_from_lane(sum, ft_lane() % STRIP + STRIP);
    line->sum = ft_lane() < STRIP ? rest : 0.0f;
    line->next += STRIP;
}

/* What is left, and zeros where no query of the strip has seen a key. */
FT_INLINE void end_line(strip_line *line, int64_t Tk)
{
    while (line->next < Tk + STRIP - 1) {
        put_line(*line, line->sum, Tk);
        line->sum = 0;
        line->next += STRIP;
    }
}

/* Products of query and key, and of dy and value, become gradients of scores. */
template <int N>
FT_INLINE void pass_grads_by_query(const ft_attention_args &a, const head &x, const meeting &m,
                                   const part &at, const query known[2], sums<N> &s,
                                   sums<N> &ds)
{
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++)
            s.x[n][e] = m.slope * s.x[n][e] + m.bars[8 * n + own_number() + e % 2];
    if (!is_plain(m, 8 * N - 1 - at.strip)) {
FT_UNROLL
        for (int n = 0; n < N; n++)
FT_UNROLL
            for (int e = 0; e < 4; e++) {
                int i = at.strip + own_row() + e / 2 * 8, j = 8 * n + own_number() + e % 2;
                s.x[n][e] = seen_score(m, s.x[n][e], i, j);
            }
    }
FT_UNROLL
    for (int n = 0; n < N; n += 2) {
        kept_scores kept = kept_by_query(a, x, at.own, m.key + 8 * n);
FT_UNROLL
        for (int e = 0; e < 8; e++) {
            int tile = n + e / 4, half = e % 4 / 2;
            float whole = ft_exp2(s.x[tile][e % 4] - known[half].lse);
            float *d = &ds.x[tile][e % 4];
            *d = whole * (factor_of(a, kept, e) * *d - known[half].delta);
        }
    }
}

template <typename kind, int D, int PART>
FT_INLINE void grade_queries(const ft_attention_queries_args &a)
{
    typedef typename kind::number number;
    const int SHARERS = D / PART, ROWS = BLOCK / SHARERS;
    const int KEYS = 2048 / D; /* at a time: their room in registers is the same for all D */
    FT_SHARED(number, keys, KEYS *D);
    FT_SHARED(number, values, KEYS *D);
    FT_SHARED(float, biases, BLOCK + KEYS);
    FT_SHARED(float, bars, KEYS);
    FT_SHARED(float, squares, WARPS *STRIP *SQUARE_PITCH);
    const ft_attention_args &of = a.of;
    const part at = part_of<ROWS, PART>(of.Tq, of.causal ? LATER_HAVE_MORE : ALIKE);
    head x = head_of(of, at.number);
    meeting m = meeting_of(of, x, biases, bars);
    auto k = pass<kind, D>(keys_of(of, x), 0), v = pass<kind, D>(values_of(of, x), 0);
    int end = (int)end_of_keys(of, x, at.first, ROWS), own_end = end_of_own(of, x, at);
    const joint<SHARERS, KEYS / 8> by = joint_of<SHARERS, KEYS / 8>();
    own_rows<kind, PART> q, dy;
    moving_rows<kind, KEYS, D> moving_keys, moving_values;
    sums<PART / 8> dq = {{{0}}};
    query known[2];
    strip_line line = {NULL, squares + ft_warp() * STRIP * SQUARE_PITCH, 0, 0};
    if (a.lines && at.own < of.Tq && at.d == 0)
        line.at = a.lines + (at.number * ((of.Tq + STRIP - 1) / STRIP) + at.own / STRIP) *
                                (of.Tk + STRIP - 1);
    const rows like = part_of_rows(queries_of(of, x), at);
    take(q, like, at.own);
    take(dy, part_of_rows(outputs_of(of, x, a.dy), at), at.own);
    for (int half = 0; half < 2; half++)
        known[half] = known_of(of, a.delta, at.number, at.own + own_row() + half * 8);
    foresee(&m, of, x, at.first, ROWS, 0, KEYS);
    fetch(moving_keys, &k);
    fetch(moving_values, &v);
    for (int j0 = 0; j0 < end; j0 += KEYS) {
        settle(moving_keys, keys);
        settle(moving_values, values);
        meet(&m, of, x, at.first, ROWS, j0, KEYS);
        FT_BLOCK_BARRIER();
        fetch(moving_keys, &k);
        fetch(moving_values, &v);
        foresee(&m, of, x, at.first, ROWS, j0 + KEYS, KEYS);
        sums<KEYS / 8> s = {{{0}}}, ds = {{{0}}};
        if (j0 < own_end) {
            multiply_rows<D>(s, q, keys + at.d);
            multiply_rows<D>(ds, dy, values + at.d);
        }
        join(by, s, ds);
        if (j0 < own_end) {
            pass_grads_by_query(of, x, m, at, known, s, ds);
            add_rows<kind, D>(dq, ds, keys + at.d);
            for (int n = 0; line.at && n < KEYS / 8; n += 2) add_square(&line, &ds.x[n], of.Tk);
        }
        FT_BLOCK_BARRIER();
    }
    const float factors[2] = {of.scale, of.scale};
    put_rows<kind>(rows_in(a.dq, like), at.own, dq, factors);
    if (line.at) end_line(&line, of.Tk);
}

FT_ROOMY_KERNEL(attention_queries_bf16_64)
{
    grade_queries<rounded<ft_bf16>, 64, 64>(a);
}
FT_ROOMY_KERNEL(attention_queries_bf16_128)
{
    grade_queries<rounded<ft_bf16>, 128, 128>(a);
}
FT_ROOMY_KERNEL(attention_queries_f16_64)
{
    grade_queries<rounded<ft_f16>, 64, 64>(a);
}
FT_ROOMY_KERNEL(attention_queries_tf32_64)
{
    grade_queries<rounded<ft_tf32>, 64, 64>(a);
}
FT_ROOMY_KERNEL(attention_queries_tf32_128)
{
    grade_queries<rounded<ft_tf32>, 128, 64>(a);
}
FT_ROOMY_KERNEL(attention_queries_kept_bf16_64)
{
    grade_queries<kept<ft_bf16>, 64, 64>(a);
}
FT_ROOMY_KERNEL(attention_queries_kept_bf16_128)
{
    grade_queries<kept<ft_bf16>, 128, 128>(a);
}
FT_ROOMY_KERNEL(attention_queries_kept_f16_64)
{
    grade_queries<kept<ft_f16>, 64, 64>(a);
}

/* -- keys -------------------------------------------------------------------------------------- */

/* As pass_grads_by_query, of 16 keys, which are rows, and 8 N queries; s becomes the probabilities
 * after dropout. */
template <int N>
FT_INLINE void pass_grads_by_key(const ft_attention_args &a, const head &x, const meeting &m,
                                 const part &at, const query *known, sums<N> &s, sums<N> &ds)
{
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) s.x[n][e] = m.slope * s.x[n][e] + m.own_bars[e / 2];
    if (!is_plain(m, at.strip + STRIP - 1)) {
FT_UNROLL
        for (int n = 0; n < N; n++)
FT_UNROLL
            for (int e = 0; e < 4; e++) {
                int i = 8 * n + own_number() + e % 2, j = at.strip + own_row() + e / 2 * 8;
                s.x[n][e] = seen_score(m, s.x[n][e], i, j);
            }
    }
FT_UNROLL
    for (int n = 0; n < N; n += 2) {
        kept_scores kept = kept_by_key(a, x, m.query + 8 * n, at.own);
FT_UNROLL
        for (int e = 0; e < 8; e++) {
            int tile = n + e / 4;
            const query of = known[8 * tile + own_number() + e % 2];
            float *p = &s.x[tile][e % 4], *d = &ds.x[tile][e % 4], factor = factor_of(a, kept, e);
            float whole = ft_exp2(*p - of.lse);
            *p = whole * factor;
            *d = whole * (factor * *d - of.delta);
        }
    }
}

/* The warp's values, in registers, or in shared memory with the block's. */
template <typename kind, int PART>
FT_INLINE void hold(own_rows<kind, PART> &v, const rows &from, const part &at)
{
    take(v, part_of_rows(from, at), at.own);
}
template <typename kind, int D>
FT_INLINE void hold(tile_rows<kind, D> &v, const rows &from, const part &at)
{
    FT_SHARED(typename kind::number, tile, BLOCK *D);
    moving_rows<kind, STRIP, D> moving;
    passing_rows<kind> p = pass<kind, D>(from, at.first);
    for (int row = 0; row < BLOCK; row += STRIP) {
        fetch(moving, &p);
        settle(moving, tile + row * D);
    }
    v.tile = tile;
    v.first = at.strip;
}

/* `held`: how the values are. */
template <typename kind, int D, typename held>
FT_INLINE void grade_keys(const ft_attention_keys_args &a)
{
    typedef typename kind::number number;
    const int PART = held::PART, SHARERS = D / PART, ROWS = BLOCK / SHARERS;
    const bool small = D * sizeof(number) <= 128; /* so that registers hold more queries at once */
    const int QUERIES = small ? 32 : 16;
    FT_SHARED(number, queries, QUERIES *D);
    FT_SHARED(number, grads, QUERIES *D);
    FT_SHARED(float, line, BLOCK + QUERIES);
    FT_SHARED(query, known, QUERIES);
    const ft_attention_args &of = a.of;
    const part at = part_of<ROWS, PART>(of.Tk, of.causal ? LATER_HAVE_LESS : ALIKE);
    head x = head_of(of, at.number);
    meeting m = meeting_of(of, x, line, NULL);
    const rows like = part_of_rows(keys_of(of, x), at);
    const joint<SHARERS, QUERIES / 8> by = joint_of<SHARERS, QUERIES / 8>();
    own_rows<kind, PART> k;
    held v;
    moving_rows<kind, QUERIES, D> moving_queries, moving_grads;
    sums<PART / 8> dk = {{{0}}}, dv = {{{0}}};
    int start = of.causal ? at.first : 0, t = (int)threadIdx.x;
    passing_rows<kind> q = pass<kind, D>(queries_of(of, x), start);
    passing_rows<kind> dy = pass<kind, D>(outputs_of(of, x, a.dy), start);
    for (int half = 0; half < 2; half++)
        m.own_bars[half] = bar_of(of, x, at.own + own_row() + half * 8);
    take(k, like, at.own);
    hold(v, values_of(of, x), at);
    query coming = known_of(of, a.delta, at.number, t < QUERIES ? start + t : of.Tq);
    foresee(&m, of, x, start, QUERIES, at.first, ROWS);
    fetch(moving_queries, &q);
    fetch(moving_grads, &dy);
    for (int i0 = start; i0 < of.Tq; i0 += QUERIES) {
        sums<QUERIES / 8> s = {{{0}}}, ds = {{{0}}};
        bool seen = at.own < of.Tk && (!of.causal || at.own < i0 + QUERIES);
        settle(moving_queries, queries);
        settle(moving_grads, grads);
        meet(&m, of, x, i0, QUERIES, at.first, ROWS);
        if (!small) coming = known_of(of, a.delta, at.number, t < QUERIES ? i0 + t : of.Tq);
        if (t < QUERIES) known[t] = coming;
        FT_BLOCK_BARRIER();
        if (small) fetch(moving_queries, &q);
        if (small) fetch(moving_grads, &dy);
        foresee(&m, of, x, i0 + QUERIES, QUERIES, at.first, ROWS);
        int next = t < QUERIES ? i0 + QUERIES + t : (int)of.Tq;
        if (small) coming = known_of(of, a.delta, at.number, next);
        if (seen) {
            multiply_rows<D>(s, k, queries + at.d);
            multiply_rows<D>(ds, v, grads + at.d);
        }
        join(by, s, ds);
        if (seen) pass_grads_by_key(of, x, m, at, known, s, ds);
        if (!small) fetch(moving_queries, &q); /* not before: there are no registers for them */
        if (!small) fetch(moving_grads, &dy);
        if (seen) {
            add_rows<kind, D>(dv, s, grads + at.d);
            add_rows<kind, D>(dk, ds, queries + at.d);
        }
        FT_BLOCK_BARRIER();
    }
    const float once[2] = {1.0f, 1.0f}, scaled[2] = {of.scale, of.scale};
    put_rows<kind>(rows_in(a.dk, like), at.own, dk, scaled);
    put_rows<kind>(rows_in(a.dv, like), at.own, dv, once);
}

FT_ROOMY_KERNEL(attention_keys_bf16_64)
{
    grade_keys<rounded<ft_bf16>, 64, tile_rows<rounded<ft_bf16>, 64>>(a);
}
FT_ROOMY_KERNEL(attention_keys_bf16_128)
{
    grade_keys<rounded<ft_bf16>, 128, tile_rows<rounded<ft_bf16>, 128>>(a);
}
FT_ROOMY_KERNEL(attention_keys_f16_64)
{
    grade_keys<rounded<ft_f16>, 64, tile_rows<rounded<ft_f16>, 64>>(a);
}
FT_ROOMY_KERNEL(attention_keys_tf32_64)
{
    grade_keys<rounded<ft_tf32>, 64, own_rows<rounded<ft_tf32>, 64>>(a);
}
FT_ROOMY_KERNEL(attention_keys_tf32_128)
{
    grade_keys<rounded<ft_tf32>, 128, own_rows<rounded<ft_tf32>, 64>>(a);
}
FT_ROOMY_KERNEL(attention_keys_kept_bf16_64)
{
    grade_keys<kept<ft_bf16>, 64, tile_rows<kept<ft_bf16>, 64>>(a);
}
FT_ROOMY_KERNEL(attention_keys_kept_bf16_128)
{
    grade_keys<kept<ft_bf16>, 128, tile_rows<kept<ft_bf16>, 128>>(a);
}
FT_ROOMY_KERNEL(attention_keys_kept_f16_64)
{
    grade_keys<kept<ft_f16>, 64, tile_rows<kept<ft_f16>, 64>>(a);
}
