/* transport/carry.c - messages on their way, by one thread at a time. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/world.h"

void *list_add(list *l, int64_t size)
{
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 256;
        void *items = ft_realloc(l->items, room * size);
        if (!items) return NULL;
        l->items = items;
        l->room = room;
    }
    void *item = (char *)l->items + l->n++ * size;
    memset(item, 0, (size_t)size);
    return item;
}

void list_remove(list *l, int i, int64_t size)
{
    char *at = (char *)l->items + i * size;
    l->n--;
    memmove(at, at + size, (size_t)((l->n - i) * size));
}

static void fail_mpi(ft_world *w, int rc, const char *what, int rank)
{
    ft_error error;
    char words[160] = "";
    const char *at = rank == w->rank ? "" : w->peers[rank].at;
    w->mpi->words(-rc, words, sizeof words);
    ft_fail(&error, FT_HANG, "rank %d (host %s) cannot be reached: %s failed, %s%s%s", rank,
            w->peers[rank].hello.host, what, words, at[0] ? "; it was at " : "", at);
    world_fail(w, &error);
}

void world_fail_memory(ft_world *w)
{
    ft_error error;
    ft_fail(&error, FT_NOMEM, "rank %d: no memory for messages", w->rank);
    world_fail(w, &error);
}

/* -- sends ------------------------------------------------------------------------------------- */

static void begin_sends(ft_world *w)
{
    bool room = true;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->waiting.n; i++) {
        const sending *next = &((const sending *)w->waiting.items)[i];
        sending *s = room ? list_add(&w->sends, sizeof *s) : NULL;
        room = s != NULL;
        if (s)
            *s = *next;
        else
            ft_free(next->own);
    }
    w->waiting.n = 0;
    pthread_mutex_unlock(&w->lock);
    if (!room) world_fail_memory(w); /* some are lost */
}

static bool move_sends(ft_world *w)
{
    bool moved = false;
    for (int i = 0; i < w->sends.n;) {
        sending *s = &((sending *)w->sends.items)[i];
        if (!s->request) {
            int rc = w->mpi->send(s->data, s->bytes, s->peer, s->tag, &s->request);
            if (rc < 0) return fail_mpi(w, rc, "a send", s->peer), false;
        }
        int rc = w->mpi->test(&s->request);
        if (rc < 0) return fail_mpi(w, rc, "a send", s->peer), false;
        if (rc == 0) {
            i++;
            continue;
        }
        ft_free(s->own);
        list_remove(&w->sends, i, sizeof *s);
        moved = true;
    }
    return moved;
}

/* -- receives ---------------------------------------------------------------------------------- */

static const ft_receiver *receiver_of(const ft_world *w, int tag)
{
    for (int i = 0; i < w->n_receivers; i++) {
        const ft_receiver *r = &w->receivers[i];
        if (tag >= r->first_tag && tag < r->first_tag + r->n_tags) return r;
    }
    return NULL;
}

static partial *find_partial(const list *partials, int from, int tag)
{
    partial *all = partials->items;
    for (int i = 0; i < partials->n; i++)
        if (all[i].peer == from && all[i].tag == tag) return &all[i];
    return NULL;
}

/* Where a piece goes, NULL after a failure; *total: of the message with it. Pieces of a letter have
 * places of their own until they have come. */
static char *place_piece(ft_world *w, receiving *r, int bytes, int64_t *total)
{
    partial *p = r->heard ? find_partial(&w->partials, r->peer, r->tag) : NULL;
    *total = bytes;
    if (!r->heard) {
        r->data = ft_alloc(bytes);
        if (!r->data) world_fail_memory(w);
        return r->data;
    }
    if (!p) {
        char *base = r->to.place(r->to.user, r->peer, r->tag, bytes);
        r->data = base;
        if (base && bytes == PIECE && (p = list_add(&w->partials, sizeof *p)))
            *p = (partial){r->peer, r->tag, base, bytes};
        bool placed = base && (bytes < PIECE || p);
        if (!placed) world_fail_memory(w);
        return placed ? base : NULL;
    }
    char *at = p->base + p->bytes;
    r->data = p->base;
    *total = p->bytes += bytes;
    if (bytes < PIECE)
        list_remove(&w->partials, (int)(p - (partial *)w->partials.items), sizeof *p);
    return at;
}

static bool begin_receives(ft_world *w)
{
    int from, tag, bytes, rc;
    void *message;
    bool moved = false;
    while ((rc = w->mpi->probe(&from, &tag, &bytes, &message)) > 0) {
        receiving *r = list_add(&w->receives, sizeof *r);
        if (!r) return world_fail_memory(w), false;
        const ft_receiver *to = receiver_of(w, tag);
        *r = (receiving){.peer = from, .tag = tag, .heard = to != NULL};
        if (to) r->to = *to;
        int64_t total = 0;
        char *at = place_piece(w, r, bytes, &total);
        if (!at) return false;
        r->bytes = bytes < PIECE ? total : -1;
        w->peers[from].heard_ns = ft_now_ns();
        rc = w->mpi->receive(message, at, bytes, &r->request);
        if (rc < 0) break;
        moved = true;
    }
    if (rc < 0) fail_mpi(w, rc, "a receive", w->rank);
    return moved;
}

