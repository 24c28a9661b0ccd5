/* profile/rates.c - what this machine's memory and threads do in a second. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/gate.h"
#include "base/thread.h"
#include "profile/internal.h"

static double best_of(double a, double b)
{
    return a > b ? a : b;
}

/* -- hand-offs --------------------------------------------------------------------------------- */

enum { EXCHANGES = 400 };

typedef struct table_tennis {
    ft_gate there, back;
} table_tennis;

static void *answer(void *arg)
{
    table_tennis *t = arg;
    for (uint32_t i = 1; i <= EXCHANGES; i++) {
        ft_gate_wait(&t->there, i, NULL, -1);
        ft_gate_open(&t->back);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The quickest twentieth: exchanges in which nobody else had one of the two cores. */
double crew_handoff_ns(void)
{
    table_tennis t = {0};
    pthread_t other;
    int64_t passed[EXCHANGES];
    if (ft_thread_start(&other, answer, &t, NULL) != FT_OK) return 0;
    for (uint32_t i = 1; i <= EXCHANGES; i++) {
        int64_t start = ft_now_ns();
        ft_gate_open(&t.there);
        ft_gate_wait(&t.back, i, NULL, -1);
        passed[i - 1] = ft_now_ns() - start;
    }
    pthread_join(other, NULL);
    qsort(passed, EXCHANGES, sizeof *passed, compare);
    return (double)passed[EXCHANGES / 20] / 2;
}

/* -- copies ------------------------------------------------------------------------------------ */

double crew_copy_rate(void)
{
    enum { BYTES = 256 << 10, SLOTS = 64, ROUNDS = 3 };
    char *from = ft_pages_alloc((int64_t)BYTES * SLOTS), *to = ft_pages_alloc(BYTES);
    double best = 0;
    for (int round = 0; from && to && round < ROUNDS; round++) {
        int64_t start = ft_now_ns();
        for (int i = 0; i < SLOTS; i++) memcpy(to, from + (int64_t)i * BYTES, BYTES);
        best = best_of(best, 1e9 * BYTES * SLOTS / (double)(ft_now_ns() - start));
    }
    ft_pages_free(from, (int64_t)BYTES * SLOTS);
    ft_pages_free(to, BYTES);
    return best;
}

/* -- rates of a device ------------------------------------------------------------------------- */

/* One worker: products over and over, then additions of arrays that no cache holds. */
enum { ROWS = 256, COLUMNS = 768, LENGTH = 8 << 20 };

typedef struct runner {
    const ft_device *device;
    double flops_per_s, bytes_per_s;
    ft_error error;
} runner;

static ft_status run_row(const char *name, const ft_spec *specs, int n_in, void *const *data,
                         ft_team *team, double *seconds, ft_error *err)
{
    enum { TIMES = 5 };
    const ft_op *op = ft_op_find(name);
    ft_view in[FT_MAX_IN] = {{0}}, out;
    ft_spec made[FT_MAX_OUT], given[FT_MAX_IN];
    double attrs[FT_MAX_ATTRS];
    for (int i = 0; i < FT_MAX_IN; i++) {
        given[i] = (ft_spec){.shape = {.n_dims = -1}};
        if (i < n_in) given[i] = specs[i];
        in[i] = i < n_in ? ft_view_of(&specs[i], data[i]) : (ft_view){.shape = {.n_dims = -1}};
    }
    FT_TRY(ft_op_attrs(op, NULL, NULL, 0, attrs, err));
    FT_TRY(ft_op_shape(op, given, n_in, attrs, made, err));
    out = ft_view_of(&made[0], data[n_in]);
    int64_t bytes = op->workspace ? op->workspace(given, attrs, ft_team_size(team)) : 0;
    void *space = ft_pages_alloc(bytes + 1);
    if (!space) return ft_fail(err, FT_NOMEM, "profile: no memory for %s", name);
    ft_call call = {.in = in, .out = &out, .attrs = attrs, .work = space, .team = team};
    ft_status status = FT_OK;
    *seconds = 0;
    for (int i = 0; i <= TIMES && status == FT_OK; i++) {
        int64_t start = ft_now_ns();
        status = op->kernel(&call, err);
        double passed = (double)(ft_now_ns() - start) * 1e-9;
        if (i == 1 || (i > 1 && passed < *seconds)) *seconds = passed;
    }
    ft_pages_free(space, bytes + 1);
    return status;
}

static ft_status run_rates(runner *r, ft_team *team, float *memory, ft_error *err)
{
    const ft_spec x = {FT_F32, {2, {ROWS, COLUMNS}}}, w = {FT_F32, {2, {COLUMNS, COLUMNS}}};
    const ft_spec line = {FT_F32, {1, {LENGTH}}};
    double seconds;
    void *product[] = {memory, memory + ROWS * COLUMNS, memory + LENGTH};
    FT_TRY(run_row("linear", (const ft_spec[]){x, w}, 2, product, team, &seconds, err));
    r->flops_per_s = 2.0 * ROWS * COLUMNS * COLUMNS / seconds;
    void *sum[] = {memory, memory + LENGTH, memory + 2 * LENGTH};
    FT_TRY(run_row("add", (const ft_spec[]){line, line}, 2, sum, team, &seconds, err));
    r->bytes_per_s = 3.0 * LENGTH * sizeof(float) / seconds;
    return FT_OK;
}

static void *run(void *arg)
{
    runner *r = arg;
    ft_team *team = NULL;
    int64_t bytes = 3 * (int64_t)LENGTH * (int64_t)sizeof(float);
    float *memory = ft_pages_alloc(bytes);
    if (!memory)
        ft_fail(&r->error, FT_NOMEM, "profile: no memory for %.1f MB", (double)bytes / 1e6);
    else if (ft_team_new(&team, r->device->n_threads, &r->error) == FT_OK)
        run_rates(r, team, memory, &r->error);
    ft_team_free(team);
    ft_pages_free(memory, bytes);
    return NULL;
}

ft_status ft_profile_rates(ft_device *device, int n_busy, ft_error *err)
{
    if (!ft_device_kinds[device->kind].in_host || n_busy < 1)
        return ft_fail(err, FT_INVALID, "profile: device %s cannot be measured, only cpu:N can",
                       device->name);
    runner *runners = ft_alloc(n_busy * (int64_t)sizeof *runners);
    pthread_t *threads = ft_alloc(n_busy * (int64_t)sizeof *threads);
    ft_status status = runners && threads ? FT_OK : ft_fail(err, FT_NOMEM, "profile: no memory");
    int started = 1;
    for (int i = 0; status == FT_OK && i < n_busy; i++) runners[i].device = device;
    while (status == FT_OK && started < n_busy &&
           ft_thread_start(&threads[started], run, &runners[started], NULL) == FT_OK)
        started++;
    if (status == FT_OK) {
        run(&runners[0]);
        for (int i = 1; i < started; i++) pthread_join(threads[i], NULL);
        status = runners[0].error.status;
        if (status != FT_OK && err) *err = runners[0].error;
    }
    if (status == FT_OK) {
        device->flops_per_s = runners[0].flops_per_s;
        device->bytes_per_s = runners[0].bytes_per_s;
        device->link_bytes_per_s = crew_copy_rate();
        device->link_latency_ns = (int64_t)crew_handoff_ns();
    }
    ft_free(runners);
    ft_free(threads);
    return status;
}
