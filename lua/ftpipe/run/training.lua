--- The training loop of a run: methods of ftpipe.run.
--
-- Training goes in legs. A leg is so many steps in one go, at the end of which the pipeline is
-- empty, so that the run can be saved or evaluated there.

local column = require("ftpipe.base.column")
local copies = require("ftpipe.schedule.copies")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local feed = require("ftpipe.data.feed")
local forecast = require("ftpipe.run.forecast")
local figures = require("ftpipe.store.figures")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local progress = require("ftpipe.base.progress")
local staleness = require("ftpipe.schedule.staleness")
local waits = require("ftpipe.schedule.waits")

local Run = {}

local SIGINT = 2
local TRACED = 10 -- steps that SIGUSR2 asks for

-- ---------------------------------------------------------------------------------------------
-- Steps.

local function feed_batch(run, batch, rate)
   local factor = run.scaling and run.scaling.factor
   feed.weigh(run.model.family, batch, run.plan.options.micro_batches, false, factor)
   run.engine:feed(feed.list(run.inputs, batch), batch.bucket, rate, factor)
   run.leg.tokens[run.leg.fed + 1] = batch.tokens
end

--- Seconds of training so far, without what is done between legs.
local function training_seconds(run)
   return run.seconds + (core.sys.time_ns() - run.leg.start_ns) / 1e9
end

--- What the devices do: percent of the leg that they waited, and the bytes that they reached.
local function load_of(run)
   local ns = core.sys.time_ns() - run.leg.start_ns
   local idle = {}
   for d, busy_ns in ipairs(run.engine:busy()) do
      idle[d] = math.max(0, 100 * (1 - busy_ns / ns))
   end
   return idle, column(run.engine:measured(), "total")
end

