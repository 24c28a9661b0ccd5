/* optim/gap.c - gradients of weights that have moved since: divided by the gap.
 *
 * A gradient that was taken with older weights w' counts the less the further the weights w have
 * gone since, measured by the steps that they take: of each number
 *   g /= 1 + |w - w'| / (r sqrt(a) + eps)
 * where a is the mean of the squares of its steps over their rates, a moving mean that keeps 0.999
 * of what it was and is corrected for its beginning, and r the largest rate so far (Barkai, Hakimi,
 * Schuster, arXiv:1909.10802; for each number, as in FTPipe, Eliad and others, USENIX ATC 2021). A
 * step is what an update has moved the weight by, so any optimizer has them. */
#include "optim/internal.h"

#include <math.h>

static const float KEEP = 0.999f, EPS = 1e-8f;

enum { LARGEST_RATE, WEIGHT, SCALES }; /* WEIGHT: of all steps in the mean; 1 when there are many */

typedef struct job {
    const ft_gap *gap;
    float *mean, *scales;
    const float *before;
    float rate;
    const ft_attenuation *work;
    double sums[FT_MAX_SUMS];
    int64_t n, part;
} job;

int ft_gap_state(const ft_spec *spec, ft_state_part *parts, int64_t *bytes)
{
    const int64_t n = SCALES;
    ft_state_add(&parts[0], "gap_step_sq", spec->shape, bytes);
    ft_state_add(&parts[1], "gap_scales", ft_shape_make(1, &n), bytes);
    return 2;
}

static job job_of(const ft_gap *gap)
{
    ft_state_part parts[2];
    int64_t bytes = 0, n = ft_shape_count(&gap->spec->shape);
    int64_t part = (n + FT_MAX_SUMS - 1) / FT_MAX_SUMS;
    ft_gap_state(gap->spec, parts, &bytes);
    char *state = gap->state;
    return (job){.gap = gap,
                 .mean = (float *)(void *)(state + parts[0].offset),
                 .scales = (float *)(void *)(state + parts[1].offset),
                 .n = n,
                 .part = part < FT_BLOCK ? FT_BLOCK : part};
}

static void note_part(void *arg, int i)
{
    job *j = arg;
    int64_t end = ft_piece_end(j->n, j->part, i);
    for (int64_t at = i * j->part; at < end; at++) {
        const float step = (j->before[at] - j->gap->param[at]) / j->rate;
        j->mean[at] = KEEP * j->mean[at] + (1.0f - KEEP) * (step * step);
    }
}

void ft_gap_note(const ft_gap *gap, const float *before, double rate)
{
    job j = job_of(gap);
    j.before = before;
    j.rate = (float)rate;
    if (!(j.rate > 0.0f)) return; /* nothing was moved */
    ft_team_run(gap->team, ft_pieces(j.n, j.part), note_part, &j);
    j.scales[WEIGHT] = KEEP * j.scales[WEIGHT] + (1.0f - KEEP);
    if (j.rate > j.scales[LARGEST_RATE]) j.scales[LARGEST_RATE] = j.rate;
}

/* Of a gap, by the size of steps. */
static float penalty(float gap, float size)
{
    return 1.0f + fabsf(gap) / size;
}

static void attenuate_part(void *arg, int i)
{
    job *j = arg;
    const ft_attenuation *a = j->work;
    const float *param = j->gap->param;
    const float rate = j->scales[LARGEST_RATE];
    const float weight = j->scales[WEIGHT] > 0.0f ? j->scales[WEIGHT] : 1.0f;
    double sum = 0;
    int64_t end = ft_piece_end(j->n, j->part, i);
    for (int64_t at = i * j->part; at < end; at++) {
        const float size = rate * sqrtf(j->mean[at] / weight) + EPS, gap = param[at] - a->old[at];
        const float on = a->next ? penalty(param[at] - a->next[at], size) : 1.0f;
        a->grad[at] *= on / penalty(gap, size);
        sum += (double)gap * (double)gap;
    }
    j->sums[i] = sum;
}

double ft_gap_attenuate(const ft_gap *gap, const ft_attenuation *work)
{
    job j = job_of(gap);
    double total = 0;
    int n_parts = ft_pieces(j.n, j.part);
    j.work = work;
    ft_team_run(gap->team, n_parts, attenuate_part, &j);
    for (int i = 0; i < n_parts; i++) total += j.sums[i];
    return total;
}
