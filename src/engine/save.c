/* engine/save.c - parameters and optimizer state of a run into a file, each by the process that
 * owns it.
 *
 * Rank 0 lays the file out. A process that sees it there writes what it owns; what one owns that
 * does not see it comes to rank 0, a tensor at a time. Which of the two it is is found out for each
 * file. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/internal.h"
#include "io/io.h"

/* Lists by tensor of the file; of those that other processes own, views have no data. */
typedef struct saving {
    ft_run *run;
    int n, n_away;
    ft_named_view *views;
    int64_t *at; /* where in the file */
    piece *away; /* those without data, one behind the other */
    bool *wrote; /* by rank: what it owns */
} saving;

ft_status check_saved(const ft_run *run, const ft_saved *x, ft_error *err)
{
    if (x->param >= 0 && x->param < run->blueprint->n_params &&
        (x->part < 0 || ft_run_state_name(run, x->param, x->part)))
        return FT_OK;
    return ft_fail(err, FT_INVALID, "engine: '%s' is no parameter of the run, nor of its state",
                   x->name);
}

/* What is here, or in a mirror that is as new; else without data. */
static ft_status view_saved(ft_run *run, const ft_saved *x, ft_view *out, ft_error *err)
{
    const piece p = {x->param, x->part, 0};
    const char *name;
    *out = x->view;
    if (x->param < 0) return FT_OK;
    FT_TRY(check_saved(run, x, err));
    *out = piece_view(run, &p);
    if (!out->data && !run->mirrors[x->param].is_new) return FT_OK;
    FT_TRY(ft_run_fetch(run, x->param, x->part >= 0, err));
    if (x->part < 0)
        *out = ft_run_param(run, x->param);
    else
        ft_run_state(run, x->param, x->part, &name, out);
    return FT_OK;
}

static ft_status open_saving(saving *s, const ft_saved *list, ft_error *err)
{
    int64_t n = s->n + 1;
    s->views = ft_alloc(n * (int64_t)sizeof *s->views);
    s->at = ft_alloc(n * (int64_t)sizeof *s->at);
    s->away = ft_alloc(n * (int64_t)sizeof *s->away);
    s->wrote = ft_alloc(s->run->world ? ft_world_size(s->run->world) : 1);
    if (!s->views || !s->at || !s->away || !s->wrote)
        return ft_fail(err, FT_NOMEM, "engine: no memory to save %d tensors", s->n);
    for (int i = 0; i < s->n; i++) {
        s->views[i].name = list[i].name;
        FT_TRY(view_saved(s->run, &list[i], &s->views[i].view, err));
        if (list[i].param >= 0 && !s->views[i].view.data)
            s->away[s->n_away++] = (piece){list[i].param, list[i].part, i};
    }
    return FT_OK;
}

static void close_saving(saving *s)
{
    ft_free(s->views);
    ft_free(s->at);
    ft_free(s->away);
    ft_free(s->wrote);
}

static ft_status fill_own(const saving *s, const ft_filler *file, ft_error *err)
{
    for (int i = 0; i < s->n; i++) {
        const ft_view *view = &s->views[i].view;
        ft_spec spec = ft_view_spec(view);
        if (view->data)
            FT_TRY(ft_filler_add(file, view->data, ft_spec_bytes(&spec), s->at[i], err));
    }
    return FT_OK;
}

/* What the others own: they write it while rank 0 writes its own. */
static ft_status fill_all(const saving *s, const char *path, const char *mark, ft_error *err)
{
    const file_words words = {SAY_WRITE, false, path, mark, s->away, s->n_away};
    ft_filler file;
    ft_error later;
    FT_TRY(ft_filler_open(&file, path, err));
    ft_status status = FT_OK;
    FT_GO(ranks_say_file(s->run, &words, err));
    status = fill_own(s, &file, err);
    ft_status heard = ranks_hear_file(s->run, s->wrote, status == FT_OK ? err : &later);
    if (status == FT_OK) status = heard;
    for (int i = 0; status == FT_OK && i < s->n_away; i++)
        status = ranks_bring(s->run, &s->away[i], s->wrote, &file, err);
    FT_GO(status);
    FT_GO(ft_filler_sync(&file, err));
done:
    ft_filler_close(&file);
    return status;
}

/* Other processes may have other working directories. */
static ft_status write_shared(saving *s, const char *path, ft_error *err)
{
    char mark[FT_MARK_BYTES], whole[PATH_MAX];
    FT_TRY(ft_safetensors_lay_out(path, s->views, s->n, s->at, err));
    for (int i = 0; i < s->n_away; i++) s->away[i].at = s->at[s->away[i].at];
    if (!realpath(path, whole)) return ft_fail(err, FT_IO, "%s: has no path from the root", path);
    FT_TRY(ft_mark_set(whole, mark, err));
    ft_status status = fill_all(s, whole, mark, err);
    ft_mark_remove(whole);
    return status;
}

ft_status ft_run_write(ft_run *run, const char *path, const ft_saved *list, int n, ft_error *err)
{
    saving s = {.run = run, .n = n};
    if (leg_is_under_way(run)) return ft_fail(err, FT_INVALID, "engine: a leg is running");
    ft_status status = open_saving(&s, list, err);
    if (status == FT_OK)
        status =
            s.n_away ? write_shared(&s, path, err) : ft_safetensors_write(path, s.views, n, err);
    close_saving(&s);
    return status;
}
