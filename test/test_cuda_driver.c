/* test/test_cuda_driver.c - devices that compute by CUDA, on emulated cards: lists, order between
 * streams, memory, failures of each call of the library, of work and of those who use it wrongly.
 */
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "launch/launch.h"
#include "emulation.h"

const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &emu_driver.driver, &emu_cards_driver.driver,
                                       NULL};
const ft_kernel_list *const ft_kernel_lists[] = {&ft_cpu_kernels, &ft_cuda_kernels, NULL};

/* -- lists ------------------------------------------------------------------------------------- */

static void test_lists(void)
{
    ft_device d[FT_MAX_DEVICES];
    ft_error err;
    int n;
    CHECK_STATUS(ft_devices_parse("card", d, &n, &err), FT_OK);
    CHECK(n == 2 && d[1].card == 1 && !strcmp(d[1].name, "card:1"));
    CHECK(d[0].kind == FT_DEVICE_GPU && d[0].memory_bytes == EMULATED_BYTES / 16 * 15);
    CHECK(d[0].flops_per_s == 2 * 1.5e9 * 2 * 64 * FT_CARD_PRODUCTS);
    CHECK(d[0].bytes_per_s == 64e9 * FT_CARD_MEMORY);
    CHECK_STATUS(ft_devices_parse("card:1", d, &n, &err), FT_OK);
    CHECK(n == 1 && d[0].card == 1 && d[0].index == 0);
    CHECK_STATUS(ft_devices_parse("card:0,1/3x100MB", d, &n, &err), FT_OK);
    CHECK(n == 6 && d[4].card == 1 && d[4].index == 4 && !strcmp(d[4].name, "card:1.1"));
    CHECK(d[4].memory_bytes == 100000000);
    CHECK_STATUS(ft_devices_parse("card:0/100MB", d, &n, &err), FT_OK);
    CHECK(n == 1 && d[0].memory_bytes == 100000000 && !strcmp(d[0].name, "card:0"));
    CHECK_STATUS(ft_devices_parse("emu:3/8MB", d, &n, &err), FT_OK);
    CHECK(n == 3 && d[2].kind == FT_DEVICE_GPU && d[2].card == 0);
    static const char *const bad[][2] = {
        {"card:2", "from 0 to 1"},        {"card:", "from 0 to 1"},
        {"card:0,0", "not named before"}, {"card:0/x5GB", "the devices on each card"},
        {"card:0/2x", "a size"},          {"card:0/2x1GB", "which has 1.07 GB"},
        {"card:0-1", "nothing more"},     {"card:0/0x1MB", "the devices on each card"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(ft_devices_parse(bad[i][0], d, &n, &err), FT_INVALID);
        if (!CHECK(strstr(err.message, bad[i][1]))) fprintf(stderr, "  %s\n", err.message);
    }
}

/* Plans count what cuBLASLt works in, if it is here. */
static void test_library_bytes(void)
{
    static const struct {
        int capability, library;
        int64_t bytes;
    } cases[] = {{75, LIBRARY_WHOLE, 4 << 20},
                 {89, LIBRARY_WHOLE, 4 << 20},
                 {90, LIBRARY_WHOLE, 32 << 20},
                 {120, LIBRARY_WHOLE, 32 << 20},
                 {90, LIBRARY_ABSENT, -FT_CUDA_LIBRARY_ALIGN}};
    ft_device d[FT_MAX_DEVICES];
    ft_error err;
    int n;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        atomic_store(&emulated.capability, cases[i].capability);
        atomic_store(&emulated.library, cases[i].library);
        CHECK_STATUS(ft_devices_parse("card:0/2x100MB", d, &n, &err), FT_OK);
        CHECK(d[1].library_bytes == cases[i].bytes + FT_CUDA_LIBRARY_ALIGN);
    }
    atomic_store(&emulated.capability, 80);
    atomic_store(&emulated.library, LIBRARY_WHOLE);
}

/* -- a rig ------------------------------------------------------------------------------------- */

enum { N = 5000, BYTES = N * 4 };

/* Two cards with streams and memory on both sides. */
typedef struct rig {
    const ft_driver *driver;
    ft_device devices[2];
    ft_executor *executor[2];
    ft_device_stream *compute[2], *copies[2];
    ft_device_event *events[2];
    void *block[2], *host[2];
} rig;

