/* edges/channels.c - edges to devices of other processes that do not pass host memory: met, passed
 * along, given up. */
#include "edges/channels.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "blueprint/states.h"
#include "state/here.h"

/* What the ends say to each other before there is a channel. */
typedef struct hello {
    ft_channel_name name;
    ft_error error;
} hello;

static worker *end_here(const ft_run *run, int e, bool sends)
{
    const ft_blueprint *b = run->blueprint;
    const ft_edge *edge = &b->edges[e];
    return &run->workers[b->seats[sends ? edge->from : edge->to].device];
}

/* -- meeting ----------------------------------------------------------------------------------- */

static void say(const ft_run *run, int e, int tag, const hello *h)
{
    ft_world_send(run->world, run->edges[e].peer, tag, h, sizeof *h, true);
}

/* *got: whether it came within that time. */
static ft_status hear(const ft_run *run, int tag, int64_t timeout_ns, hello *h, bool *got,
                      ft_error *err)
{
    ft_letter letter;
    FT_TRY(ft_world_take(run->world, tag, timeout_ns, &letter, got, err));
    if (!*got) return FT_OK;
    memcpy(h, letter.data, sizeof *h);
    ft_world_drop(run->world, &letter);
    return FT_OK;
}

/* The receiver's name for the channel. mine->error: why this end is to have none; h->error: the
 * other one. */
static ft_status agree(const ft_run *run, int e, int tag, bool sends, hello *mine, hello *h,
                       ft_error *err)
{
    const ft_driver *driver = end_here(run, e, sends)->executor->driver;
    bool got;
    if (mine->error.status == FT_OK && !sends)
        driver->name_channel(driver, &mine->name, &mine->error);
    say(run, e, tag, mine);
    FT_TRY(hear(run, tag, -1, h, &got, err));
    if (sends) mine->name = h->name;
    return FT_OK;
}

/* Until both ends are open, or one is not to be: mine->error, h->error. */
static ft_status meet(ft_run *run, int e, int tag, bool sends, hello *mine, hello *h, ft_error *err)
{
    enum { LOOK_NS = 200000 };
    const worker *w = end_here(run, e, sends);
    const ft_driver *driver = w->executor->driver;
    edge_state *edge = &run->edges[e];
    bool open = false, got = false;
    driver->open_channel(&edge->channel, w->executor, &mine->name, sends, &mine->error);
    while (mine->error.status == FT_OK && !open && !got) {
        driver->look_at_channel(edge->channel, &open, &mine->error);
        if (!open) FT_TRY(hear(run, tag, LOOK_NS, h, &got, err));
    }
    say(run, e, tag, mine);
    return got ? FT_OK : hear(run, tag, -1, h, &got, err);
}

/* The other one may say that it is open before this one sees it. */
static ft_status see_open(const ft_run *run, ft_channel *channel, ft_error *failure, ft_error *err)
{
    bool open = false;
    while (!open && failure->status == FT_OK) {
        FT_TRY(ft_world_health(run->world, err));
        channel->executor->driver->look_at_channel(channel, &open, failure);
        if (!open) usleep(100);
    }
    return FT_OK;
}

static ft_status open_lane(ft_run *run, int e, ft_error *err)
{
    ft_executor *x = end_here(run, e, false)->executor;
    row_state *row = &run->edges[e].rows[FT_ROW_EDGE];
    int n = run->blueprint->cargoes[e].rows[FT_ROW_EDGE].n;
    run->edges[e].passes = ft_arena_array(run->arena, n, sizeof *run->edges[e].passes);
    if (!run->edges[e].passes) return ft_fail(err, FT_NOMEM, "engine: no memory for a channel");
    for (int i = 0; i < n; i++) FT_TRY(x->driver->open_event(&row->full[i], x, err));
    return x->driver->open_stream(&run->edges[e].lane, x, FT_FOR_COPIES, err);
}

/* Of a run that needs a channel. */
static ft_status refuse(const ft_error *why, ft_error *err)
{
    return ft_fail(err, FT_UNSUPPORTED,
                   "transport nccl: %.600s; transport auto goes by way of the host then",
                   why->message);
}

ft_status channel_check(const ft_driver *driver, ft_error *err)
{
    ft_channel_name name;
    ft_error why;
    return driver->name_channel(driver, &name, &why) == FT_OK ? FT_OK : refuse(&why, err);
}

/* Why there is no channel, of this end or else of the other one, where that is no failure. Of a
 * failure rank 0 hears from whose it is, so that who is named has it. */
