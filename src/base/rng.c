/* base/rng.c - Philox4x32-10 and what is drawn from it. */
#include "base/rng.h"

#include <math.h>

/* Multipliers and Weyl increments of Philox4x32, table 2 of the paper. */
#define M0 0xD2511F53u
#define M1 0xCD9E8D57u
#define W0 0x9E3779B9u
#define W1 0xBB67AE85u

void ft_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) { /* in registers: an array would stay in memory */
        uint64_t a = (uint64_t)M0 * c0, b = (uint64_t)M1 * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += W0;
        k1 += W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void ft_rng_init(ft_rng *rng, uint64_t seed, uint64_t stream)
{
    *rng = (ft_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                    .counter = {0, 0, (uint32_t)stream, (uint32_t)(stream >> 32)},
                    .used = 4};
}

uint32_t ft_rng_u32(ft_rng *rng)
{
    if (rng->used == 4) {
        ft_philox(rng->key, rng->counter, rng->block);
        if (++rng->counter[0] == 0) rng->counter[1]++;
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

void ft_rng_skip(ft_rng *rng, uint64_t words)
{
    for (; words > 0 && rng->used < 4; words--) rng->used++;
    uint64_t blocks = ((uint64_t)rng->counter[1] << 32 | rng->counter[0]) + words / 4;
    rng->counter[0] = (uint32_t)blocks;
    rng->counter[1] = (uint32_t)(blocks >> 32);
    for (words %= 4; words > 0; words--) (void)ft_rng_u32(rng);
}

static uint64_t next_u64(ft_rng *rng)
{
    uint64_t high = ft_rng_u32(rng);
    return high << 32 | ft_rng_u32(rng);
}

uint64_t ft_rng_below(ft_rng *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* draws at or above it would favour low values */
    uint64_t x = next_u64(rng);
    while (x >= limit) x = next_u64(rng);
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
