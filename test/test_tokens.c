/* test/test_tokens.c - the tokenizer on a small model of our own. */
#include "tokens/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "check.h"
#include "no_memory.h"
#include "spm_model.h"

enum { EXTRA = 12 }; /* sentinels; SPM_N + EXTRA ids in all */

static ft_tokenizer *small_tokenizer(void)
{
    spm_bytes model;
    ft_tokenizer *tokenizer = NULL;
    ft_error err = {0};
    spm_model(&model, spm_pieces, SPM_N, NULL, 0);
    if (ft_tokenizer_load(&tokenizer, model.data, model.n, EXTRA, &err) != FT_OK)
        fprintf(stderr, "%s\n", err.message);
    return tokenizer;
}

/* Whether the text has exactly these ids, -1 terminated. */
static bool encodes(const ft_tokenizer *tokenizer, const char *text, int64_t size,
                    const int32_t *expected)
{
    int32_t *ids;
    int64_t n, wanted = 0;
    ft_error err = {0};
    while (expected[wanted] >= 0) wanted++;
    if (ft_tokenizer_encode(tokenizer, text, size, &ids, &n, &err) != FT_OK) {
        fprintf(stderr, "'%s': %s\n", text, err.message);
        return false;
    }
    bool same = n == wanted && memcmp(ids, expected, (size_t)n * sizeof *ids) == 0;
    if (!same) {
        fprintf(stderr, "'%s':", text);
        for (int64_t i = 0; i < n; i++) fprintf(stderr, " %d", (int)ids[i]);
        fprintf(stderr, "\n");
    }
    ft_free(ids);
    return same;
}

/* Pieces of the model by name. */
enum {
    PAD,
    END,
    UNK,
    SPACE,
    HELLO,
    WORLD,
    H_,
    ELLO,
    O,
    L,
    E,
    H,
    ACUTE,
    S,
    LESS,
    SLASH,
    MORE,
    LESS_
};
/* The last id is <extra_id_0>. */
enum { FIRST = SPM_N + EXTRA - 1 };

#define IDS(...)                                                                                   \
    (const int32_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__, -1                                                                            \
    }
#define ENCODES(text, ...)                                                                         \
    CHECK(encodes(tokenizer, text, (int64_t)sizeof(text) - 1, IDS(__VA_ARGS__)))

static void encoding(void)
{
    ft_tokenizer *tokenizer = small_tokenizer();
    CHECK(ft_tokenizer_size(tokenizer) == SPM_N + EXTRA);
    ENCODES("hello world", HELLO, WORLD);
    ENCODES("  hello \t", HELLO, SPACE, UNK); /* the normaliser has no rule for tabs */
    ENCODES("  hello   world  ", HELLO, WORLD);
    ENCODES("helo", H_, E, L, O);
    ENCODES("\xC3\xA9l", SPACE, ACUTE, L);
    ENCODES("hello\xF0\x9F\x98\x80\xE4\xB8\xADo", HELLO, UNK, O); /* neighbours merge into one */
    ENCODES("o\0o", SPACE, O, UNK, O);
    CHECK(encodes(tokenizer, "", 0, IDS(-1)));
    CHECK(encodes(tokenizer, NULL, 0, IDS(-1)));
    CHECK(encodes(tokenizer, "   ", 3, IDS(-1)));
    ft_tokenizer_free(tokenizer);
}

static void special_tokens(void)
{
    ft_tokenizer *tokenizer = small_tokenizer();
    ENCODES("</s>", END);
    ENCODES("<pad><unk></s>", PAD, UNK, END);
    ENCODES("hello</s>hello", HELLO, END, HELLO); /* each stretch gets its own space */
    ENCODES("  </s>  o </s> ", END, SPACE, O, END);
    ENCODES("<extra_id_0>", FIRST);
    ENCODES("hello <extra_id_1> world<extra_id_11>", HELLO, FIRST - 1, WORLD, FIRST - 11);
    ENCODES("</s></s", END, LESS_, SLASH, S);
    ENCODES("<</s>>", LESS_, END, SPACE, MORE);
    /* Not the way a sentinel is written. */
    int32_t *ids;
    int64_t n;
    static const char *const plain[] = {"<extra_id_12>",
                                        "<extra_id_01>",
                                        "<extra_id_>",
                                        "<extra_id_1",
                                        "<extra_id_-1>",
                                        "<EXTRA_ID_1>",
                                        "<extra_id_99999999999999999999>"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        ft_error err = {0};
        int64_t size = (int64_t)strlen(plain[i]);
        CHECK_STATUS(ft_tokenizer_encode(tokenizer, plain[i], size, &ids, &n, &err), FT_OK);
        CHECK(n > 1);
        for (int64_t j = 0; j < n; j++) CHECK(ids[j] < SPM_N);
        ft_free(ids);
    }
    ft_tokenizer_free(tokenizer);
}

