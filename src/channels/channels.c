/* channels/channels.c - channels to cards of other processes, by NCCL.
 *
 * A channel is a communicator of two ranks, of which the first sends, so that the order of passes
 * is that of one sender. It is told not to block: what goes on by itself is looked at until it is
 * over, and who waits sees a cut. Both ends pass a word when they have met, so that NCCL has taken
 * what memory it needs before a step begins; passes of a step wait for nobody then. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cuda/executor.h"
#include "channels/channels.h"

enum { WORD_BYTES = 256 };

typedef struct channel {
    ft_channel base;
    const ft_nccl_api *api;
    pthread_mutex_t lock; /* of the communicator: who looks may be another thread than who passes */
    nccl_comm comm;       /* NULL: it was cut */
    bool sends, met;      /* the word is on its channel */
    cu_stream stream;     /* of the word */
    cu_address word;
    cu_event passed;
} channel;

/* -- answers ----------------------------------------------------------------------------------- */

static const char *words_of(int answer)
{
    static const char *const words[] = {
        [1] = "a call of CUDA failed",
        [2] = "a call of the system failed",
        [3] = "an error of its own",
        [4] = "an argument that it does not take",
        [5] = "a use that it refuses, as of one card by two processes",
        [6] = "the other end failed",
    };
    bool known = answer > 0 && answer < (int)(sizeof words / sizeof *words);
    return known ? words[answer] : "no more is known";
}

static ft_status told(const channel *w, int answer, const char *what, ft_error *err)
{
    if (answer == 0) return FT_OK;
    return ft_fail(err, FT_DEVICE, "device %s: NCCL failed at %s: %s (%d)",
                   w->base.executor->device->name, what, words_of(answer), answer);
}

static ft_status told_cut(const channel *w, ft_error *err)
{
    return ft_fail(err, FT_CANCELLED, "device %s: a channel to another process was cut",
                   w->base.executor->device->name);
}

/* The lock is held. *over: whether nothing goes on by itself. */
static ft_status look(const channel *w, bool *over, const char *what, ft_error *err)
{
    int state = 0;
    *over = false;
    if (!w->comm) return told_cut(w, err);
    FT_TRY(told(w, w->api->state(w->comm, &state), "asking for its state", err));
    *over = state != NCCL_IN_PROGRESS;
    return *over ? told(w, state, what, err) : FT_OK;
}

/* -- passing ----------------------------------------------------------------------------------- */

