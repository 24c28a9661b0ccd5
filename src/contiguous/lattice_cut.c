/* contiguous/lattice_cut.c - the best way through a lattice of down-sets.
 *
 * A stage is what one down-set has more than another, and its price depends on it alone. So the
 * best way to the set S with some devices used is the best, over the sets T inside it, of the best
 * way to T with one device less and then S without T on that device. Devices that are equal are
 * counted, not told apart.
 *
 * From each set a depth-first walk adds elements one by one and keeps the sums; it turns back where
 * the stage alone is slower than the limit. Each larger set is met once, because an element that
 * was passed over stays out, and so does what depends on it. Along a chain the walk is a window
 * that slides: what one set's stages have in common with the next one's is not summed again.
 *
 * A set is of use only while the devices that are left can do, within the limit, what is left to
 * do. The closer the limit is to the bound, the fewer sets there are to look at. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "contiguous/lattice.h"

enum { MAX_COUNTS = 1 << 16 };

typedef struct device_class {
    int first; /* a device of it */
    int n;
    int stride; /* of its count in the number of a combination */
    int *list;
    int barred; /* units of the present stage that may not be on its devices */
} device_class;

/* A state that the walk is at or passed, its step that is tried, and the sums before that. */
typedef struct visit {
    int state, next;
    ft_load before;
} visit;

typedef struct walk {
    const ft_ground *g;
    const ft_elements *e;
    const lattice *l;
    device_class *classes;
    int n_classes, n_counts;
    bool in_turn; /* devices are used in the order given: it is asked for, or there are too many
                     kinds to combine them */
    double limit_ns;
    int n_stages;      /* that the whole cut has, where memory depends on it; else 0 */
    bool by_bytes;     /* second pass: fewest bytes moved, nothing slower than the limit */
    double *best;      /* [state][combination] */
    int *from;         /* [state][combination]: the state before; second pass */
    unsigned char *by; /* and the class that took the step */
    ft_load sums;
    int *held;
    int *skipped;       /* by element: 1 + depth of the walk that passed it over, or 0 */
    visit *way;         /* by depth; NULL for a chain */
    int begin;          /* the state the walk started from */
    double *work_after; /* by state: work that is not in it, on the fastest devices for it */
    double *rate;       /* by combination: work that the devices left do in a ns, at most */
    int *live, n_live;  /* combinations in which w->begin is reached, and of use */
    int *class_of;      /* by device */
    bool over;          /* the search is to end, or the limit of work is passed */
} walk;

static const double ROUNDING = 1e-10; /* sums that slid may differ by as much, relatively */

/* -- devices ----------------------------------------------------------------------------------- */

static bool same_device(const ft_ground *g, int a, int b)
{
    const ft_partition_device *x = &g->problem->devices[a], *y = &g->problem->devices[b];
    if (x->kind != y->kind || x->slowdown != y->slowdown || x->memory_bytes != y->memory_bytes ||
        x->bytes_per_s != y->bytes_per_s)
        return false;
    for (int u = 0; u < g->n_units; u++)
        if (ft_ground_allows(g, u, a) != ft_ground_allows(g, u, b)) return false;
    return true;
}

static bool make_classes(walk *w)
{
    const ft_ground *g = w->g;
    int n_devices = g->problem->n_devices;
    int64_t counts = 1;
    w->classes = ft_arena_array(g->arena, n_devices, sizeof *w->classes);
    w->class_of = ft_arena_array(g->arena, n_devices, sizeof *w->class_of);
    if (!w->classes || !w->class_of) return false;
    for (int d = 0; d < n_devices; d++) {
        int c = 0;
        while (c < w->n_classes && !same_device(g, w->classes[c].first, d)) c++;
        if (c == w->n_classes) {
            w->classes[w->n_classes++] =
                (device_class){.first = d, .list = ft_arena_array(g->arena, n_devices, 4)};
            if (!w->classes[c].list) return false;
        }
        w->class_of[d] = c;
        w->classes[c].list[w->classes[c].n++] = d;
    }
    for (int c = 0; c < w->n_classes && counts <= MAX_COUNTS; c++) {
        w->classes[c].stride = (int)counts;
        counts *= w->classes[c].n + 1;
    }
    if (g->options->in_order || counts * w->l->n > (int64_t)1 << 26 || counts > MAX_COUNTS ||
        w->n_classes > 255) {
        w->in_turn = true;
        counts = n_devices + 1;
    }
    w->n_counts = (int)counts;
    return true;
}

