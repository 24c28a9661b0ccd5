--- Profiled graphs of other systems as partition problems.

local core = require("ftpipe.core")

local M = {}

local NS_PER_MS = 1e6

local function malformed(format, ...)
   core.fail("malformed data", format:format(...))
end

-- ---------------------------------------------------------------------------------------------
-- Device placement: JSON of "Efficient Algorithms for Device Placement of DNN Graph Operators"
-- (Tarnawski et al., NeurIPS 2020).

local function flag(value) return value == true or value == 1 end

local function number_of(row, key, where, preset)
   local value = row[key]
   if value == nil then value = preset end
   if type(value) ~= "number" or not (value >= 0 and value < math.huge) then
      malformed("%s: %s is %s, expected a number, 0 or more", where, key, tostring(row[key]))
   end
   return value
end

local function list_of(root, key, path)
   if type(root[key]) ~= "table" or getmetatable(root[key]) ~= core.json.array_meta then
      malformed("%s: no list \"%s\"", path, key)
   end
   return root[key]
end

-- Accelerators are of kind 1; CPUs, which pay no transfers and have no limit of memory, of kind 2.
local function placement_devices(root, path)
   local devices = {}
   for _ = 1, number_of(root, "maxFPGAs", path) do
      devices[#devices + 1] = {
         kind = 1, bytes_per_s = 1e9, memory_bytes = number_of(root, "maxSizePerFPGA", path),
      }
   end
   for _ = 1, number_of(root, "maxCPUs", path, 0) do devices[#devices + 1] = { kind = 2 } end
   return devices
end

local function add_placement_node(problem, row, i, where)
   problem.names[i] = tostring(row.name or row.id)
   problem.node_ns[1][i] = number_of(row, "fpgaLatency", where) * NS_PER_MS
   problem.node_ns[2][i] = number_of(row, "cpuLatency", where) * NS_PER_MS
   problem.fixed_bytes[i] = math.floor(number_of(row, "size", where))
   problem.backward[i] = flag(row.isBackwardNode)
   problem.tie[i] = type(row.colorClass) == "number" and row.colorClass or -1
   if flag(row.supportedOnFpga) then return end
   for d, device in ipairs(problem.devices) do
      if device.kind == 1 then
         table.insert(problem.forbid_node, i)
         table.insert(problem.forbid_device, d)
      end
   end
end

local function index_of(index, id, where)
   if index[id] then return index[id] end
   malformed("%s: there is no node %s", where, tostring(id))
end

--- Reads a device-placement file. A byte of the problem is a nanosecond of transfer.
-- @tparam string path
-- @tparam[opt=1] number transfer_scale multiplies transfers; 1000 where a file has them in seconds
--   beside latencies in milliseconds
-- @treturn table a problem for ft.partition, with .path
function M.device_placement(path, transfer_scale)
   local root = core.json.read(path)
   if type(root) ~= "table" then malformed("%s: expected an object", path) end
   local problem = {
      names = {}, node_ns = { {}, {} }, fixed_bytes = {}, backward = {}, tie = {},
      forbid_node = {}, forbid_device = {},
      edge_from = {}, edge_to = {}, edge_bytes = {}, devices = placement_devices(root, path),
   }
   local index = {}
   for i, row in ipairs(list_of(root, "nodes", path)) do
      local where = ("%s: node %d"):format(path, i)
      if row.id == nil or index[row.id] then
         malformed("%s: its id %s is missing or taken", where, tostring(row.id))
      end
      index[row.id] = i
      add_placement_node(problem, row, i, where)
   end
   for e, row in ipairs(list_of(root, "edges", path)) do
      local where = ("%s: edge %d"):format(path, e)
      problem.edge_from[e] = index_of(index, row.sourceId, where)
      problem.edge_to[e] = index_of(index, row.destId, where)
      problem.edge_bytes[e] = math.floor(
         number_of(row, "cost", where) * NS_PER_MS * (transfer_scale or 1) + 0.5)
   end
   return problem
end

-- ---------------------------------------------------------------------------------------------
-- PipeDream: text profiles of "PipeDream: Generalized Pipeline Parallelism for DNN Training"
-- (Narayanan et al., SOSP 2019).

-- "[1.0; 2.0]" is the sizes of several outputs.
local function sizes_of(text)
   local sum = 0
   for part in text:gsub("[%[%]]", ""):gmatch("[^;]+") do
      local value = tonumber(part)
      if not value then return nil end
      sum = sum + value
   end
   return sum
end

local columns = {
   "forward_compute_time", "backward_compute_time", "activation_size", "parameter_size",
}

local function parse_node(line, where)
   local id, description, values = line:match("^(%S+) %-%- (.-) %-%- (.*)$")
   if not id then malformed("%s: neither a node nor an edge", where) end
   local row = { id = id, description = description }
   values = values:gsub(" %-%- .*$", "")
   for key, text in (values .. ", "):gmatch("([%w_]+)=(.-), ") do row[key] = sizes_of(text) end
   for _, key in ipairs(columns) do number_of(row, key, where) end
   return row
end

--- Nodes by id and in order, and edges, of a profile.
local function parse_profile(path)
   local nodes, by_id, edges, n = {}, {}, {}, 0
   for line in (core.sys.read_file(path) .. "\n"):gmatch("(.-)\r?\n") do
      n = n + 1
      local where = ("%s:%d"):format(path, n)
      if line:sub(1, 1) == "\t" then
         local from, to = line:match("^\t(%S+) %-%- (%S+)$")
         if not from then malformed("%s: not an edge, 'source -- destination'", where) end
         edges[#edges + 1] = { from = from, to = to, where = where }
      elseif line:match("%S") then
         local row = parse_node(line, where)
         if by_id[row.id] then malformed("%s: node %s again", where, row.id) end
         nodes[#nodes + 1], by_id[row.id] = row, row
      end
   end
   return nodes, by_id, edges
end

--- Sources named Input are where data is loaded and stay out of the partition; so do sinks that
-- only pick an element.
local function drop_ends(nodes, edges)
   local is_target, is_source = {}, {}
   for _, edge in ipairs(edges) do is_target[edge.to] = true end
   for _, node in ipairs(nodes) do
      node.dropped = not is_target[node.id] and node.description:match("^Input") ~= nil
   end
   for _, edge in ipairs(edges) do is_source[edge.from] = true end
   for _, node in ipairs(nodes) do
      if not is_source[node.id] and node.description:match("^__getitem__") then
         node.dropped = true
      end
   end
end

--- Reads a profile of PipeDream. Times become ns; a node's output is sent to every user, and as
-- many bytes of gradients come back.
-- @tparam string path
-- @treturn table a problem for ft.partition, without devices
function M.pipedream(path)
   local nodes, by_id, edges = parse_profile(path)
   drop_ends(nodes, edges)
   local problem = {
      names = {}, node_ns = {}, fixed_bytes = {}, saved_bytes = {},
      edge_from = {}, edge_to = {}, edge_bytes = {}, edge_grad_bytes = {},
   }
   local n = 0
   for _, node in ipairs(nodes) do
      if not node.dropped then
         n = n + 1
         node.index = n
         problem.names[n] = node.description
         problem.node_ns[n] = (node.forward_compute_time + node.backward_compute_time) * NS_PER_MS
         problem.fixed_bytes[n] = node.parameter_size
         problem.saved_bytes[n] = node.activation_size
      end
   end
   for _, edge in ipairs(edges) do
      local from, to = by_id[edge.from], by_id[edge.to]
      if not from or not to then
         malformed("%s: there is no node %s", edge.where, from and edge.to or edge.from)
      end
      if from.index and to.index then
         local e = #problem.edge_from + 1
         problem.edge_from[e], problem.edge_to[e] = from.index, to.index
         problem.edge_bytes[e] = from.activation_size
         problem.edge_grad_bytes[e] = from.activation_size
      end
   end
   return problem
end

return M
