/* cuda/driver.c - executors, memory, streams and events by CUDA's driver library.
 *
 * A failure that the library tells stays: what was given to the card after it did not happen. Every
 * call sets its context, since one thread may serve several executors. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cuda/executor.h"

typedef struct event {
    ft_device_event base;
    cu_event handle;
    bool recorded;
} event;

/* -- failures ---------------------------------------------------------------------------------- */

ft_status ft_cuda_answered(const ft_executor *which, int answer, const char *what, ft_error *err)
{
    const executor *x = of(which);
    const char *name = "unknown", *text = "";
    if (answer == 0) return FT_OK;
    x->api->error_name(answer, &name);
    x->api->error_text(answer, &text);
    return ft_fail(err, answer == CU_OUT_OF_MEMORY ? FT_NOMEM : FT_DEVICE,
                   "device %s: %s failed: %s (%d%s%s)", which->device->name, what, name, answer,
                   text[0] ? ", " : "", text);
}

/* As `use`, of what is not a launch. */
static ft_status use_stream(const ft_device_stream *on, const char *what, ft_error *err)
{
    if (ft_series_is_open(((const stream *)on)->series))
        return ft_fail(err, FT_INVALID, "device %s: %s in a series of launches",
                       on->executor->device->name, what);
    return use(of(on->executor), what, err);
}

/* What kernels found wrong in the tensors that they read. */
static ft_status check_fault(const executor *x, ft_error *err)
{
    const ft_cuda_fault *f = x->fault;
    const char *name = x->base.device->name;
    uint32_t kind = __atomic_load_n(&f->kind, __ATOMIC_ACQUIRE); /* kernels may be at work */
    switch ((ft_cuda_fault_kind)kind) {
    case FT_CUDA_NO_FAULT: return FT_OK;
    case FT_CUDA_BAD_POSITION:
        return ft_fail(err, FT_INVALID,
                       "device %s: cache_append: %lld positions from %d on do not fit into a cache "
                       "of %lld",
                       name, (long long)f->at, f->value, (long long)f->limit);
    case FT_CUDA_BAD_ID:
    case FT_CUDA_BAD_LABEL: break;
    }
    bool label = kind == FT_CUDA_BAD_LABEL;
    return ft_fail(err, FT_INVALID, "device %s: %s %d at position %lld, expected 0 <= %s < %lld%s",
                   name, label ? "cross_entropy: label" : "embedding: id", f->value,
                   (long long)f->at, label ? "label" : "id", (long long)f->limit,
                   label ? ", or -100" : "");
}

/* -- executors --------------------------------------------------------------------------------- */

static ft_status find_kernel(executor *x, const ft_cuda_image *images, int k, ft_error *err)
{
    char what[64];
    int i = 0, answer = CU_NOT_FOUND;
    while (i < x->n_modules && images[i].file && strcmp(images[i].file, cuda_kernel_file(k))) i++;
    if (i < x->n_modules)
        answer = x->api->function_get(&x->functions[k], x->modules[i], cuda_kernel_name(k));
    snprintf(what, sizeof what, "finding the kernel %s", cuda_kernel_name(k));
    return check(x, answer, what, err);
}

/* Lets launches give kernels the shared memory that they need on this card. */
static ft_status make_room(executor *x, ft_error *err)
{
    static const unsigned rooms[FT_CUDA_KERNEL_COUNT] = {
#define ROOM(name, bytes) [FT_CUDA_##name] = bytes,
        FT_CUDA_ROOMS(ROOM)
#undef ROOM
    };
    int major, minor;
    FT_TRY(check(x, x->api->device_attribute(&major, CU_MAJOR, x->card), "asking what it is", err));
    FT_TRY(check(x, x->api->device_attribute(&minor, CU_MINOR, x->card), "asking what it is", err));
    for (int k = 0; k < FT_CUDA_KERNEL_COUNT && 10 * major + minor == FT_CUDA_GROUPS; k++) {
        if (rooms[k])
            FT_TRY(check(x, x->api->function_set(x->functions[k], CU_ROOM_BYTES, (int)rooms[k]),
                         "giving kernels shared memory", err));
        x->rooms[k] = rooms[k];
    }
    return FT_OK;
}

static ft_status load_kernels(executor *x, const ft_cuda_image *images, ft_error *err)
{
    for (int i = 0; images[i].image && i < MAX_IMAGES; i++) {
        FT_TRY(check(x, x->api->module_load(&x->modules[i], images[i].image), "loading the kernels",
                     err));
        x->n_modules = i + 1;
    }
    for (int k = 0; k < FT_CUDA_KERNEL_COUNT; k++) FT_TRY(find_kernel(x, images, k, err));
    return make_room(x, err);
}

