/* transport/watch.c - whether the other processes are there.
 *
 * Every process tells rank 0 from time to time that it is alive and what it is at, and rank 0 tells
 * all. Who says nothing for too long is lost; on one machine the kernel says at once who has ended.
 * Rank 0 tells all who is lost, with what that one was at. */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/world.h"

static const int64_t MS = 1000000;
enum { BEAT_MS = 200, LOOK_MS = 25, ASLEEP_MS = 2000 };
enum { TELL_MS = 100, TOLD_MS = 400 };
enum { SHORT_NAP_NS = 200000, LONG_NAP_NS = 2000000 }; /* of the helper, between two looks */

void watch_open(ft_world *w)
{
    for (int r = 0; r < w->size; r++) {
        peer *p = &w->peers[r];
        int fd = r != w->rank && ft_world_is_near(w, r)
                     ? (int)syscall(SYS_pidfd_open, (pid_t)p->hello.pid, 0)
                     : -1;
        w->ends[r] = (struct pollfd){.fd = fd, .events = POLLIN};
        p->heard_ns = ft_now_ns();
    }
}

void watch_close(ft_world *w)
{
    for (int r = 0; r < w->size; r++)
        if (w->ends[r].fd >= 0) close(w->ends[r].fd);
}

static void hear_beat(peer *p, const char *data)
{
    beat b;
    memcpy(&b, data, sizeof b);
    memcpy(p->at, b.at, sizeof p->at);
    p->at[sizeof p->at - 1] = 0;
    p->sent_ns = b.time.sent_ns;
    p->came_ns = ft_now_ns();
    clock_note(&p->clock, &b.time, p->came_ns);
}

void watch_hear(ft_world *w, int from, int tag, const char *data, int64_t bytes)
{
    ft_error error = {.status = FT_HANG};
    if (tag == TAG_BEAT && bytes == sizeof(beat)) {
        hear_beat(&w->peers[from], data);
        return;
    }
    if (tag != TAG_LOST || bytes < 1) return;
    snprintf(error.message, sizeof error.message, "%.*s", (int)bytes, data);
    world_fail(w, &error);
}

static void send_beat(ft_world *w, int to, beat *b)
{
    pthread_mutex_lock(&w->carrying);
    const peer *p = &w->peers[to];
    b->time = (stamp){.sent_ns = ft_now_ns(), .echo_ns = p->sent_ns};
    if (p->sent_ns) b->time.held_ns = b->time.sent_ns - p->came_ns;
    pthread_mutex_unlock(&w->carrying);
    ft_world_send(w, to, TAG_BEAT, b, sizeof *b, true);
}

static void send_beats(ft_world *w)
{
    beat b = {.at = ""};
    pthread_mutex_lock(&w->lock);
    void (*tells)(void *, char *) = w->tells;
    void *user = w->tells_user;
    if (tells) tells(user, b.at); /* under the lock, so that who takes it back may go */
    pthread_mutex_unlock(&w->lock);
    if (w->rank) send_beat(w, 0, &b);
    for (int r = 1; !w->rank && r < w->size; r++) send_beat(w, r, &b);
}

/* Whether such a message is under way to somebody. */
static bool is_on_its_way(ft_world *w, int tag)
{
    bool found = false;
    pthread_mutex_lock(&w->carrying);
    world_carry(w);
    const sending *sends = w->sends.items;
    for (int i = 0; i < w->sends.n; i++) found = found || sends[i].tag == tag;
    pthread_mutex_unlock(&w->carrying);
    return found;
}

void world_tell_loss(ft_world *w, int lost, const ft_error *error)
{
    for (int r = 0; r < w->size; r++)
        if (r != w->rank && r != lost && w->peers[r].hello.pid)
            ft_world_send(w, r, TAG_LOST, error->message, (int64_t)strlen(error->message), true);
    int64_t until = ft_now_ns() + TELL_MS * MS;
    while (is_on_its_way(w, TAG_LOST) && ft_now_ns() < until) ft_sleep_until_ns(ft_now_ns() + MS);
}

/* Rank 0 tells all of a loss, so that they know what was lost where; who finds one first waits a
 * moment for that. */
static void report(ft_world *w, int r, const char *how)
{
    ft_error error;
    char at[FT_AT_WORDS];
    if (atomic_load(&w->parts)) return;
    pthread_mutex_lock(&w->carrying);
    memcpy(at, w->peers[r].at, sizeof at);
    pthread_mutex_unlock(&w->carrying);
    ft_fail(&error, FT_HANG, "rank %d (host %s) %s%s%s", r, w->peers[r].hello.host, how,
            at[0] ? "; it was at " : "", at);
    if (w->rank && r) {
        int64_t until = ft_now_ns() + TOLD_MS * MS;
        while (ft_now_ns() < until && !atomic_load(&w->failed)) {
            ft_world_progress(w);
            ft_sleep_until_ns(ft_now_ns() + MS);
        }
    }
    if (!w->rank) world_tell_loss(w, r, &error);
    world_fail(w, &error);
}

/* Who has ended on this machine, or -1. */
static int find_ended(const ft_world *w)
{
    if (poll(w->ends, (nfds_t)w->size, 0) <= 0) return -1;
    for (int r = 0; r < w->size; r++)
        if (w->ends[r].revents) return r;
    return -1;
}

/* Rank 0 hears of everybody, the others of rank 0. */
static void look(ft_world *w, int64_t now)
{
    char how[64];
    int ended = find_ended(w);
    if (ended >= 0) report(w, ended, "has ended");
    for (int r = w->rank ? 0 : 1; r < (w->rank ? 1 : w->size) && !atomic_load(&w->failed); r++) {
        int64_t silent = now - w->peers[r].heard_ns;
        if (silent <= SILENT_MS * MS) continue;
        snprintf(how, sizeof how, "has said nothing for %.1f s", (double)silent / 1e9);
        report(w, r, how);
    }
}

/* A worker that waits looks itself, and any other between two actions: that is enough for what
 * passes between processes of one machine, whose receiver copies it. A network is served by looks.
 * Short while messages of other machines are under way, and longer the longer none of them moves: a
 * look takes a core from a worker that computes. */
static int64_t helper_nap(const ft_world *w, int64_t now)
{
    if (!atomic_load_explicit(&w->reaches_far, memory_order_relaxed)) return LONG_NAP_NS;
    int64_t nap = (now - atomic_load_explicit(&w->moved_ns, memory_order_relaxed)) / 4;
    return nap < SHORT_NAP_NS ? SHORT_NAP_NS : nap > LONG_NAP_NS ? LONG_NAP_NS : nap;
}

void *world_help(void *arg)
{
    ft_world *w = arg;
    int64_t next_beat = 0, next_look = 0, before = ft_now_ns();
    while (!atomic_load(&w->stop)) {
        int64_t now = ft_now_ns();
        if (now - before > ASLEEP_MS * MS) /* this process was stopped: it heard nobody */
            for (int r = 0; r < w->size; r++) w->peers[r].heard_ns = now;
        before = now;
        int64_t nap = helper_nap(w, now);
        if (now - atomic_load_explicit(&w->carried_ns, memory_order_relaxed) > nap / 2)
            ft_world_progress(w);
        bool failed = atomic_load(&w->failed), parts = atomic_load(&w->parts);
        if (now >= next_beat && !failed && (w->rank || !parts)) {
            send_beats(w);
            next_beat = now + BEAT_MS * MS;
        }
        if (now >= next_look && !failed && !parts) {
            look(w, now);
            next_look = now + LOOK_MS * MS;
        }
        ft_sleep_until_ns(now + nap);
    }
    return NULL;
}
