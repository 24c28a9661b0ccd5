/* engine/serve.c - a process besides rank 0: it does what it is told, until the run is freed. */
#include <string.h>

#include "base/alloc.h"
#include "engine/internal.h"
#include "proof/proof.h"

enum { LOST_NS = 2000000000 }; /* for workers to come back */

typedef struct server {
    ft_run *run, *now; /* whose leg is under way */
    ft_plan *leg;
    ft_view *views;
    ft_error failed;  /* the first failure since the leg began */
    ft_error refused; /* of what is not replied to, until a refresh is */
} server;

/* An error, and behind it in the page so many bytes; the page is freed. NULL: there was no memory
 * for one. */
static void reply(const ft_run *run, ft_error error, char *page, int64_t bytes)
{
    if (!page && error.status == FT_OK) ft_fail(&error, FT_NOMEM, "no memory to answer rank 0");
    if (page) memcpy(page, &error, sizeof error);
    ft_world_send(run->world, 0, FT_TAG_REPLY, page ? page : (const char *)&error,
                  (int64_t)sizeof error + (page ? bytes : 0), true);
    ft_free(page);
}

static char *new_page(int64_t bytes)
{
    return ft_alloc((int64_t)sizeof(ft_error) + bytes);
}

static ft_status begin(server *s, const control *c, ft_error *err)
{
    const ft_blueprint *b = s->run->blueprint;
    s->now = c->evaluates ? ft_run_evaluation(s->run) : s->run;
    s->failed = (ft_error){FT_OK, ""};
    ft_plan_free(s->leg);
    s->leg = NULL;
    if (c->evaluates) b = ft_blueprint_evaluation(b);
    FT_TRY(ft_plan_cut(&s->leg, ft_blueprint_plan(b), (int)c->number, err));
    return ft_run_begin(s->now, s->leg, c->first_step, true, err);
}

/* Takes a finished batch, so that another one has room. */
static void take(server *s, int64_t timeout_ns)
{
    ft_result result;
    ft_error error = {FT_OK, ""};
    ft_status status = ft_run_next(s->now, &result, timeout_ns, &error);
    if (status != FT_OK && status != FT_CANCELLED && s->failed.status == FT_OK) s->failed = error;
}

/* Copies of a batch have read what rank 0 sent. */
static ft_status finish_feeding(const ft_run *run, ft_error *err)
{
    for (int d = 0; d < run->n_devices; d++) {
        ft_device_stream *feeder = run->workers[d].feeder;
        if (feeder) FT_TRY(feeder->executor->driver->finish(feeder, err));
    }
    return FT_OK;
}

static void feed(server *s, const control *c, const char *data)
{
    const ft_blueprint *b = s->now->blueprint;
    ft_error error = {FT_OK, ""};
    int64_t at = 0;
    if (s->failed.status != FT_OK) return; /* the leg ends */
    while (!ft_run_wants(s->now) && s->failed.status == FT_OK) take(s, LOST_NS);
    for (int i = 0; i < b->n_inputs; i++) {
        const ft_graph *g = b->cut.graphs[c->number];
        ft_spec spec = ft_graph_value(g, ft_graph_input_value(g, i))->spec;
        s->views[i] = (ft_view){0};
        if (!reads_input(s->now, s->now->rank, i)) continue;
        spec.shape = ft_shape_of(ft_shape_count(&spec.shape) * b->cut.micro_batches);
        s->views[i] = ft_view_of(&spec, (void *)(uintptr_t)(data + at));
        at += b->input_bytes[c->number * b->n_inputs + i] * b->cut.micro_batches;
    }
    ft_feed batch = {
        .bucket = (int)c->number, .n_inputs = b->n_inputs, .inputs = s->views, .rate = c->rate};
    if (s->failed.status != FT_OK) return;
    ft_status status = ft_run_feed(s->now, &batch, &error);
    if (status == FT_OK) status = finish_feeding(s->now, &error);
    if (status == FT_OK) return;
    s->failed = error;
    run_fail(s->now, &error);
}

static void end(server *s, bool complete)
{
    ft_run *run = s->now;
    int64_t bytes = 0;
    while (complete && run->active && s->failed.status == FT_OK && run->taken < run->fed)
        take(s, LOST_NS);
    ft_error error = s->failed;
    ft_status status = ft_run_end(run, &error);
    if (status == FT_OK && s->failed.status == FT_OK) error = (ft_error){FT_OK, ""};
    ranks_write_events(run, NULL, &bytes);
    char *page = new_page(bytes);
    if (page) ranks_write_events(run, page + sizeof error, &bytes);
    reply(run, error, page, bytes);
}

static void fetch(ft_run *run, int param)
{
    ft_error error = {FT_OK, ""};
    int64_t bytes = ft_spec_bytes(&run->blueprint->params[param].spec);
    int64_t state = ft_blueprint_state_bytes(run->blueprint, param);
    char *page = new_page(bytes + state);
    if (page && fetch_mirror(run, param, true, &error) == FT_OK) {
        memcpy(page + sizeof error, mirrored_param(run, param), (size_t)bytes);
        if (state) memcpy(page + sizeof error + bytes, mirrored_state(run, param), (size_t)state);
    }
    reply(run, error, page, bytes + state);
}

