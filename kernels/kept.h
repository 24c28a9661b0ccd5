/* kernels/kept.h - kinds of numbers (fragments.h) and what they are in memory: rounded<kind> is f32
 * there, kept<kind> is of 16 bits, and so is grouped<kind>, which four warps multiply together.
 * `memory` is one of them, `four` are four as they are loaded; TOGETHER are the rows of the warps
 * that do everything at once. */
#ifndef FT_KEPT_H
#define FT_KEPT_H

#include "groups.h"

template <typename kind> struct alignas(2 * sizeof(typename kind::two)) two_pairs {
    typename kind::two x[2];
};

/* Two rounded numbers of which some are zeros, where a half of the mask is. */
FT_INLINE uint32_t ft_masked(uint32_t mask, uint32_t two)
{
    return mask & two;
}
FT_INLINE ft_two ft_masked(uint32_t mask, const ft_two &two)
{
    return {{mask & 1 ? two.x[0] : 0.0f, mask >> 16 ? two.x[1] : 0.0f}};
}

/* Numbers that are f32 in memory: `four` of them are rounded when they are needed. */
template <typename kind> struct rounded : kind {
    enum { AS_READ = 0, GROUPED = 0, TOGETHER = FT_CUDA_TOGETHER };
    typedef typename kind::two two;
    typedef float memory;
    typedef ft_four four;
    FT_INLINE two_pairs<kind> pairs(const ft_four &x)
    {
        return {{kind::pair(x.x[0], x.x[1]), kind::pair(x.x[2], x.x[3])}};
    }
    FT_INLINE two get_two(const float *x)
    {
        const ft_two y = *(const ft_two *)x;
        return kind::pair(y.x[0], y.x[1]);
    }
    FT_INLINE void put_two(float *to, float x, float y)
    {
        const ft_two z = {{x, y}};
        *(ft_two *)to = z;
    }
};

/* Numbers that are in memory as products read them, in 16 bits. */
template <typename kind> struct kept : kind {
    enum { AS_READ = 1, GROUPED = 0, TOGETHER = FT_CUDA_TOGETHER };
    typedef uint16_t memory;
    typedef two_pairs<kind> four;
    FT_INLINE two_pairs<kind> pairs(const two_pairs<kind> &x)
    {
        return x;
    }
    FT_INLINE uint32_t get_two(const uint16_t *x)
    {
        return *(const uint32_t *)x;
    }
    FT_INLINE void put_two(uint16_t *to, float x, float y)
    {
        *(uint32_t *)to = kind::pair(x, y);
    }
};

/* The same, for products of groups (groups.h). */
template <typename kind> struct grouped : kept<kind> {
    enum { GROUPED = 1, TOGETHER = FT_GROUP_ROWS };
};

typedef rounded<ft_bf16> rounded_bf16;
typedef rounded<ft_f16> rounded_f16;
typedef rounded<ft_tf32> rounded_tf32;
typedef kept<ft_bf16> kept_bf16;
typedef kept<ft_f16> kept_f16;
typedef grouped<ft_bf16> grouped_bf16;
typedef grouped<ft_f16> grouped_f16;

/* Does `what` for the kind of 16 bits that the card multiplies fastest, of those that begin with
 * kept_ and grouped_. */
#if defined __CUDA_ARCH_FEAT_SM90_ALL
#define FT_FASTEST(what, number, ...) what<grouped_##number, __VA_ARGS__>(a)
#elif defined __CUDACC__
#define FT_FASTEST(what, number, ...) what<kept_##number, __VA_ARGS__>(a)
#else
#define FT_FASTEST(what, number, ...)                                                              \
    (emu_capability() == 90 ? what<grouped_##number, __VA_ARGS__>(a)                               \
                            : what<kept_##number, __VA_ARGS__>(a))
#endif

#endif
