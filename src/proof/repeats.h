/* proof/repeats.h - what is proven of some repetitions of a plan's body holds of all.
 *
 * A long leg is its body, many times. The plan with few repetitions is checked in its place. When
 * the state at the end of the last of them is that at its beginning, moved by the batches of the
 * body, one more repetition would begin where the last one did, do the same and leave the drain the
 * same: by induction the plan with all of them passes too. Where a short plan fails, or its state
 * has not become steady, the whole plan is checked. */
#ifndef FT_PROOF_REPEATS_H
#define FT_PROOF_REPEATS_H

#include "plan/plan.h"
#include "plan/wires.h"

/* Where a tensor is. */
typedef enum { AT_DEVICE, AT_BOTH, AT_HOST, AT_NOWHERE } residence;

/* How far a seat (a stage's replica on a device) is. */
typedef struct progress {
    int64_t done[FT_ACT_COUNT];
    int64_t held, in_flight; /* micro-batches with activations on the device: now, and at most */
    int64_t versions;        /* of the weights that are needed at once */
    bool adopts;             /* an edge U->W ends here */
    bool takes_norms;        /* an edge R->N ends here */
    bool exchanges;          /* an edge X->R begins here */
    ft_action_kind last;     /* of a micro-batch's actions: its B or G, of forwards alone its F */
    bool moves;              /* swaps, drops, recomputes or updates at home; else all is here */
    bool moved[FT_MEMORY_CLASSES]; /* by some action */
    bool makes[FT_MEMORY_CLASSES]; /* by an M: then it is lost nowhere */
    bool are_dead;                 /* gradients: an update has used them, no backward came since */
    uint8_t at[FT_MEMORY_CLASSES]; /* residence of what is not per micro-batch */
    uint8_t *micros;               /* residence by local micro-batch; with moves */
    bool attenuates;               /* it has A */
    int16_t *lags;                 /* of forwards, by local micro-batch; with A */
    int predicted;                 /* lag of a P whose F has not come; 0: none */
    int64_t attenuated;            /* micro-batches before the last A, and it */
} progress;

/* Micro-batches that have their last action behind them. */
int64_t proof_finished(const progress *s);

/* The plan with as many repetitions of the body as it takes until what a device does meets, in the
 * body, what every other one does in the body; the plan itself where it has no more. It shares the
 * plan's lists, but for its drains. */
ft_status proof_shorten(const ft_plan **out, const ft_plan *plan, ft_arena *arena, ft_error *err);

/* The seats of one device when the last repetition of its body begins. Counts are not kept: where
 * an action of the body stands for its own index in two repetitions, that has moved by as much. */
typedef struct seats_then {
    int n;
    progress *seats; /* with micros and lags of what is in flight alone */
} seats_then;

ft_status proof_keep_seats(seats_then *out, ft_arena *arena, const ft_seating *shares, int device,
                           const progress *seats, ft_error *err);
/* Whether the device's seats are as they were then. */
bool proof_is_steady(const seats_then *then, const ft_seating *shares, int device,
                     const progress *seats);

#endif
