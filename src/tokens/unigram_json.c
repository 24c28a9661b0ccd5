/* tokens/unigram_json.c - a Unigram tokenizer.json, executed as the library `tokenizers` does it.
 *
 * That is not what sentencepiece makes of the model that such a file was converted from: characters
 * are replaced by the cluster, words are segmented one by one, and sums are rounded differently.
 * The chain changes and cuts text (room chain), the lattice finds the pieces of a part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/io.h"
#include "tokens/internal.h"

static const char space_mark[] = "\xE2\x96\x81"; /* U+2581, which stands for a space in pieces */
enum { MARK_BYTES = sizeof space_mark - 1 };

typedef struct unigram {
    ft_vocabulary pieces;
    ft_lattice *lattice;
    ft_chain *chain;
    bool byte_fallback;
} unigram;

static int unigram_size(const void *model)
{
    return ((const unigram *)model)->pieces.n;
}

static const char *unigram_piece(const void *model, int32_t id)
{
    return ((const unigram *)model)->pieces.pieces[id].text;
}

static int32_t unigram_find(const void *model, const char *piece, int64_t size)
{
    return ft_vocabulary_find(&((const unigram *)model)->pieces, piece, size);
}

static ft_status unigram_normalize(const void *model, ft_stretch text, ft_bytes *out, int64_t *head,
                                   ft_error *err)
{
    return ft_chain_normalize(((const unigram *)model)->chain, text, out, head, err);
}

typedef struct encoding {
    const ft_lattice *lattice;
    ft_lattice_space space;
    ft_ids *ids;
} encoding;

static ft_status encode_part(void *context, const char *part, int64_t size, ft_error *err)
{
    encoding *e = context;
    return ft_lattice_encode(e->lattice, part, size, &e->space, e->ids, err);
}

static ft_status unigram_encode(const void *model, ft_stretch text, ft_ids *ids, ft_error *err)
{
    const unigram *u = model;
    encoding e = {.lattice = u->lattice, .ids = ids};
    ft_status status = ft_chain_cut(u->chain, text, encode_part, &e, err);
    ft_free(e.space.data);
    return status;
}

/* The byte that a piece <0xE2> stands for, or -1. */
static int byte_of(const unigram *u, ft_piece piece)
{
    unsigned byte;
    char end;
    bool form = u->byte_fallback && piece.size == 6 && piece.text[0] == '<';
    return form && sscanf(piece.text, "<0x%2X%c", &byte, &end) == 2 && end == '>' ? (int)byte : -1;
}

/* Marks are spaces, but for those of the first piece of all. */
static ft_status unigram_decode(const void *model, const int32_t *ids, int64_t n, ft_bytes *text,
                                ft_error *err)
{
    const unigram *u = model;
    bool begins = text->n == 0;
    for (int64_t i = 0; i < n; i++) {
        ft_piece piece = u->pieces.pieces[ids[i]];
        int byte = byte_of(u, piece);
        char one[2] = {(char)byte, 0};
        if (byte >= 0) piece = (ft_piece){one, 1};
        for (int64_t at = 0, to; at < piece.size; at = to + MARK_BYTES) {
            const char *mark = byte >= 0 ? NULL : strstr(piece.text + at, space_mark);
            to = mark ? mark - piece.text : piece.size;
            if (!ft_bytes_add(text, piece.text + at, to - at) ||
                (mark && !(begins && i == 0) && !ft_bytes_add(text, " ", 1)))
                return ft_bytes_no_memory(text, err);
        }
    }
    return FT_OK;
}

static void unigram_free(void *model)
{
    unigram *u = model;
    if (!u) return;
    ft_vocabulary_fini(&u->pieces);
    ft_lattice_free(u->lattice);
    ft_chain_free(u->chain);
    ft_free(u);
}

const ft_tokenizer_kind_row ft_kind_unigram_json = {
    .name = "unigram",
    .pair = {NULL, "eos", "eos", 0},
    .specials = ft_unigram_specials,
    .separator = "",
    .size = unigram_size,
    .piece = unigram_piece,
    .find = unigram_find,
    .normalize = unigram_normalize,
    .encodes_normalized = true,
    .encode = unigram_encode,
    .decode = unigram_decode,
    .free = unigram_free,
};