/* Gives it to the stream. Lets go of the lock where it has to wait, so that a cut is seen. */
static ft_status pass(channel *w, cu_stream on, void *memory, size_t bytes, ft_error *err)
{
    bool over = false;
    pthread_mutex_lock(&w->lock);
    ft_status status = w->comm ? FT_OK : told_cut(w, err);
    if (status == FT_OK) {
        int answer = w->sends ? w->api->send(memory, bytes, NCCL_BYTES, 1, w->comm, on)
                              : w->api->receive(memory, bytes, NCCL_BYTES, 0, w->comm, on);
        over = answer != NCCL_IN_PROGRESS;
        if (over) status = told(w, answer, w->sends ? "a send" : "a receive", err);
    }
    while (status == FT_OK && !over) {
        pthread_mutex_unlock(&w->lock);
        usleep(20);
        pthread_mutex_lock(&w->lock);
        status = look(w, &over, w->sends ? "a send" : "a receive", err);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

ft_status ft_channels_pass(ft_device_stream *on, ft_channel *which, void *memory, int64_t bytes,
                           ft_error *err)
{
    FT_TRY(use(of(on->executor), "a pass to another process", err));
    return bytes ? pass((channel *)which, ((stream *)on)->handle, memory, (size_t)bytes, err)
                 : FT_OK;
}

/* -- opening ----------------------------------------------------------------------------------- */

ft_status ft_channels_name(const ft_driver *driver, ft_channel_name *out, ft_error *err)
{
    const ft_nccl_api *api = ((const ft_cuda_driver *)driver)->nccl(err);
    nccl_id id;
    if (!api) return err ? err->status : FT_UNSUPPORTED;
    int answer = api->id_new(&id);
    if (answer)
        return ft_fail(err, FT_UNSUPPORTED, "NCCL names no channel: %s (%d)", words_of(answer),
                       answer);
    _Static_assert(sizeof id == sizeof out->bytes, "a name is an id of NCCL");
    memcpy(out->bytes, &id, sizeof id);
    return FT_OK;
}

static ft_status begin(channel *w, const ft_channel_name *name, ft_error *err)
{
    const executor *x = of(w->base.executor);
    nccl_config config = NCCL_CONFIG;
    config.least_blocks = 1;
    config.most_blocks = 2;
    nccl_id id;
    memcpy(&id, name->bytes, sizeof id);
    FT_TRY(use(x, "opening a channel", err));
    FT_TRY(check(x, x->api->alloc(&w->word, WORD_BYTES), "opening a channel", err));
    FT_TRY(
        check(x, x->api->stream_create(&w->stream, CU_STREAM_NO_SYNC), "opening a channel", err));
    FT_TRY(check(x, x->api->event_create(&w->passed, 0), "opening a channel", err));
    int answer = w->api->open(&w->comm, 2, id, !w->sends, &config);
    return told(w, answer == NCCL_IN_PROGRESS ? 0 : answer, "meeting the other process", err);
}

ft_status ft_channels_open(ft_channel **out, ft_executor *which, const ft_channel_name *name,
                           bool sends, ft_error *err)
{
    const ft_nccl_api *api = ((const ft_cuda_driver *)which->driver)->nccl(err);
    *out = NULL;
    if (!api) return err ? err->status : FT_UNSUPPORTED;
    channel *w = ft_alloc(sizeof *w);
    if (!w)
        return ft_fail(err, FT_NOMEM, "device %s: no memory for a channel", which->device->name);
    *w = (channel){.base = {which}, .api = api, .sends = sends};
    pthread_mutex_init(&w->lock, NULL);
    ft_status status = begin(w, name, err);
    if (status == FT_OK)
        *out = &w->base;
    else
        ft_channels_close(&w->base);
    return status;
}

/* When both have met, a word. */
static ft_status pass_word(channel *w, ft_error *err)
{
    const executor *x = of(w->base.executor);
    FT_TRY(use(x, "opening a channel", err));
    FT_TRY(pass(w, w->stream, (void *)(uintptr_t)w->word, WORD_BYTES, err));
    FT_TRY(check(x, x->api->event_record(w->passed, w->stream), "opening a channel", err));
    w->met = true;
    return FT_OK;
}

ft_status ft_channels_look(ft_channel *which, bool *open, ft_error *err)
{
    channel *w = (channel *)which;
    const executor *x = of(which->executor);
    bool over;
    *open = false;
    pthread_mutex_lock(&w->lock);
    ft_status status = look(w, &over, w->met ? "passing" : "meeting the other process", err);
    pthread_mutex_unlock(&w->lock);
    if (status != FT_OK || !over) return status;
    if (!w->met) FT_TRY(pass_word(w, err));
    FT_TRY(use(x, "looking at a channel", err));
    int answer = x->api->event_query(w->passed);
    *open = answer == 0;
    return check(x, answer == CU_NOT_READY ? 0 : answer, "looking at a channel", err);
}

void ft_channels_cut(ft_channel *which)
{
    channel *w = (channel *)which;
    pthread_mutex_lock(&w->lock);
    nccl_comm comm = w->comm;
    w->comm = NULL;
    if (comm && of(which->executor)->api->context_set(of(which->executor)->context) == 0)
        w->api->abort(comm);
    pthread_mutex_unlock(&w->lock);
}

void ft_channels_close(ft_channel *which)
{
    channel *w = (channel *)which;
    if (!w) return;
    const executor *x = of(which->executor);
    x->api->context_set(x->context);
    if (w->comm) w->api->close(w->comm);
    if (w->passed) x->api->event_destroy(w->passed);
    if (w->stream) x->api->stream_destroy(w->stream);
    if (w->word) x->api->release(w->word);
    pthread_mutex_destroy(&w->lock);
    ft_free(w);
}
