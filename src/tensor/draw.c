/* tensor/draw.c - random numbers and constants into a view. */
#include "base/rng.h"
#include "base/thread.h"
#include "tensor/tensor.h"

/* From -1 to below 1. */
static double draw_around_zero(ft_rng *rng)
{
    return 2 * ft_rng_uniform(rng) - 1;
}

static double draw_one(ft_rng *rng)
{
    (void)rng;
    return 1;
}

static const struct {
    const char *name;
    double (*next)(ft_rng *rng); /* to be multiplied by the scale */
    uint64_t takes;              /* words of 32 bits of the generator */
} laws[FT_N_LAWS] = {
    [FT_LAW_CONSTANT] = {"constant", draw_one, 0},
    [FT_LAW_NORMAL] = {"normal", ft_rng_normal, 4},
    [FT_LAW_UNIFORM] = {"uniform", draw_around_zero, 2},
};

const char *ft_law_name(ft_law law)
{
    return laws[law].name;
}

/* Numbers from `first` on, in row-major order. */
typedef struct part {
    pthread_t thread;
    bool started;
    const ft_view *view;
    const ft_draw *draw;
    uint64_t seed;
    int64_t first, n;
} part;

static void *draw_part(void *arg)
{
    const part *p = arg;
    const ft_view *view = p->view;
    double (*next)(ft_rng *) = laws[p->draw->law].next, scale = p->draw->scale;
    int64_t end = p->first + p->n;
    ft_rng rng;
    ft_rng_init(&rng, p->seed, p->draw->stream);
    ft_rng_skip(&rng, laws[p->draw->law].takes * (uint64_t)p->first);
    if (view->dtype == FT_F32 && ft_view_contiguous(view)) {
        float *data = view->data;
        for (int64_t i = p->first; i < end; i++) data[i] = (float)(scale * next(&rng));
    } else {
        for (int64_t i = p->first; i < end; i++) ft_view_set(view, i, scale * next(&rng));
    }
    return NULL;
}

void ft_view_draw(const ft_view *view, const ft_draw *draw, uint64_t seed, int n_threads)
{
    enum { MOST = 64, WORTH = 1 << 16 }; /* parts; numbers that are worth a thread */
    int64_t n = ft_shape_count(&view->shape), wanted = n / WORTH + 1;
    int64_t parts = wanted < n_threads ? wanted : n_threads;
    if (parts > MOST) parts = MOST;
    part of[MOST];
    ft_error ignored; /* what has no thread of its own is drawn here */
    for (int i = 0; i < parts; i++) {
        int64_t first = n * i / parts;
        of[i] = (part){.view = view,
                       .draw = draw,
                       .seed = seed,
                       .first = first,
                       .n = n * (i + 1) / parts - first};
        if (i > 0)
            of[i].started = ft_thread_start(&of[i].thread, draw_part, &of[i], &ignored) == FT_OK;
    }
    for (int i = 0; i < parts; i++)
        if (!of[i].started) draw_part(&of[i]);
    for (int i = 0; i < parts; i++)
        if (of[i].started) pthread_join(of[i].thread, NULL);
}
