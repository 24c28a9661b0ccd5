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
    const int ROW = layout<kind, D, BLOCK>::STEP;
    moving_rows<kind, STRIP, D, false, BLOCK> moving;
    passing_rows<kind> p = pass<kind, D>(from, at.first);
    for (int row = 0; row < BLOCK; row += STRIP) {
        fetch(moving, &p, tile + row * ROW);
        settle(moving, tile + row * ROW);
    }
    await_copies<kind>();
    const auto first = look_at<kind, D, BLOCK>(tile, at.strip - at.strip % kind::TOGETHER);
    if constexpr (kind::GROUPED)
        own.place = first;
    else
        own.place = first.across;
}

/* s and ds become products of own rows with those of two tiles, which are on their way. */
template <typename kind, int D, typename own_x, typename own_y, int N, typename tile>
FT_INLINE void begin_products(sums<N> &s, sums<N> &ds, const own_x &x, const own_y &y,
                              const tile &of_x, const tile &of_y)
{
    begin<kind>(s, ds);
    multiply_rows<D>(s, x, of_x);
    hand_over<kind>();
    multiply_rows<D>(ds, y, of_y);
    hand_over<kind>();
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

/* Those of 8 N keys, from the first one on. */
template <int N>
FT_INLINE void add_squares(strip_line *line, const sums<N> &ds, int key, int Tk)
{
FT_UNROLL
    for (int n = 0; n < N; n += 2) add_square(line, &ds.x[n], key + 8 * n, Tk);
}

/* What is left, and zeros where no query of the strip has seen a key. */
FT_INLINE void end_line(strip_line *line, int key, int Tk)
{
    for (; key < Tk + STRIP - 1; key += STRIP) {
        put_line(*line, line->sum, key, Tk);
        line->sum = 0;
    }
}

/* Products of query and key become probabilities; of keys from number `from` of the meeting on. */
template <int N>
FT_INLINE void weigh_by_query(const meeting &m, const part &at, int from, const query known[2],
                              sums<N> &s)
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
        for (int e = 0; e < 4; e++) s.x[n][e] = ft_exp2(s.x[n][e] - known[e / 2].lse);
}

/* With them products of dy and value become gradients of scores. */
template <int N>
FT_INLINE void grade_by_query(const meeting &m, const query known[2], const uint32_t (*kept)[2],
                              const sums<N> &s, sums<N> &ds)
{
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) {
            float of_value = if_kept(kept[n / 4][e / 2], n % 4 * 8 + e % 2, ds.x[n][e]);
            ds.x[n][e] = s.x[n][e] * (m.scale * of_value - known[e / 2].delta);
        }
}

/* Adds to the gradients of queries what some keys make of them. */
template <typename kind, int D, int P, int N, typename tile>
FT_INLINE void add_keys(sums<P> &dq, const sums<N> &ds, const tile &keys)
{
    auto rounded = factors_of<kind>(ds);
    begin<kind>(dq, rounded);
    add_rows<kind, D>(dq, rounded, keys);
    hand_over<kind>();
    complete<kind, 0>(dq);
}

