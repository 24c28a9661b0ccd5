/* device/driver.h - what a kind of device can do: one table of functions, filled in by each kind.
 *
 * An executor is a device that is open. It has memory of its own and streams; work is submitted to
 * a stream, is begun in the order in which it was submitted there, and is not ordered with the work
 * of other streams except by events. Who submits may be ahead of what is done, so:
 *
 *  1. An address is valid for a stream of its executor, not for the caller; host memory of
 *     `alloc` is valid for both. What a submitted copy reads must stay as it is until the copy has
 *     ended.
 *  2. An event is recorded, then waited for: `wait` means the newest record that was submitted
 *     before it, and the one of an event that never was is an error. Threads that record and wait
 *     put these two in order themselves (base/gate.h).
 *  3. Reading or overwriting what another stream wrote, and overwriting what it reads, needs an
 *     event between the two.
 *  4. Memory between `vacate` and `occupy` holds nothing. A block starts occupied, by zeros.
 *  5. A function that fails has submitted nothing. What fails after it was submitted is told by
 *     the next `wait`, `finish` or `health` of the executor, and by every later one; what comes
 *     after it is not executed, but its events are passed, so that nobody waits for ever.
 *  6. A stream is given work by one thread at a time. `enter` was called by that thread.
 *  7. Nothing is allocated after `open`, `alloc`, `open_stream` and `open_event`.
 *  8. Between `begin_series` and `end_series` a stream is given launches alone.
 *  9. A pass of a channel ends when its other end has passed as many bytes; passes of one end are
 * met by those of the other in the order in which they were given.
 *
 * Every entry of the table is there, but for those of cards. `cpu` (cpu_driver.c) has compute
 * streams that are the calling thread itself, with its team: what is submitted there has ended when
 * the call returns, and `wait` waits. Its copy streams are threads. */
#ifndef FT_DEVICE_DRIVER_H
#define FT_DEVICE_DRIVER_H

#include <stddef.h>

#include "device/device.h"

typedef struct ft_driver ft_driver;

/* Begins every driver's own struct of these names. */
typedef struct ft_executor {
    const ft_driver *driver;
    const ft_device *device; /* borrowed */
    ft_team *team;           /* of compute streams; NULL: none */
    char remark[256];        /* what people should know of its work, which goes on; "": nothing */
} ft_executor;

typedef struct ft_device_stream {
    ft_executor *executor;
} ft_device_stream;

typedef struct ft_device_event {
    ft_executor *executor;
} ft_device_event;

/* From a device to one of another process, past host memory: one end of it. */
typedef struct ft_channel {
    ft_executor *executor;
} ft_channel;

/* What both ends know it by; made by one of them. */
typedef struct ft_channel_name {
    char bytes[128];
} ft_channel_name;

/* What a stream is for. */
typedef enum { FT_FOR_COMPUTE, FT_FOR_COPIES } ft_stream_use;

/* Whose memory: the device's own, or the host's that its copies reach. */
typedef enum { FT_OF_DEVICE, FT_OF_HOST } ft_memory_side;

/* An end of a copy. */
typedef struct ft_location {
    ft_executor *executor; /* NULL: host memory */
    void *address;
} ft_location;

typedef struct ft_limits {
    int64_t device_bytes; /* that may be allocated now */
    int64_t host_bytes;
    int64_t align; /* of what alloc gives */
} ft_limits;

/* A range that a task touches. */
typedef struct ft_access {
    const void *address;
    int64_t bytes;
    bool reads, writes;
} ft_access;

enum { FT_MAX_ACCESSES = 32 };

/* A kind of work on a compute stream. */
typedef struct ft_task {
    const char *name;
    /* Does the work with the executor's team, or gives it to the stream. `arg` is not used after
     * it returned. */
    ft_status (*run)(const void *arg, ft_device_stream *stream, ft_error *err);
    /* Fills in what run(arg) touches in the memory of devices; returns how many ranges. */
    int (*accesses)(const void *arg, ft_access out[FT_MAX_ACCESSES]);
} ft_task;

struct ft_driver {
    const char *name;    /* what device lists call it: "cpu" */
    ft_device_kind kind; /* whose kernels it runs */
    bool passes_apart;   /* what is made for other devices is copied there on a stream of its own,
                            and waits for that in places of its own */

    /* Of drivers of cards, whose device lists name cards ("cuda:0,1"): how many there are, at least
     * 1, or FT_UNSUPPORTED with the reason; and one of them as a device, without index and name.
     * NULL: lists count devices ("cpu:2"), which share this machine's cores and memory. */
    ft_status (*count)(const ft_driver *driver, int *n, ft_error *err);
    ft_status (*describe)(const ft_driver *driver, int card, ft_device *out, ft_error *err);

    /* The device must stay until close, which waits for all that was submitted. FT_NOMEM,
     * FT_DEVICE. */
    ft_status (*open)(ft_executor **out, const ft_device *device, ft_error *err);
    void (*close)(ft_executor *executor);
    /* To be called by each thread that will submit work, before it does. */
    ft_status (*enter)(ft_executor *executor, ft_error *err);
    void (*limits)(const ft_executor *executor, ft_limits *out);
    /* FT_OK, or the first failure of what was submitted (rule 5). */
    ft_status (*health)(ft_executor *executor, ft_error *err);

