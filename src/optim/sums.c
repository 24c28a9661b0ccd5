/* optim/sums.c - reductions and sums over a parameter's gradient. */
#include "optim/internal.h"

#include <stdatomic.h>
#include <string.h>

typedef struct job {
    const ft_optim_simd *simd;
    double (*squares)(const float *x, int64_t n);
    float *dst;
    const float *x, *y;
    double *sums;
    int64_t n, part;
    atomic_bool odd; /* a sum is not finite */
} job;

static void squares_part(void *arg, int i)
{
    const job *j = arg;
    int64_t from = i * j->part;
    j->sums[i] = j->squares(j->x + from, ft_piece_end(j->n, j->part, i) - from);
}

/* Over parts, which follow from n alone. */
static double sum_parts(job j, void (*work)(void *arg, int i), int64_t n, ft_team *team)
{
    double sums[FT_MAX_SUMS], total = 0.0;
    int64_t part = (n + FT_MAX_SUMS - 1) / FT_MAX_SUMS;
    j.sums = sums;
    j.n = n;
    j.part = part < FT_BLOCK ? FT_BLOCK : part;
    int n_parts = ft_pieces(n, j.part);
    ft_team_run(team, n_parts, work, &j);
    for (int i = 0; i < n_parts; i++) total += sums[i];
    return total;
}

/* Of differences: eight sums at a time, which do not wait for each other. */
static void distance_part(void *arg, int i)
{
    const job *j = arg;
    double sums[8] = {0};
    int64_t at = i * j->part, end = ft_piece_end(j->n, j->part, i);
    for (; at + 8 <= end; at += 8)
        for (int k = 0; k < 8; k++) {
            const double d = (double)(j->x[at + k] - j->y[at + k]);
            sums[k] += d * d;
        }
    for (; at < end; at++) {
        const double d = (double)(j->x[at] - j->y[at]);
        sums[0] += d * d;
    }
    j->sums[i] = 0;
    for (int k = 0; k < 8; k++) j->sums[i] += sums[k];
}

double ft_squared_norm(const float *x, int64_t n, ft_team *team)
{
    return sum_parts((job){.squares = ft_optim_simd_get()->squares, .x = x}, squares_part, n, team);
}

double ft_rough_squared_norm(const float *x, int64_t n, ft_team *team)
{
    return sum_parts((job){.squares = ft_optim_simd_get()->rough_squares, .x = x}, squares_part, n,
                     team);
}

double ft_squared_distance(const float *x, const float *y, int64_t n, ft_team *team)
{
    return sum_parts((job){.x = x, .y = y}, distance_part, n, team);
}

static void add_block(void *arg, int i)
{
    job *j = arg;
    int64_t from = (int64_t)i * FT_BLOCK;
    if (!j->simd->add(j->dst + from, j->x + from, ft_piece_end(j->n, FT_BLOCK, i) - from))
        atomic_store(&j->odd, true);
}

bool ft_sum_into(float *dst, const float *src, int64_t n, ft_team *team)
{
    job j = {.simd = ft_optim_simd_get(), .dst = dst, .x = src, .n = n};
    ft_team_run(team, ft_pieces(n, FT_BLOCK), add_block, &j);
    return !atomic_load(&j.odd);
}

/* -- terms of a parameter -----------------------------------------------------------------------
 */

typedef struct term_job {
    bool (*add)(float *dst, const float *src, int64_t n);
    const ft_sum_term *terms;
    int n, into;
    int64_t rows, width;
    int64_t group; /* rows of a piece */
    atomic_bool odd;
} term_job;

/* By bits, so that a row means the same whoever made it. */
static bool holds_zeros(const float *x, int64_t n)
{
    uint32_t any = 0, bits;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&bits, x + i, sizeof bits);
        any |= bits;
    }
    return any == 0;
}

static float *find_picked(const ft_sum_term *term, int64_t row, int64_t width)
{
    int64_t low = 0, high = term->n_picked;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (term->picked[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < term->n_picked && term->picked[low] == row ? term->x + low * width : NULL;
}

/* NULL: it does not count. */
static float *find_row(const ft_sum_term *term, int64_t row, int64_t width)
{
    float *x = term->picked ? find_picked(term, row, width) : term->x + row * width;
    if (!x || !term->by_rows) return x;
    return (!term->rows || term->rows[row]) && !holds_zeros(x, width) ? x : NULL;
}

/* The first terms are summed in the place of the first of them, until `into` is reached: a sum of
 * two is the same either way round. */
static bool sum_row(const term_job *j, int64_t row)
{
    const ft_sum_term *into = &j->terms[j->into];
    float *sum = NULL, *end = into->x + row * j->width;
    bool finite = true;
    for (int t = 0; t < j->n; t++) {
        float *x = find_row(&j->terms[t], row, j->width);
        if (!x) continue;
        if (!sum) {
            sum = x;
        } else if (x == end) {
            finite = j->add(end, sum, j->width) && finite;
            sum = end;
        } else {
            finite = j->add(sum, x, j->width) && finite;
        }
    }
    if (sum && sum != end) memcpy(end, sum, (size_t)j->width * sizeof *sum);
    if (sum && into->rows) into->rows[row] = 1;
    return finite;
}

static void sum_rows(void *arg, int piece)
{
    term_job *j = arg;
    bool finite = true;
    for (int64_t i = piece * j->group; i < ft_piece_end(j->rows, j->group, piece); i++)
        finite = sum_row(j, i) && finite;
    if (!finite) atomic_store(&j->odd, true);
}

bool ft_sum_terms(const ft_sum_term *terms, int n, int into, int64_t rows, int64_t width,
                  ft_team *team)
{
    term_job j = {.add = ft_optim_simd_get()->add,
                  .terms = terms,
                  .n = n,
                  .into = into,
                  .rows = rows,
                  .width = width,
                  .group = width < FT_BLOCK ? FT_BLOCK / (width ? width : 1) : 1};
    if (n > 1) ft_team_run(team, ft_pieces(rows, j.group), sum_rows, &j);
    return !atomic_load(&j.odd);
}

/* -- rows that pass ---------------------------------------------------------------------------- */

/* Bytes of the numbers, so that the rows behind them are aligned. */
static int64_t numbers_bytes(int64_t n)
{
    return (n * (int64_t)sizeof(int32_t) + 63) / 64 * 64;
}

int64_t ft_picked_bytes(int64_t n, int64_t width)
{
    return numbers_bytes(n) + n * width * (int64_t)sizeof(float);
}

bool ft_pick_rows(const ft_sum_term *term, int64_t rows, int64_t width, void *picked, int64_t n)
{
    int32_t *numbers = picked;
    float *to = (float *)((char *)picked + numbers_bytes(n));
    int64_t used = 0;
    for (int64_t row = 0; row < rows; row++) {
        const float *x = find_row(term, row, width);
        if (!x) continue;
        if (used == n) return false;
        numbers[used] = (int32_t)row;
        memcpy(to + used++ * width, x, (size_t)width * sizeof *to);
    }
    if (used < n) numbers[used] = -1;
    return true;
}

ft_sum_term ft_picked_term(void *picked, int64_t n)
{
    const int32_t *numbers = picked;
    int64_t used = 0;
    while (used < n && numbers[used] >= 0) used++;
    return (ft_sum_term){.x = (float *)((char *)picked + numbers_bytes(n)),
                         .by_rows = true,
                         .picked = numbers,
                         .n_picked = used};
}
