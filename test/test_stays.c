/* test/test_stays.c - places of what random plans move, replayed by others. */
#include "proof/proof.h"
#include "residency/residency.h"
#include "schedule_cases.h"
#include "stays/stays.h"

typedef struct lodger {
    const ft_unit *unit;
    int64_t micro; /* of activations, in the leg */
    int64_t at;
} lodger;

/* What is on a device, and the most that was there at one time. */
typedef struct house {
    const ft_plan *plan;
    const ft_stays *stays;
    int device, n, most;
    lodger of[1024];
    int64_t bytes[FT_MEMORY_CLASSES], most_bytes[FT_MEMORY_CLASSES];
} house;

static int find(const house *h, const ft_unit *u, int64_t micro)
{
    int i = 0;
    while (i < h->n && (h->of[i].unit != u || h->of[i].micro != micro)) i++;
    return i;
}

/* Inside its part of the block, aligned, and apart from all others. */
static void enter(house *h, const ft_unit *u, int64_t micro, int stay)
{
    const ft_stays_part *part = &h->stays->parts[h->device];
    int64_t bytes = ft_place_bytes(u->bytes);
    if (!CHECK(stay >= part->first && stay < part->first + part->n)) return;
    int64_t at = h->stays->of[stay].at;
    CHECK(h->stays->of[stay].unit == u && at % FT_MEMORY_ALIGN == 0);
    CHECK(at >= part->begin && at + bytes <= part->begin + part->bytes);
    for (int i = 0; i < h->n; i++)
        CHECK(at >= h->of[i].at + ft_place_bytes(h->of[i].unit->bytes) ||
              h->of[i].at >= at + bytes);
    h->of[h->n++] = (lodger){u, micro, at};
    h->bytes[u->class] += bytes;
    if (h->n > h->most) h->most = h->n;
    if (h->bytes[u->class] > h->most_bytes[u->class]) h->most_bytes[u->class] = h->bytes[u->class];
}

static void leave(house *h, const ft_unit *u, int64_t micro)
{
    int i = find(h, u, micro);
    if (i == h->n) return;
    h->of[i] = h->of[--h->n];
    h->bytes[u->class] -= ft_place_bytes(u->bytes);
}

/* One action: a move, or work that makes activations and gradients. */
static void live_through(house *h, const ft_action *a)
{
    ft_unit *const *units = h->stays->units[a->stage];
    const ft_unit *activations = units[FT_MEMORY_ACTIVATIONS];
    const ft_unit *gradients = units[FT_MEMORY_GRADIENTS];
    const ft_unit *named = ft_action_moves(a) ? units[a->item] : NULL;
    int64_t index = ft_action_index(h->plan, a);
    int64_t micro = named == activations ? index : 0;
    bool backward = a->kind == FT_ACT_BACKWARD || a->kind == FT_ACT_BACKWARD_WEIGHT;
    if (named && ft_action_leaves(a)) leave(h, named, micro);
    if (named && a->kind == FT_ACT_SWAP_IN) enter(h, named, micro, a->stay);
    if (activations && a->kind == FT_ACT_FORWARD) enter(h, activations, index, a->stay);
    if (gradients && backward && a->micro == 0 && find(h, gradients, 0) == h->n)
        enter(h, gradients, 0, a->stay);
    bool last = a->kind == ft_plan_last(h->plan, a->stage);
    if (activations && last) leave(h, activations, index);
}

/* Returns whether two were ever there at one time. */
static bool check_device(const ft_plan *plan, const ft_stays *stays, int d)
{
    static house h;
    h = (house){.plan = plan, .stays = stays, .device = d};
    for (int s = 0; s < plan->n_stages; s++)
        for (int c = 0; plan->device[s] == d && c < FT_MEMORY_CLASSES; c++) {
            const ft_unit *u = stays->units[s][c];
            if (u && u->starts) enter(&h, u, 0, u->first_stay);
        }
    for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
        ft_action a = ft_plan_at(plan, d, i);
        live_through(&h, &a);
    }
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) CHECK(h.most_bytes[c] == stays->parts[d].most[c]);
    return h.most > 1;
}

