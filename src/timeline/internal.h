/* timeline/internal.h - what the files of this room share. */
#ifndef FT_TIMELINE_INTERNAL_H
#define FT_TIMELINE_INTERNAL_H

#include "plan/shares.h"
#include "timeline/timeline.h"

/* Events of a device and a stream, which stand one behind the other. */
typedef struct span {
    int64_t first, last;
} span;

span timeline_span(const ft_timeline *timeline, int device, ft_stream stream);

/* What a move of the class carries, to or from the device. */
int64_t timeline_moved_bytes(const ft_holdings *holdings, int device, int stage, int class);
/* Whether it is an S or V of what passes through host memory. */
bool timeline_passes_home(const ft_plan *plan, const ft_event *event);
/* What a copy of a class, or of what passes through host memory, has carried: counted in a run,
 * else as above. */
int64_t timeline_copied_bytes(const ft_timeline *timeline, const ft_holdings *holdings,
                              const ft_event *event);

#endif
