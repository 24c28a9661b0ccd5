/* kernels/norms.cu - norms of rows, and sums over rows, of which 16 bytes are taken at once. What a
 * thread has of those is added in f32, sums of such sums in f64, for which many cards have few
 * units. */
#include "numbers.h"

/* -- norms ------------------------------------------------------------------------------------- */

/* The row of this thread, of n numbers; n is 0 where there is none. It has 1 << `doubled` warps,
 * the threads of which are `lanes`. */
struct row_of_warps {
    int64_t row, n;
    int doubled, lane, lanes;
};
FT_INLINE row_of_warps row_of_this(int64_t rows, int64_t n, int doubled)
{
    int lanes = FT_WARP << doubled;
    int64_t row = ((int64_t)blockIdx.x * FT_CUDA_NORM_WARPS + ft_warp()) >> doubled;
    row_of_warps of = {row, row < rows ? n : 0, doubled, (int)threadIdx.x & (lanes - 1), lanes};
    return of;
}

/* Piece p of a lane are N numbers. Rows of up to FT_CUDA_HELD words of 16 bytes a lane are read
 * once and stay in registers, as they are kept; others are read again where they are needed. */
struct row_in_memory {
    enum { N = 4, MOST = 0 };
    ft_numbers x;
    int64_t n;
};
template <int kept> struct row_in_lanes {
    enum { N = ft_word_of<kept>::N, MOST = FT_CUDA_HELD };
    ft_words x[MOST];
};

template <typename source> FT_INLINE int64_t number_of_piece(const row_of_warps &of, int p)
{
    return source::N * (int64_t)(of.lane + p * of.lanes);
}
#define PIECES(source, p, of)                                                                      \
    FT_UNROLL                                                                                      \
    for (int p = 0; p < (source::MOST ? (int)source::MOST : pieces_of<source>(of)); p++)
template <typename source> FT_INLINE int pieces_of(const row_of_warps &of)
{
    return (int)((of.n + source::N * of.lanes - 1) / (source::N * of.lanes));
}

FT_INLINE void take_row(row_in_memory &row, const ft_numbers &x, const row_of_warps &of)
{
    row.x = ft_from(x, of.row * of.n);
    row.n = of.n;
}
template <int kept>
FT_INLINE void take_row(row_in_lanes<kept> &row, const ft_numbers &x, const row_of_warps &of)
{
    const ft_numbers from = ft_from(x, of.row * of.n);
FT_UNROLL
    for (int p = 0; p < FT_CUDA_HELD; p++) {
        int64_t i = number_of_piece<row_in_lanes<kept>>(of, p);
        row.x[p] = ft_take_words<kept>(from, i, i < of.n);
    }
}
FT_INLINE void read_piece(float *x, const row_in_memory &row, const row_of_warps &of, int p)
{
    const ft_four y = ft_read_four(row.x, number_of_piece<row_in_memory>(of, p), row.n);
FT_UNROLL
    for (int k = 0; k < 4; k++) x[k] = y.x[k];
}
template <int kept>
FT_INLINE void read_piece(float *x, const row_in_lanes<kept> &row, const row_of_warps &, int p)
{
    ft_unpack<kept>(x, row.x[p]);
}
FT_INLINE void write_piece(const row_in_memory &, const ft_numbers &y, const row_of_warps &of,
                           int64_t i, const float *x)
{
    const ft_four z = {{x[0], x[1], x[2], x[3]}};
    ft_write_four(y, i, of.n, z);
}
template <int kept>
FT_INLINE void write_piece(const row_in_lanes<kept> &, const ft_numbers &y, const row_of_warps &,
                           int64_t i, const float *x)
{
    ft_put_words<kept>(y, i, x);
}

/* What a weight has for a piece. */
template <typename source>
FT_INLINE void read_weight(float *x, const float *w, int64_t i, int64_t n)
{
FT_UNROLL
    for (int at = 0; at < source::N; at += 4) {
        ft_four y = {{0, 0, 0, 0}};
        if (!source::MOST)
            y = ft_read_four(ft_f32(w), i + at, n);
        else if (i < n)
            y = ft_get(w + i + at);
FT_UNROLL
        for (int k = 0; k < 4; k++) x[at + k] = y.x[k];
    }
}

