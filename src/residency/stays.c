/* residency/stays.c - when what is needed is on a device.
 *
 * Walking down a device's list, what an action needs is brought, and where there is no room, what
 * is needed furthest in the future goes, at once after its last use (victims.c). Then loads are
 * moved up to `ahead` actions forward, as far as there is room all the way, and updates in host
 * memory back. */
#include "residency/internal.h"

#include <stdio.h>

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "residency: no memory");
}

/* -- items ------------------------------------------------------------------------------------- */

static bool makes_activations(const ft_action *a)
{
    return a->kind == FT_ACT_FORWARD;
}

static bool uses_activations(const ft_action *a)
{
    return makes_activations(a) || a->kind == FT_ACT_BACKWARD || a->kind == FT_ACT_BACKWARD_INPUT ||
           a->kind == FT_ACT_BACKWARD_WEIGHT;
}

/* By class, of a stage that is on the device. */
static const int64_t *bytes_of(const planner *p, int stage)
{
    return p->q->bytes[p->seat[stage]];
}

static bool updates_at_home(const planner *p, int stage)
{
    if (!p->q->updates_at_home || p->seat[stage] < 0) return false;
    const int64_t *bytes = bytes_of(p, stage);
    return bytes[FT_MEMORY_WEIGHTS] && bytes[FT_MEMORY_GRADIENTS] &&
           !ft_plan_has(p->plan, stage, FT_ACT_PREDICT) &&
           !ft_plan_has(p->plan, stage, FT_ACT_ATTENUATE);
}

/* Micro-batches that are between their forward and the end of their backward, at most. */
static void find_windows(planner *p, int64_t *under_way)
{
    for (int64_t i = 0; i < p->n; i++)
        if (p->list[i].kind == FT_ACT_BACKWARD_WEIGHT)
            p->last[p->list[i].stage] = FT_ACT_BACKWARD_WEIGHT;
    for (int64_t i = 0; i < p->n; i++) {
        const ft_action *a = &p->list[i];
        if (!bytes_of(p, a->stage)[FT_MEMORY_ACTIVATIONS]) continue;
        under_way[a->stage] += makes_activations(a) - (a->kind == (int)p->last[a->stage]);
        if (under_way[a->stage] > p->window[a->stage])
            p->window[a->stage] = (int)under_way[a->stage];
    }
}

static item *activations_of(const planner *p, const ft_action *a, int *number)
{
    int window = p->window[a->stage];
    if (!window || !uses_activations(a)) return NULL;
    int64_t local = ft_share_local(&p->shares.of[a->stage], ft_action_index(p->plan, a));
    *number = p->first_micro[a->stage] + (int)(local % window);
    return &p->items[*number];
}

static ft_status make_items(planner *p, int64_t *all, ft_error *err)
{
    const ft_plan *plan = p->plan;
    p->n_items = plan->n_stages * FT_MEMORY_CLASSES;
    for (int s = 0; s < plan->n_stages; s++) {
        p->first_micro[s] = p->n_items;
        p->n_items += p->window[s];
    }
    p->items = ft_arena_array(p->arena, p->n_items, sizeof *p->items);
    if (!p->items) return no_memory(err);
    for (int i = 0; i < plan->n_stages * FT_MEMORY_CLASSES; i++) {
        int s = i / FT_MEMORY_CLASSES, c = i % FT_MEMORY_CLASSES;
        bool here = p->seat[s] >= 0 && c != FT_MEMORY_ACTIVATIONS;
        bool dead = c == FT_MEMORY_GRADIENTS && !p->q->writes_back;
        bool made = here && ft_memory_classes[c].is_made && p->q->makes && p->q->makes[p->seat[s]];
        if (c == FT_MEMORY_OPTIMIZER && p->at_home[s]) here = false;
        p->items[i] = (item){s, c, here ? bytes_of(p, s)[c] : 0, -1, -1, false, dead, made};
        *all += p->items[i].bytes;
    }
    for (int s = 0; s < plan->n_stages; s++)
        for (int i = 0; i < p->window[s]; i++) {
            int64_t bytes = bytes_of(p, s)[FT_MEMORY_ACTIVATIONS];
            p->items[p->first_micro[s] + i] =
                (item){s, FT_MEMORY_ACTIVATIONS, bytes, -1, -1, false, true, false};
            *all += bytes;
        }
    return FT_OK;
}

