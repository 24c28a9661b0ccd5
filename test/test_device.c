/* test/test_device.c - device lists, the machine's facts, teams. */
#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "check.h"

/* -- lists ---------------------------------------------------------------------------------- */

static void test_good_lists(void)
{
    static const struct {
        const char *text;
        int n, threads;
        double memory; /* 0: whatever the machine has */
        double flops;
    } cases[] = {
        {"cpu:1", 1, 1, 0, 0},
        {"cpu:2", 2, 1, 0, 0},
        {"cpu:3x4", 3, 4, 0, 0},
        {"cpu:2/2GB", 2, 1, 2e9, 0},
        {"cpu:2x2/1.5GiB", 2, 2, 1610612736.0, 0},
        {"cpu:2/64MB@2GB/s", 2, 1, 64e6, 0},
        {"cpu:2x2@500MB/s", 2, 2, 0, 0},
        {"cpu:2/unpacked", 2, 1, 0, 0},
        {"cpu:2x2/64MB@2GB/s/unpacked", 2, 2, 64e6, 0},
        {"cpu:256", 256, 1, 0, 0},
        {"sim:8x11GB", 8, 1, 11e9, 10e12 * 0.76},
        {"sim:8x2080ti", 8, 1, 11e9, 13.45e12 * 0.76},
        {"sim:1x3090/20GB", 1, 1, 20e9, 35.6e12 * 0.76},
        {"sim:4x512MiB", 4, 1, 536870912.0, 10e12 * 0.76},
        {"sim:2x2080ti,1x11GB", 3, 1, 11e9, 0},
        {"sim:2xh200+4x3090", 6, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_device devices[FT_MAX_DEVICES];
        ft_error err = {0};
        int n = -1;
        CHECK_STATUS(ft_devices_parse(cases[i].text, devices, &n, &err), FT_OK);
        if (!CHECK(n == cases[i].n)) continue;
        for (int d = 0; d < n; d++) {
            CHECK(devices[d].index == d && devices[d].n_threads == cases[i].threads);
            CHECK(devices[d].memory_bytes > 0 && devices[d].flops_per_s > 0);
            CHECK(devices[d].bytes_per_s > 0 && devices[d].link_bytes_per_s > 0);
            double limit = strstr(cases[i].text, "@2GB/s")     ? 2e9
                           : strstr(cases[i].text, "@500MB/s") ? 500e6
                                                               : 0;
            CHECK(devices[d].host_limit == limit);
            CHECK(devices[d].unpacked == (strstr(cases[i].text, "unpacked") != NULL));
            if (cases[i].memory > 0) CHECK(devices[d].memory_bytes == (int64_t)cases[i].memory);
            if (cases[i].flops > 0) CHECK_NEAR(devices[d].flops_per_s, cases[i].flops, 1);
        }
    }
}

static void test_threads_add_speed(void)
{
    ft_device one[FT_MAX_DEVICES], four[FT_MAX_DEVICES];
    int n;
    CHECK_STATUS(ft_devices_parse("cpu:2x1", one, &n, NULL), FT_OK);
    CHECK_STATUS(ft_devices_parse("cpu:2x4", four, &n, NULL), FT_OK);
    CHECK_NEAR(four[1].flops_per_s, 4 * one[1].flops_per_s, 1);
    CHECK_NEAR(four[1].bytes_per_s, 4 * one[1].bytes_per_s, 1);
}

static void test_names_and_defaults(void)
{
    ft_device devices[FT_MAX_DEVICES];
    int n;
    CHECK_STATUS(ft_devices_parse("cpu", devices, &n, NULL), FT_OK);
    CHECK(n == ft_cpu_cores() || n == FT_MAX_DEVICES);
    CHECK(devices[0].kind == FT_DEVICE_CPU && !strcmp(devices[0].name, "cpu:0"));
    CHECK_STATUS(ft_devices_parse("sim:2x2080ti,1x24GB", devices, &n, NULL), FT_OK);
    CHECK(devices[1].kind == FT_DEVICE_SIM && !strcmp(devices[1].name, "sim:1 2080ti"));
    CHECK(!strcmp(devices[2].name, "sim:2 card") && devices[2].memory_bytes == 24000000000);
    CHECK_STATUS(ft_devices_parse("cpu:4", devices, &n, NULL), FT_OK);
    CHECK(devices[0].memory_bytes <= ft_cpu_memory_bytes() / 2);
}

static void test_hosts(void)
{
    ft_device devices[FT_MAX_DEVICES];
    int n;
    CHECK_STATUS(ft_devices_parse("hosts:3xcpu:2x4/1GB", devices, &n, NULL), FT_OK);
    CHECK(n == 6);
    for (int d = 0; d < n; d++) {
        CHECK(devices[d].index == d && devices[d].rank == d / 2 && devices[d].n_threads == 4);
        CHECK(devices[d].memory_bytes == 1000000000 && devices[d].driver);
    }
    CHECK(!strcmp(devices[0].name, "0/cpu:0") && !strcmp(devices[5].name, "2/cpu:1"));
}

typedef struct bad_list {
    const char *text, *says;
} bad_list;

static void check_refused(const char *text, const char *says)
{
    ft_device devices[FT_MAX_DEVICES];
    ft_error err = {0};
    int n = -1;
    CHECK(ft_devices_parse(text, devices, &n, &err) != FT_OK);
    CHECK(n == 0);
    bool has_none = !strcmp(text, "a100") || !strcmp(text, "sim") || !strcmp(text, "hosts:2xfoo");
    CHECK(!has_none || !strstr(err.message, "mean"));
    if (!CHECK(strstr(err.message, says))) fprintf(stderr, "  %s: %s\n", text, err.message);
}

static void test_bad_lists(void)
{
    static const bad_list cases[] = {
        {"", "expected cpu"},
        {"gpu", "did you mean cuda?"},
        {"gpu:2", "did you mean cuda?"},
        {"CPU:2", "did you mean cpu?"},
        {"host:2xcpu:1", "did you mean hosts?"},
        {"tpu:2", "did you mean cpu?"},
        {"a100", "or sim:8x11GB"},
        {"cpus", "expected nothing more"},
        {"cpu:", "number of devices"},
        {"cpu:0", "from 1 to 1024"},
        {"cpu:1025", "from 1 to 1024"},
        {"cpu:99999999999999999999", "from 1 to 1024"},
        {"cpu:-1", "from 1 to 1024"},
        {"cpu:2x", "threads of each device"},
        {"cpu:2/", "a size such as"},
        {"cpu:2/2", "a size such as"},
        {"cpu:2/2gb", "a size such as"},
        {"cpu:2/1.2.3GB", "a size such as"},
        {"cpu:2/0GB", "a size such as"},
        {"cpu:2/99999999TB", "a size such as"},
        {"cpu:2 ", "nothing more"},
        {"cpu:2@", "a rate such as 2GB/s"},
        {"cpu:2/2GB@2", "a rate such as 2GB/s"},
        {"cpu:2@2GB", "\"/s\" behind a rate"},
        {"cpu:2@2GB/s/64MB", "nothing more"},
        {"cpu:2/unpacked/64MB", "nothing more"},
        {"cpu:2/unpack", "a size such as"},
        {"sim", "or sim:8x11GB"},
        {"sim:", "number of devices"},
        {"sim:8", "at its end: expected"},
        {"sim:8x", "2080ti"},
        {"sim:8x2080", "did you mean 2080ti?"},
        {"sim:2xA100", "did you mean a100?"},
        {"sim:4xH100", "did you mean h100?"},
        {"sim:8xgpu", "a card: 1080ti 2080ti 3090"},
        {"sim:8x11GB,", "number of devices"},
        {"sim:1000x11GB,100x11GB", "from 1 to 24"},
        {"sim:1024x11GB,1x11GB", "no more than 1024"},
        {"sim:8x11GB/2GB", "nothing more"},
        {"cuda:0", "no CUDA"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i].text, cases[i].says);
}

/* What is wrong behind "hosts:2x" is said of the whole list. */
static void test_bad_lists_of_hosts(void)
{
    static const bad_list cases[] = {
        {"hosts:", "number of processes"},
        {"hosts:2", "hosts:2xcpu:4"},
        {"hosts:2xsim:2x11GB", "devices that processes run on"},
        {"hosts:2xhosts:2xcpu:1", "devices that processes run on"},
        {"hosts:2xcpu:0", "from 1 to 1024"},
        {"hosts:32xcpu:33", "at \"cpu:33\" (character 10): expected no more than 1024"},
        {"hosts:2xfoo", "device list \"hosts:2xfoo\": at \"foo\" (character 9): expected cpu, "
                        "cpu:2, cpu:2x4, cpu:2/4GB or cuda:0,1"},
        {"hosts:2xgpu", "or cuda:0,1 (did you mean cuda?)"},
        {"hosts:2xcpu:2x", "device list \"hosts:2xcpu:2x\": at its end: expected the threads"},
        {"hosts:2xcpu:2/2gb", "at \"2gb\" (character 15): expected a size"},
        {"hosts:2xcuda:0", "device list \"hosts:2xcuda:0\": this build has no CUDA"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i].text, cases[i].says);
}

static void test_machine(void)
{
    CHECK(ft_cpu_cores() >= 1);
    CHECK(ft_cpu_memory_bytes() > (int64_t)16 << 20);
    CHECK(ft_cpu_isa() < FT_ISA_COUNT);
    CHECK(!strcmp(ft_isa_name(FT_ISA_AVX2), "avx2"));
    CHECK(!strcmp(ft_isa_name(FT_ISA_COUNT), "unknown"));
}

/* No better kernels than those that are allowed, whatever the CPU has. */
static void test_allowed_kernels(void)
{
    static const char *const names[] = {"base", "avx2", "avx512", "avx512+bf16", "avx512+amx"};
    const char *best = ft_cpu_kernels_name();
    bool bf16 = ft_cpu_bf16(), tiles = ft_cpu_tiles(), reached = false;
    ft_error err;
    for (int i = 0; i < 5; i++) {
        CHECK_STATUS(ft_cpu_allow(names[i], &err), FT_OK);
        reached = reached || !strcmp(names[i], best);
        CHECK(!strcmp(ft_cpu_kernels_name(), reached ? best : names[i]));
        CHECK((int)ft_cpu_isa() <= i && (i == 4 || !ft_cpu_tiles()) && (i >= 3 || !ft_cpu_bf16()));
        int used = ft_cpu_tiles() ? 4 : ft_cpu_bf16() ? 3 : (int)ft_cpu_isa();
        CHECK(!strcmp(ft_cpu_kernels_name(), names[used]));
    }
    CHECK(reached && ft_cpu_bf16() == bf16 && ft_cpu_tiles() == tiles);
    CHECK_STATUS(ft_cpu_allow("sse", &err), FT_INVALID);
    CHECK(
        strstr(err.message, "'sse', expected one of base, avx2, avx512, avx512+bf16, avx512+amx"));
    CHECK(!strcmp(ft_cpu_kernels_name(), best));
}

/* Products are the faster, the more the kernels have; twice the threads are twice as fast. */
static void test_rates(void)
{
    static const struct {
        const char *kernels;
        double flops, bf16;
    } rates[] = {{"base", 16e9, 30.4e9},
                 {"avx2", 64e9, 121.6e9},
                 {"avx512", 128e9, 243.2e9},
                 {"avx512+bf16", 128e9, 243.2e9},
                 {"avx512+amx", 256e9, 768e9}};
    ft_device one[FT_MAX_DEVICES], two[FT_MAX_DEVICES];
    ft_error err;
    int n = 0, found = 0;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        CHECK_STATUS(ft_cpu_allow(rates[i].kernels, &err), FT_OK);
        if (strcmp(rates[i].kernels, ft_cpu_kernels_name()) != 0) continue;
        CHECK_STATUS(ft_devices_parse("cpu:1", one, &n, &err), FT_OK);
        CHECK_STATUS(ft_devices_parse("cpu:1x2", two, &n, &err), FT_OK);
        CHECK_NEAR(one->flops_per_s / rates[i].flops, 1, 1e-12);
        bool slow = ft_cpu_slow_bf16() && !ft_cpu_tiles();
        CHECK_NEAR(one->bf16_flops_per_s / (slow ? rates[i].flops : rates[i].bf16), 1, 1e-12);
        CHECK(two->flops_per_s == 2 * one->flops_per_s);
        found++;
    }
    CHECK(found >= 1);
}

