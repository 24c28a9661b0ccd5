/* io/swap_file.c - state of a run on disk, while it is on no device.
 *
 * The file has its room before anything is written, and no name: nobody else opens it, and it is
 * gone when the process ends, however it ends. What is read is what was written, or an error: each
 * read is given the sum of what it should find. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/internal.h"

enum { PROBE = 1 << 20, PROBES = 16 }; /* bytes written at once, and how often, to see how fast */

struct ft_swap_file {
    int fd;
    int64_t bytes;
    char *map;
    char *dir;
    double rate;
};

static ft_status open_nameless(ft_swap_file *f, const char *dir, ft_error *err)
{
    char path[4096];
    f->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (f->fd >= 0) return FT_OK;
    if (errno != EOPNOTSUPP && errno != EISDIR)
        return ft_errno_fail(err, dir, "cannot make a swap file");
    if (snprintf(path, sizeof path, "%s/ftpipe-swap-%d", dir, (int)getpid()) >= (int)sizeof path)
        return ft_fail(err, FT_INVALID, "%s: the name is too long for a swap file", dir);
    f->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0) return ft_errno_fail(err, dir, "cannot make a swap file");
    unlink(path);
    return FT_OK;
}

static ft_status no_room(const char *dir, int64_t bytes, int code, ft_error *err)
{
    return ft_fail(err, FT_IO, "%s: no room for %.1f MB of state: %s", dir, (double)bytes / 1e6,
                   strerror(code));
}

ft_status ft_swap_room(const char *dir, const int64_t *bytes, int n, ft_error *err)
{
    struct rlimit most;
    int64_t left;
    FT_TRY(ft_disk_free(dir, &left, err));
    if (getrlimit(RLIMIT_FSIZE, &most)) return ft_errno_fail(err, dir, "cannot make a swap file");
    for (int i = 0; i < n; i++) {
        if (most.rlim_cur != RLIM_INFINITY && (uint64_t)bytes[i] > most.rlim_cur)
            return no_room(dir, bytes[i], EFBIG, err);
        if (bytes[i] > left) return no_room(dir, bytes[i], ENOSPC, err);
        left -= bytes[i];
    }
    return FT_OK;
}

static ft_status take_room(ft_swap_file *f, ft_error *err)
{
    int code;
    do code = posix_fallocate(f->fd, 0, f->bytes);
    while (code == EINTR); /* where signals come, as on a terminal that changes its size */
    if (code) return no_room(f->dir, f->bytes, code, err);
    void *map = mmap(NULL, (size_t)f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    if (map == MAP_FAILED) return ft_errno_fail(err, f->dir, "cannot map a swap file");
    f->map = map;
    return FT_OK;
}

ft_status ft_swap_file_write(const ft_swap_file *f, int64_t at, const void *from, int64_t n,
                             ft_error *err)
{
    for (int64_t done = 0; done < n;) {
        ssize_t now = pwrite(f->fd, (const char *)from + done, (size_t)(n - done), at + done);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) return ft_errno_fail(err, f->dir, "cannot write a swap file");
        done += now;
    }
    return FT_OK;
}

/* What goes to the disk and not only to memory in front of it. */
static ft_status measure(ft_swap_file *f, ft_error *err)
{
    int64_t written = 0, begin = ft_now_ns();
    char *zeros = ft_alloc(PROBE);
    if (!zeros) return ft_fail(err, FT_NOMEM, "%s: no memory for a swap file", f->dir);
    ft_status status = FT_OK;
    for (int i = 0; i < PROBES && written < f->bytes && status == FT_OK; i++) {
        int64_t n = f->bytes - written < PROBE ? f->bytes - written : PROBE;
        status = ft_swap_file_write(f, written, zeros, n, err);
        written += n;
    }
    if (status == FT_OK && fdatasync(f->fd))
        status = ft_errno_fail(err, f->dir, "cannot write a swap file");
    int64_t ns = ft_now_ns() - begin;
    f->rate = (double)written * 1e9 / (double)(ns > 0 ? ns : 1);
    ft_free(zeros);
    return status;
}

ft_status ft_swap_file_open(ft_swap_file **out, const char *dir, int64_t bytes, ft_error *err)
{
    *out = NULL;
    ft_swap_file *f = ft_alloc(sizeof *f);
    if (!f) return ft_fail(err, FT_NOMEM, "%s: no memory for a swap file", dir);
    f->fd = -1;
    f->bytes = bytes > 0 ? bytes : 1;
    f->dir = ft_copy_text(dir);
    ft_status status = f->dir ? open_nameless(f, dir, err)
                              : ft_fail(err, FT_NOMEM, "%s: no memory for a swap file", dir);
    if (status == FT_OK) status = take_room(f, err);
    if (status == FT_OK) status = measure(f, err);
    if (status == FT_OK)
        *out = f;
    else
        ft_swap_file_close(f);
    return status;
}

void ft_swap_file_close(ft_swap_file *f)
{
    if (!f) return;
    if (f->map) munmap(f->map, (size_t)f->bytes);
    if (f->fd >= 0) close(f->fd);
    ft_free(f->dir);
    ft_free(f);
}

char *ft_swap_file_at(const ft_swap_file *f, int64_t at)
{
    return f->map + at;
}

void ft_swap_file_rest(const ft_swap_file *f)
{
    (void)madvise(f->map, (size_t)f->bytes, MADV_DONTNEED);
}

double ft_swap_file_rate(const ft_swap_file *f)
{
    return f->rate;
}

/* Four lanes of words, each folded by a multiplication, so that it keeps up with copies. */
uint64_t ft_swap_file_sum(const void *bytes, int64_t n)
{
    enum { LANES = 4 };
    static const uint64_t prime = 0x9e3779b97f4a7c15u;
    uint64_t lane[LANES] = {1, 2, 3, 4}, word;
    const char *at = bytes;
    int64_t i = 0;
    for (; i + LANES * 8 <= n; i += LANES * 8)
        for (int k = 0; k < LANES; k++) {
            memcpy(&word, at + i + 8 * k, 8);
            lane[k] = (lane[k] ^ word) * prime;
            lane[k] ^= lane[k] >> 29;
        }
    for (; i < n; i++) lane[0] = (lane[0] ^ (unsigned char)at[i]) * prime;
    for (int k = 1; k < LANES; k++) lane[0] = (lane[0] ^ lane[k] ^ lane[k] >> 31) * prime;
    return lane[0] ^ lane[0] >> 32;
}

ft_status ft_swap_file_read(const ft_swap_file *f, int64_t at, void *to, int64_t n, uint64_t sum,
                            ft_error *err)
{
    FT_TRY(ft_pread_all(f->fd, to, n, at, f->dir, err));
    if (ft_swap_file_sum(to, n) == sum) return FT_OK;
    return ft_fail(err, FT_IO,
                   "%s: what was read from the swap file is not what was written there: the disk "
                   "or its memory is damaged",
                   f->dir);
}
