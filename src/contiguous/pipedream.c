/* contiguous/pipedream.c - stages with replicas over a hierarchy of links.
 *
 * The dynamic programme of Narayanan et al., "PipeDream", SOSP 2019, section 3.1, with the
 * recurrence that its published optimizer computes, so that its figures can be compared with: the
 * gradient exchange of replicas is added to their work instead of overlapped, transfers are divided
 * by the replicas of the stage that receives, and the bytes that a stage has to keep count the
 * machines behind it only, which makes them zero for the last stage.
 *
 * States are antichains of the graph, reached from its first source by replacing a node by one of
 * its successors; what an antichain stands for is the set of its ancestors. A stage is the
 * difference of two states. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "contiguous/contiguous.h"
#include "contiguous/states.h"

typedef struct cell {
    double ns;    /* bottleneck; HUGE_VAL: impossible */
    int split;    /* state before the last stage; -1: one stage */
    int replicas; /* of the last stage */
} cell;

typedef struct level {
    int machines;
    double bytes_per_s;
    double inside; /* machines of a unit of this level that share its exchange */
    cell *cells;   /* [first state][last state][machines - 1]; first states of the last level: 1 */
    int n_first;
    int most;        /* replicas of a last stage behind others */
    double *send_ns; /* [state][replicas - 1]: see transfer */
} level;

typedef struct dream {
    const ft_ground *g;
    states s;
    int n_levels;
    level levels[FT_PARTITION_LEVELS];
    double memory;   /* 0: no limit */
    double *last_ns; /* by replicas less one; see price_last */
} dream;

static cell *at(const dream *d, const level *l, int i, int j, int m)
{
    return &l->cells[((int64_t)i * d->s.n + j) * l->machines + m];
}

/* What lies between state i - 1 (nothing when i is 0) and state j. */
static double between(const double *prefix, int i, int j)
{
    return prefix[j] - (i ? prefix[i - 1] : 0);
}

/* Work of states i ... j on one unit of the level. */
static double work(const dream *d, int level_index, int i, int j)
{
    if (level_index == 0) return j >= i ? between(d->s.compute_ns, i, j) : HUGE_VAL;
    const level *below = &d->levels[level_index - 1];
    return j >= i ? at(d, below, i, j, below->machines - 1)->ns : HUGE_VAL;
}

static bool keeps_memory(const dream *d, const level *l, int i, int j, int used, int replicas)
{
    if (d->memory == 0) return true;
    double copies = ceil((double)(l->machines - used) / replicas);
    double bytes = between(d->s.activation_bytes, i, j) + between(d->s.param_bytes, i, j);
    return copies * bytes <= d->memory;
}

/* ns of work on states i ... j shared by r replicas, which exchange gradients. */
static double replicate(const dream *d, const level *l, double ns, int i, int j, int r,
                        double inside)
{
    double exchange =
        4.0 * (r - 1) * between(d->s.param_bytes, i, j) / (l->bytes_per_s * r) / inside;
    return (ns + 1e9 * exchange) / r;
}

/* States i ... j as one stage of r replicas, on as many machines of the level. */
static double one_stage(const dream *d, int index, int i, int j, int r)
{
    const level *l = &d->levels[index];
    double ns = work(d, index, i, j);
    if (ns == HUGE_VAL || !keeps_memory(d, l, i, j, r, r)) return HUGE_VAL;
    return replicate(d, l, ns, i, j, r, l->inside);
}

static double transfer(const dream *d, const level *l, int state, int replicas)
{
    if (d->g->options->free_transfers || state == d->s.n - 1) return 0;
    return 1e9 * 2 * d->s.cut_bytes[state] / (l->bytes_per_s * replicas);
}

static double larger(double a, double b)
{
    return a > b ? a : b; /* inlined, as fmax is not */
}

/* What a last stage of states k + 1 ... j takes with its transfers, by replicas less one; false: it
 * is impossible. */
