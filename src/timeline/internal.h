/* timeline/internal.h - what the files of this room share. */
#ifndef FT_TIMELINE_INTERNAL_H
#define FT_TIMELINE_INTERNAL_H

#include "timeline/timeline.h"

/* Events of a device and a stream, which stand one behind the other. */
typedef struct span {
    int64_t first, last;
} span;

span timeline_span(const ft_timeline *timeline, int device, ft_stream stream);

/* What a move of the class carries, to or from the device. */
int64_t timeline_moved_bytes(const ft_holdings *holdings, int device, int stage, int class);
/* What a copy of a class has carried: counted in a run, else as above. */
int64_t timeline_copied_bytes(const ft_timeline *timeline, const ft_holdings *holdings,
                              const ft_event *event);

#endif
