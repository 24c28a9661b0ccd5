--- What decides the numbers that a run computes, so that a run that goes on computes the same.
--
-- Devices, stages and the schedule are not among it as long as the schedule is synchronous: the
-- results do not depend on them. An asynchronous run also depends on where the model is cut and on
-- where the pipeline is drained.

local adapters = require("ftpipe.model.adapters")
local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local digest = require("ftpipe.base.digest")
local named = require("ftpipe.base.named")
local number_text = require("ftpipe.base.number_text")
local shown = require("ftpipe.base.shown")
local usage = require("ftpipe.base.usage")

local M = {}

local function is_async(plan)
   return not plan.options.synchronous
end

local function list(values)
   local texts = {}
   for i, value in ipairs(values) do texts[i] = tostring(value) end
   return table.concat(texts, " ")
end

local function sorted(map)
   local texts = {}
   for key, value in pairs(map or {}) do
      texts[#texts + 1] = ("%s %s"):format(key, type(value) == "number" and ("%.17g"):format(value)
         or tostring(value))
   end
   table.sort(texts)
   return table.concat(texts, ", ")
end

local function async_pipeline(plan)
   local devices = column(plan.blueprint:stages(), "device")
   return digest(table.concat({ list(plan.partition.stage), list(devices), list(plan.recompute) },
      "\n"))
end

--- A warm-up that is over no longer matters to a rate that stays; the others go on from its end.
local function warming_up(was, is, step, run)
   return step < math.max(was or 0, is or 0) or run.rate.schedule ~= "constant"
end

--- Whether what only one kind of run has differs; that the kinds do is said by another row.
local function both_have_one(was, is) return was ~= nil and is ~= nil end

--- "every 20 steps", "never".
local function how_often(steps)
   return steps and "every " .. counted(steps, "step") or "never"
end

--- Whether a rate falls to the last step, so that each depends on how many there are.
local function ends(rate)
   for _, row in ipairs(core.engine.rate_schedules()) do
      if row.name == rate.schedule then return row.ends end
   end
end

