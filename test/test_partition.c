/* test/test_partition.c - partitioners against brute force on random problems. */
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "partition/partition.h"

enum { MOST_NODES = 10, MOST_EDGES = 45, MOST_DEVICES = 3, N_CASES = CASES(1500) };

typedef struct random_case {
    ft_partition_problem problem;
    ft_partition_options options;
    ft_partition_device devices[MOST_DEVICES];
    double node_ns[2 * MOST_NODES];
    int64_t fixed_bytes[MOST_NODES], edge_bytes[MOST_EDGES], edge_grad_bytes[MOST_EDGES];
    int edge_from[MOST_EDGES], edge_to[MOST_EDGES], edge_value[MOST_EDGES], pin[MOST_NODES];
    bool sums; /* cost model `sum` */
} random_case;

static void add_edges(random_case *c, ft_rng *rng)
{
    ft_partition_problem *p = &c->problem;
    for (int from = 0; from < p->n_nodes; from++) {
        int64_t bytes = (int64_t)ft_rng_below(rng, 8), grad = (int64_t)ft_rng_below(rng, 2) * bytes;
        for (int to = from + 1; to < p->n_nodes; to++) {
            if (to != from + 1 && ft_rng_below(rng, 4)) continue;
            if (to == from + 1 && !ft_rng_below(rng, 4)) continue;
            int e = p->n_edges++;
            c->edge_from[e] = from;
            c->edge_to[e] = to;
            c->edge_value[e] = 0;
            c->edge_bytes[e] = bytes;
            c->edge_grad_bytes[e] = grad;
        }
    }
}

/* Memory binds in half of the cases, stages are limited in a third, devices differ in a third,
 * and a third has pins. */
static void make_case(random_case *c, uint64_t seed)
{
    static const char *const costs[] = {"overlap", "sum"};
    ft_rng rng;
    ft_rng_init(&rng, seed, 0);
    memset(c, 0, sizeof *c);
    int n = 1 + (int)ft_rng_below(&rng, MOST_NODES);
    c->sums = ft_rng_below(&rng, 2);
    c->options = (ft_partition_options){
        .method = "mixed", .cost = costs[c->sums], .seed = seed, .effort = 200000};
    c->problem = (ft_partition_problem){.n_nodes = n,
                                        .n_kinds = 2,
                                        .node_ns = c->node_ns,
                                        .fixed_bytes = c->fixed_bytes,
                                        .edge_from = c->edge_from,
                                        .edge_to = c->edge_to,
                                        .edge_bytes = c->edge_bytes,
                                        .edge_grad_bytes = c->edge_grad_bytes,
                                        .edge_value = c->edge_value,
                                        .n_devices = 1 + (int)ft_rng_below(&rng, MOST_DEVICES),
                                        .devices = c->devices};
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        c->node_ns[i] = (double)ft_rng_below(&rng, 10);
        c->node_ns[n + i] = 3 * c->node_ns[i] + (double)ft_rng_below(&rng, 3);
        total += c->fixed_bytes[i] = (int64_t)ft_rng_below(&rng, 10);
    }
    bool unequal = !ft_rng_below(&rng, 3), binds = ft_rng_below(&rng, 2);
    for (int d = 0; d < c->problem.n_devices; d++)
        c->devices[d] = (ft_partition_device){
            .kind = unequal && d == 0,
            .slowdown = unequal && d == 1 ? 1.5 : 1,
            .memory_bytes =
                binds ? 1 + total / c->problem.n_devices + (int64_t)ft_rng_below(&rng, 6) : 0,
            .bytes_per_s = unequal && d == 0 ? 0 : 1e9};
    if (!ft_rng_below(&rng, 3)) c->options.max_stages = 1 + (int)ft_rng_below(&rng, 4);
    add_edges(c, &rng);
    for (int i = 0; i < n; i++)
        c->pin[i] =
            ft_rng_below(&rng, 6) ? -1 : (int)ft_rng_below(&rng, (uint64_t)c->problem.n_devices);
    if (!ft_rng_below(&rng, 3)) c->problem.pin = c->pin;
}

