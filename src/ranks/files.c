/* ranks/files.c - a file of what several processes have: rank 0 says where in it everything is, and
 * each writes what is its own, or reads what it has, where it sees the file. */
#include <string.h>

#include "base/alloc.h"
#include "blueprint/states.h"
#include "io/io.h"
#include "ranks/ranks.h"
#include "edges/remote.h"
#include "state/here.h"

/* Of memory that holds the parameter, or all of its state; NULL: of none. */
static ft_view view_in(const ft_run *run, const piece *p, char *base)
{
    const ft_blueprint *b = run->blueprint;
    if (p->part < 0) return ft_view_of(&b->params[p->param].spec, base);
    int64_t bytes;
    ft_state_part parts[FT_MAX_STATE_PARTS];
    ft_blueprint_state(b, p->param, parts, &bytes);
    return ft_view_of(&parts[p->part].spec, base ? base + parts[p->part].offset : NULL);
}

ft_view piece_view(const ft_run *run, const piece *p)
{
    char *base = NULL;
    if (owner_is_here(run, p->param))
        base = p->part < 0 ? mirrored_param(run, p->param) : mirrored_state(run, p->param);
    return view_in(run, p, base);
}

static int64_t piece_bytes(const ft_run *run, const piece *p)
{
    ft_view view = piece_view(run, p);
    ft_spec spec = ft_view_spec(&view);
    return ft_spec_bytes(&spec);
}

/* -- telling ----------------------------------------------------------------------------------- */

/* What is said: the pieces, the mark, the path. */
ft_status ranks_say_file(const ft_run *run, const file_words *words, ft_error *err)
{
    const control c = {.kind = words->kind, .number = words->n, .part = words->refuses};
    int64_t list = words->n * (int64_t)sizeof *words->pieces;
    int64_t name = (int64_t)strlen(words->path) + 1;
    int64_t bytes = (int64_t)sizeof c + list + FT_MARK_BYTES + name;
    char *page = ft_alloc(bytes), *at = page;
    if (!page) return ft_fail(err, FT_NOMEM, "%s: no memory to say whose it is", words->path);
    memcpy(at, &c, sizeof c);
    memcpy(at += sizeof c, words->pieces, (size_t)list);
    memcpy(at += list, words->mark, FT_MARK_BYTES);
    memcpy(at += FT_MARK_BYTES, words->path, (size_t)name);
    for (int rank = 1; rank < ft_world_size(run->world); rank++)
        ft_world_send(run->world, rank, FT_TAG_CONTROL, page, bytes, true);
    ft_free(page);
    return FT_OK;
}

static void hear_done(void *user, int rank, char *data)
{
    bool *done = user;
    memcpy(&done[rank], data, sizeof *done);
}

ft_status ranks_hear_file(const ft_run *run, bool *done, ft_error *err)
{
    return ft_world_take_replies(run->world, FT_TAG_REPLY, hear_done, done, err);
}

/* -- doing ------------------------------------------------------------------------------------- */

static ft_status write_piece(ft_run *run, const piece *p, const ft_filler *file, ft_error *err)
{
    FT_TRY(fetch_mirror(run, p->param, p->part >= 0, err));
    return ft_filler_add(file, piece_view(run, p).data, piece_bytes(run, p), p->at, err);
}

ft_status ranks_write(ft_run *run, const char *data, int n, bool *wrote, ft_error *err)
{
    const piece *pieces = (const piece *)(const void *)data;
    const char *mark = data + n * (int64_t)sizeof *pieces, *path = mark + FT_MARK_BYTES;
    ft_filler file;
    *wrote = ft_mark_is(path, mark);
    if (!*wrote) return FT_OK;
    FT_TRY(ft_filler_open(&file, path, err));
    ft_status status = FT_OK;
    for (int i = 0; status == FT_OK && i < n; i++)
        if (owner_is_here(run, pieces[i].param)) status = write_piece(run, &pieces[i], &file, err);
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

typedef struct reading {
    const ft_run *run;
    const ft_archive *archive;
    const piece *piece;
} reading;

static ft_status read_piece(void *arg, char *held, ft_error *err)
{
    const reading *r = arg;
    ft_view view = view_in(r->run, r->piece, held);
    return ft_archive_read(r->archive, (int)r->piece->at, &view, err);
}

/* Whether it is the file with that mark. */
static ft_status is_meant(const ft_archive *archive, const char *path, const char *mark,
                          bool refuses, bool *is, ft_error *err)
{
    char own[FT_MARK_BYTES];
    FT_TRY(ft_archive_mark(archive, own, err));
    *is = strcmp(own, mark) == 0;
    if (*is || !refuses) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "%s is not the file that rank 0 has there: expected the same one, or none",
                   path);
}

ft_status ranks_read(ft_run *run, const char *data, int n, bool refuses, bool *read, ft_error *err)
{
    const piece *pieces = (const piece *)(const void *)data;
    const char *mark = data + n * (int64_t)sizeof *pieces, *path = mark + FT_MARK_BYTES;
    ft_archive *archive;
    ft_error own;
    *read = false;
    ft_status status = ft_archive_open(&archive, path, &own);
    bool unseen = status == FT_NOT_FOUND || status == FT_IO || !refuses;
    if (status != FT_OK && !unseen) *err = own;
    if (status != FT_OK) return unseen ? FT_OK : status;
    status = is_meant(archive, path, mark, refuses, read, err);
    for (int i = 0; status == FT_OK && *read && i < n; i++) {
        reading r = {run, archive, &pieces[i]};
        status = write_held(run, pieces[i].param, pieces[i].part >= 0, read_piece, &r, err);
    }
    ft_archive_close(archive);
    return status;
}
