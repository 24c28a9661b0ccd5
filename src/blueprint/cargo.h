/* blueprint/cargo.h - what passes along edges, and its places. Offsets are in bytes, in the block
 * of a device. */
#ifndef FT_BLUEPRINT_CARGO_H
#define FT_BLUEPRINT_CARGO_H

#include <stdbool.h>
#include <stdint.h>

/* Places of an edge in a row, used in turn. What passes is in one row after the other: its maker
 * writes the first that is there, its user reads the last. */
typedef enum {
    FT_ROW_MADE, /* at the maker, until an S takes it or it goes apart */
    FT_ROW_EDGE, /* the slots of the edge, at its receiver */
    FT_ROW_USED, /* at the user, where a V brings it */
    FT_ROWS
} ft_row_kind;

typedef struct ft_row {
    int n; /* 0: nothing waits there */
    int device;
    bool at_home; /* not in its block, but in host memory */
    int64_t base; /* of the first, in the device's block */
} ft_row;

/* What an edge carries. */
typedef enum {
    FT_CARGO_VALUES,  /* activations or their gradients, per micro-batch */
    FT_CARGO_TERMS,   /* gradient terms of parameters that the receiver owns */
    FT_CARGO_WEIGHTS, /* updated parameters for a replica */
    FT_CARGO_NOTHING  /* order alone: norms, or weights on the same device */
} ft_cargo_kind;

typedef struct ft_cargo {
    ft_cargo_kind kind;
    int edge;     /* of the plan */
    bool apart;   /* the maker's device copies it to the slots beside what it computes next: of
                     values out of the first row, which no S takes then */
    int slots_of; /* the edge here in whose slots it lands: replicas of the sender share those of a
                     receiver, edges that share a place that of the first here */
    int turn, turns; /* of edges that share a place: number in a batch, of so many; else 0 of 1 */
    int n;
    int *items;         /* value, term or parameter numbers */
    int64_t *at;        /* by bucket, then item: offset in a slot */
    int64_t *bytes;     /* by bucket: what a slot holds */
    int64_t *load;      /* likewise, without what lies between its items */
    int64_t slot_bytes; /* the place of the largest */
    ft_row rows[FT_ROWS];
} ft_cargo;

/* The row of an edge that an action takes from or fills. */
typedef struct ft_row_end {
    int edge;
    ft_row_kind row;
} ft_row_end;

#endif
