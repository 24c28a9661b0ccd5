/* cuda/series.h - what a stream is given again and again, as one graph.
 *
 * While a series is open, what the stream would be given is noted. The first time that a list of
 * such items comes, they are given one by one; the second time the stream captures them, and from
 * then on the card is given the graph that came of it. Lists are the same when they have the same
 * kernels in the same order, and equal products and fills between them; blocks and arguments of
 * kernels may differ, and are set in the graph where they do.
 *
 * All memory is taken with the series: what finds no room in it, or none on the card, is given one
 * by one for ever. When a graph fails for another reason, that is the executor's remark, and from
 * there on everything is. */
#ifndef FT_CUDA_SERIES_H
#define FT_CUDA_SERIES_H

#include <stdbool.h>

#include "device/driver.h"
#include "nvidia/nvidia.h"

typedef enum { FT_GIVEN_KERNEL, FT_GIVEN_PRODUCT, FT_GIVEN_FILL } ft_given_kind;

/* Equal arguments are equal bytes, and full words, but for those of kernels. */
typedef struct ft_given {
    ft_given_kind kind;
    const char *name;                /* for errors */
    cu_function function;            /* of a kernel, as all to here */
    unsigned grid[3], threads, room; /* bytes of shared memory that the launch gives */
    uint32_t bytes;
    const void *args; /* so many bytes */
} ft_given;

typedef struct ft_series ft_series; /* of one stream, whose context is current in each call */

/* `give` gives an item to the stream. */
typedef ft_status (*ft_series_give)(ft_device_stream *stream, const ft_given *item, ft_error *err);

ft_status ft_series_new(ft_series **out, const ft_cuda_api *api, ft_device_stream *stream,
                        cu_stream handle, ft_series_give give, ft_error *err);
/* NULL is accepted. */
void ft_series_free(ft_series *series);

/* NULL, as of streams for copies, is never open. */
bool ft_series_is_open(const ft_series *series);
void ft_series_open(ft_series *series);
/* Notes a copy of the item, or gives it. */
ft_status ft_series_add(ft_series *series, const ft_given *item, ft_error *err);
/* Gives what was noted; or forgets it. */
ft_status ft_series_close(ft_series *series, ft_error *err);
void ft_series_drop(ft_series *series);

#endif
