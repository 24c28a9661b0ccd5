/* test/test_transport.c - messages between ranks: order, who listens, who is lost. */
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "worlds.h"

enum { TAGS = 3, LETTERS = 120, MOST_BYTES = 20000 };

/* -- meeting ----------------------------------------------------------------------------------- */

static void know_each_other(int rank, void *user)
{
    (void)user;
    ft_world *w = meet();
    HOLDS(ft_world_rank(w) == rank && ft_world_size(w) == 3);
    for (int r = 0; r < 3; r++) {
        HOLDS(ft_world_is_near(w, r));
        HOLDS(ft_world_host(w, r)[0] && !strcmp(ft_world_host(w, r), ft_world_host(w, rank)));
    }
    HOLDS(ft_world_health(w, NULL) == FT_OK);
    ft_world_close(w);
}

/* Leaves as it came. */
static void alone(int rank, void *user)
{
    (void)user;
    ft_world *w = meet();
    HOLDS(ft_world_rank(w) == rank && ft_world_size(w) == 1);
    ft_world_close(w);
}

/* Without memory for any part of a world it leaves as it came, too. */
static void open_without_memory(int rank, void *user)
{
    (void)rank;
    (void)user;
    int refused = 0;
    for (int n = 1; n <= 8; n++) {
        ft_world *w = NULL;
        ft_error err = {FT_OK, ""};
        int64_t live = ft_alloc_live();
        ft_alloc_fail_after(n);
        ft_status status = ft_world_open(&w, &self, hear_line, &err);
        ft_alloc_fail_after(0);
        refused += !w;
        HOLDS(w || status == FT_NOMEM);
        ft_world_close(w);
        HOLDS(ft_alloc_live() == live);
    }
    HOLDS(refused >= 3);
}

static void are_of_two_builds(int rank, void *user)
{
    const ft_world_self other = {"2", 1, "another"};
    (void)user;
    ft_world *w = NULL;
    ft_error err = {FT_OK, ""};
    HOLDS(ft_world_open(&w, rank == 2 ? &other : &self, hear_line, &err) == FT_INVALID);
    HOLDS(!strncmp(err.message, "rank 2 (host ", 13));
    HOLDS(strstr(err.message, ") runs ftpipe 2, build of a test, rank 0 (host ") != NULL);
    ft_world_close(w);
}

/* -- letters ----------------------------------------------------------------------------------- */

static int64_t letter_bytes(int from, int tag, int i)
{
    return (int64_t)(((uint32_t)(from * 7919 + tag * 104729 + i * 1299709) * 2654435761u) >> 16) %
           MOST_BYTES;
}

static void write_letter(char *out, int from, int tag, int i)
{
    for (int64_t k = 0; k < letter_bytes(from, tag, i); k++) out[k] = (char)(k * 31 + i + from);
}

static bool is_letter(const char *data, int from, int tag, int i)
{
    for (int64_t k = 0; k < letter_bytes(from, tag, i); k++)
        if (data[k] != (char)(k * 31 + i + from)) return false;
    return true;
}

/* Every second one is the sender's again at once, and overwritten. */
static void send_letters(ft_world *w, int rank, char *room)
{
    char page[MOST_BYTES];
    for (int i = 0; i < LETTERS; i++)
        for (int tag = 0; tag < TAGS; tag++) {
            bool copies = (i + tag) % 2;
            char *at = copies ? page : room + (int64_t)(i * TAGS + tag) * MOST_BYTES;
            write_letter(at, rank, tag, i);
            ft_world_send(w, 0, TAG + tag, at, letter_bytes(rank, tag, i), copies);
        }
}

static void take_letters(ft_world *w)
{
    for (int tag = TAGS - 1; tag >= 0; tag--) {
        int next[MOST_RANKS] = {0};
        for (int n = 0; n < 2 * LETTERS; n++) {
            ft_letter letter;
            bool got = false;
            if (!HOLDS(ft_world_take(w, TAG + tag, LIMIT_NS, &letter, &got, NULL) == FT_OK && got))
                return;
            int from = letter.peer, i = next[from]++;
            HOLDS(letter.tag == TAG + tag && letter.bytes == letter_bytes(from, tag, i) &&
                  is_letter(letter.data, from, tag, i));
            ft_world_drop(w, &letter);
            HOLDS(!letter.data);
        }
        HOLDS(next[1] == LETTERS && next[2] == LETTERS);
    }
    ft_letter none;
    bool got = true;
    HOLDS(ft_world_take(w, TAG, 0, &none, &got, NULL) == FT_OK && !got);
}

