/* base/gate.h - a counter that threads wait on.
 *
 * Waiting spins for some tens of microseconds, since a hand-off between busy workers takes less
 * than one, and then sleeps in the kernel (futex). */
#ifndef FT_BASE_GATE_H
#define FT_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ft_gate {
    _Atomic uint32_t count; /* only grows, modulo 2^32 */
    _Atomic uint32_t sleepers;
    char apart[56]; /* gates next to each other do not share a cache line */
} ft_gate;

/* Adds one and wakes every waiter. Writes before it are seen by who waits for it. */
void ft_gate_open(ft_gate *gate);
/* Adds n, less than 2^31. */
void ft_gate_open_by(ft_gate *gate, uint32_t n);

/* Waits until count has reached `target` (modulo 2^32), or *stop is set, or `timeout_ns` passed
 * (negative: no limit). Returns whether the target was reached. stop may be NULL; who sets it calls
 * ft_gate_wake on every gate that may be waited on. */
bool ft_gate_wait(ft_gate *gate, uint32_t target, const atomic_bool *stop, int64_t timeout_ns);

/* Sleeps, without spinning, until the gate is opened, or woken, or for `ns`; not at all when the
 * count has reached `target`, which is given back. */
bool ft_gate_nap(ft_gate *gate, uint32_t target, int64_t ns);

/* Wakes the waiters without counting, so that they look at `stop` again. */
void ft_gate_wake(ft_gate *gate);

/* The present count. */
uint32_t ft_gate_count(const ft_gate *gate);

#endif
