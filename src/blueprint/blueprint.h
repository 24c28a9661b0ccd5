/* blueprint/blueprint.h - everything decided before a run.
 *
 * Pure: a graph, a cut into stages and a plan in; out come seats, the edges between them, what all
 * of it costs, and the place of every byte on every device. It needs no weights and allocates no
 * device memory, so it also serves for planning on hardware that is not there.
 *
 * A blueprint borrows the graphs and plans of its options; they must outlive it. All else is
 * copied. */
#ifndef FT_BLUEPRINT_H
#define FT_BLUEPRINT_H

#include "base/arena.h"
#include "blueprint/cargo.h"
#include "blueprint/costs.h"
#include "blueprint/versions.h"
#include "machine/machine.h"
#include "memory/memory.h"
#include "optim/optim.h"
#include "plan/shares.h"
#include "program/program.h"
#include "stays/stays.h"

/* A graph cut into stages that are on devices. */
typedef struct ft_cut {
    ft_graph *const *graphs; /* one per length bucket, ascending: the same nodes with other shapes,
                                gradients included unless forward_only; output "loss" is a scalar */
    int n_graphs;
    ft_graph *const
        *joint_graphs; /* as many, of as many times the rows as forwards are joint, without
                          gradients: the same forward nodes; NULL: there are none */
    int n_stages;
    const int *node_stage;                     /* by forward node */
    const bool *recompute;                     /* by stage */
    const int *joint;                          /* by stage, as in ft_plan; NULL: 1 everywhere */
    const int *stage_device;                   /* by stage */
    const int *replica_first, *replica_device; /* as in ft_plan; NULL: one device for each stage */
    const uint8_t *replica_rule;               /* may be NULL */
    const ft_device *devices;
    int n_devices;
    int micro_batches; /* per batch */
    int n_batches;     /* in the longest leg */
    bool forward_only;
    const bool *splits; /* by stage: backward-input and backward-weight instead of backward; NULL:
                           none */
    const bool *predicts, *attenuates; /* by stage: it has P actions, A actions; NULL: none */
    bool keeps;      /* older weights are read: stages that share some have copies of their own */
    bool together;   /* no stage updates before all have reduced: for the norm of all gradients, and
                        so that none updates by a step in which another finds numbers that are not
                        finite */
    bool late_norms; /* stages update by the norms of all gradients without waiting for each
                        other: by those of the stages nearer to the loss, and by earlier ones of
                        the others (action N) */
    /* By device, NULL where it is modelled; NULL: all are. */
    const ft_work_costs *const *costs;
    const ft_machine *machine; /* links of devices that are described; NULL: transfers take what the
                                  receiver's row says, and none waits for another */
} ft_cut;

/* What a plan for a cut is made from. */
typedef struct ft_wiring {
    int n_edges;
    const ft_edge *edges; /* with the slots that equal stages need */
    ft_stage_costs costs;
    ft_arena *arena;
} ft_wiring;

/* FT_INVALID for a cut that contradicts itself. *out dies with ft_wiring_free, before the graphs.
 */
ft_status ft_wiring_new(ft_wiring **out, const ft_cut *cut, ft_error *err);
/* NULL is accepted. */
void ft_wiring_free(ft_wiring *wiring);

/* Evaluation between legs of training, with its weights. It works in the memory that training's
 * activations, workspace and buffers have, which is made as large as the larger of both needs. */
typedef struct ft_evaluation_options {
    ft_graph *const *graphs; /* one per length bucket, without gradients: parameters are those of
                                the same names and shapes; output "loss" is a scalar, the others
                                are handed out */
    int n_graphs;
    const ft_plan *plan; /* of forwards alone; a stage reads parameters that training has on its
                            device */
} ft_evaluation_options;

