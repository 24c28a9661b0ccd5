/* plan/shares.c - which replica of a stage works on which micro-batch.
 *
 * One row per rule. Micro-batches of a batch are a multiple of the replicas, so every replica has
 * as many of each batch, and a replica's own count follows from the number in the leg. Source of
 * the first rule: Narayanan et al., "PipeDream", SOSP 2019, section 3.2 (1F1B-RR). */
#include <string.h>

#include "plan/wires.h"

typedef struct rule_row {
    const char *name;
    bool deals; /* one to each in turn; else as many to one as it gets, then to the next */
} rule_row;

static const rule_row rules[FT_REPLICAS_COUNT] = {
    [FT_REPLICAS_ROUND_ROBIN] = {"round-robin", true},
    [FT_REPLICAS_BLOCK] = {"block", false},
};

const char *ft_replica_rule_name(int rule)
{
    return rules[rule].name;
}

int ft_share_replica(const ft_stage_share *s, int64_t index)
{
    if (s->n == 1) return 0;
    int64_t m = index % s->micros;
    return (int)(rules[s->rule].deals ? m % s->n : m / s->per_batch);
}

int64_t ft_share_local(const ft_stage_share *s, int64_t index)
{
    if (s->n == 1) return index;
    int64_t m = index % s->micros;
    int64_t k = rules[s->rule].deals ? m / s->n : m % s->per_batch;
    return index / s->micros * s->per_batch + k;
}

int64_t ft_share_index(const ft_stage_share *s, int replica, int64_t local)
{
    if (s->n == 1) return local;
    int64_t k = local % s->per_batch;
    int64_t m = rules[s->rule].deals ? k * s->n + replica : replica * s->per_batch + k;
    return local / s->per_batch * s->micros + m;
}

int ft_share_joint(const ft_stage_share *s, int64_t index)
{
    if (s->joint == 1) return 1;
    return ft_share_local(s, index) % s->joint ? 0 : s->joint;
}

bool ft_edge_stays(const ft_plan *plan, const ft_edge *edge)
{
    int from = plan->replica_first[edge->from], to = plan->replica_first[edge->to];
    int n = plan->replica_first[edge->to + 1] - to;
    if (!ft_action_per_micro(edge->from_kind) || plan->replica_first[edge->from + 1] - from != n ||
        (n > 1 && plan->replica_rule[edge->from] != plan->replica_rule[edge->to]))
        return false;
    for (int i = 0; i < n; i++)
        if (plan->replica_device[from + i] != plan->replica_device[to + i]) return false;
    return true;
}

bool ft_seats_together(const ft_seating *all, int a, int b)
{
    const ft_stage_share *x = &all->of[a], *y = &all->of[b];
    const int *device = all->seat_device;
    return x->n == y->n &&
           !memcmp(device + x->first, device + y->first, (size_t)x->n * sizeof *device);
}

int ft_seat_of(const ft_seating *all, int stage, int device)
{
    const ft_stage_share *s = &all->of[stage];
    for (int seat = s->first; seat < s->first + s->n; seat++)
        if (all->seat_device[seat] == device) return seat;
    return -1;
}

static ft_status check_share(const ft_seating *all, int stage, int n_devices, ft_error *err)
{
    const ft_stage_share *s = &all->of[stage];
    for (int i = 0; i < s->n; i++) {
        int device = all->seat_device[s->first + i];
        if (device < 0 || device >= n_devices)
            return ft_fail(err, FT_INVALID, "plan: stage %d is on device %d of %d", stage, device,
                           n_devices);
        if (ft_seat_of(all, stage, device) != s->first + i)
            return ft_fail(err, FT_INVALID, "plan: stage %d has two replicas on device %d", stage,
                           device);
    }
    if (s->micros % s->n)
        return ft_fail(
            err, FT_INVALID,
            "plan: %lld micro-batches cannot be dealt to the %d replicas of stage %d alike: "
            "expected a multiple of %d",
            (long long)s->micros, s->n, stage, s->n);
    if (s->joint < 1 || s->per_batch % s->joint)
        return ft_fail(err, FT_INVALID,
                       "plan: joint forwards of %d micro-batches in stage %d, which has %d in a "
                       "batch: expected a divisor of that",
                       s->joint, stage, s->per_batch);
    if (s->joint == 1 || s->n == 1 || !rules[s->rule].deals) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "plan: joint forwards in stage %d, whose replicas take turns: expected "
                   "'replicas %s'",
                   stage, rules[FT_REPLICAS_BLOCK].name);
}

