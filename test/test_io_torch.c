/* test/test_io_torch.c - pytorch_model.bin: what is read, what is refused, damaged files. */
#include "check.h"
#include "no_memory.h"

#include "base/alloc.h"
#include "io/internal.h"
#include "place.h"

/* A pickle of {"w": tensor of 2 x 2 floats from element 1 of storage 0}, as torch.save writes it.
 * The sizes and strides are at known places, so that tests can change them. */
static const char pickle[] =
    "\x80\x02}q\0X\1\0\0\0wq\1ctorch._utils\n_rebuild_tensor_v2\nq\2(("
    "X\7\0\0\0storageq\3ctorch\nFloatStorage\nq\4X\1\0\0\0000q\5X\3\0\0\0cpuq\6K\6tq\7QK\1"
    "K\2K\2\x86q\x08K\2K\1\x86q\x09\x89"
    "ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0ds.";

enum { N_PICKLE = sizeof pickle - 1, MAX_FILE = 2048 };

/* A zip file under construction. */
typedef struct builder {
    char bytes[MAX_FILE], directory[MAX_FILE];
    int n, n_directory, entries;
} builder;

static int put_number(char *at, uint64_t number, int n)
{
    for (int i = 0; i < n; i++) at[i] = (char)(number >> (8 * i));
    return n;
}

static int put_text(char *at, const char *text)
{
    memcpy(at, text, strlen(text));
    return (int)strlen(text);
}

/* Adds an uncompressed entry; `extra` bytes of padding, as PyTorch adds for alignment. */
static void add(builder *z, const char *name, const char *bytes, int size, int extra)
{
    int n_name = (int)strlen(name), at = z->n;
    char *local = z->bytes + at, *central = z->directory + z->n_directory;
    put_number(local, 0x04034b50, 4);
    put_number(local + 6, 0x0808, 2);
    put_number(local + 26, (uint64_t)n_name, 2);
    put_number(local + 28, (uint64_t)extra, 2);
    memcpy(local + 30, name, (size_t)n_name);
    memcpy(local + 30 + n_name + extra, bytes, (size_t)size);
    z->n += 30 + n_name + extra + size;
    put_number(central, 0x02014b50, 4);
    put_number(central + 20, (uint64_t)size, 4);
    put_number(central + 24, (uint64_t)size, 4);
    put_number(central + 28, (uint64_t)n_name, 2);
    put_number(central + 42, (uint64_t)at, 4);
    memcpy(central + 46, name, (size_t)n_name);
    z->n_directory += 46 + n_name;
    z->entries++;
}

static void finish(builder *z)
{
    char *end = z->bytes + z->n + z->n_directory;
    memcpy(z->bytes + z->n, z->directory, (size_t)z->n_directory);
    put_number(end, 0x06054b50, 4);
    put_number(end + 8, (uint64_t)z->entries, 2);
    put_number(end + 10, (uint64_t)z->entries, 2);
    put_number(end + 12, (uint64_t)z->n_directory, 4);
    put_number(end + 16, (uint64_t)z->n, 4);
    z->n += z->n_directory + 22;
}

/* A file with this pickle and a storage of six floats 0, 1 ... 5. */
static builder make_file(const char *program, int n_program)
{
    builder z = {.n = 0};
    float storage[6] = {0, 1, 2, 3, 4, 5};
    add(&z, "archive/data.pkl", program, n_program, 0);
    add(&z, "archive/data/0", (const char *)storage, (int)sizeof storage, 13);
    finish(&z);
    return z;
}

static ft_status open_builder(ft_archive **out, const builder *z, ft_error *err)
{
    return ft_archive_load(out, z->bytes, z->n, "model.bin", err);
}

/* Opens the pickle with one byte changed. */
static ft_status open_changed(int at, char byte, ft_error *err)
{
    char program[N_PICKLE];
    ft_archive *archive;
    memcpy(program, pickle, N_PICKLE);
    program[at] = byte;
    builder z = make_file(program, N_PICKLE);
    ft_status status = open_builder(&archive, &z, err);
    ft_archive_close(archive);
    return status;
}

