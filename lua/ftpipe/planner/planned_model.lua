--- A model, planned as ft.plan does, to be looked at.

local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local describe = require("ftpipe.plan.describe")
local explain = require("ftpipe.plan.explain")
local graphs = require("ftpipe.graph")
local over = require("ftpipe.placement.over")
local placement = require("ftpipe.placement")
local plans = require("ftpipe.plan")
local playing = require("ftpipe.schedule.played")
local schedules = require("ftpipe.schedule")
local stages = require("ftpipe.placement.stages")
local subjects = require("ftpipe.planner.subject")
local swaps = require("ftpipe.plan.swaps")

local M = {}

local function memory_of(plan)
   local rows = {}
   for d, row in ipairs(plan.memory) do
      local parts = {}
      for _, class in ipairs(describe.classes) do parts[class] = row[class] end
      rows[d] = { total = row.total, budget = plan.devices[d].memory_bytes, parts = parts }
   end
   return rows
end

--- The options of ft.plan for a model that is only looked at.
local function plan_options(model, o)
   local stages_at_most = placement.stages(#core.engine.devices(o.devices), o.stages)
   -- a plan's file may say orders that do not drain
   local drains = not o.plan and schedules.is_synchronous(o.schedule)
   local _, long = playing.legs(drains, o.micro_batches, stages_at_most)
   local options = copy(o, {
      model = model, buckets = { o.source }, lengths = { target = o.target }, hypers = {}, clip = 0,
      dropout = model.config.dropout_rate, steps = long, batches = long,
   })
   options.source, options.target, options.cost = nil, nil, nil
   return options
end

local function by_node(stage, devices)
   local list = {}
   for i, s in ipairs(stage) do list[i] = devices[s] end
   return list
end

--- Bytes that pass between devices in a batch: values and gradients of values, and of weights that
-- several devices have their gradients and what an update made of them.
local function moved_bytes(plan)
   local bytes = 0
   for _, by_kind in ipairs(plan.sends) do
      for _, sent in pairs(by_kind) do bytes = bytes + sent end
   end
   return bytes / plan.options.batches
end

--- A plan of a model, with the options that it was made from.
local function of_plan(plan, given)
   local model = plan.options.model
   local o = copy(given, { schedule = plan.options.rule or plan.options.schedule,
      micro_batches = plan.options.micro_batches })
   local graph = graphs.of(plan.graphs[#plan.graphs], o.devices)
   graph.title = model.name
   local problem = graph:problem { devices = o.devices, micro_batches = o.micro_batches }
   local on, replicas, times = {}, {}, plan.blueprint:stages()
   for s, stage in ipairs(times) do on[s], replicas[s] = stage.device, #stage.devices end
   local result = {
      stage = plan.partition.stage, device = by_node(plan.partition.stage, on), stage_device = on,
      stage_replicas = replicas,
   }
   local cut = stages.of(graph, problem.devices, result)
   cut.machine = plan.machine
   for s, stage in ipairs(times) do -- with what is recomputed
      cut.stages[s].forward_ns, cut.stages[s].backward_ns = stage.forward_ns, stage.backward_ns
   end
   local long = plan.options.batches
   local function play(batches, trace, factors)
      return plan.blueprint:simulate(batches, trace, factors)
   end
   local subject = subjects.new({
      title = ("%s, %d x %d source tokens"):format(model.name, o.batch, o.source),
      graph = graph, problem = problem, result = result, cut = cut,
      names = column(plan.devices, "name"), options = o, asked = given.stages,
      method = plan.partition.name, plan = plan,
      memory = memory_of(plan), least = not swaps.may(o) and over.least(plan) or nil,
      unswapped = over.unswapped(plan), recompute = plan.recompute,
      moved_bytes = moved_bytes(plan), played = play(long), plays = play,
      lasts = function(factors) return explain.seconds(plan, factors) end,
      made_of = function(other) return of_plan(other, o) end,
   }, times)
   subject.swaps = swaps.lines(plan, subject.played, long)
   subject.swapped_bytes, subject.hidden = swaps.total(plan, subject.played, long)
   return subject
end

--- Plans a model.
-- @tparam model model
-- @tparam table o options of ft.explore, checked
-- @tparam[opt] table placements of earlier plans, see ftpipe.placement; tried: no one has asked for
--   its number of stages; whole: it is compared with other cuts, as a plan by itself is; solved:
--   a table for plans that differ in what has no price, too
-- @treturn subject
function M.plan(model, o, placements)
   o.devices = o.devices or "cpu"
   local options = plan_options(model, o)
   options.placements = placements
   options.searched = placements ~= nil and not placements.whole
   return of_plan(plans(options), o)
end

return M
