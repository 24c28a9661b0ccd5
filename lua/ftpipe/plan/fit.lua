--- Makes a plan fit the budgets of its devices: by gradients of weights that wait less, by
-- recomputing, and by a partition that looks at memory too.

local copy = require("ftpipe.base.copy")
local draw = require("ftpipe.plan.draw")
local feasible = require("ftpipe.base.feasible")
local groups = require("ftpipe.trained.groups")
local keep = require("ftpipe.plan.keep")
local over = require("ftpipe.placement.over")
local placement = require("ftpipe.placement")
local recompute = require("ftpipe.graph.recompute")
local schedules = require("ftpipe.schedule")
local partitions = require("ftpipe.plan.partition")

local M = {}

local function is_over(plan, device)
   return plan.memory[device].total > plan.devices[device].memory_bytes
end

--- Whether a device of the stage is; of one with replicas, any of them.
local function is_too_large(plan, stage)
   for _, device in ipairs(stage.devices) do
      if is_over(plan, device) then return true end
   end
   return false
end

--- Lets fewer gradients of weights wait in the stages of devices that would be over their budgets:
-- in each as many as there is room for, in all of them none where that does not make room.
-- Elsewhere as many wait as the schedule says.
local function wait_as_fits(plan)
   local o = plan.options
   local schedule = o.rule or o.schedule
   if not schedules.splits(schedule) or schedules.folds(schedule) then return plan end
   local function with(waiting)
      return draw.blueprint(o, plan.graphs, copy(plan.partition, { waiting = waiting }),
         plan.recompute)
   end
   local drawn = plan.partition.waiting and with(false) or plan
   if M.worst_over(drawn) == 0 then return drawn end
   local most, least = {}, {}
   for s, stage in ipairs(drawn.blueprint:stages()) do
      most[s] = s - 1 -- no more stages are before it
      least[s] = is_too_large(drawn, stage) and 0 or most[s]
   end
   local none = with(least)
   if M.worst_over(none) > 0 then return none end
   repeat
      local fewer = false
      most = copy(most)
      for s, stage in ipairs(drawn.blueprint:stages()) do
         if most[s] > 0 and is_too_large(drawn, stage) then
            most[s], fewer = most[s] - 1, true
         end
      end
      drawn = fewer and with(most) or none
   until M.worst_over(drawn) == 0
   return drawn
end

--- Recomputes in the stages of devices that are over their budgets, until none of them can help.
local function recompute_where_needed(plan)
   local changed = true
   while changed do
      changed = false
      for s, stage in ipairs(plan.blueprint:stages()) do
         if is_too_large(plan, stage) and not plan.recompute[s] then
            plan.recompute[s], changed = true, true
         end
      end
      if changed then
         plan = draw.blueprint(plan.options, plan.graphs, plan.partition, plan.recompute)
      end
   end
   return plan
end

--- The plan with less that waits and, where --recompute auto finds it needed, recomputing.
function M.squeeze(plan)
   plan = wait_as_fits(plan)
   return plan.options.recompute == "auto" and recompute_where_needed(plan) or plan
end

local function keep_where_possible(plan)
   return keep.where_possible(plan, function(kept) return kept.blueprint:stages() end,
      function(flags) return draw.blueprint(plan.options, plan.graphs, plan.partition, flags) end,
      is_too_large)
end

--- What a plan shows of its memory: factor (bytes that training keeps for a byte of parameters),
-- frozen_factor (for one of those that are not trained), others (by device, the bytes that it needs
-- beside them).
local function budget_of(plan)
   local others, weights, kept, fixed = {}, 0, 0, 0
   for d, row in ipairs(plan.memory) do
      others[d] = row.activations + row.workspace + row.buffers
      weights = weights + row.weights
      fixed = fixed + row.weights + row.packed + row.turned
      kept = kept + row.weights + row.gradients + row.optimizer + row.versions + row.packed
         + row.turned
   end
   local trained, all = groups.count(plan.graphs[1])
   if trained == all then return { factor = kept / weights, others = others } end
   return {
      factor = fixed / weights + (kept - fixed) / (weights * trained / all),
      frozen_factor = fixed / weights, others = others,
   }
end

--- Bytes by which the fullest device is over its budget; 0 when none is.
function M.worst_over(plan)
   return (over.worst(over.memory(plan)))
end

--- The plan of a partition, squeezed.
local function settle(o, graphs, partition)
   return M.squeeze(draw.blueprint(o, graphs, partition,
      recompute.flags(o.recompute, partitions.count(partition.stage))))
end

