/* plan/plan.c - the plan as a value: its actions, its lists, its end. */
#include "plan/making.h"
#include "plan/wires.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* -- actions ----------------------------------------------------------------------------------- */

const ft_action_row ft_action_rows[] = {
#define FT_ACTION_ROW(name, letter, word, scope, stream, item)                                     \
    {letter, word, FT_SCOPE_##scope, FT_STREAM_##stream, FT_ITEM_##item},
    FT_ACTION_LIST(FT_ACTION_ROW)
#undef FT_ACTION_ROW
};

const char *ft_action_word(ft_action_kind kind)
{
    return ft_action_rows[kind].word;
}

char ft_action_letter(ft_action_kind kind)
{
    return ft_action_rows[kind].letter;
}

enum {
    WEIGHTS = 1 << FT_MEMORY_WEIGHTS,
    GRADIENTS = 1 << FT_MEMORY_GRADIENTS,
    OPTIMIZER = 1 << FT_MEMORY_OPTIMIZER,
    PACKED = 1 << FT_MEMORY_PACKED,
    TURNED = 1 << FT_MEMORY_TURNED
};

bool ft_action_at_home(const ft_action *a)
{
    return a->kind == FT_ACT_UPDATE && a->item;
}

bool ft_action_leaves(const ft_action *a)
{
    return a->kind == FT_ACT_SWAP_OUT || a->kind == FT_ACT_DROP;
}

bool ft_action_moves(const ft_action *a)
{
    return ft_action_item(a->kind) == FT_ITEM_CLASS;
}

bool ft_tasks_go_back(const ft_tasks *tasks, int stage)
{
    return tasks->forward && tasks->forward[stage] == tasks->backward[stage];
}

unsigned ft_action_needs(const ft_action *a, bool again)
{
    static const unsigned needs[FT_ACT_COUNT] = {
        [FT_ACT_FORWARD] = WEIGHTS | PACKED,
        [FT_ACT_BACKWARD] = WEIGHTS | TURNED | GRADIENTS,
        [FT_ACT_REDUCE] = GRADIENTS,
        [FT_ACT_UPDATE] = WEIGHTS | PACKED | TURNED | GRADIENTS | OPTIMIZER,
        [FT_ACT_ADOPT] = WEIGHTS | PACKED | TURNED,
        [FT_ACT_BACKWARD_INPUT] = WEIGHTS | TURNED,
        [FT_ACT_BACKWARD_WEIGHT] = WEIGHTS | TURNED | GRADIENTS,
        [FT_ACT_RECOMPUTE] = WEIGHTS | PACKED,
        [FT_ACT_PREDICT] = WEIGHTS | OPTIMIZER,
        [FT_ACT_ATTENUATE] = WEIGHTS | OPTIMIZER | GRADIENTS,
        [FT_ACT_EXCHANGE] = GRADIENTS,
        [FT_ACT_MAKE] = WEIGHTS,
    };
    unsigned more = again && needs[a->kind] & TURNED ? PACKED : 0;
    return ft_action_at_home(a) ? 0 : needs[a->kind] | more;
}

unsigned ft_action_writes(const ft_action *a)
{
    static const unsigned writes[FT_ACT_COUNT] = {
        [FT_ACT_BACKWARD] = GRADIENTS,
        [FT_ACT_BACKWARD_WEIGHT] = GRADIENTS,
        [FT_ACT_REDUCE] = GRADIENTS,
        [FT_ACT_UPDATE] = WEIGHTS | PACKED | TURNED | OPTIMIZER,
        [FT_ACT_ADOPT] = WEIGHTS | PACKED | TURNED,
        [FT_ACT_ATTENUATE] = GRADIENTS,
    };
    if (a->kind == FT_ACT_MAKE) return 1U << a->item;
    return ft_action_at_home(a) ? 0 : writes[a->kind];
}

const char *ft_action_text(char text[FT_ACTION_TEXT], const ft_action *a)
{
    const ft_action_row *row = &ft_action_rows[a->kind];
    int used = snprintf(text, FT_ACTION_TEXT, "%c%d.%d", row->letter, a->stage, a->batch);
    if (row->scope == FT_SCOPE_MICRO)
        used += snprintf(text + used, FT_ACTION_TEXT - (size_t)used, ".%d", a->micro);
    if (row->item == FT_ITEM_EDGE || row->item == FT_ITEM_LAG)
        snprintf(text + used, FT_ACTION_TEXT - (size_t)used, ":%d", a->item);
    if (ft_action_at_home(a)) snprintf(text + used, FT_ACTION_TEXT - (size_t)used, ":host");
    if (row->item == FT_ITEM_CLASS && a->item >= 0 && a->item < FT_MEMORY_CLASSES)
        snprintf(text + used, FT_ACTION_TEXT - (size_t)used, ":%s",
                 ft_memory_classes[a->item].name);
    return text;
}

int64_t ft_action_index(const ft_plan *plan, const ft_action *a)
{
    if (!ft_action_per_micro(a->kind)) return a->batch;
    return (int64_t)a->batch * plan->micro_batches + a->micro;
}

ft_status ft_plan_at_line(int line, ft_error *err)
{
    static const char plan[] = "plan";
    if (!err) return FT_INVALID;
    ft_error old = *err;
    size_t begin = strlen(plan);
    if (line && !strncmp(old.message, plan, begin))
        ft_fail(err, old.status, "%s, line %d%s", plan, line, old.message + begin);
    return old.status;
}

/* -- what edges may be ---------------------------------------------------------------------------
 */

static bool kinds_join(ft_action_kind from, ft_action_kind to)
{
    static const ft_action_kind joins[][2] = {
        {FT_ACT_FORWARD, FT_ACT_FORWARD},
        {FT_ACT_BACKWARD, FT_ACT_BACKWARD},
        {FT_ACT_BACKWARD, FT_ACT_BACKWARD_INPUT},
        {FT_ACT_BACKWARD_INPUT, FT_ACT_BACKWARD},
        {FT_ACT_REDUCE, FT_ACT_REDUCE},
        {FT_ACT_REDUCE, FT_ACT_UPDATE},
        {FT_ACT_REDUCE, FT_ACT_TAKE_NORMS},
        {FT_ACT_UPDATE, FT_ACT_ADOPT},
        {FT_ACT_BACKWARD_INPUT, FT_ACT_BACKWARD_INPUT},
        {FT_ACT_EXCHANGE, FT_ACT_REDUCE},
    };
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++)
        if (joins[i][0] == from && joins[i][1] == to) return true;
    return false;
}

