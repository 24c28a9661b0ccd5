/* test/test_tensor.c - dtypes, shapes, conversions, views, tensors, printing. */
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "check.h"

static ft_tensor *new_tensor(ft_dtype dtype, ft_shape shape)
{
    ft_tensor *t = NULL;
    ft_spec spec = {dtype, shape};
    CHECK_STATUS(ft_tensor_new(&t, &spec, NULL), FT_OK);
    return t;
}

/* 0, 1, 2, ... in row-major order. */
static ft_tensor *new_ramp(ft_dtype dtype, ft_shape shape)
{
    ft_tensor *t = new_tensor(dtype, shape);
    for (int64_t i = 0; i < ft_shape_count(&shape); i++)
        ft_view_set(ft_tensor_view(t), i, (double)i);
    return t;
}

/* -- dtypes and shapes ---------------------------------------------------------------------- */

static void test_dtypes(void)
{
    for (int i = 0; i < FT_DTYPE_COUNT; i++) {
        ft_dtype found = FT_DTYPE_COUNT;
        CHECK(ft_dtype_find(ft_dtype_name((ft_dtype)i), &found) && found == (ft_dtype)i);
        found = FT_DTYPE_COUNT;
        CHECK(ft_dtype_find(ft_dtype_file_name((ft_dtype)i), &found) && found == (ft_dtype)i);
    }
    ft_dtype dtype;
    CHECK(!ft_dtype_find("float32", &dtype) && !ft_dtype_find("", &dtype));
    CHECK(ft_dtype_bytes(FT_BF16) == 2 && ft_dtype_bytes(FT_I64) == 8);
    CHECK(ft_dtype_is_float(FT_F16) && !ft_dtype_is_float(FT_U8));
}

static void test_shapes(void)
{
    ft_shape a = ft_shape_of(8, 128, 512), scalar = {0};
    char text[32], small[6];
    CHECK(ft_shape_count(&a) == 8 * 128 * 512 && ft_shape_count(&scalar) == 1);
    CHECK(!strcmp(ft_shape_format(&a, text, sizeof text), "(8, 128, 512)"));
    CHECK(!strcmp(ft_shape_format(&scalar, text, sizeof text), "()"));
    CHECK(!strcmp(ft_shape_format(&a, small, sizeof small), "(8, 1"));
    ft_shape b = ft_shape_of(8, 128);
    CHECK(ft_shape_equal(&a, &a) && !ft_shape_equal(&a, &b));
}

static void test_spec_check(void)
{
    ft_error err = {0};
    ft_spec good = {FT_F32, ft_shape_of(0, 5)};
    CHECK_STATUS(ft_spec_check(&good, &err), FT_OK);
    CHECK(ft_spec_bytes(&good) == 0);
    ft_spec negative = {FT_F32, ft_shape_of(2, -1)};
    CHECK_STATUS(ft_spec_check(&negative, &err), FT_SHAPE);
    CHECK(strstr(err.message, "(2, -1)"));
    ft_spec big = {FT_F64, ft_shape_of((int64_t)1 << 40, (int64_t)1 << 21)};
    CHECK_STATUS(ft_spec_check(&big, &err), FT_SHAPE);
    ft_spec big_zero = {FT_F64, ft_shape_of((int64_t)1 << 40, (int64_t)1 << 40, 0)};
    CHECK_STATUS(ft_spec_check(&big_zero, &err), FT_SHAPE);
    ft_spec absent = {FT_F32, {.n_dims = -1}};
    CHECK_STATUS(ft_spec_check(&absent, &err), FT_SHAPE);
    ft_spec odd = {(ft_dtype)99, {.n_dims = 0}};
    CHECK_STATUS(ft_spec_check(&odd, &err), FT_INVALID);
}

/* -- conversions ---------------------------------------------------------------------------- */

