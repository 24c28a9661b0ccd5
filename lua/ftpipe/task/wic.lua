--- WiC: does a word mean the same in two sentences?
--
-- Pilehvar and Camacho-Collados, "WiC: the Word-in-Context Dataset", NAACL 2019, as SuperGLUE (Wang
-- et al. 2019) distributes it; the template is the one with which T5 was trained. The character
-- positions of the word in the rows are not used.

local sample = require("ftpipe.sample.wic")
local task = require("ftpipe.task")

return task.define {
   kind = "text2text",
   name = "wic",
   answers = {
      { label = false, target = "False", number = 0 },
      { label = true, target = "True", number = 1 },
   },
   layouts = {
      {
         name = "SuperGLUE",
         train = "train.jsonl",
         eval = "val.jsonl",
         template = "wic sentence1: {sentence1} sentence2: {sentence2} word: {word}",
      },
   },
   metric = "accuracy",
   max_source = 64,
   max_target = 4,
   sample = sample.examples,
}
