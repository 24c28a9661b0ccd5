--- Lines of a plan as people read it.

local describe_plan = require("ftpipe.plan.describe")
local files = require("spec.support.files")
local process = require("spec.support.process")

--- What a dry run of the recipe prints with these flags.
local function planned(...)
   local out, err, code = process.ftpipe { "recipes/t5_rte.lua", "--dry-run", "--profile",
      "modelled", ... }
   assert.equal(0, code, err)
   return out
end

describe("a plan in words", function()
   it("says where an asynchronous run is drained, and of another one nothing", function()
      files.in_directory(function(dir)
         local function said(schedule, ...)
            return planned("--devices", "cpu:2", "--schedule", schedule, "--out", dir .. "/o", ...)
         end
         assert.matches("\ndrains: every 5 steps to save, every 4 steps to evaluate\n",
            said("async", "--save-every", "5", "--eval-every", "4"))
         assert.matches("\ndrains: every 4 steps to evaluate\n", said("async", "--eval-every", "4"))
         assert.not_matches("drains", said("async"))
         assert.not_matches("drains", said("1f1b", "--save-every", "5"))
      end)
   end)

   it("says which stages clip by norms that are late, and by how much", function()
      local function clip(schedule)
         return planned("--devices", "cpu:3", "--micro-batches", "2", "--clip", "1", "--schedule",
            schedule):match("\nclip: ([^\n]*)")
      end
      assert.equal("gradients to a norm of 1, over all stages", clip("1f1b"))
      assert.equal("gradients to a norm of 1, over all stages; norms of the stages before its own "
         .. "are some batches old, by stage 1: 1, 2: 1 (0 elsewhere, and in the first batch of a "
         .. "leg)", clip("async"))
   end)

   it("has budgets to a tenth where they are small", function()
      assert.matches("\n  sim:0 card +%d+%.%d of 64%.0 MB: ", planned("--devices", "sim:2x64MB"))
      assert.matches("\n  sim:0 card +%d+%.%d of 164 MB: ", planned("--devices", "sim:2x164MB"))
   end)
end)

describe("the devices of a stage", function()
   local plan = { devices = {} }
   for d = 1, 12 do plan.devices[d] = { name = "cpu:" .. d - 1 } end

   local function places(...) return describe_plan.places(plan, { devices = { ... } }) end

   it("are listed, many that follow each other by the first and the last", function()
      assert.equal("cpu:2", places(3))
      assert.equal("cpu:0, cpu:2", places(1, 3))
      assert.equal("cpu:0, cpu:1, cpu:2, cpu:3, cpu:4, cpu:5, cpu:6, cpu:7",
         places(1, 2, 3, 4, 5, 6, 7, 8))
      assert.equal("cpu:1 to cpu:9 (9 devices)", places(2, 3, 4, 5, 6, 7, 8, 9, 10))
      assert.equal("cpu:1, cpu:2, cpu:3, cpu:4, cpu:5, cpu:6, cpu:7, cpu:8, cpu:10",
         places(2, 3, 4, 5, 6, 7, 8, 9, 11))
   end)
end)