/* -- brute force, priced and cut into stages apart from the code under test ---------------------
 */

/* Devices other than the maker's that use the value of a node. */
static int destinations(const random_case *c, const int *device, int node)
{
    unsigned to = 0;
    for (int e = 0; e < c->problem.n_edges; e++)
        if (c->edge_from[e] == node && device[c->edge_to[e]] != device[node])
            to |= 1u << device[c->edge_to[e]];
    return __builtin_popcount(to);
}

static double device_price(const random_case *c, const int *device, int d)
{
    const ft_partition_problem *p = &c->problem;
    double compute = 0, out = 0, back = 0, all = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        if (device[i] == d)
            compute += c->devices[d].slowdown * c->node_ns[c->devices[d].kind * p->n_nodes + i];
        int64_t bytes = 0, grad = 0;
        bool here = false;
        for (int e = 0; e < p->n_edges; e++) {
            if (c->edge_from[e] != i) continue;
            bytes = c->edge_bytes[e];
            grad = c->edge_grad_bytes[e];
            here |= device[c->edge_to[e]] == d;
        }
        int to = device[i] == d ? destinations(c, device, i) : 0;
        bool used = device[i] != d && here;
        out += (double)(to * bytes);
        back += used ? (double)grad : 0;
        all += to || used ? (double)(bytes + grad) : 0;
    }
    if (c->devices[d].bytes_per_s == 0) return compute;
    return c->sums ? compute + all : compute + fmax(0, out - compute) + fmax(0, back - compute);
}

/* Memory and pins. */
static bool fits(const random_case *c, const int *device)
{
    for (int i = 0; c->problem.pin && i < c->problem.n_nodes; i++)
        if (c->pin[i] >= 0 && device[i] != c->pin[i]) return false;
    for (int d = 0; d < c->problem.n_devices; d++) {
        int64_t bytes = 0;
        for (int i = 0; i < c->problem.n_nodes; i++)
            if (device[i] == d) bytes += c->fixed_bytes[i];
        if (c->devices[d].memory_bytes && bytes > c->devices[d].memory_bytes) return false;
    }
    return true;
}

/* Fewest stages, by running devices in every possible turn. */
static int fewest_stages(const random_case *c, const int *device, unsigned done, int most)
{
    const ft_partition_problem *p = &c->problem;
    if (done == (1u << p->n_nodes) - 1) return 0;
    if (most == 0) return 1;
    int best = most + 1;
    for (int d = 0; d < p->n_devices; d++) {
        unsigned after = done;
        for (int i = 0; i < p->n_nodes; i++) {
            bool ready = device[i] == d;
            for (int e = 0; e < p->n_edges && ready; e++)
                ready = c->edge_to[e] != i || (after >> c->edge_from[e] & 1);
            if (ready) after |= 1u << i;
        }
        if (after == done) continue;
        int n = 1 + fewest_stages(c, device, after, best - 2 < most - 1 ? best - 2 : most - 1);
        if (n < best) best = n;
        if (best <= 1) break;
    }
    return best;
}

static double brute_force(const random_case *c)
{
    int device[MOST_NODES] = {0}, n = c->problem.n_nodes;
    double best = HUGE_VAL;
    for (;;) {
        double slowest = 0;
        for (int d = 0; d < c->problem.n_devices && slowest < best; d++)
            slowest = fmax(slowest, device_price(c, device, d));
        if (slowest < best && fits(c, device) &&
            (!c->options.max_stages ||
             fewest_stages(c, device, 0, c->options.max_stages) <= c->options.max_stages))
            best = slowest;
        int i = 0;
        while (i < n && ++device[i] == c->problem.n_devices) device[i++] = 0;
        if (i == n) return best;
    }
}