static void reads_a_tensor(void)
{
    ft_error err = {0};
    ft_archive *archive;
    builder z = make_file(pickle, N_PICKLE);
    if (!CHECK_STATUS(open_builder(&archive, &z, &err), FT_OK))
        fprintf(stderr, "%s\n", err.message);
    float values[4] = {0};
    ft_spec spec = {FT_F32, ft_shape_of(2, 2)};
    ft_view view = ft_view_of(&spec, values);
    CHECK(ft_archive_count(archive) == 1 && ft_archive_find(archive, "w") == 0);
    CHECK_STATUS(ft_archive_read(archive, 0, &view, &err), FT_OK);
    for (int i = 0; i < 4; i++) CHECK(values[i] == (float)(i + 1));
    ft_archive_close(archive);
}

/* As torch.save writes what was transposed, or is a part of a larger tensor: strides of its own. */
static void reads_across_strides(void)
{
    static const struct {
        char strides[2]; /* from element 1 of a storage of 0, 1 ... 5 */
        float values[4];
    } rows[] = {{{1, 2}, {1, 3, 2, 4}},
                {{3, 1}, {1, 2, 4, 5}},
                {{1, 3}, {1, 4, 2, 5}},
                {{0, 1}, {1, 2, 1, 2}}};
    static const ft_dtype dtypes[] = {FT_F32, FT_F64};
    for (int i = 0; i < 8; i++) {
        char program[N_PICKLE];
        ft_error err = {0};
        ft_archive *archive;
        double room[4];
        bool equal = false;
        ft_dtype dtype = dtypes[i % 2];
        ft_spec spec = {dtype, ft_shape_of(2, 2)};
        ft_view view = ft_view_of(&spec, room);
        int at = find_bytes(pickle, N_PICKLE, "K\2K\1", 4);
        memcpy(program, pickle, N_PICKLE);
        program[at + 1] = rows[i / 2].strides[0];
        program[at + 3] = rows[i / 2].strides[1];
        builder z = make_file(program, N_PICKLE);
        if (!CHECK_STATUS(open_builder(&archive, &z, &err), FT_OK)) continue;
        CHECK_STATUS(ft_archive_read(archive, 0, &view, &err), FT_OK);
        for (int k = 0; k < 4; k++)
            CHECK((dtype == FT_F32 ? (double)((float *)(void *)room)[k] : room[k]) ==
                  (double)rows[i / 2].values[k]);
        CHECK_STATUS(ft_archive_equal(archive, 0, 0, &equal, &err), FT_OK);
        CHECK(equal);
        ft_archive_close(archive);
    }
}

/* From any element on: 3 x 4 numbers that lie down the columns. */
static void gathers_pieces(void)
{
    static const int64_t strides[] = {1, 3};
    char all[12], out[12], whole[12];
    for (int i = 0; i < 12; i++) all[i] = (char)i;
    for (int i = 0; i < 12; i++) whole[i] = (char)(i / 4 + i % 4 * 3);
    const ft_item item = {.n_dims = 2, .dims = {3, 4}, .strides = strides, .end = 12};
    const ft_elements elements = {.item = &item, .bytes = 1, .all = all};
    for (int i = 0; i < 12; i++)
        for (int n = 0; n <= 12 - i; n++) {
            CHECK_STATUS(ft_elements_read(&elements, i, n, out, NULL), FT_OK);
            CHECK(memcmp(out, whole + i, (size_t)n) == 0);
        }
}

/* Strides of 0 repeat elements: a few bytes would be as many numbers as somebody likes. */
static void refuses_repeats(void)
{
    char program[N_PICKLE];
    ft_error err = {0};
    ft_archive *archive;
    memcpy(program, pickle, N_PICKLE);
    program[find_bytes(pickle, N_PICKLE, "K\2K\2", 4) + 1] = 7; /* 7 x 2 of strides 0, 1 */
    program[find_bytes(pickle, N_PICKLE, "K\2K\1", 4) + 1] = 0;
    builder z = make_file(program, N_PICKLE);
    CHECK_STATUS(open_builder(&archive, &z, &err), FT_FORMAT);
    CHECK(mentions(&err, "'w' reaches past its storage of 24 bytes"));
    ft_archive_close(archive);
}

