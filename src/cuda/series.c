/* cuda/series.c - lists of launches, and the graphs that streams capture of them. */
#include "cuda/series.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cuda/given.h"

/* Of a list; of all lists that graphs were made of; how many of these. A stage of a large model has
 * some 1500 launches of 200 bytes. One launch alone is no graph. */
enum { ITEMS = 8192, BYTES = 2 << 20, POOL = 24 << 20, GRAPHS = 64, LEAST = 2 };

typedef struct list {
    int n;
    ft_given *items;
    char *args; /* of the items, one behind the other */
    int64_t used;
} list;

/* A list that came; without exec it came once, and only the hash is kept. */
typedef struct recording {
    uint64_t hash;
    list of;
    cu_node *nodes; /* of kernels, by item */
    cu_graph graph;
    cu_exec exec;
} recording;

struct ft_series {
    const ft_cuda_api *api;
    ft_device_stream *stream;
    cu_stream handle;
    ft_series_give give;
    bool open;
    bool direct;  /* until it is closed: the list was too long */
    bool full;    /* there is no room for more graphs */
    bool without; /* a graph failed: there are none any more */
    list now;
    int n;
    recording recordings[GRAPHS];
    char *pool;
    int64_t pool_used;
};

ft_status ft_series_new(ft_series **out, const ft_cuda_api *api, ft_device_stream *stream,
                        cu_stream handle, ft_series_give give, ft_error *err)
{
    ft_series *s = ft_alloc(sizeof *s);
    *out = NULL;
    if (s) {
        *s = (ft_series){.api = api, .stream = stream, .handle = handle, .give = give};
        s->now.items = ft_alloc(ITEMS * (int64_t)sizeof *s->now.items);
        s->now.args = ft_alloc(BYTES);
        s->pool = ft_alloc(POOL); /* pages that nobody writes to take no memory */
    }
    if (s && s->now.items && s->now.args && s->pool) {
        *out = s;
        return FT_OK;
    }
    ft_series_free(s);
    return ft_fail(err, FT_NOMEM, "no memory for the launches of a stream");
}

void ft_series_free(ft_series *s)
{
    if (!s) return;
    for (int i = 0; i < s->n; i++) {
        if (!s->recordings[i].exec) continue;
        s->api->exec_free(s->recordings[i].exec);
        s->api->graph_free(s->recordings[i].graph);
    }
    ft_free(s->now.items);
    ft_free(s->now.args);
    ft_free(s->pool);
    ft_free(s);
}

static ft_status answered(const ft_series *s, int answer, const char *what, ft_error *err)
{
    return ft_cuda_answered(s->stream->executor, answer, what, err);
}

/* -- lists ------------------------------------------------------------------------------------- */

bool ft_series_is_open(const ft_series *s)
{
    return s && s->open;
}

void ft_series_open(ft_series *s)
{
    s->open = true;
    s->direct = s->without;
    s->now.n = 0;
    s->now.used = 0;
}

void ft_series_drop(ft_series *s)
{
    s->open = false;
}

static ft_status give_all(const ft_series *s, ft_error *err)
{
    for (int i = 0; i < s->now.n; i++) FT_TRY(s->give(s->stream, &s->now.items[i], err));
    return FT_OK;
}

static int64_t room_of(int64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static void append(list *to, const ft_given *item)
{
    ft_given *at = &to->items[to->n++];
    char *args = to->args + to->used;
    memcpy(args, item->args, item->bytes);
    *at = *item;
    at->args = args;
    to->used += room_of(item->bytes);
}

ft_status ft_series_add(ft_series *s, const ft_given *item, ft_error *err)
{
    bool fits = s->now.n < ITEMS && s->now.used + room_of(item->bytes) <= BYTES;
    if (!s->direct && fits) {
        append(&s->now, item);
        return FT_OK;
    }
    if (!s->direct) FT_TRY(give_all(s, err));
    s->direct = true;
    s->now.n = 0;
    return s->give(s->stream, item, err);
}

/* -- which came before ------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 1099511628211u; /* FNV-1a, by words */
}

/* Of what must be the same in every list of a graph. */
static uint64_t hash_of(const list *l)
{
    uint64_t hash = 14695981039346656037u, word;
    for (int i = 0; i < l->n; i++) {
        const ft_given *x = &l->items[i];
        hash = mix(mix(hash, x->kind), (uint64_t)(uintptr_t)x->function);
        for (uint32_t at = 0; x->kind != FT_GIVEN_KERNEL && at < x->bytes; at += sizeof word) {
            memcpy(&word, (const char *)x->args + at, sizeof word);
            hash = mix(hash, word);
        }
    }
    return hash;
}

static bool same(const list *a, const list *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const ft_given *x = &a->items[i], *y = &b->items[i];
        if (x->kind != y->kind || x->function != y->function || x->bytes != y->bytes) return false;
        if (x->kind != FT_GIVEN_KERNEL && memcmp(x->args, y->args, x->bytes)) return false;
    }
    return true;
}

/* The one of the list, or one of its hash that came once; NULL: it comes for the first time. */
static recording *find(ft_series *s, uint64_t hash)
{
    recording *once = NULL;
    for (int i = 0; i < s->n; i++) {
        recording *r = &s->recordings[i];
        if (r->hash != hash) continue;
        if (!r->exec)
            once = r;
        else if (same(&r->of, &s->now))
            return r;
    }
    return once;
}

