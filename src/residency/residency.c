/* residency/residency.c - loads, saves and drops for an order of work.
 *
 * First the stays: walking down a device's list, what an action needs is brought, and where there
 * is no room, what is needed furthest in the future goes, at once after its last use (Belady's
 * rule; with sizes and costs of saving it is a heuristic). Then loads are moved up to `ahead`
 * actions forward, as far as there is room all the way. A leg is planned with as many batches as
 * its pattern needs to repeat, which the rest then follows. */
#include "residency/residency.h"

#include <stdio.h>

#include "plan/making.h"

enum { MOST_ACTIONS = 1 << 20, SPAN = 12 }; /* a multiple of every period that a fold may have */

/* A class of a stage. */
typedef struct item {
    int stage, class;
    int64_t bytes;
    int64_t next; /* in `uses` of the device: its first use that is not behind us */
    int stay;     /* the one that is open; -1: not on the device */
    bool is_dirty, is_dead;
} item;

/* From the action before which it is brought to the one behind which it leaves. */
typedef struct stay {
    int item;
    int64_t begin, end;          /* first and last use; begin may move forward */
    bool is_loaded;              /* else its first use makes it */
    bool is_saved;               /* else dropped */
    int from_batch, until_batch; /* of the moves */
} stay;

typedef struct use {
    int64_t at;
    int item;
    int64_t later; /* number of the next use of the item; -1: none */
} use;

typedef struct planner {
    const ft_residency *q;
    const ft_plan *plan;
    ft_arena *arena;
    int device;
    ft_action *list;
    int64_t n;
    item *items; /* by stage and class */
    int n_items;
    use *uses;          /* of all actions, in their order */
    int64_t *first_use; /* by action, and one more */
    stay *stays;
    int64_t n_stays;
    int64_t used; /* bytes of open stays */
} planner;

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "residency: no memory");
}

/* -- uses -------------------------------------------------------------------------------------- */

/* Whether the stage's weights are used by `user` in place. */
static bool lends(const ft_plan *p, int stage, int user)
{
    for (int e = 0; e < p->n_edges; e++) {
        const ft_edge *edge = &p->edges[e];
        if (edge->from == stage && edge->to == user && edge->to_kind == FT_ACT_ADOPT)
            return p->device[stage] == p->device[user];
    }
    return false;
}

/* Items that the action needs, into out; returns how many. */
static int needs_of(const planner *p, const ft_action *a, int *out)
{
    unsigned needs = ft_action_needs(a->kind);
    int n = 0;
    for (int c = 0; c < FT_MEMORY_CLASSES; c++)
        if (needs >> c & 1 && p->items[a->stage * FT_MEMORY_CLASSES + c].bytes)
            out[n++] = a->stage * FT_MEMORY_CLASSES + c;
    if (!(needs >> FT_MEMORY_WEIGHTS & 1) || a->kind == FT_ACT_UPDATE) return n;
    for (int s = 0; s < p->plan->n_stages; s++)
        if (p->items[s * FT_MEMORY_CLASSES].bytes && s != a->stage && lends(p->plan, s, a->stage))
            out[n++] = s * FT_MEMORY_CLASSES + FT_MEMORY_WEIGHTS;
    return n;
}

static ft_status find_uses(planner *p, ft_error *err)
{
    int64_t n = 0;
    int *needs = ft_arena_array(p->arena, p->n_items + 1, sizeof *needs);
    int64_t *last = ft_arena_array(p->arena, p->n_items + 1, sizeof *last);
    p->first_use = ft_arena_array(p->arena, p->n + 1, sizeof *p->first_use);
    if (!needs || !last || !p->first_use) return no_memory(err);
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
            p->uses[n] = (use){i, needs[j], -1};
            if (last[needs[j]] >= 0)
                p->uses[last[needs[j]]].later = n;
            else
                p->items[needs[j]].next = n;
            last[needs[j]] = n;
        }
    }
    p->first_use[p->n] = n;
    return FT_OK;
}

