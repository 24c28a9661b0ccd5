--- Harmony's order of work: all micro-batches through one stage, then the next, updates behind it.

local assert_judged = require("spec.support.judged")
local with = require("ftpipe.base.copy")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local traffic = require("spec.support.traffic")

--- Plans and runs of a family, short ones.
local function options_of(family, changes)
   return with({
      family = family, schedule = "harmony-pp", stages = 6, devices = "cpu:2", steps = 6,
      batch = 8, micro_batches = 4,
   }, changes or {})
end

describe("harmony-pp", function()
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("gives the bits of other orders, whenever stages update: " .. family, function()
         for _, devices in ipairs { 1, 2, 4 } do
            for _, clip in ipairs { 0, 1 } do
               local o = options_of(family, { devices = "cpu:" .. devices, clip = clip })
               local judge = pipeline.train(with(o, {
                  schedule = "sequential", devices = "cpu:1", stages = 1,
               }))
               local run = pipeline.train(o)
               assert.same(judge.losses, run.losses)
               assert.same(judge.params, run.params)
               assert.equal(clip == 0 and "device" or "end", run.plan.options.update)
            end
         end
      end)
   end

   it("updates stages that are as far from the loss when all gradients are there", function()
      local o = options_of("gpt2", { devices = "cpu:1", clip = 1, stages = 18 })
      local judge = pipeline.train(with(o, { schedule = "sequential", stages = 1 }))
      for _, order in ipairs { { "data-parallel" }, { "harmony-pp" }, { "harmony-pp", "2/1" } } do
         local run = pipeline.train(with(o, { schedule = order[1], packs = order[2] }))
         -- words and positions each have a stage, and neither needs the other
         assert.matches("\nedge F0>F2 .-\nedge F1>F2 ", run.plan:text())
         assert_judged(judge, run)
      end
   end)

   it("updates a stage behind its backwards, with --clip at the end, which is said", function()
      local now = pipeline.plan(options_of("bert", { clip = 0 }))
      assert.matches("\nbody 0 F0.0.0%-3 F2.0.0%-3 F4.0.0%-3 B4.0.0%-3 R4.0 U4.0\n", now:text())
      assert.matches("\nbody 0 B2.0.0%-3 R2.0 U2.0\n", now:text())
      assert.not_matches("updates: ", tostring(now))
      local later = pipeline.plan(options_of("bert", { clip = 1 }))
      assert.matches("\nupdates: at the end of a batch, since clip = 1 needs all gradients$",
         tostring(later))
      local problem = files.failure(function()
         pipeline.plan(options_of("bert", { clip = 1, update = "device" }))
      end)
      assert.matches('update = "device": a stage would update before the gradients of all are '
         .. 'there, which clip = 1 needs', problem.message)
      local early = pipeline.plan(options_of("bert", { schedule = "gpipe", update = "device" }))
      assert.is_nil(early:text():find("\nedge R"))
   end)
end)

--- How often each class is loaded and saved in a plan's text, of all stages.
local function moves_of(text)
   local counts, total = {}, { L = 0, O = 0, D = 0 }
   for letter, first, last, class in text:gmatch(" ([LOD])%d+%.%d+%.(%d+)%-?(%d*):(%l+)") do
      local n = last == "" and 1 or last - first + 1
      total[letter] = total[letter] + n
      if letter ~= "D" then counts[class] = (counts[class] or 0) + n end
   end
   return counts, total
end

