--- Fine-tune T5 on MultiRC (which answers to a question are right?) through a pipeline.
--
-- Without flags: the tiny T5 and the MultiRC-format paragraphs inside the program. With a model of
-- one's own the settings are those of FTPipe (Eliad et al., USENIX ATC 2021): 512 source and 4
-- target tokens, batches of 8 in two pieces, Adafactor at 1e-3, constant after warm-up (with
-- --schedule async it falls, doc/staleness.md).
--
-- Scored over whole questions: the mean of F1 over all answers and of the share of questions that
-- are all right.

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune T5 on MultiRC through a pipeline.",
   preset = "t5",
   steps = { default = 500 },
   max_source = { default = 512 },
   max_target = { default = 4 },
   with = { model = { batch = 8, micro_batches = 2, steps = 17000, warmup = 1000 } },
}

return ft.fine_tune {
   args = args,
   task = ft.task.multirc { max_source = args.max_source, max_target = args.max_target },
}
