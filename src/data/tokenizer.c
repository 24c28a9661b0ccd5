/* data/tokenizer.c - text into ids and back, as T5 does it.
 *
 * sentencepiece never sees special tokens: they are split out of the text first, and each stretch
 * between them is encoded alone, so that it gets its own leading space and loses its own outer
 * blanks. This is what the T5 tokenizers of transformers do (legacy behaviour).
 *
 * Decoding joins stretches of ordinary pieces as sentencepiece does; special tokens are printed or
 * left out. A stretch that begins with U+2581 keeps it as one space unless the text is still empty;
 * no other space is put around special tokens, and no space before punctuation is taken away. */
#include "data/data.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/internal.h"

enum {
    N_LITERALS = 3,
    MAX_EXTRA_IDS = 1 << 20,
    SENTINEL_BYTES = 24,      /* "<extra_id_1048575>" and its NUL */
    MAX_TEXT = INT32_MAX / 4, /* bytes; sentencepiece counts normalised bytes in an int */
};

static const char *const literals[N_LITERALS] = {"</s>", "<unk>", "<pad>"};
static const char sentinel_prefix[] = "<extra_id_";
static const char space_mark[] = "\xE2\x96\x81"; /* U+2581, which stands for a space in pieces */

struct ft_tokenizer {
    ft_spm *spm;
    int n_pieces, extra_ids;
    int literal_ids[N_LITERALS];       /* -1: the model has no such special piece */
    char (*sentinels)[SENTINEL_BYTES]; /* by id - n_pieces */
};

/* Pieces with a smaller number come later: <extra_id_0> is the last id. */
static int sentinel_id(const ft_tokenizer *tokenizer, int number)
{
    return tokenizer->n_pieces + tokenizer->extra_ids - 1 - number;
}

static ft_status init(ft_tokenizer *tokenizer, const void *bytes, int64_t size, int extra_ids,
                      ft_error *err)
{
    FT_TRY(ft_spm_check(bytes, size, err));
    FT_TRY(ft_spm_load(&tokenizer->spm, bytes, size, err));
    tokenizer->n_pieces = ft_spm_size(tokenizer->spm);
    tokenizer->extra_ids = extra_ids;
    for (int i = 0; i < N_LITERALS; i++)
        tokenizer->literal_ids[i] = ft_spm_special(tokenizer->spm, literals[i]);
    tokenizer->sentinels = ft_alloc((int64_t)extra_ids * SENTINEL_BYTES);
    if (!tokenizer->sentinels)
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory for %d extra ids", extra_ids);
    for (int i = 0; i < extra_ids; i++)
        snprintf(tokenizer->sentinels[extra_ids - 1 - i], SENTINEL_BYTES, "%s%d>", sentinel_prefix,
                 i);
    return FT_OK;
}

ft_status ft_tokenizer_load(ft_tokenizer **out, const void *bytes, int64_t size, int extra_ids,
                            ft_error *err)
{
    *out = NULL;
    if (extra_ids < 0 || extra_ids > MAX_EXTRA_IDS)
        return ft_fail(err, FT_INVALID, "tokenizer: %d extra ids, expected 0 to %d", extra_ids,
                       MAX_EXTRA_IDS);
    if (size <= 0 || size > INT32_MAX)
        return ft_fail(err, FT_FORMAT, "tokenizer: model of %lld bytes, expected 1 to %d",
                       (long long)size, INT32_MAX);
    ft_tokenizer *tokenizer = ft_alloc(sizeof *tokenizer);
    if (!tokenizer) return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    ft_status status = init(tokenizer, bytes, size, extra_ids, err);
    if (status == FT_OK)
        *out = tokenizer;
    else
        ft_tokenizer_free(tokenizer);
    return status;
}

void ft_tokenizer_free(ft_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    ft_spm_free(tokenizer->spm);
    ft_free(tokenizer->sentinels);
    ft_free(tokenizer);
}

int ft_tokenizer_size(const ft_tokenizer *tokenizer)
{
    return tokenizer->n_pieces + tokenizer->extra_ids;
}

