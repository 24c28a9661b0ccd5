--- Weighted graphs as JSON of our own, and from it.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local builder = require("ftpipe.graph.builder")

local M = { format = "ftpipe weighted graph 1" }

local function list(rows, make)
   local result = {}
   for i, row in ipairs(rows) do result[i] = make(row) end
   return core.json.array(result)
end

--- @tparam graph graph
-- @tparam[opt] table result of ft.partition, to put stage and device in
-- @treturn string
function M.write(graph, result)
   local i = 0
   local root = {
      format = M.format,
      memory_factor = graph.memory_factor,
      devices = graph.devices and core.json.array(graph.devices),
      nodes = list(graph.nodes, function(node)
         i = i + 1
         return copy(node, {
            stage = result and result.stage[i] - 1, device = result and result.device[i] - 1,
         })
      end),
      edges = list(graph.edges, function(edge)
         return copy(edge, {
            from = graph.nodes[edge.from].id, to = graph.nodes[edge.to].id,
         })
      end),
   }
   return core.json.encode(root, { sort = true }) .. "\n"
end

--- Whether a decoded file is of this kind.
function M.is(root) return root.format ~= nil end

-- Stage and device are what `write` adds of a partition.
local node_keys = builder.names(builder.node_numbers, builder.node_words, builder.node_flags,
   { "id", "tie", "stage", "device" })
local edge_keys = builder.names(builder.edge_numbers, { "from", "to", "value" })
local root_keys = builder.names { "format", "memory_factor", "devices", "nodes", "edges" }

local function check_keys(row, where, known)
   for key in pairs(builder.object(row, where)) do builder.check_key(where, key, known) end
end

--- @tparam table root the decoded file
-- @tparam string path for messages
-- @treturn table parts of a graph
function M.read(root, path)
   if root.format ~= M.format then
      builder.malformed("%s: format is '%s', expected '%s'", path, root.format, M.format)
   end
   check_keys(root, path, root_keys)
   local b = builder.new(path)
   for i, row in ipairs(builder.list(root, "nodes", path)) do
      local where = ("%s: node %d"):format(path, i)
      check_keys(row, where, node_keys)
      b:node(where, row)
   end
   for e, row in ipairs(builder.list(root, "edges", path)) do
      local where = ("%s: edge %d"):format(path, e)
      check_keys(row, where, edge_keys)
      b:edge(where, row.from, row.to, row)
   end
   local parts = b:finish()
   for d, row in ipairs(root.devices and builder.list(root, "devices", path) or {}) do
      local where = ("%s: devices[%d]"):format(path, d)
      parts.devices = parts.devices or {}
      parts.devices[d] = builder.device(where, builder.object(row, where))
   end
   parts.memory_factor = root.memory_factor
      and builder.cost(path, "memory_factor", root.memory_factor)
   return parts
end

return M
