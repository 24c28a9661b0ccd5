--- Fine-tune T5 on BoolQ (yes or no, by a passage?) through a pipeline.
--
-- Without flags: the tiny T5 and the BoolQ-format passages inside the program. With a model of
-- one's own the settings are those of FTPipe (Eliad et al., USENIX ATC 2021): 512 source and 4
-- target tokens, batches of 20 in five pieces, Adafactor at 1e-3, constant after warm-up (with
-- --schedule async it falls, doc/staleness.md).

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 on BoolQ through a pipeline.",
   preset = "t5",
   steps = { default = 600 },
   max_source = { default = 512 },
   max_target = { default = 4 },
   with = { model = { batch = 20, micro_batches = 5, steps = 3200, warmup = 200 } },
}

return ft.fine_tune {
   args = args,
   task = ft.task.boolq { max_source = args.max_source, max_target = args.max_target },
}
