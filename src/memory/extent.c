/* memory/extent.c - the extents of layouts that were made before.
 *
 * Plans are made many times over of the same stages, to see what else would help: most of their
 * layouts are of intervals that have been laid out. */
#include "memory/memory.h"

#include "base/alloc.h"
#include "base/memo.h"
#include "base/sha256.h"

static ft_memo *known_extents(void)
{
    static ft_memo extents = FT_MEMO_EMPTY;
    return &extents;
}

static ft_memo_key key_of(const ft_interval *intervals, int n)
{
    uint8_t digest[FT_SHA256_BYTES];
    ft_sha256(intervals, n * (int64_t)sizeof *intervals, digest);
    return ft_memo_key_of(digest, sizeof digest);
}

ft_status ft_memory_extent(const ft_interval *intervals, int n, int64_t *total, ft_error *err)
{
    int64_t room;
    if (n <= 0) return ft_memory_layout(intervals, n, NULL, total, err); /* nothing, or refused */
    ft_memo_key key = key_of(intervals, n);
    if (ft_memo_find(known_extents(), &key, total)) return FT_OK;
    int64_t *offsets = ft_size_mul(n, sizeof *offsets, &room) ? ft_alloc(room) : NULL;
    if (!offsets) return ft_fail(err, FT_NOMEM, "layout: no memory for %d intervals", n);
    ft_status status = ft_memory_layout(intervals, n, offsets, total, err);
    ft_free(offsets);
    if (status == FT_OK) ft_memo_keep(known_extents(), &key, *total);
    return status;
}
