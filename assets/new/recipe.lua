--- Fine-tune T5 on a task of one's own: task.lua says what it is, data/ has its rows.

local ft = require("ftpipe")

local here = (arg and arg[0] or ""):match("^(.*/)") or "./"

local args = ft.args {
   "Fine-tune T5 on the task of task.lua.",
   preset = "t5",
   data = { default = here .. "data" },
   steps = { default = 200 },
   max_source = { default = 64 },
   max_target = { default = 4 },
}

return ft.fine_tune {
   args = args,
   task = ft.task.load(here .. "task.lua") {
      max_source = args.max_source, max_target = args.max_target,
   },
}
