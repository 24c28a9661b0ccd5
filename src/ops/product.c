/* ops/product.c - products with a weight, by whoever does them best here. */
#include "ops/product.h"

#include <assert.h>
#include <stddef.h>

#include "ops/bf16.h"
#include "ops/internal.h"
#include "ops/onednn.h"
#include "ops/panels.h"

/* The kernels of our own that do this product; NULL: oneDNN does. */
static const ft_simd_panels *own_kernels(const ft_product *p)
{
    assert(!p->x_transposed && !p->add && !p->y_step);
    return p->k ? ft_panels_kernels(p->bf16) : NULL;
}

static void multiply(const ft_product *p, const ft_product_data *d, const ft_simd_panels *kernels,
                     ft_team *team)
{
    const ft_large_product product = {.m = p->m,
                                      .n = p->n,
                                      .k = p->k,
                                      .a = d->x,
                                      .b = d->weight,
                                      .b_transposed = p->transposed,
                                      .packed = d->packed,
                                      .bias = d->bias,
                                      .c = d->y,
                                      .relu = p->relu,
                                      .work = d->work};
    ft_panels_multiply(&product, kernels, team);
}

ft_status ft_product_run(const ft_product *p, const ft_product_data *data, ft_team *team,
                         ft_error *err)
{
    const ft_simd_panels *own = own_kernels(p);
    if (!own) return (p->bf16 ? ft_bf16_product : ft_onednn_product)(p, data, team, err);
    multiply(p, data, own, team);
    return FT_OK;
}

int64_t ft_product_work_bytes(const ft_product *p, int team_size)
{
    const ft_simd_panels *own = own_kernels(p);
    if (own) return ft_panels_work_bytes(p->m, p->n, p->k, own, team_size);
    return (p->bf16 ? ft_bf16_work_bytes : ft_onednn_work_bytes)(p, team_size);
}

/* One of oneDNN's in bf16 with a weight that is not packed is several (ops/bf16.c). */
ft_status ft_product_prepare(ft_prepared **out, const ft_product *p, const ft_call_kind *kind,
                             ft_error *err)
{
    *out = NULL;
    if (own_kernels(p) || (p->bf16 && !kind->packed)) return FT_OK;
    return ft_onednn_prepare(out, p, kind->packed, kind->team_size, err);
}

void ft_product_forget(ft_prepared *prepared)
{
    ft_onednn_forget(prepared);
}

/* -- packed weights ---------------------------------------------------------------------------- */

int64_t ft_product_packed_bytes(const ft_product *p)
{
    const ft_simd_panels *own = own_kernels(p);
    return own ? ft_panels_packed_bytes(p->n, p->k, own) : ft_onednn_packed_bytes(p);
}

ft_status ft_product_pack(const ft_product *p, const float *weight, void *packed, ft_team *team,
                          ft_error *err)
{
    const ft_simd_panels *own = own_kernels(p);
    if (!own) return ft_onednn_pack(p, weight, packed, team, err);
    const ft_large_product product = {
        .n = p->n, .k = p->k, .b = weight, .b_transposed = p->transposed};
    ft_panels_pack(&product, packed, own, team);
    return FT_OK;
}
