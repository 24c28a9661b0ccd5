/* test/test_io.c - archives: headers, shards, reading, running out of memory. */
#include "io/io.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "check.h"
#include "no_memory.h"
#include "place.h"

/* -- headers ---------------------------------------------------------------------------------- */

typedef struct header_case {
    const char *header;
    size_t data;
    const char *refused; /* words of the message, or NULL when the file is fine */
} header_case;

static const header_case header_cases[] = {
    {"{}", 0, NULL},
    {"{}   ", 0, NULL},
    {" {}", 0, NULL},
    {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, NULL},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, NULL},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[0,0]}}", 0, NULL},
    {"{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3, NULL},
    {"{\"w\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, NULL},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[0,2]}}", 2, NULL},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"more\":1}}", 2, NULL},
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
     3, NULL},
    {"", 0, "header:1:"},
    {"[]", 0, "not a JSON object"},
    {"{}x", 0, "header:1:"},
    {"{\"w\":1}", 0, "tensor 'w': not an object"},
    {"\xff{}", 0, "not UTF-8 at its byte 0"},
    {"{\"a\\u0000b\":1}", 0, "header:1:"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: 'a' is not a string"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"w\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown dtype 'F31'"},
    {"{\"w\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown dtype 'f32'"},
    {"{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape is missing"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets is not"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4,
     "data_offsets is not"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "dimension 0 is not"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "dimension 0 is not"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "continue at byte 0"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8,
     "hold 8 bytes, its shape and dtype F32 need 4"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,-4]}}", 0, "data_offsets is not"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "tensor 'b': data_offsets [1, 3] do not continue at byte 2"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
     4, "duplicate"},
    {"{\"w\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8,
     "overflows"},
    {"{\"w\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,8]}}", 8,
     "overflows"},
    {"{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "whole bytes"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "need 8"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5,
     "cover 4 bytes of data"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "the file holds 3"},
};

static void header_rules(void)
{
    place p = place_new();
    for (size_t i = 0; i < sizeof header_cases / sizeof *header_cases; i++) {
        const header_case *c = &header_cases[i];
        ft_archive *archive;
        ft_error err = {0};
        put_tensors(in(&p, "x.safetensors"), c->header, c->data);
        ft_status status = ft_archive_open(&archive, p.path, &err);
        if (status != (c->refused ? FT_FORMAT : FT_OK)) fprintf(stderr, "header %s\n", c->header);
        CHECK_STATUS(status, c->refused ? FT_FORMAT : FT_OK);
        if (c->refused) {
            CHECK(!archive);
            CHECK(mentions(&err, c->refused));
            CHECK(mentions(&err, p.path));
        }
        ft_archive_close(archive);
    }
    CHECK(place_free(&p) == 1);
}

static void header_length(void)
{
    static const struct {
        unsigned char bytes[16];
        size_t n;
        const char *words;
    } cases[] = {
        {{0}, 0, "file of 0 bytes is too small"},
        {{2}, 7, "file of 7 bytes is too small"},
        {{9, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, 10, "9 reaches past the end of the file of 10 bytes"},
        {{1, 0xe1, 0xf5, 5}, 16, "100000001 is over the limit"},
        {{255, 255, 255, 255, 255, 255, 255, 255}, 16, "18446744073709551615 is over the limit"},
    };
    place p = place_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_archive *archive;
        ft_error err = {0};
        put(in(&p, "x.safetensors"), cases[i].bytes, cases[i].n);
        CHECK_STATUS(ft_archive_open(&archive, p.path, &err), FT_FORMAT);
        CHECK(mentions(&err, cases[i].words));
    }
    place_free(&p);
}

/* -- reading ---------------------------------------------------------------------------------- */