static ft_status rig_open(rig *r, const char *list, ft_error *err)
{
    int n;
    *r = (rig){0};
    FT_TRY(ft_devices_parse(list, r->devices, &n, err));
    const ft_driver *d = r->driver = r->devices[0].driver;
    for (int i = 0; i < 2; i++) {
        FT_TRY(d->open(&r->executor[i], &r->devices[i], err));
        FT_TRY(d->enter(r->executor[i], err));
        FT_TRY(d->alloc(r->executor[i], FT_OF_DEVICE, 2 * BYTES, &r->block[i], err));
        FT_TRY(d->alloc(r->executor[i], FT_OF_HOST, BYTES, &r->host[i], err));
        FT_TRY(d->open_stream(&r->compute[i], r->executor[i], FT_FOR_COMPUTE, err));
        FT_TRY(d->open_stream(&r->copies[i], r->executor[i], FT_FOR_COPIES, err));
        FT_TRY(d->open_event(&r->events[i], r->executor[i], err));
    }
    return FT_OK;
}

/* Events go when no stream waits for them any more. */
static void rig_close(rig *r)
{
    const ft_driver *d = r->driver;
    for (int i = 0; d && i < 2; i++) {
        d->close_stream(r->compute[i]);
        d->close_stream(r->copies[i]);
    }
    for (int i = 0; d && i < 2; i++) {
        if (!r->executor[i]) continue;
        d->close_event(r->events[i]);
        d->release(r->executor[i], FT_OF_DEVICE, r->block[i], 2 * BYTES);
        d->release(r->executor[i], FT_OF_HOST, r->host[i], BYTES);
        d->close(r->executor[i]);
    }
}

static bool opened(rig *r, const char *list)
{
    ft_error err = {FT_OK, ""};
    if (CHECK_STATUS(rig_open(r, list, &err), FT_OK)) return true;
    fprintf(stderr, "  %s\n", err.message);
    rig_close(r);
    return false;
}

/* y = factor * x */
typedef struct scaling {
    float *y;
    const float *x;
    float factor;
} scaling;

static ft_status run_scaling(const void *arg, ft_device_stream *stream, ft_error *err)
{
    const scaling *s = arg;
    const ft_map_args args = {.y = ft_cuda_numbers(s->y, FT_F32),
                              .a = ft_cuda_numbers(s->x, FT_F32),
                              .n = N,
                              .factor = s->factor,
                              .map = FT_CUDA_SCALE};
    return ft_cuda_launch(stream, FT_CUDA_map, ft_each_grid(N), &args, err);
}

static int no_accesses(const void *arg, ft_access out[FT_MAX_ACCESSES])
{
    (void)arg;
    (void)out;
    return 0;
}

static const ft_task scale_task = {"scale", run_scaling, no_accesses};

/* Host numbers go to device 0, are doubled, go to device 1, are tripled, and come back. */
static ft_status way_around(rig *r, ft_error *err)
{
    const ft_driver *d = r->driver;
    float *x0 = r->block[0], *y0 = x0 + N, *x1 = r->block[1], *y1 = x1 + N;
    for (int i = 0; i < N; i++) ((float *)r->host[0])[i] = (float)i;
    const ft_location host0 = {NULL, r->host[0]}, host1 = {NULL, r->host[1]};
    FT_TRY(d->copy(r->copies[0], (ft_location){r->executor[0], x0}, host0, BYTES, err));
    FT_TRY(d->record(r->copies[0], r->events[0], err));
    FT_TRY(d->wait(r->compute[0], r->events[0], err));
    FT_TRY(d->launch(r->compute[0], &scale_task, &(scaling){y0, x0, 2.0f}, err));
    FT_TRY(d->copy(r->compute[0], (ft_location){r->executor[1], x1},
                   (ft_location){r->executor[0], y0}, BYTES, err));
    FT_TRY(d->record(r->compute[0], r->events[0], err));
    FT_TRY(d->wait(r->compute[1], r->events[0], err));
    FT_TRY(d->launch(r->compute[1], &scale_task, &(scaling){y1, x1, 3.0f}, err));
    FT_TRY(d->record(r->compute[1], r->events[1], err));
    FT_TRY(d->wait(r->copies[1], r->events[1], err));
    FT_TRY(d->copy(r->copies[1], host1, (ft_location){r->executor[1], y1}, BYTES, err));
    FT_TRY(d->finish(r->copies[1], err));
    return d->health(r->executor[0], err);
}

static int wrong_numbers(const rig *r)
{
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += ((const float *)r->host[1])[i] != 6.0f * (float)i;
    return wrong;
}

static const char *const lists[] = {"emu:2/8MB", "card:0,1"};

/* That a busy machine may keep a thread waiting while it looks at the clock. */
static const int64_t SLACK_NS = 1000000000;

