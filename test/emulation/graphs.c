/* test/emulation/graphs.c - captures and graphs on the host: what a stream is given while it
 * captures becomes nodes, one behind the other, and a graph gives their items to a stream.
 *
 * As by the library, a thread that captures may not take memory nor wait for what streams do: the
 * call answers so, and the capture is void. */
#include <stdlib.h>
#include <string.h>

#include "emulation.h"
#include "runtime.h"
#include "streams.h"

enum { UNSUPPORTED = 900, VOID = 901, NOT_CAPTURED = 903, OTHER_THREAD = 908, INVALID = 1 };

struct cu_node_s {
    cu_graph of;
    int at;
    item what;
};

struct cu_graph_s {
    int n, room;
    cu_node *nodes;
    cu_node last;
};

struct cu_exec_s {
    cu_graph of;
    int n;
    item *items;
};

static _Thread_local cu_stream capturing; /* by this thread; NULL: none */

static void *take(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory) abort();
    atomic_fetch_add(&emulated.open, 1);
    return memory;
}

static int give_back(void *memory)
{
    free(memory);
    atomic_fetch_sub(&emulated.open, 1);
    return 0;
}

/* -- captures ---------------------------------------------------------------------------------- */

int emu_outside(void)
{
    if (!capturing) return 0;
    capturing->void_capture = true;
    return UNSUPPORTED;
}

void emu_add_node(cu_stream s, const item *w)
{
    cu_graph g = s->capture;
    if (g->n == g->room) {
        g->room = g->room ? 2 * g->room : 64;
        g->nodes = realloc(g->nodes, (size_t)g->room * sizeof(cu_node));
        if (!g->nodes) abort();
    }
    cu_node node = malloc(sizeof *node);
    if (!node) abort();
    node->of = g;
    node->at = g->n;
    node->what = *w;
    g->last = g->nodes[g->n++] = node;
}

int capture_begin(cu_stream s, int mode)
{
    int answer = emu_begin();
    if (answer) return answer;
    if (!s || s->capture || capturing || mode != CU_CAPTURE_OF_THREAD) return UNSUPPORTED;
    s->capture = take(sizeof *s->capture);
    s->void_capture = false;
    capturing = s;
    return 0;
}

int capture_info(cu_stream s, int *status, uint64_t *id, cu_graph *graph, const cu_node **nodes,
                 size_t *n)
{
    int answer = emu_begin();
    if (answer) return answer;
    if (id || graph) return INVALID;
    *status = !s->capture ? 0 : s->void_capture ? 2 : CU_CAPTURES;
    *n = *status == CU_CAPTURES && s->capture->n > 0;
    *nodes = *n ? &s->capture->last : NULL;
    return 0;
}

int capture_end(cu_stream s, cu_graph *out)
{
    int answer = emu_begin();
    cu_graph g = s->capture;
    *out = NULL;
    if (!g) return NOT_CAPTURED;
    if (capturing != s) return OTHER_THREAD;
    s->capture = NULL;
    capturing = NULL;
    if (!answer && s->void_capture) answer = VOID;
    if (answer)
        graph_free(g);
    else
        *out = g;
    return answer;
}

/* -- graphs ------------------------------------------------------------------------------------ */

int graph_free(cu_graph g)
{
    for (int i = 0; i < g->n; i++) free(g->nodes[i]);
    free(g->nodes);
    return give_back(g);
}

int graph_make(cu_exec *out, cu_graph g, unsigned long long flags)
{
    int answer = emu_begin();
    *out = NULL;
    if (answer) return answer;
    if (flags) return INVALID;
    answer = atomic_load(&emulated.no_graphs);
    if (answer) return answer;
    cu_exec x = take(sizeof *x);
    x->of = g;
    x->n = g->n;
    x->items = malloc((size_t)g->n * sizeof *x->items);
    if (!x->items) abort();
    for (int i = 0; i < g->n; i++) x->items[i] = g->nodes[i]->what;
    *out = x;
    return 0;
}

int exec_free(cu_exec x)
{
    free(x->items);
    return give_back(x);
}

int exec_set(cu_exec x, cu_node node, const cu_kernel_params *params)
{
    int answer = emu_begin();
    if (answer) return answer;
    if (node->of != x->of) return INVALID;
    item *w = &x->items[node->at];
    if (w->kind != DO_LAUNCH || w->function != params->function ||
        params->block[0] != w->function->threads || params->shared_bytes != w->room)
        return INVALID;
    memcpy(w->grid, params->grid, sizeof w->grid);
    memcpy(w->args, params->arguments[0], w->function->args);
    return 0;
}

int exec_launch(cu_exec x, cu_stream s)
{
    int answer = emu_begin();
    if (!answer) answer = emu_outside();
    if (answer) return answer;
    atomic_fetch_add(&emulated.graphs, 1);
    for (int i = 0; i < x->n; i++) emu_put(s, &x->items[i]);
    return 0;
}
