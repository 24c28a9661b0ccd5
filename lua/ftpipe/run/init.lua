--- A run: a plan executed on real devices.
--
-- With --out it leaves a directory: run.json (what was asked for), recipe.lua, log.txt, plan.txt,
-- metrics.jsonl (a row for each step and evaluation), timeline.json (of the last leg),
-- summary.json, checkpoints/, predictions, and hf/, the model of the best evaluation, or the last.

local best = require("ftpipe.run.best")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local figures = require("ftpipe.store.figures")
local fields = require("ftpipe.run.fields")
local forecast = require("ftpipe.run.forecast")
local guard = require("ftpipe.base.guard")
local keys = require("ftpipe.base.keys")
local metrics = require("ftpipe.data.metric")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local directories = require("ftpipe.store.directory")
local ranks = require("ftpipe.run.ranks")
local records = require("ftpipe.store.record")
local rehearse = require("ftpipe.run.rehearse")
local report = require("ftpipe.report.run")
local run_name = require("ftpipe.store.name")
local scaling = require("ftpipe.base.scaling")
local scores = require("ftpipe.run.score")
local spark = require("ftpipe.base.spark")
local states = require("ftpipe.store.state")
local suggest = require("ftpipe.base.suggest")
local training = require("ftpipe.run.training")
local trial = require("ftpipe.sweep.trial")
local units = require("ftpipe.base.units")
local wanted = require("ftpipe.run.wanted")
local watchdog = require("ftpipe.run.watchdog")

local M = {}
local Run = setmetatable({ __name = "run" }, { __index = training })

-- ---------------------------------------------------------------------------------------------
-- Making.

--- The parameters by name, each fetched when it is asked for: the tensor that the run works with,
-- or, in a run of several processes, what it is now.
local function params_of(plan, engine)
   local number, several = {}, core.ranks.all() ~= nil
   for i, param in ipairs(plan.graphs[1]:params()) do number[param.name] = i end
   return setmetatable({}, {
      __index = function(_, name)
         if not number[name] then
            opts.fail("run.params", "there is no parameter '%s'%s", tostring(name),
               suggest.hint(tostring(name), keys(number)))
         end
         local tensor = engine:param(number[name])
         return several and tensor:copy() or tensor
      end,
   })
end

--- Fills the parameters: from the model's checkpoint, or with initial values. run.fresh: names of
-- those that the checkpoint lacks.
local function fill_params(run)
   run.fresh = run.model:fill(run.plan.graphs[1]:params(), states.params_of(run, true))
   run.engine:refresh()
end

local RULES = {
   plan = { type = "plan", required = true, help = "of ft.plan" },
   task = { type = "table", help = "as ft.task.rte {}; for what is scored, or kept in 'out'" },
   data = { type = "table", help = "as task:load gives it; for what is trained on or scored" },
   args = { type = "table", required = true, help = "of ft.args" },
   threaded = { type = "boolean", default = true, help = "false: a replay on one thread" },
}

--- Ends a script at the run of a plan that can only be looked at: shows it, with what the run would
-- stop at.
local function end_planning(o)
   if not run_name.script() then
      opts.fail("ft.run", "the plan is of devices that are not here: print(plan) shows it")
   end
   rehearse(o)
   os.exit(0, true)
end

