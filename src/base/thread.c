/* base/thread.c - threads that take no signals. */
#include "base/thread.h"

#include <signal.h>
#include <string.h>

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
    sigset_t all, before;
    fill(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc) return FT_OK;
    char reason[128];
    return ft_fail(err, FT_DEVICE, "cannot start a thread: %s",
                   strerror_r(rc, reason, sizeof reason));
}