/* `held`: how queries and dy are. TILE keys pass by at once, scores of KEYS are in registers. */
template <typename kind, int D, typename held_q, typename held_dy, int TILE, int KEYS>
FT_INLINE void grade_queries(const ft_attention_queries_args &a)
{
    typedef typename kind::number number;
    const int PART = held_dy::PART, SHARERS = D / PART, ROWS = BLOCK / SHARERS;
    const int PLACES = SHARERS == 1 ? 2 : 1, WORDS = (KEYS + 31) / 32;
    const int PASSING = PLACES * TILE * D, OWN = (held_q::IN_TILE + held_dy::IN_TILE) * BLOCK * D;
    number *keys = room_for_tiles<kind, 2 * PASSING + OWN>();
    number *values = keys + PASSING, *own = values + PASSING;
    FT_SHARED(float, biases, PLACES *(BLOCK + TILE));
    FT_SHARED(float, bars, PLACES *TILE);
    FT_SHARED(float, squares, WARPS *STRIP *SQUARE_PITCH);
    const ft_attention_args &of = a.of;
    const part at = part_of<kind, ROWS, PART>(of.Tq, of.causal ? LATER_HAVE_MORE : ALIKE);
    head x = head_of(of, at.number);
    x.offset = 0; /* calls with a position have no gradient */
    meeting m = meeting_of(of, bars);
    passing_tiles<kind, TILE, D, PLACES> passing = {{}, {}, {keys, values}, 0};
    int end = (int)end_of_keys(of, x, at.first, ROWS), own_end = end_of_own<kind>(of, x, at);
    const joint<SHARERS, KEYS / 8> by = joint_of<SHARERS, KEYS / 8>();
    held_q q;
    held_dy dy;
    sums<PART / 8> dq = {{{0}}};
    query known[2];
    const rows like = part_of_rows(queries_of(of, x), at);
    strip_line line = line_of(a, at, squares);
    begin(passing, keys_of(of, x), values_of(of, x), 0);
    foresee(&m, of, x, at.first, ROWS, 0, TILE);
    fetch(passing);
    hold(q, queries_of(of, x), at, own);
    hold(dy, outputs_of(of, x, a.dy), at, own + held_q::IN_TILE * BLOCK * D);
    known[0] = known_of(of, a.delta, at.number, at.own + own_row());
    known[1] = known_of(of, a.delta, at.number, at.own + own_row() + 8);
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
            uint32_t kept[WORDS][2];
            look_up_all(kept, of, at, j0 + j);
            if (seen)
                begin_products<kind, D>(s, ds, q, dy, look_at<kind, D, TILE>(own_keys, j),
                                        look_at<kind, D, TILE>(own_values, j));
            join(by, s, ds);
            if (!seen) continue;
            complete<kind, 1>(s);
            weigh_by_query(m, at, j, known, s);
            complete<kind, 0>(ds);
            grade_by_query(m, known, kept, s, ds);
            add_keys<kind, D>(dq, ds, look_at<kind, D, TILE>(own_keys, j));
            if (line.at) add_squares(&line, ds, j0 + j, (int)of.Tk);
        }
        if (PLACES == 1) FT_BLOCK_BARRIER();
    }
    const float factors[2] = {of.scale, of.scale};
    put_rows<kind>(rows_in(a.dq, like), at.own, dq, factors);
    if (line.at) end_line(&line, (own_end + KEYS - 1) / KEYS * KEYS, (int)of.Tk);
}

/* Of numbers of 16 bits, D of a row. */
template <typename kind, int D> FT_INLINE void grade_queries_of(const ft_attention_queries_args &a)
{
    if constexpr (kind::GROUPED)
        grade_queries<kind, D, tile_rows<kind, D>, tile_rows<kind, D>, 64, 64>(a);
    else if constexpr (D == 128)
        grade_queries<kind, D, own_rows<kind, D>, own_rows<kind, D>, 32, 16>(a);
    else
        grade_queries<kind, D, own_rows<kind, D>, tile_rows<kind, D>, 32, 16>(a);
}

FT_ROOMY_KERNEL(attention_queries_bf16_64)
{
    typedef own_rows<rounded_bf16, 64> held;
    grade_queries<rounded_bf16, 64, held, held, 32, 32>(a);
}
FT_ROOMY_KERNEL(attention_queries_bf16_128)
{
    typedef own_rows<rounded_bf16, 128> held;
    grade_queries<rounded_bf16, 128, held, held, 16, 16>(a);
}
FT_ROOMY_KERNEL(attention_queries_f16_64)
{
    typedef own_rows<rounded_f16, 64> held;
    grade_queries<rounded_f16, 64, held, held, 32, 32>(a);
}
FT_ROOMY_KERNEL(attention_queries_tf32_64)
{
    typedef own_rows<rounded_tf32, 64> held;
    grade_queries<rounded_tf32, 64, held, held, 32, 32>(a);
}
FT_ROOMY_KERNEL(attention_queries_tf32_128)
{
    typedef own_rows<rounded_tf32, 64> held;
    grade_queries<rounded_tf32, 128, held, held, 16, 16>(a);
}
FT_PAIRED_KERNEL(attention_queries_kept_bf16_64)
{
    FT_FASTEST(grade_queries_of, bf16, 64);
}
FT_ROOMY_KERNEL(attention_queries_kept_bf16_128)
{
    FT_FASTEST(grade_queries_of, bf16, 128);
}
FT_PAIRED_KERNEL(attention_queries_kept_f16_64)
{
    FT_FASTEST(grade_queries_of, f16, 64);
}

