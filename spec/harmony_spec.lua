--- Harmony's order of work: all micro-batches through one stage, then the next, updates behind it.

local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")

local function with(options, changes)
   local o = {}
   for key, value in pairs(options) do o[key] = value end
   for key, value in pairs(changes) do o[key] = value end
   return o
end

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
