-- How many stages? L from as many as devices to six times that. Run: ftpipe examples/stages.lua
local ft = require("ftpipe")
local contract = require("ftpipe.graph.contract")

-- T5-3B in scopes: what is in one scope stays together.
local devices = "sim:8x2080ti"
local graph = contract.by_scope(ft.graph("t5-3b", {
   devices = devices, batch = 4, source = 512, target = 4,
}))
print(#graph.nodes)                 --> 124

local problem = graph:problem { devices = devices, recompute = "always", memory_factor = 2 }
local contiguous = ft.partition(problem, { method = "seq" })
print(contiguous.n_stages)          --> 8

-- More stages are cut finer and balance better; each one more is one more hand-over.
local best
for _, blocks in ipairs { 8, 16, 32, 48 } do
   local result = ft.partition(problem, { method = "mixed", blocks = blocks })
   local balance = ft.compare.balance(result)
   assert(result.n_stages <= blocks and balance <= 1)
   if not best or result.objective_ns < best.objective_ns then best = result end
end
print(best.n_stages > 8, best.objective_ns < 0.97 * contiguous.objective_ns)   --> true	true
print(ft.compare.balance(best) > 0.985)                                        --> true