static bool price_last(const dream *d, int index, int k, int j)
{
    const level *l = &d->levels[index];
    double ns = work(d, index, k + 1, j);
    const double *in = l->send_ns + (int64_t)k * l->machines;
    const double *out = l->send_ns + (int64_t)j * l->machines;
    if (ns == HUGE_VAL) return false;
    for (int r = 0; r < l->most; r++)
        d->last_ns[r] = larger(replicate(d, l, ns, k + 1, j, r + 1, 1), larger(in[r], out[r]));
    return true;
}

/* The best of `before`, up to state k, and a last stage as price_last has it, on m + 1 machines. */
static void split_at(const dream *d, const level *l, const cell *before, int k, int j, int m,
                     cell *best)
{
    for (int r = 1; r <= l->most && r <= m; r++) {
        double ns = larger(before[m - r].ns, d->last_ns[r - 1]);
        if (ns < best->ns && keeps_memory(d, l, k + 1, j, m + 1, r)) *best = (cell){ns, k, r};
    }
}

static void fill_column(const dream *d, int index, int i, int j)
{
    const level *l = &d->levels[index];
    cell *best = at(d, l, i, j, 0); /* by machines */
    for (int m = 0; m < l->machines; m++) {
        best[m] = (cell){HUGE_VAL, -1, m + 1};
        if (m == 0 || !d->g->options->straight) best[m].ns = one_stage(d, index, i, j, m + 1);
    }
    for (int k = i; l->most && k < j; k++) {
        if (!states_before(&d->s, k, j) || (i && states_before(&d->s, k, i - 1))) continue;
        if (!price_last(d, index, k, j)) continue;
        for (int m = 1; m < l->machines; m++) split_at(d, l, at(d, l, i, k, 0), k, j, m, &best[m]);
    }
}

/* Cells and what they are made of. */
static bool make_level(const dream *d, level *l)
{
    int64_t n = d->s.n;
    l->most = d->g->options->straight && l->machines > 1 ? 1 : l->machines - 1;
    l->cells = ft_alloc(l->n_first * n * l->machines * (int64_t)sizeof(cell));
    l->send_ns = ft_alloc(n * l->machines * (int64_t)sizeof(double));
    if (!l->cells || !l->send_ns) return false;
    for (int state = 0; state < n; state++)
        for (int r = 0; r < l->machines; r++)
            l->send_ns[(int64_t)state * l->machines + r] = transfer(d, l, state, r + 1);
    return true;
}

static ft_status solve_levels(dream *d, ft_error *err)
{
    for (int index = 0; index < d->n_levels; index++) {
        level *l = &d->levels[index];
        l->n_first = index == d->n_levels - 1 ? 1 : d->s.n;
        if (!make_level(d, l)) return ft_ground_no_memory(d->g, err);
        for (int i = 0; i < l->n_first; i++) {
            if (ft_ground_stopped(d->g)) return ft_ground_cancelled(err);
            for (int j = 0; j < d->s.n; j++) {
                if (j >= i) fill_column(d, index, i, j);
                if (!ft_ground_spend(d->g, (int64_t)(j > i ? j - i : 0) * l->machines))
                    return states_too_much(err);
                for (int m = 0; j < i && m < l->machines; m++)
                    *at(d, l, i, j, m) = (cell){HUGE_VAL, -1, 1};
            }
        }
    }
    return FT_OK;
}

/* -- reading the answer ------------------------------------------------------------------------ */

typedef struct reading {
    const dream *d;
    int *stage_of_state; /* by state that ends a stage: the stage, in turn from the end */
    int *ends, *replicas, n;
} reading;