/* -- keys -------------------------------------------------------------------------------------- */

/* As weigh_by_query, of 16 keys, which are rows, and 8 N queries from number `from` of the meeting
 * on. */
template <int N>
FT_INLINE void weigh_by_key(const meeting &m, const part &at, int from, const query *known,
                            sums<N> &s)
{
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) s.x[n][e] = m.slope * s.x[n][e] + m.own_bars[e / 2];
    see<-1>(m, s, at.strip + own_row() - from - own_number(), at.strip + STRIP - 1 - from);
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++)
            s.x[n][e] = ft_exp2(s.x[n][e] - known[from + 8 * n + own_number() + e % 2].lse);
}

/* As grade_by_query; s becomes the probabilities that dropout keeps. `kept`: of these queries. */
template <int N>
FT_INLINE void grade_by_key(const meeting &m, const part &at, int from, const query *known,
                            const uint32_t *kept, sums<N> &s, sums<N> &ds)
{
    int own = at.strip % 32 + own_row();
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) {
            int i = from + 8 * n + own_number() + e % 2, key = e / 2 * 8;
            float of_value = if_kept(kept[i] >> own, key, ds.x[n][e]);
            ds.x[n][e] = s.x[n][e] * (m.scale * of_value - known[i].delta);
            s.x[n][e] = if_kept(kept[i] >> own, key, s.x[n][e]);
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

/* Whether anybody sees this lane's two keys. */
FT_INLINE void own_bars_of(meeting *m, const ft_attention_args &a, const head &x, const part &at)
{
    for (int half = 0; half < 2; half++)
        m->own_bars[half] = bar_of(a, x, at.own + own_row() + half * 8);
}

/* Adds to the gradients of keys and values what some queries make of them. */
template <typename kind, int D, int P, int N, typename tile>
FT_INLINE void add_queries(sums<P> &dk, sums<P> &dv, const sums<N> &s, const sums<N> &ds,
                           const tile &queries, const tile &grads)
{
    auto p = factors_of<kind>(s), dp = factors_of<kind>(ds);
    begin<kind>(dk, dv, p, dp);
    add_rows<kind, D>(dv, p, grads);
    add_rows<kind, D>(dk, dp, queries);
    hand_over<kind>();
    complete<kind, 0>(dk, dv);
}

/* `held`: how keys and values are. QUERIES pass by at once, scores of SUB are in registers. */
template <typename kind, int D, typename held_k, typename held_v, int QUERIES, int SUB>
FT_INLINE void grade_keys(const ft_attention_keys_args &a)
{
    const int PART = held_v::PART, SHARERS = D / PART, ROWS = BLOCK / SHARERS;
    const int PLACES = kind::GROUPED || D * sizeof(typename kind::number) <= 128 ? 2 : 1;
    const int PASSING = PLACES * QUERIES * D, OWN = (held_k::IN_TILE + held_v::IN_TILE) * BLOCK * D;
    auto *queries = room_for_tiles<kind, 2 * PASSING + OWN>();
    auto *grads = queries + PASSING, *own = grads + PASSING;
    FT_SHARED(float, line, PLACES *(BLOCK + QUERIES));
    FT_SHARED(query, known, PLACES *QUERIES);
    FT_SHARED(uint32_t, kept, PLACES *ROWS / 32 * QUERIES);
    const ft_attention_args &of = a.of;
    const part at = part_of<kind, ROWS, PART>(of.Tk, of.causal ? LATER_HAVE_LESS : ALIKE);
    head x = head_of(of, at.number);
    x.offset = 0; /* calls with a position have no gradient */
    meeting m = meeting_of(of, NULL);
    const rows like = part_of_rows(keys_of(of, x), at);
    const joint<SHARERS, SUB / 8> by = joint_of<SHARERS, SUB / 8>();
    held_k k;
    held_v v;
    sums<PART / 8> dk = {{{0}}}, dv = {{{0}}};
    int start = of.causal ? at.first : 0, t = (int)threadIdx.x, first = first_of<kind>(at);
    passing_tiles<kind, QUERIES, D, PLACES> passing = {{}, {}, {queries, grads}, 0};
    own_bars_of(&m, of, x, at);
    hold(k, keys_of(of, x), at, own);
    hold(v, values_of(of, x), at, own + held_k::IN_TILE * BLOCK * D);
    foreseen next = foresee_queries<QUERIES>(a, at, start, ROWS);
    begin(passing, queries_of(of, x), outputs_of(of, x, a.dy), start);
    foresee(&m, of, x, start, QUERIES, at.first, ROWS);
    fetch(passing);
    for (int i0 = start; i0 < (int)of.Tq; i0 += QUERIES) {
        bool more = i0 + QUERIES < (int)of.Tq;
        settle(passing);
        const auto *own_queries = tile_of(passing, 0, passing.place) + at.d;
        const auto *own_grads = tile_of(passing, 1, passing.place) + at.d;
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
            bool seen = first < (int)of.Tk && (!of.causal || first < i0 + i + SUB);
            if (SHARERS == 1 && PLACES == 2 && !seen) continue;
            const auto of_k = look_at<kind, D, QUERIES>(own_queries, i);
            const auto of_v = look_at<kind, D, QUERIES>(own_grads, i);
            if (seen) begin_products<kind, D>(s, ds, k, v, of_k, of_v);
            join(by, s, ds);
            if (seen) {
                complete<kind, 1>(s);
                weigh_by_key(m, at, i, own_known, s);
                complete<kind, 0>(ds);
                grade_by_key(m, at, i, own_known, own_kept + at.strip / 32 * QUERIES, s, ds);
            }
            if (more && PLACES == 1) fetch(passing); /* not before: there are no registers */
            if (seen) add_queries<kind, D>(dk, dv, s, ds, of_k, of_v);
        }
        if (PLACES == 1) FT_BLOCK_BARRIER();
    }
    const float dropped[2] = {m.scale, m.scale}, scaled[2] = {of.scale, of.scale};
    put_rows<kind>(rows_in(a.dk, like), at.own, dk, scaled);
    put_rows<kind>(rows_in(a.dv, like), at.own, dv, dropped);
}

/* Of numbers of 16 bits, D of a row. */
template <typename kind, int D> FT_INLINE void grade_keys_of(const ft_attention_keys_args &a)
{
    if constexpr (kind::GROUPED)
        grade_keys<kind, D, tile_rows<kind, D>, tile_rows<kind, D>, 64, 32>(a);
    else if constexpr (D == 128)
        grade_keys<kind, D, own_rows<kind, D>, tile_rows<kind, D>, 16, 16>(a);
    else
        grade_keys<kind, D, tile_rows<kind, D>, tile_rows<kind, D>, 16, 16>(a);
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
    FT_FASTEST(grade_keys_of, bf16, 64);
}
FT_ROOMY_KERNEL(attention_keys_kept_bf16_128)
{
    FT_FASTEST(grade_keys_of, bf16, 128);
}
FT_PAIRED_KERNEL(attention_keys_kept_f16_64)
{
    FT_FASTEST(grade_keys_of, f16, 64);
}
