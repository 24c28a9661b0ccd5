/* bench/bench_simulate.c - events per second of the plan simulator.
 *
 * P devices, L stages in turns, every device behind a link of its own, hosts of eight devices with
 * one link between them and a switch, half duplex: so transfers queue on links that are shared. An
 * event is the start or the end of an action or of a transfer. The case that counts is P = 16,
 * L = 64; the others show how it grows.
 *
 * Usage: bench_simulate [rounds]. Prints `name events/s` lines, best of the rounds by the thread's
 * own CPU time; the case that counts has a gate in bench/gates.lua. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "schedule/schedule.h"
#include "simulate/simulate.h"

enum { MAX_STAGES = 256, MAX_DEVICES = 64, MAX_LINKS = 96, PER_HOST = 8 };

typedef struct bench {
    ft_pipeline pipeline;
    ft_stage_costs costs;
    ft_machine machine;
    int device[MAX_STAGES];
    double forward_ns[MAX_STAGES], backward_ns[MAX_STAGES];
    ft_edge edges[2 * MAX_STAGES];
    ft_cable links[MAX_LINKS];
} bench;

static void must(ft_status status, const ft_error *err)
{
    if (status == FT_OK) return;
    fprintf(stderr, "bench_simulate: %s\n", err->message);
    exit(1);
}

static void link_devices(bench *b, int n_devices)
{
    int hosts = (n_devices + PER_HOST - 1) / PER_HOST, n = 0;
    for (int d = 0; d < n_devices; d++)
        b->links[n++] = (ft_cable){.a = d,
                                   .b = n_devices + d / PER_HOST,
                                   .bytes_per_s = 12e9,
                                   .latency_ns = 5000,
                                   .duplex = true};
    for (int h = 0; h < hosts; h++)
        b->links[n++] = (ft_cable){
            .a = n_devices + h, .b = n_devices + hosts, .bytes_per_s = 3e9, .latency_ns = 10000};
    b->machine = (ft_machine){.n_devices = n_devices,
                              .n_places = n_devices + hosts + 1,
                              .n_links = n,
                              .links = b->links,
                              .hand_off_ns = 1000};
}

static void init(bench *b, int n_devices, int n_stages, int n_batches)
{
    *b = (bench){.costs = {.forward_ns = b->forward_ns, .backward_ns = b->backward_ns}};
    b->pipeline = (ft_pipeline){.n_stages = n_stages,
                                .n_devices = n_devices,
                                .device = b->device,
                                .micro_batches = 2 * n_stages,
                                .n_batches = n_batches,
                                .edges = b->edges,
                                .costs = &b->costs};
    for (int s = 0; s < n_stages; s++) {
        b->device[s] = s % n_devices;
        b->forward_ns[s] = 1e6 + 1000 * (s * 37 % 101);
        b->backward_ns[s] = 2e6 + 1000 * (s * 53 % 97);
        if (s + 1 == n_stages) continue;
        b->edges[b->pipeline.n_edges++] =
            (ft_edge){s, s + 1, FT_ACT_FORWARD, FT_ACT_FORWARD, 4 << 20, 3};
        b->edges[b->pipeline.n_edges++] =
            (ft_edge){s + 1, s, FT_ACT_BACKWARD, FT_ACT_BACKWARD, 4 << 20, 3};
    }
    link_devices(b, n_devices);
}

static double measure(const bench *b, const ft_plan *plan, int rounds)
{
    double best = 0;
    for (int i = 0; i < rounds; i++) {
        ft_error err;
        ft_timeline *timeline;
        ft_simulation options = {.costs = &b->costs, .machine = &b->machine};
        int64_t start = ft_thread_cpu_ns();
        must(ft_plan_simulate_on(&timeline, plan, &options, &err), &err);
        double seconds = (double)(ft_thread_cpu_ns() - start) / 1e9;
        double rate = 2 * (double)(timeline->n_events + timeline->n_passages) / seconds;
        if (rate > best) best = rate;
        ft_timeline_free(timeline);
    }
    return best;
}

int main(int argc, char **argv)
{
    static const int cases[][3] = {
        {4, 16, 40}, {16, 16, 40}, {16, 64, 20}, {64, 64, 20}, {64, 256, 2}};
    static bench b;
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_error err;
        ft_plan *plan;
        init(&b, cases[i][0], cases[i][1], cases[i][2]);
        must(ft_plan_make(&plan, &b.pipeline, ft_schedule_find("async"), &err), &err);
        double rate = measure(&b, plan, rounds);
        printf("simulate P=%d L=%d %.3g\n", cases[i][0], cases[i][1], rate);
        if (cases[i][0] == 16 && cases[i][1] == 64) printf("gate simulate %.4g\n", rate);
        ft_plan_free(plan);
    }
    return 0;
}
