/* test/fuzz/archive_target.h - any bytes as a file of weights: opened, listed, read. */
#ifndef FT_TEST_FUZZ_ARCHIVE_TARGET_H
#define FT_TEST_FUZZ_ARCHIVE_TARGET_H

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 20 }; /* of a tensor that is read */

static void read_entry(const ft_archive *archive, int i)
{
    ft_error err;
    const ft_entry *entry = ft_archive_entry(archive, i);
    int64_t count = ft_shape_count(&entry->spec.shape);
    if (ft_archive_find(archive, entry->name) != i) __builtin_trap();
    if (!entry->readable || count > MAX_BYTES / 8) return;
    ft_spec spec = {i % 2 ? FT_F64 : entry->spec.dtype, entry->spec.shape};
    void *bytes = ft_alloc(ft_spec_bytes(&spec));
    ft_view view = ft_view_of(&spec, bytes);
    if (ft_archive_read(archive, i, &view, &err) != FT_OK) __builtin_trap();
    ft_free(bytes);
}

static int open_archive(const uint8_t *data, size_t size)
{
    char path[64];
    ft_error err;
    ft_archive *archive;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) __builtin_trap();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ft_status status = ft_archive_open(&archive, path, &err);
    for (int i = 0; status == FT_OK && i < ft_archive_count(archive); i++) read_entry(archive, i);
    if (status == FT_OK) (void)ft_archive_nearest(archive, "weight");
    ft_archive_close(archive);
    close(fd);
    return 0;
}

#endif
