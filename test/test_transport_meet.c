/* test/test_transport_meet.c - ranks of which some end before they have said hello. */
#include "worlds.h"

/* Which ranks are not there, and what the others say. */
typedef struct absence {
    bool of[MOST_RANKS];
    const char *words;
} absence;

static void wait_in_vain(int rank, void *user)
{
    const absence *a = user;
    ft_world *w = NULL;
    ft_error err = {FT_OK, ""};
    if (a->of[rank]) return;
    HOLDS(world_open_within(&w, &self, hear_line, 1000, &err) == FT_HANG);
    if (!HOLDS(!strcmp(err.message, a->words))) fprintf(stderr, "%s\n", err.message);
    ft_world_close(w);
}

/* Rank 0 tells the others who is missing. */
static void test_some_are_missing(void)
{
    absence two = {{[1] = true, [3] = true}, "no hello has come within 1 s from rank 1, rank 3"};
    run_ranks(4, wait_in_vain, &two);
}

/* Nobody tells the others. */
static void test_the_first_is_missing(void)
{
    absence first = {{[0] = true}, "no hello has come within 3 s from rank 0"};
    run_ranks(3, wait_in_vain, &first);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* What each of four processes says of its machine, which machine that is, and what is its part. */
typedef struct machines {
    int64_t says[MOST_RANKS];
    char of[MOST_RANKS];
    int64_t parts[MOST_RANKS];
} machines;

static void share_machines(int rank, void *user)
{
    const machines *m = user;
    ft_world *w = NULL;
    int64_t parts[MOST_RANKS];
    char words[2 * FT_PROCESSOR_WORDS];
    snprintf(words, sizeof words, "%0*d", (int)sizeof words - 1, rank);
    const ft_world_self own = {"1", m->says[rank], rank ? "base" : words};
    HOLDS(ft_world_open(&w, &own, hear_line, NULL) == FT_OK);
    for (int r = 0; r < MOST_RANKS; r++) {
        HOLDS(w->peers[r].hello.memory_bytes == m->says[r]);
        HOLDS(r ? !strcmp(ft_world_processor(w, r), "base")
                : strlen(ft_world_processor(w, r)) == FT_PROCESSOR_WORDS - 1);
        w->peers[r].hello.machine[0] ^= m->of[r];
    }
    ft_world_memories(w, parts);
    for (int r = 0; r < MOST_RANKS; r++)
        if (!HOLDS(parts[r] == m->parts[r]))
            fprintf(stderr, "part %d is %lld\n", r, (long long)parts[r]);
    for (int r = 0; r < MOST_RANKS; r++) w->peers[r].hello.machine[0] ^= m->of[r];
    ft_world_close(w);
}

static void test_memory_of_machines(void)
{
    machines one = {{4000, 4004, 4008, 4012}, {0, 0, 0, 0}, {1000, 1000, 1000, 1000}};
    machines own = {{8000, 1000, 4000, 2000}, {0, 1, 2, 3}, {8000, 1000, 4000, 2000}};
    machines two = {{8000, 6000, 9000, 6006}, {0, 1, 2, 1}, {8000, 3000, 8000, 3000}};
    machines steps = {{1000, 1125, 1126, 1266}, {0, 1, 2, 3}, {1000, 1000, 1126, 1126}};
    run_ranks(MOST_RANKS, share_machines, &one);
    run_ranks(MOST_RANKS, share_machines, &own);
    run_ranks(MOST_RANKS, share_machines, &two);
    run_ranks(MOST_RANKS, share_machines, &steps);
}

int main(void)
{
    RUN(test_memory_of_machines);
    RUN(test_some_are_missing);
    RUN(test_the_first_is_missing);
    return check_report();
}
