/* schedule/machine.h - ways over the links of an ft_machine; inside this room only. */
#ifndef FT_SCHEDULE_MACHINE_H
#define FT_SCHEDULE_MACHINE_H

#include "schedule/internal.h"

enum { MACHINE_MAX_NS = 1000000000 }; /* of a latency, a launch, a hand-off: a second */

/* The way from a place to another. */
typedef struct way {
    int n;         /* lanes; -1: there is no way */
    int *lanes;    /* 2 * link, and one more the other way round where the link is duplex */
    int narrowest; /* link */
    double ns_per_byte;
    int64_t latency_ns;
} way;

typedef struct roads {
    const ft_machine *machine;
    way *ways;           /* by place and place */
    double *ns_per_byte; /* by link */
    int64_t *free_ns;    /* by lane: until when it is taken */
    int64_t *taken_ns;   /* by lane: how long it was, in all */
} roads;

/* FT_INVALID when the machine is not one, or has other devices than n_devices. */
ft_status machine_new(roads *out, ft_arena *arena, const ft_machine *m, int n_devices,
                      ft_error *err);
const way *machine_way(const roads *m, int from, int to);

/* Takes the way for `bytes` as soon as it is free; returns when they are there. */
int64_t machine_pass(roads *m, const way *w, int64_t now, int64_t bytes, int64_t *start);
/* Sums `bytes` over devices, as a ring; returns when every one has the sum. */
int64_t machine_reduce(roads *m, const int *devices, int n, int64_t now, int64_t bytes,
                       int64_t *start);

#endif
