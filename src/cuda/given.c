/* cuda/given.c - what streams for computing are given: kernels, products of cuBLASLt, zeros. Each
 * goes to the card at once, or into the series that is open (series.h). */
#include <stdio.h>

#include "cuda/executor.h"

static const struct {
    const char *file, *name;
    unsigned threads, bytes; /* of a block; of the argument */
} kernels[] = {
#define KERNEL(file, name, threads) {#file, "ft_" #name, threads, sizeof(ft_##name##_args)},
    FT_CUDA_KERNELS(KERNEL)
#undef KERNEL
};

const char *cuda_kernel_name(int kernel)
{
    return kernels[kernel].name;
}

const char *cuda_kernel_file(int kernel)
{
    return kernels[kernel].file;
}

/* Arguments of items that are no kernels. */
typedef struct product_given {
    ft_product_args args;
    int64_t batch;
} product_given;

typedef struct fill_given {
    cu_address memory; /* gets zeros */
    size_t bytes;
} fill_given;

_Static_assert(sizeof(product_given) == 7 * 8 + 6 * 8 + 2 * 2 + 3 * 4, "no padding: see ft_given");

static ft_status give_kernel(const stream *s, const ft_given *g, ft_error *err)
{
    const executor *x = of(s->base.executor);
    const cu_launch how = {.grid = {g->grid[0], g->grid[1], g->grid[2]},
                           .block = {g->threads, 1, 1},
                           .shared_bytes = g->room,
                           .stream = s->handle};
    void *arguments[] = {(void *)(uintptr_t)g->args};
    return check(x, x->api->launch(&how, g->function, arguments, NULL), g->name, err);
}

static ft_product_place place_of(const stream *s)
{
    if (s->lent) return (ft_product_place){s->handle, s->lent, s->lent_bytes};
    return (ft_product_place){s->handle, (void *)(uintptr_t)s->scratch, FT_CUDA_SCRATCH};
}

void ft_cuda_lend(ft_device_stream *on, void *memory, int64_t bytes)
{
    enum { ALIGN = FT_CUDA_LIBRARY_ALIGN };
    stream *s = (stream *)on;
    char *at = memory;
    if (bytes <= ALIGN) return;
    s->lent = at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
    s->lent_bytes = (size_t)(bytes - ALIGN);
}

static ft_status give_product(const stream *s, const ft_given *g, ft_error *err)
{
    const product_given *p = g->args;
    const ft_product_place place = place_of(s);
    if (ft_products_multiply(s->products, &p->args, p->batch, &place, err) == FT_OK) return FT_OK;
    return ft_error_wrap(err, "device %s", s->base.executor->device->name);
}

static ft_status give_fill(const stream *s, const ft_given *g, ft_error *err)
{
    const executor *x = of(s->base.executor);
    const fill_given *f = g->args;
    return check(x, x->api->fill_on(f->memory, 0, f->bytes, s->handle), g->name, err);
}

ft_status cuda_give(ft_device_stream *on, const ft_given *g, ft_error *err)
{
    static ft_status (*const kinds[])(const stream *, const ft_given *, ft_error *) = {
        [FT_GIVEN_KERNEL] = give_kernel,
        [FT_GIVEN_PRODUCT] = give_product,
        [FT_GIVEN_FILL] = give_fill,
    };
    FT_TRY(use(of(on->executor), g->name, err));
    return kinds[g->kind]((const stream *)on, g, err);
}

/* Now, or with the series that is open. */
static ft_status submit(ft_device_stream *on, const ft_given *g, ft_error *err)
{
    ft_series *series = ((stream *)on)->series;
    return ft_series_is_open(series) ? ft_series_add(series, g, err) : cuda_give(on, g, err);
}

ft_status ft_cuda_launch(ft_device_stream *on, ft_cuda_kernel kernel, ft_grid grid,
                         const void *args, ft_error *err)
{
    const executor *x = of(on->executor);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return FT_OK;
    if (grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX)
        return ft_fail(err, FT_UNSUPPORTED,
                       "device %s: %s over %lld x %lld x %lld blocks, more than a card takes",
                       x->base.device->name, kernels[kernel].name, (long long)grid.x,
                       (long long)grid.y, (long long)grid.z);
    return submit(on,
                  &(ft_given){.kind = FT_GIVEN_KERNEL,
                              .name = kernels[kernel].name,
                              .function = x->functions[kernel],
                              .grid = {(unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z},
                              .threads = kernels[kernel].threads,
                              .room = x->rooms[kernel],
                              .bytes = kernels[kernel].bytes,
                              .args = args},
                  err);
}

bool ft_cuda_has_library(const ft_device_stream *on)
{
    return ((const stream *)on)->products != NULL;
}

ft_status ft_cuda_multiply(ft_device_stream *on, const ft_product_args *args, int64_t batch,
                           bool *done, ft_error *err)
{
    const stream *s = (const stream *)on;
    const ft_product_place place = place_of(s);
    const product_given p = {*args, batch};
    *done = false;
    if (!s->products) return FT_OK;
    FT_TRY(use(of(on->executor), "a product", err));
    if (ft_products_have(s->products, args, batch, &place, done, err) != FT_OK)
        return ft_error_wrap(err, "device %s", on->executor->device->name);
    const ft_given given = {
        .kind = FT_GIVEN_PRODUCT, .name = "a product", .bytes = sizeof p, .args = &p};
    return *done ? submit(on, &given, err) : FT_OK;
}

ft_status ft_cuda_clear(ft_device_stream *on, void *memory, int64_t bytes, ft_error *err)
{
    const fill_given f = {(cu_address)(uintptr_t)memory, (size_t)bytes};
    const ft_given given = {
        .kind = FT_GIVEN_FILL, .name = "clearing memory", .bytes = sizeof f, .args = &f};
    return bytes ? submit(on, &given, err) : FT_OK;
}

void ft_cuda_begin_series(ft_device_stream *on)
{
    ft_series_open(((stream *)on)->series);
}

ft_status ft_cuda_end_series(ft_device_stream *on, ft_status status, ft_error *err)
{
    ft_series *series = ((stream *)on)->series;
    if (status == FT_OK) return ft_series_close(series, err);
    ft_series_drop(series);
    return status;
}
