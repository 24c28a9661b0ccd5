/* transport/measure.c - how fast the way to another process is. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/world.h"

enum { PINGS = 101, BULKS = 8, BULK = 1 << 20, TURNS = 2, WORD = 8 }; /* the last turn counts */

static const int64_t PATIENCE_NS = INT64_C(60000000000);

/* What both ends have. */
typedef struct probe {
    ft_world *world;
    int other;
    char *room; /* for bulks; one behind the other, so that none waits for the one before */
    int placed;
    uint32_t taken;
    ft_gate came;
} probe;

static void *place(void *user, int from, int tag, int64_t bytes)
{
    probe *p = user;
    (void)from;
    (void)tag;
    (void)bytes;
    return p->room + (int64_t)(p->placed++ % BULKS) * BULK;
}

static void arrived(void *user, int from, int tag, int64_t bytes)
{
    probe *p = user;
    (void)from;
    (void)tag;
    (void)bytes;
    ft_gate_open(&p->came);
}

static ft_status await(probe *p, uint32_t n, ft_error *err)
{
    p->taken += n;
    if (ft_world_wait(p->world, &p->came, p->taken, NULL, PATIENCE_NS)) return FT_OK;
    return ft_fail(err, FT_HANG, "rank %d (host %s) does not answer", p->other,
                   ft_world_host(p->world, p->other));
}

static void send_all(probe *p, int n, int64_t bytes)
{
    for (int i = 0; i < n; i++)
        ft_world_send(p->world, p->other, TAG_PROBE, p->room + (int64_t)i * BULK, bytes, false);
}

/* Rank 0's part, and the other's, of one turn: a word and back; bulks and a word back; a word and
 * bulks back. */
static ft_status ask(probe *p, int there, int64_t bytes_there, int back, double *ns, ft_error *err)
{
    int64_t start = ft_now_ns();
    send_all(p, there, bytes_there);
    FT_TRY(await(p, (uint32_t)back, err));
    *ns = (double)(ft_now_ns() - start);
    return FT_OK;
}

static ft_status answer(probe *p, int there, int back, int64_t bytes_back, ft_error *err)
{
    FT_TRY(await(p, (uint32_t)there, err));
    send_all(p, back, bytes_back);
    return FT_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ft_status ask_all(probe *p, ft_link_rates *out, ft_error *err)
{
    double ns[PINGS], bulks = (double)BULKS * BULK;
    for (int i = 0; i < PINGS; i++) FT_TRY(ask(p, 1, WORD, 1, &ns[i], err));
    qsort(ns, PINGS, sizeof *ns, compare);
    out->latency_ns = ns[PINGS / 2] / 2;
    double there = 0, back = 0;
    for (int i = 0; i < TURNS; i++) {
        FT_TRY(ask(p, BULKS, BULK, 1, &there, err));
        FT_TRY(ask(p, 1, WORD, BULKS, &back, err));
    }
    /* a message on its way, and the word: two latencies that are not of the bytes */
    out->to_bytes_per_s =
        bulks * 1e9 / (there > 4 * out->latency_ns ? there - 2 * out->latency_ns : there);
    out->from_bytes_per_s =
        bulks * 1e9 / (back > 4 * out->latency_ns ? back - 2 * out->latency_ns : back);
    return FT_OK;
}

static ft_status answer_all(probe *p, ft_error *err)
{
    for (int i = 0; i < PINGS; i++) FT_TRY(answer(p, 1, 1, WORD, err));
    for (int i = 0; i < TURNS; i++) {
        FT_TRY(answer(p, BULKS, 1, WORD, err));
        FT_TRY(answer(p, 1, BULKS, BULK, err));
    }
    return FT_OK;
}

/* Rank 0 asks whether the other listens, which answers once it does: a probe that nobody listens
 * for would wait as a letter. */
static ft_status get_ready(ft_world *w, int other, ft_error *err)
{
    ft_letter letter;
    bool got = false;
    if (!w->rank) ft_world_send(w, other, TAG_READY, NULL, 0, false);
    FT_TRY(ft_world_take(w, TAG_READY, PATIENCE_NS, &letter, &got, err));
    if (!got)
        return ft_fail(err, FT_HANG, "rank %d (host %s) does not measure its way here", other,
                       ft_world_host(w, other));
    ft_world_drop(w, &letter);
    if (w->rank) ft_world_send(w, 0, TAG_READY, NULL, 0, false);
    return FT_OK;
}

ft_status ft_world_measure(ft_world *w, int other, ft_link_rates *out, ft_error *err)
{
    probe p = {.world = w, .other = w->rank ? 0 : other};
    const ft_receiver receiver = {TAG_PROBE, 1, &p, place, arrived};
    p.room = ft_alloc((int64_t)BULKS * BULK);
    if (!p.room) return ft_fail(err, FT_NOMEM, "no memory to measure links");
    ft_status status = ft_world_listen(w, &receiver, err);
    if (status == FT_OK) status = get_ready(w, p.other, err);
    if (status == FT_OK) status = w->rank ? answer_all(&p, err) : ask_all(&p, out, err);
    world_flush(w, PATIENCE_NS);
    ft_world_forget(w, &p);
    ft_free(p.room);
    return status;
}