/* Stages from the last one on; `times` replicas of the unit that holds them. */
static void read_level(reading *r, int index, int i, int j, int times)
{
    const level *l = &r->d->levels[index];
    int m = l->machines - 1;
    while (j >= i) {
        const cell *c = at(r->d, l, i, j, m);
        int begin = c->split < 0 ? i : c->split + 1;
        if (index) {
            read_level(r, index - 1, begin, j, times * c->replicas);
        } else {
            r->ends[r->n] = j;
            r->replicas[r->n++] = times * c->replicas;
        }
        m -= c->replicas;
        j = begin - 1;
        if (c->split < 0) break;
    }
}

static ft_status read_result(const dream *d, ft_partition_result *out, ft_error *err)
{
    const ft_ground *g = d->g;
    reading r = {.d = d};
    int *space = ft_arena_array(g->arena, 2 * (int64_t)d->s.n + g->n + g->n_units, sizeof *space);
    if (!space) return ft_ground_no_memory(g, err);
    r.ends = space;
    r.replicas = space + d->s.n;
    int *stage_of = space + 2 * d->s.n, *unit_device = stage_of + g->n;
    read_level(&r, d->n_levels - 1, 0, d->s.n - 1, 1);
    for (int i = 0; i < g->n; i++) {
        int s = 0; /* from the end: the earliest stage whose end has the node */
        while (s + 1 < r.n && states_hold(&d->s, r.ends[s + 1], i)) s++;
        stage_of[i] = r.n - 1 - s;
    }
    int device = 0;
    for (int s = r.n - 1, n = 0; s >= 0; s--, n++) {
        for (int i = 0; i < g->n; i++)
            if (stage_of[i] == n) unit_device[g->unit[i]] = device;
        device += r.replicas[s];
    }
    ft_status status = ft_result_make(g, unit_device, stage_of, out, NULL);
    if (status != FT_OK && status != FT_INFEASIBLE) return ft_ground_no_memory(g, err);
    for (int s = 0; s < r.n && s < out->n_stages; s++)
        out->stage_replicas[s] = r.replicas[r.n - 1 - s];
    out->lower_bound_ns = fmin(out->lower_bound_ns, out->objective_ns);
    return FT_OK;
}

static ft_status set_levels(dream *d, ft_error *err)
{
    const ft_partition_problem *p = d->g->problem;
    int64_t machines = 1;
    d->n_levels = p->n_levels ? p->n_levels : 1;
    d->levels[0] = (level){.machines = p->n_devices, .bytes_per_s = p->devices[0].bytes_per_s};
    for (int i = 0; i < p->n_levels; i++)
        d->levels[i] =
            (level){.machines = p->level_devices[i], .bytes_per_s = p->level_bytes_per_s[i]};
    for (int i = 0; i < d->n_levels; i++) {
        if (d->levels[i].machines < 1 || d->levels[i].machines > p->n_devices)
            return ft_fail(err, FT_INVALID, "partition: level %d has %d devices, expected 1 to %d",
                           i + 1, d->levels[i].machines, p->n_devices);
        if (d->levels[i].bytes_per_s == 0) d->levels[i].bytes_per_s = HUGE_VAL;
        if (!(d->levels[i].bytes_per_s >= 1))
            return ft_fail(err, FT_INVALID, "partition: level %d has links of %g bytes/s", i + 1,
                           d->levels[i].bytes_per_s);
        d->levels[i].inside = i ? d->levels[i - 1].machines : 1;
        machines *= d->levels[i].machines;
    }
    if (machines != p->n_devices)
        return ft_fail(err, FT_INVALID, "partition: levels of %lld devices, there are %d",
                       (long long)machines, p->n_devices);
    for (int n = 1; n < p->n_devices; n++) {
        const ft_partition_device *x = &p->devices[n], *y = &p->devices[0];
        if (x->kind != y->kind || x->slowdown != y->slowdown ||
            x->memory_bytes != y->memory_bytes || x->bytes_per_s != y->bytes_per_s)
            return ft_fail(err, FT_INVALID,
                           "partition: pipedream needs equal devices, device %d differs", n);
    }
    d->memory = (double)p->devices[0].memory_bytes;
    return FT_OK;
}

