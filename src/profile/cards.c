/* profile/cards.c - what each node costs on a device with memory of its own.
 *
 * Nodes that are equal are measured once, each by itself: its work is given to the stream many
 * times in a row, as a series, and the device's own events say how long that took. So the launches
 * are those of a run, whose series come again; what one node leaves in a cache for the next one is
 * not counted, and tensors that fit there are found there. Times are medians. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/rng.h"
#include "profile/internal.h"

enum { NOISE = 1 << 18, TIMES = 5, MOST_REPEATS = 64 }; /* bytes; samples; launches of one */
enum { TARGET_NS = 1000000 };                           /* of a sample, about */

typedef struct meter {
    const ft_measure_options *options;
    const ft_driver *driver;
    ft_executor *executor;
    ft_device_stream *stream;
    ft_device_event *begin, *end;
    char *memory, *used; /* the device's, and up to where it is given out */
    char *library;       /* what its library works in */
    char *host;          /* pinned: NOISE bytes, and what a look finds */
    ft_dtype kept;       /* what the NOISE bytes are: in what dtype, ids below which limit */
    int64_t limit;       /* -1: nothing yet */
    int64_t bytes;
} meter;

/* Work that is measured: gives itself to the stream. */
typedef ft_status (*giver)(const void *arg, ft_device_stream *stream, ft_error *err);

/* -- timing ------------------------------------------------------------------------------------ */

static ft_status give_series(const meter *m, giver give, const void *arg, int n, ft_error *err)
{
    ft_status status = FT_OK;
    if (m->driver->begin_series) m->driver->begin_series(m->stream);
    for (int i = 0; i < n && status == FT_OK; i++) status = give(arg, m->stream, err);
    return m->driver->end_series ? m->driver->end_series(m->stream, status, err) : status;
}

