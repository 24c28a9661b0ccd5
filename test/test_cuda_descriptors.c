/* test/test_cuda_descriptors.c - cuda/products.c against the real cuBLASLt, as far as that goes
 * without a card: the library takes every attribute of products, layouts and preferences, with the
 * size that it is given, and has what was meant. Opening it, choosing and multiplying need a card
 * and are recorded here. */
#include "check.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "cuda/products.h"

typedef int (*getter)(const void *of, int attribute, void *out, size_t bytes, size_t *written);

static getter get_product, get_layout, get_preference;
static const ft_product_args *given; /* what is multiplied */
static int64_t given_batch;
static size_t given_scratch;
static int n_choices, n_products;

static int64_t value_of(getter get, const void *of, int attribute, size_t bytes)
{
    int64_t value = 0;
    size_t written = 0;
    CHECK(get(of, attribute, &value, bytes, &written) == 0);
    CHECK(written == bytes);
    return value;
}

/* Attributes of layouts that products.c gives when it makes them (cublasLtMatrixLayoutAttribute_t).
 */
enum { TYPE = 0, ROWS = 2, COLUMNS = 3, STEP = 4 };

static void check_layout(cublas_layout layout, int type, int64_t rows, int64_t width, int64_t pitch)
{
    CHECK(value_of(get_layout, layout, TYPE, 4) == type);
    CHECK(value_of(get_layout, layout, ROWS, 8) == width);
    CHECK(value_of(get_layout, layout, COLUMNS, 8) == rows);
    CHECK(value_of(get_layout, layout, STEP, 8) == pitch);
    CHECK(value_of(get_layout, layout, CUBLAS_BATCH_COUNT, 4) == given_batch);
    CHECK(value_of(get_layout, layout, CUBLAS_BATCH_STEP, 8) == rows * pitch);
}

static void check_product(cublas_product product)
{
    const int epilogues[2][2] = {
        {CUBLAS_EPILOGUE_NONE, CUBLAS_EPILOGUE_BIAS},
        {CUBLAS_EPILOGUE_RELU, CUBLAS_EPILOGUE_RELU | CUBLAS_EPILOGUE_BIAS}};
    CHECK(value_of(get_product, product, CUBLAS_TRANSPOSE_A, 4) == given->transpose_b);
    CHECK(value_of(get_product, product, CUBLAS_TRANSPOSE_B, 4) == given->transpose_a);
    CHECK(value_of(get_product, product, CUBLAS_EPILOGUE, 4) ==
          epilogues[given->relu != 0][given->bias != NULL]);
    if (given->bias)
        CHECK(value_of(get_product, product, CUBLAS_BIAS, 8) == (int64_t)(uintptr_t)given->bias);
}

static int open_nothing(cublas_handle *out)
{
    *out = NULL;
    return 0;
}

static int close_nothing(cublas_handle handle)
{
    (void)handle;
    return 0;
}

static int take_first(cublas_handle handle, cublas_product product, cublas_layout a,
                      cublas_layout b, cublas_layout c, cublas_layout d,
                      cublas_preference preference, int most, cublas_choice *out, int *n)
{
    const int alignments[] = {CUBLAS_ALIGNMENT_A, CUBLAS_ALIGNMENT_B, CUBLAS_ALIGNMENT_C,
                              CUBLAS_ALIGNMENT_D};
    static const int types[] = {CUBLAS_F32, CUBLAS_F32, CUBLAS_BF16, CUBLAS_F16};
    const ft_product_args *g = given;
    int type = types[g->rounding];
    (void)handle;
    check_product(product);
    int64_t width_b = g->transpose_b ? g->K : g->N;
    check_layout(a, type, g->transpose_b ? g->N : g->K, width_b, width_b);
    check_layout(b, type, g->transpose_a ? g->K : g->M, g->transpose_a ? g->M : g->K, g->pitch_a);
    check_layout(c, types[g->c.kept], g->M, g->N, g->pitch_c);
    CHECK(c == d);
    CHECK(value_of(get_preference, preference, CUBLAS_MOST_WORKSPACE, 8) == (int64_t)given_scratch);
    for (int i = 0; i < 4; i++) CHECK(value_of(get_preference, preference, alignments[i], 4) == 16);
    n_choices++;
    *out = (cublas_choice){.state = 0};
    *n = most;
    return 0;
}

