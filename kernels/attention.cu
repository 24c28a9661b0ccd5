/* kernels/attention.cu - attention and its gradient, without a matrix of probabilities in memory.
 *
 * A warp has a query (or, for dk and dv, a key) and takes 32 keys (queries) at a time: each lane
 * makes the score of one, then each lane adds up its share of the D numbers over all 32. Sources:
 * Milakov, Gimelshein, arXiv:1805.02867 (the running maximum); Dao et al., arXiv:2205.14135. */
#include "kernel.h"

enum { WARPS = FT_CUDA_WARPS, SHARE = 8 }; /* D is at most SHARE times 32 */

/* T5's relative position buckets (ops/relative_bias.c). */
FT_INLINE int64_t relative_bucket(int64_t distance, int64_t n_buckets, int64_t max_distance,
                                  bool bidirectional)
{
    int64_t base = 0, buckets = n_buckets, away = distance < 0 ? -distance : distance;
    if (bidirectional) {
        buckets /= 2;
        if (distance > 0) base = buckets;
    } else if (distance > 0) {
        away = 0;
    }
    int64_t exact = buckets / 2;
    if (away < exact) return base + away;
    if (!exact || away >= max_distance) return base + buckets - 1;
    double steps = log((double)away / (double)exact) / log((double)max_distance / (double)exact) *
                   (double)(buckets - exact);
    return base + ft_least(exact + (int64_t)(steps + 1e-9), buckets - 1);
}

FT_KERNEL(attention_line)
{
    int64_t n = a.Tq + a.Tk - 1, offset = a.position ? a.position[0] : 0;
    FT_EACH(i, a.H * n)
    {
        int64_t bucket =
            relative_bucket(i % n - (a.Tq - 1) - offset, a.R, a.max_distance, a.bidirectional);
        a.line[i] = a.table[bucket * a.H + i / n];
    }
}

/* One head of one sample. */
struct head {
    int64_t b, h, offset;
    const float *q, *k, *v, *line;
    const int32_t *mask;
};

FT_INLINE head head_of(const ft_attention_args &a, int64_t number)
{
    int64_t b = number / a.H, h = number % a.H;
    head x = {b,
              h,
              a.position ? a.position[0] : 0,
              a.q + b * a.Tq * a.step + h * a.D,
              a.k + b * a.Tk * a.step + h * a.D,
              a.v + b * a.Tk * a.step + h * a.D,
              a.line ? a.line + h * (a.Tq + a.Tk - 1) + a.Tq - 1 : (const float *)0,
              a.mask ? a.mask + b * a.Tk : (const int32_t *)0};
    return x;
}

FT_INLINE bool sees(const ft_attention_args &a, const head &x, int64_t i, int64_t j)
{
    return i < a.Tq && j < a.Tk && (!a.causal || j <= i + x.offset) && (!x.mask || x.mask[j]);
}

FT_INLINE float dot(const float *x, const float *y, int64_t D)
{
    float sum = 0.0f;
    for (int64_t d = 0; d < D; d++) sum += x[d] * y[d];
    return sum;
}

FT_INLINE float score(const ft_attention_args &a, const head &x, int64_t i, int64_t j)
{
    float s = a.scale * dot(x.q + i * a.step, x.k + j * a.step, a.D);
    return x.line ? s + x.line[j - i] : s;
}

/* Dropout's factor of a probability. */
FT_INLINE float keep(const ft_attention_args &a, const head &x, int64_t i, int64_t j)
{
    if (!a.draw.threshold) return 1.0f;
    uint64_t index = (uint64_t)((x.h * a.Tq + i) * a.Tk + j);
    uint32_t bits[4];
    ft_philox(a.draw.key, index / 8, a.draw.sample + (uint32_t)x.b, bits);
    return ft_kept(bits, (int)(index % 8), a.draw.threshold) ? a.draw.scale : 0.0f;
}

/* sums[r] += factor * row[lane + 32 r] */
FT_INLINE void add_row(float *sums, float factor, const float *row, int64_t D)
{
FT_UNROLL
    for (int r = 0; r < SHARE; r++)
        if (ft_lane() + FT_WARP * r < D) sums[r] += factor * row[ft_lane() + FT_WARP * r];
}

FT_INLINE void put_row(float *row, const float *sums, float factor, int64_t D)
{
FT_UNROLL
    for (int r = 0; r < SHARE; r++)
        if (ft_lane() + FT_WARP * r < D) row[ft_lane() + FT_WARP * r] = factor * sums[r];
}

