/* ops/simd/random.c - dropout: bits from Philox4x32-10, and what is done with them.
 *
 * A block of Philox makes the 16-bit draws of 8 elements (ops.h, ft_dropout_keeps). Blocks run side
 * by side, two numbers of the block in one 64-bit lane: the product of a round is then 64 bits wide
 * where it is needed, and no lane is idle. After the rounds the lanes hold the draws in the order
 * of the elements, given the right order of blocks in the lanes. */
#include "base/vec.h"
#include "ops/simd/simd.h"

enum {
    WIDE = FT_LANES / 2,   /* 64-bit lanes: blocks in a vector */
    HALVES = FT_LANES * 2, /* 16-bit draws in a vector */
    PAIR = 2 * HALVES,     /* elements of one step: two vectors of draws */
    N_STEPS = 64 / PAIR    /* steps that fill a word of 64 bits */
};

typedef uint64_t vw __attribute__((vector_size(FT_LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(FT_LANES * 4)));

/* Products of the low halves of the lanes with m, 64 bits each. */
static inline vw mul_low(vw x, uint64_t m)
{
    vw factor = m - (vw){0};
#if defined(__AVX512F__)
    return (vw)_mm512_mul_epu32((__m512i)x, (__m512i)factor);
#elif defined(__AVX2__)
    return (vw)_mm256_mul_epu32((__m256i)x, (__m256i)factor);
#elif defined(__x86_64__)
    return (vw)_mm_mul_epu32((__m128i)x, (__m128i)factor);
#else
    return (x & 0xffffffffu) * factor;
#endif
}

/* What a sample's blocks have in common. */
typedef struct stream {
    uint64_t keys[20]; /* two of each round */
    uint64_t last;     /* counter words 2 and 3 */
    uint32_t threshold;
} stream;

static inline void stream_init(stream *s, const ft_dropout_draw *draw)
{
    uint32_t k0 = draw->key[0], k1 = draw->key[1];
    for (int i = 0; i < 10; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        s->keys[2 * i] = k0;
        s->keys[2 * i + 1] = k1;
    }
    s->last = (uint64_t)0x44524F50u << 32 | draw->sample;
    s->threshold = draw->threshold;
}

/* Ten rounds. Lanes of *a: counter words 0 (low) and 1; of *b: 2 (low) and 3. */
static inline void rounds(vw *a, vw *b, const uint64_t keys[20])
{
    for (int i = 0; i < 20; i += 2) {
        vw p = mul_low(*a, 0xD2511F53u), q = mul_low(*b, 0xCD9E8D57u);
        /* word 0: high(q) ^ word 1 ^ key, word 1: low(q); likewise 2 and 3 from p */
        vw next_a = ((q >> 32) | (q << 32)) ^ (*a >> 32) ^ keys[i];
        vw next_b = ((p >> 32) | (p << 32)) ^ (*b >> 32) ^ keys[i + 1];
        *a = next_a;
        *b = next_b;
    }
}

/* Bit i is set where draw i is at least the threshold. */
static inline uint32_t at_least(vw draws, uint32_t threshold)
{
    vh x = (vh)draws, limit = (uint16_t)threshold - (vh){0};
#if defined(__AVX512BW__)
    return _mm512_cmpge_epu16_mask((__m512i)x, (__m512i)limit);
#elif defined(__AVX2__)
    __m256i yes = (__m256i)(x >= limit);
    __m256i bytes = _mm256_packs_epi16(yes, _mm256_setzero_si256()); /* 0 .. 7, -, 8 .. 15, - */
    uint32_t bits = (uint32_t)_mm256_movemask_epi8(bytes);
    return (bits & 0xff) | (bits >> 8 & 0xff00);
#elif defined(__x86_64__)
    __m128i yes = (__m128i)(x >= limit);
    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(yes, _mm_setzero_si128()));
#else
    uint32_t bits = 0;
    for (int i = 0; i < HALVES; i++) bits |= (uint32_t)(x[i] >= limit[i]) << i;
    return bits;
#endif
}