static int count_of(const walk *w, int counts, int c)
{
    return counts / w->classes[c].stride % (w->classes[c].n + 1);
}

static int count_all(const walk *w, int counts)
{
    if (w->in_turn) return counts;
    int sum = 0;
    for (int c = 0; c < w->n_classes; c++) sum += count_of(w, counts, c);
    return sum;
}

/* -- what is left ------------------------------------------------------------------------------ */

static double element_work(const walk *w, int element)
{
    double work = 0;
    for (int i = w->e->first[element]; i < w->e->first[element + 1]; i++)
        work += w->g->work[w->e->list[i]];
    return work;
}

/* Work after each state, and what is left of the devices in each combination. One of them may have
 * the last stage, which is faster. */
static bool measure(walk *w)
{
    const ft_ground *g = w->g;
    const lattice *l = w->l;
    int n_devices = g->problem->n_devices;
    w->work_after = ft_arena_array(g->arena, l->n, sizeof *w->work_after);
    w->rate = ft_arena_array(g->arena, w->n_counts, sizeof *w->rate);
    w->live = ft_arena_array(g->arena, w->n_counts, sizeof *w->live);
    if (!w->work_after || !w->rate || !w->live) return false;
    for (int x = 0; x < l->n_elements; x++) w->work_after[0] += element_work(w, x);
    for (int s = 0; s < l->n; s++)
        for (int i = l->step_first[s]; i < l->step_first[s + 1]; i++)
            w->work_after[l->step_state[i]] =
                w->work_after[s] - element_work(w, l->step_element[i]);
    for (int c = 0; c < w->n_counts; c++) {
        double fastest = 0;
        for (int d = 0; d < n_devices; d++) {
            const device_class *k = &w->classes[w->class_of[d]];
            int place = 0; /* devices of a class are used in the order of its list */
            while (k->list[place] != d) place++;
            if (w->in_turn ? d < c : place < count_of(w, c, w->class_of[d])) continue;
            w->rate[c] += g->rate[d];
            fastest = fmax(fastest, g->rate[d]);
        }
        if (fastest > 0) w->rate[c] += (g->last_gain - 1) * fastest;
    }
    return true;
}

/* Whether the devices left in the combination can do what is left after the state. */
static bool can_finish(const walk *w, int state, int counts)
{
    if (state == w->l->n - 1) return true;
    double most = w->rate[counts] > 0 ? w->limit_ns * w->rate[counts] : 0;
    return w->work_after[state] <= most + ROUNDING * w->work_after[0];
}

/* -- steps ------------------------------------------------------------------------------------- */

/* What the stage from w->begin to `state` costs on a device as stage s; HUGE_VAL: it cannot be. */
static double stage_value(const walk *w, int state, int device, int s)
{
    bool last = state == w->l->n - 1;
    int flight =
        w->n_stages ? ft_ground_in_flight(w->g, s, w->n_stages) : ft_ground_in_flight(w->g, 0, 1);
    if (w->classes[w->class_of[device]].barred) return HUGE_VAL;
    if (!ft_load_fits(w->g, &w->sums, device, flight)) return HUGE_VAL;
    double price = ft_load_price(w->g, &w->sums, device, last);
    if (price > w->limit_ns) return HUGE_VAL;
    return w->by_bytes ? (double)(w->sums.in + w->sums.out_grad) : price;
}

