/* machine/machine.c - ways over links, and who has to wait on them.
 *
 * Every pair of places has one way, the one over the fewest links. A transfer begins when all links
 * of its way are free; each link remembers until when it is taken, per direction where it is
 * duplex. */
#include "machine/machine.h"

enum { MAX_PLACES = 1024, MAX_LINKS = 1 << 20 };

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "machine: no memory");
}

/* -- input ---------------------------------------------------------------------------------------
 */

static ft_status check_link(const ft_machine *m, int i, ft_error *err)
{
    const ft_cable *l = &m->links[i];
    if (l->a < 0 || l->a >= m->n_places || l->b < 0 || l->b >= m->n_places || l->a == l->b)
        return ft_fail(err, FT_INVALID,
                       "machine: link %d joins places %d and %d, expected two different ones of %d",
                       i, l->a, l->b, m->n_places);
    if (!(l->bytes_per_s > 0 && l->bytes_per_s <= 1e18))
        return ft_fail(err, FT_INVALID, "machine: link %d has %g bytes/s, expected above 0", i,
                       l->bytes_per_s);
    if (l->latency_ns < 0 || l->latency_ns > FT_MACHINE_MAX_NS)
        return ft_fail(err, FT_INVALID,
                       "machine: link %d has a latency of %lld ns, expected 0 to "
                       "1e9",
                       i, (long long)l->latency_ns);
    if (l->eager_bytes < 0)
        return ft_fail(err, FT_INVALID, "machine: link %d has %lld eager bytes, expected 0 or more",
                       i, (long long)l->eager_bytes);
    return FT_OK;
}

static ft_status check_device(const ft_machine *m, int d, ft_error *err)
{
    if (m->home && (m->home[d] < 0 || m->home[d] >= m->n_places))
        return ft_fail(err, FT_INVALID, "machine: device %d has its home at place %d of %d", d,
                       m->home[d], m->n_places);
    if (m->copy_bytes_per_s && !(m->copy_bytes_per_s[d] >= 0 && m->copy_bytes_per_s[d] <= 1e18))
        return ft_fail(err, FT_INVALID, "machine: device %d copies %g bytes/s, expected 0 or more",
                       d, m->copy_bytes_per_s[d]);
    if (m->launch_ns && (m->launch_ns[d] < 0 || m->launch_ns[d] > FT_MACHINE_MAX_NS))
        return ft_fail(err, FT_INVALID,
                       "machine: a launch on device %d takes %lld ns, expected 0 "
                       "to 1e9",
                       d, (long long)m->launch_ns[d]);
    return FT_OK;
}

static ft_status check_machine(const ft_machine *m, int n_devices, ft_error *err)
{
    if (m->n_devices != n_devices)
        return ft_fail(err, FT_INVALID, "machine: %d devices, the plan has %d", m->n_devices,
                       n_devices);
    if (m->n_places < m->n_devices || m->n_places > MAX_PLACES)
        return ft_fail(err, FT_INVALID, "machine: %d places for %d devices, expected at most %d",
                       m->n_places, m->n_devices, MAX_PLACES);
    if (m->n_links < 0 || m->n_links > MAX_LINKS)
        return ft_fail(err, FT_INVALID, "machine: %d links, expected 0 to %d", m->n_links,
                       MAX_LINKS);
    if (m->hand_off_ns < 0 || m->hand_off_ns > FT_MACHINE_MAX_NS)
        return ft_fail(err, FT_INVALID, "machine: a hand-off takes %lld ns, expected 0 to 1e9",
                       (long long)m->hand_off_ns);
    for (int i = 0; i < m->n_links; i++) FT_TRY(check_link(m, i, err));
    for (int d = 0; d < m->n_devices; d++) FT_TRY(check_device(m, d, err));
    return FT_OK;
}

/* -- ways ----------------------------------------------------------------------------------------
 */

/* For each place the link by which the search from `from` came to it; -1: not reached. Devices end
 * ways, they do not pass on. */
static void search(const ft_machine *m, const int *first, const int *list, int from, int *came_by,
                   int *queue)
{
    int head = 0, tail = 0;
    for (int i = 0; i < m->n_places; i++) came_by[i] = -1;
    queue[tail++] = from;
    while (head < tail) {
        int place = queue[head++];
        if (place < m->n_devices && place != from) continue;
        for (int i = first[place]; i < first[place + 1]; i++) {
            const ft_cable *l = &m->links[list[i]];
            int other = l->a == place ? l->b : l->a;
            if (other == from || came_by[other] >= 0 || (l->one_way && l->b == place)) continue;
            came_by[other] = list[i];
            queue[tail++] = other;
        }
    }
}

