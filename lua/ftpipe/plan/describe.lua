--- A plan as people read it.

local adapters = require("ftpipe.model.adapters")
local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local fit = require("ftpipe.plan.fit")
local groups = require("ftpipe.trained.groups")
local kinds = require("ftpipe.data.kind")
local layers = require("ftpipe.model.layers")
local links = require("ftpipe.placement.links")
local named = require("ftpipe.base.named")
local over = require("ftpipe.placement.over")
local packs = require("ftpipe.schedule.packs")
local playing = require("ftpipe.schedule.played")
local precision = require("ftpipe.trained.precision")
local rates = require("ftpipe.trained.rate")
local schedules = require("ftpipe.schedule")
local staleness = require("ftpipe.schedule.staleness")
local swaps = require("ftpipe.plan.swaps")
local units = require("ftpipe.base.units")

local M = {}

--- Classes of memory in the order in which they are printed.
M.classes = column(core.schedule.memory_classes(), "name")

local function memory_row(name, row, budget)
   local parts = {}
   for _, class in ipairs(M.classes) do
      if row[class] > 0 then parts[#parts + 1] = ("%s %.1f"):format(class, row[class] / 1e6) end
   end
   local room = (budget < 100e6 and "%.1f" or "%.0f"):format(budget / 1e6)
   return ("  %-10s %8.1f of %s MB: %s"):format(name, row.total / 1e6, room,
      table.concat(parts, ", "))
end

-- Replicas of a stage that are listed, where more of them follow each other.
local LISTED = 8

--- "cpu:0", or "cpu:0, cpu:1" of a stage with replicas; of many the first and the last.
function M.places(plan, stage)
   local names, n = {}, #stage.devices
   for i, device in ipairs(stage.devices) do names[i] = plan.devices[device].name end
   if n > LISTED and stage.devices[n] == stage.devices[1] + n - 1 then
      return ("%s to %s (%d devices)"):format(names[1], names[n], n)
   end
   return table.concat(names, ", ")
end

--- Where the pipeline of an asynchronous schedule is drained, which is where its numbers depend on
-- it; nil when that is at the end alone.
local function drains_line(o)
   local parts = {}
   if o.save_every then
      parts[#parts + 1] = ("every %s to save"):format(counted(o.save_every, "step"))
   end
   if o.eval_every then
      parts[#parts + 1] = ("every %s to evaluate"):format(counted(o.eval_every, "step"))
   end
   if o.synchronous or #parts == 0 then return nil end
   return "drains: " .. table.concat(parts, ", ")
end

--- By how much the weights of each stage are kept ahead; nil when those of none are.
local function ahead_line(plan)
   local updates, any = {}, false
   for s, stage in ipairs(plan.blueprint:stages()) do
      updates[s] = ("%.3g"):format(stage.ahead)
      any = any or stage.ahead > 0
   end
   if not any then return nil end
   return ("look-ahead: weights are kept %s updates ahead, by stage"):format(
      table.concat(updates, ", "))
end

local EVALUATION = "evaluation: forwards through the same stages, in the memory of training"

--- What a stage's forwards work with, when that is not the newest weights of the schedule's order.
local function staleness_words(stage)
   if stage.most_staleness == 0 then return "" end
   local least, most = stage.least_staleness, stage.most_staleness
   return (", weights %s%s late"):format(least < most and least .. " to " or "",
      counted(most, "update"))
end

--- The bound that was asked for; nil when there is none.
local function bound_line(o)
   local n = o.max_staleness
   return n and ("bound: no forward's weights are more than %s late; a stage that would be further "
      .. "ahead does a backward first"):format(counted(n, "update"))
end

--- What is trained, where that is not all, and what is saved by it.
-- @tparam plan plan
-- @treturn {string,...} lines
function M.trained(plan)
   local o = plan.options
   local trained, all = groups.count(plan.graphs[1])
   if trained == all then return {} end
   local lines = {
      ("trained: %.4g M of %.4g M parameters"):format(trained / 1e6, all / 1e6),
   }
   local bytes = 0
   for _, row in ipairs(plan.memory) do bytes = bytes + row.gradients + row.optimizer end
   if not o.eval_only then
      lines[2] = ("gradients and optimizer: %s, %s if all were trained"):format(
         units.format_bytes(bytes),
         units.format_bytes(core.engine.training_bytes(o, plan.graphs[1])))
   end
   if o.model.lora then
      lines[#lines + 1] = ("adapters: %s, %s"):format(adapters.words(o.model),
         counted(adapters.count(plan.graphs[1]), "product"))
   end
   return lines
end

--- The same, and what has a rate of its own.
local function groups_lines(plan)
   local o, lines = plan.options, M.trained(plan)
   if o.groups then lines[#lines + 1] = "groups: " .. plan.groups.all end
   if o.layer_decay then
      local depth = layers.below_head(plan.graphs[1])
      local most = math.max(unpack(depth))
      lines[#lines + 1] = ("layer decay: %s, the first has %.3g times the rate of the head")
         :format(counted(most + 1, "layer"), o.layer_decay ^ most)
   end
   return lines
end

--- Whether clipping goes by the norm of all gradients of a batch, or, where stages update at their
-- own times, by older ones of the stages whose backward comes later; nil without it.
local function clip_line(plan)
   local clip, parts = plan.options.clip or 0, {}
   if clip == 0 or plan.options.eval_only then return nil end
   for s, stage in ipairs(plan.blueprint:stages()) do
      if stage.norm_lag > 0 then parts[#parts + 1] = ("%d: %d"):format(s - 1, stage.norm_lag) end
   end
   local text = ("clip: gradients to a norm of %g, over all stages"):format(clip)
   if #parts == 0 then return text end
   return ("%s; norms of the stages before its own are some batches old, by stage %s (0 elsewhere, "
      .. "and in the first batch of a leg)"):format(text, table.concat(parts, ", "))
end

--- How many gradients of weights wait where that is fewer than there are stages before; nil: it is
-- nowhere.
local function waiting_line(plan)
   local parts = {}
   for s, n in ipairs(plan.partition.waiting or {}) do
      if n < s - 1 then parts[#parts + 1] = ("%d: %d"):format(s - 1, n) end
   end
   if #parts == 0 then return nil end
   return "waiting: fewer gradients of weights, to fit, by stage " .. table.concat(parts, ", ")
end

--- Why updates of a schedule that groups are not behind the backwards of their stages; nil where
-- they are, or nobody expects it.
local function update_line(o)
   if o.update ~= "end" or not schedules.groups(o.rule or o.schedule) then return nil end
   return "updates: at the end of a batch" .. (o.clip > 0
      and (", since %s needs all gradients"):format(named.value(o, "clip", o.clip)) or "")
end

--- What training says to a plan that can be simulated alone; nil when it can be executed.
local function executed_line(plan)
   local ok, why = plan.blueprint:is_executable()
   return not ok and "not executed: " .. why or nil
end

--- What is over its budget, in lines.
local function over_lines(plan)
   local names = column(plan.devices, "name")
   local least = not swaps.may(plan.options) and over.least(plan) or nil
   return over.lines(over.memory(plan), names, least, plan.options.optimizer, over.unswapped(plan))
end

--- How many micro-batches go forward as one, where some do.
local function joint_words(o)
   local n = packs.together(o)
   return n > 1 and (", %d at once forward"):format(n) or ""
end

--- Where costs are from. Of several processes rank 0 alone measures.
-- @tparam plan plan
-- @tparam[opt] string optimizer of the plan
function M.costs(plan, optimizer)
   if not plan.profile then return "modelled" end
   local how, parts = plan.options.profile, { plan.profile:summary(optimizer) }
   if plan.devices[#plan.devices].rank > 0 then
      parts[2] = (how == "measured" or how == "fresh") and "by rank 0, taken for all processes"
         or "taken for all processes"
   end
   return table.concat(parts, ", ")
end

--- Whose memory devices of several processes have while none of these was started; nil where their
-- own is known, or was said.
-- @tparam table devices rows of core.engine.devices
function M.budgets(devices)
   local last = devices[#devices]
   if last.rank == 0 or not last.of_machine or core.ranks.all() then return nil end
   return "budgets: of this machine, for each process, since none was started; "
      .. "hosts:2xcpu:1/8GB says what each has"
end

--- Stages, memory of every device, prediction; what does not fit says so first.
function M.text(plan)
   local o, lines = plan.options, over_lines(plan)
   local fits = #lines == 0
   lines[#lines + 1] =
      ("plan: %s, %s on %s (%s), batch %d in %s%s, partition %s"):format(o.schedule,
         counted(plan.n_stages, "stage"), counted(#plan.devices, "device"), plan.devices_name,
         o.batch, counted(o.micro_batches, "micro-batch", "micro-batches"), joint_words(o),
         plan.partition.name)
   for s, stage in ipairs(plan.blueprint:stages()) do
      lines[#lines + 1] = ("  stage %d on %s: %s, forward %.2f ms, backward %.2f ms, %d in flight")
         :format(s - 1, M.places(plan, stage), plan:span(s), stage.forward_ns / 1e6,
            stage.backward_ns / 1e6, stage.in_flight) .. staleness_words(stage)
   end
   lines[#lines + 1] = staleness.text(plan.blueprint:stages())
   lines[#lines + 1] = bound_line(o)
   lines[#lines + 1] = waiting_line(plan)
   lines[#lines + 1] = clip_line(plan)
   lines[#lines + 1] = precision.words(o.precision, plan.devices[1])
   lines[#lines + 1] = "costs: " .. M.costs(plan, not o.eval_only and o.optimizer or nil)
   lines[#lines + 1] = links.words(o.devices)
   lines[#lines + 1] = "memory:"
   for d, row in ipairs(plan.memory) do
      lines[#lines + 1] = memory_row(plan.devices[d].name, row, plan.devices[d].memory_bytes)
   end
   lines[#lines + 1] = M.budgets(plan.devices)
   lines[#lines + 1] = (fits and "proved: " or "proved, were there room: ")
      .. playing.proof(plan.blueprint:stages())
   lines[#lines + 1] = executed_line(plan)
   local prediction = plan:simulate(fit.compared(plan))
   lines[#lines + 1] = ("predicted%s: %s"):format(
      o.eval_only and kinds.of(o.model).evaluate and ", a pass over the examples" or "",
      tostring(prediction))
   lines[#lines + 1] = swaps.none(plan, prediction.swaps)
   for _, line in ipairs(groups_lines(plan)) do lines[#lines + 1] = line end
   lines[#lines + 1] = drains_line(o)
   lines[#lines + 1] = update_line(o)
   if o.rate and not o.eval_only then
      lines[#lines + 1] = "rate: " .. rates.words(o.rate)
      lines[#lines + 1] = ahead_line(plan)
   end
   if plan.beside then lines[#lines + 1] = EVALUATION end
   return table.concat(lines, "\n")
end

return M