static void improve(walk *w, int state, int before, int after, double value, int by)
{
    const double *from = &w->best[(int64_t)w->begin * w->n_counts];
    int64_t at = (int64_t)state * w->n_counts + after;
    double total = w->by_bytes ? from[before] + value : fmax(from[before], value);
    if (!(total < w->best[at])) return;
    w->best[at] = total;
    if (!w->by_bytes) return;
    w->from[at] = w->begin;
    w->by[at] = (unsigned char)by;
}

static void take_in_turn(walk *w, int state)
{
    for (int i = 0; i < w->n_live; i++) {
        int d = w->live[i];
        if (d + 1 < w->n_counts && can_finish(w, state, d + 1))
            improve(w, state, d, d + 1, stage_value(w, state, d, d), 0);
    }
}

static void take_stage(walk *w, int state)
{
    w->over |= !ft_ground_spend(w->g, (int64_t)w->n_live * (w->in_turn ? 1 : w->n_classes));
    if (w->in_turn) {
        take_in_turn(w, state);
        return;
    }
    for (int c = 0; c < w->n_classes; c++) {
        const device_class *k = &w->classes[c];
        double value = w->n_stages ? 0 : stage_value(w, state, k->first, 0);
        if (value == HUGE_VAL) continue;
        for (int i = 0; i < w->n_live; i++) {
            int before = w->live[i];
            if (count_of(w, before, c) == k->n || !can_finish(w, state, before + k->stride))
                continue;
            if (w->n_stages) value = stage_value(w, state, k->first, count_all(w, before));
            if (value < HUGE_VAL) improve(w, state, before, before + k->stride, value, c);
        }
    }
}

/* Whether the stage is not too slow, by its work alone, for every kind of device. */
static bool may_grow(const walk *w)
{
    for (int c = 0; c < w->n_classes; c++) {
        const ft_partition_device *d = &w->g->problem->devices[w->classes[c].first];
        double ns = fmin(w->sums.ns[d->kind], w->sums.last_ns[d->kind]) * d->slowdown;
        if (w->classes[c].barred) continue;
        if (ns <= w->limit_ns * (1 + ROUNDING) &&
            ft_load_fits(w->g, &w->sums, w->classes[c].first, 1))
            return true;
    }
    return false;
}

static void change_element(walk *w, int element, int sign)
{
    w->over |= !ft_ground_spend(w->g, 1 + w->e->first[element + 1] - w->e->first[element]);
    for (int i = w->e->first[element]; i < w->e->first[element + 1]; i++) {
        int unit = w->e->list[i];
        ft_load_change(w->g, &w->sums, w->held, unit, sign);
        for (int c = 0; w->g->allowed && c < w->n_classes; c++)
            if (!ft_ground_allows(w->g, unit, w->classes[c].first)) w->classes[c].barred += sign;
    }
}

static bool is_over(walk *w)
{
    return w->over |= ft_ground_stopped(w->g);
}

/* Takes out the element that the walk put in at the depth, and passes it over from there on. */
static void take_out(walk *w, int depth)
{
    visit *v = &w->way[depth];
    int element = w->l->step_element[v->next++];
    change_element(w, element, -1);
    w->sums = v->before;
    w->skipped[element] = depth + 1;
}

static void leave(walk *w, int depth)
{
    const lattice *l = w->l;
    int state = w->way[depth].state;
    for (int i = l->step_first[state]; i < l->step_first[state + 1]; i++)
        if (w->skipped[l->step_element[i]] == depth + 1) w->skipped[l->step_element[i]] = 0;
}

/* The stages from w->begin on. The way is as long as the longest of them has elements, which is
 * more than a thread's stack has room for. */
