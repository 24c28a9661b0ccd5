/* test/test_io_files.c - writing: safetensors, whole files, directories, locks, a full disk. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "check.h"
#include "place.h"

static void write_and_read(void)
{
    place p = place_new();
    ft_error err = {0};
    float f[6] = {1, -0.0f, INFINITY, -INFINITY, NAN, 1e-42f}, g[6];
    int64_t whole[1] = {INT64_MIN}, whole_read[1];
    unsigned char bytes[3] = {0, 128, 255}, bytes_read[3];
    ft_named_view tensors[] = {
        {"b \"quoted\\\n\x1f\xe2\x96\x81", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(2, 3)}, f)},
        {"u", ft_view_of(&(ft_spec){FT_U8, ft_shape_of(3)}, bytes)},
        {"a", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(0, 3)}, f)},
        {"z", ft_view_of(&(ft_spec){FT_I64, {.n_dims = 0}}, whole)},
    };
    CHECK_STATUS(ft_safetensors_write(in(&p, "x.safetensors"), tensors, 4, &err), FT_OK);
    char *text;
    int64_t size;
    CHECK_STATUS(ft_file_read(p.path, &text, &size, &err), FT_OK);
    int64_t header = (unsigned char)text[0] + 256 * (unsigned char)text[1];
    CHECK(header % 8 == 0 && size == 8 + header + 8 + 24 + 3);
    CHECK(strncmp(text + 8, "{\"__metadata__\":{\"format\":\"pt\"},\"z\":", 36) == 0);
    CHECK(memcmp(text + 8 + header, whole, 8) == 0 && memcmp(text + 16 + header, f, 24) == 0);
    ft_free(text);

    ft_archive *archive;
    CHECK_STATUS(ft_archive_open(&archive, p.path, &err), FT_OK);
    void *targets[] = {g, bytes_read, g, whole_read};
    for (int i = 3; i >= 0; i--) {
        ft_view view = tensors[i].view;
        view.data = targets[i];
        int at = ft_archive_find(archive, tensors[i].name);
        CHECK_STATUS(ft_archive_read(archive, at, &view, &err), FT_OK);
    }
    CHECK(memcmp(f, g, sizeof f) == 0 && memcmp(bytes, bytes_read, 3) == 0);
    CHECK(whole_read[0] == INT64_MIN);
    ft_archive_close(archive);
    CHECK(place_free(&p) == 1);
}

/* Data is aligned whatever the header's length is. */
static void aligned_data(void)
{
    place p = place_new();
    ft_error err = {0};
    double number = 1;
    for (int n = 1; n <= 8; n++) {
        char name[9] = "aaaaaaaa";
        name[n] = 0;
        ft_named_view tensor = {name, ft_view_of(&(ft_spec){FT_F64, ft_shape_of(1)}, &number)};
        CHECK_STATUS(ft_safetensors_write(in(&p, "x"), &tensor, 1, &err), FT_OK);
        char *text;
        int64_t size;
        CHECK_STATUS(ft_file_read(p.path, &text, &size, &err), FT_OK);
        CHECK(size % 8 == 0 && memcmp(text + size - 8, &number, 8) == 0);
        ft_free(text);
    }
    CHECK(place_free(&p) == 1);
}

static void bad_writes(void)
{
    place p = place_new();
    ft_error err = {0};
    float f[4] = {0};
    ft_view view = ft_view_of(&(ft_spec){FT_F32, ft_shape_of(2, 2)}, f), turned = view;
    turned.strides[0] = 1;
    turned.strides[1] = 2;
    ft_named_view twice[] = {{"a", view}, {"b", view}, {"a", view}};
    CHECK_STATUS(ft_safetensors_write(in(&p, "x"), twice, 3, &err), FT_INVALID);
    CHECK(mentions(&err, "two tensors are named 'a'"));
    ft_named_view cases[] = {{"__metadata__", view}, {"\xff", view}, {"a", turned}};
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(ft_safetensors_write(p.path, &cases[i], 1, &err), FT_INVALID);
    CHECK_STATUS(ft_safetensors_write(in(&p, "no/such/x"), twice, 2, &err), FT_NOT_FOUND);
    CHECK_STATUS(ft_file_write(p.directory, "x", 1, &err), FT_IO); /* over a directory */
    CHECK_STATUS(ft_safetensors_write(in(&p, "x"), NULL, 0, &err), FT_OK);
    CHECK(place_free(&p) == 1);
}

