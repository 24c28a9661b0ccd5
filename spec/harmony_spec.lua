--- Harmony's order of work: all micro-batches through one stage, then the next, updates behind it.

local with = require("ftpipe.base.copy")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")

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

describe("Harmony's table of volumes", function()
   local R = 4
   local systems = {
      { "1f1b", "lms", function(M) return 4 * M + 2, 2 * M + 2, 2, 2 * M end },
      { "gpipe", "clean", function(M) return 2 * M + 2, 2 * M, 2, 2 * M end },
      { "harmony-pp", "task", function(M) return 3, 0, 2, 2 * M end },
   }
   for _, system in ipairs(systems) do
      local schedule, swap, factors = unpack(system)
      it(("is executed: %s, --swap %s"):format(schedule, swap), function()
         for _, N in ipairs { 1, 2, 4 } do
            for _, M in ipairs { 1, 2, 3 } do
               local o = options_of("bert", {
                  schedule = schedule, swap = swap, stages = R, devices = "cpu:" .. N, batch = M,
                  micro_batches = M, steps = 1, trace = true, update = "device",
               })
               local run = pipeline.train(o)
               local moves, total = moves_of(run.plan:text())
               local w, dw, k, x = factors(M)
               assert.equal(w * R, moves.weights)
               assert.equal(dw * R, moves.gradients or 0)
               assert.equal(k * R, moves.optimizer)
               assert.equal(x * R, moves.activations)
               for letter in run.timeline.trace:gmatch("\"name\":%s*\"([LOD]) stage") do
                  total[letter] = total[letter] - 1
               end
               assert.same({ L = 0, O = 0, D = 0 }, total) -- what was planned was executed
               local judge = pipeline.train(with(o, { swap = "never", devices = "cpu:1" }))
               assert.same(judge.params, run.params)
            end
         end
      end)
   end
end)
