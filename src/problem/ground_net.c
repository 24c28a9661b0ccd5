/* problem/ground_net.c - the values of a problem as nets, and sums over sets of units. */
#include <stdlib.h>

#include "problem/ground.h"

/* -- nets -------------------------------------------------------------------------------------- */

static bool is_cheap(const ft_partition_problem *p, int node)
{
    return p->cheap && p->cheap[node];
}

static int value_of(const ft_partition_problem *p, int edge)
{
    return p->edge_value ? p->edge_value[edge] : 0;
}

/* By maker, value, user. */
static int compare_edges(const void *left, const void *right, void *problem)
{
    const ft_partition_problem *p = problem;
    int a = *(const int *)left, b = *(const int *)right;
    if (p->edge_from[a] != p->edge_from[b]) return p->edge_from[a] < p->edge_from[b] ? -1 : 1;
    if (value_of(p, a) != value_of(p, b)) return value_of(p, a) < value_of(p, b) ? -1 : 1;
    if (p->edge_to[a] != p->edge_to[b]) return p->edge_to[a] < p->edge_to[b] ? -1 : 1;
    return (a > b) - (a < b);
}

typedef struct net_maker {
    ft_ground *g;
    const int *order; /* g->edge_order */
    int round;        /* counts the values looked at */
    int *mark;        /* by unit: the last round that saw it */
    int *list;        /* units of the net at hand, each once */
    int n;
    int *waiting;    /* cheap nodes to look through */
    int *looked;     /* by node: the last round that looked through it */
    int *edge_first; /* in `order`, by node */
} net_maker;

static void add_unit(net_maker *m, int unit)
{
    if (m->mark[unit] == m->round) return;
    m->mark[unit] = m->round;
    m->list[m->n++] = unit;
}

static void begin_net(net_maker *m, int node)
{
    m->round++;
    m->n = 0;
    add_unit(m, m->g->unit[node]);
}

/* The users of a cheap node, and through its cheap users theirs. */
static void add_clones(net_maker *m, int node)
{
    int n_waiting = 1;
    m->waiting[0] = node;
    while (n_waiting) {
        int at = m->waiting[--n_waiting];
        for (int i = m->edge_first[at]; i < m->edge_first[at + 1]; i++) {
            int user = m->g->problem->edge_to[m->order[i]];
            add_unit(m, m->g->unit[user]);
            if (!is_cheap(m->g->problem, user) || m->looked[user] == m->round) continue;
            m->looked[user] = m->round;
            m->waiting[n_waiting++] = user;
        }
    }
}

static ft_status close_net(net_maker *m, int node, int edge, int clone, ft_error *err)
{
    ft_ground *g = m->g;
    const ft_partition_problem *p = g->problem;
    if (m->n < 2) return FT_OK;
    const int *units = ft_arena_copy(g->arena, m->list, m->n, sizeof *units);
    if (!units) return ft_ground_no_memory(g, err);
    g->nets[g->n_nets++] = (ft_net){
        .maker = g->unit[node],
        .n_units = m->n,
        .units = units,
        .bytes = clone >= 0 ? 0 : p->edge_bytes[edge],
        .grad_bytes = clone >= 0 || !p->edge_grad_bytes ? 0 : p->edge_grad_bytes[edge],
        .clone = clone,
    };
    return FT_OK;
}

/* Two edges of one value carry as many bytes; bytes NULL: none. */
static ft_status check_size(const ft_ground *g, const int64_t *bytes, const char *what, int first,
                            int edge, ft_error *err)
{
    char name[96];
    if (!bytes || bytes[edge] == bytes[first]) return FT_OK;
    return ft_fail(err, FT_INVALID, "partition: the %s of %s has %lld bytes on edge %d, %lld on %d",
                   what, ft_ground_name(g, g->problem->edge_from[edge], name),
                   (long long)bytes[first], first + 1, (long long)bytes[edge], edge + 1);
}

static ft_status collect_values(net_maker *m, int node, ft_error *err)
{
    const ft_partition_problem *p = m->g->problem;
    char name[96], other[96];
    int i = m->edge_first[node], end = m->edge_first[node + 1];
    if (is_cheap(p, node) && i < end) {
        begin_net(m, node);
        add_clones(m, node);
        return close_net(m, node, -1, node, err);
    }
    while (i < end) {
        int first = m->order[i];
        begin_net(m, node);
        for (; i < end && value_of(p, m->order[i]) == value_of(p, first); i++) {
            int e = m->order[i];
            FT_TRY(check_size(m->g, p->edge_bytes, "value", first, e, err));
            FT_TRY(check_size(m->g, p->edge_grad_bytes, "gradient of the value", first, e, err));
            if (is_cheap(p, p->edge_to[e]))
                return ft_fail(err, FT_INVALID, "partition: %s is cheap, but uses %s, which is not",
                               ft_ground_name(m->g, p->edge_to[e], name),
                               ft_ground_name(m->g, node, other));
            add_unit(m, m->g->unit[p->edge_to[e]]);
        }
        FT_TRY(close_net(m, node, first, -1, err));
    }
    return FT_OK;
}