ft_status residency_begin(planner *p, int64_t *all, ft_error *err)
{
    const ft_plan *plan = p->plan;
    int n = plan->n_stages;
    FT_TRY(ft_seating_of_plan(&p->shares, p->arena, plan, err));
    p->n = ft_plan_length(plan, p->device);
    p->list = ft_arena_array(p->arena, p->n + 1, sizeof *p->list);
    p->window = ft_arena_array(p->arena, 3 * (int64_t)n, sizeof *p->window);
    p->last = ft_arena_array(p->arena, n, sizeof *p->last);
    p->at_home = ft_arena_array(p->arena, n, sizeof *p->at_home);
    int64_t *under_way = ft_arena_array(p->arena, n, sizeof *under_way);
    if (!p->at_home || !p->list || !p->window || !p->last || !under_way) return no_memory(err);
    p->first_micro = p->window + n;
    p->seat = p->first_micro + n;
    for (int s = 0; s < n; s++) {
        p->last[s] = FT_ACT_BACKWARD;
        p->seat[s] = ft_seat_of(&p->shares, s, p->device);
        p->at_home[s] = updates_at_home(p, s);
    }
    for (int64_t i = 0; i < p->n; i++) {
        p->list[i] = ft_plan_at(plan, p->device, i);
        if (p->list[i].kind == FT_ACT_UPDATE) p->list[i].item = p->at_home[p->list[i].stage];
    }
    find_windows(p, under_way);
    FT_TRY(ft_owners_find(&p->owners, p->arena, plan, err));
    return make_items(p, all, err);
}

/* -- uses -------------------------------------------------------------------------------------- */

/* Whether the action changes what the item is made of: it is made again where it is needed next. */
static bool makes_old(const ft_action *a, const item *i)
{
    return i->is_made && ft_action_writes(a) >> i->class & 1;
}

/* Items that the action needs, into out; returns how many. */
static int needs_of(const planner *p, const ft_action *a, int *out)
{
    const item *own = &p->items[a->stage * FT_MEMORY_CLASSES];
    bool again = p->plan->recompute[a->stage] || !own[FT_MEMORY_TURNED].bytes;
    unsigned needs = ft_action_needs(a, again);
    int n = 0;
    for (int c = 0; c < FT_MEMORY_CLASSES; c++)
        if (needs >> c & 1 && own[c].bytes && !makes_old(a, &own[c]))
            out[n++] = a->stage * FT_MEMORY_CLASSES + c;
    if (activations_of(p, a, &out[n])) n++;
    if (!(needs >> FT_MEMORY_WEIGHTS & 1) || a->kind == FT_ACT_UPDATE) return n;
    for (int i = p->owners.first[a->stage]; i < p->owners.first[a->stage + 1]; i++) {
        int owner = p->owners.stages[i], weights = owner * FT_MEMORY_CLASSES + FT_MEMORY_WEIGHTS;
        if (owner != a->stage && p->items[weights].bytes) out[n++] = weights; /* of this device */
    }
    return n;
}

/* Of what is per batch behind a batch's last backward: gradients are passed on and summed, then
 * they change weights, which are passed on. */
static bool is_step(const ft_action *a)
{
    return a->kind == FT_ACT_EXCHANGE || a->kind == FT_ACT_REDUCE || a->kind == FT_ACT_UPDATE ||
           a->kind == FT_ACT_ADOPT;
}

static int task_of(const planner *p, const ft_action *a)
{
    const ft_tasks *tasks = &p->q->tasks;
    return (a->kind == FT_ACT_FORWARD ? tasks->forward : tasks->backward)[a->stage];
}

/* Whether the action behind the one at `at` is of its task. */
static bool task_goes_on(const planner *p, int64_t at)
{
    const ft_action *a = &p->list[at], *b = &p->list[at + 1];
    if (at + 1 == p->n) return false;
    if (p->q->tasks.forward) return a->batch == b->batch && task_of(p, a) == task_of(p, b);
    if (a->stage != b->stage) return false;
    if (is_step(a) && is_step(b)) return true;
    return a->kind == b->kind || (a->kind == (int)p->last[a->stage] && is_step(b));
}