/* -- properties -------------------------------------------------------------------------------- */

/* What each device computes; what all of them receive: values, and gradients of those. */
static void check_loads(const random_case *c, const ft_partition_result *r)
{
    const ft_partition_problem *p = &c->problem;
    double moved = 0;
    for (int d = 0; d < p->n_devices; d++) {
        double compute = 0;
        for (int i = 0; i < p->n_nodes; i++) {
            int64_t bytes = 0;
            if (r->device[i] == d)
                compute += c->devices[d].slowdown * c->node_ns[c->devices[d].kind * p->n_nodes + i];
            for (int e = 0; e < p->n_edges && r->device[i] != d; e++)
                if (c->edge_from[e] == i && r->device[c->edge_to[e]] == d)
                    bytes = c->edge_bytes[e] + c->edge_grad_bytes[e];
            moved += (double)bytes;
        }
        CHECK_NEAR(r->loads[d].compute_ns, compute, 1e-9);
    }
    CHECK_NEAR((double)r->moved_bytes, moved, 1e-9);
}

static void check_result(const random_case *c, const ft_partition_result *r)
{
    const ft_partition_problem *p = &c->problem;
    bool ordered = true, covered = true;
    for (int e = 0; e < p->n_edges; e++)
        ordered &= r->stage[c->edge_from[e]] <= r->stage[c->edge_to[e]];
    for (int i = 0; i < p->n_nodes; i++)
        covered &= r->stage[i] >= 0 && r->stage[i] < r->n_stages &&
                   r->stage_device[r->stage[i]] == r->device[i];
    CHECK(ordered);
    CHECK(covered);
    CHECK(fits(c, r->device));
    CHECK(r->lower_bound_ns <= r->objective_ns * (1 + 1e-12));
    CHECK(!c->options.max_stages || r->n_stages <= c->options.max_stages);
    double slowest = 0;
    for (int d = 0; d < p->n_devices; d++) slowest = fmax(slowest, device_price(c, r->device, d));
    CHECK_NEAR(r->objective_ns, slowest, 1e-9);
    check_loads(c, r);
}

static void test_mixed_equals_brute_force(void)
{
    int infeasible = 0;
    for (uint64_t seed = 0; seed < N_CASES; seed++) {
        random_case c;
        ft_partition_result r;
        ft_error err;
        make_case(&c, seed);
        double best = brute_force(&c);
        ft_status status = ft_partition_solve(&c.problem, &c.options, &r, &err);
        if (best == HUGE_VAL) {
            infeasible++;
            CHECK_STATUS(status, FT_INFEASIBLE);
        } else {
            CHECK_STATUS(status, FT_OK);
            CHECK_NEAR(r.objective_ns, best, 1e-9);
            CHECK(r.proved);
            check_result(&c, &r);
        }
        ft_partition_result_free(&r);
    }
    CHECK(infeasible > 0 && infeasible < N_CASES / 4);
}

/* The contiguous optimum: the best placement whose devices have one stage each. What is not proved
 * is not better. */
