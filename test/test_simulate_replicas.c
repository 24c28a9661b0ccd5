/* test/test_simulate_replicas.c - simulated times of stages with replicas against closed forms. */
#include "check.h"
#include "simulate_case.h"

/* Each replica does its share; the sum and the update come once per batch. */
static void test_data_parallel_is_the_share_of_each(void)
{
    for (int replicas = 2; replicas <= 4; replicas++)
        for (int rule = 0; rule < FT_REPLICAS_COUNT; rule++) {
            pipeline_case c;
            const int first[] = {0, replicas}, devices[] = {0, 1, 2, 3};
            const uint8_t rules[] = {(uint8_t)rule};
            const double sum_ns[] = {500};
            case_chain(&c, 1, 12, 3, 1, 100, 200);
            c.update_ns[0] = 7;
            c.reduce_ns[0] = 5;
            c.costs.all_reduce_ns = sum_ns;
            c.pipeline.n_devices = replicas;
            c.pipeline.replica_first = first;
            c.pipeline.replica_device = devices;
            c.pipeline.replica_rule = rules;
            CHECK(end_of(&c, "data-parallel") == 3 * (12 / replicas * 300 + 5 + 500 + 7));
        }
}

/* Sums and updates are shared out: what the others send arrives a transfer after X, what they have
 * updated a transfer after U, and nobody waits for what it has itself. */
static void test_replicas_exchange(void)
{
    for (int replicas = 2; replicas <= 4; replicas++) {
        pipeline_case c;
        const int first[] = {0, replicas}, devices[] = {0, 1, 2, 3};
        const double exchange_ns[] = {11}, adopt_ns[] = {13}, transfer_ns[] = {1000, 2000};
        case_chain(&c, 1, 12, 3, 1, 100, 200);
        case_edge(&c, 0, FT_ACT_EXCHANGE, 0, FT_ACT_REDUCE, 1);
        case_edge(&c, 0, FT_ACT_UPDATE, 0, FT_ACT_ADOPT, 1);
        c.update_ns[0] = 7;
        c.reduce_ns[0] = 5;
        c.costs.exchange_ns = exchange_ns;
        c.costs.adopt_ns = adopt_ns;
        c.costs.transfer_ns = transfer_ns;
        c.pipeline.reduces = true;
        c.pipeline.n_devices = replicas;
        c.pipeline.replica_first = first;
        c.pipeline.replica_device = devices;
        int64_t step = 12 / replicas * 300 + 11 + 1000 + 5 + 7 + 2000 + 13;
        CHECK(end_of(&c, "data-parallel") == 3 * step);
    }
}

int main(void)
{
    RUN(test_data_parallel_is_the_share_of_each);
    RUN(test_replicas_exchange);
    return check_report();
}