static void write_letters(int rank, void *user)
{
    (void)user;
    ft_world *w = meet();
    char *room = calloc((size_t)LETTERS * TAGS, MOST_BYTES);
    if (rank)
        send_letters(w, rank, room);
    else
        take_letters(w);
    ft_world_close(w);
    free(room);
}

/* -- clocks ------------------------------------------------------------------------------------ */

/* Threads have one clock: what ranks find of each other's is 0, as far as they are sure. How long a
 * beat lies before it is answered, a tenth of a second on one side at least, is not of the way. */
static void tell_time(int rank, void *user)
{
    enum { SURE_NS = 40000000 };
    (void)user;
    int64_t offset = 1, error = 1;
    char library[32];
    ft_world *w = meet();
    HOLDS(ft_world_clock(w, !rank, &offset, &error) && !offset && !error); /* of one machine */
    ft_world_library(w, library, sizeof library);
    HOLDS(!strcmp(library, "queues 1.0"));
    pthread_mutex_lock(&w->carrying);
    w->peers[!rank].hello.machine[0] ^= 1;
    pthread_mutex_unlock(&w->carrying);
    while (!ft_world_clock(w, !rank, &offset, &error)) ft_sleep_until_ns(ft_now_ns() + 1000000);
    HOLDS(error > 0 && offset <= error && -offset <= error);
    for (int64_t until = ft_now_ns() + LIMIT_NS / 60; error > SURE_NS && ft_now_ns() < until;) {
        ft_sleep_until_ns(ft_now_ns() + 1000000);
        ft_world_clock(w, !rank, &offset, &error);
    }
    HOLDS(error <= SURE_NS);
    say_go(w, !rank);
    await_go(w);
    ft_world_close(w);
}

static void test_clocks(void)
{
    run_ranks(2, tell_time, NULL);
}

/* -- who listens ------------------------------------------------------------------------------- */

typedef struct listener {
    int placed[MOST_RANKS], heard[MOST_RANKS];
    bool in_order;
    char room[MOST_RANKS][LETTERS + 1][MOST_BYTES];
    ft_gate came;
} listener;

/* Any letter of the first tag. */
static void take_one(ft_world *w)
{
    ft_letter letter;
    bool got = false;
    HOLDS(ft_world_take(w, TAG, LIMIT_NS, &letter, &got, NULL) == FT_OK && got);
    if (got) ft_world_drop(w, &letter);
}

static void *place(void *user, int from, int tag, int64_t bytes)
{
    listener *l = user;
    int i = l->placed[from]++;
    l->in_order = l->in_order && bytes == letter_bytes(from, 0, i);
    (void)tag;
    return l->room[from][i];
}

static void arrived(void *user, int from, int tag, int64_t bytes)
{
    listener *l = user;
    int i = l->heard[from]++;
    (void)tag;
    l->in_order =
        l->in_order && bytes == letter_bytes(from, 0, i) && is_letter(l->room[from][i], from, 0, i);
    ft_gate_open(&l->came);
}

/* Rank 0 hears some of what the others send and then no more: the rest come as letters. Another
 * user hears on. */
static void listen(int rank, void *user)
{
    ft_world *w = meet();
    ft_error err;
    listener *l = user, *other = &l[1];
    char page[MOST_BYTES];
    const ft_receiver to = {TAG, 1, l, place, arrived};
    const ft_receiver beside = {TAG + 1, 1, other, place, arrived};
    if (!rank) {
        HOLDS(ft_world_listen(w, &to, &err) == FT_OK);
        HOLDS(ft_world_listen(w, &beside, &err) == FT_OK);
        for (int r = 1; r < 3; r++) ft_world_send(w, r, TAG, NULL, 0, true);
        HOLDS(ft_world_wait(w, &l->came, LETTERS / 4, NULL, LIMIT_NS));
        ft_world_forget(w, l);
        int heard = l->heard[1] + l->heard[2];
        HOLDS(heard >= LETTERS / 4 && l->placed[1] + l->placed[2] == heard);
        for (int n = heard; n < 2 * LETTERS; n++) take_one(w);
        HOLDS(l->heard[1] + l->heard[2] == heard);
        HOLDS(ft_world_wait(w, &other->came, 2 * LETTERS, NULL, LIMIT_NS));
        for (int r = 1; r < 3; r++) ft_world_send(w, r, TAG, NULL, 0, true);
        HOLDS(ft_world_wait(w, &other->came, 2 * LETTERS + 2, NULL, LIMIT_NS));
        ft_world_forget(w, other);
    } else {
        take_one(w);
        for (int i = 0; i < LETTERS; i++) {
            write_letter(page, rank, 0, i);
            ft_world_send(w, 0, TAG, page, letter_bytes(rank, 0, i), true);
            ft_world_send(w, 0, TAG + 1, page, letter_bytes(rank, 0, i), true);
        }
        take_one(w); /* when the first listener is forgotten */
        write_letter(page, rank, 0, LETTERS);
        ft_world_send(w, 0, TAG + 1, page, letter_bytes(rank, 0, LETTERS), true);
    }
    ft_world_close(w);
}

