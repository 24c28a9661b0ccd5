/* ops/simd/simd.h - the vector kernels: plain pointers and sizes, no views and no threads.
 *
 * Every file of this folder is compiled once per instruction set and exports const tables of
 * functions whose names end in that set's; ft_simd_get picks the tables for this CPU. A family
 * (`ft_simd_math`, ...) is one file. Rows are contiguous and may have any length; outputs may be
 * the same memory as inputs of the same shape unless it is said otherwise. */
#ifndef FT_OPS_SIMD_SIMD_H
#define FT_OPS_SIMD_SIMD_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/maps.h"

/* y[i] = f(x[i]) and y[i] = f(a[i], b[i]). */
typedef void (*ft_map1)(float *y, const float *x, int64_t n);
typedef void (*ft_map2)(float *y, const float *a, const float *b, int64_t n);

#define FT_MAP_NUMBER(row, number, ...) FT_MAP_##number,
typedef enum { FT_MAP1_LIST(FT_MAP_NUMBER) FT_MAP1_COUNT } ft_map1_kind;

typedef enum {
    FT_MAP_ADD,
    FT_MAP_SUB,
    FT_MAP_MUL,
    FT_MAP_DIV,
    FT_MAP_GATED_GELU, /* gelu(a) * b */
    FT_MAP2_LIST(FT_MAP_NUMBER) FT_MAP2_COUNT
} ft_map2_kind;
#undef FT_MAP_NUMBER

typedef struct ft_simd_math {
    ft_map1 map1[FT_MAP1_COUNT];
    ft_map2 map2[FT_MAP2_COUNT];
    ft_map2 scalar_right[4]; /* ADD, SUB, MUL, DIV with one number b[0] */
    /* y[i] = factor * x[i] */
    void (*scale)(float *y, const float *x, float factor, int64_t n);
    /* gradients of gelu(a) * b */
    void (*gated_gelu_grad)(float *da, float *db, const float *dy, const float *a, const float *b,
                            int64_t n);
    /* Sum in f32 with several accumulators in a fixed order; largest (NaN if there is one). n > 0
     * for `largest`. */
    float (*sum)(const float *x, int64_t n);
    /* total[i] += x[i] */
    void (*add_to)(double *total, const float *x, int64_t n);
    float (*largest)(const float *x, int64_t n);
    /* Whether no number is infinite or NaN. */
    bool (*finite)(const float *x, int64_t n);
} ft_simd_math;

/* One row of D numbers each. dw, db are added to. */
typedef struct ft_simd_norm {
    /* y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps); returns rstd */
    float (*rms)(float *y, const float *x, const float *w, float eps, int64_t D);
    void (*rms_grad)(float *dx, float *dw, const float *dy, const float *x, const float *w,
                     float rstd, int64_t D);
    /* y = (x - mean) * rstd * w + b; fills stats[0] = mean, stats[1] = rstd */
    void (*layer)(float *y, float stats[2], const float *x, const float *w, const float *b,
                  float eps, int64_t D);
    /* dwb: D numbers of dw, then D of db */
    void (*layer_grad)(float *dx, float *dwb, const float *dy, const float *x, const float *w,
                       const float stats[2], int64_t D);
} ft_simd_norm;

typedef struct ft_simd_softmax {
    void (*row)(float *y, const float *x, int64_t n);
    /* dx = y * (dy - sum(dy * y)) */
    void (*row_grad)(float *dx, const float *dy, const float *y, int64_t n);
    /* fills stats[0] = the largest of x, stats[1] = sum(exp(x - stats[0])) */
    void (*sums)(float stats[2], const float *x, int64_t n);
    /* y = scale * exp(x - top); returns the sum of y, added up in f64 */
    double (*exp_minus)(float *y, const float *x, float top, float scale, int64_t n);
} ft_simd_softmax;

/* Which elements of one sample dropout draws for (ops.h, ft_dropout_keeps). */
typedef struct ft_dropout_draw {
    uint32_t key[2]; /* Philox key: ft_dropout_key */
    uint32_t sample;
    uint32_t threshold; /* dropped if 16 bits are below it; 1 ... 65535 */
} ft_dropout_draw;

