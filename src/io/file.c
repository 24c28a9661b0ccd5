/* io/file.c - whole files in, whole files out.
 *
 * A file is written beside its target, synced, and renamed over it, so that a reader, a crash or a
 * full disk sees the old file or the new one and never a part. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/internal.h"

enum {
    MAX_TRANSFER = 1 << 30,   /* bytes of one read or write call; Linux stops at 2 GiB - 4 KiB */
    READ_STEP = 1 << 16,      /* bytes by which a file that does not tell its size is read */
    MAX_TEMP_ATTEMPTS = 1000, /* names tried for the file beside the target */
};

ft_status ft_errno_fail(ft_error *err, const char *path, const char *what)
{
    int code = errno;
    char reason[128];
    ft_status status = code == ENOENT || code == ENOTDIR ? FT_NOT_FOUND
                       : code == ENOMEM                  ? FT_NOMEM
                                                         : FT_IO;
    return ft_fail(err, status, "%s: %s: %s", path, what, strerror_r(code, reason, sizeof reason));
}

ft_shown ft_show(const char *name)
{
    ft_shown shown;
    size_t n = strlen(name), room = sizeof shown.text - 4;
    bool cut = n > room;
    if (cut) {
        n = room;
        while (n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80) n--; /* not inside a character */
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name[i];
        shown.text[i] = c < 0x20 || c == 0x7F ? '?' : name[i];
    }
    memcpy(shown.text + n, cut ? "..." : "", cut ? 4 : 1);
    return shown;
}

ft_status ft_pread_all(int fd, void *out, int64_t n, int64_t offset, const char *path,
                       ft_error *err)
{
    char *p = out;
    int64_t done = 0;
    while (done < n) {
        int64_t want = n - done < MAX_TRANSFER ? n - done : MAX_TRANSFER;
        ssize_t got = pread(fd, p + done, (size_t)want, offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ft_errno_fail(err, path, "cannot read");
        if (got == 0)
            return ft_fail(err, FT_IO, "%s: file ends at byte %lld, expected %lld bytes at %lld",
                           path, (long long)(offset + done), (long long)n, (long long)offset);
        done += got;
    }
    return FT_OK;
}

ft_status ft_write_all(int fd, const void *bytes, int64_t n, const char *path, ft_error *err)
{
    const char *p = bytes;
    int64_t done = 0;
    while (done < n) {
        int64_t want = n - done < MAX_TRANSFER ? n - done : MAX_TRANSFER;
        ssize_t put = write(fd, p + done, (size_t)want);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ft_errno_fail(err, path, "cannot write");
        done += put;
    }
    return FT_OK;
}

/* Reads to the end of fd into a block that grows; `guess` is the size that the file told. */
static ft_status read_to_end(int fd, int64_t guess, char **out, int64_t *size, const char *path,
                             ft_error *err)
{
    int64_t capacity = guess + 2, n = 0; /* one byte to meet the end, one for the NUL */
    char *text = ft_alloc(capacity);
    for (;;) {
        if (!text || capacity - n < 2) {
            capacity += capacity / 2 + READ_STEP;
            char *moved = text ? ft_realloc(text, capacity) : NULL;
            if (!moved) {
                ft_free(text);
                return ft_fail(err, FT_NOMEM, "%s: no memory for %lld bytes", path,
                               (long long)capacity);
            }
            text = moved;
        }
        int64_t room = capacity - n - 1 < MAX_TRANSFER ? capacity - n - 1 : MAX_TRANSFER;
        ssize_t got = read(fd, text + n, (size_t)room);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            ft_status status = ft_errno_fail(err, path, "cannot read");
            ft_free(text);
            return status;
        }
        if (got == 0) break;
        n += got;
    }
    text[n] = 0;
    *out = text;
    *size = n;
    return FT_OK;
}

ft_status ft_file_read(const char *path, char **out, int64_t *size, ft_error *err)
{
    *out = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ft_errno_fail(err, path, "cannot open");
    struct stat info;
    ft_status status = FT_OK;
    if (fstat(fd, &info) != 0)
        status = ft_errno_fail(err, path, "cannot look at");
    else
        status =
            read_to_end(fd, S_ISREG(info.st_mode) ? info.st_size : READ_STEP, out, size, path, err);
    close(fd);
    return status;
}

/* Opens a new file beside the target, with the target's permissions when there is one. */
static ft_status open_beside(ft_writer *writer, ft_error *err)
{
    int64_t size = (int64_t)strlen(writer->path) + 48;
    writer->temp = ft_alloc(size);
    if (!writer->temp) return ft_fail(err, FT_NOMEM, "%s: no memory for its name", writer->path);
    for (int i = 0; i < MAX_TEMP_ATTEMPTS && writer->fd < 0; i++) {
        snprintf(writer->temp, (size_t)size, "%s.%ld.%d.tmp", writer->path, (long)getpid(), i);
        writer->fd = open(writer->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd < 0 && errno != EEXIST) break;
    }
    if (writer->fd < 0) return ft_errno_fail(err, writer->path, "cannot create");
    struct stat old;
    if (stat(writer->path, &old) == 0 && S_ISREG(old.st_mode))
        (void)fchmod(writer->fd, old.st_mode & 0777); /* a matter of taste, not of success */
    return FT_OK;
}

ft_status ft_writer_begin(ft_writer *writer, const char *path, ft_error *err)
{
    *writer = (ft_writer){.fd = -1};
    writer->path = ft_copy_text(path);
    if (!writer->path) return ft_fail(err, FT_NOMEM, "%s: no memory for its name", path);
    ft_status status = open_beside(writer, err);
    if (status != FT_OK) ft_writer_fini(writer);
    return status;
}

ft_status ft_writer_add(ft_writer *writer, const void *bytes, int64_t size, ft_error *err)
{
    return ft_write_all(writer->fd, bytes, size, writer->path, err);
}

ft_status ft_writer_extend(const ft_writer *writer, int64_t size, ft_error *err)
{
    return ftruncate(writer->fd, size) == 0 ? FT_OK
                                            : ft_errno_fail(err, writer->path, "cannot extend");
}

ft_status ft_writer_commit(ft_writer *writer, ft_error *err)
{
    if (fsync(writer->fd) != 0) return ft_errno_fail(err, writer->path, "cannot sync");
    int fd = writer->fd;
    writer->fd = -1;
    bool closed = close(fd) == 0;
    if (!closed || rename(writer->temp, writer->path) != 0) {
        ft_status status =
            ft_errno_fail(err, writer->path, closed ? "cannot replace" : "cannot close");
        unlink(writer->temp);
        return status;
    }
    return ft_sync_parent(writer->path, err);
}

void ft_writer_fini(ft_writer *writer)
{
    if (writer->fd >= 0) {
        close(writer->fd);
        unlink(writer->temp);
    }
    ft_free(writer->path);
    ft_free(writer->temp);
    *writer = (ft_writer){.fd = -1};
}

ft_status ft_file_write(const char *path, const void *bytes, int64_t size, ft_error *err)
{
    ft_writer writer;
    FT_TRY(ft_writer_begin(&writer, path, err));
    ft_status status = FT_OK;
    FT_GO(ft_writer_add(&writer, bytes, size, err));
    FT_GO(ft_writer_commit(&writer, err));
done:
    ft_writer_fini(&writer);
    return status;
}
