/* kernels/attention.cu - attention and its gradient, without a matrix of probabilities in memory.
 *
 * A block has BLOCK queries of a head (or, for dk and dv, keys), MINE for each warp, and takes 32
 * keys (queries) at a time, by way of shared memory: each lane makes the scores of one of them with
 * those of the warp, then each lane adds up its share of the D numbers over all 32. Sources:
 * Milakov, Gimelshein, arXiv:1805.02867 (the running maximum); Dao et al., arXiv:2205.14135. */
#include "attention.h"

enum {
    WARPS = FT_CUDA_WARPS,
    BLOCK = FT_CUDA_TOGETHER,
    MINE = BLOCK / WARPS, /* 4: those of a warp are read as 16 bytes */
    CHUNK = 64,           /* numbers of a row that are in shared memory at once */
    PITCH = CHUNK + 1,    /* from one row to the next: lanes read different banks */
    OWN_PITCH = BLOCK + 4,
    CHUNKS = 4, /* D is at most CHUNKS * CHUNK */
    SHARE = CHUNKS * CHUNK / FT_WARP
};

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

FT_INLINE bool sees(const ft_attention_args &a, const head &x, int64_t i, int64_t j)
{
    return i < a.Tq && j < a.Tk && (!a.causal || j <= i + x.offset) && (!x.mask || x.mask[j]);
}