/* The value of a 16-bit float, straight from the definition of the format. */
static double half_value(uint16_t h, int exponent_bits)
{
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = h >> fraction_bits & ((1 << exponent_bits) - 1);
    int fraction = h & ((1 << fraction_bits) - 1);
    double sign = h & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static void check_all_halves(ft_dtype dtype, int exponent_bits)
{
    int wrong = 0, wrong_back = 0, wrong_wide = 0;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t h = (uint16_t)bits, back, back_wide;
        float x;
        double wanted = half_value(h, exponent_bits), wide;
        ft_convert(&x, FT_F32, &h, dtype, 1);
        ft_convert(&wide, FT_F64, &h, dtype, 1);
        ft_convert(&back, dtype, &x, FT_F32, 1);
        ft_convert(&back_wide, dtype, &wide, FT_F64, 1);
        if (isnan(wanted)) {
            wrong += !isnan(x) || !isnan(wide);
            wrong_wide += !isnan(half_value(back_wide, exponent_bits));
        } else {
            wrong += (double)x != wanted || wide != wanted || !signbit(x) != !signbit(wanted);
            wrong_wide += back_wide != h;
        }
        wrong_back += back != h;
    }
    CHECK(wrong == 0);
    CHECK(wrong_back == 0);
    CHECK(wrong_wide == 0);
}

static void test_halves_round_trip(void)
{
    check_all_halves(FT_F16, 5);
    check_all_halves(FT_BF16, 8);
}

/* For neighbours a < b of the format: the middle goes to the even one, a step aside to the nearer.
 */
static void check_rounding(ft_dtype dtype, int exponent_bits, bool through_f64)
{
    uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits));
    int wrong = 0;
    for (uint16_t h = 0; h < infinity - 1; h++) {
        double a = half_value(h, exponent_bits), b = half_value((uint16_t)(h + 1), exponent_bits);
        double middle = (a + b) / 2;
        float center = (float)middle;
        double inputs[3] = {(double)nextafterf(center, 0), middle,
                            (double)nextafterf(center, INFINITY)};
        if (through_f64) {
            inputs[0] = nextafter(middle, 0);
            inputs[2] = nextafter(middle, INFINITY);
        }
        uint16_t wanted[3] = {h, (uint16_t)(h & 1 ? h + 1 : h), (uint16_t)(h + 1)};
        for (int i = 0; i < 3; i++)
            for (int negative = 0; negative < 2; negative++) {
                double wide = negative ? -inputs[i] : inputs[i];
                float x = (float)wide;
                uint16_t got;
                if (through_f64)
                    ft_convert(&got, dtype, &wide, FT_F64, 1);
                else
                    ft_convert(&got, dtype, &x, FT_F32, 1);
                wrong += got != (wanted[i] | (negative ? 0x8000 : 0));
            }
    }
    CHECK(wrong == 0);
}

static void test_rounding_to_nearest_even(void)
{
    check_rounding(FT_F16, 5, false);
    check_rounding(FT_F16, 5, true);
    check_rounding(FT_BF16, 8, true);
    check_rounding(FT_BF16, 8, false);
    float big[3] = {65519.0f, 65520.0f, 1e30f};
    uint16_t half[3];
    ft_convert(half, FT_F16, big, FT_F32, 3);
    CHECK(half[0] == 0x7bff && half[1] == 0x7c00 && half[2] == 0x7c00);
}

/* NaN whose set bits are those that do not fit. */
static void test_nan_stays_nan(void)
{
    const uint32_t bits = 0x7f800001u;
    float narrow;
    uint16_t f16, bf16;
    memcpy(&narrow, &bits, sizeof narrow);
    ft_convert(&f16, FT_F16, &narrow, FT_F32, 1);
    ft_convert(&bf16, FT_BF16, &narrow, FT_F32, 1);
    CHECK(isnan(half_value(f16, 5)) && isnan(half_value(bf16, 8)));
}

static void test_integers(void)
{
    double in[6] = {-1.9, 255.9, 300, -5, NAN, 1e300};
    uint8_t u8[6];
    int32_t i32[6];
    int64_t i64[6];
    ft_convert(u8, FT_U8, in, FT_F64, 6);
    ft_convert(i32, FT_I32, in, FT_F64, 6);
    ft_convert(i64, FT_I64, in, FT_F64, 6);
    CHECK(u8[0] == 0 && u8[1] == 255 && u8[2] == 255 && u8[3] == 0 && u8[4] == 0 && u8[5] == 255);
    CHECK(i32[0] == -1 && i32[1] == 255 && i32[4] == 0 && i32[5] == INT32_MAX);
    CHECK(i64[3] == -5 && i64[5] == INT64_MAX);
    uint8_t truth[6];
    ft_convert(truth, FT_BOOL, in, FT_F64, 6);
    CHECK(truth[0] == 1 && truth[4] == 1);
    int64_t exact[2] = {INT64_MAX - 1, -3}, copy[2];
    ft_convert(copy, FT_I64, exact, FT_I64, 2);
    CHECK(copy[0] == INT64_MAX - 1 && copy[1] == -3);
}