/* When the card passed an event lies between two looks at the clock, which on a busy machine may be
 * far apart: then it is tried again. */
static ft_status set_origin(executor *x, ft_error *err)
{
    enum { TRIES = 10, NEAR_NS = 100000 };
    int64_t begin, apart = INT64_MAX;
    for (int i = 0; i < TRIES && apart > NEAR_NS; i++) {
        begin = ft_now_ns();
        FT_TRY(check(x, x->api->event_record(x->origin, NULL), "recording an event", err));
        FT_TRY(check(x, x->api->event_finish(x->origin), "waiting for an event", err));
        apart = ft_now_ns() - begin;
        x->origin_ns = begin + apart / 2;
    }
    return FT_OK;
}

static ft_status open_context(executor *x, ft_error *err)
{
    FT_TRY(check(x, x->api->context_retain(&x->context, x->card), "opening its context", err));
    x->retained = true;
    FT_TRY(use(x, "opening its context", err));
    FT_TRY(load_kernels(x, ((const ft_cuda_driver *)x->base.driver)->images, err));
    void *fault;
    FT_TRY(check(x, x->api->host_alloc(&fault, sizeof *x->fault, CU_HOST_PORTABLE | CU_HOST_MAPPED),
                 "taking host memory", err));
    x->fault = fault;
    memset(fault, 0, sizeof *x->fault);
    FT_TRY(check(x, x->api->event_create(&x->origin, 0), "making an event", err));
    return set_origin(x, err);
}

ft_status ft_cuda_open(ft_executor **out, const ft_device *device, ft_error *err)
{
    const ft_cuda_driver *driver = (const ft_cuda_driver *)device->driver;
    *out = NULL;
    const ft_cuda_api *api = driver->api(err);
    if (!api) return ft_error_wrap(err, "device %s", device->name);
    executor *x = ft_alloc(sizeof *x);
    if (!x) return ft_fail(err, FT_NOMEM, "device %s: no memory to open it", device->name);
    *x = (executor){.base = {.driver = device->driver, .device = device}, .api = api};
    ft_status status = check(x, api->device_get(&x->card, device->card), "finding the card", err);
    if (status == FT_OK) status = open_context(x, err);
    if (status == FT_OK)
        *out = &x->base;
    else
        ft_cuda_close(&x->base);
    return status;
}

void ft_cuda_close(ft_executor *which)
{
    executor *x = of(which);
    if (!x) return;
    if (x->retained) {
        x->api->context_set(x->context);
        if (x->origin) x->api->event_destroy(x->origin);
        if (x->fault) x->api->host_release(x->fault);
        for (int i = 0; i < x->n_modules; i++) x->api->module_unload(x->modules[i]);
        x->api->context_release(x->card);
    }
    ft_free(x);
}

ft_status ft_cuda_enter(ft_executor *which, ft_error *err)
{
    return use(of(which), "serving a thread", err);
}

void ft_cuda_limits(const ft_executor *which, ft_limits *out)
{
    const executor *x = of(which);
    size_t free = 0, total = 0;
    int64_t budget = x->base.device->memory_bytes;
    if (x->api->context_set(x->context) == 0) x->api->memory_info(&free, &total);
    *out = (ft_limits){(int64_t)free < budget ? (int64_t)free : budget, ft_cpu_memory_bytes(), 256};
}

