--- Forwards of several micro-batches as one, where backwards take each by itself: Harmony's micro-
-- batches of two sizes.

local judged = require("spec.support.judged")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local traffic = require("spec.support.traffic")
local with = require("ftpipe.base.copy")

--- How far losses of more rows at once may be off; nil: all bits are the same.
local NEAR = not pipeline.rows_are_alike() and 1e-5 or nil

local function assert_judged(judge, run) judged(judge, run, NEAR) end

--- A plan or run of a family whose batch has eight micro-batches.
local function options_of(family, changes)
   return with({
      family = family, schedule = "harmony-pp", stages = 8, devices = "cpu:2", steps = 3,
      batch = 8, micro_batches = 8,
   }, changes or {})
end

describe("joint forwards", function()
   local cases = {
      { forward_micro_batches = 2 },
      { forward_micro_batches = 1, packs = "3/2", recompute = "always" },
      { forward_micro_batches = 4, packs = "2/1", swap = "always", clip = 1 },
      { forward_micro_batches = 2, packs = "2/3", swap = "task", update = "host",
         recompute = "always" },
      { forward_micro_batches = 2, swap = "lms" },
      { forward_micro_batches = 2, packs = "1/2", threaded = false },
      { forward_micro_batches = 2, swap = "clean", devices = "cpu:1", threaded = false },
   }
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("give the bits of micro-batches that go forward one by one: " .. family, function()
         for _, case in ipairs(cases) do
            local judge = pipeline.train(options_of(family, {
               schedule = "sequential", devices = "cpu:1", stages = 1, clip = case.clip,
            }))
            local run = pipeline.train(options_of(family, case))
            assert_judged(judge, run)
            assert.matches(" joint " .. 8 / case.forward_micro_batches .. "\n", run.plan:text())
         end
      end)
   end

   it("leave what sums over rows to each micro-batch: a loss in several stages", function()
      local o = options_of("bert", {
         devices = "cpu:1", stages = 12, batch = 12, micro_batches = 6, packs = "2/1",
         d_model = 48, d_ff = 192,
      })
      local judge = pipeline.train(o)
      local run = pipeline.train(with(o, { forward_micro_batches = 3 }))
      assert_judged(judge, run)
      assert.matches("\nstage 0 .- joint 2", run.plan:text())
   end)

   it("are of neighbours where stages have replicas, whose plan says so", function()
      for _, changes in ipairs { {}, { swap = "task", recompute = "always" } } do
         local o = options_of("gpt2", with({
            schedule = "harmony-dp", forward_micro_batches = 4, packs = "2/1",
         }, changes))
         local run = pipeline.train(o)
         local text, n = run.plan:text():gsub(" joint 2", "")
         assert.equal(7, n) -- all but the last, which goes forward and back at once
         assert.matches(" replicas block%s", text)
         local alone = with(o, { plan = core.schedule.parse(text) })
         alone.forward_micro_batches, alone.swap = nil, nil
         assert_judged(pipeline.train(alone), run)
      end
   end)

   it("are in plans, which may be given", function()
      local o = options_of("bert", {
         devices = "cpu:1", stages = 4, forward_micro_batches = 2, packs = "2/1", steps = 1,
      })
      local plan = pipeline.plan(o)
      local text = plan:text()
      for s = 0, 3 do
         local said = s < 3 and " joint 4" or "flight 1"
         assert.matches(("\nstage %d [^\n]*%s\n"):format(s, said), text)
      end
      assert.matches("F0.0.0%-7 F1.0.0%-3 F2.0.0%-3 F1.0.4%-7 F2.0.4%-7 F3.0.0 B3.0.0 F3.0.1",
         text:gsub("\nwarm%-up 0", ""))
      assert.matches("\nedge F1>F2 bytes %d+ slots 4\n", text) -- inside a task
      assert.matches("batch 8 in 8 micro%-batches, 4 at once forward, ", tostring(plan))
      assert.equal(text, core.schedule.parse(text):text())
      local given = pipeline.train(with(o, { plan = core.schedule.parse(text) }))
      assert.equal(text, given.plan:text())
      assert_judged(pipeline.train(o), given)
   end)

   it("need the memory of large ones forward, and of small ones back", function()
      local function planned(changes)
         local plan = pipeline.plan(options_of("bert", with({
            devices = "cpu:1", recompute = "always", packs = "1/1", batch = 32, micro_batches = 16,
            partition = { "encoder/block.0/ff", "encoder/block.1/ff", "encoder/block.2/ff" },
            stages = 4,
         }, changes)))
         return plan.memory[1], plan
      end
      local small, large = planned {}, planned { micro_batches = 4 }
      local joint, plan = planned { forward_micro_batches = 4 }
      assert.is_true(joint.workspace < large.workspace)
      assert.is_true(joint.total < large.total)
      assert.is_true(joint.workspace >= small.workspace)
      -- each stage takes as long forward as with the large ones, and back as with the small ones
      local _, as_small = planned {}
      local _, as_large = planned { micro_batches = 4 }
      for s = 1, 3 do
         local found = plan.blueprint:stages()[s]
         local forward = as_large.blueprint:stages()[s].forward_ns / 4
         assert.near(forward, found.forward_ns, 1e-6 * forward)
         assert.equal(as_small.blueprint:stages()[s].backward_ns, found.backward_ns)
      end
      assert.is_true(plan:simulate(1).seconds < as_small:simulate(1).seconds)
   end)

   it("are predicted by what they take together, where work is measured", function()
      local plan = pipeline.plan(options_of("bert", {
         profile = "fresh", devices = "cpu:1", stages = 4, forward_micro_batches = 2,
      }))
      local joint, stage = plan.said.costs[1].joint_ns, plan.partition.stage
      assert.equal(#stage, #joint)
      local function stages_of(factor)
         local costs = with(plan.said.costs[1], { joint_ns = {} })
         for n, ns in ipairs(joint) do costs.joint_ns[n] = factor * ns end
         return core.engine.blueprint(with(plan.said, { costs = { costs } })):stages()
      end
      local together = { 0, 0, 0, 0 }
      for n, ns in ipairs(joint) do together[stage[n]] = together[stage[n]] + ns end
      local once, twice = stages_of(1), stages_of(2)
      for s, found in ipairs(plan.blueprint:stages()) do
         assert.equal(found.forward_ns, once[s].forward_ns)
         local part = s < 4 and together[s] / 4 or 0 -- the last goes forward and back at once
         assert.near(part, twice[s].forward_ns - once[s].forward_ns, 1e-6 * together[s])
         assert.equal(once[s].backward_ns, twice[s].backward_ns)
      end
   end)

   it("take what was planned, of every class", function()
      local run = pipeline.train(options_of("bert", {
         devices = "cpu:1", stages = 4, forward_micro_batches = 2, longest = true,
      }))
      pipeline.assert_memory(run.plan, run.measured)
   end)

   it("copy and send what forwards one by one do", function()
      local o = options_of("bert", {
         packs = "2/1", swap = "task", update = "host", recompute = "always", steps = 2,
         longest = true,
      })
      local alone = pipeline.plan(o)
      local run = pipeline.train(with(o, { forward_micro_batches = 2 }))
      assert.same(alone.volumes, run.plan.volumes)
      assert.same(alone.sends, run.plan.sends)
      traffic.assert_copied(run)
      traffic.assert_sent(run)
   end)

   it("tell of numbers that are not finite as others do", function()
      local function message(changes)
         local o = options_of("gpt2", with({
            edit = function(batch, number)
               if number == 1 then batch.input_ids:pointer()[5 * batch.bucket] = 60 end
            end,
            plant = function(params)
               local wte = params["transformer.wte.weight"]
               wte:pointer()[wte:count() - 1] = 0 / 0 -- of word 60, the last
            end,
            tied = false,
         }, changes))
         return files.failure(pipeline.train, o).message
      end
      local alone = message { packs = "1/1" }
      assert.matches("gave nan from the parameter 'transformer.wte.weight'.* stage 0 of 8, "
         .. "micro%-batch %d of 8", alone)
      assert.equal(alone, message { forward_micro_batches = 2 })
   end)

   it("are searched where orders have them", function()
      local found = require("ftpipe").planner("t5-small", {
         devices = "sim:2x11GB", batch = 12, source = 32, target = 8, counts = { 3, 4 },
         schedules = { "1f1b", "harmony-pp" }, partitions = { "seq" }, forward_micro_batches = 2,
         swap = "auto", stages = 8,
      })
      assert.is_true(#found.rows > 0)
      for _, row in ipairs(found.rows) do
         assert.equal("harmony-pp", row.options.schedule)
         assert.equal(4, row.options.micro_batches)
         assert.is_nil(row.problem)
      end
   end)

   it("are refused where there are none", function()
      local function refused(changes, words)
         local problem = files.failure(function()
            pipeline.plan(options_of("bert", with({ forward_micro_batches = 2 }, changes)))
         end)
         assert.matches(words, problem.message)
      end
      refused({ schedule = "1f1b" }, "forward_micro_batches = 2 is for orders that take all "
         .. 'micro%-batches through some stages, then the next: expected schedule = "harmony%-pp"')
      refused({ forward_micro_batches = 3 }, "forward_micro_batches = 3: a forward takes several "
         .. "whole ones of micro_batches = 8: expected forward_micro_batches = 2")
      refused({ schedule = "harmony-dp", forward_micro_batches = 1 }, "forward_micro_batches = 1: "
         .. "a forward is of one replica, and each has its share of micro_batches = 8: expected "
         .. "forward_micro_batches = 2$")
   end)
end)

--- Two stages on two devices, four micro-batches, two of which go forward as one.
local TEXT = [[
ftpipe-plan 1
schedule by-hand
stages 2
devices 2
micro-batches 4
batches 1
body-batches 0
body-repeats 0

stage 0 device 0 joint 2
stage 1 device 1 joint 2
edge F0>F1 bytes 8 slots 4
edge B1>B0 bytes 8 slots 2

drain 0 F0.0.0-3 B0.0.0-3 U0.0
drain 1 F1.0.0-3 B1.0.0-3 U1.0
]]

describe("plans with joint forwards", function()
   it("are simulated: the first takes the time of all, when what all read is there", function()
      local plan = core.schedule.parse(TEXT):check()
      local found = plan:simulate {
         forward_ns = { 10, 10 }, backward_ns = { 20, 20 }, trace = true,
      }
      local starts = {}
      for stage, start, length in found.trace:gmatch('"pid":(%d),"tid":%d,"ts":([%d.]+),'
         .. '"dur":([%d.]+),"cat":"forward"') do
         starts[#starts + 1] = ("%s %g %g"):format(stage, 1000 * start, 1000 * length)
      end
      table.sort(starts)
      assert.same({ "0 0 20", "0 20 0", "0 20 20", "0 40 0", "1 20 20", "1 40 0", "1 40 20",
         "1 60 0" }, starts)
      assert.equal(60 + 4 * 20 + 20, found.end_ns)
   end)

   it("are proved", function()
      local function refused(changes, words)
         local text = TEXT
         for from, to in pairs(changes) do
            local n
            text, n = text:gsub(from:gsub("%p", "%%%0"), to)
            assert.is_true(n > 0)
         end
         local problem = files.failure(function() core.schedule.parse(text):check() end)
         assert.matches(words, problem.message)
      end
      refused({ ["device 0 joint 2"] = "device 0 joint 0" },
         "joint is '0', expected a number from 1 to")
      refused({ ["device 0 joint 2"] = "device 0 joint 3" }, "joint forwards of 3 micro%-batches "
         .. "in stage 0, which has 4 in a batch: expected a divisor of that")
      refused({ ["F0>F1 bytes 8 slots 4"] = "F0>F1 bytes 8 slots 1" }, "wait for ever: device 0, "
         .. "line 15: F0.0.1 waits for a free slot .*; device 1, line 16: F1.0.0 waits for edge 0")
      refused({ ["F1.0.0-3 B1.0.0-3"] = "F1.0.0-2 B1.0.0 F1.0.3 B1.0.1-3" },
         "device 1: B1.0.0 stands between forwards that are one: nothing else is computed there")
      refused({
         ["\nbatches 1"] = "\nbatches 2", ["device 1 joint 2"] = "device 1 versions 2 joint 2",
         ["U0.0"] = "U0.0 F0.1.0-3 B0.1.0-3 U0.1", ["U1.0"] = "U1.0 F1.1.0 F1.1.1~1 F1.1.2-3",
      }, "device 1: F1.1.1 has another lag than the forward that it is part of")
      refused({ ["\ndrain 0"] = "order 0 policy\n\ndrain 0" }, "device 0: F0.0.0 is a joint "
         .. "forward, on a device that chooses: expected one that follows its list")
   end)

   it("have replicas that take neighbours", function()
      local text = TEXT:gsub("stages 2", "stages 1"):gsub("\nstage 0 device 0 joint 2\n.*", [[

stage 0 device 0,1 replicas round-robin joint 2

drain 0 F0.0.0 F0.0.2 B0.0.0 B0.0.2 R0.0 U0.0
drain 1 F0.0.1 F0.0.3 B0.0.1 B0.0.3 R0.0 U0.0
]])
      local problem = files.failure(function() core.schedule.parse(text):check() end)
      assert.matches("joint forwards in stage 0, whose replicas take turns: expected "
         .. "'replicas block'", problem.message)
      core.schedule.parse((text:gsub("round%-robin", "block"):gsub("0.0.2", "0.0.x")
         :gsub("0.0.1", "0.0.2"):gsub("0.0.x", "0.0.1"))):check()
   end)

   it("make no loss", function()
      local o = options_of("bert", { devices = "cpu:1", stages = 2, forward_micro_batches = 4 })
      local text = pipeline.plan(o):text():gsub("F1%.0%.0 .-R1", "F1.0.0-7 B1.0.0-7 R1")
      text = text:gsub("(stage 1 [^\n]*)in%-flight 1", "%1in-flight 8 joint 2")
      local problem = files.failure(function()
         pipeline.plan(with(o, { plan = core.schedule.parse(text), steps = 3 }))
      end)
      assert.matches("stage 1 makes the loss, of each micro%-batch by itself: its forwards cannot "
         .. "be joint", problem.message)
   end)
end)
