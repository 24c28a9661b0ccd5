/* test/emulation/cublas.c - the functions of cuBLASLt that the program uses, on the host: products
 * are summed in f32 in the order of k, which is that of kernels/product.cu. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulation.h"
#include "runtime.h"
#include "tensor/tensor.h"

struct cublas_handle_s {
    bool empty;
};

struct cublas_product_s {
    int compute, scale;
    int32_t transpose_a, transpose_b, epilogue;
    const void *bias; /* as d is */
};

struct cublas_layout_s {
    int type;
    uint64_t rows, columns;
    int64_t step;
    int32_t count;
    int64_t batch_step;
};

/* Of the matrices a, b, c, d. */
typedef struct alignments {
    uint32_t of[4];
} alignments;

struct cublas_preference_s {
    size_t workspace;
    alignments least;
};

enum { NO_MEMORY = 3, INVALID = 7 };

static int take(void **out, size_t bytes)
{
    int answer = emu_begin();
    if (answer) return answer;
    *out = calloc(1, bytes);
    if (!*out) return NO_MEMORY;
    atomic_fetch_add(&emulated.open, 1);
    return 0;
}

static int give_back(void *memory)
{
    free(memory);
    atomic_fetch_sub(&emulated.open, 1);
    return 0;
}

static int open(cublas_handle *out)
{
    int answer = take((void **)out, sizeof **out);
    if (answer) return answer;
    (*out)->empty = atomic_load(&emulated.library) == LIBRARY_EMPTY;
    return 0;
}

static int close(cublas_handle handle)
{
    return give_back(handle);
}

/* -- what is computed -------------------------------------------------------------------------- */

static int product_new(cublas_product *out, int compute, int scale)
{
    int answer = take((void **)out, sizeof **out);
    if (answer) return answer;
    **out = (struct cublas_product_s){
        .compute = compute, .scale = scale, .epilogue = CUBLAS_EPILOGUE_NONE};
    return 0;
}

static int product_free(cublas_product product)
{
    return give_back(product);
}

static int product_set(cublas_product p, int attribute, const void *value, size_t bytes)
{
    int answer = emu_begin();
    if (answer) return answer;
    if (attribute == CUBLAS_BIAS) {
        if (bytes != sizeof p->bias) return INVALID;
        p->bias = *(const void *const *)value;
        return 0;
    }
    int32_t *at = attribute == CUBLAS_TRANSPOSE_A   ? &p->transpose_a
                  : attribute == CUBLAS_TRANSPOSE_B ? &p->transpose_b
                  : attribute == CUBLAS_EPILOGUE    ? &p->epilogue
                                                    : NULL;
    if (!at || bytes != sizeof *at) return INVALID;
    *at = *(const int32_t *)value;
    return 0;
}

static int layout_new(cublas_layout *out, int type, uint64_t rows, uint64_t columns, int64_t step)
{
    int answer = take((void **)out, sizeof **out);
    if (answer) return answer;
    **out = (struct cublas_layout_s){type, rows, columns, step, 1, 0};
    return 0;
}

static int layout_free(cublas_layout layout)
{
    return give_back(layout);
}

static int layout_set(cublas_layout x, int attribute, const void *value, size_t bytes)
{
    int answer = emu_begin();
    if (answer) return answer;
    if (attribute == CUBLAS_BATCH_COUNT && bytes == sizeof x->count)
        x->count = *(const int32_t *)value;
    else if (attribute == CUBLAS_BATCH_STEP && bytes == sizeof x->batch_step)
        x->batch_step = *(const int64_t *)value;
    else
        return INVALID;
    return 0;
}

static int preference_new(cublas_preference *out)
{
    int answer = take((void **)out, sizeof **out);
    if (answer) return answer;
    (*out)->least = (alignments){{256, 256, 256, 256}};
    return 0;
}

static int preference_free(cublas_preference preference)
{
    return give_back(preference);
}

static int preference_set(cublas_preference x, int attribute, const void *value, size_t bytes)
{
    int answer = emu_begin();
    if (answer) return answer;
    bool aligns = attribute >= CUBLAS_ALIGNMENT_A && attribute <= CUBLAS_ALIGNMENT_D;
    if (aligns && bytes == sizeof x->least.of[0])
        x->least.of[attribute - CUBLAS_ALIGNMENT_A] = *(const uint32_t *)value;
    else if (attribute == CUBLAS_MOST_WORKSPACE && bytes == sizeof x->workspace)
        x->workspace = *(const size_t *)value;
    else
        return INVALID;
    return 0;
}

