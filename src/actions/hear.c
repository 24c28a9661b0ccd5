/* actions/hear.c - hears what actions have found on devices that run ahead.
 *
 * In the order in which they were given: before a stage sums its gradients, since norms and whether
 * it may update go by what was found; before a batch of forwards alone is done; and when more are
 * under way than there is room for. What the action read may be gone by then, so a number that is
 * not finite is noted without the node that gave it first; engine/again.c looks for that. */
#include <math.h>

#include "actions/internal.h"

static void judge(worker *w, const unheard *u)
{
    const ft_action *a = &u->action;
    const findings *found = u->found;
    ft_watch watch = {0};
    const ft_bases bases = {.looks = u->found->terms, .squares = u->squares, .watch = &watch};
    bool bad_loss = u->makes_loss && !isfinite(found->loss);
    ft_program_judge(u->program, &bases);
    if (u->makes_loss) *loss_of(w->run, a->seat, a->batch, a->micro) = found->loss;
    if (found->sent.finite && !bad_loss && !watch.node) return;
    if (!watch.node) watch.nan = found->sent.nan || (bad_loss && isnan(found->loss));
    note_found(w, a, &watch);
}

static void hear_next(worker *w)
{
    hearing *h = w->hearing;
    judge(w, &h->of[h->first++ % AHEAD]);
}

ft_status hear_later(worker *w, const ft_action *a, const ft_program *program,
                     const ft_bases *bases, bool makes_loss, ft_error *err)
{
    const ft_driver *driver = w->executor->driver;
    hearing *h = w->hearing;
    unheard *u = &h->of[h->end % AHEAD];
    *u = (unheard){*a, program, bases->squares, makes_loss, u->found, u->told};
    FT_TRY(driver->record(w->compute, u->told, err));
    h->end++;
    const unheard *oldest = &h->of[h->end % AHEAD];
    if (h->end - h->first == AHEAD) {
        if (driver->passed_ns(oldest->told) < 0) FT_TRY(driver->await(oldest->told, err));
        hear_next(w);
    }
    w->findings = oldest->found;
    return FT_OK;
}

ft_status hear_all(worker *w, ft_error *err)
{
    FT_TRY(w->executor->driver->finish(w->compute, err));
    while (w->hearing->first < w->hearing->end) hear_next(w);
    clock_looks(w, FT_STREAM_COMPUTE);
    return FT_OK;
}

ft_status hear_rest(worker *w, ft_error *err)
{
    const hearing *h = w->hearing;
    return h && h->first < h->end ? hear_all(w, err) : FT_OK;
}
