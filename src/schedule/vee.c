/* schedule/vee.c - two stages on each device, down the devices and up again (ZB-V).
 *
 * Of 2P stages device d has d and 2P - 1 - d: the first and the last stage are neighbours of the
 * loss and of the input on one device, and every device holds as much. Backwards come in halves. A
 * device takes what is ready in this order: the gradient of the input in its first stage, a forward
 * in its second, the gradient of the input there, a forward in its first, and where there is none
 * of these, gradients of weights. It holds at most 2P forwards of half a stage each, as many as
 * 1F1B holds of whole ones. With halves of a backward that take as long as a forward, devices then
 * wait for the first micro-batch to come down and for nothing else; the order is that of such
 * times, whatever the real ones are. With replicas there are P groups of devices, and every lane of
 * these works as P devices do. Source: Qi, Wan, Huang, Lin: "Zero Bubble Pipeline
 * Parallelism", ICLR 2024, section 6. */
#include "schedule/internal.h"

/* A batch as it is played: times are those of one action. */
typedef struct vee {
    const leg *leg;
    int n_devices, n_stages;      /* of a lane */
    int64_t micros, now;          /* of a batch, in a lane */
    int64_t *done[FT_ACT_COUNT];  /* by stage, of F, I and G: begun so far */
    int64_t *ended[FT_ACT_COUNT]; /* the same, of those that have ended */
    int64_t *held;                /* by device */
    ft_action **lists;            /* by device: one batch */
    int64_t *n;
} vee;

static const ft_action_kind kinds[] = {FT_ACT_FORWARD, FT_ACT_BACKWARD_INPUT,
                                       FT_ACT_BACKWARD_WEIGHT};
enum { KINDS = sizeof kinds / sizeof *kinds, STEPS = 4 };

/* The device of a lane that has the stage. */
static int device_of(const vee *v, int stage)
{
    return stage < v->n_devices ? stage : v->n_stages - 1 - stage;
}

static ft_status check_pipeline(const vee *v, ft_error *err)
{
    const leg *l = v->leg;
    const char *place = l->shares.several ? "group" : "device";
    if (v->n_stages != 2 * v->n_devices)
        return ft_fail(
            err, FT_INVALID, "schedule %s: %d stages on %d %ss: expected two for each %s, %d",
            l->schedule->name, v->n_stages, v->n_devices, place, place, 2 * v->n_devices);
    for (int s = 0; s < v->n_stages; s++)
        for (int lane = 0; lane < l->shares.of[s].n; lane++) {
            int device = leg_lane_device(l, s, lane), wanted = device_of(v, s);
            if (l->shares.several) wanted = leg_lane_device(l, wanted, lane);
            if (device != wanted)
                return ft_fail(err, FT_INVALID,
                               "schedule %s: stage %d is on device %d, expected device %d: stages "
                               "go down the devices and up again, as a partition in the order of "
                               "the model has them",
                               l->schedule->name, s, device, wanted);
        }
    return FT_OK;
}

/* Whether what the action reads of other stages is there. */
static bool arrived(const vee *v, int stage, ft_action_kind kind)
{
    const ft_wires *w = v->leg->wires;
    int spot = ft_spot_of(stage, kind);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) {
        const ft_edge *edge = &w->edges[w->in[i]];
        if (v->ended[edge->from_kind][edge->from] <= v->done[kind][stage]) return false;
    }
    return true;
}

static bool is_ready(const vee *v, int stage, ft_action_kind kind)
{
    int64_t next = v->done[kind][stage];
    int device = device_of(v, stage);
    if (next == v->micros) return false;
    switch (kind) {
    case FT_ACT_FORWARD:
        if (v->held[device] >= v->n_stages) return false;
        /* the first stage leaves room for what it has begun to come back up */
        if (stage < v->n_devices &&
            next - v->done[FT_ACT_BACKWARD_WEIGHT][stage] >= v->n_stages - 1 - stage)
            return false;
        return arrived(v, stage, kind);
    case FT_ACT_BACKWARD_INPUT:
        return v->ended[FT_ACT_FORWARD][stage] > next && arrived(v, stage, kind);
    default: return v->ended[FT_ACT_BACKWARD_INPUT][stage] > next;
    }
}

/* The device's next action, if one is ready now. */
static bool choose(const vee *v, int device, ft_action *out)
{
    const struct {
        ft_action_kind kind;
        bool second;
    } order[] = {{FT_ACT_BACKWARD_INPUT, false},  {FT_ACT_FORWARD, true},
                 {FT_ACT_BACKWARD_INPUT, true},   {FT_ACT_FORWARD, false},
                 {FT_ACT_BACKWARD_WEIGHT, false}, {FT_ACT_BACKWARD_WEIGHT, true}};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int stage = order[i].second ? v->n_stages - 1 - device : device;
        if (!is_ready(v, stage, order[i].kind)) continue;
        *out = (ft_action){.kind = (uint8_t)order[i].kind,
                           .stage = (int16_t)stage,
                           .micro = (int32_t)v->done[order[i].kind][stage]};
        return true;
    }
    return false;
}

