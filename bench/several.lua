--- Several processes against one: two of one device each take a step as one of two devices does,
-- turn by turn in one run; with "many", so many processes of a stage each start, train and end.
--
--    ftpipe bench/several.lua [ROUNDS [WIDTH]]      of the model, 192; rows grow with it
--    ftpipe bench/several.lua many [PROCESSES]

local core = require("ftpipe.core")
local passages = require("ftpipe.schedule.passages")
local pipeline = require("spec.support.pipeline")
local ranks = require("ftpipe.run.ranks")
local rows = require("ftpipe.schedule.rows")
local several = require("spec.support.several")
local window = require("ftpipe.schedule.window")

local STEPS, LEGS = 10, 4

--- What passes between devices in a leg, and what they do meanwhile.
local function overlap(run, plan, o, first, steps)
   o.trace = true
   local _, _, played = pipeline.steps(run, plan, o, first, steps)
   local slices = window.of(core.json.decode(played.trace).traceEvents, 0, steps)
   return passages.words(slices, core.schedule.parse(plan.blueprint:plan_text()):head().edges,
      function(slice) return rows.computes(slice, #plan.devices) end)
end

--- Trains on the devices and prints the seconds of a step, the best of some legs, and what the
-- process has in memory.
local function train(devices, size, steps, legs)
   local plan, o = pipeline.plan { devices = devices, d_model = size, d_ff = 4 * size, steps = steps,
      batch = 4 * math.max(1, size / 24), dropout = 0, profile = "modelled" }
   local run, params, best = ranks.run(plan), {}, math.huge
   for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
   plan.options.model:initialize(params, o.seed)
   run:refresh()
   for leg = 0, legs - 1 do
      local start_ns = core.sys.time_ns()
      pipeline.steps(run, plan, o, leg * steps + 1, steps)
      best = math.min(best, (core.sys.time_ns() - start_ns) / 1e9 / steps)
   end
   print(("step %.6f\n%s"):format(best, overlap(run, plan, o, legs * steps + 1, steps)))
   run:free()
end

local function child(n, devices, ...)
   local words = { "bench/several.lua", "child", devices, ... }
   local out, err, code = several.run(n, words, 500)
   local seconds = tonumber(out:match("step ([%d.]+)"))
   assert(code == 0 and seconds, err)
   return seconds, out:match("between devices: [^\n]+")
end

--- Two processes and one, in turn.
local function compare(rounds, width)
   local ratios = {}
   for round = 1, rounds do
      local one = child(1, "cpu:2", width, STEPS, LEGS)
      local two, overlapped = child(2, "hosts:2xcpu:1", width, STEPS, LEGS)
      ratios[round] = one / two
      print(("one process %.2f ms, two processes %.2f ms a step: %.3f of its speed"):format(
         one * 1e3, two * 1e3, one / two))
      print("   two processes, " .. overlapped)
   end
   table.sort(ratios)
   print(("gate several-processes %.3f"):format(ratios[math.ceil(rounds / 2)]))
end

local function many(n)
   local start_ns = core.sys.time_ns()
   local step = child(n, ("hosts:%dxcpu:1"):format(n), "24", 5, 1)
   print(("%d processes, a stage each: 5 steps of %.1f ms, %.1f s in all"):format(n, step * 1e3,
      (core.sys.time_ns() - start_ns) / 1e9))
end

local mode = arg[1]
if mode == "child" then
   train(arg[2], tonumber(arg[3]), tonumber(arg[4]), tonumber(arg[5]))
elseif several.missing() then
   print("gate several-processes absent: " .. several.missing())
elseif mode == "many" then
   many(tonumber(arg[2] or 64))
else
   compare(tonumber(mode or 5), arg[2] or "192")
end
