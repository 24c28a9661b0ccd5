/* base/memory_class.h - what a device's memory holds: one row per class, for all rooms and Lua. */
#ifndef FT_BASE_MEMORY_CLASS_H
#define FT_BASE_MEMORY_CLASS_H

#include <stdbool.h>

/* How swaps and drops of a plan move a class. */
typedef enum {
    FT_MOVES_STAGE, /* all of a stage's at once */
    FT_MOVES_MICRO, /* those of one micro-batch */
    FT_MOVES_NEVER
} ft_class_moves;

/* Name, word in plan files and tables, how it moves, whether an M makes it of weights that are on
 * the device, what it is. The order is that of tables. */
#define FT_MEMORY_CLASS_LIST(X)                                                                    \
    X(WEIGHTS, "weights", STAGE, false, "the newest parameters")                                   \
    X(GRADIENTS, "gradients", STAGE, false, "sums of gradients, one for each use of a parameter")  \
    X(OPTIMIZER, "optimizer", STAGE, false, "the optimizer's state")                               \
    X(VERSIONS, "versions", NEVER, false, "parameters that are read: older, or predicted")         \
    X(PACKED, "packed", STAGE, true,                                                               \
      "copies of parameters in the order in which forwards read them")                             \
    X(TURNED, "turned", STAGE, true, "those in the order in which backwards alone read them")      \
    X(ACTIVATIONS, "activations", MICRO, false, "what forwards leave for their backwards")         \
    X(WORKSPACE, "workspace", NEVER, false, "what only the action under way needs")                \
    X(BUFFERS, "buffers", NEVER, false, "slots of edges, and batches that wait for their forwards")

typedef enum {
#define FT_MEMORY_ENUM(name, ...) FT_MEMORY_##name,
    FT_MEMORY_CLASS_LIST(FT_MEMORY_ENUM)
#undef FT_MEMORY_ENUM
        FT_MEMORY_CLASSES
} ft_memory_class;

typedef struct ft_memory_class_row {
    const char *name; /* "weights" */
    ft_class_moves moves;
    bool is_made;
    const char *doc;
} ft_memory_class_row;

/* By class. */
extern const ft_memory_class_row ft_memory_classes[FT_MEMORY_CLASSES];

#endif