/* Long arrays take the same values as one element at a time, for all pairs of dtypes. */
static void test_long_conversions(void)
{
    enum { N = 700 };
    static char from[N * 8], all[N * 8], one[N * 8];
    for (int a = 0; a < FT_DTYPE_COUNT; a++)
        for (int b = 0; b < FT_DTYPE_COUNT; b++) {
            int64_t from_bytes = ft_dtype_bytes((ft_dtype)a),
                    to_bytes = ft_dtype_bytes((ft_dtype)b);
            for (int i = 0; i < N; i++) {
                double x = (i - 350) * 0.37;
                ft_convert(from + i * from_bytes, (ft_dtype)a, &x, FT_F64, 1);
            }
            ft_convert(all, (ft_dtype)b, from, (ft_dtype)a, N);
            for (int i = 0; i < N; i++)
                ft_convert(one + i * to_bytes, (ft_dtype)b, from + i * from_bytes, (ft_dtype)a, 1);
            CHECK(!memcmp(all, one, (size_t)(N * to_bytes)));
        }
}

/* -- views and tensors ---------------------------------------------------------------------- */

static void test_views_share_storage(void)
{
    ft_tensor *t = new_ramp(FT_F32, ft_shape_of(2, 3, 4)), *v = NULL, *w = NULL, *r = NULL;
    CHECK((uintptr_t)ft_tensor_view(t)->data % 64 == 0);
    CHECK_STATUS(ft_tensor_select(&v, t, 0, 1, NULL), FT_OK);    /* (3, 4) */
    CHECK_STATUS(ft_tensor_narrow(&w, v, 1, 1, 2, NULL), FT_OK); /* (3, 2) */
    CHECK(ft_view_get(ft_tensor_view(w), 5) == 12 + 8 + 2);
    CHECK(!ft_view_contiguous(ft_tensor_view(w)) && ft_view_contiguous(ft_tensor_view(v)));
    CHECK(ft_tensor_references(t) == 3);
    ft_error err = {0};
    CHECK_STATUS(ft_tensor_narrow(&r, v, 0, 1, 1, NULL), FT_OK); /* (1, 4) */
    ft_tensor *column = NULL;
    CHECK_STATUS(ft_tensor_transpose(&column, r, 0, 1, NULL), FT_OK); /* (4, 1) */
    CHECK(ft_view_contiguous(ft_tensor_view(column)));
    ft_tensor_release(r);
    ft_tensor_release(column);
    ft_shape flat = ft_shape_of(6);
    CHECK_STATUS(ft_tensor_reshape(&r, w, &flat, &err), FT_INVALID);
    CHECK(!r && strstr(err.message, "copy"));
    ft_shape twelve = ft_shape_of(2, 6);
    CHECK_STATUS(ft_tensor_reshape(&r, v, &twelve, NULL), FT_OK);
    CHECK(ft_view_get(ft_tensor_view(r), 7) == 12 + 7);
    ft_tensor_release(t); /* the views keep the storage */
    ft_tensor_release(v);
    ft_view_set(ft_tensor_view(w), 0, 99);
    CHECK(ft_view_get(ft_tensor_view(r), 1) == 99);
    ft_tensor_release(w);
    CHECK(ft_tensor_references(ft_tensor_retain(r)) == 2);
    ft_tensor_release(r);
    ft_tensor_release(r);
    ft_tensor_release(NULL);
}

