--- Fine-tune T5 on BoolQ (yes or no, by a passage?) through a pipeline.
--
-- Without flags: the tiny T5 and the BoolQ-format passages inside the program. With a model of
-- one's own the settings are those of FTPipe (Eliad et al., USENIX ATC 2021): 512 source and 4
-- target tokens, batches of 20 in five pieces, Adafactor at 1e-3, constant after warm-up.

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 on BoolQ through a pipeline.",
   "ftpipe recipes/t5_boolq.lua",
   "ftpipe recipes/t5_boolq.lua --model DIR --data DIR --devices cpu:2 --schedule async",
   "ftpipe recipes/t5_boolq.lua --model t5-3b --devices sim:8x11GB",
   preset = "t5",
   steps = { default = 600 },
   max_source = { default = 512 },
   max_target = { default = 4 },
   with = { model = { batch = 20, micro_batches = 5, steps = 3200, warmup = 200 } },
}

local model = ft.model(args)
local task = ft.task.boolq { max_source = args.max_source, max_target = args.max_target }
local data = task:open(model, args)
print(("%s: %s; %s"):format(task.name, model, data or "no data, planning only"))

local plan = ft.plan { model = model, data = data, args = args }
print(plan)
if plan.only then return plan:check() end

local run = ft.run { plan = plan, task = task, data = data, args = args }
print(("before: %s"):format(run:evaluate()))

if not args.eval_only then
   for step in run:train() do run:show(step) end
end
local score = run:evaluate()
print(("after: %s"):format(score))

return run:close(score)