static void not_utf8(void)
{
    static const struct {
        const char *text;
        int size, position;
    } cases[] = {
        {"hello \xFF", 7, 6}, {"\xC0\x80", 2, 0},       {"o\xED\xA0\x80", 4, 1},
        {"o\xE2\x96", 3, 1},  {"</s>o\x80</s>", 10, 5}, {"\xF4\x90\x80\x80", 4, 0},
    };
    ft_tokenizer *tokenizer = small_tokenizer();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_error err = {0};
        int32_t *ids;
        int64_t n;
        char words[32];
        CHECK_STATUS(ft_tokenizer_encode(tokenizer, cases[i].text, cases[i].size, &ids, &n, &err),
                     FT_FORMAT);
        snprintf(words, sizeof words, "at position %d", cases[i].position);
        CHECK(!ids && strstr(err.message, words));
    }
    ft_tokenizer_free(tokenizer);
}

static bool decodes(const ft_tokenizer *tokenizer, const int32_t *ids, bool skip,
                    const char *expected)
{
    int64_t n = 0;
    char *text;
    ft_error err = {0};
    while (ids[n] >= 0) n++;
    if (ft_tokenizer_decode(tokenizer, ids, n, skip, &text, &(int64_t){0}, &err) != FT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return false;
    }
    bool same = strcmp(text, expected) == 0;
    if (!same) fprintf(stderr, "'%s', expected '%s'\n", text, expected);
    ft_free(text);
    return same;
}

static void decoding(void)
{
    ft_tokenizer *tokenizer = small_tokenizer();
    CHECK(decodes(tokenizer, IDS(HELLO, WORLD, END), true, "hello world"));
    CHECK(decodes(tokenizer, IDS(HELLO, WORLD, END), false, "hello world</s>"));
    CHECK(
        decodes(tokenizer, IDS(PAD, HELLO, FIRST, WORLD), false, "<pad> hello<extra_id_0> world"));
    CHECK(decodes(tokenizer, IDS(PAD, HELLO, FIRST, WORLD), true, "hello world"));
    CHECK(decodes(tokenizer, IDS(HELLO, UNK, O), false, "hello<unk>o"));
    CHECK(decodes(tokenizer, IDS(HELLO, UNK, O), true, "helloo"));
    CHECK(decodes(tokenizer, IDS(-1), false, ""));
    CHECK(decodes(tokenizer, IDS(END), true, ""));
    CHECK(strcmp(ft_tokenizer_piece(tokenizer, HELLO), "\xE2\x96\x81hello") == 0);
    CHECK(strcmp(ft_tokenizer_piece(tokenizer, SPM_N), "<extra_id_11>") == 0);
    CHECK(strcmp(ft_tokenizer_piece(tokenizer, FIRST), "<extra_id_0>") == 0);
    CHECK(!ft_tokenizer_piece(tokenizer, -1) && !ft_tokenizer_piece(tokenizer, FIRST + 1));
    char *text;
    ft_error err = {0};
    CHECK_STATUS(
        ft_tokenizer_decode(tokenizer, IDS(HELLO, FIRST + 1), 2, true, &text, &(int64_t){0}, &err),
        FT_INVALID);
    CHECK(!text && strstr(err.message, "id 30 at position 1, expected 0 to 29"));
    CHECK_STATUS(
        ft_tokenizer_decode(tokenizer, &(int32_t){-7}, 1, true, &text, &(int64_t){0}, &err),
        FT_INVALID);
    ft_tokenizer_reserve(tokenizer, FIRST + 3); /* rows of a model that no piece has */
    CHECK(decodes(tokenizer, IDS(FIRST + 1, HELLO, FIRST + 2, WORLD, FIRST + 1), false,
                  "hello world"));
    CHECK(ft_tokenizer_size(tokenizer) == FIRST + 1 && !ft_tokenizer_piece(tokenizer, FIRST + 1));
    CHECK_STATUS(
        ft_tokenizer_decode(tokenizer, IDS(HELLO, FIRST + 3), 2, true, &text, &(int64_t){0}, &err),
        FT_INVALID);
    CHECK(strstr(err.message, "id 32 at position 1, expected 0 to 31"));
    ft_tokenizer_free(tokenizer);
}

/* A character map: trie bytes, a trie of 256 empty units with one changed, one text. */
static int charsmap(unsigned char *map, uint32_t unit, uint32_t value, const char *text, int n)
{
    uint32_t size = 1024;
    memset(map, 0, 4 + size);
    memcpy(map, &size, 4);
    memcpy(map + 4 + 4 * unit, &value, 4);
    memcpy(map + 4 + size, text, (size_t)n);
    return 4 + (int)size + n;
}

