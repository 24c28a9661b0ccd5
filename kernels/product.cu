/* kernels/product.cu - matrix products on the ordinary cores: tiles of 64 x 64, 16 of the sum at a
 * time; a thread has 4 x 4 numbers. The order of a sum follows from K alone. */
#include "kernel.h"

enum { TILE = FT_CUDA_TILE, DEPTH = 16, PITCH = TILE + 4, MINE = 4 };

union bits {
    float f;
    uint32_t u;
};

/* To the nearest bf16, ties to even; nan stays. */
FT_INLINE float as_bf16(float x)
{
    bits y = {x};
    if (x != x) return x;
    y.u += 0x7fffu + (y.u >> 16 & 1);
    y.u &= 0xffff0000u;
    return y.f;
}

FT_KERNEL(to_bf16)
{
    FT_EACH(i, a.n)
    {
        bits y = {as_bf16(a.x[i])};
        a.y[i] = (uint16_t)(y.u >> 16 | (a.x[i] != a.x[i] ? 0x40 : 0)); /* nan has a bit left */
    }
}

/* To 10 bits of fraction, likewise. */
FT_INLINE float as_tf32(float x)
{
    bits y = {x};
    if (x != x) return x;
    y.u += 0xfffu + (y.u >> 13 & 1);
    y.u &= 0xffffe000u;
    return y.f;
}

/* A matrix (rows, K), or by_k (K, rows), from row `first` on. */
struct strip {
    const float *matrix;
    const uint16_t *bf16_matrix; /* NULL, or the same: the other is not read */
    int64_t first, rows, K;
    bool by_k, bf16, tf32;
};

/* Puts 64 rows of it, 16 of K from k0 on, into tile[k][row]; zeros outside. */
FT_INLINE void load_tile(float *tile, const strip &s, int64_t k0)
{
    for (int e = (int)threadIdx.x; e < TILE * DEPTH; e += (int)blockDim.x) {
        int row = s.by_k ? e % TILE : e / DEPTH, k = s.by_k ? e / TILE : e % DEPTH;
        int64_t at = s.first + row, from = k0 + k;
        float x = 0.0f;
        if (at < s.rows && from < s.K) {
            int64_t i = s.by_k ? from * s.rows + at : at * s.K + from;
            bits y = {0};
            if (s.bf16_matrix) y.u = (uint32_t)s.bf16_matrix[i] << 16;
            x = s.bf16_matrix ? y.f : s.matrix[i];
        }
        tile[k * PITCH + row] = s.bf16 ? as_bf16(x) : s.tf32 ? as_tf32(x) : x;
    }
}

FT_ROOMY_KERNEL(product)
{
    FT_SHARED(float, left, DEPTH *PITCH);
    FT_SHARED(float, right, DEPTH *PITCH);
    int64_t m0 = (int64_t)blockIdx.y * TILE, n0 = (int64_t)blockIdx.x * TILE;
    int64_t batch = blockIdx.z;
    strip A = {a.a + batch * a.M * a.K, NULL, m0, a.M, a.K, a.transpose_a != 0, a.bf16 != 0, a.tf32 != 0};
    strip B = {a.b + batch * a.K * a.N, a.b_bf16, n0, a.N, a.K, a.transpose_b == 0, a.bf16 != 0, a.tf32 != 0};
    float *C = a.c + batch * a.M * a.N;
    int row = (int)threadIdx.x / 16 * MINE, column = (int)threadIdx.x % 16 * MINE;
    float sums[MINE][MINE] = {{0}};
    for (int64_t k0 = 0; k0 < a.K; k0 += DEPTH) {
        load_tile(left, A, k0);
        load_tile(right, B, k0);
        FT_BLOCK_BARRIER();
        for (int k = 0; k < DEPTH; k++)
            for (int i = 0; i < MINE; i++)
                for (int j = 0; j < MINE; j++)
                    sums[i][j] += left[k * PITCH + row + i] * right[k * PITCH + column + j];
        FT_BLOCK_BARRIER();
    }
    for (int i = 0; i < MINE; i++)
        for (int j = 0; j < MINE; j++) {
            int64_t m = m0 + row + i, n = n0 + column + j;
            if (m >= a.M || n >= a.N) continue;
            float sum = sums[i][j] + (a.bias ? a.bias[n] : 0.0f);
            if (a.relu && sum < 0.0f) sum = 0.0f;
            C[m * a.N + n] = a.add ? C[m * a.N + n] + sum : sum;
        }
}
