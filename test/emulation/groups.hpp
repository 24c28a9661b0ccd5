/* test/emulation/groups.hpp - kernels/groups.h on the host: each warp computes its 16 rows of a
 * group's product by the products of fragments.h, of which it reads operands where the PTX ISA lays
 * out tiles of rows of 128 bytes. */
#ifndef FT_EMULATED_GROUPS_H
#define FT_EMULATED_GROUPS_H

struct ft_tile {
    uintptr_t at;
};
FT_INLINE ft_tile ft_tile_of(const void *first)
{
    if ((uintptr_t)first % 1024) abort(); /* pieces would be elsewhere */
    return {(uintptr_t)first};
}
FT_INLINE ft_tile ft_further(ft_tile x, int bytes)
{
    return {x.at + (uintptr_t)bytes};
}

FT_INLINE void ft_group_begins()
{
}
FT_INLINE void ft_group_hands_over()
{
}
template <int LATER> FT_INLINE void ft_group_waits()
{
}
FT_INLINE void ft_group_sees()
{
}
FT_INLINE void ft_pin(float &)
{
}
FT_INLINE void ft_pin(uint32_t &)
{
}

/* A number of a row: its address, with bits 7 to 9 added to bits 4 to 6 without carry. */
FT_INLINE uint32_t emu_in_tile(const ft_tile &x, int row, int number)
{
    uintptr_t at = x.at + (uintptr_t)(row * FT_TILE_ROW + 2 * number);
    return *(const uint16_t *)(at ^ (at >> 7 & 7) << 4);
}

template <bool F16, int N, int ACROSS>
FT_INLINE void ft_multiply_tile(float (*c)[4], const uint32_t x[4], ft_tile tile)
{
    int g = ft_lane() / 4, t = ft_lane() % 4;
    for (int n = 0; n < N / 8; n++) {
        uint32_t b[2];
        for (int pair = 0; pair < 2; pair++) {
            int k = 8 * pair + 2 * t, of = 8 * n + g;
            b[pair] = ACROSS ? emu_in_tile(tile, k, of) | emu_in_tile(tile, k + 1, of) << 16
                             : emu_in_tile(tile, of, k) | emu_in_tile(tile, of, k + 1) << 16;
        }
        if constexpr (F16)
            ft_f16::multiply(c[n], x, b);
        else
            ft_bf16::multiply(c[n], x, b);
    }
}

template <bool F16, int N, int ACROSS>
FT_INLINE void ft_multiply_tiles(float (*c)[4], ft_tile x, ft_tile tile)
{
    int row = ft_warp() % 4 * 16 + ft_lane() / 4, t = ft_lane() % 4;
    uint32_t a[4];
    for (int i = 0; i < 4; i++) {
        int k = i / 2 * 8 + 2 * t, of = row + i % 2 * 8;
        a[i] = emu_in_tile(x, of, k) | emu_in_tile(x, of, k + 1) << 16;
    }
    ft_multiply_tile<F16, N, ACROSS>(c, a, tile);
}

#endif
