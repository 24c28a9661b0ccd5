--- Devices without packed copies of weights: they compute with weights as they are stored.

local core = require("ftpipe.core")
local judged = require("spec.support.judged")
local models = require("ftpipe.model")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local profiles = require("ftpipe.profile")
local with = require("ftpipe.base.copy")

if not core.engine.devices("cpu:1")[1].in_host then
   pending("skipped: devices of this process are not its cores")
   return
end

local function options_of(family, devices, changes)
   return with({ family = family, devices = devices, schedule = "1f1b", stages = 4, steps = 3,
      batch = 8, micro_batches = 4 }, changes or {})
end

--- Bytes of a class on all devices.
local function bytes_of(plan, class)
   local sum = 0
   for _, classes in ipairs(plan.memory) do sum = sum + (classes[class] or 0) end
   return sum
end

describe("devices without packed copies of weights", function()
   local cases = { {}, { schedule = "async" }, { recompute = "always", swap = "always" },
      { schedule = "gpipe", clip = 1, threaded = false } }
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("compute what others do, with what they take less: " .. family, function()
         for _, case in ipairs(cases) do
            local judge = pipeline.train(options_of(family, "cpu:2", case))
            local run = pipeline.train(options_of(family, "cpu:2/unpacked", case))
            judged(judge, run)
            if not case.swap then
               assert.is_true(bytes_of(judge.plan, "packed") > 0)
               assert.is_true(bytes_of(judge.plan, "turned") > 0)
            end
            assert.equal(0, bytes_of(run.plan, "packed"))
            assert.equal(0, bytes_of(run.plan, "turned"))
         end
      end)
   end

   it("are what is advised where the copies are too much", function()
      local function plan(devices)
         return process.ftpipe { "plan", "t5-small", "--devices", devices, "--batch", "8",
            "--micro-batches", "1", "--max-source", "128", "--max-target", "4", "--profile",
            "modelled" }
      end
      local _, err, code = plan("cpu:1/1.4GB")
      assert.equal(3, code)
      assert.matches("%-%-devices cpu:1/1.4GB/unpacked: fits", err)
      _, err, code = plan("cpu:1/1.4GB/unpacked")
      assert.equal(0, code, err)
   end)

   it("are measured as such", function()
      local model = models.open { model = "embedded:t5_tiny", init = "random" }
      local function packing_ns(device)
         local profile, sum = profiles.new(model, device, { fresh = true, source = 16 }), 0
         for _, row in ipairs(profile.rows.forward) do sum = sum + row.pack_ns end
         return sum
      end
      assert.is_true(packing_ns("cpu:1") > 0)
      assert.equal(0, packing_ns("cpu:1/unpacked"))
   end)

   it("are modelled with weights that every product reads", function()
      local model = models.open { model = "t5-small" }
      local graph = model.family.training(model.config, { batch = 1, source = 16, target = 4 })
      local packed, plain = graph:times("cpu:1"), graph:times("cpu:1/unpacked")
      local updates, fewer = graph:update_times("cpu:1"), graph:update_times("cpu:1/unpacked")
      for n = 1, graph:counts().forward do
         local multiplies = graph:node(n).op == "linear"
         assert.equal(multiplies, plain[n] > packed[n])
         if multiplies then assert.is_true(fewer[n] < updates[n]) end
      end
   end)
end)
