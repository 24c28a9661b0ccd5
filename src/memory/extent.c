/* memory/extent.c - the extents of layouts that were made before.
 *
 * Plans are made many times over of the same stages, to see what else would help: of some ten
 * layouts nine are of intervals that have been laid out. */
#include "memory/memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"

enum { REMEMBERED = 4096 };

/* What is known of all threads' layouts, by digest of the intervals; one takes another's place. */
typedef struct known_extents {
    pthread_mutex_t lock;
    struct {
        uint8_t digest[FT_SHA256_BYTES];
        int64_t total;
        bool there;
    } of[REMEMBERED];
} known_extents;

static known_extents *known(void)
{
    static known_extents of_all = {.lock = PTHREAD_MUTEX_INITIALIZER};
    return &of_all;
}

static unsigned slot_of(const uint8_t *digest)
{
    return (digest[0] | (unsigned)digest[1] << 8) % REMEMBERED;
}

static bool recall(const uint8_t *digest, int64_t *total)
{
    known_extents *k = known();
    unsigned i = slot_of(digest);
    pthread_mutex_lock(&k->lock);
    bool found = k->of[i].there && !memcmp(k->of[i].digest, digest, FT_SHA256_BYTES);
    if (found) *total = k->of[i].total;
    pthread_mutex_unlock(&k->lock);
    return found;
}

static void remember(const uint8_t *digest, int64_t total)
{
    known_extents *k = known();
    unsigned i = slot_of(digest);
    pthread_mutex_lock(&k->lock);
    memcpy(k->of[i].digest, digest, FT_SHA256_BYTES);
    k->of[i].total = total;
    k->of[i].there = true;
    pthread_mutex_unlock(&k->lock);
}

ft_status ft_memory_extent(const ft_interval *intervals, int n, int64_t *total, ft_error *err)
{
    int64_t room;
    uint8_t digest[FT_SHA256_BYTES];
    *total = 0;
    if (n > 0) {
        ft_sha256(intervals, n * (int64_t)sizeof *intervals, digest);
        if (recall(digest, total)) return FT_OK;
    }
    int64_t *offsets = ft_size_mul((int64_t)n + 1, sizeof *offsets, &room) ? ft_alloc(room) : NULL;
    if (!offsets) return ft_fail(err, FT_NOMEM, "layout: no memory for %d intervals", n);
    ft_status status = ft_memory_layout(intervals, n, offsets, total, err);
    ft_free(offsets);
    if (status == FT_OK && n > 0) remember(digest, *total);
    return status;
}