/* Pairs words 0..1 and 2..3 of the even blocks of the lanes, then of the odd ones. */
static inline void interleave(vw a, vw b, vw *even, vw *odd)
{
#if defined(__AVX512F__)
    *even = (vw)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
    *odd = (vw)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    *even = (vw)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
    *odd = (vw)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
#else
    for (int i = 0; i < WIDE; i += 2) {
        (*even)[i] = a[i];
        (*even)[i + 1] = b[i];
        (*odd)[i] = a[i + 1];
        (*odd)[i + 1] = b[i + 1];
    }
#endif
}

/* Keep bits of the PAIR elements that begin at block `first`. */
static inline uint64_t step(const stream *s, uint64_t first)
{
    vw block;
    for (int i = 0; i < WIDE; i++) block[i] = (uint64_t)(i / 2 + i % 2 * (WIDE / 2));
    vw a = block + first, b = s->last - (vw){0}, even, odd;
    rounds(&a, &b, s->keys);
    interleave(a, b, &even, &odd);
    uint64_t low = at_least(even, s->threshold), high = at_least(odd, s->threshold);
    return low | high << HALVES;
}

/* 64 elements from block `first` on. */
static inline uint64_t word(const stream *s, uint64_t first)
{
    uint64_t bits = 0;
    for (int i = 0; i < N_STEPS; i++)
        bits |= step(s, first + (uint64_t)i * (PAIR / 8)) << (i * PAIR & 63);
    return bits;
}

static void keep_bits(uint64_t *bits, const ft_dropout_draw *draw, uint64_t start, int64_t n)
{
    stream s;
    stream_init(&s, draw);
    int64_t n_words = (n + 63) / 64;
    uint64_t block = start / 8;
    int shift = (int)(start % 8);
    for (int64_t i = 0; i < n_words; i++) bits[i] = word(&s, block + (uint64_t)i * 8);
    if (!shift || !n_words) return;
    for (int64_t i = 0; i + 1 < n_words; i++)
        bits[i] = bits[i] >> shift | bits[i + 1] << (64 - shift);
    uint64_t beyond = word(&s, block + (uint64_t)n_words * 8);
    bits[n_words - 1] = bits[n_words - 1] >> shift | beyond << (64 - shift);
}

static inline uint32_t bits_at(const uint64_t *bits, int64_t i)
{
    return (uint32_t)(bits[i / 64] >> (i % 64));
}

static void apply(float *y, const float *x, const float *residual, const uint64_t *bits,
                  float scale, int64_t n)
{
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) {
        vf kept = vf_keep(bits_at(bits, i), vf_load(x + i) * scale);
        vf_store(y + i, residual ? vf_load(residual + i) + kept : kept);
    }
    for (; i < n; i++) {
        float kept = bits_at(bits, i) & 1 ? x[i] * scale : 0.0f;
        y[i] = residual ? residual[i] + kept : kept;
    }
}

static void apply_relu(float *y, const float *x, const uint64_t *bits, float scale, int64_t n)
{
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) {
        vf v = vf_load(x + i);
        v = vf_select(v < 0.0f, vf_set(0.0f), v);
        vf_store(y + i, vf_keep(bits_at(bits, i), v * scale));
    }
    for (; i < n; i++) y[i] = (bits_at(bits, i) & 1) && !(x[i] < 0.0f) ? x[i] * scale : 0.0f;
}

static void relu_grad(float *dx, const float *dy, const float *y, float scale, int64_t n)
{
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES)
        vf_store(dx + i, vf_select(vf_load(y + i) > 0.0f, vf_load(dy + i) * scale, vf_set(0.0f)));
    for (; i < n; i++) dx[i] = y[i] > 0.0f ? dy[i] * scale : 0.0f;
}

const ft_simd_random FT_ISA_NAME(ft_simd_random) = {
    .keep_bits = keep_bits,
    .apply = apply,
    .apply_relu = apply_relu,
    .relu_grad = relu_grad,
};
