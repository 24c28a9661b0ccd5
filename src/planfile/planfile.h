/* planfile/planfile.h - plans as text. */
#ifndef FT_PLANFILE_H
#define FT_PLANFILE_H

#include "base/text.h"
#include "plan/plan.h"

/* Text with a version line that ft_plan_parse reads back; grammar in write.c; small enough to
 * edit. Unknown keys are refused, errors (FT_FORMAT) carry the line number. Depths and in-flight
 * counts that are left out are those that edges and lists give; a parsed plan is not yet checked.
 */
ft_status ft_plan_write(const ft_plan *plan, ft_text *text, ft_error *err);
ft_status ft_plan_parse(ft_plan **out, const char *text, ft_error *err);

#endif
