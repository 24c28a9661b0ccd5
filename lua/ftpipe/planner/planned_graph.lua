--- A graph file, planned: cut by a partitioner, and played by a schedule.

local clusters = require("ftpipe.placement.cluster")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local feasible = require("ftpipe.base.feasible")
local held = require("ftpipe.planner.held")
local keep = require("ftpipe.plan.keep")
local named = require("ftpipe.base.named")
local orders = require("ftpipe.graph.order")
local over = require("ftpipe.placement.over")
local partition = require("ftpipe.placement.partition")
local placement = require("ftpipe.placement")
local playing = require("ftpipe.schedule.played")
local recompute = require("ftpipe.graph.recompute")
local schedules = require("ftpipe.schedule")
local stages = require("ftpipe.placement.stages")
local subjects = require("ftpipe.planner.subject")
local usage = require("ftpipe.base.usage")

local M = {}

--- Has a cut use the links that the devices share, where they are described.
local function wire(cut, devices)
   local wired = devices and clusters.wired(devices)
   if type(wired) == "table" and wired.machine then stages.wire(cut, wired) end
end

local function device_names(o, problem)
   local names = {}
   for d, device in ipairs(o.devices and core.engine.devices(o.devices) or problem.devices) do
      names[d] = device.name or ("%d (kind %d)"):format(d - 1, device.kind or 1)
   end
   return names
end

-- Down-sets that the contiguous cut goes through where it is one of many starts: the plan that
-- these are compared with has begun from the exact one, which takes some seconds of a wide graph.
local QUICK_DOWN_SETS = 2000

--- Refuses what is for models alone: stages of a plan's file, and replicas to which a schedule
-- deals micro-batches. Here those of a stage are one device that is as many times as fast.
local function check(o, n_devices)
   if not placement.is(o.partition) then
      usage("%s is none of %s; stages of a plan are for models",
         named.value(o, "partition", placement.title(o.partition)),
         table.concat(placement.names(), ", "))
   end
   placement.check_places(o)
   if schedules.replicates(o.schedule) and n_devices > 1 then
      usage.of(o, "{schedule=%s} is for models; for replicas of stages of a graph give "
         .. "{partition=pipedream} with another {schedule}", o.schedule)
   end
end

--- Whether a device keeps more than it has room for, with so many micro-batches in flight.
local function is_over(problem, device, in_flight)
   local bytes = {}
   for i, d in ipairs(device) do
      bytes[d] = (bytes[d] or 0) + problem.fixed_bytes[i] + problem.saved_bytes[i] * in_flight
   end
   for d, row in ipairs(problem.devices) do
      if (row.memory_bytes or 0) > 0 and (bytes[d] or 0) > row.memory_bytes then return true end
   end
   return false
end

--- Stages that lie where the schedule has them, as of a model: two for each device, or as many as
-- are asked for, with the nodes in an order in which they can run. Cut by time; where that is over
-- a budget, each stage has its part of it, if there is such a cut.
local function in_turns(problem, o)
   local n = #problem.devices
   local two = schedules.folds(o.schedule) or n > 1 and 2 * n <= #problem.names
   local n_stages, on = o.stages or (two and 2 or 1) * n, {}
   for s = 1, n_stages do on[s] = schedules.device_of(o.schedule, s, n) end
   local ordered, place = orders.runnable(problem, on)
   local function cut(bounded)
      local rows = placement.take_turns(o.schedule, problem.devices, n_stages)
      for _, row in ipairs(bounded and {} or rows) do row.memory_bytes = 0 end
      local found = partition(copy(ordered, { devices = rows }),
         { method = "seq", in_order = true, cost = o.cost, seed = o.seed })
      local result = { method = "seq", stage = {}, device = {}, stage_device = on,
         stage_replicas = {} }
      for s = 1, n_stages do result.stage_replicas[s] = 1 end
      for i = 1, #problem.names do
         result.stage[i] = found.stage[place[i]]
         result.device[i] = on[result.stage[i]]
      end
      return result
   end
   local by_time = cut(false)
   if not is_over(problem, by_time.device, problem.in_flight) then return by_time end
   local found = feasible(cut, true)
   if not found and is_over(problem, by_time.device, 0) then
      partition(problem, { method = "seq", cost = o.cost, seed = o.seed }) -- raises if none fits
   end
   return found or by_time
