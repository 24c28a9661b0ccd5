--- ZB-V: two stages on each device, down the devices and up again.

local cases = require("spec.support.cases")
local files = require("spec.support.files")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")

--- So many whole stages of three times as long, or twice as many halves of them, on P devices.
local function play(schedule, P, M, n_stages)
   local stages, unit = {}, 2 * P / n_stages * 1000
   for s = 1, n_stages do
      stages[s] = {
         device = s <= P and s or n_stages + 1 - s, forward_ns = unit, backward_ns = 2 * unit,
         backward_input_ns = unit, backward_weight_ns = unit,
      }
   end
   local plan = ft.schedule.play {
      stages = stages, micro_batches = M, batches = 1, schedule = schedule, slots = 4 * P,
   }
   local held = {}
   for s, stage in ipairs(plan:describe().stages) do
      local d = stages[s].device
      held[d] = (held[d] or 0) + stage.in_flight / n_stages * P
   end
   return plan:simulate().end_ns / 1000, math.max(unpack(held))
end

describe("zb-v", function()
   it("waits for the first micro-batch to come down, and holds little more than 1f1b", function()
      for _, P in ipairs { 1, 2, 3, 4, 6, 8 } do
         for _, M in ipairs { P, 2 * P, 3 * P + 1 } do
            local ends, held = play("zb-v", P, M, 2 * P)
            local other = play("1f1b", P, M, P)
            local half = play("zero-bubble", P, M, P)
            -- units of a forward of half a stage: 6 for each micro-batch
            assert.equal(6 * M + P - 1, ends, ("P %d, M %d"):format(P, M))
            assert.equal(6 * (M + P - 1), other)
            assert.equal(6 * M + 2 * (P - 1), half)
            assert.is_true(held <= 1.25 * P, ("P %d, M %d: %g held"):format(P, M, held))
         end
      end
   end)

   it("takes what is ready by its kind: the order of two devices, worked out by hand", function()
      local stages, wanted = {}, { "FFIGIG", "FFIIGG", "FFIIGG", "FIFIGG" }
      for s = 1, 4 do stages[s] = { device = s < 3 and s or 5 - s } end
      local plan = ft.schedule.play {
         stages = stages, micro_batches = 2, batches = 2, schedule = "zb-v", slots = 4,
      }
      for s = 1, 4 do assert.equal(wanted[s] .. wanted[s], plan:letters(s)) end
      assert.is_truthy(plan:text():find("\nbody 0 F0.0.0-1 F3.0.0 I3.0.0 F3.0.1 I3.0.1 I0.0.0 "
         .. "G0.0.0 I0.0.1 G0.0.1 G3.0.0-1 U3.0\nbody 0 U0.0\n", 1, true))
   end)

   for _, family in ipairs(cases.rows { "t5", "bert", "gpt2" }) do
      it("computes what one device does: " .. family, function()
         local one = pipeline.train { family = family, steps = 4, clip = 1 }
         for _, o in ipairs {
            { devices = "cpu:2" }, { devices = "cpu:3", recompute = "always" },
            { devices = "cpu:3", micro_batches = 2 }, { devices = "cpu:2", micro_batches = 8 },
         } do
            o.family, o.steps, o.clip, o.schedule = family, 4, 1, "zb-v"
            local judge = o.micro_batches and pipeline.train {
               family = family, steps = 4, clip = 1, micro_batches = o.micro_batches,
            } or one
            local run = pipeline.train(o)
            assert.same(judge.losses, run.losses)
            assert.same(judge.norms, run.norms)
            assert.same(judge.params, run.params)
            pipeline.assert_memory(run.plan, run.measured)
            local P = tonumber(o.devices:match("%d"))
            for s, stage in ipairs(run.plan.blueprint:stages()) do
               assert.equal(s <= P and s or 2 * P + 1 - s, stage.device)
            end
         end
      end)
   end

   it("is planned, with a smaller bubble than schedules of one stage for each device", function()
      local seconds = {}
      for _, schedule in ipairs { "1f1b", "zero-bubble", "zb-v" } do
         local plan = ft.plan {
            model = ft.model "gpt2-xl", devices = "sim:4x80GB", batch = 16, micro_batches = 8,
            buckets = { 256 }, batches = 2, schedule = schedule, partition = "seq",
         }
         seconds[schedule] = plan:simulate(2).seconds
      end
      assert.is_true(seconds["zb-v"] < seconds["zero-bubble"])
      assert.is_true(seconds["zero-bubble"] < seconds["1f1b"])
   end)

   it("refuses stages that it has no place for, before anything is measured", function()
      local function refused(o, problem)
         o.schedule = "zb-v"
         local fault = files.failure(pipeline.plan, o)
         assert.equal("invalid argument", fault.status)
         assert.matches(problem, fault.message)
      end
      refused({ devices = "cpu:2", stages = 3 }, "3 stages on 2 devices: expected two for each "
         .. "device, 4")
      refused({ devices = "cpu:2", partition = "mixed" },
         'schedule = "zb%-v" needs partition = "seq", whose stages are one behind the other')
      local ok, problem = pcall(ft.schedule.play, {
         stages = { { device = 1 }, { device = 2 }, { device = 1 }, { device = 2 } },
         micro_batches = 2, batches = 1, schedule = "zb-v",
      })
      assert.is_false(ok)
      assert.matches("stage 2 is on device 0, expected device 1", tostring(problem))
   end)
end)
