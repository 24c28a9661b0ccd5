/* kernels/product.cu - matrix products on the ordinary cores: tiles of 64 x 64, 16 of the sum at a
 * time; a thread has 4 x 4 numbers. The order of a sum follows from K alone. */
#include "numbers.h"

enum { TILE = FT_CUDA_TILE, DEPTH = 16, PITCH = TILE + 4, MINE = 4 };

FT_KERNEL(to_half)
{
    const ft_numbers y = {a.y, a.rounding};
    FT_EACH_FOUR(i, a.n) ft_write_four(y, i, a.n, ft_read_four(ft_f32(a.x), i, a.n));
}

FT_KERNEL(clear_gaps)
{
    int64_t gap = a.pitch - a.width;
    FT_EACH(i, a.rows * gap) ft_write(a.x, i / gap * a.pitch + a.width + i % gap, 0.0f);
}

/* A matrix (rows, K), or by_k (K, rows), from row `first` on; its own rows are `pitch` apart. */
struct strip {
    ft_numbers matrix;
    int64_t first, rows, K, pitch;
    bool by_k;
    int rounding;
};

FT_INLINE float number_of(const strip &s, int64_t i)
{
    float x = ft_read(s.matrix, i);
    return s.rounding == FT_CUDA_F16    ? ft_from_f16(ft_to_f16(x))
           : s.rounding == FT_CUDA_BF16 ? ft_as_bf16(x)
           : s.rounding == FT_CUDA_TF32 ? ft_as_tf32(x)
                                        : x;
}

/* Puts 64 rows of it, 16 of K from k0 on, into tile[k][row]; zeros outside. */
FT_INLINE void load_tile(float *tile, const strip &s, int64_t k0)
{
    for (int e = (int)threadIdx.x; e < TILE * DEPTH; e += (int)blockDim.x) {
        int row = s.by_k ? e % TILE : e / DEPTH, k = s.by_k ? e / TILE : e % DEPTH;
        int64_t at = s.first + row, from = k0 + k;
        bool inside = at < s.rows && from < s.K;
        int64_t i = s.by_k ? from * s.pitch + at : at * s.pitch + from;
        tile[k * PITCH + row] = inside ? number_of(s, i) : 0.0f;
    }
}

FT_ROOMY_KERNEL(product)
{
    FT_SHARED(float, left, DEPTH *PITCH);
    FT_SHARED(float, right, DEPTH *PITCH);
    int64_t m0 = (int64_t)blockIdx.y * TILE, n0 = (int64_t)blockIdx.x * TILE;
    int64_t batch = blockIdx.z;
    const ft_numbers C = ft_from(a.c, batch * a.M * a.N);
    int64_t pitch_b = a.transpose_b ? a.K : a.N;
    strip A = {ft_from(a.a, batch * a.M * a.K), m0, a.M, a.K, a.pitch_a, a.transpose_a != 0,
               a.rounding};
    strip B = {ft_from(a.b, batch * a.K * a.N), n0, a.N, a.K, pitch_b, a.transpose_b == 0,
               a.rounding};
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
            float sum = sums[i][j] + (a.bias ? ((const float *)a.bias)[n] : 0.0f);
            if (a.relu && sum < 0.0f) sum = 0.0f;
            int64_t at = m * a.pitch_c + n;
            ft_write(C, at, a.add ? ft_read(C, at) + sum : sum);
        }
}
