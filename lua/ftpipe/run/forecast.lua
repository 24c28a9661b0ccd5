--- What a plan said of its run, held against the first steps of it.
--
--    a step: predicted 51.20 ms, measured 52.00 ms (+1.6 %); memory: cpu:0 predicted 310.2 MB,
--    measured 309.8 MB (-0.1 %)
--
-- Steps are compared in the steady part: from the end of step `from` to the end of step `to`, both
-- in the first leg, and in a simulation of the same steps. A leg that has too few of them says
-- nothing of its steps, since what they take at first is no measure. Memory is predicted for the
-- longest batches of training and of evaluation and for all buffers at once; measured is the most
-- that was live at one time so far.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")

local M = {}
local Forecast = {}
Forecast.__index = Forecast

-- Steps looked at; those of them that warm up; fewest behind these that are a measure; fewest of a
-- leg whose memory is said.
local LAST, WARM_UP, LEAST, LEAST_FOR_MEMORY = 24, 8, 8, 3

--- @tparam plan plan
-- @tparam int batches of the first leg
function M.new(plan, batches)
   local to = math.min(LAST, batches)
   local from = to >= WARM_UP + LEAST and WARM_UP or nil
   return setmetatable({ plan = plan, to = to, from = from }, Forecast)
end

--- Seconds of a step in the simulation of the same steps.
function Forecast:predicted()
   local till = self.plan:simulate(self.to).seconds - self.plan:simulate(self.from).seconds
   return till / (self.to - self.from)
end

local function versus(predicted, measured, format)
   return ("predicted %s, measured %s (%+.1f %%)"):format(format(predicted), format(measured),
      100 * (measured / predicted - 1))
end

local function milliseconds(seconds) return ("%.2f ms"):format(1e3 * seconds) end
local function megabytes(bytes) return ("%.1f MB"):format(bytes / 1e6) end

--- "memory: cpu:0 predicted ..., measured ...": what was seen, whatever was planned.
local function memory_words(plan, measured)
   local parts = {}
   for d, row in ipairs(measured) do
      parts[d] = plan.devices[d].name .. " " .. versus(plan.memory[d].total, row.total, megabytes)
   end
   return "memory: " .. table.concat(parts, ", ")
end

--- A line, when the step at hand is the one to compare at; nil otherwise.
-- @tparam table result of the step: end_ns since the start of its leg
-- @tparam function measured gives the bytes by device (rows with total) that were live at one time
function Forecast:note(result, measured)
   self.seen = (self.seen or 0) + 1
   if self.seen == self.from then self.from_ns = result.end_ns end
   if self.seen ~= self.to or self.to < LEAST_FOR_MEMORY then return nil end
   local memory = memory_words(self.plan, measured())
   if not self.from_ns then return memory end
   self.predicted_s = self:predicted()
   self.measured_s = (result.end_ns - self.from_ns) / 1e9 / (self.to - self.from)
   return ("a step: %s; %s"):format(versus(self.predicted_s, self.measured_s, milliseconds), memory)
end

--- Nothing more is compared: steps of two legs are no measure of a step.
function Forecast:leg_ended() self.to = 0 end

--- Seconds of a pass through examples. The main thread makes batches and scores what comes out
-- while devices work: of the cores that they leave, or, where they leave none, of theirs. What that
-- takes depends on the task and is no part of a profile; it is taken as it was measured. Nothing is
-- beside the first half of a batch's share, its making, and the last, its scoring.
local function pass_seconds(plan, pass)
   local alone = pass.host_seconds / pass.batches
   local host = pass.host_seconds - alone
   local played, work = plan:simulate(pass.batches), host
   for d, device in ipairs(plan.devices) do
      work = work + played.seconds * (1 - played.bubble[d]) * device.threads
   end
   return alone + math.max(played.seconds, host, work / core.sys.cores())
end

--- "evaluation of 13 batches: predicted ..., measured ...": passes in a line.
local function passes_words(plan, passes, what)
   local batches, predicted, measured, host = 0, 0, 0, 0
   for _, pass in ipairs(passes) do
      batches = batches + pass.batches
      predicted = predicted + pass_seconds(plan, pass)
      measured = measured + pass.seconds
      host = host + pass.host_seconds
   end
   return ("%s of %s: %s; making batches and scoring, beside it: %s"):format(what,
      counted(batches, "batch", "batches"), versus(predicted, measured, milliseconds),
      milliseconds(host))
end

--- Lines for an evaluation by a plan of its own. Its first pass is over all examples; how many
-- follow, and of how many batches, depends on the answers.
-- @tparam plan plan
-- @tparam {table,...} passes of ftpipe.data.evaluate
function M.evaluation(plan, passes)
   local line = passes_words(plan, { passes[1] }, "evaluation")
   local more = { unpack(passes, 2) }
   if #more == 0 then return line end
   return ("%s\n%s"):format(line, passes_words(plan, more, ("%s over answers that were not whole,")
      :format(counted(#more, "further pass", "further passes"))))
end

return M
