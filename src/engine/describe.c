/* engine/describe.c - what a leg is doing, for people: who waits for whom, and what happened last.
 *
 * All of it is read while workers go on: what they publish is atomic, and an event is written
 * before it is counted. Its times are those of who submitted it until the device has told its own,
 * which a reader may see half of: they are for people. Devices of other processes are known by what
 * these have told. */
#include <stdio.h>

#include "base/clock.h"
#include "engine/internal.h"

/* The device that a need waits for; -1: who feeds batches. */
static int giver_of(const ft_run *run, const need *n)
{
    if (n->what == FT_WAIT_BATCH) return -1;
    const ft_blueprint *b = run->blueprint;
    const ft_edge *edge = &b->edges[n->at.edge];
    bool filled_here = n->at.row == FT_ROW_USED, freed_there = n->at.row == FT_ROW_MADE;
    if (n->what == FT_WAIT_DATA) return b->seats[filled_here ? edge->to : edge->from].device;
    return b->seats[freed_there ? edge->from : edge->to].device;
}

/* A tensor by its name, or by what makes it: "layer_norm of encoder/block.0/ff". */
static void add_value(const ft_graph *g, ft_value_id id, ft_text *text)
{
    const ft_value *value = ft_graph_value(g, id);
    if (value->kind != FT_VALUE_NODE) {
        ft_text_add(text, "%s", value->name);
        return;
    }
    const ft_node *node = ft_graph_node(g, value->source);
    ft_text_add(text, "%s", node->op->name);
    if (node->scope[0]) ft_text_add(text, " of %s", node->scope);
}

/* "add of encoder/block.0 and 2 more, 16384 bytes", or what an edge without data is for. */
static void add_cargo(const ft_run *run, int e, ft_text *text)
{
    const ft_blueprint *b = run->blueprint;
    const ft_cargo *c = &b->cargoes[e];
    const ft_graph *g = b->cut.graphs[0];
    if (c->kind == FT_CARGO_NOTHING || !c->n) {
        ft_text_add(text, "order alone");
        return;
    }
    if (c->kind == FT_CARGO_VALUES)
        add_value(g, c->items[0], text);
    else if (c->kind == FT_CARGO_TERMS)
        ft_text_add(text, "gradient of %s",
                    b->params[ft_graph_grad_term(g, c->items[0])->param].name);
    else
        ft_text_add(text, "%s", b->params[c->items[0]].name);
    if (c->n > 1) ft_text_add(text, " and %d more", c->n - 1);
    ft_text_add(text, ", %lld bytes", (long long)b->edges[e].bytes);
}

static void add_need(const ft_run *run, const need *n, const ft_action *a, ft_text *text)
{
    if (n->what == FT_WAIT_BATCH) {
        ft_text_add(text, "batch %d to be fed", a->batch);
        return;
    }
    int number = edge_of_plan(run, n->at.edge);
    const ft_edge *edge = &run->blueprint->plan_edges[number];
    ft_text_add(text, "%s edge %d, %c%d>%c%d (",
                n->what == FT_WAIT_DATA ? "data of" : "a free slot of", number,
                ft_action_letter(edge->from_kind), edge->from, ft_action_letter(edge->to_kind),
                edge->to);
    add_cargo(run, n->at.edge, text);
    ft_text_add(text, "), by %s", run->blueprint->cut.devices[giver_of(run, n)].name);
}

/* The action that the device is at; false when it has none left. */
static bool action_of(const ft_run *run, int device, ft_action *a)
{
    int64_t position = atomic_load(&run->workers[device].passed);
    if (position >= run->workers[device].length) return false;
    *a = ft_seated(&run->blueprint->seating, device, ft_plan_at(run->plan, device, position));
    return !action_is_left_out(run, a);
}

/* The first need that is not met, which the device's worker is held up by; false without one. What
 * holds up a device of another process is known there. */
static bool first_need(const ft_run *run, int device, need *out)
{
    ft_action a;
    if (!is_here(run, device) || !action_of(run, device, &a)) return false;
    for (int i = 0; nth_need(run, &a, i, out); i++)
        if (!is_met(out)) return true;
    return false;
}

/* A device of another process, which has told how far it is behind each batch. */
static void add_distant(const ft_run *run, int d, ft_text *text)
{
    const worker *w = &run->workers[d];
    const ft_device *device = &run->blueprint->cut.devices[d];
    int64_t passed = atomic_load(&w->passed);
    if (passed < w->length)
        ft_text_add(text, "%s: action %lld of %lld when rank %d last told\n", device->name,
                    (long long)passed, (long long)w->length, device->rank);
}

static void add_device(const ft_run *run, int d, ft_text *text)
{
    const worker *w = &run->workers[d];
    ft_action a;
    need n;
    if (!action_of(run, d, &a)) return;
    double seconds =
        (double)(ft_now_ns() - atomic_load_explicit(&w->since_ns, memory_order_relaxed)) / 1e9;
    ft_text_add(text, "%s: action %lld of %lld, %s of stage %d, batch %d, micro-batch %d, ",
                run->blueprint->cut.devices[d].name, (long long)atomic_load(&w->passed),
                (long long)w->length, ft_action_word(a.kind), run->blueprint->seats[a.seat].stage,
                a.batch, a.micro);
    bool waits = false;
    for (int i = 0; nth_need(run, &a, i, &n); i++) {
        if (is_met(&n)) continue;
        ft_text_add(text, "%s ", waits ? ";" : "waits for");
        add_need(run, &n, &a, text);
        waits = true;
    }
    ft_text_add(text, "%s, for %.1f s\n", waits ? "" : "at work", seconds);
}

