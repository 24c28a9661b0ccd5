/* ranks/ranks.h - what the processes of a run say to each other.
 *
 * Rank 0 tells the others what to do; they tell it what became of it. Who does it is the engine's.
 */
#ifndef FT_RANKS_H
#define FT_RANKS_H

#include "io/io.h"
#include "state/run.h"

/* What rank 0 says; bytes may follow. */
typedef enum {
    SAY_MEET,        /* replied to, when channels are open */
    SAY_BEGIN,       /* a leg: number of batches, first_step. Replied to */
    SAY_FEED,        /* bucket, rate; the inputs that the rank reads */
    SAY_DRAIN,       /* no batch comes behind those that were fed */
    SAY_END,         /* number: whether the leg is complete. Replied to, with events */
    SAY_FETCH,       /* a parameter; replied to, with it and its optimizer's state */
    SAY_STORE,       /* a parameter */
    SAY_STORE_STATE, /* its optimizer's state */
    SAY_DRAW,        /* a parameter; how, with the seed as first_step */
    SAY_REFRESH,     /* replied to */
    SAY_WRITE,       /* so many pieces of a file; replied to, with whether the rank sees it and has
                        written what it owns (files.c) */
    SAY_READ,        /* so many pieces of a file; replied to, with whether the rank sees it and has
                        read what it has of them (files.c) */
    SAY_SEND,        /* a part of a parameter; replied to, with it */
    SAY_FREE
} say_kind;

typedef struct control {
    int32_t kind;
    int32_t evaluates; /* of the run of evaluation */
    int64_t number, first_step, part;
    double rate;
} control;

/* Of a run, before its legs. */
ft_status ranks_open(ft_run *run, ft_error *err);
void ranks_close(ft_run *run);
/* Nobody asks for it any more; at rank 0, the others free theirs, if it is not the evaluation of a
 * run. */
void ranks_end(ft_run *run);
/* At rank 0, of a run that all have: the processes of its edges meet. */
ft_status ranks_meet(ft_run *run, ft_error *err);
/* The others free theirs. */
void ranks_free(ft_world *world);
/* Whether the run has other processes do what it does. */
bool leads(const ft_run *run);
/* Parts of a batch that end apart: seats here and, at rank 0, other processes with seats. */
int ranks_parts(const ft_run *run);
/* Whether a seat of that rank reads an input. */
bool reads_input(const ft_run *run, int rank, int input);

/* At rank 0, around a leg; at its end with what happened there. */
ft_status ranks_begin(ft_run *run, int64_t batches, int64_t first_step, ft_error *err);
void ranks_say_end(ft_run *run, bool complete);
ft_status ranks_hear_end(ft_run *run, ft_error *err);
void ranks_feed(ft_run *run, const ft_feed *feed);
void ranks_drain(ft_run *run);
/* Parameters with their state, from their owner into the mirror; and to those who have them, with
 * a refresh there. */
ft_status ranks_fetch(ft_run *run, int param, ft_error *err);
ft_status ranks_store(ft_run *run, int param, ft_error *err);
/* Those who have a parameter draw it; what was written of it before is forgotten. */
void ranks_draw(ft_run *run, int param, const ft_draw *draw, uint64_t seed);
ft_status ranks_refresh(ft_run *run, ft_error *err);

/* A parameter (part -1) or a part of its optimizer's state, and its place in a file: a byte of one
 * that is written, a number of an entry of one that is read. */
typedef struct piece {
    int32_t param, part;
    int64_t at;
} piece;
/* What it is; where it is owned by this process, with its data, of the mirror where there is one.
 */
ft_view piece_view(const ft_run *run, const piece *p);
/* What is said of a file. */
typedef struct file_words {
    say_kind kind; /* SAY_WRITE or SAY_READ */
    bool refuses;  /* SAY_READ: whoever has another file at that path fails; else reads nothing */
    const char *path, *mark;
    const piece *pieces;
    int n;
} file_words;
/* At rank 0: has the others write the pieces that they own into a file with that mark, or read
 * those that they have out of it; hears, by rank, who has. */
ft_status ranks_say_file(const ft_run *run, const file_words *words, ft_error *err);
ft_status ranks_hear_file(const ft_run *run, bool *done, ft_error *err);
/* Writes a piece that its owner has not, when that has sent it. */
ft_status ranks_bring(const ft_run *run, const piece *p, const bool *wrote, const ft_filler *file,
                      ft_error *err);
/* Notes that others have read parameters. */
void ranks_note_read(ft_run *run);
/* Whether all processes that have a piece, as its owner or as a copy, are among these. */
bool ranks_all_have(const ft_run *run, const piece *p, const bool *ranks);
/* Elsewhere: does what ranks_say_file says, in the file that is meant. */
ft_status ranks_write(ft_run *run, const char *data, int n, bool *wrote, ft_error *err);
ft_status ranks_read(ft_run *run, const char *data, int n, bool refuses, bool *read, ft_error *err);

/* mirrors.c: a parameter, perhaps with its state, into its mirror, where it is not in this
 * process's host memory; what the host finds of them then; what is new there, to the owner's
 * device, here; nothing is new any more. */
ft_status fetch_mirror(ft_run *run, int param, bool with_state, ft_error *err);
char *mirrored_param(const ft_run *run, int param);
char *mirrored_state(const ft_run *run, int param);
ft_status return_mirror(ft_run *run, int param, ft_error *err);
void forget_mirror(ft_run *run, int param);
/* Where a seat here has a parameter, or its state, as its owner or as a copy; NULL: not there. */
char *held_at(const ft_run *run, int seat, int param, bool state);
/* Has a parameter, or its state or some of that, written in every seat here that has it, as its
 * owner or as a copy. */
typedef ft_status held_writer(void *arg, char *held, ft_error *err);
ft_status write_held(ft_run *run, int param, bool state, held_writer *write, void *arg,
                     ft_error *err);

/* Elsewhere: tells rank 0 that a batch is done here, and with what; a failure of this process. */
void ranks_report(ft_run *run, int64_t batch);
void ranks_tell(ft_run *run, const ft_error *error);
/* What happened in a leg here, for rank 0; without `out` its bytes are counted. */
void ranks_write_events(ft_run *run, char *out, int64_t *bytes);

#endif
