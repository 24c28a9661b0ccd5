/* optim/adafactor.c - Adafactor without momentum.
 *
 * Shazeer and Stern, arXiv:1804.04235, algorithms 4 and 5, with a given rate. For g the gradient of
 * step t, beta = 1 - t^-decay_rate and G = g^2 + eps1:
 *   matrices (last two dimensions, (R, C)):
 *     row = beta row + (1 - beta) mean of G over C,  col likewise over R
 *     u = g / sqrt(row / mean(row)) / sqrt(col)
 *   others: v = beta v + (1 - beta) G,  u = g / sqrt(v)
 *   u /= max(1, rms(u) / clip_threshold)
 *   p -= rate * max(eps2, rms(p)) * (u + weight_decay p)
 * rms(u) is over the whole tensor, so that u is made twice: to be measured, and to be applied. The
 * factors need all of g, rms(u) the factors, the step both rms: passes of 4, 4, 4 and 12 bytes for
 * a number, each at what one core reads or writes. u is measured from the last block to the first:
 * a pass begins where the one before ended, at what the caches still hold.
 * The rate of a step is an argument: nothing that one tensor does to it reaches the next.
 *
 * A matrix is cut into at most MAX_BLOCKS blocks of rows. Behind the parts that are saved, the
 * state has scratch for their sums over columns, and for the factors of the columns. */
#include "optim/internal.h"

#include <math.h>
#include <string.h>

enum { EPS1, EPS2, CLIP, DECAY_RATE, WEIGHT_DECAY, SCALE_PARAMETER };
enum { MAX_BLOCKS = 8, MIN_ROWS = 32 };

/* The last two dimensions, and how many such matrices there are. */
typedef struct matrix {
    int64_t count, R, C;
} matrix;

/* Blocks of rows of one matrix, and what a pass over them needs. */
typedef struct job {
    const ft_optim_simd *simd;
    const float *g;
    float *p, *v;
    float *row, *col;         /* state of this matrix */
    double *columns;          /* MAX_BLOCKS times C sums */
    float *factors;           /* C: 1 / sqrt(col) */
    double sums[FT_MAX_SUMS]; /* of squares of u, by block */
    double beta, eps, mean_row;
    double rate; /* times the parameter's size, where that is asked for */
    float scale, size, keep;
    int64_t R, C, block; /* rows of a block; elements, when not factored */
} job;

static matrix matrix_of(const ft_shape *shape)
{
    matrix m = {1, shape->dims[shape->n_dims - 2], shape->dims[shape->n_dims - 1]};
    for (int i = 0; i < shape->n_dims - 2; i++) m.count *= shape->dims[i];
    return m;
}

/* The sums over columns are f64: two floats each. */
static int adafactor_state(const ft_spec *spec, const double *hypers, ft_state_part *parts,
                           int64_t *bytes)
{
    (void)hypers;
    *bytes = 0;
    const ft_shape *shape = &spec->shape;
    if (shape->n_dims < 2) {
        ft_state_add(&parts[0], "exp_avg_sq", *shape, bytes);
        return 1;
    }
    ft_shape row = ft_shape_make(shape->n_dims - 1, shape->dims), col = row;
    col.dims[col.n_dims - 1] = shape->dims[shape->n_dims - 1];
    ft_state_add(&parts[0], "exp_avg_sq_row", row, bytes);
    ft_state_add(&parts[1], "exp_avg_sq_col", col, bytes);
    *bytes += matrix_of(shape).C * (int64_t)(MAX_BLOCKS * sizeof(double) + sizeof(float));
    return 2;
}

static int64_t rows_of_block(int64_t R)
{
    int64_t rows = (R + MAX_BLOCKS - 1) / MAX_BLOCKS;
    return rows < MIN_ROWS ? MIN_ROWS : rows;
}

/* -- matrices ---------------------------------------------------------------------------------- */

static void row_state(job *j, int64_t r, double sum)
{
    j->row[r] = (float)(j->beta * (double)j->row[r] + (1.0 - j->beta) * sum / (double)j->C);
}

/* Means of the squares along the rows, sums of them along the columns. */
static void squares_block(void *arg, int i)
{
    job *j = arg;
    double *columns = j->columns + i * j->C, sums[FT_SQUARE_ROWS];
    float eps = (float)j->eps;
    int64_t r = i * j->block, end = ft_piece_end(j->R, j->block, i);
    memset(columns, 0, (size_t)j->C * sizeof *columns);
    for (; r + FT_SQUARE_ROWS <= end; r += FT_SQUARE_ROWS) {
        j->simd->square_rows(columns, sums, j->g + r * j->C, j->scale, eps, j->C);
        for (int k = 0; k < FT_SQUARE_ROWS; k++) row_state(j, r + k, sums[k]);
    }
    for (; r < end; r++)
        row_state(j, r, j->simd->square_row(columns, j->g + r * j->C, j->scale, eps, j->C));
}