--- The same plan with the least memory that recomputing gives it.
local function leanest(plan)
   local all = recompute.count(plan.recompute) == plan.n_stages
   if all or plan.options.recompute ~= "auto" then return plan end
   return draw.blueprint(plan.options, plan.graphs, plan.partition,
      recompute.flags("always", plan.n_stages))
end

-- Placements that are tried one after the other, each with less memory for parameters: what the one
-- before it left for them, or what it was over by where that is no less.
local PLACEMENTS = 3

--- What the next placement is to leave beside parameters on every device, given the last one.
local function next_budget(plan, most)
   local lean = leanest(plan)
   local budget = budget_of(lean)
   if math.max(unpack(budget.others)) <= most then
      local others = most + M.worst_over(lean)
      for d in ipairs(budget.others) do budget.others[d] = others end
   end
   return budget
end

--- The plan of a placement, with a budget or without, squeezed.
local function place_once(o, graphs, budget)
   return settle(o, graphs, placement.solve(graphs[#graphs], o.partition, o, budget))
end

--- The plan of a placement with this budget; nil where there is none, or none of its stages.
local function placed(plan, budget)
   return (feasible(place_once, plan.options, plan.graphs, budget))
end

--- Of two plans, either of them nil, the one that is closer to fitting; of equals the first.
local function closer(a, b)
   if not a or not b then return a or b end
   return M.worst_over(b) < M.worst_over(a) and b or a
end

--- The plan of a placement that balances memory alone; nil where there is none.
function M.balanced(plan)
   local o = plan.options
   if not placement.is(o.partition) or partitions.has_places(o) then return nil end
   local budget = budget_of(leanest(plan))
   return placed(plan, {
      factor = budget.factor, frozen_factor = budget.frozen_factor, balances_memory = true,
   })
end

--- The placement that fits, or is the closest to it: of those that were tried, or of one that
-- balances memory alone.
local function place(plan)
   local o, most = plan.options, 0
   local best, last = plan, plan
   local hopeless = over.is_hopeless(over.memory(plan), over.least(plan))
   local searches = placement.is(o.partition) and not partitions.has_places(o)
   for _ = 1, searches and PLACEMENTS or 0 do
      if M.worst_over(last) == 0 or hopeless then break end
      local budget = next_budget(last, most)
      most = math.max(unpack(budget.others))
      last = placed(plan, budget)
      best = closer(best, last)
      if not last then break end
   end
   if M.worst_over(best) > 0 and searches then best = closer(best, M.balanced(best)) end
   return best
end

local TRIED = 4 -- batches of a simulation by which rules of recomputing are compared

--- Batches of a simulation by which plans are compared, or told.
function M.compared(plan) return math.min(plan.options.batches, 8) end

local function nanoseconds(plan)
   return plan.blueprint:simulate(math.min(plan.options.batches, TRIED)).end_ns
end

--- Whether the devices together have what the plan needs, wherever it is.
local function could_fit(plan)
   local needed, there = 0, 0
   for d, device in ipairs(plan.devices) do
      needed, there = needed + plan.memory[d].total, there + device.memory_bytes
   end
   return needed <= there
end

--- Of a plan that recomputes somewhere and those of its options that do nowhere, or everywhere, the
-- fastest that fits. They differ in their stages: these depend on what is kept.
local function fastest(plan)
   local best, best_ns = plan, nanoseconds(plan)
   for _, rule in ipairs { "never", "always" } do
      local o = copy(plan.options, { recompute = rule })
      local other = feasible(place_once, o, plan.graphs)
      -- where it is slower before it fits, less memory will not make it faster
      if other and could_fit(other) and nanoseconds(other) < best_ns then
         other = place(other)
         local ns = nanoseconds(other)
         if M.worst_over(other) == 0 and ns < best_ns then best, best_ns = other, ns end
      end
   end
   best.options = plan.options
   return best
end

--- What is balanced by time alone may not fit; a partition that also looks at memory may, when the
-- stages that need it recompute.
function M.fit(plan)
   local o = plan.options
   local best = place(M.squeeze(plan))
   if o.recompute ~= "auto" or M.worst_over(best) > 0 then return best end
   best = wait_as_fits(keep_where_possible(best))
   local others = placement.is(o.partition) and not partitions.has_places(o) and not o.searched
      and (recompute.count(best.recompute) > 0 or best.partition.waiting)
   return others and fastest(best) or best
end

--- The faster one of plans that fit, else the one that is closest to fitting; of equals the first.
function M.better(a, b)
   local x, y = M.worst_over(a), M.worst_over(b)
   if x > 0 or y > 0 then return y < x and b or a end
   local batches = M.compared(a)
   return b.blueprint:simulate(batches).end_ns < a.blueprint:simulate(batches).end_ns and b or a
end

return M
