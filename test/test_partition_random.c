/* test/test_partition_random.c - properties of placements on random problems of all features, too
 * large for brute force. Prices and memory are worked out apart from the code under test. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "partition/partition.h"

enum { MOST_NODES = 40, MOST_EDGES = 200, MOST_DEVICES = 5, KINDS = 2, N_CASES = CASES(300) };

typedef struct random_case {
    ft_partition_problem problem;
    ft_partition_options options;
    ft_partition_device devices[MOST_DEVICES];
    double node_ns[KINDS * MOST_NODES], last_ns[KINDS * MOST_NODES];
    int64_t fixed_bytes[MOST_NODES], saved_bytes[MOST_NODES];
    int64_t edge_bytes[MOST_EDGES], edge_grad_bytes[MOST_EDGES];
    int edge_from[MOST_EDGES], edge_to[MOST_EDGES], edge_value[MOST_EDGES];
    int tie[MOST_NODES], pin[MOST_NODES], forbid_node[2], forbid_device[2];
    bool cheap[MOST_NODES];
    bool sums; /* cost model `sum` */
} random_case;

static bool chance(ft_rng *rng, int one_in)
{
    return !ft_rng_below(rng, (uint64_t)one_in);
}

static int64_t below(ft_rng *rng, int64_t n)
{
    return (int64_t)ft_rng_below(rng, (uint64_t)n);
}

/* Two values of each node, each used by some of those after it. */
static void add_edges(random_case *c, ft_rng *rng)
{
    ft_partition_problem *p = &c->problem;
    for (int from = 0; from < p->n_nodes; from++)
        for (int value = 0; value < 2; value++) {
            int64_t bytes = below(rng, 8), grad = chance(rng, 2) ? bytes : 0;
            for (int to = from + 1; to < p->n_nodes && to < from + 12; to++) {
                bool follows = to == from + 1 && value == 0;
                if (!chance(rng, follows ? 2 : 14) || p->n_edges == MOST_EDGES) continue;
                if (c->cheap[to] && !c->cheap[from]) continue;
                int e = p->n_edges++;
                c->edge_from[e] = from;
                c->edge_to[e] = to;
                c->edge_value[e] = value;
                c->edge_bytes[e] = bytes;
                c->edge_grad_bytes[e] = grad;
            }
        }
}

static void add_nodes(random_case *c, ft_rng *rng)
{
    int n = c->problem.n_nodes;
    for (int i = 0; i < n; i++) {
        c->node_ns[i] = (double)below(rng, 20);
        c->node_ns[n + i] = 2 * c->node_ns[i] + (double)below(rng, 3);
        for (int k = 0; k < KINDS; k++) c->last_ns[k * n + i] = floor(c->node_ns[k * n + i] * 0.7);
        c->fixed_bytes[i] = below(rng, 10);
        c->saved_bytes[i] = below(rng, 4);
        c->cheap[i] = i < n / 2 && chance(rng, 8);
        c->tie[i] = chance(rng, 8) ? (int)below(rng, 3) : -1;
        c->pin[i] = chance(rng, 10) && c->tie[i] < 0 ? (int)below(rng, c->problem.n_devices) : -1;
    }
    c->problem.n_forbids = 1;
    c->forbid_node[0] = 0;
    c->forbid_device[0] = c->problem.n_devices - 1;
    if (c->problem.n_devices == 1 || c->pin[0] >= 0) c->problem.n_forbids = 0;
}

