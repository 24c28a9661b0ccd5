--- SQuAD v1.1: which words of a paragraph answer the question?
--
-- Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016. The
-- sizes are those of Devlin et al., "BERT", NAACL 2019.

local reader = require("ftpipe.data.squad.reader")
local sample = require("ftpipe.sample.squad")
local task = require("ftpipe.task")

return task.define {
   kind = "span",
   name = "squad",
   layouts = {
      {
         name = "SQuAD v1.1",
         train = "train-v1.1.json",
         eval = "dev-v1.1.json",
         read = reader.read,
      },
   },
   max_source = 384,
   stride = 128,
   max_query = 64,
   sample = sample.examples,
}