describe("updates in host memory", function()
   local cases = {
      { schedule = "harmony-pp", stages = 4, devices = "cpu:2" },
      { schedule = "harmony-pp", stages = 4, devices = "cpu:1", clip = 1 },
      { schedule = "async", stages = 4, devices = "cpu:2" },
      { schedule = "harmony-dp", stages = 3, devices = "cpu:2" },
   }
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("give the bits of those on the device: " .. family, function()
         for _, case in ipairs(cases) do
            local o = with({ family = family, steps = 4 }, case)
            local judge = pipeline.train(o)
            for _, threaded in ipairs { true, false } do
               local run = pipeline.train(with(o, {
                  swap = "always", update = "host", threaded = threaded,
               }))
               assert.same(judge.losses, run.losses)
               assert.same(judge.params, run.params)
               for d, planned in ipairs(run.plan.memory) do
                  assert.is_true(run.measured[d].total <= planned.total)
                  assert.equal(0, planned.optimizer) -- which is never there
               end
            end
         end
      end)
   end

   it("copy weights in twice and gradients out once", function()
      for _, M in ipairs { 1, 2, 4 } do
         local o = options_of("bert", {
            swap = "task", update = "host", micro_batches = M, steps = 1,
         })
         local at_home = pipeline.plan(o)
         local on_device = pipeline.plan(with(o, { update = "device" }))
         local weights = traffic.planned(on_device, "weights") / 3
         assert.equal(2 * weights, traffic.planned(at_home, "weights"))
         assert.equal(0, traffic.planned(at_home, "optimizer"))
         local moves = moves_of(at_home:text())
         assert.equal(6, moves.gradients)
         assert.is_true(traffic.planned(at_home, "gradients") >= weights)
      end
   end)

   it("are in the plan, which is refused where something is elsewhere", function()
      local o = options_of("gpt2", { swap = "task", update = "host", steps = 1 })
      local text = pipeline.plan(o):text()
      assert.matches("\nwarm%-up 0 .* U4%.0:host\n", text)
      assert.equal(text, require("ftpipe").schedule.parse(text):text())
      local function refused(from, to, words)
         local edited, n = text:gsub(from, to)
         assert.equal(1, n)
         assert.fails_with(function() require("ftpipe").schedule.parse(edited) end, words)
      end
      local where = "U4%.0:host works in host memory, where not all that it needs"
      refused("B4%.0%.3 D4%.0%.0:weights", "B4.0.3", where)
      refused("O4%.0%.0:gradients", "", where)
      refused("U4%.0:host", "U4.0", "U4%.0 needs its weights on the device, where they are not")
      refused("U4%.0:host", "U4.0:cellar", "action is 'U4%.0:cellar'")
      local problem = files.failure(function() pipeline.plan(with(o, { swap = "never" })) end)
      assert.matches('update = "host" is for state that moves to host memory: expected '
         .. 'swap = "auto"', problem.message)
   end)

   it("are chosen where they are faster", function()
      local function seconds(budget, update)
         local plan = pipeline.plan(options_of("bert", {
            swap = "auto", update = update, stages = 8, profile = "modelled",
            devices = ("cpu:1/%dB@2MB/s"):format(budget),
         }))
         return plan:simulate(6).seconds
      end
      local least = pipeline.plan(options_of("bert", {
         swap = "always", stages = 8, devices = "cpu:1",
      })).memory[1].total
      for _, factor in ipairs { 1.1, 1.5 } do
         local budget = math.ceil(factor * least)
         local device, host = seconds(budget, "device"), seconds(budget, "host")
         assert.equal(math.min(device, host), seconds(budget, "auto"))
      end
   end)
end)

describe("replicas", function()
   local cases = {
      { schedule = "1f1b", replicas = "2-1", devices = "cpu:3" },
      { schedule = "async", replicas = "1-2", devices = "cpu:3" },
      { schedule = "harmony-dp", stages = 4, devices = "cpu:2" },
      { schedule = "harmony-dp", stages = 4, devices = "cpu:2", clip = 1 },
   }
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("compute the same when their state moves: " .. family, function()
         for _, case in ipairs(cases) do
            local o = with({ family = family, steps = 4 }, case)
            local judge = pipeline.train(o)
            for _, swap in ipairs { "always", "lms" } do
               local run = pipeline.train(with(o, { swap = swap }))
               assert.is_true(traffic.planned(run.plan, "weights") > 0)
               assert_judged(judge, run)
            end
         end
      end)
   end
end)

--- Edges of a plan's text between replicas that share a place, and those that have their own.
local function places_of(plan)
   local shared, own = 0, 0
   for rest in plan:text():gmatch("\nedge [XU]%d+>[RW]%d+ bytes %d+ slots %d+([^\n]*)") do
      if rest:match("^ after %d+$") then shared = shared + 1 else own = own + 1 end
   end
   return shared, own
end

describe("replicas of several stages", function()
   for _, schedule in ipairs { "data-parallel", "harmony-dp" } do
      it("pass gradients, and weights, through one place where memory is scarce: " .. schedule,
         function()
            for devices = 2, 4 do
               local o = options_of("bert", {
                  schedule = schedule, devices = "cpu:" .. devices, batch = 12, micro_batches = 12,
                  layers = 5, stages = 10, steps = 4,
               })
               local judge = pipeline.train(o)
               assert.same({ 0, 20 }, { places_of(judge.plan) })
               local tight = pipeline.plan(with(o, { swap = "always" }))
               assert.same({ 18, 2 }, { places_of(tight) })
               -- of 2 (N - 1) / N of the weights' bytes, more than half is not needed any more
               local before = judge.plan.memory[1]
               local saved = before.buffers - tight.memory[1].buffers
               assert.is_true(saved > before.weights * (devices - 1) / devices)
               -- what it is compared with has the places that its paper counts
               assert.same({ 0, 20 }, { places_of(pipeline.plan(with(o, { swap = "task" }))) })
               local budget = 0
               for _, row in ipairs(tight.memory) do budget = math.max(budget, row.total) end
               local run = pipeline.train(with(o, {
                  swap = "auto", devices = ("cpu:%d/%dB"):format(devices, budget),
               }))
               assert.is_true(places_of(run.plan) > 0)
               assert_judged(judge, run)
            end
         end)
   end

   it("have places of their own where work would wait for ever without", function()
      -- words are read by the first and the last stage: the owner sums both, and updates late
      local plan = pipeline.plan(options_of("gpt2", {
         schedule = "harmony-dp", swap = "always", layers = 4, stages = 8,
      }))
      local shared, own = places_of(plan)
      assert.is_true(shared > 0 and own > 2)
   end)
end)

