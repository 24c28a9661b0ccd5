/* planfile/write.c - a plan as text.
 *
 * Lines of words. The first is "ftpipe-plan 1"; '#' begins a comment. The order of the writer:
 *
 *   schedule NAME             the rule it came from; information only
 *   stages N
 *   devices N
 *   micro-batches N           of a batch
 *   batches N                 of the leg
 *   body-batches N            batches by which a repetition of the body differs from the next
 *   body-repeats N            0: there is no body
 *   forward-only              the leg evaluates; absent from plans for training
 *   stage S device D[,D...] [depth N] [in-flight N] [versions N] [replicas RULE]
 *     [reduce-bytes N] [recompute] [joint N]
 *                             on one line; devices of the replicas; RULE round-robin or block;
 *                             depth and in-flight, when left out, are what edges and lists give;
 *                             forwards of N micro-batches are one pass
 *   edge F0>F1 bytes N slots N [after N]
 *                             letters of the actions and stages; numbered as they stand; an edge
 *                             after another takes the place of that one when it is free
 *   order D policy            device D chooses among what is ready; else it follows its list
 *   nodes N
 *   node-stage S*N ...        the stage of each node: N nodes of stage S
 *   memory D CLASS N ...      bytes on device D of classes of base/memory_class.h
 *   warm-up D ACTION ...      what device D does, in this order; a line goes on with the line
 *   body D ACTION ...         before it of the same word and device
 *   drain D ACTION ...
 *
 * ACTION is letter, stage, '.', batch, and where it is per micro-batch '.', micro-batch: F0.3.2;
 * F0.3.2-5 is F0.3.2 F0.3.3 F0.3.4 F0.3.5. Behind ':' stands the edge of an S or V and the memory
 * class of an O, L or D: S0.3.2:1, O0.3.2:activations; U0.3:host works in host memory. A lag that
 * is not 0 stands at the end: F0.3.2~1. Batches are those of the leg, in the body those of its
 * first repetition. parse.c reads it back. */
#include "planfile/planfile.h"
#include "plan/making.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_WIDTH = 96 };

/* A line that goes on with the same beginning when it is full. */
typedef struct line {
    ft_text *text;
    const char *word;
    int number;    /* after the word; negative: none */
    int64_t begin; /* length of the text where the line begins; -1: not begun */
} line;

static void line_end(line *l)
{
    if (l->begin >= 0) ft_text_add(l->text, "\n");
    l->begin = -1;
}

static void line_add(line *l, const char *item)
{
    if (l->begin >= 0 && l->text->length - l->begin + (int64_t)strlen(item) >= LINE_WIDTH)
        line_end(l);
    if (l->begin < 0) {
        l->begin = l->text->length;
        ft_text_add(l->text, "%s", l->word);
        if (l->number >= 0) ft_text_add(l->text, " %d", l->number);
    }
    ft_text_add(l->text, " %s", item);
}

static void write_stage(const ft_plan *p, int s, ft_text *text)
{
    int first = p->replica_first[s], n = p->replica_first[s + 1] - first;
    ft_text_add(text, "stage %d device", s);
    for (int i = 0; i < n; i++)
        ft_text_add(text, "%c%d", i ? ',' : ' ', p->replica_device[first + i]);
    ft_text_add(text, " depth %d in-flight %d", p->depth[s], p->in_flight[s]);
    if (p->versions[s] != 1) ft_text_add(text, " versions %d", p->versions[s]);
    if (n > 1) ft_text_add(text, " replicas %s", ft_replica_rule_name(p->replica_rule[s]));
    if (p->reduce_bytes[s]) ft_text_add(text, " reduce-bytes %" PRId64, p->reduce_bytes[s]);
    if (p->recompute[s]) ft_text_add(text, " recompute");
    if (p->joint[s] > 1) ft_text_add(text, " joint %d", p->joint[s]);
    ft_text_add(text, "\n");
}