/* Lanes from `to` back to `from`; returns how many. A lane is a link and a direction. */
static int trace(const ft_machine *m, const int *came_by, int from, int to, int *lanes)
{
    int n = 0;
    for (int place = to; place != from;) {
        const ft_cable *l = &m->links[came_by[place]];
        bool forward = l->b == place;
        if (lanes) lanes[n] = 2 * came_by[place] + (l->duplex && !forward);
        n++;
        place = forward ? l->a : l->b;
    }
    return n;
}

static ft_status write_way(ft_roads *out, const int *came_by, int from, int to, ft_arena *arena,
                           ft_error *err)
{
    const ft_machine *m = out->machine;
    ft_way *w = &out->ways[from * m->n_places + to];
    *w = (ft_way){.n = -1, .narrowest = -1};
    if (from != to && came_by[to] < 0) return FT_OK;
    w->n = trace(m, came_by, from, to, NULL);
    w->lanes = ft_arena_array(arena, w->n, sizeof *w->lanes);
    if (!w->lanes) return no_memory(err);
    trace(m, came_by, from, to, w->lanes);
    for (int i = 0; i < w->n; i++) {
        double ns = out->ns_per_byte[w->lanes[i] / 2];
        w->latency_ns += m->links[w->lanes[i] / 2].latency_ns;
        w->asks |= m->links[w->lanes[i] / 2].eager_bytes > 0;
        if (ns <= w->ns_per_byte) continue;
        w->ns_per_byte = ns;
        w->narrowest = w->lanes[i] / 2;
    }
    return FT_OK;
}

/* Links by the places that they touch. */
static ft_status group_links(const ft_machine *m, ft_arena *arena, int **first_out, int **list_out,
                             ft_error *err)
{
    int *first = ft_arena_array(arena, (int64_t)m->n_places + 2, sizeof *first);
    int *list = ft_arena_array(arena, 2 * (int64_t)m->n_links, sizeof *list);
    if (!first || !list) return no_memory(err);
    for (int i = 0; i < m->n_links; i++) {
        first[m->links[i].a + 2]++;
        first[m->links[i].b + 2]++;
    }
    for (int i = 1; i <= m->n_places + 1; i++) first[i] += first[i - 1];
    for (int i = 0; i < m->n_links; i++) {
        list[first[m->links[i].a + 1]++] = i;
        list[first[m->links[i].b + 1]++] = i;
    }
    *first_out = first;
    *list_out = list;
    return FT_OK;
}

ft_status ft_roads_new(ft_roads *out, ft_arena *arena, const ft_machine *m, int n_devices,
                       ft_error *err)
{
    int *first = NULL, *list = NULL;
    FT_TRY(check_machine(m, n_devices, err));
    FT_TRY(group_links(m, arena, &first, &list, err));
    int64_t n = m->n_places;
    int *came_by = ft_arena_array(arena, 2 * n, sizeof *came_by);
    *out = (ft_roads){.machine = m};
    out->ways = ft_arena_array(arena, n * n, sizeof *out->ways);
    out->ns_per_byte = ft_arena_array(arena, m->n_links, sizeof *out->ns_per_byte);
    out->free_ns = ft_arena_array(arena, 4 * (int64_t)m->n_links, sizeof *out->free_ns);
    if (!came_by || !out->ways || !out->ns_per_byte || !out->free_ns) return no_memory(err);
    out->taken_ns = out->free_ns + 2 * (int64_t)m->n_links;
    for (int i = 0; i < m->n_links; i++) out->ns_per_byte[i] = 1e9 / m->links[i].bytes_per_s;
    for (int from = 0; from < m->n_places; from++) {
        search(m, first, list, from, came_by, came_by + n);
        for (int to = 0; to < m->n_places; to++)
            FT_TRY(write_way(out, came_by, from, to, arena, err));
    }
    return FT_OK;
}

const ft_way *ft_roads_way(const ft_roads *m, int from, int to)
{
    return &m->ways[from * m->machine->n_places + to];
}

