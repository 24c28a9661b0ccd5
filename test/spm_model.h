/* test/spm_model.h - a small sentencepiece model, written byte by byte.
 *
 * A unigram ModelProto: field 1 pieces {1 piece, 2 score, 3 type}, 2 trainer_spec {3 model_type},
 * 3 normalizer_spec {1 name, 2 precompiled_charsmap}. Everything else keeps its default, so blanks
 * are collapsed and text gets a leading space. */
#ifndef FT_TEST_SPM_MODEL_H
#define FT_TEST_SPM_MODEL_H

#include <stdint.h>
#include <string.h>

enum { SPM_NORMAL = 1, SPM_UNKNOWN = 2, SPM_CONTROL = 3, SPM_BYTE = 6 };

typedef struct spm_piece {
    const char *text;
    float score;
    int type;
} spm_piece;

/* Scores are log probabilities; the ids are the rows. U+2581 is written \xE2\x96\x81. */
static const spm_piece spm_pieces[] = {
    {"<pad>", 0, SPM_CONTROL},
    {"</s>", 0, SPM_CONTROL},
    {"<unk>", 0, SPM_UNKNOWN},
    {"\xE2\x96\x81", -2, SPM_NORMAL},
    {"\xE2\x96\x81hello", -4, SPM_NORMAL},
    {"\xE2\x96\x81world", -4.5f, SPM_NORMAL},
    {"\xE2\x96\x81h", -5, SPM_NORMAL},
    {"ello", -5, SPM_NORMAL},
    {"o", -3, SPM_NORMAL},
    {"l", -3, SPM_NORMAL},
    {"e", -3, SPM_NORMAL},
    {"h", -3, SPM_NORMAL},
    {"\xC3\xA9", -3, SPM_NORMAL}, /* e acute */
    {"s", -3, SPM_NORMAL},
    {"<", -6, SPM_NORMAL},
    {"/", -6, SPM_NORMAL},
    {">", -6, SPM_NORMAL},
    {"\xE2\x96\x81<", -6, SPM_NORMAL},
};
enum { SPM_N = sizeof spm_pieces / sizeof *spm_pieces };

typedef struct spm_bytes {
    unsigned char data[4096];
    int n;
} spm_bytes;

static inline void spm_put(spm_bytes *out, const void *bytes, int n)
{
    memcpy(out->data + out->n, bytes, (size_t)n);
    out->n += n;
}

static inline void spm_varint(spm_bytes *out, unsigned value)
{
    for (; value >= 0x80; value >>= 7) out->data[out->n++] = (unsigned char)(value | 0x80);
    out->data[out->n++] = (unsigned char)value;
}

/* A length-delimited field. */
static inline void spm_field(spm_bytes *out, unsigned number, const void *bytes, int n)
{
    spm_varint(out, number << 3 | 2);
    spm_varint(out, (unsigned)n);
    spm_put(out, bytes, n);
}

/* The model of `n` pieces with a normaliser that has this character map (NULL: none). */
static inline void spm_model(spm_bytes *out, const spm_piece *pieces, int n, const void *charsmap,
                             int n_charsmap)
{
    out->n = 0;
    for (int i = 0; i < n; i++) {
        spm_bytes piece = {.n = 0};
        spm_field(&piece, 1, pieces[i].text, (int)strlen(pieces[i].text));
        spm_varint(&piece, 2 << 3 | 5);
        spm_put(&piece, &pieces[i].score, 4);
        spm_varint(&piece, 3 << 3 | 0);
        spm_varint(&piece, (unsigned)pieces[i].type);
        spm_field(out, 1, piece.data, piece.n);
    }
    spm_field(out, 2, "\x18\x01", 2); /* model_type: unigram */
    spm_bytes normalizer = {.n = 0};
    spm_field(&normalizer, 1, "own", 3);
    if (charsmap) spm_field(&normalizer, 2, charsmap, n_charsmap);
    spm_field(out, 3, normalizer.data, normalizer.n);
}

#endif
