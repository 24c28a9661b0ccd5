--- Fine-tune GPT-2 on WikiText-2 (continue Wikipedia articles) through a pipeline.
--
-- Without flags: the tiny GPT-2 and the articles inside the program. With a model of one's own the
-- settings are those of FTPipe (Eliad et al., USENIX ATC 2021): disjoint blocks of 1024 tokens,
-- three epochs of batches of 4, AdamW at 5e-5, falling linearly to 0. With --stride the evaluation
-- moves a window over the text instead, which gives lower perplexities; the result names what was
-- done.

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune GPT-2 on WikiText-2 through a pipeline.",
   "ftpipe SCRIPT",
   "ftpipe SCRIPT --model DIR --data DIR --devices cpu:2",
   "ftpipe SCRIPT --model DIR --data DIR --eval-only --stride 512",
   "ftpipe SCRIPT --model gpt2-xl --devices sim:8x11GB",
   preset = "fine_tune",
   model = { default = "embedded:gpt2_tiny" },
   devices = { default = "cpu:2" },
   batch = { default = 8 },
   epochs = { default = 3 },
   lr = { default = 2e-3 },
   lr_schedule = { default = "linear" },
   warmup = { default = 0 },
   clip = { default = 0 },
   block = { default = 128, min = 2, help = "tokens of an example" },
   stride = { type = "int", min = 1, help = "evaluate on windows this many tokens apart" },
   with = { model = { batch = 4, lr = 5e-5, block = 1024 } },
}

return ft.fine_tune {
   args = args,
   task = ft.task.wikitext2 { block = args.block, stride = args.stride },
}
