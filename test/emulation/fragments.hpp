/* test/emulation/fragments.hpp - kernels/fragments.h on the host: the lanes of a warp show each
 * other what they hold, and each computes its part from that, by the layouts of the PTX ISA. */
#ifndef FT_EMULATED_FRAGMENTS_H
#define FT_EMULATED_FRAGMENTS_H

/* A number of a matrix, of whose rows lanes showed the addresses. */
FT_INLINE uint32_t emu_number(const emu_words *lanes, int matrix, int row, int column)
{
    const uint32_t *shown = lanes[8 * matrix + row].x;
    return ((const uint16_t *)((uintptr_t)shown[0] | (uintptr_t)shown[1] << 32))[column];
}

typedef uintptr_t ft_shared_at;
FT_INLINE ft_shared_at ft_at(const void *x)
{
    return (uintptr_t)x;
}

FT_INLINE void emu_load(uint32_t x[4], ft_shared_at row, bool transposed)
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const uint32_t mine[2] = {(uint32_t)row, (uint32_t)(row >> 32)};
    const emu_words *lanes = emu_show(mine, 2);
    if (row % 16) abort(); /* a card refuses it */
    for (int m = 0; m < 4; m++) {
        uint32_t y[2];
        for (int i = 0; i < 2; i++)
            y[i] = transposed ? emu_number(lanes, m, 2 * t + i, g)
                              : emu_number(lanes, m, g, 2 * t + i);
        x[m] = y[0] | y[1] << 16;
    }
    emu_barrier(true); /* before anyone writes there, or shows something else */
}

FT_INLINE float ft_exp2(float x)
{
    return exp2f(x);
}

FT_INLINE uint32_t ft_spread_bits(uint32_t bits, int n)
{
    uint32_t first = bits >> (8 * n) & 1, second = bits >> (8 * n + 1) & 1;
    return (first ? 0xffffu : 0) | (second ? 0xffff0000u : 0);
}

FT_INLINE void ft_load_matrices(uint32_t x[4], ft_shared_at row)
{
    emu_load(x, row, false);
}
FT_INLINE void ft_load_transposed(uint32_t x[4], ft_shared_at row)
{
    emu_load(x, row, true);
}

/* Number k of a row of a, or of a column of b, of 16: of which lane, word and half. */
FT_INLINE uint32_t emu_of_a(const emu_words *lanes, int row, int k)
{
    return lanes[row % 8 * 4 + k % 8 / 2].x[row / 8 + k / 8 * 2] >> 16 * (k % 2) & 0xffff;
}
FT_INLINE uint32_t emu_of_b(const emu_words *lanes, int k, int column)
{
    return lanes[column * 4 + k % 8 / 2].x[4 + k / 8] >> 16 * (k % 2) & 0xffff;
}

/* m16n8k16, and m16n8k8 for one half of the numbers after the other. */
template <float (*value)(uint32_t half)>
FT_INLINE void emu_multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const emu_words *lanes = emu_show(mine, 6);
    for (int e = 0; e < 4; e++)
        for (int k = 0; k < 16; k++)
            c[e] += value(emu_of_a(lanes, g + e / 2 * 8, k)) *
                    value(emu_of_b(lanes, k, 2 * t + e % 2));
    emu_barrier(true);
}

/* m16n8k8 of tf32. A card does not look at bits that tf32 lacks; here they are zeros. */
FT_INLINE void ft_multiply_tf32(float c[4], const float a[4], const float b[2])
{
    int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    uint32_t mine[6];
    for (int i = 0; i < 6; i++) {
        const ft_bits bits = {i < 4 ? a[i] : b[i - 4]};
        mine[i] = bits.u & 0xffffe000u;
    }
    const emu_words *lanes = emu_show(mine, 6);
    for (int e = 0; e < 4; e++)
        for (int k = 0; k < 8; k++) {
            int column = 2 * t + e % 2;
            ft_bits x, y;
            x.u = lanes[g * 4 + k % 4].x[e / 2 + k / 4 * 2];
            y.u = lanes[column * 4 + k % 4].x[4 + k / 4];
            c[e] += x.f * y.f;
        }
    emu_barrier(true);
}
FT_INLINE float ft_round_tf32(float x)
{
    return ft_as_tf32(x);
}

struct ft_f16 {
    enum { IS_F16 = 1 };
    typedef uint16_t number;
    typedef uint32_t two;
    FT_INLINE uint32_t pair(float first, float second)
    {
        return ft_to_f16(first) | ft_to_f16(second) << 16;
    }
    FT_INLINE void multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
        emu_multiply<ft_from_f16>(c, a, b);
    }
};

struct ft_bf16 {
    enum { IS_F16 = 0 };
    typedef uint16_t number;
    typedef uint32_t two;
    FT_INLINE uint32_t pair(float first, float second)
    {
        return ft_to_bf16(first) | ft_to_bf16(second) << 16;
    }
    FT_INLINE void multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
        emu_multiply<ft_from_bf16>(c, a, b);
    }
};

#endif
