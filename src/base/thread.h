/* base/thread.h - threads that take no signals.
 *
 * Signals belong to the thread that the program began with. Every other one is started here and
 * has them blocked from its birth; code that no handler may interrupt is held apart there too. */
#ifndef FT_BASE_THREAD_H
#define FT_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "base/error.h"

/* Starts a thread that runs main(arg), for pthread_join; FT_NOMEM, or FT_DEVICE when there are too
 * many. Faults of the thread itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL) are not blocked. */
ft_status ft_thread_start(pthread_t *out, void *(*main)(void *arg), void *arg, ft_error *err);

/* Signals that are held back for a while. */
typedef struct ft_signals {
    sigset_t before;
    bool outermost;
} ft_signals;

/* Between the two no handler runs on the calling thread; a signal that came meanwhile is taken at
 * the release. A system call each, some 100 ns; inside of another hold, and on a thread of
 * ft_thread_start, a read of a flag. */
void ft_signals_hold(ft_signals *signals);
void ft_signals_release(const ft_signals *signals);

#endif