/* What an action of a task has needed and a later one of it needs is there between them. */
static ft_status find_least_of_tasks(planner *p, ft_error *err)
{
    int64_t *more = ft_arena_array(p->arena, p->n + 2, sizeof *more);
    int64_t *end = ft_arena_array(p->arena, p->n + 1, sizeof *end), there = 0;
    if (!more || !end) return no_memory(err);
    for (int64_t at = p->n - 1; at >= 0; at--) end[at] = task_goes_on(p, at) ? end[at + 1] : at + 1;
    for (int64_t u = 0; u < p->first_use[p->n]; u++) {
        const use *now = &p->uses[u], *later = now->later >= 0 ? &p->uses[now->later] : NULL;
        if (!later || later->at >= end[now->at]) continue;
        more[now->at + 1] += p->items[now->item].bytes;
        more[later->at] -= p->items[now->item].bytes;
    }
    for (int64_t at = 0; at < p->n; at++) {
        there += more[at];
        if (p->needed[at] + there > p->least) p->least = p->needed[at] + there;
    }
    return FT_OK;
}

ft_status residency_find_uses(planner *p, ft_error *err)
{
    int64_t n = 0;
    int *needs = ft_arena_array(p->arena, p->n_items + 1, sizeof *needs);
    int64_t *last = ft_arena_array(p->arena, p->n_items + 1, sizeof *last);
    p->first_use = ft_arena_array(p->arena, p->n + 1, sizeof *p->first_use);
    p->needed = ft_arena_array(p->arena, p->n + 1, sizeof *p->needed);
    if (!needs || !last || !p->first_use || !p->needed) return no_memory(err);
    for (int64_t i = 0; i < p->n; i++) n += needs_of(p, &p->list[i], needs);
    p->uses = ft_arena_array(p->arena, n + 1, sizeof *p->uses);
    p->stays = ft_arena_array(p->arena, n + 1, sizeof *p->stays);
    if (!p->uses || !p->stays) return no_memory(err);
    for (int i = 0; i < p->n_items; i++) last[i] = p->items[i].next = -1;
    n = 0;
    for (int64_t i = 0; i < p->n; i++) {
        int k = needs_of(p, &p->list[i], needs);
        p->first_use[i] = n;
        for (int j = 0; j < k; j++, n++) {
            p->uses[n] = (use){i, needs[j], -1, -1};
            p->needed[i] += p->items[needs[j]].bytes;
            if (last[needs[j]] >= 0)
                p->uses[last[needs[j]]].later = n;
            else
                p->items[needs[j]].next = n;
            last[needs[j]] = n;
        }
        if (p->needed[i] > p->least) p->least = p->needed[i];
    }
    p->first_use[p->n] = n;
    return p->q->tasks.forward ? find_least_of_tasks(p, err) : FT_OK;
}

/* -- stays ------------------------------------------------------------------------------------- */

static void close_stay(planner *p, item *i)
{
    stay *s = &p->stays[i->stay];
    bool saved = i->is_dirty && !i->is_dead;
    bool holds = !i->is_dead || i->class == FT_MEMORY_GRADIENTS; /* dead activations are gone */
    if (p->q->writes_back && holds) saved = true;
    if (i->is_made) saved = false;
    s->leaving = saved ? LEAVES_SAVED : LEAVES_DROPPED;
    if (!saved && i->is_dead && i->class == FT_MEMORY_ACTIVATIONS) s->leaving = LEAVES_DEAD;
    victims_remove(p, (int)(i - p->items));
    p->used -= i->bytes;
    i->is_dirty = false;
    i->stay = -1;
}

static ft_status report_need(const planner *p, int64_t at, ft_error *err)
{
    char text[256] = "", name[FT_ACTION_TEXT];
    size_t used = 0;
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++) {
        const item *i = &p->items[p->uses[u].item];
        if (used < sizeof text)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s %.1f MB", used ? ", " : "",
                                 ft_memory_classes[i->class].name, (double)i->bytes / 1e6);
    }
    char number[16];
    snprintf(number, sizeof number, "%d", p->device);
    return ft_fail(err, FT_INFEASIBLE,
                   "device %s: %s alone needs %.1f MB of what may move (%s), %.1f MB are left for "
                   "that: cut the model into more stages",
                   p->q->names ? p->q->names[p->device] : number,
                   ft_action_text(name, &p->list[at]), (double)p->needed[at] / 1e6, text,
                   (double)p->q->capacity[p->device] / 1e6);
}

/* Of a batch, the one that the device has of the stage. */
static int first_micro_of(const planner *p, int stage)
{
    const ft_stage_share *share = &p->shares.of[stage];
    return (int)ft_share_index(share, p->seat[stage] - share->first, 0);
}

/* What may be on the device with what an action needs, where room is left for loads ahead. */
static int64_t filled(const planner *p, int64_t at)
{
    int64_t capacity = p->q->capacity[p->device];
    if (capacity <= p->least) return capacity;
    int64_t most = capacity - (int64_t)(p->q->room * (double)(capacity - p->least));
    return most > p->needed[at] ? most : p->needed[at];
}