/* Where there is no room, one that came once gives way. */
static void remember(ft_series *s, uint64_t hash)
{
    int i = s->n;
    if (s->n == GRAPHS)
        for (i = 0; i < GRAPHS && s->recordings[i].exec;) i++;
    else
        s->n++;
    if (i < GRAPHS) s->recordings[i] = (recording){.hash = hash};
}

/* -- graphs ------------------------------------------------------------------------------------ */

/* Sets the kernels whose blocks or arguments are others than the last time. */
static ft_status set_kernels(const ft_series *s, recording *r, ft_error *err)
{
    for (int i = 0; i < r->of.n; i++) {
        const ft_given *x = &s->now.items[i];
        ft_given *last = &r->of.items[i];
        if (x->kind != FT_GIVEN_KERNEL) continue;
        if (memcmp(x->grid, last->grid, sizeof x->grid) == 0 &&
            memcmp(x->args, last->args, x->bytes) == 0)
            continue;
        void *args = (void *)(uintptr_t)last->args;
        memcpy(last->grid, x->grid, sizeof x->grid);
        memcpy(args, x->args, x->bytes);
        const cu_kernel_params params = {.function = x->function,
                                         .grid = {x->grid[0], x->grid[1], x->grid[2]},
                                         .block = {x->threads, 1, 1},
                                         .shared_bytes = x->room,
                                         .arguments = &args};
        FT_TRY(answered(s, s->api->exec_set(r->exec, r->nodes[i], &params), x->name, err));
    }
    return FT_OK;
}

/* A graph that failed gave nothing to the stream, which gets the list instead. What is broken
 * beyond graphs is told by that. */
static ft_status go_without(ft_series *s, const ft_error *why, ft_error *err)
{
    ft_executor *x = s->stream->executor;
    s->without = true;
    if (!x->remark[0])
        snprintf(x->remark, sizeof x->remark,
                 "%.140s; from here on its kernels are launched one by one, without graphs: slower",
                 why->message);
    return give_all(s, err);
}

static ft_status replay(ft_series *s, recording *r, ft_error *err)
{
    ft_error why;
    ft_status status = set_kernels(s, r, &why);
    if (status == FT_OK)
        status = answered(s, s->api->exec_launch(r->exec, s->handle), "launching a graph", &why);
    return status == FT_OK ? FT_OK : go_without(s, &why, err);
}

/* A copy of the list, with room for its nodes; false where there is no memory for it. */
static bool keep_list(ft_series *s, recording *r)
{
    int64_t items = room_of(s->now.n * (int64_t)sizeof *r->of.items);
    int64_t nodes = room_of(s->now.n * (int64_t)sizeof(cu_node));
    char *at = s->pool + s->pool_used;
    if (s->pool_used + items + nodes + s->now.used > POOL) return false;
    s->pool_used += items + nodes + s->now.used;
    r->of = (list){.items = (ft_given *)(void *)at, .args = at + items + nodes};
    r->nodes = (cu_node *)(void *)(at + items);
    for (int i = 0; i < s->now.n; i++) append(&r->of, &s->now.items[i]);
    return true;
}

/* The node that was captured last. */
static ft_status last_node(const ft_series *s, cu_node *out, ft_error *err)
{
    int status = 0;
    size_t n = 0;
    const cu_node *nodes = NULL;
    FT_TRY(answered(s, s->api->capture_info(s->handle, &status, NULL, NULL, &nodes, &n),
                    "capturing a graph", err));
    if (status != CU_CAPTURES || n != 1)
        return ft_fail(err, FT_DEVICE, "device %s: a captured launch has %zu nodes, expected 1",
                       s->stream->executor->device->name, n);
    *out = nodes[0];
    return FT_OK;
}

static ft_status capture(const ft_series *s, recording *r, ft_error *err)
{
    ft_status status = FT_OK;
    FT_TRY(answered(s, s->api->capture_begin(s->handle, CU_CAPTURE_OF_THREAD), "capturing a graph",
                    err));
    for (int i = 0; i < r->of.n && status == FT_OK; i++) {
        status = s->give(s->stream, &r->of.items[i], err);
        if (status == FT_OK && r->of.items[i].kind == FT_GIVEN_KERNEL)
            status = last_node(s, &r->nodes[i], err);
    }
    int answer = s->api->capture_end(s->handle, &r->graph); /* whatever was */
    return status == FT_OK ? answered(s, answer, "capturing a graph", err) : status;
}

/* Without memory for the graph on the card there is no remark: the plan has not counted it. */
static ft_status record(ft_series *s, recording *r, ft_error *err)
{
    recording made = {.hash = r->hash};
    ft_error why;
    s->full = s->full || !keep_list(s, &made);
    if (s->full) return give_all(s, err);
    ft_status status = capture(s, &made, &why);
    if (status == FT_OK)
        status = answered(s, s->api->graph_make(&made.exec, made.graph, 0), "making a graph", &why);
    if (status == FT_OK) {
        *r = made;
        return replay(s, r, err);
    }
    if (made.graph) s->api->graph_free(made.graph);
    s->full = status == FT_NOMEM;
    return s->full ? give_all(s, err) : go_without(s, &why, err);
}

ft_status ft_series_close(ft_series *s, ft_error *err)
{
    s->open = false;
    if (s->now.n < LEAST) return give_all(s, err);
    uint64_t hash = hash_of(&s->now);
    recording *r = find(s, hash);
    if (r && r->exec) return replay(s, r, err);
    if (r) return record(s, r, err);
    remember(s, hash);
    return give_all(s, err);
}