const char *ft_tokenizer_piece(const ft_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || id >= ft_tokenizer_size(tokenizer)) return NULL;
    if (id >= tokenizer->n_pieces) return tokenizer->sentinels[id - tokenizer->n_pieces];
    return ft_spm_piece(tokenizer->spm, id);
}

/* -- encoding --------------------------------------------------------------------------------- */

/* A special token in text. */
typedef struct ft_special {
    int id;
    int64_t size; /* bytes of text; 0: there is none */
} ft_special;

/* The sentinel that `text` begins with. Its number is written as printf would: no leading zeros. */
static ft_special match_sentinel(const ft_tokenizer *tokenizer, const char *text, int64_t size)
{
    int64_t start = (int64_t)sizeof sentinel_prefix - 1, i = start;
    int number = 0;
    if (size <= start || memcmp(text, sentinel_prefix, (size_t)start) != 0) return (ft_special){0};
    for (; i < size && text[i] >= '0' && text[i] <= '9' && number < tokenizer->extra_ids; i++)
        number = 10 * number + (text[i] - '0');
    bool written_so = i > start && (text[start] != '0' || i == start + 1);
    if (!written_so || i >= size || text[i] != '>' || number >= tokenizer->extra_ids)
        return (ft_special){0};
    return (ft_special){sentinel_id(tokenizer, number), i + 1};
}

static ft_special match_special(const ft_tokenizer *tokenizer, const char *text, int64_t size)
{
    for (int i = 0; i < N_LITERALS; i++) {
        int64_t n = (int64_t)strlen(literals[i]);
        if (tokenizer->literal_ids[i] >= 0 && n <= size &&
            memcmp(text, literals[i], (size_t)n) == 0)
            return (ft_special){tokenizer->literal_ids[i], n};
    }
    return match_sentinel(tokenizer, text, size);
}

/* The first special token at or after text[from]; *at is where, or the end of the text. */
static ft_special find_special(const ft_tokenizer *tokenizer, const char *text, int64_t size,
                               int64_t from, int64_t *at)
{
    while (from < size) {
        const char *open = memchr(text + from, '<', (size_t)(size - from));
        if (!open) break;
        *at = open - text;
        ft_special special = match_special(tokenizer, open, size - *at);
        if (special.size) return special;
        from = *at + 1;
    }
    *at = size;
    return (ft_special){0};
}

/* A growing list of ids. */
typedef struct ft_ids {
    int32_t *data;
    int64_t n, capacity;
} ft_ids;

static bool append_ids(void *context, const int *ids, int64_t n)
{
    ft_ids *list = context;
    if (!list->data || list->n + n > list->capacity) {
        int64_t capacity = list->capacity * 2 > list->n + n ? list->capacity * 2 : list->n + n + 16;
        int32_t *data = ft_realloc(list->data, capacity * (int64_t)sizeof *data);
        if (!data) return false;
        list->data = data;
        list->capacity = capacity;
    }
    for (int64_t i = 0; i < n; i++) list->data[list->n + i] = ids[i];
    list->n += n;
    return true;
}

static ft_status encode_into(ft_ids *list, const ft_tokenizer *tokenizer, const char *text,
                             int64_t size, ft_error *err)
{
    int64_t at = 0;
    for (int64_t from = 0; from < size;) {
        ft_special special = find_special(tokenizer, text, size, from, &at);
        if (at > from)
            FT_TRY(ft_spm_encode(tokenizer->spm, text + from, at - from, append_ids, list, err));
        if (special.size && !append_ids(list, &special.id, 1))
            return ft_fail(err, FT_NOMEM, "tokenizer: no memory for %lld ids",
                           (long long)list->n + 1);
        from = at + special.size;
    }
    return FT_OK;
}

