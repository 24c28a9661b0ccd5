--- PipeDream's partitioner finds what trying every split finds.

local cases = require("spec.support.cases")
local ft = require("ftpipe")
local random = require("ftpipe.base.random")

--- A chain of 2 to 5 nodes on 2 to 6 devices alike, in one level or two; half with little memory.
local function draw(seed)
   local numbers = random.new(seed)
   local function to(n) return numbers:integer(n) end
   local problem = {
      node_ns = {}, fixed_bytes = {}, edge_from = {}, edge_to = {}, edge_bytes = {}, devices = {},
   }
   for i = 1, 1 + to(4) do
      problem.node_ns[i], problem.fixed_bytes[i] = 10 * to(20), to(9) - 1
      if i > 1 then
         local e = i - 1
         problem.edge_from[e], problem.edge_to[e], problem.edge_bytes[e] = e, i, to(200)
      end
   end
   local levels = ({ { 1 + to(5) }, { 2, 2 }, { 3, 2 }, { 2, 3 }, { 1 + to(4) } })[to(5)]
   if #levels == 2 then
      problem.level_devices, problem.level_bytes_per_s = levels, { 1e9, 1e9 / to(4) }
   end
   local memory = to(2) == 1 and to(10) or 0
   for d = 1, levels[1] * (levels[2] or 1) do
      problem.devices[d] = { bytes_per_s = 1e9, memory_bytes = memory }
   end
   return problem
end

--- The cheapest of all splits into stages with replicas that use every device; nil if none is
-- possible. `most`: replicas of a stage.
local function cheapest(problem, most)
   local best
   local n, n_devices, device = #problem.node_ns, #problem.devices, {}
   local function go_on(node, first)
      if node > n then
         if first <= n_devices then return end
         local priced, result = pcall(ft.partition.evaluate, problem, device, nil, "pipedream")
         if priced and (not best or result.objective_ns < best) then best = result.objective_ns end
         return
      end
      for last = node, n do
         device[last] = first
         for r = 1, math.min(most, n_devices - first + 1) do
            if last < n or first + r > n_devices then go_on(last + 1, first + r) end
         end
      end
   end
   go_on(1, 1)
   return best
end

describe("the partition pipedream", function()
   it("exchanges gradients between machines at the rate of all links of one", function()
      -- 3e-9 GB: within a machine 4 * 1 / 2 * 3 ns, between two of two cards 4 * 1 / 2 * 6 / 2 ns
      local result = ft.partition({ node_ns = { 90 }, fixed_bytes = { 3 }, edge_from = {},
         edge_to = {}, edge_bytes = {}, devices = { {}, {}, {}, {} }, level_devices = { 2, 2 },
         level_bytes_per_s = { 1e9, 0.5e9 } }, { method = "pipedream" })
      assert.is_true(math.abs(result.objective_ns - ((90 + 6) / 2 + 6) / 2) < 1e-9)
      assert.same({ 4 }, result.stage_replicas)
   end)

   it("prices what a stage in the middle sends by its own replicas", function()
      local devices = {}
      for d = 1, 4 do devices[d] = { bytes_per_s = 1e9 } end
      local result = ft.partition({ node_ns = { 60, 60, 120 }, fixed_bytes = { 100, 100, 0 },
         edge_from = { 1, 2 }, edge_to = { 2, 3 }, edge_bytes = { 0, 50 }, devices = devices },
         { method = "pipedream" })
      assert.same({ 1, 1, 2 }, result.stage_replicas)
      assert.is_true(math.abs(result.objective_ns - 2 * 50) < 1e-9)
   end)

   for _, straight in ipairs { false, true } do
      it("is the cheapest of all splits" .. (straight and " without replicas" or ""), function()
         local found, none = 0, 0
         for seed = 1, cases.count(1000) do
            local problem = draw(seed)
            if not straight or not problem.level_devices then
               local best = cheapest(problem, straight and 1 or #problem.devices)
               local solved, result = pcall(ft.partition, problem,
                  { method = "pipedream", straight = straight })
               assert.equal(best ~= nil, solved, ("seed %d: %s"):format(seed, tostring(result)))
               if best then
                  assert.is_true(math.abs(result.objective_ns / best - 1) < 1e-9,
                     ("seed %d: %g ns, the cheapest takes %g"):format(seed, result.objective_ns,
                        best))
                  local priced = ft.partition.evaluate(problem, result.device, result.stage,
                     "pipedream")
                  assert.is_true(math.abs(priced.objective_ns / best - 1) < 1e-9)
               end
               found, none = found + (best and 1 or 0), none + (best and 0 or 1)
            end
         end
         assert.is_true(found > 0 and none > 0)
      end)
   end
end)
