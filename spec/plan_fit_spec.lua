--- How plans are made to fit the budgets of their devices.

local copy = require("ftpipe.base.copy")
local draw = require("ftpipe.plan.draw")
local files = require("spec.support.files")
local fit = require("ftpipe.plan.fit")
local ft = require("ftpipe")
local keep = require("ftpipe.plan.keep")
local remedies = require("ftpipe.plan.remedies")

local function plan(o)
   o.model, o.lengths, o.recompute, o.batches = ft.model("t5-small"), { target = 8 }, "auto", 2
   return ft.plan(o)
end

local function assert_fits(subject)
   for d, bytes in ipairs(subject:memory_bytes()) do
      local budget = subject.devices[d].memory_bytes
      assert.is_true(bytes <= budget, ("device %d: %d of %d bytes"):format(d - 1, bytes, budget))
   end
end

describe("stages that recompute", function()
   it("keep in the order of what they have in flight, of equals the first", function()
      local rows = { { in_flight = 4 }, { in_flight = 2 }, { in_flight = 3 }, { in_flight = 2 } }
      assert.same({ 2, 4, 3, 1 }, keep.order({ true, true, true, true }, rows))
      assert.same({ 4, 1 }, keep.order({ true, false, false, true }, rows))
   end)
end)

describe("a plan that does not fit", function()
   it("knows of other options what they give with costs that were measured", function()
      local directory = files.directory()
      finally(function() files.remove(directory) end)
      local path = directory .. "/own.profile"
      local model = ft.model("t5-small")
      ft.profile(model, "sim:2x100MB", { calibrate = { cross_entropy = 1e4 },
         batch = 2, source = 256, dropout = 0 }):save(path)
      local function of(profile, optimizer)
         return plan { devices = "sim:2x100MB", partition = "seq", batch = 8, micro_batches = 4,
            buckets = { 256 }, profile = profile, optimizer = optimizer }
      end
      local find, row = remedies.find, nil
      finally(function() remedies.find = find end)
      function remedies.find(try, o)
         row = try(copy(o, { optimizer = "sgd" }))
         return {}
      end
      of(path, "adamw"):remedies()
      local same = of(path, "sgd")
      local batches = fit.compared(same)
      assert.equal(fit.worst_over(same), row.over_bytes)
      assert.near(1, row.seconds / (same:simulate(batches).seconds / batches), 1e-9)
   end)
end)

describe("a plan that is made to fit", function()
   it("lets gradients of weights wait as stages are before theirs, and as there is room",
      function()
         local tight = plan {
            devices = "sim:4x720MB", schedule = "zero-bubble", partition = "seq", batch = 16,
            micro_batches = 8, buckets = { 256 },
         }
         local waiting = tight.partition.waiting
         assert_fits(tight)
         assert.same({ 0, 1, 2 }, { waiting[1], waiting[2], waiting[3] })
         assert.is_true(waiting[4] < 3)
      end)

   it("is drawn once for each choice of stages that recompute", function()
      local drawn, blueprint = {}, draw.blueprint
      finally(function() draw.blueprint = blueprint end)
      function draw.blueprint(o, graphs, partition, recompute)
         local parts = { tostring(partition) }
         for s, flag in ipairs(recompute) do parts[#parts + 1] = flag and s or "-" end
         drawn[#drawn + 1] = table.concat(parts, " ")
         return blueprint(o, graphs, partition, recompute)
      end
      assert_fits(plan {
         devices = "sim:2x1100MB", stages = 8, partition = "seq", schedule = "interleaved",
         batch = 16, micro_batches = 4, buckets = { 256 },
      })
      local seen = {}
      for _, choice in ipairs(drawn) do
         assert.is_nil(seen[choice], choice)
         seen[choice] = true
      end
      assert.is_true(#drawn > 4)
   end)

   it("counts of what is frozen its weights and packed copies alone", function()
      assert_fits(plan {
         devices = "cpu:2/830MB", profile = "modelled", schedule = "1f1b", partition = "mixed",
         batch = 8, micro_batches = 4, buckets = { 64 }, groups = "encoder.*: frozen",
      })
   end)
end)
