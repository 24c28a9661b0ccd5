/* base/thread.h - threads that take no signals.
 *
 * Signals belong to the thread that the program began with. Every other one is started here and
 * has them blocked from its birth. */
#ifndef FT_BASE_THREAD_H
#define FT_BASE_THREAD_H

#include <pthread.h>

#include "base/error.h"

/* Starts a thread that runs main(arg), for pthread_join; FT_DEVICE when there are too many. Faults
 * of the thread itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL) are not blocked. */
ft_status ft_thread_start(pthread_t *out, void *(*main)(void *arg), void *arg, ft_error *err);

#endif
