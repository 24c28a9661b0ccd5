--- How well steps are predicted that wait for copies to and from host memory: a GPT-2 of six blocks
-- in twelve stages on one worker, over budgets and rates of its link.
--
--    ftpipe bench/swap.lua [STEPS]        4
--
-- Work is profiled once; copies are held to the link's rate (cpu:1/BUDGET@RATE), so what is measured
-- is whether a run waits where its plan says so: beside each run stands one in which nothing moves,
-- and the work of the prediction is taken to be as much slower as that one is. Where a batch's copies take less time than its
-- computing, in each direction (Harmony's condition for loads that hide), the speed is held against
-- that of a run in which nothing moves.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local models = require("ftpipe.model")
local peer = require("peer")
local plans = require("ftpipe.plan")
local profiles = require("ftpipe.profile")

local WARM, steps = 1, tonumber(arg[1]) or 4
local BATCH, MICRO, SOURCE = 8, 4, 64

local scratch = os.tmpname()
os.remove(scratch)
core.sys.mkdir(scratch)
core.sys.write_file(scratch .. "/config.json", core.json.encode {
   model_type = "gpt2", vocab_size = 4000, n_embd = 320, n_layer = 6, n_head = 5,
   n_positions = SOURCE, n_ctx = SOURCE,
})
local model = models.open { model = scratch, init = "random" }

local function plan_of(devices, swap, profile)
   return plans.new {
      model = model, devices = devices, batch = BATCH, micro_batches = MICRO,
      buckets = { SOURCE }, partition = "seq", stages = 12, schedule = "harmony-pp",
      recompute = "always", optimizer = "adamw", hypers = {}, clip = 0, seed = 1, dropout = 0,
      steps = steps + WARM, batches = steps + WARM, swap = swap, profile = profile,
   }
end

--- Seconds of a step as the plan has it, between the ends of two legs, when all work takes `factor`
-- times as long.
local function predict(plan, factor)
   local factors = {}
   for s = 1, plan.n_stages do factors[s] = factor or 1 end
   local function till(batches) return plan.blueprint:simulate(batches, false, factors).end_ns end
   return (till(steps + WARM) - till(WARM)) / 1e9 / steps
end

--- The same as it was.
local function measure(plan) return (peer.step_seconds(plan, steps, WARM)) end

--- Seconds of a batch's copies in the slower direction.
local function copying(plan, rate)
   local most = 0
   for _, part in ipairs { "bytes_in", "bytes_out" } do
      local bytes = 0
      for _, of_class in pairs(plan.volumes[1][part]) do bytes = bytes + of_class end
      most = math.max(most, bytes / plan.options.batches / rate)
   end
   return most
end

local free = plan_of("cpu:1", "never", "modelled")
local profile = profiles(free.graphs[1], "cpu:1",
   { fresh = true, recompute = true, optimizer = "adamw", seconds = 2 })
local file = scratch .. "/profile"
profile:save(file)
free = plan_of("cpu:1", "never", file)
local least = plan_of("cpu:1", "always", file).memory[1].total
local all = free.memory[1].total
local computing = predict(free)
print(("nothing moves: %.1f MB, predicted %.1f ms"):format(all / 1e6, 1e3 * computing))

local errors, speeds = {}, {}
for _, share in ipairs { 0, .25, .5 } do
   local budget = math.ceil(least * 1.02 + share * (all - least))
   for _, rate in ipairs { 100e6, 400e6, 1600e6 } do
      local plan = plan_of(("cpu:1/%dB@%dMB/s"):format(budget, rate / 1e6), "auto", file)
      local before = measure(free)
      local measured = measure(plan)
      local unlimited = (before + measure(free)) / 2
      local predicted = predict(plan, unlimited / computing)
      local copies = copying(plan, rate)
      local hides = copies < unlimited
      errors[#errors + 1] = math.abs(measured / predicted - 1)
      if hides then speeds[#speeds + 1] = unlimited / measured end
      print(("%6.1f MB, %5.0f MB/s: nothing moves %7.1f ms, predicted %7.1f ms, measured %7.1f ms, "
         .. "off by %+.1f %%; copies %.1f ms%s"):format(plan.memory[1].total / 1e6, rate / 1e6,
         1e3 * unlimited, 1e3 * predicted, 1e3 * measured, 100 * (measured / predicted - 1),
         1e3 * copies,
         hides and (", could hide: %.2f of the speed without"):format(speeds[#speeds]) or ""))
   end
end
peer.gate("swap-worst", math.max(unpack(errors)))
if #speeds > 0 then
   peer.gate("swap-hidden", math.min(unpack(speeds)))
else
   print("gate swap-hidden absent: no rate was fast enough for copies to hide")
end
for _, name in ipairs { "config.json", "profile" } do os.remove(scratch .. "/" .. name) end
os.remove(scratch)
