--- The figures of a run: a row of metrics.jsonl, and summary.json. doc/metrics.md lists them.

local column = require("ftpipe.base.column")
local copies = require("ftpipe.schedule.copies")
local core = require("ftpipe.core")
local waits = require("ftpipe.schedule.waits")

local M = {}

local KEPT = 0.9 -- of a loss's weight in the running mean, with each loss after it

--- The running mean of losses with one more: each weighs 0.9 of the one after it.
-- @tparam ?number mean nil before the first
-- @tparam number loss
-- @tparam int n how many losses they are, with this one
function M.next_mean(mean, loss, n)
   if not mean then return loss end
   return mean + (loss - mean) * (1 - KEPT) / (1 - KEPT ^ n)
end

--- The running mean after all of these losses; nil after none.
function M.mean(losses)
   local mean
   for n, loss in ipairs(losses) do mean = M.next_mean(mean, loss, n) end
   return mean
end

--- The row of a step.
-- @tparam run run
-- @tparam table step see run/training.lua
function M.of_step(run, step)
   -- no schedule without a flush has it, nor has a step whose gradients were not finite
   local known = step.grad_norm == step.grad_norm and not step.skipped
   return {
      v = 1, step = step.step, time = core.sys.unix_time(),
      epoch = step.step * run.plan.options.batch / run.data.train.dataset:size(),
      loss = step.loss, loss_mean = step.loss_mean, lr = step.rate,
      gnorm = known and step.grad_norm or nil, gap = step.gaps,
      loss_scale = step.loss_scale, skipped = step.skipped,
      step_s = step.seconds, tokens = step.tokens,
      tokens_per_second = step.tokens / step.seconds,
      samples_per_second = step.samples_per_second,
      idle_percent = step.idle, memory_bytes = step.memory,
   }
end

--- A row for the leg that has just ended: what the devices did in it.
function M.of_leg(run, steps)
   return {
      v = 1, step = run.done, time = core.sys.unix_time(), leg_steps = steps,
      leg_s = run.timeline.end_ns / 1e9,
      shares_percent = waits.percent(waits.add(nil, run.timeline)),
   }
end

--- Adds what training was like.
local function add_training(summary, run)
   local n, seconds = #run.losses, run.seconds
   if n == 0 or seconds == 0 then return end
   summary.samples_per_second = n * run.plan.options.batch / seconds
   summary.tokens_per_second = run.tokens / seconds
   summary.loss_first, summary.loss_last = run.losses[1], run.losses[n]
   summary.loss_mean = run.loss_mean
end

--- By stage, the least and the most updates that forwards were to be late.
local function planned_staleness(plan)
   local list = {}
   for s, stage in ipairs(plan.blueprint:stages()) do
      list[s] = { stage.least_staleness, stage.most_staleness }
   end
   return list
end

--- The names of the numbers that summary.json may have beside `metrics`, and of its objects.
M.NUMBERS = {
   "best_step", "best_value", "eval_examples", "eval_loss", "eval_seconds", "loss_first",
   "loss_last", "loss_mean", "samples_per_second", "seconds", "step_seconds_measured",
   "step_seconds_predicted", "steps", "tokens_per_second", "value",
}
M.OBJECTS = { "copies" }

-- What a start that makes no step takes from the one that made them.
local OF_TRAINING = {
   "devices", "schedule", "partition", "step_seconds_predicted", "step_seconds_measured",
   "staleness_planned", "staleness_seen", "memory_planned_bytes", "memory_measured_bytes",
   "memory_budget_bytes", "shares_percent", "copies",
}

--- What summary.json holds.
-- @tparam run run
-- @tparam score score of the last evaluation
function M.summary(run, score)
   local forecast, found = run.forecast or {}, run.best.found or {}
   local summary = {
      task = run.task.name,
      metric = score.metric,
      unit = score.unit,
      better = score.better,
      value = score.value,
      metrics = score.metrics,
      eval_loss = score.loss,
      eval_seconds = score.seconds,
      eval_examples = score.examples,
      example = score.example,
      steps = run.done,
      best_step = found.step,
      best_value = found.value,
      stopped_early = run.stopped or nil,
      seconds = run.seconds,
      devices = run.plan.devices_name,
      schedule = run.plan.options.schedule,
      partition = run.plan.partition.name,
      step_seconds_predicted = forecast.predicted_s,
      step_seconds_measured = forecast.measured_s,
      staleness_planned = planned_staleness(run.plan),
      staleness_seen = run.timeline and run.timeline.staleness,
      memory_planned_bytes = run.plan:memory_bytes(),
      memory_measured_bytes = column(run.engine:measured(), "total"),
      memory_budget_bytes = column(run.plan.devices, "memory_bytes"),
      shares_percent = run.waits and waits.percent(run.waits),
      copies = copies.any(run.copies) and run.copies or nil,
   }
   add_training(summary, run)
   local earlier = not run.waits and run.directory and run.directory.earlier or {}
   for _, name in ipairs(OF_TRAINING) do
      if earlier[name] ~= nil then summary[name] = earlier[name] end
   end
   return summary
end

return M
