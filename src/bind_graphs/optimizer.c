/* bind_graphs/optimizer.c - an optimizer as options of Lua name it. */
#include <string.h>

#include "bind_graphs/bind_graphs.h"

const ft_optimizer *script_opt_optimizer(lua_State *L, int t)
{
    const char *name = script_opt_string(L, t, "optimizer", ft_optimizers[0]->name);
    const ft_optimizer *optimizer = ft_optimizer_find(name);
    if (!optimizer) script_fault(L, "option 'optimizer': there is no '%s'", name);
    return optimizer;
}

const double *script_opt_hypers(lua_State *L, int t, const ft_optimizer *optimizer)
{
    ft_error err;
    const char *names[FT_MAX_HYPERS];
    double values[FT_MAX_HYPERS], *hypers = lua_newuserdata(L, FT_MAX_HYPERS * sizeof *hypers);
    int n = 0;
    memset(hypers, 0, FT_MAX_HYPERS * sizeof *hypers);
    lua_getfield(L, t, "hypers");
    if (lua_istable(L, -1))
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (n == FT_MAX_HYPERS || lua_type(L, -2) != LUA_TSTRING)
                script_fault(L, "option 'hypers': expected at most %d named numbers",
                             FT_MAX_HYPERS);
            names[n] = lua_tostring(L, -2);
            values[n++] = script_check_number(L, lua_gettop(L));
        }
    lua_pop(L, 1);
    if (ft_optimizer_hypers(optimizer, names, values, n, hypers, &err) != FT_OK)
        script_blame(L, &err);
    return hypers;
}