/* What the replicas of a stage pass to each other. */
static bool joins_replicas(const ft_edge *e)
{
    return e->from_kind != e->to_kind && !ft_action_per_micro(e->from_kind);
}

ft_status ft_edge_check(const ft_edge *e, int number, int n_stages, ft_error *err)
{
    bool inside = e->from >= 0 && e->from < n_stages && e->to >= 0 && e->to < n_stages;
    if (!inside || (e->from == e->to && !joins_replicas(e)))
        return ft_fail(err, FT_INVALID,
                       "edge %d goes from stage %d to stage %d, expected two different ones of %d",
                       number, e->from, e->to, n_stages);
    if (!kinds_join(e->from_kind, e->to_kind))
        return ft_fail(
            err, FT_INVALID,
            "edge %d joins action kind %d to %d, expected F to F, B or I to B or I, X to "
            "R, R to R, R to U, R to N or U to W",
            number, (int)e->from_kind, (int)e->to_kind);
    if (e->slots < 1 || e->slots > FT_PLAN_MAX_SLOTS)
        return ft_fail(err, FT_INVALID, "edge %d has %d slots, expected 1 to %d", number, e->slots,
                       FT_PLAN_MAX_SLOTS);
    if (e->bytes < 0)
        return ft_fail(err, FT_INVALID, "edge %d has %lld bytes, expected 0 or more", number,
                       (long long)e->bytes);
    return FT_OK;
}

bool ft_plan_name_ok(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return n > 0 && n < sizeof((ft_plan *)0)->schedule && !name[n];
}

/* -- life ----------------------------------------------------------------------------------------
 */

ft_plan *ft_plan_new(void)
{
    ft_arena *arena = ft_arena_new();
    if (!arena) return NULL;
    ft_plan *plan = ft_arena_alloc(arena, sizeof *plan);
    if (!plan) {
        ft_arena_free(arena);
        return NULL;
    }
    plan->arena = arena;
    return plan;
}

void ft_plan_free(ft_plan *plan)
{
    if (plan) ft_arena_free(plan->arena);
}

