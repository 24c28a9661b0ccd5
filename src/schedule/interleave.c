/* schedule/interleave.c - several stages of one device in turns, by a list that is known at once.
 *
 * Stage s is on device s mod P, so a micro-batch visits every device once per chunk of P stages.
 * Devices take P micro-batches through one chunk, then the same ones through the next: forwards
 * from the first chunk on, backwards from the last. Device p runs 2 (P - p - 1) + (V - 1) P
 * forwards ahead and then one of each in turn, flushed at the end of a batch. With replicas there
 * are P groups of devices, and every lane of these works as P devices do. Source: Narayanan et al.,
 * "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021, section 2.2. */
#include "schedule/internal.h"

typedef struct turns {
    const leg *leg;
    int device, n_devices, n_chunks; /* of the lane */
    int lane;
    int64_t micros; /* of a batch, in the lane */
    ft_action *list;
    int64_t n;
    int64_t *forwards, *backwards; /* by chunk: done of this batch */
} turns;

static ft_status check_pipeline(const leg *l, int n_devices, ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    if (p->n_stages % n_devices)
        return ft_fail(err, FT_INVALID,
                       "schedule %s: %d stages on %d %s take turns, so expected a number of "
                       "stages that is %d, %d, %d ...",
                       l->schedule->name, p->n_stages, n_devices,
                       l->shares.several ? "groups of devices" : "devices", n_devices,
                       2 * n_devices, 3 * n_devices);
    for (int s = 0; s < p->n_stages; s++)
        for (int lane = 0; lane < l->shares.of[s].n; lane++) {
            int device = leg_lane_device(l, s, lane);
            int wanted =
                l->shares.several ? leg_lane_device(l, s % n_devices, lane) : s % n_devices;
            if (device != wanted)
                return ft_fail(
                    err, FT_INVALID,
                    "schedule %s: stage %d is on device %d, expected device %d: stages 0, 1, "
                    "2 ... go to the devices in turns, as a partition in the order of the "
                    "model has them",
                    l->schedule->name, s, device, wanted);
        }
    int micros = l->shares.of[0].per_batch;
    if (micros % n_devices == 0) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "schedule %s: %d micro-batches%s, expected a multiple of the %d %s",
                   l->schedule->name, micros, l->shares.several ? " for each replica" : "",
                   n_devices, l->shares.several ? "groups of devices" : "devices");
}

static void put(turns *t, ft_action_kind kind, int chunk, int batch, int64_t micro)
{
    int stage = chunk * t->n_devices + t->device;
    if (ft_action_per_micro(kind))
        micro = ft_share_index(&t->leg->shares.of[stage], t->lane, micro);
    t->list[t->n++] = (ft_action){
        .kind = (uint8_t)kind, .stage = (int16_t)stage, .batch = batch, .micro = (int32_t)micro};
}

static void put_forward(turns *t, int batch, int64_t k)
{
    int chunk = (int)(k / t->n_devices % t->n_chunks);
    int stage = chunk * t->n_devices + t->device;
    stage_order *order = &t->leg->orders[t->leg->shares.of[stage].first + t->lane];
    put(t, FT_ACT_FORWARD, chunk, batch, t->forwards[chunk]++);
    int64_t in_flight = t->forwards[chunk] - t->backwards[chunk];
    if (in_flight > order->in_flight) order->in_flight = (int)in_flight;
}

static void put_backward(turns *t, int batch, int64_t k)
{
    int chunk = t->n_chunks - 1 - (int)(k / t->n_devices % t->n_chunks);
    put(t, FT_ACT_BACKWARD, chunk, batch, t->backwards[chunk]++);
    if (t->backwards[chunk] < t->micros) return;
    if (leg_exchanges(t->leg, chunk * t->n_devices + t->device))
        put(t, FT_ACT_EXCHANGE, chunk, batch, 0);
    if (t->leg->reduces) put(t, FT_ACT_REDUCE, chunk, batch, 0);
}

/* Updates may wait for what every stage reduces, so those of the device stand behind all of its
 * backwards; a replica's weights are taken over before the next batch begins. */
static void put_updates(turns *t, int batch)
{
    for (int chunk = t->n_chunks - 1; chunk >= 0; chunk--) put(t, FT_ACT_UPDATE, chunk, batch, 0);
    for (int chunk = 0; chunk < t->n_chunks; chunk++) {
        if (leg_adopts(t->leg, chunk * t->n_devices + t->device))
            put(t, FT_ACT_ADOPT, chunk, batch, 0);
        t->forwards[chunk] = t->backwards[chunk] = 0;
    }
}

static void put_batch(turns *t, int batch)
{
    int64_t total = t->micros * t->n_chunks;
    int64_t ahead = 2 * (int64_t)(t->n_devices - t->device - 1);
    ahead += (int64_t)(t->n_chunks - 1) * t->n_devices;
    if (ahead > total) ahead = total;
    for (int64_t k = 0; k < ahead; k++) put_forward(t, batch, k);
    for (int64_t k = 0; k < total; k++) {
        if (ahead + k < total) put_forward(t, batch, ahead + k);
        put_backward(t, batch, k);
    }
    put_updates(t, batch);
}

ft_status leg_interleave(leg *l, ft_error *err)
{
    const ft_pipeline *p = l->pipeline;
    int lanes;
    FT_TRY(leg_count_lanes(l, &lanes, err));
    int n_devices = p->n_devices / lanes;
    FT_TRY(check_pipeline(l, n_devices, err));
    int chunks = p->n_stages / n_devices, micros = l->shares.of[0].per_batch;
    int64_t length = (2 * (int64_t)micros + 4) * chunks * l->n_batches;
    int64_t *counts = ft_arena_array(l->arena, 2 * (int64_t)chunks, sizeof *counts);
    l->orders = ft_arena_array(l->arena, l->shares.n_seats, sizeof *l->orders);
    l->done = ft_arena_array(l->arena, p->n_devices, sizeof *l->done);
    if (!counts || !l->orders || !l->done)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", p->n_stages);
    for (int seat = 0; seat < l->shares.n_seats; seat++) l->orders[seat].versions = 1;
    for (int d = 0; d < p->n_devices; d++) {
        turns t = {.leg = l, .lane = d % lanes, .micros = micros};
        t.device = d / lanes;
        t.n_devices = n_devices;
        t.n_chunks = chunks;
        t.forwards = counts;
        t.backwards = counts + chunks;
        t.list = ft_arena_array(l->arena, length, sizeof *t.list);
        if (!t.list) return ft_fail(err, FT_NOMEM, "plan: no memory for device %d", d);
        for (int batch = 0; batch < l->n_batches; batch++) put_batch(&t, batch);
        l->done[leg_lane_device(l, t.device, t.lane)] =
            (ft_action_list){.n = (int)t.n, .actions = t.list};
    }
    return FT_OK;
}
