--- Weighted graphs as JSON of our own, and from it.

local core = require("ftpipe.core")
local builder = require("ftpipe.graph.builder")

local M = { format = "ftpipe weighted graph 1" }

local function list(rows, make)
   local result = {}
   for i, row in ipairs(rows) do result[i] = make(row) end
   return core.json.array(result)
end

local function copied(row, changes)
   local result = {}
   for key, value in pairs(row) do result[key] = value end
   for key, value in pairs(changes) do result[key] = value end
   return result
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
         return copied(node, {
            stage = result and result.stage[i], device = result and result.device[i],
         })
      end),
      edges = list(graph.edges, function(edge)
         return copied(edge, {
            from = graph.nodes[edge.from].id, to = graph.nodes[edge.to].id,
         })
      end),
   }
   return core.json.encode(root, { sort = true }) .. "\n"
end

--- Whether a decoded file is of this kind.
function M.is(root) return root.format ~= nil end

local function rows_of(root, key, path)
   if type(root[key]) ~= "table" or getmetatable(root[key]) ~= core.json.array_meta then
      builder.malformed("%s: no list \"%s\"", path, key)
   end
   return root[key]
end

--- @tparam table root the decoded file
-- @tparam string path for messages
-- @treturn table parts of a graph
function M.read(root, path)
   if root.format ~= M.format then
      builder.malformed("%s: format is '%s', expected '%s'", path, tostring(root.format), M.format)
   end
   local b = builder.new(path)
   for i, row in ipairs(rows_of(root, "nodes", path)) do
      local where = ("%s: node %d"):format(path, i)
      if type(row) ~= "table" then builder.malformed("%s: expected an object", where) end
      b:node(where, row)
   end
   for e, row in ipairs(rows_of(root, "edges", path)) do
      local where = ("%s: edge %d"):format(path, e)
      if type(row) ~= "table" then builder.malformed("%s: expected an object", where) end
      b:edge(where, row.from, row.to, row)
   end
   local parts = b:finish()
   parts.devices = root.devices and rows_of(root, "devices", path)
   for d, device in ipairs(parts.devices or {}) do
      for key, value in pairs(device) do
         builder.cost(("%s: device %d"):format(path, d), key, value)
      end
   end
   parts.memory_factor = root.memory_factor
      and builder.cost(path, "memory_factor", root.memory_factor)
   return parts
end

return M