/* What is laid out, and filled in from two sides, is what is written at once. */
static void filled_in_parts(void)
{
    place p = place_new();
    ft_error err = {0};
    float f[6] = {1, 2, 3, 4, 5, 6};
    unsigned char bytes[3] = {0, 128, 255};
    ft_named_view tensors[] =
        {
            {"u", ft_view_of(&(ft_spec){FT_U8, ft_shape_of(3)}, bytes)},
            {"b", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(2, 3)}, f)},
            {"empty", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(0, 3)}, f)},
            {"a", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(2)}, f)},
        },
                  bare[4];
    const int64_t sizes[] = {3, 24, 0, 8};
    int64_t at[4], size, other_size;
    for (int i = 0; i < 4; i++) {
        bare[i] = tensors[i];
        bare[i].view.data = NULL;
    }
    char *whole, *parts, path[512];
    CHECK_STATUS(ft_safetensors_write(in(&p, "whole"), tensors, 4, &err), FT_OK);
    CHECK_STATUS(ft_file_read(p.path, &whole, &size, &err), FT_OK);
    CHECK_STATUS(ft_safetensors_lay_out(in(&p, "parts"), bare, 4, at, &err), FT_OK);
    snprintf(path, sizeof path, "%s", p.path);
    for (int side = 0; side < 2; side++) {
        ft_filler file;
        CHECK_STATUS(ft_filler_open(&file, path, &err), FT_OK);
        for (int i = side; i < 4; i += 2)
            CHECK_STATUS(ft_filler_add(&file, tensors[i].view.data, sizes[i], at[i], &err), FT_OK);
        CHECK_STATUS(ft_filler_sync(&file, &err), FT_OK);
        ft_filler_close(&file);
    }
    CHECK_STATUS(ft_file_read(path, &parts, &other_size, &err), FT_OK);
    CHECK(size == other_size && memcmp(parts, whole, (size_t)size) == 0);
    ft_free(whole);
    ft_free(parts);
    CHECK(place_free(&p) == 2);
}

static void marks(void)
{
    place p = place_new();
    ft_error err = {0};
    char mark[FT_MARK_BYTES], other[FT_MARK_BYTES];
    CHECK_STATUS(ft_file_write(in(&p, "x"), "x", 1, &err), FT_OK);
    CHECK(!ft_mark_is(p.path, ""));
    CHECK_STATUS(ft_mark_set(p.path, other, &err), FT_OK);
    CHECK_STATUS(ft_mark_set(p.path, mark, &err), FT_OK);
    CHECK(strlen(mark) == FT_MARK_BYTES - 1 && strcmp(mark, other) != 0);
    CHECK(ft_mark_is(p.path, mark) && !ft_mark_is(p.path, other));
    CHECK(unlink(p.path) == 0 && !ft_mark_is(p.path, mark)); /* it alone is there */
    ft_mark_remove(p.path);
    CHECK(!ft_mark_is(p.path, mark));
    CHECK_STATUS(ft_mark_set(in(&p, "no/such/x"), mark, &err), FT_NOT_FOUND);
    CHECK(place_free(&p) == 0);
}

/* Writes n numbers, all but the last of them x; the mark of that file. */
static void write_marked(const char *path, int64_t n, float x, float last, char *mark)
{
    ft_error err = {0};
    ft_archive *archive;
    float *data = ft_alloc(n * (int64_t)sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = x;
    data[n - 1] = last;
    ft_named_view tensor = {"w", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(n)}, data)};
    CHECK_STATUS(ft_safetensors_write(path, &tensor, 1, &err), FT_OK);
    ft_free(data);
    if (!CHECK_STATUS(ft_archive_open(&archive, path, &err), FT_OK)) return;
    CHECK_STATUS(ft_archive_mark(archive, mark, &err), FT_OK);
    CHECK(strlen(mark) == FT_MARK_BYTES - 1);
    ft_archive_close(archive);
}

/* Archives with the same bytes have the same mark, wherever they are. */
static void archive_marks(void)
{
    place p = place_new();
    char one[FT_MARK_BYTES], other[FT_MARK_BYTES];
    for (int64_t n = 10; n < 1000000; n *= 100) { /* a file below what is looked at, and above */
        write_marked(in(&p, "a"), n, 1, 2, one);
        write_marked(in(&p, "b"), n, 1, 2, other);
        CHECK(strcmp(one, other) == 0);
        write_marked(in(&p, "b"), n, 1, 3, other);
        CHECK(strcmp(one, other) != 0);
        write_marked(in(&p, "b"), n, 3, 2, other);
        CHECK(strcmp(one, other) != 0);
        write_marked(in(&p, "b"), n + 1, 1, 2, other);
        CHECK(strcmp(one, other) != 0);
    }
    CHECK(place_free(&p) == 2);
}

