--- BoolQ: yes or no, by a passage.
--
-- Clark et al., "BoolQ: Exploring the Surprising Difficulty of Natural Yes/No Questions", NAACL
-- 2019. SuperGLUE (Wang et al. 2019) has the title in front of the passage; the original release
-- has it apart. The template is the one with which T5 was trained.

local sample = require("ftpipe.sample.boolq")
local task = require("ftpipe.task")

return task.define {
   kind = "text2text",
   name = "boolq",
   answers = {
      { label = false, target = "False", number = 0 },
      { label = true, target = "True", number = 1 },
   },
   layouts = {
      {
         name = "SuperGLUE",
         train = "train.jsonl",
         eval = "val.jsonl",
         template = "boolq passage: {passage} question: {question}",
      },
      {
         name = "original release",
         train = "train.jsonl",
         eval = "dev.jsonl",
         columns = { "title", "answer" },
         label = "answer",
         template = "boolq passage: {title} -- {passage} question: {question}",
      },
   },
   metric = "accuracy",
   max_source = 512,
   max_target = 4,
   sample = sample.examples,
}