static void test_a_way_around(void)
{
    for (int k = 0; k < 2; k++)
        for (unsigned seed = 0; seed < 5; seed++) {
            rig r;
            ft_error err = {FT_OK, ""};
            atomic_store(&emulated.seed, seed * 2654435761u);
            if (!opened(&r, lists[k])) return;
            CHECK(r.driver->passed_ns(r.events[0]) < 0);
            int64_t start = ft_now_ns();
            for (int round = 0; round < 10; round++) {
                CHECK_STATUS(way_around(&r, &err), FT_OK);
                CHECK(wrong_numbers(&r) == 0);
            }
            int64_t ns = r.driver->passed_ns(r.events[1]);
            CHECK(ns >= start - SLACK_NS && ns <= ft_now_ns() + SLACK_NS);
            ft_limits limits;
            r.driver->limits(r.executor[0], &limits);
            CHECK(limits.device_bytes == r.devices[0].memory_bytes && limits.host_bytes > 0);
            rig_close(&r);
        }
    atomic_store(&emulated.seed, 0);
    CHECK(atomic_load(&emulated.open) == 0);
}

/* -- failures ---------------------------------------------------------------------------------- */

/* Whatever call of the library fails, one error says so, and nothing is left behind. */
static void test_each_call_fails(void)
{
    int failures = 0;
    for (long n = 1;; n++) {
        rig r;
        ft_error err = {FT_OK, ""};
        atomic_store(&emulated.calls, 0);
        atomic_store(&emulated.fail_at, n);
        atomic_store(&emulated.fail_with, n % 2 ? CU_OUT_OF_MEMORY : 700);
        ft_status status = rig_open(&r, "card:0,1", &err);
        if (status == FT_OK) status = way_around(&r, &err);
        bool reached = atomic_load(&emulated.calls) >= n;
        rig_close(&r);
        CHECK(atomic_load(&emulated.open) == 0);
        if (!reached) break;
        failures++;
        CHECK(status == err.status && err.message[0]);
        if (!CHECK(status != FT_OK)) fprintf(stderr, "  call %ld fails and nobody says so\n", n);
    }
    atomic_store(&emulated.fail_at, 0);
    CHECK(failures > 100);
}

/* Too much memory is refused with what there is. */
static void test_too_much_memory(void)
{
    rig r;
    ft_error err = {FT_OK, ""};
    void *memory;
    if (!opened(&r, "card:0,1")) return;
    CHECK_STATUS(r.driver->alloc(r.executor[1], FT_OF_DEVICE, (int64_t)1 << 60, &memory, &err),
                 FT_NOMEM);
    CHECK(!memory && strstr(err.message, " MB are free; give it a budget"));
    CHECK(strstr(err.message, ", as cuda:1/") != NULL);
    rig_close(&r);
    CHECK(atomic_load(&emulated.open) == 0);
}

/* A product by the library, from numbers of the block: in f32, then in bf16. */
static ft_status multiply(rig *r, ft_error *err)
{
    const ft_op *op = ft_op_find("linear");
    float *x = r->block[0];
    const ft_view in[] = {ft_view_of(&(ft_spec){FT_F32, ft_shape_of(5, 7)}, x),
                          ft_view_of(&(ft_spec){FT_F32, ft_shape_of(9, 7)}, x + 100),
                          ft_view_of(&(ft_spec){FT_F32, ft_shape_of(9)}, x + 200)};
    const ft_view out[] = {ft_view_of(&(ft_spec){FT_F32, ft_shape_of(5, 9)}, x + 300)};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const double attrs[FT_MAX_ATTRS] = {1, 0, bf16};
        const ft_call call = {
            .in = in, .out = out, .attrs = attrs, .work = x + 512, .stream = r->compute[0]};
        const ft_row_run run = {op, ft_op_kernel(op, FT_DEVICE_GPU, FT_F32), &call, 0};
        FT_TRY(r->driver->launch(r->compute[0], &ft_row_task, &run, err));
    }
    return r->driver->finish(r->compute[0], err);
}

/* A product with relu, with a bias and with neither, of one shape: each is what it is. */
static void test_kinds_of_products(void)
{
    static const float x[] = {2, 10, 0, 3}; /* a, b, c, bias */
    static const float expected[] = {20, 23, 20, 0};
    rig r;
    ft_error err = {FT_OK, ""};
    if (!opened(&r, "emu:2/8MB")) return;
    float *at = r.block[0];
    memcpy(at, x, sizeof x);
    for (int k = 0; k < 4; k++) {
        const ft_product_args args = {.c = ft_cuda_numbers(at + 2, FT_F32),
                                      .a = ft_cuda_numbers(at, FT_F32),
                                      .b = ft_cuda_numbers(at + 1, FT_F32),
                                      .bias = k == 1 ? at + 3 : NULL,
                                      .M = 1,
                                      .N = 1,
                                      .K = 1,
                                      .pitch_a = 1,
                                      .pitch_c = 1,
                                      .relu = k == 3};
        bool done;
        if (k == 3) at[0] = -2;
        CHECK_STATUS(ft_cuda_multiply(r.compute[0], &args, 1, &done, &err), FT_OK);
        CHECK_STATUS(r.driver->finish(r.compute[0], &err), FT_OK);
        CHECK(done && at[2] == expected[k]);
    }
    rig_close(&r);
}

