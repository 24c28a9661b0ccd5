/* edges/channels.h - edges to devices of other processes that do not pass host memory.
 *
 * Where drivers of both ends have channels (device/driver.h); channels/channels.h says in which
 * order. */
#ifndef FT_EDGES_CHANNELS_H
#define FT_EDGES_CHANNELS_H

#include "state/run.h"

/* FT_UNSUPPORTED where such a driver opens no channels here, in the words of a run that needs them.
 */
ft_status channel_check(const ft_driver *driver, ft_error *err);
/* Of edge e, between drivers that have channels: opens one together with the process at the other
 * end; where one of them cannot, there is none, and the device's remark says why; or where the run
 * needs it, *failure of whoever cannot. After a failure here, which *failure keeps, the other one
 * is told so. The failure of the world otherwise. `tag` is of messages to and fro that nobody
 * listens for yet. */
ft_status channel_open(ft_run *run, int e, int tag, bool sends, ft_error *failure, ft_error *err);
/* Closes what channel_open opened. */
void channel_close(const edge_state *edge);
/* The sender's pass of what is at `memory` in its device. */
ft_status channel_send(const worker *w, ft_device_stream *stream, int e, const void *memory,
                       int64_t bytes, ft_error *err);
/* The receiver's passes of slot number `index`, of so many bytes, behind what read it before. */
ft_status channel_receive(ft_run *run, int e, int64_t index, char *slot, int64_t bytes,
                          ft_error *err);
/* The first failure of one. */
ft_status channels_look(const ft_run *run, ft_error *err);

#endif
