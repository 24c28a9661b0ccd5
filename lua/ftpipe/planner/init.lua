--- Chooses how to train: micro-batches, stages, schedule, recomputation and partition that fit and
-- are fastest, by planning and simulating each; what fits less well is kept and can be looked at.
--
--    local found = ft.planner("t5-3b", { devices = "sim:4x11GB", batch = 40, source = 320 })
--    print(found)              -- all that was tried, and why the rest lost
--    print(found.best.subject)

local batch_parts = require("ftpipe.base.batch_parts")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local divisor = require("ftpipe.base.divisor")
local explore = require("ftpipe.planner.explore")
local found = require("ftpipe.planner.found")
local guard = require("ftpipe.base.guard")
local named = require("ftpipe.base.named")
local noise = require("ftpipe.planner.noise")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local progress = require("ftpipe.base.progress")
local over = require("ftpipe.placement.over")
local packs = require("ftpipe.schedule.packs")
local placement = require("ftpipe.placement")
local recompute = require("ftpipe.graph.recompute")
local remedies = require("ftpipe.plan.remedies")
local schedules = require("ftpipe.schedule")
local swaps = require("ftpipe.plan.swaps")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")

local M = {}

-- ---------------------------------------------------------------------------------------------
-- One choice.

--- Of the fullest device.
local function largest_memory(subject)
   local most = 0
   for _, row in ipairs(subject.memory) do most = math.max(most, row.total) end
   return most
end

local function most_late(subject)
   local most = 0
   for _, row in ipairs(subject.stages) do most = math.max(most, row.most_staleness) end
   return most
end

