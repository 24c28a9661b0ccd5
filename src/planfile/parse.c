/* planfile/parse.c - reads the text of a plan; the grammar stands in write.c.
 *
 * One row per word that may begin a line. What was read is in range and complete; whether it makes
 * sense is for ft_plan_check. */
#include "planfile/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "proof/proof.h"

/* -- lines ------------------------------------------------------------------------------------- */

static ft_status read_schedule(parser *p, ft_error *err)
{
    word w = next_word(p);
    char name[sizeof p->plan->schedule] = "";
    if (w.length < (int)sizeof name) memcpy(name, w.text, (size_t)w.length);
    if (!ft_plan_name_ok(name))
        return parser_fault(p, err,
                            "schedule is '%.*s', expected 1 to 31 letters, digits, '-', '_' or '.'",
                            shown(w), w.text);
    memcpy(p->plan->schedule, name, sizeof name);
    return FT_OK;
}

static ft_status read_forward_only(parser *p, ft_error *err)
{
    (void)err;
    p->plan->forward_only = true;
    return FT_OK;
}

static ft_status read_stages(parser *p, ft_error *err)
{
    ft_plan *plan = p->plan;
    FT_TRY(read_int(p, "stages", 1, FT_PLAN_MAX_STAGES, &plan->n_stages, err));
    int64_t n = plan->n_stages;
    if (!(p->device = ft_arena_array(plan->arena, 8 * n, sizeof(int))) ||
        !(p->rule = ft_arena_array(plan->arena, n, sizeof *p->rule)) ||
        !(p->reduce_bytes = ft_arena_array(plan->arena, n, sizeof *p->reduce_bytes)) ||
        !(p->recompute = ft_arena_array(plan->arena, n, sizeof(bool))) ||
        !(p->stage_seen = ft_arena_array(plan->arena, n, sizeof(bool))))
        return parser_no_memory(p, err);
    p->depth = p->device + n;
    p->in_flight = p->depth + n;
    p->versions = p->in_flight + n;
    p->replicas_at = p->versions + n;
    p->n_replicas = p->replicas_at + n;
    p->stage_line = p->n_replicas + n;
    p->joint = p->stage_line + n;
    plan->device = p->device;
    plan->depth = p->depth;
    plan->in_flight = p->in_flight;
    plan->versions = p->versions;
    plan->replica_rule = p->rule;
    plan->reduce_bytes = p->reduce_bytes;
    plan->recompute = p->recompute;
    plan->stage_line = p->stage_line;
    plan->joint = p->joint;
    return FT_OK;
}

static ft_status read_devices(parser *p, ft_error *err)
{
    ft_plan *plan = p->plan;
    FT_TRY(read_int(p, "devices", 1, FT_PLAN_MAX_STAGES, &plan->n_devices, err));
    int64_t n = plan->n_devices;
    if (!(p->lists = ft_arena_array(plan->arena, n, sizeof *p->lists)) ||
        !(p->memory = ft_arena_array(plan->arena, n, sizeof *p->memory)) ||
        !(p->memory_seen = ft_arena_array(plan->arena, n, sizeof(bool))) ||
        !(p->by_policy = ft_arena_array(plan->arena, n, sizeof(bool))))
        return parser_no_memory(p, err);
    plan->by_policy = p->by_policy;
    return FT_OK;
}

static ft_status read_micros(parser *p, ft_error *err)
{
    return read_int(p, "micro-batches", 1, FT_PLAN_MAX_MICRO, &p->plan->micro_batches, err);
}

static ft_status read_batches(parser *p, ft_error *err)
{
    return read_int(p, "batches", 1, FT_PLAN_MAX_BATCHES, &p->plan->n_batches, err);
}

static ft_status read_body_batches(parser *p, ft_error *err)
{
    return read_int(p, "body-batches", 0, FT_PLAN_MAX_BATCHES, &p->plan->body_batches, err);
}

static ft_status read_body_repeats(parser *p, ft_error *err)
{
    return read_int(p, "body-repeats", 0, FT_PLAN_MAX_BATCHES, &p->plan->body_repeats, err);
}

