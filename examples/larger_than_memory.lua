-- A model whose state is larger than its devices: what does not fit goes to host memory and comes
-- back, and the numbers stay the same. Run: ftpipe examples/larger_than_memory.lua
local ft = require("ftpipe")

--- Arguments of a small run on these devices.
local function arguments(devices, swap)
   return ft.args {
      "Fine-tune T5 to name colours, on devices that are too small.",
      preset = "t5",
      devices = { default = devices }, swap = { default = swap }, stages = { default = 12 },
      steps = { default = 8 }, max_source = { default = 64 }, max_target = { default = 4 },
      profile = { default = "modelled" },
   }
end

local here = arg[0]:match("^.*/") or ""
local task = ft.task.load(here .. "tasks/colour.lua") { max_source = 64 }

--- Trains; gives the plan, the losses, and the most bytes that a device held.
local function train(args)
   local model = ft.model(args)
   local data = task:open(model, args)
   local plan = ft.plan { model = model, data = data, args = args }
   local run, losses = ft.run { plan = plan, task = task, data = data, args = args }, {}
   for step in run:train() do losses[#losses + 1] = step.loss end
   return plan, losses
end

local function largest(plan) return math.max(unpack(plan:memory_bytes())) end

-- With room for everything, nothing moves.
local plan, losses = train(arguments("cpu:2", "auto"))
print(plan.volumes)                                   --> nil

-- Devices with half of that. A plan says before the run what moves, and what that costs.
local budget = math.floor(largest(plan) / 2)
local args = arguments(("cpu:2/%dB"):format(budget), "auto")
local small, same = train(args)
print(largest(small) <= budget)                       --> true
for d, volume in ipairs(small.volumes) do
   print(small.devices[d].name, volume.loads > 0, volume.saves > 0)
end
--> cpu:0	true	true
--> cpu:1	true	true
print(tostring(small):match("\nswaps of cpu:0: .- hidden") ~= nil)   --> true

-- The same numbers, bit for bit.
local differ = 0
for i, loss in ipairs(losses) do differ = differ + (loss ~= same[i] and 1 or 0) end
print(#losses, differ)                                --> 8	0

-- Over a link of 100 MB/s a plan that may not recompute instead waits for its copies.
local function predicted(devices)
   local a = arguments(devices, "auto")
   a.recompute = "never"
   local model = ft.model(a)
   return ft.plan { model = model, data = task:open(model, a), args = a }:simulate(8).seconds
end
local text = "cpu:2/%dB@%s"
print(predicted(text:format(budget, "100MB/s")) > 2 * predicted(text:format(budget, "10GB/s")))
--> true

-- Orders that group micro-batches have places for all of them between stages; packs of two stages
-- only between packs (doc/schedules.md).
local function buffers(packs)
   local a = ft.args {
      "Plan T5 on one device.", preset = "t5", devices = { default = "cpu:1" },
      schedule = { default = "harmony-pp" }, stages = { default = 12 }, packs = { default = packs },
      steps = { default = 8 },
      max_source = { default = 64 }, max_target = { default = 4 },
      profile = { default = "modelled" },
   }
   local model = ft.model(a)
   return ft.plan { model = model, data = task:open(model, a), args = a }.memory[1].buffers
end
print(buffers("2/2") < buffers("1/1"))                --> true
