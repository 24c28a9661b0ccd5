/* base/rng.h - counter-based random numbers.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011): a pure function of key and counter, so that a value depends on what it is for and
 * never on who asks first. */
#ifndef FT_BASE_RNG_H
#define FT_BASE_RNG_H

#include <stdint.h>

/* What a stream of random numbers is for: nothing else enters it. */
typedef struct ft_rng_key {
    uint64_t seed;
    uint32_t step;   /* optimizer step */
    uint32_t node;   /* graph node that draws */
    uint32_t sample; /* index of the first sample of the micro-batch in the global batch */
} ft_rng_key;

/* Ten rounds of Philox4x32 of `counter` under `key`, into out. */
void ft_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

enum { FT_RNG_BLOCKS = 4 }; /* drawn at a time, in under half of the time of one by one */

/* A sequential generator over one key, for shuffles, initial weights and tests. */
typedef struct ft_rng {
    uint32_t key[2];
    uint32_t counter[4]; /* of the first block that is not drawn */
    uint32_t words[4 * FT_RNG_BLOCKS];
    int used; /* of `words`; all of them when none is left */
} ft_rng;

/* Starts the sequence of (seed, stream). */
void ft_rng_init(ft_rng *rng, uint64_t seed, uint64_t stream);
/* Passes over so many words of 32 bits, as if they had been drawn. */
void ft_rng_skip(ft_rng *rng, uint64_t words);
/* The next 32 bits. */
uint32_t ft_rng_u32(ft_rng *rng);
/* Uniform in [0, n), without bias; n > 0. */
uint64_t ft_rng_below(ft_rng *rng, uint64_t n);
/* Uniform in [0, 1), 53 bits. */
double ft_rng_uniform(ft_rng *rng);
/* Standard normal (Box and Muller, one value a call). */
double ft_rng_normal(ft_rng *rng);

#endif
