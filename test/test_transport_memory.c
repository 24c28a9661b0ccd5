/* test/test_transport_memory.c - messages of a world whose MPI is a queue to itself. */
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "transport/world.h"

enum { MESSAGES = 300, TAG = FT_FIRST_TAG }; /* more than lists have room for at first */

typedef struct message {
    char bytes[8];
    int n, tag;
} message;

/* What was sent and not received. Functions of MPI have no place for it of their own. */
static struct {
    message of[MESSAGES];
    int first, n;
} under_way;

static int fake_send(const void *data, int bytes, int to, int tag, void **request)
{
    message *m = &under_way.of[under_way.n++];
    (void)to;
    memcpy(m->bytes, data, (size_t)bytes);
    m->n = bytes;
    m->tag = tag;
    *request = m;
    return 0;
}

static int fake_probe(int *from, int *tag, int *bytes, void **found)
{
    if (under_way.first == under_way.n) return 0;
    message *m = &under_way.of[under_way.first++];
    *from = 0;
    *tag = m->tag;
    *bytes = m->n;
    *found = m;
    return 1;
}

static int fake_receive(void *found, void *data, int bytes, void **request)
{
    memcpy(data, ((message *)found)->bytes, (size_t)bytes);
    *request = found;
    return 0;
}

static int fake_test(void **request)
{
    (void)request;
    return 1;
}

static const ft_mpi fake = {
    .send = fake_send, .probe = fake_probe, .receive = fake_receive, .test = fake_test};

typedef struct listener {
    int64_t got[MESSAGES];
    int placed, n;
} listener;

static void *place(void *user, int from, int tag, int64_t bytes)
{
    listener *l = user;
    CHECK(from == 0 && tag == TAG && bytes == sizeof *l->got && l->placed < MESSAGES);
    return &l->got[l->placed++];
}

static void arrived(void *user, int from, int tag, int64_t bytes)
{
    listener *l = user;
    CHECK(from == 0 && tag == TAG && bytes == sizeof *l->got);
    CHECK(l->got[l->n] == l->n); /* in the order in which they were sent */
    l->n++;
}

/* Sends all and carries them on, where the n-th allocation from here fails; 0: none. Returns how
 * many have arrived. */
static int send_all(int64_t fails_at, ft_status *health)
{
    static listener l;
    l = (listener){{0}, 0, 0};
    under_way.first = under_way.n = 0;
    ft_error err = {FT_OK, ""};
    ft_world w = {.mpi = &fake, .size = 1};
    peer self = {.hello = {.host = "here"}};
    w.peers = &self;
    pthread_mutex_init(&w.carrying, NULL);
    pthread_mutex_init(&w.lock, NULL);
    const ft_receiver receiver = {TAG, 1, &l, place, arrived};
    CHECK_STATUS(ft_world_listen(&w, &receiver, &err), FT_OK);
    ft_alloc_fail_after(fails_at);
    pthread_mutex_lock(&w.carrying); /* so that they pile up */
    for (int64_t i = 0; i < MESSAGES; i++) ft_world_send(&w, 0, TAG, &i, sizeof i, true);
    pthread_mutex_unlock(&w.carrying);
    for (int i = 0; i < 3; i++) ft_world_progress(&w);
    ft_alloc_fail_after(0);
    *health = ft_world_health(&w, &err);
    CHECK(*health == FT_OK || strstr(err.message, "no memory"));
    for (int i = 0; i < w.waiting.n; i++) ft_free(((sending *)w.waiting.items)[i].own);
    for (int i = 0; i < w.sends.n; i++) ft_free(((sending *)w.sends.items)[i].own);
    ft_free(w.waiting.items);
    ft_free(w.sends.items);
    ft_free(w.receives.items);
    return l.n;
}

/* A message arrives, or the world has failed: none is lost without a word. */
static void test_none_is_lost(void)
{
    ft_status health;
    CHECK(send_all(0, &health) == MESSAGES && health == FT_OK);
    int64_t allocations = MESSAGES + 16; /* a copy each, and lists that grow */
    int failed = 0;
    for (int64_t n = 1; n < allocations; n++) {
        int got = send_all(n, &health);
        CHECK(got == MESSAGES || health == FT_NOMEM);
        failed += health == FT_NOMEM;
    }
    CHECK(failed > MESSAGES);
}

int main(void)
{
    RUN(test_none_is_lost);
    return check_report();
}
