/* transport/measure.c - how fast the way to another process is. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/world.h"

enum {
    BULKS = 8,
    BULK = 1 << 20,
    TURNS = 2,       /* the last one counts */
    PINGS = 101,     /* of a word; */
    FEW = 5,         /* where it takes long, and of larger messages */
    MANY = 60,       /* of larger ones, at most, until the shortest */
    AGREE = 3,       /* of them agree */
    SMALLEST = 1024, /* that may be announced first */
    GRAIN = 64,      /* to which the largest that is not is found */
};

static const double LONG_NS = 1e6;
static const int64_t PATIENCE_NS = INT64_C(60000000000);

/* At the front of the first message of a turn: what the lower rank sends, and what it wants back.
 */
typedef struct turn {
    int32_t there, back; /* messages; none back: that was all */
    int64_t bytes_there, bytes_back;
} turn;

enum { WORD = sizeof(turn) };

/* What both ends have. */
typedef struct probe {
    ft_world *world;
    int other;
    char *room;     /* for bulks; one behind the other, so that none waits for the one before */
    double word_ns; /* that a word takes one way, at least */
    int placed;
    uint32_t taken;
    ft_gate came;
} probe;

static char *room_at(const probe *p, uint32_t i)
{
    return p->room + (int64_t)(i % BULKS) * BULK;
}

static void *place(void *user, int from, int tag, int64_t bytes)
{
    probe *p = user;
    (void)from;
    (void)tag;
    (void)bytes;
    return room_at(p, (uint32_t)p->placed++);
}

static void arrived(void *user, int from, int tag, int64_t bytes)
{
    probe *p = user;
    (void)from;
    (void)tag;
    (void)bytes;
    ft_gate_open(&p->came);
}

static ft_status await(probe *p, int n, ft_error *err)
{
    bool met;
    p->taken += (uint32_t)n;
    FT_TRY(ft_world_await(p->world, &p->came, p->taken, NULL, PATIENCE_NS, &met, err));
    if (met) return FT_OK;
    return ft_fail(err, FT_HANG, "rank %d (host %s) does not answer", p->other,
                   ft_world_host(p->world, p->other));
}

static void send_all(probe *p, int n, int64_t bytes)
{
    for (int i = 0; i < n; i++)
        ft_world_send(p->world, p->other, TAG_PROBE, room_at(p, (uint32_t)i), bytes, false);
}

/* The lower rank's part of a turn, and how long it takes. */
static ft_status ask(probe *p, turn t, double *ns, ft_error *err)
{
    memcpy(p->room, &t, sizeof t);
    int64_t start = ft_now_ns();
    send_all(p, t.there, t.bytes_there);
    FT_TRY(await(p, t.back, err));
    *ns = (double)(ft_now_ns() - start);
    return FT_OK;
}

