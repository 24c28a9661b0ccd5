/* ops/bf16.c - products whose operands are rounded to bf16 first. */
#include "ops/bf16.h"

#include <stddef.h>

#include "ops/internal.h"

const ft_attr_rule ft_bf16_attrs[] = {FT_BF16_RULE, FT_TF32_RULE, FT_F16_RULE, {.name = NULL}};

/* Columns of a weight that is not packed which are converted at a time: what is converted stays in
 * the caches, and the workspace small. */
enum { BLOCK_COLUMNS = 256 };

static int64_t bf16_bytes(int64_t n)
{
    return (2 * n + 63) / 64 * 64;
}

/* -- conversion -------------------------------------------------------------------------------- */

/* A matrix of rows of n numbers, `step` apart; those of the result are dense. */
typedef struct conversion {
    uint16_t *y;
    const float *x;
    int64_t rows, n, step;
} conversion;

static int64_t rows_per_piece(int64_t n)
{
    return n > FT_PIECE ? 1 : FT_PIECE / n;
}

static void convert_piece(void *arg, int i)
{
    const conversion *c = arg;
    int64_t piece = rows_per_piece(c->n), end = ft_piece_end(c->rows, piece, i);
    const ft_simd_math *math = ft_simd_get()->math;
    for (int64_t row = i * piece; row < end; row++)
        math->to_bf16(c->y + row * c->n, c->x + row * c->step, c->n);
}

static void convert(conversion c, ft_team *team)
{
    ft_team_run(team, ft_pieces(c.rows, rows_per_piece(c.n)), convert_piece, &c);
}

/* -- products with a weight -------------------------------------------------------------------- */

/* What oneDNN needs for the product; where it has no bf16 nothing runs, and plans for other
 * machines take what it needs in f32. */
static int64_t inner_work_bytes(const ft_product *p, int team_size)
{
    ft_product product = *p;
    product.bf16 = ft_ops_have_bf16();
    return ft_onednn_work_bytes(&product, team_size);
}

static bool is_empty(const ft_product *p)
{
    return !p->m || !p->n || !p->k;
}

/* The product of `columns` columns of the weight, as they lie when converted. */
static ft_product block_of(const ft_product *p, int64_t columns)
{
    ft_product block = *p;
    block.y_step = p->n;
    block.n = columns;
    return block;
}

int64_t ft_bf16_work_bytes(const ft_product *p, int team_size)
{
    if (is_empty(p)) return 0;
    int64_t columns = p->n < BLOCK_COLUMNS ? p->n : BLOCK_COLUMNS, rest = p->n % columns;
    ft_product block = block_of(p, columns), last = block_of(p, rest ? rest : columns);
    int64_t most = inner_work_bytes(p, team_size);
    int64_t others[] = {inner_work_bytes(&block, team_size),
                        rest ? inner_work_bytes(&last, team_size) : 0};
    for (int i = 0; i < 2; i++) most = others[i] > most ? others[i] : most;
    return bf16_bytes(p->m * p->k) + bf16_bytes(columns * p->k) + most;
}

/* A weight that is not packed: its columns are converted a block at a time. */
static ft_status product_by_blocks(const ft_product *p, const ft_product_data *d, char *work,
                                   ft_team *team, ft_error *err)
{
    int64_t columns = p->n < BLOCK_COLUMNS ? p->n : BLOCK_COLUMNS;
    const float *weight = d->weight;
    ft_product_data data = *d;
    data.weight = work;
    data.work = work + bf16_bytes(columns * p->k);
    for (int64_t at = 0; at < p->n; at += columns) {
        ft_product block = block_of(p, p->n - at < columns ? p->n - at : columns);
        conversion c = p->transposed
                           ? (conversion){.x = weight + at * p->k, .rows = block.n, .n = p->k}
                           : (conversion){.x = weight + at, .rows = p->k, .n = block.n};
        c.y = (uint16_t *)(void *)work;
        c.step = p->transposed ? p->k : p->n;
        convert(c, team);
        data.bias = d->bias ? d->bias + at : NULL;
        data.y = d->y + at;
        FT_TRY(ft_onednn_product(&block, &data, team, err));
    }
    return FT_OK;
}

ft_status ft_bf16_product(const ft_product *p, const ft_product_data *d, ft_team *team,
                          ft_error *err)
{
    ft_product_data data = *d;
    char *work = d->work;
    if (is_empty(p)) return ft_onednn_product(p, d, team, err);
    convert((conversion){(uint16_t *)d->work, d->x, p->m, p->k, p->k}, team);
    data.x = work;
    work += bf16_bytes(p->m * p->k);
    if (!d->packed) return product_by_blocks(p, &data, work, team, err);
    data.work = work;
    return ft_onednn_product(p, &data, team, err);
}

/* -- gradients of weights ---------------------------------------------------------------------- */

static ft_product outer_product(int64_t M, int64_t N, int64_t K)
{
    return (ft_product){.m = N, .n = K, .k = M, .bf16 = true, .x_transposed = true};
}

int64_t ft_bf16_outer_work_bytes(int64_t M, int64_t N, int64_t K, int team_size)
{
    ft_product product = outer_product(M, N, K);
    if (is_empty(&product)) return 0;
    product.add = true; /* of the two kinds of call the one that needs more */
    int64_t adding = inner_work_bytes(&product, team_size);
    product.add = false;
    int64_t plain = inner_work_bytes(&product, team_size);
    return bf16_bytes(M * N) + bf16_bytes(M * K) + (adding > plain ? adding : plain);
}

ft_status ft_bf16_outer_product(const ft_bf16_outer *o, ft_team *team, ft_error *err)
{
    ft_product product = outer_product(o->M, o->N, o->K);
    char *dy = o->work, *x = dy + bf16_bytes(o->M * o->N);
    product.add = o->add;
    convert((conversion){(uint16_t *)(void *)dy, o->dy, o->M, o->N, o->N}, team);
    convert((conversion){(uint16_t *)(void *)x, o->x, o->M, o->K, o->K}, team);
    ft_product_data data = {.x = dy, .weight = x, .y = o->dw, .work = x + bf16_bytes(o->M * o->K)};
    return ft_onednn_product(&product, &data, team, err);
}
