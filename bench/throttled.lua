--- Steps over slow links: as they are predicted, as they are, and by which cut.
--
--    ftpipe bench/throttled.lua [STEPS [WIDTH]]      as root; 10; of the model, 192
--
-- Two processes in namespaces of networks, whose link is tools/relay.lua: for each rate and latency,
-- synchronous and asynchronous, a plan by the links as they were measured, and the cut that is made
-- for links which take nothing. Both are predicted before their first step, with costs that were
-- measured on this machine, and trained. A step is what a leg of three times as many takes longer,
-- so that filling and draining the pipeline count for neither. The relay takes a core
-- for each packet: where there are no more cores than processes, a step is longer by what it takes
-- of them, and less so the wider the model is.

package.path = "bench/?.lua;" .. package.path
local clusters = require("ftpipe.placement.cluster")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local peer = require("peer")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local ranks = require("ftpipe.run.ranks")
local several = require("spec.support.several")

local LINKS = { { 1e9, 1 }, { 1e9, 10 }, { 1e8, 1 }, { 1e8, 10 } } -- bits/s, ms
local SCHEDULES = { "1f1b", "async" }
local DEVICES, WARM, LEGS = "hosts:2xcpu:1", 3, 3

-- ---------------------------------------------------------------------------------------------
-- In the processes.

local function plan_of(schedule, steps, width, devices, partition)
   return pipeline.plan { devices = devices, schedule = schedule, steps = 3 * steps,
      partition = partition, profile = "measured", d_model = width, d_ff = 4 * width, batch = 32,
      dropout = 0, longest = true }
end

--- Seconds of a step: the median of some pairs of legs.
local function train(plan, o, steps)
   local run, params, list = ranks.run(plan), {}, {}
   for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
   plan.options.model:initialize(params, o.seed)
   run:refresh()
   local function leg(n)
      local start_ns = core.sys.time_ns()
      pipeline.steps(run, plan, o, 1, n)
      return (core.sys.time_ns() - start_ns) / 1e9
   end
   leg(WARM)
   for i = 1, LEGS do
      local short = leg(steps)
      list[i] = (leg(3 * steps) - short) / (2 * steps)
   end
   run:free()
   return peer.median(list)
end

local function try(what, schedule, plan, o, steps)
   local predicted = (plan:simulate(3 * steps).seconds - plan:simulate(steps).seconds) / 2 / steps
   print(("%s %s %s %.9f %.9f"):format(what, schedule, plan:span(1):match("%.%. (%S+)$"), predicted,
      train(plan, o, steps)))
end

local function child(steps, width, scratch)
   for _, schedule in ipairs(SCHEDULES) do
      local own, o = plan_of(schedule, steps, width, DEVICES)
      local fast = plan_of(schedule, steps, width, clusters { devices = DEVICES })
      local path = ("%s/%s.plan"):format(scratch, schedule)
      fast:save(path)
      try("own", schedule, own, o, steps)
      try("fast", schedule, plan_of(schedule, steps, width, DEVICES, path), o, steps)
   end
end

-- ---------------------------------------------------------------------------------------------
-- Around them.

--- What the processes say over one link: rows by schedule and cut.
local function over(set, rate, delay, steps, width, scratch)
   local said, code = several.machines_up(set, 2, ("%d"):format(rate), delay)
   assert(code == 0, said)
   process.shell("rm -rf " .. scratch .. "/ftpipe/links")
   local out, err, failed = process.shell(("env XDG_CACHE_HOME=%s %s"):format(scratch,
      several.on_machines(set, { "bench/throttled.lua", "child", steps, width, scratch })))
   several.machines_down(set, 2)
   assert(failed == 0, err)
   local rows = {}
   for what, schedule, cut, predicted, measured in out:gmatch("(%l+) (%S+) (%S+) (%S+) (%S+)\n") do
      rows[schedule] = rows[schedule] or {}
      rows[schedule][what] = {
         cut = cut, predicted = tonumber(predicted), measured = tonumber(measured),
      }
   end
   return rows
end

local function tell(rate, delay, schedule, row)
   for _, what in ipairs { "own", "fast" } do
      local r = row[what]
      print(("%4g Mb/s, %2g ms, %-5s %s to %-28s predicted %7.2f ms a step, measured %7.2f (%+.1f %%)")
         :format(rate / 1e6, delay, schedule, what == "own" and "cut for it,    up"
            or "cut for no cost, up", r.cut, 1e3 * r.predicted, 1e3 * r.measured,
            100 * (r.measured / r.predicted - 1)))
   end
end

local function compare(steps, width)
   local set, scratch, errors, gains = several.set_of_machines(), files.directory(), {}, {}
   for _, link in ipairs(LINKS) do
      local rows = over(set, link[1], link[2], steps, width, scratch)
      for _, schedule in ipairs(SCHEDULES) do
         local row = rows[schedule]
         tell(link[1], link[2], schedule, row)
         for _, r in pairs(row) do errors[#errors + 1] = math.abs(r.measured / r.predicted - 1) end
         local differ = row.own.cut ~= row.fast.cut
         gains[#gains + 1] = differ and row.fast.measured / row.own.measured or nil
      end
   end
   files.remove(scratch)
   peer.gate("throttled-median", peer.median(errors))
   peer.gate("throttled-worst", math.max(unpack(errors)))
   peer.gate("throttled-cut", #gains > 0 and math.min(unpack(gains)) or nil,
      "no link has a cut of its own")
end

local why = arg[1] ~= "child" and several.no_machines("1e9", "0.1")
if arg[1] == "child" then
   child(tonumber(arg[2]), tonumber(arg[3]), arg[4])
elseif why then
   for _, name in ipairs { "median", "worst", "cut" } do peer.gate("throttled-" .. name, nil, why) end
else
   compare(tonumber(arg[1] or 10), tonumber(arg[2] or 192))
end
