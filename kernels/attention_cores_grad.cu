/* kernels/attention_cores_grad.cu - the gradient of attention on tensor cores, as
 * attention_cores.cu.
 *
 * In one kernel a block has BLOCK queries and all keys pass by, for dq and the lines of the bias;
 * in another it has BLOCK keys and all queries pass by, for dk and dv. Both make the scores again,
 * and no sum is of several blocks: the order of each follows from the shape. */
#include "scores.h"

/* What is known of a query, for scores of base 2. */
FT_INLINE query known_of(const ft_attention_args &a, const float *delta, int number, int i)
{
    query q = query_of(a, delta, number, i);
    q.lse *= LOG2_E;
    return q;
}

/* The warp's rows, in registers, or with those of the block in a tile. */
template <typename kind, int PART>
FT_INLINE void hold(own_rows<kind, PART> &own, const rows &from, const part &at,
                    typename kind::number *)
{
    take(own, part_of_rows(from, at), at.own);
}
template <typename kind, int D>
FT_INLINE void hold(tile_rows<kind, D> &own, const rows &from, const part &at,
                    typename kind::number *tile)
{
    moving_rows<kind, STRIP, D> moving;
    passing_rows<kind> p = pass<kind, D>(from, at.first);
    for (int row = 0; row < BLOCK; row += STRIP) {
        fetch(moving, &p, tile + row * D);
        if (!moving.DIRECT) settle(moving, tile + row * D);
    }
    ft_copies_done();
    own.place = look_at<D>(tile + at.strip * D).across;
}

/* -- queries ----------------------------------------------------------------------------------- */

/* Sums of a strip's score gradients by key - query: 16 queries and 16 keys at a time. Each lane has
 * the sum of one distance, from the least of the square on. */
struct strip_line {
    float *at;   /* Tk + STRIP - 1 numbers; NULL: nobody wants them */
    float *room; /* the warp's, of a square */
    float sum;
};

enum { SQUARE_PITCH = STRIP + 1 };

FT_INLINE strip_line line_of(const ft_attention_queries_args &a, const part &at, float *squares)
{
    const ft_attention_args &of = a.of;
    strip_line line = {NULL, squares + ft_warp() * STRIP * SQUARE_PITCH, 0};
    int64_t strips = (of.Tq + STRIP - 1) / STRIP, strip = at.number * strips + at.own / STRIP;
    if (a.lines && at.own < of.Tq && at.d == 0) line.at = a.lines + strip * (of.Tk + STRIP - 1);
    return line;
}

/* The distances of 16 keys, `key` and those behind it, are complete once the next 16 have come. */
FT_INLINE void put_line(const strip_line &line, float sum, int key, int Tk)
{
    int to = key + ft_lane();
    if (ft_lane() < STRIP && to < Tk + STRIP - 1) line.at[to] = sum;
}

/* Takes in a square, whose first key is `key`. */
FT_INLINE void add_square(strip_line *line, const float (*ds)[4], int key, int Tk)
{
    float sum = line->sum;
FT_UNROLL
    for (int e = 0; e < 8; e++)
        line->room[(own_row() + e % 4 / 2 * 8) * SQUARE_PITCH + e / 4 * 8 + own_number() + e % 2] =
            ds[e / 4][e % 4];
    FT_WARP_BARRIER();
FT_UNROLL
    for (int i = 0; i < STRIP; i++) {
        int j = ft_lane() - (STRIP - 1) + i;
        if (j >= 0 && j < STRIP) sum += line->room[i * SQUARE_PITCH + j];
    }
    FT_WARP_BARRIER();
    put_line(*line, sum, key, Tk);
    float rest = ft_from_lane(sum, ft_lane() % STRIP + STRIP);
    line->sum = ft_lane() < STRIP ? rest : 0.0f;
}