static void walk_from_begin(walk *w)
{
    const lattice *l = w->l;
    int depth = 0;
    w->way[0] = (visit){.state = w->begin, .next = l->step_first[w->begin]};
    while (depth >= 0) {
        visit *v = &w->way[depth];
        if (v->next == l->step_first[v->state + 1] || is_over(w)) {
            leave(w, depth);
            if (--depth >= 0) take_out(w, depth);
            continue;
        }
        int element = l->step_element[v->next], state = l->step_state[v->next];
        if (w->skipped[element]) {
            v->next++;
            continue;
        }
        v->before = w->sums; /* taking out again would leave rounding behind */
        change_element(w, element, 1);
        if (!may_grow(w)) {
            take_out(w, depth);
            continue;
        }
        take_stage(w, state);
        w->way[++depth] = (visit){.state = state, .next = l->step_first[state]};
    }
}

/* The most that may be left to do after a stage from w->begin. */
static double most_after(const walk *w)
{
    double most = 0;
    for (int i = 0; i < w->n_live; i++)
        for (int c = 0; c < (w->in_turn ? 1 : w->n_classes); c++) {
            int stride = w->in_turn ? 1 : w->classes[c].stride;
            bool left = w->in_turn ? w->live[i] + 1 < w->n_counts
                                   : count_of(w, w->live[i], c) < w->classes[c].n;
            if (left) most = fmax(most, w->rate[w->live[i] + stride]);
        }
    return (most > 0 ? most * w->limit_ns : 0) + ROUNDING * w->work_after[0];
}

/* Stages of a chain that begin at w->begin. The sums are of the elements from window[0] to before
 * window[1]. */
static void slide(walk *w, int window[2])
{
    const lattice *l = w->l;
    double most = most_after(w);
    while (window[0] < w->begin) {
        if (window[1] <= window[0]) change_element(w, l->step_element[window[1]++], 1);
        change_element(w, l->step_element[window[0]++], -1);
    }
    while (window[1] > window[0] && w->work_after[window[1] - 1] <= most)
        change_element(w, l->step_element[--window[1]], -1);
    if (window[1] == window[0]) w->sums = (ft_load){.out = 0};
    while (may_grow(w) && !is_over(w)) {
        if (window[1] > window[0] && w->work_after[window[1]] <= most) take_stage(w, window[1]);
        if (window[1] == l->n - 1) break;
        change_element(w, l->step_element[window[1]++], 1);
    }
}

/* A device that is used in turn may stay empty. */
static void leave_devices_empty(walk *w)
{
    double *best = &w->best[(int64_t)w->begin * w->n_counts];
    for (int d = 0; d + 1 < w->n_counts; d++)
        if (best[d] < best[d + 1]) {
            int64_t at = (int64_t)w->begin * w->n_counts + d + 1;
            best[d + 1] = best[d];
            if (!w->by_bytes) continue;
            w->from[at] = w->begin;
            w->by[at] = 1;
        }
}

/* The best combination at the end; -1 when there is none, or when the walk did not end. */
static int walk_all(walk *w)
{
    int n = w->l->n, found = -1, window[2] = {0, 0};
    for (int64_t i = 0; i < (int64_t)n * w->n_counts; i++) w->best[i] = HUGE_VAL;
    w->best[0] = 0;
    w->sums = (ft_load){.out = 0};
    for (w->begin = 0; w->begin < n && !is_over(w); w->begin++) {
        if (w->in_turn && !w->g->options->in_order) leave_devices_empty(w);
        const double *from = &w->best[(int64_t)w->begin * w->n_counts];
        w->n_live = 0;
        for (int c = 0; c < w->n_counts; c++)
            if (from[c] < HUGE_VAL && can_finish(w, w->begin, c)) w->live[w->n_live++] = c;
        if (!w->n_live) continue;
        if (w->l->place)
            slide(w, window);
        else
            walk_from_begin(w);
    }
    while (window[1] > window[0]) change_element(w, w->l->step_element[window[0]++], -1);
    const double *end = &w->best[(int64_t)(n - 1) * w->n_counts];
    for (int c = 0; c < w->n_counts && !w->over; c++) {
        if (end[c] == HUGE_VAL || (w->n_stages && count_all(w, c) != w->n_stages)) continue;
        if (w->g->options->max_stages && count_all(w, c) > w->g->options->max_stages) continue;
        if (w->g->options->in_order && c + 1 < w->n_counts) continue;
        if (found < 0 || end[c] < end[found] ||
            (end[c] == end[found] && count_all(w, c) < count_all(w, found)))
            found = c;
    }
    return found;
}