/* Each feature in a part of the cases. */
static void choose_features(random_case *c, ft_rng *rng)
{
    ft_partition_problem *p = &c->problem;
    if (chance(rng, 3)) p->last_ns = c->last_ns;
    if (chance(rng, 2)) p->saved_bytes = c->saved_bytes, p->in_flight = 1 + (int)below(rng, 4);
    p->flat = chance(rng, 3);
    if (chance(rng, 3)) p->cheap = c->cheap;
    if (!p->cheap) memset(c->cheap, 0, sizeof c->cheap);
    if (chance(rng, 3)) p->tie = c->tie;
    if (chance(rng, 4)) p->pin = c->pin;
    if (!chance(rng, 4)) p->n_forbids = 0;
    c->options.blocks = p->n_devices + (int)below(rng, 6); /* a sweep of them would take long */
    if (chance(rng, 4)) c->options.max_stages = p->n_devices + (int)below(rng, 6);
    if (chance(rng, 6)) c->options.max_stages_per_device = 1 + (int)below(rng, 3);
    int64_t total = 0;
    for (int i = 0; i < p->n_nodes; i++)
        total += c->fixed_bytes[i] + (p->saved_bytes ? p->in_flight * c->saved_bytes[i] : 0);
    bool unequal = chance(rng, 3), binds = chance(rng, 2);
    for (int d = 0; d < p->n_devices; d++)
        c->devices[d] = (ft_partition_device){
            .kind = unequal && d == 0,
            .slowdown = unequal && d == 1 ? 1.5 : 1,
            .memory_bytes = binds ? 12 + total / p->n_devices + below(rng, 20) : 0,
            .bytes_per_s = unequal && d == 0 ? 0 : 1e9};
}

static void make_case(random_case *c, uint64_t seed, const char *method)
{
    static const char *const costs[] = {"overlap", "sum"};
    ft_rng rng;
    ft_rng_init(&rng, seed, 7);
    memset(c, 0, sizeof *c);
    c->sums = chance(&rng, 2);
    c->options = (ft_partition_options){.method = method,
                                        .cost = costs[c->sums],
                                        .seed = seed,
                                        .effort = 20000,
                                        .max_down_sets = 400};
    c->problem = (ft_partition_problem){.n_nodes = 13 + (int)below(&rng, MOST_NODES - 12),
                                        .n_kinds = KINDS,
                                        .node_ns = c->node_ns,
                                        .fixed_bytes = c->fixed_bytes,
                                        .forbid_node = c->forbid_node,
                                        .forbid_device = c->forbid_device,
                                        .edge_from = c->edge_from,
                                        .edge_to = c->edge_to,
                                        .edge_bytes = c->edge_bytes,
                                        .edge_grad_bytes = c->edge_grad_bytes,
                                        .edge_value = c->edge_value,
                                        .n_devices = 1 + (int)below(&rng, MOST_DEVICES),
                                        .devices = c->devices};
    add_nodes(c, &rng);
    choose_features(c, &rng);
    add_edges(c, &rng);
}

/* -- the same sums again ----------------------------------------------------------------------- */

/* Whether a node, or a clone of it, runs on the device. */
static bool runs_on(const random_case *c, const int *device, int node, int d)
{
    bool runs = device[node] == d;
    for (int e = 0; c->cheap[node] && e < c->problem.n_edges && !runs; e++)
        if (c->edge_from[e] == node) runs = runs_on(c, device, c->edge_to[e], d);
    return runs;
}

/* Adds the traffic of one value. */
static void add_value(const random_case *c, const int *device, int d, int first, double *out,
                      double *back, double *all)
{
    unsigned to = 0;
    int maker = c->edge_from[first];
    for (int e = 0; e < c->problem.n_edges; e++)
        if (c->edge_from[e] == maker && c->edge_value[e] == c->edge_value[first])
            to |= 1u << device[c->edge_to[e]];
    to &= ~(1u << device[maker]);
    double bytes = (double)c->edge_bytes[first], grad = (double)c->edge_grad_bytes[first];
    bool sends = device[maker] == d && to, receives = to >> d & 1;
    if (sends) *out += bytes * __builtin_popcount(to);
    if (receives) *back += grad;
    if (sends || receives) *all += bytes + grad;
}