ft_status ft_seating_new(ft_seating *out, ft_arena *arena, const ft_seat_request *q, ft_error *err)
{
    int n_seats = q->replica_first ? q->replica_first[q->n_stages] : q->n_stages;
    ft_stage_share *list = ft_arena_array(arena, q->n_stages, sizeof *list);
    int *seats = ft_arena_array(arena, 2 * (int64_t)n_seats, sizeof *seats);
    if (!list || !seats)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", q->n_stages);
    *out =
        (ft_seating){.n_stages = q->n_stages, .n_seats = n_seats, .of = list, .seat_device = seats};
    out->seat_stage = seats + n_seats;
    for (int s = 0; s < q->n_stages; s++) {
        int first = q->replica_first ? q->replica_first[s] : s;
        int n = q->replica_first ? q->replica_first[s + 1] - first : 1;
        list[s] = (ft_stage_share){.first = first, .n = n, .micros = q->micro_batches};
        list[s].rule = q->replica_rule ? q->replica_rule[s] : 0;
        list[s].per_batch = q->micro_batches / n;
        list[s].joint = q->joint ? q->joint[s] : 1;
        for (int i = 0; i < n; i++) {
            seats[first + i] = q->replica_first ? q->replica_device[first + i] : q->device[s];
            seats[n_seats + first + i] = s;
        }
        out->several = out->several || n > 1;
        FT_TRY(check_share(out, s, q->n_devices, err));
    }
    return FT_OK;
}

ft_status ft_seating_of_plan(ft_seating *out, ft_arena *arena, const ft_plan *p, ft_error *err)
{
    const ft_seat_request q = {.n_stages = p->n_stages,
                               .n_devices = p->n_devices,
                               .micro_batches = p->micro_batches,
                               .device = p->device,
                               .replica_first = p->replica_first,
                               .replica_device = p->replica_device,
                               .replica_rule = p->replica_rule,
                               .joint = p->joint};
    return ft_seating_new(out, arena, &q, err);
}

/* -- actions of seats -------------------------------------------------------------------------- */

ft_action ft_seated(const ft_seating *all, int device, ft_action a)
{
    const ft_stage_share *s = &all->of[a.stage];
    a.seat = (int16_t)(s->n > 1 ? ft_seat_of(all, a.stage, device) : s->first);
    return a;
}

static const ft_stage_share *share_of(const ft_seating *all, int seat)
{
    return &all->of[all->seat_stage[seat]];
}

/* In the leg, of all replicas. */
static int64_t leg_index(const ft_stage_share *s, const ft_action *a)
{
    return (int64_t)a->batch * s->micros + a->micro;
}

int64_t ft_seat_index(const ft_seating *all, const ft_action *a)
{
    const ft_stage_share *s = share_of(all, a->seat);
    return ft_action_per_micro(a->kind) ? ft_share_local(s, leg_index(s, a)) : a->batch;
}

bool ft_seat_is_first(const ft_seating *all, const ft_action *a)
{
    return ft_seat_index(all, a) % share_of(all, a->seat)->per_batch == 0;
}

bool ft_seat_is_last(const ft_seating *all, const ft_action *a)
{
    int n = share_of(all, a->seat)->per_batch;
    return ft_seat_index(all, a) % n == n - 1;
}

bool ft_seat_has(const ft_seating *all, int seat, const ft_action *a)
{
    const ft_stage_share *s = share_of(all, seat);
    if (s->n == 1 || !ft_action_per_micro(a->kind)) return true;
    return ft_share_replica(s, leg_index(s, a)) == seat - s->first;
}