static ft_status time_series(const meter *m, giver give, const void *arg, int n, double *ns,
                             ft_error *err)
{
    FT_TRY(m->driver->record(m->stream, m->begin, err));
    FT_TRY(give_series(m, give, arg, n, err));
    FT_TRY(m->driver->record(m->stream, m->end, err));
    FT_TRY(m->driver->finish(m->stream, err));
    int64_t took = m->driver->passed_ns(m->end) - m->driver->passed_ns(m->begin);
    *ns = took > 0 ? (double)took / n : 0;
    return FT_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median; and half of what lies between the quartiles, over it. */
static ft_status measure(const meter *m, giver give, const void *arg, double *ns, double *spread,
                         ft_error *err)
{
    double first, all[TIMES];
    FT_TRY(profile_goes_on(m->options, err));
    FT_TRY(give_series(m, give, arg, 1, err)); /* libraries choose how they do it */
    FT_TRY(time_series(m, give, arg, 1, &first, err));
    double wanted = first > 0 ? TARGET_NS / first : MOST_REPEATS;
    int n = wanted < 1 ? 1 : wanted > MOST_REPEATS ? MOST_REPEATS : (int)wanted;
    for (int i = 0; i < 2; i++) FT_TRY(give_series(m, give, arg, n, err)); /* it is kept */
    for (int i = 0; i < TIMES; i++) FT_TRY(time_series(m, give, arg, n, &all[i], err));
    qsort(all, TIMES, sizeof *all, by_size);
    *ns = all[TIMES / 2];
    if (spread) *spread = *ns > 0 ? (all[TIMES - 2] - all[1]) / 2 / *ns : 0;
    return FT_OK;
}

/* -- memory ------------------------------------------------------------------------------------ */

static void *take(meter *m, int64_t bytes)
{
    char *at = m->used;
    m->used += ft_memory_round(bytes);
    return at;
}

/* Fills `bytes` at `to` with what the host's NOISE bytes hold, again and again. */
static ft_status spread_noise(const meter *m, char *to, int64_t bytes, ft_error *err)
{
    for (int64_t at = 0; at < bytes; at += NOISE) {
        int64_t n = bytes - at < NOISE ? bytes - at : NOISE;
        FT_TRY(m->driver->copy(m->stream, (ft_location){m->executor, to + at},
                               (ft_location){NULL, m->host}, n, err));
    }
    return m->driver->finish(m->stream, err);
}

/* Small numbers; ids below the limit, or ones. */
static ft_status fill(meter *m, void *to, const ft_spec *spec, int64_t limit, ft_error *err)
{
    int64_t size = ft_dtype_bytes(spec->dtype), n = NOISE / size;
    ft_rng rng;
    if (m->limit == limit && m->kept == spec->dtype) n = 0;
    m->limit = limit;
    m->kept = spec->dtype;
    ft_rng_init(&rng, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        double x = 0.1 * ft_rng_uniform(&rng) - 0.05;
        if (spec->dtype == FT_I32) x = limit ? (double)((i * 104729 + 1) % limit) : 1;
        ft_convert(m->host + i * size, spec->dtype, &x, FT_F64, 1);
    }
    return spread_noise(m, to, ft_spec_bytes(spec), err);
}

/* -- nodes ------------------------------------------------------------------------------------- */

/* What a node reads and gives. */
typedef struct node_case {
    const ft_node *node;
    ft_spec in[FT_MAX_IN], out[FT_MAX_OUT];
    int64_t work_bytes, pack_bytes;
    bool adds; /* to what other micro-batches left */
} node_case;

static bool is_term(const ft_graph *g, ft_value_id v)
{
    for (int i = 0; i < ft_graph_n_grads(g); i++)
        if (ft_graph_grad_term(g, i)->value == v) return true;
    return false;
}

static node_case case_of(const ft_measure_options *o, int n)
{
    static const ft_spec absent = {.shape = {.n_dims = -1}};
    const ft_graph *g = o->graph;
    node_case c = {.node = ft_graph_node(g, n)};
    const ft_op *op = c.node->op;
    for (int i = 0; i < FT_MAX_IN; i++)
        c.in[i] = c.node->in[i] == FT_NO_VALUE ? absent : ft_graph_value(g, c.node->in[i])->spec;
    for (int k = 0; k < op->n_out; k++) c.out[k] = ft_graph_value(g, c.node->out + k)->spec;
    c.work_bytes = ft_op_workspace(op, o->device->kind, FT_F32, c.in, c.node->attrs, 1);
    c.adds = o->accumulate && op->accumulates && is_term(g, c.node->out);
    if (op->pack_input && ft_graph_value(g, c.node->in[op->pack_input - 1])->kind == FT_VALUE_PARAM)
        c.pack_bytes =
            ft_kernel_list_of(o->device->kind, FT_F32)->pack_bytes(op, c.in, c.node->attrs);
    return c;
}

static int64_t case_bytes(const node_case *c)
{
    int64_t bytes = ft_memory_round(c->work_bytes) + ft_memory_round(c->pack_bytes);
    for (int i = 0; i < FT_MAX_IN; i++)
        if (c->in[i].shape.n_dims >= 0) bytes += ft_memory_round(ft_spec_bytes(&c->in[i]));
    for (int k = 0; k < c->node->op->n_out; k++)
        bytes += ft_memory_round(ft_spec_bytes(&c->out[k]));
    return bytes;
}

/* A call that is given again and again. */
typedef struct node_call {
    ft_call call;
    ft_row_run run;
    const ft_driver *driver;
} node_call;

static ft_status give_node(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const node_call *c = arg;
    return c->driver->launch(stream, &ft_row_task, &c->run, err);
}

static ft_status measure_node(meter *m, const node_case *c, double *ns, double *spread,
                              ft_error *err)
{
    const ft_op *op = c->node->op;
    ft_view in[FT_MAX_IN], out[FT_MAX_OUT];
    m->used = m->memory;
    for (int i = 0; i < FT_MAX_IN; i++) {
        in[i] = (ft_view){.shape = {.n_dims = -1}};
        if (c->in[i].shape.n_dims < 0) continue;
        in[i] = ft_view_of(&c->in[i], take(m, ft_spec_bytes(&c->in[i])));
        FT_TRY(fill(m, in[i].data, &c->in[i], profile_id_limit(m->options->graph, c->node->in[i]),
                    err));
    }
    for (int k = 0; k < op->n_out; k++) {
        out[k] = ft_view_of(&c->out[k], take(m, ft_spec_bytes(&c->out[k])));
        if (c->adds) FT_TRY(fill(m, out[k].data, &c->out[k], 0, err));
    }
    node_call call = {.call = {.in = in,
                               .out = out,
                               .attrs = c->node->attrs,
                               .work = c->work_bytes ? take(m, c->work_bytes) : NULL,
                               .key = {.seed = 1, .step = 1},
                               .accumulate = c->adds ? op->accumulates : 0,
                               .stream = m->stream},
                      .driver = m->driver};
    if (c->pack_bytes) {
        const ft_spec half = {FT_BF16, ft_shape_of(c->pack_bytes / 2)};
        void *packed = take(m, c->pack_bytes);
        FT_TRY(fill(m, packed, &half, 0, err));
        call.call.packed = packed;
    }
    call.run = (ft_row_run){op, ft_op_kernel(op, m->options->device->kind, FT_F32), &call.call,
                            c->work_bytes};
    if (!call.run.kernel)
        return ft_fail(err, FT_UNSUPPORTED, "profile: '%s' has no kernel for %s", op->name,
                       m->options->device->name);
    return measure(m, give_node, &call, ns, spread, err);
}

/* Texts of nodes, and the first node that each is of. */
typedef struct kinds {
    ft_map first;
    ft_text *texts; /* by node */
    int n_nodes;
} kinds;

static void free_kinds(kinds *k)
{
    ft_map_fini(&k->first);
    for (int n = 0; k->texts && n < k->n_nodes; n++) ft_text_fini(&k->texts[n]);
    ft_free(k->texts);
}

static ft_status measure_nodes(meter *m, ft_profile *p, kinds *k, ft_error *err)
{
    for (int n = 0; n < p->n_nodes; n++) {
        int32_t first = n;
        ft_profile_describe(m->options->graph, n, &k->texts[n]);
        const char *text = k->texts[n].data;
        if (k->texts[n].failed) return ft_fail(err, FT_NOMEM, "profile: no memory for names");
        if (!ft_map_find(&k->first, text, &first)) {
            const node_case c = case_of(m->options, n);
            FT_TRY(measure_node(m, &c, &p->node_ns[n], &p->node_spread[n], err));
            if (!ft_map_set(&k->first, text, n))
                return ft_fail(err, FT_NOMEM, "profile: no memory for names");
            p->n_distinct++;
        }
        p->node_ns[n] = p->node_ns[first];
        p->node_spread[n] = p->node_spread[first];
        p->pass_ns += p->node_ns[n];
        if (p->recompute_ns && n < p->n_forward) p->recompute_ns[n] = p->node_ns[n];
    }
    return FT_OK;
}

/* -- parameters -------------------------------------------------------------------------------- */

typedef struct param_work {
    const ft_measure_options *options;
    ft_update update;
    ft_looking look;
    const ft_pack *pack;
    void *packed;
} param_work;

static ft_status give_update(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const param_work *w = arg;
    return ft_steps_of(stream)->update(stream, w->options->optimizer, &w->update, 1, err);
}

static ft_status give_look(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const param_work *w = arg;
    return ft_steps_of(stream)->look(stream, &w->look, 1, err);
}

static ft_status give_pack(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const param_work *w = arg;
    return ft_pack_make(w->options->graph, w->pack, w->update.param, w->packed,
                        &(ft_packer){NULL, stream}, err);
}

static int64_t state_bytes(const ft_measure_options *o, const ft_spec *spec)
{
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes = 0;
    o->optimizer->state(spec, o->hypers, parts, &bytes);
    return bytes;
}

static const ft_spec *param_spec(const ft_graph *g, int param)
{
    return &ft_graph_value(g, ft_graph_param_value(g, param))->spec;
}

static int same_param(const ft_graph *g, int param)
{
    for (int i = 0; i < param; i++)
        if (ft_shape_equal(&param_spec(g, i)->shape, &param_spec(g, param)->shape)) return i;
    return param;
}

static ft_status measure_param(meter *m, ft_profile *p, int param, ft_error *err)
{
    const ft_measure_options *o = m->options;
    const ft_spec *spec = param_spec(o->graph, param);
    int64_t bytes = ft_spec_bytes(spec), state = state_bytes(o, spec);
    const ft_spec zeros = {FT_U8, ft_shape_of(state)};
    m->used = m->memory;
    param_work w = {.options = o};
    w.update = (ft_update){.spec = spec,
                           .param = take(m, bytes),
                           .grad = take(m, bytes),
                           .grad_scale = 1,
                           .state = take(m, state + 1),
                           .hypers = o->hypers,
                           .rate = 1e-9,
                           .step = 1};
    FT_TRY(fill(m, w.update.param, spec, 0, err));
    FT_TRY(fill(m, (void *)(uintptr_t)w.update.grad, spec, 0, err));
    FT_TRY(fill(m, w.update.state, &zeros, 0, err)); /* of bytes: zeros */
    w.look = (ft_looking){w.update.grad, FT_F32, ft_shape_count(&spec->shape),
                          (ft_look *)(void *)(m->host + NOISE)};
    FT_TRY(measure(m, give_update, &w, &p->update_ns[param], NULL, err));
    return measure(m, give_look, &w, &p->norm_ns[param], NULL, err);
}

static ft_status measure_params(meter *m, ft_profile *p, ft_error *err)
{
    for (int i = 0; i < p->n_params; i++) {
        int like = same_param(m->options->graph, i);
        if (like == i) FT_TRY(measure_param(m, p, i, err));
        p->update_ns[i] = p->update_ns[like];
        p->norm_ns[i] = p->norm_ns[like];
    }
    return FT_OK;
}

/* Packed copies, at the first node that reads each. */
static ft_status measure_packs(meter *m, ft_profile *p, ft_pack *packs, int n, ft_error *err)
{
    const ft_graph *g = m->options->graph;
    for (int i = 0; i < n; i++) {
        const ft_spec *spec = param_spec(g, packs[i].param);
        if (packs[i].node >= p->n_forward) continue;
        int like = 0; /* one of the same size before it */
        while (packs[like].bytes != packs[i].bytes || packs[like].node >= p->n_forward) like++;
        double *ns = &p->pack_ns[packs[i].node];
        if (like == i) {
            m->used = m->memory;
            param_work w = {.options = m->options, .pack = &packs[i]};
            w.update.param = take(m, ft_spec_bytes(spec));
            w.packed = take(m, packs[i].bytes);
            FT_TRY(fill(m, w.update.param, spec, 0, err));
            FT_TRY(measure(m, give_pack, &w, ns, NULL, err));
        } else {
            *ns = p->pack_ns[packs[like].node];
        }
    }
    return FT_OK;
}

/* -- all --------------------------------------------------------------------------------------- */

/* Memory for the largest of what is measured; and what of it is told. */
static void count_bytes(meter *m, ft_profile *p)
{
    const ft_measure_options *o = m->options;
    for (int n = 0; n < p->n_nodes; n++) {
        const node_case c = case_of(o, n);
        int64_t bytes = case_bytes(&c);
        if (bytes > m->bytes) m->bytes = bytes;
        for (int k = 0; k < c.node->op->n_out; k++) p->output_bytes[n] += ft_spec_bytes(&c.out[k]);
        p->workspace_bytes[n] = c.work_bytes;
    }
    for (int i = 0; i < p->n_params; i++) {
        const ft_spec *spec = param_spec(o->graph, i);
        int64_t bytes =
            3 * ft_memory_round(ft_spec_bytes(spec)) + ft_memory_round(state_bytes(o, spec) + 1);
        if (bytes > m->bytes) m->bytes = bytes;
    }
}

static ft_status open_meter(meter *m, ft_error *err)
{
    const ft_device *device = m->options->device;
    void *memory = NULL;
    if (m->bytes + device->library_bytes > device->memory_bytes)
        return ft_fail(err, FT_NOMEM, "profile: a node takes %.1f MB, %s has %.1f MB",
                       (double)m->bytes / 1e6, device->name, (double)device->memory_bytes / 1e6);
    FT_TRY(m->driver->open(&m->executor, device, err));
    FT_TRY(m->driver->enter(m->executor, err));
    FT_TRY(m->driver->open_stream(&m->stream, m->executor, FT_FOR_COMPUTE, err));
    FT_TRY(m->driver->open_event(&m->begin, m->executor, err));
    FT_TRY(m->driver->open_event(&m->end, m->executor, err));
    FT_TRY(
        m->driver->alloc(m->executor, FT_OF_HOST, NOISE + (int64_t)sizeof(ft_look), &memory, err));
    m->host = memory;
    FT_TRY(m->driver->alloc(m->executor, FT_OF_DEVICE, m->bytes, &memory, err));
    m->memory = memory;
    if (!m->driver->lend || !device->library_bytes) return FT_OK;
    FT_TRY(m->driver->alloc(m->executor, FT_OF_DEVICE, device->library_bytes, &memory, err));
    m->library = memory;
    m->driver->lend(m->stream, m->library, device->library_bytes);
    return FT_OK;
}

static void close_meter(meter *m)
{
    const ft_driver *driver = m->driver;
    if (!m->executor) return;
    if (m->stream) driver->close_stream(m->stream);
    if (m->begin) driver->close_event(m->begin);
    if (m->end) driver->close_event(m->end);
    if (m->host)
        driver->release(m->executor, FT_OF_HOST, m->host, NOISE + (int64_t)sizeof(ft_look));
    if (m->memory) driver->release(m->executor, FT_OF_DEVICE, m->memory, m->bytes);
    if (m->library)
        driver->release(m->executor, FT_OF_DEVICE, m->library, m->options->device->library_bytes);
    driver->close(m->executor);
}

static ft_status measure_all(meter *m, ft_profile *p, kinds *k, ft_error *err)
{
    const ft_graph *g = m->options->graph;
    int *nodes = ft_alloc((p->n_nodes + 1) * (int64_t)sizeof *nodes);
    ft_pack *packs = ft_alloc((p->n_nodes + 1) * (int64_t)sizeof *packs);
    ft_status status = nodes && packs ? open_meter(m, err) : FT_NOMEM;
    for (int n = 0; nodes && n < p->n_nodes; n++) nodes[n] = n;
    if (!nodes || !packs) ft_fail(err, FT_NOMEM, "profile: no memory for its nodes");
    if (status == FT_OK) status = measure_nodes(m, p, k, err);
    if (status == FT_OK) status = measure_params(m, p, err);
    if (status == FT_OK) {
        int n = ft_program_packs(g, nodes, p->n_nodes,
                                 ft_kernel_list_of(m->options->device->kind, FT_F32), packs);
        status = measure_packs(m, p, packs, n, err);
    }
    ft_free(nodes);
    ft_free(packs);
    return status;
}

ft_status profile_measure_card(ft_profile *p, const ft_measure_options *o, ft_error *err)
{
    meter m = {.options = o, .driver = o->device->driver, .limit = -1};
    kinds k = {.texts = ft_alloc((p->n_nodes + 1) * (int64_t)sizeof(ft_text)),
               .n_nodes = p->n_nodes};
    if (!k.texts) return ft_fail(err, FT_NOMEM, "profile: no memory for names");
    count_bytes(&m, p);
    ft_status status = measure_all(&m, p, &k, err);
    close_meter(&m);
    free_kinds(&k);
    p->n_blocks = p->n_nodes;
    p->n_rounds = TIMES;
    p->copy_bytes_per_s = o->device->link_bytes_per_s;
    p->handoff_ns = o->device->link_latency_ns;
    return status;
}
