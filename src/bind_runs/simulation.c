/* bind_runs/simulation.c - blueprints against costs. */
#include "bind_runs/internal.h"
#include "proof/proof.h"

/* Costs in which all that a stage does takes as many times as long as the list at index i says, if
 * there is one; on the stack. */
static ft_stage_costs opt_factors(lua_State *L, int i, const ft_stage_costs *costs, int n)
{
    ft_stage_costs result = *costs;
    const double **lists[] = {&result.forward_ns,
                              &result.backward_ns,
                              &result.reduce_ns,
                              &result.update_ns,
                              &result.adopt_ns,
                              &result.backward_input_ns,
                              &result.backward_weight_ns,
                              &result.recompute_ns,
                              &result.predict_ns,
                              &result.all_reduce_ns,
                              &result.attenuate_ns,
                              &result.exchange_ns,
                              &result.make_ns};
    if (lua_isnoneornil(L, i)) return result;
    script_check_table(L, i);
    if ((int)lua_objlen(L, i) != n) script_arg_error(L, i, "expected a number for each stage");
    luaL_checkstack(L, 20, "factors");
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        if (!*lists[k]) continue;
        double *list = lua_newuserdata(L, ((size_t)n + 1) * sizeof *list);
        for (int s = 0; s < n; s++) {
            lua_rawgeti(L, i, s + 1);
            list[s] = (*lists[k])[s] * script_check_number(L, lua_gettop(L));
            lua_pop(L, 1);
        }
        *lists[k] = list;
    }
    return result;
}

/*** Plays the plan of a leg against modelled costs, on the machine of the devices if they have one.
 * @function blueprint:simulate
 * @tparam int batches
 * @tparam[opt] boolean trace with the Chrome trace as text
 * @tparam[opt] table factors by stage, of its times
 * @treturn table as schedule_plan:simulate */
int script_blueprint_simulate(lua_State *L)
{
    ft_error err;
    const ft_blueprint *b = script_check_blueprint(L, 1);
    int batches = (int)script_check_int(L, 2, 1, INT32_MAX);
    bool trace = lua_toboolean(L, 3);
    lua_settop(L, 4);
    ft_plan *plan = NULL;
    ft_timeline *timeline = NULL;
    int n = ft_blueprint_plan(b)->n_stages;
    const ft_stage_costs costs = opt_factors(L, 4, ft_blueprint_costs(b), n);
    ft_simulation options = {.costs = &costs, .machine = ft_blueprint_machine(b)};
    script_tell_of_moves(L, b, &options);
    ft_status status = ft_plan_cut(&plan, ft_blueprint_plan(b), batches, &err);
    if (status == FT_OK) status = ft_plan_simulate_on(&timeline, plan, &options, &err);
    if (status == FT_OK) {
        const ft_holdings holdings = script_holdings(L, b, plan);
        script_push_simulation(L, timeline, &holdings, trace);
    }
    ft_timeline_free(timeline);
    ft_plan_free(plan);
    return status == FT_OK ? 1 : script_raise(L, &err);
}