/* In f32, in pairs; n is a power of two. */
template <int n> FT_INLINE float sum_in_pairs(const float *x)
{
    float sum[n];
FT_UNROLL
    for (int k = 0; k < n; k++) sum[k] = x[k];
FT_UNROLL
    for (int half = n / 2; half; half /= 2)
FT_UNROLL
        for (int k = 0; k < half; k++) sum[k] += sum[k + half];
    return sum[0];
}

/* Of a lane: a sum of what its pieces add. Those in registers are added in f32, others in f64. */
template <typename source> struct lane_sum {
    float piece[source::MOST ? (int)source::MOST : 1];
    double before;
    FT_INLINE void clear(lane_sum &sum)
    {
        sum.before = 0;
    }
    FT_INLINE void add(lane_sum &sum, int p, const float *x)
    {
        float of_piece = sum_in_pairs<source::N>(x);
        if (source::MOST)
            sum.piece[p] = of_piece;
        else
            sum.before += (double)of_piece;
    }
    FT_INLINE double all(const lane_sum &sum)
    {
        return source::MOST ? (double)sum_in_pairs<source::MOST ? (int)source::MOST : 1>(sum.piece)
                            : sum.before;
    }
};

/* Sums over the warps of a row, the same in all of them. `room`: shared, count * NORM_WARPS. Every
 * thread of a block comes to it. */
template <int count> FT_INLINE void sum_row(double *x, const row_of_warps &of, double *room)
{
FT_UNROLL
    for (int mask = FT_WARP / 2; mask; mask /= 2)
FT_UNROLL
        for (int k = 0; k < count; k++) x[k] += ft_xor_lane(x[k], mask);
    if (!of.doubled) return;
    if (ft_lane() == 0)
        for (int k = 0; k < count; k++) room[k * FT_CUDA_NORM_WARPS + ft_warp()] = x[k];
    FT_BLOCK_BARRIER();
    int first = ft_warp() >> of.doubled << of.doubled;
FT_UNROLL
    for (int k = 0; k < count; k++) {
        x[k] = 0;
        for (int w = 0; w < 1 << of.doubled; w++) x[k] += room[k * FT_CUDA_NORM_WARPS + first + w];
    }
}

template <typename source> FT_INLINE void norm_row(const ft_norm_args &a, double *room)
{
    const row_of_warps of = row_of_this(a.rows, a.D, a.doubled);
    source row;
    take_row(row, a.x, of);
    float x[source::N], w[source::N], b[source::N] = {0}, mean = 0;
    lane_sum<source> sum;
    lane_sum<source>::clear(sum);
    if (a.centred) {
        PIECES(source, p, of)
        {
            read_piece(x, row, of, p);
            lane_sum<source>::add(sum, p, x);
        }
        double all = lane_sum<source>::all(sum);
        sum_row<1>(&all, of, room);
        mean = (float)(all * a.part);
    }
    lane_sum<source>::clear(sum);
    PIECES(source, p, of)
    {
        int64_t i = number_of_piece<source>(of, p);
        read_piece(x, row, of, p);
FT_UNROLL
        for (int k = 0; k < source::N; k++)
            x[k] = i + k < of.n ? (x[k] - mean) * (x[k] - mean) : 0.0f;
        lane_sum<source>::add(sum, p, x);
    }
    double all = lane_sum<source>::all(sum);
    sum_row<1>(&all, of, room + FT_CUDA_NORM_WARPS);
    float rstd = ft_inverse_root((float)(all * a.part + (double)a.eps));
    const ft_numbers y = ft_from(a.y, of.row * of.n);
    PIECES(source, p, of)
    {
        int64_t i = number_of_piece<source>(of, p);
        if (i >= of.n) break;
        read_weight<source>(w, a.w, i, of.n);
        if (a.centred) read_weight<source>(b, a.b, i, of.n);
        read_piece(x, row, of, p);
FT_UNROLL
        for (int k = 0; k < source::N; k++) x[k] = (x[k] - mean) * rstd * w[k] + b[k];
        write_piece(row, y, of, i, x);
    }
    if (of.lane || !of.n) return;
    if (a.centred) a.stats[2 * of.row] = mean;
    a.stats[a.centred ? 2 * of.row + 1 : of.row] = rstd;
}

