/* tokens/unigram.c - sentencepiece models, as T5 has them.
 *
 * The library never sees the model's own special tokens in text. Decoding joins a stretch of
 * ordinary pieces as the library does; one that begins with U+2581 keeps it as a space unless the
 * text is still empty; no other space is put around special tokens. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tokens/internal.h"
#include "io/io.h"

enum {
    MAX_EXTRA_IDS = 1 << 20,
    SENTINEL_BYTES = 24, /* "<extra_id_1048575>" and its NUL */
};

static const char space_mark[] = "\xE2\x96\x81"; /* U+2581, which stands for a space in pieces */

const ft_special_name ft_unigram_specials[] = {
    {"pad", {"<pad>", "[PAD]"}}, {"eos", {"</s>"}},  {"unk", {"<unk>"}},   {"bos", {"<s>"}},
    {"cls", {"[CLS]"}},          {"sep", {"[SEP]"}}, {"mask", {"[MASK]"}}, {NULL, {NULL}},
};

typedef struct unigram {
    ft_spm *spm;
    ft_segmenter *segmenter; /* NULL: the library encodes */
} unigram;

static int unigram_size(const void *model)
{
    return ft_spm_size(((const unigram *)model)->spm);
}

static const char *unigram_piece(const void *model, int32_t id)
{
    return ft_spm_piece(((const unigram *)model)->spm, id);
}

static int32_t unigram_find(const void *model, const char *piece, int64_t size)
{
    return ft_spm_find(((const unigram *)model)->spm, piece, size);
}

static bool append_ids(void *context, const int *ids, int64_t n)
{
    return ft_ids_add(context, ids, n);
}

static ft_status unigram_encode(const void *model, ft_stretch text, ft_ids *ids, ft_error *err)
{
    const unigram *u = model;
    if (u->segmenter) return ft_segmenter_encode(u->segmenter, text.bytes, text.size, ids, err);
    return ft_spm_encode(u->spm, text.bytes, text.size, append_ids, ids, err);
}

static bool append_bytes(void *context, const char *bytes, int64_t n)
{
    return ft_bytes_add(context, bytes, n);
}

/* sentencepiece drops the space before the first piece. */
static ft_status unigram_decode(const void *model, const int32_t *ids, int64_t n, ft_bytes *text,
                                ft_error *err)
{
    const unigram *u = model;
    const char *first = ft_spm_piece(u->spm, ids[0]);
    bool spaced = text->n > 0 && strncmp(first, space_mark, sizeof space_mark - 1) == 0;
    if (spaced && !ft_bytes_add(text, " ", 1)) return ft_bytes_no_memory(text, err);
    return ft_spm_decode(u->spm, ids, n, append_bytes, text, err);
}

static void unigram_free(void *model)
{
    unigram *u = model;
    if (!u) return;
    ft_spm_free(u->spm);
    ft_segmenter_free(u->segmenter);
    ft_free(u);
}

const ft_tokenizer_kind_row ft_kind_unigram = {
    .name = "unigram",
    .pair = {NULL, "eos", "eos", 0},
    .specials = ft_unigram_specials,
    .separator = "",
    .size = unigram_size,
    .piece = unigram_piece,
    .find = unigram_find,
    .encode = unigram_encode,
    .decode = unigram_decode,
    .free = unigram_free,
};

ft_status ft_unigram_new(void **out, const void *bytes, int64_t size, ft_error *err)
{
    *out = NULL;
    if (size <= 0 || size > INT32_MAX)
        return ft_fail(err, FT_FORMAT, "tokenizer: model of %lld bytes, expected 1 to %d",
                       (long long)size, INT32_MAX);
    FT_TRY(ft_spm_check(bytes, size, err));
    unigram *u = ft_alloc(sizeof *u);
    if (!u) return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    ft_status status = FT_OK;
    FT_GO(ft_spm_load(&u->spm, bytes, size, err));
    FT_GO(ft_segmenter_new(&u->segmenter, bytes, size, err));
    *out = u;
done:
    if (status != FT_OK) unigram_free(u);
    return status;
}

/* -- spiece.model ----------------------------------------------------------------------------- */

static ft_status add_special_pieces(ft_specials *specials, const ft_spm *spm, ft_error *err)
{
    for (const ft_special_name *row = ft_unigram_specials; row->name; row++)
        for (int i = 0; i < 3 && row->texts[i]; i++) {
            int64_t size = (int64_t)strlen(row->texts[i]);
            int32_t id = ft_spm_find(spm, row->texts[i], size);
            if (id != FT_NO_ID && ft_spm_is_special(spm, id))
                FT_TRY(ft_specials_add(specials, row->texts[i], size, id, FT_SPECIAL_HIDDEN, err));
        }
    return FT_OK;
}

/* Pieces with a smaller number come later: <extra_id_0> is the last id. */
static ft_status add_sentinels(ft_specials *specials, int n_pieces, int extra_ids, ft_error *err)
{
    for (int i = extra_ids - 1; i >= 0; i--) {
        char text[SENTINEL_BYTES];
        int n = snprintf(text, sizeof text, "<extra_id_%d>", i);
        FT_TRY(ft_specials_add(specials, text, n, n_pieces + extra_ids - 1 - i, FT_SPECIAL_HIDDEN,
                               err));
    }
    return FT_OK;
}

ft_status ft_tokenizer_load(ft_tokenizer **out, const void *bytes, int64_t size, int extra_ids,
                            ft_error *err)
{
    void *model = NULL;
    ft_specials specials = {0};
    ft_status status = FT_OK;
    *out = NULL;
    if (extra_ids < 0 || extra_ids > MAX_EXTRA_IDS)
        return ft_fail(err, FT_INVALID, "tokenizer: %d extra ids, expected 0 to %d", extra_ids,
                       MAX_EXTRA_IDS);
    FT_GO(ft_unigram_new(&model, bytes, size, err));
    FT_GO(add_special_pieces(&specials, ((const unigram *)model)->spm, err));
    FT_GO(add_sentinels(&specials, unigram_size(model), extra_ids, err));
    return ft_tokenizer_new(out, &ft_kind_unigram, model, &specials, err);
done:
    unigram_free(model);
    ft_specials_fini(&specials);
    return status;
}

ft_status ft_tokenizer_open(ft_tokenizer **out, const char *path, int extra_ids, ft_error *err)
{
    char *bytes = NULL;
    int64_t size = 0;
    *out = NULL;
    FT_TRY(ft_file_read(path, &bytes, &size, err));
    ft_status status = ft_tokenizer_load(out, bytes, size, extra_ids, err);
    if (status != FT_OK) ft_error_wrap(err, "%s", path);
    ft_free(bytes);
    return status;
}