/* What has come has no place. */
static void lose_letter(ft_world *w, char *data)
{
    ft_free(data);
    world_fail_memory(w);
}

static void keep_letter(ft_world *w, const receiving *r)
{
    if (r->tag == TAG_BEAT || r->tag == TAG_LOST) {
        watch_hear(w, r->peer, r->tag, r->data, r->bytes);
        ft_free(r->data);
        return;
    }
    pthread_mutex_lock(&w->lock);
    ft_letter *letter = list_add(&w->letters, sizeof *letter);
    if (letter) *letter = (ft_letter){r->peer, r->tag, r->data, r->bytes};
    pthread_mutex_unlock(&w->lock);
    if (!letter) lose_letter(w, r->data);
    ft_gate_open(&w->came);
}

/* Puts a piece of a letter behind those before it; with the last the letter is whole. */
static void join_letter(ft_world *w, receiving *r)
{
    bool last = r->bytes >= 0;
    int64_t bytes = last ? r->bytes : PIECE;
    partial *p = find_partial(&w->begun_letters, r->peer, r->tag);
    if (p) {
        char *whole = ft_realloc(p->base, p->bytes + bytes);
        if (!whole) {
            lose_letter(w, r->data);
            return;
        }
        memcpy(whole + p->bytes, r->data, (size_t)bytes);
        ft_free(r->data);
        *p = (partial){r->peer, r->tag, whole, p->bytes + bytes};
        r->data = whole;
        r->bytes = p->bytes;
    }
    if (last) {
        keep_letter(w, r);
        if (p)
            list_remove(&w->begun_letters, (int)(p - (partial *)w->begun_letters.items), sizeof *p);
    } else if (!p) {
        p = list_add(&w->begun_letters, sizeof *p);
        if (p)
            *p = (partial){r->peer, r->tag, r->data, bytes};
        else
            lose_letter(w, r->data);
    }
}

/* Whether a piece that came before with the same tag has not arrived. */
static bool is_held_up(const ft_world *w, int i)
{
    const receiving *all = w->receives.items;
    for (int k = 0; k < i; k++)
        if (all[k].peer == all[i].peer && all[k].tag == all[i].tag) return true;
    return false;
}

static bool end_receives(ft_world *w)
{
    bool moved = false;
    for (int i = 0; i < w->receives.n;) {
        receiving *r = &((receiving *)w->receives.items)[i];
        int rc = is_held_up(w, i) ? 0 : w->mpi->test(&r->request);
        if (rc < 0) return fail_mpi(w, rc, "a receive", r->peer), false;
        if (rc == 0) {
            i++;
            continue;
        }
        receiving done = *r;
        list_remove(&w->receives, i, sizeof *r);
        moved = true;
        if (!done.heard)
            join_letter(w, &done);
        else if (done.bytes >= 0)
            done.to.arrived(done.to.user, done.peer, done.tag, done.bytes);
    }
    return moved;
}

bool world_receives(const ft_world *w, const void *user)
{
    const receiving *all = w->receives.items;
    for (int i = 0; i < w->receives.n; i++)
        if (all[i].heard && all[i].to.user == user) return true;
    return false;
}

/* Whether something is under way to or from another machine. */
static bool reaches_far(const ft_world *w)
{
    const sending *sends = w->sends.items;
    const receiving *receives = w->receives.items;
    for (int i = 0; i < w->sends.n; i++)
        if (!ft_world_is_near(w, sends[i].peer)) return true;
    for (int i = 0; i < w->receives.n; i++)
        if (!ft_world_is_near(w, receives[i].peer)) return true;
    return false;
}

static bool has_failed(const ft_world *w)
{
    return atomic_load_explicit(&w->failed, memory_order_relaxed);
}

/* Nothing more is carried behind a failure: a row may be there that MPI was not given, or whose
 * bytes are gone. */
void world_carry(ft_world *w)
{
    if (has_failed(w)) return;
    begin_sends(w);
    bool sent = !has_failed(w) && move_sends(w);
    bool began = !has_failed(w) && begin_receives(w);
    bool came = !has_failed(w) && end_receives(w);
    int64_t now = ft_now_ns();
    atomic_store_explicit(&w->reaches_far, reaches_far(w), memory_order_relaxed);
    atomic_store_explicit(&w->carried_ns, now, memory_order_relaxed);
    if (sent || began || came) atomic_store_explicit(&w->moved_ns, now, memory_order_relaxed);
}
