/* test/fuzz/fuzz_graph.c - any bytes as the text of a graph.
 *
 * What is accepted is a valid graph: it is written, read back to the same text, and goes through
 * the passes, which may refuse it but not fail otherwise. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(const ft_graph *g)
{
    ft_text first = {0}, second = {0};
    ft_graph *again = NULL;
    ft_error err;
    if (ft_graph_write(g, &first, &err) != FT_OK) __builtin_trap();
    if (ft_graph_parse(&again, first.data, &err) != FT_OK) __builtin_trap();
    if (ft_graph_write(again, &second, &err) != FT_OK) __builtin_trap();
    if (strcmp(first.data, second.data) != 0) __builtin_trap();
    ft_graph_free(again);
    ft_text_fini(&first);
    ft_text_fini(&second);
}

static void run_passes(ft_graph *g)
{
    ft_error err;
    int n = ft_graph_n_forward(g);
    ft_value_id loss = ft_graph_find(g, "loss");
    if (loss != FT_NO_VALUE) (void)ft_graph_grad(g, loss, &err);
    if (ft_graph_verify(g, &err) != FT_OK) __builtin_trap();
    int *stage_of = ft_alloc(n * (int64_t)sizeof *stage_of);
    bool recompute[2] = {false, true};
    const ft_split *split;
    for (int i = 0; i < n; i++) stage_of[i] = i >= n / 2;
    (void)ft_graph_split(g, stage_of, recompute, 2, &split, &err);
    ft_free(stage_of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = ft_alloc((int64_t)size + 1);
    ft_graph *g = NULL;
    ft_error err;
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    if (ft_graph_parse(&g, text, &err) == FT_OK) {
        read_back(g);
        run_passes(g);
        read_back(g);
    }
    ft_graph_free(g);
    ft_free(text);
    return 0;
}