/* A disk that is full, played by a limit on the size of files. */
static void full_disk(void)
{
    place p = place_new();
    ft_error err = {0};
    static float big[1 << 15];
    ft_named_view tensor = {"w", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(1 << 15)}, big)};
    CHECK_STATUS(ft_file_write(in(&p, "x"), "old", 3, &err), FT_OK);
    CHECK(chmod(p.path, 0640) == 0);
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){4096, old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK_STATUS(ft_file_write(p.path, big, sizeof big, &err), FT_IO);
    CHECK(mentions(&err, "cannot write"));
    CHECK_STATUS(ft_safetensors_write(p.path, &tensor, 1, &err), FT_IO);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    char *text;
    int64_t size;
    CHECK_STATUS(ft_file_read(p.path, &text, &size, &err), FT_OK);
    CHECK(size == 3 && strcmp(text, "old") == 0);
    ft_free(text);
    CHECK_STATUS(ft_file_write(p.path, "newer", 5, &err), FT_OK);
    struct stat info;
    CHECK(stat(p.path, &info) == 0 && info.st_size == 5 && (info.st_mode & 0777) == 0640);
    CHECK(place_free(&p) == 1); /* and nothing beside it */
}

static void whole_files(void)
{
    place p = place_new();
    ft_error err = {0};
    char *text, path[600];
    int64_t size;
    CHECK_STATUS(ft_file_read(in(&p, "x"), &text, &size, &err), FT_NOT_FOUND);
    CHECK(!text && mentions(&err, "cannot open"));
    CHECK_STATUS(ft_file_read(p.directory, &text, &size, &err), FT_IO);
    CHECK_STATUS(ft_file_write(in(&p, "none/x"), "x", 1, &err), FT_NOT_FOUND);
    CHECK(mentions(&err, "none/x: cannot create") && !mentions(&err, "tmp-") &&
          !mentions(&err, ".tmp:"));
    CHECK_STATUS(ft_link_set(in(&p, "none/l"), "x", &err), FT_NOT_FOUND);
    CHECK(mentions(&err, "none/l: cannot make link"));
    CHECK_STATUS(ft_file_write(in(&p, "x"), "a\0b", 3, &err), FT_OK);
    CHECK_STATUS(ft_file_read(p.path, &text, &size, &err), FT_OK);
    CHECK(size == 3 && memcmp(text, "a\0b", 4) == 0);
    ft_free(text);
    CHECK_STATUS(ft_file_read("/proc/self/maps", &text, &size, &err), FT_OK); /* tells no size */
    CHECK(size > 0 && strlen(text) == (size_t)size);
    ft_free(text);
    CHECK_STATUS(ft_dir_make(in(&p, "x/y"), &err), FT_IO); /* x is a file */
    CHECK_STATUS(ft_dir_make(in(&p, "x"), &err), FT_IO);
    CHECK_STATUS(ft_dir_make("", &err), FT_NOT_FOUND);
    snprintf(path, sizeof path, "%s/d//e/", p.directory);
    CHECK_STATUS(ft_dir_make(path, &err), FT_OK);
    CHECK_STATUS(ft_dir_make(path, &err), FT_OK);
    struct stat info;
    CHECK(stat(path, &info) == 0 && S_ISDIR(info.st_mode) && rmdir(path) == 0);
    CHECK(place_free(&p) == 2);
}

/* A directory takes the place of another in one step; the other one is left in its old place. */
static void exchanged_directories(void)
{
    place p = place_new();
    ft_error err = {0};
    char from[600], to[600], file[640];
    snprintf(from, sizeof from, "%s/new", p.directory);
    snprintf(to, sizeof to, "%s/run", p.directory);
    CHECK_STATUS(ft_dir_exchange(from, to, &err), FT_NOT_FOUND);
    for (int round = 0; round < 2; round++) { /* onto nothing, onto a directory */
        CHECK_STATUS(ft_dir_make(from, &err), FT_OK);
        snprintf(file, sizeof file, "%s/%d", from, round);
        CHECK_STATUS(ft_file_write(file, "x", 1, &err), FT_OK);
        CHECK_STATUS(ft_dir_exchange(from, to, &err), FT_OK);
        snprintf(file, sizeof file, "%s/%d", to, round);
        CHECK(access(file, F_OK) == 0);
        CHECK((access(from, F_OK) == 0) == (round == 1));
    }
    CHECK(unlink(file) == 0);
    snprintf(file, sizeof file, "%s/0", from);
    CHECK(unlink(file) == 0);
    CHECK(place_free(&p) == 2);
}

