/* state/gap.c - how far weights have gone since those that a forward read.
 *
 * Where backwards read what their forwards did, it is there. Elsewhere the first forward of a batch
 * that is late leaves a copy of what it reads, its mark, for its backward. */
#include <math.h>

#include "state/late.h"
#include "state/ledger.h"

double *gap_of_batch(const ft_run *run, int s, int64_t batch)
{
    return &run->gaps[batch % run->blueprint->batch_slots * run->n_seats + s];
}

typedef struct measuring {
    const float *newest, *older;
    int64_t n;
    ft_team *team;
    double squared;
} measuring;

static ft_status measure(void *arg, ft_error *err)
{
    measuring *m = arg;
    (void)err;
    m->squared = ft_squared_distance(m->newest, m->older, m->n, m->team);
    return FT_OK;
}

/* The mark of the action's batch, and which one it is. */
static char *mark_of(const ft_run *run, const ft_action *a, int64_t *number)
{
    const ft_seat_layout *seat = &run->blueprint->seats[a->seat];
    *number = a->batch % seat->marks.n;
    return run->workers[seat->device].block + seat->marks.at + *number * seat->marks.slot_bytes;
}

static bool may_mark(const ft_run *run, const ft_action *a)
{
    const ft_blueprint *b = run->blueprint;
    return b->seats[a->seat].marks.n && ft_seat_is_first(&b->seating, a);
}

ft_status keep_mark(worker *w, const ft_action *a, const ft_bases *bases, ft_error *err)
{
    const ft_run *run = w->run;
    const ft_seat_layout *seat = &run->blueprint->seats[a->seat];
    seat_state *state = &w->run->seats[a->seat];
    int64_t number;
    if (!a->lag || !may_mark(run, a)) return FT_OK;
    char *mark = mark_of(run, a, &number);
    for (int i = 0; i < seat->n_params; i++) {
        const ft_seat_param *p = &seat->params[i];
        if (p->mark_at < 0) continue;
        FT_TRY(copy_on(w->compute, at_device(run, w->device, mark + p->mark_at),
                       at_device(run, w->device, bases->params[p->param]),
                       ft_spec_bytes(&run->blueprint->params[p->param].spec), err));
    }
    ledger_keep(w, a->seat, FT_MEMORY_VERSIONS, &state->kept_marks[number],
                ft_place_room(seat->marks.slot_bytes));
    state->marked[number] = (int64_t)a->batch + 1;
    return FT_OK;
}

/* The mark that the backward's gap is measured by; NULL: there is none. */
static char *find_mark(const ft_run *run, const ft_action *a)
{
    int64_t number;
    if (!may_mark(run, a)) return NULL;
    char *mark = mark_of(run, a, &number);
    return run->seats[a->seat].marked[number] == (int64_t)a->batch + 1 ? mark : NULL;
}

/* What a forward of the batch has read of the seat's i-th parameter; NULL: no other than is read
 * now. */
static const void *read_before(const worker *w, const ft_action *a, const ft_bases *bases,
                               const char *mark, int i)
{
    const ft_seat_param *p = &w->run->blueprint->seats[a->seat].params[i];
    void *const *newest = w->run->seats[a->seat].params;
    if (!p->owned) return NULL;
    if (mark) return p->mark_at < 0 ? NULL : mark + p->mark_at;
    return bases->params[p->param] == newest[p->param] ? NULL : bases->params[p->param];
}

ft_status measure_gap(worker *w, const ft_action *a, const ft_bases *bases, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_seat_layout *seat = &b->seats[a->seat];
    void *const *newest = w->run->seats[a->seat].params;
    const char *mark = find_mark(w->run, a);
    double sum = 0, *gap = gap_of_batch(w->run, a->seat, a->batch);
    if ((bases->params == newest && !mark) || !isnan(*gap)) return FT_OK;
    for (int i = 0; i < seat->n_params; i++) {
        int p = seat->params[i].param;
        const ft_spec *spec = &b->params[p].spec;
        const void *before = read_before(w, a, bases, mark, i);
        if (!before) continue;
        measuring m = {newest[p], before, ft_shape_count(&spec->shape), w->team, 0};
        ft_plain_work work = {.run = measure, .arg = &m};
        touches(&work, m.newest, ft_spec_bytes(spec), false);
        touches(&work, m.older, ft_spec_bytes(spec), false);
        FT_TRY(compute(w, &work, err));
        sum += m.squared;
    }
    *gap = sqrt(sum);
    return FT_OK;
}
