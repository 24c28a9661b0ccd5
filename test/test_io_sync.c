/* test/test_io_sync.c - what is asked of the file system, and in which order.
 *
 * Files are synced before they get their names, directories after; a file system without locks; the
 * room on a disk. The C library's functions stand here, so that this program's room calls these. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "place.h"

static char seen[64];  /* f: a file was synced, d: a directory, r: something was renamed */
static int lock_fault; /* errno of taking a lock, 0: as it is */
static int sync_fault;

static void note(char what)
{
    size_t n = strlen(seen);
    if (n + 1 < sizeof seen) seen[n] = what;
}

int fsync(int fd)
{
    struct stat info;
    note(fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) ? 'd' : 'f');
    errno = sync_fault;
    return sync_fault ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    note('r');
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    note('r');
    return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (command == F_SETLK && lock_fault) {
        errno = lock_fault;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int statvfs(const char *restrict path, struct statvfs *restrict info)
{
    (void)path;
    *info = (struct statvfs){.f_bsize = 7, .f_frsize = 4096, .f_bfree = 900, .f_bavail = 500};
    return 0;
}

/* Whether exactly these were seen since the last time. */
static bool was(const char *wanted)
{
    bool same = strcmp(seen, wanted) == 0;
    if (!same) fprintf(stderr, "seen '%s', expected '%s'\n", seen, wanted);
    memset(seen, 0, sizeof seen);
    return same;
}

static void order(void)
{
    place p = place_new();
    ft_error err = {0};
    float number = 1;
    ft_named_view tensor = {"w", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(1)}, &number)};
    char from[600], to[600];
    CHECK_STATUS(ft_file_write(in(&p, "x"), "text", 4, &err), FT_OK);
    CHECK(was("frd"));
    CHECK_STATUS(ft_safetensors_write(in(&p, "w"), &tensor, 1, &err), FT_OK);
    CHECK(was("frd"));
    int64_t at;
    ft_filler file;
    CHECK_STATUS(ft_safetensors_lay_out(p.path, &tensor, 1, &at, &err), FT_OK);
    CHECK(was("frd"));
    CHECK_STATUS(ft_filler_open(&file, p.path, &err), FT_OK);
    CHECK_STATUS(ft_filler_add(&file, &number, sizeof number, at, &err), FT_OK);
    CHECK_STATUS(ft_filler_sync(&file, &err), FT_OK);
    CHECK(was("f"));
    sync_fault = EIO;
    CHECK_STATUS(ft_filler_sync(&file, &err), FT_IO);
    CHECK(mentions(&err, "cannot sync") && was("f"));
    sync_fault = 0;
    ft_filler_close(&file);
    CHECK_STATUS(ft_link_set(in(&p, "latest"), "x", &err), FT_OK);
    CHECK(was("rd"));
    CHECK_STATUS(ft_dir_sync(p.directory, &err), FT_OK);
    CHECK(was("d"));
    snprintf(from, sizeof from, "%s/new", p.directory);
    snprintf(to, sizeof to, "%s/run", p.directory);
    for (int i = 0; i < 2; i++) { /* onto nothing, onto a directory */
        CHECK(mkdir(from, 0777) == 0);
        CHECK_STATUS(ft_dir_exchange(from, to, &err), FT_OK);
        CHECK(was("rd"));
    }
    CHECK(rmdir(from) == 0 && rmdir(to) == 0);
    CHECK(place_free(&p) == 3);
}

/* A file that cannot be synced does not get its name. */
static void refused(void)
{
    place p = place_new();
    ft_error err = {0};
    sync_fault = EIO;
    CHECK_STATUS(ft_file_write(in(&p, "x"), "text", 4, &err), FT_IO);
    CHECK(mentions(&err, "cannot sync") && was("f"));
    CHECK_STATUS(ft_dir_sync(p.directory, &err), FT_IO);
    CHECK(mentions(&err, "cannot be synced") && was("d"));
    sync_fault = EINVAL; /* a file system that has nothing to sync */
    CHECK_STATUS(ft_dir_sync(p.directory, &err), FT_OK);
    sync_fault = 0;
    CHECK(place_free(&p) == 0);
}

static void no_locks(void)
{
    place p = place_new();
    ft_error err = {0};
    ft_lock *lock;
    int64_t holder;
    static const int faults[] = {0, ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL};
    for (int i = 0; i < 5; i++) {
        lock_fault = faults[i];
        CHECK_STATUS(ft_lock_take(&lock, in(&p, "lock"), &holder, &err), FT_OK);
        CHECK(lock && holder == 0 && ft_lock_guards(lock) == (i == 0));
        ft_lock_free(lock);
    }
    lock_fault = EIO;
    CHECK_STATUS(ft_lock_take(&lock, p.path, &holder, &err), FT_IO);
    CHECK(!lock && mentions(&err, "cannot lock"));
    lock_fault = 0;
    CHECK(place_free(&p) == 1);
}

/* What a user may still fill, which is less than what is free. */
static void room(void)
{
    ft_error err = {0};
    int64_t bytes = 0;
    CHECK_STATUS(ft_disk_free("/", &bytes, &err), FT_OK);
    CHECK(bytes == (int64_t)500 * 4096);
}

int main(void)
{
    RUN(order);
    RUN(refused);
    RUN(no_locks);
    RUN(room);
    return check_report();
}