typedef struct ft_blueprint_options {
    ft_graph *const *graphs, *const *joint_graphs; /* as in a cut */
    int n_graphs;
    const ft_plan *plan; /* of the longest leg, with the stage of every forward node */
    const ft_device *devices;
    int n_devices;
    int64_t micro_batch_size; /* samples */
    const ft_optimizer *optimizer;
    const double *hypers;
    const double *weight_decays; /* by parameter: its weight_decay; NAN or NULL: that of hypers */
    const double *rate_factors;  /* by parameter: what its rate is multiplied by; NULL: 1 for all */
    double clip;                 /* largest global gradient norm; 0: no clipping */
    bool gnorm;      /* results have the norm of all gradients where no update goes by it, too */
    bool look_ahead; /* parameters are kept ahead by the updates that forwards are late; no
                        matter in plans that keep older ones or predict newer ones */
    bool gaps;       /* runs measure how far newest weights are from what forwards read, which is
                        kept for it (marks) where nothing else keeps it */
    uint64_t seed;
    const ft_work_costs *const *costs;       /* as in a cut; not used after ft_blueprint_new */
    const ft_machine *machine;               /* as in a cut */
    const ft_evaluation_options *evaluation; /* NULL: training alone */
} ft_blueprint_options;

typedef struct ft_blueprint ft_blueprint;

/* Proves the plan (ft_plan_check) and gives all that it needs a place. What is decided in it is
 * taken from it: stages, devices, orders, versions, numbers of slots, in-flight counts; bytes of
 * edges and memory follow from the graph, whatever it says of them. FT_INVALID says what the plan
 * lacks that the graph asks for, FT_INFEASIBLE that it cannot complete, FT_UNSUPPORTED what has no
 * layout yet. */
ft_status ft_blueprint_new(ft_blueprint **out, const ft_blueprint_options *options, ft_error *err);
void ft_blueprint_free(ft_blueprint *blueprint);

/* What evaluation legs are made from; NULL when the options have none. Borrowed. */
const ft_blueprint *ft_blueprint_evaluation(const ft_blueprint *blueprint);
/* The plan of the longest leg, with bytes of edges and memory. Shorter ones are cut from it. */
const ft_plan *ft_blueprint_plan(const ft_blueprint *blueprint);
/* Times of its stages and edges. */
const ft_stage_costs *ft_blueprint_costs(const ft_blueprint *blueprint);
/* Bytes that a micro-batch in flight holds in a stage: what its forward leaves for its backward. */
int64_t ft_blueprint_slot_bytes(const ft_blueprint *blueprint, int stage);
/* Bytes that pass along an edge of the plan in a batch, between all replicas, and in how many
 * pieces. */
double ft_blueprint_traffic(const ft_blueprint *blueprint, int edge, double *messages);
/* Bytes that the device sends others in the longest leg, of the longest batches: by the kind of
 * action that makes what is sent. */
void ft_blueprint_sends(const ft_blueprint *blueprint, int device, int64_t by_kind[FT_ACT_COUNT]);
/* Bytes per second between the device's memory and the host's. */
double ft_blueprint_copy_rate(const ft_blueprint *blueprint, int device);
/* What transfers pass over in a simulation; NULL when the options have no machine. */
const ft_machine *ft_blueprint_machine(const ft_blueprint *blueprint);
/* FT_INFEASIBLE when a device's planned memory is over its budget: the message has the breakdown by
 * class. */
ft_status ft_blueprint_check_memory(const ft_blueprint *blueprint, ft_error *err);
int64_t ft_blueprint_device_bytes(const ft_blueprint *blueprint, int device);
/* Where actions of a device work, in its block: behind what its library works in, with which the
 * class begins. */
int64_t ft_blueprint_work_at(const ft_blueprint *blueprint, int device);
/* Updates that the stage keeps its parameters ahead; 0: it does not. */
double ft_blueprint_ahead(const ft_blueprint *blueprint, int stage);

/* Packing makes two copies of a weight in another layout: so often it is walked over. */
enum { FT_PACK_PASSES = 6 };
/* -- what it holds -----------------------------------------------------------------------------
 *
 * Transparent and read-only, for the engine. Offsets are in bytes, in the block of a device. */