/* "0" or "0,2,5": the stage's devices. */
static ft_status read_stage_devices(parser *p, int s, ft_error *err)
{
    word w = next_word(p);
    const char *at = w.text, *end = w.text + w.length;
    p->replicas_at[s] = (int)p->replicas.n;
    do {
        int64_t device;
        if (p->n_replicas[s] == p->plan->n_devices ||
            !scan_number(&at, end, p->plan->n_devices - 1, &device))
            return parser_fault(p, err, "device is '%.*s', expected a number from 0 to %d",
                                shown(w), w.text, p->plan->n_devices - 1);
        int *place = growing_add(&p->replicas, sizeof *place);
        if (!place) return parser_no_memory(p, err);
        *place = (int)device;
        if (!p->n_replicas[s]++) p->device[s] = (int)device;
    } while (scan_char(&at, end, ','));
    if (at == end) return FT_OK;
    return parser_fault(p, err, "device is '%.*s', expected numbers with ',' between them",
                        shown(w), w.text);
}

static ft_status read_rule(parser *p, int s, ft_error *err)
{
    word w = next_word(p);
    for (int i = 0; i < FT_REPLICAS_COUNT; i++)
        if (word_is(w, ft_replica_rule_name(i))) {
            p->rule[s] = (uint8_t)i;
            return FT_OK;
        }
    return parser_fault(p, err, "replicas is '%.*s', expected round-robin or block", shown(w),
                        w.text);
}

static ft_status read_recompute(parser *p, int s, ft_error *err)
{
    (void)err;
    p->recompute[s] = true;
    return FT_OK;
}

static ft_status read_depth(parser *p, int s, ft_error *err)
{
    return read_int(p, "depth", 0, p->plan->n_stages - 1, &p->depth[s], err);
}

static ft_status read_in_flight(parser *p, int s, ft_error *err)
{
    return read_int(p, "in-flight", 0, FT_PLAN_MAX_ACTIONS, &p->in_flight[s], err);
}

static ft_status read_versions(parser *p, int s, ft_error *err)
{
    return read_int(p, "versions", 1, INT16_MAX, &p->versions[s], err);
}

static ft_status read_joint(parser *p, int s, ft_error *err)
{
    return read_int(p, "joint", 1, FT_PLAN_MAX_MICRO, &p->joint[s], err);
}

static ft_status read_reduce_bytes(parser *p, int s, ft_error *err)
{
    return read_number(p, "reduce-bytes", 0, INT64_MAX, &p->reduce_bytes[s], err);
}

/* What may follow the devices of a stage, each at most once. */
static ft_status read_stage_rest(parser *p, int s, ft_error *err)
{
    static const struct {
        const char *word;
        ft_status (*read)(parser *p, int stage, ft_error *err);
    } keys[] = {{"depth", read_depth},         {"in-flight", read_in_flight},
                {"versions", read_versions},   {"replicas", read_rule},
                {"recompute", read_recompute}, {"reduce-bytes", read_reduce_bytes},
                {"joint", read_joint}};
    enum { KEYS = sizeof keys / sizeof *keys };
    unsigned seen = 0;
    for (;;) {
        int key = 0;
        while (key < KEYS && (seen >> key & 1 || !takes_word(p, keys[key].word))) key++;
        if (key == KEYS) return FT_OK;
        seen |= 1U << key;
        FT_TRY(keys[key].read(p, s, err));
    }
}

static ft_status read_stage(parser *p, ft_error *err)
{
    int s;
    FT_TRY(read_int(p, "stage", 0, p->plan->n_stages - 1, &s, err));
    if (p->stage_seen[s]) return parser_fault(p, err, "stage %d stands twice", s);
    p->stage_seen[s] = true;
    p->stage_line[s] = p->line;
    p->versions[s] = p->joint[s] = 1;
    p->depth[s] = p->in_flight[s] = UNSAID;
    FT_TRY(expect(p, "device", err));
    FT_TRY(read_stage_devices(p, s, err));
    return read_stage_rest(p, s, err);
}

static ft_status read_order(parser *p, ft_error *err)
{
    int d;
    FT_TRY(read_int(p, "order", 0, p->plan->n_devices - 1, &d, err));
    FT_TRY(expect(p, "policy", err));
    if (p->by_policy[d]) return parser_fault(p, err, "order of device %d stands twice", d);
    p->by_policy[d] = true;
    return FT_OK;
}

