/* data/spans.c - answers from the logits of a question's windows.
 *
 * A window is reduced to its best spans as soon as its logits are there; the spans of all windows
 * of a question then compete. A piece that lies in several windows counts in the one where it has
 * most context. Source: the program published with Devlin et al., arXiv:1810.04805, run_squad.py.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/data.h"

enum {
    CLS_AND_SEP = 2, /* before the context stand [CLS], the question and [SEP] */
    LONGEST = 30,    /* pieces of an answer */
};

static const double FULL_CONTEXT_WEIGHT = 0.01; /* of a window's length */

typedef struct answer {
    char *text; /* of ft_alloc */
    int64_t size;
    double probability;
    float start, stop;
} answer;

struct ft_spans {
    ft_span *spans;
    int64_t n, capacity;
    int n_answers;
    answer answers[FT_BEST_SPANS];
};

ft_status ft_spans_new(ft_spans **out, ft_error *err)
{
    *out = ft_alloc(sizeof **out);
    return *out ? FT_OK : ft_fail(err, FT_NOMEM, "no memory for spans");
}

void ft_spans_free(ft_spans *spans)
{
    if (!spans) return;
    for (int i = 0; i < spans->n_answers; i++) ft_free(spans->answers[i].text);
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

static bool is_known(const ft_spans *spans, const char *text, int64_t size)
{
    for (int i = 0; i < spans->n_answers; i++) {
        const answer *a = &spans->answers[i];
        if (a->size == size && memcmp(a->text, text, (size_t)size) == 0) return true;
    }
    return false;
}

static ft_status add_answer(ft_spans *spans, const char *text, int64_t size, float start,
                            float stop, ft_error *err)
{
    char *copy = ft_alloc(size + 1);
    if (!copy)
        return ft_fail(err, FT_NOMEM, "no memory for an answer of %lld bytes", (long long)size);
    if (size > 0) memcpy(copy, text, (size_t)size);
    spans->answers[spans->n_answers++] =
        (answer){.text = copy, .size = size, .start = start, .stop = stop};
    return FT_OK;
}

/* Shares that add up to 1, of the exponentials of the answers' logits. */
static void set_probabilities(ft_spans *spans)
{
    answer *all = spans->answers;
    double top = (double)all[0].start + (double)all[0].stop, sum = 0;
    for (int i = 0; i < spans->n_answers; i++) {
        all[i].probability = exp((double)all[i].start + (double)all[i].stop - top);
        sum += all[i].probability;
    }
    for (int i = 0; i < spans->n_answers; i++) all[i].probability /= sum;
}

ft_status ft_spans_answer(ft_spans *spans, ft_span_text *text, void *context, ft_error *err)
{
    if (spans->n > 1) qsort(spans->spans, (size_t)spans->n, sizeof *spans->spans, compare);
    for (int64_t i = 0; i < spans->n && spans->n_answers < FT_BEST_SPANS; i++) {
        const ft_span *span = &spans->spans[i];
        const char *bytes;
        int64_t size;
        FT_TRY(text(context, span, &bytes, &size, err));
        if (is_known(spans, bytes, size)) continue;
        FT_TRY(add_answer(spans, bytes, size, span->start, span->stop, err));
    }
    if (spans->n_answers == 0) FT_TRY(add_answer(spans, "empty", 5, 0, 0, err));
    set_probabilities(spans);
    ft_free(spans->spans);
    spans->spans = NULL;
    spans->n = spans->capacity = 0;
    return FT_OK;
}

int ft_spans_n_answers(const ft_spans *spans)
{
    return spans->n_answers;
}

ft_span_answer ft_spans_answer_at(const ft_spans *spans, int i)
{
    const answer *a = &spans->answers[i];
    return (ft_span_answer){.text = a->text,
                            .size = a->size,
                            .probability = a->probability,
                            .start = a->start,
                            .stop = a->stop};
}