/* A link is there, pointing to the old or the new, at any moment. */
static void links(void)
{
    place p = place_new();
    ft_error err = {0};
    char path[600], target[64];
    int64_t bytes = 0;
    snprintf(path, sizeof path, "%s/latest", p.directory);
    CHECK_STATUS(ft_link_read(path, target, sizeof target, &err), FT_NOT_FOUND);
    CHECK_STATUS(ft_link_set(path, "step-1", &err), FT_OK);
    CHECK_STATUS(ft_link_set(path, "step-20", &err), FT_OK);
    CHECK_STATUS(ft_link_read(path, target, sizeof target, &err), FT_OK);
    CHECK(!strcmp(target, "step-20"));
    CHECK_STATUS(ft_link_read(path, target, 7, &err), FT_IO);
    CHECK_STATUS(ft_dir_sync(p.directory, &err), FT_OK);
    CHECK_STATUS(ft_dir_sync(path, &err), FT_NOT_FOUND);
    CHECK_STATUS(ft_disk_free(p.directory, &bytes, &err), FT_OK);
    CHECK(bytes > 0);
    CHECK_STATUS(ft_disk_free(path, &bytes, &err), FT_NOT_FOUND);
    CHECK(unlink(path) == 0);
    CHECK_STATUS(ft_dir_make(path, &err), FT_OK);
    CHECK_STATUS(ft_link_set(path, "step-1", &err), FT_IO); /* a directory stays */
    CHECK_STATUS(ft_link_read(path, target, sizeof target, &err), FT_NOT_FOUND);
    CHECK(rmdir(path) == 0);
    CHECK(place_free(&p) == 0);
}

