/* test/check_shadow.h - who touched which memory, and what happened before what.
 *
 * Every piece of work has a clock: by stream, how many pieces of that stream happened before it. A
 * stream's work happens in its order; a wait brings what had happened before the record; what the
 * host waited for has happened before everything that is submitted afterwards. Two touches of one
 * granule, one of them a write, must be ordered so. */
#ifndef FT_TEST_CHECK_SHADOW_H
#define FT_TEST_CHECK_SHADOW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Every use of a shadow is under one lock, and each touches thousands of granules: ThreadSanitizer
 * need not follow them. */
#define SHADOWS static inline __attribute__((no_sanitize("thread")))

enum { GRANULE = 64, SHADOW_STREAMS = 128, SHADOW_READS = 6, POISON = 0xFF };

typedef struct clock_of {
    uint32_t at[SHADOW_STREAMS];
} clock_of;

/* Returns whether that brought anything. */
static inline bool clock_join(clock_of *to, const clock_of *from)
{
    bool news = false;
    for (int i = 0; i < SHADOW_STREAMS; i++)
        if (from->at[i] > to->at[i]) {
            to->at[i] = from->at[i];
            news = true;
        }
    return news;
}

/* Work number `tick` of a stream. */
typedef struct touch {
    uint32_t tick;
    uint8_t stream;
} touch;

typedef struct granule {
    touch write;
    touch reads[SHADOW_READS]; /* since the write */
    uint8_t n_reads;
    bool vacant;
} granule;

/* One allocation of a device. */
typedef struct shadow {
    struct shadow *next;
    char *base;
    int64_t bytes;
    granule *granules;
} shadow;

static inline shadow *shadow_new(shadow **list, void *base, int64_t bytes)
{
    shadow *s = calloc(1, sizeof *s);
    *s = (shadow){*list, base, bytes, calloc((size_t)(bytes / GRANULE + 2), sizeof(granule))};
    return *list = s;
}

static inline void shadow_free(shadow **list, const void *base)
{
    while (*list && (*list)->base != base) list = &(*list)->next;
    shadow *s = *list;
    if (!s) return;
    *list = s->next;
    free(s->granules);
    free(s);
}

static inline shadow *shadow_find(shadow *list, const void *address)
{
    const char *at = address;
    while (list && (at < list->base || at >= list->base + list->bytes)) list = list->next;
    return list;
}

SHADOWS bool happened(const clock_of *before, touch t)
{
    return t.tick <= before->at[t.stream];
}

SHADOWS void note_read(granule *g, touch now, const clock_of *clock)
{
    int kept = 0;
    for (int i = 0; i < g->n_reads; i++) /* a later read of one's own past stands for it */
        if (!happened(clock, g->reads[i])) g->reads[kept++] = g->reads[i];
    if (kept == SHADOW_READS) kept--;
    g->reads[kept++] = now;
    g->n_reads = (uint8_t)kept;
}

/* What is wrong with a touch of `bytes` at `address`, which it notes; NULL: nothing. */
SHADOWS const char *shadow_touch(shadow *list, const void *address, int64_t bytes, bool reads,
                                 bool writes, touch now, const clock_of *clock)
{
    shadow *s = shadow_find(list, address);
    if (!s || bytes <= 0) return NULL;
    int64_t first = ((const char *)address - s->base) / GRANULE;
    int64_t last = ((const char *)address + bytes - 1 - s->base) / GRANULE;
    if ((const char *)address + bytes > s->base + s->bytes) return "is past the end of its block";
    for (int64_t i = first; i <= last; i++) {
        granule *g = &s->granules[i];
        if (g->vacant) return reads ? "reads what holds nothing" : "writes what holds nothing";
        if (!happened(clock, g->write))
            return reads ? "reads without an event after the write"
                         : "writes without an event after the write before it";
        if (writes)
            for (int k = 0; k < g->n_reads; k++)
                if (!happened(clock, g->reads[k]) && g->reads[k].stream != now.stream)
                    return "writes without an event after a read";
        if (writes) {
            g->write = now;
            g->n_reads = 0;
        } else {
            note_read(g, now, clock);
        }
    }
    return NULL;
}

/* Memory begins or ends to have contents: a write, of any that was vacant too. */
SHADOWS const char *shadow_turn(shadow *list, const void *address, int64_t bytes, bool vacant,
                                touch now, const clock_of *clock)
{
    shadow *s = shadow_find(list, address);
    if (!s || bytes <= 0) return NULL;
    int64_t first = ((const char *)address - s->base) / GRANULE;
    int64_t last = ((const char *)address + bytes - 1 - s->base) / GRANULE;
    for (int64_t i = first; i <= last; i++) s->granules[i].vacant = false;
    const char *fault = shadow_touch(list, address, bytes, false, true, now, clock);
    for (int64_t i = first; i <= last; i++) s->granules[i].vacant = vacant;
    return fault;
}

#endif