/* Where stages have no replicas there is one for each device, and too few places to cut may be why
 * there are none. */
static ft_status found_nothing(const dream *d, ft_error *err)
{
    int n_devices = d->g->problem->n_devices;
    if (d->g->options->straight && (d->memory == 0 || d->s.n < n_devices))
        return ft_fail(err, FT_INFEASIBLE,
                       "partition: pipedream-straight makes a stage for each of %d devices, and "
                       "there are fewer places to cut at: expected fewer devices, or another "
                       "partition",
                       n_devices);
    return ft_fail(err, FT_INFEASIBLE, "partition: pipedream finds no stages that keep %s a device",
                   ft_text_of_bytes((int64_t)d->memory).text);
}

ft_status ft_solve_pipedream(ft_ground *g, ft_partition_result *result, ft_error *err)
{
    dream d = {.g = g};
    FT_TRY(set_levels(&d, err));
    FT_TRY(states_make(g, &d.s, err));
    d.last_ns = ft_arena_array(g->arena, g->problem->n_devices, sizeof *d.last_ns);
    if (!d.last_ns) return ft_ground_no_memory(g, err);
    ft_status status = solve_levels(&d, err);
    if (status == FT_OK) {
        const level *last = &d.levels[d.n_levels - 1];
        const cell *best = at(&d, last, 0, d.s.n - 1, last->machines - 1);
        if (best->ns == HUGE_VAL)
            status = found_nothing(&d, err);
        else
            status = read_result(&d, result, err);
        int most = g->options->max_stages;
        if (status == FT_OK && most && result->n_stages > most)
            status = ft_fail(err, FT_INFEASIBLE,
                             "partition: pipedream's best has %d stages, more than the %d that "
                             "were asked for",
                             result->n_stages, most);
        if (status == FT_OK) {
            result->objective_ns = best->ns;
            result->lower_bound_ns = fmin(result->lower_bound_ns, best->ns);
            result->down_sets = d.s.n;
            result->proved = true;
        }
    }
    for (int i = 0; i < d.n_levels; i++) {
        ft_free(d.levels[i].cells);
        ft_free(d.levels[i].send_ns);
    }
    return status;
}

/* -- pricing a split that is given ------------------------------------------------------------- */

typedef struct pricing {
    dream d;                           /* its states are the ends of the stages */
    int *devices_first;                /* by stage: the devices of those before it */
    double *best[FT_PARTITION_LEVELS]; /* by level and last stage; see price_level */
} pricing;

static double price_level(const pricing *x, int index, int i, int j, int machines, int times);

static int devices_of(const pricing *x, int i, int j)
{
    return x->devices_first[j + 1] - x->devices_first[i];
}

/* Stages i ... j as one unit of the level, r times over. */
static double price_unit(const pricing *x, int index, int i, int j, int r, int times)
{
    if (index) return price_level(x, index - 1, i, j, x->d.levels[index - 1].machines, times * r);
    return i == j && devices_of(x, i, j) == times * r ? between(x->d.s.compute_ns, i, j) : HUGE_VAL;
}

/* Machines of the level that stages i ... j fill, each `times` over; 0: they leave a part of one.
 */
static int machines_of(const pricing *x, int index, int i, int j, int times)
{
    int64_t devices = devices_of(x, i, j), each = times;
    for (int l = 0; l < index; l++) each *= x->d.levels[l].machines;
    return devices % each ? 0 : (int)(devices / each);
}

/* Stages i ... j as one unit, on as many machines as it fills. */
static double price_alone(const pricing *x, int index, int i, int j, int times)
{
    const level *l = &x->d.levels[index];
    int m = machines_of(x, index, i, j, times);
    double ns = price_unit(x, index, i, j, m, times);
    if (ns == HUGE_VAL || !keeps_memory(&x->d, l, i, j, m, m)) return HUGE_VAL;
    return replicate(&x->d, l, ns, i, j, m, l->inside);
}

