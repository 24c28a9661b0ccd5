/* test/test_proof_repeats.c - when one repetition of a plan's body speaks for all that follow. */
#include "proof/repeats.h"

#include <string.h>

#include "check.h"

enum { SEATS = 3, MICROS = 16, DEVICE = 1 };

/* Two seats of the device, the second with moves and late weights, and one of another device. */
typedef struct seats_case {
    progress seats[SEATS];
    uint8_t micros[MICROS];
    int16_t lags[MICROS];
    ft_seating shares;
} seats_case;

static const int devices[SEATS] = {DEVICE, 0, DEVICE};

/* Before any repetition: three micro-batches are open, from the third on. */
static void begin(seats_case *c)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < SEATS; i++) {
        c->seats[i].last = FT_ACT_BACKWARD;
        c->seats[i].done[FT_ACT_FORWARD] = 5;
        c->seats[i].done[FT_ACT_BACKWARD] = 2;
        c->seats[i].held = 3;
    }
    progress *s = &c->seats[2];
    s->moves = s->attenuates = true;
    s->micros = c->micros;
    s->lags = c->lags;
    s->attenuated = 1;
    for (int i = 0; i < MICROS; i++) {
        c->micros[i] = i % 2 ? AT_HOST : AT_DEVICE;
        c->lags[i] = (int16_t)(i % 2);
    }
    c->shares = (ft_seating){.n_seats = SEATS, .seat_device = devices};
}

/* A repetition of two micro-batches that leaves all as it was. */
static void repeat(seats_case *c)
{
    for (int i = 0; i < SEATS; i++) {
        c->seats[i].done[FT_ACT_FORWARD] += 2;
        c->seats[i].done[FT_ACT_BACKWARD] += 2;
    }
    c->seats[2].attenuated += 2;
}

static void change_nothing(seats_case *c)
{
    (void)c;
}
static void change_place(seats_case *c)
{
    c->seats[2].at[FT_MEMORY_OPTIMIZER] = AT_HOST;
}
static void change_held(seats_case *c)
{
    c->seats[0].held--;
}
static void change_gradients(seats_case *c)
{
    c->seats[0].are_dead = true;
}
static void change_prediction(seats_case *c)
{
    c->seats[0].predicted = 1;
}
static void change_open(seats_case *c)
{
    c->seats[0].done[FT_ACT_FORWARD]++;
}
static void change_activations(seats_case *c)
{
    c->micros[5] = AT_BOTH;
}
static void change_lag(seats_case *c)
{
    c->lags[6] = 7;
}
static void change_attenuated(seats_case *c)
{
    c->seats[2].attenuated++;
}
static void change_finished(seats_case *c)
{
    c->micros[3] = AT_BOTH;
}
static void change_other_device(seats_case *c)
{
    c->seats[1].held = 9;
}

static void (*const changes[])(seats_case *) = {
    change_place, change_held, change_gradients,   change_prediction,
    change_open,  change_lag,  change_activations, change_attenuated,
};
static void (*const others[])(seats_case *) = {change_nothing, change_finished,
                                               change_other_device};

static bool is_steady_after(void (*change)(seats_case *))
{
    seats_case c;
    seats_then then = {0};
    ft_error err = {0};
    ft_arena *arena = ft_arena_new();
    begin(&c);
    CHECK_STATUS(proof_keep_seats(&then, arena, &c.shares, DEVICE, c.seats, &err), FT_OK);
    CHECK(then.n == 2);
    repeat(&c);
    change(&c);
    bool steady = proof_is_steady(&then, &c.shares, DEVICE, c.seats);
    ft_arena_free(arena);
    return steady;
}

static void test_what_is_as_it_was_is_steady(void)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) CHECK(is_steady_after(others[i]));
}

static void test_each_change_is_seen(void)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (!CHECK(!is_steady_after(changes[i]))) fprintf(stderr, "change %zu\n", i);
}

int main(void)
{
    RUN(test_what_is_as_it_was_is_steady);
    RUN(test_each_change_is_seen);
    return check_report();
}