static void test_strided_copy(void)
{
    for (int rows = 1; rows < 600; rows += 173) {
        ft_tensor *t = new_ramp(FT_I64, ft_shape_of(rows, 5)), *swapped = NULL, *copy = NULL;
        CHECK_STATUS(ft_tensor_transpose(&swapped, t, 0, 1, NULL), FT_OK);
        CHECK_STATUS(ft_tensor_copy(&copy, swapped, FT_F32, NULL), FT_OK);
        bool same = true;
        for (int64_t i = 0; i < 5; i++)
            for (int64_t j = 0; j < rows; j++)
                same =
                    same && ft_view_get(ft_tensor_view(copy), i * rows + j) == (double)(j * 5 + i);
        CHECK(same && ft_view_contiguous(ft_tensor_view(copy)));
        for (int64_t i = 0; i < 5 * rows; i++) ft_view_set(ft_tensor_view(copy), i, (double)-i);
        CHECK_STATUS(ft_view_copy(ft_tensor_view(swapped), ft_tensor_view(copy), NULL), FT_OK);
        CHECK(ft_view_get(ft_tensor_view(t), 1) == -rows);
        ft_tensor_release(t);
        ft_tensor_release(swapped);
        ft_tensor_release(copy);
    }
    int64_t big = INT64_MAX - 1; /* no detour over f64 */
    ft_tensor *t = new_tensor(FT_I64, ft_shape_of(2, 2)), *swapped = NULL, *copy = NULL;
    memcpy(ft_tensor_view(t)->data, &big, sizeof big);
    CHECK_STATUS(ft_tensor_transpose(&swapped, t, 0, 1, NULL), FT_OK);
    CHECK_STATUS(ft_tensor_copy(&copy, swapped, FT_I64, NULL), FT_OK);
    CHECK(!memcmp(ft_tensor_view(copy)->data, &big, sizeof big));
    ft_tensor_release(t);
    ft_tensor_release(swapped);
    ft_tensor_release(copy);
}

static void test_bad_arguments(void)
{
    ft_tensor *t = new_ramp(FT_F32, ft_shape_of(2, 3)), *out = t;
    ft_error err = {0};
    CHECK_STATUS(ft_tensor_narrow(&out, t, 1, 2, 2, &err), FT_INVALID);
    CHECK(!out && strstr(err.message, "3 elements"));
    CHECK_STATUS(ft_tensor_narrow(&out, t, 1, INT64_MAX, INT64_MAX, &err), FT_INVALID);
    CHECK_STATUS(ft_tensor_narrow(&out, t, 2, 0, 1, &err), FT_INVALID);
    CHECK_STATUS(ft_tensor_select(&out, t, -1, 0, &err), FT_INVALID);
    CHECK_STATUS(ft_tensor_select(&out, t, 0, 2, &err), FT_INVALID);
    CHECK_STATUS(ft_tensor_transpose(&out, t, 0, 2, &err), FT_INVALID);
    ft_shape five = ft_shape_of(5);
    CHECK_STATUS(ft_tensor_reshape(&out, t, &five, &err), FT_SHAPE);
    CHECK(strstr(err.message, "6 elements"));
    ft_spec huge = {FT_F32, ft_shape_of(INT64_MAX / 4)};
    CHECK_STATUS(ft_tensor_new(&out, &huge, &err), FT_NOMEM);
    ft_spec negative = {FT_F32, ft_shape_of(-1)};
    CHECK_STATUS(ft_tensor_new(&out, &negative, &err), FT_SHAPE);
    ft_tensor *other = new_ramp(FT_F32, ft_shape_of(3, 2));
    CHECK_STATUS(ft_view_copy(ft_tensor_view(t), ft_tensor_view(other), &err), FT_SHAPE);
    ft_tensor_release(t);
    ft_tensor_release(other);
}

static void count_release(void *owner)
{
    ++*(int *)owner;
}

static void test_wrapped_memory(void)
{
    float data[4] = {1, 2, 3, 4};
    int released = 0;
    ft_spec spec = {FT_F32, ft_shape_of(2, 2)};
    ft_view view = ft_view_of(&spec, data);
    ft_tensor *t, *row;
    CHECK_STATUS(ft_tensor_wrap(&t, &view, count_release, &released, NULL), FT_OK);
    CHECK_STATUS(ft_tensor_select(&row, t, 1, 1, NULL), FT_OK);
    ft_tensor_release(t);
    CHECK(released == 0 && ft_view_get(ft_tensor_view(row), 1) == 4);
    ft_tensor_release(row);
    CHECK(released == 1);
}

static void test_failing_allocations(void)
{
    int64_t live = ft_alloc_live();
    int failures = 0;
    for (int n = 1;; n++) {
        ft_spec spec = {FT_F32, ft_shape_of(4, 4)};
        ft_tensor *t = NULL, *v = NULL, *copy = NULL;
        ft_alloc_fail_after(n);
        ft_status status = ft_tensor_new(&t, &spec, NULL);
        if (status == FT_OK) status = ft_tensor_transpose(&v, t, 0, 1, NULL);
        if (status == FT_OK) status = ft_tensor_copy(&copy, v, FT_BF16, NULL);
        ft_alloc_fail_after(0);
        ft_tensor_release(t);
        ft_tensor_release(v);
        ft_tensor_release(copy);
        CHECK(ft_alloc_live() == live);
        if (status != FT_NOMEM) {
            CHECK(status == FT_OK);
            break;
        }
        failures++;
    }
    CHECK(failures == 7);
}

