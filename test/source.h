/* test/source.h - numbers that are only read, with a page behind their last one that cannot be. */
#ifndef FT_TEST_SOURCE_H
#define FT_TEST_SOURCE_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* In [-1, 1). */
static inline void draw(float *x, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

typedef struct source {
    float *x;
    char *pages;
    size_t bytes; /* of the pages */
} source;

static inline source source_new(int64_t n, uint32_t seed)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (size_t)n * 4;
    const size_t before = (used + page - 1) / page * page;
    source s = {.bytes = before + page};
    s.pages = mmap(NULL, s.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s.pages == MAP_FAILED || mprotect(s.pages + before, page, PROT_NONE) != 0) abort();
    s.x = (float *)(s.pages + before - used);
    draw(s.x, n, seed);
    if (mprotect(s.pages, before, PROT_READ) != 0) abort();
    return s;
}

static inline void source_free(source s)
{
    munmap(s.pages, s.bytes);
}

#endif