/* -- stays ------------------------------------------------------------------------------------- */

static void close_stay(planner *p, item *i)
{
    p->stays[i->stay].is_saved = i->is_dirty && !i->is_dead;
    p->used -= i->bytes;
    i->is_dirty = false;
    i->stay = -1;
}

static bool is_needed(const planner *p, int number, int64_t at)
{
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++)
        if (p->uses[u].item == number) return true;
    return false;
}

/* What goes: needed furthest in the future, for what leaving and coming again costs; -1: none may.
 */
static int find_victim(const planner *p, int64_t at)
{
    int best = -1;
    double most = -1;
    for (int k = 0; k < p->n_items; k++) {
        const item *i = &p->items[k];
        if (i->stay < 0 || is_needed(p, k, at)) continue;
        bool again = i->next >= 0;
        double far = again ? (double)(p->uses[i->next].at - at) : (double)p->n;
        int cost = (i->is_dirty && !i->is_dead) + (again && !i->is_dead);
        double score = cost ? far / cost : 2.0 * (double)p->n;
        if (score <= most) continue;
        most = score;
        best = k;
    }
    return best;
}

static ft_status report_need(const planner *p, int64_t at, ft_error *err)
{
    char text[256] = "", name[FT_ACTION_TEXT];
    int64_t bytes = 0;
    size_t used = 0;
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++) {
        const item *i = &p->items[p->uses[u].item];
        bytes += i->bytes;
        if (used < sizeof text)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%s %.1f MB", used ? ", " : "",
                                 ft_memory_classes[i->class].name, (double)i->bytes / 1e6);
    }
    return ft_fail(err, FT_INFEASIBLE,
                   "device %d: %s alone needs %.1f MB of what may move (%s), %.1f MB are left for "
                   "that: cut the model into more stages",
                   p->device, ft_action_text(name, &p->list[at]), (double)bytes / 1e6, text,
                   (double)p->q->capacity[p->device] / 1e6);
}

static ft_status bring(planner *p, int number, int64_t at, ft_error *err)
{
    item *i = &p->items[number];
    while (p->used + i->bytes > p->q->capacity[p->device]) {
        int victim = find_victim(p, at);
        if (victim < 0) return report_need(p, at, err);
        close_stay(p, &p->items[victim]);
    }
    bool made = i->class == FT_MEMORY_GRADIENTS && i->is_dead;
    i->stay = (int)p->n_stays;
    p->stays[p->n_stays++] = (stay){.item = number, .begin = at, .end = at, .is_loaded = !made};
    p->stays[i->stay].from_batch = p->list[at].batch;
    p->used += i->bytes;
    return FT_OK;
}

static ft_status pass(planner *p, int64_t at, ft_error *err)
{
    const ft_action *a = &p->list[at];
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++)
        p->items[p->uses[u].item].next = p->uses[u].later;
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++) {
        item *i = &p->items[p->uses[u].item];
        if (i->stay < 0) FT_TRY(bring(p, p->uses[u].item, at, err));
        stay *s = &p->stays[i->stay];
        s->end = at;
        if (a->batch < s->from_batch) s->from_batch = a->batch;
        if (i->stage == a->stage && ft_action_writes(a->kind) >> i->class & 1) {
            i->is_dirty = true;
            i->is_dead = false;
        }
    }
    item *gradients = &p->items[a->stage * FT_MEMORY_CLASSES + FT_MEMORY_GRADIENTS];
    if (a->kind != FT_ACT_UPDATE || gradients->stay < 0) return FT_OK;
    gradients->is_dead = true; /* the next backward makes them anew */
    close_stay(p, gradients);
    return FT_OK;
}

/* -- loads ahead ------------------------------------------------------------------------------- */

/* Moves loads forward, the earliest first, where what is there leaves room. */
static ft_status hoist(planner *p, ft_error *err)
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
            if (at <= gone[s->item] || there[at] + bytes > p->q->capacity[p->device]) break;
            there[at] += bytes;
        }
        gone[s->item] = s->end;
    }
    return FT_OK;
}

