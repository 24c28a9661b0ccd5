/* kernels/attention_cores.cu - attention on tensor cores: operands of products are rounded to 16
 * bits or tf32, sums and the softmax are f32.
 *
 * A block has BLOCK queries of a head, STRIP for each warp, whose sums stay in registers. KEYS keys
 * at a time come through shared memory, then their values; what comes next is on its way while
 * products are made. Sources: Dao, arXiv:2307.08691; Milakov, Gimelshein, arXiv:1805.02867. */
#include "scores.h"

enum { KEYS = 32 };

/* The softmax of this lane's two rows so far: the largest score, and this lane's share of the sum
 * of exponentials. */
struct softmax {
    float most[2], total[2];
};

/* A score that is no number is passed over here, and shows in the sum of exponentials. */
FT_INLINE float largest_of_four(float x)
{
    x = fmaxf(x, ft_xor_lane(x, 1));
    return fmaxf(x, ft_xor_lane(x, 2));
}
FT_INLINE float sum_of_four(float x)
{
    x += ft_xor_lane(x, 1);
    return x + ft_xor_lane(x, 2);
}

/* Scores become exponentials; less[half]: what is left of earlier sums. */
template <int N> FT_INLINE void take_scores(softmax *of, sums<N> &s, float less[2])
{
FT_UNROLL
    for (int half = 0; half < 2; half++) {
        float top = of->most[half];
FT_UNROLL
        for (int n = 0; n < N; n++)
            top = fmaxf(top, fmaxf(s.x[n][2 * half], s.x[n][2 * half + 1]));
        top = largest_of_four(top);
        float base = top == -INFINITY ? 0.0f : top; /* no key is seen yet */
        less[half] = ft_exp2(of->most[half] - base);
        of->most[half] = top;
        of->total[half] *= less[half];
FT_UNROLL
        for (int n = 0; n < N; n++)
FT_UNROLL
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                s.x[n][e] = ft_exp2(s.x[n][e] - base);
                of->total[half] += s.x[n][e];
            }
    }
}

/* The scores of a tile of keys, and what they do to the softmax and to y so far. */
template <int D>
FT_INLINE void pass_scores(const ft_attention_args &a, const head &x, const meeting &m,
                           const part &at, sums<KEYS / 8> &s, softmax *of, sums<D / 8> &y)
{
    float less[2];
    bool plain = is_plain(m, KEYS - 1 - at.strip);
FT_UNROLL
    for (int n = 0; n < KEYS / 8; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++)
            s.x[n][e] = m.slope * s.x[n][e] + m.bars[8 * n + own_number() + e % 2];
    if (!plain) {
FT_UNROLL
        for (int n = 0; n < KEYS / 8; n++)
FT_UNROLL
            for (int e = 0; e < 4; e++) {
                int i = at.strip + own_row() + e / 2 * 8, j = 8 * n + own_number() + e % 2;
                s.x[n][e] = seen_score(m, s.x[n][e], i, j);
            }
    }
    take_scores(of, s, less);
FT_UNROLL
    for (int n = 0; n < D / 8; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) y.x[n][e] *= less[e / 2];
    if (!a.draw.threshold) return;
FT_UNROLL
    for (int n = 0; n < KEYS / 8; n += 2) {
        kept_scores kept = kept_by_query(a, x, at.own, m.key + 8 * n);
FT_UNROLL
        for (int e = 0; e < 8; e++) s.x[n + e / 4][e % 4] *= factor_of(a, kept, e);
    }
}

FT_INLINE void put_lse(const ft_attention_args &a, const part &at, const softmax &of,
                       const float totals[2])
{
    for (int half = 0; half < 2; half++) {
        int i = at.own + own_row() + half * 8;
        if (ft_lane() % 4 || i >= a.Tq) continue;
        a.lse[at.number * a.Tq + i] =
            totals[half] != 0 ? LN_2 * of.most[half] + logf(totals[half]) : 0.0f;
    }
}

template <typename kind, int D> FT_INLINE void attend(const ft_attention_args &a)
{
    typedef typename kind::number number;
    FT_SHARED(number, keys, KEYS *D);
    FT_SHARED(number, values, KEYS *D);
    FT_SHARED(float, line, BLOCK + KEYS);
    FT_SHARED(float, bars, KEYS);
    const part at = part_of<BLOCK, D>(a.Tq, a.causal ? LATER_HAVE_MORE : ALIKE);
    head x = head_of(a, at.number);
    meeting m = meeting_of(a, x, line, bars);
    auto k = pass<kind, D>(keys_of(a, x), 0), v = pass<kind, D>(values_of(a, x), 0);
    int end = (int)end_of_keys(a, x, at.first, BLOCK), own_end = end_of_own(a, x, at);
    own_rows<kind, D> q;
    moving_rows<kind, KEYS, D> moving;
    sums<D / 8> y = {{{0}}};
    softmax of = {{-INFINITY, -INFINITY}, {0, 0}};
    take(q, queries_of(a, x), at.own);
    foresee(&m, a, x, at.first, BLOCK, 0, KEYS);
    fetch(moving, &k);
    for (int j0 = 0; j0 < end; j0 += KEYS) {
        sums<KEYS / 8> s = {{{0}}};
        settle(moving, keys);
        meet(&m, a, x, at.first, BLOCK, j0, KEYS);
        FT_BLOCK_BARRIER();
        fetch(moving, &v);
        foresee(&m, a, x, at.first, BLOCK, j0 + KEYS, KEYS);
        if (j0 < own_end) {
            multiply_rows<D>(s, q, keys);
            pass_scores<D>(a, x, m, at, s, &of, y);
        }
        settle(moving, values);
        FT_BLOCK_BARRIER();
        fetch(moving, &k);
        if (j0 < own_end) add_rows<kind, D>(y, s, values);
    }
    float totals[2], factors[2];
    for (int half = 0; half < 2; half++) {
        totals[half] = sum_of_four(of.total[half]);
        factors[half] = totals[half] != 0 ? 1.0f / totals[half] : 0.0f;
    }
    put_rows<kind>(outputs_of(a, x, a.y), at.own, y, factors);
    put_lse(a, at, of, totals);
}

FT_ROOMY_KERNEL(attention_bf16_64)
{
    attend<rounded<ft_bf16>, 64>(a);
}
FT_ROOMY_KERNEL(attention_bf16_128)
{
    attend<rounded<ft_bf16>, 128>(a);
}
FT_ROOMY_KERNEL(attention_f16_64)
{
    attend<rounded<ft_f16>, 64>(a);
}
FT_ROOMY_KERNEL(attention_tf32_64)
{
    attend<rounded<ft_tf32>, 64>(a);
}
FT_ROOMY_KERNEL(attention_tf32_128)
{
    attend<rounded<ft_tf32>, 128>(a);
}
FT_PAIRED_KERNEL(attention_kept_bf16_64)
{
    attend<kept<ft_bf16>, 64>(a);
}
FT_ROOMY_KERNEL(attention_kept_bf16_128)
{
    attend<kept<ft_bf16>, 128>(a);
}
FT_PAIRED_KERNEL(attention_kept_f16_64)
{
    attend<kept<ft_f16>, 64>(a);
}
