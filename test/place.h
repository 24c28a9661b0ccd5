/* test/place.h - a fresh directory for the files of a test, files of given bytes, and what is where
 * in them. */
#ifndef FT_TEST_PLACE_H
#define FT_TEST_PLACE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

typedef struct place {
    char directory[64];
    char path[512]; /* of the file last named */
} place;

static inline const char *in(place *p, const char *name)
{
    snprintf(p->path, sizeof p->path, "%s/%s", p->directory, name);
    return p->path;
}

static inline place place_new(void)
{
    place p = {.directory = "/tmp/ftpipe_io_XXXXXX"};
    if (!mkdtemp(p.directory)) perror("mkdtemp");
    return p;
}

/* Removes the directory, and says how many files were in it. */
static inline int place_free(place *p)
{
    int n = 0;
    DIR *directory = opendir(p->directory);
    for (struct dirent *e; directory && (e = readdir(directory));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        n++;
        if (remove(in(p, e->d_name)) != 0) perror(p->path);
    }
    closedir(directory);
    rmdir(p->directory);
    return n;
}

static inline void put(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n, file) != n) perror(path);
    if (file) fclose(file);
}

/* A safetensors file of this header and `n` data bytes 0, 1, 2 ... */
static inline void put_tensors(const char *path, const char *header, size_t n)
{
    char bytes[4096] = {0};
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(length >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < n; i++) bytes[8 + length + i] = (char)i;
    put(path, bytes, 8 + length + n);
}

/* Where the first of these n bytes are within others; -1: nowhere. */
static inline int find_bytes(const char *bytes, size_t size, const char *wanted, int n)
{
    const char *at = memmem(bytes, size, wanted, (size_t)n);
    return at ? (int)(at - bytes) : -1;
}

static inline bool mentions(const ft_error *err, const char *words)
{
    bool found = strstr(err->message, words) != NULL;
    if (!found) fprintf(stderr, "message '%s' does not mention '%s'\n", err->message, words);
    return found;
}

#endif
