/* bind_plans/internal.h - what the files of this room share. */
#ifndef FT_BIND_PLANS_INTERNAL_H
#define FT_BIND_PLANS_INTERNAL_H

#include "bind_plans/bind_plans.h"

/* core.schedule.ways. */
int script_schedule_ways(lua_State *L);

#endif
