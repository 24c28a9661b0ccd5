--- Reads the text profiles of "PipeDream: Generalized Pipeline Parallelism for DNN Training"
-- (Narayanan et al., SOSP 2019): times in milliseconds, bytes of outputs and parameters.

local builder = require("ftpipe.graph.builder")

local M = {}

local NS_PER_MS = 1e6

-- "[1.0; 2.0]" is the sizes of several outputs.
local function sizes_of(text)
   local sum
   for part in text:gsub("[%[%]]", ""):gmatch("[^;]+") do
      local value = tonumber(part)
      if not value then return text end
      sum = (sum or 0) + value
   end
   return sum or text
end

-- Key of the file, key of a node, factor.
local columns = {
   { "forward_compute_time", "forward_ns", NS_PER_MS },
   { "backward_compute_time", "backward_ns", NS_PER_MS },
   { "activation_size", "output_bytes", 1 },
   { "parameter_size", "parameter_bytes", 1 },
}

local function parse_node(line, where)
   local id, description, values = line:match("^(%S+) %-%- (.-) %-%- (.*)$")
   if not id then
      builder.malformed("%s: neither a node, 'id -- description -- key=value, ...', nor an edge",
         where)
   end
   local given = {}
   values = values:gsub(" %-%- .*$", "")
   for item in (values .. ", "):gmatch("(.-), ") do
      local key, text = item:match("^%s*([%w_]+)=(.*)$")
      if key then given[key] = sizes_of(text) end
   end
   local row = { id = id, name = description }
   for _, column in ipairs(columns) do
      row[column[2]] = builder.cost(where, column[1], given[column[1]]) * column[3]
   end
   row.saved_bytes = row.output_bytes
   return row
end

--- Rows of nodes and of edges, each with its place.
local function parse(text, path)
   local nodes, edges, n = {}, {}, 0
   for line in (text .. "\n"):gmatch("(.-)\r?\n") do
      n = n + 1
      local where = ("%s:%d"):format(path, n)
      if line:sub(1, 1) == "\t" then
         local from, to = line:match("^\t(%S+) %-%- (%S+)$")
         if not from then
            builder.malformed("%s: not an edge, 'source -- destination'", where)
         end
         edges[#edges + 1] = { from = from, to = to, where = where }
      elseif line:match("%S") then
         nodes[#nodes + 1] = { row = parse_node(line, where), where = where }
      end
   end
   return nodes, edges
end

--- Ids that stay out: sources named Input, where data is loaded, and sinks that only pick an
-- element.
local function ends(nodes, edges)
   local is_target, is_source, dropped = {}, {}, {}
   for _, edge in ipairs(edges) do is_target[edge.to], is_source[edge.from] = true, true end
   for _, node in ipairs(nodes) do
      local id, name = node.row.id, node.row.name
      dropped[id] = not is_target[id] and name:match("^Input") ~= nil
         or not is_source[id] and name:match("^__getitem__") ~= nil
   end
   return dropped
end

--- A node's output is sent to every user, and as many bytes of gradients come back.
-- @tparam string text
-- @tparam string path for messages
-- @treturn table parts of a graph
function M.read(text, path)
   local b = builder.new(path)
   local nodes, edges = parse(text, path)
   local dropped, output = ends(nodes, edges), {}
   for _, node in ipairs(nodes) do
      output[node.row.id] = node.row.output_bytes
      if not dropped[node.row.id] then b:node(node.where, node.row) end
   end
   for _, edge in ipairs(edges) do
      if not dropped[edge.from] and not dropped[edge.to] then
         local bytes = output[edge.from]
         b:edge(edge.where, edge.from, edge.to, { bytes = bytes, grad_bytes = bytes })
      end
   end
   return b:finish()
end

return M
