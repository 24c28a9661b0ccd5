--- Fine-tune T5 on WiC (does a word mean the same in two sentences?) through a pipeline.
--
-- Without flags: the tiny T5 and the WiC-format sentences inside the program. With a model of one's
-- own the settings are those of FTPipe (Eliad et al., USENIX ATC 2021): 64 source and 4 target
-- tokens, batches of 128 in two pieces, Adafactor at 1e-3, constant after warm-up (with --schedule
-- async it falls, doc/staleness.md).

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 on WiC through a pipeline.",
   preset = "t5",
   steps = { default = 200 },
   max_source = { default = 64 },
   max_target = { default = 4 },
   with = { model = { batch = 128, micro_batches = 2, steps = 17000, warmup = 1000 } },
}

return ft.fine_tune {
   args = args,
   task = ft.task.wic { max_source = args.max_source, max_target = args.max_target },
}
