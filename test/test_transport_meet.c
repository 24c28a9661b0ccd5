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
    HOLDS(world_open_within(&w, "1", hear_line, 1000, &err) == FT_HANG);
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

int main(void)
{
    RUN(test_some_are_missing);
    RUN(test_the_first_is_missing);
    return check_report();
}
