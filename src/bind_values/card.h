/* bind_values/card.h - an open device as scripts use it: streams, events, memory that both know.
 *
 * All of it is the main thread's. Values of Lua hold references, so that a device closes after the
 * last of what is on it, in whatever order the collector takes them. */
#ifndef FT_CARD_H
#define FT_CARD_H

#include "device/driver.h"
#include "tensor/tensor.h"

typedef struct card_stream {
    struct card *card; /* a reference */
    ft_device_stream *stream;
    struct card_stream *next; /* of the card's */
} card_stream;

typedef struct card {
    int64_t references;
    ft_device device;
    ft_executor *executor;
    ft_device_stream *own; /* of work for which nobody chose a stream */
    ft_device_stream *now; /* that work is given to */
    card_stream *streams;  /* all others, not referenced */
    int64_t taken_bytes;   /* of the device's memory, by tensors */
    char *pinned;          /* two halves, for copies to and from the host's tensors */
    int64_t pinned_bytes;
    ft_device_event *left[2]; /* recorded when a half was copied from */
    bool used[2];
} card;

typedef struct card_event {
    card *card; /* a reference */
    ft_device_event *event;
} card_event;

/* A block of the device's memory. It is written once, so who reads waits for that alone. */
typedef struct card_memory {
    int64_t references;
    card *card; /* a reference */
    void *address;
    int64_t bytes;
    ft_device_event *written;
    const ft_device_stream *by; /* NULL: nobody wrote, it holds zeros */
} card_memory;

/* Opens a device, with so much pinned memory, at least 2 bytes; the caller has a reference. */
ft_status card_open(card **out, const ft_device *device, int64_t pinned_bytes, ft_error *err);
/* NULL is accepted, by all that release. */
void card_release(card *c);
/* Waits for all its streams; the first failure. */
ft_status card_finish(card *c, ft_error *err);

ft_status card_stream_new(card_stream **out, card *c, ft_error *err);
/* Waits for what it was given. */
void card_stream_free(card_stream *s);
ft_status card_event_new(card_event **out, card *c, ft_error *err);
void card_event_free(card_event *e);

/* Zeros. */
ft_status card_memory_new(card_memory **out, card *c, int64_t bytes, ft_error *err);
/* With the last reference it waits for all that may read it. */
void card_memory_release(card_memory *m);
/* Has the device's stream wait until the block, of any device of its driver, is written. */
ft_status card_memory_need(const card_memory *m, ft_device_stream *stream, ft_error *err);
/* What the stream was given so far writes the block. */
ft_status card_memory_wrote(card_memory *m, ft_device_stream *stream, ft_error *err);
/* Copies all of the block from or to memory of the host, which may change after that. */
ft_status card_memory_fill(card_memory *m, const void *from, ft_error *err);
ft_status card_memory_read(const card_memory *m, void *to, ft_error *err);
/* Copies all of a block of the same size and driver; returns when it is done. */
ft_status card_memory_copy(card_memory *to, const card_memory *from, ft_error *err);

#endif
