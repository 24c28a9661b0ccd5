/* test/test_io_torch_old.c - pytorch_model.bin as PyTorch wrote it before version 1.6: what is
 * read, what is refused, damaged files. */
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "no_memory.h"

#include "io/pickle.h"
#include "place.h"

/* Its parts, as torch.save writes them with _use_new_zipfile_serialization=False: two tensors, of
 * which "w" is elements 1 to 4 of a storage of six floats, transposed, and "n" is three integers.
 * Literals end where a digit would belong to the escape before it. */
#define START   "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."
#define VERSION "\x80\x02M\xe9\x03."
#define MACHINE                                                                                    \
    "\x80\x02}q\0(X\x10\0\0\0protocol_versionq\1M\xe9\x03X\x0d\0\0\0little_endianq\2\x88"          \
    "X\x0a\0\0\0type_sizesq\3}q\4(X\5\0\0\0shortq\5K\2X\3\0\0\0intq\6K\4X\4\0\0\0longq\7K\4uu."
#define STATE                                                                                      \
    "\x80\x02}q\0(X\1\0\0\0wq\1ctorch._utils\n_rebuild_tensor_v2\nq\2((X\7\0\0\0storageq\3"        \
    "ctorch\nFloatStorage\nq\4X\2\0\0\0"                                                           \
    "77q\5X\3\0\0\0cpuq\6K\6Ntq\7QK\1K\2K\2\x86q\x08K\1K\2\x86q\x09\x89"                           \
    "ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0dX\1\0\0\0nq\x0eh\2((h\3"                   \
    "ctorch\nLongStorage\nq\x0fX\2\0\0\0"                                                          \
    "12q\x10h\6K\3Ntq\x11QK\0K\3\x85q\x12K\1\x85q\x13\x89h\x0a)Rq\x14tq\x15Rq\x16u."
#define KEYS                                                                                       \
    "\x80\x02]q\0(X\2\0\0\0"                                                                       \
    "12q\1X\2\0\0\0"                                                                               \
    "77q\2e."
#define LONGS                                                                                      \
    "\3\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0"                                                             \
    "\xff\xff\xff\xff\xff\xff\xff\xff\7\0\0\0\0\0\0\0"
#define FLOATS                                                                                     \
    "\6\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40"                                               \
    "\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40"

static const char whole[] = START VERSION MACHINE STATE KEYS LONGS FLOATS;
enum { N = sizeof whole - 1 };

static ft_status open_bytes(ft_archive **out, const char *bytes, int n, ft_error *err)
{
    return ft_archive_load(out, bytes, n, "model.bin", err);
}

static void reads_tensors(void)
{
    ft_error err = {0};
    ft_archive *archive;
    float w[4] = {0};
    int64_t n[3] = {0};
    ft_spec spec_w = {FT_F32, ft_shape_of(2, 2)}, spec_n = {FT_I64, ft_shape_of(3)};
    ft_view view_w = ft_view_of(&spec_w, w), view_n = ft_view_of(&spec_n, n);
    if (!CHECK_STATUS(open_bytes(&archive, whole, N, &err), FT_OK)) {
        fprintf(stderr, "%s\n", err.message);
        return;
    }
    CHECK(ft_archive_count(archive) == 2);
    CHECK_STATUS(ft_archive_read(archive, ft_archive_find(archive, "w"), &view_w, &err), FT_OK);
    CHECK_STATUS(ft_archive_read(archive, ft_archive_find(archive, "n"), &view_n, &err), FT_OK);
    CHECK(w[0] == 1 && w[1] == 3 && w[2] == 2 && w[3] == 4);
    CHECK(n[0] == 5 && n[1] == -1 && n[2] == 7);
    ft_archive_close(archive);
}

