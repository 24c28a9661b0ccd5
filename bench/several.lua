--- Several processes against one: two of one device each take a step as one of two devices does,
-- leg by leg in turn; with "many", so many processes of a stage each start, train and end.
--
--    ftpipe bench/several.lua [PAIRS [WIDTH]]       30; of the model, 192; rows grow with it
--    ftpipe bench/several.lua many [PROCESSES]

local core = require("ftpipe.core")
local passages = require("ftpipe.schedule.passages")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local ranks = require("ftpipe.run.ranks")
local rows = require("ftpipe.schedule.rows")
local several = require("spec.support.several")
local window = require("ftpipe.schedule.window")

package.path = "bench/?.lua;" .. package.path
local peer = require("peer")

local STEPS = 10 -- of a leg

--- The text of a file, once it is there.
local function await(path)
   local deadline = core.sys.time_ns() + 600e9
   while not core.sys.exists(path) do
      assert(core.sys.time_ns() < deadline, path)
      core.process.sleep(0.001)
   end
   return core.sys.read_file(path)
end

--- What passes between devices in a leg, and what they do meanwhile.
local function overlap(run, plan, o, first, steps)
   o.trace = true
   local _, _, played = pipeline.steps(run, plan, o, first, steps)
   local slices = window.of(core.json.decode(played.trace).traceEvents, 0, steps)
   return passages.words(slices, core.schedule.parse(plan.blueprint:plan_text()):head().edges,
      function(slice) return rows.computes(slice, #plan.devices) end)
end

--- Trains legs of so many steps, each once its turn has come, and says the seconds of a step: by
-- files of a directory, NAME.1, NAME.2, ... that are there, and their answers. The last one, of two
-- devices, says what passed between them.
local function train(devices, size, steps, turns)
   local plan, o = pipeline.plan { devices = devices, d_model = size, d_ff = 4 * size, steps = steps,
      batch = 4 * math.max(1, size / 24), dropout = 0, profile = "modelled" }
   local run, params = ranks.run(plan), {}
   for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
   plan.options.model:initialize(params, o.seed)
   run:refresh()
   for leg = 1, turns and turns.n or 1 do
      if turns then await(turns.path .. "." .. leg) end
      local start_ns = core.sys.time_ns()
      pipeline.steps(run, plan, o, (leg - 1) * steps + 1, steps)
      local text = ("step %.6f"):format((core.sys.time_ns() - start_ns) / 1e9 / steps)
      if turns then core.sys.write_file(turns.path .. "." .. leg .. ".done", text) else print(text) end
   end
   if turns then print(overlap(run, plan, o, turns.n * steps + 1, steps)) end
   run:free()
end

local function command(n, ...)
   return several.command(n, { "bench/several.lua", "child", ... }, 1000)
end

--- Two processes and one, which are there all the time: legs in turn, so that a machine whose own
-- speed changes from minute to minute changes both of a pair.
local function compare(n, size)
   local ratios, speeds = {}, {}
   files.in_directory(function(directory)
      local pipes, paths = {}, { one = directory .. "/one", two = directory .. "/two" }
      for name, devices in pairs { one = "cpu:2", two = "hosts:2xcpu:1" } do
         pipes[name] = io.popen(command(name == "one" and 1 or 2, devices, size, STEPS, paths[name],
            n + 1) .. " 2>&1")
      end
      local function seconds(name, leg)
         core.sys.write_file(paths[name] .. "." .. leg, "")
         return tonumber(await(paths[name] .. "." .. leg .. ".done"):match("step ([%d.]+)"))
      end
      for leg = 1, n + 1 do
         local first, second = "one", "two"
         if leg % 2 == 0 then first, second = second, first end
         local took = { [first] = seconds(first, leg) }
         took[second] = seconds(second, leg)
         if leg > 1 then -- the first touches memory for the first time
            ratios[leg - 1] = took.one / took.two
            speeds[leg - 1] = took.one * 1e3
         end
      end
      pipes.one:read("*a")
      local out = pipes.two:read("*a")
      print("two processes, " .. (out:match("between devices: [^\n]+") or out))
   end)
   local ratio, low, high = peer.median(ratios), peer.middle(ratios)
   print(("one process %.2f ms a step; of its speed two processes have %.3f (the middle half of %d "
      .. "pairs: %.3f to %.3f)"):format(peer.median(speeds), ratio, #ratios, low, high))
   peer.gate("several-processes", ratio)
end

local function many(n)
   local start_ns = core.sys.time_ns()
   local out, err, code = process.shell(command(n, ("hosts:%dxcpu:1"):format(n), "24", 5))
   local step = tonumber(out:match("step ([%d.]+)"))
   assert(code == 0 and step, err)
   print(("%d processes, a stage each: 5 steps of %.1f ms, %.1f s in all"):format(n, step * 1e3,
      (core.sys.time_ns() - start_ns) / 1e9))
end

local mode = arg[1]
if mode == "child" then
   train(arg[2], tonumber(arg[3]), tonumber(arg[4]),
      arg[5] and { path = arg[5], n = tonumber(arg[6]) })
elseif several.missing() then
   print("gate several-processes absent: " .. several.missing())
elseif mode == "many" then
   many(tonumber(arg[2] or 64))
else
   compare(tonumber(mode or 30), arg[2] or "192")
end