static double device_price(const random_case *c, const ft_partition_result *r, int d)
{
    const ft_partition_problem *p = &c->problem;
    const ft_partition_device *own = &c->devices[d];
    double compute = 0, out = 0, back = 0, all = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        int at = own->kind * p->n_nodes + i;
        bool last = p->last_ns && r->stage[i] == r->n_stages - 1;
        if (runs_on(c, r->device, i, d))
            compute += own->slowdown * (last && r->device[i] == d ? c->last_ns : c->node_ns)[at];
    }
    for (int e = 0; e < p->n_edges; e++) {
        bool known = c->cheap[c->edge_from[e]];
        for (int before = 0; before < e && !known; before++)
            known = c->edge_from[before] == c->edge_from[e] &&
                    c->edge_value[before] == c->edge_value[e];
        if (!known) add_value(c, r->device, d, e, &out, &back, &all);
    }
    if (own->bytes_per_s == 0) return compute;
    return c->sums ? compute + all : compute + fmax(0, out - compute) + fmax(0, back - compute);
}

static int64_t device_bytes(const random_case *c, const ft_partition_result *r, int d)
{
    const ft_partition_problem *p = &c->problem;
    int64_t bytes = 0;
    int most = p->in_flight > 1 ? p->in_flight : 1;
    for (int i = 0; i < p->n_nodes; i++) {
        int left = r->n_stages - r->stage[i], flight = p->flat || most < left ? most : left;
        if (runs_on(c, r->device, i, d)) bytes += c->fixed_bytes[i];
        if (r->device[i] == d && p->saved_bytes) bytes += flight * c->saved_bytes[i];
    }
    return bytes;
}

/* -- properties -------------------------------------------------------------------------------- */

static bool is_allowed(const random_case *c, const int *device)
{
    const ft_partition_problem *p = &c->problem;
    bool allowed = !p->n_forbids || device[c->forbid_node[0]] != c->forbid_device[0];
    for (int i = 0; i < p->n_nodes; i++) {
        if (p->pin && c->pin[i] >= 0) allowed &= device[i] == c->pin[i];
        for (int j = 0; p->tie && j < i; j++)
            if (c->tie[i] >= 0 && c->tie[i] == c->tie[j]) allowed &= device[i] == device[j];
    }
    return allowed;
}

static bool are_stages(const random_case *c, const ft_partition_result *r)
{
    const ft_partition_problem *p = &c->problem;
    bool ok = true;
    for (int e = 0; e < p->n_edges; e++) ok &= r->stage[c->edge_from[e]] <= r->stage[c->edge_to[e]];
    for (int i = 0; i < p->n_nodes; i++)
        ok &= r->stage[i] >= 0 && r->stage[i] < r->n_stages &&
              r->stage_device[r->stage[i]] == r->device[i];
    return ok;
}

static bool keeps_limits(const random_case *c, const ft_partition_result *r)
{
    int count[MOST_DEVICES] = {0}, most = 0;
    for (int s = 0; s < r->n_stages; s++) {
        int own = ++count[r->stage_device[s]];
        most = own > most ? own : most;
    }
    int limit = c->options.max_stages ? c->options.max_stages : c->options.blocks;
    return r->n_stages <= limit &&
           (!c->options.max_stages_per_device || most <= c->options.max_stages_per_device);
}

static bool check_result(const random_case *c, const ft_partition_result *r)
{
    double slowest = 0;
    bool fits = true, counted = true;
    for (int d = 0; d < c->problem.n_devices; d++) {
        int64_t bytes = device_bytes(c, r, d), limit = c->devices[d].memory_bytes;
        slowest = fmax(slowest, device_price(c, r, d));
        fits &= !limit || bytes <= limit;
        counted &= bytes == r->loads[d].memory_bytes;
    }
    bool ok = CHECK(are_stages(c, r));
    ok &= CHECK(is_allowed(c, r->device));
    ok &= CHECK(fits);
    ok &= CHECK(counted);
    ok &= CHECK_NEAR(r->objective_ns, slowest, 1e-9);
    ok &= CHECK(r->lower_bound_ns <= r->objective_ns * (1 + 1e-12));
    return ok;
}

