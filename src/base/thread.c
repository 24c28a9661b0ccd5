/* base/thread.c - threads that take no signals. */
#include "base/thread.h"

#include <string.h>

#include "base/alloc.h"

/* Whether this thread takes no signals now: for good when it was started here. */
static _Thread_local bool blocked;

typedef struct birth {
    void *(*main)(void *arg);
    void *arg;
} birth;

static void *begin(void *arg)
{
    birth b = *(const birth *)arg;
    ft_free(arg);
    blocked = true;
    return b.main(b.arg);
}

/* All but what a thread raises by a fault of its own: blocked, that would end the process before
 * a sanitizer or a debugger has seen it. */
static void fill(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigfillset(set);
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(set, faults[i]);
}

ft_status ft_thread_start(pthread_t *out, void *(*main)(void *arg), void *arg, ft_error *err)
{
    birth *b = ft_alloc(sizeof *b);
    if (!b) return ft_fail(err, FT_NOMEM, "no memory for a thread");
    *b = (birth){main, arg};
    sigset_t all, before;
    fill(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, NULL, begin, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc) return FT_OK;
    char reason[128];
    ft_free(b);
    return ft_fail(err, FT_DEVICE, "cannot start a thread: %s",
                   strerror_r(rc, reason, sizeof reason));
}

void ft_signals_hold(ft_signals *signals)
{
    signals->outermost = !blocked;
    if (blocked) return;
    sigset_t all;
    fill(&all);
    pthread_sigmask(SIG_BLOCK, &all, &signals->before);
    blocked = true;
}

void ft_signals_release(const ft_signals *signals)
{
    if (!signals->outermost) return;
    blocked = false;
    pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
}