    /* Zeroed, and touched so that no page fault falls into a step. FT_NOMEM says how much. */
    ft_status (*alloc)(ft_executor *executor, ft_memory_side side, int64_t bytes, void **out,
                       ft_error *err);
    void (*release)(ft_executor *executor, ft_memory_side side, void *memory, int64_t bytes);
    /* From here in the stream's order, memory of the device has contents (undefined until they are
     * written), and none any more. */
    void (*occupy)(ft_device_stream *stream, void *address, int64_t bytes);
    void (*vacate)(ft_device_stream *stream, void *address, int64_t bytes);

    ft_status (*open_stream)(ft_device_stream **out, ft_executor *executor, ft_stream_use use,
                             ft_error *err);
    void (*close_stream)(ft_device_stream *stream);
    /* NULL: no stream wants it. Lets a compute stream's library work in memory of the device,
     * device->library_bytes, which the caller releases after the stream is closed. To be called
     * before the stream is given work; without it products have less choice. */
    void (*lend)(ft_device_stream *stream, void *memory, int64_t bytes);
    ft_status (*open_event)(ft_device_event **out, ft_executor *executor, ft_error *err);
    /* After `finish` of the streams that recorded it or waited for it. */
    void (*close_event)(ft_device_event *event);
    ft_status (*record)(ft_device_stream *stream, ft_device_event *event, ft_error *err);
    /* The stream waits, of whatever executor of the driver the event is. */
    ft_status (*wait)(ft_device_stream *stream, ft_device_event *event, ft_error *err);
    /* When the newest record was passed (ft_now_ns); -1 while it was not. */
    int64_t (*passed_ns)(const ft_device_event *event);
    /* The caller waits for the newest record. */
    ft_status (*await)(ft_device_event *event, ft_error *err);
    /* The caller waits for all that was submitted. */
    ft_status (*finish)(ft_device_stream *stream, ft_error *err);

    /* Within the executor, to and from host memory, and to or from a peer of the same driver. The
     * ranges do not overlap. */
    ft_status (*copy)(ft_device_stream *stream, ft_location to, ft_location from, int64_t bytes,
                      ft_error *err);
    /* Compute streams alone. A failure of the work itself is the task's, unchanged. */
    ft_status (*launch)(ft_device_stream *stream, const ft_task *task, const void *arg,
                        ft_error *err);
    /* NULL: launches are given when they come. Around those of a compute stream that come again and
     * again, with other addresses and numbers: they may be given together in the end, and what
     * fails is told by then. `end` is called however it went: `status` is what the caller came to,
     * and after a failure, which is answered, some or none were given. */
    void (*begin_series)(ft_device_stream *stream);
    ft_status (*end_series)(ft_device_stream *stream, ft_status status, ft_error *err);
    /* Any stream: calls a function of the host, which uses host memory alone, in the stream's
     * order; what was submitted later waits until it has returned, and the caller may. */
    ft_status (*call)(ft_device_stream *stream, void (*function)(void *), void *arg, ft_error *err);

    /* Channels to devices of other processes, of the same driver; NULL: it has none. FT_UNSUPPORTED
     * says why there are none here. */
    ft_status (*name_channel)(const ft_driver *driver, ft_channel_name *out, ft_error *err);
    /* Begins to open an end; the other process opens the other one. */
    ft_status (*open_channel)(ft_channel **out, ft_executor *executor, const ft_channel_name *name,
                              bool sends, ft_error *err);
    /* *open: whether both ends are. FT_DEVICE when it failed, at any time. From any thread. */
    ft_status (*look_at_channel)(ft_channel *channel, bool *open, ft_error *err);
    /* What is under way and what is given later ends without its bytes. From any thread; more than
     * once, too. */
    void (*cut_channel)(ft_channel *channel);
    void (*close_channel)(ft_channel *channel);
    /* Out of the device's memory, or into it. */
    ft_status (*pass)(ft_device_stream *stream, ft_channel *channel, void *memory, int64_t bytes,
                      ft_error *err);
};

/* For drivers whose callers wait. */
ft_status ft_driver_call(ft_device_stream *on, void (*function)(void *), void *arg, ft_error *err);

/* Work of a plain function, the argument of ft_plain_task. Devices whose memory the CPU computes in
 * call `run`; others call `give`, which gives kernels to the stream, or where there is none and the
 * accesses are in host memory alone, `run` after all that was submitted to the stream. */
typedef struct ft_plain_work {
    ft_status (*run)(void *arg, ft_error *err);
    ft_status (*give)(void *arg, ft_device_stream *stream, ft_error *err);
    void *arg;
    int n_accesses;
    ft_access accesses[FT_MAX_ACCESSES];
} ft_plain_work;

extern const ft_task ft_plain_task;

extern const ft_driver ft_cpu_driver;

/* The drivers that device lists may name; NULL at the end. */
extern const ft_driver *const ft_drivers[];
/* The driver of that name (n bytes), or NULL. */
const ft_driver *ft_driver_find(const char *name, size_t n);

#endif
