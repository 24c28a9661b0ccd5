/* state/guard.h - a line behind every place of a device's block, which nobody may write. */
#ifndef FT_STATE_GUARD_H
#define FT_STATE_GUARD_H

#include "state/run.h"

/* What every byte of a guard is. */
enum { GUARD = 0xa5 };
/* Writes the guards of places; of tensors that stay for the run too, or only of slots. */
ft_status guards_write(ft_run *run, bool all, ft_error *err);
/* FT_INVALID names the place behind which something was written. */
ft_status guards_check(ft_run *run, ft_error *err);

#endif