/* Whether rows of x fit into lanes, with those of y beside them. */
FT_INLINE bool fits_lanes(const ft_numbers &x, const ft_numbers &y, const float *w, int64_t n,
                          int doubled)
{
    return x.kept == y.kept && ft_in_words(x, n) && ft_in_words(y, n) && ft_aligned(w) &&
           n << (ft_is_f32(x) ? 2 : 1) <= FT_CUDA_HELD * 16 * FT_WARP << doubled;
}

FT_CROWDED_KERNEL(3, norm)
{
    FT_SHARED(double, room, 2 * FT_CUDA_NORM_WARPS);
    bool fits = fits_lanes(a.x, a.y, a.w, a.D, a.doubled) && ft_aligned(a.b);
    if (!fits)
        norm_row<row_in_memory>(a, room);
    else if (ft_is_f32(a.x))
        norm_row<row_in_lanes<FT_CUDA_F32>>(a, room);
    else if (ft_is_f16(a.x))
        norm_row<row_in_lanes<FT_CUDA_F16>>(a, room);
    else
        norm_row<row_in_lanes<FT_CUDA_BF16>>(a, room);
}

/* Of a row, g = dy w and n = (x - mean) rstd: dx = rstd (g - mean(g) - n mean(g n)) */
template <typename source> FT_INLINE void grade_norm(const ft_norm_grad_args &a, double *room)
{
    enum { N = source::N };
    const row_of_warps of = row_of_this(a.rows, a.D, a.doubled);
    source dy, x;
    take_row(dy, a.dy, of);
    take_row(x, a.x, of);
    float g[N], n[N], w[N];
    float mean = a.centred && of.n ? a.stats[2 * of.row] : 0.0f;
    float rstd = of.n ? a.stats[a.centred ? 2 * of.row + 1 : of.row] : 0.0f;
    lane_sum<source> sum_g, sum_gn;
    lane_sum<source>::clear(sum_g);
    lane_sum<source>::clear(sum_gn);
    PIECES(source, p, of)
    {
        read_weight<source>(w, a.w, number_of_piece<source>(of, p), of.n);
        read_piece(g, dy, of, p);
        read_piece(n, x, of, p);
FT_UNROLL
        for (int k = 0; k < N; k++) {
            g[k] *= w[k];
            n[k] = (n[k] - mean) * rstd * g[k];
        }
        lane_sum<source>::add(sum_g, p, g);
        lane_sum<source>::add(sum_gn, p, n);
    }
    double sums[2] = {lane_sum<source>::all(sum_gn), lane_sum<source>::all(sum_g)};
    sum_row<2>(sums, of, room);
    float mean_gn = (float)(sums[0] * a.part);
    float mean_g = a.centred ? (float)(sums[1] * a.part) : 0.0f;
    const ft_numbers dx = ft_from(a.dx, of.row * of.n);
    PIECES(source, p, of)
    {
        int64_t i = number_of_piece<source>(of, p);
        if (i >= of.n) break;
        read_weight<source>(w, a.w, i, of.n);
        read_piece(g, dy, of, p);
        read_piece(n, x, of, p);
FT_UNROLL
        for (int k = 0; k < N; k++)
            g[k] = rstd * (g[k] * w[k] - mean_g - (n[k] - mean) * rstd * mean_gn);
        write_piece(dy, dx, of, i, g);
    }
}

FT_KERNEL(norm_grad)
{
    FT_SHARED(double, room, 2 * FT_CUDA_NORM_WARPS);
    bool fits = fits_lanes(a.x, a.dy, a.w, a.D, a.doubled) &&
                fits_lanes(a.x, a.dx, a.w, a.D, a.doubled);
    if (!fits)
        grade_norm<row_in_memory>(a, room);
    else if (ft_is_f32(a.x))
        grade_norm<row_in_lanes<FT_CUDA_F32>>(a, room);
    else if (ft_is_f16(a.x))
        grade_norm<row_in_lanes<FT_CUDA_F16>>(a, room);
    else
        grade_norm<row_in_lanes<FT_CUDA_BF16>>(a, room);
}

