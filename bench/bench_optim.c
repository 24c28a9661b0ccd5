/* bench/bench_optim.c - optimizer updates against the bandwidth of this machine.
 *
 * Out of cache, on one thread: a triad (a = b + s c, 12 bytes a number) and the updates in turn, so
 * that all see the same machine; medians of the rounds. The ratio is the time that the triad's
 * bandwidth would need for the update's bytes, over the update's time: 1 is the floor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "optim/optim.h"
#include "median.h"

enum { ROUNDS = 9, ROWS = 8192, COLUMNS = 2048, N = ROWS * COLUMNS };

typedef struct runner {
    const char *name;
    double bytes; /* a number that must move */
    const ft_optimizer *optimizer;
    double hypers[FT_MAX_HYPERS];
    void *state;
    double seconds[ROUNDS];
} runner;

static void triad(float *restrict a, const float *restrict b, const float *restrict c)
{
    for (int i = 0; i < N; i++) a[i] = b[i] + 0.5f * c[i];
}

static float *numbers(float scale)
{
    float *x = ft_pages_alloc((int64_t)N * 4);
    if (!x) exit(1);
    for (int i = 0; i < N; i++) x[i] = scale * (float)(i % 1000 - 500);
    return x;
}

static void round_of(runner *r, float *param, const float *grad, int round)
{
    const ft_spec spec = {FT_F32, ft_shape_of(ROWS, COLUMNS)};
    ft_update update = {.spec = &spec,
                        .param = param,
                        .grad = grad,
                        .grad_scale = 1.0f,
                        .state = r->state,
                        .hypers = r->hypers,
                        .rate = 1e-3,
                        .step = round + 1};
    int64_t start = ft_thread_cpu_ns();
    r->optimizer->update(&update);
    r->seconds[round] = (double)(ft_thread_cpu_ns() - start) * 1e-9;
}

int main(void)
{
    const ft_spec spec = {FT_F32, ft_shape_of(ROWS, COLUMNS)};
    runner runners[] = {{.name = "adamw", .bytes = 28},
                        {.name = "adafactor", .bytes = 24},
                        {.name = "sgd", .bytes = 20}};
    float *param = numbers(1e-3f), *grad = numbers(1e-4f), *spare = numbers(0.0f);
    double seconds[ROUNDS];
    for (int k = 0; k < 3; k++) {
        ft_state_part parts[FT_MAX_STATE_PARTS];
        int64_t bytes;
        runners[k].optimizer = ft_optimizer_find(runners[k].name);
        ft_optimizer_hypers(runners[k].optimizer, NULL, NULL, 0, runners[k].hypers, NULL);
        runners[k].optimizer->state(&spec, runners[k].hypers, parts, &bytes);
        runners[k].state = ft_pages_alloc(bytes);
        if (!runners[k].state) return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = ft_thread_cpu_ns();
        triad(spare, param, grad);
        seconds[round] = (double)(ft_thread_cpu_ns() - start) * 1e-9;
        for (int k = 0; k < 3; k++) round_of(&runners[k], param, grad, round);
    }
    /* A store reads its line first: 16 bytes move for a number of the triad. */
    double bandwidth = 16.0 * N / median(seconds, ROUNDS);
    printf("triad      %6.1f GB/s (16 bytes a number, its stores read their lines)\n",
           bandwidth * 1e-9);
    for (int k = 0; k < 3; k++) {
        double time = median(runners[k].seconds, ROUNDS);
        printf("%-10s %6.3f ns a number, %4.1f GB/s, %4.2f of the triad\n", runners[k].name,
               time / N * 1e9, runners[k].bytes * N / time * 1e-9,
               runners[k].bytes * N / time / bandwidth);
        printf("gate %s %.3f\n", runners[k].name, runners[k].bytes * N / time / bandwidth);
    }
    return 0;
}