static void test_listening(void)
{
    listener *both = calloc(2, sizeof *both);
    both[0].in_order = both[1].in_order = true;
    run_ranks(3, listen, both);
    CHECK(both[0].in_order && both[1].in_order);
    CHECK(both[1].heard[1] == LETTERS + 1 && both[1].heard[2] == LETTERS + 1);
    free(both);
}

static void listen_too_often(int rank, void *user)
{
    (void)user;
    (void)rank;
    static listener l;
    ft_world *w = meet();
    ft_error err;
    for (int i = 0; i < FT_WORLD_RECEIVERS; i++) {
        const ft_receiver to = {TAG + i, 1, &l, place, arrived};
        HOLDS(ft_world_listen(w, &to, &err) == FT_OK);
    }
    const ft_receiver more = {TAG, 1, &l, place, arrived};
    HOLDS(ft_world_listen(w, &more, &err) == FT_INVALID);
    ft_world_forget(w, &l);
    HOLDS(ft_world_listen(w, &more, &err) == FT_OK);
    ft_world_close(w);
}

/* -- failures ---------------------------------------------------------------------------------- */

typedef struct heard {
    atomic_int calls;
    ft_error first;
} heard;

static void hear_failure(void *user, const ft_error *error)
{
    heard *h = user;
    if (atomic_fetch_add(&h->calls, 1) == 0) h->first = *error;
}

/* Waits for a failure of the world; its words. */
static ft_error await_failure(ft_world *w)
{
    ft_error err = {FT_OK, ""};
    ft_letter letter;
    bool got = false;
    HOLDS(ft_world_take(w, TAG, LIMIT_NS, &letter, &got, &err) != FT_OK && !got);
    HOLDS(ft_world_health(w, NULL) == err.status);
    return err;
}

static void is_anywhere(void *user, char out[FT_AT_WORDS])
{
    (void)user;
    snprintf(out, FT_AT_WORDS, "work");
}

/* Waits until this rank knows what the other one is at. */
static void await_other(ft_world *w, int other)
{
    bool known = false;
    while (!known) {
        pthread_mutex_lock(&w->carrying);
        known = w->peers[other].at[0] != 0;
        pthread_mutex_unlock(&w->carrying);
        ft_sleep_until_ns(ft_now_ns() + 1000000);
    }
    say_go(w, other); /* the other goes on when this one knows, too */
    await_go(w);
}

/* The next word of each rank does not leave it. */
static void cannot_send(int rank, void *user)
{
    heard *all = user;
    atomic_bool stop = false;
    ft_gate never = {0};
    ft_world *w = meet();
    ft_world_on_failure(w, hear_failure, &all[rank]);
    HOLDS(!ft_world_wait(w, &never, 1, &stop, 1000000));
    ft_world_on_ask(w, is_anywhere, NULL);
    await_other(w, !rank);
    pthread_mutex_lock(&wires.lock);
    wires.sends_left[rank] = 1;
    pthread_mutex_unlock(&wires.lock);
    ft_error err = await_failure(w);
    HOLDS(err.status == FT_HANG);
    HOLDS(!strncmp(err.message, rank ? "rank 0 (host " : "rank 1 (host ", 13));
    HOLDS(strstr(err.message, ") cannot be reached: a send failed, fault 7; it was at work") !=
          NULL);
    ft_world_on_failure(w, hear_failure, &all[2 + rank]); /* of one that was */
    atomic_store(&stop, true);
    HOLDS(!ft_world_wait(w, &never, 1, &stop, LIMIT_NS));
    ft_world_give_up(w, &err); /* there is nobody to tell */
    world_fail(w, &(ft_error){FT_IO, "the second one"});
    HOLDS(ft_world_health(w, NULL) == FT_HANG);
    ft_world_close(w);
}

