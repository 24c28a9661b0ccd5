--- --recompute auto: within the budget, no slower than recomputing nowhere or everywhere, and the
-- same numbers, also where backwards come in halves.

local cases = require("spec.support.cases")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")

--- What a rule gives within a budget: the predicted time of some batches, the plan.
local function plan_of(schedule, partition, gigabytes, rule)
   local plan = ft.plan {
      model = ft.model "t5-small", devices = ("sim:4x%gGB"):format(gigabytes), batch = 64,
      micro_batches = 8, buckets = { 256 }, lengths = { target = 64 }, batches = 4,
      schedule = schedule, partition = partition, recompute = rule,
   }
   for d, bytes in ipairs(plan:memory_bytes()) do
      if bytes > plan.devices[d].memory_bytes then return math.huge, plan end
   end
   return plan:simulate(4).seconds, plan
end

-- Schedule, partition, and budgets between what recomputing everywhere needs and what suffices
-- without.
local ROWS = {
   { "1f1b", "seq", { 1.1, 0.9 } }, { "1f1b", "mixed", { 1.6 } }, { "async", "seq", { 1.1, 0.9 } },
   { "zero-bubble", "seq", { 1.3 } }, { "zero-bubble", "mixed", { 2.5 } },
   { "gpipe", "seq", { 1.3 } },
}

describe("--recompute auto", function()
   for _, row in ipairs(cases.rows(ROWS)) do
      it(("is as fast as never and always within a budget: %s, %s"):format(row[1], row[2]),
         function()
            for _, budget in ipairs(row[3]) do
               local auto, plan = plan_of(row[1], row[2], budget, "auto")
               local never = plan_of(row[1], row[2], budget, "never")
               local always = plan_of(row[1], row[2], budget, "always")
               assert.is_true(auto < math.huge)
               assert.is_true(auto <= math.min(never, always),
                  ("%g GB: auto %g, never %g, always %g"):format(budget, auto, never, always))
               assert.equal("auto", plan.options.recompute)
            end
         end)
   end

   --- How many stages of a plan recompute, and how many there are.
   local function count(plan)
      local n = 0
      for _, flag in ipairs(plan.recompute) do n = n + (flag and 1 or 0) end
      return n, #plan.recompute
   end

   for _, family in ipairs { "t5", "bert", "gpt2" } do
      for _, schedule in ipairs(cases.rows { "1f1b", "zero-bubble" }) do
         it(("in some stages, or with less that waits there, leaves one device's bits: %s, %s")
            :format(family, schedule), function()
            local o = { family = family, steps = 4, d_model = 12, d_ff = 20, clip = 1 }
            local one = pipeline.train(o)
            o.devices, o.schedule, o.stages, o.recompute = "cpu:2", schedule, 4, "never"
            local lavish = pipeline.plan(o)
            o.recompute = "always"
            local least = pipeline.plan(o)
            local seen = 0
            for _, share in ipairs { 0.05, 0.3, 0.6, 0.8 } do
               local budget = 0
               for d, row in ipairs(lavish.memory) do
                  local lean = least.memory[d].total
                  budget = math.max(budget, lean + math.ceil((row.total - lean) * share))
               end
               o.devices, o.recompute = ("cpu:2/%dB"):format(budget), "auto"
               local run = pipeline.train(o)
               assert.same(one.losses, run.losses)
               assert.same(one.params, run.params)
               pipeline.assert_memory(run.plan, run.measured)
               for _, row in ipairs(run.plan.memory) do assert.is_true(row.total <= budget) end
               local n, all = count(run.plan)
               local some = n > 0 and n < all or run.plan.partition.waiting
               seen = seen + (some and 1 or 0)
            end
            assert.is_true(seen > 0)
         end)
      end
   end
end)
