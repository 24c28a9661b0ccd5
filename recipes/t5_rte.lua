--- Fine-tune T5 on RTE (does the premise entail the hypothesis?) through a pipeline.
--
-- Without flags: the tiny T5 and the RTE-format sentences inside the program. With a model of one's
-- own the settings are those of FTPipe (Eliad et al., USENIX ATC 2021): 320 source and 8 target
-- tokens, batches of 40 in five pieces, Adafactor at 1e-3, constant after warm-up (with --schedule
-- async it falls, doc/staleness.md).

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 on RTE through a pipeline.",
   preset = "t5",
   steps = { default = 800 },
   max_source = { default = 320 },
   max_target = { default = 8 },
   with = { model = { batch = 40, micro_batches = 5, steps = 4200, warmup = 200 } },
}

return ft.fine_tune {
   args = args,
   task = ft.task.rte { max_source = args.max_source, max_target = args.max_target },
}
