--- A run: a plan executed on real devices, with its directory.
--
-- The directory holds config.lua (the resolved arguments), plan.txt and plan-evaluate.txt,
-- metrics.jsonl, summary.json, timeline.json (for Perfetto), checkpoints/ (see state.lua) and hf/
-- (the model: that of the best evaluation, or the last).

local core = require("ftpipe.core")
local best = require("ftpipe.best")
local checkpoint = require("ftpipe.checkpoint")
local feed = require("ftpipe.feed")
local forecast = require("ftpipe.forecast")
local progress = require("ftpipe.progress")
local scores = require("ftpipe.score")
local states = require("ftpipe.state")
local watch = require("ftpipe.watch")

local M = {}
local Run = {}
Run.__index = Run

local SIGINT = 2

-- ---------------------------------------------------------------------------------------------
-- Making.

local function bind_params(run)
   local list = run.plan.graphs[1]:params()
   run.params = {}
   for i, param in ipairs(list) do run.params[param.name] = run.core:param(i) end
   return list
end

--- Fills the parameters: from the model's checkpoint, or with initial values.
local function fill_params(run)
   local list = bind_params(run)
   run.model:fill(list, function(i) return run.core:param(i) end, run.plan.options.seed)
   run.core:refresh()
end

--- The learning rate over the run. Warm-up is never more than a tenth of it.
local function rate_of(args, steps)
   local warmup = math.min(args.warmup or steps, math.floor(steps / 10))
   return { schedule = args.lr_schedule, peak = args.lr, warmup = warmup, steps = steps }
end

--- @tparam table o plan, task, data (as the task loads it), args (of ft.args); threaded (false: a
--   replay of the plan on one thread)
function M.new(o)
   local plan, args = o.plan, o.args
   plan.options.model:check_trainable()
   local run = setmetatable({
      plan = plan,
      model = plan.options.model,
      task = o.task,
      data = o.data,
      args = args,
      out = args.out,
      threaded = o.threaded ~= false,
      rate = rate_of(args, plan.options.steps),
      core = plan.blueprint:run(),
      inputs = plan.graphs[1]:inputs(),
      best = best.new(args.patience),
      losses = {},
      seconds = 0,
      done = 0,
   }, Run)
   local from = run:find_start()
   if from then
      run:go_on(from)
   else
      fill_params(run)
   end
   if run.out then run:open_directory() end
   return run
end

--- The checkpoint that the run goes on from, nil for one that begins.
function Run:find_start()
   local args = self.args
   if args.resume and not self.out then
      core.fail("invalid argument",
         "--resume goes on from the checkpoints of --out, give it too", 2)
   end
   if not self.out or args.eval_only then return nil end
   if not args.resume then return states.check_unused(self.out) end
   local path = states.find(self.out)
   if not path then
      io.stderr:write(("--resume: no checkpoint in %s, starting at step 1\n"):format(self.out))
   end
   return path
end

--- Takes over weights, optimizer, position and history from a checkpoint.
function Run:go_on(path)
   bind_params(self)
   local state = states.read(self, path)
   self.best = best.new(self.args.patience, state)
   self.stopped = self.best:is_over() or nil
   io.stderr:write(("--resume: goes on from %s, after step %d of %d\n"):format(path, self.done,
      self.plan.options.steps))
end

