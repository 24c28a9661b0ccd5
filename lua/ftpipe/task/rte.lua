--- RTE: does the premise entail the hypothesis?
--
-- Dagan et al., "The PASCAL Recognising Textual Entailment Challenge", 2005, and its followers, as
-- SuperGLUE (Wang et al. 2019) and GLUE (Wang et al. 2018) distribute them. The two templates are
-- those with which T5 was trained; GLUE calls the premise sentence1.

local sample = require("ftpipe.sample.rte")
local task = require("ftpipe.task")

return task.define {
   kind = "text2text",
   name = "rte",
   answers = {
      { label = "entailment", target = "entailment", number = 0 },
      { label = "not_entailment", target = "not_entailment", number = 1 },
   },
   layouts = {
      {
         name = "SuperGLUE",
         train = "train.jsonl",
         eval = "val.jsonl",
         template = "rte hypothesis: {hypothesis} premise: {premise}",
      },
      {
         name = "GLUE",
         train = "train.tsv",
         eval = "dev.tsv",
         template = "rte sentence1: {sentence1} sentence2: {sentence2}",
      },
   },
   metric = "accuracy",
   max_source = 320,
   max_target = 8,
   sample = sample.examples,
}