/* What is left, and zeros where no query of the strip has seen a key. */
FT_INLINE void end_line(strip_line *line, int key, int Tk)
{
    for (; key < Tk + STRIP - 1; key += STRIP) {
        put_line(*line, line->sum, key, Tk);
        line->sum = 0;
    }
}

/* Products of query and key, and of dy and value, become gradients of scores; of keys from number
 * `from` of the meeting on. */
template <int N>
FT_INLINE void pass_grads_by_query(const meeting &m, const part &at, int from, const query known[2],
                                   const uint32_t kept[2], sums<N> &s, sums<N> &ds)
{
    const float *bars = m.bars + from + own_number();
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) s.x[n][e] = m.slope * s.x[n][e] + bars[8 * n + e % 2];
    see<1>(m, s, from + own_number() - at.strip - own_row(), from + 8 * N - 1 - at.strip);
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) {
            float whole = ft_exp2(s.x[n][e] - known[e / 2].lse);
            float of_value = if_kept(kept[e / 2], 8 * n + e % 2, ds.x[n][e]);
            ds.x[n][e] = whole * (m.scale * of_value - known[e / 2].delta);
        }
}

/* `held`: how rows of dy are. TILE keys pass by at once, the scores of KEYS are in registers. */
template <typename kind, int D, typename held, int TILE, int KEYS>
FT_INLINE void grade_queries(const ft_attention_queries_args &a)
{
    typedef typename kind::number number;
    const int PART = held::PART, SHARERS = D / PART, ROWS = BLOCK / SHARERS;
    const int PLACES = SHARERS == 1 ? 2 : 1;
    FT_TILE(number, keys, PLACES *TILE *D);
    FT_TILE(number, values, PLACES *TILE *D);
    FT_SHARED(float, biases, PLACES *(BLOCK + TILE));
    FT_SHARED(float, bars, PLACES *TILE);
    FT_TILE(number, own, held::IN_TILE ? BLOCK * D : 1);
    FT_SHARED(float, squares, WARPS *STRIP *SQUARE_PITCH);
    const ft_attention_args &of = a.of;
    const part at = part_of<ROWS, PART>(of.Tq, of.causal ? LATER_HAVE_MORE : ALIKE);
    head x = head_of(of, at.number);
    x.offset = 0; /* calls with a position have no gradient */
    meeting m = meeting_of(of, bars);
    passing_tiles<kind, TILE, D, PLACES> passing = {{}, {}, {keys, values}, 0};
    int end = (int)end_of_keys(of, x, at.first, ROWS), own_end = end_of_own(of, x, at);
    const joint<SHARERS, KEYS / 8> by = joint_of<SHARERS, KEYS / 8>();
    own_rows<kind, PART> q;
    held dy;
    sums<PART / 8> dq = {{{0}}};
    query known[2];
    const rows like = part_of_rows(queries_of(of, x), at);
    strip_line line = line_of(a, at, squares);
    begin(passing, keys_of(of, x), values_of(of, x), 0);
    foresee(&m, of, x, at.first, ROWS, 0, TILE);
    fetch(passing);
    take(q, like, at.own);
    hold(dy, outputs_of(of, x, a.dy), at, own);
    for (int half = 0; half < 2; half++)
        known[half] = known_of(of, a.delta, at.number, at.own + own_row() + half * 8);
    for (int j0 = 0; j0 < end; j0 += TILE) {
        settle(passing);
        const number *own_keys = tile_of(passing, 0, passing.place) + at.d;
        const number *own_values = tile_of(passing, 1, passing.place) + at.d;
        m.line = biases + passing.place * (BLOCK + TILE);
        m.bars = bars + passing.place * TILE;
        meet(&m, of, x, at.first, ROWS, j0, TILE);
        FT_BLOCK_BARRIER(); /* nobody reads the other place any more */
        if (j0 + TILE < end) {
            fetch(passing);
            foresee(&m, of, x, at.first, ROWS, j0 + TILE, TILE);
        }
FT_ROLLED
        for (int j = 0; j < TILE; j += KEYS) {
            sums<KEYS / 8> s = {{{0}}}, ds = {{{0}}};
            bool seen = j0 + j < own_end;
            if (SHARERS == 1 && !seen) break;
            uint32_t kept[2];
            if (seen) {
                look_up(kept, of, at, j0 + j);
                multiply_rows<D>(s, q, look_at<D>(own_keys + j * D));
                multiply_rows<D>(ds, dy, look_at<D>(own_values + j * D));
            }
            join(by, s, ds);
            if (!seen) continue;
            pass_grads_by_query(m, at, j, known, kept, s, ds);
            add_rows<kind, D>(dq, ds, look_at<D>(own_keys + j * D));
FT_UNROLL
            for (int n = 0; n < KEYS / 8; n += 2)
                if (line.at) add_square(&line, &ds.x[n], j0 + j + 8 * n, (int)of.Tk);
        }
        if (PLACES == 1) FT_BLOCK_BARRIER();
    }
    const float factors[2] = {of.scale, of.scale};
    put_rows<kind>(rows_in(a.dq, like), at.own, dq, factors);
    if (line.at) end_line(&line, (own_end + KEYS - 1) / KEYS * KEYS, (int)of.Tk);
}