ft_status ft_plan_annotate(ft_plan *plan, int n_nodes, const int *node_stage, const bool *recompute,
                           const int64_t (*memory)[FT_MEMORY_CLASSES], ft_error *err)
{
    if (n_nodes < 0 || n_nodes > FT_PLAN_MAX_NODES)
        return ft_fail(err, FT_INVALID, "plan: %d nodes, expected 0 to %d", n_nodes,
                       FT_PLAN_MAX_NODES);
    for (int i = 0; node_stage && i < n_nodes; i++)
        if (node_stage[i] < 0 || node_stage[i] >= plan->n_stages)
            return ft_fail(err, FT_INVALID, "plan: node %d is in stage %d of %d", i, node_stage[i],
                           plan->n_stages);
    int *stages = NULL;
    bool *recomputes = NULL;
    int64_t(*bytes)[FT_MEMORY_CLASSES] = NULL;
    if (node_stage && !(stages = ft_arena_copy(plan->arena, node_stage, n_nodes, sizeof(int))))
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d nodes", n_nodes);
    if (recompute &&
        !(recomputes = ft_arena_copy(plan->arena, recompute, plan->n_stages, sizeof(bool))))
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d stages", plan->n_stages);
    if (memory && !(bytes = ft_arena_copy(plan->arena, memory, plan->n_devices, sizeof *memory)))
        return ft_fail(err, FT_NOMEM, "plan: no memory for %d devices", plan->n_devices);
    if (stages) {
        plan->n_nodes = n_nodes;
        plan->node_stage = stages;
    }
    if (recomputes) plan->recompute = recomputes;
    if (bytes) plan->memory = (const int64_t(*)[FT_MEMORY_CLASSES])bytes;
    return FT_OK;
}

/* -- what the lists say --------------------------------------------------------------------------
 */

/* Widens least to most by the lags of the list, whose batches are `later` ones in the end. */
static void widen_lags(const ft_action_list *list, int stage, int64_t later, int from_batch,
                       int *least, int *most)
{
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (a->stage != stage || a->kind != FT_ACT_FORWARD || a->batch + later < from_batch)
            continue;
        if (*least < 0 || a->lag < *least) *least = a->lag;
        if (a->lag > *most) *most = a->lag;
    }
}

void ft_plan_staleness(const ft_plan *plan, int stage, int from_batch, int *least, int *most)
{
    int64_t later = (int64_t)(plan->body_repeats - 1) * plan->body_batches;
    *least = *most = -1;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        widen_lags(&lists->warmup, stage, 0, from_batch, least, most);
        if (plan->body_repeats) widen_lags(&lists->body, stage, later, from_batch, least, most);
        widen_lags(&lists->drain, stage, 0, from_batch, least, most);
    }
}

/* Adds up the lags of the list's forwards from a batch on; returns how many they are. */
static int64_t sum_lags(const ft_action_list *list, int stage, int from_batch, int64_t *sum)
{
    int64_t n = 0;
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (a->stage != stage || a->kind != FT_ACT_FORWARD || a->batch < from_batch) continue;
        *sum += a->lag;
        n++;
    }
    return n;
}

static void find_lags(const ft_action_list *list, int stage, int *by_micro)
{
    for (int i = 0; i < list->n; i++) {
        const ft_action *a = &list->actions[i];
        if (a->stage == stage && a->kind == FT_ACT_FORWARD) by_micro[a->micro] = a->lag;
    }
}

void ft_plan_lags(const ft_plan *plan, int stage, int *by_micro)
{
    for (int m = 0; m < plan->micro_batches; m++) by_micro[m] = 0;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        find_lags(&lists->warmup, stage, by_micro);
        if (plan->body_repeats)
            find_lags(&lists->body, stage, by_micro);
        else
            find_lags(&lists->drain, stage, by_micro);
    }
}

static bool predicts(const ft_action_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (list->actions[i].kind == FT_ACT_PREDICT) return true;
    return false;
}

bool ft_plan_reads_newest(const ft_plan *plan)
{
    for (int s = 0; s < plan->n_stages; s++)
        if (plan->versions[s] > 1) return false;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *p = &plan->devices[d];
        if (predicts(&p->warmup) || predicts(&p->body) || predicts(&p->drain)) return false;
    }
    return true;
}

double ft_plan_mean_staleness(const ft_plan *plan, int stage)
{
    int64_t n = 0, sum = 0;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        if (plan->body_repeats) {
            n += sum_lags(&lists->body, stage, 0, &sum);
            continue;
        }
        n += sum_lags(&lists->warmup, stage, plan->n_batches / 2, &sum);
        n += sum_lags(&lists->drain, stage, plan->n_batches / 2, &sum);
    }
    return n ? (double)sum / (double)n : 0;
}

