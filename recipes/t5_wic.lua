--- Fine-tune T5 on WiC (does a word mean the same in two sentences?) through a pipeline.
--
-- Without flags: the tiny T5 and the WiC-format sentences inside the program. With a model of one's
-- own the settings are those of FTPipe (Eliad et al., USENIX ATC 2021): 64 source and 4 target
-- tokens, batches of 128 in two pieces, Adafactor at 1e-3, constant after warm-up.

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 on WiC through a pipeline.",
   "ftpipe recipes/t5_wic.lua",
   "ftpipe recipes/t5_wic.lua --model DIR --data DIR --devices cpu:2 --schedule async",
   "ftpipe recipes/t5_wic.lua --model t5-3b --devices sim:8x11GB",
   preset = "t5",
   steps = { default = 200 },
   max_source = { default = 64 },
   max_target = { default = 4 },
   with = { model = { batch = 128, micro_batches = 2, steps = 17000, warmup = 1000 } },
}

local model = ft.model(args)
local task = ft.task.wic { max_source = args.max_source, max_target = args.max_target }
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