static void is_at_work(void *user, char out[FT_AT_WORDS])
{
    snprintf(out, FT_AT_WORDS, "piece %d of work", *(int *)user);
}

/* Waits until rank 0 knows what rank 1 is at. */
static void await_word(ft_world *w)
{
    bool known = false;
    while (!known) {
        pthread_mutex_lock(&w->carrying);
        known = !strcmp(w->peers[1].at, "piece 41 of work");
        pthread_mutex_unlock(&w->carrying);
        ft_sleep_until_ns(ft_now_ns() + 1000000);
    }
}

/* A rank whose words are lost is lost: rank 0 tells the others so, with what it said last of its
 * work. */
static void falls_silent(int rank, void *user)
{
    heard *all = user;
    int number = rank + 40;
    ft_error err = {FT_HANG, "nobody hears it"};
    ft_world *w = meet();
    ft_world_on_failure(w, hear_failure, &all[rank]);
    ft_world_on_ask(w, is_at_work, &number);
    if (rank == 0) {
        await_word(w);
        say_go(w, 1);
    }
    if (rank == 1) {
        await_go(w);
        pthread_mutex_lock(&wires.lock);
        wires.mute[1] = true;
        pthread_mutex_unlock(&wires.lock);
        ft_world_give_up(w, &err);
    } else {
        err = await_failure(w);
        HOLDS(err.status == FT_HANG);
        HOLDS(!strncmp(err.message, "rank 1 (host ", 13));
        HOLDS(strstr(err.message, ") has said nothing for ") != NULL);
        HOLDS(strstr(err.message, " s; it was at piece 41 of work") != NULL);
    }
    ft_world_on_ask(w, NULL, NULL);
    ft_world_close(w);
}

static void gives_up(int rank, void *user)
{
    heard *all = user;
    ft_world *w = meet();
    ft_error why = {FT_OK, ""};
    ft_world_on_failure(w, hear_failure, &all[rank]);
    ft_fail(&why, FT_DEVICE, "the roof of rank %d leaks", rank);
    ft_world_remark(w, rank ? NULL : "the cellar is dry");
    if (rank == 1) say_go(w, 0);
    if (rank == 0) {
        await_go(w);
        say_go(w, 2);
    }
    if (rank == 2) {
        await_go(w);
        ft_world_give_up(w, &why);
    }
    ft_error err = await_failure(w);
    HOLDS(err.status == (rank == 2 ? FT_DEVICE : FT_HANG));
    HOLDS(!strcmp(err.message, "the roof of rank 2 leaks"));
    ft_world_close(w);
}

/* How often that was told the user, from the first line on. */
static int count_told(const char *line)
{
    int n = 0;
    for (int i = 0; i < told.n && i < MOST_LINES; i++) n += !strcmp(told.lines[i], line);
    return n;
}

static void test_failures(void)
{
    heard stuck[4] = {0}, silent[3] = {0}, giving[3] = {0};
    if (!CHECK(told.n == 0)) /* not of builds, nor of those who leave */
        fprintf(stderr, "%s\n", told.lines[0]);
    run_ranks(3, gives_up, giving);
    for (int r = 0; r < 3; r++) CHECK(giving[r].calls == 1);
    CHECK(told.n == 2); /* by those who lose one */
    CHECK(count_told("the roof of rank 2 leaks; the cellar is dry") == 1);
    CHECK(count_told("the roof of rank 2 leaks") == 1);
    run_ranks(2, cannot_send, stuck);
    for (int i = 0; i < 4; i++) CHECK(stuck[i].calls == 1);
    for (int r = 0; r < 2; r++) CHECK(!strcmp(stuck[r].first.message, stuck[2 + r].first.message));
    run_ranks(3, falls_silent, silent);
    for (int r = 0; r < 3; r++) CHECK(silent[r].calls == 1);
    CHECK(!strcmp(silent[0].first.message, silent[2].first.message));
}

/* -- links ------------------------------------------------------------------------------------- */

static void measure(int rank, void *user)
{
    (void)user;
    ft_world *w = meet();
    for (int pair = 0; pair < 3; pair++) { /* 0 and 1, 0 and 2, 1 and 2 */
        ft_link_rates rates = {-1, -1, -1, -1};
        ft_error err;
        int low = pair / 2, high = pair ? 2 : 1, other = rank == low ? high : low;
        if (rank != low && rank != high) continue;
        HOLDS(ft_world_measure(w, other, &rates, &err) == FT_OK);
        if (rank == high)
            HOLDS(rates.latency_ns == -1);
        else
            HOLDS(rates.latency_ns > 0 && rates.to_bytes_per_s > 1e5 &&
                  rates.from_bytes_per_s > 1e5);
    }
    ft_world_close(w);
}

