/* test/test_cuda_series.c - launches that come again: a graph gives what they give one by one, in
 * the memory and with the numbers of this time. */
#include "a_card.h"
#include "emulation/runtime.h"

enum { N = 2000, ROWS = 6, LISTS = 70 };

/* One round: b = 0, b += f a by way of t, p = a product of a, then b = relu(b). */
typedef struct turn {
    float *a, *b, *t, *p;
    float factor;
    int64_t rows;
    int more; /* relus at the end */
} turn;

static ft_status scale(const card *c, float *y, const float *x, float factor, int64_t n, bool add,
                       ft_error *err)
{
    const ft_map_args args = {.y = ft_cuda_numbers(y, FT_F32),
                              .a = ft_cuda_numbers(x, FT_F32),
                              .n = n,
                              .factor = factor,
                              .map = FT_CUDA_SCALE,
                              .add = add};
    return ft_cuda_launch(c->stream, FT_CUDA_map, ft_each_grid(n), &args, err);
}

static ft_status launch(const card *c, const turn *r, ft_error *err)
{
    bool done;
    const ft_product_args product = {.c = ft_cuda_numbers(r->p, FT_F32),
                                     .a = ft_cuda_numbers(r->a, FT_F32),
                                     .b = ft_cuda_numbers(r->a + 64, FT_F32),
                                     .bias = r->a,
                                     .M = r->rows,
                                     .N = 5,
                                     .K = 7,
                                     .pitch_a = 7,
                                     .pitch_c = 5};
    FT_TRY(ft_cuda_clear(c->stream, r->b, N * sizeof(float), err));
    FT_TRY(scale(c, r->t, r->a, r->factor, N - r->rows, false, err));
    FT_TRY(ft_cuda_multiply(c->stream, &product, 1, &done, err));
    FT_TRY(scale(c, r->b, r->t, 2.0f, N - r->rows, true, err));
    for (int i = 0; i < r->more; i++) FT_TRY(scale(c, r->b, r->b, 1.0f, N, false, err));
    return FT_OK;
}

static ft_status in_series(const card *c, const turn *r, ft_error *err)
{
    const ft_driver *d = c->device.driver;
    d->begin_series(c->stream);
    return d->end_series(c->stream, launch(c, r, err), err);
}

/* What a round is to give. */
static int wrong_numbers(const turn *r)
{
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        float expected = i < N - r->rows ? 2.0f * (r->factor * r->a[i]) : 0.0f;
        wrong += r->b[i] != expected;
    }
    for (int64_t i = 0; i < r->rows; i++)
        for (int j = 0; j < 5; j++) {
            float sum = 0;
            for (int k = 0; k < 7; k++) sum += r->a[i * 7 + k] * r->a[64 + k * 5 + j];
            wrong += r->p[i * 5 + j] != sum + r->a[j];
        }
    return wrong;
}

static float *numbers(float first)
{
    float *x = card_take(N * sizeof *x);
    for (int i = 0; i < N; i++) x[i] = first + (float)(i % 37);
    return x;
}

static ft_status do_round(const card *c, const turn *r, ft_error *err)
{
    ft_status status = in_series(c, r, err);
    return status == FT_OK ? card_finish(c, err) : status;
}

typedef struct counts {
    long launches, products, graphs;
} counts;

static counts count(void)
{
    return (counts){atomic_load(&emulated.launches), atomic_load(&emulated.products),
                    atomic_load(&emulated.graphs)};
}

static void expect(const char *what, counts before, counts more)
{
    counts now = count();
    if (!CHECK(now.launches - before.launches == more.launches &&
               now.products - before.products == more.products &&
               now.graphs - before.graphs == more.graphs))
        fprintf(stderr, "  %s: %ld launches, %ld products, %ld graphs\n", what,
                now.launches - before.launches, now.products - before.products,
                now.graphs - before.graphs);
}

/* -- what is given ----------------------------------------------------------------------------- */

/* Given, captured, replayed, with other memory of kernels and other factors each time; what
 * products read or write makes another graph. */
static void test_rounds(const card *c, turn r)
{
    float *more[] = {r.t, card_take(N * sizeof(float))};
    for (int i = 0; i < 8; i++) {
        counts before = count();
        r.factor = (float)i;
        r.t = more[i % 2];
        memset(r.b, 0xff, N * sizeof *r.b);
        memset(r.p, 0xff, N * sizeof *r.p);
        CHECK_STATUS(do_round(c, &r, NULL), FT_OK);
        CHECK(wrong_numbers(&r) == 0);
        expect("a round", before, (counts){i < 2 ? 2 : 0, i<2, i> 0});
    }
    float *p = r.p;
    for (int i = 0; i < 8; i++) {
        counts before = count();
        r.p = i % 2 ? p : more[1];
        r.t = more[0];
        memset(r.p, 0xff, N * sizeof *r.p);
        CHECK_STATUS(do_round(c, &r, NULL), FT_OK);
        CHECK(wrong_numbers(&r) == 0);
        bool known = i % 2 || i >= 4;
        expect("another place", before, (counts){known ? 0 : 2, !known, i > 0});
    }
    card_give(more[1]);
}