/* Shorter legs are proven; with all in one place nothing is, where two are there at one time. */
static void check_proof(const ft_plan *plan, ft_stays *stays, bool meet, ft_rng *rng)
{
    ft_error err = {0};
    ft_plan *leg = NULL;
    int n = 1 + (int)ft_rng_below(rng, (uint64_t)plan->n_batches);
    if (CHECK_STATUS(ft_plan_cut(&leg, plan, n, &err), FT_OK))
        CHECK_STATUS(ft_stays_prove(stays, leg, &err), FT_OK);
    ft_plan_free(leg);
    CHECK_STATUS(ft_stays_prove(stays, plan, &err), FT_OK);
    for (int d = 0; d < plan->n_devices; d++)
        for (int i = 0; i < stays->parts[d].n; i++)
            stays->of[stays->parts[d].first + i].at = stays->parts[d].begin;
    CHECK_STATUS(ft_stays_prove(stays, plan, &err), meet ? FT_INVALID : FT_OK);
    if (meet) CHECK(strstr(err.message, "would come to where"));
}

/* The moves of a plan have places; false when they cannot have any. */
static bool check_plan(ft_plan *plan, const int64_t (*bytes)[FT_MEMORY_CLASSES], ft_rng *rng)
{
    ft_error err = {0};
    ft_seating seating;
    ft_stays stays;
    bool meet = false, placed = false;
    ft_arena *arena = ft_arena_new();
    if (!CHECK(arena)) return false;
    if (CHECK_STATUS(ft_seating_of_plan(&seating, arena, plan, &err), FT_OK) &&
        CHECK_STATUS(ft_stays_find(&stays, arena, plan, &seating, &err), FT_OK)) {
        ft_plan own = *plan;
        for (int s = 0; s < plan->n_stages; s++)
            for (int c = 0; c < FT_MEMORY_CLASSES; c++)
                if (stays.units[s][c]) stays.units[s][c]->bytes = bytes[s][c];
        ft_status status = ft_stays_place(&stays, arena, &own, &err);
        placed = status == FT_OK && stays.n > 0;
        if (status != FT_OK) CHECK(status == FT_UNSUPPORTED && strstr(err.message, "repetition"));
        for (int d = 0; placed && d < plan->n_devices; d++) {
            ft_stays_shift(&stays, d, 640 * (int64_t)d);
            meet = check_device(&own, &stays, d) || meet;
        }
        if (placed) check_proof(&own, &stays, meet, rng);
    }
    ft_arena_free(arena);
    return placed;
}

/* A plan with as many moves as it needs, or more. */
static bool check_moved(const ft_plan *plan, ft_rng *rng)
{
    ft_error err = {0};
    ft_volume volumes[CASE_STAGES];
    int64_t bytes[CASE_STAGES][FT_MEMORY_CLASSES] = {{0}}, capacity[CASE_STAGES];
    bool placed = false;
    for (int s = 0; s < plan->n_stages; s++)
        for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
            bool weights = c == FT_MEMORY_WEIGHTS || ft_memory_classes[c].is_made;
            bool moves = ft_memory_classes[c].moves != FT_MOVES_NEVER;
            moves = moves && !(weights && plan->versions[s] > 1);
            if (moves) bytes[s][c] = 64 * (1 + (int64_t)ft_rng_below(rng, 9));
        }
    ft_residency q = {.plan = plan,
                      .bytes = (const int64_t(*)[FT_MEMORY_CLASSES])bytes,
                      .capacity = capacity,
                      .ahead = (int)ft_rng_below(rng, 6)};
    ft_plan *moved = NULL;
    if (plan->forward_only || ft_residency_least(&q, capacity, &err) != FT_OK) return false;
    for (int d = 0; d < plan->n_devices; d++) capacity[d] += 64 * (int64_t)ft_rng_below(rng, 40);
    if (CHECK_STATUS(ft_residency_plan(&moved, &q, volumes, &err), FT_OK))
        placed = check_plan(moved, q.bytes, rng);
    ft_plan_free(moved);
    return placed;
}

static void test_random_plans(void)
{
    int placed = 0;
    for (int seed = 0; seed < CASES(60); seed++) {
        ft_rng rng;
        pipeline_case p;
        ft_rng_init(&rng, 22, (uint64_t)seed);
        case_random(&p, &rng);
        if (seed % 4 == 0) p.pipeline.n_batches = 30 + (int)ft_rng_below(&rng, 100);
        case_walk walk = {.all_weights = true};
        for (const ft_schedule *s; (s = case_next(&p, &walk));) {
            ft_error err = {0};
            ft_plan *plan = NULL;
            bool policy = false;
            if (!CHECK_STATUS(ft_plan_make(&plan, &p.pipeline, s, &err), FT_OK)) continue;
            for (int d = 0; d < plan->n_devices; d++) policy = policy || plan->by_policy[d];
            placed += !policy && check_moved(plan, &rng);
            ft_plan_free(plan);
        }
    }
    CHECK(placed > CASES(60));
}

int main(void)
{
    RUN(test_random_plans);
    return check_report();
}
