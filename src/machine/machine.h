/* machine/machine.h - devices, hosts and switches, and the way that data takes between them.
 *
 * Pure: a machine is described; ways over it are computed, and who has to wait on them. */
#ifndef FT_MACHINE_H
#define FT_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

/* A cable between two places. What passes in one direction waits for what asked before; with
 * `duplex` the two directions do not wait for each other. */
typedef struct ft_cable {
    int a, b; /* places */
    double bytes_per_s;
    int64_t latency_ns;
    int64_t eager_bytes; /* a larger message is announced and asked for first, which takes two
                            latencies more; 0: none is */
    bool duplex;
    bool one_way; /* from a to b alone */
} ft_cable;

/* What a plan runs on. Places are devices, 0 to n_devices - 1, and others behind them: hosts and
 * switches. Data takes the way over the fewest links (then over those with the lowest numbers) that
 * passes through no other device. It needs as long as the narrowest of them, and the sum of their
 * latencies; each is taken for as long as it needs itself, so that a fast one has room for others
 * meanwhile. What a host lets through in all is a link from one place, where the links of its
 * devices end, to another, where they begin: one way each. */
typedef struct ft_machine {
    int n_devices, n_places;
    int n_links;
    const ft_cable *links;
    const int *home; /* by device: the place whose memory it swaps to; NULL: no swaps */
    const double *copy_bytes_per_s; /* by device: what an edge carries is copied at both ends by the
                                    compute stream; 0 or NULL: for nothing */
    const int64_t *launch_ns;       /* by device, of an action; may be NULL */
    int64_t hand_off_ns; /* from the end of an action to the begin of one that waits for it
                            on another device */
} ft_machine;

enum { FT_MACHINE_MAX_NS = 1000000000 }; /* of a latency, a launch, a hand-off: a second */

/* What transfers of so many bytes take while nothing else is under way: from device i to j, at
 * i * n_devices + j, latency_ns and for every byte ns_per_byte more. FT_INVALID where there is no
 * way. */
ft_status ft_machine_idle(const ft_machine *machine, int64_t bytes, double *latency_ns,
                          double *ns_per_byte, ft_error *err);

/* The way from a place to another. */
typedef struct ft_way {
    int n;         /* lanes; -1: there is no way */
    int *lanes;    /* 2 * link, and one more the other way round where the link is duplex */
    int narrowest; /* link */
    double ns_per_byte;
    int64_t latency_ns;
    bool asks; /* some link of it has eager_bytes */
} ft_way;

/* The ways from one place. */
typedef struct ft_exits {
    int *came_by;  /* by place: the link by which the search came there, -1: it did not */
    ft_way **ways; /* by place; NULL: nobody has asked for it */
} ft_exits;

typedef struct ft_roads {
    const ft_machine *machine;
    ft_arena *arena;
    int *first, *list;   /* of all links, those of place i: list[first[i] .. first[i + 1]) */
    int *queue;          /* room for a search */
    ft_exits *exits;     /* by place, of those that somebody has asked for a way from */
    double *ns_per_byte; /* by link */
    double *ring_ns;     /* by lane: what a byte on every way of a ring takes; zeros in between */
    int64_t *free_ns;    /* by lane: until when it is taken */
    int64_t *taken_ns;   /* by lane: how long it was, in all */
} ft_roads;

/* FT_INVALID when the machine is not one, or has other devices than n_devices. */
ft_status ft_roads_new(ft_roads *out, ft_arena *arena, const ft_machine *m, int n_devices,
                       ft_error *err);
/* FT_INVALID where there is no way between two devices. */
ft_status ft_roads_join_all(ft_roads *m, ft_error *err);
/* Found when it is first asked for; NULL: no memory for that. */
const ft_way *ft_roads_way(ft_roads *m, int from, int to);
/* The latency of a message of so many bytes. */
int64_t ft_roads_latency_ns(const ft_roads *m, const ft_way *w, int64_t bytes);

/* Takes the way for `bytes` as soon as it is free; returns when they are there. */
int64_t ft_roads_pass(ft_roads *m, const ft_way *w, int64_t now, int64_t bytes, int64_t *start);
/* Sums `bytes` over devices, as a ring whose ways were asked for; returns when every one has the
 * sum. */
int64_t ft_roads_reduce(ft_roads *m, const int *devices, int n, int64_t now, int64_t bytes,
                        int64_t *start);

#endif
