/* slots/turns.c - which edges take turns in one place, and in what order. */
#include "slots/slots.h"

#include <string.h>

#include "plan/wires.h"
#include "proof/proof.h"

static ft_status no_memory(ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "turns: no memory for edges");
}

/* -- sharing ----------------------------------------------------------------------------------- */

/* Edges that may share a place: of one kind, between replicas on the same devices. */
typedef struct group {
    ft_action_kind from_kind, to_kind;
    int stage;       /* one of them */
    int n, *members; /* in the order of work */
    int open;        /* whose item is made and not used; -1: none */
} group;

typedef struct search {
    const ft_plan *plan;
    ft_seating shares;
    int n_groups;
    group *groups;
    int *of; /* by edge: its group; -1: none */
} search;

/* Whether it carries something between replicas of a stage whose devices follow their lists. */
static bool may_share(const ft_plan *p, const ft_edge *e)
{
    if (e->from != e->to || !e->bytes) return false;
    for (int i = p->replica_first[e->from]; i < p->replica_first[e->from + 1]; i++)
        if (p->by_policy[p->replica_device[i]]) return false;
    return true;
}

static int find_group(search *q, const ft_edge *e)
{
    for (int g = 0; g < q->n_groups; g++) {
        const group *known = &q->groups[g];
        if (known->from_kind == e->from_kind && known->to_kind == e->to_kind &&
            ft_seats_together(&q->shares, known->stage, e->from))
            return g;
    }
    q->groups[q->n_groups] = (group){e->from_kind, e->to_kind, e->from, 0, NULL, -1};
    return q->n_groups++;
}

static ft_status find_groups(search *q, ft_arena *arena, ft_error *err)
{
    const ft_plan *p = q->plan;
    q->of = ft_arena_array(arena, p->n_edges + 1, sizeof *q->of);
    q->groups = ft_arena_array(arena, p->n_edges + 1, sizeof *q->groups);
    int *members = ft_arena_array(arena, p->n_edges + 1, sizeof *members);
    if (!q->of || !q->groups || !members) return no_memory(err);
    for (int e = 0; e < p->n_edges; e++) {
        q->of[e] = may_share(p, &p->edges[e]) ? find_group(q, &p->edges[e]) : -1;
        if (q->of[e] >= 0) q->groups[q->of[e]].n++;
    }
    for (int g = 0; g < q->n_groups; g++) {
        q->groups[g].members = members;
        members += q->groups[g].n;
        q->groups[g].n = 0;
    }
    return FT_OK;
}

/* What the first replica does in the first batch: an edge whose item is used before another of its
 * group is made is a member. */
static void note_action(search *q, const ft_wires *w, const ft_action *a)
{
    int spot = ft_spot_of(a->stage, a->kind);
    for (int i = w->in_first[spot]; i < w->in_first[spot + 1]; i++) {
        int e = w->in[i];
        group *g = q->of[e] < 0 ? NULL : &q->groups[q->of[e]];
        if (g && g->open == e) g->members[g->n++] = e;
        if (g && g->open == e) g->open = -1;
    }
    for (int i = w->out_first[spot]; i < w->out_first[spot + 1]; i++)
        if (q->of[w->out[i]] >= 0) q->groups[q->of[w->out[i]]].open = w->out[i];
}

static ft_status find_members(search *q, ft_arena *arena, ft_error *err)
{
    const ft_plan *p = q->plan;
    bool *seen = ft_arena_array(arena, p->n_devices, sizeof *seen);
    ft_wires *w;
    ft_cursor at;
    if (!seen) return no_memory(err);
    FT_TRY(ft_wires_new(&w, arena, &q->shares, p->n_edges, p->edges, err));
    for (int g = 0; g < q->n_groups; g++) {
        int device = p->device[q->groups[g].stage];
        if (seen[device]) continue;
        seen[device] = true;
        for (ft_cursor_begin(&at, p, device); at.more; ft_cursor_step(&at))
            if (at.now.batch == 0 && p->device[at.now.stage] == device) note_action(q, w, &at.now);
    }
    return FT_OK;
}

/* One after the other; *shared: whether the plan completes with that. */
static ft_status try_group(const search *q, const group *g, ft_plan *with, ft_edge *edges,
                           bool *shared, ft_error *err)
{
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(err);
    for (int i = 0; i < g->n; i++) {
        edges[g->members[i]].slots = 1;
        edges[g->members[i]].after = i ? g->members[i - 1] + 1 : 0;
    }
    with->edges = edges;
    ft_status status = ft_plan_walk(with, &q->shares, 0, arena, err);
    ft_arena_free(arena);
    *shared = status == FT_OK;
    if (!*shared)
        for (int i = 0; i < g->n; i++) edges[g->members[i]] = q->plan->edges[g->members[i]];
    return status == FT_INFEASIBLE ? FT_OK : status;
}

