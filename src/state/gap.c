/* state/gap.c - how far weights have gone since those that an action reads. */
#include <math.h>

#include "state/late.h"
#include "state/run.h"

double *gap_of_batch(const ft_run *run, int s, int64_t batch)
{
    return &run->gaps[batch % run->blueprint->batch_slots * run->n_stages + s];
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

ft_status measure_gap(worker *w, const ft_action *a, const ft_bases *bases, ft_error *err)
{
    const ft_blueprint *b = w->run->blueprint;
    const ft_stage_layout *stage = &b->stages[a->stage];
    void *const *newest = w->run->stages[a->stage].params;
    double sum = 0, *gap = gap_of_batch(w->run, a->stage, a->batch);
    if (bases->params == newest || !isnan(*gap)) return FT_OK;
    for (int i = 0; i < stage->n_params; i++) {
        int p = stage->params[i].param;
        const ft_spec *spec = &b->params[p].spec;
        measuring m = {newest[p], bases->params[p], ft_shape_count(&spec->shape), w->team, 0};
        if (!stage->params[i].owned || m.newest == m.older) continue;
        ft_plain_work work = {.run = measure, .arg = &m};
        touches(&work, m.newest, ft_spec_bytes(spec), false);
        touches(&work, m.older, ft_spec_bytes(spec), false);
        FT_TRY(compute(w, &work, err));
        sum += m.squared;
    }
    *gap = sqrt(sum);
    return FT_OK;
}