--- Notes the figures of a step, in the step itself: what the line shows is what the row says.
local function note_step(run, leg, step)
   run.losses[#run.losses + 1] = step.loss
   run.loss_mean = figures.next_mean(run.loss_mean, step.loss, #run.losses)
   run.tokens = run.tokens + leg.tokens[leg.taken]
   step.loss_mean, step.tokens = run.loss_mean, leg.tokens[leg.taken]
   step.seconds = (step.end_ns - leg.end_ns) / 1e9
   step.samples_per_second = run.done * run.plan.options.batch / training_seconds(run)
   step.idle, step.memory = load_of(run)
   leg.end_ns = step.end_ns
   run.watch:saw(step.seconds)
   if run.directory then run.directory:note(figures.of_step(run, step)) end
end

--- After the first steps: what the plan said of them.
local function compare(run, result)
   if not run.forecast then return end
   local line = run.forecast:note(result, function() return run.engine:measured() end)
   if not line then return end
   run:say(line)
end

--- The result of the next step.
local function take(run, leg)
   leg.failed = true -- unless there is one
   local result = run.watch:next()
   leg.failed = nil
   leg.taken = leg.taken + 1
   run.done = run.done + 1
   run.restored = nil -- the weights are others now
   if run.scaling then
      result.loss_scale = run.scaling.factor
      run.scaling:saw(result.skipped)
   end
   note_step(run, leg, result)
   compare(run, result)
   return result
end

--- Notes what signals ask for.
local function hear(run)
   run.interrupted = run.interrupted or core.sys.interrupted()
   if not run.line then return end -- nobody saves or traces between the legs of others
   run.to_save = core.sys.asked("save") or run.to_save
   run.to_trace = core.sys.asked("trace") or run.to_trace
end

--- Whether the leg under way is to end before its time; one that saves or traces has a step.
local function leaves(run)
   return run.interrupted or run.leg and run.leg.fed > 0 and (run.to_save or run.to_trace)
end

--- Whether another batch of a leg of n is to be fed. How far its losses are scaled is known when
-- the step before it has ended.
local function feeds(run, leg, n)
   local waits_for_scale = run.scaling and leg.fed > leg.taken
   return run.leg == leg and leg.fed < n and not waits_for_scale and run.engine:wants()
      and not leaves(run)
end

--- Steps of training, pulled: for step in run:steps(batcher, n) do ... end
--
-- A step has .step (counts from 1), .loss, .loss_mean, .rate, .grad_norm, .gaps (by stage, where
-- they are known), .loss_scale and .skipped (in f16), .tokens (without padding), .seconds,
-- .samples_per_second (of the training so far), and by device .idle (percent of the leg so far)
-- and .memory (bytes reached). The loop may be left early: run:stop() then ends the leg. On Ctrl-C
-- or SIGTERM no further batch is fed, what was fed is finished, so that the leg ends as if it had
-- been planned so short, and the loop ends with run.interrupted set.
-- @tparam batcher batcher
-- @tparam int n steps, all in one leg
function Run:steps(batcher, n)
   self.engine:begin(n, self.done + 1, self.threaded)
   local leg = { fed = 0, taken = 0, tokens = {}, end_ns = 0, start_ns = core.sys.time_ns() }
   self.leg = leg
   return function()
      while feeds(self, leg, n) do
         local step = self.done + leg.fed - leg.taken + 1
         feed_batch(self, batcher:next(), core.engine.rate(self.rate, step))
         leg.fed = leg.fed + 1
      end
      hear(self)
      if leaves(self) then self.engine:drain() end
      if leg.taken == leg.fed then
         self:stop()
         return nil
      end
      return take(self, leg)
   end
end

--- Keeps the timeline of the leg that was asked for, which no later leg replaces.
local function keep_trace(run, steps)
   local name = ("trace-%d-%d.json"):format(run.done - steps + 1, run.done)
   if not run.directory:offer(name, run.timeline.trace) then return end
   run:say(("traced %s in %s/%s"):format(counted(steps, "step"), run.out, name))
end

--- Ends the leg under way, if there is one: what was fed is finished first, so that the weights are
-- those after a step.
function Run:stop()
   local leg = self.leg
   if not leg then return end
   if leg.taken < leg.fed and not leg.failed then
      self.engine:drain()
      while leg.taken < leg.fed do take(self, leg) end
   end
   self.leg = nil
   self.timeline = self.engine:finish(self.directory ~= nil)
   for _, remark in ipairs(self.engine:remarks()) do self:say(remark) end
   self.seconds = self.seconds + (core.sys.time_ns() - leg.start_ns) / 1e9
   if leg.taken == 0 then return end
   self.waits = waits.add(self.waits, self.timeline)
   self.copies = copies.add(self.copies, self.timeline, leg.taken)
   if self.forecast then self.forecast:leg_ended() end
   if not self.directory then return end
   self.directory:note(figures.of_leg(self, leg.taken))
   self.directory:offer("timeline.json", self.timeline.trace)
   if leg.traced then keep_trace(self, leg.taken) end
end

-- ---------------------------------------------------------------------------------------------
-- Legs.

--- Steps to the next one at which the pipeline is drained, to be saved or evaluated, or because the
-- plan is of so many batches. These are multiples of --save-every, of --eval-every and of those
-- batches, wherever the run began.
-- @local
function Run:leg_length()
   local o = self.plan.options
   local stop = math.min(o.steps, (math.floor(self.done / o.batches) + 1) * o.batches)
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
   -- Without --eval-every a run may have a best from before it went on, and hf/ is that one unless
   -- what was trained since is compared with it.
   local compares = last and run.data.eval and run.best:step()
   if (compares or due(run.args.eval_every)) and run.judged ~= run.done then run:judge() end
   if run.interrupted then return end
   if last or run.stopped or run.to_save or due(run.args.save_every) then
      local path = run:checkpoint()
      if run.to_save then
         run:say(path and ("saved %s, the run goes on"):format(path)
            or named.words(run.args, "nothing is saved without {out}, the run goes on"))
      end
   end
   run.to_save = nil
end

--- Begins the next leg: of TRACED steps where that was asked for.
local function begin_leg(run, batches)
   local n, traced = run:leg_length(), run.to_trace
   run.to_trace = nil
   if traced and not run.directory then
      run:say(named.words(run.args, "nothing is traced without {out}, the run goes on"))
      traced = nil
   end
   local leg = run:steps(batches, traced and math.min(n, TRACED) or n)
   run.leg.traced = traced
   return leg
end

--- Ends a run that a signal stopped: saves it and raises `cancelled`.
-- @local
function Run:abandon()
   local path = self.directory and self.done > 0 and self:checkpoint()
   if path and not self.best:step() then self:publish(path) end
   local text = ("stopped after step %d of %d; %s"):format(self.done, self.plan.options.steps,
      path and named.words(self.args, "saved %s, {resume} goes on"):format(path)
         or named.words(self.args, "nothing was saved, {out=DIR} saves"))
   if self.directory then self.directory:log(text) end
   core.fail("cancelled", text, self.interrupted == SIGINT and 130 or 75)
end

--- What the devices did, in a table.
local function tell_waits(run)
   if not run.waits then return end
   local names = column(run.plan.devices, "name")
   run:say("time of devices: computed, else waited for what is above the column\n"
      .. waits.text(run.waits, names))
   if copies.any(run.copies) then run:say(copies.text(run.copies, names)) end
end

--- By how much weights were late, beside what the plan had said.
local function tell_staleness(run)
   local text = run.timeline and staleness.text(run.plan.blueprint:stages(), run.timeline.staleness)
   if text then run:say(text) end
end

--- Raises where the run was made without an option that something needs.
-- @tparam string name data or task
-- @tparam string what needs it
-- @local
function Run:need(name, what)
   if self[name] then return end
   opts.fail("ft.run", "option '%s' is missing: %s needs it", name, what)
end

--- Raises where the run's data have no such part.
-- @tparam string part train or eval
-- @tparam string what needs it
-- @local
function Run:need_part(part, what)
   self:need("data", what)
   if self.data[part] then return end
   opts.fail("ft.run", "option 'data': there is no '%s' in it: %s needs it", part, what)
end

--- All steps of the run: for step in run:train() do run:show(step) end
--
-- In legs, each followed by an evaluation or a checkpoint, where --eval-every and
-- --save-every ask for it. Where evaluations were made, also in a part that the run goes on from,
-- the last step is evaluated too, and the run then has the best weights, when --out has kept them.
-- After Ctrl-C or SIGTERM what is under way is finished and saved, and `cancelled` is raised.
function Run:train()
   self:need_part("train", "run:train()")
   if self.args.eval_every then
      self:need("task", named.name(self.args, "eval_every"))
      self:need_part("eval", named.name(self.args, "eval_every"))
   end
   self:stop() -- what is left of a loop before this one
   local o = self.plan.options
   local batches, leg = feed.batches(o, self.data.train.dataset, self.model), nil
   if self.done > 0 then batches:seek(self.done + 1) end
   self.line = progress.new(o.steps, staleness.most(self.plan.blueprint:stages()))
   self.forecast = forecast.new(self.plan, math.min(o.batches, o.steps))
   core.sys.hold_interrupt(true) -- steps() looks at the signal itself
   return function()
      local step = leg and leg()
      while not step and not self.interrupted do
         if self.done > 0 then between_legs(self) end
         if self.done >= o.steps or self.stopped or self.interrupted then break end
         leg = begin_leg(self, batches)
         step = leg()
      end
      if not step then
         self.line:close()
         if self.interrupted then self:abandon() end
         tell_waits(self)
         tell_staleness(self)
         self:take_best()
      end
      return step
   end
end

--- Shows a step of training on the progress line.
function Run:show(step)
   if self.line then self.line:step(step) end -- there is none outside run:train()
end

return Run