FT_ROOMY_KERNEL(attention_queries_bf16_64)
{
    grade_queries<rounded_bf16, 64, own_rows<rounded_bf16, 64>, 32, 32>(a);
}
FT_ROOMY_KERNEL(attention_queries_bf16_128)
{
    grade_queries<rounded_bf16, 128, own_rows<rounded_bf16, 128>, 16, 16>(a);
}
FT_ROOMY_KERNEL(attention_queries_f16_64)
{
    grade_queries<rounded_f16, 64, own_rows<rounded_f16, 64>, 32, 32>(a);
}
FT_ROOMY_KERNEL(attention_queries_tf32_64)
{
    grade_queries<rounded_tf32, 64, own_rows<rounded_tf32, 64>, 32, 32>(a);
}
FT_ROOMY_KERNEL(attention_queries_tf32_128)
{
    grade_queries<rounded_tf32, 128, own_rows<rounded_tf32, 64>, 16, 16>(a);
}
FT_PAIRED_KERNEL(attention_queries_kept_bf16_64)
{
    grade_queries<kept_bf16, 64, tile_rows<kept_bf16, 64>, 32, 16>(a);
}
FT_ROOMY_KERNEL(attention_queries_kept_bf16_128)
{
    grade_queries<kept_bf16, 128, own_rows<kept_bf16, 128>, 32, 16>(a);
}
FT_PAIRED_KERNEL(attention_queries_kept_f16_64)
{
    grade_queries<kept_f16, 64, tile_rows<kept_f16, 64>, 32, 16>(a);
}

/* -- keys -------------------------------------------------------------------------------------- */

/* As pass_grads_by_query, of 16 keys, which are rows, and 8 N queries from number `from` of the
 * meeting on; s becomes the probabilities that dropout keeps. `kept`: of these queries, from this
 * lane's first key on. */
template <int N>
FT_INLINE void pass_grads_by_key(const meeting &m, const part &at, int from, const query *known,
                                 const uint32_t *kept, sums<N> &s, sums<N> &ds)
{
    int own = at.strip % 32 + own_row();
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) s.x[n][e] = m.slope * s.x[n][e] + m.own_bars[e / 2];
    see<-1>(m, s, at.strip + own_row() - from - own_number(), at.strip + STRIP - 1 - from);
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int side = 0; side < 2; side++) {
            int i = from + 8 * n + own_number() + side;
            const query of = known[i];
            uint32_t bits = kept[i] >> own;
FT_UNROLL
            for (int e = side; e < 4; e += 2) {
                float whole = ft_exp2(s.x[n][e] - of.lse);
                float of_value = if_kept(bits, e / 2 * 8, ds.x[n][e]);
                s.x[n][e] = if_kept(bits, e / 2 * 8, whole);
                ds.x[n][e] = whole * (m.scale * of_value - of.delta);
            }
        }
}

