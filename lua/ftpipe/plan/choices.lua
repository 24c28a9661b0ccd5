--- What flags and options may say, read from the tables of the program: a new row there is a choice
-- here, in help and in messages.

local core = require("ftpipe.core")
local divisor = require("ftpipe.base.divisor")
local late = require("ftpipe.schedule.late")
local placement = require("ftpipe.placement")
local precision = require("ftpipe.trained.precision")
local schedules = require("ftpipe.schedule")
local swaps = require("ftpipe.plan.swaps")

local M = {}

--- Names of the rows that `keep` keeps.
local function names(rows, keep)
   local list = {}
   for _, row in ipairs(rows) do
      if not keep or keep(row) then list[#list + 1] = row.name end
   end
   return list
end

--- "a, b; c, d: plans only": what runs, then what can only be planned and simulated.
local function with_plans_only(list, runs)
   local run, plan = {}, {}
   for _, name in ipairs(list) do table.insert(runs(name) and run or plan, name) end
   local text = table.concat(run, ", ")
   return #plan == 0 and text or text .. "; " .. table.concat(plan, ", ") .. ": plans only"
end

M.schedules = names(schedules.list())
M.schedules_help = with_plans_only(M.schedules, schedules.runs)

--- Which weights a schedule without a drain reads.
local stale = late.schedules()
M.staleness = names(core.schedule.weights())
M.staleness_help = ("what is done about late weights, with %s: "):format(table.concat(stale, ", "))
   .. with_plans_only(M.staleness, function(name) return schedules.runs(stale[1], name) end)

M.partitions = placement.names()
M.partitions_help = table.concat(M.partitions, ", ")

M.swap_help = swaps.help

local grouping = names(schedules.list(), function(row) return row.groups end)
M.update_help = ("when: device: behind the backwards of a stage, end: when all gradients are "
   .. "there; auto: device for %s where nothing is clipped; host: as auto, in host memory"):format(
   table.concat(grouping, ", "))

M.optimizers = names(core.engine.optimizers())
M.rates = names(core.engine.rate_schedules())
M.costs = names(core.partition.costs)
M.precisions = names(precision.rows)

-- Defaults that fit what was given (`follows` of base/opts.lua); a recipe may have no such flag.

--- As many micro-batches as the batch can be cut into, at most those by default, and at least half
-- of these: with fewer a pipeline waits much, and whoever gave the batch is to choose.
function M.fitting_parts(o, default)
   local most = math.min(default, o.batch or default)
   local parts = divisor(o.batch or default, most)
   return 2 * parts >= most and parts or default
end

--- Stages in the order of the model for schedules and packs that need it.
function M.fitting_partition(o, default)
   local in_order = o.packs or o.forward_micro_batches
      or o.schedule and schedules.places(o.schedule)
   return in_order and not placement.is_in_order(default) and "seq" or default
end

return M