static void test_seq_equals_brute_force(void)
{
    int found = 0, proved = 0;
    for (uint64_t seed = 0; seed < N_CASES; seed++) {
        random_case c;
        ft_partition_result r;
        ft_error err;
        make_case(&c, seed);
        c.options.method = "seq";
        c.options.max_stages = 0;
        int device[MOST_NODES] = {0}, n = c.problem.n_nodes;
        double best = HUGE_VAL;
        for (;;) {
            double slowest = 0;
            unsigned used = 0;
            for (int i = 0; i < n; i++) used |= 1u << device[i];
            for (int d = 0; d < c.problem.n_devices; d++)
                slowest = fmax(slowest, device_price(&c, device, d));
            if (slowest < best && fits(&c, device) &&
                fewest_stages(&c, device, 0, __builtin_popcount(used)) <= __builtin_popcount(used))
                best = slowest;
            int i = 0;
            while (i < n && ++device[i] == c.problem.n_devices) device[i++] = 0;
            if (i == n) break;
        }
        ft_status status = ft_partition_solve(&c.problem, &c.options, &r, &err);
        CHECK_STATUS(status, best == HUGE_VAL ? FT_INFEASIBLE : FT_OK);
        if (status == FT_OK) {
            CHECK(r.objective_ns >= best - 1e-9);
            if (r.proved || c.sums) CHECK_NEAR(r.objective_ns, best, 1e-9);
            found++;
            proved += r.proved;
            check_result(&c, &r);
            ft_partition_result_free(&r);
            c.options.max_down_sets = 1; /* along some orders alone, which may not fit */
            if (seed % 8 == 0 && ft_partition_solve(&c.problem, &c.options, &r, &err) == FT_OK)
                CHECK(!r.proved && r.objective_ns >= best - 1e-9);
        }
        ft_partition_result_free(&r);
    }
    printf("seq: %d of %d proved\n", proved, found);
    CHECK(proved > found * 9 / 10);
}

static void test_greedy_is_contiguous_and_not_better(void)
{
    int found = 0;
    for (uint64_t seed = 0; seed < N_CASES; seed++) {
        random_case c;
        ft_partition_result r, mixed;
        ft_error err;
        make_case(&c, seed);
        c.options.method = "greedy";
        if (ft_partition_solve(&c.problem, &c.options, &r, &err) == FT_OK) {
            found++;
            check_result(&c, &r);
            c.options.method = "mixed";
            CHECK_STATUS(ft_partition_solve(&c.problem, &c.options, &mixed, &err), FT_OK);
            CHECK(mixed.objective_ns <= r.objective_ns * (1 + 1e-12));
            ft_partition_result_free(&mixed);
        }
        ft_partition_result_free(&r);
    }
    CHECK(found > N_CASES / 2);
}

/* A chain on three devices, one node each. Stage s of 3 keeps what its node saves for
 * min(in_flight, 3 - s) micro-batches, or for in_flight where the schedule is flat; a device fits
 * what is exactly as large as its memory. */
static void test_memory_in_flight(void)
{
    enum { N = 3 };
    static const double node_ns[N] = {5, 6, 7};
    static const int64_t fixed[N] = {100, 200, 300}, saved[N] = {7, 11, 13}, bytes[N] = {1, 1, 1};
    static const int from[] = {0, 1}, to[] = {1, 2}, device[N] = {0, 1, 2};
    ft_partition_device devices[N];
    ft_partition_problem p = {.n_nodes = N,
                              .n_kinds = 1,
                              .node_ns = node_ns,
                              .fixed_bytes = fixed,
                              .saved_bytes = saved,
                              .n_edges = 2,
                              .edge_from = from,
                              .edge_to = to,
                              .edge_bytes = bytes,
                              .n_devices = N,
                              .devices = devices};
    for (int in_flight = 1; in_flight <= 4; in_flight++)
        for (int flat = 0; flat < 2; flat++) {
            int64_t wanted[N];
            for (int s = 0; s < N; s++) {
                int kept = flat || in_flight < N - s ? in_flight : N - s;
                wanted[s] = fixed[s] + kept * saved[s];
                devices[s] = (ft_partition_device){.slowdown = 1};
            }
            p.in_flight = in_flight;
            p.flat = flat;
            for (int lacks = -1; lacks < N; lacks++) { /* a byte, on that device; others: nothing */
                ft_partition_result r = {0};
                ft_error err;
                for (int s = 0; s < N; s++)
                    devices[s].memory_bytes = lacks < 0    ? wanted[s]
                                              : lacks == s ? wanted[s] - 1
                                                           : 0;
                ft_status status = ft_partition_evaluate(&p, "sum", device, NULL, &r, &err);
                if (CHECK_STATUS(status, lacks < 0 ? FT_OK : FT_INFEASIBLE) && CHECK(r.loads))
                    for (int s = 0; s < N; s++) CHECK(r.loads[s].memory_bytes == wanted[s]);
                ft_partition_result_free(&r);
            }
        }
}

