--- Nodes that read one weight, as an embedding and a head do. On several devices its gradients are
-- summed and its new values passed once a batch, which no partitioner prices; on one they are not.

local core = require("ftpipe.core")

local M = {}

-- Of what a device computes for a batch, the part that passing a weight has to be to count.
local WORTH = 0.001

--- Seconds that a device computes for a batch if all have equal work, and how fast its link is.
local function scale(weighted, o)
   local ns, devices, rate = 0, core.engine.devices(o.devices), math.huge
   for _, node in ipairs(weighted.nodes) do ns = ns + node.forward_ns + node.backward_ns end
   for _, device in ipairs(devices) do
      if device.link_bytes_per_s > 0 then rate = math.min(rate, device.link_bytes_per_s) end
   end
   return ns / 1e9 * o.micro_batches / #devices, rate
end

--- Gives the nodes of a set one number; what any of them is tied to already gets it as well.
local function tie(ties, set, number)
   local old = {}
   for n in pairs(set) do old[ties[n]] = ties[n] >= 0 or nil end
   for n, known in ipairs(ties) do
      if set[n] or old[known] then ties[n] = number end
   end
end

--- Numbers of nodes that are to share a device, for the weights that are worth it.
-- @tparam graph graph of operators
-- @tparam {int,...} of by forward node of it, the node that stands for it
-- @tparam graph weighted whose nodes these are
-- @tparam table o devices, micro_batches
-- @treturn[opt] {int,...} by node of `weighted`, -1: with none; nil when all are
function M.of(graph, of, weighted, o)
   local readers, ties, any = {}, {}, false
   for n = 1, graph:counts().forward do
      for _, param in ipairs(graph:node(n).params) do
         readers[param] = readers[param] or {}
         readers[param][of[n]] = true
      end
   end
   for n in ipairs(weighted.nodes) do ties[n] = -1 end
   local seconds, rate = scale(weighted, o)
   for number, param in ipairs(graph:params()) do
      local set, bytes = readers[number] or {}, 4
      for _, size in ipairs(param.dims) do bytes = bytes * size end
      local several = next(set) and next(set, next(set)) and not param.frozen
      if several and 2 * bytes / rate > WORTH * seconds then
         tie(ties, set, number)
         any = true
      end
   end
   return any and ties or nil
end

return M
