/* proof/walk.c - executes the lists of a plan without a clock.
 *
 * Every runner has one list and every edge one maker and one user, so what happens does not depend
 * on who is looked at first, and one pass is the proof that a plan completes on any timing (Kahn,
 * 1974). A copy stands in its list like any other action here: letting it run beside what follows
 * can only help.
 *
 * What a runner waits for are differences of counts, which follow from where all runners are. They
 * begin repetitions of their bodies in turns, all that can. When they end a turn where they ended
 * the one before, one repetition further, each turn to come does the same. */
#include "proof/internal.h"
#include "proof/repeats.h"

#include <stdio.h>

typedef struct walk {
    const ft_plan *plan;
    const ft_seating *shares;
    ft_wires *wires;
    ft_runners runners;
    int *queue; /* devices to look at again: a ring of n_devices, no device is in it twice */
    bool *queued;
    int head, n;
    int batch_slots;     /* a batch begins when the one so many before it has ended; 0: at once */
    int ended;           /* batches that have ended in every stage, in order */
    int *left;           /* by batch: stages that have not ended it */
    const ft_edge *late; /* who uses its items does so only when nothing else can go on; or NULL */
    int64_t used;        /* so many of its items may be used */
    int64_t most;        /* made by some replica and not used, at most */
    int turn;            /* no runner begins a later repetition of its body */
    int *places;         /* by runner: where it was in its list when none could go on in a turn */
    int *beyond;         /* likewise: repetition of its body, less the turn */
} walk;

static ft_status walk_init(walk *w, ft_arena *arena, const ft_plan *plan, const ft_seating *shares,
                           ft_error *err)
{
    *w = (walk){.plan = plan, .shares = shares};
    w->queue = ft_arena_array(arena, plan->n_devices, sizeof *w->queue);
    w->queued = ft_arena_array(arena, plan->n_devices, sizeof *w->queued);
    if (!w->queue || !w->queued)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d devices", plan->n_devices);
    FT_TRY(ft_runners_new(&w->runners, arena, plan, shares, err));
    w->places = ft_arena_array(arena, w->runners.n, sizeof *w->places);
    w->beyond = ft_arena_array(arena, w->runners.n, sizeof *w->beyond);
    if (!w->places || !w->beyond)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d lists", w->runners.n);
    w->turn = plan->body_repeats;
    FT_TRY(ft_wires_new(&w->wires, arena, shares, plan->n_edges, plan->edges, err));
    return ft_wires_add_copies(w->wires, arena, plan, err);
}

static void look_at(void *user, int device)
{
    walk *w = user;
    if (w->queued[device]) return;
    w->queued[device] = true;
    int place = w->head + w->n++;
    w->queue[place < w->plan->n_devices ? place : place - w->plan->n_devices] = device;
}

static int next_device(walk *w)
{
    int device = w->queue[w->head];
    w->queued[device] = false;
    w->head = w->head + 1 < w->plan->n_devices ? w->head + 1 : 0;
    w->n--;
    return device;
}

/* Whether it is the last action of its batch in its stage. */
static bool ends_batch(const ft_plan *plan, const ft_action *a)
{
    if (!plan->forward_only) return a->kind == FT_ACT_UPDATE;
    return a->kind == FT_ACT_FORWARD && a->micro == plan->micro_batches - 1;
}

static void end_batch(walk *w, const ft_action *a)
{
    if (!w->batch_slots || !ends_batch(w->plan, a)) return;
    w->left[a->batch]--;
    while (w->ended < w->plan->n_batches && !w->left[w->ended]) {
        w->ended++;
        for (int d = 0; d < w->plan->n_devices; d++) look_at(w, d);
    }
}

/* Whether the action has to wait since it uses an item of the late edge; counts what is made. */
static bool is_late(walk *w, const ft_meeting *m)
{
    if (!w->late) return false;
    if (w->late->to == m->stage && (int)w->late->to_kind == m->kind) return m->index >= w->used;
    bool makes = w->late->from == m->stage && (int)w->late->from_kind == m->kind;
    if (makes && m->index + 1 - w->used > w->most) w->most = m->index + 1 - w->used;
    return false;
}

static void run(walk *w, ft_runner *r)
{
    for (; r->cursor.more; ft_runner_step(r)) {
        if (r->cursor.part == FT_PART_BODY && r->cursor.repetition > w->turn) return;
        if (w->batch_slots && r->cursor.now.batch >= w->ended + w->batch_slots) return;
        ft_meeting m = ft_meeting_of(w->plan, w->shares, r->device, &r->cursor.now);
        if (ft_wires_blocking(w->wires, &m).reason != FT_STOP_NOTHING || is_late(w, &m)) return;
        ft_wires_complete(w->wires, &m, 0, -1);
        ft_wires_wake(w->wires, &m, look_at, w);
        end_batch(w, &r->cursor.now);
    }
}

static const char *line_text(char text[32], int line)
{
    text[0] = 0;
    if (line) snprintf(text, 32, ", line %d", line);
    return text;
}