typedef struct ft_simd_random {
    /* Bit i of bits (64 a word, lowest first) tells whether element start + i is kept, for
     * i < n; bits above n in the last word are unspecified. */
    void (*keep_bits)(uint64_t *bits, const ft_dropout_draw *draw, uint64_t start, int64_t n);
    /* y = residual + x * scale where kept, residual elsewhere; residual NULL counts as 0.
     * rectify: x below 0 counts as 0. */
    void (*apply)(float *y, const float *x, const float *residual, const uint64_t *bits,
                  float scale, int64_t n);
    void (*apply_relu)(float *y, const float *x, const uint64_t *bits, float scale, int64_t n);
    /* dx = dy * scale where y > 0, else 0 */
    void (*relu_grad)(float *dx, const float *dy, const float *y, float scale, int64_t n);
} ft_simd_random;

/* Attention: one query against n keys. What is added to its scores, a number a key: mask holds 0 or
 * -inf; either may be NULL. bits: which probabilities dropout keeps (keep_bits), NULL: all. */
typedef struct ft_attention_row {
    const float *bias, *mask;
    const uint64_t *bits;
} ft_attention_row;

/* What a row's gradient needs besides. */
typedef struct ft_attention_row_grad {
    float lse;
    float keep_scale; /* of what dropout keeps */
    float *bias_grad; /* added to, a number a key; NULL: none */
} ft_attention_row_grad;

typedef struct ft_simd_attention {
    /* The largest of s + bias + mask, -inf when n is 0. */
    float (*largest)(const float *s, const ft_attention_row *row, int64_t n);
    /* s = exp(s + bias + mask - most) where kept, 0 elsewhere; returns the sum over all. */
    float (*exps)(float *s, const ft_attention_row *row, float most, int64_t n);
    /* With p = exp(s + bias + mask - lse) and keep = keep_scale where kept, 0 elsewhere:
     * dp = p * (keep * dp - the mean of keep * dp under p), bias_grad += dp, s = keep * p. */
    void (*grads)(float *s, float *dp, const ft_attention_row *row,
                  const ft_attention_row_grad *grad, int64_t n);
    /* s[j] = q (D) . k[j * step ...] for j < n */
    void (*dots)(float *s, const float *q, const float *k, int64_t step, int64_t D, int64_t n);
    /* y (D) = the sum of p[j] * v[j * step ...] over j < n */
    void (*mix)(float *y, const float *p, const float *v, int64_t step, int64_t D, int64_t n);
} ft_simd_attention;

/* c (m,n) = alpha * a (m,k) * b (k,n), or c + that; element (i,j) of a: a[i * a_row + j * a_step].
 * b is the first n columns of a packed matrix (b_rows,b_columns), from row b_first on. c is not the
 * memory of a or b. */
typedef struct ft_small_product {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_step;
    const float *b;
    int64_t b_rows, b_columns, b_first;
    float *c;
    int64_t ldc;
    float alpha;
    bool add;
} ft_small_product;

enum { FT_SIMD_ROUND = 16 }; /* floats of the largest vector */

typedef struct ft_simd_product {
    /* Packs b (k,n), or b given as its transpose (n,k), of ld numbers a row: k times n rounded up
     * to a multiple of FT_SIMD_ROUND numbers. Column c, a multiple of 64, begins at number k * c:
     * what is packed from there on is a packed matrix too. */
    void (*pack)(float *packed, const float *b, int64_t ld, int64_t k, int64_t n);
    void (*pack_transposed)(float *packed, const float *b, int64_t ld, int64_t k, int64_t n);
    void (*multiply)(const ft_small_product *product);
} ft_simd_product;

/* c (m,n) = left * right, or c + that, then + bias, then the larger of that and 0; both sides are
 * packed for this k, and c has ldc numbers a row. */
typedef struct ft_panel_product {
    int64_t m, n, k;
    const void *left, *right; /* of the kernels' own numbers */
    const float *bias;        /* n numbers; NULL: none */
    float *c;
    int64_t ldc;
    bool add, relu;
    bool far;    /* whole lines of c go past the caches */
    void *spare; /* two panels of the right side in the kernels' own form, 64-byte aligned, for
                    those that have `plain` */
} ft_panel_product;