static void give_up(const ft_run *run, int e, bool sends, const hello *mine, const hello *h,
                    ft_error *failure)
{
    ft_executor *x = end_here(run, e, sends)->executor;
    bool here = mine->error.status != FT_OK;
    if (run->transport == FT_CHANNELS_OR_FAIL) {
        if (!here || failure->status != FT_OK) return;
        refuse(&mine->error, failure);
        if (run->rank == 0) ft_world_name(run->world, 0, failure);
        return;
    }
    if (!x->remark[0])
        snprintf(x->remark, sizeof x->remark,
                 "what passes to or from rank %d goes by way of the host: %.190s",
                 run->edges[e].peer, here ? mine->error.message : h->error.message);
}

ft_status channel_open(ft_run *run, int e, int tag, bool sends, ft_error *failure, ft_error *err)
{
    ft_executor *x = end_here(run, e, sends)->executor;
    edge_state *edge = &run->edges[e];
    hello mine = {.error = *failure}, h;
    FT_TRY(agree(run, e, tag, sends, &mine, &h, err));
    if (mine.error.status == FT_OK && h.error.status == FT_OK)
        FT_TRY(meet(run, e, tag, sends, &mine, &h, err));
    if (mine.error.status == FT_OK && h.error.status == FT_OK) {
        FT_TRY(see_open(run, edge->channel, failure, err));
        if (!sends && failure->status == FT_OK) open_lane(run, e, failure);
        return FT_OK;
    }
    if (edge->channel) x->driver->cut_channel(edge->channel);
    channel_close(edge);
    edge->channel = NULL;
    give_up(run, e, sends, &mine, &h, failure);
    return FT_OK;
}

void channel_close(const edge_state *edge)
{
    if (edge->lane) edge->lane->executor->driver->close_stream(edge->lane);
    if (edge->channel) edge->channel->executor->driver->close_channel(edge->channel);
}

/* -- passing ----------------------------------------------------------------------------------- */

ft_status channel_send(const worker *w, ft_device_stream *stream, int e, const void *memory,
                       int64_t bytes, ft_error *err)
{
    return w->executor->driver->pass(stream, w->run->edges[e].channel, (void *)(uintptr_t)memory,
                                     bytes, err);
}

/* Terms, and weights with the state behind them, pass one by one, as they are at the sender. */
static ft_status receive_items(const ft_run *run, int e, char *slot, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const ft_cargo *c = &b->cargoes[e];
    const edge_state *edge = &run->edges[e];
    const ft_driver *driver = edge->channel->executor->driver;
    bool terms = c->kind == FT_CARGO_TERMS;
    for (int k = 0; k < c->n; k++) {
        int item = c->items[k];
        int p = terms ? ft_graph_grad_term(b->cut.graphs[0], item)->param : item;
        int64_t bytes = ft_spec_bytes(&b->params[p].spec);
        char *at = slot + c->at[k];
        FT_TRY(driver->pass(edge->lane, edge->channel, at, bytes, err));
        if (terms || !ft_blueprint_with_state(b, e)) continue;
        FT_TRY(driver->pass(edge->lane, edge->channel, at + ft_memory_round(bytes),
                            ft_blueprint_state_bytes(b, p), err));
    }
    return FT_OK;
}

ft_status channel_receive(ft_run *run, int e, int64_t index, char *slot, int64_t bytes,
                          ft_error *err)
{
    const ft_cargo *c = &run->blueprint->cargoes[e];
    const edge_state *edge = &run->edges[e];
    const ft_driver *driver = edge->channel->executor->driver;
    int n = c->rows[FT_ROW_EDGE].n;
    ft_device_event *empty = run->edges[c->slots_of].rows[FT_ROW_EDGE].empty[index % n];
    if (index >= n) FT_TRY(driver->wait(edge->lane, empty, err));
    driver->occupy(edge->lane, slot, ft_place_room(c->slot_bytes));
    if (c->kind == FT_CARGO_VALUES)
        FT_TRY(driver->pass(edge->lane, edge->channel, slot, bytes, err));
    else
        FT_TRY(receive_items(run, e, slot, err));
    return record_on(edge->lane, edge->rows[FT_ROW_EDGE].full[index % n], err);
}

/* -- giving up --------------------------------------------------------------------------------- */

ft_status channels_look(const ft_run *run, ft_error *err)
{
    bool open;
    for (int e = 0; e < run->n_edges; e++) {
        ft_channel *channel = run->edges[e].channel;
        if (channel) FT_TRY(channel->executor->driver->look_at_channel(channel, &open, err));
    }
    return FT_OK;
}