static void begin(vee *v, int device, const ft_action *a)
{
    v->lists[device][v->n[device]++] = *a;
    int64_t held = ++v->done[a->kind][a->stage] - v->done[FT_ACT_BACKWARD_WEIGHT][a->stage];
    v->held[device] += a->kind == FT_ACT_FORWARD;
    v->held[device] -= a->kind == FT_ACT_BACKWARD_WEIGHT;
    const ft_stage_share *share = &v->leg->shares.of[a->stage];
    for (int lane = 0; a->kind == FT_ACT_FORWARD && lane < share->n; lane++) {
        stage_order *order = &v->leg->orders[share->first + lane];
        if (held > order->in_flight) order->in_flight = (int)held;
    }
}

/* One batch; false when it comes to a stop. */
static bool play_batch(vee *v)
{
    int64_t left = KINDS * v->micros * v->n_stages;
    while (left) {
        int64_t before = left;
        for (int k = 0; k < KINDS; k++) /* what was begun before has ended */
            for (int s = 0; s < v->n_stages; s++) v->ended[kinds[k]][s] = v->done[kinds[k]][s];
        for (int d = 0; d < v->n_devices; d++) {
            ft_action a;
            if (!choose(v, d, &a)) continue;
            begin(v, d, &a);
            left--;
        }
        if (left == before) return false;
    }
    return true;
}

/* Behind a batch: what is summed, then updates, which may wait for all of these sums. */
static int64_t put_steps(const vee *v, int device, int batch, ft_action *list)
{
    const int stages[] = {device, v->n_stages - 1 - device};
    const ft_action_kind steps[] = {FT_ACT_EXCHANGE, FT_ACT_REDUCE, FT_ACT_UPDATE, FT_ACT_ADOPT};
    int64_t n = 0;
    for (int k = 0; k < STEPS; k++)
        for (int i = 1; i >= 0; i--) {
            if (steps[k] == FT_ACT_EXCHANGE && !leg_exchanges(v->leg, stages[i])) continue;
            if (steps[k] == FT_ACT_REDUCE && !v->leg->reduces) continue;
            if (steps[k] == FT_ACT_ADOPT && !leg_adopts(v->leg, stages[i])) continue;
            list[n++] =
                (ft_action){.kind = (uint8_t)steps[k], .stage = (int16_t)stages[i], .batch = batch};
        }
    return n;
}

static ft_status write_device(const vee *v, int device, int lane, ft_error *err)
{
    const leg *l = v->leg;
    int64_t n = 0, most = (v->n[device] + 2 * STEPS) * l->n_batches;
    ft_action *list = ft_arena_array(l->arena, most, sizeof *list);
    if (!list) return ft_fail(err, FT_NOMEM, "plan: no memory for device %d", device);
    for (int batch = 0; batch < l->n_batches; batch++) {
        for (int64_t i = 0; i < v->n[device]; i++) {
            ft_action a = v->lists[device][i];
            a.micro = (int32_t)ft_share_index(&l->shares.of[a.stage], lane, a.micro);
            a.batch = batch;
            list[n++] = a;
        }
        n += put_steps(v, device, batch, list + n);
    }
    l->done[leg_lane_device(l, device, lane)] = (ft_action_list){.n = (int)n, .actions = list};
    return FT_OK;
}

static bool make_arrays(vee *v)
{
    ft_arena *arena = v->leg->arena;
    bool ok = (v->held = ft_arena_array(arena, v->n_devices, sizeof *v->held)) &&
              (v->n = ft_arena_array(arena, v->n_devices, sizeof *v->n)) &&
              (v->lists = ft_arena_array(arena, v->n_devices, sizeof *v->lists));
    for (int k = 0; ok && k < KINDS; k++) {
        v->done[kinds[k]] = ft_arena_array(arena, v->n_stages, sizeof(int64_t));
        v->ended[kinds[k]] = ft_arena_array(arena, v->n_stages, sizeof(int64_t));
        ok = v->done[kinds[k]] && v->ended[kinds[k]];
    }
    for (int d = 0; ok && d < v->n_devices; d++)
        ok = (v->lists[d] = ft_arena_array(arena, 2 * KINDS * v->micros, sizeof(ft_action)));
    return ok;
}

ft_status leg_vee(leg *l, ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    int lanes;
    FT_TRY(leg_count_lanes(l, &lanes, err));
    vee v = {.leg = l, .n_devices = p->n_devices / lanes, .n_stages = p->n_stages};
    v.micros = l->shares.of[0].per_batch;
    FT_TRY(check_pipeline(&v, err));
    l->orders = ft_arena_array(l->arena, l->shares.n_seats, sizeof *l->orders);
    l->done = ft_arena_array(l->arena, p->n_devices, sizeof *l->done);
    if (!l->orders || !l->done || !make_arrays(&v))
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    for (int seat = 0; seat < l->shares.n_seats; seat++) l->orders[seat].versions = 1;
    if (!play_batch(&v))
        return ft_fail(err, FT_INVALID,
                       "schedule %s: stages wait for later ones, expected stages in the order of "
                       "the model",
                       l->schedule->name);
    for (int d = 0; d < v.n_devices; d++)
        for (int lane = 0; lane < lanes; lane++) FT_TRY(write_device(&v, d, lane, err));
    return FT_OK;
}
