/* machine/machine.c - ways over links, and who has to wait on them.
 *
 * Every pair of places has one way, the one over the fewest links. A transfer begins when all links
 * of its way are free; each link remembers until when it is taken, per direction where it is
 * duplex. */
#include "machine/machine.h"

enum { MAX_PLACES = 1 << 13, MAX_LINKS = 1 << 20 };

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

/* For each place the link by which a search from `from` comes to it. Devices end ways, they do not
 * pass on. */
static void search(const ft_roads *roads, int from, int *came_by)
{
    const ft_machine *m = roads->machine;
    int head = 0, tail = 0, *queue = roads->queue;
    for (int i = 0; i < m->n_places; i++) came_by[i] = -1;
    queue[tail++] = from;
    while (head < tail) {
        int place = queue[head++];
        if (place < m->n_devices && place != from) continue;
        for (int i = roads->first[place]; i < roads->first[place + 1]; i++) {
            int link = roads->list[i];
            const ft_cable *l = &m->links[link];
            int other = l->a == place ? l->b : l->a;
            if (other == from || came_by[other] >= 0 || (l->one_way && l->b == place)) continue;
            came_by[other] = link;
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

/* The way that the search from a place has found, with room for its lanes. */
static ft_way follow(const ft_roads *m, int from, int to, int *lanes)
{
    ft_way w = {.lanes = lanes, .narrowest = -1};
    w.n = trace(m->machine, m->exits[from].came_by, from, to, lanes);
    for (int i = 0; i < w.n; i++) {
        int link = lanes[i] / 2;
        w.latency_ns += m->machine->links[link].latency_ns;
        w.asks |= m->machine->links[link].eager_bytes > 0;
        if (m->ns_per_byte[link] <= w.ns_per_byte) continue;
        w.ns_per_byte = m->ns_per_byte[link];
        w.narrowest = link;
    }
    return w;
}

static bool is_reached(const ft_roads *m, int from, int to)
{
    return from == to || m->exits[from].came_by[to] >= 0;
}

/* NULL: no memory. */
static ft_way *find_way(const ft_roads *m, int from, int to)
{
    ft_way *w = ft_arena_alloc(m->arena, sizeof *w);
    if (!w) return NULL;
    *w = (ft_way){.n = -1, .narrowest = -1};
    if (!is_reached(m, from, to)) return w;
    int n = trace(m->machine, m->exits[from].came_by, from, to, NULL);
    int *lanes = ft_arena_array(m->arena, n, sizeof *lanes);
    if (!lanes) return NULL;
    *w = follow(m, from, to, lanes);
    return w;
}

/* False: no memory. */
static bool look_from(ft_roads *m, int from)
{
    int n = m->machine->n_places;
    int *came_by = ft_arena_array(m->arena, n, sizeof *came_by);
    ft_way **ways = ft_arena_array(m->arena, n, sizeof *ways);
    if (!came_by || !ways) return false;
    search(m, from, came_by);
    m->exits[from] = (ft_exits){came_by, ways};
    return true;
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
    FT_TRY(check_machine(m, n_devices, err));
    *out = (ft_roads){.machine = m, .arena = arena};
    FT_TRY(group_links(m, arena, &out->first, &out->list, err));
    int64_t lanes = 2 * (int64_t)m->n_links;
    out->queue = ft_arena_array(arena, m->n_places, sizeof *out->queue);
    out->exits = ft_arena_array(arena, m->n_places, sizeof *out->exits);
    out->ns_per_byte = ft_arena_array(arena, m->n_links, sizeof *out->ns_per_byte);
    out->ring_ns = ft_arena_array(arena, lanes, sizeof *out->ring_ns);
    out->free_ns = ft_arena_array(arena, 2 * lanes, sizeof *out->free_ns);
    if (!out->queue || !out->exits || !out->ns_per_byte || !out->ring_ns || !out->free_ns)
        return no_memory(err);
    out->taken_ns = out->free_ns + lanes;
    for (int i = 0; i < m->n_links; i++) out->ns_per_byte[i] = 1e9 / m->links[i].bytes_per_s;
    return FT_OK;
}

const ft_way *ft_roads_way(ft_roads *m, int from, int to)
{
    const ft_exits *exits = &m->exits[from];
    if (!exits->ways && !look_from(m, from)) return NULL;
    if (!exits->ways[to]) exits->ways[to] = find_way(m, from, to);
    return exits->ways[to];
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

ft_status ft_roads_join_all(ft_roads *m, ft_error *err)
{
    int n = m->machine->n_devices;
    for (int from = 0; from < n; from++) {
        if (!m->exits[from].ways && !look_from(m, from)) return no_memory(err);
        for (int to = 0; to < n; to++)
            if (!is_reached(m, from, to))
                return ft_fail(err, FT_INVALID,
                               "machine: there is no way from device %d to device %d", from, to);
    }
    return FT_OK;
}

ft_status ft_machine_idle(const ft_machine *machine, int64_t bytes, double *latency_ns,
                          double *ns_per_byte, ft_error *err)
{
    ft_roads all;
    int64_t n = machine->n_devices;
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(err);
    ft_status status = ft_roads_new(&all, arena, machine, (int)n, err);
    if (status == FT_OK) status = ft_roads_join_all(&all, err);
    for (int64_t i = 0; status == FT_OK && i < n * n; i++) {
        ft_way w = follow(&all, (int)(i / n), (int)(i % n), all.queue);
        latency_ns[i] = (double)ft_roads_latency_ns(&all, &w, bytes);
        ns_per_byte[i] = w.ns_per_byte;
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
static const ft_way *ring_way(ft_roads *m, const int *devices, int n, int i)
{
    return ft_roads_way(m, devices[i], devices[(i + 1) % n]);
}

/* A byte on every way of the ring: what the slowest lane needs for all of those that it is on. */
static double ring_ns_per_byte(ft_roads *m, const int *devices, int n)
{
    double slowest = 0;
    for (int i = 0; i < n; i++) {
        const ft_way *w = ring_way(m, devices, n, i);
        for (int k = 0; k < w->n; k++) {
            double *sum = &m->ring_ns[w->lanes[k]];
            *sum += m->ns_per_byte[w->lanes[k] / 2];
            if (*sum > slowest) slowest = *sum;
        }
    }
    for (int i = 0; i < n; i++) {
        const ft_way *w = ring_way(m, devices, n, i);
        for (int k = 0; k < w->n; k++) m->ring_ns[w->lanes[k]] = 0;
    }
    return slowest;
}

/* A ring: each of n devices passes 2 (n - 1) parts of bytes / n to the next one. All of its ways
 * are taken together; one lane that several of them need is shared. */
int64_t ft_roads_reduce(ft_roads *m, const int *devices, int n, int64_t now, int64_t bytes,
                        int64_t *start)
{
    int64_t latency = 0;
    *start = now;
    for (int i = 0; i < n; i++) {
        const ft_way *w = ring_way(m, devices, n, i);
        int64_t ns = ft_roads_latency_ns(m, w, bytes / n);
        if (ns > latency) latency = ns;
        for (int k = 0; k < w->n; k++)
            if (m->free_ns[w->lanes[k]] > *start) *start = m->free_ns[w->lanes[k]];
    }
    int64_t steps = 2 * ((int64_t)n - 1);
    int64_t ns =
        (int64_t)((double)steps * (double)bytes / n * ring_ns_per_byte(m, devices, n) + 0.5) +
        steps * latency;
    for (int i = 0; i < n; i++) {
        const ft_way *w = ring_way(m, devices, n, i);
        for (int k = 0; k < w->n; k++) /* once each */
            if (m->free_ns[w->lanes[k]] < *start + ns) take(m, w->lanes[k], *start, ns);
    }
    return *start + ns;
}
