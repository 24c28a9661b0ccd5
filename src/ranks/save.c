/* ranks/save.c - a file of what several processes own: rank 0 says where in it everything goes, and
 * each writes what is its own where it sees the file. */
#include <string.h>

#include "base/alloc.h"
#include "blueprint/states.h"
#include "io/io.h"
#include "ranks/ranks.h"
#include "state/remote.h"

ft_view piece_view(const ft_run *run, const piece *p)
{
    const ft_blueprint *b = run->blueprint;
    bool here = owner_is_here(run, p->param);
    if (p->part < 0)
        return ft_view_of(&b->params[p->param].spec, here ? param_at(run, p->param) : NULL);
    int64_t bytes;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    ft_blueprint_state(b, p->param, parts, &bytes);
    return ft_view_of(&parts[p->part].spec,
                      here ? run->states[p->param] + parts[p->part].offset : NULL);
}

static int64_t piece_bytes(const ft_run *run, const piece *p)
{
    ft_view view = piece_view(run, p);
    ft_spec spec = ft_view_spec(&view);
    return ft_spec_bytes(&spec);
}

/* What is said: the pieces, the mark, the path. */
ft_status ranks_say_write(const ft_run *run, const char *path, const char mark[FT_MARK_BYTES],
                          const piece *pieces, int n, ft_error *err)
{
    const control c = {.kind = SAY_WRITE, .number = n};
    int64_t list = n * (int64_t)sizeof *pieces, name = (int64_t)strlen(path) + 1;
    int64_t bytes = (int64_t)sizeof c + list + FT_MARK_BYTES + name;
    char *page = ft_alloc(bytes), *at = page;
    if (!page) return ft_fail(err, FT_NOMEM, "%s: no memory to say who writes what", path);
    memcpy(at, &c, sizeof c);
    memcpy(at += sizeof c, pieces, (size_t)list);
    memcpy(at += list, mark, FT_MARK_BYTES);
    memcpy(at += FT_MARK_BYTES, path, (size_t)name);
    for (int rank = 1; rank < ft_world_size(run->world); rank++)
        ft_world_send(run->world, rank, FT_TAG_CONTROL, page, bytes, true);
    ft_free(page);
    return FT_OK;
}

static void hear_written(void *user, int rank, char *data)
{
    bool *wrote = user;
    memcpy(&wrote[rank], data, sizeof *wrote);
}

ft_status ranks_hear_written(const ft_run *run, bool *wrote, ft_error *err)
{
    return ft_world_take_replies(run->world, FT_TAG_REPLY, hear_written, wrote, err);
}

ft_status ranks_write(const ft_run *run, const char *data, int n, bool *wrote, ft_error *err)
{
    const piece *pieces = (const piece *)(const void *)data;
    const char *mark = data + n * (int64_t)sizeof *pieces, *path = mark + FT_MARK_BYTES;
    ft_filler file;
    *wrote = ft_mark_is(path, mark);
    if (!*wrote) return FT_OK;
    FT_TRY(ft_filler_open(&file, path, err));
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < n; i++)
        if (owner_is_here(run, pieces[i].param))
            status = ft_filler_add(&file, piece_view(run, &pieces[i]).data,
                                   piece_bytes(run, &pieces[i]), pieces[i].at, err);
    if (status == FT_OK) status = ft_filler_sync(&file, err);
    ft_filler_close(&file);
    return status;
}

ft_status ranks_bring(const ft_run *run, const piece *p, const bool *wrote, const ft_filler *file,
                      ft_error *err)
{
    const control c = {.kind = SAY_SEND, .number = p->param, .part = p->part};
    int owner = rank_of_seat(run, run->blueprint->params[p->param].owner);
    ft_letter letter;
    ft_error theirs;
    if (wrote[owner]) return FT_OK;
    ft_world_send(run->world, owner, FT_TAG_CONTROL, &c, sizeof c, true);
    FT_TRY(ft_world_take_reply(run->world, FT_TAG_REPLY, &letter, &theirs, err));
    ft_status status = theirs.status;
    if (status == FT_OK)
        status = ft_filler_add(file, letter.data + sizeof theirs, piece_bytes(run, p), p->at, err);
    else if (err)
        *err = theirs;
    ft_world_drop(run->world, &letter);
    return status;
}
