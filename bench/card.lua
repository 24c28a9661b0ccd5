--- A training step on a card, wall time, beside PyTorch's on the same card.
--
--    ftpipe bench/card.lua DEVICES PRECISION MODEL BATCH SOURCE [TARGET]
--
-- MODEL is a built-in name, or a directory with the config.json of one. DEVICES is a device list:
-- several on one card are a pipeline, whose batch is cut into four. The peer runs when
-- FTPIPE_PEER_PYTHON names a Python with torch and transformers: eager and compiled, fused AdamW,
-- the same shapes, precision and dropout, random weights on both sides.
-- Prints lines of JSON behind "card ", of which the last has all.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local models = require("ftpipe.model")
local peers = require("peer")
local plans = require("ftpipe.plan")

local devices, precision, name, batch, source, target = unpack(arg)
batch, source, target = tonumber(batch), tonumber(source), tonumber(target) or 4
local STEPS, WARM, ROUNDS = 5, 2, 7

local n_devices = #core.engine.devices(devices)
local plan = plans.new {
   model = models.open { model = name, init = "random" }, devices = devices, batch = batch,
   micro_batches = n_devices > 1 and 4 or 1, buckets = { source }, lengths = { target = target },
   partition = "seq", schedule = "1f1b", recompute = "never", optimizer = "adamw", hypers = {},
   clip = 0, seed = 1, dropout = 0.1, steps = STEPS + WARM, batches = STEPS + WARM,
   precision = precision, profile = "modelled",
}
local seconds, seen = peers.step_seconds(plan, STEPS, WARM)
local result = {
   model = name:match("[^/]+/*$"), devices = devices, precision = precision, batch = batch,
   source = source, target = target, seconds = seconds,
   cpu_seconds = seen.cpu_seconds, memory_planned = plan:memory_bytes(),
   memory_measured = seen.reached,
}

--- The median time of PyTorch's steps; or why there is none.
local function peer(mode)
   local ok, answer = pcall(function()
      local child = peers.python("step_torch.py", name, batch, source, target, "cuda", mode,
         precision)
      if not child then error(peers.NO_PYTHON, 0) end
      local times = {}
      for round = 1, ROUNDS + WARM do
         local time = child.ask("step")
         times[#times + 1] = round > WARM and time or nil
      end
      child.close()
      return peers.median(times)
   end)
   return ok and answer or nil, not ok and tostring(answer) or nil
end

--- Whoever ends this before the peers are done has what there is so far.
local function say()
   print("card " .. core.json.encode(result, { sort = true }))
end

say()
for _, mode in ipairs { "eager", "compile" } do
   result[mode], result[mode .. "_absent"] = peer(mode)
   say()
end