/* -- printing ------------------------------------------------------------------------------- */

static void check_format(ft_tensor *t, const char *wanted)
{
    ft_text text = {0};
    CHECK_STATUS(ft_tensor_format(ft_tensor_view(t), false, &text), FT_OK);
    if (!CHECK(!strcmp(text.data, wanted))) fprintf(stderr, "%s\n", text.data);
    ft_text_fini(&text);
    ft_tensor_release(t);
}

/* The number of threads changes no number, of any law, nor how the view lies. */
static void test_draws_of_threads(void)
{
    enum { ROWS = 3, N = 100003 };
    const ft_spec specs[] = {{FT_F32, ft_shape_of(ROWS, N)}, {FT_BF16, ft_shape_of(ROWS, N)}};
    for (int k = 0; k < 2; k++)
        for (ft_law law = 0; law < FT_N_LAWS; law++) {
            const ft_draw draw = {law, 0.5, 11};
            char *one = calloc(ROWS * N, 4), *many = calloc(ROWS * N, 4);
            ft_view view = ft_view_of(&specs[k], one), other = ft_view_of(&specs[k], many);
            ft_view_draw(&view, &draw, 3, 1);
            for (int threads = 2; threads < 70; threads += 31) {
                memset(many, 0, ROWS * N * 4);
                ft_view_draw(&other, &draw, 3, threads);
                CHECK(memcmp(one, many, ROWS * N * 4) == 0);
            }
            CHECK(law == FT_LAW_CONSTANT || ft_view_get(&view, 0) != ft_view_get(&view, 1));
            free(one);
            free(many);
        }
}

/* Rows that are apart: what a spec says a view has, and so back. */
static void test_pitch(void)
{
    float data[2 * 2 * 8];
    ft_spec spec = {FT_F32, ft_shape_of(2, 2, 5), 8}, plain = {FT_F32, ft_shape_of(2, 2, 5)};
    CHECK(ft_spec_bytes(&spec) == 4 * 8 * 4 && ft_spec_pitch(&spec) == 8);
    CHECK(ft_spec_bytes(&plain) == 4 * 5 * 4 && ft_spec_pitch(&plain) == 5);
    ft_view view = ft_view_of(&spec, data), dense = ft_view_of(&plain, data);
    CHECK(view.strides[2] == 1 && view.strides[1] == 8 && view.strides[0] == 16);
    CHECK(!ft_view_contiguous(&view) && ft_view_contiguous(&dense));
    CHECK(ft_view_layout(&view).pitch == 8 && ft_view_spec(&view).pitch == 0);
    CHECK(ft_view_layout(&dense).pitch == 0);
    for (int i = 0; i < 32; i++) data[i] = (float)i;
    CHECK(ft_view_get(&view, 5) == 8 && ft_view_get(&view, 19) == 28);
    ft_spec row = {FT_F32, ft_shape_of(1, 5), 8}; /* of one row, too */
    view = ft_view_of(&row, data);
    CHECK(ft_spec_bytes(&row) == 8 * 4 && ft_view_layout(&view).pitch == 8);
}

static void test_format(void)
{
    check_format(new_ramp(FT_F32, ft_shape_of(2, 3)),
                 "tensor f32 (2, 3)\n[[0, 1, 2],\n [3, 4, 5]]");
    check_format(new_ramp(FT_BOOL, ft_shape_of(2)), "tensor bool (2)\n[false,  true]");
    check_format(new_ramp(FT_I32, ft_shape_of(2, 1, 2)),
                 "tensor i32 (2, 1, 2)\n[[[0, 1]],\n\n [[2, 3]]]");
    check_format(new_ramp(FT_F32, ft_shape_of(0, 3)), "tensor f32 (0, 3)\n[]");
    check_format(new_ramp(FT_I64, ft_shape_of(2000)),
                 "tensor i64 (2000), 16.0 kB: min 0, max 1999, mean 999.5, deviation 577.4\n"
                 "[   0,    1,    2, ..., 1997, 1998, 1999]");
    ft_tensor *scalar = new_tensor(FT_F32, (ft_shape){0});
    ft_view_set(ft_tensor_view(scalar), 0, -0.1);
    check_format(scalar, "tensor f32 ()\n-0.1");
    ft_tensor *column = new_tensor(FT_I32, ft_shape_of(2));
    ft_view_set(ft_tensor_view(column), 0, INT32_MIN);
    check_format(column, "tensor i32 (2)\n[-2147483648,           0]");
}

