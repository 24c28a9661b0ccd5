/* proof/ties.c - weights that a stage takes over are as late as the plan says.
 *
 * A lag is that of a stage's own weights. Where a W stands says how late those are that it takes
 * over (edges U to W): no forward finds them later than its own, and than the owner's forward of
 * the same micro-batch read them, whatever is later. */
#include "proof/internal.h"

typedef struct ties {
    const ft_plan *plan;
    const ft_seating *shares;
    int16_t **lags; /* by stage that owns: by micro-batch of the leg, of its forward; else NULL */
    ft_owners owners;
    int32_t *adopted; /* by seat: W done */
} ties;

static ft_status note_lags(ties *t, ft_arena *arena, ft_error *err)
{
    const ft_plan *p = t->plan;
    int64_t n = (int64_t)p->n_batches * p->micro_batches;
    for (int i = 0; i < t->owners.first[p->n_stages]; i++) {
        int16_t **of = &t->lags[t->owners.stages[i]];
        if (*of) continue;
        if (!(*of = ft_arena_array(arena, n, sizeof **of)))
            return ft_fail(err, FT_NOMEM, "plan: no memory for %lld micro-batches", (long long)n);
    }
    for (int d = 0; d < p->n_devices; d++) {
        ft_cursor at;
        for (ft_cursor_begin(&at, p, d); at.more; ft_cursor_step(&at))
            if (at.now.kind == FT_ACT_FORWARD && t->lags[at.now.stage])
                t->lags[at.now.stage][ft_action_index(p, &at.now)] = at.now.lag;
    }
    return FT_OK;
}

/* Of what the forward's stage takes over, the owner that reads it latest. */
static int find_owner(const ties *t, const ft_action *a)
{
    int64_t index = ft_action_index(t->plan, a);
    int first = t->owners.first[a->stage], owner = t->owners.stages[first];
    for (int i = first + 1; i < t->owners.first[a->stage + 1]; i++)
        if (t->lags[t->owners.stages[i]][index] > t->lags[owner][index])
            owner = t->owners.stages[i];
    return owner;
}

static ft_status check_forward(const ties *t, int device, const ft_cursor *at, int32_t adopted,
                               ft_error *err)
{
    const ft_action *a = &at->now;
    int owner = find_owner(t, a), late = a->batch - adopted;
    int lag = t->lags[owner][ft_action_index(t->plan, a)];
    if (lag < a->lag) lag = a->lag;
    if (late <= lag) return FT_OK;
    char name[FT_ACTION_TEXT];
    ft_fail(err, FT_INVALID,
            "plan: device %d: %s reads weights that it takes over from stage %d %d updates late, "
            "its own and that stage's are at most %d: expected W%d.%d before it",
            device, ft_action_text(name, a), owner, late, lag, a->stage, a->batch - lag - 1);
    return ft_plan_at_line(at->line, err);
}

ft_status proof_check_ties(const ft_plan *p, const ft_seating *shares, ft_arena *arena,
                           ft_error *err)
{
    ties t = {.plan = p, .shares = shares};
    t.lags = ft_arena_array(arena, p->n_stages, sizeof *t.lags);
    t.adopted = ft_arena_array(arena, shares->n_seats, sizeof *t.adopted);
    if (!t.lags || !t.adopted)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    FT_TRY(ft_owners_find(&t.owners, arena, p, err));
    if (!t.owners.first[p->n_stages]) return FT_OK; /* no stage takes weights over */
    FT_TRY(note_lags(&t, arena, err));
    for (int d = 0; d < p->n_devices; d++) {
        ft_cursor at;
        for (ft_cursor_begin(&at, p, d); at.more; ft_cursor_step(&at)) {
            int stage = at.now.stage;
            int32_t *adopted = &t.adopted[ft_seat_of(shares, stage, d)];
            *adopted += at.now.kind == FT_ACT_ADOPT;
            if (at.now.kind == FT_ACT_FORWARD && t.owners.first[stage] < t.owners.first[stage + 1])
                FT_TRY(check_forward(&t, d, &at, *adopted, err));
        }
    }
    return FT_OK;
}
