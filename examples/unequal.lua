-- Cards that are not alike: two of one kind and two of another. Run: ftpipe examples/unequal.lua
local ft = require("ftpipe")

local devices = "sim:2x2080ti,2x3090"
local graph = ft.graph("bert-large-uncased", { devices = devices, batch = 8, source = 384 })
local problem = graph:problem { devices = devices, recompute = "always" }
local result = ft.partition(problem, { method = "seq" })

-- Every node has a time on each kind of card, and the faster cards get more of them.
print(#problem.node_ns)                                          --> 2
local work = { 0, 0 }
for node, device in ipairs(result.device) do
   local kind = problem.devices[device].kind
   work[kind] = work[kind] + graph.nodes[node].flops
end
print(work[2] > work[1])                                         --> true

-- As if all were of the slower kind, it would take longer.
local slow = "sim:4x2080ti"
local alike = ft.partition(ft.graph("bert-large-uncased", {
   devices = slow, batch = 8, source = 384,
}):problem { devices = slow, recompute = "always" }, { method = "seq" })
print(result.objective_ns < alike.objective_ns)                  --> true

-- One that is not there for the first layers: forbidden.
problem.forbid_node, problem.forbid_device = { 1 }, { 1 }
print(ft.partition(problem, { method = "seq" }).device[1] ~= 1)  --> true