/* -- chains ------------------------------------------------------------------------------------ */

/* Nodes one after the other, with nothing between them. */
typedef struct chain {
    ft_partition_problem problem;
    double *ns;
    int *from, *to, *device;
    int64_t *bytes;
    ft_partition_device *devices;
} chain;

static bool chain_new(chain *c, int n, int n_devices)
{
    *c = (chain){.ns = ft_alloc(n * (int64_t)sizeof(double)),
                 .from = ft_alloc(3 * n * (int64_t)sizeof(int)),
                 .bytes = ft_alloc(n * (int64_t)sizeof(int64_t)),
                 .devices = ft_alloc(n_devices * (int64_t)sizeof *c->devices)};
    if (!CHECK(c->ns && c->from && c->bytes && c->devices)) return false;
    c->to = c->from + n;
    c->device = c->to + n;
    for (int i = 0; i < n; i++) {
        c->ns[i] = 1;
        c->from[i] = i;
        c->to[i] = i + 1;
    }
    for (int d = 0; d < n_devices; d++) c->devices[d] = (ft_partition_device){.slowdown = 1};
    c->problem = (ft_partition_problem){.n_nodes = n,
                                        .n_kinds = 1,
                                        .node_ns = c->ns,
                                        .n_edges = n - 1,
                                        .edge_from = c->from,
                                        .edge_to = c->to,
                                        .edge_bytes = c->bytes,
                                        .n_devices = n_devices,
                                        .devices = c->devices};
    return true;
}

static void chain_free(chain *c)
{
    ft_free(c->ns);
    ft_free(c->from);
    ft_free(c->bytes);
    ft_free(c->devices);
}

/* Of n devices, each of another speed, all 2^n combinations are tried, up to 2^16; of more only
 * those in the order given, where the best is not: devices that are slower later, and nodes that
 * are longer. Then nothing is proved of other orders. */
static void test_unequal_devices_prove_what_was_tried(void)
{
    for (int n = 8; n <= 17; n += 9) {
        static const ft_partition_options options = {.method = "seq"};
        ft_partition_result r = {0}, turned = {0};
        ft_error err;
        chain c;
        if (!chain_new(&c, n, n)) return;
        for (int i = 0; i < n; i++) {
            c.ns[i] = 100 * (i + 1);
            c.devices[i].slowdown = i + 1;
            c.device[i] = n - 1 - i;
        }
        CHECK_STATUS(ft_partition_solve(&c.problem, &options, &r, &err), FT_OK);
        CHECK_STATUS(ft_partition_evaluate(&c.problem, NULL, c.device, NULL, &turned, &err), FT_OK);
        if (n == 8) CHECK(r.proved && r.method_bound_ns == r.objective_ns);
        if (n == 17) CHECK(!r.proved && r.method_bound_ns == 0);
        CHECK(r.method_bound_ns <= turned.objective_ns);
        ft_partition_result_free(&r);
        ft_partition_result_free(&turned);
        chain_free(&c);
    }
}

static void *solve_chain(void *context)
{
    static const ft_partition_options options = {.method = "seq"};
    ft_partition_result r = {0};
    ft_error err;
    chain *c = context;
    CHECK_STATUS(ft_partition_solve(&c->problem, &options, &r, &err), FT_OK);
    CHECK(r.proved && r.objective_ns == c->problem.n_nodes);
    ft_partition_result_free(&r);
    return NULL;
}