static bool index_nets(ft_ground *g)
{
    g->pins_first = ft_arena_array(g->arena, g->n_units + 2, sizeof *g->pins_first);
    if (!g->pins_first) return false;
    int64_t total = 0;
    for (int v = 0; v < g->n_nets; v++)
        for (int i = 0; i < g->nets[v].n_units; i++, total++)
            g->pins_first[g->nets[v].units[i] + 2]++;
    if (!(g->pins = ft_arena_array(g->arena, total + 1, sizeof *g->pins))) return false;
    for (int u = 2; u <= g->n_units; u++) g->pins_first[u] += g->pins_first[u - 1];
    for (int at = 0; at < g->n_nets; at++) {
        const ft_net *v = &g->nets[at];
        for (int i = 0; i < v->n_units; i++)
            g->pins[g->pins_first[v->units[i] + 1]++] =
                (ft_pin){.net = at,
                         .clone = v->clone,
                         .weight = 2 + (v->units[i] == v->maker),
                         .whole = 2 * v->n_units + 1,
                         .bytes = v->bytes,
                         .grad_bytes = v->grad_bytes};
    }
    return true;
}

ft_status ground_make_nets(ft_ground *g, ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    net_maker m = {.g = g};
    m.order = g->edge_order = ft_arena_array(g->arena, p->n_edges + 1, sizeof *g->edge_order);
    m.mark = ft_arena_array(g->arena, g->n_units, sizeof *m.mark);
    m.list = ft_arena_array(g->arena, g->n_units, sizeof *m.list);
    m.waiting = ft_arena_array(g->arena, g->n + 1, sizeof *m.waiting);
    m.looked = ft_arena_array(g->arena, g->n, sizeof *m.looked);
    m.edge_first = ft_arena_array(g->arena, g->n + 1, sizeof *m.edge_first);
    g->nets = ft_arena_array(g->arena, p->n_edges + 1, sizeof *g->nets);
    if (!m.order || !m.mark || !m.list || !m.waiting || !m.looked || !m.edge_first || !g->nets)
        return ft_ground_no_memory(g, err);
    for (int e = 0; e < p->n_edges; e++) {
        g->edge_order[e] = e;
        m.edge_first[p->edge_from[e] + 1]++;
    }
    for (int i = 0; i < g->n; i++) m.edge_first[i + 1] += m.edge_first[i];
    ft_partition_problem copy = *p;
    qsort_r(g->edge_order, (size_t)p->n_edges, sizeof *g->edge_order, compare_edges, &copy);
    for (int at = 0; at < g->n; at++) FT_TRY(collect_values(&m, g->order[at], err));
    return index_nets(g) ? FT_OK : ft_ground_no_memory(g, err);
}

/* -- sums -------------------------------------------------------------------------------------- */

/* What a clone adds to the sums of a set that uses its node and has it not. */
static void add_clone(const ft_ground *g, ft_load *sums, int node, int sign)
{
    const ft_partition_problem *p = g->problem;
    for (int k = 0; k < p->n_kinds; k++) {
        int64_t at = (int64_t)k * g->n + node;
        sums->ns[k] += sign * p->node_ns[at];
        sums->last_ns[k] += sign * (p->last_ns ? p->last_ns[at] : p->node_ns[at]);
    }
    if (p->fixed_bytes) sums->fixed += sign * p->fixed_bytes[node];
}

/* 1 where a set holds some units of a net, but not all. */
static int64_t is_part(int64_t held, int64_t whole)
{
    return held != 0 && held != whole;
}

/* The innermost loop of all searches; compiled for each sign. */
static inline void change(const ft_ground *g, ft_load *sums, int *held, int unit, const int sign)
{
    const ft_load *w = &g->weight[unit];
    const ft_pin *pin = &g->pins[g->pins_first[unit]], *end = &g->pins[g->pins_first[unit + 1]];
    int64_t out = 0, out_grad = 0, in = 0, in_grad = 0;
    for (int k = 0; k < g->problem->n_kinds; k++) {
        sums->ns[k] += sign * w->ns[k];
        sums->last_ns[k] += sign * w->last_ns[k];
    }
    for (; pin < end; pin++) {
        int64_t before = held[pin->net], after = before + sign * pin->weight;
        int64_t was = is_part(before, pin->whole), is = is_part(after, pin->whole);
        held[pin->net] = (int)after;
        if (pin->clone >= 0) {
            if (was & ~before) add_clone(g, sums, pin->clone, -1);
            if (is & ~after) add_clone(g, sums, pin->clone, 1);
            continue;
        }
        int64_t made = (is & after) - (was & before), used = is - was - made;
        out += made * pin->bytes;
        in_grad += made * pin->grad_bytes;
        in += used * pin->bytes;
        out_grad += used * pin->grad_bytes;
    }
    sums->fixed += sign * w->fixed;
    sums->saved += sign * w->saved;
    sums->out += out;
    sums->out_grad += out_grad;
    sums->in += in;
    sums->in_grad += in_grad;
}

void ft_load_change(const ft_ground *g, ft_load *sums, int *held, int unit, int sign)
{
    if (sign > 0)
        change(g, sums, held, unit, 1);
    else
        change(g, sums, held, unit, -1);
}

double ft_load_price(const ft_ground *g, const ft_load *sums, int device, bool last)
{
    const ft_partition_device *d = &g->problem->devices[device];
    double compute = (last ? sums->last_ns : sums->ns)[d->kind] * d->slowdown;
    double ns = g->byte_ns[device];
    if (ns == 0) return compute;
    return g->cost->price(compute, ns * (double)sums->out, ns * (double)sums->out_grad,
                          ns * (double)sums->in, ns * (double)sums->in_grad);
}

int64_t ft_load_bytes(const ft_load *sums, int in_flight)
{
    return sums->fixed + in_flight * sums->saved;
}

bool ft_load_fits(const ft_ground *g, const ft_load *sums, int device, int in_flight)
{
    int64_t limit = g->problem->devices[device].memory_bytes;
    return limit == 0 || ft_load_bytes(sums, in_flight) <= limit;
}