/* -- products ---------------------------------------------------------------------------------- */

/* One batch of products: d (m, n) = a (m, k) b (k, n) + beta c, by columns. */
typedef struct job {
    struct cublas_product_s of;
    struct cublas_layout_s a, b, d;
    const void *a_at, *b_at;
    const void *c_at;
    void *d_at;
    float beta;
    uint64_t m, n, k;
    char *workspace; /* of so many bytes: what was there is lost */
    size_t bytes;
} job;

/* Whether the matrices fit together. */
static bool make_job(job *j, cublas_product p, cublas_layout a, cublas_layout b, cublas_layout d)
{
    *j = (job){.of = *p, .a = *a, .b = *b, .d = *d, .m = d->rows, .n = d->columns};
    j->k = p->transpose_a ? a->rows : a->columns;
    bool types = a->type == b->type &&
                 (a->type == CUBLAS_F32 || a->type == CUBLAS_BF16 || a->type == CUBLAS_F16) &&
                 (d->type == CUBLAS_F32 || (d->type == a->type && a->type != CUBLAS_F32)) &&
                 p->scale == CUBLAS_F32 &&
                 (p->compute == CUBLAS_COMPUTE_F32 ||
                  (p->compute == CUBLAS_COMPUTE_TF32 && a->type == CUBLAS_F32));
    return types && (p->transpose_a ? a->columns : a->rows) == j->m &&
           (p->transpose_b ? b->columns : b->rows) == j->k &&
           (p->transpose_b ? b->rows : b->columns) == j->n && a->step >= (int64_t)a->rows &&
           b->step >= (int64_t)b->rows && d->step >= (int64_t)d->rows && a->count == d->count &&
           b->count == d->count;
}

/* An algorithm may count on what the matrices' addresses were said to be multiples of. */
static bool is_aligned(const alignments *least, const void *const at[4])
{
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)at[i] % least->of[i]) return false;
    return true;
}

/* An algorithm is of one kind of product. */
static uint64_t name_of(const job *j)
{
    uint64_t name = 1;
    const uint64_t parts[] = {j->m,
                              j->n,
                              j->k,
                              (uint64_t)j->a.type,
                              (uint64_t)j->d.type,
                              (uint64_t)j->of.compute,
                              (uint64_t)j->of.epilogue,
                              (uint64_t)j->of.transpose_a,
                              (uint64_t)j->of.transpose_b,
                              (uint64_t)j->d.count};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) name = name * 1000003 + parts[i];
    return name;
}

static int choose(cublas_handle handle, cublas_product product, cublas_layout a, cublas_layout b,
                  cublas_layout c, cublas_layout d, cublas_preference preference, int most,
                  cublas_choice *out, int *n)
{
    job j;
    int answer = emu_begin();
    (void)c;
    *n = 0;
    if (answer) return answer;
    if (handle->empty) return CUBLAS_NOT_SUPPORTED;
    if (most < 1 || !make_job(&j, product, a, b, d)) return INVALID;
    if (product->epilogue & CUBLAS_EPILOGUE_BIAS && !product->bias) return INVALID;
    *out = (cublas_choice){.algorithm = {{name_of(&j)}}};
    memcpy(&out->algorithm.data[1], &preference->least, sizeof preference->least);
    out->algorithm.data[3] = out->workspace = preference->workspace;
    *n = 1;
    return 0;
}

union bits {
    uint32_t u;
    float f;
};

/* To 10 bits of fraction, ties to even; nan stays. */
static float as_tf32(float x)
{
    union bits y = {.f = x};
    if (isnan(x)) return x;
    y.u += 0xfffu + (y.u >> 13 & 1);
    y.u &= 0xffffe000u;
    return y.f;
}

static ft_dtype dtype_of(int type)
{
    return type == CUBLAS_F16 ? FT_F16 : type == CUBLAS_BF16 ? FT_BF16 : FT_F32;
}

static float read_number(int type, const void *at, int64_t i)
{
    float x;
    if (type == CUBLAS_F32) return ((const float *)at)[i];
    ft_convert(&x, FT_F32, (const uint16_t *)at + i, dtype_of(type), 1);
    return x;
}