--- A run, ready for its first step: memory taken, weights read, or the checkpoint that it goes on
-- from. With --dry-run, or devices that are not there, the plan is printed and the script ends.
-- @tparam table o plan, task, data (as the task loads it), args (of ft.args; those that change no
--   plan are read here, as out, resume and transport); threaded (false: a replay of the plan on one
--   thread)
function M.new(o)
   o = opts.check("ft.run", RULES, o)
   local plan, args = o.plan, o.args
   if args.out then training.need(o, "task", named.name(args, "out")) end
   if args.resume then training.need(o, "data", named.name(args, "resume")) end
   plan.options.model:check_trainable(args.resume)
   if plan.only then end_planning(o) end
   wanted(o.task, o.data)
   local run = fields.new(Run, {
      plan = plan,
      model = plan.options.model,
      task = o.task,
      data = o.data,
      args = args,
      out = args.out,
      directory = args.out and directories.new(args),
      threaded = o.threaded,
      rate = plan.options.rate,
      scaling = plan.scales and scaling.new() or nil,
      engine = ranks.run(plan, args),
      inputs = plan.graphs[1]:inputs(),
      best = best.new(args.patience),
      losses = {},
      seconds = 0,
      tokens = 0,
      done = 0,
   })
   run.params = params_of(plan, run.engine)
   run.watch = watchdog.new(run)
   local slow = plan:slow_disk(run.engine:swap_rate())
   if slow then run:say(slow) end
   local kernels = ranks.kernels_words(plan)
   if kernels then run:say(kernels) end
   core.sys.hear_asks(true) -- the watch and the training loop look at them
   local from = run:find_start()
   if from then
      run:go_on(from)
   else
      fill_params(run)
   end
   if run.directory then
      run.directory:begin(plan, records.of(run), run.done)
      if not args.eval_only then run.directory:noting_end(states.check_room, run) end
   end
   return run
end

--- Says something below the progress line, and in the log of the run's directory.
-- @tparam string text lines, without the end of the last
-- @local
function Run:say(text)
   if self.line then self.line:close() end
   io.stderr:write(text, "\n")
   if self.directory then self.directory:log(text) end
end

--- The checkpoint that the run goes on from, nil for one that begins.
-- @local
function Run:find_start()
   directories.check(self.args) -- again: now no other process writes there
   if not self.args.resume then return nil end
   states.mend(self.out)
   local path = states.find(self.out)
   if not path then
      self:say(named.words(self.args, "{resume}: no checkpoint in %s, starting at step 1")
         :format(self.out))
   end
   return path
end

--- Takes over weights, optimizer, position and history from a checkpoint.
-- @local
function Run:go_on(path)
   local state = states.read(self, path)
   watchdog.note_checkpoint(self)
   self.best = best.new(self.args.patience, state)
   self.stopped = self.best:is_over() or nil
   self:say(named.words(self.args, "{resume}: goes on from %s, after step %d of %d")
      :format(path, self.done, self.plan.options.steps))
end

-- ---------------------------------------------------------------------------------------------
-- Saving.

--- A parameter in the place of its tensor, which another process may have: run.engine:write takes
-- it.
local Owned = {}
Owned.__index = Owned

local function owned(param, i)
   local count = 1
   for _, dim in ipairs(param.dims) do count = count * dim end
   return setmetatable({ param = i, elements = count }, Owned)
end

function Owned:count() return self.elements end

function Owned.dtype() return "f32" end

--- Saves the run as it is after this step, whole or not at all, unless that was done already;
-- `latest` then points to it.
-- @tparam boolean is_best `best` is to point to it, too, and hf/ to be its model
-- @treturn string the path of the checkpoint; nil without --out
function Run:checkpoint(is_best)
   if not self.out then return nil end
   if self.closed then opts.fail("run:checkpoint", "the run is closed") end
   if self.saved == self.done and not is_best then return states.find(self.out) end
   local path = states.write(self, is_best)
   self.saved = self.done
   watchdog.note_checkpoint(self)
   states.retire(self)
   if is_best then self:publish(path) end
   return path
end

--- Makes hf/ the model of a checkpoint, whose weights are those of the run.
-- @local
function Run:publish(path)
   if not states.publish(self.out, path) then self:save(self.out .. "/hf") end
end

--- Saves the model as a Hugging Face directory; of one with adapters, these alone, as peft reads
-- them. Each process writes the parameters that it owns, where it sees the directory.
function Run:save(dir)
   local list, tensors = self.plan.graphs[1]:params(), {}
   for i, param in ipairs(list) do tensors[param.name] = owned(param, i) end
   self.model:save(dir, tensors, {
      list = list, modules = self.plan.modules,
      write_tensors = function(path, rows) self.engine:write(path, rows) end,
   })
