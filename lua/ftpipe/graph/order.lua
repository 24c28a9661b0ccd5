--- Nodes of a problem in an order in which they can run, for cuts that go by their numbers.

local builder = require("ftpipe.graph.builder")
local copy = require("ftpipe.base.copy")

local M = {}

--- Node numbers, each behind those that it uses; as they are where that is so already.
local function order_of(problem)
   local edges, numbers, is_order = {}, {}, true
   for e, from in ipairs(problem.edge_from) do
      edges[e] = { from = from, to = problem.edge_to[e] }
      is_order = is_order and from < problem.edge_to[e]
   end
   for i = 1, #problem.names do numbers[i] = i end
   return is_order and numbers or (builder.order(numbers, edges))
end

local function picked(list, order)
   local own = {}
   for i, node in ipairs(order) do own[i] = list[node] end
   return own
end

--- A problem whose nodes are numbered in an order in which they can run, for as many devices as
-- there are stages.
-- @tparam table problem of graph:problem, whose graph has no cycle
-- @tparam {int,...} on by stage its device in the problem
-- @treturn table but for its devices; what may not be on a device may not be in a stage on it
-- @treturn {int,...} by node of the problem its number in the other one
function M.runnable(problem, on)
   local order, place = order_of(problem), {}
   for i, node in ipairs(order) do place[node] = i end
   local own = copy(problem, { forbid_node = {}, forbid_device = {} })
   for _, key in ipairs { "names", "fixed_bytes", "saved_bytes", "tie", "backward" } do
      own[key] = picked(problem[key], order)
   end
   for _, key in ipairs { "node_ns", "last_ns" } do
      own[key] = problem[key] and {} or nil
      for k, list in ipairs(problem[key] or {}) do own[key][k] = picked(list, order) end
   end
   for _, key in ipairs { "edge_from", "edge_to" } do
      own[key] = {}
      for e, node in ipairs(problem[key]) do own[key][e] = place[node] end
   end
   for i, node in ipairs(problem.forbid_node) do
      for s, d in ipairs(on) do
         if d == problem.forbid_device[i] then
            table.insert(own.forbid_node, place[node])
            table.insert(own.forbid_device, s)
         end
      end
   end
   return own, place
end

return M
