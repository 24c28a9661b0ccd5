/* test/test_machine.c - ways, and who has to wait on them, on machines whose answers are known. */
#include "machine/machine.h"

#include <string.h>

#include "check.h"

/* Ways do not lead through devices, however short they are. */
static void test_devices_pass_nothing_on(void)
{
    const ft_cable links[] = {{.a = 0, .b = 1, .bytes_per_s = 1e9},
                              {.a = 1, .b = 2, .bytes_per_s = 1e9},
                              {.a = 0, .b = 3, .bytes_per_s = 1e8},
                              {.a = 3, .b = 4, .bytes_per_s = 1e8},
                              {.a = 4, .b = 2, .bytes_per_s = 1e8}};
    ft_machine m = {.n_devices = 3, .n_places = 5, .n_links = 5, .links = links};
    double latency[9], per_byte[9];
    ft_error err = {0};
    CHECK_STATUS(ft_machine_idle(&m, 0, latency, per_byte, &err), FT_OK);
    CHECK(per_byte[1] == 1 && per_byte[2] == 10);
}

/* Three devices around a hub: two bytes a ns to it, one from it; what goes in one direction waits
 * for what asked before, and the other way round for nobody where the link is duplex. */
static void test_who_asked_first_goes_first(void)
{
    for (int duplex = 0; duplex < 2; duplex++) {
        ft_cable links[3];
        for (int d = 0; d < 3; d++)
            links[d] = (ft_cable){
                .a = d, .b = 3, .bytes_per_s = d ? 1e9 : 2e9, .latency_ns = 5, .duplex = duplex};
        ft_machine m = {.n_devices = 3, .n_places = 4, .n_links = 3, .links = links};
        ft_arena *arena = ft_arena_new();
        ft_roads roads;
        ft_error err = {0};
        int64_t start;
        if (CHECK_STATUS(ft_roads_new(&roads, arena, &m, 3, &err), FT_OK)) {
            const ft_way *out = ft_roads_way(&roads, 0, 1), *back = ft_roads_way(&roads, 1, 0);
            CHECK(out->n == 2 && out->latency_ns == 10 && out->narrowest == 1);
            CHECK(ft_roads_pass(&roads, out, 100, 1000, &start) == 1110 && start == 100);
            CHECK(ft_roads_pass(&roads, out, 200, 1000, &start) == 2110 && start == 1100);
            CHECK(ft_roads_pass(&roads, ft_roads_way(&roads, 0, 2), 200, 1000, &start) == 2610);
            CHECK(start ==
                  1600); /* the fast link is free when half of the slow one's time is over */
            CHECK(ft_roads_pass(&roads, back, 0, 1000, &start) == (duplex ? 1010 : 3110));
        }
        ft_arena_free(arena);
    }
}

/* A message above a link's eager bytes waits for two more of its latencies. */
static void test_large_messages_are_asked_for(void)
{
    const ft_cable links[] = {
        {.a = 0,
         .b = 2,
         .bytes_per_s = 1e9,
         .latency_ns = 100,
         .eager_bytes = 1000,
         .duplex = true},
        {.a = 2, .b = 1, .bytes_per_s = 1e9, .latency_ns = 10, .duplex = true}};
    static const int devices[] = {0, 1};
    ft_machine m = {.n_devices = 2, .n_places = 3, .n_links = 2, .links = links};
    ft_arena *arena = ft_arena_new();
    ft_roads roads;
    ft_error err = {0};
    int64_t start;
    double latency[4], per_byte[4];
    if (CHECK_STATUS(ft_roads_new(&roads, arena, &m, 2, &err), FT_OK)) {
        const ft_way *w = ft_roads_way(&roads, 0, 1);
        CHECK(ft_roads_pass(&roads, w, 0, 1000, &start) == 1000 + 110);
        CHECK(ft_roads_pass(&roads, w, 5000, 1001, &start) == 5000 + 1001 + 110 + 200);
        CHECK(roads.free_ns[w->lanes[0]] == 6001); /* others pass meanwhile */
        CHECK(ft_roads_reduce(&roads, devices, 2, 10000, 2000, &start) == 10000 + 2000 + 2 * 110);
        CHECK(ft_roads_reduce(&roads, devices, 2, 20000, 2002, &start) == 20000 + 2002 + 2 * 310);
    }
    CHECK_STATUS(ft_machine_idle(&m, 1000, latency, per_byte, &err), FT_OK);
    CHECK(latency[1] == 110 && latency[2] == 110 && per_byte[1] == 1);
    CHECK_STATUS(ft_machine_idle(&m, 1001, latency, per_byte, &err), FT_OK);
    CHECK(latency[1] == 310 && latency[2] == 310 && latency[0] == 0);
    ft_arena_free(arena);
}

/* Each of n devices passes 2 (n - 1) parts of an n-th, at the rate of the slowest. */
static void test_a_sum_goes_round(void)
{
    static const int devices[] = {0, 1, 2, 3};
    for (int n = 2; n <= 4; n++) {
        ft_cable links[4];
        for (int d = 0; d < n; d++)
            links[d] = (ft_cable){.a = d,
                                  .b = (d + 1) % n,
                                  .bytes_per_s = d ? 2e9 : 1e9,
                                  .latency_ns = 7,
                                  .one_way = true};
        ft_machine m = {.n_devices = n, .n_places = n, .n_links = n, .links = links};
        ft_arena *arena = ft_arena_new();
        ft_roads roads;
        ft_error err = {0};
        int64_t start;
        /* ways through other devices do not count, and nobody asks for them */
        if (CHECK_STATUS(ft_roads_new(&roads, arena, &m, n, &err), FT_OK)) {
            int64_t took = 2 * (n - 1) * (1200 / n + 7);
            CHECK(ft_roads_reduce(&roads, devices, n, 50, 1200, &start) == 50 + took);
            CHECK(start == 50);
            CHECK(ft_roads_reduce(&roads, devices, n, 60, 1200, &start) == 50 + 2 * took);
        }
        ft_arena_free(arena);
    }
}

static void test_bad_machines_are_refused(void)
{
    ft_cable link = {.a = 0, .b = 1, .bytes_per_s = 1e9};
    ft_machine m = {.n_devices = 2, .n_places = 2, .n_links = 1, .links = &link};
    double latency[4], per_byte[4];
    ft_error err = {0};
    CHECK_STATUS(ft_machine_idle(&m, 0, latency, per_byte, &err), FT_OK);
    CHECK(per_byte[0] == 0 && per_byte[1] == 1 && per_byte[2] == 1 && latency[1] == 0);
    link.one_way = true;
    CHECK_STATUS(ft_machine_idle(&m, 0, latency, per_byte, &err), FT_INVALID);
    CHECK(strstr(err.message, "no way from device 1 to device 0"));
    link.bytes_per_s = -1;
    CHECK_STATUS(ft_machine_idle(&m, 0, latency, per_byte, &err), FT_INVALID);
    CHECK(strstr(err.message, "link 0 has -1 bytes/s"));
    link = (ft_cable){.a = 0, .b = 2, .bytes_per_s = 1e9};
    CHECK_STATUS(ft_machine_idle(&m, 0, latency, per_byte, &err), FT_INVALID);
    CHECK(strstr(err.message, "link 0 joins places 0 and 2"));
}

int main(void)
{
    RUN(test_devices_pass_nothing_on);
    RUN(test_who_asked_first_goes_first);
    RUN(test_large_messages_are_asked_for);
    RUN(test_a_sum_goes_round);
    RUN(test_bad_machines_are_refused);
    return check_report();
}
