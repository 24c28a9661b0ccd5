--- From a partition to a blueprint: everything of a plan that the engine decides.

local clusters = require("ftpipe.placement.cluster")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local evaluation = require("ftpipe.plan.evaluation")
local groups = require("ftpipe.trained.groups")
local packs = require("ftpipe.schedule.packs")
local partitions = require("ftpipe.plan.partition")
local recompute = require("ftpipe.graph.recompute")

local M = {}

--- Costs by device: all of a list are alike.
local function by_device(costs, n)
   local list = {}
   for d = 1, n do list[d] = costs end
   return costs and list
end

--- What the stages of a partition do in which order: a schedule_plan.
local function play(o, graphs, cut)
   return core.engine.plan {
      graphs = graphs, node_stage = cut.stage, stage_device = cut.device,
      recompute = cut.recompute, devices = cut.devices, micro_batches = o.micro_batches,
      schedule = cut.schedule, staleness = cut.staleness, max_staleness = cut.max_staleness,
      batches = cut.batches, costs = cut.costs, clip = cut.clip,
      apart = cut.apart, waiting = cut.waiting, tasks = cut.tasks,
      joint = cut.joint, joint_graphs = cut.joint and graphs.joint,
   }
end

--- Evaluation through the stages of a partition, as an option of the blueprint; nil without any.
local function beside(o, graphs, cut)
   if not graphs.evaluation then return nil end
   local stage, device = partitions.without_empty(
      evaluation.stages(graphs[1], cut.stage, graphs.evaluation[1]), cut.device)
   return {
      graphs = graphs.evaluation,
      plan = play(o, graphs.evaluation, {
         stage = stage, device = device, devices = cut.devices, schedule = "evaluate",
         batches = o.eval_batches,
      }),
   }
end

--- The blueprint of a partition, with its memory by device.
function M.blueprint(o, graphs, partition, flags)
   local n_stages = partitions.count(partition.stage)
   local wired = clusters.wired(o.devices)
   local devices = core.engine.devices(wired)
   local costs = by_device(o.costs, #devices)
   local cut = {
      stage = partition.stage,
      device = partition.device or partitions.place(o, n_stages, #devices),
      recompute = flags, devices = wired, schedule = o.rule or o.schedule,
      staleness = o.staleness, max_staleness = o.max_staleness, batches = o.batches, costs = costs,
      clip = o.clip, apart = o.update == "device", waiting = partition.waiting,
   }
   cut.tasks = packs.tasks(o, cut.device)
   cut.joint = packs.joint(o, cut.tasks, graphs[1], cut.stage)
   local said = {
      graphs = graphs,
      joint_graphs = graphs.joint,
      plan = partition.plan or play(o, graphs, cut),
      evaluation = beside(o, graphs, cut),
      devices = wired,
      micro_batch_size = o.batch / o.micro_batches,
      optimizer = o.optimizer,
      hypers = o.hypers,
      weight_decays = groups.weight_decays(o, graphs[1]),
      rate_factors = groups.rate_factors(o, graphs[1]),
      clip = o.clip,
      look_ahead = o.look_ahead ~= "none",
      gaps = o.gaps,
      gnorm = o.gnorm,
      seed = o.seed,
      costs = costs,
   }
   local blueprint = core.engine.blueprint(said)
   return {
      said = said, options = o, graphs = graphs, devices = devices, partition = partition,
      n_stages = n_stages,
      recompute = flags, blueprint = blueprint, memory = blueprint:memory(),
      volumes = blueprint:volumes(), sends = blueprint:sends(), tasks = cut.tasks,
      machine = type(wired) == "table" and wired.machine or nil,
   }
end

--- A plan of forwards alone: no gradients, no optimizer.
-- @tparam table o options of a plan
-- @tparam {graph,...} graphs
-- @tparam table partition of the graphs of evaluation
function M.evaluation(o, graphs, partition)
   local n_devices = #core.engine.devices(o.devices)
   local device = partition.device
      or partitions.place(o, partitions.count(partition.stage), n_devices)
   local stage
   stage, device = partitions.without_empty(partition.stage, device)
   local own = copy(o)
   own.schedule, own.rule, own.staleness, own.max_staleness = "evaluate", nil, nil, nil
   own.batches, own.clip, own.update, own.packs = o.eval_batches, 0, "end", nil
   own.forward_micro_batches = nil
   local kept = { stage = stage, device = device, name = partition.name }
   return M.blueprint(own, graphs.evaluation, kept, recompute.flags("never", #device))
end

return M
