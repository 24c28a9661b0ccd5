/* kernels/kept.h - kinds of numbers (fragments.h) and what they are in memory: rounded<kind> is f32
 * there, kept<kind> is of 16 bits. `memory` is one of them, `four` are four as they are loaded. */
#ifndef FT_KEPT_H
#define FT_KEPT_H

#include "fragments.h"

template <typename kind> struct alignas(2 * sizeof(typename kind::two)) two_pairs {
    typename kind::two x[2];
};

/* Numbers that are f32 in memory: `four` of them are rounded when they are needed. */
template <typename kind> struct rounded : kind {
    enum { AS_READ = 0 };
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
    enum { AS_READ = 1 };
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

typedef rounded<ft_bf16> rounded_bf16;
typedef rounded<ft_f16> rounded_f16;
typedef rounded<ft_tf32> rounded_tf32;
typedef kept<ft_bf16> kept_bf16;
typedef kept<ft_f16> kept_f16;

#endif
