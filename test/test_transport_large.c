/* test/test_transport_large.c - messages and letters of more than one piece. */
#include <sys/mman.h>

#include "worlds.h"

enum { LARGE = 4 };
static const int64_t large_bytes[LARGE] = {PIECE - 1, PIECE, (int64_t)PIECE * 2,
                                           (int64_t)PIECE * 2 + 12345};

static const size_t LARGE_ROOM = (size_t)PIECE * 2 + (1 << 16);

typedef struct large {
    char *to;
    int64_t placed, arrived;
    ft_gate came;
} large;

static void *place_large(void *user, int from, int tag, int64_t bytes)
{
    (void)from;
    (void)tag;
    ((large *)user)->placed = bytes;
    return ((large *)user)->to;
}

static void arrived_large(void *user, int from, int tag, int64_t bytes)
{
    (void)from;
    (void)tag;
    ((large *)user)->arrived = bytes;
    ft_gate_open(&((large *)user)->came);
}

/* Pages that nobody writes to take no memory. */
static char *map_large(void)
{
    void *at = mmap(NULL, LARGE_ROOM, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* The first and the last byte of every piece. */
static void mark(char *at, int64_t bytes, int i)
{
    for (int64_t begin = 0; begin < bytes; begin += PIECE) {
        int64_t end = begin + PIECE < bytes ? begin + PIECE : bytes;
        at[begin] = (char)(i + begin / PIECE + 1);
        at[end - 1] = (char)(i + begin / PIECE + 101);
    }
}

static bool is_marked(const char *at, int64_t bytes, int i)
{
    bool fine = true;
    for (int64_t begin = 0; begin < bytes; begin += PIECE) {
        int64_t end = begin + PIECE < bytes ? begin + PIECE : bytes;
        fine = fine && at[begin] == (char)(i + begin / PIECE + 1);
        fine = fine && at[end - 1] == (char)(i + begin / PIECE + 101);
    }
    return fine;
}

static void send_large(int rank, void *user)
{
    ft_world *w = meet();
    ft_error err;
    large *l = user;
    const ft_receiver to = {TAG, 1, l, place_large, arrived_large};
    char *from = map_large();
    if (!rank) {
        HOLDS(ft_world_listen(w, &to, &err) == FT_OK);
        say_go(w, 1); /* what nobody listens for would be a letter */
    } else {
        await_go(w);
    }
    for (int i = 0; i < LARGE; i++) {
        if (rank) {
            mark(from, large_bytes[i], i);
            ft_world_send(w, 0, TAG, from, large_bytes[i], false);
            await_go(w);
            continue;
        }
        HOLDS(ft_world_wait(w, &l->came, (uint32_t)i + 1, NULL, LIMIT_NS));
        HOLDS(l->arrived == large_bytes[i]);
        HOLDS(l->placed == (large_bytes[i] < PIECE ? large_bytes[i] : PIECE));
        HOLDS(is_marked(l->to, large_bytes[i], i));
        say_go(w, 1);
    }
    if (!rank) ft_world_forget(w, l);
    ft_world_close(w);
    munmap(from, LARGE_ROOM);
}

/* A letter of two pieces, and others before and behind it. */
static void send_large_letter(int rank, void *user)
{
    enum { MORE = 12345 };
    static const int64_t bytes[] = {100, (int64_t)PIECE + MORE, PIECE, 100};
    ft_world *w = meet();
    char *from = rank ? map_large() : NULL;
    (void)user;
    for (int i = 0; i < 4; i++) {
        ft_letter letter;
        ft_error err;
        bool got = false;
        if (rank) {
            mark(from, bytes[i], i);
            ft_world_send(w, 0, TAG, from, bytes[i], false);
            await_go(w);
            continue;
        }
        HOLDS(ft_world_take(w, TAG, LIMIT_NS, &letter, &got, &err) == FT_OK && got);
        HOLDS(letter.peer == 1 && letter.bytes == bytes[i] && is_marked(letter.data, bytes[i], i));
        ft_world_drop(w, &letter);
        say_go(w, 1);
    }
    ft_world_close(w);
    if (rank) munmap(from, LARGE_ROOM);
}

/* Letters of two pieces from two ranks, each of two tags, whose pieces come among each other. */
static void send_many(int rank, void *user)
{
    enum { RANKS = 3, TAGS = 2 };
    const int64_t bytes = (int64_t)PIECE + 12345;
    static const int tags[] = {TAG, TAG + 2}; /* TAG + 1 is that of say_go */
    ft_world *w = meet();
    char *from[TAGS] = {NULL, NULL};
    (void)user;
    for (int t = 0; t < TAGS && rank; t++) {
        from[t] = map_large();
        mark(from[t], bytes, 10 * rank + t);
        ft_world_send(w, 0, tags[t], from[t], bytes, false);
    }
    for (int n = 0; n < TAGS * (RANKS - 1) && !rank; n++) {
        ft_letter letter;
        bool got = false;
        int t = n % TAGS;
        if (!HOLDS(ft_world_take(w, tags[t], LIMIT_NS / 60, &letter, &got, NULL) == FT_OK && got))
            break;
        HOLDS(letter.bytes == bytes && is_marked(letter.data, bytes, 10 * letter.peer + t));
        ft_world_drop(w, &letter);
    }
    for (int r = 1; r < RANKS && !rank; r++) say_go(w, r);
    if (rank) await_go(w);
    ft_world_close(w);
    for (int t = 0; t < TAGS && rank; t++) munmap(from[t], LARGE_ROOM);
}

static void test_many_at_once(void)
{
    run_ranks(3, send_many, NULL);
}

static void test_large_letters(void)
{
    run_ranks(2, send_large_letter, NULL);
}

static void test_pieces(void)
{
    large l = {.to = map_large()};
    if (!CHECK(l.to != NULL)) return;
    run_ranks(2, send_large, &l);
    munmap(l.to, LARGE_ROOM);
}

int main(void)
{
    RUN(test_pieces);
    RUN(test_large_letters);
    RUN(test_many_at_once);
    return check_report();
}
