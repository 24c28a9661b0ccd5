/* channels/channels.h - what cards pass to cards of other processes, by NCCL: entries of a driver's
 * table.
 *
 * Design. Which channels there are and what passes them is the run's (edges/channels.c):
 *
 *  - One communicator of two ranks for each edge of the blueprint from a card of one process to one
 *    of another; rank 0 sends. The slots of an edge are used in turn, so both ends have its passes
 *    in one order without agreeing on anything; edges between the same two cards have communicators
 *    of their own, since their order among each other is that of the sender's plan alone.
 *  - The sender passes out of where the value was made, on the stream that copies beside what the
 *    card computes (COPY_APART), behind the event of its being made. Then it sends a message by MPI
 *    that says how much. When that arrives, whoever carries messages has the receiver's card take
 *    it, on a stream of the edge's own, behind the event of the slot's being free, into the slot. A
 *    slot counts as filled from then on; who takes from it waits for the event behind the pass. So
 *    no thread waits for a card, and nothing goes through host memory.
 *  - That a slot is free is told to the maker when what reads it was given to the card, not when it
 *    has ended: the receiver's stream waits for that. A place at the maker is free behind the event
 *    of its pass, which ends when the receiver has it.
 *  - No circle of waits: call the time of a pass that of its being given by the sender. A receiver
 *    gives its end later; it waits for what read the slot before, which was given before the
 *    credit, and so before that time; and for passes before it on the same edge. The sender's end
 *    waits for work and passes that were given before. What waits for the pass was given after it.
 *    So each waits for earlier ones alone, over all processes. Streams of a card must not wait for
 *    each other otherwise: the program asks for 32 queues (CUDA_DEVICE_MAX_CONNECTIONS), unless it
 *    was told a number, and memory that NCCL wants is taken when a channel is opened, in the order
 *    of the edges, which is the same in all processes: both ends pass a word then.
 *  - Sums of replicas' gradients and of tied weights are the run's own, in their fixed order: each
 *    term is passed to its slot, and added there. NCCL adds nothing, so bits do not depend on it.
 *  - Failure: processes watch each other by MPI, and NCCL's own errors are asked for as often. A
 *    leg that ends early cuts its channels (ncclCommAbort), from whatever thread, so that kernels
 *    of NCCL end and nobody waits for a stream for ever; a run whose channels were cut has no
 *    other leg.
 *  - Without NCCL at one end, or where a communicator is refused (two processes on one card), the
 *    edge goes by way of the host, and the device's remark says why; or the run ends, where it was
 *    told to have channels (--transport nccl). With --transport mpi NCCL is not loaded.
 *  - Memory: none of the host's. What NCCL takes of a card is not the run's to plan: two
 *    kernel blocks at most for each edge, each with NCCL_BUFFSIZE (4 MB) for what passes. */
#ifndef FT_CHANNELS_H
#define FT_CHANNELS_H

#include "cuda/cuda.h"

/* Entries of the table of a driver of cards; device/driver.h says what they do. */
#define FT_CHANNELS_ENTRIES                                                                        \
    .name_channel = ft_channels_name, .open_channel = ft_channels_open,                            \
    .look_at_channel = ft_channels_look, .cut_channel = ft_channels_cut,                           \
    .close_channel = ft_channels_close, .pass = ft_channels_pass
/* Of `name_channel`. */
ft_status ft_channels_name(const ft_driver *driver, ft_channel_name *out, ft_error *err);
/* Of `open_channel`. */
ft_status ft_channels_open(ft_channel **out, ft_executor *executor, const ft_channel_name *name,
                           bool sends, ft_error *err);
/* Of `look_at_channel`. */
ft_status ft_channels_look(ft_channel *channel, bool *open, ft_error *err);
/* Of `cut_channel` and `close_channel`. */
void ft_channels_cut(ft_channel *channel);
void ft_channels_close(ft_channel *channel);
/* Of `pass`. */
ft_status ft_channels_pass(ft_device_stream *stream, ft_channel *channel, void *memory,
                           int64_t bytes, ft_error *err);

#endif