/* -- forward ----------------------------------------------------------------------------------- */

FT_KERNEL(attention)
{
    FT_SHARED(float, all, WARPS *FT_WARP);
    float *mine = all + ft_warp() * FT_WARP, sums[SHARE] = {0};
    int64_t number = ft_warp_row(), i = number % a.Tq;
    if (number >= a.B * a.H * a.Tq) return;
    head x = head_of(a, number / a.Tq);
    int64_t end = a.causal ? ft_least(i + x.offset + 1, a.Tk) : a.Tk;
    float most = -INFINITY;
    double total = 0;
    for (int64_t j0 = 0; j0 < end; j0 += FT_WARP) {
        int64_t j = j0 + ft_lane();
        bool visible = sees(a, x, i, j);
        float s = visible ? score(a, x, i, j) : -INFINITY, top = most;
        mine[ft_lane()] = s;
        FT_WARP_BARRIER();
        for (int t = 0; t < FT_WARP; t++) top = ft_larger(top, mine[t]);
        float p = visible ? expf(s - top) : 0.0f;
        float less = most == top ? 1.0f : expf(most - top);
        FT_WARP_BARRIER();
        mine[ft_lane()] = visible ? p * keep(a, x, i, j) : 0.0f;
        FT_WARP_BARRIER();
        total = total * (double)less + (double)p;
        for (int r = 0; r < SHARE; r++) sums[r] *= less;
        for (int t = 0; t < FT_WARP && j0 + t < end; t++)
            add_row(sums, mine[t], x.v + (j0 + t) * a.step, a.D);
        most = top;
        FT_WARP_BARRIER();
    }
    total = ft_warp_sum(total);
    bool any = total != 0;
    put_row(a.y + ((x.b * a.Tq + i) * a.H + x.h) * a.D, sums, any ? (float)(1.0 / total) : 0.0f,
            a.D);
    if (ft_lane() == 0) a.lse[number] = any ? (float)((double)most + log(total)) : 0.0f;
}

/* -- gradient ---------------------------------------------------------------------------------- */

FT_KERNEL(attention_delta)
{
    int64_t number = ft_warp_row(), i = number % a.Tq, head = number / a.Tq;
    if (number >= a.B * a.H * a.Tq) return;
    int64_t at = ((head / a.H * a.Tq + i) * a.H + head % a.H) * a.D;
    double sum = 0;
    for (int64_t d = ft_lane(); d < a.D; d += FT_WARP)
        sum += (double)a.dy[at + d] * (double)a.y[at + d];
    sum = ft_warp_sum(sum);
    if (ft_lane() == 0) a.delta[number] = (float)sum;
}

/* What the gradient of a query's scores needs. */
struct query {
    const float *dy;
    float delta, lse;
};

/* The gradient of the score of i and j; *p gets the probability after dropout. */
FT_INLINE float score_grad(const ft_attention_args &a, const head &x, const query &of, int64_t i,
                           int64_t j, float *p)
{
    float whole = expf(score(a, x, i, j) - of.lse), kept = keep(a, x, i, j);
    *p = whole * kept;
    return whole * (kept * dot(of.dy, x.v + j * a.step, a.D) - of.delta);
}

/* Adds the score gradients of WARPS queries and 32 keys to the block's line, query by query. */
FT_INLINE void add_to_line(float *line, const float *ds, int64_t i0, int64_t j0, int64_t Tq,
                           int64_t Tk)
{
    int t = (int)threadIdx.x;
    if (t >= FT_WARP + WARPS - 1) return;
    for (int w = 0; w < WARPS; w++) { /* t is key - query, from the least of the block on */
        int lane = t - (WARPS - 1) + w;
        if (lane < 0 || lane >= FT_WARP || i0 + w >= Tq || j0 + lane >= Tk) continue;
        line[j0 + lane - (i0 + w) + Tq - 1] += ds[w * FT_WARP + lane];
    }
}

