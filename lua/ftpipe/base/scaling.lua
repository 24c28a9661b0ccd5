--- The factor of losses in f16, which keeps small gradients from becoming zero there: it doubles
-- after so many steps in a row whose gradients were finite, and is halved, the step updating
-- nothing, when they were not (Micikevicius et al., "Mixed Precision Training", ICLR 2018, section
-- 3.2). At 1 such gradients end the run as in any other precision. A power of two, it changes no
-- bits but those that f16 rounds.

local M = {}
local Scaling = {}
Scaling.__index = Scaling

M.START = 2 ^ 16
M.GROWS_AFTER = 2000

--- @tparam[opt] table state of one before: factor, good
function M.new(state)
   state = state or {}
   return setmetatable({ factor = state.factor or M.START, good = state.good or 0 }, Scaling)
end

--- What a checkpoint keeps.
-- @treturn table factor, good (steps in a row since it changed)
function Scaling:state() return { factor = self.factor, good = self.good } end

--- Whether a table of a checkpoint is such a state.
function M.is_state(x)
   return type(x) == "table" and type(x.factor) == "number" and x.factor >= 1
      and math.frexp(x.factor) == 0.5 and x.factor < math.huge
      and type(x.good) == "number" and x.good >= 0 and x.good % 1 == 0
end

--- Notes how a step went.
-- @tparam boolean skipped its gradients were not finite
function Scaling:saw(skipped)
   self.good = skipped and 0 or self.good + 1
   if skipped then
      self.factor = self.factor / 2
   elseif self.good == M.GROWS_AFTER then
      self.factor, self.good = 2 * self.factor, 0
   end
end

return M
