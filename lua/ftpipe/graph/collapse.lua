--- Graphs as people look at them: nodes of one scope as one, and in layers.

local M = {}

local SUMMED = { "forward_ns", "backward_ns", "parameter_bytes", "saved_bytes", "flops" }

--- The first `depth` parts of a scope: "encoder/block.3" of "encoder/block.3/attn" at 2.
local function prefix(scope, depth)
   local parts = {}
   for part in scope:gmatch("[^/]+") do
      if #parts == depth then break end
      parts[#parts + 1] = part
   end
   return table.concat(parts, "/")
end

--- Sums the nodes of one group into one; a node without a scope stays alone. Groups of different
-- stages stay apart. The result may have cycles, and is for looking at only.
-- @tparam graph graph
-- @tparam int depth of scopes
-- @tparam[opt] table result of ft.partition
-- @treturn table { nodes = with count =, stage =, device =; edges = }
function M.groups(graph, depth, result)
   local nodes, by_key, group_of = {}, {}, {}
   for i, node in ipairs(graph.nodes) do
      local label = node.scope and prefix(node.scope, depth) or node.name or node.id
      local stage = result and result.stage[i]
      local key = (node.scope and "s" or "n" .. i) .. " " .. label .. " " .. tostring(stage)
      local group = by_key[key]
      if not group then
         group = {
            id = label, count = 0, stage = stage, device = result and result.device[i],
            number = #nodes + 1,
         }
         for _, name in ipairs(SUMMED) do group[name] = 0 end
         nodes[#nodes + 1], by_key[key] = group, group
      end
      group.count = group.count + 1
      for _, name in ipairs(SUMMED) do group[name] = group[name] + node[name] end
      group_of[i] = group
   end
   return { nodes = nodes, edges = M.joined(graph, group_of) }
end

--- Edges between groups, the bytes of each value counted once.
function M.joined(graph, group_of)
   local edges, by_ends, sent = {}, {}, {}
   for _, edge in ipairs(graph.edges) do
      local from, to = group_of[edge.from].number, group_of[edge.to].number
      if from ~= to then
         local key = from .. " " .. to
         local value = key .. " " .. edge.from .. " " .. tostring(edge.value)
         local joined = by_ends[key]
         if not joined then
            joined = { from = from, to = to, bytes = 0 }
            edges[#edges + 1], by_ends[key] = joined, joined
         end
         if not sent[value] then joined.bytes, sent[value] = joined.bytes + edge.bytes, true end
      end
   end
   return edges
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