/* -- teams ---------------------------------------------------------------------------------- */

enum { MAX_N = 40 };

typedef struct record {
    int calls[MAX_N];
    pthread_t thread[MAX_N];
} record;

static void note(void *arg, int i)
{
    record *r = arg;
    r->calls[i]++;
    r->thread[i] = pthread_self();
}

static void test_team_covers_every_index_once(void)
{
    for (int size = 1; size <= 5; size++) {
        ft_team *team;
        if (!CHECK(ft_team_new(&team, size, NULL) == FT_OK)) return;
        CHECK(ft_team_size(team) == size);
        for (int n = 0; n < MAX_N; n++) {
            record r = {0};
            ft_team_run(team, n, note, &r);
            bool once = true;
            for (int i = 0; i < MAX_N; i++) once = once && r.calls[i] == (i < n ? 1 : 0);
            CHECK(once);
        }
        ft_team_free(team);
    }
}

static void test_team_assignment_is_fixed(void)
{
    ft_team *team;
    if (!CHECK(ft_team_new(&team, 3, NULL) == FT_OK)) return;
    record first = {0};
    ft_team_run(team, 7, note, &first);
    bool same = true;
    for (int round = 0; round < 200; round++) {
        record again = {0};
        ft_team_run(team, 7, note, &again);
        for (int i = 0; i < 7; i++) same = same && pthread_equal(again.thread[i], first.thread[i]);
    }
    CHECK(same);
    record each = {0};
    ft_team_run(team, 3, note, &each);
    CHECK(pthread_equal(each.thread[0], pthread_self()));
    CHECK(!pthread_equal(each.thread[0], each.thread[1]) &&
          !pthread_equal(each.thread[1], each.thread[2]) &&
          !pthread_equal(each.thread[0], each.thread[2]));
    ft_team_free(team);
}