/* A stream's products work in what it is lent, and write neither before nor behind it. */
static void test_lent_memory(void)
{
    enum { LENT = 4096, FROM = BYTES + 64, ALL = LENT + FT_CUDA_LIBRARY_ALIGN };
    rig r;
    ft_error err = {FT_OK, ""};
    if (!opened(&r, "emu:2/8MB")) return;
    unsigned char *at = r.block[0];
    float *x = r.block[0];
    int written = 0, outside = 0;
    memset(at + BYTES, 0x11, BYTES);
    r.driver->lend(r.compute[0], at + FROM, ALL);
    const ft_product_args args = {.c = ft_cuda_numbers(x + 300, FT_F32),
                                  .a = ft_cuda_numbers(x, FT_F32),
                                  .b = ft_cuda_numbers(x, FT_F32),
                                  .M = 3,
                                  .N = 2,
                                  .K = 1,
                                  .pitch_a = 1,
                                  .pitch_c = 2};
    bool done;
    CHECK_STATUS(ft_cuda_multiply(r.compute[0], &args, 1, &done, &err), FT_OK);
    CHECK_STATUS(r.driver->finish(r.compute[0], &err), FT_OK);
    for (int i = BYTES; i < 2 * BYTES; i++) {
        bool lent = i >= FROM && i < FROM + ALL;
        written += lent && at[i] != 0x11;
        outside += !lent && at[i] != 0x11;
    }
    CHECK(done && written > 0 && outside == 0);
    rig_close(&r);
}

/* More shapes than there are plans for. */
static void test_many_shapes(void)
{
    rig r;
    ft_error err = {FT_OK, ""};
    if (!opened(&r, "emu:2/8MB")) return;
    float *x = r.block[0];
    long before = atomic_load(&emulated.products);
    for (int round = 0; round < 2; round++)
        for (int64_t m = 1; m <= 300; m++) {
            const ft_product_args args = {.c = ft_cuda_numbers(x + 300, FT_F32),
                                          .a = ft_cuda_numbers(x, FT_F32),
                                          .b = ft_cuda_numbers(x, FT_F32),
                                          .M = m,
                                          .N = 1,
                                          .K = 1,
                                          .pitch_a = 1,
                                          .pitch_c = 1};
            bool done;
            CHECK_STATUS(ft_cuda_multiply(r.compute[0], &args, 1, &done, &err), FT_OK);
            CHECK(done);
        }
    CHECK_STATUS(r.driver->finish(r.compute[0], &err), FT_OK);
    CHECK(atomic_load(&emulated.products) - before == 600);
    rig_close(&r);
    CHECK(atomic_load(&emulated.open) == 0);
}

/* The same where a product is made. */
static void test_each_call_of_products_fails(void)
{
    int failures = 0;
    for (long n = 1;; n++) {
        rig r;
        ft_error err = {FT_OK, ""};
        atomic_store(&emulated.fail_at, 0);
        if (!opened(&r, "emu:2/8MB")) return;
        atomic_store(&emulated.calls, 0);
        atomic_store(&emulated.fail_at, n);
        atomic_store(&emulated.fail_with, 13);
        ft_status status = multiply(&r, &err);
        bool reached = atomic_load(&emulated.calls) >= n;
        atomic_store(&emulated.fail_at, 0);
        rig_close(&r);
        CHECK(atomic_load(&emulated.open) == 0);
        if (!reached) break;
        failures++;
        CHECK(status != FT_OK && status == err.status && strstr(err.message, "emu:0"));
    }
    CHECK(failures > 20);
}