static void entries(void)
{
    place p = place_new();
    ft_error err = {0};
    ft_archive *archive;
    put_tensors(in(&p, "x.safetensors"),
                "{\"c\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                "\"a\":{\"dtype\":\"U8\",\"shape\":[1,2,1,1,1,1,2],\"data_offsets\":[4,8]},"
                "\"b\\n\\u00e9\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[8,12]}}",
                12);
    CHECK_STATUS(ft_archive_open(&archive, p.path, &err), FT_OK);
    CHECK(ft_archive_count(archive) == 3);
    const ft_entry *b = ft_archive_entry(archive, 1);
    CHECK(strcmp(b->name, "b\n\xc3\xa9") == 0 && b->readable && b->spec.dtype == FT_BF16);
    CHECK(b->spec.shape.n_dims == 2 && b->spec.shape.dims[0] == 2);
    CHECK(!ft_archive_entry(archive, 0)->readable && !ft_archive_entry(archive, 2)->readable);
    CHECK(strcmp(ft_archive_entry(archive, 2)->dtype_name, "U16") == 0);
    CHECK(ft_archive_find(archive, "c") == 2 && ft_archive_find(archive, "d") == -1);
    CHECK(strcmp(ft_archive_nearest(archive, "cc"), "c") == 0);
    CHECK(strcmp(ft_archive_nearest(archive, "d"), "a") == 0); /* the first of equals */
    CHECK(strcmp(ft_archive_nearest(archive, "b\nxy"), b->name) == 0);

    float out[4];
    ft_view two = ft_view_of(&(ft_spec){FT_F32, ft_shape_of(2)}, out);
    CHECK_STATUS(ft_archive_read(archive, 2, &two, &err), FT_UNSUPPORTED);
    CHECK(mentions(&err, "U16"));
    CHECK_STATUS(ft_archive_read(archive, 0, &two, &err), FT_UNSUPPORTED);
    CHECK(mentions(&err, "7 dimensions"));
    CHECK_STATUS(ft_archive_read(archive, 1, &two, &err), FT_SHAPE);
    CHECK(mentions(&err, "(2, 1)") && mentions(&err, "'b?\xc3\xa9'"));
    CHECK_STATUS(ft_archive_read(archive, 3, &two, &err), FT_INVALID);
    ft_view strided = ft_view_of(&(ft_spec){FT_F32, ft_shape_of(2, 1)}, out);
    strided.strides[0] = 2;
    CHECK_STATUS(ft_archive_read(archive, 1, &strided, &err), FT_INVALID);
    ft_archive_close(archive);
    place_free(&p);
}

/* Every pair of dtypes, over several pieces, against the element access of `tensor`. */
static void conversions(void)
{
    enum { N = 70000 }; /* f16 elements in more than two pieces of 64 KiB */
    place p = place_new();
    ft_error err = {0};
    char *memory = ft_alloc(N * 8), *loaded = ft_alloc(N * 8);
    for (int from = 0; from < FT_DTYPE_COUNT; from++) {
        ft_named_view tensor = {
            "w", ft_view_of(&(ft_spec){(ft_dtype)from, ft_shape_of(7, N / 7)}, memory)};
        for (int i = 0; i < N; i++) ft_view_set(&tensor.view, i, i % 2);
        CHECK_STATUS(ft_safetensors_write(in(&p, "x.safetensors"), &tensor, 1, &err), FT_OK);
        ft_archive *archive;
        CHECK_STATUS(ft_archive_open(&archive, p.path, &err), FT_OK);
        for (int to = 0; to < FT_DTYPE_COUNT; to++) {
            ft_view view = ft_view_of(&(ft_spec){(ft_dtype)to, ft_shape_of(7, N / 7)}, loaded);
            memset(loaded, 0x55, N * 8);
            CHECK_STATUS(ft_archive_read(archive, 0, &view, &err), FT_OK);
            int wrong = 0;
            for (int i = 0; i < N; i++) wrong += ft_view_get(&view, i) != i % 2;
            CHECK(wrong == 0);
        }
        ft_archive_close(archive);
    }
    ft_free(memory);
    ft_free(loaded);
    place_free(&p);
}