int64_t ft_roads_latency_ns(const ft_roads *m, const ft_way *w, int64_t bytes)
{
    int64_t ns = w->latency_ns;
    for (int i = 0; w->asks && i < w->n; i++) {
        const ft_cable *l = &m->machine->links[w->lanes[i] / 2];
        if (l->eager_bytes && bytes > l->eager_bytes) ns += 2 * l->latency_ns;
    }
    return ns;
}

ft_status ft_roads_join_all(const ft_roads *m, ft_error *err)
{
    int n = m->machine->n_devices;
    for (int i = 0; i < n * n; i++)
        if (ft_roads_way(m, i / n, i % n)->n < 0)
            return ft_fail(err, FT_INVALID, "machine: there is no way from device %d to device %d",
                           i / n, i % n);
    return FT_OK;
}

ft_status ft_machine_idle(const ft_machine *machine, int64_t bytes, double *latency_ns,
                          double *ns_per_byte, ft_error *err)
{
    ft_roads all;
    int n = machine->n_devices;
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(err);
    ft_status status = ft_roads_new(&all, arena, machine, n, err);
    if (status == FT_OK) status = ft_roads_join_all(&all, err);
    for (int i = 0; status == FT_OK && i < n * n; i++) {
        const ft_way *w = ft_roads_way(&all, i / n, i % n);
        latency_ns[i] = (double)ft_roads_latency_ns(&all, w, bytes);
        ns_per_byte[i] = w->ns_per_byte;
    }
    ft_arena_free(arena);
    return status;
}

static void take(ft_roads *m, int lane, int64_t start, int64_t ns)
{
    m->free_ns[lane] = start + ns;
    m->taken_ns[lane] += ns;
}

static int64_t pass_ns(int64_t bytes, double ns_per_byte)
{
    return (int64_t)((double)bytes * ns_per_byte + 0.5);
}

int64_t ft_roads_pass(ft_roads *m, const ft_way *w, int64_t now, int64_t bytes, int64_t *start)
{
    *start = now;
    for (int i = 0; i < w->n; i++)
        if (m->free_ns[w->lanes[i]] > *start) *start = m->free_ns[w->lanes[i]];
    for (int i = 0; i < w->n; i++)
        take(m, w->lanes[i], *start, pass_ns(bytes, m->ns_per_byte[w->lanes[i] / 2]));
    return *start + pass_ns(bytes, w->ns_per_byte) + ft_roads_latency_ns(m, w, bytes);
}

/* From a device of a ring to the next. */
static const ft_way *ring_way(const ft_roads *m, const int *devices, int n, int i)
{
    return ft_roads_way(m, devices[i], devices[(i + 1) % n]);
}

/* A byte on every way of the ring: what the lane needs for all of those that it is on. */
static double ring_ns_per_byte(const ft_roads *m, const int *devices, int n, int lane)
{
    double ns = 0;
    for (int i = 0; i < n; i++) {
        const ft_way *w = ring_way(m, devices, n, i);
        for (int k = 0; k < w->n; k++)
            if (w->lanes[k] == lane) ns += m->ns_per_byte[lane / 2];
    }
    return ns;
}

/* A ring: each of n devices passes 2 (n - 1) parts of bytes / n to the next one. All of its ways
 * are taken together; one lane that several of them need is shared. */
int64_t ft_roads_reduce(ft_roads *m, const int *devices, int n, int64_t now, int64_t bytes,
                        int64_t *start)
{
    double slowest = 0;
    int64_t latency = 0;
    *start = now;
    for (int i = 0; i < n; i++) {
        const ft_way *w = ring_way(m, devices, n, i);
        int64_t ns = ft_roads_latency_ns(m, w, bytes / n);
        if (ns > latency) latency = ns;
        for (int k = 0; k < w->n; k++) {
            double per_byte = ring_ns_per_byte(m, devices, n, w->lanes[k]);
            if (per_byte > slowest) slowest = per_byte;
            if (m->free_ns[w->lanes[k]] > *start) *start = m->free_ns[w->lanes[k]];
        }
    }
    int64_t steps = 2 * ((int64_t)n - 1);
    int64_t ns = (int64_t)((double)steps * (double)bytes / n * slowest + 0.5) + steps * latency;
    for (int i = 0; i < n; i++) {
        const ft_way *w = ring_way(m, devices, n, i);
        for (int k = 0; k < w->n; k++) /* once each */
            if (m->free_ns[w->lanes[k]] < *start + ns) take(m, w->lanes[k], *start, ns);
    }
    return *start + ns;
}
