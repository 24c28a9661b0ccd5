-- A task of one's own, and what a recipe does written out: where a recipe says ft.fine_tune, this
-- does the same step by step. Run: ftpipe examples/own_task.lua
local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 to name colours.",
   preset = "t5",
   steps = { default = 120 },
   max_source = { default = 64 },
   max_target = { default = 4 },
}
local model = ft.model(args)

-- Rows come from --data; without it, from the sample in the task's file.
local here = arg[0]:match("^.*/") or ""
local task = ft.task.load(here .. "tasks/colour.lua") { max_source = args.max_source }
local data = task:open(model, args)
print(data.train.examples[1].source)
--> question: Which colour has the kite? paragraph: Anna has a red kite. David has a blue ball.

local plan = ft.plan { model = model, data = data, args = args }
print(plan.options.schedule, #plan.devices)   --> 1f1b	2

local run = ft.run { plan = plan, task = task, data = data, args = args }
local before = run:evaluate()
local first, last = nil, nil
for step in run:train() do -- a table for each step: loss, rate, grad_norm
   first, last = first or step.loss, step.loss
end
print(last < first / 4)                       --> true

local after = run:evaluate()
print(after.metric, before.value < 30, after.value > 60)   --> accuracy	true	true

-- With --out the run directory is written now, and `ftpipe predict` answers from it.
print(run:close(after).task)                  --> colour