static ft_status share(search *q, ft_arena *arena, ft_edge *edges, int *n, ft_error *err)
{
    ft_plan with = *q->plan;
    FT_TRY(ft_seating_of_plan(&q->shares, arena, q->plan, err));
    FT_TRY(find_groups(q, arena, err));
    FT_TRY(find_members(q, arena, err));
    for (int g = 0; g < q->n_groups; g++) {
        bool shared = false;
        if (q->groups[g].n < 2) continue;
        FT_TRY(try_group(q, &q->groups[g], &with, edges, &shared, err));
        *n += shared ? q->groups[g].n - 1 : 0;
    }
    return FT_OK;
}

ft_status ft_turns_share(const ft_plan *plan, ft_edge *edges, int *shared, ft_error *err)
{
    search q = {.plan = plan};
    ft_arena *arena = ft_arena_new();
    if (!arena) return no_memory(err);
    *shared = 0;
    ft_status status = share(&q, arena, edges, shared, err);
    ft_arena_free(arena);
    return status;
}

/* -- edges between replicas -------------------------------------------------------------------- */

/* Of two replicas, what takes turns between them. */
typedef struct pair {
    int whose, n;
    int64_t bytes;
} pair;

/* Edges that share places, by what of the plan they belong to. */
typedef struct sharing {
    ft_turn *turns;
    int n;
    const ft_plan *plan;
    ft_turns chain;
    int *first_of; /* by edge of the plan: of its own; -1: none */
    pair *pairs;   /* by replica of its maker and of its user */
    int most;      /* replicas of a stage */
} sharing;

static pair *pair_of(const sharing *s, const ft_turn *t)
{
    const ft_edge *e = &s->plan->edges[t->edge];
    int maker = t->from - s->plan->replica_first[e->from];
    return &s->pairs[(int64_t)maker * s->most + t->to - s->plan->replica_first[e->to]];
}

static bool is_of(const sharing *s, int i, int edge)
{
    return i >= 0 && i < s->n && s->turns[i].edge == edge;
}

/* Of edges of the plan that share a place, from the first on: counts, then gives what it found. */
static void take_chain(const sharing *s, int first)
{
    for (int k = first; k >= 0; k = s->chain.next[k])
        for (int i = s->first_of[k]; is_of(s, i, k); i++) {
            ft_turn *t = &s->turns[i];
            pair *p = pair_of(s, t);
            t->number = p->n++;
            if (!t->number || i < p->whose) p->whose = i;
            if (t->bytes > p->bytes) p->bytes = t->bytes;
        }
    for (int k = first; k >= 0; k = s->chain.next[k])
        for (int i = s->first_of[k]; is_of(s, i, k); i++) {
            ft_turn *t = &s->turns[i];
            const pair *p = pair_of(s, t);
            t->whose = p->whose;
            t->of = p->n;
            t->bytes = p->bytes;
        }
}

ft_status ft_turns_take(ft_turn *turns, int n, const ft_plan *plan, ft_arena *arena, ft_error *err)
{
    sharing s = {.turns = turns, .n = n, .plan = plan};
    FT_TRY(ft_turns_link(&s.chain, arena, plan->n_edges, plan->edges, err));
    if (!s.chain.first) return FT_OK;
    for (int k = 0; k < plan->n_stages; k++) {
        int replicas = plan->replica_first[k + 1] - plan->replica_first[k];
        if (replicas > s.most) s.most = replicas;
    }
    int64_t n_pairs = (int64_t)s.most * s.most;
    s.first_of = ft_arena_array(arena, plan->n_edges, sizeof *s.first_of);
    s.pairs = ft_arena_array(arena, n_pairs, sizeof *s.pairs);
    if (!s.first_of || !s.pairs) return no_memory(err);
    for (int e = 0; e < plan->n_edges; e++) s.first_of[e] = -1;
    for (int i = n - 1; i >= 0; i--) s.first_of[turns[i].edge] = i;
    for (int e = 0; e < plan->n_edges; e++) {
        if (s.chain.first[e] != e || s.chain.next[e] < 0) continue;
        memset(s.pairs, 0, (size_t)n_pairs * sizeof *s.pairs);
        take_chain(&s, e);
    }
    return FT_OK;
}
