--- What a plan said of its run, held against the first steps of it.
--
--    a step: predicted 51.20 ms, measured 52.00 ms (+1.6 %); memory: cpu:0 predicted 310.2 MB,
--    measured 310.2 MB (+0.0 %)
--
-- Steps are compared in the steady part: from the end of step `from` to the end of step `to`, both
-- in the first leg, and in a simulation of the same steps. Memory is predicted for the longest
-- batches of training and of evaluation: until they have come, it is what was reached so far.

local M = {}
local Forecast = {}
Forecast.__index = Forecast

local LAST, FIRST_SHARE = 24, 3 -- steps looked at, and the part of them that warms up

--- @tparam plan plan
-- @tparam int batches of the first leg
function M.new(plan, batches)
   local to = math.min(LAST, batches)
   return setmetatable({ plan = plan, to = to, from = math.floor(to / FIRST_SHARE) }, Forecast)
end

--- Seconds of a step in the simulation of the same steps.
function Forecast:predicted()
   if self.from < 1 then return nil end
   local till = self.plan:simulate(self.to).seconds - self.plan:simulate(self.from).seconds
   return till / (self.to - self.from)
end

local function versus(predicted, measured, format)
   return ("predicted %s, measured %s (%+.1f %%)"):format(format(predicted), format(measured),
      100 * (measured / predicted - 1))
end

local function milliseconds(seconds) return ("%.2f ms"):format(1e3 * seconds) end
local function megabytes(bytes) return ("%.1f MB"):format(bytes / 1e6) end

--- "memory: cpu:0 predicted ..., measured ...", when every device has reached what it needs; else
-- what it has reached so far.
local function memory_words(plan, measured)
   local parts, so_far, reached = {}, {}, true
   for d, row in ipairs(measured) do
      local name, planned = plan.devices[d].name, plan.memory[d].total
      parts[d] = ("%s %s"):format(name, versus(planned, row.total, megabytes))
      so_far[d] = ("%s %s of %s"):format(name, megabytes(row.total), megabytes(planned))
      reached = reached and row.total >= planned
   end
   if reached then return "memory: " .. table.concat(parts, ", "), true end
   return "memory so far: " .. table.concat(so_far, ", "), false
end

--- A line, when the step at hand is the one to compare at, and one when memory is reached later;
-- nil otherwise.
-- @tparam table result of the step: end_ns since the start of its leg
-- @tparam function measured gives the bytes by device (rows with total) that were really reached
function Forecast:note(result, measured)
   self.seen = (self.seen or 0) + 1
   if self.seen == self.from then self.from_ns = result.end_ns end
   if self.seen < self.to or not self.from_ns or self.reached then return nil end
   local words
   words, self.reached = memory_words(self.plan, measured())
   if self.seen > self.to then return self.reached and words or nil end
   self.predicted_s = self:predicted()
   self.measured_s = (result.end_ns - self.from_ns) / 1e9 / (self.to - self.from)
   return ("a step: %s; %s"):format(versus(self.predicted_s, self.measured_s, milliseconds), words)
end

return M
