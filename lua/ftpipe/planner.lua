--- Chooses how to train: micro-batches, stages, schedule, recomputation and partition that fit and
-- are fastest, by planning and simulating each; what fits less well is kept and can be looked at.
--
--    local found = ft.planner(model, { devices = "sim:4x11GB", batch = 40, source = 320 })
--    print(found)

local compare = require("ftpipe.compare")
local explore = require("ftpipe.explore")
local stages = require("ftpipe.stages")
local units = require("ftpipe.units")

local M = {}
local Found = {}
Found.__index = Found

-- How far a profile may be off, and how many draws of it are played.
local NOISE, DRAWS = 0.05, 16

local function changed(o, changes)
   local result = {}
   for key, value in pairs(o) do result[key] = value end
   for key, value in pairs(changes) do result[key] = value end
   return result
end

--- Updates that a stage's weights are behind at most.
local function staleness_of(subject)
   local most = 0
   for _, row in ipairs(subject.stages) do most = math.max(most, row.most_staleness) end
   return most
end

local function largest_memory(subject)
   local most, over = 0, 0
   for _, row in ipairs(subject.memory) do
      most = math.max(most, row.total)
      over = math.max(over, row.total - row.budget)
   end
   return most, over
end

--- Plans one choice.
-- @treturn table options, subject or problem (why there is none), seconds, memory_bytes,
--   over_bytes (beyond the fullest budget; 0: it fits), staleness, moved_bytes, stages
function M.try(model, o)
   local ok, subject = pcall(explore.model, model, o)
   if not ok then
      if type(subject) ~= "table" or subject.status == "cancelled" then error(subject, 0) end
      return { options = o, problem = subject.message }
   end
   local memory, over = largest_memory(subject)
   return {
      options = o, subject = subject, seconds = subject.seconds, memory_bytes = memory,
      over_bytes = over, staleness = staleness_of(subject), stages = #subject.stages,
      moved_bytes = stages.moved_bytes(subject.cut) * o.micro_batches,
   }
end

