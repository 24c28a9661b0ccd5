/* io/directory.c - directories, links, and the room on a disk.
 *
 * What a rename or a new name changes is in the directory, which is synced too: after a power cut
 * either the old entry is there or the new one. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/internal.h"

char *ft_copy_text(const char *text)
{
    int64_t n = (int64_t)strlen(text) + 1;
    char *copy = ft_alloc(n);
    if (copy) memcpy(copy, text, (size_t)n);
    return copy;
}

/* Some file systems have nothing to sync, and some directories may not be opened. */
static ft_status sync_directory(const char *directory, const char *path, ft_error *err)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
    ft_status status = FT_OK;
    if (!synced && !(fd < 0 && errno == EACCES))
        status = ft_errno_fail(err, path, "written, but its directory cannot be synced");
    if (fd >= 0) close(fd);
    return status;
}

ft_status ft_sync_parent(const char *path, ft_error *err)
{
    char *directory = ft_copy_text(path);
    if (!directory) return ft_fail(err, FT_NOMEM, "%s: no memory for its name", path);
    char *slash = strrchr(directory, '/');
    if (slash) slash[slash == directory ? 1 : 0] = 0;
    ft_status status = sync_directory(slash ? directory : ".", path, err);
    ft_free(directory);
    return status;
}

ft_status ft_dir_sync(const char *path, ft_error *err)
{
    return sync_directory(path, path, err);
}

/* Makes one directory; one that is there already is fine. */
static ft_status make_one(const char *path, ft_error *err)
{
    if (mkdir(path, 0777) == 0) return FT_OK;
    int code = errno;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return FT_OK;
    errno = code;
    return ft_errno_fail(err, path, "cannot make directory");
}

ft_status ft_dir_make(const char *path, ft_error *err)
{
    char *part = ft_copy_text(path);
    if (!part) return ft_fail(err, FT_NOMEM, "%s: no memory for its name", path);
    ft_status status = FT_OK;
    for (char *p = part + 1; part[0] && *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        FT_GO(make_one(part, err));
        *p = '/';
    }
    FT_GO(make_one(part, err));
done:
    ft_free(part);
    return status;
}

ft_status ft_dir_exchange(const char *from, const char *to, ft_error *err)
{
    struct stat info;
    unsigned flags = lstat(to, &info) == 0 ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) == 0) return ft_sync_parent(to, err);
    if (errno != EINVAL && errno != ENOSYS) return ft_errno_fail(err, to, "cannot replace");
    /* Not every file system exchanges; there an old directory has to be out of the way first. */
    if (flags == RENAME_EXCHANGE)
        return ft_fail(err, FT_UNSUPPORTED,
                       "%s: its file system cannot replace a directory, remove it first", to);
    if (rename(from, to) != 0) return ft_errno_fail(err, to, "cannot replace");
    return ft_sync_parent(to, err);
}

ft_status ft_link_set(const char *path, const char *target, ft_error *err)
{
    int64_t size = (int64_t)strlen(path) + 32;
    char *beside = ft_alloc(size);
    if (!beside) return ft_fail(err, FT_NOMEM, "%s: no memory for its name", path);
    snprintf(beside, (size_t)size, "%s.tmp-%ld", path, (long)getpid());
    unlink(beside); /* of an earlier process with this number */
    ft_status status = FT_OK;
    if (symlink(target, beside) != 0)
        status = ft_errno_fail(err, path, "cannot make link");
    else if (rename(beside, path) != 0) {
        status = ft_errno_fail(err, path, "cannot replace");
        unlink(beside);
    } else
        status = ft_sync_parent(path, err);
    ft_free(beside);
    return status;
}

ft_status ft_link_read(const char *path, char *out, int64_t size, ft_error *err)
{
    ssize_t n = readlink(path, out, (size_t)size);
    if (n < 0 && errno == EINVAL) return ft_fail(err, FT_NOT_FOUND, "%s: is not a link", path);
    if (n < 0) return ft_errno_fail(err, path, "cannot read link");
    if (n >= size)
        return ft_fail(err, FT_IO, "%s: links to a name of more than %lld bytes", path,
                       (long long)size - 1);
    out[n] = 0;
    return FT_OK;
}

ft_status ft_disk_free(const char *path, int64_t *bytes, ft_error *err)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0) return ft_errno_fail(err, path, "cannot look at its disk");
    *bytes = (int64_t)info.f_bavail * (int64_t)info.f_frsize;
    return FT_OK;
}
