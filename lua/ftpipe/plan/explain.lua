--- What a plan is for and how it differs from another, in words.

local counted = require("ftpipe.base.counted")
local edit = require("ftpipe.plan.edit")
local options = require("ftpipe.plan.options")

local M = {}

local BATCHES = 8 -- of a prediction that is only compared

local function rate(plan)
   return plan:simulate(math.min(plan.options.batches, BATCHES)).samples_per_second
end

local function over(plan)
   for d, row in ipairs(plan.memory) do
      local budget = plan.devices[d].memory_bytes
      if row.total > budget then
         return ("%s would need %.1f of %.1f MB"):format(plan.devices[d].name, row.total / 1e6,
            budget / 1e6)
      end
   end
end

--- The stages that nodes of the set are in, "stage 2 on cpu:1", and the device of all of them,
-- nil when they have several.
local function whereabouts(plan, set)
   local seen, parts, only = {}, {}, nil
   local stages = plan.blueprint:stages()
   for node, s in ipairs(plan.partition.stage) do
      if set[node] and not seen[s] then
         seen[s] = true
         only = #parts == 0 and stages[s].device or only == stages[s].device and only or nil
         parts[#parts + 1] = ("stage %d on %s"):format(s - 1, plan.devices[stages[s].device].name)
      end
   end
   return table.concat(parts, ", "), only
end

local function alternative(plan, what, d, here)
   local name = plan.devices[d].name
   local ok, moved = pcall(plan.move, plan, what, d)
   if not ok then return ("  on %s: not possible: %s"):format(name, tostring(moved)) end
   local excess = over(moved)
   if excess then return ("  on %s: does not fit, %s"):format(name, excess) end
   local there = rate(moved)
   return ("  on %s: %.1f samples/s (%+.1f %%), %s"):format(name, there,
      100 * (there / here - 1), counted(moved.n_stages, "stage"))
end

--- Why a node, or everything in a scope, is where it is: what it would be elsewhere.
-- @treturn string several lines
function M.why(plan, what)
   local set, n = edit.find(plan, what)
   local here, place, home_device = rate(plan), whereabouts(plan, set)
   local lines = {
      ("%s (%s) is in %s"):format(tostring(what), counted(n, "node"), place),
      ("  here: %.1f samples/s, %s"):format(here, counted(plan.n_stages, "stage")),
   }
   for d in ipairs(plan.devices) do
      if d ~= home_device then lines[#lines + 1] = alternative(plan, what, d, here) end
   end
   return table.concat(lines, "\n")
end

-- What a text or a number says; of others, as a function, nothing can be said.
local TOLD = { string = true, number = true, boolean = true, ["nil"] = true }

local function told(value) return value == nil and "not given" or tostring(value) end

local function differing_options(a, b, lines)
   if a.devices_name ~= b.devices_name then
      lines[#lines + 1] = ("devices: %s -> %s"):format(a.devices_name, b.devices_name)
   end
   for _, row in ipairs(options.taken_by("plan")) do
      local key = row[1]
      local x, y = a.options[key], b.options[key]
      if row.plans and key ~= "devices" and x ~= y and TOLD[type(x)] and TOLD[type(y)] then
         lines[#lines + 1] = ("%s: %s -> %s"):format(key, told(x), told(y))
      end
   end
end

--- "encoder/block.3" of a longer scope: as far as blocks are numbered.
local function block_of(scope)
   return scope:match("^(.-%d+)/") or scope:match("^[^/]*/?[^/]*")
end

local function home(plan, stages, node)
   local s = plan.partition.stage[node]
   return ("stage %d on %s"):format(s - 1, plan.devices[stages[s].device].name), s, stages[s].device
end

--- Blocks whose nodes are on another device, or in another stage.
local function differing_nodes(a, b, lines)
   local graph, from, to = a.graphs[#a.graphs], a.blueprint:stages(), b.blueprint:stages()
   local counts, order = {}, {}
   for node = 1, #a.partition.stage do
      local x, sx, dx = home(a, from, node)
      local y, sy, dy = home(b, to, node)
      if sx ~= sy or dx ~= dy then
         local key = ("%s: %s -> %s"):format(block_of(graph:node(node).scope), x, y)
         if not counts[key] then order[#order + 1] = key end
         counts[key] = (counts[key] or 0) + 1
      end
   end
   for _, key in ipairs(order) do
      lines[#lines + 1] = ("%s (%s)"):format(key, counted(counts[key], "node"))
   end
end

local function differing_memory(a, b, lines)
   for d = 1, math.max(#a.devices, #b.devices) do
      local x, y = a.memory[d] and a.memory[d].total or 0, b.memory[d] and b.memory[d].total or 0
      if x ~= y then
         local device = a.devices[d] or b.devices[d]
         lines[#lines + 1] = ("memory of %s: %.1f -> %.1f MB"):format(device.name, x / 1e6, y / 1e6)
      end
   end
end

--- How another plan of the same model differs: options, places of blocks, memory, prediction.
-- @treturn table list of lines, empty when nothing differs; its tostring has one on each line
function M.diff(a, b)
   local lines = {}
   differing_options(a, b, lines)
   if #a.partition.stage == #b.partition.stage then
      differing_nodes(a, b, lines)
   else
      lines[#lines + 1] = ("forward nodes: %d -> %d"):format(#a.partition.stage,
         #b.partition.stage)
   end
   differing_memory(a, b, lines)
   local x, y = rate(a), rate(b)
   if x ~= y then
      lines[#lines + 1] = ("predicted: %.1f -> %.1f samples/s (%+.1f %%)"):format(x, y,
         100 * (y / x - 1))
   end
   return setmetatable(lines, { __tostring = function(list)
      return #list == 0 and "the plans are alike" or table.concat(list, "\n")
   end })
end

return M