--- Rows: the name in the record, what a person calls it (named.words), how it is found; optionally
-- whether a difference matters to a run that is past a step. `rate`: --change-rate allows that it
-- differs.
local ROWS = {
   { "task", "the task", function(run) return run.task.name end },
   { "model", "config.json of {model}",
      function(run) return digest(core.json.encode(run.model.raw, { sort = true })) end },
   { "data", "the training examples ({data}, {train_file}, {max_source}, {max_target})",
      function(run) return digest(run.data.train.dataset:pack()) end },
   { "batch", "{batch}", function(run) return run.plan.options.batch end },
   { "micro_batches", "{micro_batches}",
      function(run) return run.plan.options.micro_batches end },
   { "lengths", "lengths of the padded batches ({max_source}, {max_target}, the data)",
      function(run)
         return list(run.plan.options.buckets) .. "; " .. sorted(run.plan.options.lengths)
      end },
   { "seed", "{seed}", function(run) return run.plan.options.seed end },
   { "dropout", "{dropout}", function(run)
      local dropout = run.plan.options.dropout
      return type(dropout) == "table" and sorted(dropout) or dropout
   end },
   { "optimizer", "{optimizer}", function(run) return run.plan.options.optimizer end },
   { "hypers", "{weight_decay}", function(run) return sorted(run.plan.options.hypers) end,
      function(was, is) return was ~= "" or is ~= "weight_decay 0" end }, -- one that was not told
   { "decay_exempt", "{decay_exempt}",
      function(run) return run.plan.options.decay_exempt end },
   { "lora", "{lora}, {lora_alpha}, {lora_dropout} or {lora_targets}",
      function(run) return adapters.words(run.model, true) end },
   { "groups", "{groups}, {freeze} or {train_only}",
      function(run) return run.plan.groups.others end },
   { "group_rates", "rates of {groups}", function(run) return run.plan.groups.rates end,
      rate = true },
   { "layer_decay", "{layer_decay}", function(run) return run.plan.options.layer_decay end,
      rate = true },
   { "look_ahead", "{look_ahead}", function(run)
      if not is_async(run.plan) then return nil end
      for _, stage in ipairs(run.plan.blueprint:stages()) do
         if stage.ahead > 0 then return "lag" end
      end
      return "none"
   end, both_have_one, schedule = true },
   { "clip", "{clip}", function(run) return run.plan.options.clip end },
   { "lr", "{lr}", function(run) return run.rate.peak end, rate = true },
   { "lr_schedule", "{lr_schedule}", function(run) return run.rate.schedule end, rate = true },
   { "warmup", "{warmup} (at most a tenth of {steps})",
      function(run) return run.rate.warmup end, warming_up, rate = true },
   { "rate_steps", "{steps}, to which {lr_schedule} falls",
      function(run) return ends(run.rate) and run.rate.steps or nil end, both_have_one,
      rate = true },
   { "precision", "{precision}", function(run) return run.args.precision end },
   { "kind", "{schedule}", function(run)
      return is_async(run.plan) and "async" or "synchronous"
   end, schedule = true },
   { "schedule", "{schedule}", function(run)
      return is_async(run.plan) and run.plan.options.schedule or nil
   end, both_have_one, schedule = true },
   { "pipeline", "the pipeline of {schedule=async} ({devices}, {stages}, {partition}, {recompute})",
      function(run)
         return is_async(run.plan) and async_pipeline(run.plan) or nil
      end, both_have_one, schedule = true },
   { "weights", "{staleness} and {max_staleness}", function(run)
      local o = run.plan.options
      return is_async(run.plan) and not run.args.plan
         and ("%s, at most %s"):format(o.staleness or "none", o.max_staleness or "any") or nil
   end, both_have_one, schedule = true },
   { "plan", "{plan}", function(run)
      if not is_async(run.plan) or not run.args.plan then return nil end
      return digest((run.plan:text():gsub("\nmemory [^\n]*", "")))
   end, schedule = true },
   { "drains", "{save_every} and {eval_every}, which drain {schedule=async}", function(run)
      if not is_async(run.plan) then return nil end
      return ("%s to save and %s to evaluate"):format(how_often(run.args.save_every),
         how_often(run.args.eval_every))
   end, both_have_one, schedule = true },
}

--- The table of what decides the numbers: plain values by name.
function M.of(run)
   -- The data and the model do not change while they are in use.
   run.numbers = run.numbers or {}
   for _, row in ipairs(ROWS) do
      if run.numbers[row[1]] == nil then run.numbers[row[1]] = row[3](run) end
   end
   return run.numbers
end

local function show(value)
   if value == nil then return "not given" end
   if type(value) == "string" then return value end -- all of it, the difference may be its end
   return type(value) == "number" and number_text(value) or shown(value)
end

--- Raises when the run would compute other numbers than the one that wrote a record after a step:
-- names the arguments.
function M.check(run, record, step, path)
   local now, faults, hints = M.of(run), {}, {}
   for _, row in ipairs(ROWS) do
      local was, is = record[row[1]], now[row[1]]
      local allowed = row.rate and run.args.change_rate
         or row.schedule and run.args.change_schedule
      if was ~= is and not allowed and (not row[4] or row[4](was, is, step, run)) then
         local opaque = type(was) == "string" and #was == 16 and was:match("^%x+$")
         hints.rate, hints.schedule = hints.rate or row.rate, hints.schedule or row.schedule
         faults[#faults + 1] = named.words(run.args, row[2]) .. (opaque and " differs"
            or (" was %s, is %s"):format(show(was), show(is)))
      end
   end
   if #faults > 0 then
      usage.of(run.args, "{resume}: %s was made with other arguments: %s%s%s", path,
         table.concat(faults, "; "),
         hints.rate and named.words(run.args, "; {change_rate} goes on with another rate") or "",
         hints.schedule
            and named.words(run.args, "; {change_schedule} goes on with another schedule") or "")
   end
end

return M
