local ft = require("ftpipe")

local bert96 = dofile("examples/papers/bert96.lua")
local GIB = 2 ^ 30
local rates = {
   swap_bytes_per_s = 11.5 * GIB, peer_bytes_per_s = 8.2 * GIB, message_bytes_per_s = 16 * GIB,
   free_s = .04,
}

local function all_but_last(packs)
   local list = {}
   for i = 1, #packs - 1 do list[i] = packs[i] end
   return list
end

local function compose(mode, devices, backward_micro, size)
   local packs = ft.swap.constant_packs(100, size)
   return ft.swap.compose {
      mode = mode, devices = devices, samples = 32, forward_micro = 8,
      backward_micro = backward_micro, forward_packs = all_but_last(packs), backward_packs = packs,
   }
end

--- Layers of the profile as a chain of nodes for ft.partition, for micro-batches of 8.
local function chain(times, bytes, n, devices)
   local problem = {
      node_ns = {}, fixed_bytes = {}, edge_from = {}, edge_to = {}, edge_bytes = {}, devices = {},
      swaps = true,
   }
   for i = 1, n do
      problem.node_ns[i] = times[i] * 1e9
      local entering = i > 1 and 8 * bert96.input_bytes[i] or 0
      problem.fixed_bytes[i] = bytes[i] - entering
      if i > 1 then
         problem.edge_from[i - 1], problem.edge_to[i - 1] = i - 1, i
         problem.edge_bytes[i - 1] = entering
      end
   end
   for d = 1, devices do problem.devices[d] = { memory_bytes = 10 * GIB } end
   return problem
end

local function pack(times, bytes, n)
   local result = ft.partition(chain(times, bytes, n, 2), { method = "pack" })
   local packs = ft.swap.packs_of(result.stage)
   local names = {}
   for i, one in ipairs(packs) do names[i] = ("%d-%d"):format(one[1] - 1, one[2] - 1) end
   return packs, table.concat(names, ",")
end

describe("a plan with swaps, by hand", function()
   -- Harmony on one device: a pack's weights come once for all micro-batches, its update follows
   -- its backward at once, what is stashed leaves and returns
   local TEXT = [[
ftpipe-plan 1
stages 2
devices 1
micro-batches 2
batches 1
body-batches 0
body-repeats 0

stage 0 device 0 depth 1 in-flight 2
stage 1 device 0 depth 0 in-flight 2
edge F0>F1 bytes 64 slots 2
edge B1>B0 bytes 64 slots 2

warm-up 0 L0.0.0:weights F0.0.0 O0.0.0:activations F0.0.1 O0.0.1:activations D0.0.1:weights
warm-up 0 L1.0.0:weights F1.0.0-1 B1.0.0-1 U1.0
warm-up 0 O1.0.1:weights L0.0.0:weights L0.0.0-1:activations B0.0.0-1 U0.0
warm-up 0 O0.0.1:weights
]]

   local function simulate(plan, swap_bytes)
      return plan:simulate {
         forward_ns = { 100, 100 }, backward_ns = { 200, 200 }, swap_bytes = swap_bytes,
         machine = {
            places = 2, homes = { 2 },
            links = { { from = 1, to = 2, bytes_per_s = 1e9, duplex = true } },
         },
      }
   end

   it("is read, proven and written", function()
      local plan = ft.schedule.parse(TEXT)
      assert.equal(plan:text(), ft.schedule.parse(plan:text()):text())
      for _, stage in ipairs(plan:describe().stages) do assert.equal(2, stage.in_flight) end
   end)

   it("is simulated: what computing waits for, and what the link to the host carries", function()
      local plan = ft.schedule.parse(TEXT)
      assert.equal(4 * 100 + 4 * 200, simulate(plan).end_ns)
      local played = simulate(plan, {
         { weights = 50, activations = 80 }, { weights = 50 },
      })
      -- weights in, then those of the second pack; behind its backward the first pack's weights and
      -- first activations; its weights leave last
      assert.equal(50 + 400 + 800 + 50 + (50 + 80) + 50, played.end_ns)
      assert.equal(3 * 50 + 2 * 80, played.link_ns[1]) -- in, which is the busier direction
   end)

   it("is refused where a swap is missing or has no home", function()
      local without_drop = TEXT:gsub("D0%.0%.1:weights", "")
      assert.fails_with(function() ft.schedule.parse(without_drop) end,
         "L0.0.0:weights moves what is not in host memory")
      assert.fails_with(function()
         ft.schedule.parse(TEXT):simulate {
            swap_bytes = { { weights = 1 }, {} }, machine = { places = 1, links = {} },
         }
      end, "a home of device 0")
   end)
end)

