--- The watchdog of a run: how long nothing may move, and what is left behind when nothing does.
--
-- Nothing may move for 20 steps: of those that the plan predicts, or of the slowest that was seen,
-- whichever are longer, and for half a minute at least, so that a machine which is busy with other
-- things is no hang. --watchdog gives another time.

local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local watch = require("ftpipe.base.watch")

local M = {}

local STEPS, LEAST_SECONDS = 20, 30
local EVENTS = 20 -- last ones of a device
local PLAYED = 8 -- batches that a step is predicted by

--- Seconds of a step, as the plan has it.
local function predicted(plan)
   local batches = math.min(PLAYED, plan.options.batches or plan.options.eval_batches)
   return plan:simulate(batches).seconds / batches
end

--- Seconds without progress after which the run is lost; nil: never. The plan is asked when it
-- comes to that.
local function limit_of(run)
   local given = run.args.watchdog
   if given then return function() return given > 0 and given or nil end end
   local step
   return function(seconds)
      if seconds <= LEAST_SECONDS then return LEAST_SECONDS end
      step = step or predicted(run.plan)
      return math.max(LEAST_SECONDS, STEPS * math.max(step, run.watch.slowest))
   end
end

--- What a run that is lost can go on from; nil without a checkpoint.
local function what_is_kept(run)
   return run.saved and run.out
      and named.words(run.args, "the checkpoint of step %d is whole, {resume} goes on from it")
         :format(run.saved) or nil
end

--- Leaves what is known in the run directory, else on stderr; gives what is to be said besides.
local function leave(run, text)
   local past = "what happened last:\n" .. run.engine:describe(EVENTS)
   local path = run.out and run.out .. "/watchdog.txt"
   local written = path and pcall(run.directory.write, run.directory, "watchdog.txt",
      text .. past)
   if not written then io.stderr:write(past) end
   local words = { written and ("%s has the last events of every device"):format(path) }
   words[#words + 1] = what_is_kept(run)
   return table.concat(words, "; ")
end

--- Has the run's newest checkpoint said when another process is lost.
function M.note_checkpoint(run) core.ranks.remark(what_is_kept(run)) end

--- Says once that a signal was heard, to whoever sees a long step go on and would press again.
local function answer_signals(run)
   local answered = false
   return function()
      local heard = core.sys.interrupted()
      if heard and not answered then
         run:say(("stopping: what is under way ends first%s; another signal may end the program at "
            .. "once, unsaved"):format(run.directory and ", then the run is saved" or ""))
      end
      answered = heard
   end
end

--- A watch over a run.
function M.new(run)
   M.note_checkpoint(run)
   return watch.new {
      engine = run.engine, limit = limit_of(run),
      lost = function(text) return leave(run, text) end, waits = answer_signals(run),
      say = function(text)
         if run.line then run.line:close() end
         io.stderr:write(text)
      end,
   }
end

return M