static void write_number(int type, void *at, int64_t i, float x)
{
    if (type == CUBLAS_F32)
        ((float *)at)[i] = x;
    else
        ft_convert((uint16_t *)at + i, dtype_of(type), &x, FT_F32, 1);
}

static float number(const job *j, const struct cublas_layout_s *x, const void *at, int64_t batch,
                    uint64_t row, uint64_t column)
{
    int64_t i = batch * x->batch_step + (int64_t)column * x->step + (int64_t)row;
    float y = read_number(x->type, at, i);
    return j->of.compute == CUBLAS_COMPUTE_TF32 ? as_tf32(y) : y;
}

static void finish_column(const job *j, const float *sums, int64_t batch, uint64_t column)
{
    int64_t at = batch * j->d.batch_step + (int64_t)column * j->d.step;
    for (uint64_t i = 0; i < j->m; i++) {
        float sum = sums[i];
        int64_t to = at + (int64_t)i;
        if (j->of.epilogue & CUBLAS_EPILOGUE_BIAS)
            sum += read_number(j->d.type, j->of.bias, (int64_t)i);
        if (j->of.epilogue & CUBLAS_EPILOGUE_RELU && sum < 0.0f) sum = 0.0f;
        if (j->beta != 0.0f) sum += read_number(j->d.type, j->c_at, to);
        write_number(j->d.type, j->d_at, to, sum);
    }
}

static void run_job(const void *arg)
{
    const job *j = arg;
    float *sums = malloc(j->m * sizeof *sums);
    if (!sums) abort();
    for (size_t i = 0; i < j->bytes; i += 4096) j->workspace[i] = -1;
    if (j->bytes) j->workspace[j->bytes - 1] = -1;
    for (int64_t batch = 0; batch < j->d.count; batch++)
        for (uint64_t column = 0; column < j->n; column++) {
            for (uint64_t i = 0; i < j->m; i++) sums[i] = 0.0f;
            for (uint64_t k = 0; k < j->k; k++) {
                float y = number(j, &j->b, j->b_at, batch, j->of.transpose_b ? column : k,
                                 j->of.transpose_b ? k : column);
                for (uint64_t i = 0; i < j->m; i++)
                    sums[i] += number(j, &j->a, j->a_at, batch, j->of.transpose_a ? k : i,
                                      j->of.transpose_a ? i : k) *
                               y;
            }
            finish_column(j, sums, batch, column);
        }
    free(sums);
}

static int multiply(cublas_handle handle, cublas_product product, const void *alpha, const void *a,
                    cublas_layout of_a, const void *b, cublas_layout of_b, const void *beta,
                    const void *c, cublas_layout of_c, void *d, cublas_layout of_d,
                    const cublas_algorithm *algorithm, void *workspace, size_t bytes,
                    cu_stream stream)
{
    job j;
    int answer = emu_begin();
    (void)handle;
    (void)of_c;
    if (answer) return answer;
    if (bytes < algorithm->data[3] || (uintptr_t)workspace % 256) return INVALID;
    if (!make_job(&j, product, of_a, of_b, of_d) || *(const float *)alpha != 1.0f) return INVALID;
    if (algorithm->data[0] != name_of(&j)) return INVALID;
    alignments least;
    memcpy(&least, &algorithm->data[1], sizeof least);
    if (!is_aligned(&least, (const void *const[]){a, b, c, d})) return INVALID;
    j.a_at = a;
    j.b_at = b;
    j.c_at = c;
    j.d_at = d;
    j.beta = *(const float *)beta;
    j.workspace = workspace;
    j.bytes = bytes;
    atomic_fetch_add(&emulated.products, 1);
    emu_submit(stream, run_job, &j, sizeof j);
    return 0;
}

const ft_cublas_api *emu_cublas(ft_error *err)
{
    static const ft_cublas_api table = {
#define ENTRY(field, name, parameters) .field = field,
        FT_CUBLAS_API(ENTRY)
#undef ENTRY
    };
    if (atomic_load(&emulated.library) != LIBRARY_ABSENT) return &table;
    ft_fail(err, FT_UNSUPPORTED, "the emulated library was taken away");
    return NULL;
}
