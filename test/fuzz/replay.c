/* test/fuzz/replay.c - runs a fuzz target over the files of directories, without libFuzzer.
 *
 * Ordinary builds test with the corpus what fuzzing found; a crash is the failure. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes of a file in a block of exactly their size, so that reading past them is seen. */
static uint8_t *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    rewind(file);
    uint8_t *bytes = end >= 0 ? malloc(end > 0 ? (size_t)end : 1) : NULL;
    *size = bytes ? fread(bytes, 1, (size_t)end, file) : 0;
    fclose(file);
    return bytes;
}

/* Runs one file; false when it cannot be read. */
static int run_file(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = read_whole(path, &size);
    if (!bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return 0;
    }
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    return 1;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            fprintf(stderr, "%s: no such directory\n", argv[i]);
            failed++;
            continue;
        }
        for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
            char path[4096];
            if (entry->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            run_file(path) ? passed++ : failed++;
        }
        closedir(dir);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
