/* base/gate.c - spin, then futex. */
#include "base/gate.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { SPIN_NS = 60000, NAP_NS = 50000000 };

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool reached(const ft_gate *gate, uint32_t target)
{
    return (int32_t)(atomic_load_explicit(&gate->count, memory_order_acquire) - target) >= 0;
}

static void nap(ft_gate *gate, uint32_t seen, int64_t nap_ns)
{
    struct timespec t = {.tv_sec = 0, .tv_nsec = (long)nap_ns};
    atomic_fetch_add(&gate->sleepers, 1);
    syscall(SYS_futex, &gate->count, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
    atomic_fetch_sub(&gate->sleepers, 1);
}

bool ft_gate_wait(ft_gate *gate, uint32_t target, const atomic_bool *stop, int64_t timeout_ns)
{
    if (reached(gate, target)) return true;
    int64_t start = ft_now_ns();
    for (;;) {
        uint32_t seen = atomic_load_explicit(&gate->count, memory_order_acquire);
        if ((int32_t)(seen - target) >= 0) return true;
        if (stop && atomic_load_explicit(stop, memory_order_acquire)) return false;
        int64_t waited = ft_now_ns() - start;
        if (timeout_ns >= 0 && waited >= timeout_ns) return false;
        if (waited < SPIN_NS) {
            pause_cpu();
            continue;
        }
        int64_t left = timeout_ns < 0 ? NAP_NS : timeout_ns - waited;
        nap(gate, seen, left < NAP_NS ? left : NAP_NS);
    }
}

bool ft_gate_nap(ft_gate *gate, uint32_t target, int64_t ns)
{
    uint32_t seen = atomic_load_explicit(&gate->count, memory_order_acquire);
    if ((int32_t)(seen - target) < 0) nap(gate, seen, ns);
    return reached(gate, target);
}

void ft_gate_wake(ft_gate *gate)
{
    syscall(SYS_futex, &gate->count, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void ft_gate_open(ft_gate *gate)
{
    ft_gate_open_by(gate, 1);
}

void ft_gate_open_by(ft_gate *gate, uint32_t n)
{
    atomic_fetch_add(&gate->count, n); /* sequentially consistent, paired with `sleepers` in nap */
    if (atomic_load(&gate->sleepers)) ft_gate_wake(gate);
}

uint32_t ft_gate_count(const ft_gate *gate)
{
    return atomic_load_explicit(&gate->count, memory_order_acquire);
}
