/* data/tokenizer_file.c - a tokenizer from a file.
 * This room does not use `io`, and all it needs of a file is its bytes. */
#include "data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

static ft_status fail(ft_error *err, const char *path, const char *what)
{
    int code = errno;
    char reason[128];
    ft_status status = code == ENOENT || code == ENOTDIR ? FT_NOT_FOUND : FT_IO;
    return ft_fail(err, status, "%s: %s: %s", path, what, strerror_r(code, reason, sizeof reason));
}

/* Reads exactly `size` bytes. */
static ft_status read_all(int fd, char *bytes, int64_t size, const char *path, ft_error *err)
{
    for (int64_t done = 0; done < size;) {
        ssize_t got = read(fd, bytes + done, (size_t)(size - done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(err, path, "cannot read");
        if (got == 0)
            return ft_fail(err, FT_IO, "%s: file ends at byte %lld, expected %lld bytes", path,
                           (long long)done, (long long)size);
        done += got;
    }
    return FT_OK;
}

static ft_status load_file(ft_tokenizer **out, int fd, int64_t size, int extra_ids,
                           const char *path, ft_error *err)
{
    char *bytes = ft_alloc(size);
    if (!bytes)
        return ft_fail(err, FT_NOMEM, "%s: no memory for %lld bytes", path, (long long)size);
    ft_status status = read_all(fd, bytes, size, path, err);
    if (status == FT_OK) {
        status = ft_tokenizer_load(out, bytes, size, extra_ids, err);
        if (status != FT_OK) ft_error_wrap(err, "%s", path);
    }
    ft_free(bytes);
    return status;
}

ft_status ft_tokenizer_open(ft_tokenizer **out, const char *path, int extra_ids, ft_error *err)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(err, path, "cannot open");
    struct stat info;
    ft_status status;
    if (fstat(fd, &info) != 0)
        status = fail(err, path, "cannot look at");
    else if (!S_ISREG(info.st_mode))
        status = ft_fail(err, FT_IO, "%s: not a regular file", path);
    else
        status = load_file(out, fd, info.st_size, extra_ids, path, err);
    close(fd);
    return status;
}