/* What is known of a query, and which of the block's keys dropout keeps: of those that come next,
 * what this thread has. */
struct foreseen {
    query known;
    uint32_t kept;
};

/* Threads have a query each, and a query and 32 keys each. */
template <int QUERIES>
FT_INLINE foreseen foresee_queries(const ft_attention_keys_args &a, const part &at, int i0,
                                   int rows)
{
    const ft_attention_args &of = a.of;
    int t = (int)threadIdx.x, i = i0 + t % QUERIES, word = t / QUERIES;
    foreseen next = {{0, 0}, ~0u};
    if (word >= rows / 32) return next;
    if (word == 0) next.known = known_of(of, a.delta, at.number, i);
    next.kept = kept_keys(of, at.number, i, at.first + 32 * word);
    return next;
}

/* `held`: how keys and values are. QUERIES pass by at once, scores of SUB are in registers. */
template <typename kind, int D, typename held_k, typename held_v, int QUERIES, int SUB>
FT_INLINE void grade_keys(const ft_attention_keys_args &a)
{
    typedef typename kind::number number;
    const int PART = held_v::PART, SHARERS = D / PART, ROWS = BLOCK / SHARERS;
    const int PLACES = D * sizeof(number) <= 128 ? 2 : 1; /* else there is no room */
    FT_TILE(number, queries, PLACES *QUERIES *D);
    FT_TILE(number, grads, PLACES *QUERIES *D);
    FT_TILE(number, own, held_v::IN_TILE ? (1 + held_k::IN_TILE) * BLOCK * D : 1);
    FT_SHARED(float, line, PLACES *(BLOCK + QUERIES));
    FT_SHARED(query, known, PLACES *QUERIES);
    FT_SHARED(uint32_t, kept, PLACES *ROWS / 32 * QUERIES);
    const ft_attention_args &of = a.of;
    const part at = part_of<ROWS, PART>(of.Tk, of.causal ? LATER_HAVE_LESS : ALIKE);
    head x = head_of(of, at.number);
    x.offset = 0; /* calls with a position have no gradient */
    meeting m = meeting_of(of, NULL);
    const rows like = part_of_rows(keys_of(of, x), at);
    const joint<SHARERS, SUB / 8> by = joint_of<SHARERS, SUB / 8>();
    held_k k;
    held_v v;
    sums<PART / 8> dk = {{{0}}}, dv = {{{0}}};
    int start = of.causal ? at.first : 0, t = (int)threadIdx.x;
    passing_tiles<kind, QUERIES, D, PLACES> passing = {{}, {}, {queries, grads}, 0};
    for (int half = 0; half < 2; half++)
        m.own_bars[half] = bar_of(of, x, at.own + own_row() + half * 8);
    hold(k, keys_of(of, x), at, own);
    hold(v, values_of(of, x), at, own + held_k::IN_TILE * BLOCK * D);
    foreseen next = foresee_queries<QUERIES>(a, at, start, ROWS);
    begin(passing, queries_of(of, x), outputs_of(of, x, a.dy), start);
    foresee(&m, of, x, start, QUERIES, at.first, ROWS);
    fetch(passing);
    for (int i0 = start; i0 < (int)of.Tq; i0 += QUERIES) {
        bool more = i0 + QUERIES < (int)of.Tq;
        settle(passing);
        const number *own_queries = tile_of(passing, 0, passing.place) + at.d;
        const number *own_grads = tile_of(passing, 1, passing.place) + at.d;
        query *own_known = known + passing.place * QUERIES;
        uint32_t *own_kept = kept + passing.place * (ROWS / 32 * QUERIES);
        m.line = line + passing.place * (BLOCK + QUERIES);
        meet(&m, of, x, i0, QUERIES, at.first, ROWS);
        if (PLACES == 1) next = foresee_queries<QUERIES>(a, at, i0, ROWS);
        if (t < QUERIES) own_known[t] = next.known;
        if (t < ROWS / 32 * QUERIES) own_kept[t] = next.kept;
        FT_BLOCK_BARRIER(); /* nobody reads the other place any more */
        if (more && PLACES == 2) fetch(passing);
        if (more) foresee(&m, of, x, i0 + QUERIES, QUERIES, at.first, ROWS);
        if (more && PLACES == 2) next = foresee_queries<QUERIES>(a, at, i0 + QUERIES, ROWS);
FT_ROLLED
        for (int i = 0; i < QUERIES; i += SUB) {
            sums<SUB / 8> s = {{{0}}}, ds = {{{0}}};
            bool seen = at.own < (int)of.Tk && (!of.causal || at.own < i0 + i + SUB);
            if (seen) {
                multiply_rows<D>(s, k, look_at<D>(own_queries + i * D));
                multiply_rows<D>(ds, v, look_at<D>(own_grads + i * D));
            }
            join(by, s, ds);
            if (seen)
                pass_grads_by_key(m, at, i, own_known, own_kept + at.strip / 32 * QUERIES, s, ds);
            if (more && PLACES == 1) fetch(passing); /* not before: there are no registers */
            if (!seen) continue;
            add_rows<kind, D>(dv, s, look_at<D>(own_grads + i * D));
            add_rows<kind, D>(dk, ds, look_at<D>(own_queries + i * D));
        }
        if (PLACES == 1) FT_BLOCK_BARRIER();
    }
    const float dropped[2] = {m.scale, m.scale}, scaled[2] = {of.scale, of.scale};
    put_rows<kind>(rows_in(a.dk, like), at.own, dk, scaled);
    put_rows<kind>(rows_in(a.dv, like), at.own, dv, dropped);
}

