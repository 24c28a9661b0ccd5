--- Plans as text: read from a file, written by hand as a table, edited.
--
--    local plan = ft.plan.load("plan.txt")
--    plan:edit { ["edge F0>F1 bytes 131072 slots 2"] = "edge F0>F1 bytes 131072 slots 7" }
--       :save("wider.txt")
--
-- What comes out has passed the check: it completes, and says nothing that does not follow from its
-- orders. Words and numbers are those of plan files (doc/plans.md), which count from 0.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local opts = require("ftpipe.base.opts")
local small_file = require("ftpipe.base.small_file")
local usage = require("ftpipe.base.usage")

local M = {}

local MOST_BYTES = 2 ^ 26 -- of a plan file

--- A plan from its text, checked.
-- @raise malformed input — with the line; invalid argument, plan infeasible — what is wrong, and
--   the line
function M.parse(text) return core.schedule.parse(text):check() end

--- What `read` makes of the text of a file; an error of it names the file.
function M.from_file(path, read)
   local text = small_file(path, MOST_BYTES)
   local ok, result = pcall(read, text)
   if ok then return result end
   if type(result) ~= "table" then error(result, 0) end
   return core.fail(result.status, path .. ": " .. result.message, result.exit)
end

--- A plan from a file, checked.
-- @raise as `parse`, with the name of the file
function M.load(path) return M.from_file(path, M.parse) end

--- What stands in front of the lists of a run's plan: schedule_plan:head of its plan.txt.
-- @tparam string dir of the run
-- @treturn[opt] table nil where the directory has no plan
-- @raise malformed input — with the file and the line
-- @local
function M.head(dir)
   local path = dir .. "/plan.txt"
   return core.sys.exists(path) and M.from_file(path, core.schedule.parse):head() or nil
end

local plan_options = {
   schedule = { default = "by-hand", help = "a name, for people" },
   micro_batches = { type = "int", min = 1, required = true, help = "of a batch" },
   batches = { type = "int", min = 1, required = true, help = "of the leg" },
   body_batches = { default = 0, help = "by which a repetition of the body differs" },
   body_repeats = { default = 0, help = "of the body" },
   stages = { type = "table", items = "string", required = true,
      help = "what stands behind 'stage 0', 'stage 1'" },
   edges = { default = {}, help = "what stands behind 'edge'" },
   orders = { type = "table", items = "string|table", required = true,
      help = "by device { warm_up =, body =, drain =, policy = }, or the actions of its warm-up" },
   node_stage = { default = {}, help = "stages of nodes: \"0*26\", \"1*20\"" },
}

local function add_order(lines, device, order)
   if type(order) == "string" then order = { warm_up = order } end
   for _, key in ipairs { "warm_up", "body", "drain" } do
      if order[key] and type(order[key]) ~= "string" then
         opts.fail("plan.of", "option 'orders': %s of device %d: expected a string, got %s", key,
            device, class.told(order[key]))
      elseif order[key] then
         lines[#lines + 1] = ("%s %d %s"):format(key:gsub("_", "-"), device, order[key])
      end
   end
end

--- How many nodes "0*26" and the others name.
local function count_nodes(runs)
   local n = 0
   for _, run in ipairs(runs) do n = n + (tonumber(run:match("^%d+%*(%d+)$")) or 0) end
   return n
end

--- A plan from a table, checked.
--
--    ft.plan.of {
--       micro_batches = 2, batches = 1,
--       stages = { "device 0", "device 1 recompute" },
--       edges = { "F0>F1 bytes 64 slots 2", "B1>B0 bytes 64 slots 1" },
--       orders = { "F0.0.0-1 B0.0.0-1 U0.0", "F1.0.0 B1.0.0 F1.0.1 B1.0.1 U1.0" },
--    }
function M.of(o)
   o = opts.check("plan.of", plan_options, o)
   for _, name in ipairs { "edges", "node_stage" } do
      for i, item in ipairs(o[name]) do
         if type(item) ~= "string" then
            opts.fail("plan.of", "option '%s': entry %d: expected a string, got %s", name, i,
               class.told(item))
         end
      end
   end
   local lines = {
      "ftpipe-plan 1", "schedule " .. o.schedule, "stages " .. #o.stages,
      "devices " .. #o.orders, "micro-batches " .. o.micro_batches, "batches " .. o.batches,
      "body-batches " .. o.body_batches, "body-repeats " .. o.body_repeats,
   }
   for s, words in ipairs(o.stages) do lines[#lines + 1] = ("stage %d %s"):format(s - 1, words) end
   for _, words in ipairs(o.edges) do lines[#lines + 1] = "edge " .. words end
   for d, order in ipairs(o.orders) do
      if order.policy then lines[#lines + 1] = ("order %d policy"):format(d - 1) end
   end
   if #o.node_stage > 0 then
      lines[#lines + 1] = "nodes " .. count_nodes(o.node_stage)
      lines[#lines + 1] = "node-stage " .. table.concat(o.node_stage, " ")
   end
   for d, order in ipairs(o.orders) do add_order(lines, d - 1, order) end
   return M.parse(table.concat(lines, "\n") .. "\n")
end

--- Where `from` stands in the text, which it must do once.
local function place_of(text, from)
   local first, last = text:find(from, 1, true)
   if not first then usage("plan:edit: the plan has no '%s'", from) end
   if text:find(from, first + 1, true) then
      usage("plan:edit: '%s' stands in the plan more than once, expected words that do not", from)
   end
   return { first = first, last = last }
end

--- Puts the values of `changes` where their keys stand.
local function replace(text, changes)
   local places, parts, at = {}, {}, 1
   for from, to in pairs(changes) do
      if type(from) ~= "string" or type(to) ~= "string" then
         usage("plan:edit: expected { [\"words of the plan\"] = \"other words\" }")
      end
      local place = place_of(text, from)
      place.to = to
      places[#places + 1] = place
   end
   table.sort(places, function(a, b) return a.first < b.first end)
   for _, place in ipairs(places) do
      if place.first < at then usage("plan:edit: two of the changes overlap") end
      parts[#parts + 1] = text:sub(at, place.first - 1) .. place.to
      at = place.last + 1
   end
   return table.concat(parts) .. text:sub(at)
end

--- The text without depths and in-flight counts, which follow from the rest.
local function without_derived(text)
   return (text:gsub("(\nstage %d+ device [%d,]+) depth %d+ in%-flight %d+", "%1"))
end

--- The plan with other words in its text, checked. Depths and in-flight counts are counted anew;
-- `versions` are what the text says.
-- @tparam schedule_plan plan
-- @tparam table|function changes { ["what stands once"] = "what comes there" }, or a function from
--   text to text
-- @treturn schedule_plan a new one
function M.edit(plan, changes)
   local text = plan:text()
   if type(changes) == "function" then
      text = changes(text)
      if type(text) ~= "string" then
         usage("plan:edit: the function gave a %s, expected the text of a plan", type(text))
      end
   elseif type(changes) == "table" then
      text = replace(text, changes)
   else
      usage("plan:edit: expected a table of changes or a function, got a %s", type(changes))
   end
   return M.parse(without_derived(text))
end

--- Writes the plan as text, which `load` reads.
function M.save(plan, path)
   core.sys.write_file(path, plan:text())
   return plan
end

core.schedule.plan_methods.edit = M.edit
core.schedule.plan_methods.save = M.save

return M
