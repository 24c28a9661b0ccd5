--- P1, P2: two workers on two cores against what the machine can give.
--
--    ftpipe bench/pipeline.lua [MODEL [BATCH MICRO_BATCHES SOURCE TARGET]]    t5-small, 16 in 8, 32/4
--
-- The ceiling is two independent single-worker runs side by side, in processes of their own. async is
-- held against the ceiling, gpipe and 1f1b against the ceiling times their bubble bound M / (M + P - 1).
-- Stages are cut by measured costs, as those of a recipe are; they are measured anew before the rounds.
-- A machine's speed drifts: a ratio is to the mean of the ceilings before and after the run, every round
-- begins with another schedule, and the median of the rounds is printed with their middle half.

local core = require("ftpipe.core")
local models = require("ftpipe.model")
local plans = require("ftpipe.plan")

package.path = "bench/?.lua;" .. package.path
local peer = require("peer")

local child = arg[1] == "--child" and table.remove(arg, 1) ~= nil
local name = arg[1] or "t5-small"
local batch, micro = tonumber(arg[2]) or 16, tonumber(arg[3]) or 8
local source, target = tonumber(arg[4]) or 32, tonumber(arg[5]) or 4
local STEPS, WARM, ROUNDS = 12, 1, 5
local SCHEDULES = { "async", "gpipe", "1f1b" }

local model = models.open { model = name, init = "random" }

local function plan_of(devices, schedule, profile)
   return plans.new {
      model = model, devices = devices, batch = batch, micro_batches = micro, buckets = { source },
      lengths = { target = target }, partition = "seq", schedule = schedule, recompute = "never",
      optimizer = "sgd", hypers = {}, clip = 0, seed = 1, dropout = 0.1, steps = STEPS + WARM,
      batches = STEPS + WARM, profile = profile,
   }
end

--- One leg of STEPS batches after a warm one; samples per second between the first and last result.
local function measure(devices, schedule, show)
   local seconds, seen = peer.step_seconds(plan_of(devices, schedule, "measured"), STEPS, WARM)
   if show then
      local busy = {}
      for d, ns in ipairs(seen.timeline.busy_ns) do busy[d] = ("%.2f s"):format(ns / 1e9) end
      print(("%s busy: %s of %.2f s"):format(schedule, table.concat(busy, ", "),
         seen.timeline.end_ns / 1e9))
   end
   return batch / seconds
end

if child then
   print(measure("cpu:1", "1f1b"))
   return
end

--- Two children at once: the sum of what they reach.
local function measure_ceiling()
   local command = ("%s bench/pipeline.lua --child %s %d %d %d %d"):format(core.sys.executable(), name,
      batch, micro, source, target)
   local children, sum = { io.popen(command), io.popen(command) }, 0
   for _, output in ipairs(children) do
      sum = sum + assert(tonumber(output:read("*l")), "a child failed")
      output:close()
   end
   return sum
end

--- What the stages of a cut take.
local function print_cut(schedule, profile)
   local forwards, backwards = {}, {}
   for s, stage in ipairs(plan_of("cpu:2", schedule, profile).blueprint:stages()) do
      forwards[s] = ("%.1f"):format(stage.forward_ns / 1e6)
      backwards[s] = ("%.1f"):format(stage.backward_ns / 1e6)
   end
   print(("%s is cut into forwards of %s ms and backwards of %s ms"):format(schedule,
      table.concat(forwards, ", "), table.concat(backwards, ", ")))
end

print_cut("1f1b", "fresh")
print_cut("gpipe", "measured")

local alone, ceilings, speeds, ratios = {}, { measure_ceiling() }, {}, {}
for _, schedule in ipairs(SCHEDULES) do
   speeds[schedule], ratios[schedule] = {}, {}
end

local bound = micro / (micro + 1)
for round = 1, ROUNDS do
   alone[round] = measure("cpu:1", "1f1b")
   for i = 0, #SCHEDULES - 1 do
      local schedule = SCHEDULES[(round + i) % #SCHEDULES + 1]
      speeds[schedule][round] = measure("cpu:2", schedule, round == ROUNDS)
      ceilings[#ceilings + 1] = measure_ceiling()
      local limit = schedule == "async" and 1 or bound
      local ceiling = (ceilings[#ceilings - 1] + ceilings[#ceilings]) / 2
      ratios[schedule][round] = speeds[schedule][round] / ceiling / limit
   end
end

print(("ceiling %.1f samples/s (two single workers side by side): %.2f times one worker alone"):format(
   peer.median(ceilings), peer.median(ceilings) / peer.median(alone)))
for _, schedule in ipairs(SCHEDULES) do
   local low, high = peer.middle(ratios[schedule])
   print(("pipeline %s: %.1f samples/s, ratio %.3f of the ceiling%s (middle half %.3f to %.3f)"):format(
      schedule, peer.median(speeds[schedule]), peer.median(ratios[schedule]),
      schedule == "async" and "" or (" times %.3f"):format(bound), low, high))
   peer.gate("pipeline-" .. schedule, peer.median(ratios[schedule]))
end
