/* state/state.h - what a run holds: memory, events, versions, and what is live of it.
 *
 * Callers of the engine see a run by its name; what is fed to it and what comes out. */
#ifndef FT_STATE_H
#define FT_STATE_H

#include "blueprint/actions.h"
#include "timeline/timeline.h"
#include "transport/transport.h"

/* A blueprint with memory and weights (engine/engine.h). */
typedef struct ft_run ft_run;

/* How values pass between devices of two processes whose drivers have channels: by these where both
 * ends can open them, and else by way of the host; by these, or the run fails; by way of the host,
 * and channels are not asked for. */
typedef enum { FT_CHANNELS_IF_ANY, FT_CHANNELS_OR_FAIL, FT_NO_CHANNELS } ft_transport;

/* Tags of messages between processes: of what ranks tell each other (ranks/ranks.h); by edge. */
enum {
    FT_TAG_CONTROL = FT_FIRST_TAG,
    FT_TAG_REPLY,
    FT_TAG_JOB,
    FT_TAG_REPORT,  /* what came of a job, when all have replied to it */
    FT_TAG_FAILURE, /* of training, and of evaluation */
    FT_TAG_DONE = FT_TAG_FAILURE + 2,
    FT_EDGE_TAGS = FT_TAG_DONE + 2
};

/* One batch to train on. */
typedef struct ft_feed {
    int bucket;            /* which graph */
    int n_inputs;          /* as many as the graph has */
    const ft_view *inputs; /* by graph input: micro_batches times the input's elements */
    double rate;           /* learning rate of its update */
    double loss_scale;     /* by which its losses, and so its gradients, are too large; 0: 1 */
} ft_feed;

/* What became of a batch. */
typedef struct ft_result {
    int64_t step;     /* counts from 1 over the run */
    double loss;      /* sum over micro-batches, in their order; without its scale, as */
    double grad_norm; /* before clipping; NAN where stages update at their own times */
    double rate;
    int64_t end_ns; /* since the start of the leg */
    bool skipped;   /* scaled gradients were not finite: nothing was updated */
} ft_result;

#endif
