/* engine/ranks.h - what rank 0 and the others say to each other. */
#ifndef FT_ENGINE_RANKS_H
#define FT_ENGINE_RANKS_H

#include "engine/internal.h"

/* What rank 0 says; bytes may follow. */
typedef enum {
    SAY_BEGIN,       /* a leg: number of batches, first_step. Replied to */
    SAY_FEED,        /* bucket, rate; the inputs that the rank reads */
    SAY_DRAIN,       /* */
    SAY_END,         /* number: whether the leg is complete. Replied to, with events */
    SAY_FETCH,       /* a parameter; replied to, with it and its optimizer's state */
    SAY_STORE,       /* a parameter */
    SAY_STORE_STATE, /* its optimizer's state */
    SAY_REFRESH,     /* replied to */
    SAY_FREE
} say_kind;

typedef struct control {
    int32_t kind;
    int32_t evaluates; /* of the run of evaluation */
    int64_t number, first_step;
    double rate;
} control;

struct ranks {
    ft_run *run;
    int n_others; /* processes besides rank 0 that have stages of the run */
    int done_tag, failure_tag;
    char **slips; /* by rank: ring of what is said of batches */
    int64_t *slip_bytes;
    int64_t *placed, *heard; /* by rank: slips so far in this leg */
    bool *reads;             /* by rank, then input */
    char *page;              /* at rank 0: room for what is said */
    bool begun;              /* others have other parameters than zeros */
    bool is_torn;            /* a leg was ended early, messages of it may be under way */
    ft_error failure;
};

/* ranks.c: what happened in a leg here, for rank 0; without `out` its bytes are counted. */
void ranks_write_events(ft_run *run, char *out, int64_t *bytes);
/* Around a leg: the loss of another process stops it, and others hear what this one is at. */
void ranks_watch(ft_run *run);
void ranks_unwatch(ft_run *run);
/* describe.c: what the first device here with work left is at; what its stage is without. */
void ranks_are_at(void *run, char out[FT_AT_WORDS]);
void ranks_rest(void *run, char out[FT_AT_WORDS]);

#endif