/* From the product of query and key. */
FT_INLINE float score(const ft_attention_args &a, const head &x, int64_t i, int64_t j, float dot)
{
    float s = a.scale * dot;
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

/* -- rows in shared memory --------------------------------------------------------------------- */

/* CHUNK numbers, from d0 on, of `count` rows: number d of row r to room[r * by_row + d * by_d], or
 * zeros where there are none. */
FT_INLINE void load_rows(float *room, const rows &x, int64_t first, int count, int64_t d0,
                         int by_row, int by_d)
{
    for (int e = (int)threadIdx.x; e < count * CHUNK; e += (int)blockDim.x) {
        int64_t r = first + e / CHUNK, d = d0 + e % CHUNK;
        room[e / CHUNK * by_row + e % CHUNK * by_d] =
            r < x.n && d < x.D ? ft_read(x.of, x.first + r * x.step + d) : 0.0f;
    }
}

/* A block's shared memory. */
struct shared {
    float *own;  /* rows of the block, by number: number d of all BLOCK, then number d + 1 */
    float *tile; /* 32 rows */
};

/* dots[m]: row m of this warp's, of the block's from own_first on, times row first + lane. */
FT_INLINE void multiply(float *dots, const rows &own, int64_t own_first, const rows &x,
                        int64_t first, const shared &room)
{
    for (int m = 0; m < MINE; m++) dots[m] = 0.0f;
    for (int64_t d0 = 0; d0 < x.D; d0 += CHUNK) {
        FT_BLOCK_BARRIER();
        load_rows(room.own, own, own_first, BLOCK, d0, 1, OWN_PITCH);
        load_rows(room.tile, x, first, FT_WARP, d0, PITCH, 1);
        FT_BLOCK_BARRIER();
        const float *mine = room.own + ft_warp() * MINE, *row = room.tile + ft_lane() * PITCH;
        int n = (int)ft_least(x.D - d0, CHUNK);
        for (int d = 0; d < n; d++) {
            ft_four y = ft_get(mine + d * OWN_PITCH);
FT_UNROLL
            for (int m = 0; m < MINE; m++) dots[m] += y.x[m] * row[d];
        }
    }
}

/* Sums of one of the warp's rows: numbers lane, lane + 32, ... of it. */
typedef float share[SHARE];

/* sums[m] += factors[t * MINE + m] * row first + t, for t < count, and t < 32. */
FT_INLINE void add_rows(share *sums, const float *factors, const rows &x, int64_t first,
                        int64_t count, const shared &room)
{
    int n = (int)ft_least(count, FT_WARP);
FT_UNROLL
    for (int c = 0; c < CHUNKS; c++) {
        if (c * CHUNK >= x.D) break;
        FT_BLOCK_BARRIER();
        load_rows(room.tile, x, first, FT_WARP, c * CHUNK, PITCH, 1);
        FT_BLOCK_BARRIER();
        for (int t = 0; t < n; t++) {
            ft_four f = ft_get(factors + t * MINE);
            const float *row = room.tile + t * PITCH + ft_lane();
FT_UNROLL
            for (int m = 0; m < MINE; m++) {
                sums[m][2 * c] += f.x[m] * row[0];
                sums[m][2 * c + 1] += f.x[m] * row[FT_WARP];
            }
        }
    }
}

/* The row whose first number is number `first` of y. */
FT_INLINE void put_row(const ft_numbers &y, int64_t first, const float *sums, float factor,
                       int64_t D)
{
FT_UNROLL
    for (int r = 0; r < SHARE; r++)
        if (ft_lane() + FT_WARP * r < D)
            ft_write(y, first + ft_lane() + FT_WARP * r, factor * sums[r]);
}

#define ROOM(name)                                                                                 \
    FT_SHARED(float, name##_own, CHUNK *OWN_PITCH);                                                \
    FT_SHARED(float, name##_tile, FT_WARP *PITCH);                                                 \
    const shared name = {name##_own, name##_tile}

/* -- forward ----------------------------------------------------------------------------------- */

/* A query's softmax so far: the largest score and, in each lane, the sum of its exponentials. */
struct running {
    float most;
    double total;
};

/* Takes in a lane's score, if its key is seen; *less: what is left of earlier sums. Returns its
 * exponential. */
FT_INLINE float take_score(running *q, bool seen, float s, float *less)
{
    float top = ft_larger(q->most, ft_warp_max(seen ? s : -INFINITY));
    float p = seen ? expf(s - top) : 0.0f;
    *less = q->most == top ? 1.0f : expf(q->most - top);
    q->total = q->total * (double)*less + (double)p;
    q->most = top;
    return p;
}

FT_KERNEL(attention)
{
    ROOM(room);
    FT_SHARED(float, factors, WARPS *FT_WARP *MINE);
    unsigned blocks = (unsigned)((a.Tq + BLOCK - 1) / BLOCK);
    int64_t first = (int64_t)(blockIdx.x % blocks) * BLOCK, number = blockIdx.x / blocks;
    head x = head_of(a, number);
    const rows q = queries_of(a, x), k = keys_of(a, x), v = values_of(a, x);
    float *mine = factors + ft_warp() * FT_WARP * MINE;
    int64_t i0 = first + ft_warp() * MINE, end = end_of_keys(a, x, first, BLOCK);
    share sums[MINE] = {{0}};
    running of[MINE];
    for (int m = 0; m < MINE; m++) of[m] = {-INFINITY, 0};
    for (int64_t j0 = 0; j0 < end; j0 += FT_WARP) {
        float dots[MINE], less;
        int64_t j = j0 + ft_lane();
        multiply(dots, q, first, k, j0, room);
FT_UNROLL
        for (int m = 0; m < MINE; m++) {
            bool seen = sees(a, x, i0 + m, j);
            float s = seen ? score(a, x, i0 + m, j, dots[m]) : 0.0f;
            float p = take_score(&of[m], seen, s, &less);
            mine[ft_lane() * MINE + m] = seen ? p * keep(a, x, i0 + m, j) : 0.0f;
            for (int r = 0; r < SHARE; r++) sums[m][r] *= less;
        }
        add_rows(sums, mine, v, j0, end - j0, room);
    }
FT_UNROLL
    for (int m = 0; m < MINE; m++) {
        double total = ft_warp_sum(of[m].total);
        bool any = total != 0;
        int64_t i = i0 + m;
        if (i >= a.Tq) continue;
        put_row(a.y, ((x.b * a.Tq + i) * a.H + x.h) * a.D, sums[m],
                any ? (float)(1.0 / total) : 0.0f, a.D);
        if (ft_lane() == 0)
            a.lse[number * a.Tq + i] = any ? (float)((double)of[m].most + log(total)) : 0.0f;
    }
}

/* -- gradient ---------------------------------------------------------------------------------- */

FT_ROOMY_KERNEL(attention_delta)
{
    int lanes = (int)a.lanes;
    int64_t number = ft_warp_row() * (FT_WARP / lanes) + ft_lane() / lanes;
    int64_t query = ft_whole_times(number, a.H), h = number - query * a.H;
    int64_t b = ft_whole_times(query, a.Tq), i = query - b * a.Tq;
    const ft_numbers dy = ft_from(a.dy, number * a.D), y = ft_from(a.y, number * a.D);
    double sum = 0;
    for (int64_t d = 8 * (ft_lane() % lanes); b < a.B && d < a.D; d += 8 * lanes) {
        const ft_eight p = ft_read_eight(dy, d, a.D), q = ft_read_eight(y, d, a.D);
        float of_eight = 0;
FT_UNROLL
        for (int k = 0; k < 8; k++) of_eight += p.x[k] * q.x[k];
        sum += (double)of_eight;
    }
    for (int mask = lanes / 2; mask; mask /= 2) sum += ft_xor_lane(sum, mask);
    if (b < a.B && ft_lane() % lanes == 0) a.delta[(b * a.H + h) * a.Tq + i] = (float)sum;
}

/* A block's queries or keys, of n in a head, and the rows of that head. */
struct block_of_head {
    int64_t number, first;
    head x;
    rows q, k, v, dy;
};

FT_INLINE block_of_head block_of(const ft_attention_args &a, const ft_numbers &dy, int64_t n)
{
    unsigned blocks = (unsigned)((n + BLOCK - 1) / BLOCK);
    int64_t first = (int64_t)(blockIdx.x % blocks) * BLOCK, number = blockIdx.x / blocks;
    head x = head_of(a, number);
    block_of_head y = {number, first, x, queries_of(a, x), keys_of(a, x), values_of(a, x),
                       outputs_of(a, x, dy)};
    return y;
}

/* A lane's part of the mean of dp under a query's probabilities, of its keys so far. Sums are of
 * what is above `base`, which is dp of the likeliest of them: where one key has nearly all of the
 * probability, what the others make is below the rounding of a plain sum. */
struct mean {
    float most, base, total, above;
};

FT_INLINE void take_mean(mean *m, float p, float dp)
{
    if (p > m->most) {
        m->above += m->total * (m->base - dp);
        m->base = dp;
        m->most = p;
    }
    m->total += p;
    m->above += p * (dp - m->base);
}

FT_ROOMY_KERNEL(attention_mean)
{
    ROOM(room);
    const ft_attention_args &of = a.of;
    const block_of_head at = block_of(of, a.dy, of.Tq);
    int64_t i0 = at.first + ft_warp() * MINE, end = end_of_keys(of, at.x, at.first, BLOCK);
    float lse[MINE];
    mean means[MINE];
    for (int m = 0; m < MINE; m++) {
        lse[m] = i0 + m < of.Tq ? of.lse[at.number * of.Tq + i0 + m] : INFINITY;
        means[m] = {0, 0, 0, 0};
    }
    for (int64_t j0 = 0; j0 < end; j0 += FT_WARP) {
        float dots[MINE], of_values[MINE];
        int64_t j = j0 + ft_lane();
        multiply(dots, at.q, at.first, at.k, j0, room);
        multiply(of_values, at.dy, at.first, at.v, j0, room);
FT_UNROLL
        for (int m = 0; m < MINE; m++)
            if (sees(of, at.x, i0 + m, j))
                take_mean(&means[m], expf(score(of, at.x, i0 + m, j, dots[m]) - lse[m]),
                          keep(of, at.x, i0 + m, j) * of_values[m]);
    }
FT_UNROLL
    for (int m = 0; m < MINE; m++) {
        double total = ft_warp_sum((double)means[m].total);
        double sum = ft_warp_sum((double)means[m].total * (double)means[m].base +
                                 (double)means[m].above);
        double whole = total > 0 ? sum / total : 0;
        float *to = a.delta + at.number * of.Tq + i0 + m;
        if (i0 + m >= of.Tq || ft_lane() != 0) continue;
        to[0] = (float)whole;
        to[of.B * of.H * of.Tq] = (float)(whole - (double)to[0]);
    }
}

/* A query whose mean is delta + rest. */
struct known_query {
    query of;
    float rest;
};

FT_INLINE known_query known_of(const ft_attention_args &a, const float *delta, int64_t number,
                               int64_t i)
{
    const float *rests = delta + a.B * a.H * a.Tq;
    known_query q = {query_of(a, delta, number, i), i < a.Tq ? rests[number * a.Tq + i] : 0};
    return q;
}

/* The gradient of the score of i and j, and their probability after dropout. */
struct score_grad {
    float ds, p;
};

/* From the products of query and key, and of dy and value. */
FT_INLINE score_grad grad_of(const ft_attention_args &a, const head &x, const known_query &q,
                             int64_t i, int64_t j, float dot, float of_value)
{
    if (!sees(a, x, i, j)) return {0.0f, 0.0f};
    float whole = expf(score(a, x, i, j, dot) - q.of.lse), kept = keep(a, x, i, j);
    return {whole * (kept * of_value - q.of.delta - q.rest), whole * kept};
}

/* Adds the score gradients of the block's queries and 32 keys to its line, query by query. */
FT_INLINE void add_to_line(float *line, const float *grads, int64_t i0, int64_t j0, int64_t Tq,
                           int64_t Tk)
{
    int t = (int)threadIdx.x; /* key - query, from the least of the block on */
    int64_t at = j0 + t;
    if (t >= FT_WARP + BLOCK - 1 || at >= Tk + BLOCK - 1) return;
    float sum = line[at];
    for (int q = 0; q < BLOCK; q++) {
        int lane = t - (BLOCK - 1) + q;
        if (lane < 0 || lane >= FT_WARP || i0 + q >= Tq || j0 + lane >= Tk) continue;
        sum += grads[(q / MINE * FT_WARP + lane) * MINE + q % MINE];
    }
    line[at] = sum;
}

FT_ROOMY_KERNEL(attention_queries)
{
    ROOM(room);
    FT_SHARED(float, grads, WARPS *FT_WARP *MINE);
    const ft_attention_args &of = a.of;
    const block_of_head at = block_of(of, a.dy, of.Tq);
    int64_t width = of.Tk + BLOCK - 1;
    float *line = a.lines ? a.lines + blockIdx.x * width : (float *)0;
    float *mine = grads + ft_warp() * FT_WARP * MINE;
    int64_t i0 = at.first + ft_warp() * MINE, end = end_of_keys(of, at.x, at.first, BLOCK);
    share sums[MINE] = {{0}};
    known_query known[MINE];
    for (int64_t t = threadIdx.x; line && t < width; t += blockDim.x) line[t] = 0.0f;
    for (int m = 0; m < MINE; m++) known[m] = known_of(of, a.delta, at.number, i0 + m);
    for (int64_t j0 = 0; j0 < end; j0 += FT_WARP) {
        float dots[MINE], of_values[MINE];
        int64_t j = j0 + ft_lane();
        multiply(dots, at.q, at.first, at.k, j0, room);
        multiply(of_values, at.dy, at.first, at.v, j0, room);
FT_UNROLL
        for (int m = 0; m < MINE; m++)
            mine[ft_lane() * MINE + m] =
                grad_of(of, at.x, known[m], i0 + m, j, dots[m], of_values[m]).ds;
        add_rows(sums, mine, at.k, j0, end - j0, room);
        if (line) add_to_line(line, grads, at.first, j0, of.Tq, of.Tk);
    }
FT_UNROLL
    for (int m = 0; m < MINE; m++)
        if (i0 + m < of.Tq)
            put_row(a.dq, at.q.first + (i0 + m) * of.step, sums[m], of.scale, of.D);
}

FT_ROOMY_KERNEL(attention_keys)
{
    ROOM(room);
    FT_SHARED(float, kept, WARPS *FT_WARP *MINE);
    FT_SHARED(float, grads, WARPS *FT_WARP *MINE);
    const ft_attention_args &of = a.of;
    const block_of_head at = block_of(of, a.dy, of.Tk);
    float *p = kept + ft_warp() * FT_WARP * MINE, *ds = grads + ft_warp() * FT_WARP * MINE;
    int64_t j0 = at.first + ft_warp() * MINE;
    share dk[MINE] = {{0}}, dv[MINE] = {{0}};
    for (int64_t i0 = of.causal ? at.first / FT_WARP * FT_WARP : 0; i0 < of.Tq; i0 += FT_WARP) {
        float dots[MINE], of_values[MINE];
        int64_t i = i0 + ft_lane();
        known_query known = known_of(of, a.delta, at.number, i);
        multiply(dots, at.k, at.first, at.q, i0, room);
        multiply(of_values, at.v, at.first, at.dy, i0, room);
FT_UNROLL
        for (int m = 0; m < MINE; m++) {
            score_grad grad = grad_of(of, at.x, known, i, j0 + m, dots[m], of_values[m]);
            p[ft_lane() * MINE + m] = grad.p;
            ds[ft_lane() * MINE + m] = grad.ds;
        }
        add_rows(dv, p, at.dy, i0, of.Tq - i0, room);
        add_rows(dk, ds, at.q, i0, of.Tq - i0, room);
    }
FT_UNROLL
    for (int m = 0; m < MINE; m++) {
        int64_t to = at.k.first + (j0 + m) * of.step;
        if (j0 + m >= of.Tk) continue;
        put_row(a.dk, to, dk[m], of.scale, of.D);
        put_row(a.dv, to, dv[m], 1.0f, of.D);
    }
}

FT_KERNEL(attention_table)
{
    FT_SHARED(double, room, 5);
    int64_t r = (int64_t)blockIdx.x / a.H, h = (int64_t)blockIdx.x % a.H;
    int64_t strips = (a.Tq + FT_CUDA_TOGETHER - 1) / FT_CUDA_TOGETHER;
    int64_t width = a.Tk + FT_CUDA_TOGETHER - 1;
    double sum = 0;
    for (int64_t t = threadIdx.x; t < a.Tq + a.Tk - 1; t += blockDim.x) {
        int64_t distance = t - (a.Tq - 1);
        if (relative_bucket(distance, a.R, a.max_distance, a.bidirectional) != r) continue;
        for (int64_t b = 0; b < a.B; b++)
            for (int64_t s = 0; s < strips; s++) {
                int64_t at = distance + (s + 1) * FT_CUDA_TOGETHER - 1;
                if (at >= 0 && at < width)
                    sum += (double)a.lines[((b * a.H + h) * strips + s) * width + at];
            }
    }
    sum = ft_block_sum(sum, room);
    if (threadIdx.x) return;
    float *at = a.dtable + r * a.H + h;
    *at = a.add ? *at + (float)sum : (float)sum;
}

/* -- dropout ----------------------------------------------------------------------------------- */

/* Of the 8 elements of a drawn block, a bit each. */
FT_INLINE uint32_t kept_of_8(const ft_cuda_draw &draw, uint64_t block, uint32_t sample)
{
    uint32_t drawn[4], least = draw.threshold << 16, kept = 0;
    ft_philox(draw.key, block, sample, drawn);
FT_UNROLL
    for (int e = 0; e < 8; e++)
        kept |= (e % 2 ? drawn[e / 2] : drawn[e / 2] << 16) >= least ? 1u << e : 0u;
    return kept;
}

FT_KERNEL(attention_dropout)
{
    unsigned words = (unsigned)((a.Tk + 31) / 32), H = (unsigned)a.H, head = blockIdx.x / words;
    int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, key = blockIdx.x % words * 32;
    if (i >= a.Tq || (a.causal && key > i + (a.position ? a.position[0] : 0))) return;
    uint64_t first = (uint64_t)((head % H * a.Tq + i) * a.Tk + key);
    uint32_t sample = a.draw.sample + head / H, kept = 0;
    int past = (int)(first % 8);
FT_UNROLL
    for (int e = 0; e < 4; e++) kept |= kept_of_8(a.draw, first / 8 + e, sample) << 8 * e;
    if (past) kept = kept >> past | kept_of_8(a.draw, first / 8 + 4, sample) << (32 - past);
    a.kept[blockIdx.x * a.Tq + i] = kept;
}