static int multiply_nothing(cublas_handle handle, cublas_product product, const void *alpha,
                            const void *a, cublas_layout of_a, const void *b, cublas_layout of_b,
                            const void *beta, const void *c, cublas_layout of_c, void *d,
                            cublas_layout of_d, const cublas_algorithm *algorithm, void *workspace,
                            size_t bytes, cu_stream stream)
{
    (void)handle, (void)of_a, (void)of_b, (void)of_c, (void)of_d, (void)algorithm, (void)workspace;
    (void)stream;
    check_product(product);
    CHECK(a == given->b.at && b == given->a.at && c == given->c.at && d == given->c.at);
    CHECK(*(const float *)alpha == 1 && *(const float *)beta == given->add);
    CHECK(bytes == given_scratch);
    n_products++;
    return 0;
}

/* The library beside the compiler of kernels; false, after saying so, where there is none. */
static bool open_library(ft_cublas_api *api)
{
    void *library = dlopen(FT_CUBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("skipped: %s\n", dlerror());
        return false;
    }
#define FIND(field, name, parameters) *(void **)(void *)&api->field = dlsym(library, #name);
    FT_CUBLAS_API(FIND)
#undef FIND
    *(void **)(void *)&get_product = dlsym(library, "cublasLtMatmulDescGetAttribute");
    *(void **)(void *)&get_layout = dlsym(library, "cublasLtMatrixLayoutGetAttribute");
    *(void **)(void *)&get_preference = dlsym(library, "cublasLtMatmulPreferenceGetAttribute");
    return CHECK(get_product && get_layout && get_preference && api->product_new && api->multiply);
}

static void multiply(ft_products *products, const ft_product_args *args, int64_t batch)
{
    const ft_product_place place = {.scratch_bytes = given_scratch};
    bool have = false;
    ft_error err;
    given = args, given_batch = batch;
    CHECK_STATUS(ft_products_have(products, args, batch, &place, &have, &err), FT_OK);
    CHECK(have);
    CHECK_STATUS(ft_products_multiply(products, args, batch, &place, &err), FT_OK);
}

/* Every form of product: transposed or not, with what is done to the sum, by each precision, and
 * kept in 16 bits or not. */
static void test_products(void)
{
    ft_cublas_api api = {0};
    ft_products *products;
    ft_error err;
    if (!open_library(&api)) return;
    api.open = open_nothing, api.close = close_nothing;
    api.choose = take_first, api.multiply = multiply_nothing;
    given_scratch = 1 << 20;
    CHECK_STATUS(ft_products_new(&products, &api, &err), FT_OK);
    int n = 0;
    for (int form = 0; form < 64; form++)
        for (int rounding = FT_CUDA_F32; rounding <= FT_CUDA_F16; rounding++, n++) {
            bool half = rounding == FT_CUDA_BF16 || rounding == FT_CUDA_F16;
            int64_t kept = half ? rounding : FT_CUDA_F32;
            const ft_product_args args = {.c = {(void *)0x10010, form >> 5 ? kept : FT_CUDA_F32},
                                          .a = {(void *)0x20000, kept},
                                          .b = {(void *)0x40000, kept},
                                          .bias = form & 1 ? (const void *)0x80000 : NULL,
                                          .M = 24,
                                          .N = 40,
                                          .K = 8,
                                          .pitch_a = 24,
                                          .pitch_c = 48,
                                          .transpose_a = form >> 1 & 1,
                                          .transpose_b = form >> 2 & 1,
                                          .relu = form >> 3 & 1,
                                          .add = form >> 4 & 1,
                                          .rounding = rounding};
            multiply(products, &args, 1 + form % 3);
        }
    CHECK(n_products == n);
    ft_products_free(products);
}

int main(void)
{
    RUN(test_products);
    CHECK(n_products >= n_choices);
    return check_report();
}
