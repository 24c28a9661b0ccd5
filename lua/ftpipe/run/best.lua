--- Which evaluation of a run was the best, and when to stop waiting for a better one.

local copy = require("ftpipe.base.copy")

local M = {}
local Best = {}
Best.__index = Best

--- @tparam[opt] int patience evaluations without a better one after which training ends
-- @tparam[opt] table state of an earlier run, as :state() gave it
function M.new(patience, state)
   return setmetatable({ patience = patience, found = state, since = state and state.since or 0 },
      Best)
end

--- Whether an evaluation can be compared with the best so far: it is by the same metric, of the
-- same data.
function Best:compares(score)
   local found = self.found
   return not found or found.metric == score.metric
      and (not found.data or found.data == score.data)
end

--- Notes an evaluation; whether it is the best so far. Of equals the first is the best. One that
-- cannot be compared takes the place of what was.
-- @tparam int step
-- @tparam score score of score.lua
function Best:note(step, score)
   local better = score.value == score.value
      and (not self.found or not self:compares(score) or score:is_better_than(self.found))
   if better then
      self.found = {
         step = step, value = score.value, metric = score.metric, text = score:short(),
         data = score.data,
      }
      self.since = 0
   else
      self.since = self.since + 1
   end
   return better
end

--- Whether patience is at its end.
function Best:is_over() return self.patience ~= nil and self.since >= self.patience end

--- The number of its step, nil before any evaluation.
function Best:step() return self.found and self.found.step end

--- A table of plain values with which `new` goes on.
function Best:state()
   return self.found and copy(self.found, { since = self.since })
end

--- "accuracy 93.2 % at step 40"
function Best:__tostring()
   return self.found and ("%s at step %d"):format(self.found.text, self.found.step) or "none"
end

return M