/* -- the list ---------------------------------------------------------------------------------- */

static void note(ft_volume *v, const item *i, ft_action_kind kind)
{
    if (kind == FT_ACT_SWAP_IN) v->in[i->class] += i->bytes;
    if (kind == FT_ACT_SWAP_OUT) v->out[i->class] += i->bytes;
    *(kind == FT_ACT_SWAP_IN ? &v->loads : kind == FT_ACT_SWAP_OUT ? &v->saves : &v->drops) += 1;
}

static ft_action move_of(const item *i, ft_action_kind kind, int batch)
{
    return (ft_action){.kind = (uint16_t)kind,
                       .stage = (int16_t)i->stage,
                       .item = (int16_t)i->class,
                       .batch = batch};
}

/* Stays by a moment of theirs: numbers[first[at]] ... are those of action `at`. */
typedef struct index {
    int64_t *first, *numbers;
} index;

static ft_status index_stays(planner *p, index *out, bool by_end, ft_error *err)
{
    int64_t *first = ft_arena_array(p->arena, p->n + 2, sizeof *first);
    int64_t *numbers = ft_arena_array(p->arena, p->n_stays + 1, sizeof *numbers);
    if (!first || !numbers) return no_memory(err);
    for (int64_t k = 0; k < p->n_stays; k++)
        first[(by_end ? p->stays[k].end : p->stays[k].begin) + 1]++;
    for (int64_t at = 0; at < p->n; at++) first[at + 1] += first[at];
    for (int64_t k = p->n_stays - 1; k >= 0; k--) {
        int64_t at = by_end ? p->stays[k].end : p->stays[k].begin;
        numbers[--first[at + 1]] = k;
    }
    /* each bound has moved to where its own begin; shift it back */
    for (int64_t at = 0; at < p->n; at++) first[at] = first[at + 1];
    first[p->n] = p->n_stays;
    *out = (index){first, numbers};
    return FT_OK;
}

/* A move away has the batch of something that still comes, or of what brought it: a leg that leaves
 * out one leaves out the other. */
static ft_status label(planner *p, ft_error *err)
{
    int *least = ft_arena_array(p->arena, p->n + 1, sizeof *least);
    if (!least) return no_memory(err);
    least[p->n] = 0;
    for (int64_t at = p->n - 1; at >= 0; at--) {
        least[at] = p->list[at].batch;
        if (at + 1 < p->n && least[at + 1] < least[at]) least[at] = least[at + 1];
    }
    for (int64_t k = 0; k < p->n_stays; k++) {
        stay *s = &p->stays[k];
        s->until_batch = least[s->end + 1] > s->from_batch ? least[s->end + 1] : s->from_batch;
        if (s->end + 1 == p->n) s->until_batch = s->from_batch;
    }
    return FT_OK;
}

static ft_status write_list(planner *p, ft_action_list *out, ft_volume *v, ft_error *err)
{
    index begins, ends;
    int64_t n = 0;
    FT_TRY(label(p, err));
    FT_TRY(index_stays(p, &begins, false, err));
    FT_TRY(index_stays(p, &ends, true, err));
    ft_action *to = ft_arena_array(p->arena, p->n + 2 * p->n_stays + 1, sizeof *to);
    if (!to) return no_memory(err);
    for (int64_t at = 0; at < p->n; at++) {
        for (int64_t k = begins.first[at]; k < begins.first[at + 1]; k++) {
            const stay *s = &p->stays[begins.numbers[k]];
            if (!s->is_loaded) continue;
            to[n++] = move_of(&p->items[s->item], FT_ACT_SWAP_IN, s->from_batch);
            note(v, &p->items[s->item], FT_ACT_SWAP_IN);
        }
        to[n++] = p->list[at];
        for (int64_t k = ends.first[at]; k < ends.first[at + 1]; k++) {
            const stay *s = &p->stays[ends.numbers[k]];
            ft_action_kind kind = s->is_saved ? FT_ACT_SWAP_OUT : FT_ACT_DROP;
            to[n++] = move_of(&p->items[s->item], kind, s->until_batch);
            note(v, &p->items[s->item], kind);
        }
    }
    *out = (ft_action_list){.n = (int)n, .actions = to};
    return FT_OK;
}

