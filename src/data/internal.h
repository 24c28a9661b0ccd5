/* data/internal.h - what the files of this room share.
 *
 * ft_spm is libsentencepiece behind plain C: sentencepiece_shim.cpp is the only C++ file, and no
 * exception leaves it. */
#ifndef FT_DATA_INTERNAL_H
#define FT_DATA_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "data/data.h"

/* -- sentencepiece ---------------------------------------------------------------------------- */

typedef struct ft_spm ft_spm;

/* Loads a serialised ModelProto that ft_spm_check accepted. */
ft_status ft_spm_load(ft_spm **out, const void *bytes, int64_t size, ft_error *err);
void ft_spm_free(ft_spm *spm);

int ft_spm_size(const ft_spm *spm);
/* The piece of an id in [0, size); lives as long as the model. */
const char *ft_spm_piece(const ft_spm *spm, int id);
/* The id of a control or unknown piece with exactly this text, or -1. */
int ft_spm_special(const ft_spm *spm, const char *piece);

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

/* -- columns ---------------------------------------------------------------------------------- */

/* A way to make the values of one sample from its ids: all L of them, L >= n (1 for a scalar). */
typedef struct ft_column_kind {
    const char *as; /* as in ft_column */
    bool scalar;
    void (*fill)(int32_t *out, int64_t length, ft_id_run from, const ft_column *column);
} ft_column_kind;

/* The kind of that name, or NULL. */
const ft_column_kind *ft_column_kind_find(const char *as);
/* Writes "ids, mask, ..." into `out`. */
void ft_column_kind_names(char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
