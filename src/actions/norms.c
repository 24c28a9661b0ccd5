/* actions/norms.c - the norm of all gradients.
 *
 * A reduce leaves the squared norm of each gradient that its seat owns with those of its batch,
 * where updates find it that wait for it. Where seats update at their own times, a seat takes
 * over norms of those whose backward comes later with an action of its own (N), which says of which
 * batch: its updates go by the last ones that were taken. */
#include <math.h>
#include <string.h>

#include "actions/internal.h"

/* What the seat has taken over; behind the batches. */
static norm_cell *taken_norms(const ft_run *run, int s)
{
    const ft_blueprint *b = run->blueprint;
    return run->norms + ((int64_t)b->norm_slots + s) * b->n_params;
}

/* Whether updates of a seat go by what it has taken over from another. */
static bool is_taken(const ft_blueprint *b, int seat, int from)
{
    const ft_seat_layout *layout = &b->seats[seat];
    for (int i = 0; i < layout->n_in_edges[FT_ACT_TAKE_NORMS]; i++)
        if (b->edges[layout->in_edges[FT_ACT_TAKE_NORMS][i]].from == from) return true;
    return false;
}

/* Cells of one batch, and those that a seat has taken over. */
typedef struct norming {
    const ft_blueprint *blueprint;
    int seat;
    norm_cell *batch, *taken;
    double norm;
} norming;

static norming norms_for(const ft_run *run, const ft_action *a)
{
    return (norming){.blueprint = run->blueprint,
                     .seat = a->seat,
                     .batch = norms_of(run, a->batch),
                     .taken = taken_norms(run, a->seat),
                     .norm = NAN};
}

static ft_status take_norms(void *arg, ft_error *err)
{
    norming *s = arg;
    (void)err;
    for (int p = 0; p < s->blueprint->n_params; p++)
        if (is_taken(s->blueprint, s->seat, s->blueprint->params[p].owner))
            s->taken[p] = s->batch[p];
    return FT_OK;
}

/* The cells of the batch of owners that the seat takes norms from, or of the others, which may be
 * written by then. */
static void touches_batch(ft_plain_work *work, const norming *s, bool taken)
{
    for (int p = 0; p < s->blueprint->n_params; p++)
        if (is_taken(s->blueprint, s->seat, s->blueprint->params[p].owner) == taken)
            touches(work, &s->batch[p], sizeof *s->batch, false);
}

/* Of devices that run ahead the workers fill in the cells, when they hear of sums: no stream is to
 * be waited for. */
static ft_status compute_cells(const worker *w, ft_plain_work *work, ft_error *err)
{
    return w->findings ? work->run(work->arg, err) : compute(w, work, err);
}

ft_status do_take_norms(worker *w, const ft_action *a, ft_error *err)
{
    norming s = norms_for(w->run, a);
    ft_plain_work work = {.run = take_norms, .arg = &s};
    touches(&work, s.taken, s.blueprint->n_params * (int64_t)sizeof *s.taken, true);
    touches_batch(&work, &s, true);
    return compute_cells(w, &work, err);
}

/* In the order of the parameters, whatever seats they are in. */
static ft_status sum_norms(void *arg, ft_error *err)
{
    norming *s = arg;
    double sum = 0;
    (void)err;
    for (int p = 0; p < s->blueprint->n_params; p++) {
        bool taken = is_taken(s->blueprint, s->seat, s->blueprint->params[p].owner);
        sum += (taken ? s->taken : s->batch)[p].squared;
    }
    s->norm = sqrt(sum);
    return FT_OK;
}

ft_status global_norm(const worker *w, const ft_action *update, double *out, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    norming s = norms_for(w->run, update);
    int64_t bytes = b->n_params * (int64_t)sizeof(norm_cell);
    ft_plain_work work = {.run = sum_norms, .arg = &s};
    bool takes = b->seats[update->seat].n_in_edges[FT_ACT_TAKE_NORMS] > 0;
    touches(&work, takes ? s.taken : s.batch, bytes, false);
    if (takes) touches_batch(&work, &s, false);
    if (b->norms) FT_TRY(compute_cells(w, &work, err));
    *out = s.norm;
    return FT_OK;
}
