/* io/gzip.c - bytes as a gzip file, which viewers of traces read as it is. */
#define ZLIB_CONST
#include "io/io.h"

#include <limits.h>
#include <zlib.h>

#include "base/alloc.h"

/* Of deflateInit2: the defaults, with the head of a gzip file. */
enum { WINDOW = 15, AS_GZIP = 16, MEMORY = 8 };

static void *take(void *opaque, uInt items, uInt size)
{
    (void)opaque;
    return ft_alloc((int64_t)items * size);
}

static void give_back(void *opaque, void *block)
{
    (void)opaque;
    ft_free(block);
}

ft_status ft_gzip(const void *bytes, int64_t n, void **out, int64_t *n_out, ft_error *err)
{
    *out = NULL;
    *n_out = 0;
    if (n > INT_MAX / 2) /* so that what comes out can be counted, too */
        return ft_fail(err, FT_INVALID, "%lld bytes are too many for gzip, expected at most %d",
                       (long long)n, INT_MAX / 2);
    z_stream stream = {.next_in = bytes, .avail_in = (uInt)n, .zalloc = take, .zfree = give_back};
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW + AS_GZIP, MEMORY,
                     Z_DEFAULT_STRATEGY) == Z_OK) {
        uLong room = deflateBound(&stream, (uLong)n);
        stream.next_out = *out = ft_alloc((int64_t)room);
        stream.avail_out = (uInt)room;
        bool whole = *out && deflate(&stream, Z_FINISH) == Z_STREAM_END;
        *n_out = (int64_t)stream.total_out;
        deflateEnd(&stream);
        if (whole) return FT_OK;
        ft_free(*out);
        *out = NULL;
    }
    return ft_fail(err, FT_NOMEM, "no memory to compress %lld bytes", (long long)n);
}