/* Blocks are set as arguments are. */
static void test_sizes(const card *c, turn r)
{
    for (int i = 0; i < 6; i++) {
        counts before = count();
        const int64_t n = i % 2 ? N : 1;
        const ft_driver *d = c->device.driver;
        memset(r.b, 0, N * sizeof *r.b);
        d->begin_series(c->stream);
        CHECK_STATUS(scale(c, r.b, r.a, 3.0f, n, false, NULL), FT_OK);
        CHECK_STATUS(scale(c, r.b, r.b, 2.0f, n, false, NULL), FT_OK);
        CHECK_STATUS(d->end_series(c->stream, FT_OK, NULL), FT_OK);
        CHECK_STATUS(card_finish(c, NULL), FT_OK);
        CHECK(r.b[0] == 6.0f * r.a[0] && r.b[N - 1] == (n == N ? 6.0f * r.a[N - 1] : 0.0f));
        expect("a size", before, (counts){i < 2 ? 2 : 0, 0, i > 0});
    }
}

/* A list that is too long, more lists than graphs, no memory for graphs: given as they are. */
static void test_no_room(const card *c, turn r)
{
    counts before = count();
    turn longer = r;
    longer.more = 9000;
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(do_round(c, &longer, NULL), FT_OK);
        CHECK(wrong_numbers(&longer) == 0);
    }
    expect("a long list", before, (counts){3 * 9002, 3, 0});
    before = count();
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < LISTS; i++) {
            turn one = r;
            one.more = i + 1;
            CHECK_STATUS(do_round(c, &one, NULL), FT_OK);
            CHECK(wrong_numbers(&one) == 0);
        }
    counts now = count();
    CHECK(now.graphs - before.graphs > LISTS && now.graphs - before.graphs < 2 * LISTS);
    before = now;
    atomic_store(&emulated.no_graphs, CU_OUT_OF_MEMORY);
    r.rows--;
    for (int i = 0; i < 4; i++) {
        CHECK_STATUS(do_round(c, &r, NULL), FT_OK);
        CHECK(wrong_numbers(&r) == 0);
    }
    atomic_store(&emulated.no_graphs, 0);
    CHECK(count().graphs == before.graphs && !c->executor->remark[0]);
}

/* Cards that refuse graphs get what is in them, and that is said. */
static void test_refused_graphs(turn r)
{
    card c;
    if (!card_open(&c)) return;
    atomic_store(&emulated.no_graphs, 801);
    counts before = count();
    for (int i = 0; i < 6; i++) {
        r.rows = ROWS - i / 3;
        memset(r.b, 0xff, N * sizeof *r.b);
        memset(r.p, 0xff, N * sizeof *r.p);
        CHECK_STATUS(do_round(&c, &r, NULL), FT_OK);
        CHECK(wrong_numbers(&r) == 0);
    }
    atomic_store(&emulated.no_graphs, 0);
    expect("refused graphs", before, (counts){14, 7, 0}); /* of a capture, too */
    CHECK(strstr(c.executor->remark,
                 "emu:0: making a graph failed: EMULATED_FAILURE (801, as told);"
                 " from here on its kernels are launched one by one"));
    card_close(&c);
}

/* After a failure of who launches nothing is given, and the next series is one as before. */
static void test_failed_series(const card *c, turn r)
{
    const ft_driver *d = c->device.driver;
    ft_error err = {FT_OK, ""};
    counts before = count();
    d->begin_series(c->stream);
    CHECK_STATUS(launch(c, &r, &err), FT_OK);
    CHECK_STATUS(d->end_series(c->stream, FT_SHAPE, &err), FT_SHAPE);
    expect("a failed series", before, (counts){0, 0, 0});
    CHECK_STATUS(do_round(c, &r, &err), FT_OK);
    CHECK(wrong_numbers(&r) == 0);
}

/* What is no launch would come before what was noted: it is refused. */
static void test_wrong_use(const card *c, turn r)
{
    const ft_driver *d = c->device.driver;
    ft_error err;
    ft_device_event *event;
    CHECK_STATUS(d->open_event(&event, c->executor, &err), FT_OK);
    CHECK_STATUS(d->record(c->stream, event, &err), FT_OK);
    d->begin_series(c->stream);
    CHECK_STATUS(d->finish(c->stream, &err), FT_INVALID);
    CHECK(strstr(err.message, "emu:0: finishing a stream in a series of launches"));
    CHECK_STATUS(d->record(c->stream, event, &err), FT_INVALID);
    CHECK_STATUS(d->wait(c->stream, event, &err), FT_INVALID);
    const ft_location to = {c->executor, r.b}, from = {NULL, r.a};
    CHECK_STATUS(d->copy(c->stream, to, from, 4, &err), FT_INVALID);
    CHECK_STATUS(d->end_series(c->stream, FT_OK, &err), FT_OK);
    CHECK_STATUS(d->finish(c->stream, &err), FT_OK);
    d->close_event(event);
}