static bool scan_edge(word w, int n_stages, ft_edge *e)
{
    const char *at = w.text, *end = w.text + w.length;
    int64_t from, to;
    if (!scan_kind(&at, end, &e->from_kind) || !scan_number(&at, end, n_stages - 1, &from) ||
        !scan_char(&at, end, '>') || !scan_kind(&at, end, &e->to_kind) ||
        !scan_number(&at, end, n_stages - 1, &to))
        return false;
    e->from = (int)from;
    e->to = (int)to;
    return at == end;
}

static ft_status read_edge(parser *p, ft_error *err)
{
    ft_edge e = {0};
    word w = next_word(p);
    if (!scan_edge(w, p->plan->n_stages, &e))
        return parser_fault(p, err,
                            "edge is '%.*s', expected two actions with stages below %d, as F0>F1",
                            shown(w), w.text, p->plan->n_stages);
    FT_TRY(expect(p, "bytes", err));
    FT_TRY(read_number(p, "bytes", 0, INT64_MAX, &e.bytes, err));
    FT_TRY(expect(p, "slots", err));
    FT_TRY(read_int(p, "slots", 1, FT_PLAN_MAX_SLOTS, &e.slots, err));
    if (takes_word(p, "after")) {
        FT_TRY(read_int(p, "after", 0, FT_PLAN_MAX_EDGES - 1, &e.after, err));
        e.after++;
    }
    if (p->edges.n == FT_PLAN_MAX_EDGES)
        return parser_fault(p, err, "more than %d edges", FT_PLAN_MAX_EDGES);
    ft_status status = ft_edge_check(&e, (int)p->edges.n, p->plan->n_stages, err);
    if (status != FT_OK) {
        if (err) err->status = FT_FORMAT;
        ft_error_wrap(err, "plan, line %d", p->line);
        return FT_FORMAT;
    }
    ft_edge *place = growing_add(&p->edges, sizeof e);
    int *line = growing_add(&p->edge_lines, sizeof *line);
    if (!place || !line) return parser_no_memory(p, err);
    *place = e;
    *line = p->line;
    return FT_OK;
}

static ft_status read_nodes(parser *p, ft_error *err)
{
    return read_int(p, "nodes", 1, FT_PLAN_MAX_NODES, &p->n_nodes, err);
}

static ft_status read_node_stage(parser *p, ft_error *err)
{
    for (word w = next_word(p); w.length; w = next_word(p)) {
        const char *at = w.text, *end = w.text + w.length;
        int64_t stage, times;
        if (!scan_number(&at, end, p->plan->n_stages - 1, &stage) || !scan_char(&at, end, '*') ||
            !scan_number(&at, end, p->n_nodes - p->nodes.n, &times) || at != end)
            return parser_fault(
                p, err,
                "node-stage is '%.*s', expected STAGE*NODES with a stage below %d and at most "
                "%lld nodes more",
                shown(w), w.text, p->plan->n_stages, (long long)(p->n_nodes - p->nodes.n));
        for (int64_t i = 0; i < times; i++) {
            int *place = growing_add(&p->nodes, sizeof *place);
            if (!place) return parser_no_memory(p, err);
            *place = (int)stage;
        }
    }
    return FT_OK;
}

static ft_status read_memory(parser *p, ft_error *err)
{
    int d;
    FT_TRY(read_int(p, "memory", 0, p->plan->n_devices - 1, &d, err));
    if (p->memory_seen[d]) return parser_fault(p, err, "memory of device %d stands twice", d);
    p->memory_seen[d] = true;
    FT_TRY(read_classes(p, p->memory[d], err));
    p->plan->memory = (const int64_t(*)[FT_MEMORY_CLASSES])p->memory;
    return FT_OK;
}