/* `count` columns of a matrix (k,...), or rows of one (...,k) if turned, of ld numbers a row. They
 * are packed into panels one after the other, the last one filled up with zeros. */
typedef struct ft_panel_source {
    const float *data;
    int64_t ld, k, count;
    bool turned;
    bool far; /* what is packed of the right side is read much later: past the caches */
} ft_panel_source;

typedef struct ft_simd_panels ft_simd_panels;
struct ft_simd_panels {
    int rows, columns; /* of a tile of c: numbers in a panel of a side for each of k */
    int step;          /* k of a panel is filled up with zeros to a multiple of it */
    int bytes;         /* of a number in a panel; of the left side, where there is `plain` */
    int most_k;        /* summed at a time, a multiple of `step`; where there is `plain`, its */
    int most_rows;     /* of the left side that are packed at a time */
    int near_columns;  /* packed at a time where all rows are at hand */
    void (*pack_left)(void *packed, const ft_panel_source *source);
    void (*pack_right)(void *packed, const ft_panel_source *source);
    void (*multiply)(const ft_panel_product *product);
    /* At most `rows` rows with a right side that is not packed: as multiply for a chunk of k after
     * the other, to the bit. All of the left side's k are packed; bias and relu follow the last.
     * NULL: there is none. */
    void (*multiply_few)(const ft_panel_product *product, const ft_panel_source *right,
                         int64_t chunk);
    /* The kernels whose panels the right side is packed into, of as many columns and of f32, and
     * which take products of fewer rows or less k than those; NULL: these do. */
    const ft_simd_panels *plain;
    int least_rows, least_k;
};

typedef struct ft_simd {
    const ft_simd_math *math;
    const ft_simd_norm *norm;
    const ft_simd_softmax *softmax;
    const ft_simd_random *random;
    const ft_simd_attention *attention;
    const ft_simd_product *product;
    const ft_simd_panels *panels;
    /* Of bf16, for CPUs of this set with ft_cpu_bf16; `widened` where ft_cpu_slow_bf16. NULL: it
     * has none. */
    const ft_simd_panels *pairs, *widened;
    /* For CPUs of this set with ft_cpu_tiles; NULL: it has none. */
    const ft_simd_panels *tiles, *tiles_bf16;
} ft_simd;

/* The tables for the best instruction set of this CPU. */
const ft_simd *ft_simd_get(void);
/* The tables of one instruction set (ft_isa of device/device.h), for tests; NULL: it is not built
 * in. */
const ft_simd *ft_simd_of(int isa);

/* name_avx512 and so on, inside the files of this folder. */
#ifdef FT_ISA_SUFFIX
#define FT_ISA_JOIN(name, suffix)   name##_##suffix
#define FT_ISA_EXPAND(name, suffix) FT_ISA_JOIN(name, suffix)
#define FT_ISA_NAME(name)           FT_ISA_EXPAND(name, FT_ISA_SUFFIX)
extern const ft_simd_math FT_ISA_NAME(ft_simd_math);
extern const ft_simd_norm FT_ISA_NAME(ft_simd_norm);
extern const ft_simd_softmax FT_ISA_NAME(ft_simd_softmax);
extern const ft_simd_random FT_ISA_NAME(ft_simd_random);
extern const ft_simd_attention FT_ISA_NAME(ft_simd_attention);
extern const ft_simd_product FT_ISA_NAME(ft_simd_product);
extern const ft_simd_panels FT_ISA_NAME(ft_simd_panels);
extern const ft_simd_panels FT_ISA_NAME(ft_simd_pairs);
extern const ft_simd_panels FT_ISA_NAME(ft_simd_widened);
extern const ft_simd_panels FT_ISA_NAME(ft_simd_tiles);
extern const ft_simd_panels FT_ISA_NAME(ft_simd_tiles_bf16);
extern const ft_simd FT_ISA_NAME(ft_simd);
#endif

#endif
