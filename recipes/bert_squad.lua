--- Fine-tune BERT on SQuAD v1.1 (which words of a paragraph answer the question?) through a
-- pipeline.
--
-- Without flags: the tiny BERT and the paragraphs inside the program. With a model of one's own the
-- settings are those of FTPipe for BERT-large (Eliad et al., USENIX ATC 2021): 384 tokens, two
-- epochs of batches of 24, AdamW at 3e-5, falling linearly to 0, without warm-up and decay (of
-- --weight-decay biases and norms stay out, as in BERT's own recipe). A context that is too long is
-- read in windows 128 tokens apart.

local ft = require("ftpipe")

local args = ft.args {
   "Fine-tune BERT on SQuAD v1.1 through a pipeline.",
   "ftpipe SCRIPT",
   "ftpipe SCRIPT --model DIR --data DIR --devices cpu:2",
   "ftpipe SCRIPT --model DIR --train-file train.json --eval-file dev.json",
   "ftpipe SCRIPT --model bert-large --devices sim:8x11GB",
   preset = "fine_tune",
   model = { default = "embedded:bert_tiny" },
   devices = { default = "cpu:2" },
   batch = { default = 32 },
   epochs = { default = 2 },
   lr = { default = 1e-3 },
   lr_schedule = { default = "linear" },
   warmup = { default = 0 },
   decay_exempt = { default = "vectors" },
   clip = { default = 0 },
   max_source = { default = 128, min = 8 },
   doc_stride = { default = 128, min = 1, help = "tokens from window to window of a context" },
   max_query = { default = 64, min = 1, help = "tokens of a question" },
   with = { model = { batch = 24, lr = 3e-5, max_source = 384 } },
}

return ft.fine_tune {
   args = args,
   task = ft.task.squad {
      max_source = args.max_source, stride = args.doc_stride, max_query = args.max_query,
   },
}