--- Plans one choice.
-- @tparam model|graph model
-- @tparam table o of explore.model
-- @tparam[opt] table placements of plans that differ in stages, schedule or partition alone
-- @treturn table options, subject or problem (why there is none) and failure (what was raised),
--   seconds, memory_bytes (of the fullest device), over_bytes (beyond a budget; 0: it fits),
--   unswapped (nothing moves, though it may), staleness, moved_bytes, stages, recomputed (stages),
--   swapped_bytes (in a batch, to and from host memory), hidden (the share of these copies for
--   which no device waits), runs (false: it can be simulated alone; of graphs that is not known,
--   and true)
-- @local
function M.try(model, o, placements)
   local ok, subject = pcall(model.nodes and explore.file or explore.model, model, o, placements)
   if not ok then
      if type(subject) ~= "table" or subject.status == "cancelled" then error(subject, 0) end
      local where, message = core.where(), subject.message
      if message:sub(1, #where) == where then message = message:sub(#where + 1) end
      message = message:gsub("^ft%.explore: ", "") -- which nobody called
      return { options = o, problem = message, failure = subject }
   end
   return {
      options = o, subject = subject, seconds = subject.seconds,
      memory_bytes = largest_memory(subject), over_bytes = (over.worst(subject.memory)),
      unswapped = subject.unswapped ~= nil,
      staleness = most_late(subject), stages = #subject.stages,
      recomputed = recompute.count(subject.recompute),
      runs = subject.plan == nil or subject.plan.blueprint:is_executable(),
      moved_bytes = subject.moved_bytes,
      swapped_bytes = subject.swapped_bytes or 0, hidden = subject.hidden,
   }
end

-- ---------------------------------------------------------------------------------------------
-- What is tried.

--- Divisors of the batch, as numbers of micro-batches: from the number of devices on, few enough to
-- try; the largest one below where there are none, as of a prime.
local function micro_batch_counts(batch, n_devices)
   local counts = {}
   for m = math.min(n_devices, batch), math.min(batch, 8 * n_devices) do
      if batch % m == 0 then counts[#counts + 1] = m end
   end
   return counts[1] and counts or { divisor(batch, n_devices) }
end

--- Schedules that are tried: in turns of devices, or in any order of stages; those that group for
-- swaps alone.
local function tried(interleaves, groups)
   local names = {}
   for _, row in ipairs(schedules.list()) do
      if (row.interleaves or row.folds) == interleaves and row.groups == (groups or false)
         and not row.replicates and not row.serial then
         names[#names + 1] = row.name
      end
   end
   return names
end

local ANY_ORDER, IN_TURNS = tried(false), tried(true)

-- How stages may lie: the partition, stages of each device (nil: as a plan has them by itself), and
-- the schedules that it is for. Interleaving is for equal numbers of stages, devices in turns.
local LAYOUTS = {
   { partition = "seq", per_device = 1, schedules = ANY_ORDER },
   { partition = "seq", per_device = 2, schedules = IN_TURNS },
   { partition = "mixed", schedules = ANY_ORDER },
   { partition = "mixed", per_device = 3, schedules = ANY_ORDER },
}

-- More of them where state may be swapped; in orders that group, of as many as there may be also
-- packs.
local SWAPPED_LAYOUTS = {}
for _, schedules_of in ipairs { ANY_ORDER, tried(false, true) } do
   for _, per_device in ipairs(swaps.STAGES) do
      table.insert(SWAPPED_LAYOUTS,
         { partition = "seq", per_device = per_device, schedules = schedules_of })
   end
end
for _, sizes in ipairs(packs.TRIED) do
   table.insert(SWAPPED_LAYOUTS, { partition = "seq", per_device = swaps.STAGES[#swaps.STAGES],
      schedules = tried(false, true), packs = sizes })
end

local function contains(list, value)
   for _, entry in ipairs(list or { value }) do
      if entry == value then return true end
   end
   return false
end

-- Schedules that are tried when they are asked for, by these partitions, in as many stages as their
-- plans have by themselves: of replicas, of one stage at a time, those that group, rules in Lua.
local ASKED_PARTITIONS = { "seq", "mixed" }

local function is_asked_for(schedule, layouts)
   for _, layout in ipairs(layouts) do
      if contains(layout.schedules, schedule) then return false end
   end
   return not contains(ANY_ORDER, schedule) and not contains(IN_TURNS, schedule)
end

--- The layouts of the partitions that the caller allows; those with a number of stages of its own
-- once.
local function layouts_of(only, n_stages, swap)
   local list, seen = {}, {}
   local function add(layout)
      local key = layout.partition .. layout.schedules[1] .. (layout.packs or "")
      if contains(only.partitions, layout.partition) and not (n_stages and seen[key]) then
         list[#list + 1] = layout
      end
      seen[key], seen[layout.partition] = true, true
   end
   for _, layout in ipairs(LAYOUTS) do add(layout) end
   for _, layout in ipairs(swap ~= "never" and SWAPPED_LAYOUTS or {}) do add(layout) end
   for _, name in ipairs(only.partitions or {}) do
      if not seen[name] then
         list[#list + 1] = { partition = name, schedules = ANY_ORDER }
      end
   end
   for _, schedule in ipairs(only.schedules or {}) do
      if is_asked_for(schedule, list) then
         for _, name in ipairs(only.partitions or ASKED_PARTITIONS) do
            list[#list + 1] = { partition = name, schedules = { schedule } }
         end
      end
   end
   return list
end

--- Options of what is tried, without what the caller has ruled out. Of a graph that has not so many
-- nodes stages are left to its plan.
local function choices(o, only, n_devices, n_nodes)
   local list = {}
   local function add(layout, micro_batches, schedule)
      if not contains(only.schedules, schedule) then return end
      if schedules.interleaves(schedule) and micro_batches % n_devices > 0 then return end
      local forward = o.forward_micro_batches
      if o.packs and layout.packs then return end
      if (o.packs or forward) and not schedules.groups(schedule) then return end
      if forward and micro_batches % forward > 0 then return end
      local most = layout.per_device and layout.per_device * n_devices
      if most and most > n_nodes then most = nil end
      local choice = copy(o, {
         micro_batches = micro_batches, schedule = schedule, partition = layout.partition,
         stages = o.stages or most,
         packs = o.packs or layout.packs,
      })
      if not placement.searches(choice.partition) then choice.effort = nil end
      list[#list + 1] = choice
   end
   for _, layout in ipairs(layouts_of(only, o.stages, o.swap)) do
      for _, m in ipairs(only.counts or micro_batch_counts(o.batch, n_devices)) do
         for _, schedule in ipairs(layout.schedules) do add(layout, m, schedule) end
      end
   end
   return list
end

-- ---------------------------------------------------------------------------------------------
-- What is better.

-- What is better when it is less; rows that fit are in this order.
local GOALS = { "seconds", "staleness", "memory_bytes", "moved_bytes", "stages" }

local function fits(row) return not row.problem and row.over_bytes == 0 end

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
      row.front = fits(row)
      for _, other in ipairs(rows) do
         if row.front and fits(other) then row.front = not dominates(other, row) end
      end
      if row.front then front[#front + 1] = row end
   end
   return front
end

--- Why a row was not taken.
local function verdict(row, best)
   if row == best then return row.runs and "chosen" or "chosen, a plan only" end
   if row.problem then return row.problem end
   if row.over_bytes > 0 then
      return ("%s too much memory"):format(units.format_bytes(row.over_bytes))
   end
   local off = row.seconds / best.seconds - 1
   return (off == 0 and "as fast" or ("%.1f %% %s"):format(100 * math.abs(off),
      off < 0 and "faster" or "slower")) .. (row.runs and "" or ", a plan only")
end

--- What rows are sorted by first: those that fit and run, then those that fit and are plans only,
-- those that do not fit, those without a plan.
local function rank(row)
   if row.problem then return 3 end
   if row.over_bytes > 0 then return 2 end
   return row.runs and 0 or 1
end

--- Rows that fit by time, and of those as fast by the other goals; those that do not by what is too
-- much.
local function comes_first(a, b)
   local rank_a, rank_b = rank(a), rank(b)
   if rank_a ~= rank_b then return rank_a < rank_b end
   for _, goal in ipairs(rank_a <= 1 and GOALS or {}) do
      if a[goal] ~= b[goal] then return a[goal] < b[goal] end
   end
   if rank_a == 2 and a.over_bytes ~= b.over_bytes then return a.over_bytes < b.over_bytes end
   return a.number < b.number
end

--- Lets go of a plan that nobody will ask for: it neither is the first nor could become the fastest
-- when the profile is a little off. Plans of large models are large.
local function forget(row, first)
   if row == first or not row.subject then return end
   if not fits(first) or not fits(row) or row.seconds >= noise.out_of_reach(first) then
      row.subject = nil
   end
end

--- Of rows that fit and run as the first one does, how long each may take and in how many draws it
-- is the fastest.
local function judge(rows)
   local near = {}
   for _, row in ipairs(rows) do
      if fits(row) and row.subject and row.runs == rows[1].runs then near[#near + 1] = row end
   end
   for i, judgement in ipairs(noise.judge(column(near, "subject"))) do
      near[i].wins, near[i].worst_seconds = judgement.wins, judgement.worst_seconds
   end
end

-- ---------------------------------------------------------------------------------------------
-- Searching.

local ONLY = {
   counts = { type = "table", items = "int", help = "numbers of micro-batches to try" },
   schedules = { type = "table", items = "string|table", help = "schedules to try" },
   partitions = { type = "table", items = "string|table|function", help = "partitions to try" },
}

-- Options of a plan that are one of a list here.
local LIST_OF = { micro_batches = "counts", schedule = "schedules", partition = "partitions" }

local RULES = copy(options.rules("explore"), ONLY)

--- The options of a plan that is not searched for, where these are among what is tried.
local function plain_of(given, only)
   local own = copy(given)
   for key, list in pairs(LIST_OF) do
      own[key] = only[list] and #only[list] == 1 and only[list][1] or nil
   end
   local ok, plain = pcall(explore.options, "ft.planner", own)
   for key, list in pairs(ok and LIST_OF or {}) do
      ok = ok and contains(only[list], plain[key])
   end
   return ok and plain or nil
end

--- Refuses numbers of micro-batches of which the batch is a multiple of none.
local function check_counts(o, counts)
   local problem
   for _, count in ipairs(counts or {}) do
      local parts = { micro_batches = count }
      opts.check("ft.planner", { micro_batches = RULES.micro_batches }, parts)
      local own = batch_parts(copy(o, parts))
      if not own then return end
      problem = problem or own
   end
   if problem then opts.fail("ft.planner", "%s", problem) end
end

--- What the caller leaves open, as lists of what is tried, and the other options; the options of a
-- plan that is not searched for, or nil.
local function split(given)
   local only, rest = {}, {}
   opts.known("ft.planner", RULES, given or {})
   for key, value in pairs(given or {}) do
      if LIST_OF[key] then
         only[LIST_OF[key]] = { value }
      else
         (ONLY[key] and only or rest)[key] = value
      end
   end
   local open = named.like(given, copy(rest))
   rest.micro_batches = 1
   rest = explore.options("ft.planner", named.like(given, rest))
   only = opts.check("ft.planner", ONLY, only)
   if only.partitions then placement.check_effort(rest, only.partitions) end
   if rest.plan then
      usage.of(rest, "{plan} decides all that is searched for; leave it out, or do not search")
   end
   check_counts(rest, only.counts)
   for _, schedule in ipairs(only.schedules or {}) do
      opts.check("ft.planner", { schedule = RULES.schedule }, { schedule = schedule })
   end
   return only, rest, plain_of(open, only)
end

--- What the caller has left open that is not searched; gives the number of devices. Costs of a
-- graph's file are those of one micro-batch, of whatever size: how many there are is not tried.
local function settle(model, o, only)
   if not model.nodes then
      explore.check("ft.planner", model, o)
      o.devices = o.devices or "cpu"
      return #core.engine.devices(o.devices)
   end
   if not o.devices and not model.devices then
      opts.fail("ft.planner", "the graph names no devices; give them, such as "
         .. 'devices = "sim:4x11GB"')
   end
   only.counts = only.counts or { RULES.micro_batches.default }
   return o.devices and #core.engine.devices(o.devices) or #model.devices
end

--- What a plan is, whatever number of stages it was asked for with; nil where there is none.
local function identity(row)
   local o, subject = row.options, row.subject
   if not subject then return nil end
   return table.concat({ o.micro_batches, tostring(o.schedule), o.packs or "",
      tostring(o.partition), row.recomputed, table.concat(subject.result.stage, " "),
      table.concat(subject.result.stage_device, " ") }, "|")
end

-- How many of the first choices are planned again as they are alone.
local COMPARED = 3

--- The number of the row with these options, or of the one behind the last.
local function find_choice(rows, o)
   for i, row in ipairs(rows) do
      local same = row.options.stages == o.stages and row.options.packs == o.packs
      for key in pairs(LIST_OF) do same = same and row.options[key] == o[key] end
      if same then return i end
   end
   return #rows + 1
end

--- Plans the first choices again, and what a plan would be that is not searched for, each with the
-- other cuts that a plan of its own compares: so the one that is chosen is what its flags give, and
-- no slower than it was, nor than that plan.
local function compare_cuts(model, rows, plain, guessed)
   local function plan(i, o)
      local row = M.try(model, o, { tried = guessed, whole = true })
      row.number = rows[i] and rows[i].number or i
      rows[i] = row
   end
   for i = 1, model.nodes and 0 or math.min(COMPARED, #rows) do
      if fits(rows[i]) then plan(i, rows[i].options) end
   end
   local at = plain and not model.nodes and find_choice(rows, plain) or 0
   if at > COMPARED then plan(at, plain) end
   table.sort(rows, comes_first)
   for _, row in ipairs(rows) do forget(row, rows[1]) end
end

--- Raises why the first choice has no plan where none has one, and not because of memory alone.
local function check_any(rows)
   for _, row in ipairs(rows) do
      if not row.failure or row.failure.status == "plan infeasible" then return end
   end
   error(rows[1].failure, 0)
end

--- Tries the choices and takes the fastest that fits, of those that can be run if there are any.
-- @param what a model, what ft.model takes as `model`, a graph, or a graph's file
-- @tparam table given options of ft.explore, of which those given are kept; or, to try several,
--   counts (of micro-batches), schedules, partitions: lists
-- @tparam[opt] function seen called with how many choices were tried, and of how many; a count on
--   the terminal when absent
-- @treturn table rows (the best first; those near it have .subject, those without a plan .problem),
--   best (nil: nothing fits), front
-- @raise invalid argument: also where all that might be tried is refused
function M.search(what, given, seen)
   seen = seen or progress.counter("plans")
   local only, o, plain = split(given)
   local model = explore.open(what)
   local rows, placements, known, first = {}, {}, {}, nil
   local n_devices = settle(model, o, only)
   local all = choices(o, only, n_devices, model.nodes and #model.nodes or math.huge)
   for i, choice in ipairs(all) do
      local m = choice.micro_batches
      placements[m] = placements[m] or { tried = not o.stages }
      local row = M.try(model, choice, placements[m])
      row.number = i
      local key = identity(row)
      if not known[key or row] then
         known[key or row], rows[#rows + 1] = true, row
         if not first or comes_first(row, first) then first = row end
         for _, other in ipairs(rows) do forget(other, first) end
      end
      collectgarbage() -- plans are small in Lua and large in C
      seen(i, #all)
   end
   if not first then
      core.fail("plan infeasible", ("nothing to try: no schedule is for this partition, a batch of "
         .. "%d and %s; give another one of them"):format(o.batch, counted(n_devices, "device")), 2)
   end
   table.sort(rows, comes_first)
   check_any(rows)
   compare_cuts(model, rows, plain, not o.stages)
   first = rows[1]
   local best = fits(first) and first or nil
   local titles = placement.titles(only.partitions or {})
   for _, row in ipairs(rows) do
      local how = row.options.partition
      row.title, row.verdict = titles[how] or placement.title(how), verdict(row, best)
   end
   judge(rows)
   return found.new { model = model, rows = rows, best = best, front = pareto(rows) }
end

--- What would make a plan fit, see ftpipe.plan.remedies.
-- @local
function M.remedies(model, o, over_bytes)
   local solved = {}
   local function try(given, quick)
      return M.try(model, given, { tried = true, whole = not quick, solved = solved })
   end
   return remedies.find(try, o, over_bytes)
end

M.takes = { ["ft.planner"] = RULES }

guard("ft.planner", M, { search = "what?: any, given?: table, seen?: function" }, "search")

return setmetatable(M, { __call = function(_, ...) return M.search(...) end })
