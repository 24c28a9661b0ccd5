--- How well steps are predicted that wait for copies to and from host memory: a GPT-2 of six blocks
-- in twelve stages on one worker, over budgets and rates of its link.
--
--    ftpipe bench/swap.lua [STEPS]        4
--    ftpipe bench/swap.lua 0              predictions alone, of modelled work: the same everywhere
--
-- Work is profiled once; copies are held to the link's rate (cpu:1/BUDGET@RATE), so what is
-- measured is whether a run waits where its plan says so: beside each run stands one in which
-- nothing moves, and the work of the prediction is taken to be as much slower than that one is.
-- Where loads can hide by Harmony's condition, the speed is held against that of a run in which
-- nothing moves: what forwards bring takes no longer than they compute, what backwards and updates
-- bring and take away no longer than these, and there is room for one more stage's state beside the
-- largest task.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local models = require("ftpipe.model")
local peer = require("peer")
local plans = require("ftpipe.plan")
local profiles = require("ftpipe.profile")

local STAGES, WARM, steps = 12, 1, tonumber(arg[1]) or 4
local is_measured = steps > 0
if not is_measured then steps = 4 end
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
      buckets = { SOURCE }, partition = "seq", stages = STAGES, schedule = "harmony-pp",
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

--- Bytes of classes that a batch of a plan copies one way.
local function copied(plan, way, classes)
   local bytes = 0
   for _, class in ipairs(classes) do bytes = bytes + plan.volumes[1][way][class] end
   return bytes / plan.options.batches
end

--- Bytes of the slower direction in all forwards of a batch and in all backwards and updates, where
-- whatever a task brings leaves behind it; and the seconds that these compute.
local function harmony(plan, micro_batches)
   local loaded = copied(plan, "bytes_in", { "weights", "packed" }) / 2 -- backwards recompute
   local kept = copied(plan, "bytes_out", { "activations" })
   local stepped = { "weights", "packed", "turned", "optimizer", "gradients" }
   local back = loaded + kept
      + copied(plan, "bytes_in", { "turned", "optimizer", "gradients" })
   local forward, backward = 0, 0
   for _, stage in ipairs(plan.blueprint:stages()) do
      forward = forward + stage.forward_ns * micro_batches / 1e9
      backward = backward + stage.backward_ns * micro_batches / 1e9
   end
   return { { bytes = math.max(loaded, kept), seconds = forward },
      { bytes = math.max(back, copied(plan, "bytes_out", stepped)), seconds = backward } }
end

local free = plan_of("cpu:1", "never", "modelled")
local file = "modelled"
if is_measured then
   file = scratch .. "/profile"
   profiles(free.graphs[1], "cpu:1",
      { fresh = true, recompute = true, optimizer = "adamw", seconds = 2 }):save(file)
   free = plan_of("cpu:1", "never", file)
end
local least = plan_of("cpu:1", "always", file).memory[1].total
local tasks = harmony(plan_of("cpu:1", "task", file), MICRO)
local memory = free.memory[1]
local all = memory.total
local per_stage = (memory.weights + memory.gradients + memory.optimizer + memory.packed
   + memory.turned) / STAGES
local computing = predict(free)
print(("nothing moves: %.1f MB, predicted %.1f ms"):format(all / 1e6, 1e3 * computing))

--- Whether Harmony's condition holds.
local function can_hide(budget, rate)
   for _, task in ipairs(tasks) do
      if task.bytes / rate > task.seconds then return false end
   end
   return budget - least >= per_stage
end

local errors, speeds = {}, {}

--- A line of figures that are measured, and what they say for the gates.
local function compare(plan, rate, hides)
   local before = measure(free)
   local measured = measure(plan)
   local unlimited = (before + measure(free)) / 2
   local predicted = predict(plan, unlimited / computing)
   errors[#errors + 1] = math.abs(measured / predicted - 1)
   if hides then speeds[#speeds + 1] = unlimited / measured end
   return ("nothing moves %7.1f ms, predicted %7.1f ms, measured %7.1f ms, off by %+.1f %%; "
      .. "copies %.1f ms, %.3f of the speed without"):format(1e3 * unlimited, 1e3 * predicted,
      1e3 * measured, 100 * (measured / predicted - 1), 1e3 * copying(plan, rate),
      unlimited / measured)
end

for _, share in ipairs { 0, .25, .5 } do
   local budget = math.ceil(least * 1.02 + share * (all - least))
   for _, rate in ipairs { 100e6, 400e6, 1600e6 } do
      local plan = plan_of(("cpu:1/%dB@%dMB/s"):format(budget, rate / 1e6), "auto", file)
      local hides = can_hide(budget, rate)
      local line = is_measured and compare(plan, rate, hides)
         or ("copies %.1f ms, predicted %.3f of the speed without"):format(
            1e3 * copying(plan, rate), computing / predict(plan))
      print(("%6.1f MB, %5.0f MB/s: %s%s"):format(plan.memory[1].total / 1e6, rate / 1e6, line,
         hides and ", can hide" or ""))
   end
end
if is_measured then
   peer.gate("swap-worst", math.max(unpack(errors)))
   peer.gate("swap-hidden", #speeds > 0 and math.min(unpack(speeds)),
      "no rate was fast enough for copies to hide")
end
for _, name in ipairs { "config.json", "profile" } do os.remove(scratch .. "/" .. name) end
os.remove(scratch)
