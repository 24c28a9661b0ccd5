/* io/lock.c - one process at a time.
 *
 * Locks of POSIX belong to processes: the kernel takes them back when one ends, however it ends,
 * and says which process has one. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/internal.h"

struct ft_lock {
    int fd;
    bool guards; /* the file system has locks */
};

static bool is_held(int code)
{
    return code == EACCES || code == EAGAIN;
}

static bool has_no_locks(int code)
{
    return code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP || code == EINVAL;
}

/* Whether another process has a lock of the file, and which; 0 where that is not known. */
static bool find_holder(int fd, int64_t *holder)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *holder = 0;
    if (fcntl(fd, F_GETLK, &whole) != 0 || whole.l_type == F_UNLCK) return false;
    if (whole.l_pid > 0) *holder = whole.l_pid;
    return true;
}

/* Locks the whole file; *taken tells whether. *holder stays 0 when it is given back meanwhile. */
static ft_status lock_whole(ft_lock *lock, const char *path, bool *taken, int64_t *holder,
                            ft_error *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    lock->guards = fcntl(lock->fd, F_SETLK, &whole) == 0;
    *taken = lock->guards || has_no_locks(errno);
    if (*taken) return FT_OK;
    if (!is_held(errno)) return ft_errno_fail(err, path, "cannot lock");
    find_holder(lock->fd, holder);
    return FT_OK;
}

ft_status ft_lock_take(ft_lock **out, const char *path, int64_t *holder, ft_error *err)
{
    *out = NULL;
    *holder = 0;
    ft_lock *lock = ft_alloc(sizeof *lock);
    if (!lock) return ft_fail(err, FT_NOMEM, "%s: no memory for a lock", path);
    bool taken = false;
    lock->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    ft_status status = lock->fd >= 0 ? lock_whole(lock, path, &taken, holder, err)
                                     : ft_errno_fail(err, path, "cannot open");
    if (taken)
        *out = lock;
    else
        ft_lock_free(lock);
    return status;
}

ft_status ft_lock_look(const char *path, bool *held, int64_t *holder, ft_error *err)
{
    *held = false;
    *holder = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? FT_OK : ft_errno_fail(err, path, "cannot open");
    *held = find_holder(fd, holder);
    close(fd);
    return FT_OK;
}

bool ft_lock_guards(const ft_lock *lock)
{
    return lock->guards;
}

void ft_lock_free(ft_lock *lock)
{
    if (!lock) return;
    if (lock->fd >= 0) close(lock->fd);
    ft_free(lock);
}
