/* sentencepiece/spm_file.h - what is in the bytes of a sentencepiece model: protobuf fields, the
 * character map of its normaliser, its pieces. */
#ifndef FT_SENTENCEPIECE_SPM_FILE_H
#define FT_SENTENCEPIECE_SPM_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* Fields of ModelProto, and of the messages in them, that are looked at. */
enum { FT_SPM_PIECES = 1, FT_SPM_TRAINER = 2, FT_SPM_NORMALIZER = 3, FT_SPM_DENORMALIZER = 5 };
enum { FT_SPM_PIECE_TEXT = 1, FT_SPM_PIECE_SCORE = 2, FT_SPM_PIECE_TYPE = 3 };
enum { FT_SPM_TRAINER_MODEL_TYPE = 3, FT_SPM_TRAINER_SUFFIX = 24, FT_SPM_TRAINER_BYTES = 35 };
enum {
    FT_SPM_NORMALIZER_CHARSMAP = 2,
    FT_SPM_NORMALIZER_ADD_PREFIX = 3,
    FT_SPM_NORMALIZER_REMOVE_EXTRA = 4,
    FT_SPM_NORMALIZER_ESCAPE = 5,
};
/* Types of pieces. */
enum { FT_SPM_NORMAL = 1, FT_SPM_UNKNOWN = 2, FT_SPM_CONTROL = 3, FT_SPM_UNUSED = 5 };
enum { FT_SPM_UNIGRAM = 1 }; /* model_type */

typedef struct ft_span {
    const unsigned char *data;
    int64_t size;
} ft_span;

typedef struct ft_field {
    uint64_t number;
    bool is_bytes;  /* text, bytes or a message; else a number */
    ft_span bytes;  /* empty of a number */
    ft_span fixed;  /* the bytes of a number of fixed size */
    uint64_t value; /* of a varint, else 0 */
} ft_field;

/* Takes one field off the front of a message; false when it is malformed, as groups are, which no
 * model has. */
bool ft_field_take(ft_span *message, ft_field *out);

/* The character map: u32 bytes of the trie, the trie, NUL-terminated texts. The trie is a double
 * array (Darts-clone) of units of 4 bytes. A unit with the top bit is a leaf and holds a value; any
 * other leads, for each byte, to base ^ byte, which is there if the unit there has that label. */
enum { FT_SPM_TRIE_AT = 4 };
#define FT_SPM_TRIE_LEAF 0x80000000u
#define FT_SPM_TRIE_ENDS 0x100u /* a key ends here: base leads to its leaf */

static inline uint32_t ft_trie_unit(ft_span trie, int64_t i)
{
    uint32_t unit;
    memcpy(&unit, trie.data + 4 * i, 4);
    return unit;
}

/* At most 2^30 past i. */
static inline int64_t ft_trie_base(uint32_t unit, int64_t i)
{
    uint32_t offset = (unit >> 10) << ((unit & 0x200u) >> 6);
    return i ^ (int64_t)offset;
}

/* A piece of a model; its id is its number among all. */
typedef struct ft_scored_piece {
    ft_span text;
    float score;
    int32_t id;
    uint64_t type;
} ft_scored_piece;

/* Byte c leads from node n to base of n ^ c, if the parent there is n. The root is node 0. */
typedef struct ft_piece_node {
    uint32_t base;
    int32_t parent; /* negative: of no node */
    int32_t id;     /* of the piece that ends here, or -1 */
} ft_piece_node;

typedef struct ft_piece_trie {
    ft_piece_node *nodes;
    int64_t n; /* room for: a multiple of 256, so that every step stays inside */
} ft_piece_trie;

/* Makes the trie of n pieces, none of which is empty (piece_trie.c); sorts them. The trie is zeroed
 * before, and for ft_piece_trie_fini in any case. False when out of memory. */
bool ft_piece_trie_make(ft_piece_trie *trie, ft_scored_piece *pieces, int n);
void ft_piece_trie_fini(ft_piece_trie *trie);

/* A character map to normalise with. */
struct ft_charmap {
    ft_span trie; /* empty: nothing is replaced */
    const char *texts;
    char *bytes; /* what both point to */
};

/* Checks what a search would take on trust (model_check.c). */
ft_status ft_charmap_check(ft_span map, ft_error *err);
/* A copy of bytes that were checked; map->bytes is for ft_free. False when out of memory. */
bool ft_charmap_copy(struct ft_charmap *map, const char *bytes, int64_t size);

struct ft_bytes;

/* Appends normalised text to `out`, which is empty (charsmap.c); text is UTF-8. False when out of
 * memory. */
bool ft_charmap_apply(const struct ft_charmap *map, const char *text, int64_t size,
                      struct ft_bytes *out);

#endif
