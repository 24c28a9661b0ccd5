--- A training step on a card, wall time, beside PyTorch's on the same card.
--
--    ftpipe bench/card.lua DEVICES PRECISION MODEL BATCH SOURCE [TARGET]
--
-- MODEL is a built-in name, or a directory with the config.json of one. DEVICES is a device list:
-- several on one card are a pipeline, whose batch is cut into four. The peer runs when
-- FTPIPE_PEER_PYTHON names a Python with torch and transformers: eager and compiled, fused AdamW,
-- the same shapes, precision and dropout, random weights on both sides.
-- Prints lines of JSON behind "card ", of which the last has all: seconds of a step, flops (of a step,
-- as the graph counts them), flops_per_s, memory, eager and compile (PyTorch's seconds).

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
local graph, flops = plan.graphs[1], 0
for n = 1, graph:counts().nodes do flops = flops + graph:node(n).flops end
flops = flops * plan.options.micro_batches

-- The peer begins while this run does, where there is room for its weights beside it.
local device, taken = core.engine.devices(devices)[1], 0
for _, memory in ipairs(plan.memory) do taken = taken + memory.total + memory.weights end
local child
local function begin_peer()
   child = child or peers.python("step_torch.py", name, batch, source, target, "cuda", precision)
end
if 1.1 * taken < device.memory_bytes * n_devices then begin_peer() end

local seconds, seen = peers.step_seconds(plan, STEPS, WARM, function()
   if child and not pcall(child.ask, "ready") then child = nil end
end)
begin_peer()
local result = {
   model = name:match("[^/]+/*$"), devices = devices, precision = precision, batch = batch,
   source = source, target = target, seconds = seconds, flops = flops,
   flops_per_s = flops / seconds,
   cpu_seconds = seen.cpu_seconds, memory_planned = plan:memory_bytes(),
   memory_measured = seen.reached,
}

--- The median time of PyTorch's steps; or why there is none.
local function peer(mode)
   local ok, answer = pcall(function()
      if not child then error(peers.NO_PYTHON, 0) end
      local times = {}
      for round = 1, ROUNDS + WARM do
         local time = child.ask(mode)
         times[#times + 1] = round > WARM and time or nil
      end
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
if child then child.close() end
