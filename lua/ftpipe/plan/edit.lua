--- A plan with a part of its model elsewhere.

local keys = require("ftpipe.base.keys")
local usage = require("ftpipe.base.usage")

local M = {}

local function is_within(scope, block)
   return scope == block or scope:sub(1, #block + 1) == block .. "/"
end

--- Forward nodes that `what` means: a number, or a scope with everything in it.
-- @treturn table set of node numbers
-- @treturn int how many
function M.find(plan, what)
   local graph, set, n = plan.graphs[#plan.graphs], {}, 0
   for node = 1, #plan.partition.stage do
      if node == what or (type(what) == "string" and is_within(graph:node(node).scope, what)) then
         set[node], n = true, n + 1
      end
   end
   if n == 0 then
      usage("plan: no forward node is '%s', expected a number up to %d or a scope such as '%s'",
         tostring(what), #plan.partition.stage, graph:node(1).scope)
   end
   return set, n
end

--- The number of a device that is given by number or name, "sim:1 card" or its first word.
function M.device(plan, what)
   for d, device in ipairs(plan.devices) do
      local name = device.name
      if d == what or name == what or name:match("^%S+") == what then return d end
   end
   usage("plan: there is no device '%s', expected 1 to %d or a name such as '%s'", tostring(what),
      #plan.devices, plan.devices[1].name)
end

--- By stage, the first and last of its nodes in the set; nil where it has none.
local function find_spans(stage, set)
   local spans = {}
   for node, s in ipairs(stage) do
      if set[node] then
         spans[s] = spans[s] or { first = node }
         spans[s].last = node
      end
   end
   return spans
end

--- Stages are cut before and behind the block, whose nodes go to the device. Cuts of stages in the
-- order of their nodes leave them in an order; neighbours on one device become one stage.
function M.partition(plan, set, device)
   local stage, spans = plan.partition.stage, find_spans(plan.partition.stage, set)
   local homes = plan.blueprint:stages()
   local parts = {}
   for node, s in ipairs(stage) do
      local part = 2
      if spans[s] and node < spans[s].first then part = 1 end
      if spans[s] and node > spans[s].last then part = 3 end
      local key = 3 * s + part
      parts[key] = parts[key] or { nodes = {} }
      local home = #homes[s].devices > 1 and homes[s].devices or homes[s].device
      parts[key].device = spans[s] and part == 2 and device or home
      table.insert(parts[key].nodes, node)
   end
   local result, devices = {}, {}
   for _, key in ipairs(keys(parts)) do
      if devices[#devices] ~= parts[key].device then devices[#devices + 1] = parts[key].device end
      for _, node in ipairs(parts[key].nodes) do result[node] = #devices end
   end
   return { stage = result, device = devices, name = plan.partition.name .. ", edited" }
end

return M