static void reads_a_directory_of_shards(void)
{
    static const char index[] = "{\"weight_map\":{\"w\":\"part.bin\"}}";
    place p = place_new();
    ft_error err = {0};
    ft_archive *archive;
    builder z = make_file(pickle, N_PICKLE);
    put(in(&p, "part.bin"), z.bytes, (size_t)z.n);
    put(in(&p, "pytorch_model.bin.index.json"), index, strlen(index));
    CHECK_STATUS(ft_archive_open(&archive, p.directory, &err), FT_OK);
    CHECK(ft_archive_find(archive, "w") == 0);
    ft_archive_close(archive);
    put(in(&p, "pytorch_model.bin"), z.bytes, (size_t)z.n);
    CHECK_STATUS(ft_archive_open(&archive, p.directory, &err), FT_OK);
    ft_archive_close(archive);
    put(in(&p, "pytorch_model.bin"), pickle, N_PICKLE);
    CHECK_STATUS(ft_archive_open(&archive, p.directory, &err), FT_FORMAT);
    CHECK(mentions(&err, "neither a zip file"));
    CHECK(place_free(&p) == 3);
}

static void refuses(void)
{
    static const struct {
        const char *text; /* in the pickle */
        int n, skip;      /* its length; the byte behind it that is changed */
        char byte;
        ft_status status;
        const char *words;
    } rows[] = {
        {"K\2K\2", 4, -1, 4, FT_FORMAT, "'w' reaches past its storage of 24 bytes"}, /* 2 x 4 */
        {"K\2K\1", 4, -3, 4, FT_FORMAT, "'w' reaches past its storage of 24 bytes"}, /* by 4, 1 */
        {"QK", 2, 0, 3, FT_FORMAT, "'w' reaches past its storage of 24 bytes"},
        {"torch._", 7, -7, 'x', FT_FORMAT, "names 'xorch._utils._rebuild_tensor_v2'"},
        {"Float", 5, -1, 'x', FT_FORMAT, "names 'torch.FloaxStorage'"},
        {"\x80\x02", 2, -2, '0', FT_FORMAT, "opcode 0x30 at byte 0: weights do not need"},
        {"000", 0, 0, 0, FT_OK, ""},
    };
    for (int i = 0; rows[i].n; i++) {
        ft_error err = {0};
        int at = find_bytes(pickle, N_PICKLE, rows[i].text, rows[i].n) + rows[i].n + rows[i].skip;
        CHECK_STATUS(open_changed(at, rows[i].byte, &err), rows[i].status);
        CHECK(mentions(&err, rows[i].words));
    }
}

/* A method of compression, though both sizes are equal. */
static void refuses_compression(void)
{
    builder z = make_file(pickle, N_PICKLE);
    ft_error err = {0};
    ft_archive *archive;
    int at = 0;
    while (memcmp(z.bytes + at, "PK\1\2", 4) != 0) at++;
    z.bytes[at + 10] = 8;
    CHECK_STATUS(open_builder(&archive, &z, &err), FT_FORMAT);
    CHECK(mentions(&err, "an entry is compressed"));
    ft_archive_close(archive);
}