ft_status ft_tokenizer_encode(const ft_tokenizer *tokenizer, const char *text, int64_t size,
                              int32_t **ids, int64_t *n, ft_error *err)
{
    *ids = NULL;
    *n = 0;
    if (size < 0 || size > MAX_TEXT)
        return ft_fail(err, FT_INVALID, "tokenizer: text of %lld bytes, expected at most %d",
                       (long long)size, MAX_TEXT);
    int64_t bad = ft_utf8_check(text, size);
    if (bad >= 0)
        return ft_fail(err, FT_FORMAT, "text is not UTF-8: byte 0x%02x at position %lld",
                       (unsigned char)text[bad], (long long)bad);
    ft_ids list = {0};
    if (!append_ids(&list, NULL, 0)) /* a block even when there are no ids */
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory for ids");
    ft_status status = encode_into(&list, tokenizer, text, size, err);
    if (status != FT_OK) {
        ft_free(list.data);
        return status;
    }
    *ids = list.data;
    *n = list.n;
    return FT_OK;
}

/* -- decoding --------------------------------------------------------------------------------- */

/* A growing text that may hold any byte. */
typedef struct ft_bytes {
    char *data;
    int64_t n, capacity;
} ft_bytes;

static bool append_bytes(void *context, const char *bytes, int64_t n)
{
    ft_bytes *text = context;
    if (text->n + n + 1 > text->capacity) {
        int64_t capacity = 2 * (text->n + n) + 32;
        char *data = ft_realloc(text->data, capacity);
        if (!data) return false;
        text->data = data;
        text->capacity = capacity;
    }
    memcpy(text->data + text->n, n ? bytes : "", (size_t)n);
    text->n += n;
    text->data[text->n] = 0;
    return true;
}

static ft_status no_memory_for_text(const ft_bytes *text, ft_error *err)
{
    return ft_fail(err, FT_NOMEM, "tokenizer: no memory for text past %lld bytes",
                   (long long)text->n);
}

static bool is_special(const ft_tokenizer *tokenizer, int32_t id)
{
    if (id >= tokenizer->n_pieces) return true;
    for (int i = 0; i < N_LITERALS; i++)
        if (id == tokenizer->literal_ids[i]) return true;
    return false;
}

/* Appends a stretch of ordinary pieces. sentencepiece drops the space before the first of them. */
static ft_status decode_stretch(ft_bytes *text, const ft_tokenizer *tokenizer, const int32_t *ids,
                                int64_t n, ft_error *err)
{
    const char *first = ft_spm_piece(tokenizer->spm, ids[0]);
    bool spaced = text->n > 0 && strncmp(first, space_mark, sizeof space_mark - 1) == 0;
    if (spaced && !append_bytes(text, " ", 1)) return no_memory_for_text(text, err);
    return ft_spm_decode(tokenizer->spm, ids, n, append_bytes, text, err);
}

static ft_status decode_into(ft_bytes *text, const ft_tokenizer *tokenizer, const int32_t *ids,
                             int64_t n, bool skip_special, ft_error *err)
{
    for (int64_t from = 0, to = 0; from < n; from = to) {
        to = from + 1;
        if (is_special(tokenizer, ids[from])) {
            const char *piece = skip_special ? "" : ft_tokenizer_piece(tokenizer, ids[from]);
            if (!append_bytes(text, piece, (int64_t)strlen(piece)))
                return no_memory_for_text(text, err);
            continue;
        }
        while (to < n && !is_special(tokenizer, ids[to])) to++;
        FT_TRY(decode_stretch(text, tokenizer, ids + from, to - from, err));
    }
    return FT_OK;
}

ft_status ft_tokenizer_decode(const ft_tokenizer *tokenizer, const int32_t *ids, int64_t n,
                              bool skip_special, char **text, ft_error *err)
{
    *text = NULL;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= ft_tokenizer_size(tokenizer))
            return ft_fail(err, FT_INVALID, "tokenizer: id %d at position %lld, expected 0 to %d",
                           (int)ids[i], (long long)i, ft_tokenizer_size(tokenizer) - 1);
    ft_bytes bytes = {0};
    if (!append_bytes(&bytes, "", 0)) return no_memory_for_text(&bytes, err);
    ft_status status = decode_into(&bytes, tokenizer, ids, n, skip_special, err);
    if (status == FT_OK)
        *text = bytes.data;
    else
        ft_free(bytes.data);
    return status;
}