static void send_part(ft_run *run, const control *c)
{
    ft_error error = {FT_OK, ""};
    const piece p = {(int32_t)c->number, (int32_t)c->part, 0};
    ft_view view = piece_view(run, &p);
    ft_spec spec = ft_view_spec(&view);
    int64_t bytes = ft_spec_bytes(&spec);
    char *page = new_page(bytes);
    if (page && fetch_mirror(run, p.param, p.part >= 0, &error) == FT_OK)
        memcpy(page + sizeof error, piece_view(run, &p).data, (size_t)bytes);
    reply(run, error, page, bytes);
}

static void do_file(ft_run *run, const control *c, const char *data)
{
    ft_error error = {FT_OK, ""};
    bool done = false;
    int n = (int)c->number;
    if (c->kind == SAY_WRITE)
        ranks_write(run, data, n, &done, &error);
    else
        ranks_read(run, data, n, c->part != 0, &done, &error);
    char *page = new_page(sizeof done);
    if (page) memcpy(page + sizeof error, &done, sizeof done);
    reply(run, error, page, sizeof done);
}

/* What rank 0 says of a parameter, or of its state. */
typedef struct word {
    const ft_run *run;
    const control *said;
    const char *data; /* behind it */
} word;

static ft_status store(void *arg, char *held, ft_error *err)
{
    const word *w = arg;
    const ft_blueprint *b = w->run->blueprint;
    int param = (int)w->said->number;
    bool state = w->said->kind == SAY_STORE_STATE;
    int64_t bytes =
        state ? ft_blueprint_state_bytes(b, param) : ft_spec_bytes(&b->params[param].spec);
    (void)err;
    memcpy(held, w->data, (size_t)bytes);
    return FT_OK;
}

static ft_status draw(void *arg, char *held, ft_error *err)
{
    const word *w = arg;
    ft_draw how;
    ft_view view = ft_view_of(&w->run->blueprint->params[w->said->number].spec, held);
    (void)err;
    memcpy(&how, w->data, sizeof how);
    ft_view_draw(&view, &how, (uint64_t)w->said->first_step, ft_cpu_cores());
    return FT_OK;
}

/* Nobody waits for a reply: what fails is told by the refresh that follows. */
static void write_param(server *s, const control *c, const char *data)
{
    word w = {s->run, c, data};
    ft_error error = {FT_OK, ""};
    write_held(s->run, (int)c->number, c->kind == SAY_STORE_STATE,
               c->kind == SAY_DRAW ? draw : store, &w, &error);
    if (s->refused.status == FT_OK) s->refused = error;
}

static void refresh(server *s)
{
    ft_error error = s->refused;
    s->refused = (ft_error){FT_OK, ""};
    if (error.status == FT_OK) ft_run_refresh(s->run, &error);
    reply(s->run, error, new_page(0), 0);
}

/* False when the run is freed. */
static bool serve(server *s, const control *c, const char *data)
{
    ft_error error = {FT_OK, ""};
    switch ((say_kind)c->kind) {
    case SAY_MEET:
        remotes_meet(c->evaluates ? ft_run_evaluation(s->run) : s->run, &error);
        reply(s->run, error, new_page(0), 0);
        break;
    case SAY_BEGIN:
        begin(s, c, &error);
        reply(s->run, error, new_page(0), 0);
        break;
    case SAY_FEED: feed(s, c, data); break;
    case SAY_DRAIN: ft_run_drain(s->now); break;
    case SAY_END: end(s, c->number != 0); break;
    case SAY_FETCH: fetch(s->run, (int)c->number); break;
    case SAY_STORE:
    case SAY_STORE_STATE:
    case SAY_DRAW: write_param(s, c, data); break;
    case SAY_REFRESH: refresh(s); break;
    case SAY_WRITE:
    case SAY_READ: do_file(s->run, c, data); break;
    case SAY_SEND: send_part(s->run, c); break;
    case SAY_FREE: return false;
    }
    return true;
}

/* Of training, or of an evaluation between its legs. */
static int most_inputs(const ft_blueprint *b)
{
    const ft_blueprint *other = ft_blueprint_evaluation(b);
    return other && other->n_inputs > b->n_inputs ? other->n_inputs : b->n_inputs;
}

ft_status ft_run_serve(ft_run *run, ft_error *err)
{
    server s = {.run = run, .now = run};
    ft_status status = FT_OK;
    s.views = ft_alloc((most_inputs(run->blueprint) + 1) * (int64_t)sizeof *s.views);
    bool goes_on = s.views != NULL;
    if (!goes_on) status = ft_fail(err, FT_NOMEM, "engine: no memory for inputs");
    while (goes_on) {
        ft_letter letter;
        control c;
        bool got = false;
        status = ft_world_take(run->world, FT_TAG_CONTROL, -1, &letter, &got, err);
        if (status != FT_OK) break;
        memcpy(&c, letter.data, sizeof c);
        goes_on = serve(&s, &c, letter.data + sizeof c);
        ft_world_drop(run->world, &letter);
    }
    if (status != FT_OK) ft_run_give_up(s.now, LOST_NS, NULL);
    ft_free(s.views);
    if (!s.now->lost) ft_plan_free(s.leg); /* else a worker may still read it */
    return status;
}