/* ":1" or ":activations", where the kind needs it. */
static bool scan_item(const char **at, const char *end, ft_action_kind kind, int16_t *item)
{
    int64_t edge;
    ft_item_kind wanted = ft_action_item(kind);
    *item = 0;
    if (wanted == FT_ITEM_NOTHING) return true;
    if (wanted == FT_ITEM_PLACE) {
        static const char host[] = ":host";
        size_t length = sizeof host - 1;
        *item = (size_t)(end - *at) == length && !memcmp(*at, host, length);
        if (*item) *at = end;
        return true;
    }
    if (!scan_char(at, end, ':')) return false;
    if (wanted == FT_ITEM_EDGE || wanted == FT_ITEM_LAG) {
        if (!scan_number(at, end, FT_PLAN_MAX_ITEM, &edge)) return false;
        *item = (int16_t)edge;
        return true;
    }
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        size_t length = strlen(ft_memory_classes[c].name);
        if ((size_t)(end - *at) < length || memcmp(*at, ft_memory_classes[c].name, length))
            continue;
        *at += length;
        *item = (int16_t)c;
        return true;
    }
    return false;
}

/* "F0.3.2-5:1~1": the first action, and how many there are; 0 when it is not one. */
static int64_t scan_actions(const parser *p, word w, ft_action *a)
{
    const char *at = w.text, *end = w.text + w.length;
    ft_action_kind kind;
    int16_t item;
    int64_t stage, batch, micro = 0, last = 0, lag = 0;
    if (!scan_kind(&at, end, &kind) || !scan_number(&at, end, p->plan->n_stages - 1, &stage) ||
        !scan_char(&at, end, '.') || !scan_number(&at, end, p->plan->n_batches - 1, &batch))
        return 0;
    if (ft_action_per_micro(kind)) {
        int64_t most = p->plan->micro_batches - 1;
        if (!scan_char(&at, end, '.') || !scan_number(&at, end, most, &micro)) return 0;
        last = micro;
        if (scan_char(&at, end, '-') && (!scan_number(&at, end, most, &last) || last < micro))
            return 0;
    }
    if (!scan_item(&at, end, kind, &item)) return 0;
    if (ft_action_per_micro(kind) && scan_char(&at, end, '~') &&
        !scan_number(&at, end, INT16_MAX, &lag))
        return 0;
    if (at != end) return 0;
    *a = (ft_action){.kind = (uint8_t)kind,
                     .stage = (int16_t)stage,
                     .lag = (int16_t)lag,
                     .item = item,
                     .batch = (int32_t)batch,
                     .micro = (int32_t)micro};
    return last - micro + 1;
}

static ft_status read_list(parser *p, int part, ft_error *err)
{
    int d;
    FT_TRY(read_int(p, "device", 0, p->plan->n_devices - 1, &d, err));
    for (word w = next_word(p); w.length; w = next_word(p)) {
        ft_action a;
        int64_t n = scan_actions(p, w, &a);
        if (!n)
            return parser_fault(
                p, err,
                "action is '%.*s', expected as F0.3.2, F0.3.2-5, F0.3.2~1, S0.3.2:1, "
                "O0.3.2:activations or U0.3, with a stage below %d, a batch below %d and a "
                "micro-batch below %d",
                shown(w), w.text, p->plan->n_stages, p->plan->n_batches, p->plan->micro_batches);
        p->stored += n;
        if (p->stored > FT_PLAN_MAX_STORED)
            return parser_fault(p, err, "more than %d actions", FT_PLAN_MAX_STORED);
        for (; n; n--, a.micro++) {
            ft_action *place = growing_add(&p->lists[d][part].actions, sizeof a);
            int *line = growing_add(&p->lists[d][part].lines, sizeof *line);
            if (!place || !line) return parser_no_memory(p, err);
            *place = a;
            *line = p->line;
        }
    }
    return FT_OK;
}

static ft_status read_warmup(parser *p, ft_error *err)
{
    return read_list(p, 0, err);
}

static ft_status read_body(parser *p, ft_error *err)
{
    return read_list(p, 1, err);
}

static ft_status read_drain(parser *p, ft_error *err)
{
    return read_list(p, 2, err);
}

/* -- all of it --------------------------------------------------------------------------------- */

enum { SIZES = 6 };

typedef struct word_row {
    const char *word;
    bool once;
    ft_status (*read)(parser *p, ft_error *err);
} word_row;

