/* planfile/internal.h - the words and numbers of a plan's text; inside this room only. */
#ifndef FT_PLANFILE_INTERNAL_H
#define FT_PLANFILE_INTERNAL_H

#include "plan/making.h"
#include "planfile/planfile.h"

/* An array that grows, of any type. */
typedef struct growing {
    void *items;
    int64_t n, capacity;
} growing;

/* Actions and the lines that they stand on. */
typedef struct growing_list {
    growing actions, lines;
} growing_list;

enum { UNSAID = -1 };

typedef struct parser {
    const char *at;  /* in the line */
    const char *end; /* of the line */
    int line;
    ft_plan *plan;
    int *device, *depth, *in_flight, *versions, *joint; /* by stage */
    int *stage_line;
    int *replicas_at, *n_replicas; /* by stage: where its devices begin in `replicas`, how many */
    uint8_t *rule;
    int64_t *reduce_bytes;
    bool *recompute;
    bool *stage_seen;
    bool *by_policy; /* by device */
    growing replicas;
    int64_t (*memory)[FT_MEMORY_CLASSES];
    bool *memory_seen;
    growing edges, edge_lines, nodes;
    growing_list (*lists)[3]; /* by device: warm-up, body, drain */
    int64_t stored;           /* actions in all lists */
    uint32_t seen;            /* rows of `words` that have been read, as bits */
    int n_nodes;
} parser;

typedef struct word {
    const char *text;
    int length;
} word;

/* FT_FORMAT with the number of the line. */
ft_status parser_fault(const parser *p, ft_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ft_status parser_no_memory(const parser *p, ft_error *err);
/* Room for one more item, or NULL. */
void *growing_add(growing *g, int64_t size);

word next_word(parser *p); /* empty at the end of the line */
int shown(word w);         /* bytes of it that a message has room for */
bool word_is(word w, const char *text);
bool takes_word(parser *p, const char *text); /* past it, if it is the next */
/* Moves *at over a decimal number of 0 to `most`; false when there is none. */
bool scan_number(const char **at, const char *end, int64_t most, int64_t *out);
bool scan_char(const char **at, const char *end, char c);
bool scan_kind(const char **at, const char *end, ft_action_kind *kind);
ft_status read_number(parser *p, const char *what, int64_t least, int64_t most, int64_t *out,
                      ft_error *err);
ft_status read_int(parser *p, const char *what, int64_t least, int64_t most, int *out,
                   ft_error *err);
ft_status expect(parser *p, const char *text, ft_error *err);
/* "weights 1 buffers 8", to the end of the line: classes in any order, each at most once. Those
 * that are left out, as by a program that had fewer, stay as they are. */
ft_status read_classes(parser *p, int64_t bytes[FT_MEMORY_CLASSES], ft_error *err);

#endif