describe("ft.swap.plan", function()
   --- Swaps of a plan's text by class: in and out.
   local function count_swaps(text)
      local counts = {}
      for letter, class in text:gmatch(" ([LO])[%d.%-]+:(%l+)") do
         local key = letter .. " " .. class
         counts[key] = (counts[key] or 0) + 1
      end
      return counts
   end

   it("moves what Harmony's table says, less what stays where it is", function()
      for devices = 1, 3 do
         for packs = devices + 1, 7 do
            for micro_batches = 1, 4 do
               local o = { packs = packs, devices = devices, micro_batches = micro_batches }
               local plan, N, M, R = ft.swap.plan(o), devices, micro_batches, packs
               assert.equal(plan:text(), ft.schedule.parse(plan:text()):text())
               local text = ft.swap.text(o)
               local c = count_swaps(text)
               local table_of = ft.swap.volumes("harmony-pp",
                  { devices = N, micro_batches = M, layers = R })
               -- each device's last forward and first backward are of one pack
               assert.equal(table_of.W - N, c["L weights"] + c["O weights"])
               assert.equal(table_of.K, c["L optimizer"] + c["O optimizer"])
               -- the last pack stashes nothing
               assert.equal(table_of.X - 2 * M, c["L activations"] + c["O activations"])
            end
         end
      end
   end)

   it("never stalls on free links, and waits for slow ones", function()
      local function end_ns(devices, swap_bytes)
         local o = { packs = 6, devices = devices, micro_batches = 6, batches = 2 }
         local plan, costs = ft.swap.plan(o), { forward_ns = {}, backward_ns = {}, swap_bytes = {} }
         for k = 1, 6 do
            costs.forward_ns[k], costs.backward_ns[k] = 100, 300
            costs.swap_bytes[k] = { weights = swap_bytes, activations = swap_bytes / 10 }
         end
         costs.machine = { places = devices + 1, homes = {}, links = {} }
         for d = 1, devices do
            costs.machine.homes[d] = devices + 1
            for to = d + 1, devices + 1 do
               table.insert(costs.machine.links,
                  { from = d, to = to, bytes_per_s = 1e9, duplex = true })
            end
         end
         return plan:simulate(costs).end_ns
      end
      assert.equal(2 * 6 * 6 * 400, end_ns(1, 0))
      assert.is_true(end_ns(2, 0) < 0.6 * end_ns(1, 0))
      assert.is_true(end_ns(3, 0) < 0.45 * end_ns(1, 0))
      assert.is_true(end_ns(1, 1000) > end_ns(1, 0))
   end)
end)

