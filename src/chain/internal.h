/* chain/internal.h - what the files of the chain share. */
#ifndef FT_CHAIN_INTERNAL_H
#define FT_CHAIN_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "chain/chain.h"
#include "sentencepiece/sentencepiece.h"

/* A step of a chain, as its row read it. */
typedef struct ft_step {
    const struct ft_step_row *row;
    pcre2_code *pattern;
    ft_charmap *map;
    ft_bytes text;      /* what is put in, NUL-terminated */
    int form;           /* of a step that has several */
    int joins;          /* what becomes of what a cutter finds */
    bool first, second; /* flags */
} ft_step;

/* Text as it is worked on. */
typedef struct ft_draft {
    ft_bytes bytes;
    int64_t head;
} ft_draft;

/* A stretch of what a cutter looks at: something that it looks for, or not. */
typedef struct ft_cut {
    int64_t from, to;
    bool found;
} ft_cut;

typedef struct ft_cuts {
    ft_cut *data;
    int64_t n, capacity;
} ft_cuts;

bool ft_cuts_add(ft_cuts *cuts, ft_cut cut); /* false when out of memory */

/* What steps work in; one for each call. */
typedef struct ft_work {
    pcre2_match_data *match;
    ft_error *err;
} ft_work;

enum { FT_CHAIN_STEPS = 16 }; /* of normalizers, and of cutters */

struct ft_chain {
    pcre2_general_context *memory;
    bool has_patterns;
    int n_normalizers, n_cutters;
    ft_step normalizers[FT_CHAIN_STEPS], cutters[FT_CHAIN_STEPS];
};

struct json_t;

/* What is being read; messages begin with the file's name. */
typedef struct ft_reading {
    const char *name;
    ft_chain *chain;
} ft_reading;

/* A kind of step: `read` fills the step from its JSON; a normalizer has `normalize`, which appends
 * to an empty text; a cutter has `find`, and `normalize` when it changes the text before. */
typedef struct ft_step_row {
    const char *type;
    ft_status (*read)(const ft_reading *r, ft_step *step, const struct json_t *part, ft_error *err);
    ft_status (*normalize)(ft_work *work, const ft_step *step, ft_stretch text, ft_draft *out);
    ft_status (*find)(ft_work *work, const ft_step *step, ft_stretch text, ft_cuts *out);
    int form;
} ft_step_row;

extern const ft_step_row ft_normalizer_rows[], ft_cutter_rows[]; /* end with a NULL type */

/* What becomes of what a cutter finds. */
enum { FT_CUT_REMOVED, FT_CUT_ISOLATED, FT_CUT_PREVIOUS, FT_CUT_NEXT, FT_CUT_CONTIGUOUS };

/* -- reading (read.c) ------------------------------------------------------------------------- */

/* A text of a part, "" when it has none. */
const char *ft_part_text(const struct json_t *part, const char *key);
/* A flag of a part, `preset` when it is null or absent. */
bool ft_part_flag(const struct json_t *part, const char *key, bool preset);
/* FT_FORMAT or FT_UNSUPPORTED: "FILE: part 'TYPE': what". */
ft_status ft_part_fail(const ft_reading *r, const struct json_t *part, ft_status status,
                       const char *what, ft_error *err);
/* The pattern of a part, { "String": } or { "Regex": }. */
ft_status ft_part_pattern(const ft_reading *r, ft_step *step, const struct json_t *part,
                          ft_error *err);

/* The next match of a step's pattern from text[at]; found false: there is none. */
ft_status ft_pattern_next(ft_work *work, const ft_step *step, ft_stretch text, int64_t at,
                          ft_cut *out);

/* Bytes of the character that begins here. */
static inline int64_t ft_char_size(const char *text)
{
    unsigned char c = (unsigned char)text[0];
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

#endif
