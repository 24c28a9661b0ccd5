/* tensor/tensor.h - typed views of memory.
 *
 * A view is a value: dtype, shape, strides and a pointer that somebody else owns. Kernels see
 * views. A tensor is a view with a share of the storage behind it; Lua sees tensors.
 *
 * Lifetime:
 *  1. A storage lives while a tensor on it lives; tensors count their references (atomically).
 *  2. ft_tensor_new and the view constructors give the caller one reference; release it.
 *  3. A view taken with ft_tensor.view is borrowed: it lives as long as the tensor.
 * Shapes are outermost first. Axes in C count from 0. */
#ifndef FT_TENSOR_H
#define FT_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* name, bytes of one element, name in safetensors files */
#define FT_DTYPE_LIST(X)                                                                           \
    X(F32, 4, "F32")                                                                               \
    X(F64, 8, "F64")                                                                               \
    X(F16, 2, "F16")                                                                               \
    X(BF16, 2, "BF16")                                                                             \
    X(I32, 4, "I32")                                                                               \
    X(I64, 8, "I64")                                                                               \
    X(U8, 1, "U8")                                                                                 \
    X(BOOL, 1, "BOOL")

typedef enum {
#define FT_DTYPE_ENUM(name, bytes, file) FT_##name,
    FT_DTYPE_LIST(FT_DTYPE_ENUM)
#undef FT_DTYPE_ENUM
        FT_DTYPE_COUNT
} ft_dtype;

enum { FT_MAX_DIMS = 6 };

typedef struct ft_shape {
    int n_dims;                /* 0 is a scalar */
    int64_t dims[FT_MAX_DIMS]; /* each >= 0 */
} ft_shape;

/* What a tensor is, without where it is. Contiguous, but rows of the last axis may be further apart
 * than they are long: then zeros are between them. */
typedef struct ft_spec {
    ft_dtype dtype;
    ft_shape shape;
    int64_t pitch; /* elements from a row to the next, of two axes at least; 0: as many as it has */
} ft_spec;

typedef struct ft_view {
    ft_dtype dtype;
    ft_shape shape;
    int64_t strides[FT_MAX_DIMS]; /* in elements */
    void *data;
} ft_view;

typedef struct ft_tensor ft_tensor; /* see ft_tensor_view */

/* -- dtypes, shapes ------------------------------------------------------------------------- */

int64_t ft_dtype_bytes(ft_dtype dtype);
const char *ft_dtype_name(ft_dtype dtype);      /* "f32" */
const char *ft_dtype_file_name(ft_dtype dtype); /* "F32" */
/* False when there is no dtype of that name (either spelling). */
bool ft_dtype_find(const char *name, ft_dtype *out);
bool ft_dtype_is_float(ft_dtype dtype);