--- A Lua table as source text, keys sorted.
local function serialize(value, indent)
   if type(value) ~= "table" then
      return type(value) == "string" and ("%q"):format(value) or tostring(value)
   end
   local keys, lines = {}, {}
   for key in pairs(value) do keys[#keys + 1] = key end
   table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
   for _, key in ipairs(keys) do
      local name = type(key) == "string" and ("[%q]"):format(key) or ("[%s]"):format(tostring(key))
      lines[#lines + 1] = ("%s   %s = %s,"):format(indent, name,
         serialize(value[key], indent .. "   "))
   end
   return "{\n" .. table.concat(lines, "\n") .. "\n" .. indent .. "}"
end

--- What config.lua holds: the arguments, and what the task was made with.
local function settings_of(run)
   local settings = { task = run.task.name, task_settings = {} }
   for key, value in pairs(run.args) do settings[key] = value end
   for key in pairs(run.task.rows.overrides) do settings.task_settings[key] = run.task[key] end
   return settings
end

--- Drops rows of metrics that come after a step: they will be written again.
local function forget_rows(path, step)
   if not core.sys.exists(path) then return end
   local kept = {}
   for line in core.sys.read_file(path):gmatch("[^\n]*\n") do
      local ok, row = pcall(core.json.decode, line)
      if ok and type(row) == "table" and (tonumber(row.step) or 0) <= step then
         kept[#kept + 1] = line
      end
   end
   core.sys.write_file(path, table.concat(kept))
end

function Run:open_directory()
   core.sys.mkdir(self.out)
   core.sys.write_file(self.out .. "/plan.txt", self.plan:text())
   local evaluation = self.plan:evaluation_text()
   if evaluation then core.sys.write_file(self.out .. "/plan-evaluate.txt", evaluation) end
   core.sys.write_file(self.out .. "/config.lua",
      "return " .. serialize(settings_of(self), "") .. "\n")
   if self.done > 0 then forget_rows(self.out .. "/metrics.jsonl", self.done) end
   self.metrics = assert(io.open(self.out .. "/metrics.jsonl", self.done > 0 and "a" or "w"))
   if not self.args.eval_only then states.check_room(self) end
end

-- ---------------------------------------------------------------------------------------------
-- Training.

local function feed_batch(run, batch, rate)
   feed.weigh(run.model.family, batch, run.plan.options.micro_batches)
   run.core:feed(feed.list(run.inputs, batch), batch.bucket, rate)
end

local function rate_at(run, step)
   return core.engine.rate(run.rate, step)
end

local function note_step(run, result)
   run.losses[#run.losses + 1] = result.loss
   if not run.metrics then return end
   run.metrics:write(core.json.encode({
      v = 1, step = result.step, loss = result.loss, lr = result.rate,
      gnorm = result.grad_norm == result.grad_norm and result.grad_norm or nil,
      step_s = result.end_ns / 1e9,
   }), "\n")
   run.metrics:flush()
end

--- After the first steps: what the plan said of them.
local function compare(run, result)
   if not run.forecast then return end
   local line = run.forecast:note(result, function() return run.core:measured() end)
   if not line then return end
   run.line:close()
   io.stderr:write(line, "\n")
end

local function start_leg(run, batches)
   run.core:begin(batches, run.done + 1, run.threaded)
   return { batches = batches, fed = 0, taken = 0, start_ns = core.sys.time_ns() }
end

local function finish_leg(run, leg)
   local timeline = run.core:finish(run.out ~= nil)
   run.seconds = run.seconds + (core.sys.time_ns() - leg.start_ns) / 1e9
   run.timeline = timeline
   if run.out then core.sys.write_file(run.out .. "/timeline.json", timeline.trace) end
end

--- Steps of training, pulled: for step in run:steps(batcher, n) do ... end
--
-- A step has .step (counts from 1), .loss, .rate, .grad_norm. The loop may be left early:
-- run:stop() then ends the leg. On Ctrl-C or SIGTERM no further batch is fed, what was fed is
-- finished, so that the leg ends as if it had been planned so short, and the loop ends with
-- run.interrupted set.
-- @tparam batcher batcher
-- @tparam int n steps, all in one leg
function Run:steps(batcher, n)
   local leg = start_leg(self, n)
   self.leg = leg
   return function()
      while leg.fed < n and self.core:wants() and not self.interrupted do
         feed_batch(self, batcher:next(), rate_at(self, self.done + leg.fed - leg.taken + 1))
         leg.fed = leg.fed + 1
      end
      self.interrupted = self.interrupted or core.sys.interrupted()
      if self.interrupted then self.core:drain() end
      if leg.taken == leg.fed then
         self:stop()
         return nil
      end
      local result = watch.next(self.core)
      leg.taken = leg.taken + 1
      self.done = self.done + 1
      note_step(self, result)
      compare(self, result)
      return result
   end
end

--- Ends the leg under way, if there is one.
function Run:stop()
   if not self.leg then return end
   local leg = self.leg
   self.leg = nil
   finish_leg(self, leg)
end

--- Batches of the training data from the start, in the run's order.
local function open_batches(run)
   local o = run.plan.options
   return core.data.batcher {
      dataset = run.data.train.dataset,
      batch = o.batch,
      buckets = o.buckets,
      lengths = o.lengths,
      columns = run.model.family.columns(run.model.config),
      seed = o.seed,
      shuffle = true,
      prefetch = 4,
   }
end

--- Saves the run as it is after this step, whole or not at all; `latest` then points to it.
-- Nothing happens when that was done already.
-- @tparam boolean is_best `best` is to point to it, too, and hf/ to be its model
function Run:checkpoint(is_best)
   if not self.out or (self.saved == self.done and not is_best) then return end
   local path = states.write(self, is_best)
   self.saved = self.done
   if is_best then self:publish(path) end
   return path
end

--- Makes hf/ the model of a checkpoint, whose weights are those of the run.
function Run:publish(path)
   if not states.publish(self.out, path) then self:save(self.out .. "/hf") end
end

--- Ends a run that a signal stopped: saves it and raises `cancelled`.
local function abandon(run)
   local saved = run.out and run.done > 0
   if saved then
      run:checkpoint()
      if not run.best:step() then run:publish(states.find(run.out)) end
   end
   core.fail("cancelled", ("stopped after step %d of %d; %s"):format(run.done,
      run.plan.options.steps,
      saved and ("saved %s, --resume goes on"):format(states.find(run.out))
         or "nothing was saved"),
      run.interrupted == SIGINT and 130 or 75)
end

--- Steps to the next one at which the pipeline is drained, to be saved or evaluated. These are
-- multiples of --save-every and --eval-every, wherever the run began.
function Run:leg_length()
   local stop = self.plan.options.steps
   for _, flag in ipairs { "save_every", "eval_every" } do
      local every = self.args[flag]
      if every then stop = math.min(stop, (math.floor(self.done / every) + 1) * every) end
   end
   return stop - self.done
end

--- What is due between legs: an evaluation, a checkpoint.
local function between_legs(run)
   local last = run.done >= run.plan.options.steps
   local function due(every) return every and (last or run.done % every == 0) end
   if due(run.args.eval_every) and run.judged ~= run.done then run:judge() end
   if run.interrupted then return end
   if last or run.stopped or due(run.args.save_every) then run:checkpoint() end
end

--- All steps of the run: for step in run:train() do run:show(step) end
--
-- In legs, each drained at its end and followed by an evaluation (see judge) or a checkpoint, where
-- --eval-every and --save-every ask for it. Where evaluations were made, the run has the best
-- weights once the last step is done, when --out has kept them. After Ctrl-C or SIGTERM what is
-- under way is finished and saved, and `cancelled` is raised.
function Run:train()
   local o = self.plan.options
   local batches, leg = open_batches(self), nil
   if self.done > 0 then batches:seek(self.done + 1) end
   self.line = progress.new(o.steps, o.batch)
   self.forecast = forecast.new(self.plan, math.min(o.batches, o.steps))
   core.sys.hold_interrupt(true) -- steps() looks at the signal itself
   return function()
      local step = leg and leg()
      while not step and not self.interrupted do
         if self.done > 0 then between_legs(self) end
         if self.done >= o.steps or self.stopped or self.interrupted then break end
         leg = self:steps(batches, self:leg_length())
         step = leg()
      end
      if not step then
         self.line:close()
         if self.interrupted then abandon(self) end
         self:take_best()
      end
      return step
   end
end

--- Shows a step of training on the progress line.
function Run:show(step) self.line:step(step) end

-- ---------------------------------------------------------------------------------------------
-- Evaluation.

--- The score of the weights there are; the last one again when they are the same. Nil when a signal
-- came that the run holds.
local function evaluate(run)
   local step = run.restored or run.done -- the weights are those after this step
   if run.score and run.score.step == step then return run.score end
   local score = scores.of(run, run.data.eval)
   run.interrupted = run.interrupted or core.sys.interrupted()
   if not score then return nil end
   score.step, run.score = step, score
   if run.metrics then
      run.metrics:write(core.json.encode(score:row(step)), "\n")
      run.metrics:flush()
   end
   return score
end

--- Loss and metrics on the evaluation data.
-- @treturn score see score.lua
-- @raise cancelled: a signal came
function Run:evaluate() return evaluate(self) or abandon(self) end

--- Evaluates between legs: says so, keeps the best model in hf/, and ends training at the end of
-- --patience.
function Run:judge()
   self.line:close()
   local score = evaluate(self)
   if not score then return end
   local better = self.best:note(self.done, score)
   self.line:evaluated(score:short())
   io.stderr:write(("step %d: %s%s\n"):format(self.done, tostring(score),
      better and ", the best so far" or ""))
   self.judged = self.done
   if better then
      self.best_score = score
      self:checkpoint(true)
   end
   if self.best:is_over() then
      self.stopped = true
      io.stderr:write(("stopped: %d evaluations were not better than %s\n"):format(self.best.since,
         tostring(self.best)))
   end
end

--- After training: the weights of the best evaluation, where hf/ has kept them.
function Run:take_best()
   local step = self.best:step()
   if not step or step == self.done or not self.out then return end
   local kept = checkpoint.open(states.find_best(self.out) .. "/hf")
   checkpoint.load(kept, self.plan.graphs[1]:params(), function(i) return self.core:param(i) end)
   self.core:refresh()
   self.restored, self.score = step, self.best_score
   io.stderr:write(("hf/ is the best: %s\n"):format(tostring(self.best)))
end

-- ---------------------------------------------------------------------------------------------
-- Results.

local function mean(list, first, last)
   local sum = 0
   for i = first, last do sum = sum + list[i] end
   return sum / (last - first + 1)
end

local function totals(rows)
   local list = {}
   for d, row in ipairs(rows) do list[d] = row.total end
   return list
end

--- Mean loss over the last tenth of the steps, or the first when asked for; nil before any step.
function Run:mean_loss(first)
   local n = #self.losses
   local tenth = math.max(1, math.floor(n / 10))
   if n == 0 then return nil end
   return first and mean(self.losses, 1, tenth) or mean(self.losses, n - tenth + 1, n)
end

--- What summary.json holds.
function Run:summary(score)
   local o, n = self.plan.options, #self.losses
   return {
      task = self.task.name,
      metric = score.metric,
      value = score.value,
      metrics = score.metrics,
      eval_loss = score.loss,
      steps = self.done,
      best_step = self.best:step(),
      best_value = self.best.found and self.best.found.value,
      stopped_early = self.stopped or nil,
      seconds = self.seconds,
      samples_per_second = self.seconds > 0 and n * o.batch / self.seconds or 0,
      loss_first = self:mean_loss(true),
      loss_last = self:mean_loss(),
      devices = self.plan.devices_name,
      schedule = o.schedule,
      partition = self.plan.partition.name,
      step_seconds_predicted = self.forecast and self.forecast.predicted_s,
      step_seconds_measured = self.forecast and self.forecast.measured_s,
      memory_planned_bytes = self.plan:memory_bytes(),
      memory_measured_bytes = totals(self.core:measured()),
   }
end

--- Saves the model as a Hugging Face directory.
function Run:save(dir)
   local model = self.model
   checkpoint.save(dir, {
      config = model:saved_config(), tensors = self.params, source = model.files,
   })
end

--- Ends the run: hf/, predictions.jsonl and summary.json.
-- @tparam score score of the last evaluation
-- @treturn table the summary
function Run:close(score)
   self:stop()
   local summary = self:summary(score)
   if self.out then
      if self.done > 0 then
         self:checkpoint()
         self:publish(states.find_best(self.out) or states.find(self.out))
      end
      score:write(self.out)
      core.sys.write_file(self.out .. "/summary.json",
         core.json.encode(summary, { indent = 2 }) .. "\n")
      self.metrics:close()
   end
   return summary
end

return setmetatable(M, { __call = function(_, o) return M.new(o) end })