describe("ft.swap.estimate", function()
   -- mode, devices, samples of a backward micro-batch, layers of a pack, seconds without and with
   -- overlap, as Harmony's own scheduler estimates them
   local golden = {
      { "pipeline", 1, 8, 10, 33.662780, 32.669708 },
      { "pipeline", 1, 4, 10, 37.272616, 36.273424 },
      { "pipeline", 2, 8, 10, 18.306822, 17.612108 },
      { "pipeline", 2, 4, 10, 20.157440, 19.460287 },
      { "pipeline", 4, 8, 10, 11.250854, 10.690707 },
      { "pipeline", 4, 4, 10, 12.353933, 11.793786 },
      { "pipeline", 4, 8, 25, 12.255152, 12.192478 }, { "data", 2, 8, 10, 19.822391, 18.432538 },
      { "data", 2, 4, 10, 21.627310, 20.237456 }, { "data", 4, 8, 10, 14.669438, 12.630617 },
      { "data", 4, 4, 10, 15.571897, 13.530356 }, { "data", 4, 8, 25, 13.805623, 12.382188 },
   }
   for _, row in ipairs(golden) do
      it(("is theirs within 1 us: %s of %d, %d samples back, packs of %d"):format(row[1], row[2],
         row[3], row[4]), function()
         local tasks = compose(row[1], row[2], row[3], row[4])
         for i, overlap in ipairs { false, true } do
            local seconds = ft.swap.estimate(tasks, bert96, rates, overlap).seconds
            assert.is_true(math.abs(seconds - row[4 + i]) < 1e-6)
         end
      end)
   end

   it("ends each device when theirs does", function()
      local result = ft.swap.estimate(compose("pipeline", 4, 8, 10), bert96, rates, false)
      for d, seconds in ipairs { 9.476921, 10.363632, 11.250854, 8.899096 } do
         assert.is_true(math.abs(result.by_device[d] - seconds) < 1e-6)
      end
   end)

   it("names a micro-batch that was not profiled", function()
      local packs = ft.swap.constant_packs(100, 10)
      local tasks = ft.swap.compose {
         devices = 1, samples = 6, forward_micro = 3, backward_micro = 3,
         forward_packs = all_but_last(packs), backward_packs = packs,
      }
      assert.fails_with(function() ft.swap.estimate(tasks, bert96, rates, true) end,
         "no forward_s of micro%-batches of 3")
   end)
end)

