/* test/test_transport_memory.c - messages of a world whose MPI is a queue to itself. */
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "transport/world.h"

enum { MESSAGES = 300, TAG = FT_FIRST_TAG }; /* more than lists have room for at first */

typedef struct message {
    char bytes[24];
    int n, tag;
} message;

/* What was sent and not received. Functions of MPI have no place for it of their own. */
static struct {
    message of[MESSAGES];
    int first, n;
    int sends_left, receives_left, tests_left; /* until one fails; 0: none does */
    void *last_place;                          /* of what is received */
    bool stuck;                                /* nothing that was begun is done */
} under_way;

static int fake_send(const void *data, int bytes, int to, int tag, void **request)
{
    (void)to;
    if (under_way.sends_left && --under_way.sends_left == 0) return -5;
    message *m = &under_way.of[under_way.n++];
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
    if (under_way.receives_left && --under_way.receives_left == 0) return -5;
    memcpy(data, ((message *)found)->bytes, (size_t)bytes);
    *request = found;
    under_way.last_place = data;
    return 0;
}

static int fake_test(void **request)
{
    CHECK(*request); /* it was begun */
    if (under_way.tests_left && --under_way.tests_left == 0) return -5;
    return !under_way.stuck;
}

static void fake_words(int code, char *out, int size)
{
    snprintf(out, (size_t)size, "fault %d", code);
}

static int fake_close(void)
{
    return 0;
}

static const ft_mpi fake = {.send = fake_send,
                            .probe = fake_probe,
                            .receive = fake_receive,
                            .test = fake_test,
                            .close = fake_close,
                            .words = fake_words};

static void hear_line(const char *line)
{
    CHECK(strstr(line, "fault 5"));
}

static ft_world *open_world(void)
{
    ft_world *w = ft_alloc(sizeof *w);
    *w = (ft_world){.mpi = &fake, .size = 1, .says = hear_line};
    w->peers = ft_alloc(sizeof *w->peers);
    w->peers[0].hello = (hello){.host = "here"};
    w->ends = ft_alloc(sizeof *w->ends);
    w->ends[0].fd = -1;
    pthread_mutex_init(&w->carrying, NULL);
    pthread_mutex_init(&w->lock, NULL);
    under_way.first = under_way.n = 0;
    under_way.sends_left = under_way.receives_left = under_way.tests_left = 0;
    under_way.stuck = false;
    return w;
}

/* Nothing is left but what a world that failed leaves to MPI; this one writes no more. */
static void close_world(ft_world *w, int64_t live)
{
    char *left[2 * MESSAGES];
    int n = 0;
    bool failed = ft_world_health(w, NULL) != FT_OK;
    const sending *sends = w->sends.items;
    const receiving *receives = w->receives.items;
    for (int i = 0; failed && i < w->sends.n; i++)
        if (sends[i].request && sends[i].own) left[n++] = sends[i].own;
    for (int i = 0; failed && i < w->receives.n; i++)
        if (receives[i].request && !receives[i].heard) left[n++] = receives[i].data;
    ft_world_close(w);
    for (int i = 0; i < n; i++) ft_free(left[i]);
    CHECK(ft_alloc_live() == live);
}

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

/* What goes wrong with messages, and whether they are letters. */
typedef struct trouble {
    int64_t allocation; /* the n-th one fails; 0: none does */
    int receive;        /* likewise */
    bool letters;
} trouble;

/* Sends all and carries them on. Returns how many have arrived. */
static int send_all(trouble t, ft_error *health)
{
    static listener l;
    int64_t live = ft_alloc_live();
    ft_world *w = open_world();
    l = (listener){{0}, 0, 0};
    under_way.receives_left = t.receive;
    const ft_receiver receiver = {TAG, 1, &l, place, arrived};
    if (!t.letters) CHECK_STATUS(ft_world_listen(w, &receiver, health), FT_OK);
    ft_alloc_fail_after(t.allocation);
    pthread_mutex_lock(&w->carrying); /* so that they pile up */
    for (int64_t i = 0; i < MESSAGES; i++) ft_world_send(w, 0, TAG, &i, sizeof i, true);
    pthread_mutex_unlock(&w->carrying);
    for (int i = 0; i < 3; i++) ft_world_progress(w);
    ft_alloc_fail_after(0);
    *health = (ft_error){FT_OK, ""};
    ft_world_health(w, health);
    int n = t.letters ? w->letters.n : l.n;
    close_world(w, live);
    return n;
}

/* A message arrives, or the world has failed: none is lost without a word. */
static void lose_none(bool letters)
{
    ft_error health;
    CHECK(send_all((trouble){.letters = letters}, &health) == MESSAGES && health.status == FT_OK);
    /* a copy each, a letter each, and lists that grow */
    int64_t allocations = (letters ? 2 : 1) * MESSAGES + 16;
    int failed = 0;
    for (int64_t n = 1; n < allocations; n++) {
        int got = send_all((trouble){.allocation = n, .letters = letters}, &health);
        CHECK(got == MESSAGES || health.status == FT_NOMEM);
        CHECK(health.status == FT_OK || strstr(health.message, "no memory"));
        failed += health.status == FT_NOMEM;
    }
    CHECK(failed > MESSAGES);
}

