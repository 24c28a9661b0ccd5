--- Graphs as people look at them: nodes of one scope as one, and in layers.

local contract = require("ftpipe.graph.contract")

local M = {}

--- Edges by their ends, bytes added up.
local function bundled(edges)
   local bundles, by_ends = {}, {}
   for _, edge in ipairs(edges) do
      local ends = edge.from .. " " .. edge.to
      if not by_ends[ends] then
         by_ends[ends] = { from = edge.from, to = edge.to, bytes = 0 }
         bundles[#bundles + 1] = by_ends[ends]
      end
      by_ends[ends].bytes = by_ends[ends].bytes + edge.bytes
   end
   return bundles
end

--- Sums the nodes of one group into one; a node without a scope stays alone. Groups of different
-- stages stay apart. The result may have cycles, and is for looking at only.
-- @tparam graph graph
-- @tparam int depth of scopes
-- @tparam[opt] table result of ft.partition
-- @treturn table { nodes = with count =, stage =, device =; edges = }
function M.groups(graph, depth, result)
   local function stage_of(i) return result and result.stage[i] end
   local nodes, of = contract.group(graph.nodes, function(node, i)
      return (contract.outer(node.scope, depth) or "/" .. i) .. " " .. tostring(stage_of(i))
   end, function(node, i)
      return {
         id = contract.outer(node.scope, depth) or node.name or node.id, count = 0,
         stage = stage_of(i), device = result and result.device[i],
      }
   end)
   for _, number in ipairs(of) do nodes[number].count = nodes[number].count + 1 end
   return { nodes = nodes, edges = bundled(contract.join(graph, of)) }
end

--- The layer of every node: one more than the highest before it. Edges of a cycle that lead back to
-- an older node do not count.
function M.layers(groups)
   local layer, after = {}, {}
   for i = 1, #groups.nodes do layer[i], after[i] = 1, {} end
   for _, edge in ipairs(groups.edges) do
      if edge.from < edge.to then table.insert(after[edge.from], edge.to) end
   end
   for i = 1, #groups.nodes do
      for _, to in ipairs(after[i]) do layer[to] = math.max(layer[to], layer[i] + 1) end
   end
   return layer
end

return M