void tell_rest(void *user, char out[FT_AT_WORDS])
{
    const ft_run *run = user;
    int s = 0;
    while (s < run->n_seats && !seat_is_here(run, s)) s++;
    if (s == run->n_seats) return;
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    snprintf(out, FT_AT_WORDS, "stage %d on %s: nothing, until the next leg", seat->stage,
             run->blueprint->cut.devices[seat->device].name);
}

void tell_work(void *user, char out[FT_AT_WORDS])
{
    const ft_run *run = user;
    ft_action a;
    for (int d = 0; d < run->n_devices; d++) {
        if (!is_here(run, d) || !action_of(run, d, &a)) continue;
        snprintf(out, FT_AT_WORDS, "stage %d on %s: %s of batch %d, micro-batch %d, of %s",
                 run->blueprint->seats[a.seat].stage, run->blueprint->cut.devices[d].name,
                 ft_action_word(a.kind), a.batch, a.micro,
                 run->plan->forward_only ? "an evaluation" : "training");
        return;
    }
    tell_rest(user, out);
}

/* The device that holds this one up; -1: none does. */
static int next_device(const ft_run *run, int device)
{
    need n;
    return first_need(run, device, &n) ? giver_of(run, &n) : -1;
}

/* Whether the device is in a circle of which it is the first. */
static bool leads_circle(const ft_run *run, int device)
{
    int at = device;
    for (int i = 0; i < run->n_devices; i++) {
        at = next_device(run, at);
        if (at < device) return false; /* none, or one that leads it */
        if (at == device) return true;
    }
    return false;
}

ft_status ft_run_describe(const ft_run *run, ft_text *text, ft_error *err)
{
    for (int d = 0; run->active && d < run->n_devices; d++)
        (is_here(run, d) ? add_device : add_distant)(run, d, text);
    for (int d = 0; run->active && d < run->n_devices; d++) {
        if (!leads_circle(run, d)) continue;
        ft_text_add(text, "in a circle: %s", run->blueprint->cut.devices[d].name);
        int at = d;
        for (int i = 0; i < run->n_devices && at >= 0; i++) {
            at = next_device(run, at); /* -1: it went on meanwhile */
            if (at >= 0) ft_text_add(text, " waits for %s", run->blueprint->cut.devices[at].name);
            if (at == d) break;
        }
        ft_text_add(text, "\n");
    }
    return text->failed ? ft_fail(err, FT_NOMEM, "engine: no memory for a description") : FT_OK;
}

/* -- the past ---------------------------------------------------------------------------------- */

static void add_event(const ft_run *run, const ft_event *e, ft_text *text)
{
    char name[FT_ACTION_TEXT];
    ft_action a = {.kind = e->kind, .stage = e->stage, .batch = e->batch, .micro = e->micro};
    if (ft_action_item(e->kind) == FT_ITEM_CLASS) a.item = e->class;
    if (ft_action_item(e->kind) == FT_ITEM_EDGE) a.item = (int16_t)e->edge;
    ft_text_add(text, "  %s from %.3f to %.3f ms", ft_action_text(name, &a),
                (double)e->start_ns / 1e6, (double)e->end_ns / 1e6);
    if (e->wait != FT_WAIT_NOTHING) ft_text_add(text, ", waited for %s", ft_wait_word(e->wait));
    if (e->wait == FT_WAIT_DATA || e->wait == FT_WAIT_SLOT) {
        const ft_edge *edge = &run->blueprint->plan_edges[e->edge];
        ft_text_add(text, " of %c%d>%c%d", ft_action_letter(edge->from_kind), edge->from,
                    ft_action_letter(edge->to_kind), edge->to);
    }
    ft_text_add(text, "\n");
}

ft_status ft_run_describe_past(const ft_run *run, int n, ft_text *text, ft_error *err)
{
    static const char *const streams[FT_STREAM_COUNT] = {"", ", copies in", ", copies out"};
    for (int d = 0; run->active && d < run->n_devices; d++)
        for (int k = 0; k < FT_STREAM_COUNT; k++) {
            const worker *w = &run->workers[d];
            int64_t end = atomic_load_explicit(&w->n_events[k], memory_order_acquire);
            if (!is_here(run, d) || (!end && k != FT_STREAM_COMPUTE)) continue;
            int64_t from = end > n ? end - n : 0;
            ft_text_add(text, "%s%s, the last %lld of %lld:\n", run->blueprint->cut.devices[d].name,
                        streams[k], (long long)(end - from), (long long)end);
            for (int64_t i = from; i < end; i++) add_event(run, &w->events[k][i], text);
        }
    return text->failed ? ft_fail(err, FT_NOMEM, "engine: no memory for a description") : FT_OK;
}