/* The first SIZES are needed, and needed before any other line but the schedule. */
static const word_row words[] = {
    {"stages", true, read_stages},
    {"devices", true, read_devices},
    {"micro-batches", true, read_micros},
    {"batches", true, read_batches},
    {"body-batches", true, read_body_batches},
    {"body-repeats", true, read_body_repeats},
    {"schedule", true, read_schedule},
    {"forward-only", true, read_forward_only},
    {"stage", false, read_stage},
    {"edge", false, read_edge},
    {"order", false, read_order},
    {"nodes", true, read_nodes},
    {"node-stage", false, read_node_stage},
    {"memory", false, read_memory},
    {"warm-up", false, read_warmup},
    {"body", false, read_body},
    {"drain", false, read_drain},
};

enum { N_WORDS = sizeof words / sizeof *words };

static ft_status read_sizes_first(const parser *p, int row, ft_error *err)
{
    if (row <= SIZES) return FT_OK; /* the sizes themselves, and the schedule */
    for (int i = 0; i < SIZES; i++)
        if (!(p->seen >> i & 1))
            return parser_fault(p, err, "'%s' stands before '%s'", words[row].word, words[i].word);
    return FT_OK;
}

static ft_status read_line(parser *p, ft_error *err)
{
    word w = next_word(p);
    if (!w.length) return FT_OK;
    int row = 0;
    while (row < N_WORDS && !word_is(w, words[row].word)) row++;
    if (row == N_WORDS) return parser_fault(p, err, "unknown word '%.*s'", shown(w), w.text);
    if (words[row].once && (p->seen >> row & 1))
        return parser_fault(p, err, "'%s' stands twice", words[row].word);
    FT_TRY(read_sizes_first(p, row, err));
    p->seen |= 1U << row;
    FT_TRY(words[row].read(p, err));
    w = next_word(p);
    if (w.length) return parser_fault(p, err, "'%.*s' was not expected here", shown(w), w.text);
    return FT_OK;
}

/* The next line, without its comment; false at the end of the text. */
static bool next_line(parser *p, const char **rest)
{
    if (!**rest) return false;
    size_t length = strcspn(*rest, "\n");
    const char *comment = memchr(*rest, '#', length);
    p->at = *rest;
    p->end = comment ? comment : *rest + length;
    *rest += length + ((*rest)[length] == '\n');
    p->line++;
    return true;
}

static ft_status read_lines(parser *p, const char *text, ft_error *err)
{
    const char *rest = text;
    bool begun = next_line(p, &rest);
    if (!begun || !word_is(next_word(p), "ftpipe-plan") || !word_is(next_word(p), "1") ||
        next_word(p).length)
        return ft_fail(err, FT_FORMAT, "plan, line 1: expected 'ftpipe-plan 1'");
    while (next_line(p, &rest)) FT_TRY(read_line(p, err));
    return FT_OK;
}

/* Everything that was begun is complete. */
static ft_status check_complete(const parser *p, ft_error *err)
{
    for (int i = 0; i < SIZES; i++)
        if (!(p->seen >> i & 1))
            return ft_fail(err, FT_FORMAT, "plan: there is no line '%s'", words[i].word);
    for (int s = 0; s < p->plan->n_stages; s++)
        if (!p->stage_seen[s])
            return ft_fail(err, FT_FORMAT, "plan: there is no line 'stage %d'", s);
    for (int d = 0; p->plan->memory && d < p->plan->n_devices; d++)
        if (!p->memory_seen[d])
            return ft_fail(err, FT_FORMAT, "plan: there is no line 'memory %d'", d);
    if (p->nodes.n != p->n_nodes)
        return ft_fail(err, FT_FORMAT, "plan: 'node-stage' gives %lld nodes, 'nodes' %d",
                       (long long)p->nodes.n, p->n_nodes);
    return FT_OK;
}

static bool keep(ft_arena *arena, const growing *g, int64_t size, const void **out)
{
    void *copy = ft_arena_array(arena, g->n, size);
    if (copy && g->n) memcpy(copy, g->items, (size_t)(g->n * size));
    *out = copy;
    return copy != NULL;
}

static bool keep_list(ft_arena *arena, const growing_list *g, ft_action_list *out)
{
    const void *actions, *lines;
    if (!keep(arena, &g->actions, sizeof(ft_action), &actions) ||
        !keep(arena, &g->lines, sizeof(int), &lines))
        return false;
    *out = (ft_action_list){.n = (int)g->actions.n, .actions = actions, .lines = lines};
    return true;
}

