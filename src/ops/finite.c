/* ops/finite.c - whether all numbers of a tensor are finite. */
#include <stdatomic.h>

#include "ops/internal.h"

enum { FINITE_PIECE = 1 << 18 }; /* a piece is read in some 10 us */

typedef struct finite_job {
    const float *x;
    int64_t n;
    atomic_bool found; /* something that is not */
} finite_job;

static void finite_piece(void *arg, int i)
{
    finite_job *job = arg;
    int64_t start = (int64_t)i * FINITE_PIECE;
    int64_t count = ft_piece_end(job->n, FINITE_PIECE, i) - start;
    if (!ft_simd_get()->math->finite(job->x + start, count)) atomic_store(&job->found, true);
}

bool ft_all_finite(const float *x, int64_t n, ft_team *team)
{
    finite_job job = {.x = x, .n = n};
    ft_team_run(team, ft_pieces(n, FINITE_PIECE), finite_piece, &job);
    return !atomic_load(&job.found);
}
