/* blueprint/versions.h - which versions of its weights an action reads.
 *
 * A seat's own weights are of version u after u updates of the leg; an action says by its lag
 * which one it reads. Weights that it takes over from other seats are counted by their adoptions.
 * Where seats keep older versions, a forward reads the newest of those, but none newer than its
 * own, and a backward that reads its forward's version reads what that read with it. */
#ifndef FT_BLUEPRINT_VERSIONS_H
#define FT_BLUEPRINT_VERSIONS_H

#include "plan/plan.h"

/* Weights that a seat updates itself, and those that it takes over. */
typedef enum { FT_WEIGHTS_OWNED, FT_WEIGHTS_ADOPTED, FT_WEIGHTS_KINDS } ft_weights_kind;

/* A version of each. */
typedef struct ft_versions {
    int64_t of[FT_WEIGHTS_KINDS];
} ft_versions;

/* How far a seat is in a leg. */
typedef struct ft_version_count {
    ft_versions newest;
    int n_slots;
    ft_versions *forwards; /* by slot of micro-batches in flight: what their forwards read */
} ft_version_count;

/* Older versions that a seat keeps of one kind: version v is in slot v % n, until version v + n
 * comes. A slot has all weights that change, and their packed copies. Likewise the slot, n = 1, of
 * predicted weights. Of marks, batch b is in slot b % n; they have the weights alone. */
typedef struct ft_version_ring {
    int n;
    int64_t slot_bytes, at; /* a place; offset of slot 0 in the seat's device block */
} ft_version_ring;

/* What an F, B, I or G reads, number `index` of its seat; an F behind a P of its own reads what
 * that made. */
ft_versions ft_versions_read(const ft_version_count *count, int64_t index, const ft_action *action);
/* Counts the action, which reads as ft_versions_read says, as done. */
void ft_versions_pass(ft_version_count *count, int64_t index, const ft_action *action);

#endif
