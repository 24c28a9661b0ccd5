/* engine/load.c - parameters and optimizer state of a run out of a file, or drawn, each by the
 * processes that have it.
 *
 * Rank 0 says what is where in the file. A process that sees it there reads what it has; what one
 * has that does not see it is read by rank 0, and sent when the run is refreshed. */
#include <limits.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/internal.h"
#include "io/io.h"

typedef struct loading {
    ft_run *run;
    const char *path;
    ft_archive *archive;
    int n;
    piece *pieces;
    bool *read; /* by rank: what it has */
} loading;

static ft_status find_pieces(loading *l, const ft_saved *list, ft_error *err)
{
    for (int i = 0; i < l->n; i++) {
        int entry = ft_archive_find(l->archive, list[i].name);
        FT_TRY(check_saved(l->run, &list[i], err));
        if (entry < 0)
            return ft_fail(err, FT_FORMAT, "%s: holds no tensor %s", l->path, list[i].name);
        l->pieces[i] = (piece){list[i].param, list[i].part, entry};
    }
    return FT_OK;
}

/* Into the memory of this process, which is a mirror of what others own. */
static ft_status read_here(const loading *l, const piece *p, ft_error *err)
{
    const char *name;
    FT_TRY(ft_run_fetch(l->run, p->param, p->part >= 0, err));
    ft_view view = ft_run_param(l->run, p->param);
    if (p->part >= 0) ft_run_state(l->run, p->param, p->part, &name, &view);
    return ft_archive_read(l->archive, (int)p->at, &view, err);
}

static bool is_others(const loading *l, const piece *p)
{
    return l->run->world && !owner_is_here(l->run, p->param);
}

/* What rank 0 has written of a piece's parameter before is sent first; nothing of it is sent later
 * where all who have it read it themselves. */
static ft_status settle(const loading *l, bool before, ft_error *err)
{
    for (int i = 0; i < l->n; i++) {
        const piece *p = &l->pieces[i];
        bool first = i == 0 || p[-1].param != p->param;
        if (!is_others(l, p)) continue;
        if (before && first) FT_TRY(ranks_store(l->run, p->param, err));
        if (!before && ranks_all_have(l->run, p, l->read)) forget_mirror(l->run, p->param);
    }
    return FT_OK;
}

static ft_status read_own(const loading *l, ft_error *err)
{
    for (int i = 0; i < l->n; i++)
        if (!is_others(l, &l->pieces[i])) FT_TRY(read_here(l, &l->pieces[i], err));
    return FT_OK;
}

static ft_status read_all(const loading *l, bool refuses, ft_error *err)
{
    char mark[FT_MARK_BYTES], whole[PATH_MAX];
    ft_error later;
    if (!l->run->world) return read_own(l, err);
    if (!realpath(l->path, whole))
        return ft_fail(err, FT_IO, "%s: has no path from the root", l->path);
    FT_TRY(ft_archive_mark(l->archive, mark, err));
    FT_TRY(settle(l, true, err));
    const file_words words = {SAY_READ, refuses, whole, mark, l->pieces, l->n};
    FT_TRY(ranks_say_file(l->run, &words, err));
    ranks_note_read(l->run);
    ft_status status = read_own(l, err);
    ft_status heard = ranks_hear_file(l->run, l->read, status == FT_OK ? err : &later);
    if (status == FT_OK) status = heard;
    settle(l, false, NULL);
    for (int i = 0; status == FT_OK && i < l->n; i++) {
        const piece *p = &l->pieces[i];
        if (is_others(l, p) && !ranks_all_have(l->run, p, l->read)) status = read_here(l, p, err);
    }
    return status;
}

ft_status ft_run_read(ft_run *run, const char *path, const ft_saved *list, int n, bool refuses,
                      ft_error *err)
{
    loading l = {.run = run, .path = path, .n = n};
    if (leg_is_under_way(run)) return ft_fail(err, FT_INVALID, "engine: a leg is running");
    l.pieces = ft_alloc((n + 1) * (int64_t)sizeof *l.pieces);
    l.read = ft_alloc(run->world ? ft_world_size(run->world) : 1);
    ft_status status = FT_OK;
    if (!l.pieces || !l.read) status = ft_fail(err, FT_NOMEM, "%s: no memory to read it", path);
    if (status == FT_OK) status = ft_archive_open(&l.archive, path, err);
    if (status == FT_OK) status = find_pieces(&l, list, err);
    if (status == FT_OK) status = read_all(&l, refuses, err);
    ft_archive_close(l.archive);
    ft_free(l.pieces);
    ft_free(l.read);
    return status;
}

/* -- drawn ------------------------------------------------------------------------------------- */

ft_status ft_run_draw(ft_run *run, int param, const ft_draw *draw, uint64_t seed, ft_error *err)
{
    if (leg_is_under_way(run)) return ft_fail(err, FT_INVALID, "engine: a leg is running");
    if (!owner_is_here(run, param)) {
        ranks_draw(run, param, draw, seed);
        return FT_OK;
    }
    FT_TRY(ft_run_fetch(run, param, false, err));
    ft_view view = ft_run_param(run, param);
    ft_view_draw(&view, draw, seed, ft_cpu_cores());
    return FT_OK;
}