/* The other's, of all of them. */
static ft_status answer_all(probe *p, ft_error *err)
{
    turn t;
    do {
        const char *first = room_at(p, p->taken);
        FT_TRY(await(p, 1, err));
        memcpy(&t, first, sizeof t);
        FT_TRY(await(p, t.there - 1, err));
        send_all(p, t.back, t.bytes_back);
    } while (t.back);
    return FT_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* So many bytes there and a word back, until there are n times from `from` on; all of them
 * ascending. */
static ft_status ping(probe *p, int64_t bytes, double *ns, int from, int n, ft_error *err)
{
    for (int i = from; i < n; i++) FT_TRY(ask(p, (turn){1, 1, bytes, WORD}, &ns[i], err));
    qsort(ns, (size_t)n, sizeof *ns, compare);
    return FT_OK;
}

static ft_status measure_word(probe *p, ft_link_rates *out, ft_error *err)
{
    double ns[PINGS];
    int n = FEW;
    FT_TRY(ping(p, WORD, ns, 0, n, err));
    if (ns[n / 2] < LONG_NS) FT_TRY(ping(p, WORD, ns, 0, n = PINGS, err));
    out->latency_ns = ns[n / 2] / 2;
    p->word_ns = ns[0] / 2;
    return FT_OK;
}

/* Bytes that take so long with what is not theirs: a message on its way, and the word; and before
 * the first one that it is announced and asked for. */
static double rate_of(const ft_link_rates *r, double ns)
{
    double waits = r->latency_ns * (r->eager_bytes && BULK > r->eager_bytes ? 4 : 2);
    return 1e9 * BULKS * BULK / (ns > 2 * waits ? ns - waits : ns);
}

/* -- announced messages ------------------------------------------------------------------------ */

/* The shortest of some times, which is not lengthened by what else is done here: of so many that
 * others are about as short. */
typedef struct sample {
    int64_t bytes;
    double ns;
} sample;

static ft_status take_sample(probe *p, int64_t bytes, sample *out, ft_error *err)
{
    double ns[MANY];
    int n = 0;
    do {
        FT_TRY(ping(p, bytes, ns, n, n + FEW, err));
        n += FEW;
    } while (n < MANY && ns[AGREE - 1] - ns[0] > p->word_ns / 2);
    *out = (sample){bytes, ns[0]};
    return FT_OK;
}

/* How much longer b took than a, without what its bytes take. */
static double rise(const ft_link_rates *r, const sample *a, const sample *b)
{
    return b->ns - a->ns - 1e9 * (double)(b->bytes - a->bytes) / r->to_bytes_per_s;
}

/* The largest message that goes at once, where slightly larger ones take two latencies more since
 * they are announced and asked for first: between the sizes of which the double takes most longer,
 * then by halves. It has to be seen again, or there is none. */
static ft_status measure_eager(probe *p, ft_link_rates *r, ft_error *err)
{
    sample last, now, low = {0}, high = {0};
    FT_TRY(take_sample(p, SMALLEST, &last, err));
    for (int64_t bytes = 2 * SMALLEST; bytes <= BULK; bytes *= 2) {
        FT_TRY(take_sample(p, bytes, &now, err));
        if (rise(r, &last, &now) > rise(r, &low, &high)) {
            low = last;
            high = now;
        }
        last = now;
    }
    double most = rise(r, &low, &high);
    if (most < p->word_ns) return FT_OK;
    while (high.bytes - low.bytes > GRAIN) {
        FT_TRY(take_sample(p, (low.bytes + high.bytes) / 2, &now, err));
        if (rise(r, &low, &now) > most / 2)
            high = now;
        else
            low = now;
    }
    FT_TRY(take_sample(p, low.bytes, &low, err));
    FT_TRY(take_sample(p, high.bytes, &high, err));
    if (rise(r, &low, &high) >= p->word_ns) r->eager_bytes = low.bytes;
    return FT_OK;
}

/* -- all of it --------------------------------------------------------------------------------- */

static ft_status ask_all(probe *p, ft_link_rates *out, ft_error *err)
{
    double there = 0, back = 0, over;
    *out = (ft_link_rates){0};
    FT_TRY(measure_word(p, out, err));
    for (int i = 0; i < TURNS; i++) {
        FT_TRY(ask(p, (turn){BULKS, 1, BULK, WORD}, &there, err));
        FT_TRY(ask(p, (turn){1, BULKS, WORD, BULK}, &back, err));
    }
    out->to_bytes_per_s = rate_of(out, there);
    FT_TRY(measure_eager(p, out, err));
    out->to_bytes_per_s = rate_of(out, there);
    out->from_bytes_per_s = rate_of(out, back);
    return ask(p, (turn){1, 0, WORD, 0}, &over, err);
}

/* The lower rank asks whether the other listens, which answers once it does: a probe that nobody
 * listens for would wait as a letter. Who is to measure its way here later may ask already. */
static ft_status get_ready(ft_world *w, int other, ft_error *err)
{
    peer *them = &w->peers[other];
    if (w->rank < other) ft_world_send(w, other, TAG_READY, NULL, 0, false);
    while (!them->is_ready) {
        ft_letter letter;
        bool got = false;
        FT_TRY(ft_world_take(w, TAG_READY, PATIENCE_NS, &letter, &got, err));
        if (!got)
            return ft_fail(err, FT_HANG, "rank %d (host %s) does not measure its way here", other,
                           ft_world_host(w, other));
        w->peers[letter.peer].is_ready = true;
        ft_world_drop(w, &letter);
    }
    them->is_ready = false;
    if (w->rank > other) ft_world_send(w, other, TAG_READY, NULL, 0, false);
    return FT_OK;
}

ft_status ft_world_measure(ft_world *w, int other, ft_link_rates *out, ft_error *err)
{
    probe p = {.world = w, .other = other};
    const ft_receiver receiver = {TAG_PROBE, 1, &p, place, arrived};
    p.room = ft_alloc((int64_t)BULKS * BULK);
    if (!p.room) return ft_fail(err, FT_NOMEM, "no memory to measure links");
    ft_status status = ft_world_listen(w, &receiver, err);
    if (status == FT_OK) status = get_ready(w, other, err);
    if (status == FT_OK) status = w->rank > other ? answer_all(&p, err) : ask_all(&p, out, err);
    world_flush(w, PATIENCE_NS);
    ft_world_forget(w, &p);
    if (ft_world_health(w, NULL) == FT_OK) ft_free(p.room); /* else MPI may still write there */
    return status;
}
