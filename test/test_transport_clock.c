/* test/test_transport_clock.c - what beats there and back say of two clocks. */
#include "check.h"
#include "transport/world.h"

enum { BEATS = 2000, APART = 123456789, MOST_WAY = 3000000 };

static int64_t draw(uint32_t *state, int64_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (int64_t)((uint64_t)*state * (uint64_t)n >> 32);
}

/* Beats there and back over ways of any length: the other clock is never outside of what is said,
 * and what is said is as sure as the shortest ways allow. */
static void test_sights(void)
{
    uint32_t state = 7;
    sight best = {0};
    int64_t now = 1000000, offset, error, least = INT64_MAX;
    CHECK(!clock_read(&best, now, &offset, &error));
    clock_note(&best, &(stamp){.sent_ns = 5}, now); /* nothing has come there yet */
    CHECK(!clock_read(&best, now, &offset, &error));
    for (int i = 0; i < BEATS; i++) {
        int64_t there = 1000 + draw(&state, MOST_WAY), back = 1000 + draw(&state, MOST_WAY);
        stamp s = {.echo_ns = now, .held_ns = draw(&state, 200000000)};
        s.sent_ns = now + there + s.held_ns + APART;
        now += there + s.held_ns + back;
        clock_note(&best, &s, now);
        if (there + back < least) least = there + back;
        CHECK(clock_read(&best, now, &offset, &error));
        CHECK(offset - APART <= error && APART - offset <= error);
        CHECK(error <= (there + back) / 2 + 1);
    }
    CHECK(error >= least / 2 && error < MOST_WAY / 4);
    clock_note(&best, &(stamp){.sent_ns = now, .echo_ns = now, .held_ns = 10}, now);
    int64_t sure = error, seen = offset;
    CHECK(clock_read(&best, now, &offset, &error) && error == sure && offset == seen); /* no way */
    CHECK(clock_read(&best, now + INT64_C(3600000000000), &offset, &error));
    CHECK(error > sure && error > 300000000); /* clocks run apart meanwhile */
}

/* Of ways that took 1 ns in all, half is none: it is not known which way took it. */
static void test_halves(void)
{
    int64_t offset, error;
    for (int there = 0; there < 2; there++) {
        sight best = {0};
        clock_note(&best, &(stamp){.sent_ns = 1000 + there + APART, .echo_ns = 1000}, 1001);
        CHECK(clock_read(&best, 1001, &offset, &error));
        CHECK(offset - APART <= error && APART - offset <= error);
    }
}

int main(void)
{
    RUN(test_sights);
    RUN(test_halves);
    return check_report();
}
