/* profile/internal.h - what the files of the room share. */
#ifndef FT_PROFILE_INTERNAL_H
#define FT_PROFILE_INTERNAL_H

#include "base/arena.h"
#include "memory/memory.h"
#include "profile/profile.h"

/* -- blocks.c: a graph cut into blocks --------------------------------------------------------- */

/* A block of the graph; all but the first of several equal ones have only `like`. */
typedef struct profile_block {
    int like;    /* the first block that is equal to this one; itself when there is none before */
    int repeats; /* equal blocks, itself included */
    const ft_stage *cut, *again; /* again: with recomputation; NULL unless asked for */
} profile_block;

typedef struct profile_cut {
    int n_blocks, n_distinct;
    profile_block *blocks;
    int *node_block; /* by node, backward ones too */
    const ft_split *split, *again;
} profile_cut;

/* Cuts into blocks, or makes a single block of the whole, which is never recomputed. Everything
 * goes into the arena and the graph's. */
ft_status profile_cut_graph(profile_cut *out, const ft_measure_options *options, bool whole,
                            ft_arena *arena, ft_error *err);

/* -- bench.c: a block made ready to run -------------------------------------------------------- */

/* The passes of a block that are timed node by node. */
typedef enum { PASS_FORWARD, PASS_BACKWARD, PASS_AGAIN, PASS_COUNT } profile_pass;

typedef struct bench_block {
    const profile_block *block;
    ft_program *program[PASS_COUNT]; /* AGAIN: NULL unless asked for */
    int n_nodes[PASS_COUNT];
    ft_value_id *arrive[PASS_COUNT]; /* what other blocks make */
    int n_arrive[PASS_COUNT];
    ft_pack *packs;
    int n_packs;
    int copies; /* of its memory, for colder caches */
    /* One copy: offsets of parameters, gradient terms, states, packed weights and saved values. */
    int64_t *param_at, *state_at, *term_at, *pack_at;
    int64_t saved_at, bytes;
    int64_t work_bytes; /* of the largest pass */
} bench_block;

/* One thread is timed by the CPU time it used, which leaves out when others had its core; a team,
 * whose threads wait for each other, by the time of day. */
typedef struct bench_clock {
    int64_t (*now)(void);
    double cost_ns; /* of asking: part of whatever is timed */
} bench_clock;

typedef struct bench {
    const ft_measure_options *options;
    bench_clock clock;
    const profile_cut *cut;
    ft_arena *arena;
    int n_blocks;
    bench_block *blocks; /* distinct ones, in graph order */
} bench;

ft_status bench_new(bench *out, const ft_measure_options *options, const profile_cut *cut,
                    ft_arena *arena, ft_error *err);
void bench_free(bench *b);

/* -- samples ----------------------------------------------------------------------------------- */

/* Times of one thing. */
typedef struct samples {
    int n, room;
    double *ns;
} samples;

/* What a worker notes of one block. */
typedef struct block_samples {
    samples *node[PASS_COUNT]; /* by position in the pass */
    samples pass[PASS_COUNT];
    samples *pack;          /* by pack */
    samples *update, *norm; /* by position in the cut's parameters */
} block_samples;

/* -- worker.c: what one worker does ------------------------------------------------------------ */

/* Blocks first .. first + n - 1 of a bench; notes[w] is by block of the bench, for worker w. */
typedef struct crew_part {
    const bench *bench;
    int first, n;
    block_samples *const *notes;
} crew_part;

enum { CREW_PARTS = 2 };

/* A copy of a block, and what its passes have taken. */
typedef struct worker_stop {
    int block; /* of the bench */
    char *copy;
    int64_t ns;
} worker_stop;

/* A round through the copies of a part: from the first forwards, then the other way round. */
typedef struct worker_tour {
    worker_stop *stops;
    int n, first;
    bool chosen; /* where it begins; until then at 0 */
} worker_tour;

typedef struct worker {
    const crew_part *parts; /* of one graph; options and clock of the first are those of all */
    int n_parts;
    const float *noise; /* of worker_noise */
    int number;
    /* Set by the crew for every round: */
    const crew_part *part; /* whose turn it is */
    bool noting;
    int64_t rounds; /* before this one */
    /* Set by worker_make: */
    ft_team *team;
    worker_tour tours[CREW_PARTS];
    char *memory[CREW_PARTS], *work, *inputs_memory;
    int64_t memory_bytes[CREW_PARTS], work_bytes, inputs_bytes;
    void **inputs, **params, **grads;
    const void **packed;
    int64_t *step_ns;
} worker;

/* How many ids there are to pick from; 0 when no row picks by this value. */
int64_t profile_id_limit(const ft_graph *g, ft_value_id ids);
/* What values and weights are filled with; freed with ft_free. NULL: no memory. */
float *worker_noise(void);
/* The worker's memory, filled; worker_free follows whatever is returned. */
ft_status worker_make(worker *w, ft_error *err);
void worker_free(worker *w);
/* All forwards, all backwards and those with recomputation, once. */
ft_status worker_passes(worker *w, ft_error *err);
/* All updates, once. */
ft_status worker_updates(worker *w, ft_error *err);

/* -- crew.c: workers side by side -------------------------------------------------------------- */

/* FT_CANCELLED where the caller of ft_profile_measure wants no more of it. */
ft_status profile_goes_on(const ft_measure_options *options, ft_error *err);

/* Measures parts of one graph, a few rounds of each in turn so that a machine whose speed changes
 * changes for all of them, for about `seconds` in all; updates of the first one only. *rounds: how
 * many of the first part the first worker noted. */
ft_status crew_measure(const crew_part *parts, int n_parts, double seconds, int64_t *rounds,
                       ft_error *err);

/* -- cards.c ----------------------------------------------------------------------------------- */

/* Fills in a profile, whose arrays are there, of a device with memory of its own. */
ft_status profile_measure_card(ft_profile *p, const ft_measure_options *options, ft_error *err);

/* -- rates.c ----------------------------------------------------------------------------------- */

/* How long a hand-off between two busy threads takes, ns; 0 when they cannot be made. */
double crew_handoff_ns(void);
/* Bytes per second of copies of a few hundred kB, as between stages. */
double crew_copy_rate(void);

#endif