/* -- sums over rows ---------------------------------------------------------------------------- */

/* N numbers of a row, and how they are read: 16 bytes at once, or any. */
template <int kept> struct columns_in_words {
    enum { N = ft_word_of<kept>::N };
    typedef ft_words piece;
    FT_INLINE ft_words take(const ft_numbers &x, int64_t row, int64_t d, int64_t D, bool there)
    {
        return ft_take_words<kept>(x, row * D + d, there);
    }
    FT_INLINE void unpack(float *x, const ft_words &from)
    {
        ft_unpack<kept>(x, from);
    }
};
struct any_columns {
    enum { N = 4 };
    typedef ft_four piece;
    FT_INLINE ft_four take(const ft_numbers &x, int64_t row, int64_t d, int64_t D, bool there)
    {
        return ft_read_four(ft_from(x, row * D), d, there ? D : 0);
    }
    FT_INLINE void unpack(float *x, const ft_four &from)
    {
FT_UNROLL
        for (int k = 0; k < 4; k++) x[k] = from.x[k];
    }
};

/* What TOGETHER rows, `step` apart, add to N columns in f32: dy, and dy times the normalised x. */
template <typename columns, bool normed, int TOGETHER>
FT_INLINE void add_rows(const ft_column_parts_args &a, int64_t row, int step, int64_t end,
                        int64_t d, double *sum, double *sum_normed)
{
    enum { N = columns::N };
    typename columns::piece dy[TOGETHER], x[TOGETHER];
    float mean[TOGETHER], rstd[TOGETHER];
FT_UNROLL
    for (int i = 0; i < TOGETHER; i++) {
        int64_t own = row + i * step;
        dy[i] = columns::take(a.dy, own, d, a.D, own < end);
        if (!normed) continue;
        x[i] = columns::take(a.x, own, d, a.D, own < end);
        mean[i] = own < end && a.centred ? a.stats[2 * own] : 0.0f;
        rstd[i] = own < end ? a.stats[a.centred ? 2 * own + 1 : own] : 0.0f;
    }
    float some[N] = {0}, some_normed[N] = {0};
FT_UNROLL
    for (int i = 0; i < TOGETHER; i++) {
        float of_dy[N], of_x[N];
        columns::unpack(of_dy, dy[i]);
        if (normed) columns::unpack(of_x, x[i]);
FT_UNROLL
        for (int k = 0; k < N; k++) {
            some[k] += of_dy[k];
            if (normed) some_normed[k] += of_dy[k] * ((of_x[k] - mean[i]) * rstd[i]);
        }
    }
FT_UNROLL
    for (int k = 0; k < N; k++) {
        if (!normed || a.centred) sum[k] += (double)some[k];
        if (normed) sum_normed[k] += (double)some_normed[k];
    }
}

/* A thread has N columns, of some rows of the part. Those beside it in a warp have the same columns
 * of other rows, and so have the other warps. */