/* -- a device ---------------------------------------------------------------------------------- */

/* The planner with the device's list and items; *all gets the bytes of these. */
static ft_status begin(planner *p, int64_t *all, ft_error *err)
{
    const ft_plan *plan = p->plan;
    p->n = ft_plan_length(plan, p->device);
    p->n_items = plan->n_stages * FT_MEMORY_CLASSES;
    p->list = ft_arena_array(p->arena, p->n + 1, sizeof *p->list);
    p->items = ft_arena_array(p->arena, p->n_items, sizeof *p->items);
    if (!p->list || !p->items) return no_memory(err);
    for (int64_t i = 0; i < p->n; i++) p->list[i] = ft_plan_at(plan, p->device, i);
    for (int i = 0; i < p->n_items; i++) {
        int s = i / FT_MEMORY_CLASSES, c = i % FT_MEMORY_CLASSES;
        int64_t bytes = plan->device[s] == p->device ? p->q->bytes[s][c] : 0;
        p->items[i] = (item){s, c, bytes, -1, -1, false, c == FT_MEMORY_GRADIENTS};
        *all += bytes;
    }
    return FT_OK;
}

static ft_status plan_device(const ft_residency *q, const ft_plan *plan, int d, ft_arena *arena,
                             ft_action_list *out, ft_volume *v, ft_error *err)
{
    planner p = {.q = q, .plan = plan, .arena = arena, .device = d};
    int64_t all = 0;
    FT_TRY(begin(&p, &all, err));
    *v = (ft_volume){.loads = 0};
    *out = (ft_action_list){.n = (int)p.n, .actions = p.list};
    if (all <= q->capacity[d]) return FT_OK; /* everything stays */
    FT_TRY(find_uses(&p, err));
    for (int64_t at = 0; at < p.n; at++) FT_TRY(pass(&p, at, err));
    for (int i = 0; i < p.n_items; i++)
        if (p.items[i].stay >= 0) close_stay(&p, &p.items[i]);
    FT_TRY(hoist(&p, err));
    return write_list(&p, out, v, err);
}

/* -- a plan ------------------------------------------------------------------------------------ */

static ft_status check_request(const ft_residency *q, ft_error *err)
{
    const ft_plan *p = q->plan;
    for (int d = 0; d < p->n_devices; d++)
        if (p->by_policy[d])
            return ft_fail(err, FT_UNSUPPORTED,
                           "device %d chooses its order by policy: what it needs next is not known",
                           d);
    for (int s = 0; s < p->n_stages; s++)
        if (p->replica_first[s + 1] - p->replica_first[s] > 1)
            return ft_fail(err, FT_UNSUPPORTED, "stage %d has replicas, which do not swap yet", s);
    return FT_OK;
}

