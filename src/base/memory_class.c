/* base/memory_class.c - the rows of the classes of memory. */
#include "base/memory_class.h"

const ft_memory_class_row ft_memory_classes[FT_MEMORY_CLASSES] = {
#define FT_MEMORY_ROW(name, word, moves, made, doc) {word, FT_MOVES_##moves, made, doc},
    FT_MEMORY_CLASS_LIST(FT_MEMORY_ROW)
#undef FT_MEMORY_ROW
};