/* -- reading the answer ------------------------------------------------------------------------ */

static void trace(const walk *w, int counts, int *unit_device, int *unit_stage)
{
    const ft_elements *e = w->e;
    int s = count_all(w, counts);
    for (int state = w->l->n - 1; state;) {
        int64_t at = (int64_t)state * w->n_counts + counts;
        int before = w->from[at], c = w->by[at];
        counts -= w->in_turn ? 1 : w->classes[c].stride;
        s--;
        if (before != state) {
            int device = w->in_turn ? counts : w->classes[c].list[count_of(w, counts, c)];
            for (int x = 0; x < e->n; x++) {
                if (!lattice_holds(w->l, state, x) || lattice_holds(w->l, before, x)) continue;
                for (int i = e->first[x]; i < e->first[x + 1]; i++) {
                    unit_device[e->list[i]] = device;
                    unit_stage[e->list[i]] = s;
                }
            }
        }
        state = before;
    }
}

static bool walk_new(walk *w, const ft_ground *g, const ft_elements *e, const lattice *l)
{
    *w = (walk){.g = g, .e = e, .l = l};
    if (!make_classes(w)) return false;
    int64_t cells = (int64_t)l->n * w->n_counts;
    w->best = ft_alloc(cells * 8);
    w->from = ft_alloc(cells * 4);
    w->by = ft_alloc(cells);
    w->held = ft_arena_array(g->arena, g->n_nets + 1, sizeof *w->held);
    w->skipped = ft_arena_array(g->arena, e->n + 1, sizeof *w->skipped);
    if (!l->place) w->way = ft_alloc((l->n_elements + 1) * (int64_t)sizeof *w->way);
    return w->best && w->from && w->by && w->held && w->skipped && (w->way || l->place) &&
           measure(w);
}

static void walk_free(walk *w)
{
    ft_free(w->best);
    ft_free(w->from);
    ft_free(w->by);
    ft_free(w->way);
}

/* Where memory depends on how many stages there are, every number of them is tried. */
static bool depends_on_stages(const ft_ground *g)
{
    return g->problem->saved_bytes && g->problem->in_flight > 1 && !g->problem->flat;
}

double lattice_cut(const ft_ground *g, const ft_elements *e, const lattice *l, double limit_ns,
                   int *unit_device, int *unit_stage, bool *all_orders)
{
    walk w;
    double best = HUGE_VAL;
    bool depends = depends_on_stages(g);
    if (!walk_new(&w, g, e, l)) {
        walk_free(&w);
        return -1;
    }
    w.limit_ns = limit_ns;
    *all_orders = !w.in_turn || w.n_classes == 1;
    /* from many stages on: they are likely to fit, and make the limit narrow for fewer */
    for (int s = depends ? g->problem->n_devices : 0; s >= depends; s--) {
        w.n_stages = s;
        w.by_bytes = false;
        int end = walk_all(&w);
        if (end < 0) continue;
        double found = w.best[(int64_t)(l->n - 1) * w.n_counts + end];
        if (!(found <= best)) continue;
        w.limit_ns = found * (1 + ROUNDING);
        w.by_bytes = true;
        end = walk_all(&w);
        if (end < 0) break;
        best = found;
        trace(&w, end, unit_device, unit_stage);
    }
    walk_free(&w);
    return best;
}