/* Stages k + 1 ... j as the last unit of m machines, behind others. */
static double price_behind(const pricing *x, int index, int k, int j, int m, int times)
{
    const level *l = &x->d.levels[index];
    int r = machines_of(x, index, k + 1, j, times);
    double ns = r ? price_unit(x, index, k + 1, j, r, times) : HUGE_VAL;
    if (ns == HUGE_VAL || !keeps_memory(&x->d, l, k + 1, j, m, r)) return HUGE_VAL;
    ns = replicate(&x->d, l, ns, k + 1, j, r, 1);
    return fmax(ns, fmax(transfer(&x->d, l, k, r), transfer(&x->d, l, j, r)));
}

/* The recurrence of fill_column, where the stages are known but not how they nest in levels. So
 * stages i ... j fill a number of machines that is known as well, and the best for each end is
 * found once. A level's list is free again when it is needed: levels only ask those below. */
static double price_level(const pricing *x, int index, int i, int j, int machines, int times)
{
    double *best = x->best[index];
    if (machines_of(x, index, i, j, times) != machines) return HUGE_VAL;
    for (int end = i; end <= j && !ft_ground_stopped(x->d.g); end++) {
        int m = machines_of(x, index, i, end, times);
        best[end] = m ? price_alone(x, index, i, end, times) : HUGE_VAL;
        for (int k = i; m && k < end; k++)
            if (best[k] < best[end])
                best[end] =
                    fmin(best[end], fmax(best[k], price_behind(x, index, k, end, m, times)));
    }
    return ft_ground_stopped(x->d.g) ? HUGE_VAL : best[j];
}

static bool pricing_new(pricing *x, const ft_partition_result *r)
{
    const ft_ground *g = x->d.g;
    x->devices_first = ft_arena_array(g->arena, r->n_stages + 1, sizeof(int));
    bool ok = x->devices_first;
    for (int s = 0; ok && s < r->n_stages; s++)
        x->devices_first[s + 1] = x->devices_first[s] + r->stage_replicas[s];
    for (int l = 0; l < x->d.n_levels; l++)
        ok = ok && (x->best[l] = ft_arena_array(g->arena, r->n_stages, sizeof(double)));
    return ok;
}

/* A device without nodes repeats the stage of the device before it. */
static ft_status count_replicas(const ft_ground *g, ft_partition_result *r, ft_error *err)
{
    for (int s = 0; s < r->n_stages; s++) {
        int end = s + 1 < r->n_stages ? r->stage_device[s + 1] : g->problem->n_devices;
        r->stage_replicas[s] = end - r->stage_device[s];
        if (r->stage_device[0] != 0 || r->stage_replicas[s] < 1)
            return ft_fail(err, FT_INVALID,
                           "partition: stage %d is on device %d; pipedream prices one stage after "
                           "another on devices in turn, from the first on",
                           s, r->stage_device[s]);
    }
    return FT_OK;
}

ft_status ft_price_pipedream(const ft_ground *g, ft_partition_result *r, ft_error *err)
{
    pricing x = {.d = {.g = g}};
    FT_TRY(set_levels(&x.d, err));
    FT_TRY(count_replicas(g, r, err));
    FT_TRY(states_of_stages(g, r->stage, r->n_stages, &x.d.s, err));
    if (!pricing_new(&x, r)) return ft_ground_no_memory(g, err);
    int top = x.d.n_levels - 1;
    double ns = price_level(&x, top, 0, r->n_stages - 1, x.d.levels[top].machines, 1);
    if (ft_ground_stopped(g)) return ft_ground_cancelled(err);
    if (ns == HUGE_VAL)
        return ft_fail(err, FT_INFEASIBLE,
                       "partition: pipedream's levels cannot be filled with these %d stages, or "
                       "their memory is not enough",
                       r->n_stages);
    r->objective_ns = ns;
    r->lower_bound_ns = fmin(r->lower_bound_ns, ns);
    return FT_OK;
}
