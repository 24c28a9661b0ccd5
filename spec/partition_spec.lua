local cases = require("spec.support.cases")
local ft = require("ftpipe")
local files = require("spec.support.files")

--- A chain of nodes with these times, ns; every value has as many bytes.
local function chain(times, bytes, devices)
   local problem = {
      node_ns = times, edge_from = {}, edge_to = {}, edge_bytes = {}, devices = {},
   }
   for i = 1, #times - 1 do
      problem.edge_from[i], problem.edge_to[i], problem.edge_bytes[i] = i, i + 1, bytes
   end
   for d = 1, devices do problem.devices[d] = { bytes_per_s = 1e9 } end
   return problem
end

local function set(problem, changes)
   for key, value in pairs(changes) do problem[key] = value end
   return problem
end

--- An embedding and so many layers of BERT, attention and feed-forward, on devices alike.
local function transformer(n_layers, devices)
   local problem, wide = chain({}, 0, devices), {}
   local function node(ns, width, ...)
      local i = #problem.node_ns + 1
      problem.node_ns[i], wide[i] = ns, width
      for _, from in ipairs { ... } do
         local e = #problem.edge_from + 1
         problem.edge_from[e], problem.edge_to[e] = from, i
         problem.edge_bytes[e] = 26 * wide[from]
      end
      return i
   end
   local x = node(153, 1)
   for _ = 1, n_layers do
      local q, k, v = node(26, 1, x), node(26, 1, x), node(26, 1, x)
      local y = node(5, 1, x, node(24, 1, node(4, 1, q, k, v)))
      x = node(5, 1, y, node(95, 1, node(6, 4, node(97, 4, y))))
   end
   node(3, 1, x)
   return problem
end

