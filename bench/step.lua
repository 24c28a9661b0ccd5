--- E2: one training step against PyTorch.
--
--    ftpipe bench/step.lua [MODEL [BATCH SOURCE [TARGET]]]      t5-small, 8, 128, 4
--
-- The same steps in bf16 run in turn with those in f32, where the CPU has bf16.
--
-- MODEL is t5-small, t5-base, bert-base, gpt2, or a directory with the config.json of one of these
-- families.
-- The peer runs when FTPIPE_PEER_PYTHON names a Python with torch and transformers: eager, f32, one
-- thread, fused AdamW, the same shapes and dropout, weights random on both sides. Steps alternate;
-- the figure is the ratio of medians of CPU time.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local models = require("ftpipe.model")
local peers = require("peer")
local plans = require("ftpipe.plan")

local name = arg[1] or "t5-small"
local batch = tonumber(arg[2]) or 8
local source, target = tonumber(arg[3]) or 128, tonumber(arg[4]) or 4
local ROUNDS, WARM = 9, 2

--- A run on one device of one thread, whole batches.
local function open_run(steps, precision)
   local model = models.open { model = name, init = "random" }
   local plan = plans.new {
      model = model, devices = "cpu:1", batch = batch, micro_batches = 1, buckets = { source },
      lengths = { target = target }, partition = "seq", schedule = "1f1b", recompute = "never",
      optimizer = "adamw", hypers = {}, clip = 0, seed = 1, dropout = 0.1, steps = steps,
      batches = steps, precision = precision,
   }
   local run, params = plan.blueprint:run(), {}
   for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
   model:initialize(params, 1)
   run:refresh()
   run:begin(steps, 1, false)
   return run, peers.step_inputs(plan.graphs[1], model.family,
      { batch = batch, micro = 1, vocab = model.config.vocab_size })
end

--- One step, seconds of CPU time.
local function step(run, inputs)
   local start = os.clock()
   run:feed(inputs, 1, 1e-4)
   run:next(600)
   return os.clock() - start
end

local run, inputs = open_run(ROUNDS + WARM)
local half = core.sys.has_bf16() and open_run(ROUNDS + WARM, "bf16")
local peer = peers.python("step_torch.py", name, batch, source, target)
local half_peer = half and peers.python("step_torch.py", name, batch, source, target, "cpu", "bf16")
local ours, theirs, halves, their_halves = {}, {}, {}, {}
for round = 1, ROUNDS + WARM do
   local seconds = step(run, inputs)
   local in_bf16 = half and step(half, inputs)
   local other, other_in_bf16 = peer and peer.ask("step"), half_peer and half_peer.ask("step")
   if round > WARM then
      ours[#ours + 1] = seconds
      theirs[#theirs + 1] = other
      halves[#halves + 1] = in_bf16 or nil
      their_halves[#their_halves + 1] = other_in_bf16 or nil
   end
end
run:finish()
if half then
   half:finish()
   print(("step %s batch %d %d/%d: bf16 %.3f s, f32 %.3f s, ratio %.3f of its time"):format(name,
      batch, source, target, peers.median(halves), peers.median(ours),
      peers.median(halves) / peers.median(ours)))
   if half_peer then
      half_peer.close()
      print(("step %s batch %d %d/%d: bf16 %.3f s, torch in bf16 %.3f s, ratio %.3f of its time")
         :format(name, batch, source, target, peers.median(halves), peers.median(their_halves),
            peers.median(halves) / peers.median(their_halves)))
   end
else
   print("skipped: bf16 (this CPU has none)")
end
if peer then
   peer.close()
   print(("step %s batch %d %d/%d: ours %.3f s, torch %.3f s, ratio %.3f of its time"):format(name,
      batch, source, target, peers.median(ours), peers.median(theirs),
      peers.median(ours) / peers.median(theirs)))
else
   print(("step %s batch %d %d/%d: ours %.3f s; skipped: torch (%s)"):format(name, batch, source,
      target, peers.median(ours), peers.NO_PYTHON))
end
peers.gate("step-" .. name:match("[^/]+/*$"), peer and peers.median(ours) / peers.median(theirs),
   peers.NO_PYTHON)