int ft_plan_norm_lag(const ft_plan *plan, int stage)
{
    int taken = 0, most = 0;
    ft_cursor at;
    if (!ft_plan_has(plan, stage, FT_ACT_TAKE_NORMS)) return 0;
    for (ft_cursor_begin(&at, plan, plan->device[stage]); at.more; ft_cursor_step(&at)) {
        if (at.now.stage != stage) continue;
        taken += at.now.kind == FT_ACT_TAKE_NORMS;
        int lag = at.now.batch + 1 - taken;
        if (at.now.kind == FT_ACT_UPDATE && lag > most) most = lag;
    }
    return most;
}

/* -- lists ---------------------------------------------------------------------------------------
 */

int64_t ft_plan_length(const ft_plan *plan, int device)
{
    const ft_device_plan *d = &plan->devices[device];
    return d->warmup.n + (int64_t)d->body.n * plan->body_repeats + d->drain.n;
}

ft_action ft_plan_at(const ft_plan *plan, int device, int64_t i)
{
    const ft_device_plan *d = &plan->devices[device];
    if (i < d->warmup.n) return d->warmup.actions[i];
    i -= d->warmup.n;
    int64_t in_body = (int64_t)d->body.n * plan->body_repeats;
    if (i >= in_body) return d->drain.actions[i - in_body];
    ft_action a = d->body.actions[i % d->body.n];
    a.batch += (int32_t)(i / d->body.n) * plan->body_batches;
    return a;
}

static const ft_action_list *list_of(const ft_device_plan *lists, int part)
{
    return part == FT_PART_WARMUP ? &lists->warmup
           : part == FT_PART_BODY ? &lists->body
                                  : &lists->drain;
}

const ft_action_list *ft_plan_list(const ft_plan *plan, int device, ft_part part)
{
    return list_of(&plan->devices[device], (int)part);
}

bool ft_plan_has(const ft_plan *plan, int stage, ft_action_kind kind)
{
    for (int d = 0; d < plan->n_devices; d++)
        for (int part = 0; part < FT_PARTS; part++) {
            const ft_action_list *list = ft_plan_list(plan, d, part);
            for (int i = 0; i < list->n; i++)
                if (list->actions[i].stage == stage && list->actions[i].kind == kind) return true;
        }
    return false;
}

ft_action_kind ft_plan_last(const ft_plan *plan, int stage)
{
    if (plan->forward_only) return FT_ACT_FORWARD;
    bool halves = ft_plan_has(plan, stage, FT_ACT_BACKWARD_WEIGHT);
    return halves ? FT_ACT_BACKWARD_WEIGHT : FT_ACT_BACKWARD;
}

static const ft_action_list *part_list(const ft_cursor *c)
{
    return list_of(c->lists, c->part);
}

static void take_action(ft_cursor *c, const ft_action_list *list)
{
    c->now = list->actions[c->at];
    c->line = list->lines ? list->lines[c->at] : 0;
    if (c->part == FT_PART_BODY)
        c->now.batch = (int32_t)(c->now.batch + (int64_t)c->repetition * c->body_batches);
}

/* Moves over the ends of lists to the next action, if there is one. */
static void cursor_settle(ft_cursor *c)
{
    while (c->at >= part_list(c)->n ||
           (c->part == FT_PART_BODY && c->repetition >= c->body_repeats)) {
        if (c->part == FT_PART_BODY && c->lists->body.n && ++c->repetition < c->body_repeats)
            c->at = 0;
        else if (c->part < FT_PART_DRAIN) {
            c->part++;
            c->at = 0;
        } else {
            c->more = false;
            return;
        }
    }
    take_action(c, part_list(c));
}

void ft_cursor_begin(ft_cursor *c, const ft_plan *plan, int device)
{
    *c = (ft_cursor){.lists = &plan->devices[device],
                     .body_batches = plan->body_batches,
                     .body_repeats = plan->body_repeats,
                     .more = true};
    cursor_settle(c);
}

void ft_cursor_step(ft_cursor *c)
{
    enum { AHEAD = 4 }; /* by the time it is taken, other devices have had their turns */
    const ft_action_list *list = part_list(c);
    if (c->at + 1 + AHEAD < list->n) __builtin_prefetch(&list->actions[c->at + 1 + AHEAD]);
    if (++c->at < list->n)
        take_action(c, list);
    else
        cursor_settle(c);
}
