/* test/shared.h - published test inputs that do not come with the sources.
 *
 * They lie in ../shared beside the sources, or where FTPIPE_SHARED says. A test that finds them
 * absent says so and goes on. */
#ifndef FT_TEST_SHARED_H
#define FT_TEST_SHARED_H

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

static inline const char *shared_root(void)
{
    const char *root = getenv("FTPIPE_SHARED");
    return root && root[0] ? root : "../shared";
}

/* A whole file below the root, NUL-terminated, to ft_free; NULL, after saying so, when absent. */
static inline char *shared_read(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", shared_root(), name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        printf("skipped: no %s\n", path);
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = ft_alloc(size + 1);
    size_t got = text ? fread(text, 1, (size_t)size, file) : 0;
    if (text) text[got] = 0;
    fclose(file);
    return text;
}

#endif
