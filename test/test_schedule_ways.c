/* test/test_schedule_ways.c - how far stages are from each other where there are several ways, and
 * what a device prefers that chooses by policy. */
#include "check.h"

#include "base/arena.h"
#include "plan/wires.h"

/* Forwards by way of 1 and 5, of 2 with its five replicas, and from 4, which is first, too; edges
 * of long ways stand before those of short ones, and behind them. */
static void test_distances_are_those_of_the_longest_way(void)
{
    static const int ends[][2] = {{4, 3}, {0, 2}, {2, 3}, {0, 1}, {1, 5}, {5, 3}, {0, 4}};
    enum { STAGES = 6, DEVICES = 10, EDGES = sizeof ends / sizeof *ends };
    static const int first[] = {0, 1, 2, 7, 8, 9, 10},
                     device[DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const uint8_t rule[STAGES] = {0};
    const ft_seat_request q = {.n_stages = STAGES,
                               .n_devices = DEVICES,
                               .micro_batches = 5,
                               .replica_first = first,
                               .replica_device = device,
                               .replica_rule = rule};
    ft_arena *arena = ft_arena_new();
    ft_error err = {FT_OK, ""};
    for (int turn = 0; turn < EDGES; turn++) {
        ft_edge edges[EDGES];
        ft_seating seating;
        ft_wires *wires;
        ft_depths found;
        for (int e = 0; e < EDGES; e++) {
            const int *at = ends[(e + turn) % EDGES];
            edges[e] = (ft_edge){.from = at[0],
                                 .to = at[1],
                                 .from_kind = FT_ACT_FORWARD,
                                 .to_kind = FT_ACT_FORWARD,
                                 .slots = 1};
        }
        CHECK_STATUS(ft_seating_new(&seating, arena, &q, &err), FT_OK);
        CHECK_STATUS(ft_wires_new(&wires, arena, &seating, EDGES, edges, &err), FT_OK);
        CHECK_STATUS(ft_depths_find(&found, arena, wires, &err), FT_OK);
        static const int depth[] = {3, 2, 1, 0, 1, 1}, ahead[] = {6, 2, 1, 0, 1, 1},
                         height[] = {0, 1, 1, 3, 1, 2};
        for (int s = 0; s < STAGES; s++) {
            CHECK(found.depth[s] == depth[s]);
            CHECK(found.ahead[s] == ahead[s]);
            CHECK(found.height[s] == height[s]);
        }
    }
    ft_arena_free(arena);
}

/* Each row goes before the next one: of equals in depth the older batch, the earlier micro-batch,
 * the later stage. */
static void test_what_a_policy_prefers(void)
{
    static const int depth[] = {1, 0, 0};
    static const ft_action order[] = {
        {.kind = FT_ACT_BACKWARD, .stage = 2, .batch = 1},
        {.kind = FT_ACT_BACKWARD, .stage = 0},
        {.kind = FT_ACT_FORWARD, .stage = 2, .micro = 0},
        {.kind = FT_ACT_FORWARD, .stage = 1, .micro = 0},
        {.kind = FT_ACT_FORWARD, .stage = 2, .micro = 1},
        {.kind = FT_ACT_FORWARD, .stage = 1, .micro = 1},
        {.kind = FT_ACT_FORWARD, .stage = 2, .batch = 1},
        {.kind = FT_ACT_FORWARD, .stage = 0},
    };
    int n = sizeof order / sizeof *order;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            CHECK(ft_policy_goes_before(depth, &order[i], &order[k]) == (i < k));
}

int main(void)
{
    RUN(test_distances_are_those_of_the_longest_way);
    RUN(test_what_a_policy_prefers);
    return check_report();
}
