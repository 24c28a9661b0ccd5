/* ops/blocks.c - weights packed in blocks, as oneDNN's AVX-512 kernels read them. */
#include "ops/blocks.h"

#include "ops/internal.h"

enum { ROWS = 16, COLUMNS = FT_BLOCK_COLUMNS };

typedef struct job {
    const ft_product *product;
    const float *weight;
    char *packed;
    int64_t padded; /* k, with the zeros that follow */
} job;

static void pack_block(void *arg, int i)
{
    const job *j = arg;
    const ft_product *p = j->product;
    const ft_simd_blocks *blocks = ft_simd_get()->blocks;
    const int64_t at = (int64_t)i * COLUMNS;
    const ft_panel_source source = {.data = j->weight + at * (p->transposed ? p->k : 1),
                                    .ld = p->transposed ? p->k : p->n,
                                    .k = p->k,
                                    .count = p->n - at < COLUMNS ? p->n - at : COLUMNS,
                                    .turned = p->transposed};
    char *block = j->packed + at * j->padded * (p->bf16 ? 2 : 4);
    (p->bf16 ? blocks->bf16 : blocks->f32)(block, &source, j->padded);
}

void ft_blocks_pack(const ft_product *p, const float *weight, void *packed, ft_team *team)
{
    const int64_t unit = p->bf16 ? 2 * ROWS : ROWS;
    job j = {p, weight, packed, (p->k + unit - 1) / unit * unit};
    ft_team_run(team, ft_pieces(p->n, COLUMNS), pack_block, &j);
}
