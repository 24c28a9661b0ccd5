/* test/test_sentencepiece.c - our own search for the best pieces against the library's: the same
 * ids for any text, and which models are left to the library. */
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "check.h"
#include "sentencepiece/sentencepiece.h"
#include "spm_model.h"

#define MARK "\xE2\x96\x81"

enum { MAP_BYTES = 4 + 1024 + 8 };

/* A character map of one key of two ASCII characters, which differ, and its text. */
static void one_key(unsigned char *map, const char *key, const char *text)
{
    unsigned a = (unsigned char)key[0], b = a ^ (unsigned char)key[1];
    uint32_t size = 1024, units[256] = {0};
    /* Unit 0 leads to unit a; that one, by the second byte, to unit b, where the key ends: its leaf
     * is at b, since all offsets are 0, so b leads 1 further. */
    units[a] = a;
    units[b] = (unsigned char)key[1] | 0x100u | 1u << 10;
    units[b ^ 1] = 0x80000000u;
    memset(map, 0, MAP_BYTES);
    memcpy(map, &size, 4);
    memcpy(map + 4, units, sizeof units);
    memcpy(map + 4 + 1024, text, strlen(text));
}

static bool append(void *context, const int *ids, int64_t n)
{
    return ft_ids_add(context, ids, n);
}

/* Random texts of these parts: how many get other ids than from the library. */
static int count_differences(const spm_bytes *model, const char *const *parts, int n_parts)
{
    enum { TEXTS = 2000, LONGEST = 60 };
    ft_segmenter *ours;
    ft_spm *library;
    ft_rng rng;
    ft_error err;
    int wrong = 0;
    ft_rng_init(&rng, 11, 0);
    CHECK_STATUS(ft_spm_check(model->data, model->n, &err), FT_OK);
    CHECK_STATUS(ft_spm_load(&library, model->data, model->n, &err), FT_OK);
    CHECK_STATUS(ft_segmenter_new(&ours, model->data, model->n, &err), FT_OK);
    if (!CHECK(ours)) return -1;
    for (int i = 0; i < TEXTS; i++) {
        ft_bytes text = {0};
        ft_ids a = {0}, b = {0};
        ft_bytes_add(&text, "", 0);
        for (uint64_t k = ft_rng_below(&rng, LONGEST); k > 0; k--) {
            const char *part = parts[ft_rng_below(&rng, (uint64_t)n_parts)];
            ft_bytes_add(&text, part, (int64_t)strlen(part));
        }
        CHECK_STATUS(ft_segmenter_encode(ours, text.data, text.n, &a, &err), FT_OK);
        CHECK_STATUS(ft_spm_encode(library, text.data, text.n, append, &b, &err), FT_OK);
        bool same = a.n == b.n;
        for (int64_t k = 0; same && k < a.n; k++) same = a.data[k] == b.data[k];
        if (!same && wrong++ == 0) fprintf(stderr, "'%s'\n", text.data);
        ft_free(a.data);
        ft_free(b.data);
        ft_free(text.data);
    }
    ft_segmenter_free(ours);
    ft_spm_free(library);
    return wrong;
}

static void same_ids(void)
{
    static const char *const parts[] = {"hello", "world", "h",  "ello",     "o",
                                        "l",     " ",     "  ", "\xC3\xA9", "\xE4\xB8\xAD",
                                        MARK,    "\t",    "s ", "<",        "so"};
    enum { N = sizeof parts / sizeof *parts };
    spm_bytes model;
    spm_model(&model, spm_pieces, SPM_N, NULL, 0);
    CHECK(count_differences(&model, parts, N) == 0);
    /* With a map that makes a space, more than a character, nothing. */
    static const char *const texts[] = {" ", "hello s", "", " o ", MARK};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        unsigned char map[MAP_BYTES];
        one_key(map, "so", texts[i]);
        spm_model(&model, spm_pieces, SPM_N, map, sizeof map);
        CHECK(count_differences(&model, parts, N) == 0);
    }
}

