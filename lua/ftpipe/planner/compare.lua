--- All partitioners on one problem, or plans of ft.explore, side by side.
--
--    print(ft.compare(problem, { cost = "sum" }))
--    print(ft.compare(ft.explore("t5-base", { partition = "seq" }), ft.explore("t5-base")))

local class = require("ftpipe.base.class")
local clusters = require("ftpipe.placement.cluster")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local explain = require("ftpipe.plan.explain")
local guard = require("ftpipe.base.guard")
local opts = require("ftpipe.base.opts")
local over = require("ftpipe.placement.over")
local partition = require("ftpipe.placement.partition")
local placement = require("ftpipe.placement")
local schedules = require("ftpipe.schedule")
local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")

local M = {}
local Rows = { __name = "comparison" }

--- How evenly work is spread: the mean of the devices' times over the longest, 1 at best.
-- @local
function M.balance(result)
   local sum, most = 0, 0
   for _, load in ipairs(result.loads) do
      sum, most = sum + load.price_ns, math.max(most, load.price_ns)
   end
   return most > 0 and sum / #result.loads / most or 1
end

local function options_for(method, o)
   return {
      method = method, cost = o.cost, seed = o.seed, effort = o.effort, blocks = o.blocks,
   }
end

--- Methods that the problem is for: packs are for devices that swap.
local function applicable(problem)
   local list = {}
   for _, method in ipairs(partition.methods) do
      if method.name ~= "pack" or problem.swaps then list[#list + 1] = method end
   end
   return list
end

--- Bytes of the fullest device, and those by which the one that is furthest over its budget is; 0
-- when none is.
local function most_bytes(result, o)
   local most, over_bytes, memory = 0, 0, o.memory and o.memory(result)
   for d, load in ipairs(result.loads) do
      local bytes, budget = memory and memory[d].total or load.memory_bytes, (o.budgets or {})[d]
      most = math.max(most, bytes)
      if (budget or 0) > 0 then over_bytes = math.max(over_bytes, bytes - budget) end
   end
   return most, over_bytes
end

local TOLERANCE = 1e-9 -- of equal times that were summed in other orders

--- A result under the cost model that was asked for, where its method goes by one of its own, as
-- pipedream does: of stages with replicas there is no other price.
-- @treturn table result
-- @treturn boolean whether its figures are of its own model
local function repriced(problem, result, cost)
   local priced = partition.evaluate(problem, result.device, result.stage, cost)
   if math.abs(priced.objective_ns - result.objective_ns) <= TOLERANCE * priced.objective_ns then
      return result, false
   end
   for _, n in ipairs(result.stage_replicas) do
      if n > 1 then return result, true end
   end
   priced.method, priced.effort = result.method, result.effort
   return priced, false
end

local RULES = {
   cost = { type = "string" }, seed = { type = "int" },
   effort = { type = "number", above = 0, max = 1e6 },
   blocks = { type = "int", min = 1, help = "stages, at most" },
   budgets = { type = "table", items = "number",
      help = "by device, bytes: that what is held is counted against" },
   memory = { type = "function",
      help = "from a result to what devices hold, rows with `total`; else as partitioners count" },
}

--- Runs every method.
-- @tparam table problem
-- @tparam[opt] table o cost, seed, effort, blocks (stages, at most)
--   budgets (by device, bytes: that what is held is counted against; 0: none), memory
-- @treturn table rows { method =, result = or problem = (why not), seconds =, memory_bytes = (of
--   the fullest device), over_bytes = (beyond a budget), own_model = (whether it was priced by the
--   method's own model) }, in the order of the methods; what a result moves, and the time of its
--   slowest device, are of one micro-batch
function M.all(problem, o)
   o = opts.check("ft.compare", RULES, o)
   partition.need(problem, "ft.compare")
   local rows = setmetatable({}, Rows)
   for _, method in ipairs(applicable(problem)) do
      local start = core.sys.time_ns()
      local ok, result = pcall(partition, problem, options_for(method.name, o))
      if not ok and (type(result) ~= "table" or result.status == "cancelled") then
         error(result, 0)
      end
      local seconds, own_model = (core.sys.time_ns() - start) / 1e9, nil
      if ok then ok, result, own_model = pcall(repriced, problem, result, o.cost) end
      local row = {
         method = method.name, seconds = seconds, own_model = own_model,
         result = ok and result or nil, problem = not ok and result.message or nil, over_bytes = 0,
      }
      if ok then row.memory_bytes, row.over_bytes = most_bytes(result, o) end
      rows[#rows + 1] = row
   end
   return rows
end

-- What is optimal of a method that looks at some placements alone.
local KINDS = { seq = "optimal of contiguous" }

local COLUMNS = {
   { "method", function(row) return row.method end },
   { "slowest ms", function(row) return ("%.2f"):format(row.result.objective_ns / 1e6) end },
   { "balance", function(row) return ("%.3f"):format(M.balance(row.result)) end },
   { "memory", function(row) return units.format_bytes(row.memory_bytes) end },
   { "moved a micro-batch", function(row) return units.format_bytes(row.result.moved_bytes) end },
   { "stages", function(row) return tostring(row.result.n_stages) end },
   { "above bound", function(row)
      if row.own_model then return "of its own model" end
      if row.result.proved then return KINDS[row.result.method] or "optimal" end
      local all, own = 100 * row.result.gap, row.result.method_gap
      return own and ("%.1f %%, its own %.1f %%"):format(all, 100 * own) or ("%.1f %%"):format(all)
   end },
   { "fits", function(row)
      return row.over_bytes > 0 and ("no, %s over"):format(units.format_bytes(row.over_bytes))
         or "yes"
   end },
   { "effort", function(row) return ("%.1f"):format(row.result.effort) end },
   { "found in", function(row) return units.format_seconds(row.seconds) end },
}

--- The rows as a table of words, its head first; a method without a result has one word more.
-- @local
function M.cells(rows)
   local head = {}
   for c, each in ipairs(COLUMNS) do head[c] = each[1] end
   local cells = { head }
   for i, row in ipairs(rows) do
      cells[i + 1] = { row.method }
      for c, each in ipairs(COLUMNS) do
         if row.result then cells[i + 1][c] = each[2](row) end
      end
      if row.problem then cells[i + 1][2] = row.problem end
   end
   return cells
end

--- The rows as numbers, for programs.
function M.data(rows)
   local list = {}
   for i, row in ipairs(rows) do
      local result = row.result
      list[i] = {
         method = row.method, problem = row.problem, found_in_seconds = row.seconds,
      }
      if result then
         list[i].slowest_ns, list[i].balance = result.objective_ns, M.balance(result)
         list[i].effort, list[i].over_bytes = result.effort, row.over_bytes
         list[i].memory_bytes, list[i].moved_bytes = row.memory_bytes, result.moved_bytes
         list[i].own_model = row.own_model
         list[i].stages, list[i].gap, list[i].proved = result.n_stages, result.gap, result.proved
      end
   end
   return list
end

-- ---------------------------------------------------------------------------------------------
-- Plans.

local Beside = { __name = "plans" }

local PLANS = {
   { "plan", function(s, title)
      local edited = type(s.options.partition) == "function" and s.method:match("^custom(.*)")
      return edited and title .. edited or s.method
   end },
   { "schedule", function(s) return schedules.name(s.options.schedule) end },
   { "stages", function(s) return tostring(#s.stages) end },
   { "micro-batches", function(s) return tostring(s.options.micro_batches) end },
   { "a batch", function(s) return units.format_seconds(s.seconds) end },
   { "samples/s", function(s) return units.format_rate(s.samples_per_second) end },
   { "memory", function(s)
      local most = 0
      for _, row in ipairs(s.memory) do most = math.max(most, row.total) end
      return units.format_bytes(most)
   end },
   { "fits", function(s) return s.fits and "yes" or "no" end },
}

--- A plan of ft.plan, as one that was moved, with what a row asks of those of ft.explore.
local function of_plan(plan)
   local memory, seconds = over.memory(plan), explain.seconds(plan)
   return { plan = plan, method = plan.partition.name, options = plan.options,
      stages = plan.blueprint:stages(), memory = memory, fits = over.worst(memory) == 0,
      seconds = seconds, samples_per_second = plan.options.batch / seconds }
end

local PLANNED = { subject = function(subject) return subject end, plan = of_plan }

--- Plans of ft.explore and of ft.plan side by side: what they are and what they differ in, how long
-- a batch takes, the fullest device; behind the fastest that fits, by how much it is faster than
-- the first.
-- @param ... two or more of them
-- @treturn table with a tostring
function M.beside(...)
   local list = {}
   for i = 1, select("#", ...) do
      local given = (select(i, ...))
      local row = PLANNED[class.of(given) or ""]
      if not row then
         opts.fail("ft.compare", "plan %d: expected what ft.explore or ft.plan gives, got %s", i,
            class.told(given))
      end
      list[i] = row(given)
   end
   return setmetatable(list, Beside)
end

--- Of a graph of a file, which has no plan, what explain.traits asks of one.
local function like_plan(subject)
   local o = subject.options
   return {
      options = copy(o, { model = { name = subject.title }, buckets = { o.source } }),
      devices_name = o.devices and clusters.name_of(o.devices) or "those of the file",
   }
end

--- Columns of what plans differ in, and no column says yet; none of models beside graphs of files,
-- of which less is known.
local function own_columns(list)
   local plans, shown, columns = column(list, "plan"), { partition = true, plan = true }, {}
   for i, each in ipairs(#plans == 0 and list or {}) do plans[i] = like_plan(each) end
   for _, each in ipairs(PLANS) do shown[each[1]] = true end
   for _, trait in ipairs(#plans == #list and explain.traits(plans) or {}) do
      local name = trait.name:gsub("_", "-")
      if not shown[name] then columns[#columns + 1] = { name, trait.texts } end
   end
   return columns
end

function Beside.__tostring(list)
   local cells, best, own = { {} }, nil, own_columns(list)
   local hows = column(column(list, "options"), "partition")
   local titles = placement.titles(hows)
   for i = 0, #list do
      local row = {}
      local title = titles[hows[i]] or placement.title(hows[i])
      for _, each in ipairs(PLANS) do
         row[#row + 1] = i == 0 and each[1] or each[2](list[i], title)
      end
      for k, each in ipairs(own) do table.insert(row, 1 + k, i == 0 and each[1] or each[2][i]) end
      cells[i + 1] = row
   end
   local last = #cells[1] + 1
   for i = 0, #list do cells[i + 1][last] = "" end
   for i, subject in ipairs(list) do
      local faster = subject.fits and (not best or subject.samples_per_second
         > list[best].samples_per_second)
      if faster then best = i end
   end
   if best then
      cells[best + 1][last] = best == 1 and "best" or ("best, %+.1f %%"):format(
         100 * (list[best].samples_per_second / list[1].samples_per_second - 1))
   end
   return words.columns(cells)
end

function Rows.__tostring(rows) return words.columns(M.cells(rows)) end

M.takes = { ["ft.compare"] = RULES }

guard("ft.compare", M, { data = "rows: comparison" })

--- All partitioners on a problem, or plans of ft.explore side by side: what `all` and `beside` do.
-- @param what a problem, as graph:problem gives it; a plan of ft.explore or ft.plan, or a list of
--   them
-- @param ... options of `all`, or the other plans
return setmetatable(M, { __call = function(_, what, ...)
   if PLANNED[class.of(what) or ""] then return M.beside(what, ...) end
   if type(what) == "table" and PLANNED[class.of(what[1]) or ""] then
      return M.beside(unpack(what))
   end
   return M.all(what, (...))
end })
