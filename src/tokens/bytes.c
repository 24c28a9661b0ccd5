/* tokens/bytes.c - bytes as ids, as ByT5 has them (Xue et al., arXiv:2105.13626): no vocabulary;
 * three special tokens, then the 256 bytes, then sentinels in order. Decoding leaves out bytes that
 * are no text. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokens/internal.h"

enum { N_SPECIAL = 3, N_BYTES = 256, MAX_EXTRA_IDS = 1 << 20, SENTINEL_BYTES = 24 };

static const ft_special_name special_names[] = {
    {"pad", {"<pad>"}},
    {"eos", {"</s>"}},
    {"unk", {"<unk>"}},
    {NULL, {NULL}},
};

/* The character U+0000 to U+00FF that each byte is written as. */
typedef struct bytes_model {
    char pieces[N_BYTES][3];
} bytes_model;

static int bytes_size(const void *model)
{
    (void)model;
    return N_SPECIAL + N_BYTES;
}

static const char *bytes_piece(const void *model, int32_t id)
{
    const bytes_model *b = model;
    return id < N_SPECIAL ? special_names[id].texts[0] : b->pieces[id - N_SPECIAL];
}

static int32_t bytes_find(const void *model, const char *piece, int64_t size)
{
    const bytes_model *b = model;
    for (int i = 0; i < N_SPECIAL; i++)
        if ((int64_t)strlen(special_names[i].texts[0]) == size &&
            memcmp(special_names[i].texts[0], piece, (size_t)size) == 0)
            return i;
    for (int i = 0; i < N_BYTES; i++)
        if (size == (i < 0x80 ? 1 : 2) && memcmp(b->pieces[i], piece, (size_t)size) == 0)
            return N_SPECIAL + i;
    return FT_NO_ID;
}

static ft_status bytes_encode(const void *model, ft_stretch text, ft_ids *ids, ft_error *err)
{
    (void)model;
    for (int64_t i = 0; i < text.size; i++) {
        int32_t id = N_SPECIAL + (unsigned char)text.bytes[i];
        if (!ft_ids_add(ids, &id, 1)) return ft_ids_no_memory(ids, err);
    }
    return FT_OK;
}

static ft_status bytes_decode(const void *model, const int32_t *ids, int64_t n, ft_bytes *text,
                              ft_error *err)
{
    (void)model;
    ft_bytes raw = {0};
    bool fits = true;
    for (int64_t i = 0; fits && i < n; i++)
        fits = ft_bytes_add(&raw, (const char[]){(char)(ids[i] - N_SPECIAL)}, 1);
    for (int64_t from = 0, good; fits && from < raw.n; from += good + 1) {
        int64_t bad = ft_utf8_check(raw.data + from, raw.n - from);
        good = bad < 0 ? raw.n - from : bad;
        fits = ft_bytes_add(text, raw.data + from, good);
    }
    ft_free(raw.data);
    return fits ? FT_OK : ft_bytes_no_memory(text, err);
}

static void bytes_free(void *model)
{
    ft_free(model);
}

const ft_tokenizer_kind_row ft_kind_bytes = {
    .name = "bytes",
    .pair = {NULL, "eos", "eos", 0},
    .specials = special_names,
    .separator = "",
    .size = bytes_size,
    .piece = bytes_piece,
    .find = bytes_find,
    .encode = bytes_encode,
    .decode = bytes_decode,
    .free = bytes_free,
};

static ft_status add_specials(ft_specials *specials, int extra_ids, ft_error *err)
{
    const int flags = FT_SPECIAL_HIDDEN | FT_SPECIAL_STRIP_LEFT | FT_SPECIAL_STRIP_RIGHT;
    char text[SENTINEL_BYTES];
    for (int id = 0; id < N_SPECIAL; id++) {
        const char *name = special_names[id].texts[0];
        FT_TRY(ft_specials_add(specials, name, (int64_t)strlen(name), id, flags, err));
    }
    for (int i = 0; i < extra_ids; i++) {
        int n = snprintf(text, sizeof text, "<extra_id_%d>", i);
        FT_TRY(ft_specials_add(specials, text, n, N_SPECIAL + N_BYTES + i, FT_SPECIAL_HIDDEN, err));
    }
    return FT_OK;
}

ft_status ft_tokenizer_load_bytes(ft_tokenizer **out, int extra_ids, ft_error *err)
{
    ft_specials specials = {0};
    *out = NULL;
    if (extra_ids < 0 || extra_ids > MAX_EXTRA_IDS)
        return ft_fail(err, FT_INVALID, "tokenizer: %d extra ids, expected 0 to %d", extra_ids,
                       MAX_EXTRA_IDS);
    bytes_model *model = ft_alloc(sizeof *model);
    ft_status status = model ? add_specials(&specials, extra_ids, err)
                             : ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    for (int i = 0; model && i < N_BYTES; i++) {
        char *piece = model->pieces[i];
        piece[0] = (char)(i < 0x80 ? i : 0xC0 | i >> 6);
        if (i >= 0x80) piece[1] = (char)(0x80 | (i & 0x3F));
    }
    if (status == FT_OK) return ft_tokenizer_new(out, &ft_kind_bytes, model, &specials, err);
    ft_free(model);
    ft_specials_fini(&specials);
    return status;
}