/* A stage of many elements takes memory, and no more of a stack than a short one. */
static void test_long_chains_fit_small_stacks(void)
{
    enum { N = 6000, STACK_BYTES = 256 << 10 };
    pthread_attr_t small;
    pthread_t thread;
    chain c;
    if (!chain_new(&c, N, 1)) return;
    pthread_attr_init(&small);
    CHECK(pthread_attr_setstacksize(&small, STACK_BYTES) == 0);
    int failed = pthread_create(&thread, &small, solve_chain, &c);
    if (!failed) pthread_join(thread, NULL); /* which counts checks, too */
    CHECK(!failed);
    pthread_attr_destroy(&small);
    chain_free(&c);
}

/* 2^45 bytes for each of 2^18 micro-batches are 2^63: as a sum that wraps, less than nothing. */
static void test_more_in_flight_than_can_be_counted_is_refused(void)
{
    static const ft_partition_options options = {.method = "greedy"};
    static const int64_t saved[] = {(int64_t)1 << 45, (int64_t)1 << 45};
    chain c;
    if (!chain_new(&c, 2, 2)) return;
    c.problem.saved_bytes = saved;
    c.problem.flat = true;
    for (int d = 0; d < 2; d++) c.devices[d].memory_bytes = (int64_t)1 << 46;
    for (int shift = 0; shift <= 20; shift++) {
        ft_partition_result r = {0};
        ft_error err = {0};
        c.problem.in_flight = 1 << shift;
        ft_status status = ft_partition_solve(&c.problem, &options, &r, &err);
        CHECK_STATUS(status, shift <= 1 ? FT_OK : shift < 16 ? FT_INFEASIBLE : FT_INVALID);
        ft_partition_result_free(&r);
    }
    chain_free(&c);
}

/* One node a stage, one stage for each machine of two devices: pairs of them are one unit, or each
 * is twice on its machine. There are 2^39 ways to nest them in levels, and each part is priced
 * once.
 */
static void test_pipedream_prices_long_pipelines(void)
{
    enum { N = 40 };
    ft_partition_result r = {0};
    ft_error err;
    chain c;
    if (!chain_new(&c, N, 2 * N)) return;
    for (int d = 0; d < 2 * N; d++) c.devices[d].bytes_per_s = 1e9;
    for (int i = 0; i < N; i++) c.device[i] = 2 * i;
    c.problem.n_levels = 2;
    c.problem.level_devices[0] = 2;
    c.problem.level_devices[1] = N;
    c.problem.level_bytes_per_s[0] = c.problem.level_bytes_per_s[1] = 1e9;
    CHECK_STATUS(ft_partition_evaluate(&c.problem, "pipedream", c.device, NULL, &r, &err), FT_OK);
    CHECK(r.n_stages == N && r.objective_ns == 0.5);
    ft_partition_result_free(&r);
    chain_free(&c);
}

static void test_no_memory_leaves_nothing_behind(void)
{
    random_case c;
    ft_error err;
    make_case(&c, 5);
    int64_t live = ft_alloc_live();
    for (int64_t n = 1;; n++) {
        ft_partition_result r;
        static const char *const methods[] = {"mixed", "seq", "greedy"};
        c.options.method = methods[n % 3];
        ft_alloc_fail_after(n / 3 + 1);
        ft_status status = ft_partition_solve(&c.problem, &c.options, &r, &err);
        ft_alloc_fail_after(0);
        ft_partition_result_free(&r);
        CHECK(ft_alloc_live() == live);
        if (status == FT_OK || n > 2000) break;
        CHECK_STATUS(status, FT_NOMEM);
    }
}

int main(void)
{
    RUN(test_mixed_equals_brute_force);
    RUN(test_seq_equals_brute_force);
    RUN(test_greedy_is_contiguous_and_not_better);
    RUN(test_memory_in_flight);
    RUN(test_unequal_devices_prove_what_was_tried);
    RUN(test_long_chains_fit_small_stacks);
    RUN(test_more_in_flight_than_can_be_counted_is_refused);
    RUN(test_pipedream_prices_long_pipelines);
    RUN(test_no_memory_leaves_nothing_behind);
    return check_report();
}
