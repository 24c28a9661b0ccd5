/* state/places.h - where every place of a blueprint ends. */
#ifndef FT_STATE_PLACES_H
#define FT_STATE_PLACES_H

#include "blueprint/blueprint.h"

/* One tensor or slot of a block, by its guard. */
typedef struct ft_guard {
    int device;
    ft_memory_class class;
    int64_t at;       /* of the guard, in the device's block */
    const char *name; /* of a parameter; NULL: the class says it */
    int seat, slot;   /* -1: of none */
} ft_guard;

/* Calls visit for every place that the blueprint has (that of evaluation: of its own alone). */
void places_visit(const ft_blueprint *blueprint, void (*visit)(void *user, const ft_guard *guard),
                  void *user);

#endif