end

-- ---------------------------------------------------------------------------------------------
-- Evaluation.

--- Refuses figures that are no finite numbers, which a metric of one's own may give. The weights
-- are saved before, so that the run goes on with another metric.
local function check_figures(run, score)
   for _, name in ipairs(keys(score.metrics)) do
      local value = score.metrics[name]
      if type(value) == "number" and value - value ~= 0 then -- infinite, or not a number
         local saves = run.out and run.done > 0 and not run.args.eval_only
         if saves then run:checkpoint() end
         core.fail("invalid argument", ("task %s: metric '%s' gave %s in the evaluation after step "
            .. "%d: expected a finite number%s"):format(run.task.name, name, tostring(value),
            run.done, saves and "; " .. states.what_is_left(run) or ""))
      end
   end
end

--- The score of the weights there are; the last one again when they are the same. Nil when a signal
-- came that the run holds.
local function evaluate(run)
   local step = run.restored or run.done -- the weights are those after this step
   if run.score and run.score.step == step then return run.score end
   local score = scores.of(run, run.data.eval)
   run.interrupted = run.interrupted or core.sys.interrupted()
   if not score then return nil end
   check_figures(run, score)
   score.step, run.score = step, score
   if run.args.eval_only then
      run:say(forecast.evaluation(run.plan, score.passes))
   end
   if run.directory then run.directory:note(score:row(step)) end
   return score
end

--- Loss and metrics on the evaluation data. Training that was left early ends first, at run.done.
-- @treturn score metric, unit, better, value, metrics, loss, examples (how many), predictions
-- @raise cancelled: a signal came
function Run:evaluate()
   self:need_part("eval", "run:evaluate()")
   self:need("task", "run:evaluate()")
   if self.leg and self.line then self.line:close() end
   self:stop()
   return evaluate(self) or self:abandon()
end

--- Evaluates between legs: says so, keeps the best model in hf/, and ends training at the end of
-- --patience.
-- @local
function Run:judge()
   self.line:close()
   local score = evaluate(self)
   if not score then return end
   if not self.best:compares(score) then
      self:say(("the best so far, %s, is by another metric or of other evaluation data: it counts "
         .. "no more"):format(tostring(self.best)))
   end
   local better = self.best:note(self.done, score)
   self.line:evaluated(score:short())
   self:say(("step %d: %s%s"):format(self.done, tostring(score),
      better and ", the best so far" or ""))
   self.judged = self.done
   if better then
      self.best_score = score
      self:checkpoint(true)
   end
   local last = self.done >= self.plan.options.steps
   if not last and trial.ends(score:row(self.done)) then
      self.stopped = true
      self:say(("stopped: others of the sweep are better at step %d"):format(self.done))
   elseif self.best:is_over() then
      self.stopped = true
      self:say(("stopped: %s not better than %s"):format(
         counted(self.best.since, "evaluation was", "evaluations were"), tostring(self.best)))
   end
end

--- After training: the weights of the best evaluation, where hf/ has kept them.
-- @local
function Run:take_best()
   local step = self.best:step()
   local path = step and step ~= self.done and self.out and states.find_best(self.out)
   if not path then return end
   states.restore(self, path)
   self.engine:refresh()
   self.restored, self.score = step, self.best_score
   self:say(("hf/ is the best: %s"):format(tostring(self.best)))
end

-- ---------------------------------------------------------------------------------------------
-- Results.

local Summary = { __name = "summary" }

--- "rte: accuracy 91.3 % on 400 examples; 800 steps in 12.3 s, ..."
function Summary:__tostring()
   local parts = {
      ("%s: %s %s on %s"):format(self.task, self.metric, metrics.text(self, self.value),
         counted(self.eval_examples, self.example)),
      ("%s in %s"):format(counted(self.steps, "step"), units.format_seconds(self.seconds)),
   }
   if self.samples_per_second then
      parts[2] = ("%s, %s samples/s, loss %.4f to %.4f"):format(parts[2],
         units.format_rate(self.samples_per_second), self.loss_first, self.loss_last)
   end
   parts[3] = ("%s, schedule %s, partition %s"):format(self.devices, self.schedule, self.partition)
   return table.concat(parts, "; ")