static void file_that_shrinks(void)
{
    place p = place_new();
    ft_error err = {0};
    ft_archive *archive;
    float out[2] = {0};
    uint16_t half[2] = {0};
    ft_view same = ft_view_of(&(ft_spec){FT_F32, ft_shape_of(2)}, out);
    ft_view other = ft_view_of(&(ft_spec){FT_BF16, ft_shape_of(2)}, half);
    put_tensors(in(&p, "x.safetensors"),
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    CHECK_STATUS(ft_archive_open(&archive, p.path, &err), FT_OK);
    CHECK_STATUS(ft_archive_read(archive, 0, &same, &err), FT_OK);
    struct stat info;
    CHECK(stat(p.path, &info) == 0 && truncate(p.path, info.st_size - 3) == 0);
    CHECK_STATUS(ft_archive_read(archive, 0, &same, &err), FT_IO);
    CHECK(mentions(&err, "file ends at byte") && mentions(&err, "tensor 'w'"));
    CHECK_STATUS(ft_archive_read(archive, 0, &other, &err), FT_IO);
    ft_archive_close(archive);
    place_free(&p);
}

/* -- shards ----------------------------------------------------------------------------------- */

static void put_shards(place *p)
{
    put_tensors(in(p, "one.safetensors"),
                "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                "\"unlisted\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                3);
    put_tensors(in(p, "two.safetensors"),
                "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
}

static void shards(void)
{
    place p = place_new();
    ft_error err = {0};
    ft_archive *archive;
    static const char map[] = "{\"metadata\":{\"total_size\":3},\"weight_map\":"
                              "{\"b\":\"two.safetensors\",\"a\":\"one.safetensors\"}}";
    put_shards(&p);
    CHECK_STATUS(ft_archive_open(&archive, p.directory, &err), FT_NOT_FOUND);
    CHECK(mentions(&err, "model.safetensors.index.json"));
    put(in(&p, "model.safetensors.index.json"), map, strlen(map));
    for (int i = 0; i < 2; i++) { /* by the index, by its directory */
        CHECK_STATUS(ft_archive_open(&archive, i ? p.directory : p.path, &err), FT_OK);
        CHECK(ft_archive_count(archive) == 2);
        CHECK(ft_archive_find(archive, "unlisted") == -1);
        unsigned char bytes[2] = {9, 9};
        ft_view view = ft_view_of(&(ft_spec){FT_U8, ft_shape_of(2)}, bytes);
        CHECK_STATUS(ft_archive_read(archive, ft_archive_find(archive, "a"), &view, &err), FT_OK);
        CHECK(bytes[0] == 0 && bytes[1] == 1);
        ft_archive_close(archive);
    }
    put_tensors(in(&p, "model.safetensors"), "{}", 0); /* goes before the index */
    CHECK_STATUS(ft_archive_open(&archive, p.directory, &err), FT_OK);
    CHECK(ft_archive_count(archive) == 0 && !ft_archive_nearest(archive, "x"));
    ft_archive_close(archive);
    CHECK(place_free(&p) == 4);
}

static void bad_index(void)
{
    static const struct {
        const char *text, *words;
        ft_status status;
    } cases[] = {
        {"{", "i.json:1:1: ", FT_FORMAT},
        {"[]", "weight_map", FT_FORMAT},
        {"{\"weight_map\":[]}", "weight_map", FT_FORMAT},
        {"{\"weight_map\":{\"a\":1}}", "'a' is not mapped", FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"\"}}", "not a plain file name", FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"..\"}}", "not a plain file name", FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "not a plain file name", FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"/one.safetensors\"}}", "not a plain file name", FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"\177\"}}", "shard '?' is not a plain file name", FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"x\\ny\"}}", "shard 'x?y' is not a plain file name", FT_FORMAT},
        {"{\"weight_map\":{\"b\":\"one.safetensors\"}}", "tensor 'b' is not in its shard",
         FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"six.safetensors\"}}", "six.safetensors: cannot open",
         FT_NOT_FOUND},
        {"{\"weight_map\":{\"a\":\"i.json\"}}", "i.json: header length", FT_FORMAT},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"one.safetensors\"}}", "duplicate",
         FT_FORMAT},
    };
    place p = place_new();
    put_shards(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_archive *archive;
        ft_error err = {0};
        put(in(&p, "i.json"), cases[i].text, strlen(cases[i].text));
        CHECK_STATUS(ft_archive_open(&archive, p.path, &err), cases[i].status);
        CHECK(mentions(&err, cases[i].words));
    }
    ft_archive *archive;
    ft_error err = {0};
    CHECK(mkfifo(in(&p, "pipe"), 0600) == 0);
    CHECK_STATUS(ft_archive_open(&archive, p.path, &err), FT_IO);
    CHECK(mentions(&err, "not a regular file"));
    CHECK_STATUS(ft_archive_open(&archive, in(&p, "absent"), &err), FT_NOT_FOUND);
    place_free(&p);
}

/* -- in memory, comparing --------------------------------------------------------------------- */

static void in_memory(void)
{
    static const char bytes[] =
        "\x3a\0\0\0\0\0\0\0"
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}     "
        "\x07\x08\x09";
    ft_error err = {0};
    ft_archive *archive;
    unsigned char out[3];
    ft_view view = ft_view_of(&(ft_spec){FT_U8, ft_shape_of(3)}, out);
    CHECK_STATUS(ft_archive_load(&archive, bytes, sizeof bytes - 1, "embedded", &err), FT_OK);
    CHECK(ft_archive_count(archive) == 1);
    CHECK_STATUS(ft_archive_read(archive, 0, &view, &err), FT_OK);
    CHECK(memcmp(out, "\x07\x08\x09", 3) == 0);
    ft_archive_close(archive);
    CHECK_STATUS(ft_archive_load(&archive, bytes, sizeof bytes - 2, "embedded", &err), FT_FORMAT);
    CHECK(!archive && mentions(&err, "embedded: tensors cover 3 bytes"));
}

static void equal_tensors(void)
{
    enum { N = 5000, A = 0, CHANGED, HALF, SHAPED, BIG, BIGGER };
    static float a[N], changed[N], half[N];
    static int64_t big[1] = {INT64_C(1) << 60}, bigger[1] = {(INT64_C(1) << 60) + 1};
    ft_spec f32 = {FT_F32, ft_shape_of(N)}, bf16 = {FT_BF16, ft_shape_of(N)};
    ft_spec shaped = {FT_F32, ft_shape_of(N / 2, 2)}, one = {FT_I64, ft_shape_of(1)};
    for (int i = 0; i < N; i++) a[i] = (float)i / 256;
    ft_convert(half, FT_BF16, a, FT_F32, N);
    ft_convert(a, FT_F32, half, FT_BF16, N); /* now a holds what bf16 can */
    memcpy(changed, a, sizeof a);
    changed[N - 1] += 1;
    ft_named_view tensors[] = {
        {"a", ft_view_of(&f32, a)},     {"b", ft_view_of(&f32, changed)},
        {"c", ft_view_of(&bf16, half)}, {"d", ft_view_of(&shaped, a)},
        {"e", ft_view_of(&one, big)},   {"f", ft_view_of(&one, bigger)},
    };
    static const struct {
        int i, j;
        bool equal;
    } cases[] = {{A, A, true},       {A, CHANGED, false}, {A, HALF, true},
                 {A, SHAPED, false}, {BIG, BIG, true},    {BIG, BIGGER, false}};
    place p = place_new();
    ft_error err = {0};
    ft_archive *archive;
    CHECK_STATUS(ft_safetensors_write(in(&p, "x"), tensors, 6, &err), FT_OK);
    CHECK_STATUS(ft_archive_open(&archive, p.path, &err), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool equal = !cases[i].equal;
        CHECK_STATUS(ft_archive_equal(archive, cases[i].i, cases[i].j, &equal, &err), FT_OK);
        CHECK(equal == cases[i].equal);
    }
    CHECK(truncate(p.path, 20000) == 0);
    bool equal;
    CHECK_STATUS(ft_archive_equal(archive, A, CHANGED, &equal, &err), FT_IO);
    ft_archive_close(archive);
    place_free(&p);
}

/* -- no memory -------------------------------------------------------------------------------- */

typedef ft_status attempt(place *p, ft_error *err);

static ft_status try_open(place *p, ft_error *err)
{
    ft_archive *archive;
    ft_status status = ft_archive_open(&archive, p->directory, err);
    ft_archive_close(archive);
    return status;
}

static ft_status try_read(place *p, ft_error *err)
{
    char *text;
    int64_t size;
    ft_status status = ft_file_read(in(p, "one.safetensors"), &text, &size, err);
    ft_free(text);
    return status;
}

static ft_status try_write(place *p, ft_error *err)
{
    float f[1] = {0};
    ft_named_view tensor = {"w", ft_view_of(&(ft_spec){FT_F32, ft_shape_of(1)}, f)};
    return ft_safetensors_write(in(p, "w"), &tensor, 1, err);
}

static ft_status try_load(place *p, ft_error *err)
{
    ft_archive *archive;
    (void)p;
    ft_status status = ft_archive_load(&archive, "\x02\0\0\0\0\0\0\0{}", 10, "x", err);
    ft_archive_close(archive);
    return status;
}

static ft_status try_make(place *p, ft_error *err)
{
    return ft_dir_make(p->directory, err);
}

/* An attempt and where. */
typedef struct in_place {
    attempt *attempt;
    place *p;
} in_place;

static ft_status try_in_place(void *with, ft_error *err)
{
    const in_place *at = with;
    return at->attempt(at->p, err);
}

static void no_memory(void)
{
    static attempt *const attempts[] = {try_open, try_load, try_read, try_write, try_make};
    static const char map[] =
        "{\"weight_map\":{\"b\":\"two.safetensors\",\"a\":\"one.safetensors\"}}";
    place p = place_new();
    put_shards(&p);
    put(in(&p, "model.safetensors.index.json"), map, strlen(map));
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        check_without_memory(try_in_place, &(in_place){attempts[i], &p}, 1);
    CHECK(place_free(&p) == 4);
}

int main(void)
{
    RUN(header_rules);
    RUN(header_length);
    RUN(entries);
    RUN(conversions);
    RUN(file_that_shrinks);
    RUN(shards);
    RUN(bad_index);
    RUN(in_memory);
    RUN(equal_tensors);
    RUN(no_memory);
    return check_report();
}
