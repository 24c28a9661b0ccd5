--- Which plan is drawn: of several cuts the fastest that fits, or the one that is given.

local arrange = require("ftpipe.placement.arrange")
local clusters = require("ftpipe.placement.cluster")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local draw = require("ftpipe.plan.draw")
local evaluation = require("ftpipe.plan.evaluation")
local feasible = require("ftpipe.base.feasible")
local fit = require("ftpipe.plan.fit")
local givens = require("ftpipe.plan.given")
local placement = require("ftpipe.placement")
local recompute = require("ftpipe.graph.recompute")
local schedules = require("ftpipe.schedule")
local partitions = require("ftpipe.plan.partition")
local swaps = require("ftpipe.plan.swaps")

local M = {}

--- The plan with devices that are alike changed about, where that makes it faster.
local function with_good_links(plan)
   local o, devices = plan.options, arrange.devices(plan)
   if not devices then return plan end
   local partition = copy(plan.partition)
   partition.device = devices
   local other = draw.blueprint(o, plan.graphs, partition, plan.recompute)
   local batches = fit.compared(plan)
   local ns, before = other.blueprint:simulate(batches).end_ns,
      plan.blueprint:simulate(batches).end_ns
   return ns < before and other or plan
end

--- A cut by time alone, and as it fits.
-- @treturn table first, fits: plans
local function draw_once(o, graphs, partition)
   partition = partition or partitions.of(graphs[#graphs], o)
   local flags = recompute.flags(o.recompute, partitions.count(partition.stage))
   local first = draw.blueprint(o, graphs, partition, flags)
   return { first = first, fits = fit.fit(first) }
end

--- Where devices have good links but their neighbours in the pipeline are behind worse ones, the
-- plan that is cut for these; nil where that is the same.
local function cut_for_neighbours(o, graphs, first)
   local slower = placement.is(o.partition) and clusters.neighbour_rates(o.devices)
   if not slower then return nil end
   local own = copy(o, { link_rates = slower })
   local partition = partitions.of(graphs[#graphs], own)
   local same = fit.worst_over(first) == 0 and partitions.are_same(partition, first.partition)
   local drawn = not same and feasible(draw_once, own, graphs, partition)
   return drawn and drawn.fits or nil
end

--- Whether a partitioner alone decides where stages are.
local function free_of_places(o)
   return placement.is(o.partition) and not partitions.has_places(o)
      and not schedules.places(o.rule or o.schedule)
end

--- Whether all devices do forwards alone, then backwards alone, and nobody says with which stages.
-- Each of the two takes as long as its slowest device, wherever the other is.
local function has_phases(o)
   local schedule = o.rule or o.schedule
   return schedules.is_flat(schedule) and not schedules.groups(schedule) and not o.searched
      and free_of_places(o)
      and type(o.partition) == "string"
end

--- Adds the plan of options that differ in `own`, as it fits; and as it was cut, where swaps may
-- make room as well as recomputation does. None where the schedule takes no such stages.
-- @treturn[opt] table what was drawn
-- @treturn[opt] failure why there is none
local function offer(plans, o, graphs, own)
   local drawn, failure = feasible(draw_once, copy(o, own), graphs)
   if not drawn then return nil, failure end
   plans[#plans + 1] = drawn.fits
   plans[#plans + 1] = swaps.mode(o).over and drawn.fits ~= drawn.first and drawn.first or nil
   return drawn
end

local draw_training -- asks itself, too

--- Plans to train by, of which the fastest is to be taken: cut by time and memory; where swaps may
-- make room as well as recomputation does, by time alone, and by memory alone; by links of
-- neighbours; by the time of forwards, and of backwards; by that of devices which take stages in
-- turns, unless the cut decides how late weights are: then a budget would change the numbers; with
-- nodes that read one weight on one device; by another partitioner, where this one names it; in
-- fewer stages, where they may lie anywhere.
-- @treturn {plan,...} may be empty
-- @treturn[opt] failure of the first cut
function draw_training(o, graphs)
   local plans = {}
   local drawn, failure = offer(plans, o, graphs)
   if drawn then
      plans[3] = plans[2] and fit.balanced(drawn.first)
      plans[#plans + 1] = cut_for_neighbours(o, graphs, drawn.first)
   end
   for _, phase in ipairs(has_phases(o) and { "forward", "backward" } or {}) do
      offer(plans, o, graphs, { phase = phase })
   end
   if o.synchronous and placement.takes_turns(o) and not o.searched then
      offer(plans, o, graphs, { by_device = true })
   end
   if placement.has_ties(graphs[#graphs], o) then
      offer(plans, o, graphs, { tied = true })
   end
   local free = free_of_places(o)
   --- All that are tried with other options.
   local function add(own)
      for _, plan in ipairs(draw_training(copy(o, own), graphs)) do plans[#plans + 1] = plan end
   end
   local also = free and not o.searched and placement.also(graphs[#graphs], o, swaps.may(o))
   if also then add { partition = also } end
   local fewer = free and (not o.searched or #plans == 0) and placement.fewer_stages(o)
   for _, stages in ipairs(fewer or {}) do add { stages = stages } end
   return plans, failure
end

--- Whether it is said which device a stage is on: a file is somebody's choice, interleaved stages
-- have theirs by number.
local function has_fixed_devices(o)
   local is_file = type(o.partition) == "string" and core.sys.exists(o.partition)
   return is_file or schedules.places(o.rule or o.schedule)
end

--- Of the plans to train by the fastest that fits, with what moves.
local function choose(o, graphs)
   local fixed, best = has_fixed_devices(o), nil
   local plans, failure = draw_training(o, graphs)
   if #plans == 0 then error(failure, 0) end
   for _, plan in ipairs(plans) do
      local other = swaps.fit(fixed and plan or with_good_links(plan))
      best = best and fit.better(best, other) or other
   end
   return best
end

--- What evaluation alone goes by.
local function draw_evaluation(o, graphs)
   return draw.evaluation(o, graphs, evaluation.partition(o, graphs))
end

--- What a plan that is there already means for the graphs.
-- @tparam table o settled options
-- @tparam {graph,...} graphs
-- @treturn plan
function M.given(o, graphs)
   local own = o.eval_only and graphs.evaluation or graphs
   local partition, flags = givens.partition(o, own[1])
   return draw.blueprint(o.eval_only and copy(o, { clip = 0 }) or o, own, partition, flags)
end

--- The plan of settled options, without its class.
-- @tparam table o; `hasty`: what moves is not chosen for speed
-- @tparam {graph,...} graphs
-- @treturn plan
function M.best(o, graphs)
   local drawn = o.given and M.given or o.eval_only and draw_evaluation or choose
   local plan = drawn(o, graphs)
   return o.hasty and plan or swaps.settle(plan)
end

return M