describe("2bw", function()
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("keeps its versions and its bits when all else moves, step after step: " .. family,
         function()
            local o = with({ family = family, steps = 7 }, {
               schedule = "2bw", stages = 4, devices = "cpu:2",
            })
            local judge = pipeline.train(o)
            for _, swap in ipairs { "lms", "clean", "always" } do
               local run = pipeline.train(with(o, { swap = swap }))
               assert.equal(0, traffic.planned(run.plan, "weights"))
               assert.is_true(traffic.planned(run.plan, "optimizer") > 0)
               assert.is_true(traffic.planned(run.plan, "gradients") > 0)
               assert.same(judge.losses, run.losses)
               assert.same(judge.params, run.params)
               for d, planned in ipairs(run.plan.memory) do
                  assert.is_true(planned.total < judge.plan.memory[d].total)
                  assert.is_true(run.measured[d].total <= planned.total)
               end
            end
         end)
   end
end)

--- Bytes of the hidden states of a micro-batch of the longest examples, which pass between stages.
local function hidden_bytes(plan)
   local o = plan.options
   return 4 * o.batch / o.micro_batches * o.buckets[#o.buckets] * o.model.raw.hidden_size
end

--- Moves that a run has executed, by letter.
local function executed(run)
   local total = { L = 0, O = 0, D = 0 }
   for letter in run.timeline.trace:gmatch("\"name\":%s*\"([LOD]) stage") do
      total[letter] = total[letter] + 1
   end
   return total
end

describe("packs", function()
   it("are of stages on the same devices, be they one or several", function()
      local tasks = require("ftpipe.schedule.packs").tasks
      for _, case in ipairs {
         { { 1, 1, 2, 2 }, { 2, 2, 1, 1 } },
         { { { 1, 2 }, { 1, 2 }, { 3, 4 }, { 3, 4 } }, { 2, 2, 1, 1 } },
         { { { 1, 2 }, { 3, 4 }, { 1, 2 }, { 3, 4 } }, { 4, 3, 2, 1 } },
      } do
         local found = tasks({ packs = "2/2" }, case[1])
         assert.same(case[2], found.backward)
         assert.equal(1, found.forward[4]) -- goes forward and back at once
         for s = 2, 4 do
            assert.equal(found.backward[s] == found.backward[s - 1],
               found.forward[s] == found.forward[s - 1])
         end
      end
   end)

   local cases = {
      { packs = "3/1" },
      { packs = "1/4", clip = 1, recompute = "always" },
      { packs = "2/1", devices = "cpu:2", stages = 8, swap = "always" },
      { packs = "2/3", devices = "cpu:2", swap = "task" },
      { packs = "3/2", devices = "cpu:2", swap = "task", update = "host", recompute = "always" },
      { packs = "3/2", devices = "cpu:2", schedule = "harmony-dp", swap = "task" },
   }
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("give the bits of one stage after the other, forward and back: " .. family, function()
         for _, case in ipairs(cases) do
            local o = options_of(family, with({ devices = "cpu:1", steps = 4 }, case))
            local replicates = case.schedule == "harmony-dp"
            local judge = pipeline.train(options_of(family, {
               schedule = replicates and "data-parallel" or "sequential", stages = 1, steps = 4,
               devices = replicates and case.devices or "cpu:1", clip = case.clip,
            }))
            local run = pipeline.train(o)
            assert_judged(judge, run)
         end
      end)
   end

   it("are stages that follow each other, the last ones taken forward and back at once", function()
      local o = options_of("bert", {
         devices = "cpu:1", stages = 5, micro_batches = 2, packs = "3/2", steps = 1,
      })
      local plan = pipeline.plan(o)
      local text = plan:text():gsub("\nwarm%-up 0", "")
      assert.matches("F0.0.0 F1.0.0 F2.0.0 F0.0.1 F1.0.1 F2.0.1 F3.0.0 F4.0.0 B4.0.0 B3.0.0 "
         .. "F3.0.1 F4.0.1 B4.0.1 B3.0.1 R4.0 U4.0 R3.0 U3.0 "
         .. "B2.0.0 B1.0.0 B2.0.1 B1.0.1 R2.0 U2.0 R1.0 U1.0 B0.0.0%-1 R0.0 U0.0", text)
      -- all micro-batches wait between packs; stages of a pack pass one by one
      local larger = pipeline.plan(with(o, { micro_batches = 8 }))
      for edge, slots in pairs {
         ["F0>F1"] = 1, ["F1>F2"] = 1, ["F2>F3"] = 8, ["F3>F4"] = 1, ["B4>B3"] = 1, ["B3>B2"] = 8,
         ["B2>B1"] = 1, ["B1>B0"] = 8,
      } do
         assert.matches(("\nedge %s bytes %%d+ slots %d\n"):format(edge, slots), larger:text())
      end
      local alone = pipeline.plan(with(o, { micro_batches = 8, packs = "1/1" }))
      assert.is_true(larger.memory[1].buffers < alone.memory[1].buffers)
   end)

   it("copy what Harmony's code counts, and execute it", function()
      -- of R stages, those of the last pack are taken forward and back at once: weights come twice
      -- but for those, gradients leave once, what enters a stage leaves and comes back; the first
      -- one reads the batch itself, which stays
      local R = 6
      for packs, M in pairs { ["3/1"] = 1, ["2/1"] = 2, ["5/1"] = 4, ["1/2"] = 2, ["2/3"] = 2 } do
         for _, devices in ipairs { 1, 2 } do
            local run = pipeline.train(options_of("bert", {
               stages = R, devices = "cpu:" .. devices, packs = packs, swap = "task",
               update = "host", recompute = "always", batch = M, micro_batches = M, steps = 1,
               trace = true, longest = true,
            }))
            local moves, total = moves_of(run.plan:text())
            local last = tonumber(packs:match("/(%d)"))
            assert.equal(2 * R - last, moves.weights)
            assert.equal(R, moves.gradients)
            assert.is_nil(moves.optimizer)
            assert.equal(2 * (R - last - 1) * M, moves.activations or 0)
            assert.same(total, executed(run))
            traffic.assert_copied(run)
         end
      end
   end)

   it("send others what passes between packs, and nothing of a pack", function()
      local R, M = 6, 4
      for _, packs in ipairs { "2/2", "3/3", "3/1", "1/2" } do
         local run = pipeline.train(options_of("bert", {
            stages = R, devices = "cpu:2", packs = packs, swap = "task", update = "host",
            batch = M, micro_batches = M, steps = 2, longest = true,
         }))
         local forward, backward = packs:match("(%d)/(%d)")
         local turn, ends = math.max(forward, backward), 0
         for a, b, bytes in run.plan:text():gmatch("\nedge F(%d)>F(%d) bytes (%d+)") do
            local stays = math.floor(a / turn) == math.floor(b / turn)
            ends = ends + (stays and 0 or bytes)
         end
         assert.is_true(ends >= (R / turn - 1) * hidden_bytes(run.plan))
         traffic.assert_sent(run)
         traffic.assert_copied(run)
         assert.equal(2 * M * ends, traffic.sent(run, "forward"))
         assert.equal(2 * M * ends, traffic.sent(run, "backward"))
      end
   end)

   it("are told where what waits between stages is too much", function()
      local o = options_of("gpt2", {
         batch = 16, micro_batches = 16, devices = "cpu:1", stages = 8,
      })
      local least = pipeline.plan(with(o, { swap = "always", packs = "2/2" })).memory[1].total
      local over = pipeline.plan(with(o, {
         swap = "auto", devices = ("cpu:1/%dB"):format(math.ceil(1.05 * least)),
      }))
      local problem = files.failure(over.check, over)
      assert.matches('what would help: .*packs = "2/2": fits', problem.message)
   end)

   it("are refused where there are none", function()
      local function refused(changes, words)
         local problem = files.failure(function()
            pipeline.plan(options_of("bert", with({ packs = "3/1" }, changes)))
         end)
         assert.matches(words, problem.message)
      end
      for _, text in ipairs { "3", "0/1", "3/1/1", "3-1", "" } do
         refused({ packs = text }, 'packs = "' .. text:gsub("%p", "%%%0") .. '": expected stages '
            .. "of a forward pack and of a backward pack, as 3/1")
      end
      refused({ schedule = "gpipe" }, 'packs = "3/1" is for orders that take all micro%-batches '
         .. 'through some stages, then the next: expected schedule = "harmony%-pp" or ')
      refused({ packs = "300/999", stages = 1998 }, 'packs = "300/999": packs of 999 stages on '
         .. "each device are 1998 stages; expected smaller ones: the model is cut between %d+ "
         .. "operators")
      refused({ partition = "mixed" }, "is for stages in the order of the model: expected "
         .. 'partition = "seq"')
      refused({ stages = 3 }, "gives a device 3 stages at a time, and there are 2 devices: "
         .. "expected stages = 6, got 3")
   end)
end)