static ft_status report_stuck(const walk *w, ft_error *err)
{
    char text[512] = "", one[160], line[32];
    int used = 0, stuck = 0;
    for (int i = 0; i < w->runners.n; i++) {
        const ft_runner *r = &w->runners.list[i];
        if (!r->cursor.more) continue;
        ft_meeting m = ft_meeting_of(w->plan, w->shares, r->device, &r->cursor.now);
        ft_wires_explain(w->wires, &r->cursor.now, &m, one, sizeof one);
        if (stuck++ < 3)
            used += snprintf(text + used, sizeof text - (size_t)used, "%sdevice %d%s: %s",
                             used ? "; " : "", r->device, line_text(line, r->cursor.line), one);
    }
    if (!stuck) return FT_OK;
    bool alone = w->runners.n == w->plan->n_devices;
    return ft_fail(err, FT_INFEASIBLE, "plan: %d %s%s wait%s for ever: %s%s", stuck,
                   alone ? "device" : "list", stuck > 1 ? "s" : "", stuck > 1 ? "" : "s", text,
                   stuck > 3 ? "; ..." : "");
}

static ft_status count_batches(walk *w, ft_arena *arena, ft_error *err)
{
    w->left = ft_arena_array(arena, w->plan->n_batches, sizeof *w->left);
    if (!w->left)
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d batches", w->plan->n_batches);
    for (int i = 0; i < w->plan->n_batches; i++)
        w->left[i] = w->plan->replica_first[w->plan->n_stages]; /* by each replica */
    return FT_OK;
}

/* Takes every runner as far as it goes. */
static void go_on(walk *w)
{
    for (int d = 0; d < w->plan->n_devices; d++) look_at(w, d);
    while (w->n) {
        int device = next_device(w);
        for (int i = w->runners.first[device]; i < w->runners.first[device + 1]; i++)
            run(w, &w->runners.list[i]);
    }
}

/* Notes where all runners are; true: those that repeat something are in their bodies, where they
 * were one turn before, and no other is before its end. */
static bool note_places(walk *w)
{
    bool same = true;
    for (int i = 0; i < w->runners.n; i++) {
        const ft_cursor *c = &w->runners.list[i].cursor;
        bool repeats = c->lists->body.n > 0, inside = c->more && c->part == FT_PART_BODY;
        int place = c->more ? c->at * FT_PARTS + c->part : -1;
        int beyond = repeats ? c->repetition - w->turn : 0;
        same &= inside == repeats && place == w->places[i] && beyond == w->beyond[i] &&
                c->part > FT_PART_WARMUP;
        w->places[i] = place;
        w->beyond[i] = beyond;
    }
    return same;
}

static ft_status walk_once(const ft_plan *plan, const ft_seating *shares, int batch_slots,
                           bool *is_steady, ft_arena *arena, ft_error *err)
{
    walk w;
    FT_TRY(walk_init(&w, arena, plan, shares, err));
    w.batch_slots = batch_slots;
    if (batch_slots) FT_TRY(count_batches(&w, arena, err));
    for (w.turn = 0; !w.turn || w.turn < plan->body_repeats; w.turn++) {
        go_on(&w);
        if (w.turn + 1 < plan->body_repeats) *is_steady = note_places(&w);
    }
    return report_stuck(&w, err);
}

ft_status ft_plan_walk(const ft_plan *plan, const ft_seating *shares, int batch_slots,
                       ft_arena *arena, ft_error *err)
{
    const ft_plan *few;
    bool is_steady = false;
    FT_TRY(proof_shorten(&few, plan, arena, err));
    ft_status status = walk_once(few, shares, batch_slots, &is_steady, arena, err);
    if (few == plan || (status == FT_OK && is_steady)) return status;
    return walk_once(plan, shares, batch_slots, &is_steady, arena, err);
}

/* -- slots ------------------------------------------------------------------------------------- */

/* What the edge has to hold at once, at most: everything goes as far as it can before an item is
 * used, one item after the other. */
static ft_status find_most(const ft_plan *plan, const ft_seating *shares, const ft_edge *edge,
                           int64_t *out, ft_error *err)
{
    walk w;
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "plan: no memory to walk it");
    ft_status status = walk_init(&w, arena, plan, shares, err);
    w.late = edge;
    for (; status == FT_OK && w.used <= plan->n_batches; w.used++) go_on(&w);
    if (status == FT_OK) status = report_stuck(&w, err);
    *out = w.most;
    ft_arena_free(arena);
    return status;
}

enum { WORTH_A_WALK = 1 << 16 }; /* bytes of a slot */

ft_status ft_plan_trim(const ft_plan *plan, ft_edge *edges, ft_error *err)
{
    ft_seating shares;
    ft_arena *arena = ft_arena_new();
    if (!arena) return ft_fail(err, FT_NOMEM, "plan: no memory to walk it");
    ft_status status = ft_seating_of_plan(&shares, arena, plan, err);
    for (int e = 0; e < plan->n_edges && status == FT_OK; e++) {
        ft_edge *edge = &edges[e];
        bool per_batch = !ft_action_per_micro(edge->from_kind);
        int64_t most = 0;
        if (!per_batch || edge->slots == 1 || edge->bytes < WORTH_A_WALK) continue;
        status = find_most(plan, &shares, edge, &most, err);
        if (most < edge->slots) edge->slots = most > 1 ? (int)most : 1;
    }
    ft_arena_free(arena);
    return status;
}
