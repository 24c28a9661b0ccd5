/* test/edited_plans.h - plans of the chain of test/engine_case.h that move more than they did. */
#ifndef FT_TEST_EDITED_PLANS_H
#define FT_TEST_EDITED_PLANS_H

#include <stdio.h>
#include <string.h>

#include "engine_case.h"
#include "fit/fit.h"
#include "planfile/planfile.h"
#include "proof/proof.h"

/* What is added to a plan: nothing; swaps of all that may leave a device, or of all that moves as a
 * whole so that nothing is there but what the action needs; likewise, with updates in host memory;
 * an S and a V for what passes between forwards and backwards, or one of them. Or what the planner
 * of residency adds: as little memory as there can be, or all leaves with its task; both also with
 * updates in host memory. */
typedef enum {
    AS_IT_IS,
    SWAPS,
    TIGHT,
    HOME,
    PASSES,
    SENDS,
    RECEIVES,
    LEAST,
    TASKS,
    LEAST_HOME,
    TASKS_HOME
} edit;

typedef struct action {
    char kind;
    int stage, batch, micro; /* micro -1: per batch */
    const char *lag;         /* "~1" */
} action;

typedef struct editor {
    edit how;
    ft_text out;
    char edges[32][2][2]; /* by edge, then maker and user: letter and digit of its stage */
    int n_edges;
} editor;

static inline void add_action(ft_text *out, const action *a)
{
    ft_text_add(out, " %c%d.%d", a->kind, a->stage, a->batch);
    if (a->micro >= 0) ft_text_add(out, ".%d", a->micro);
    ft_text_add(out, "%s", a->lag);
}

/* Everything that may leave a device does, as soon as it is not needed: activations between forward
 * and backward, gradients and optimizer state between batches, and between all actions the weights
 * of stage 2, which no other stage shares. */
static inline void add_swapped(ft_text *out, action a)
{
    int stage = a.stage, batch = a.batch;
    bool weights = stage == 2 && a.kind != 'R';
    if (weights) ft_text_add(out, " L2.%d.0:weights", batch);
    if (a.kind == 'B' && a.micro == 0) ft_text_add(out, " L%d.%d.0:gradients", stage, batch);
    if (a.kind == 'B') ft_text_add(out, " L%d.%d.%d:activations", stage, batch, a.micro);
    if (a.kind == 'U') ft_text_add(out, " L%d.%d.0:optimizer", stage, batch);
    add_action(out, &a);
    if (a.kind == 'F') ft_text_add(out, " O%d.%d.%d:activations", stage, batch, a.micro);
    if (weights) ft_text_add(out, " %c2.%d.0:weights", a.kind == 'U' ? 'O' : 'D', batch);
    if (a.kind == 'U')
        ft_text_add(out, " O%d.%d.0:gradients O%d.%d.0:optimizer", stage, batch, stage, batch);
}

/* Stage 1 has no weights of its own, on one device: it uses those of stage 0. */
static inline void add_tight(ft_text *out, action a, bool home)
{
    if (home && a.kind == 'U' && a.stage != 1) {
        ft_text_add(out, " U%d.%d:host", a.stage, a.batch);
        return;
    }
    int s = a.stage, b = a.batch;
    bool update = a.kind == 'U', weights = a.kind != 'R', first = a.kind == 'B' && a.micro == 0;
    static const char *const copies[] = {"packed", "turned"};
    if (weights) ft_text_add(out, " L%d.%d.0:weights", s == 1 ? 0 : s, b);
    for (int i = 0; weights && i < 2; i++) ft_text_add(out, " L%d.%d.0:%s", s, b, copies[i]);
    if (update) ft_text_add(out, " L%d.%d.0:optimizer", s, b);
    if (a.kind == 'R' || update || (a.kind == 'B' && !first))
        ft_text_add(out, " L%d.%d.0:gradients", s, b);
    add_action(out, &a);
    char leaves = update || a.kind == 'W' ? 'O' : 'D';
    if (weights) ft_text_add(out, " %c%d.%d.0:weights", s == 1 ? 'D' : leaves, s == 1 ? 0 : s, b);
    for (int i = 0; weights && i < 2; i++)
        ft_text_add(out, " %c%d.%d.0:%s", leaves, s, b, copies[i]);
    if (update) ft_text_add(out, " O%d.%d.0:optimizer D%d.%d.0:gradients", s, b, s, b);
    if (a.kind == 'R' || a.kind == 'B') ft_text_add(out, " O%d.%d.0:gradients", s, b);
}