/* A parameter as one seat sees it. */
typedef struct ft_seat_param {
    int param;
    bool owned;       /* this seat updates it */
    bool replica;     /* this seat has its own copy of what another owns: on another device, or
                         where older versions are kept */
    int64_t at;       /* in the seat's device block; of evaluation: in its unit, where training
                         moves it, else -1 */
    int64_t old_at;   /* in a slot of older or predicted versions; -1: there are none */
    int64_t mark_at;  /* in a mark; -1: not there */
    bool with_state;  /* another replica of its stage owns it, and this one knows its optimizer's
                         state too: for predictions and gaps */
    int64_t state_at; /* that state, in the seat's device block */
    int trained;      /* evaluation: the seat of training whose memory it is read in */
} ft_seat_param;

/* A replica of a stage, on its device (plan/shares.h). */
typedef struct ft_seat_layout {
    int device;
    int stage, replica;             /* of the plan; which of its replicas */
    bool sums_loss;                 /* makes the loss, or a replica's share of it */
    ft_unit *const *units;          /* by class, as in the stays. Offsets of a class that moves are
                                       from the begin of its unit */
    const ft_stage **cut;           /* by bucket */
    ft_action_kind last;            /* after which nothing of a micro-batch is left in the seat */
    const int *nodes[FT_ACT_COUNT]; /* by kind of action that computes: what it runs; else NULL */
    int n_nodes[FT_ACT_COUNT];
    int64_t work_bytes; /* the place of the largest work area of its actions */
    int n_params;
    ft_seat_param *params;
    int64_t *term_at; /* by position in cut[0]->grads: offset in the block */
    int n_packs, n_forward_packs;
    ft_pack *packs;       /* those that forwards read come first */
    bool share_packs;     /* backwards read some of those too: all count as those of forwards */
    int64_t *pack_old_at; /* as old_at of its parameter */
    int64_t *pack_at;     /* evaluation: the number of the same copy in a seat of training */
    int *pack_seat;       /* evaluation: that seat */
    int64_t *pack_visit; /* evaluation: where it is in its unit, where training moves it; else -1 */
    int n_bound;         /* values that an action reads or writes in slots of edges, at most */
    int64_t *saved_bytes; /* by bucket: saved values of one micro-batch */
    int64_t slot_bytes;   /* the place of the largest */
    int64_t slots_at;     /* where activations do not move */
    int n_slots;          /* micro-batches in flight, at most */
    int n_under_way;      /* micro-batches between forward and the end of backward, at most */
    int window;           /* the same where activations move; else 0 */
    int n_held;           /* values kept between the halves of a backward */
    ft_value_id *held;
    int64_t *held_bytes; /* as saved_bytes */
    int64_t held_slot_bytes, held_at;
    int n_held_slots;                        /* micro-batches that are between the halves at once */
    ft_version_ring rings[FT_WEIGHTS_KINDS]; /* of older weights */
    ft_version_ring predicted[FT_WEIGHTS_KINDS]; /* of those whose state it knows; n = 0: none */
    ft_version_ring marks; /* what the first forward of a batch read, for its gap */
    bool splits;           /* it has I and G actions, instead of B */
    bool predicts;         /* it has P actions */
    bool attenuates;       /* it has A actions, and how large steps are in its optimizer's state */
    bool reads_old; /* forwards or backwards may read older weights: packed copies are kept */
    int *in_edges[FT_ACT_COUNT], n_in_edges[FT_ACT_COUNT]; /* by kind of this seat's action */
    int *out_edges[FT_ACT_COUNT], n_out_edges[FT_ACT_COUNT];
} ft_seat_layout;

/* Of its packed copy by this number. */
static inline ft_memory_class ft_pack_class(const ft_seat_layout *seat, int pack)
{
    return pack < seat->n_forward_packs ? FT_MEMORY_PACKED : FT_MEMORY_TURNED;
}

