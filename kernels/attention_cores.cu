/* kernels/attention_cores.cu - attention on tensor cores: operands of products are rounded to 16
 * bits or tf32, sums and the softmax are f32.
 *
 * A block has BLOCK queries of a head, STRIP for each warp, whose sums stay in registers. TILE keys
 * and their values at a time come through shared memory. Of operands that are kept as they are
 * multiplied there is room for two of these: what comes next is on its way while products are made
 * of what is there. Sources: Dao, arXiv:2307.08691; Milakov, Gimelshein, arXiv:1805.02867. */
#include "scores.h"

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

/* Scores of keys from number `from` of the meeting on, and what they do to the softmax and to y so
 * far. */
template <int N, int D>
FT_INLINE void pass_scores(const meeting &m, const part &at, int from, sums<N> &s, softmax *of,
                           sums<D> &y)
{
    const float *bars = m.bars + from + own_number();
    float less[2];
FT_UNROLL
    for (int n = 0; n < N; n++)
FT_UNROLL
        for (int e = 0; e < 4; e++) s.x[n][e] = m.slope * s.x[n][e] + bars[8 * n + e % 2];
    see<1>(m, s, from + own_number() - at.strip - own_row(), from + 8 * N - 1 - at.strip);
    take_scores(of, s, less);
    if (ft_ballot(less[0] != 1.0f || less[1] != 1.0f)) {
FT_UNROLL
        for (int n = 0; n < D; n++)
FT_UNROLL
            for (int e = 0; e < 4; e++) y.x[n][e] *= less[e / 2];
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
    const int TILE = kind::GROUPED ? 64 : at_once<kind, D>::ROWS, MOST = kind::GROUPED ? 64 : 32;
    const int KEYS = TILE < MOST ? TILE : MOST, WORDS = (KEYS + 31) / 32;
    const int PLACES = kind::AS_READ ? 2 : 1;
    const int PASSING = PLACES * TILE * D;
    number *keys = room_for_tiles<kind, 2 * PASSING>(), *values = keys + PASSING;
    FT_SHARED(float, line, PLACES *(BLOCK + TILE));
    FT_SHARED(float, bars, PLACES *TILE);
    const part at = part_of<kind, BLOCK, D>(a.Tq, a.causal ? LATER_HAVE_MORE : ALIKE);
    head x = head_of(a, at.number);
    meeting m = meeting_of(a, bars);
    passing_tiles<kind, TILE, D, PLACES> passing = {{}, {}, {keys, values}, 0};
    int end = (int)end_of_keys(a, x, at.first, BLOCK), own_end = end_of_own<kind>(a, x, at);
    own_rows<kind, D> q;
    sums<D / 8> y = {{{0}}};
    softmax of = {{-INFINITY, -INFINITY}, {0, 0}};
    begin(passing, keys_of(a, x), values_of(a, x), 0);
    foresee(&m, a, x, at.first, BLOCK, 0, TILE);
    fetch(passing);
    take(q, queries_of(a, x), at.own);
    for (int j0 = 0; j0 < end; j0 += TILE) {
        settle(passing);
        m.line = line + passing.place * (BLOCK + TILE);
        m.bars = bars + passing.place * TILE;
        meet(&m, a, x, at.first, BLOCK, j0, TILE);
        FT_BLOCK_BARRIER(); /* nobody reads the other place any more */
        if (j0 + TILE < end) {
            fetch(passing);
            foresee(&m, a, x, at.first, BLOCK, j0 + TILE, TILE);
        }
FT_ROLLED
        for (int j = 0; j < TILE && j0 + j < own_end; j += KEYS) {
            sums<KEYS / 8> s = {{{0}}};
            uint32_t kept[WORDS][2];
            look_up_all(kept, a, at, j0 + j);
            begin<kind>(s);
            multiply_rows<D>(s, q, look_at<kind, D, TILE>(tile_of(passing, 0, passing.place), j));
            hand_over<kind>();
            complete<kind, 0>(s);
            pass_scores(m, at, j, s, &of, y);
            auto p = factors_of<kind>(kept_sums<KEYS / 8>{s, kept});
            begin<kind>(y, p);
            add_rows<kind, D>(y, p, look_at<kind, D, TILE>(tile_of(passing, 1, passing.place), j));
            hand_over<kind>();
            complete<kind, 0>(y);
        }
        if (PLACES == 1) FT_BLOCK_BARRIER();
    }
    float totals[2], factors[2];
    for (int half = 0; half < 2; half++) {
        totals[half] = sum_of_four(of.total[half]);
        factors[half] = totals[half] != 0 ? a.draw.scale / totals[half] : 0.0f;
    }
    put_rows<kind>(outputs_of(a, x, a.y), at.own, y, factors);
    put_lse(a, at, of, totals);
}

FT_ROOMY_KERNEL(attention_bf16_64)
{
    attend<rounded_bf16, 64>(a);
}
FT_ROOMY_KERNEL(attention_bf16_128)
{
    attend<rounded_bf16, 128>(a);
}
FT_ROOMY_KERNEL(attention_f16_64)
{
    attend<rounded_f16, 64>(a);
}
FT_ROOMY_KERNEL(attention_tf32_64)
{
    attend<rounded_tf32, 64>(a);
}
FT_ROOMY_KERNEL(attention_tf32_128)
{
    attend<rounded_tf32, 128>(a);
}
FT_PAIRED_KERNEL(attention_kept_bf16_64)
{
    FT_FASTEST(attend, bf16, 64);
}
FT_ROOMY_KERNEL(attention_kept_bf16_128)
{
    FT_FASTEST(attend, bf16, 128);
}
FT_PAIRED_KERNEL(attention_kept_f16_64)
{
    FT_FASTEST(attend, f16, 64);
}
