/* data/spans.c - answers from the logits of a question's windows.
 *
 * A window is reduced to its best spans as soon as its logits are there; the spans of all windows
 * of a question then compete. A piece that lies in several windows counts in the one where it has
 * most context. Source: the program published with Devlin et al., arXiv:1810.04805, run_squad.py.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "data/data.h"

enum {
    CLS_AND_SEP = 2, /* before the context stand [CLS], the question and [SEP] */
    LONGEST = 30,    /* pieces of an answer */
};

static const double FULL_CONTEXT_WEIGHT = 0.01; /* of a window's length */

struct ft_spans {
    ft_span *spans;
    int64_t n, capacity;
};

ft_status ft_spans_new(ft_spans **out, ft_error *err)
{
    *out = ft_alloc(sizeof **out);
    return *out ? FT_OK : ft_fail(err, FT_NOMEM, "no memory for spans");
}

void ft_spans_free(ft_spans *spans)
{
    if (!spans) return;
    ft_free(spans->spans);
    ft_free(spans);
}

int64_t ft_spans_size(const ft_spans *spans)
{
    return spans->n;
}

const ft_span *ft_spans_get(const ft_spans *spans, int64_t i)
{
    return &spans->spans[i];
}

static ft_status reserve(ft_spans *spans, int64_t more, ft_error *err)
{
    if (spans->n + more <= spans->capacity) return FT_OK;
    int64_t capacity = 2 * spans->capacity + more;
    ft_span *grown = ft_realloc(spans->spans, capacity * (int64_t)sizeof *grown);
    if (!grown) return ft_fail(err, FT_NOMEM, "no memory for %lld spans", (long long)capacity);
    spans->spans = grown;
    spans->capacity = capacity;
    return FT_OK;
}

/* The numbers of the FT_BEST_SPANS greatest of n values, greatest first, earlier ones before
 * equals; how many there are. What is not finite (a model that diverged) is left out. */
static int greatest(const float *values, int64_t n, int64_t best[FT_BEST_SPANS])
{
    int count = 0;
    for (int64_t i = 0; i < n; i++) {
        bool full = count == FT_BEST_SPANS;
        if (!isfinite(values[i]) || (full && values[i] <= values[best[count - 1]])) continue;
        int k = full ? count - 1 : count++;
        for (; k > 0 && values[best[k - 1]] < values[i]; k--) best[k] = best[k - 1];
        best[k] = i;
    }
    return count;
}

/* The window in which a piece has most context; the first of equal ones. */
static int find_home(const ft_span_window *windows, int n_windows, int64_t piece)
{
    int best = -1;
    double most = 0;
    for (int w = 0; w < n_windows; w++) {
        int64_t before = piece - windows[w].first;
        int64_t after = windows[w].first + windows[w].n - 1 - piece;
        if (before < 0 || after < 0) continue;
        double context = (double)(before < after ? before : after);
        double score = context + FULL_CONTEXT_WEIGHT * (double)windows[w].n;
        if (best < 0 || score > most) best = w, most = score;
    }
    return best;
}

ft_status ft_spans_add(ft_spans *spans, const ft_span_logits *logits, ft_error *err)
{
    const ft_span_window *window = &logits->windows[logits->window];
    int64_t before = logits->query + CLS_AND_SEP, end = before + window->n; /* of the context */
    if (end + 1 > logits->length)
        return ft_fail(err, FT_INVALID,
                       "logits of %lld positions, expected at least the %lld of the window",
                       (long long)logits->length, (long long)(end + 1));
    FT_TRY(reserve(spans, (int64_t)FT_BEST_SPANS * FT_BEST_SPANS, err));
    int64_t starts[FT_BEST_SPANS], ends[FT_BEST_SPANS];
    int n_starts = greatest(logits->starts, end + 1, starts);
    int n_ends = greatest(logits->ends, end + 1, ends);
    int order = 0;
    for (int i = 0; i < n_starts; i++) {
        int64_t s = starts[i], first = s - before + window->first;
        bool inside = s >= before && s < end;
        if (!inside || find_home(logits->windows, logits->n_windows, first) != logits->window)
            continue;
        for (int k = 0; k < n_ends; k++) {
            int64_t e = ends[k];
            if (e < s || e >= end || e - s >= LONGEST) continue;
            spans->spans[spans->n++] = (ft_span){
                .first = first,
                .last = first + e - s,
                .start = logits->starts[s],
                .stop = logits->ends[e],
                .window = logits->window,
                .order = order++,
            };
        }
    }
    return FT_OK;
}

static int compare(const void *left, const void *right)
{
    const ft_span *a = left, *b = right;
    double sum_a = (double)a->start + (double)a->stop;
    double sum_b = (double)b->start + (double)b->stop;
    if (sum_a != sum_b) return sum_a > sum_b ? -1 : 1;
    if (a->window != b->window) return a->window < b->window ? -1 : 1;
    return a->order - b->order;
}

void ft_spans_sort(ft_spans *spans)
{
    if (spans->n > 1) qsort(spans->spans, (size_t)spans->n, sizeof *spans->spans, compare);
}
