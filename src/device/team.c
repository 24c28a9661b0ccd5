/* device/team.c - threads that share the rows of one call.
 *
 * A run is two gates: the owner opens `start` once, every helper does its share and opens `done`.
 * Thread t of a team of T always gets the t-th contiguous piece of [0, n), so with n = T every
 * thread gets exactly one index. */
#include "device/device.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/gate.h"
#include "base/thread.h"

enum { CACHE_LINE = 64, MAX_TEAM = 1024 };

typedef struct helper {
    ft_team *team;
    int index; /* 1 to size - 1: the owner is 0 */
    pthread_t thread;
} helper;

struct ft_team {
    ft_gate start;
    ft_gate done;
    atomic_bool stop;
    int size;
    int n_started; /* helpers that have a thread */
    uint32_t round;
    int n;
    void (*work)(void *arg, int i);
    void *arg;
    void *block; /* what ft_alloc gave: the team is the first aligned address inside */
    helper helpers[];
};

static void do_share(const ft_team *team, int index)
{
    int base = team->n / team->size, extra = team->n % team->size;
    int first = base * index + (index < extra ? index : extra);
    int count = base + (index < extra ? 1 : 0);
    for (int i = first; i < first + count; i++) team->work(team->arg, i);
}

static void *helper_main(void *arg)
{
    const helper *self = arg;
    ft_team *team = self->team;
    for (uint32_t round = 1;; round++) {
        if (!ft_gate_wait(&team->start, round, &team->stop, -1)) return NULL;
        do_share(team, self->index);
        ft_gate_open(&team->done);
    }
}

static ft_status start_helpers(ft_team *team, ft_error *err)
{
    for (int i = 1; i < team->size; i++) {
        helper *h = &team->helpers[i - 1];
        *h = (helper){.team = team, .index = i};
        ft_status status = ft_thread_start(&h->thread, helper_main, h, err);
        if (status != FT_OK) {
            ft_error_wrap(err, "thread %d of a team of %d", i + 1, team->size);
            return status;
        }
        team->n_started++;
    }
    return FT_OK;
}

ft_status ft_team_new(ft_team **out, int n_threads, ft_error *err)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_TEAM)
        return ft_fail(err, FT_INVALID, "a team has 1 to %d threads, not %d", MAX_TEAM, n_threads);
    int64_t bytes = (int64_t)sizeof(ft_team) + (n_threads - 1) * (int64_t)sizeof(helper);
    char *block = ft_alloc(bytes + CACHE_LINE);
    if (!block) return ft_fail(err, FT_NOMEM, "no memory for a team of %d threads", n_threads);
    ft_team *team = (void *)(block + CACHE_LINE - (uintptr_t)block % CACHE_LINE);
    team->block = block;
    team->size = n_threads;
    ft_status status = start_helpers(team, err);
    if (status == FT_OK)
        *out = team;
    else
        ft_team_free(team);
    return status;
}

void ft_team_free(ft_team *team)
{
    if (!team) return;
    atomic_store(&team->stop, true);
    ft_gate_wake(&team->start);
    for (int i = 0; i < team->n_started; i++) pthread_join(team->helpers[i].thread, NULL);
    ft_free(team->block);
}

int ft_team_size(const ft_team *team)
{
    return team ? team->size : 1;
}

void ft_team_run(ft_team *team, int n, void (*work)(void *arg, int i), void *arg)
{
    if (!team || team->size == 1 || n <= 1) {
        for (int i = 0; i < n; i++) work(arg, i);
        return;
    }
    team->work = work;
    team->arg = arg;
    team->n = n;
    team->round++;
    ft_gate_open(&team->start);
    do_share(team, 0);
    ft_gate_wait(&team->done, team->round * (uint32_t)(team->size - 1), NULL, -1);
}