static bool same(const random_case *c, const ft_partition_result *a, const ft_partition_result *b)
{
    size_t bytes = (size_t)c->problem.n_nodes * sizeof *a->stage;
    return a->n_stages == b->n_stages && !memcmp(a->stage, b->stage, bytes) &&
           !memcmp(a->device, b->device, bytes) && a->objective_ns == b->objective_ns;
}

/* Every method: what it finds is a placement, priced as it says, and the same another time. */
static void test_methods_keep_their_promises(void)
{
    static const struct {
        const char *name;
        int cases;
    } methods[] = {
        {"mixed", N_CASES}, {"seq", 4 * N_CASES}, {"greedy", 4 * N_CASES}, {"best", N_CASES / 4}};
    for (int m = 0; m < 4; m++) {
        int found = 0;
        for (uint64_t seed = 0; seed < (uint64_t)methods[m].cases; seed++) {
            static random_case c;
            ft_partition_result r, again;
            ft_error err = {FT_OK, ""};
            make_case(&c, seed, methods[m].name);
            ft_status status = ft_partition_solve(&c.problem, &c.options, &r, &err);
            bool ok = CHECK(status == FT_OK || status == FT_INFEASIBLE);
            if (status == FT_OK) {
                found++;
                ok &= check_result(&c, &r);
                ok &= CHECK(keeps_limits(&c, &r));
                if (seed % 8 == 0) {
                    CHECK_STATUS(ft_partition_solve(&c.problem, &c.options, &again, &err), FT_OK);
                    ok &= CHECK(same(&c, &r, &again));
                    ft_partition_result_free(&again);
                }
            }
            if (!ok) fprintf(stderr, "%s, case %d: %s\n", methods[m].name, (int)seed, err.message);
            ft_partition_result_free(&r);
        }
        CHECK(found > methods[m].cases / 2);
    }
}

/* The richer search is not beaten by a simpler one. */
static void test_mixed_is_not_worse(void)
{
    int compared = 0;
    for (uint64_t seed = 0; seed < N_CASES; seed++) {
        static random_case c;
        static const char *const simpler[] = {"greedy", "seq"};
        ft_partition_result mixed, other;
        ft_error err = {FT_OK, ""};
        make_case(&c, seed, "mixed");
        ft_status status = ft_partition_solve(&c.problem, &c.options, &mixed, &err);
        for (int m = 0; m < 2; m++) {
            c.options.method = simpler[m];
            ft_status found = ft_partition_solve(&c.problem, &c.options, &other, &err);
            if (found == FT_OK && keeps_limits(&c, &other)) {
                compared++;
                bool ok = CHECK_STATUS(status, FT_OK) &&
                          CHECK(mixed.objective_ns <= other.objective_ns * (1 + 1e-12));
                if (!ok)
                    fprintf(stderr, "case %d: mixed %g, %s %g\n", (int)seed, mixed.objective_ns,
                            simpler[m], other.objective_ns);
            }
            ft_partition_result_free(&other);
        }
        ft_partition_result_free(&mixed);
    }
    CHECK(compared > N_CASES);
}

/* -- stages of a placement --------------------------------------------------------------------- */

/* The nodes that device d can run when those of the set `ran` have. */
static uint64_t runnable(const random_case *c, const int *device, uint64_t ran, int d)
{
    uint64_t own = 0;
    for (int i = 0; i < c->problem.n_nodes; i++) { /* edges lead from lower nodes to higher ones */
        bool can = device[i] == d && !(ran >> i & 1);
        for (int e = 0; e < c->problem.n_edges && can; e++)
            if (c->edge_to[e] == i) can = (ran | own) >> c->edge_from[e] & 1;
        if (can) own |= (uint64_t)1 << i;
    }
    return own;
}