static void write_head(const ft_plan *p, ft_text *text)
{
    ft_text_add(text, "ftpipe-plan 1\n");
    if (p->schedule[0]) ft_text_add(text, "schedule %s\n", p->schedule);
    ft_text_add(text, "stages %d\ndevices %d\nmicro-batches %d\nbatches %d\n", p->n_stages,
                p->n_devices, p->micro_batches, p->n_batches);
    ft_text_add(text, "body-batches %d\nbody-repeats %d\n%s\n", p->body_batches, p->body_repeats,
                p->forward_only ? "forward-only\n" : "");
    for (int s = 0; s < p->n_stages; s++) write_stage(p, s, text);
    for (int e = 0; e < p->n_edges; e++) {
        const ft_edge *edge = &p->edges[e];
        ft_text_add(text, "edge %c%d>%c%d bytes %" PRId64 " slots %d",
                    ft_action_letter(edge->from_kind), edge->from, ft_action_letter(edge->to_kind),
                    edge->to, edge->bytes, edge->slots);
        if (edge->after) ft_text_add(text, " after %d", edge->after - 1);
        ft_text_add(text, "\n");
    }
    for (int d = 0; d < p->n_devices; d++)
        if (p->by_policy[d]) ft_text_add(text, "order %d policy\n", d);
}

static void write_nodes(const ft_plan *p, ft_text *text)
{
    line l = {.text = text, .word = "node-stage", .number = -1, .begin = -1};
    ft_text_add(text, "\nnodes %d\n", p->n_nodes);
    for (int i = 0, run; i < p->n_nodes; i += run) {
        char item[32];
        for (run = 1; i + run < p->n_nodes && p->node_stage[i + run] == p->node_stage[i];) run++;
        snprintf(item, sizeof item, "%d*%d", p->node_stage[i], run);
        line_add(&l, item);
    }
    line_end(&l);
}

static void write_memory(const ft_plan *p, ft_text *text)
{
    ft_text_add(text, "\n");
    for (int d = 0; d < p->n_devices; d++) {
        ft_text_add(text, "memory %d", d);
        for (int c = 0; c < FT_MEMORY_CLASSES; c++)
            ft_text_add(text, " %s %" PRId64, ft_memory_classes[c].name, p->memory[d][c]);
        ft_text_add(text, "\n");
    }
}

/* Actions from `first` on that one item can name. */
static int count_run(const ft_action_list *list, int first)
{
    const ft_action *a = &list->actions[first];
    int n = 1;
    for (; ft_action_per_micro(a->kind) && first + n < list->n; n++) {
        const ft_action *b = &list->actions[first + n];
        if (b->kind != a->kind || b->stage != a->stage || b->batch != a->batch ||
            b->lag != a->lag || b->item != a->item || b->micro != a->micro + n)
            break;
    }
    return n;
}

static void write_list(const char *word, int device, const ft_action_list *list, ft_text *text)
{
    line l = {.text = text, .word = word, .number = device, .begin = -1};
    for (int i = 0, run; i < list->n; i += run) {
        const ft_action *a = &list->actions[i];
        char item[FT_ACTION_TEXT + 32];
        run = count_run(list, i);
        char name[FT_ACTION_TEXT];
        const char *colon = strchr(ft_action_text(name, a), ':');
        int begin = colon ? (int)(colon - name) : (int)strlen(name);
        int used = snprintf(item, sizeof item, "%.*s", begin, name);
        if (run > 1)
            used += snprintf(item + used, sizeof item - (size_t)used, "-%d", a->micro + run - 1);
        used += snprintf(item + used, sizeof item - (size_t)used, "%s", name + begin);
        if (a->lag) snprintf(item + used, sizeof item - (size_t)used, "~%d", a->lag);
        line_add(&l, item);
        if (a->kind == FT_ACT_UPDATE) line_end(&l); /* a line per batch, where stages do not mix */
    }
    line_end(&l);
}

ft_status ft_plan_write(const ft_plan *plan, ft_text *text, ft_error *err)
{
    int64_t stored = 0;
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        stored += (int64_t)lists->warmup.n + lists->body.n + lists->drain.n;
    }
    if (stored > FT_PLAN_MAX_STORED)
        return ft_fail(err, FT_UNSUPPORTED,
                       "plan: %lld actions that do not repeat are too long a text, at most %d",
                       (long long)stored, FT_PLAN_MAX_STORED);
    write_head(plan, text);
    if (plan->n_nodes) write_nodes(plan, text);
    if (plan->memory) write_memory(plan, text);
    for (int d = 0; d < plan->n_devices; d++) {
        ft_text_add(text, "\n");
        write_list("warm-up", d, &plan->devices[d].warmup, text);
        write_list("body", d, &plan->devices[d].body, text);
        write_list("drain", d, &plan->devices[d].drain, text);
    }
    if (text->failed) return ft_fail(err, FT_NOMEM, "plan: no memory for its text");
    return FT_OK;
}