static ft_status bring(planner *p, int number, int64_t at, ft_error *err)
{
    item *i = &p->items[number];
    const ft_action *a = &p->list[at];
    while (p->used + i->bytes > filled(p, at)) {
        int victim = victims_find(p, at);
        if (victim < 0) return report_need(p, at, err);
        close_stay(p, &p->items[victim]);
    }
    i->stay = (int)p->n_stays;
    p->stays[p->n_stays++] =
        (stay){.item = number,
               .begin = at,
               .end = at,
               .is_loaded = !i->is_dead && !i->is_made,
               .from_batch = a->batch,
               .micro = i->class == FT_MEMORY_ACTIVATIONS ? a->micro : first_micro_of(p, i->stage)};
    p->used += i->bytes;
    return FT_OK;
}

/* What the action changes on the device, and what is dead behind it. */
static void change(planner *p, const ft_action *a)
{
    int number;
    item *micro = activations_of(p, a, &number);
    if (micro) {
        micro->is_dirty = micro->is_dirty || makes_activations(a);
        micro->is_dead = a->kind == (int)p->last[a->stage];
        if (micro->is_dead) close_stay(p, micro);
    }
    item *gradients = &p->items[a->stage * FT_MEMORY_CLASSES + FT_MEMORY_GRADIENTS];
    if (a->kind != FT_ACT_UPDATE || !gradients->bytes) return;
    gradients->is_dead = true; /* the next backward makes them anew */
    if (gradients->stay >= 0) close_stay(p, gradients);
    if (p->q->writes_back) gradients->is_dead = false;
}

/* Before an update that works in host memory, what is on the device leaves it; before any, what is
 * made of weights. */
static void send_home(planner *p, const ft_action *a)
{
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        item *i = &p->items[a->stage * FT_MEMORY_CLASSES + c];
        if (i->stay >= 0 && (ft_action_at_home(a) || makes_old(a, i))) close_stay(p, i);
    }
}

/* Whether what the action at `at` needs stays for the next one. */
static bool goes_on(const planner *p, int64_t at)
{
    if (p->scope != FT_SCOPE_ACTION) return task_goes_on(p, at);
    const ft_action *a = &p->list[at], *b = &p->list[at + 1];
    return at + 1 < p->n && a->stage == b->stage && is_step(a) && is_step(b);
}

/* What leaves at the end of a task: all but, within a group, nothing. Activations leave when their
 * action has ended, as the next one is of another micro-batch, but for those that go back at once.
 */
static void leave_scope(planner *p, int64_t at)
{
    if (p->scope == FT_SCOPE_PLAN) return;
    bool on = goes_on(p, at);
    for (int k = 0; k < p->n_items; k++) {
        item *i = &p->items[k];
        bool waits = i->class == FT_MEMORY_ACTIVATIONS && !ft_tasks_go_back(&p->q->tasks, i->stage);
        if (i->stay >= 0 && (waits || !on)) close_stay(p, i);
    }
}

static void close_all(planner *p)
{
    for (int i = 0; i < p->n_items; i++)
        if (p->items[i].stay >= 0) close_stay(p, &p->items[i]);
}

static void begin_batch(planner *p, const ft_action *a)
{
    if (a->batch <= p->newest) return;
    p->newest = a->batch;
    if (p->anew) close_all(p);
}

static ft_status pass(planner *p, int64_t at, ft_error *err)
{
    const ft_action *a = &p->list[at];
    begin_batch(p, a);
    send_home(p, a);
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++) {
        victims_remove(p, p->uses[u].item); /* while it is needed */
        p->items[p->uses[u].item].next = p->uses[u].later;
    }
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++) {
        item *i = &p->items[p->uses[u].item];
        if (i->stay < 0) FT_TRY(bring(p, p->uses[u].item, at, err));
        stay *s = &p->stays[i->stay];
        p->uses[u].stay = i->stay;
        s->end = at;
        if (a->batch < s->from_batch) s->from_batch = a->batch;
        if (i->stage == a->stage && i->class != FT_MEMORY_ACTIVATIONS &&
            ft_action_writes(a) >> i->class & 1) {
            i->is_dirty = true;
            i->is_dead = false;
        }
    }
    change(p, a);
    leave_scope(p, at);
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++)
        if (p->items[p->uses[u].item].stay >= 0) victims_add(p, p->uses[u].item);
    return FT_OK;
}

