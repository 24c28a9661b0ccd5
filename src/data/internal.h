/* data/internal.h - what the files of this room share.
 *
 * ft_spm is libsentencepiece behind plain C: sentencepiece_shim.cpp is the only C++ file, and no
 * exception leaves it. */
#ifndef FT_DATA_INTERNAL_H
#define FT_DATA_INTERNAL_H

#include <stdbool.h>
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

/* -- examples --------------------------------------------------------------------------------- */

/* Example i of [0, size), borrowed from the dataset until it grows. */
typedef struct ft_example {
    const int32_t *source, *target;
    int64_t n_source, n_target;
} ft_example;

ft_example ft_dataset_get(const ft_dataset *dataset, int64_t i);

#ifdef __cplusplus
}
#endif

#endif
