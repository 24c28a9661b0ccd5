--- What a run holds: every field, its type, which files write it, and what for. A field that is not
-- here can be neither written nor read, nor can one get a value of another type.

local class = require("ftpipe.base.class")
local column = require("ftpipe.base.column")
local opts = require("ftpipe.base.opts")
local suggest = require("ftpipe.base.suggest")

local M = {}

-- Name, type (as in base/class.lua; all may be absent), writers in lua/ftpipe, and what it is.
M.rows = {
   { "plan", "plan", "run/init", "that is executed" },
   { "model", "table", "run/init", "that is trained or scored" },
   { "task", "table", "run/init", "what is scored; nil: nothing is" },
   { "data", "table", "run/init", "splits, as the task loads them" },
   { "args", "table", "run/init", "flags, as ft.args gives them" },
   { "out", "string", "run/init", "path of the run directory" },
   { "directory", "table", "run/init", "it, open (store/directory.lua)" },
   { "threaded", "boolean", "run/init", "false: a replay on one thread" },
   { "rate", "table", "run/init", "the learning rate over the steps (trained/rate.lua)" },
   { "scaling", "table", "run/init store/state", "of losses in f16 (base/scaling.lua)" },
   { "engine", "userdata", "run/init", "the engine's run" },
   { "inputs", "table", "run/init", "of the graphs, in their order" },
   { "params", "table", "run/init", "by name, fetched when one is asked for" },
   { "fresh", "table", "run/init", "names of parameters that the checkpoint lacked" },
   { "watch", "table", "run/init", "over its progress (run/watchdog.lua)" },
   -- where it is
   { "done", "int", "run/init run/training store/state", "steps that are done" },
   { "seconds", "number", "run/init run/training store/state", "of training, to the last leg" },
   { "tokens", "number", "run/init run/training store/state", "trained on, without padding" },
   { "losses", "table", "run/init run/training store/state", "by step" },
   { "loss_mean", "number", "run/training store/state", "over the last steps, as it is shown" },
   { "leg", "table", "run/training", "the steps under way; nil between legs" },
   { "interrupted", "int", "run/init run/training", "the signal that asks to end" },
   { "to_save", "boolean", "run/training", "a signal asked for a checkpoint" },
   { "to_trace", "boolean", "run/training", "a signal asked for a trace" },
   { "stopped", "boolean", "run/init", "patience is at its end" },
   { "closed", "boolean", "run/init", "it has ended, and another may have its directory" },
   -- what is said of it
   { "line", "table", "run/training", "of progress" },
   { "forecast", "table", "run/training", "what the plan said of the first steps" },
   { "timeline", "table", "run/training", "of the last leg" },
   { "waits", "table", "run/training", "what devices did in all legs (schedule/waits.lua)" },
   { "copies", "table", "run/training", "to and from host memory in these (schedule/copies.lua)" },
   -- what it is worth
   { "score", "score", "run/init", "of the weights there are, or were last" },
   { "best", "table", "run/init", "the best evaluation (run/best.lua)" },
   { "best_score", "score", "run/init", "its score" },
   { "judged", "int", "run/init store/state", "the step of the last evaluation between legs" },
   { "restored", "int", "run/init run/training", "the step whose weights were taken back" },
   -- what is kept
   { "saved", "int", "run/init store/state", "the step of the last checkpoint" },
   { "numbers", "table", "store/numbers", "what decides the numbers, for checkpoints" },
}

local kinds = {}
for _, row in ipairs(M.rows) do kinds[row[1]] = row[2] end

local function check(name, value)
   local kind = kinds[name]
   if not kind then
      opts.fail("run", "there is no field '%s'%s", tostring(name),
         suggest.hint(tostring(name), column(M.rows, 1)))
   end
   if value ~= nil and not class.is(value, kind) then
      opts.fail("run", "field '%s': expected %s, got %s", name, class.words(kind),
         class.told(value))
   end
end

--- A run with these values, whose methods are those of a table.
-- @tparam table methods
-- @tparam table values by name of a field
function M.new(methods, values)
   for name, value in pairs(values) do check(name, value) end
   return setmetatable({}, {
      __name = "run",
      __index = function(_, name)
         if values[name] ~= nil then return values[name] end
         if methods[name] == nil then check(name) end
         return methods[name]
      end,
      __newindex = function(_, name, value)
         local is_method = methods[name] ~= nil and type(value) == "function" -- of this run alone
         if not is_method then check(name, value) end
         values[name] = value
      end,
      __tostring = methods.__tostring, __shown = methods.__shown,
   })
end

return M
