--- What would make a plan that does not fit fit: changes, each of them planned, ranked by what they
-- save.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local packs = require("ftpipe.schedule.packs")
local placement = require("ftpipe.placement")
local schedules = require("ftpipe.schedule")
local swaps = require("ftpipe.plan.swaps")
local units = require("ftpipe.base.units")

local M = {}

--- The same devices, twice as many; nil for a cluster that is not a text.
local function twice(devices)
   if type(devices) ~= "string" then return nil end
   local kind, count, rest = devices:match("^(%l+:)(%d+)(.*)$")
   return kind and ("%s%d%s"):format(kind, count * 2, rest)
end

--- The same devices without packed copies of weights; nil where there are none, and for a cluster
-- that is not a text.
local function unpacked(devices)
   if type(devices) ~= "string" then return nil end
   local first = core.engine.devices(devices)[1]
   return first.in_host and not first.unpacked and devices .. "/unpacked" or nil
end

-- Flags that are changed, in the order in which they are told.
local FLAGS = { "recompute", "swap", "stages", "packs", "micro_batches", "partition", "optimizer",
   "devices" }

--- Optimizers that keep less than this one, by their names.
function M.smaller_optimizers(name)
   local most, names = placement.MEMORY_FACTOR[name], {}
   for _, row in ipairs(core.engine.optimizers()) do
      if row.memory < most then names[#names + 1] = row.name end
   end
   return names
end

--- Changes of options that need less memory: the values of those that are changed at once.
local function changes_of(o)
   local list = {}
   local function add(changed) list[#list + 1] = changed end
   if o.recompute ~= "always" then add { recompute = "always" } end
   if (o.swap or "never") == "never" then
      local all_on_each = schedules.replicates(o.rule or o.schedule)
      local n_devices = all_on_each and 1 or #core.engine.devices(o.devices)
      add { swap = "auto" }
      for _, per_device in ipairs(swaps.STAGES) do
         local stages = per_device * n_devices
         if (o.stages or 0) < stages then add { swap = "auto", stages = stages } end
      end
   end
   for _, sizes in ipairs(schedules.groups(o.rule or o.schedule) and packs.TRIED or {}) do
      if not o.packs then add { packs = sizes } end
   end
   for _, factor in ipairs { 2, 4, 8 } do
      local m = o.micro_batches * factor
      if o.batch % m == 0 then add { micro_batches = m } end
   end
   if o.partition ~= "mixed" then add { partition = "mixed" } end
   for _, name in ipairs(M.smaller_optimizers(o.optimizer)) do add { optimizer = name } end
   local plain, more = unpacked(o.devices), twice(o.devices)
   if plain then add { devices = plain } end
   if more then add { devices = more } end
   return list
end

--- The options that differ, each once.
local function words_of(o, changed)
   local rows = {}
   for _, name in ipairs(FLAGS) do
      if changed[name] then rows[#rows + 1] = { name, changed[name] } end
   end
   return named.list(o, rows)
end

local function any_of(changed, before)
   for flag in pairs(changed) do
      if before[flag] then return true end
   end
   return false
end

--- The changes of the options, planned; `before` is what was changed already. A flag is changed
-- once. What swapping does not help is a plan without it, and no change. quick: with fewer cuts.
local function plan_changes(try, o, before, quick)
   local rows = {}
   for _, changed in ipairs(changes_of(o)) do
      local row = not any_of(changed, before) and try(copy(o, changed), quick)
      if row and not row.problem and not (changed.swap and row.unswapped) then
         row.changed = copy(before, changed)
         row.words, row.number = words_of(o, row.changed), #rows + 1
         rows[#rows + 1] = row
      end
   end
   return rows
end

local function saves_more(a, b)
   if a.over_bytes ~= b.over_bytes then return a.over_bytes < b.over_bytes end
   if a.over_bytes == 0 and a.seconds ~= b.seconds then return a.seconds < b.seconds end
   return a.number < b.number
end

local function best_of(rows)
   local best = rows[1]
   for _, row in ipairs(rows) do
      if saves_more(row, best) then best = row end
   end
   return best
end

--- The best of the changes to be made to a row, of which it alone is planned with all cuts.
local function added(try, row)
   local best = best_of(plan_changes(try, row.options, row.changed, true))
   local whole = best and try(best.options)
   if not whole or whole.problem then return best end
   whole.changed, whole.words = best.changed, best.words
   return whole
end

local function describe(row, over_bytes)
   if row.over_bytes == 0 then
      return ("%s: fits, %s%s a batch"):format(row.words, row.hasty and "at most " or "",
         units.format_seconds(row.seconds))
   end
   return ("%s: saves %s, still %s too much"):format(row.words,
      units.format_bytes(over_bytes - row.over_bytes), units.format_bytes(row.over_bytes))
end

-- Changes that are made at once, at most.
local MOST_CHANGES = 3

--- Lines that say what would help a plan which is over its budgets: those changes that suffice
-- first, the fastest of them first; then the others, by what they save. When none suffices by
-- itself, what saves most is kept and another change is made to it.
-- @tparam function try from options to a row of ft.planner, with hasty: it may be faster, and
--   unswapped: nothing moves, though it may; a second argument, quick, is whether it may compare
--   fewer cuts
-- @tparam table o options of the plan
-- @tparam int over_bytes by which it is over its budgets
-- @treturn {string,...}
function M.find(try, o, over_bytes)
   local rows = plan_changes(try, o, {})
   local best = best_of(rows)
   for _ = 2, MOST_CHANGES do
      if not best or best.over_bytes == 0 or best.over_bytes >= over_bytes then break end
      local next_best = added(try, best)
      if not next_best or next_best.over_bytes >= best.over_bytes then break end
      next_best.number = #rows + 1
      rows[#rows + 1], best = next_best, next_best
   end
   table.sort(rows, saves_more)
   local lines = {}
   for _, row in ipairs(rows) do
      if row.over_bytes < over_bytes then lines[#lines + 1] = describe(row, over_bytes) end
   end
   return lines
end

-- Lines that one message has, at most.
local MOST_TOLD = 4

--- The first lines of `find` as the end of a message.
function M.words(lines)
   if #lines == 0 then return "what would help: a smaller batch" end
   return "what would help: " .. table.concat(lines, "; ", 1, math.min(#lines, MOST_TOLD))
end

return M