describe("ft.partition", function()
   it("finds the contiguous optimum of a chain", function()
      local result = ft.partition(chain({ 3, 1, 1, 3, 2, 2 }, 0, 3), { method = "seq" })
      assert.equal(4, result.objective_ns)
      assert.is_true(result.proved)
      assert.equal(3, result.n_stages)
      assert.equal(4, result.lower_bound_ns)
   end)

   it("places blocks apart where that balances better", function()
      local problem = chain({ 5, 1, 5, 5, 1, 1 }, 0, 3)
      assert.equal(6, ft.partition(problem, { method = "mixed" }).objective_ns)
      assert.equal(7, ft.partition(problem, { method = "seq" }).objective_ns)
   end)

   it("charges transfers under `sum` and hides them under `overlap`", function()
      local problem = chain({ 10, 10 }, 6, 2)
      assert.equal(16, ft.partition.evaluate(problem, { 1, 2 }, nil, "sum").objective_ns)
      assert.equal(10, ft.partition.evaluate(problem, { 1, 2 }).objective_ns)
      problem.edge_bytes[1] = 14
      assert.equal(14, ft.partition.evaluate(problem, { 1, 2 }).objective_ns)
   end)

   it("gives faster devices more", function()
      local problem = chain({ 1, 1, 1, 1, 1, 1 }, 0, 2)
      problem.devices[1].slowdown = 2
      assert.equal(4, ft.partition(problem, { method = "seq" }).objective_ns)
      assert.equal(4, ft.partition(problem).objective_ns)
   end)

   it("runs the last stage at its own profile", function()
      local problem = set(chain({ 4, 4, 4 }, 0, 2), { last_ns = { 2, 2, 2 } })
      local result = ft.partition(problem, { method = "seq" })
      assert.equal(4, result.objective_ns)
      assert.same({ 1, 2, 2 }, result.stage)
   end)

   it("keeps more micro-batches in earlier stages", function()
      local problem = set(chain({ 1, 1, 1, 1 }, 0, 2), {
         saved_bytes = { 10, 10, 10, 10 }, in_flight = 4,
      })
      for d = 1, 2 do problem.devices[d].memory_bytes = 30 end
      -- two in flight in the first stage: 2 x 10, and 3 x 10 in the last
      assert.same({ 1, 2, 2, 2 }, ft.partition(problem, { method = "seq" }).stage)
      problem.flat = true
      assert.fails_with(function() ft.partition(problem, { method = "seq" }) end, "keeps memory")
   end)

   it("clones cheap nodes instead of sending what they make", function()
      local problem = {
         node_ns = { 1, 10, 10 }, devices = { { bytes_per_s = 1e9 }, { bytes_per_s = 1e9 } },
         edge_from = { 1, 1 }, edge_to = { 2, 3 }, edge_bytes = { 100, 100 },
         cheap = { true, false, false },
      }
      local result = ft.partition.evaluate(problem, { 1, 1, 2 }, nil, "sum")
      assert.equal(11, result.objective_ns)
      assert.equal(11, result.loads[2].compute_ns)
      assert.equal(0, result.moved_bytes)
   end)

   it("keeps ties together and pins where they are", function()
      local problem = set(chain({ 5, 1, 1, 5 }, 0, 2), { tie = { 7, -1, -1, 7 } })
      local result = ft.partition(problem)
      assert.equal(result.device[1], result.device[4])
      problem.pin = { 0, 2, 0, 1 }
      result = ft.partition(problem)
      assert.same({ 1, 2 }, { result.device[1], result.device[2] })
   end)

   it("splits a stage where leaving and coming back would be a cycle", function()
      local result = ft.partition.evaluate(chain({ 1, 1, 1, 1, 1, 1 }, 0, 2), { 1, 2, 2, 2, 2, 1 })
      assert.same({ 1, 2, 2, 2, 2, 3 }, result.stage)
      assert.same({ 1, 2, 1 }, result.stage_device)
   end)

   it("gives the same for the same seed", function()
      local problem = chain({ 9, 7, 3, 8, 2, 6, 4, 5, 1, 7, 3, 9, 2, 8, 6, 5 }, 1, 3)
      local options = { method = "mixed", seed = 3, cost = "sum", max_stages = 5 }
      local first, again = ft.partition(problem, options), ft.partition(problem, options)
      assert.same(first, again)
      assert.is_true(first.n_stages <= 5)
   end)

   it("prices replicas under `pipedream`", function()
      -- 90 ns on three devices, which exchange 3e-9 GB each: 4 * 2 / 3 * 3 ns, shared by three
      local problem = set(chain({ 90, 20 }, 5, 4), { fixed_bytes = { 3, 0 } })
      local result = ft.partition.evaluate(problem, { 1, 4 }, nil, "pipedream")
      assert.same({ 3, 1 }, result.stage_replicas)
      assert.is_true(math.abs(result.objective_ns - (90 + 8) / 3) < 1e-9)
      local best = ft.partition(problem, { cost = "pipedream" })
      assert.equal("pipedream", best.method)
      assert.is_true(best.objective_ns <= result.objective_ns)
      assert.fails_with(function() ft.partition.evaluate(problem, { 2, 1 }, nil, "pipedream") end,
         "stage 0 is on device 1; pipedream prices one stage after another")
      assert.fails_with(function()
         ft.partition(problem, { cost = "pipedream", method = "seq" })
      end, "method seq cannot search by cost model pipedream")
   end)

   it("counts what is sent to each destination under `overlap`, once under `sum`", function()
      local problem = {
         node_ns = { 4, 9, 9 }, devices = {}, edge_from = { 1, 1 }, edge_to = { 2, 3 },
         edge_bytes = { 6, 6 },
      }
      for d = 1, 3 do problem.devices[d] = { bytes_per_s = 1e9 } end
      assert.equal(12, ft.partition.evaluate(problem, { 1, 2, 3 }).loads[1].price_ns)
      assert.equal(10, ft.partition.evaluate(problem, { 1, 2, 3 }, nil, "sum").loads[1].price_ns)
      assert.equal(12, ft.partition.evaluate(problem, { 1, 2, 3 }).loads[1].out_bytes)
      -- what is searched by sums of one stage is not proved where a value goes to two others
      local result = ft.partition(problem, { method = "seq" })
      assert.equal(12, result.objective_ns)
      assert.is_false(result.proved)
      assert.equal(9, result.method_bound_ns)
      -- but it says its bound, which is above that of all placements where a value takes longer
      problem.edge_bytes = { 10, 10 }
      result = ft.partition(problem, { method = "seq" })
      assert.is_false(result.proved)
      assert.same({ 9, 10, 20 },
         { result.lower_bound_ns, result.method_bound_ns, result.objective_ns })
      assert.match("122.2 %% above the optimum, 100.0 %% above the best that seq could find",
         tostring(result))
      problem.edge_bytes = { 6, 6 }
      assert.equal(12, ft.partition(problem, { method = "mixed" }).objective_ns)
      -- and is where it goes to one, though a bound of all placements is lower
      problem.edge_from, problem.edge_to, problem.edge_bytes = { 1 }, { 2 }, { 60 }
      result = ft.partition(problem, { method = "seq" })
      assert.is_true(result.proved)
      assert.equal(result.objective_ns, result.method_bound_ns)
   end)

   it("cuts nodes in their order, a stage for each device in turn", function()
      local problem = chain({ 6, 1, 1, 1, 1, 2 }, 0, 3)
      problem.devices[2].slowdown = 0.5
      local result = ft.partition(problem, { method = "seq", in_order = true })
      assert.same({ 1, 2, 3 }, result.stage_device)
      assert.equal(6, result.objective_ns)
      -- nothing takes any time, and no device is left out
      assert.equal(3, ft.partition(chain({ 0, 0, 0, 0, 0 }, 0, 3),
         { method = "seq", in_order = true }).n_stages)
      assert.fails_with(function()
         ft.partition(chain({ 1, 1 }, 0, 3), { method = "seq", in_order = true })
      end, "3 stages of a graph of 2 nodes")
      assert.fails_with(function()
         ft.partition(set(problem, { edge_from = { 2 }, edge_to = { 1 }, edge_bytes = { 0 } }),
            { method = "seq", in_order = true })
      end, "node 1 uses node 2, which stands after it")
      assert.fails_with(function() ft.partition(problem, { method = "mixed", in_order = true }) end,
         "mixed keeps no order")
   end)

   it("makes no more stages than asked for, by any method", function()
      local problem = chain({ 3, 1, 2, 3, 2, 2, 1, 4, 5, 2, 7, 1, 3, 4 }, 1, 4)
      for _, method in ipairs { "seq", "greedy", "mixed", "best" } do
         local result = ft.partition(problem, { method = method, blocks = 3 })
         assert.is_true(result.n_stages <= 3, method)
      end
      assert.fails_with(function()
         ft.partition(problem, { method = "pipedream", straight = true, blocks = 3 })
      end, "has 4 stages, more than the 3")
      assert.fails_with(function()
         ft.partition(chain({ 1, 1, 1 }, 0, 4), { method = "pipedream", straight = true })
      end, "a stage for each of 4 devices, and there are fewer places to cut at")
   end)

   it("greedy keeps stages contiguous and memory within its limits", function()
      local problem = chain({ 3, 1, 1, 3, 2, 2, 4, 1, 5, 2 }, 1, 3)
      for d = 1, 3 do problem.devices[d].memory_bytes = 5 end
      problem.fixed_bytes = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }
      local result = ft.partition(problem, { method = "greedy" })
      assert.is_true(result.n_stages <= 3)
      for _, load in ipairs(result.loads) do assert.is_true(load.memory_bytes <= 5) end
      assert.is_true(result.objective_ns >= ft.partition(problem, { method = "seq" }).objective_ns)
   end)

   it("stops at a deadline, and the effort that was spent by then gives the same", function()
      local times = {}
      for i = 1, 400 do times[i] = 1000 + i * i % 97 end
      local problem = chain(times, 10, 4)
      local options = { method = "mixed", blocks = 8, effort = 1e6, deadline_ms = 60 }
      local result = ft.partition(problem, options)
      assert.is_true(result.effort < 1e6)
      if result.effort > 0 then
         local again = ft.partition(problem,
            { method = "mixed", blocks = 8, effort = result.effort })
         assert.same(result.device, again.device)
         assert.equal(result.effort, again.effort)
      end
   end)

   it("spends the effort that it is given, and a larger one finds nothing slower", function()
      local times = {}
      for i = 1, 60 do times[i] = 1000 + i * i * 7 % 397 end
      local problem, last = chain(times, 300, 7), math.huge
      for _, effort in ipairs { 0.01, 1, 10 } do
         local result = ft.partition(problem, { method = "mixed", cost = "sum", effort = effort })
         assert.is_true(result.effort > 0 and result.effort <= effort)
         assert.is_true(result.objective_ns <= last)
         last = result.objective_ns
      end
      assert.matches("; effort [%d.]+\n", tostring(ft.partition(problem, { effort = 1 })))
      for _, effort in ipairs { -1, 0 } do
         assert.fails_with(function() ft.partition(problem, { effort = effort }) end,
            "option 'effort': expected more than 0, got ")
      end
      assert.fails_with(function() ft.partition(problem, { effort = 1e7 }) end,
         "option 'effort': expected at most 1000000, got 10000000")
      assert.fails_with(function() ft.partition(problem, { effort = 0 / 0 }) end,
         "option 'effort': expected a number, got 'nan'")
   end)

   it("refuses one value, or its gradient, in two sizes", function()
      local problem = {
         node_ns = { { 1e3, 1e3, 1e3 } },
         devices = { { bytes_per_s = 1e9 }, { bytes_per_s = 1e9 } },
         edge_from = { 1, 1 }, edge_to = { 2, 3 }, edge_bytes = { 10, 10 },
         edge_grad_bytes = { 0, 7 },
      }
      assert.fails_with(function() ft.partition(problem, {}) end,
         "the gradient of the value of node 1 has 0 bytes on edge 1, 7 on 2")
      problem.edge_value = { 1, 2 }
      assert.equal(3, #ft.partition(problem, {}).device)
      problem.edge_value, problem.edge_bytes, problem.edge_grad_bytes = nil, { 10, 20 }, nil
      assert.fails_with(function() ft.partition(problem, {}) end,
         "the value of node 1 has 10 bytes on edge 1, 20 on 2")
   end)

   it("mixed keeps to its stages in graphs of thousands of nodes", function()
      local times = {}
      for i = 1, 3000 do
         times[i] = (i % 5 == 0 and 4000 or 200) * (i <= 1500 and 6 or 1) + i % 7
      end
      local problem = chain(times, 100, 8)
      local seq = ft.partition(problem, { method = "seq" })
      local result = ft.partition(problem, { method = "mixed", blocks = 16, effort = 3 })
      assert.is_true(result.n_stages <= 16)
      assert.is_true(result.objective_ns <= seq.objective_ns)
      assert.is_true(result.gap < 0.005)
   end)

   it("best does no more work than so much before it refines, however large a graph is", function()
      local times, fixed = {}, {}
      for i = 1, 3000 do
         times[i] = (i % 5 == 0 and 4000 or 200) * (i <= 1500 and 6 or 1) + i % 7
         fixed[i] = 1000 + i * 7919 % 1000
      end
      local problem = set(chain(times, 100, 8), { fixed_bytes = fixed, saved_bytes = fixed })
      problem.in_flight = 8
      for i = 4, 2997, 4 do -- so that there are many down-sets
         local e = #problem.edge_from + 1
         problem.edge_from[e], problem.edge_to[e], problem.edge_bytes[e] = i, i + 3, 100
      end
      for _, device in ipairs(problem.devices) do device.memory_bytes = 3.5e6 end
      local result = ft.partition(problem, { max_stages = 16, effort = 1 })
      assert.is_true(result.n_stages <= 16)
      assert.is_true(result.work < 1100, result.work) -- 400 of seq, 400 of the sweep, 200, the rest
   end)

   it("prefers fewer bytes at the same speed", function()
      local result = ft.partition(chain({ 1, 1, 1, 1, 1, 1, 1, 1 }, 1, 2), { method = "mixed" })
      assert.equal(4, result.objective_ns)
      assert.equal(1, result.moved_bytes)
   end)

   it("mixed finds a long last stage, which recomputes nothing, without a limit", function()
      local graph = ft.graph("bert-base", { devices = "sim:3x2080ti", batch = 4, source = 128,
         target = 8 })
      local problem = graph:problem { devices = "sim:3x2080ti", recompute = "but-last",
         memory_factor = 4 }
      local function price(blocks)
         local options = { method = "mixed", effort = 4, blocks = blocks }
         return ft.partition(problem, options).objective_ns
      end
      assert.is_true(price() <= price(6))
   end)

   it("mixed shares layers out in another way altogether where that is faster", function()
      -- 601 with one feed-forward and more on four devices; less with two on five, none on one
      local problem = transformer(12, 8)
      for seed = 1, 3 do
         local result = ft.partition(problem,
            { method = "mixed", cost = "sum", effort = 40, seed = seed })
         assert.is_true(result.objective_ns < 590, result.objective_ns)
      end
   end)

   it("mixed places the others around a long last stage, unit by unit", function()
      local problem = transformer(8, 4)
      local last, fixed, saved, bytes = {}, {}, {}, 0
      for i, ns in ipairs(problem.node_ns) do
         last[i], fixed[i], saved[i] = 0.7 * ns, 10 * ns, 10
         bytes = bytes + fixed[i] + saved[i]
      end
      set(problem, { last_ns = last, fixed_bytes = fixed, saved_bytes = saved })
      problem.in_flight = 4
      local most = math.ceil(1.3 * bytes / 4)
      for _, device in ipairs(problem.devices) do device.memory_bytes = most end
      for seed = 1, 2 do -- 622 and 615 where the last stage moves with the others
         local result = ft.partition(problem, { method = "mixed", effort = 4, seed = seed })
         assert.is_true(result.objective_ns < 605, result.objective_ns)
      end
   end)

   it("mixed begins with blocks that may be on some device, whatever is pinned", function()
      local times, pin = {}, {}
      for i = 1, 40 do times[i], pin[i] = 10 + i % 3, i % 4 == 0 and i % 8 / 4 + 1 or 0 end
      local problem = set(chain(times, 3, 2), { pin = pin })
      local result = ft.partition(problem, { method = "mixed", effort = 1, cost = "sum" })
      for i = 1, 40 do
         if pin[i] > 0 then assert.equal(pin[i], result.device[i]) end
      end
      assert.is_true(result.gap > 0 and result.gap < 0.2, result.gap)
   end)

   it("trains T5-3B on eight devices: 363.2 ms contiguous, 318.6 ms mixed", function()
      local times, last, params = { 0 }, { 0 }, { 32870400 }
      for _, block in ipairs { { 90.8, 65.7, 50.33e6 }, { 15.4, 11.6, 67.11e6 } } do
         for _ = 1, 24 do
            times[#times + 1], last[#last + 1] = block[1] * 1e6, block[2] * 1e6
            params[#params + 1] = block[3]
         end
      end
      local problem = set(chain(times, 0, 8), { last_ns = last, fixed_bytes = params })
      for block = 27, 49 do
         table.insert(problem.edge_from, 25)
         table.insert(problem.edge_to, block)
         table.insert(problem.edge_bytes, 0)
      end
      local seq = ft.partition(problem, { method = "seq" })
      local mixed = ft.partition(problem, { method = "mixed" })
      assert.is_true(math.abs(seq.objective_ns / 1e6 - 363.2) < 1e-6)
      assert.is_true(math.abs(mixed.objective_ns / 1e6 - 318.6) < 1e-6)
      for _, load in ipairs(mixed.loads) do assert.is_true(load.memory_bytes <= 420e6) end
   end)
end)

describe("bad problems name the culprit:", function()
   local problems = {
      { "no nodes", { node_ns = {} }, "0 nodes" },
      { "no devices", { devices = {} }, "0 devices" },
      { "a cycle", { edge_from = { 1, 2, 3 }, edge_to = { 2, 3, 2 } }, "node [23] is on a cycle" },
      { "an edge to nowhere", { edge_to = { 2, 3, 9 } }, "edge 3 goes from node 3 to node 9" },
      { "a negative time", { node_ns = { 1, -2, 1, 1 } }, "node 2 takes %-2 ns" },
      { "an infinite time", { node_ns = { 1, 1, math.huge, 1 } }, "node 3 takes inf ns" },
      { "a time that is no number", { node_ns = { 1, 1, 0 / 0, 1 } }, "node 3 takes %-?nan ns" },
      { "negative bytes", { edge_bytes = { 1, 1, -1 } }, "edge 3 carries %-1 bytes" },
      { "a pin to nowhere", { pin = { 0, 5, 0, 0 } }, "pin%[2%] is 5, expected 0 to 2" },
      { "a node forbidden nowhere", { forbid_node = { 4 }, forbid_device = { 3 } },
         "forbid_device%[1%] is 3, expected 1 to 2" },
      { "pins apart of what is tied", { pin = { 1, 2, 0, 0 }, tie = { 3, 3, -1, -1 } },
         "node 1 is pinned to device 0, node 2, which is tied to it, to device 1" },
      { "a pin that is forbidden",
         { pin = { 1, 0, 0, 0 }, forbid_node = { 1 }, forbid_device = { 1 } },
         "node 1 is pinned to device 0 and forbidden it" },
      { "a node forbidden everywhere", { forbid_node = { 4, 4 }, forbid_device = { 1, 2 } },
         "node 4 is forbidden every device" },
      { "a name", { node_ns = { 1, 1, -5, 1 }, names = { "a", "b", "attention", "d" } },
         "node 3 %(attention%) takes" },
   }
   for _, case in ipairs(problems) do
      it(case[1], function()
         local problem = set(chain({ 1, 1, 1, 1 }, 1, 2), case[2])
         assert.fails_with(function() ft.partition(problem) end, case[3])
      end)
   end

   it("a node larger than every device", function()
      local problem = set(chain({ 1, 1 }, 1, 2), { fixed_bytes = { 5, 50 } })
      problem.devices = { { memory_bytes = 10 }, { memory_bytes = 20 } }
      local problem_found = files.failure(ft.partition, problem)
      assert.matches("node 2 needs 50 B, the largest device it may be on has 20 B",
         tostring(problem_found))
      assert.equal(3, problem_found.exit)
   end)

   it("placements, with stages and devices as a plan counts them", function()
      local problem = chain({ 1, 1, 1 }, 1, 2)
      problem.tie = { 1, 1, -1 }
      local function fails(device, stage, pattern)
         assert.fails_with(function() ft.partition.evaluate(problem, device, stage) end, pattern)
      end
      fails({ 1, 1, 3 }, nil, "device%[3%] is 3, expected 1 to 2")
      fails({ 1, 1, 2 }, { 1, 1, 4 }, "stage%[3%] is 4, expected 1 to 3")
      fails({ 1, 2, 2 }, nil, "node 2 is on device 1, a node tied to it on device 0$")
      fails({ 1, 1, 2 }, { 2, 2, 2 }, "stage 1 is on devices 0 and 1$")
      fails({ 1, 1, 2 }, { 2, 2, 1 }, "node 3 is in stage 0 and uses node 2, which is in stage 1$")
      problem.fixed_bytes = { 5, 5, 5 }
      problem.devices = { {}, { memory_bytes = 4 } }
      fails({ 1, 1, 2 }, nil, "device 1 needs 5 B, it has 4 B$")
   end)

   it("more blocks than nodes, unknown methods and keys", function()
      local problem = chain({ 1, 1 }, 1, 2)
      local function fails(options, pattern)
         assert.fails_with(function() ft.partition(problem, options) end, pattern)
      end
      fails({ method = "mixed", blocks = 3 }, "3 stages of a graph of 2 nodes")
      fails({ method = "metis" }, "method 'metis', expected one of seq, mixed")
      fails({ cost = "cheap" }, "cost model 'cheap', expected one of overlap, sum")
      fails({ sed = 1 }, "sed")
   end)
end)

describe("what is told of a placement", function()
   it("has its balance: the mean of the devices' times over the longest", function()
      local balance = require("ftpipe.planner.compare").balance
      local function of(...)
         local loads = {}
         for i, ns in ipairs { ... } do loads[i] = { price_ns = ns } end
         return balance { loads = loads }
      end
      assert.equal(0.75, of(2, 4, 3))
      assert.equal(0.25, of(0, 0, 7, 0))
      assert.equal(1, of(5, 5))
      assert.equal(1, of(0, 0))
   end)

   it("has no work on gradients of frozen weights", function()
      local function weight_ns(frozen)
         local node = { name = "a", forward_ns = 2, backward_ns = 6, parameter_bytes = 6,
            frozen_bytes = frozen, saved_bytes = 0 }
         local graph = setmetatable({ nodes = { node }, edges = {} }, { __name = "graph" })
         return require("ftpipe.placement.stages").of(graph, { {} },
            { stage = { 1 }, stage_device = { 1 } }).stages[1].weight_ns
      end
      assert.equal(3, weight_ns(nil))
      assert.equal(2, weight_ns(3)) -- half of them: half as much as is done on inputs
      assert.equal(0, weight_ns(6))
   end)

   it("has the times of its stages, on devices of every kind and speed", function()
      local cut = require("ftpipe.placement.stages")
      local nodes = {
         { name = "a", forward_ns = 1, backward_ns = 3, ns2 = 8, parameter_bytes = 4,
            saved_bytes = 0 },
         { name = "b", forward_ns = 0, backward_ns = 0, ns2 = 6, parameter_bytes = 0,
            saved_bytes = 0 },
      }
      local function on(device)
         local graph = setmetatable({ nodes = nodes, edges = {} }, { __name = "graph" })
         local stage = cut.of(graph, { device },
            { stage = { 1, 1 }, stage_device = { 1 } }).stages[1]
         return { stage.forward_ns, stage.backward_ns, stage.weight_ns }
      end
      assert.same({ 1, 3, 1.5 }, on {})
      assert.same({ 2, 6, 3 }, on { slowdown = 2 })
      -- the time of another kind is shared out as that of the first; with none there, it is forward
      assert.same({ 2 + 6, 6, 3 }, on { kind = 2 })
      assert.same({ 3 * (2 + 6), 3 * 6, 3 * 3 }, on { kind = 2, slowdown = 3 })
   end)
end)

describe("graphs with known results", function()
   local function expected(name)
      local path = files.shared("data/graphs/" .. name, pending)
      return path and cases.rows(ft.json.read(path)), path and path:gsub("[^/]+$", "")
   end

   it("seq reaches the recorded contiguous optimum of every graph", function()
      local rows, dir = expected("expected_dnn.json")
      for _, row in ipairs(rows or {}) do
         for key, scale in pairs { contig_opt = 1, ms_contig_opt = 1000 } do
            if row[key] then
               local problem = ft.graph.load(dir .. "dnn/" .. row.workload .. ".json",
                  { transfer_scale = scale }):problem()
               local result = ft.partition(problem, { method = "seq", cost = "sum" })
               assert.is_true(math.abs(result.objective_ns / 1e6 / row[key] - 1) < 1e-3,
                  ("%s %s: %g, not %g"):format(row.workload, key, result.objective_ns / 1e6,
                     row[key]))
               assert.is_true(result.lower_bound_ns <= result.objective_ns)
            end
         end
      end
   end)

   it("best is never above that, and near the best known, by default", function()
      local rows, dir = expected("expected_dnn.json")
      for _, row in ipairs(rows or {}) do
         local problem = ft.graph.load(dir .. "dnn/" .. row.workload .. ".json"):problem()
         local result = ft.partition(problem, { cost = "sum" })
         local ms = result.objective_ns / 1e6
         assert.is_true(ms <= row.contig_opt * (1 + 1e-7)) -- times are read to a nanosecond
         assert.is_true(ms <= row.noncontig_best * 1.005,
            ("%s: %g in %d stages, not %g"):format(row.workload, ms, result.n_stages,
               row.noncontig_best))
      end
   end)

   it("three stages a device are enough for 39.95 and 90.95 ms", function()
      local _, dir = expected("expected_dnn.json")
      for name, ms in pairs(dir and { bert24 = 39.95, gnmt = 90.95 } or {}) do
         local problem = ft.graph.load(("%sdnn/LayerGraphs/%s_training.json"):format(dir, name))
            :problem()
         local result = ft.partition(problem, {
            method = "mixed", cost = "sum", max_stages_per_device = 3,
         })
         assert.is_true(result.objective_ns / 1e6 <= ms)
         for _, load in ipairs(result.loads) do assert.is_true(load.stages <= 3) end
      end
   end)

   it("pipedream reaches the recorded objectives", function()
      local rows, dir = expected("expected_pipedream.json")
      local graphs = {}
      for _, row in ipairs(rows or {}) do
         graphs[row.workload] = graphs[row.workload] or ft.graph.load(dir .. "pipedream/"
            .. row.workload .. ".txt"):problem { devices = {}, memory_factor = 1 }
         local problem = graphs[row.workload]
         problem.level_devices, problem.level_bytes_per_s = {}, {}
         for i, machines in ipairs(row.machines_per_level) do
            problem.level_devices[i], problem.level_bytes_per_s[i] = machines, row.bandwidth[i]
         end
         problem.devices = {}
         for d = 1, row.P do
            problem.devices[d] = {
               memory_bytes = row.use_memory_constraint and row.memory or 0,
               bytes_per_s = row.bandwidth[1],
            }
         end
         local result = ft.partition(problem, {
            method = "pipedream", straight = row.straight,
            free_transfers = row.activation_compression_ratio ~= 1,
         })
         assert.is_true(math.abs(result.objective_ns / 1e9 / row.value - 1) < 1e-9)
         assert.equal(row.n_states, result.down_sets)
         if row.activation_compression_ratio == 1 then
            local priced = ft.partition.evaluate(problem, result.device, result.stage, "pipedream")
            assert.is_true(math.abs(priced.objective_ns / 1e9 / row.value - 1) < 1e-9)
            assert.same(result.stage_replicas, priced.stage_replicas)
         end
      end
   end)
end)
