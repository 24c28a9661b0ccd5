--- Reads the JSON of "Efficient Algorithms for Device Placement of DNN Graph Operators" (Tarnawski
-- et al., NeurIPS 2020): nodes with latencies on accelerators and on CPUs, the devices in it.
--
-- Latencies and transfers are in milliseconds; a byte of the graph is a nanosecond of transfer.
-- Accelerators are of kind 1; CPUs, which pay no transfers and have no limit of memory, of kind 2.

local builder = require("ftpipe.graph.builder")

local M = {}

local NS_PER_MS = 1e6
local MOST_DEVICES = 1024

--- Files have 0 and 1, or booleans.
local function flag(where, key, value, preset)
   if value == nil then return preset end
   if value ~= 0 and value ~= 1 and type(value) ~= "boolean" then
      builder.malformed("%s: %s is %s, expected 0 or 1", where, key, value)
   end
   return value == 1 or value == true
end

local function count_of(root, key, path)
   local n = builder.cost(path, key, root[key])
   if n > MOST_DEVICES or n % 1 ~= 0 then
      builder.malformed("%s: %s is %s, expected a count up to %d", path, key, root[key],
         MOST_DEVICES)
   end
   return n
end

local function devices_of(root, path)
   local devices, memory = {}, builder.cost(path, "maxSizePerFPGA", root.maxSizePerFPGA)
   for _ = 1, count_of(root, "maxFPGAs", path) do
      devices[#devices + 1] = { kind = 1, bytes_per_s = 1e9, memory_bytes = math.floor(memory) }
   end
   if root.maxCPUs ~= nil then
      for _ = 1, count_of(root, "maxCPUs", path) do devices[#devices + 1] = { kind = 2 } end
   end
   if #devices == 0 then builder.malformed("%s: maxFPGAs is 0 and there are no CPUs", path) end
   return devices
end

local function add_node(b, row, where)
   builder.object(row, where)
   local backward = flag(where, "isBackwardNode", row.isBackwardNode, false)
   local class = row.colorClass
   b:node(where, {
      id = row.id,
      name = row.name,
      [backward and "backward_ns" or "forward_ns"] =
         builder.cost(where, "fpgaLatency", row.fpgaLatency) * NS_PER_MS,
      ns2 = builder.cost(where, "cpuLatency", row.cpuLatency) * NS_PER_MS,
      parameter_bytes = builder.cost(where, "size", row.size),
      tie = not (type(class) == "number" and class < 0) and class or nil,
      backward = backward,
      kind2_only = not flag(where, "supportedOnFpga", row.supportedOnFpga, true),
   })
end

local function add_edge(b, row, where, scale)
   builder.object(row, where)
   local ns = builder.cost(where, "cost", row.cost) * NS_PER_MS * scale
   b:edge(where, row.sourceId, row.destId, { bytes = math.floor(ns + 0.5) })
end

--- Whether a decoded file is of this kind.
function M.is(root) return root.maxFPGAs ~= nil end

--- @tparam table root the decoded file
-- @tparam string path for messages
-- @tparam[opt] table options transfer_scale multiplies transfers; 1000 where a file has them in
--   seconds
-- @treturn table parts of a graph, with devices
function M.read(root, path, options)
   local scale = options and options.transfer_scale or 1
   local b, devices = builder.new(path), devices_of(root, path)
   for i, row in ipairs(builder.list(root, "nodes", path)) do
      add_node(b, row, ("%s: node %d"):format(path, i))
   end
   for e, row in ipairs(builder.list(root, "edges", path)) do
      add_edge(b, row, ("%s: edge %d"):format(path, e), scale)
   end
   local parts = b:finish()
   parts.devices = devices
   -- what a node needs in memory is all of it: training adds nothing
   parts.memory_factor = 1
   return parts
end

return M
