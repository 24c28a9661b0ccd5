/* optim/sums.c - reductions and sums over a parameter's gradient. */
#include "optim/internal.h"

#include <stdatomic.h>

typedef struct job {
    const ft_optim_simd *simd;
    double (*squares)(const float *x, int64_t n);
    float *dst;
    const float *x;
    double *sums;
    int64_t n, part;
    atomic_bool odd; /* a sum is not finite */
} job;

static void squares_part(void *arg, int i)
{
    const job *j = arg;
    int64_t from = i * j->part;
    j->sums[i] = j->squares(j->x + from, ft_block_end(j->n, j->part, i) - from);
}

/* Parts follow from n alone. */
static double sum_of_squares(double (*squares)(const float *, int64_t), const float *x, int64_t n,
                             ft_team *team)
{
    double sums[FT_MAX_SUMS], total = 0.0;
    int64_t part = (n + FT_MAX_SUMS - 1) / FT_MAX_SUMS;
    job j = {.squares = squares,
             .x = x,
             .sums = sums,
             .n = n,
             .part = part < FT_BLOCK ? FT_BLOCK : part};
    int n_parts = ft_blocks(n, j.part);
    ft_team_run(team, n_parts, squares_part, &j);
    for (int i = 0; i < n_parts; i++) total += sums[i];
    return total;
}

double ft_squared_norm(const float *x, int64_t n, ft_team *team)
{
    return sum_of_squares(ft_optim_simd_get()->squares, x, n, team);
}

double ft_rough_squared_norm(const float *x, int64_t n, ft_team *team)
{
    return sum_of_squares(ft_optim_simd_get()->rough_squares, x, n, team);
}

static void add_block(void *arg, int i)
{
    job *j = arg;
    int64_t from = (int64_t)i * FT_BLOCK;
    if (!j->simd->add(j->dst + from, j->x + from, ft_block_end(j->n, FT_BLOCK, i) - from))
        atomic_store(&j->odd, true);
}

bool ft_sum_into(float *dst, const float *src, int64_t n, ft_team *team)
{
    job j = {.simd = ft_optim_simd_get(), .dst = dst, .x = src, .n = n};
    ft_team_run(team, ft_blocks(n, FT_BLOCK), add_block, &j);
    return !atomic_load(&j.odd);
}