/* No damage may do worse than an error: each bit flipped, and each length. */
static void survives_damage(void)
{
    builder whole = make_file(pickle, N_PICKLE);
    int opened = 0, refused = 0;
    for (int i = 0; i < whole.n * 9; i++) {
        ft_error err = {0};
        ft_archive *archive;
        builder z = whole;
        if (i < whole.n * 8)
            z.bytes[i / 8] ^= (char)(1 << i % 8);
        else
            z.n = i - whole.n * 8;
        ft_status status = open_builder(&archive, &z, &err);
        if (status != FT_OK) refused++;
        for (int k = 0; status == FT_OK && k < ft_archive_count(archive); k++) {
            float values[64];
            ft_view view = ft_view_of(&ft_archive_entry(archive, k)->spec, values);
            if (ft_spec_bytes(&ft_archive_entry(archive, k)->spec) > (int64_t)sizeof values)
                continue;
            if (ft_archive_entry(archive, k)->readable)
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
    ft_status status = open_builder(&archive, with, err);
    ft_archive_close(archive);
    return status;
}

static void no_memory(void)
{
    builder z = make_file(pickle, N_PICKLE);
    check_without_memory(try_open, &z, 3);
}

/* A file with a large pickle and nothing else. */
static ft_status open_program(const char *program, int n, ft_error *err)
{
    int size = n + 4096;
    ft_archive *archive;
    char *bytes = calloc(1, (size_t)size), directory[256] = {0};
    int at = 30 + put_text(bytes + 30, "archive/data.pkl");
    put_number(bytes, 0x04034b50, 4);
    put_number(bytes + 26, (uint64_t)at - 30, 2);
    memcpy(bytes + at, program, (size_t)n);
    put_number(directory, 0x02014b50, 4);
    put_number(directory + 20, (uint64_t)n, 4);
    put_number(directory + 24, (uint64_t)n, 4);
    put_number(directory + 28, (uint64_t)at - 30, 2);
    memcpy(directory + 46, bytes + 30, (size_t)at - 30);
    builder end = {.n_directory = 46 + at - 30, .entries = 1};
    memcpy(end.directory, directory, (size_t)end.n_directory);
    finish(&end);
    put_number(end.bytes + end.n_directory + 16, (uint64_t)(at + n), 4);
    memcpy(bytes + at + n, end.bytes, (size_t)end.n);
    put_number(bytes + 4, 1, 2); /* version: a length past any of safetensors */
    ft_status status = ft_archive_load(&archive, bytes, at + n + end.n, "model.bin", err);
    ft_archive_close(archive);
    free(bytes);
    return status;
}

/* A file whose pickle is `head`, n times `one`, and `tail`. */
static ft_status open_repeated(const char *head, const char *one, int n_one, int n,
                               const char *tail, ft_error *err)
{
    int size = (int)strlen(head) + n * n_one + (int)strlen(tail), at = 0;
    char *program = calloc(1, (size_t)size + 1);
    at += put_text(program, head);
    for (int i = 0; i < n; i++, at += n_one) memcpy(program + at, one, (size_t)n_one);
    put_text(program + at, tail);
    ft_status status = open_program(program, size, err);
    free(program);
    return status;
}

static ft_status open_dicts(int n, ft_error *err)
{
    return open_repeated("", "}", 1, n, "", err);
}

/* A value that is remembered once and repeated takes a place of the stack each time. */
static void limits_its_repeats(void)
{
    ft_error err = {0};
    CHECK_STATUS(open_repeated("}\x94", "h\0", 2, 24 << 18, "", &err), FT_FORMAT);
    CHECK(mentions(&err, "no stop follows"));
    CHECK_STATUS(open_repeated("}\x94", "h\0", 2, (24 << 18) + 1, "", &err), FT_FORMAT);
    CHECK(mentions(&err, "repeats more than 6291456 values"));
}

/* What is in a dict is counted before there is a row for each. */
static void limits_its_tensors(void)
{
    ft_error err = {0};
    CHECK_STATUS(open_repeated("}(", "N", 1, 2 << 18, "u.", &err), FT_FORMAT);
    CHECK(mentions(&err, "a key is not a string"));
    CHECK_STATUS(open_repeated("}(", "N", 1, (2 << 18) + 2, "u.", &err), FT_FORMAT);
    CHECK(mentions(&err, "names 262145 tensors, over the limit of 262144"));
}

static void limits_its_values(void)
{
    ft_error err = {0};
    CHECK_STATUS(open_dicts(100, &err), FT_FORMAT);
    CHECK(mentions(&err, "no stop follows"));
    CHECK_STATUS(open_dicts(24 << 18, &err), FT_FORMAT);
    CHECK(mentions(&err, "no stop follows"));
    CHECK_STATUS(open_dicts((24 << 18) + 1, &err), FT_FORMAT);
    CHECK(mentions(&err, "opcode 0x7d at byte 6291456: makes more than 6291456 values"));
    CHECK_STATUS(open_dicts((1 << 26) + 1, &err), FT_FORMAT);
    CHECK(mentions(&err, "data.pkl of 67108865 bytes is over the limit of 67108864"));
}

int main(void)
{
    RUN(reads_a_tensor);
    RUN(reads_across_strides);
    RUN(gathers_pieces);
    RUN(refuses_repeats);
    RUN(reads_a_directory_of_shards);
    RUN(refuses);
    RUN(refuses_compression);
    RUN(survives_damage);
    RUN(no_memory);
    RUN(limits_its_values);
    RUN(limits_its_repeats);
    RUN(limits_its_tensors);
    return check_report();
}