template <typename columns, bool normed>
FT_INLINE void columns_of_part(const ft_column_parts_args &a, double *room)
{
    enum { N = columns::N, ACROSS = FT_CUDA_SPAN / N, WARPS = 8, ROWS = WARPS * FT_WARP / ACROSS };
    int own = (int)threadIdx.x, across = own % ACROSS;
    int64_t first = (int64_t)blockIdx.x * FT_CUDA_SPAN, d = first + N * across;
    int64_t from = (int64_t)blockIdx.y * a.per_part, end = ft_least(from + a.per_part, a.rows);
    double sum[N] = {0}, sum_normed[N] = {0};
    const int TOGETHER = normed ? 4 : 8;
    for (int64_t row = from + own / ACROSS; d < a.D && row < end; row += TOGETHER * ROWS)
        add_rows<columns, normed, TOGETHER>(a, row, ROWS, end, d, sum, sum_normed);
FT_UNROLL
    for (int k = 0; k < N; k++) {
FT_UNROLL
        for (int mask = FT_WARP / 2; mask >= ACROSS; mask /= 2) {
            sum[k] += ft_xor_lane(sum[k], mask);
            if (normed) sum_normed[k] += ft_xor_lane(sum_normed[k], mask);
        }
        if (ft_lane() != across) continue;
        room[ft_warp() * FT_CUDA_SPAN + N * across + k] = normed ? sum_normed[k] : sum[k];
        if (normed) room[(WARPS + ft_warp()) * FT_CUDA_SPAN + N * across + k] = sum[k];
    }
    FT_BLOCK_BARRIER();
    int which = own / FT_CUDA_SPAN, column = own % FT_CUDA_SPAN;
    if (which > (normed && a.centred) || first + column >= a.D) return;
    double all = 0;
    for (int w = 0; w < WARPS; w++) all += room[(which * WARPS + w) * FT_CUDA_SPAN + column];
    a.parts[(which * a.n_parts + blockIdx.y) * a.D + first + column] = all;
}

template <typename columns>
FT_INLINE void columns_of_either(const ft_column_parts_args &a, double *room)
{
    if (a.x.at)
        columns_of_part<columns, true>(a, room);
    else
        columns_of_part<columns, false>(a, room);
}

FT_KERNEL(column_parts)
{
    FT_SHARED(double, room, 2 * 8 * FT_CUDA_SPAN);
    bool same = !a.x.at || (a.x.kept == a.dy.kept && ft_in_words(a.x, a.D));
    if (!same || !ft_in_words(a.dy, a.D))
        columns_of_either<any_columns>(a, room);
    else if (ft_is_f32(a.dy))
        columns_of_either<columns_in_words<FT_CUDA_F32>>(a, room);
    else if (ft_is_f16(a.dy))
        columns_of_either<columns_in_words<FT_CUDA_F16>>(a, room);
    else
        columns_of_either<columns_in_words<FT_CUDA_BF16>>(a, room);
}

/* A lane has a column, and a warp every so many of the parts. */
FT_KERNEL(column_sum)
{
    enum { WARPS = 8, EACH = FT_CUDA_PARTS / WARPS };
    FT_SHARED(double, room, WARPS *FT_WARP);
    int64_t d = (int64_t)blockIdx.x * FT_WARP + ft_lane();
    const double *parts = a.parts + (int64_t)blockIdx.y * a.n_parts * a.D;
    double some[EACH], sum = 0;
FT_UNROLL
    for (int k = 0; k < EACH; k++) {
        int part = ft_warp() + k * WARPS;
        some[k] = d < a.D && part < a.n_parts ? parts[part * a.D + d] : 0.0;
    }
FT_UNROLL
    for (int k = 0; k < EACH; k++) sum += some[k];
    room[threadIdx.x] = sum;
    FT_BLOCK_BARRIER();
    if (ft_warp() || d >= a.D) return;
    for (int w = 1; w < WARPS; w++) sum += room[w * FT_WARP + ft_lane()];
    float rounded = (float)sum; /* what is added is what would be given alone */
    float *y = a.y[blockIdx.y];
    y[d] = a.add[blockIdx.y] ? y[d] + rounded : rounded;
}

/* A thread has four columns. */
FT_KERNEL(column_few)
{
    FT_EACH_FOUR(d, a.D)
    {
        double sum[4] = {0};
        for (int64_t row = 0; row < a.rows; row++) {
            const ft_four dy = ft_read_four(ft_from(a.dy, row * a.D), d, a.D);
FT_UNROLL
            for (int k = 0; k < 4; k++) sum[k] += (double)dy.x[k];
        }
        const ft_numbers y = {a.y, FT_CUDA_F32};
        ft_four all = {{0, 0, 0, 0}};
        if (a.add) all = ft_read_four(y, d, a.D);
FT_UNROLL
        for (int k = 0; k < 4; k++) all.x[k] += (float)sum[k];
        ft_write_four(y, d, a.D, all);
    }
}