--- Divisors of the batch, as numbers of micro-batches: from the number of devices on, few enough to
-- try.
local function micro_batch_counts(batch, n_devices)
   local counts = {}
   for m = 1, batch do
      if batch % m == 0 and m >= math.min(n_devices, batch) and m <= 8 * n_devices then
         counts[#counts + 1] = m
      end
   end
   return counts
end

--- What is tried: every partition, schedule and recomputation on every number of micro-batches.
local function choices(o, n_devices)
   local list = {}
   for _, m in ipairs(o.counts or micro_batch_counts(o.batch, n_devices)) do
      for _, schedule in ipairs(o.schedules or { "1f1b", "gpipe", "async" }) do
         for _, how in ipairs(o.partitions or { "seq", "mixed" }) do
            list[#list + 1] = {
               micro_batches = m, schedule = schedule, partition = how, recompute = "auto",
            }
         end
      end
   end
   return list
end

-- What is better when it is less.
local GOALS = { "seconds", "memory_bytes", "staleness", "moved_bytes", "stages" }

local function dominates(a, b)
   local better = false
   for _, goal in ipairs(GOALS) do
      if a[goal] > b[goal] then return false end
      better = better or a[goal] < b[goal]
   end
   return better
end

--- The rows that fit and that no other one beats in everything.
local function pareto(rows)
   local front = {}
   for _, row in ipairs(rows) do
      local beaten = row.problem ~= nil or row.over_bytes > 0
      for _, other in ipairs(rows) do
         if not beaten and not other.problem and other.over_bytes == 0 then
            beaten = dominates(other, row)
         end
      end
      row.front = not beaten
      if not beaten then front[#front + 1] = row end
   end
   return front
end

--- Why a row was not taken.
local function verdict(row, best)
   if row == best then return "chosen" end
   if row.problem then return row.problem end
   if row.over_bytes > 0 then
      return ("%s too much memory"):format(units.format_bytes(row.over_bytes))
   end
   if row.seconds == best.seconds then return "as fast" end
   return ("%.0f %% slower"):format(100 * (row.seconds / best.seconds - 1))
end

local function order(a, b)
   local worth_a = a.problem and 2 or a.over_bytes > 0 and 1 or 0
   local worth_b = b.problem and 2 or b.over_bytes > 0 and 1 or 0
   if worth_a ~= worth_b then return worth_a < worth_b end
   if worth_a == 0 and a.seconds ~= b.seconds then return a.seconds < b.seconds end
   if worth_a == 1 and a.over_bytes ~= b.over_bytes then return a.over_bytes < b.over_bytes end
   return a.number < b.number
end

--- Tries the choices and takes the fastest that fits.
-- @tparam model model
-- @tparam table o devices, batch, source, target, optimizer; counts, schedules, partitions (lists
--   of what is tried)
-- @treturn table rows (the best first), best (nil: nothing fits), front
function M.search(model, o)
   local n_devices = #require("ftpipe.core").engine.devices(o.devices)
   local rows = {}
   for i, choice in ipairs(choices(o, n_devices)) do
      rows[i] = M.try(model, changed(o, choice))
      rows[i].number = i
   end
   table.sort(rows, order)
   local best = not rows[1].problem and rows[1].over_bytes == 0 and rows[1] or nil
   for _, row in ipairs(rows) do row.verdict = verdict(row, best or rows[1]) end
   if not best then rows[1].verdict = verdict(rows[1], nil) end
   return setmetatable({ rows = rows, best = best, front = pareto(rows) }, Found)
end

--- The time of a row's batch when its profile is off by up to 5 %: the worst of some draws.
function M.worst_seconds(row)
   local o = row.options
   return row.seconds * stages.worst_case(row.subject.cut,
      { schedule = o.schedule, micro_batches = o.micro_batches, batches = 4 }, NOISE, DRAWS)
end

local HEAD = {
   "micro-batches", "schedule", "partition", "stages", "batch", "worst", "memory", "late", "moved",
   "front", "why",
}

--- Rows as words, the head first.
function Found:cells()
   local cells = { HEAD }
   for i, row in ipairs(self.rows) do
      local o = row.options
      local words = { tostring(o.micro_batches), o.schedule, o.partition }
      if not row.problem then
         words[4] = tostring(row.stages)
         words[5] = units.format_seconds(row.seconds)
         words[6] = row.front and units.format_seconds(M.worst_seconds(row)) or "-"
         words[7] = units.format_bytes(row.memory_bytes)
         words[8], words[9] = tostring(row.staleness), units.format_bytes(row.moved_bytes)
         words[10] = row.front and "*" or ""
      end
      words[#words + 1] = row.verdict
      cells[i + 1] = words
   end
   return cells
end

function Found:__tostring()
   local last = self.best and "front (*): no other is as fast, as small, as little late, with as "
      .. "little moved and as few stages; worst: with stages' times off by up to 5 %"
      or "nothing fits"
   return compare.text(self:cells()) .. "\n" .. last
end

-- ---------------------------------------------------------------------------------------------
-- Remedies.

local function with_devices(devices, factor)
   if type(devices) ~= "string" then return nil end
   local kind, count, rest = devices:match("^(%l+:)(%d+)(.*)$")
   if not kind then return nil end
   return ("%s%d%s"):format(kind, count * factor, rest)
end

--- Changes that may make a plan fit: what to say, and the options that differ.
local function remedies_for(o)
   local list = {}
   local function add(words, changes) list[#list + 1] = { words = words, changes = changes } end
   if o.recompute ~= "always" then add("--recompute always", { recompute = "always" }) end
   for _, factor in ipairs { 2, 4, 8 } do
      local m = o.micro_batches * factor
      if o.batch % m == 0 then
         add(("--micro-batches %d"):format(m), { micro_batches = m, recompute = "auto" })
      end
   end
   if o.partition ~= "mixed" then
      add("--partition mixed", { partition = "mixed", recompute = "auto" })
   end
   for _, name in ipairs { "adafactor", "sgd" } do
      if o.optimizer ~= name then
         add("--optimizer " .. name, { optimizer = name, recompute = "auto" })
      end
   end
   local more = with_devices(o.devices, 2)
   if more then add("--devices " .. more, { devices = more, recompute = "auto" }) end
   return list
end

--- What would make a plan that is over its budgets fit, planned and ranked: those that suffice
-- first, the fastest of them first; then by what they save.
-- @tparam model model
-- @tparam table o of explore.model
-- @tparam int over_bytes of the plan as it is
-- @treturn {string,...} lines
function M.remedies(model, o, over_bytes)
   local rows = {}
   for i, remedy in ipairs(remedies_for(o)) do
      local row = M.try(model, changed(o, remedy.changes))
      row.words, row.number = remedy.words, i
      if not row.problem then rows[#rows + 1] = row end
   end
   table.sort(rows, order)
   local lines = {}
   for _, row in ipairs(rows) do
      local saved = over_bytes - row.over_bytes
      if row.over_bytes == 0 then
         lines[#lines + 1] = ("%s: fits, %s a batch"):format(row.words,
            units.format_seconds(row.seconds))
      elseif saved > 0 then
         lines[#lines + 1] = ("%s: saves %s, still %s too much"):format(row.words,
            units.format_bytes(saved), units.format_bytes(row.over_bytes))
      end
   end
   return lines
end

return setmetatable(M, { __call = function(_, model, o) return M.search(model, o) end })