describe("packs", function()
   local backward = "0-9,10-19,20-28,29-38,39-47,48-57,58-67,68-76,77-86,87-99"

   it("of a searched pipeline are Harmony's, and its time", function()
      local packs, names = pack(bert96.backward_s[8], bert96.backward_bytes, 100)
      assert.equal(backward, names)
      local tasks = ft.swap.compose {
         devices = 2, samples = 32, forward_micro = 8, backward_micro = 8,
         forward_packs = all_but_last(packs), backward_packs = packs,
      }
      local seconds = ft.swap.estimate(tasks, bert96, rates, false).seconds
      assert.is_true(math.abs(seconds - 17.874) < 5e-4)
      local peaks = ft.swap.peak_bytes(tasks, bert96)
      assert.equal(10161, math.floor(peaks[1] / 2 ^ 20 + .5))
      assert.equal(10185, math.floor(peaks[2] / 2 ^ 20 + .5))
   end)

   it("of searched data parallelism are Harmony's, and its time", function()
      local packs = pack(bert96.backward_s[8], bert96.backward_bytes, 100)
      local forward, names = pack(bert96.forward_s[8], bert96.forward_bytes, packs[#packs][1] - 1)
      assert.equal("0-21,22-42,43-64,65-86", names)
      local tasks = ft.swap.compose {
         mode = "data", devices = 2, samples = 32, forward_micro = 8, backward_micro = 8,
         forward_packs = forward, backward_packs = packs,
      }
      local seconds = ft.swap.estimate(tasks, bert96, rates, false).seconds
      assert.is_true(math.abs(seconds - 19.421) < 5e-4)
   end)

   it("must tile the layers", function()
      local o = { devices = 1, samples = 8, forward_micro = 8, backward_micro = 8 }
      o.forward_packs, o.backward_packs = { { 1, 2 } }, { { 1, 2 }, { 4, 5 } }
      assert.fails_with(function() ft.swap.compose(o) end, "backward_packs%[2%] is layers 4 to 5")
      o.backward_packs = { { 1, 3 }, { 4, 5 } }
      assert.fails_with(function() ft.swap.compose(o) end, "forward_packs end with layer 2")
   end)
end)

describe("ft.swap.bytes", function()
   local function check(row, expected)
      for key, bytes in pairs(expected) do assert.equal(bytes, row[key] or 0, key) end
   end

   it("counts a pipeline", function()
      local rows = ft.swap.bytes(compose("pipeline", 2, 8, 10), bert96)
      check(rows[1], {
         weights_in = 4688134144, gradient_out = 2595991552, data_in = 327680,
         stash_out = 269025280, stash_in = 269025280, output_to_peer = 335872000,
         input_gradient_to_peer = 268697600, output_out = 0, reduced = 0,
      })
      check(rows[2], {
         weights_in = 4387692552, gradient_out = 2372296712, data_in = 0, stash_out = 268697600,
         stash_in = 268697600, output_to_peer = 268697600, input_gradient_to_peer = 335872000,
      })
   end)

   it("counts micro-batches of two sizes through host memory", function()
      local rows = ft.swap.bytes(compose("pipeline", 2, 4, 10), bert96)
      check(rows[1], { output_out = 67174400, output_to_peer = 268697600 })
      check(rows[2], { input_in = 67174400, input_gradient_to_peer = 335872000 })
   end)

   it("counts data parallelism", function()
      local rows = ft.swap.bytes(compose("data", 2, 8, 10), bert96)
      for d = 1, 2 do
         check(rows[d], {
            weights_in = 9579675656, gradient_out = d == 1 and 4968288264 or 0, data_in = 163840,
            stash_out = 268861440, stash_in = 268861440, reduced = 4968288264,
            output_out = 302284800, input_in = 302284800, input_gradient_out = 302284800,
            output_gradient_in = 302284800,
         })
      end
   end)
end)

describe("ft.swap.volumes", function()
   local function check(schedule, o, expected)
      local counts = ft.swap.volumes(schedule, o)
      for key, n in pairs(expected) do
         assert.equal(n, counts[key], ("%s %s of N=%d M=%d R=%d"):format(schedule, key, o.devices,
            o.micro_batches, o.layers))
      end
   end

   it("counts what the formulas say", function()
      for devices = 1, 5 do
         for times = 1, 4 do
            local N, M, R = devices, devices * times, devices * (5 - times)
            local o = { devices = N, micro_batches = M, layers = R }
            check("dp", o, {
               W = (4 * M + 2 * N) * R, dW = (2 * M + 2 * N) * R, K = 2 * N * R, X = 2 * M * R,
               Y = 0, reduce = N * R,
            })
            check("pp", o, {
               W = (4 * M + 2) * R, dW = (2 * M + 2) * R, K = 2 * R, X = 2 * M * R,
               ["send Y"] = M * (N - 1), ["send dX"] = M * (N - 1),
            })
            check("harmony-dp", o, {
               W = 3 * N * R, dW = 0, K = 2 * N * R, X = 2 * M * R, Y = 2 * M * (R - 1),
               dX = 2 * M * (R - 1), reduce = N * R,
            })
            check("harmony-pp", o, {
               W = 3 * R, dW = 0, K = 2 * R, X = 2 * M * R,
               ["send Y"] = N > 1 and M * (R - 1) or 0, ["send dX"] = N > 1 and M * (R - 1) or 0,
            })
            o.write_back = "dirty"
            check("dp", o, { W = (2 * M + 2 * N) * R, dW = 2 * M * R })
            check("pp", o, { W = (2 * M + 2) * R, dW = 2 * M * R })
         end
      end
   end)

   it("refuses what does not divide", function()
      assert.fails_with(function()
         ft.swap.volumes("dp", { devices = 3, micro_batches = 4, layers = 3 })
      end, "swap.volumes: 4 micro%-batches are not a multiple of 3 devices")
   end)
end)

describe("samples that do not divide", function()
   it("are all in a micro-batch, on some device", function()
      local tasks = require("ftpipe.swap.tasks")
      assert.same({ 4, 4, 2 }, tasks.split(10, 4))
      assert.same({ 4, 4 }, tasks.split(8, 4))
      local seen = 0
      for _, task in ipairs(tasks.compose {
         mode = "data", devices = 3, samples = 8, forward_micro = 2, backward_micro = 2,
         forward_packs = { { 1, 1 } }, backward_packs = { { 1, 1 }, { 2, 2 } },
      }) do
         for _, size in ipairs(task.kind == "forward" and task.micros or {}) do
            seen = seen + size
         end
      end
      assert.equal(8, seen)
   end)
end)