/* S (end 0) or V (end 1) of the edges that the action is the maker or user of. */
static inline void add_copies(editor *e, const action *a, int end)
{
    if (!a || a->micro < 0 || e->how == (end ? SENDS : RECEIVES)) return;
    for (int i = 0; i < e->n_edges; i++)
        if (e->edges[i][end][0] == a->kind && e->edges[i][end][1] == '0' + a->stage)
            ft_text_add(&e->out, " %c%d.%d.%d:%d", "SV"[end], a -> stage, a -> batch, a -> micro,
                        i);
}

static inline bool are_alike(const action *a, const action *b)
{
    return a->kind == b->kind && a->stage == b->stage;
}

/* Between equal actions that follow each other: the next one receives before this one works, and
 * the one before sends after it. */
static inline void add_passed(editor *e, const action *list, int n, int i)
{
    bool follows = i > 0 && are_alike(&list[i - 1], &list[i]);
    bool goes_on = i + 1 < n && are_alike(&list[i], &list[i + 1]);
    if (!follows) add_copies(e, &list[i], 1);
    if (goes_on) add_copies(e, &list[i + 1], 1);
    add_action(&e->out, &list[i]);
    if (follows) add_copies(e, &list[i - 1], 0);
    if (!goes_on) add_copies(e, &list[i], 0);
}

/* "warm-up 0 F0.0.0-1 B0.0.0 ...". */
static inline void edit_list(editor *e, char *line)
{
    action list[256];
    int n = 0;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
        const char *lag = strchr(word, '~');
        action a = {.kind = *word, .micro = -1, .lag = lag ? lag : ""};
        int last, numbers = sscanf(word + 1, "%d.%d.%d-%d", &a.stage, &a.batch, &a.micro, &last);
        if (numbers < 2) ft_text_add(&e->out, "%s ", word);
        for (int m = a.micro; numbers >= 2 && m <= (numbers == 4 ? last : a.micro); m++) {
            a.micro = m;
            if (n < 256) list[n++] = a;
        }
    }
    for (int i = 0; i < n; i++) {
        if (e->how == SWAPS)
            add_swapped(&e->out, list[i]);
        else if (e->how == TIGHT || e->how == HOME)
            add_tight(&e->out, list[i], e->how == HOME);
        else
            add_passed(e, list, n, i);
    }
    ft_text_add(&e->out, "\n");
}

/* The numbers in flight are left to the lists. */
static inline void edit_line(editor *e, char *line)
{
    static const char *const lists[] = {"warm-up ", "body ", "drain "};
    char *flight = strstr(line, " in-flight"), *rest = flight ? strchr(flight + 11, ' ') : NULL;
    char ends[2][2];
    for (int i = 0; i < 3; i++)
        if (strncmp(line, lists[i], strlen(lists[i])) == 0) {
            edit_list(e, line);
            return;
        }
    if (sscanf(line, "edge %c%c>%c%c", &ends[0][0], &ends[0][1], &ends[1][0], &ends[1][1]) == 4)
        memcpy(e->edges[e->n_edges++], ends, sizeof ends);
    if (flight)
        ft_text_add(&e->out, "%.*s%s\n", (int)(flight - line), line, rest ? rest : "");
    else
        ft_text_add(&e->out, "%s\n", line);
}

static inline ft_status edit_plan(pipeline *p, edit how, ft_error *err)
{
    ft_text text = {0};
    editor e = {.how = how};
    FT_TRY(pipeline_plan(p, err));
    ft_status status = ft_plan_write(p->plan, &text, err);
    ft_plan_free(p->plan);
    p->plan = NULL;
    for (char *line = text.data, *end; status == FT_OK && *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        edit_line(&e, line);
    }
    if (status == FT_OK) status = ft_plan_parse(&p->plan, e.out.data, err);
    if (status == FT_OK) status = ft_plan_check(p->plan, err);
    ft_text_fini(&text);
    ft_text_fini(&e.out);
    return status;
}

/* The plan with the moves of the planner of residency. */
static inline ft_status fit_plan(pipeline *p, edit how, ft_error *err)
{
    const int64_t spare[MOST_DEVICES] = {0};
    const ft_fit fit = {.least = true,
                        .spare = spare,
                        .classes = ~0U,
                        .tasks = p->tasks,
                        .scope = how == TASKS || how == TASKS_HOME ? FT_SCOPE_GROUP : FT_SCOPE_PLAN,
                        .updates_at_home = how >= LEAST_HOME};
    ft_blueprint *b = NULL;
    ft_plan *moved = NULL;
    FT_TRY(pipeline_draw(&b, p, err));
    ft_status status = ft_fit_plan(&moved, b, &fit, err);
    ft_blueprint_free(b);
    if (status != FT_OK) return status;
    ft_plan_free(p->plan);
    p->plan = moved;
    return ft_plan_check(moved, err);
}

#endif