end

--- Where training was left before its end, and its evaluations say which model is the best: whether
-- that is the one there is now.
local function judge_last(run, score)
   if not run.directory or run.restored or run.judged == run.done or not run.best:step()
      or score.step ~= run.done then
      return
   end
   run.judged = run.done
   if run.best:note(run.done, score) then
      run.best_score = score
      run:checkpoint(true)
   else
      run:say(("hf/ is the best: %s"):format(tostring(run.best)))
   end
end

--- Ends the run: hf/, predictions.jsonl and summary.json.
-- @tparam score score of the last evaluation
-- @treturn table the summary
function Run:close(score)
   if self.closed then opts.fail("run:close", "the run is closed") end
   self:stop()
   judge_last(self, score)
   local summary = setmetatable(figures.summary(self, score), Summary)
   if self.directory then
      if self.done > 0 then
         if not self.restored then self:checkpoint() end
         self:publish(states.find_best(self.out) or states.find(self.out))
      end
      score:write(self.out)
      self.directory:log("ended: " .. tostring(summary))
      self.directory:close(summary)
   end
   self.closed = true
   core.sys.hear_asks(false)
   return summary
end

--- Writes what the run has left in its directory so far as a page, as `ftpipe report` does.
-- @tparam string path
function Run:html(path)
   if not self.out then
      opts.fail("run:html", "the run has no directory: %s, which is read as the run is made",
         named.words(self.args, "{out=DIR} names one"))
   end
   core.sys.write_file(path, report.page(self.out, true))
   return self
end

--- "run of rte: step 40 of 800"
function Run:__tostring()
   return ("run%s: step %d of %d%s"):format(self.task and " of " .. self.task.name or "", self.done,
      self.plan.options.steps or 0, self.out and ", in " .. self.out or "")
end

--- The same, with the losses of its steps.
function Run:__shown()
   local losses = self.losses or {}
   if not losses[1] then return tostring(self) end
   return ("%s\nloss %s %.4f to %.4f"):format(tostring(self), spark(losses), losses[1],
      losses[#losses])
end

-- ---------------------------------------------------------------------------------------------
-- Failing.

--- Calls f: what it raises ends the run, and its directory says how.
local function watched(run, f, ...)
   if not run.directory then return f(...) end
   return run.directory:noting_end(f, ...)
end

--- A method of which each call may end the run.
local function ending(method)
   return function(run, ...) return watched(run, method, run, ...) end
end

-- What is looped over; until then no step is taken, which it says.
local Steps = { __call = function(self) return watched(self.run, self.next) end }

function Steps:__tostring() return ("steps: for step in run:%s do ... end"):format(self.call) end

--- The same of one that gives a loop over steps. What had stopped the loop before it is over.
local function ending_loop(call, method)
   return function(run, ...)
      if run.closed then opts.fail("run:" .. call:match("%w+"), "the run is closed") end
      run.interrupted = nil
      local step = watched(run, method, run, ...)
      return setmetatable({ run = run, call = call, next = step }, Steps)
   end
end

Run.evaluate, Run.close = ending(Run.evaluate), ending(Run.close)
Run.steps = ending_loop("steps(batcher, n)", training.steps)
Run.train = ending_loop("train()", training.train)

M.takes = { ["ft.run"] = RULES }

guard("run", Run, {
   checkpoint = "is_best?: boolean", save = "dir: string", evaluate = "", close = "score: score",
   steps = "batcher: any, n: int", stop = "", train = "", show = "step: table",
   html = "path: string",
})

return setmetatable(M, { __call = function(_, o) return M.new(o) end })