FT_ROOMY_KERNEL(attention_keys_bf16_64)
{
    grade_keys<rounded_bf16, 64, own_rows<rounded_bf16, 64>, tile_rows<rounded_bf16, 64>, 32, 32>(
        a);
}
FT_ROOMY_KERNEL(attention_keys_bf16_128)
{
    grade_keys<rounded_bf16, 128, own_rows<rounded_bf16, 128>, tile_rows<rounded_bf16, 128>, 16,
               16>(a);
}
FT_ROOMY_KERNEL(attention_keys_f16_64)
{
    grade_keys<rounded_f16, 64, own_rows<rounded_f16, 64>, tile_rows<rounded_f16, 64>, 32, 32>(a);
}
FT_ROOMY_KERNEL(attention_keys_tf32_64)
{
    grade_keys<rounded_tf32, 64, own_rows<rounded_tf32, 64>, own_rows<rounded_tf32, 64>, 16, 16>(a);
}
FT_ROOMY_KERNEL(attention_keys_tf32_128)
{
    grade_keys<rounded_tf32, 128, own_rows<rounded_tf32, 64>, own_rows<rounded_tf32, 64>, 16, 16>(
        a);
}
FT_PAIRED_KERNEL(attention_keys_kept_bf16_64)
{
    grade_keys<kept_bf16, 64, tile_rows<kept_bf16, 64>, tile_rows<kept_bf16, 64>, 16, 16>(a);
}
FT_ROOMY_KERNEL(attention_keys_kept_bf16_128)
{
    grade_keys<kept_bf16, 128, own_rows<kept_bf16, 128>, tile_rows<kept_bf16, 128>, 16, 16>(a);
}
FT_PAIRED_KERNEL(attention_keys_kept_f16_64)
{
    grade_keys<kept_f16, 64, tile_rows<kept_f16, 64>, tile_rows<kept_f16, 64>, 16, 16>(a);
}
