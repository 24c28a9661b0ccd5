/* io/fill.c - a file that several processes write: one lays it out (write.c), each fills in what it
 * has.
 *
 * A mark beside the file says to whom its path means the same file: machines that share nothing may
 * have equal paths. */
#include "io/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/internal.h"

ft_status ft_filler_open(ft_filler *out, const char *path, ft_error *err)
{
    *out = (ft_filler){open(path, O_WRONLY | O_CLOEXEC), path};
    return out->fd < 0 ? ft_errno_fail(err, path, "cannot open") : FT_OK;
}

ft_status ft_filler_add(const ft_filler *filler, const void *bytes, int64_t n, int64_t at,
                        ft_error *err)
{
    if (lseek(filler->fd, at, SEEK_SET) < 0)
        return ft_errno_fail(err, filler->path, "cannot write");
    return ft_write_all(filler->fd, bytes, n, filler->path, err);
}

ft_status ft_filler_sync(const ft_filler *filler, ft_error *err)
{
    return fsync(filler->fd) == 0 ? FT_OK : ft_errno_fail(err, filler->path, "cannot sync");
}

void ft_filler_close(ft_filler *filler)
{
    if (filler->fd >= 0) close(filler->fd);
    filler->fd = -1;
}

/* -- marks ------------------------------------------------------------------------------------- */

void ft_mark_text(const unsigned char bytes[(FT_MARK_BYTES - 1) / 2], char mark[FT_MARK_BYTES])
{
    for (int i = 0; i < (FT_MARK_BYTES - 1) / 2; i++) snprintf(mark + 2 * i, 3, "%02x", bytes[i]);
}

/* For ft_free; NULL without memory. */
static char *name_mark(const char *path)
{
    int64_t size = (int64_t)strlen(path) + 8;
    char *name = ft_alloc(size);
    if (name) snprintf(name, (size_t)size, "%s.mark", path);
    return name;
}

ft_status ft_mark_set(const char *path, char mark[FT_MARK_BYTES], ft_error *err)
{
    unsigned char random[(FT_MARK_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return ft_errno_fail(err, path, "there are no random numbers for its mark");
    ft_mark_text(random, mark);
    char *name = name_mark(path);
    if (!name) return ft_fail(err, FT_NOMEM, "%s: no memory for its mark", path);
    ft_status status = ft_file_write(name, mark, FT_MARK_BYTES - 1, err);
    ft_free(name);
    return status;
}

void ft_mark_remove(const char *path)
{
    char *name = name_mark(path);
    if (name) unlink(name);
    ft_free(name);
}

bool ft_mark_is(const char *path, const char *mark)
{
    char *name = name_mark(path), *text = NULL;
    int64_t size = 0;
    bool is = name && ft_file_read(name, &text, &size, NULL) == FT_OK && strcmp(text, mark) == 0 &&
              access(path, W_OK) == 0;
    ft_free(text);
    ft_free(name);
    return is;
}
