--- Fine-tune T5 on MultiRC (which answers to a question are right?) through a pipeline.
--
-- Without flags: the tiny T5 and the MultiRC-format paragraphs inside the program. With a model of
-- one's own the settings are those of FTPipe (Eliad et al., USENIX ATC 2021): 512 source and 4
-- target tokens, batches of 8 in two pieces, Adafactor at 1e-3, constant after warm-up.
--
-- Scored over whole questions: the mean of F1 over all answers and of the share of questions that
-- are all right.

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 on MultiRC through a pipeline.",
   "ftpipe recipes/t5_multirc.lua",
   "ftpipe recipes/t5_multirc.lua --model DIR --data DIR --devices cpu:2 --schedule async",
   "ftpipe recipes/t5_multirc.lua --model t5-3b --devices sim:8x11GB",
   preset = "t5",
   steps = { default = 500 },
   max_source = { default = 512 },
   max_target = { default = 4 },
   with = { model = { batch = 8, micro_batches = 2, steps = 17000, warmup = 1000 } },
}

local model = ft.model(args)
local task = ft.task.multirc { max_source = args.max_source, max_target = args.max_target }
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