/* ft_shape_of(2, a, b): a shape from its dimensions (int64_t arguments). */
ft_shape ft_shape_make(int n_dims, const int64_t *dims);
#define ft_shape_of(...)                                                                           \
    ft_shape_make((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                       \
                  (const int64_t[]){__VA_ARGS__})
bool ft_shape_equal(const ft_shape *a, const ft_shape *b);
/* Product of the dimensions; valid for every shape that ft_spec_check accepted. */
int64_t ft_shape_count(const ft_shape *shape);
/* As a matrix: the first dimension are its rows, anything else than a matrix is one row; and the
 * numbers of a row. */
int64_t ft_shape_rows(const ft_shape *shape);
int64_t ft_shape_width(const ft_shape *shape);
/* "(8, 128, 512)" into text, cut when it does not fit; returns text. */
char *ft_shape_format(const ft_shape *shape, char *text, int size);
/* Refuses negative dimensions and products that overflow. */
ft_status ft_spec_check(const ft_spec *spec, ft_error *err);
/* With what is between rows. */
int64_t ft_spec_bytes(const ft_spec *spec);
/* From a row of the last axis to the next. */
int64_t ft_spec_pitch(const ft_spec *spec);

/* -- views ------------------------------------------------------------------------------------ */

/* A view of `data`, which the spec lays out; and back. */
ft_view ft_view_of(const ft_spec *spec, void *data);
ft_spec ft_view_layout(const ft_view *view);
/* What a contiguous copy of any view is. */
ft_spec ft_view_spec(const ft_view *view);
bool ft_view_contiguous(const ft_view *view);
/* Element access by flat index in row-major order, converted; slow, for checks and printing. */
double ft_view_get(const ft_view *view, int64_t index);
void ft_view_set(const ft_view *view, int64_t index, double value);

/* What numbers a view holds. */
typedef struct ft_stats {
    int64_t count, n_nan, n_infinite;
    double min, max, mean, deviation; /* of those that are finite; 0 when none is */
} ft_stats;
ft_stats ft_view_stats(const ft_view *view);

/* How numbers are drawn: all are `scale`; normal ones of mean 0 and that standard deviation;
 * equally likely ones from -scale to scale. Streams of one seed are independent. */
typedef enum { FT_LAW_CONSTANT, FT_LAW_NORMAL, FT_LAW_UNIFORM, FT_N_LAWS } ft_law;
typedef struct ft_draw {
    ft_law law;
    double scale;
    uint64_t stream;
} ft_draw;
const char *ft_law_name(ft_law law);
/* Fills a view of a floating dtype, in row-major order, by so many threads at most (>= 1), which
 * change no number. */
void ft_view_draw(const ft_view *view, const ft_draw *draw, uint64_t seed, int n_threads);
/* Whether some byte may be in both: by first and last, and so also of views side by side. */
bool ft_view_overlaps(const ft_view *a, const ft_view *b);
/* Copies src into dst, converting the dtype; shapes equal, any strides, no overlap. Floats round to
 * nearest even, also in 16 bits; integers saturate. */
ft_status ft_view_copy(const ft_view *dst, const ft_view *src, ft_error *err);
/* Converts n contiguous elements between dtypes; the fast path of loading. */
void ft_convert(void *dst, ft_dtype dst_dtype, const void *src, ft_dtype src_dtype, int64_t n);

/* -- tensors ---------------------------------------------------------------------------------- */

/* A zeroed, contiguous tensor of its own storage (64-byte aligned). */
ft_status ft_tensor_new(ft_tensor **out, const ft_spec *spec, ft_error *err);
/* A tensor over memory of somebody else; `release(owner)` is called with the last reference. */
ft_status ft_tensor_wrap(ft_tensor **out, const ft_view *view, void (*release)(void *owner),
                         void *owner, ft_error *err);
ft_tensor *ft_tensor_retain(ft_tensor *tensor);
void ft_tensor_release(ft_tensor *tensor);
const ft_view *ft_tensor_view(const ft_tensor *tensor);
int64_t ft_tensor_references(const ft_tensor *tensor); /* of the storage */

/* New tensors on the same storage. narrow keeps [start, start+length) of an axis; select drops the
 * axis at one index; reshape needs a contiguous tensor; transpose swaps two axes. */
ft_status ft_tensor_narrow(ft_tensor **out, ft_tensor *t, int axis, int64_t start, int64_t length,
                           ft_error *err);
ft_status ft_tensor_select(ft_tensor **out, ft_tensor *t, int axis, int64_t index, ft_error *err);
ft_status ft_tensor_transpose(ft_tensor **out, ft_tensor *t, int axis, int other, ft_error *err);
ft_status ft_tensor_reshape(ft_tensor **out, ft_tensor *t, const ft_shape *shape, ft_error *err);
/* A contiguous copy with its own storage, converted to dtype. */
ft_status ft_tensor_copy(ft_tensor **out, const ft_tensor *t, ft_dtype dtype, ft_error *err);

/* Appends dtype, shape, what numbers they are, and elements; the middle of big tensors is left out,
 * unless the whole is asked for. FT_NOMEM when the text could not grow. */
ft_status ft_tensor_format(const ft_view *view, bool whole, ft_text *text);

#endif