/* -- reading ---------------------------------------------------------------------------------- */

/* A number as the library reads it, which is not always the nearest one: its digits as an integer,
 * rounded, then divided by a power of ten. Paths that are as good as each other depend on it. The
 * digits are the fewest that stand for the number, as files have them. */
static double read_score(double exact)
{
    enum { MOST_DIGITS = 17, MAX_POWER = 308 };
    char text[40], power[16];
    int digits = 14;
    do snprintf(text, sizeof text, "%.*e", digits++, exact);
    while (digits < MOST_DIGITS && strtod(text, NULL) != exact);
    uint64_t whole = 0;
    int n = 0, zeros = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p < '0' || *p > '9') continue;
        n++;
        zeros = *p == '0' ? zeros + 1 : 0;
        whole = 10 * whole + (uint64_t)(*p - '0');
    }
    for (int i = 0; i < zeros && whole > 0; i++) whole /= 10;
    int shift = *p == 'e' ? atoi(p + 1) - (n - 1) + zeros : 0;
    if (whole == 0 || *p != 'e' || abs(shift) > MAX_POWER) return exact;
    snprintf(power, sizeof power, "1e%d", abs(shift));
    double scale = strtod(power, NULL);
    double result = shift < 0 ? (double)whole / scale : (double)whole * scale;
    return exact < 0 ? -result : result;
}

/* The piece of [piece, score], NULL when it is no such row. */
static const char *read_row(const json_t *row, double *score)
{
    const json_t *number = json_array_get(row, 1);
    if (json_array_size(row) != 2 || !json_is_number(number)) return NULL;
    *score = read_score(json_number_value(number));
    return json_string_value(json_array_get(row, 0));
}

static ft_status read_pieces(unigram *u, ft_lattice_piece *pieces, const json_t *list,
                             const char *name, ft_error *err)
{
    int32_t n = (int32_t)json_array_size(list);
    for (int32_t id = 0; id < n; id++) {
        double score = 0;
        const char *piece = read_row(json_array_get(list, (size_t)id), &score);
        if (!piece || !*piece)
            return ft_fail(err, FT_FORMAT, "%s: model.vocab[%d] is not a [piece, score]", name,
                           (int)id);
        pieces[id] = (ft_lattice_piece){piece, (int64_t)strlen(piece), score};
        ft_status status = ft_vocabulary_add(&u->pieces, piece, pieces[id].size, id, err);
        if (status != FT_OK) return err ? ft_error_wrap(err, "%s", name) : status;
    }
    return FT_OK;
}

static ft_status read_model(unigram *u, const json_t *model, const char *name, ft_error *err)
{
    const json_t *list = json_object_get(model, "vocab"), *unk = json_object_get(model, "unk_id");
    int64_t n = (int64_t)json_array_size(list);
    int64_t unknown = json_is_integer(unk) ? (int64_t)json_integer_value(unk) : -1;
    bool none = !unk || json_is_null(unk);
    if (!none && (unknown < 0 || unknown >= n))
        return ft_fail(err, FT_FORMAT, "%s: model.unk_id is not a piece of the %lld", name,
                       (long long)n);
    u->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    ft_lattice_options options = {.unknown = none ? FT_NO_ID : (int32_t)unknown,
                                  .byte_fallback = u->byte_fallback};
    ft_lattice_piece *pieces = ft_alloc(n * (int64_t)sizeof *pieces);
    if (!pieces)
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory for %lld pieces", (long long)n);
    ft_status status = read_pieces(u, pieces, list, name, err);
    if (status == FT_OK) status = ft_lattice_new(&u->lattice, pieces, (int32_t)n, options, err);
    ft_free(pieces);
    return status;
}

ft_status ft_unigram_json_new(void **out, const json_t *root, const char *name, ft_error *err)
{
    *out = NULL;
    unigram *u = ft_alloc(sizeof *u);
    if (!u) return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    ft_status status = FT_OK;
    FT_GO(read_model(u, json_object_get(root, "model"), name, err));
    FT_GO(ft_chain_new(&u->chain, json_object_get(root, "normalizer"),
                       json_object_get(root, "pre_tokenizer"), name, err));
    *out = u;
done:
    if (status != FT_OK) unigram_free(u);
    return status;
}