/* Devices of all replicas, stage by stage. */
static bool keep_replicas(parser *p)
{
    ft_plan *plan = p->plan;
    int *first = ft_arena_array(plan->arena, (int64_t)plan->n_stages + 1, sizeof *first);
    int *devices = ft_arena_array(plan->arena, p->replicas.n, sizeof *devices);
    if (!first || !devices) return false;
    for (int s = 0; s < plan->n_stages; s++) {
        const int *from = (const int *)p->replicas.items + p->replicas_at[s];
        first[s + 1] = first[s] + p->n_replicas[s];
        memcpy(devices + first[s], from, (size_t)p->n_replicas[s] * sizeof *devices);
    }
    plan->replica_first = first;
    plan->replica_device = devices;
    return true;
}

/* Moves what grew into the plan's arena. */
static bool keep_all(parser *p)
{
    ft_plan *plan = p->plan;
    const void *edges, *edge_lines, *nodes;
    ft_device_plan *devices = ft_arena_array(plan->arena, plan->n_devices, sizeof *devices);
    if (!devices || !keep(plan->arena, &p->edges, sizeof(ft_edge), &edges) ||
        !keep(plan->arena, &p->edge_lines, sizeof(int), &edge_lines) ||
        !keep(plan->arena, &p->nodes, sizeof(int), &nodes) || !keep_replicas(p))
        return false;
    for (int d = 0; d < plan->n_devices; d++)
        if (!keep_list(plan->arena, &p->lists[d][0], &devices[d].warmup) ||
            !keep_list(plan->arena, &p->lists[d][1], &devices[d].body) ||
            !keep_list(plan->arena, &p->lists[d][2], &devices[d].drain))
            return false;
    plan->devices = devices;
    plan->n_edges = (int)p->edges.n;
    plan->edges = edges;
    plan->edge_line = edge_lines;
    plan->n_nodes = p->n_nodes;
    plan->node_stage = p->n_nodes ? nodes : NULL;
    return true;
}

/* Gives the stages the depths and in-flight counts that are not said. */
static ft_status derive_unsaid(const parser *p, ft_error *err)
{
    int n = p->plan->n_stages;
    bool unsaid = false;
    for (int s = 0; s < n; s++)
        unsaid = unsaid || p->depth[s] == UNSAID || p->in_flight[s] == UNSAID;
    if (!unsaid) return FT_OK;
    int *numbers = ft_arena_array(p->plan->arena, 3 * (int64_t)n, sizeof *numbers);
    if (!numbers) return parser_no_memory(p, err);
    ft_derived found = {numbers, numbers + n, numbers + 2 * (int64_t)n};
    FT_TRY(ft_plan_derive(p->plan, &found, err));
    for (int s = 0; s < n; s++) {
        if (p->depth[s] == UNSAID) p->depth[s] = found.depth[s];
        if (p->in_flight[s] == UNSAID) p->in_flight[s] = found.in_flight[s];
    }
    return FT_OK;
}

ft_status ft_plan_parse(ft_plan **out, const char *text, ft_error *err)
{
    ft_status status;
    parser p = {.plan = ft_plan_new()};
    *out = NULL;
    if (!p.plan) return ft_fail(err, FT_NOMEM, "plan: no memory");
    FT_GO(read_lines(&p, text, err));
    FT_GO(check_complete(&p, err));
    if (!keep_all(&p)) FT_GO(parser_no_memory(&p, err));
    FT_GO(derive_unsaid(&p, err));
    *out = p.plan;
    p.plan = NULL;
done:
    for (int d = 0; p.lists && d < (p.plan ? p.plan : *out)->n_devices; d++)
        for (int part = 0; part < 3; part++) {
            ft_free(p.lists[d][part].actions.items);
            ft_free(p.lists[d][part].lines.items);
        }
    ft_free(p.edges.items);
    ft_free(p.edge_lines.items);
    ft_free(p.replicas.items);
    ft_free(p.nodes.items);
    ft_plan_free(p.plan);
    return status;
}