/* Factors of the columns of this matrix, from its state. */
static void column_factors(job *j)
{
    for (int64_t c = 0; c < j->C; c++) j->factors[c] = (float)(1.0 / sqrt((double)j->col[c]));
}

static float row_factor(const job *j, int64_t r)
{
    return (float)sqrt(j->mean_row / (double)j->row[r]);
}

/* Factors of the rows from r on, times `size`; how many of at most FT_FACTOR_ROWS there are. */
static int row_factors(const job *j, int64_t r, int64_t end, float size, float *factors)
{
    int rows = end - r < FT_FACTOR_ROWS ? (int)(end - r) : FT_FACTOR_ROWS;
    for (int k = 0; k < rows; k++) factors[k] = row_factor(j, r + k) * size;
    return rows;
}

static void measure_block(void *arg, int turn)
{
    job *j = arg;
    const int i = ft_pieces(j->R, j->block) - 1 - turn;
    double total = 0.0;
    float row[FT_FACTOR_ROWS];
    int64_t end = ft_piece_end(j->R, j->block, i);
    for (int64_t r = i * j->block; r < end; r += FT_FACTOR_ROWS) {
        int rows = row_factors(j, r, end, 1, row);
        total += j->simd->factored_squares(j->g + r * j->C, j->factors, row, rows, j->scale, j->C);
    }
    j->sums[i] = total;
}

static void apply_block(void *arg, int i)
{
    const job *j = arg;
    float row[FT_FACTOR_ROWS];
    int64_t end = ft_piece_end(j->R, j->block, i);
    for (int64_t r = i * j->block; r < end; r += FT_FACTOR_ROWS) {
        int rows = row_factors(j, r, end, j->size, row);
        j->simd->factored_apply(j->p + r * j->C, j->g + r * j->C, j->factors, row, rows, j->keep,
                                j->C);
    }
}

static double in_order(const double *sums, int n)
{
    double total = 0.0;
    for (int i = 0; i < n; i++) total += sums[i];
    return total;
}

/* The mean of the row statistics, from the state: the same before and after a break. */
static void mean_of_rows(job *j)
{
    double total = 0.0;
    for (int64_t r = 0; r < j->R; r++) total += (double)j->row[r];
    j->mean_row = total / (double)j->R;
}

/* Brings the state of one matrix to this step; returns the sum of squares of its u. */
static double factored_measure(job *j, ft_team *team)
{
    int n_blocks = ft_pieces(j->R, j->block);
    ft_team_run(team, n_blocks, squares_block, j);
    for (int64_t c = 0; c < j->C; c++) {
        double sum = 0.0;
        for (int i = 0; i < n_blocks; i++) sum += j->columns[i * j->C + c];
        j->col[c] = (float)(j->beta * (double)j->col[c] + (1.0 - j->beta) * sum / (double)j->R);
    }
    mean_of_rows(j);
    column_factors(j);
    ft_team_run(team, n_blocks, measure_block, j);
    return in_order(j->sums, n_blocks);
}

/* The k-th matrix of the tensor. */
static void select_matrix(job *j, const ft_update *u, const ft_state_part *parts, int64_t k)
{
    char *state = u->state;
    int64_t at = k * j->R * j->C;
    j->g = u->grad + at;
    j->p = u->param + at;
    j->row = (float *)(void *)(state + parts[0].offset) + k * j->R;
    j->col = (float *)(void *)(state + parts[1].offset) + k * j->C;
}

/* max(eps2, rms(p)). */
static double size_of(const float *param, int64_t n, const double *hypers, ft_team *team)
{
    return fmax(hypers[EPS2], sqrt(ft_rough_squared_norm(param, n, team) / (double)n));
}

/* Size of u for the whole tensor, of n elements, from the sum of its squares. */
static void set_size(job *j, const ft_update *u, double squares, int64_t n)
{
    const double *h = u->hypers;
    double rms = sqrt(squares / (double)n);
    j->keep = (float)(1.0 - j->rate * h[WEIGHT_DECAY]);
    j->size = (float)(j->rate / fmax(1.0, rms / h[CLIP]) * (double)u->grad_scale);
}