static void add_one(void *arg, int i)
{
    ((int64_t *)arg)[i]++;
}

static void test_team_runs_do_not_allocate(void)
{
    ft_team *team;
    if (!CHECK(ft_team_new(&team, 2, NULL) == FT_OK)) return;
    int64_t sums[8] = {0}, before = ft_alloc_count();
    for (int round = 0; round < 5000; round++) ft_team_run(team, 8, add_one, sums);
    for (int i = 0; i < 8; i++) CHECK(sums[i] == 5000);
    CHECK(ft_alloc_count() == before);
    ft_team_free(team);
}

/* Helpers that went to sleep in the kernel have to wake up again, and to end. */
static void test_team_sleeps_and_ends(void)
{
    ft_team *team;
    if (!CHECK(ft_team_new(&team, 3, NULL) == FT_OK)) return;
    int64_t sums[6] = {0};
    for (int round = 0; round < 3; round++) {
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        ft_team_run(team, 6, add_one, sums);
    }
    for (int i = 0; i < 6; i++) CHECK(sums[i] == 3);
    struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    ft_team_free(team); /* comes back, since all of them have ended */
}

static void test_team_errors(void)
{
    ft_team *team;
    ft_error err = {0};
    CHECK_STATUS(ft_team_new(&team, 0, &err), FT_INVALID);
    CHECK(!team && strstr(err.message, "not 0"));
    int64_t live = ft_alloc_live();
    ft_alloc_fail_after(1);
    CHECK_STATUS(ft_team_new(&team, 2, &err), FT_NOMEM);
    ft_alloc_fail_after(0);
    CHECK(!team && ft_alloc_live() == live);
    int64_t sums[3] = {0};
    ft_team_run(NULL, 3, add_one, sums);
    CHECK(sums[0] == 1 && sums[2] == 1 && ft_team_size(NULL) == 1);
    ft_team_free(NULL);
}

int main(void)
{
    RUN(test_good_lists);
    RUN(test_threads_add_speed);
    RUN(test_names_and_defaults);
    RUN(test_hosts);
    RUN(test_bad_lists);
    RUN(test_bad_lists_of_hosts);
    RUN(test_machine);
    RUN(test_allowed_kernels);
    RUN(test_rates);
    RUN(test_team_covers_every_index_once);
    RUN(test_team_assignment_is_fixed);
    RUN(test_team_runs_do_not_allocate);
    RUN(test_team_sleeps_and_ends);
    RUN(test_team_errors);
    return check_report();
}