/* Rank 1 is asked for a word that it does not give. */
static void measures_no_more(int rank, void *user)
{
    (void)user;
    ft_error err = {FT_OK, ""};
    ft_world *w = meet();
    if (rank == 0) {
        ft_link_rates rates;
        HOLDS(ft_world_measure(w, 1, &rates, &err) == FT_HANG);
        HOLDS(!strcmp(err.message, "the bridge is up"));
    } else {
        ft_letter letter;
        bool got = false;
        HOLDS(ft_world_take(w, TAG_READY, LIMIT_NS, &letter, &got, NULL) == FT_OK && got);
        if (got) ft_world_drop(w, &letter);
        ft_world_send(w, 0, TAG_READY, NULL, 0, false);
        HOLDS(ft_world_take(w, TAG_PROBE, LIMIT_NS, &letter, &got, NULL) == FT_OK && got);
        if (got) ft_world_drop(w, &letter);
        ft_fail(&err, FT_DEVICE, "the bridge is up");
        ft_world_give_up(w, &err);
    }
    ft_world_close(w);
}

/* Who measures hears of a loss at once, and of what was lost. */
static void test_a_loss_ends_measuring(void)
{
    int64_t start = ft_now_ns();
    run_ranks(2, measures_no_more, NULL);
    CHECK(ft_now_ns() - start < INT64_C(30000000000));
}

/* -- replies ----------------------------------------------------------------------------------- */

static ft_gate turns;

/* One after the other: two of them have failed, and the last one has not. Which of the two is heard
 * first is open. */
static void reply_in_turn(int rank, void *user)
{
    static const ft_error said[] = {{FT_OK, ""},
                                    {FT_DEVICE, "the one that failed"},
                                    {FT_IO, "the other that failed"},
                                    {FT_OK, ""}};
    ft_error err = {FT_OK, ""};
    ft_world *w = meet();
    (void)user;
    if (rank) {
        ft_gate_wait(&turns, (uint32_t)rank - 1, NULL, LIMIT_NS);
        ft_world_send(w, 0, TAG, &said[rank], sizeof *said, true);
        ft_gate_open(&turns);
    } else {
        ft_status status = ft_world_take_replies(w, TAG, NULL, NULL, &err);
        int which = status == FT_DEVICE ? 1 : 2;
        HOLDS(status == said[which].status);
        HOLDS(!strncmp(err.message, which == 1 ? "rank 1 (host " : "rank 2 (host ", 13));
        HOLDS(strstr(err.message, said[which].message) != NULL);
    }
    ft_world_close(w);
}

static void test_a_failure_outlasts_what_went_well(void)
{
    run_ranks(4, reply_in_turn, NULL);
}

/* -- who is asked ------------------------------------------------------------------------------ */

static void say_nothing(void *user, char out[FT_AT_WORDS])
{
    (void)user;
    (void)out;
}

/* Who was asked before another one does not take back what that one says. */
static void ask_two(int rank, void *user)
{
    ft_world *w = meet();
    int one = 0, two = 0;
    (void)rank;
    (void)user;
    ft_world_on_ask(w, say_nothing, &one);
    ft_world_on_ask(w, say_nothing, &two);
    ft_world_off_ask(w, &one);
    HOLDS(w->tells == say_nothing && w->tells_user == &two);
    ft_world_off_ask(w, &two);
    HOLDS(!w->tells && !w->tells_user);
    ft_world_close(w);
}

static void test_the_newest_is_asked(void)
{
    run_ranks(2, ask_two, NULL);
}

int main(void)
{
    run_ranks(1, alone, NULL);
    run_ranks(1, open_without_memory, NULL);
    run_ranks(3, know_each_other, NULL);
    run_ranks(3, are_of_two_builds, NULL);
    run_ranks(3, write_letters, NULL);
    RUN(test_clocks);
    RUN(test_listening);
    run_ranks(2, listen_too_often, NULL);
    run_ranks(3, measure, NULL);
    RUN(test_failures);
    RUN(test_a_loss_ends_measuring);
    RUN(test_a_failure_outlasts_what_went_well);
    RUN(test_the_newest_is_asked);
    return check_report();
}