/* What another process finds: whether it gets the lock (exit 0), and who has it (1: this one). */
static int try_elsewhere(const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        ft_lock *lock;
        int64_t holder;
        ft_status status = ft_lock_take(&lock, path, &holder, NULL);
        _exit(status != FT_OK ? 3 : lock ? 0 : holder == getppid() ? 1 : 2);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What another process sees when it only looks: 0 no lock, 1 one of this process. */
static int look_elsewhere(const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        bool held;
        int64_t holder;
        ft_status status = ft_lock_look(path, &held, &holder, NULL);
        _exit(status != FT_OK ? 3 : !held ? 0 : holder == getppid() ? 1 : 2);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void locks(void)
{
    place p = place_new();
    ft_error err = {0};
    ft_lock *lock;
    int64_t holder;
    bool held;
    CHECK_STATUS(ft_lock_look(in(&p, "lock"), &held, &holder, &err), FT_OK);
    CHECK(!held && access(p.path, F_OK) != 0); /* it is not made */
    CHECK_STATUS(ft_lock_take(&lock, p.path, &holder, &err), FT_OK);
    CHECK(lock && holder == 0);
    CHECK(chmod(p.path, 0444) == 0);
    CHECK(look_elsewhere(p.path) == 1);
    CHECK(chmod(p.path, 0644) == 0);
    CHECK(try_elsewhere(p.path) == 1);
    ft_lock_free(lock);
    CHECK(look_elsewhere(p.path) == 0);
    CHECK(try_elsewhere(p.path) == 0);
    CHECK(try_elsewhere(p.path) == 0); /* the one before it ended without giving it back */
    CHECK_STATUS(ft_lock_take(&lock, in(&p, "no/lock"), &holder, &err), FT_NOT_FOUND);
    CHECK(!lock && mentions(&err, "cannot open"));
    ft_lock_free(lock);
    CHECK(place_free(&p) == 1);
}

/* Stands before libc's: a signal comes so many times before there is room. */
static int signals;

int posix_fallocate(int fd, off_t from, off_t n)
{
    if (signals > 0) {
        signals--;
        return EINTR;
    }
    return ftruncate(fd, from + n) ? errno : 0;
}

static void swap_files_while_signals_come(void)
{
    place p = place_new();
    ft_error err = {0};
    ft_swap_file *file = NULL;
    signals = 3;
    CHECK_STATUS(ft_swap_file_open(&file, p.directory, 100, &err), FT_OK);
    CHECK(signals == 0);
    ft_swap_file_close(file);
    signals = 0;
    CHECK(place_free(&p) == 0);
}

/* What was written is read; nothing else is, and a file has its room from the beginning. */
static void swap_files(void)
{
    enum { N = 5000 };
    place p = place_new();
    ft_error err = {0};
    ft_swap_file *file = NULL;
    char from[N], to[N];
    for (int i = 0; i < N; i++) from[i] = (char)(i * i % 251);
    if (CHECK_STATUS(ft_swap_file_open(&file, p.directory, 3 * N, &err), FT_OK)) {
        uint64_t sum = ft_swap_file_sum(from, N);
        CHECK(ft_swap_file_rate(file) > 0 && ft_swap_file_at(file, 2 * N)[N - 1] == 0);
        CHECK_STATUS(ft_swap_file_write(file, N, from, N, &err), FT_OK);
        CHECK(memcmp(ft_swap_file_at(file, N), from, N) == 0);
        ft_swap_file_rest(file);
        CHECK_STATUS(ft_swap_file_read(file, N, to, N, sum, &err), FT_OK);
        CHECK(memcmp(from, to, N) == 0);
        for (int i = 0; i < N; i += 7) { /* any byte, and any order of them */
            ft_swap_file_at(file, N)[i] ^= 1;
            CHECK_STATUS(ft_swap_file_read(file, N, to, N, sum, &err), FT_IO);
            ft_swap_file_at(file, N)[i] ^= 1;
        }
        CHECK(mentions(&err, "is not what was written there"));
        CHECK_STATUS(ft_swap_file_read(file, 3 * N, to, N, sum, &err), FT_IO);
        char *half = ft_swap_file_at(file, N);
        memcpy(half, from + 32, 32);
        memcpy(half + 32, from, 32);
        CHECK_STATUS(ft_swap_file_read(file, N, to, N, sum, &err), FT_IO);
    }
    ft_swap_file_close(file);
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){4096, old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK_STATUS(ft_swap_file_open(&file, p.directory, 3 * N, &err), FT_IO);
    ft_error said = err;
    CHECK(!file && mentions(&err, "no room for 0.0 MB of state"));
    CHECK_STATUS(ft_swap_room(p.directory, (int64_t[]){4096, 4096}, 2, &err), FT_OK);
    CHECK_STATUS(ft_swap_room(p.directory, (int64_t[]){4096, 3 * N}, 2, &err), FT_IO);
    CHECK(!strcmp(said.message, err.message));
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    int64_t left = 0;
    CHECK_STATUS(ft_disk_free(p.directory, &left, &err), FT_OK);
    CHECK_STATUS(ft_swap_room(p.directory, (int64_t[]){left / 4, left / 4}, 2, &err), FT_OK);
    int64_t more = left - left / 8; /* each alone has room, and others may use the disk now */
    CHECK_STATUS(ft_swap_room(p.directory, (int64_t[]){left / 2, more}, 2, &err), FT_IO);
    CHECK(mentions(&err, " of state: No space left on device"));
    CHECK_STATUS(ft_swap_file_open(&file, in(&p, "none"), N, &err), FT_NOT_FOUND);
    CHECK(place_free(&p) == 0); /* nothing is left there */
}

/* What is compressed has head and length of a gzip file; spec/trace reads it again. */
static void compressed(void)
{
    ft_error err = {0};
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 7);
    void *out;
    int64_t n;
    CHECK_STATUS(ft_gzip(text, sizeof text, &out, &n, &err), FT_OK);
    CHECK(n > 20 && n < 200 && memcmp(out, "\x1f\x8b\x08", 3) == 0);
    CHECK(memcmp((char *)out + n - 4, "\xa0\x0f\0\0", 4) == 0);
    ft_free(out);
    int64_t live = ft_alloc_live(), failed = 0;
    for (ft_status status = FT_NOMEM; status != FT_OK; failed++) {
        ft_alloc_fail_after(failed + 1);
        status = ft_gzip(text, sizeof text, &out, &n, &err);
        ft_alloc_fail_after(0);
        CHECK(status == FT_OK || (status == FT_NOMEM && !out && ft_alloc_live() == live));
    }
    CHECK(failed > 3);
    ft_free(out);
    CHECK_STATUS(ft_gzip(text, INT64_MAX, &out, &n, &err), FT_INVALID);
}

int main(void)
{
    RUN(swap_files);
    RUN(swap_files_while_signals_come);
    RUN(write_and_read);
    RUN(aligned_data);
    RUN(bad_writes);
    RUN(filled_in_parts);
    RUN(marks);
    RUN(archive_marks);
    RUN(full_disk);
    RUN(whole_files);
    RUN(exchanged_directories);
    RUN(links);
    RUN(locks);
    RUN(compressed);
    return check_report();
}