static void factored_update(job *j, const ft_update *u, const ft_state_part *parts, int64_t bytes)
{
    matrix m = matrix_of(&u->spec->shape);
    j->R = m.R;
    j->C = m.C;
    j->block = rows_of_block(m.R);
    j->factors = (float *)(void *)((char *)u->state + bytes) - m.C;
    j->columns = (double *)(void *)((char *)u->state + bytes - m.C * (int64_t)sizeof(float)) -
                 MAX_BLOCKS * m.C;
    double squares = 0.0;
    for (int64_t k = 0; k < m.count; k++) {
        select_matrix(j, u, parts, k);
        squares += factored_measure(j, u->team);
    }
    set_size(j, u, squares, m.count * m.R * m.C);
    for (int64_t k = 0; k < m.count; k++) {
        select_matrix(j, u, parts, k);
        if (m.count > 1) {
            mean_of_rows(j);
            column_factors(j);
        }
        ft_team_run(u->team, ft_pieces(j->R, j->block), apply_block, j);
    }
}

/* -- others ------------------------------------------------------------------------------------ */

static void plain_measure(void *arg, int i)
{
    job *j = arg;
    int64_t at = i * j->block, n = ft_piece_end(j->C, j->block, i) - at;
    const float hypers[] = {(float)j->beta, (float)(1.0 - j->beta), j->scale, (float)j->eps};
    j->sums[i] = j->simd->plain_squares(j->v + at, j->g + at, hypers, n);
}

static void plain_apply(void *arg, int i)
{
    const job *j = arg;
    int64_t at = i * j->block, n = ft_piece_end(j->C, j->block, i) - at;
    j->simd->plain_apply(j->p + at, j->v + at, j->g + at, j->size, j->keep, n);
}

static void plain_update(job *j, const ft_update *u)
{
    j->C = ft_shape_count(&u->spec->shape);
    j->block = (j->C + FT_MAX_SUMS - 1) / FT_MAX_SUMS;
    if (j->block < FT_BLOCK) j->block = FT_BLOCK;
    j->g = u->grad;
    j->p = u->param;
    j->v = u->state;
    int n_blocks = ft_pieces(j->C, j->block);
    ft_team_run(u->team, n_blocks, plain_measure, j);
    set_size(j, u, in_order(j->sums, n_blocks), j->C);
    ft_team_run(u->team, n_blocks, plain_apply, j);
}

static void adafactor_update(const ft_update *u)
{
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes;
    adafactor_state(u->spec, u->hypers, parts, &bytes);
    const double *h = u->hypers;
    int64_t n = ft_shape_count(&u->spec->shape);
    if (n == 0) return;
    job j = {.simd = ft_optim_simd_get(),
             .beta = 1.0 - pow((double)u->step, -h[DECAY_RATE]),
             .eps = h[EPS1],
             .rate = u->rate,
             .scale = u->grad_scale};
    if (h[SCALE_PARAMETER] != 0.0) j.rate *= size_of(u->param, n, h, u->team);
    if (u->spec->shape.n_dims < 2)
        plain_update(&j, u);
    else
        factored_update(&j, u, parts, bytes);
}

/* Without a momentum nothing is known of the steps to come but their decay. */
static void adafactor_predict(const ft_prediction *q)
{
    const double *h = q->hypers;
    int64_t n = ft_shape_count(&q->spec->shape);
    double keep = 1, size = 1;
    if (h[SCALE_PARAMETER] != 0.0 && h[WEIGHT_DECAY] != 0.0 && n)
        size = size_of(q->param, n, h, q->team);
    for (int k = 0; k < q->n; k++) keep *= 1.0 - q->rates[k] * size * h[WEIGHT_DECAY];
    for (int64_t i = 0; i < n; i++) q->out[i] = q->param[i] * (float)keep;
}

const ft_optimizer ft_optimizer_adafactor = {
    .name = "adafactor",
    .doc = "p -= rate max(eps2, rms(p)) (u / max(1, rms(u) / clip_threshold) + weight_decay p); "
           "u = g / root of its mean square, factored for matrices (arXiv:1804.04235)",
    .hypers =
        (const ft_hyper_rule[]){
            {"eps1", 1e-30, 1e-37, 1, "added to squares of gradients"},
            {"eps2", 1e-3, 0, 1, "least size of a parameter that its rate is multiplied by"},
            {"clip_threshold", 1, 1e-6, 1e6, "largest root mean square of an update"},
            {"decay_rate", 0.8, 0, 10, "share of the new squares at step t is t^-decay_rate"},
            {"weight_decay", 0, 0, 10, "times the rate: what the parameter loses in a step"},
            {"scale_parameter", 1, 0, 1, "1: multiply the rate by the parameter's size"},
            {0},
        },
    .memory = 2.1,
    .state = adafactor_state,
    .update = adafactor_update,
    .predict = adafactor_predict,
};
