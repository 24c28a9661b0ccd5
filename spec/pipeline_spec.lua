--- Training through a pipeline computes what one device computes, in the memory that was planned.

local with = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")

--- Whether two tables of numbers are the same to the bit; where they differ if not.
local function difference(a, b, where)
   if type(a) ~= "table" then
      if a == b or (a ~= a and b ~= b) then return nil end
      return ("%s: %s and %s"):format(where, tostring(a), tostring(b))
   end
   for key, value in pairs(a) do
      local found = difference(value, b[key], ("%s.%s"):format(where, tostring(key)))
      if found then return found end
   end
   return nil
end

--- Asserts that two runs had the same losses, norms and final parameters, to the bit.
local function assert_equal_runs(a, b)
   assert.equal(#a.losses, #b.losses)
   for _, key in ipairs { "losses", "norms", "params" } do
      assert.is_nil(difference(a[key], b[key], key))
   end
end

--- Planned and measured bytes agree for every class of every device.
local function assert_planned_memory(run) pipeline.assert_memory(run.plan, run.measured) end

local references = {}

--- What one device computes, sequentially, on one thread: the judge.
local function reference(name, options)
   references[name] = references[name] or pipeline.train(with(options, {
      devices = "cpu:1", schedule = "sequential", threaded = false,
   }))
   return references[name]
end

describe("a synchronous schedule", function()
   local cases = {}
   for devices = 1, 4 do
      for _, schedule in ipairs { "sequential", "gpipe", "1f1b", "zero-bubble" } do
         for _, recompute in ipairs { "never", "always" } do
            cases[#cases + 1] = {
               devices = "cpu:" .. devices, schedule = schedule, recompute = recompute,
            }
         end
      end
   end
   for _, case in ipairs(cases) do
      it(("computes what one device computes: %s, %s, recompute %s"):format(case.devices,
         case.schedule, case.recompute), function()
         local run = pipeline.train(case)
         assert_equal_runs(reference("plain", {}), run)
         assert_planned_memory(run)
      end)
   end

   it("learns something in those steps", function()
      local losses = reference("plain", {}).losses
      assert.equal(20, #losses)
      assert.is_true(losses[20] < losses[1])
   end)

   -- Each is compared with one device under the same options.
   local variants = {
      ["gated feed-forward, untied head (v1.1)"] = { gated = true, tied = false },
      ["clipping by the global norm"] = { clip = 0.5 },
      ["Adafactor"] = { optimizer = "adafactor", rate = 1e-2 },
      ["SGD with momentum, clipped"] = { optimizer = "sgd", rate = 1e-2, clip = 1 },
      ["BERT's span head, ReLU, SGD"] = { family = "bert", optimizer = "sgd", rate = 1e-2 },
      ["BERT's span head, one sample in each micro-batch"] = {
         family = "bert", gated = true, micro_batches = 8,
      },
      ["no dropout, one sample in each micro-batch"] = { dropout = 0, micro_batches = 8 },
      ["one micro-batch"] = { micro_batches = 1 },
   }
   for name, options in pairs(variants) do
      it("computes what one device computes with " .. name, function()
         local options_of_three = with(options, {
            devices = "cpu:3", schedule = "1f1b", recompute = "always", steps = 8,
         })
         local judge = reference(name, with(options, { steps = 8 }))
         local run = pipeline.train(options_of_three)
         assert_equal_runs(judge, run)
         assert_planned_memory(run)
         assert.equal(8, #judge.norms)
         for _, norm in ipairs(judge.norms) do assert.is_true(norm > 0 and norm < math.huge) end
      end)
   end

   -- Families other than T5, with every schedule.
   for _, family in ipairs { "bert" } do
      for devices = 1, 3 do
         for _, schedule in ipairs { "sequential", "gpipe", "1f1b", "zero-bubble" } do
            it(("computes what one device computes: %s, cpu:%d, %s"):format(family, devices,
               schedule), function()
               local options = { family = family, gated = true, clip = 1, steps = 8 }
               local run = pipeline.train(with(options, {
                  devices = "cpu:" .. devices, stages = devices + 1, schedule = schedule,
                  recompute = devices == 2 and "always" or "never",
               }))
               local judge = reference(family, options)
               assert_equal_runs(judge, run)
               assert_planned_memory(run)
               assert.is_true(judge.losses[8] < judge.losses[2]) -- batches of one bucket
            end)
         end
      end
   end

   -- Cuts that make the same computation in other pieces.
   local cuts = {
      ["more stages than devices"] = { devices = "cpu:2", stages = 5, schedule = "1f1b" },
      ["halves of backwards, stages that are not adjacent"] = {
         devices = "cpu:2", stages = 5, schedule = "zero-bubble",
      },
      ["halves of backwards, mixed"] = {
         devices = "cpu:2", stages = 4, schedule = "zero-bubble", partition = "mixed",
         recompute = "always",
      },
      ["halves of backwards, all on one device"] = {
         devices = "cpu:1", stages = 4, schedule = "zero-bubble",
      },
      ["more stages than devices, gpipe"] = { devices = "cpu:3", stages = 4, schedule = "gpipe" },
      ["all stages on one device"] = { devices = "cpu:1", stages = 4, schedule = "1f1b" },
      ["devices of two threads"] = { devices = "cpu:2x2", schedule = "gpipe" },
      ["cuts given by hand"] = {
         devices = "cpu:3", schedule = "1f1b",
         partition = { "encoder/block.1", "encoder/block.2", "decoder/block.2" },
      },
      ["the embedding alone in a stage"] = {
         devices = "cpu:2", schedule = "1f1b", partition = { "encoder/block.0", "head" },
      },
   }
   for name, options in pairs(cuts) do
      it("computes what one device computes with " .. name, function()
         local run = pipeline.train(with(options, { steps = 8, clip = 0.5 }))
         assert_equal_runs(reference("clip, 8 steps", { steps = 8, clip = 0.5 }), run)
         assert_planned_memory(run)
      end)
   end

   it("computes the same on one thread and on several", function()
      local options = { devices = "cpu:3", stages = 4, schedule = "1f1b", steps = 8, clip = 0.5 }
      assert_equal_runs(reference("clip, 8 steps", { steps = 8, clip = 0.5 }),
         pipeline.train(with(options, { threaded = false })))
   end)
end)

describe("the asynchronous schedule", function()
   local cases = {
      ["two devices"] = { devices = "cpu:2" },
      ["three devices"] = { devices = "cpu:3" },
      ["ties across three devices and five stages"] = { devices = "cpu:3", stages = 5 },
      ["BERT on three devices"] = { devices = "cpu:3", family = "bert", gated = true },
      ["an untied head, recomputation"] = {
         devices = "cpu:2", tied = false, gated = true, recompute = "always",
      },
   }
   for name, options in pairs(cases) do
      it("equals its replay on one thread, twice in a row: " .. name, function()
         local o = with(options, { schedule = "async" })
         local replay = pipeline.train(with(o, { threaded = false }))
         local first, second = pipeline.train(o), pipeline.train(o)
         assert_equal_runs(replay, first)
         assert_equal_runs(replay, second)
         assert_planned_memory(first)
         assert_planned_memory(replay)
      end)
   end

   it("is not what a synchronous schedule computes, but learns too", function()
      local run = pipeline.train { schedule = "async", devices = "cpu:3" }
      assert.is_not_nil(difference(reference("plain", {}).losses, run.losses, "losses"))
      assert.is_true(run.losses[20] < run.losses[1])
   end)

   it("updates each stage as far behind as the plan says", function()
      local run = pipeline.train { schedule = "async", devices = "cpu:3", trace = true }
      local stages = run.plan.blueprint:stages()
      local trace = core.json.decode(run.timeline.trace)
      local largest = {}
      for _, event in ipairs(trace.traceEvents) do
         local lag = event.args and event.args.lag
         if lag then largest[event.tid] = math.max(largest[event.tid] or 0, lag) end
      end
      assert.equal(#stages, 3)
      assert.equal(0, largest[2]) -- the last stage uses the newest weights
      assert.is_true(largest[0] >= 1)
   end)
end)

describe("a value that passes over stages", function()
   -- the encoder's output is read by every cross-attention: from stage 0 to stage 5, over four
   local cuts = {
      "decoder/block.0", "decoder/block.1", "decoder/block.1/cross", "decoder/block.2",
      "decoder/block.2/cross", "head",
   }
   local judge = { steps = 8 }

   for _, schedule in ipairs { "gpipe", "1f1b", "zero-bubble", "async" } do
      it("has a buffer for each, in the plan, in memory and in use: " .. schedule, function()
         local o = { devices = "cpu:3", partition = cuts, schedule = schedule, steps = 8 }
         local run = pipeline.train(o)
         assert_planned_memory(run)
         local bytes, slots = run.plan:text():match("\nedge F0>F5 bytes (%d+) slots (%d+)\n")
         assert.equal(2 * 16 * 24 * 4, tonumber(bytes)) -- a micro-batch of the longer bucket
         assert.equal("6", slots)
         if schedule == "async" then
            assert_equal_runs(pipeline.train(with(o, { threaded = false })), run)
         else
            assert_equal_runs(reference("8 steps", judge), run)
         end
      end)
   end
end)

describe("the memory of a run", function()
   local options = { devices = "cpu:2", schedule = "1f1b", steps = 2 }

   for _, schedule in ipairs { "sequential", "gpipe", "1f1b", "zero-bubble", "async" } do
      it("is what was planned, however few batches there are: " .. schedule, function()
         for _, steps in ipairs { 1, 2, 3 } do
            for _, micro_batches in ipairs { 1, 4 } do
               assert_planned_memory(pipeline.train {
                  devices = "cpu:3", stages = 4, schedule = schedule, steps = steps,
                  micro_batches = micro_batches, longest = true,
               })
            end
         end
      end)
   end

   it("is measured while a leg goes on, buffers too", function()
      local record = {}
      local run = pipeline.train(with(options, { record = record, steps = 6 }))
      assert_planned_memory(with(run, { measured = record.reached }))
   end)

   --- The options with budgets of so many bytes for each device.
   local function budgeted(bytes)
      return with(options, { devices = ("cpu:2/%dB"):format(bytes) })
   end

   it("fits a budget of just what was planned, and no byte less", function()
      local function fixed(o) return with(o, { partition = { "decoder/block.0" } }) end
      local bytes = math.max(unpack(pipeline.plan(fixed(options)):memory_bytes()))
      assert.equal(2, #pipeline.train(fixed(budgeted(bytes))).losses)
      local plan = pipeline.plan(fixed(budgeted(bytes - 1)))
      local problem = files.failure(plan.blueprint.check_memory, plan.blueprint)
      assert.equal("plan infeasible", problem.status)
      assert.equal(3, problem.exit)
   end)

   it("is refused before anything is allocated, with the breakdown", function()
      local plan = pipeline.plan(with(options, { devices = "cpu:2/100kB" }))
      collectgarbage()
      local live = core.sys.allocs()
      local problem = files.failure(plan.blueprint.run, plan.blueprint)
      assert.equal("plan infeasible", problem.status)
      assert.matches("^device cpu:%d needs %d+%.%d MB of memory, its budget is 0%.1 MB %(weights",
         problem.message)
      assert.matches("gradients %d.*optimizer %d", problem.message)
      collectgarbage()
      local after = core.sys.allocs()
      assert.is_true(after <= live)
   end)

   it("is refused where the machine has less than the devices may take", function()
      local batch = options.batch or 8
      local one = pipeline.plan(options)
      local needed = 0
      for _, bytes in ipairs(one:memory_bytes()) do needed = needed + bytes end
      local times = 2 ^ math.ceil(math.log(core.sys.memory() / needed) / math.log(2) + 3)
      local plan = pipeline.plan(with(options, {
         devices = "cpu:2/1000TB", batch = batch * times,
      }))
      local problem = files.failure(plan.blueprint.run, plan.blueprint)
      assert.equal("plan infeasible", problem.status)
      assert.matches("^the devices of this machine need [%d.]+ MB of memory together, it has "
         .. "[%d.]+ MB: expected fewer of them", problem.message)
   end)

   it("of a run that nobody holds is given back before a new one takes more", function()
      local plan = pipeline.plan(options)
      local function live_after(runs)
         for _ = 1, runs do
            local run = plan.blueprint:run()
            assert.truthy(run:param(1)) -- holds on to the run's memory until it is collected
            run:free()
         end
         return (core.sys.allocs())
      end
      local one = live_after(1)
      assert.is_true(live_after(6) <= one)
   end)

   it("holds a slot for every micro-batch in flight, and no more", function()
      local plan = pipeline.plan(with(options, { schedule = "gpipe" }))
      local fewer = pipeline.plan(with(options, { schedule = "1f1b" }))
      local in_flight, less = plan.blueprint:stages(), fewer.blueprint:stages()
      assert.same({ 4, 4 }, { in_flight[1].in_flight, in_flight[2].in_flight })
      assert.same({ 2, 1 }, { less[1].in_flight, less[2].in_flight })
      for d = 1, 2 do
         local slot = plan.memory[d].activations / in_flight[d].in_flight
         assert.equal(slot * less[d].in_flight, fewer.memory[d].activations)
      end
   end)

   it("is what the process grows by", function()
      if core.sanitized or core.sys.executable():find("ftpipe_check$") then
         return pending("sanitizers and checking devices keep memory of their own")
      end
      local run = pipeline.train {
         devices = "cpu:2", schedule = "1f1b", steps = 2, vocab_size = 16384, d_model = 256,
         d_kv = 64, d_ff = 1024,
      }
      assert_planned_memory(run)
      local planned = 0
      for _, bytes in ipairs(run.plan:memory_bytes()) do planned = planned + bytes end
      assert.is_true(planned > 100e6)
      assert.is_true(math.abs(run.grown - planned) <= 0.05 * planned + 32e6,
         ("planned %.1f MB, grew by %.1f MB"):format(planned / 1e6, run.grown / 1e6))
   end)
end)

describe("a leg", function()
   it("executes every action of the plan, once, and allocates nothing meanwhile", function()
      local run = pipeline.train { devices = "cpu:3", stages = 4, schedule = "1f1b", clip = 1 }
      local stages, batches, micro = 4, 20, 4
      local adopting = {} -- stages that take over tied weights once per batch
      for stage in run.plan:text():gmatch("\nedge U%d+>W(%d+) ") do adopting[stage] = true end
      local adopts = 0
      for _ in pairs(adopting) do adopts = adopts + batches end
      assert.is_true(adopts > 0)
      assert.equal(stages * batches * (2 * micro + 2) + adopts, run.timeline.events)
      assert.equal(0, run.timeline.allocations)
   end)

   it("leaves a trace of the actions that its simulation has", function()
      local run = pipeline.train { devices = "cpu:2", schedule = "1f1b", steps = 3, trace = true }
      local function names(trace)
         local list = {}
         for _, event in ipairs(core.json.decode(trace).traceEvents) do
            if event.ph == "X" and event.cat ~= "wait" then -- for what depends on the machine
               list[#list + 1] = ("%d %d %s"):format(event.pid, event.tid, event.name)
            end
         end
         table.sort(list)
         return list
      end
      assert.same(names(run.plan:simulate(3, true).trace), names(run.timeline.trace))
   end)

   it("may be shorter than the plan's, never longer", function()
      local plan = pipeline.plan { devices = "cpu:2", schedule = "async", steps = 1 }
      local run = plan.blueprint:run()
      run:begin(1, 1)
      assert.equal(0, run:finish().events)
      local problem = files.failure(run.begin, run, 5, 1)
      assert.matches("5 batches of it, expected 1 to 1, for which it is drawn", problem.message)
      run:free()
   end)

   it("that is not complete can be ended, and another one begun", function()
      local plan = pipeline.plan { devices = "cpu:3", schedule = "1f1b", steps = 4 }
      local run = plan.blueprint:run()
      for _ = 1, 3 do
         run:begin(4, 1)
         assert.is_true(run:wants())
         assert.matches("cpu:0: action 0 of .* waits for batch 0 to be fed", run:describe())
         run:finish()
      end
      assert.fails_with(function() run:next(1) end, "no batch is under way")
      run:free()
      assert.fails_with(function() run:wants() end, "freed")
   end)
end)