/* What is made needs weights: a leg that has the one has the loads of the others. */
static void keep_weights(planner *p, const stay *made)
{
    for (int64_t u = p->first_use[made->begin]; u < p->first_use[made->begin + 1]; u++) {
        stay *s = &p->stays[p->uses[u].stay];
        bool weights = p->items[s->item].class == FT_MEMORY_WEIGHTS;
        if (weights && made->from_batch < s->from_batch) s->from_batch = made->from_batch;
    }
}

ft_status residency_find_stays(planner *p, ft_error *err)
{
    if (!victims_begin(p)) return no_memory(err);
    for (int64_t at = 0; at < p->n; at++) FT_TRY(pass(p, at, err));
    close_all(p);
    for (int64_t k = 0; k < p->n_stays; k++)
        if (p->items[p->stays[k].item].is_made) keep_weights(p, &p->stays[k]);
    return FT_OK;
}

/* -- updates behind ---------------------------------------------------------------------------- */

/* Whether another action waits for the stage's updates than its own next forward. */
static bool is_awaited(const planner *p, int stage)
{
    for (int e = 0; e < p->plan->n_edges; e++) {
        const ft_edge *edge = &p->plan->edges[e];
        if (edge->from == stage && edge->from_kind == FT_ACT_UPDATE) return true;
    }
    return false;
}

/* Where the update in host memory that stands at `at` goes: behind work of other stages. */
static int64_t find_later(const planner *p, int64_t at)
{
    const ft_action *a = &p->list[at];
    int64_t to = at;
    if (!ft_action_at_home(a) || is_awaited(p, a->stage)) return at;
    while (to + 1 < p->n && to < at + p->q->ahead) {
        const ft_action *b = &p->list[to + 1];
        if (b->stage == a->stage || b->batch != a->batch || !ft_action_per_micro(b->kind)) break;
        to++;
    }
    return to;
}

ft_status residency_put_off(planner *p, ft_error *err)
{
    int64_t *was = ft_arena_array(p->arena, p->n + 1, sizeof *was);
    int64_t *now = ft_arena_array(p->arena, p->n + 1, sizeof *now);
    if (!was || !now) return no_memory(err);
    for (int64_t at = 0; at < p->n; at++) was[at] = at;
    for (int64_t at = p->n - 1; at >= 0; at--) {
        const ft_action a = p->list[at];
        int64_t number = was[at], to = find_later(p, at);
        for (int64_t i = at; i < to; i++) {
            p->list[i] = p->list[i + 1];
            was[i] = was[i + 1];
        }
        p->list[to] = a;
        was[to] = number;
    }
    for (int64_t at = 0; at < p->n; at++) now[was[at]] = at;
    for (int64_t k = 0; k < p->n_stays; k++) {
        p->stays[k].begin = now[p->stays[k].begin];
        p->stays[k].end = now[p->stays[k].end];
    }
    return FT_OK;
}

/* -- loads ahead ------------------------------------------------------------------------------- */

/* Whether the action changes the item in host memory. */
static bool is_home_of(const planner *p, int64_t at, int number)
{
    const ft_action *a = &p->list[at];
    const item *i = &p->items[number];
    return ft_action_at_home(a) && a->stage == i->stage && i->class != FT_MEMORY_ACTIVATIONS;
}

ft_status residency_hoist(planner *p, ft_error *err)
{
    int64_t *there = ft_arena_array(p->arena, p->n + 1, sizeof *there);
    int64_t *gone = ft_arena_array(p->arena, p->n_items + 1, sizeof *gone);
    if (!there || !gone) return no_memory(err);
    for (int64_t k = 0; k < p->n_stays; k++)
        for (int64_t at = p->stays[k].begin; at <= p->stays[k].end; at++)
            there[at] += p->items[p->stays[k].item].bytes;
    for (int i = 0; i < p->n_items; i++) gone[i] = -1;
    for (int64_t k = 0; k < p->n_stays; k++) {
        stay *s = &p->stays[k];
        int64_t bytes = p->items[s->item].bytes, first = s->begin - p->q->ahead;
        for (; s->is_loaded && s->begin > 0 && s->begin > first; s->begin--) {
            int64_t at = s->begin - 1;
            if (is_home_of(p, at, s->item)) break;
            if (at <= gone[s->item] || there[at] + bytes > p->q->capacity[p->device]) break;
            there[at] += bytes;
        }
        gone[s->item] = s->end;
    }
    return FT_OK;
}