static void refuses(void)
{
    static const struct {
        const char *text; /* in the file */
        int n, skip;      /* its length; the byte behind it that is changed */
        char byte;
        ft_status status;
        const char *words;
    } rows[] = {
        {VERSION, 6, -2, 4, FT_FORMAT, "its version is not 1001"},
        {"endianq\2\x88", 9, -1, (char)0x89, FT_UNSUPPORTED, "its numbers are big-endian"},
        {"little_e", 8, -1, 'x', FT_FORMAT, "its third pickle: opcode 0x2e at byte"},
        {"little_e", 8, -1, 'x', FT_FORMAT, "does not say 'little_endian'"},
        {"torch._", 7, -7, 'x', FT_FORMAT, "its fourth pickle: opcode 0x63 at byte"},
        {"K\6N", 3, -1, '}', FT_FORMAT, "a reference to a storage is not in the form"},
        {"K\2K\2", 4, -1, 4, FT_FORMAT, "'w' reaches past its storage of 24 bytes"},
        {"]q\0", 3, -3, '}', FT_FORMAT, "its fifth pickle"},
        {"77q\2", 4, -3, '8', FT_FORMAT, "no tensor is in storage 78"},
        {"LongStorage\nq\x0fX\2\0\0\0"
         "12",
         21, -1, '3', FT_FORMAT, "no tensor is in storage 12"},
        {FLOATS, 8, -8, 7, FT_FORMAT, "it ends within storage 77"},
        {LONGS, 8, -1, (char)0x80, FT_FORMAT, "it ends within storage 12"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char bytes[N];
        ft_error err = {0};
        ft_archive *archive;
        int at = find_bytes(whole, N, rows[i].text, rows[i].n) + rows[i].n + rows[i].skip;
        memcpy(bytes, whole, N);
        bytes[at] = rows[i].byte;
        CHECK_STATUS(open_bytes(&archive, bytes, N, &err), rows[i].status);
        if (!CHECK(mentions(&err, rows[i].words))) fprintf(stderr, "%s\n", err.message);
        ft_archive_close(archive);
    }
}

/* Keys twice, or not at all. */
static void refuses_other_lists(void)
{
    static const char twice[] = START VERSION MACHINE STATE "\x80\x02]q\0(X\2\0\0\0"
                                                            "12q\1X\2\0\0\0"
                                                            "12q\2e." LONGS LONGS;
    static const char one[] = START VERSION MACHINE STATE "\x80\x02]q\0X\2\0\0\0"
                                                          "12q\1a." LONGS;
    ft_error err = {0};
    ft_archive *archive;
    CHECK_STATUS(open_bytes(&archive, twice, sizeof twice - 1, &err), FT_FORMAT);
    CHECK(mentions(&err, "it lists twice storage 12"));
    CHECK_STATUS(open_bytes(&archive, one, sizeof one - 1, &err), FT_FORMAT);
    CHECK(mentions(&err, "it does not list storage 77"));
}

/* Integers of 8 bytes in the storage of floats. */
static void refuses_two_sizes(void)
{
    char bytes[N];
    ft_error err = {0};
    ft_archive *archive;
    int at = find_bytes(whole, N, "LongStorage\nq\x0fX\2\0\0\0", 19) + 19;
    memcpy(bytes, whole, N);
    memcpy(bytes + at, "77", 2);
    CHECK_STATUS(open_bytes(&archive, bytes, N, &err), FT_FORMAT);
    CHECK(mentions(&err, "elements of two sizes in storage 77"));
}

/* A file may be cut anywhere, and its bytes may be any. */
static void survives_damage(void)
{
    int opened = 0, refused = 0;
    for (int i = 0; i < N * 9; i++) {
        char bytes[N];
        ft_error err = {0};
        ft_archive *archive;
        memcpy(bytes, whole, N);
        if (i < N * 8) bytes[i / 8] ^= (char)(1 << i % 8);
        ft_status status = open_bytes(&archive, bytes, i < N * 8 ? N : i - N * 8, &err);
        if (status != FT_OK) refused++;
        for (int k = 0; status == FT_OK && k < ft_archive_count(archive); k++) {
            float values[64];
            const ft_spec *spec = &ft_archive_entry(archive, k)->spec;
            ft_view view = ft_view_of(spec, values);
            if (ft_archive_entry(archive, k)->readable && ft_spec_bytes(spec) <= 256)
                CHECK_STATUS(ft_archive_read(archive, k, &view, &err), FT_OK);
            opened++;
        }
        ft_archive_close(archive);
    }
    CHECK(opened > 100 && refused > 100);
}

static ft_status try_open(void *with, ft_error *err)
{
    ft_archive *archive;
    (void)with;
    ft_status status = open_bytes(&archive, whole, N, err);
    ft_archive_close(archive);
    return status;
}

static void no_memory(void)
{
    check_without_memory(try_open, NULL, 3);
}

/* A list of texts of 0, 1, 2 ... bytes; they are longer than what is read of a file at once. */
static int put_texts(char *bytes, int n)
{
    int at = 0;
    memcpy(bytes, "\x80\x02](", 4);
    at += 4;
    for (int i = 0; i < n; i++) {
        bytes[at++] = 'X';
        for (int k = 0; k < 4; k++) bytes[at++] = (char)(i >> 8 * k);
        for (int k = 0; k < i; k++) bytes[at++] = (char)('a' + (i + k) % 26);
    }
    memcpy(bytes + at, "e.", 2);
    return at + 2;
}

static void reads_long_pickles(void)
{
    enum { TEXTS = 700, FIRST = 5 };
    static char bytes[FIRST + TEXTS * TEXTS];
    ft_pickles pickles;
    ft_error err = {0};
    const char **texts = NULL;
    int64_t n = 0;
    ft_arena *arena = ft_arena_new();
    int fd = memfd_create("test", MFD_CLOEXEC), size = FIRST + put_texts(bytes + FIRST, TEXTS);
    CHECK(size > 4 * FT_PICKLE_OPERAND && write(fd, bytes, (size_t)size) == size);
    ft_pickles_of(&pickles, fd, FIRST, size, "x");
    CHECK_STATUS(ft_pickle_texts(&texts, &n, arena, &pickles, "y", &err), FT_OK);
    CHECK(n == TEXTS && ft_pickles_at(&pickles) == size);
    for (int i = 0; i < n; i++) {
        bool same = strlen(texts[i]) == (size_t)i;
        for (int k = 0; same && k < i; k++) same = texts[i][k] == 'a' + (i + k) % 26;
        CHECK(same);
    }
    ft_pickles_of(&pickles, fd, FIRST, size - 1, "x");
    CHECK_STATUS(ft_pickle_texts(&texts, &n, arena, &pickles, "y", &err), FT_FORMAT);
    CHECK(mentions(&err, "x: y: opcode 0x65 at byte ") && mentions(&err, "no stop follows"));
    ft_arena_free(arena);
    close(fd);
}

/* A text may not be longer than the window that it is read in. */
static void limits_texts(void)
{
    for (int more = 0; more < 2; more++) {
        enum { HEAD = 7 };
        static char bytes[HEAD + FT_PICKLE_OPERAND + 3];
        int length = FT_PICKLE_OPERAND + more;
        ft_error err = {0};
        ft_pickles pickles;
        const char **texts = NULL;
        int64_t n = 0;
        ft_arena *arena = ft_arena_new();
        int fd = memfd_create("test", MFD_CLOEXEC);
        memset(bytes, 'a', sizeof bytes);
        memcpy(bytes, "](X", 3);
        for (int k = 0; k < 4; k++) bytes[3 + k] = (char)(length >> 8 * k);
        memcpy(bytes + HEAD + length, "e.", 2);
        CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
        ft_pickles_of(&pickles, fd, 0, sizeof bytes, "x");
        ft_status status = ft_pickle_texts(&texts, &n, arena, &pickles, "y", &err);
        CHECK_STATUS(status, more ? FT_FORMAT : FT_OK);
        if (more) CHECK(mentions(&err, "an operand of 32769 bytes is over the limit of 32768"));
        ft_arena_free(arena);
        close(fd);
    }
}

int main(void)
{
    RUN(reads_tensors);
    RUN(refuses);
    RUN(refuses_other_lists);
    RUN(refuses_two_sizes);
    RUN(survives_damage);
    RUN(no_memory);
    RUN(reads_long_pickles);
    RUN(limits_texts);
    return check_report();
}