/* -- failures ---------------------------------------------------------------------------------- */

/* Whatever call fails, one error says so and nothing is left; but where a graph fails, the launches
 * are given, and that is said unless the card has no memory for it. */
static void test_each_call_fails(void)
{
    int failures = 0, without = 0, remarks = 0;
    for (long n = 1;; n++) {
        card c;
        ft_error err = {FT_OK, ""};
        if (!card_open(&c)) return;
        float *a = numbers(1), *b = numbers(2), *t = numbers(3), *p = numbers(4);
        turn r = {a, b, t, p, 0, ROWS, 0};
        ft_status status = FT_OK;
        atomic_store(&emulated.calls, 0);
        atomic_store(&emulated.fail_with, n % 2 ? CU_OUT_OF_MEMORY : 700);
        atomic_store(&emulated.fail_at, n / 2 + 1);
        for (int i = 0; i < 4 && status == FT_OK; i++) {
            r.factor = (float)i;
            status = do_round(&c, &r, &err);
            if (status == FT_OK) CHECK(wrong_numbers(&r) == 0);
        }
        bool reached = atomic_load(&emulated.calls) >= n / 2 + 1, remark = c.executor->remark[0];
        atomic_store(&emulated.fail_at, 0);
        card_close(&c);
        for (int i = 0; i < 4; i++) card_give((float *[]){a, b, t, p}[i]);
        CHECK(card_left_nothing());
        if (!reached) break;
        failures += status != FT_OK;
        without += status == FT_OK && !remark;
        remarks += status == FT_OK && remark;
        CHECK(status == FT_OK || (status == err.status && strstr(err.message, "emu:0")));
    }
    CHECK(failures > 20 && without > 0 && remarks > 20);
}

/* -- the emulated library ---------------------------------------------------------------------- */

/* What may not be captured fails, and then the capture does; what is captured is not done yet. */
static void test_captures(const card *c, turn r)
{
    const ft_cuda_api *api = ((const ft_cuda_driver *)c->device.driver)->api(NULL);
    enum { NONE, ALLOC, PIN, FILL, FINISH, RECORD, WAIT, BEGIN, KINDS };
    cu_stream s;
    cu_event event;
    cu_address memory = 0;
    void *host;
    CHECK(api->stream_create(&s, CU_STREAM_NO_SYNC) == 0 && api->event_create(&event, 0) == 0);
    for (int k = NONE; k < KINDS; k++) {
        cu_graph graph;
        cu_exec exec;
        r.b[0] = 1;
        CHECK(api->capture_begin(s, CU_CAPTURE_OF_THREAD) == 0);
        CHECK(api->fill_on((cu_address)(uintptr_t)r.b, 0, sizeof *r.b, s) == 0);
        int answer = k == ALLOC    ? api->alloc(&memory, 4)
                     : k == PIN    ? api->host_alloc(&host, 4, 0)
                     : k == FILL   ? api->fill((cu_address)(uintptr_t)r.t, 0, 4)
                     : k == FINISH ? api->stream_finish(s)
                     : k == RECORD ? api->event_record(event, s)
                     : k == WAIT   ? api->stream_wait(s, event, 0)
                     : k == BEGIN  ? api->capture_begin(s, CU_CAPTURE_OF_THREAD)
                                   : 0;
        CHECK((answer == 0) == (k == NONE));
        CHECK((api->capture_end(s, &graph) == 0) == (k == NONE || k == BEGIN));
        CHECK(api->stream_finish(s) == 0 && r.b[0] == 1);
        CHECK((graph != NULL) == (k == NONE || k == BEGIN));
        if (!graph) continue;
        CHECK(api->graph_make(&exec, graph, 0) == 0);
        CHECK(api->exec_launch(exec, s) == 0 && api->stream_finish(s) == 0 && r.b[0] == 0);
        CHECK(api->exec_free(exec) == 0 && api->graph_free(graph) == 0);
    }
    CHECK(api->capture_end(s, &(cu_graph){NULL}) != 0);
    CHECK(api->event_destroy(event) == 0 && api->stream_destroy(s) == 0);
}

int main(void)
{
    card c;
    if (card_open(&c)) {
        const turn r = {numbers(1), numbers(2), numbers(3), numbers(4), 0.5f, ROWS, 0};
        test_rounds(&c, r);
        test_sizes(&c, r);
        test_failed_series(&c, r);
        test_wrong_use(&c, r);
        test_captures(&c, r);
        test_no_room(&c, r);
        test_refused_graphs(r);
        for (int i = 0; i < 4; i++) card_give((float *[]){r.a, r.b, r.t, r.p}[i]);
    }
    card_close(&c);
    CHECK(card_left_nothing());
    test_each_call_fails();
    return check_report();
}
