--- Operator graphs with the nodes of one scope as one: what partitioners get where thousands of
-- nodes would only be moved together.

local builder = require("ftpipe.graph.builder")

local M = {}

local SUMMED = {
   "forward_ns", "backward_ns", "ns2", "ns3", "ns4", "parameter_bytes", "saved_bytes",
   "output_bytes", "flops",
}

local function add(group, node)
   for _, key in ipairs(SUMMED) do
      if node[key] then group[key] = (group[key] or 0) + node[key] end
   end
end

--- The first `depth` names of a scope; all of them without depth.
local function outer(scope, depth)
   local names = {}
   for name in (scope or ""):gmatch("[^/]+") do
      if #names == depth then break end
      names[#names + 1] = name
   end
   return names[1] and table.concat(names, "/")
end

--- Groups by scope, and the group of every node.
local function group(graph, depth)
   local nodes, of, by_scope = {}, {}, {}
   for i, node in ipairs(graph.nodes) do
      local name = outer(node.scope, depth)
      local scope = name or i
      if not by_scope[scope] then
         nodes[#nodes + 1] = { id = tostring(scope), scope = name }
         by_scope[scope] = #nodes
      end
      of[i] = by_scope[scope]
      add(nodes[of[i]], node)
   end
   return nodes, of
end

--- Edges between groups. Values keep their numbers where nodes of one group have numbers of their
-- own; a value that several nodes of a group use arrives once.
local function join(graph, of)
   local edges, seen = {}, {}
   for _, edge in ipairs(graph.edges) do
      local from, to = of[edge.from], of[edge.to]
      local value = edge.value or edge.from
      local key = from .. " " .. to .. " " .. value
      if from ~= to and not seen[key] then
         seen[key] = true
         edges[#edges + 1] = {
            from = from, to = to, bytes = edge.bytes, grad_bytes = edge.grad_bytes, value = value,
         }
      end
   end
   return edges
end

--- A graph of one node for each scope, and the node of every node; nil where that has a cycle.
-- @tparam graph graph without ties
-- @tparam[opt] int depth names of a scope that count: 2 makes blocks of "encoder/block.3/attn"
-- @treturn[opt] graph
-- @treturn[opt] {int,...}
function M.by_scope(graph, depth)
   local nodes, of = group(graph, depth)
   local edges = join(graph, of)
   if #builder.order(nodes, edges) < #nodes then return nil end
   local result = {}
   for key, value in pairs(graph) do result[key] = value end
   result.nodes, result.edges = nodes, edges
   return setmetatable(result, getmetatable(graph)), of
end

return M
