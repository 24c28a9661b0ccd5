/* chain/chain.c - runs the steps of a chain. */
#include <string.h>

#include "base/alloc.h"
#include "chain/internal.h"

ft_stretch ft_stretch_part(ft_stretch text, int64_t from, int64_t to)
{
    int64_t head = text.head - from;
    head = head < 0 ? 0 : head;
    return (ft_stretch){text.bytes + from, to - from, head < to - from ? head : to - from};
}

static ft_status start(ft_work *work, const ft_chain *chain, ft_error *err)
{
    *work = (ft_work){.err = err};
    if (!chain->has_patterns) return FT_OK;
    work->match = pcre2_match_data_create(1, chain->memory);
    return work->match ? FT_OK : ft_fail(err, FT_NOMEM, "tokenizer: no memory to cut text");
}

ft_status ft_chain_normalize(const ft_chain *chain, ft_stretch text, ft_bytes *out, int64_t *head,
                             ft_error *err)
{
    ft_draft now = {{0}, 0}, next = {{0}, 0};
    ft_work work;
    *head = text.head;
    if (chain->n_normalizers == 0)
        return ft_bytes_add(out, text.bytes, text.size) ? FT_OK : ft_bytes_no_memory(out, err);
    ft_status status = start(&work, chain, err);
    ft_stretch in = text;
    for (int i = 0; status == FT_OK && i < chain->n_normalizers; i++) {
        const ft_step *step = &chain->normalizers[i];
        next.bytes.n = next.head = 0;
        status = step->row->normalize(&work, step, in, &next);
        ft_draft swap = now;
        now = next;
        next = swap;
        in = (ft_stretch){now.bytes.n > 0 ? now.bytes.data : "", now.bytes.n, now.head};
    }
    if (status == FT_OK && !ft_bytes_add(out, in.bytes, in.size))
        status = ft_bytes_no_memory(out, err);
    *head = in.head;
    pcre2_match_data_free(work.match);
    ft_free(now.bytes.data);
    ft_free(next.bytes.data);
    return status;
}

/* -- cutting ---------------------------------------------------------------------------------- */

/* What one cutter works in; the parts that it finds go through the next one, one by one. */
typedef struct level {
    ft_draft text;
    ft_cuts cuts;
} level;

typedef struct cutting {
    const ft_chain *chain;
    ft_work work;
    level levels[FT_CHAIN_STEPS];
    ft_part_sink *sink;
    void *context;
} cutting;

/* Puts finds and what is between them together, in place, so that every cut left is a part. */
static void join(ft_cuts *cuts, int joins)
{
    int64_t n = 0;
    bool before = false; /* whether the one before was a find */
    for (int64_t i = 0; i < cuts->n; i++) {
        ft_cut cut = cuts->data[i];
        bool joined = (joins == FT_CUT_PREVIOUS && cut.found && !before) ||
                      (joins == FT_CUT_CONTIGUOUS && cut.found == before);
        before = cut.found;
        if (joins == FT_CUT_REMOVED && cut.found) continue;
        if (joined && n > 0)
            cuts->data[n - 1].to = cut.to;
        else
            cuts->data[n++] = cut;
    }
    cuts->n = n;
}

/* The same for finds that go with what follows them: of several the last one does. */
static void join_next(ft_cuts *cuts)
{
    int64_t n = 0;
    for (int64_t i = 0; i < cuts->n; i++) {
        ft_cut cut = cuts->data[i];
        if (!cut.found && n > 0 && cuts->data[n - 1].found)
            cuts->data[n - 1] = (ft_cut){cuts->data[n - 1].from, cut.to, false};
        else
            cuts->data[n++] = cut;
    }
    cuts->n = n;
}

/* Cuts text by the cutters from `i` on. */
static ft_status cut_from(cutting *c, int i, ft_stretch text)
{
    if (text.size == 0) return FT_OK;
    if (i == c->chain->n_cutters) return c->sink(c->context, text.bytes, text.size, c->work.err);
    const ft_step *step = &c->chain->cutters[i];
    level *here = &c->levels[i];
    if (step->row->normalize) {
        here->text.bytes.n = here->text.head = 0;
        FT_TRY(step->row->normalize(&c->work, step, text, &here->text));
        text = (ft_stretch){here->text.bytes.data, here->text.bytes.n, here->text.head};
    }
    here->cuts.n = 0;
    FT_TRY(step->row->find(&c->work, step, text, &here->cuts));
    if (step->joins == FT_CUT_NEXT)
        join_next(&here->cuts);
    else
        join(&here->cuts, step->joins);
    for (int64_t k = 0; k < here->cuts.n; k++) {
        ft_cut part = here->cuts.data[k];
        FT_TRY(cut_from(c, i + 1, ft_stretch_part(text, part.from, part.to)));
    }
    return FT_OK;
}

ft_status ft_chain_cut(const ft_chain *chain, ft_stretch text, ft_part_sink *sink, void *context,
                       ft_error *err)
{
    cutting c = {.chain = chain, .sink = sink, .context = context};
    ft_status status = start(&c.work, chain, err);
    if (status == FT_OK) status = cut_from(&c, 0, text);
    for (int i = 0; i < chain->n_cutters; i++) {
        ft_free(c.levels[i].text.bytes.data);
        ft_free(c.levels[i].cuts.data);
    }
    pcre2_match_data_free(c.work.match);
    return status;
}

void ft_chain_free(ft_chain *chain)
{
    if (!chain) return;
    for (int i = 0; i < chain->n_normalizers + chain->n_cutters; i++) {
        ft_step *step = i < chain->n_normalizers ? &chain->normalizers[i]
                                                 : &chain->cutters[i - chain->n_normalizers];
        pcre2_code_free(step->pattern);
        ft_charmap_free(step->map);
        ft_free(step->text.data);
    }
    pcre2_general_context_free(chain->memory);
    ft_free(chain);
}
