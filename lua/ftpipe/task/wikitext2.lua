--- WikiText-2: continue Wikipedia articles.
--
-- Merity et al., "Pointer Sentinel Mixture Models", ICLR 2017. Raw files keep every word, the
-- others have <unk> for rare ones; any other text is taken as it is.

local language_model = require("ftpipe.data.kind.language_model")
local sample = require("ftpipe.sample.wikitext2")
local task = require("ftpipe.task")

local function layout(name, train, eval)
   return { name = name, train = train, eval = eval, read = language_model.read }
end

return task.define {
   kind = "language_model",
   name = "wikitext2",
   layouts = {
      layout("raw", "wiki.train.raw", "wiki.test.raw"),
      layout("tokens", "wiki.train.tokens", "wiki.test.tokens"),
      layout("text", "train.txt", "test.txt"),
   },
   block = 1024,
   sample = sample.examples,
}