static void test_none_is_lost(void)
{
    lose_none(false);
    lose_none(true);
}

/* A receive that did not begin is not waited for. */
static void test_a_receive_fails(void)
{
    for (int n = 1; n <= MESSAGES; n += 13)
        for (int letters = 0; letters < 2; letters++) {
            ft_error health;
            CHECK(send_all((trouble){.receive = n, .letters = letters}, &health) < n);
            CHECK(health.status == FT_HANG && strstr(health.message, "a receive failed, fault 5"));
        }
}

static void *place_nowhere(void *user, int from, int tag, int64_t bytes)
{
    (void)user;
    (void)from;
    (void)tag;
    (void)bytes;
    return NULL;
}

static void test_no_place(void)
{
    static listener l;
    ft_error err = {FT_OK, ""};
    int64_t live = ft_alloc_live();
    ft_world *w = open_world();
    const ft_receiver receiver = {TAG, 1, &l, place_nowhere, arrived};
    CHECK_STATUS(ft_world_listen(w, &receiver, &err), FT_OK);
    ft_world_send(w, 0, TAG, "it", 2, true);
    CHECK_STATUS(ft_world_health(w, &err), FT_NOMEM);
    close_world(w, live);
}

/* Of a message in two pieces the first one has room among those under way, the last has not: what
 * both are copied to is given back, and MPI gets neither. */
static void test_half_a_message(void)
{
    enum { ROOM = 256 }; /* of a list at first */
    int64_t live = ft_alloc_live();
    ft_world *w = open_world();
    under_way.stuck = true;
    for (int64_t i = 0; i < ROOM - 1; i++) ft_world_send(w, 0, TAG, &i, sizeof i, true);
    CHECK(w->sends.n == ROOM - 1 && w->sends.room == ROOM && under_way.n == ROOM - 1);
    char *own = ft_alloc(4);
    sending *first = list_add(&w->waiting, sizeof *first);
    *first = (sending){.tag = TAG, .bytes = 2, .data = own};
    sending *last = list_add(&w->waiting, sizeof *last);
    *last = (sending){.tag = TAG, .bytes = 2, .data = own + 2, .own = own};
    ft_alloc_fail_after(1);
    ft_world_progress(w);
    ft_alloc_fail_after(0);
    CHECK_STATUS(ft_world_health(w, NULL), FT_NOMEM);
    CHECK(under_way.n == ROOM - 1);
    close_world(w, live);
}

/* Of a message in two pieces MPI was given the first one alone: the copy is MPI's. */
static void test_half_a_message_leaves(void)
{
    int64_t live = ft_alloc_live();
    ft_world *w = open_world();
    char *own = ft_alloc(4);
    sending *first = list_add(&w->waiting, sizeof *first);
    *first = (sending){.tag = TAG, .bytes = 2, .data = own};
    sending *last = list_add(&w->waiting, sizeof *last);
    *last = (sending){.tag = TAG, .bytes = 2, .data = own + 2, .own = own};
    under_way.stuck = true;
    under_way.sends_left = 2;
    ft_world_progress(w);
    CHECK_STATUS(ft_world_health(w, NULL), FT_HANG);
    CHECK(under_way.n == 1);
    close_world(w, live + 1);
    ft_free(own);
}

/* Of a message in two pieces the last one has no room among those that wait: neither does. */
static void test_half_a_message_waits(void)
{
    enum { ROOM = 256 };
    const char data[1] = "";
    int64_t live = ft_alloc_live();
    ft_world *w = open_world();
    pthread_mutex_lock(&w->carrying);
    for (int64_t i = 0; i < ROOM - 1; i++) ft_world_send(w, 0, TAG, &i, sizeof i, true);
    ft_alloc_fail_after(1);
    ft_world_send(w, 0, TAG, data, PIECE, false);
    ft_alloc_fail_after(0);
    pthread_mutex_unlock(&w->carrying);
    CHECK_STATUS(ft_world_health(w, NULL), FT_NOMEM);
    CHECK(w->waiting.n == ROOM - 1);
    close_world(w, live);
}

/* The first word of a measurement is under way here when the world fails. */
static void test_a_measurement_fails(void)
{
    ft_link_rates rates;
    ft_error err = {FT_OK, ""};
    int64_t live = ft_alloc_live();
    ft_world *w = open_world();
    w->peers[0].is_ready = true;
    under_way.tests_left = 2; /* its send is done */
    CHECK_STATUS(ft_world_measure(w, 0, &rates, &err), FT_HANG);
    CHECK(strstr(err.message, "a receive failed, fault 5"));
    close_world(w, live + 1);
    ft_free(under_way.last_place); /* it was left to MPI */
}

int main(void)
{
    RUN(test_none_is_lost);
    RUN(test_a_receive_fails);
    RUN(test_no_place);
    RUN(test_half_a_message);
    RUN(test_half_a_message_waits);
    RUN(test_half_a_message_leaves);
    RUN(test_a_measurement_fails);
    return check_report();
}