static void test_format_elides_the_middle(void)
{
    ft_tensor *t = new_ramp(FT_F32, ft_shape_of(300, 4));
    check_format(
        t, "tensor f32 (300, 4), 4.8 kB: min 0, max 1199, mean 599.5, deviation 346.4\n"
           "[[   0,    1,    2,    3],\n [   4,    5,    6,    7],\n [   8,    9,   10,   11],\n"
           " ...,\n"
           " [1188, 1189, 1190, 1191],\n [1192, 1193, 1194, 1195],\n [1196, 1197, 1198, 1199]]");
}

static void test_format_of_the_whole(void)
{
    ft_tensor *t = new_ramp(FT_F32, ft_shape_of(2000));
    ft_text text = {0};
    CHECK_STATUS(ft_tensor_format(ft_tensor_view(t), true, &text), FT_OK);
    CHECK(strstr(text.data, " 998,  999, 1000, 1001,") && !strstr(text.data, "..."));
    ft_text_fini(&text);
    ft_tensor_release(t);
}

/* A column of a matrix: 0, 2, 4, ... with a NaN and two infinities among them. */
static void test_stats(void)
{
    ft_tensor *t = new_ramp(FT_F32, ft_shape_of(600, 2)), *column = NULL;
    ft_error err;
    CHECK_STATUS(ft_tensor_select(&column, t, 1, 0, &err), FT_OK);
    const ft_view *view = ft_tensor_view(column);
    ft_stats s = ft_view_stats(view);
    CHECK(s.count == 600 && s.n_nan == 0 && s.n_infinite == 0);
    CHECK(s.min == 0 && s.max == 1198 && fabs(s.mean - 599) < 1e-9);
    CHECK(fabs(s.deviation - 2 * sqrt((600.0 * 600 - 1) / 12)) < 1e-9);
    ft_view_set(view, 0, NAN);
    ft_view_set(view, 1, INFINITY);
    ft_view_set(view, 599, -INFINITY);
    s = ft_view_stats(view);
    CHECK(s.n_nan == 1 && s.n_infinite == 2);
    CHECK(s.min == 4 && s.max == 1196 && fabs(s.mean - 600) < 1e-9);
    ft_tensor_release(column);
    ft_tensor_release(t);
}

/* The deviation of numbers that are nearly alike does not drown in their mean. */
static void test_stats_around_a_large_mean(void)
{
    ft_tensor *t = new_tensor(FT_F64, ft_shape_of(1000));
    for (int64_t i = 0; i < 1000; i++) ft_view_set(ft_tensor_view(t), i, 1e9 + (double)(i % 2));
    CHECK(fabs(ft_view_stats(ft_tensor_view(t)).deviation - 0.5) < 1e-9);
    ft_tensor_release(t);
}

static void test_format_names_what_is_not_finite(void)
{
    ft_tensor *t = new_ramp(FT_F32, ft_shape_of(3));
    ft_view_set(ft_tensor_view(t), 0, NAN);
    ft_view_set(ft_tensor_view(t), 1, INFINITY);
    check_format(t, "tensor f32 (3): min 2, max 2, mean 2, deviation 0, 1 NaN, 1 infinite\n"
                    "[nan, inf,   2]");
    check_format(new_ramp(FT_BOOL, ft_shape_of(2)), "tensor bool (2)\n[false,  true]");
}

int main(void)
{
    RUN(test_dtypes);
    RUN(test_shapes);
    RUN(test_spec_check);
    RUN(test_halves_round_trip);
    RUN(test_rounding_to_nearest_even);
    RUN(test_nan_stays_nan);
    RUN(test_integers);
    RUN(test_long_conversions);
    RUN(test_views_share_storage);
    RUN(test_strided_copy);
    RUN(test_bad_arguments);
    RUN(test_wrapped_memory);
    RUN(test_failing_allocations);
    RUN(test_draws_of_threads);
    RUN(test_pitch);
    RUN(test_format);
    RUN(test_format_elides_the_middle);
    RUN(test_format_of_the_whole);
    RUN(test_stats);
    RUN(test_stats_around_a_large_mean);
    RUN(test_format_names_what_is_not_finite);
    return check_report();
}
