--- How long partitioners take: T5-3B by operators, and as graphs and clusters grow.
--
--    ftpipe bench/partition.lua
--
-- Times are of the processor, on one core, with the problem's way from Lua to C and back.

package.path = "bench/?.lua;" .. package.path
local ft = require("ftpipe")
local peer = require("peer")

-- ---------------------------------------------------------------------------------------------
-- What was found, in how long.

local function solve(problem, options)
   local start = os.clock()
   local result = ft.partition(problem, options)
   return result, os.clock() - start
end

--- Prints a line, and the seconds as the figure of a gate, if it has one.
local function report(what, gate, result, seconds)
   print(("%-44s %8.3f s  slowest %9.2f ms, %5.2f %% above the bound, %3d stages"):format(what,
      seconds, result.objective_ns / 1e6, 100 * result.gap, result.n_stages))
   if gate then peer.gate(gate, seconds) end
end

-- ---------------------------------------------------------------------------------------------
-- T5-3B on eight cards.

local function t5_3b()
   local devices = "sim:8x2080ti"
   local graph = ft.graph("t5-3b", { devices = devices, batch = 4, source = 512, target = 4 })
   local problem = graph:problem { devices = devices, recompute = "but-last", memory_factor = 2 }
   print(("T5-3B, 4 x 512 / 4, on %s: %d operators, %d edges"):format(devices, #graph.nodes,
      #graph.edges))
   report("mixed, L = 16, an effort of 4", "partition-mixed", solve(problem,
      { method = "mixed", blocks = 16, effort = 4 }))
   report("mixed, L = 16, a deadline of 1 ms", "partition-deadline", solve(problem,
      { method = "mixed", blocks = 16, deadline_ms = 1 }))
   report("seq", nil, solve(problem, { method = "seq" }))
   report("best: every method, L swept", "partition-best", solve(problem, { method = "best" }))
end

-- ---------------------------------------------------------------------------------------------
-- Growth.

--- A problem of n blocks as in an encoder and a decoder: a chain, every fourth block also feeds one
-- three further on, and the encoder's last value goes to every eighth block of the decoder.
local function layers(n, n_devices)
   local problem = {
      node_ns = {}, edge_from = {}, edge_to = {}, edge_bytes = {}, edge_grad_bytes = {},
      devices = {},
   }
   local function edge(from, to)
      if to > n then return end
      local e = #problem.edge_from + 1
      problem.edge_from[e], problem.edge_to[e] = from, to
      problem.edge_bytes[e], problem.edge_grad_bytes[e] = 2 ^ 23, 2 ^ 23
   end
   local half = math.floor(n / 2)
   for i = 1, n do
      problem.node_ns[i] = (i % 5 > 0 and 2e5 or 4e6) * (0.9 + i * 7919 % 1000 / 5000)
         * (i <= half and 6 or 1)
      edge(i, i + 1)
      if i % 4 == 0 then edge(i, i + 3) end
      if i > half + 2 and i % 8 == 0 then edge(half, i) end
   end
   for d = 1, n_devices do problem.devices[d] = { bytes_per_s = 12e9 } end
   return problem
end

-- Nodes, devices, and the gate for what mixed takes.
local SIZES = {
   { 100, 8 }, { 300, 8 }, { 1000, 8 }, { 3000, 8 }, { 10000, 8 },
   { 10000, 2 }, { 10000, 4 }, { 10000, 16 }, { 10000, 32 }, { 10000, 64, "partition-large" },
}

--- A bar as long as the logarithm of a time from 0.1 ms on.
local function bar(seconds)
   return ("#"):rep(math.max(0, math.floor(6 * math.log10(seconds / 1e-4) + .5)))
end

-- Of mixed, however large the graph is.
local EFFORT = 10

local function growth()
   local plot = {}
   for _, size in ipairs(SIZES) do
      local n, devices, gate = size[1], size[2], size[3]
      local problem = layers(n, devices)
      for _, method in ipairs { "greedy", "seq", "mixed" } do
         local result, seconds = solve(problem,
            { method = method, blocks = method == "mixed" and 2 * devices or nil, effort = EFFORT })
         local what = ("%5d blocks on %2d devices, %s"):format(n, devices, method)
         report(what, method == "mixed" and gate or nil, result, seconds)
         plot[#plot + 1] = ("%6s %5d x %2d |%s"):format(method, n, devices, bar(seconds))
      end
   end
   print("seconds, from 0.1 ms on, by blocks x devices; six # are a factor of ten")
   table.sort(plot)
   print(table.concat(plot, "\n"))
end

t5_3b()
growth()
