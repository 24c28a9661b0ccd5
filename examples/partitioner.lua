-- A partitioner in twenty lines. Run: ftpipe examples/partitioner.lua
--
-- A partitioner is a function from a problem (lists by node and by edge, devices) to a device for
-- each node. What it gives is checked and priced as what the others give is.
local ft = require("ftpipe")

-- Cuts the nodes in their order where a device has had its share of the work.
local function by_share(problem)
   local times, total = problem.node_ns[1], 0
   for _, ns in ipairs(times) do total = total + ns end
   local share, device, sum, on = total / #problem.devices, 1, 0, {}
   for i, ns in ipairs(times) do
      if sum + ns / 2 > share * device and device < #problem.devices then device = device + 1 end
      sum, on[i] = sum + ns, device
   end
   return on
end

local graph = ft.graph("gpt2-xl", { devices = "sim:8x2080ti", batch = 1, source = 1024 })
local problem = graph:problem { devices = "sim:8x2080ti", recompute = "always" }

local own = ft.partition(problem, { method = by_share })
local exact = ft.partition(problem, { method = "seq" })
print(own.n_stages, own.n_stages == exact.n_stages)            --> 8	true
print(own.objective_ns >= exact.objective_ns, exact.proved)    --> true	true
print(own.objective_ns / exact.objective_ns < 1.1)             --> true

-- What makes no sense is refused, as it is for any other.
local _, problem_found = pcall(ft.partition, problem, { method = function() return { 1, 2 } end })
print((tostring(problem_found):match("gave (.*)")))
--> 2 devices, expected one for each of 486 nodes