/* Without one of the waits, some order of streams gives other numbers. */
#ifndef __SANITIZE_THREAD__
static void test_dropped_waits(void)
{
    for (long drop = 1; drop <= 3; drop++) {
        int wrong = 0;
        for (unsigned seed = 1; seed <= 100 && !wrong; seed++) {
            rig r;
            ft_error err;
            atomic_store(&emulated.seed, seed * 2654435761u);
            if (!opened(&r, "emu:2/8MB")) return;
            atomic_store(&emulated.waits, 0);
            atomic_store(&emulated.drop_at, drop);
            memset(r.host[1], 0xff, BYTES);
            CHECK_STATUS(way_around(&r, &err), FT_OK);
            for (int i = 0; i < 2; i++) r.driver->finish(r.compute[i], NULL);
            wrong = wrong_numbers(&r);
            rig_close(&r);
        }
        if (!CHECK(wrong > 0)) fprintf(stderr, "  wait %ld is not missed\n", drop);
    }
    atomic_store(&emulated.drop_at, 0);
    atomic_store(&emulated.seed, 0);
}
#endif

static ft_status do_nothing(void *arg, ft_error *err)
{
    (void)arg;
    (void)err;
    return FT_OK;
}

static void test_wrong_use(void)
{
    rig r;
    ft_error err;
    if (!opened(&r, "emu:2/8MB")) return;
    const ft_driver *d = r.driver;
    CHECK_STATUS(d->wait(r.compute[0], r.events[0], &err), FT_INVALID);
    CHECK(strstr(err.message, "emu:0") && strstr(err.message, "never recorded"));
    CHECK_STATUS(d->await(r.events[0], &err), FT_INVALID);
    scaling s = {r.block[0], r.block[0], 1.0f};
    CHECK_STATUS(d->launch(r.copies[0], &scale_task, &s, &err), FT_INVALID);
    CHECK(strstr(err.message, "stream for copies"));
    ft_plain_work work = {.run = do_nothing, .n_accesses = 1};
    work.accesses[0] = (ft_access){(char *)r.block[0] + 4, 4, true, false};
    CHECK_STATUS(d->launch(r.compute[0], &ft_plain_task, &work, &err), FT_UNSUPPORTED);
    CHECK(strstr(err.message, "a function of the host"));
    work.accesses[0].address = r.host[0];
    CHECK_STATUS(d->launch(r.compute[0], &ft_plain_task, &work, &err), FT_OK);
    const ft_map_args args = {.n = 1};
    CHECK_STATUS(ft_cuda_launch(r.compute[0], FT_CUDA_map, (ft_grid){1, 70000, 1}, &args, &err),
                 FT_UNSUPPORTED);
    CHECK_STATUS(ft_cuda_launch(r.compute[0], FT_CUDA_map, (ft_grid){0, 1, 1}, &args, &err), FT_OK);
    rig_close(&r);
}

/* Ids that are in no table are an error of the device, which stays. */
static void test_bad_ids(void)
{
    rig r;
    ft_error err;
    if (!opened(&r, "emu:2/8MB")) return;
    const ft_driver *d = r.driver;
    int32_t *ids = r.host[0];
    float *table = r.block[0];
    for (int i = 0; i < 6; i++) ids[i] = i;
    ids[4] = 11;
    const ft_view in[] = {
        ft_view_of(&(ft_spec){FT_I32, ft_shape_of(6)}, ids),
        ft_view_of(&(ft_spec){FT_F32, ft_shape_of(10, 8)}, table),
    };
    const ft_view out[] = {ft_view_of(&(ft_spec){FT_F32, ft_shape_of(6, 8)}, table + 100)};
    const double attrs[FT_MAX_ATTRS] = {-1};
    const ft_call call = {.in = in, .out = out, .attrs = attrs, .stream = r.compute[0]};
    const ft_op *op = ft_op_find("embedding");
    const ft_row_run run = {op, ft_op_kernel(op, FT_DEVICE_GPU, FT_F32), &call, 0};
    CHECK_STATUS(d->launch(r.compute[0], &ft_row_task, &run, &err), FT_OK);
    CHECK_STATUS(d->finish(r.compute[0], &err), FT_INVALID);
    CHECK(strstr(err.message, "id 11 at position 4, expected 0 <= id < 10"));
    CHECK_STATUS(d->health(r.executor[0], &err), FT_INVALID);
    CHECK_STATUS(d->health(r.executor[1], &err), FT_OK);
    rig_close(&r);
}

int main(void)
{
    test_lists();
    test_library_bytes();
    test_a_way_around();
    test_each_call_fails();
    test_too_much_memory();
    test_each_call_of_products_fails();
    test_kinds_of_products();
    test_lent_memory();
    test_many_shapes();
#ifndef __SANITIZE_THREAD__ /* a wait that is left out is a race, at which it would end */
    test_dropped_waits();
#endif
    test_wrong_use();
    test_bad_ids();
    CHECK(atomic_load(&emulated.open) == 0);
    return check_report();
}
