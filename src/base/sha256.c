/* base/sha256.c - SHA-256, as FIPS 180-4 section 6.2 describes it.
 *
 * Used as the name of cached data: two inputs with one digest are not to be expected. */
#include "base/sha256.h"

#include <string.h>

enum { BLOCK = 64, ROUNDS = 64 };

/* Section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first primes.
 */
static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* Section 6.2.2 steps 1 and 2: the message schedule and the working variables of one block. */
static void add_block(uint32_t hash[8], const uint8_t *block)
{
    uint32_t w[ROUNDS], v[8];
    for (int t = 0; t < 16; t++) {
        const uint8_t *p = block + 4 * t;
        w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (int t = 16; t < ROUNDS; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    memcpy(v, hash, sizeof v);
    /* Working variable i of round t is v[(i - t) % 8], so that none of them moves. */
    for (int t = 0; t < ROUNDS; t += 8) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            uint32_t a = v[(8 - j) & 7], b = v[(9 - j) & 7], c = v[(10 - j) & 7];
            uint32_t e = v[(12 - j) & 7], f = v[(13 - j) & 7], g = v[(14 - j) & 7];
            uint32_t t1 = v[(15 - j) & 7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                          ((e & f) ^ (~e & g)) + constants[t + j] + w[t + j];
            v[(11 - j) & 7] += t1;
            v[(15 - j) & 7] =
                t1 + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        }
    }
    for (int i = 0; i < 8; i++) hash[i] += v[i];
}

/* Section 5.1.1: a one bit, zeros, and the length in bits, in one block or two. */
static void add_end(uint32_t hash[8], const uint8_t *rest, int n, uint64_t size_bytes)
{
    uint8_t last[2 * BLOCK] = {0};
    int blocks = n + 9 > BLOCK ? 2 : 1;
    memcpy(last, rest, (size_t)n);
    last[n] = 0x80;
    for (int i = 0; i < 8; i++) last[blocks * BLOCK - 1 - i] = (uint8_t)(size_bytes * 8 >> (8 * i));
    for (int b = 0; b < blocks; b++) add_block(hash, last + b * BLOCK);
}

void ft_sha256(const void *bytes, int64_t size, uint8_t digest[FT_SHA256_BYTES])
{
    /* Section 5.3.3: the same of the square roots of the first eight primes. */
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *at = bytes;
    int64_t left = size;
    for (; left >= BLOCK; left -= BLOCK, at += BLOCK) add_block(hash, at);
    add_end(hash, at, (int)left, (uint64_t)size);
    for (int i = 0; i < FT_SHA256_BYTES; i++)
        digest[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}