/* Stages of the device that gets furthest, the first of several, from `ran` on. */
static bool are_furthest(const random_case *c, const ft_partition_result *r)
{
    uint64_t ran = 0;
    for (int s = 0; s < r->n_stages; s++) {
        uint64_t best = 0, stage = 0;
        for (int d = 0; d < c->problem.n_devices; d++) {
            uint64_t own = runnable(c, r->device, ran, d);
            if (__builtin_popcountll(own) > __builtin_popcountll(best)) best = own;
        }
        for (int i = 0; i < c->problem.n_nodes; i++)
            if (r->stage[i] == s) stage |= (uint64_t)1 << i;
        if (stage != best) return false;
        ran |= stage;
    }
    return ran == ((uint64_t)1 << c->problem.n_nodes) - 1;
}

enum { FEW_NODES = 10 };

/* The fewest stages: every order of nodes is tried, one node after another; a stage ends where the
 * next node is of another device. */
static int fewest_stages(const random_case *c, const int *device)
{
    /* by nodes that ran, and the last one's device */
    static int least[1 << FEW_NODES][MOST_DEVICES];
    int n_sets = 1 << c->problem.n_nodes, fewest = c->problem.n_nodes;
    for (int set = 0; set < n_sets; set++)
        for (int d = 0; d < MOST_DEVICES; d++) least[set][d] = set ? MOST_NODES : 0;
    for (int set = 0; set < n_sets; set++)
        for (int last = 0; last < MOST_DEVICES; last++)
            for (int i = 0; i < c->problem.n_nodes; i++) {
                int d = device[i], to = set | 1 << i;
                bool can = !(set >> i & 1);
                for (int e = 0; e < c->problem.n_edges && can; e++)
                    if (c->edge_to[e] == i) can = set >> c->edge_from[e] & 1;
                int n = least[set][last] + (set == 0 || d != last);
                if (can && n < least[to][d]) least[to][d] = n;
            }
    for (int d = 0; d < MOST_DEVICES; d++)
        if (least[n_sets - 1][d] < fewest) fewest = least[n_sets - 1][d];
    return fewest;
}

/* Of a few nodes the fewest stages there are; of many, of the device that gets furthest. */
static void test_stages_of_placements(void)
{
    for (uint64_t seed = 0; seed < 4 * N_CASES; seed++) {
        static random_case c;
        ft_partition_result r;
        ft_error err = {FT_OK, ""};
        ft_rng rng;
        int device[MOST_NODES];
        make_case(&c, seed, "mixed");
        ft_rng_init(&rng, seed, 8);
        if (seed % 2) {
            c.problem.n_nodes = 1 + (int)below(&rng, FEW_NODES);
            c.problem.n_edges = 0;
            add_edges(&c, &rng);
        } else if (c.problem.n_nodes <= 16) {
            continue;
        }
        c.problem.n_kinds = 1;
        for (int d = 0; d < c.problem.n_devices; d++)
            c.devices[d] = (ft_partition_device){.slowdown = 1};
        c.problem.tie = c.problem.pin = NULL;
        c.problem.cheap = NULL;
        c.problem.n_forbids = 0;
        for (int i = 0; i < c.problem.n_nodes; i++)
            device[i] = (int)below(&rng, c.problem.n_devices);
        ft_status status = ft_partition_evaluate(&c.problem, "sum", device, NULL, &r, &err);
        bool ok = CHECK_STATUS(status, FT_OK) && CHECK(are_stages(&c, &r)) &&
                  CHECK(seed % 2 ? r.n_stages == fewest_stages(&c, device) : are_furthest(&c, &r));
        if (!ok) fprintf(stderr, "case %d: %d stages, %s\n", (int)seed, r.n_stages, err.message);
        ft_partition_result_free(&r);
    }
}

int main(void)
{
    RUN(test_methods_keep_their_promises);
    RUN(test_mixed_is_not_worse);
    RUN(test_stages_of_placements);
    return check_report();
}