end

--- A partition, which does not depend on the schedule but for how long activations stay, and where
-- it has stages itself. `mark` tells problems of one graph apart.
local function partition_once(problem, o, known, mark)
   local how, n = o.partition, #problem.names
   placement.check_stages(o, n, ("the graph has %s"):format(counted(n, "node")))
   local places = schedules.places(o.schedule)
   local key = type(how) == "string" and ("%s %s %s %s %s %s %s %s"):format(how,
      tostring(o.stages), o.cost, tostring(o.effort), tostring(o.quick),
      tostring(schedules.is_flat(o.schedule)), mark, places and o.schedule or "anywhere")
   local method, straight = placement.method(how)
   local result = known and known[key]
   if not result and places and placement.is_in_order(how) then
      result = in_turns(problem, o)
   elseif not result then
      result = partition(problem, {
         method = method, straight = straight, cost = o.cost, seed = o.seed, effort = o.effort,
         blocks = o.stages or placement.blocks(how, #problem.devices, n),
         max_down_sets = o.quick and QUICK_DOWN_SETS or nil,
      })
   end
   if known and key then known[key] = result end
   return result
end

--- What a function gives; where it refuses an argument, the message names the file.
local function of_file(graph, f, ...)
   local ok, result = pcall(f, ...)
   if ok then return result end
   if type(result) ~= "table" or result.status ~= "invalid argument" then error(result, 0) end
   return core.fail(result.status, ("%s: %s"):format(graph.path or "the graph", result.message),
      result.exit)
end

--- What partitioners are asked, as if stages recomputed by a rule.
local function problem_of(graph, o, rule)
   local factor = graph.memory_factor or placement.MEMORY_FACTOR[o.optimizer]
   return of_file(graph, graph.problem, graph, {
      devices = o.devices, micro_batches = o.micro_batches, in_flight = o.micro_batches,
      flat = schedules.is_flat(o.schedule), memory_factor = factor, recompute = rule,
   }), factor
end

--- The graph cut by a rule, with room for what that holds.
local function partitioned(graph, o, rule, known, room)
   local problem, factor = problem_of(graph, o, rule)
   local asked = held.with_room(problem, graph, room, o.link_rates)
   local mark = room and ("%s %g %s"):format(rule, room.share, table.concat(room.spare, " "))
      or rule
   if o.link_rates then mark = mark .. " linked" end
   return {
      graph = graph, options = o, factor = factor, problem = problem, rule = rule, asked = asked,
      result = of_file(graph, partition_once, asked, o, known, mark),
   }
end

--- What plays so many batches of a cut by the schedule.
local function player(cut, o)
   return function(batches, trace, factors)
      return stages.play(cut, {
         factors = factors,
         schedule = o.schedule, staleness = o.staleness, max_staleness = o.max_staleness,
         micro_batches = o.micro_batches, batches = batches, trace = trace,
      })
   end
end

local function legs(cut, o)
   return playing.legs(schedules.is_synchronous(o.schedule), o.micro_batches, #cut.stages)
end

--- What devices hold when a graph that is cut so is played by the schedule: as of a plan, of which
-- stages recompute by the rule.
-- @tparam table parts graph, options, problem, factor, rule
-- @tparam table result
-- @treturn table by device total, budget and parts; nil: the schedule has no plan of such stages
function M.memory(parts, result)
   local o, cut = parts.options, stages.of(parts.graph, parts.problem.devices, result)
   stages.recompute(cut, recompute.flags(parts.rule, #cut.stages))
   local ok, played = pcall(player(cut, o), select(2, legs(cut, o)))
   if ok then return held.memory(cut, played.stages, parts.problem, parts.factor) end
   if type(played) ~= "table" or played.status == "cancelled" then error(played, 0) end
   return nil
end

--- The subject of a cut graph.
-- @tparam table parts of `partitioned`
-- @tparam {boolean,...} flags by stage, whether it recomputes
local function subject_of(parts, flags)
   local graph, o, problem = parts.graph, parts.options, parts.problem
   local cut = stages.of(graph, problem.devices, parts.result)
   stages.recompute(cut, flags)
   wire(cut, o.devices)
   local play, short, long = player(cut, o), legs(cut, o)
   local played = of_file(graph, play, long)
   local subject = subjects.new({
      title = tostring(graph), graph = graph, problem = problem, result = parts.result, cut = cut,
      names = device_names(o, problem), options = o, method = parts.result.method,
      memory = held.memory(cut, played.stages, problem, parts.factor), recompute = flags,
      moved_bytes = stages.moved_bytes(cut, o.micro_batches), parts = parts,
      played = played, plays = play, lasts = function(factors)
         return playing.steady(short, long, function(batches)
            return play(batches, false, factors)
         end)
      end,
   }, played.stages)
   if subject.seconds == 0 then
      core.fail("malformed data", ("%s: a batch takes no time, expected nodes with forward_ns or "
         .. "backward_ns above 0"):format(graph.path))
   end
   return subject
end

--- Plans a graph by a rule that says of every stage whether it recomputes.
local function by_rule(graph, o, rule, known, room)
   local parts = partitioned(graph, o, rule, known, room)
   return subject_of(parts, recompute.flags(rule, #parts.result.stage_device))
end

--- The same with no more recomputed than memory asks for.
local function as_needed(graph, o, rule, known, room)
   local parts = partitioned(graph, o, rule, known, room)
   local lean = subject_of(parts, recompute.flags("always", #parts.result.stage_device))
   if not lean.fits then return lean end
   local function rows_of(subject)
      local rows = {}
      for s, row in ipairs(subject.stages) do
         rows[s] = { in_flight = row.in_flight, device = subject.cut.stages[s].device }
      end
      return rows
   end
   return keep.where_possible(lean, rows_of,
      function(flags) return subject_of(parts, flags) end,
      function(subject) return not subject.fits end)
end

--- Whether some device has no room for one more of the largest nodes, so that there might be a
-- faster cut if activations were not kept.
local function is_tight(subject)
   local problem, largest = subject.problem, 0
   for i, bytes in ipairs(problem.fixed_bytes) do
      local kept = problem.saved_bytes[i] * subject.options.micro_batches
      largest = math.max(largest, bytes + kept)
   end
   for _, row in ipairs(subject.memory) do
      if row.budget > 0 and row.budget - row.total < largest then return true end
   end
   return false
end

--- The faster one of plans that fit, else the one that is closer to it; of equals the first.
local function better(a, b)
   if not a or not b then return a or b end
   local x, y = over.worst(a.memory), over.worst(b.memory)
   if x > 0 or y > 0 then return y < x and b or a end
   return b.seconds < a.seconds and b or a
end

--- Plans by a rule, with as much room for what a cut holds as it takes to fit.
local function fitted(plan, graph, o, rule, known)
   return held.fit(function(room)
      if not room then return plan(graph, o, rule, known) end
      return (feasible(plan, graph, o, rule, known, room))
   end, rule, better)
end

--- Plans a graph by one partition. With `recompute` auto the faster of two cuts is taken: one of
-- which as much is kept as there is room for, and one that is made for recomputing, where memory
-- may have been in the way of the first.
local function plan_once(graph, o, known)
   if o.recompute ~= "auto" then return fitted(by_rule, graph, o, o.recompute, known) end
   local kept = feasible(fitted, by_rule, graph, o, "never", known)
   if kept and kept.fits and not is_tight(kept) then return kept end
   local less = kept and (kept.fits and kept or as_needed(graph, o, "never", known))
   if not less or not less.fits then return fitted(as_needed, graph, o, "but-last", known) end
   local lean = feasible(fitted, as_needed, graph, o, "but-last", known)
   return lean and lean.fits and lean.seconds < less.seconds and lean or less
end

-- The price that partitions have when nobody asks for another one; that is what is asked for then.
local PRICE = "overlap"

-- The price that hides no transfer: with few micro-batches in flight there is little to hide it by.
local EXPOSED = "sum"

--- Options of what is simulated beside a partition that searches: fewer stages, which wait for each
-- other less, down to half as many as devices, and stages that transfers are not hidden in, with
-- little effort; and of the best the partitions that search nothing.
local function rivals_of(graph, o)
   local list = {}
   if o.cost ~= PRICE then return list end
   local n = #(o.devices and core.engine.devices(o.devices) or graph.devices)
   local function add(most, cost)
      list[#list + 1] = most <= #graph.nodes and copy(o, {
         partition = "mixed", stages = most, cost = cost, quick = true,
         effort = o.effort or placement.EFFORT,
      }) or nil
   end
   for _, fewer in ipairs(placement.fewer_stages(o, n)) do add(fewer, PRICE) end
   local searches = placement.searches(o.partition)
   if n > 3 and not o.stages and searches then add(math.floor(n / 2), PRICE) end
   if n > 1 and searches then add(o.stages or n, EXPOSED) end
   for _, how in ipairs(placement.others(o.partition)) do
      list[#list + 1] = copy(o, { partition = how })
   end
   return list
end

--- The same and, where links between neighbours are slower than those of the devices, all of it
-- again with cuts that are made for these.
local function linked(list, o)
   local slower = o.devices and o.cost == PRICE and clusters.neighbour_rates(o.devices)
   if not slower then return list end
   for i = 0, #list do list[#list + 1] = copy(list[i] or o, { link_rates = slower }) end
   return list
end

--- Whether a graph has backwards, or gradients that come back: of inference it has neither.
local function has_backwards(graph)
   for _, node in ipairs(graph.nodes) do
      if node.backward or node.backward_ns > 0 then return true end
   end
   for _, edge in ipairs(graph.edges) do
      if edge.grad_bytes > 0 then return true end
   end
   return false
end

--- What a plan by Mixed-pipe leaves out, in a line; nil of others.
local function without_replicas(subject, o)
   if o.partition ~= "mixed" or o.cost ~= PRICE or #subject.names == 1 then return nil end
   return ("mixed has each stage on one device; %s also tries stages on several"):format(
      named.value(o, "partition", "best"))
end

--- Plans a graph; where its partition searches, by simulation the fastest of several that fits. One
-- without backwards is played as evaluation is, since no forward waits for one.
-- @tparam graph graph
-- @tparam table o options of ft.explore, checked
-- @tparam[opt] table known as of ft.explore.file
-- @treturn subject
function M.plan(graph, o, known)
   if not has_backwards(graph) then
      o = copy(o, { schedule = "evaluate", staleness = "none", recompute = "never" })
      o.max_staleness = nil
   end
   local devices = o.devices and core.engine.devices(o.devices) or graph.devices
   of_file(graph, check, o, #(devices or {}))
   local best, failure = feasible(plan_once, graph, o, known)
   for _, own in ipairs(linked(rivals_of(graph, o), o)) do
      best = better(best, (feasible(plan_once, graph, own, known)))
   end
   if not best then
      core.fail(failure.status, ("%s: %s%s; %s"):format(graph.path or "the graph", failure.message,
         held.amounts(problem_of(graph, o, "always")), held.remedies(graph, o)), failure.exit)
   end
   local said = best.options -- what was asked for, and the partition that was chosen
   said.cost, said.stages, said.effort, said.quick = o.cost, o.stages, o.effort, nil
   said.link_rates = nil
   best.asked = o.stages
   best.note = without_replicas(best, o)
   return best
end

return M
