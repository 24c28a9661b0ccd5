/* sentencepiece/sentencepiece.h - the pieces of text that a sentencepiece model says.
 *
 * libsentencepiece behind plain C (shim.cpp is the only C++ file, and no exception leaves it), and
 * for the models that it knows a search of our own. */
#ifndef FT_SENTENCEPIECE_H
#define FT_SENTENCEPIECE_H

#include "sentencepiece/lists.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ft_spm ft_spm;

/* Loads a serialised ModelProto that ft_spm_check accepted. */
ft_status ft_spm_load(ft_spm **out, const void *bytes, int64_t size, ft_error *err);
void ft_spm_free(ft_spm *spm); /* NULL is accepted */

/* How many pieces it has. */
int ft_spm_size(const ft_spm *spm);
/* The piece of an id in [0, size); lives as long as the model. */
const char *ft_spm_piece(const ft_spm *spm, int id);
/* The id of the piece with exactly this text, or FT_NO_ID. */
int32_t ft_spm_find(const ft_spm *spm, const char *piece, int64_t size);
/* Whether a piece is one that stands for no text: control or unknown. */
bool ft_spm_is_special(const ft_spm *spm, int32_t id);

/* Takes ids of a piece of text; false when out of memory. */
typedef bool ft_ids_sink(void *context, const int *ids, int64_t n);
/* Takes bytes of text; false when out of memory. */
typedef bool ft_text_sink(void *context, const char *text, int64_t n);

/* Ids of text, given to the sink in one call. Thread-safe. */
ft_status ft_spm_encode(const ft_spm *spm, const char *text, int64_t size, ft_ids_sink *sink,
                        void *context, ft_error *err);
/* Text of n ids in [0, size), given to the sink in one call. Thread-safe. */
ft_status ft_spm_decode(const ft_spm *spm, const int32_t *ids, int64_t n, ft_text_sink *sink,
                        void *context, ft_error *err);

/* Checks what libsentencepiece takes on trust when it loads a model: FT_FORMAT for bytes that would
 * send it out of bounds. */
ft_status ft_spm_check(const void *bytes, int64_t size, ft_error *err);
/* What a model's normaliser replaces: texts by key. */
typedef struct ft_charmap ft_charmap;

/* From the bytes of a character map, as models and tokenizer.json (in base64) have it. FT_FORMAT
 * for bytes that would send a search out of bounds, and for texts that are not UTF-8. */
ft_status ft_charmap_new(ft_charmap **out, const char *bytes, int64_t size, ft_error *err);
void ft_charmap_free(ft_charmap *map); /* NULL is accepted */
/* What stands for the shortest key that begins text[0, size), NUL-terminated; NULL: none does. */
const char *ft_charmap_shortest(const ft_charmap *map, const char *text, int64_t size);

/* Pieces with scores, as the library `tokenizers` has them, and what finds those of a text
 * (lattice.c). Thread-safe. */
typedef struct ft_lattice ft_lattice;

/* A piece and the logarithm of its probability; its id is its place. */
typedef struct ft_lattice_piece {
    const char *text; /* borrowed */
    int64_t size;
    double score;
} ft_lattice_piece;

typedef struct ft_lattice_options {
    int32_t unknown;    /* id of what no piece has, FT_NO_ID: none */
    bool byte_fallback; /* unknown text is pieces <0x00> to <0xFF>, where all are there */
} ft_lattice_options;

/* Of equal texts the last one counts. The pieces are not needed afterwards. */
ft_status ft_lattice_new(ft_lattice **out, const ft_lattice_piece *pieces, int32_t n,
                         ft_lattice_options options, ft_error *err);
void ft_lattice_free(ft_lattice *lattice); /* NULL is accepted */

/* What a search works in; starts zeroed, data is for ft_free, and is used again by the next. */
typedef struct ft_lattice_space {
    void *data;
    int64_t capacity;
} ft_lattice_space;

/* Appends the ids of UTF-8 text. FT_FORMAT for a character that no piece has, where there is no
 * unknown one. */
ft_status ft_lattice_encode(const ft_lattice *lattice, const char *text, int64_t size,
                            ft_lattice_space *space, ft_ids *ids, ft_error *err);

/* What finds the pieces of a text for T5's models, faster than the library and with the same ids
 * (segmenter.c). Thread-safe. */
typedef struct ft_segmenter ft_segmenter;

/* NULL in *out, and FT_OK, for models that are left to the library. The bytes are such as
 * ft_spm_check accepted; they are not needed afterwards. */
ft_status ft_segmenter_new(ft_segmenter **out, const void *bytes, int64_t size, ft_error *err);
void ft_segmenter_free(ft_segmenter *segmenter); /* NULL is accepted */
/* Appends the ids of UTF-8 text. */
ft_status ft_segmenter_encode(const ft_segmenter *segmenter, const char *text, int64_t size,
                              ft_ids *ids, ft_error *err);

#ifdef __cplusplus
}
#endif

#endif
