-- 1f1b in twenty lines, and a schedule that beats it. Run: ftpipe examples/my_schedule.lua
--
-- A rule sees one stage: how many forwards and backwards it has done, its depth (stages behind it)
-- and height (stages before it). Both rules are simulated and executed on a plan of four stages.
local ft = require("ftpipe")

-- A forward, and one more for each stage behind it; then backwards and forwards in turn.
local mine = ft.schedule {
   name = "my-1f1b", synchronous = true,
   next = function(stage)
      local ahead = stage.forwards - stage.backwards
      local drains = ahead > 0 and stage.forwards % stage.micro_batches == 0 -- the batch is all in
      return not drains and ahead <= stage.depth and "F" or "B"
   end,
}

-- Other stages wait for half of a backward alone: the gradient of the input (I). The gradients of
-- the weights (G) can wait, in a stage for as many micro-batches as it stands behind the first;
-- they are done where 1f1b has nothing to do.
local patient = ft.schedule {
   name = "patient", synchronous = true, splits = true,
   next = function(stage)
      local ahead = stage.forwards - stage.backwards -- forwards without their I
      local owed = stage.backwards - stage.weights   -- I without their G
      local drains = stage.forwards > 0 and stage.forwards % stage.micro_batches == 0
      if owed > stage.height then return "G" end
      if drains and ahead > 0 then return "I" end
      if drains and owed > 0 then return "G" end -- the batch ends when all are done
      return ahead <= stage.depth and "F" or "I"
   end,
}

local args = ft.args {
   preset = "t5", devices = { default = "cpu:4" }, steps = { default = 3 },
   profile = { default = "modelled" }, eval_limit = { default = 4 },
   max_source = { default = 32 }, max_target = { default = 4 },
}
local model = ft.model(args)
local task = ft.task.rte { max_source = args.max_source, max_target = args.max_target }
local data = task:open(model, args)

--- The plan of a schedule, what its simulation takes in ms, and the losses of its execution.
local function try(schedule)
   local plan = ft.plan { model = model, data = data, args = args, schedule = schedule }
   local run, losses = ft.run { plan = plan, task = task, data = data, args = args }, {}
   for step in run:train() do losses[step.step] = step.loss end
   return plan, plan:simulate(1).seconds, table.concat(losses, " ")
end

local usual, usual_time, usual_losses = try("1f1b")
local own, own_time, own_losses = try(mine)
local _, better_time, better_losses = try(patient)

-- The rebuilt one has the orders of the one in the program, stage by stage.
local function orders(plan) return plan:text():match("\n(device .*)") end
print(orders(own) == orders(usual), own_time == usual_time)   --> true	true

-- The new one is done a good tenth earlier,
print(better_time < 0.9 * usual_time)                            --> true
-- and computes the same, to the bit, as every synchronous schedule does.
print(own_losses == usual_losses, better_losses == usual_losses) --> true	true