ft_status ft_cuda_health(ft_executor *which, ft_error *err)
{
    const executor *x = of(which);
    FT_TRY(check_fault(x, err));
    FT_TRY(use(x, "asking for its health", err));
    int answer = x->api->event_query(x->origin);
    return check(x, answer == CU_NOT_READY ? 0 : answer, "earlier work", err);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Remembers a block, or with end 0 forgets it; more blocks than there is room for are not known. */
static void note_block(executor *x, uintptr_t begin, uintptr_t end)
{
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (x->blocks[i].begin == (end ? 0 : begin)) {
            x->blocks[i].begin = end ? begin : 0;
            x->blocks[i].end = end;
            return;
        }
}

/* Where there is not so much, says how much there is: a context, the library's kernels and graphs
 * take some of a card, which no budget counts. */
static ft_status take_memory(const executor *x, cu_address *out, size_t bytes, const char *what,
                             ft_error *err)
{
    size_t free = 0, total = 0;
    int answer = x->api->alloc(out, bytes);
    if (answer != CU_OUT_OF_MEMORY || x->api->memory_info(&free, &total) != 0)
        return check(x, answer, what, err);
    return ft_fail(err, FT_NOMEM,
                   "device %s: %s failed: %.1f MB of the card's %.1f MB are free; give it a budget "
                   "that leaves some of them, as cuda:%d/%.0fMB",
                   x->base.device->name, what, (double)free / 1e6, (double)total / 1e6,
                   x->base.device->card, 0.95 * (double)free / 1e6);
}

ft_status ft_cuda_alloc(ft_executor *which, ft_memory_side side, int64_t bytes, void **out,
                        ft_error *err)
{
    const executor *x = of(which);
    char what[96];
    bool host = side == FT_OF_HOST;
    cu_address address = 0;
    void *memory = NULL;
    *out = NULL;
    snprintf(what, sizeof what, "taking %.1f MB%s", (double)bytes / 1e6,
             host ? " of pinned memory in the host" : "");
    FT_TRY(use(x, what, err));
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    if (host) {
        unsigned flags = CU_HOST_PORTABLE | CU_HOST_MAPPED;
        FT_TRY(check(x, x->api->host_alloc(&memory, size, flags), what, err));
        memset(memory, 0, size);
    } else {
        FT_TRY(take_memory(x, &address, size, what, err));
        /* by the default stream, which other streams do not wait for */
        ft_status status = check(x, x->api->fill(address, 0, size), "clearing memory", err);
        if (status == FT_OK) status = check(x, x->api->stream_finish(NULL), "clearing memory", err);
        if (status != FT_OK) x->api->release(address);
        FT_TRY(status);
        memory = (void *)(uintptr_t)address;
        note_block(of(which), address, address + size);
    }
    *out = memory;
    return FT_OK;
}

void ft_cuda_release(ft_executor *which, ft_memory_side side, void *memory, int64_t bytes)
{
    const executor *x = of(which);
    (void)bytes;
    if (!memory) return;
    x->api->context_set(x->context);
    if (side == FT_OF_HOST) {
        x->api->host_release(memory);
        return;
    }
    note_block(of(which), (uintptr_t)memory, 0);
    x->api->release((cu_address)(uintptr_t)memory);
}

/* -- streams and events ------------------------------------------------------------------------ */

/* What a stream for computing has beside. */
static ft_status open_compute(const executor *x, stream *s, ft_error *err)
{
    const ft_cublas_api *api = ((const ft_cuda_driver *)x->base.driver)->cublas(NULL);
    FT_TRY(check(x, x->api->alloc(&s->scratch, FT_CUDA_SCRATCH), "taking memory", err));
    FT_TRY(ft_series_new(&s->series, x->api, &s->base, s->handle, cuda_give, err));
    if (!api || ft_products_new(&s->products, api, err) == FT_OK) return FT_OK;
    return ft_error_wrap(err, "device %s", x->base.device->name);
}

ft_status ft_cuda_open_stream(ft_device_stream **out, ft_executor *which, ft_stream_use purpose,
                              ft_error *err)
{
    const executor *x = of(which);
    *out = NULL;
    stream *s = ft_alloc(sizeof *s);
    if (!s) return ft_fail(err, FT_NOMEM, "device %s: no memory for a stream", which->device->name);
    *s = (stream){.base = {.executor = which}, .use = purpose};
    ft_status status = use(x, "making a stream", err);
    if (status == FT_OK)
        status =
            check(x, x->api->stream_create(&s->handle, CU_STREAM_NO_SYNC), "making a stream", err);
    if (status == FT_OK && purpose == FT_FOR_COMPUTE) status = open_compute(x, s, err);
    if (status == FT_OK)
        *out = &s->base;
    else
        ft_cuda_close_stream(&s->base);
    return status;
}

void ft_cuda_close_stream(ft_device_stream *on)
{
    stream *s = (stream *)on;
    if (!s) return;
    const executor *x = of(on->executor);
    x->api->context_set(x->context);
    if (s->handle) {
        x->api->stream_finish(s->handle);
        x->api->stream_destroy(s->handle);
    }
    ft_series_free(s->series);
    ft_products_free(s->products);
    if (s->scratch) x->api->release(s->scratch);
    ft_free(s);
}

ft_status ft_cuda_open_event(ft_device_event **out, ft_executor *which, ft_error *err)
{
    const executor *x = of(which);
    *out = NULL;
    event *e = ft_alloc(sizeof *e);
    if (!e) return ft_fail(err, FT_NOMEM, "device %s: no memory for an event", which->device->name);
    *e = (event){.base = {.executor = which}};
    ft_status status = use(x, "making an event", err);
    if (status == FT_OK)
        status = check(x, x->api->event_create(&e->handle, 0), "making an event", err);
    if (status == FT_OK)
        *out = &e->base;
    else
        ft_free(e);
    return status;
}

void ft_cuda_close_event(ft_device_event *which)
{
    event *e = (event *)which;
    if (!e) return;
    const executor *x = of(which->executor);
    x->api->context_set(x->context);
    x->api->event_destroy(e->handle);
    ft_free(e);
}

ft_status ft_cuda_record(ft_device_stream *on, ft_device_event *which, ft_error *err)
{
    const executor *x = of(on->executor);
    event *e = (event *)which;
    FT_TRY(use_stream(on, "recording an event", err));
    FT_TRY(check(x, x->api->event_record(e->handle, ((stream *)on)->handle), "recording an event",
                 err));
    e->recorded = true;
    return FT_OK;
}

static ft_status need_record(const ft_device_event *which, ft_error *err)
{
    if (((const event *)which)->recorded) return FT_OK;
    return ft_fail(err, FT_INVALID, "device %s: a wait for an event that was never recorded",
                   which->executor->device->name);
}

ft_status ft_cuda_wait(ft_device_stream *on, ft_device_event *which, ft_error *err)
{
    const executor *x = of(on->executor);
    FT_TRY(need_record(which, err));
    FT_TRY(use_stream(on, "waiting for an event", err));
    return check(x, x->api->stream_wait(((stream *)on)->handle, ((const event *)which)->handle, 0),
                 "waiting for an event", err);
}

int64_t ft_cuda_passed_ns(const ft_device_event *which)
{
    const event *e = (const event *)which;
    const executor *x = of(which->executor);
    float ms = 0;
    if (!e->recorded || x->api->context_set(x->context)) return -1;
    if (x->api->event_query(e->handle)) return -1;
    if (x->api->event_elapsed(&ms, x->origin, e->handle)) return -1;
    return x->origin_ns + (int64_t)((double)ms * 1e6);
}

ft_status ft_cuda_await(ft_device_event *which, ft_error *err)
{
    const executor *x = of(which->executor);
    FT_TRY(need_record(which, err));
    FT_TRY(use(x, "waiting for an event", err));
    FT_TRY(check(x, x->api->event_finish(((const event *)which)->handle), "waiting for an event",
                 err));
    return check_fault(x, err);
}

ft_status ft_cuda_finish(ft_device_stream *on, ft_error *err)
{
    const executor *x = of(on->executor);
    FT_TRY(use_stream(on, "finishing a stream", err));
    FT_TRY(check(x, x->api->stream_finish(((stream *)on)->handle), "finishing a stream", err));
    return check_fault(x, err);
}

/* -- work -------------------------------------------------------------------------------------- */

ft_status ft_cuda_copy(ft_device_stream *on, ft_location to, ft_location from, int64_t bytes,
                       ft_error *err)
{
    executor *x = of(on->executor);
    const executor *a = of(to.executor), *b = of(from.executor);
    cu_address dst = (cu_address)(uintptr_t)to.address, src = (cu_address)(uintptr_t)from.address;
    cu_stream handle = ((stream *)on)->handle;
    FT_TRY(use_stream(on, "a copy", err));
    if (bytes == 0) return FT_OK;
    if (!a || !b || a->context == b->context)
        return check(x, x->api->copy_on(dst, src, (size_t)bytes, handle), "a copy", err);
    const executor *peer = a->context == x->context ? b : a;
    FT_TRY(check(x, ft_cuda_reach(&x->peers, x->api, x->card, peer->card, peer->context),
                 "reaching another card", err));
    int answer = x->api->copy_peer(dst, a->context, src, b->context, (size_t)bytes, handle);
    return check(x, answer, "a copy between cards", err);
}

/* A function of the host sees what the stream has written to host memory. */
static ft_status run_plain(ft_device_stream *on, const ft_plain_work *w, ft_error *err)
{
    const executor *x = of(on->executor);
    if (w->give) return w->give(w->arg, on, err);
    for (int i = 0; i < w->n_accesses; i++)
        for (int k = 0; k < MAX_BLOCKS; k++) {
            uintptr_t at = (uintptr_t)w->accesses[i].address;
            if (at >= x->blocks[k].begin && at < x->blocks[k].end)
                return ft_fail(err, FT_UNSUPPORTED,
                               "device %s: a function of the host cannot use its memory",
                               x->base.device->name);
        }
    FT_TRY(ft_cuda_finish(on, err));
    return w->run(w->arg, err);
}

ft_status ft_cuda_run(ft_device_stream *on, const ft_task *task, const void *arg, ft_error *err)
{
    if (((stream *)on)->use != FT_FOR_COMPUTE)
        return ft_fail(err, FT_INVALID, "device %s: %s was launched on a stream for copies",
                       on->executor->device->name, task->name);
    return task == &ft_plain_task ? run_plain(on, arg, err) : task->run(arg, on, err);
}

ft_cuda_fault *ft_cuda_fault_of(const ft_device_stream *on)
{
    return of(on->executor)->fault;
}

void *ft_cuda_scratch(const ft_device_stream *on)
{
    return (void *)(uintptr_t)((const stream *)on)->scratch;
}