FT_ROOMY_KERNEL(attention_queries)
{
    const ft_attention_args &of = a.of;
    FT_SHARED(float, ds, WARPS *FT_WARP);
    int64_t chunk = (int64_t)blockIdx.x % a.chunks, number = (int64_t)blockIdx.x / a.chunks;
    int64_t first = chunk * FT_CUDA_QUERIES, width = of.Tq + of.Tk - 1;
    head x = head_of(of, number);
    float *line = a.lines ? a.lines + (number * a.chunks + chunk) * width : (float *)0;
    for (int64_t t = threadIdx.x; line && t < width; t += blockDim.x) line[t] = 0.0f;
    FT_BLOCK_BARRIER();
    for (int64_t i0 = first; i0 < ft_least(first + FT_CUDA_QUERIES, of.Tq); i0 += WARPS) {
        int64_t i = i0 + ft_warp(), last = ft_least(i0 + WARPS, of.Tq) - 1;
        int64_t end = of.causal ? ft_least(last + x.offset + 1, of.Tk) : of.Tk;
        bool here = i < of.Tq;
        int64_t at = ((x.b * of.Tq + i) * of.H + x.h) * of.D, row = number * of.Tq + i;
        float sums[SHARE] = {0}, p;
        for (int64_t j0 = 0; j0 < end; j0 += FT_WARP) {
            int64_t j = j0 + ft_lane();
            ds[threadIdx.x] = 0.0f;
            if (sees(of, x, i, j)) {
                query mine = {a.dy + at, a.delta[row], of.lse[row]};
                ds[threadIdx.x] = score_grad(of, x, mine, i, j, &p);
            }
            FT_BLOCK_BARRIER();
            for (int t = 0; here && t < FT_WARP && j0 + t < of.Tk; t++)
                add_row(sums, ds[ft_warp() * FT_WARP + t], x.k + (j0 + t) * of.step, of.D);
            if (line) add_to_line(line, ds, i0, j0, of.Tq, of.Tk);
            FT_BLOCK_BARRIER();
        }
        if (here)
            put_row(a.dq + (x.b * of.Tq + i) * of.step + x.h * of.D, sums, of.scale, of.D);
    }
}

FT_KERNEL(attention_keys)
{
    const ft_attention_args &of = a.of;
    FT_SHARED(float, kept, WARPS *FT_WARP);
    FT_SHARED(float, grads, WARPS *FT_WARP);
    int64_t all = ft_warp_row(), j = all % of.Tk, number = all / of.Tk;
    if (all >= of.B * of.H * of.Tk) return;
    head x = head_of(of, number);
    float *p = kept + ft_warp() * FT_WARP, *ds = grads + ft_warp() * FT_WARP;
    float dk[SHARE] = {0}, dv[SHARE] = {0};
    for (int64_t i0 = of.causal ? j / FT_WARP * FT_WARP : 0; i0 < of.Tq; i0 += FT_WARP) {
        int64_t i = i0 + ft_lane(), row = number * of.Tq + i;
        float mine = 0.0f, grad = 0.0f;
        if (sees(of, x, i, j)) {
            query other = {a.dy + ((x.b * of.Tq + i) * of.H + x.h) * of.D, a.delta[row],
                           of.lse[row]};
            grad = score_grad(of, x, other, i, j, &mine);
        }
        p[ft_lane()] = mine;
        ds[ft_lane()] = grad;
        FT_WARP_BARRIER();
        for (int t = 0; t < FT_WARP && i0 + t < of.Tq; t++) {
            add_row(dv, p[t], a.dy + ((x.b * of.Tq + i0 + t) * of.H + x.h) * of.D, of.D);
            add_row(dk, ds[t], x.q + (i0 + t) * of.step, of.D);
        }
        FT_WARP_BARRIER();
    }
    int64_t at = (x.b * of.Tk + j) * of.step + x.h * of.D;
    put_row(a.dk + at, dk, of.scale, of.D);
    put_row(a.dv + at, dv, 1.0f, of.D);
}

FT_KERNEL(attention_table)
{
    FT_SHARED(double, room, 5);
    int64_t r = (int64_t)blockIdx.x / a.H, h = (int64_t)blockIdx.x % a.H;
    int64_t width = a.Tq + a.Tk - 1;
    double sum = 0;
    for (int64_t t = threadIdx.x; t < width; t += blockDim.x) {
        if (relative_bucket(t - (a.Tq - 1), a.R, a.max_distance, a.bidirectional) != r) continue;
        for (int64_t b = 0; b < a.B; b++)
            for (int64_t c = 0; c < a.chunks; c++)
                sum += (double)a.lines[((b * a.H + h) * a.chunks + c) * width + t];
    }
    sum = ft_block_sum(sum, room);
    if (threadIdx.x) return;
    float *at = a.dtable + r * a.H + h;
    *at = a.add ? *at + (float)sum : (float)sum;
}
