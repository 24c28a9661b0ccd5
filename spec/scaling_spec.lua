--- Losses that are scaled, and steps that are skipped where that was too far. In ftpipe_emu "cpu"
-- counts cards, so that this is of cards too.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local scaling = require("ftpipe.base.scaling")

local function train(options)
   return pipeline.train(copy({
      family = "gpt2", batch = 4, micro_batches = 2, steps = 4, clip = 0.5, d_model = 12, d_ff = 16,
   }, options))
end

local TOO_FAR = 2 ^ 40 -- in f16, where numbers end at 65504

--- Factors by batch: `far` at number `at`, else `factor`.
local function factors(factor, at, far)
   return function(number) return number == at and far or factor end
end

describe("a scaled loss", function()
   it("gives the bits of one that is not, on any cut", function()
      local plain = train { devices = "cpu:1", threaded = false }
      for _, devices in ipairs { "cpu:1", "cpu:2" } do
         local scaled = train { devices = devices, loss_scales = factors(2 ^ 12) }
         assert.same(plain.losses, scaled.losses)
         assert.same(plain.norms, scaled.norms)
         assert.same(plain.params, scaled.params)
      end
   end)

   it("skips the step whose gradients are not finite, and goes on", function()
      if core.engine.devices("cpu:1")[1].f16_flops_per_s == 0 then
         return pending("skipped: there is no f16 here")
      end
      local function run(devices, steps, skipped)
         return train { devices = devices, steps = steps, threaded = devices ~= "cpu:1",
            precision = "f16", skipped = skipped, loss_scales = factors(16, 2, TOO_FAR) }
      end
      local two, runs = run("cpu:1", 2), {}
      for i, devices in ipairs { "cpu:1", "cpu:2", "cpu:3" } do
         local skipped = {}
         assert.same(two.params, run(devices, 3, skipped).params)
         assert.same({ [3] = true }, skipped)
         runs[i] = run(devices, 5)
         assert.same(runs[1].losses, runs[i].losses)
         assert.same(runs[1].params, runs[i].params)
      end
      assert.not_same(two.params, runs[1].params)
      for _, loss in ipairs(runs[1].losses) do assert.is_true(loss > 0 and loss < 100) end
   end)

   it("ends the run where the forward is not finite, whatever its scale", function()
      local said = files.fault(train, { devices = "cpu:2",
         loss_scales = factors(16, 2, math.huge) })
      assert.matches("step 3: .* gave %a+", said)
   end)

   it("is of schedules that drain", function()
      local said = files.fault(train, { devices = "cpu:2", schedule = "async", clip = 0,
         loss_scales = factors(16) })
      assert.matches("losses are scaled where all stages of one process update together", said)
   end)
end)

describe("the factor of losses", function()
   --- Powers of two by which it stands beside its start, from how all steps went.
   local function power(skips)
      local up, run = 0, 0
      for _, skipped in ipairs(skips) do
         run = skipped and 0 or run + 1
         up = up + (skipped and -1 or run % scaling.GROWS_AFTER == 0 and 1 or 0)
      end
      return up
   end

   it("is halved by a skipped step and doubled by 2,000 good ones", function()
      assert.equal(65536, scaling.new().factor)
      local one, skips = scaling.new(), {}
      for step = 1, 14000 do -- the last 5,000 without a skipped one
         local skipped = step % 2777 == 3 and step < 9000 or step == 4100
         skips[step] = skipped
         one:saw(skipped)
         one = scaling.new(one:state()) -- as a checkpoint keeps it
         if step % 500 == 0 then assert.equal(2 ^ (16 + power(skips)), one.factor) end
      end
      assert.is_true(power(skips) ~= 0)
   end)

   it("is told from what is none", function()
      assert.is_true(scaling.is_state(scaling.new():state()))
      for _, bad in ipairs { {}, { factor = 3, good = 0 }, { factor = 0.5, good = 0 },
         { factor = 2, good = -1 }, { factor = 2, good = 0.5 }, { factor = 1 / 0, good = 0 } } do
         assert.is_false(scaling.is_state(bad))
      end
   end)
end)

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"
local RUN = "'%s' spec/support/resume_run.lua --family gpt2 --devices cpu:2 --precision f16 "
   .. "--lr-schedule constant --steps %d --save-every 2 --out '%s/run' %s"

describe("a run in f16", function()
   if core.sys.exists(PROGRAM) ~= "file" then
      return it("is of cards", function() pending("skipped: there is no ftpipe_emu") end)
   end

   local function play(dir, steps, more)
      local _, err, exit = process.shell(RUN:format(PROGRAM, steps, dir, more or ""))
      assert.equal(0, exit, err)
      local state = dir .. "/run/checkpoints/latest/"
      return core.sys.read_file(state .. "hf/model.safetensors"),
         core.json.decode(core.sys.read_file(state .. "state/state.json")).loss_scale
   end

   it("keeps its factor, and goes on to the same bits", function()
      local whole, stopped
      files.in_directory(function(dir)
         local scale
         whole, scale = play(dir, 4)
         assert.same({ factor = 65536, good = 4 }, scale)
         local rows = core.sys.read_file(dir .. "/run/metrics.jsonl")
         assert.matches('"loss_scale": 65536', rows)
      end)
      files.in_directory(function(dir)
         play(dir, 2)
         stopped = play(dir, 4, "--resume")
      end)
      assert.is_true(whole == stopped)
   end)
end)