/* A value that an evaluation hands out, as one seat makes it. */
typedef struct ft_output_layout {
    const char *name;
    ft_value_id value;
    int seat;           /* that makes it */
    int micros;         /* that it has of a batch */
    int64_t at;         /* of batch slot 0, in the block of that seat's device */
    int64_t slot_bytes; /* the place of its micro-batches of a batch, of the largest bucket */
} ft_output_layout;

typedef struct ft_param_layout {
    const char *name;
    int trained; /* its number in training; evaluation alone */
    ft_spec spec;
    int owner;        /* seat */
    int64_t at;       /* in the owner's device block */
    int64_t state_at; /* optimizer state, there too */
    int n_terms;
    int *terms;           /* graph order */
    const double *hypers; /* of its updates */
    double rate_factor;   /* of its updates */
    double ahead;         /* steps, in its updates: the owner's mean staleness, or 0 */
} ft_param_layout;

/* Offsets of the classes in a device's block; inputs are among its buffers. */
typedef struct ft_block_layout {
    int64_t begin[FT_MEMORY_CLASSES], bytes[FT_MEMORY_CLASSES]; /* without units */
    int64_t total;                                              /* with the part of the stays */
    int64_t *input_at; /* by input: offset in a batch slot, micro-batches contiguous; -1: no seat
                          here reads it */
    int64_t batch_slot_bytes, batch_at;
} ft_block_layout;

struct ft_blueprint {
    ft_arena *arena;
    ft_cut cut;                   /* deep copies of its arrays, but where stages are: see seating */
    ft_blueprint_options options; /* for what is not in the cut; likewise */
    const ft_split **splits;      /* by bucket */
    int n_params, n_inputs, n_terms;
    ft_param_layout *params;
    int *term_stage;    /* by term: of the plan */
    ft_seating seating; /* of the plan's stages */
    ft_seat_layout *seats;
    int n_edges;
    ft_edge *edges;    /* between seats, in the order of the plan's */
    ft_cargo *cargoes; /* by edge */
    int n_plan_edges;
    ft_edge *plan_edges;
    int *edge_first;          /* by edge of the plan: the first of those here; -1: there is none */
    ft_stage_costs costs;     /* by stage and edge of the plan */
    double *copy_bytes_per_s; /* by device, between its memory and the host's: as it was measured,
                                 else as its row says */
    ft_block_layout *blocks;  /* by device */
    ft_stays stays;
    int batch_slots;      /* batches that are in memory at once */
    int64_t *input_bytes; /* by bucket, then input: of one micro-batch */
    ft_value_id loss;
    bool together;              /* no seat updates before all have reduced */
    bool norms;                 /* updates know norms of all gradients: those of the batch, where
                                   they are together, else some of earlier ones */
    bool squares;               /* reduces leave squared norms: for updates, or for results */
    int norm_slots;             /* batches whose norms are kept */
    int norm_seat;              /* the first whose updates know all norms of their batch; -1: none
                                    does */
    ft_plan plan;               /* the one of the options, with edges and memory as they are here */
    ft_blueprint *evaluation;   /* of training: may be NULL */
    const ft_blueprint *trains; /* of evaluation: what it belongs to; NULL in training */
    int n_outputs;
    ft_output_layout *outputs; /* those of the replicas of a stage one behind the other */
};

/* Whether the gradient term is zero but in a few rows. */
bool ft_blueprint_by_rows(const ft_blueprint *blueprint, int term);
/* Rows of it that pass at most, as ft_pick_rows has them, from one seat to another; 0: all of it
 * passes, as it is. */
int64_t ft_blueprint_picked_rows(const ft_blueprint *blueprint, int from, int to, int term);

/* Of one micro-batch. */
int64_t ft_blueprint_output_bytes(const ft_blueprint *blueprint, const ft_output_layout *out,
                                  int bucket);

#endif