/* Pieces that are as good as others: what rounding makes of sums decides. */
static void ties(void)
{
    static const spm_piece pieces[] = {
        {"<unk>", 0, SPM_UNKNOWN},   {MARK, -2.1f, SPM_NORMAL},      {"0", -3.3f, SPM_NORMAL},
        {"00", -5.7f, SPM_NORMAL},   {"000", -9, SPM_NORMAL},        {"0000", -11.4f, SPM_NORMAL},
        {"a", -8.7654f, SPM_NORMAL}, {MARK "a", -10.1f, SPM_NORMAL},
    };
    static const char *const parts[] = {"0", "00", "a", " ", "000", "aa "};
    spm_bytes model;
    spm_model(&model, pieces, sizeof pieces / sizeof *pieces, NULL, 0);
    CHECK(count_differences(&model, parts, 6) == 0);
}

/* -- which models ----------------------------------------------------------------------------- */

static bool is_taken(const spm_bytes *model)
{
    ft_segmenter *segmenter;
    ft_error err;
    CHECK_STATUS(ft_segmenter_new(&segmenter, model->data, model->n, &err), FT_OK);
    ft_segmenter_free(segmenter);
    return segmenter;
}

/* The small model with a field of the trainer (2) or the normaliser (3) added, or a piece. */
static bool takes(unsigned message, unsigned field, unsigned value, int piece_type)
{
    spm_bytes model, inner = {.n = 0};
    spm_piece pieces[SPM_N];
    memcpy(pieces, spm_pieces, sizeof pieces);
    if (piece_type) pieces[SPM_N - 1].type = piece_type;
    spm_model(&model, pieces, SPM_N, NULL, 0);
    spm_varint(&inner, field << 3);
    spm_varint(&inner, value);
    if (field) spm_field(&model, message, inner.data, inner.n);
    return is_taken(&model);
}

static void models(void)
{
    enum { USER_DEFINED = 4, UNUSED = 5 };
    CHECK(takes(0, 0, 0, 0));
    CHECK(takes(0, 0, 0, UNUSED));
    CHECK(!takes(0, 0, 0, USER_DEFINED));
    CHECK(!takes(0, 0, 0, SPM_BYTE));
    CHECK(!takes(0, 0, 0, SPM_UNKNOWN)); /* two of them */
    CHECK(takes(2, 3, 1, 0));
    CHECK(!takes(2, 3, 2, 0)); /* BPE */
    CHECK(!takes(2, 24, 1, 0));
    CHECK(!takes(2, 35, 1, 0));
    for (unsigned field = 3; field <= 5; field++) {
        CHECK(takes(3, field, 1, 0));
        CHECK(!takes(3, field, 0, 0));
    }
}

/* A text of a map may begin within a character, and then says more bytes than there are; one that
 * is cut is refused. */
static void texts_of_maps(void)
{
    unsigned char map[MAP_BYTES];
    spm_bytes model;
    ft_segmenter *ours;
    ft_ids ids = {0};
    ft_error err = {0};
    one_key(map, "so", "\xE4\xB8\xAD");
    uint32_t last = 0x80000002u; /* the leaf of the key: the third byte */
    memcpy(map + 4 + 4 * ('s' ^ 'o' ^ 1), &last, sizeof last);
    spm_model(&model, spm_pieces, SPM_N, map, sizeof map);
    CHECK_STATUS(ft_spm_check(model.data, model.n, &err), FT_OK);
    CHECK_STATUS(ft_segmenter_new(&ours, model.data, model.n, &err), FT_OK);
    CHECK_STATUS(ft_segmenter_encode(ours, "hello hso", 9, &ids, &err), FT_OK);
    CHECK(ids.n > 2);
    ft_free(ids.data);
    ft_segmenter_free(ours);
    one_key(map, "so", "\xE4\xB8");
    spm_model(&model, spm_pieces, SPM_N, map, sizeof map);
    CHECK_STATUS(ft_spm_check(model.data, model.n, &err), FT_FORMAT);
    CHECK(strstr(err.message, "texts are not UTF-8 at byte 0"));
}

int main(void)
{
    RUN(same_ids);
    RUN(ties);
    RUN(models);
    RUN(texts_of_maps);
    return check_report();
}
