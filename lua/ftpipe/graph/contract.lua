--- Graphs with several nodes as one: what partitioners get where thousands of nodes would only be
-- moved together, and what pictures show.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local builder = require("ftpipe.graph.builder")

local M = {}

--- The first `depth` names of a scope ("encoder/block.3" of "encoder/block.3/attn" at 2); all of
-- them without depth; nil where there is none.
function M.outer(scope, depth)
   local names = {}
   for name in (scope or ""):gmatch("[^/]+") do
      if #names == depth then break end
      names[#names + 1] = name
   end
   return names[1] and table.concat(names, "/")
end

--- Sums the nodes that have equal keys.
-- @tparam {table,...} nodes
-- @tparam function key_of (node, number) to its key
-- @tparam function make (node, number) to an empty group, of the first node of a key
-- @treturn {table,...} groups
-- @treturn {int,...} group by node
function M.group(nodes, key_of, make)
   local groups, of, by_key = {}, {}, {}
   for i, node in ipairs(nodes) do
      local key = key_of(node, i)
      if not by_key[key] then
         groups[#groups + 1] = make(node, i)
         by_key[key] = #groups
      end
      of[i] = by_key[key]
      local group = groups[of[i]]
      for _, row in ipairs(builder.node_numbers) do
         local name = row[1]
         if node[name] then group[name] = (group[name] or 0) + node[name] end
      end
   end
   return groups, of
end

--- Edges between groups: a value that several nodes of a group use arrives once, and has a number
-- of its own in the whole graph. Those of operators have that already; what gradients give back
-- begins at several nodes under one number.
function M.join(graph, of)
   local joined, seen, numbers, n = {}, {}, {}, 0
   local function number_of(edge)
      if graph.operators then return edge.value end
      local key = edge.from .. " " .. (edge.value or "")
      if not numbers[key] then n, numbers[key] = n + 1, n + 1 end
      return numbers[key]
   end
   for _, edge in ipairs(graph.edges) do
      local from, to = of[edge.from], of[edge.to]
      local value = number_of(edge)
      local arrival = from .. " " .. to .. " " .. value
      if from ~= to and not seen[arrival] then
         seen[arrival] = true
         joined[#joined + 1] = {
            from = from, to = to, bytes = edge.bytes, grad_bytes = edge.grad_bytes, value = value,
         }
      end
   end
   return joined
end

--- A graph of one node for each number, and the node of every node.
-- @tparam graph graph without ties
-- @tparam {int,...} number by node; what it makes is to have no cycle
-- @treturn graph
-- @treturn {int,...}
function M.by_number(graph, number)
   local nodes, of = M.group(graph.nodes, function(_, i) return number[i] end, function(node)
      return { id = node.id, op = node.op, scope = node.scope }
   end)
   local result = copy(graph, { nodes = nodes, edges = M.join(graph, of) })
   return setmetatable(result, getmetatable(graph)), of
end

--- A graph of one node for each scope, and the node of every node; nil where that has a cycle.
-- @tparam graph graph without ties
-- @tparam[opt] int depth names of a scope that count: 2 makes blocks of "encoder/block.3/attn"
-- @treturn[opt] graph
-- @treturn[opt] {int,...}
function M.by_scope(graph, depth)
   for _, node in ipairs(graph.nodes) do
      if node.tie or node.kind2_only then
         core.fail("invalid argument", ("graph:by_scope: node %s is %s, which a group cannot be")
            :format(node.id, node.tie and "tied to others" or "for devices of kind 2 alone"), 2)
      end
   end
   local function scope_of(node, i) return M.outer(node.scope, depth) or i end
   local nodes, of = M.group(graph.nodes, scope_of, function(node, i)
      return { id = tostring(scope_of(node, i)), scope = M.outer(node.scope, depth) }
   end)
   local edges = M.join(graph, of)
   if #builder.order(nodes, edges) < #nodes then return nil end
   local result = copy(graph, { nodes = nodes, edges = edges })
   return setmetatable(result, getmetatable(graph)), of
end

return M
