/* bind_plans/internal.h - what the files of this room share. */
#ifndef FT_BIND_PLANS_INTERNAL_H
#define FT_BIND_PLANS_INTERNAL_H

#include "bind_plans/bind_plans.h"

/* core.schedule.ways. */
int script_schedule_ways(lua_State *L);

/* plan.c: methods of a schedule_plan. */
int script_plan_describe(lua_State *L);
int script_plan_head(lua_State *L);
int script_plan_letters(lua_State *L);

#endif
