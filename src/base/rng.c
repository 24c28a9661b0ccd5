/* base/rng.c - Philox4x32-10 and what is drawn from it. */
#include "base/rng.h"

#include <math.h>

/* Multipliers and Weyl increments of Philox4x32, table 2 of the paper. */
#define M0 0xD2511F53u
#define M1 0xCD9E8D57u
#define W0 0x9E3779B9u
#define W1 0xBB67AE85u

/* Ten rounds of n blocks side by side, word by word of each: a round waits for the one before it,
 * blocks do not wait for each other. Inlined, so that n is a constant. */
static inline __attribute__((always_inline)) void
rounds(const uint32_t key[2], uint32_t c0[], uint32_t c1[], uint32_t c2[], uint32_t c3[], int n)
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < n; i++) {
            uint64_t a = (uint64_t)M0 * c0[i], b = (uint64_t)M1 * c2[i];
            c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)b;
            c3[i] = (uint32_t)a;
        }
        k0 += W0;
        k1 += W1;
    }
}

void ft_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    rounds(key, &c[0], &c[1], &c[2], &c[3], 1);
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

/* The next blocks of a sequence. */
static void draw_blocks(ft_rng *rng)
{
    uint32_t c[4][FT_RNG_BLOCKS];
    uint64_t next = (uint64_t)rng->counter[1] << 32 | rng->counter[0];
    for (int i = 0; i < FT_RNG_BLOCKS; i++, next++) {
        c[0][i] = (uint32_t)next;
        c[1][i] = (uint32_t)(next >> 32);
        c[2][i] = rng->counter[2];
        c[3][i] = rng->counter[3];
    }
    rounds(rng->key, c[0], c[1], c[2], c[3], FT_RNG_BLOCKS);
    for (int i = 0; i < FT_RNG_BLOCKS; i++)
        for (int w = 0; w < 4; w++) rng->words[4 * i + w] = c[w][i];
    rng->counter[0] = (uint32_t)next;
    rng->counter[1] = (uint32_t)(next >> 32);
    rng->used = 0;
}

void ft_rng_init(ft_rng *rng, uint64_t seed, uint64_t stream)
{
    *rng = (ft_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                    .counter = {0, 0, (uint32_t)stream, (uint32_t)(stream >> 32)},
                    .used = 4 * FT_RNG_BLOCKS};
}

uint32_t ft_rng_u32(ft_rng *rng)
{
    if (rng->used == 4 * FT_RNG_BLOCKS) draw_blocks(rng);
    return rng->words[rng->used++];
}

void ft_rng_skip(ft_rng *rng, uint64_t words)
{
    uint64_t left = (uint64_t)(4 * FT_RNG_BLOCKS - rng->used);
    if (words <= left) {
        rng->used += (int)words;
        return;
    }
    words -= left;
    uint64_t blocks = ((uint64_t)rng->counter[1] << 32 | rng->counter[0]) + words / 4;
    rng->counter[0] = (uint32_t)blocks;
    rng->counter[1] = (uint32_t)(blocks >> 32);
    draw_blocks(rng);
    rng->used = (int)(words % 4);
}

static uint64_t next_u64(ft_rng *rng)
{
    uint64_t high = ft_rng_u32(rng);
    return high << 32 | ft_rng_u32(rng);
}

uint64_t ft_rng_below(ft_rng *rng, uint64_t n)
{
    uint64_t x = next_u64(rng);
    /* draws from the last multiple of n on would favour low values; few need the division */
    while (x > UINT64_MAX - n && x >= UINT64_MAX - UINT64_MAX % n) x = next_u64(rng);
    return x % n;
}

double ft_rng_uniform(ft_rng *rng)
{
    return (double)(next_u64(rng) >> 11) * 0x1p-53;
}

double ft_rng_normal(ft_rng *rng)
{
    double radius = sqrt(-2.0 * log(1.0 - ft_rng_uniform(rng)));
    return radius * cos(6.283185307179586 * ft_rng_uniform(rng));
}
