--- Which stages run their forwards again before their backwards, and keep nothing for these.

local M = {}

-- By rule, which of n stages. `auto` says it of the first attempt: memory decides. `but-last` is
-- what published asynchronous systems assume: the backward of the last stage follows its forward.
local RULES = {
   never = function() return false end,
   always = function() return true end,
   auto = function() return false end,
   ["but-last"] = function(s, n) return s < n end,
}

-- Rules that a problem and a cut know: those that say it of every stage.
M.rules = { "never", "always", "but-last" }

--- By stage, whether it recomputes.
-- @tparam string rule never, always, but-last, or auto (to begin with)
-- @tparam int n_stages
-- @treturn {boolean,...}
function M.flags(rule, n_stages)
   local flags = {}
   for s = 1, n_stages do flags[s] = RULES[rule](s, n_stages) end
   return flags
end

--- How many stages recompute.
-- @tparam {boolean,...} flags
function M.count(flags)
   local n = 0
   for _, flag in ipairs(flags) do n = n + (flag and 1 or 0) end
   return n
end

return M