/* Plans `n` batches; false in *repeats when there are more and these do not repeat. */
static ft_status plan_batches(ft_plan **out, const ft_residency *q, int n, ft_volume *volumes,
                              bool *repeats, ft_arena *arena, ft_error *err)
{
    ft_plan *plan = NULL;
    ft_fold f;
    int64_t length = 0;
    FT_TRY(ft_plan_cut(&plan, q->plan, n, err));
    ft_action_list *lists = ft_arena_array(arena, plan->n_devices, sizeof *lists);
    ft_status status = lists ? FT_OK : no_memory(err);
    for (int d = 0; d < plan->n_devices; d++) length += ft_plan_length(plan, d);
    if (status == FT_OK && length > MOST_ACTIONS)
        status = ft_fail(err, FT_UNSUPPORTED,
                         "residency: an order of %lld actions that does not repeat is too long",
                         (long long)length);
    for (int d = 0; d < plan->n_devices && status == FT_OK; d++)
        status = plan_device(q, plan, d, arena, &lists[d], &volumes[d], err);
    if (status == FT_OK) status = ft_fold_find(&f, arena, plan->n_devices, lists, err);
    int later = q->plan->n_batches - n;
    *repeats = !later || (status == FT_OK && f.repeats && later % f.batches == 0);
    plan->n_batches += later;
    if (status == FT_OK && *repeats && !ft_fold_write(plan, lists, &f, later))
        status = no_memory(err);
    if (status == FT_OK && *repeats)
        *out = plan;
    else
        ft_plan_free(plan);
    return status;
}

static void add_times(int64_t *to, int64_t by, int64_t times)
{
    *to += by * times;
}

/* What is copied by a list that is executed so often. */
static bool add_list(ft_volume *v, const ft_action_list *list, int64_t times,
                     const int64_t (*bytes)[FT_MEMORY_CLASSES])
{
    ft_volume once = {.loads = 0};
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (ft_action_item(a->kind) != FT_ITEM_CLASS) continue;
        const item moved = {.class = a->item, .bytes = bytes[a->stage][a->item]};
        note(&once, &moved, a->kind);
    }
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        add_times(&v->in[c], once.in[c], times);
        add_times(&v->out[c], once.out[c], times);
    }
    add_times(&v->loads, once.loads, times);
    add_times(&v->saves, once.saves, times);
    add_times(&v->drops, once.drops, times);
    return once.loads + once.saves + once.drops > 0;
}

bool ft_plan_volumes(const ft_plan *plan, const int64_t (*bytes)[FT_MEMORY_CLASSES],
                     ft_volume *volumes)
{
    bool any = false;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        volumes[d] = (ft_volume){.loads = 0};
        any |= add_list(&volumes[d], &lists->warmup, 1, bytes);
        any |= add_list(&volumes[d], &lists->body, plan->body_repeats, bytes);
        any |= add_list(&volumes[d], &lists->drain, 1, bytes);
    }
    return any;
}

ft_status ft_residency_plan(ft_plan **out, const ft_residency *q, ft_volume *volumes, ft_error *err)
{
    *out = NULL;
    FT_TRY(check_request(q, err));
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(err);
    int all = q->plan->n_batches, n = SPAN * (2 + q->plan->n_stages / SPAN) + all % SPAN;
    bool repeats = false;
    ft_status status = FT_OK;
    if (n < all) status = plan_batches(out, q, n, volumes, &repeats, arena, err);
    if (status == FT_OK && !repeats)
        status = plan_batches(out, q, all, volumes, &repeats, arena, err);
    if (status == FT_OK) ft_plan_volumes(*out, q->bytes, volumes);
    ft_arena_free(arena);
    return status;
}

ft_status ft_residency_least(const ft_residency *q, int64_t *least, ft_error *err)
{
    ft_arena *arena = ft_arena_new();
    ft_plan *one = NULL;
    ft_status status = arena ? ft_plan_cut(&one, q->plan, 1, err) : no_memory(err);
    for (int d = 0; status == FT_OK && d < one->n_devices; d++) {
        planner p = {.q = q, .plan = one, .arena = arena, .device = d};
        int64_t all = 0;
        status = begin(&p, &all, err);
        if (status == FT_OK) status = find_uses(&p, err);
        least[d] = 0;
        for (int64_t at = 0; status == FT_OK && at < p.n; at++) {
            int64_t bytes = 0;
            for (int64_t u = p.first_use[at]; u < p.first_use[at + 1]; u++)
                bytes += p.items[p.uses[u].item].bytes;
            if (bytes > least[d]) least[d] = bytes;
        }
    }
    ft_plan_free(one);
    ft_arena_free(arena);
    return status;
}