static void bad_models(void)
{
    static const struct {
        uint32_t unit, value; /* an offset of 256 units is 1 << 18; the top bit makes a leaf */
        const char *text;
        int n;
        const char *words;
    } cases[] = {
        {0, 0, "x", 2, NULL},
        {5, 1u << 18, "x", 2, "unit 5 leads to 511 of 256"},
        {5, 1u << 10 | 1u << 9, "x", 2, "unit 5 leads to 511 of 256"},
        {9, 0x80000002u, "x", 2, "unit 9 leads to 2 of 2"},
        {9, 0x80000001u, "x", 2, NULL},
        {0, 0x80000001u, "x", 2, "unit 0 is a leaf, and the root"},
        {7, 0x100u, "x", 2, "unit 7 leads to no leaf"},
        {0, 0, "x", 1, "does not end in NUL"},
    };
    ft_tokenizer *tokenizer;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char map[1200];
        spm_bytes model;
        ft_error err = {0};
        int n = charsmap(map, cases[i].unit, cases[i].value, cases[i].text, cases[i].n);
        spm_model(&model, spm_pieces, SPM_N, map, n);
        ft_status status = ft_tokenizer_load(&tokenizer, model.data, model.n, 0, &err);
        CHECK_STATUS(status, cases[i].words ? FT_FORMAT : FT_OK);
        if (cases[i].words && !CHECK(strstr(err.message, cases[i].words)))
            fprintf(stderr, "%s\n", err.message);
        ft_tokenizer_free(tokenizer);
    }
    spm_bytes model;
    ft_error err = {0};
    spm_model(&model, spm_pieces, SPM_N, NULL, 0);
    for (int n = 1; n < model.n; n++) { /* cut anywhere: refused, or (between fields) a model */
        ft_status status = ft_tokenizer_load(&tokenizer, model.data, n, 0, &err);
        CHECK((status == FT_OK) == (tokenizer != NULL));
        CHECK(status == FT_OK || status == FT_FORMAT);
        ft_tokenizer_free(tokenizer);
    }
    CHECK_STATUS(ft_tokenizer_load(&tokenizer, "text", 4, 0, &err), FT_FORMAT);
    CHECK_STATUS(ft_tokenizer_load(&tokenizer, NULL, 0, 0, &err), FT_FORMAT);
    CHECK_STATUS(ft_tokenizer_load(&tokenizer, model.data, model.n, -1, &err), FT_INVALID);
    CHECK_STATUS(ft_tokenizer_open(&tokenizer, "/nowhere/spiece.model", 0, &err), FT_NOT_FOUND);
    CHECK_STATUS(ft_tokenizer_open(&tokenizer, "/", 0, &err), FT_IO);
}

static void model_files(void)
{
    char path[] = "/tmp/ftpipe_data_XXXXXX";
    int fd = mkstemp(path);
    spm_bytes model;
    ft_error err = {0};
    ft_tokenizer *tokenizer;
    spm_model(&model, spm_pieces, SPM_N, NULL, 0);
    CHECK(write(fd, model.data, (size_t)model.n) == model.n);
    CHECK_STATUS(ft_tokenizer_open(&tokenizer, path, 3, &err), FT_OK);
    CHECK(ft_tokenizer_size(tokenizer) == SPM_N + 3);
    ft_tokenizer_free(tokenizer);
    CHECK(ftruncate(fd, 7) == 0);
    CHECK_STATUS(ft_tokenizer_open(&tokenizer, path, 3, &err), FT_FORMAT);
    CHECK(strstr(err.message, path));
    close(fd);
    unlink(path);
}

/* -- no memory -------------------------------------------------------------------------------- */

static ft_status try_tokenizer(void *none, ft_error *err)
{
    (void)none;
    spm_bytes model;
    ft_tokenizer *tokenizer;
    int32_t *ids = NULL;
    int64_t n;
    char *text = NULL;
    spm_model(&model, spm_pieces, SPM_N, NULL, 0);
    FT_TRY(ft_tokenizer_load(&tokenizer, model.data, model.n, EXTRA, err));
    ft_status status = FT_OK;
    FT_GO(ft_tokenizer_encode(tokenizer, "hello world</s>hello <pad>", 26, &ids, &n, err));
    FT_GO(ft_tokenizer_decode(tokenizer, ids, n, false, &text, &(int64_t){0}, err));
    CHECK(strcmp(text, "hello world</s> hello<pad>") == 0);
done:
    ft_free(ids);
    ft_free(text);
    ft_tokenizer_free(tokenizer);
    return status;
}

static void no_memory(void)
{
    check_without_memory(try_tokenizer, NULL, 3);
}

int main(void)
{
    RUN(encoding);
    RUN(special_tokens);
    RUN(not_utf8);
    RUN(decoding);
    RUN(bad_models);
    RUN(model_files);
    RUN(no_memory);
    return check_report();
}
