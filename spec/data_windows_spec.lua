local files = require("spec.support.files")
local core = require("ftpipe.core")
local language_model = require("ftpipe.data.kind.language_model")
local windows = require("ftpipe.data.windows")
require("ftpipe.base.tensor") -- pointer()

-- A tokenizer whose ids are bytes.
local bytes = { vector = function(_, text) return core.data.ids { text:byte(1, #text) } end }

-- The data set and the split of a text, as of one that is evaluated.
local function split(text, block, stride)
   local task = { name = "wikitext2", block = block, stride = stride }
   local rows = { path = "x.txt", { text = text } }
   local dataset, notes = language_model.prepare(task, nil, rows,
      { tokenizer = bytes, split = "eval" })
   return language_model.split(task, nil, notes), dataset
end

describe("a part of a text", function()
   it("has as many tokens as its windows, and no number of words", function()
      local task = { name = "wikitext2", block = 4, stride = 2 }
      local rows = { path = "x.txt", { text = "a b c d e f" } }
      local function notes_of(blocks)
         local _, notes = language_model.prepare(task, nil,
            language_model.limit(rows, blocks), { tokenizer = bytes, split = "eval" })
         return notes
      end
      assert.same({ tokens = 6, stride = 2 }, notes_of(2))
      assert.is_number(notes_of(100).words)
   end)
end)

local function near(expected, actual)
   assert.is_true(math.abs(expected - actual) < 1e-9 * expected, ("%.12g, not %.12g"):format(actual,
      expected))
end

describe("disjoint blocks", function()
   it("cover the text without its end", function()
      assert.same({ { first = 1, n = 4, scored = 3 }, { first = 5, n = 4, scored = 3 } },
         windows.blocks(11, 4))
      assert.same({}, windows.blocks(3, 4))
      assert.equal(1, #windows.blocks(4, 4))
   end)

   it("are examples of one length", function()
      local made, dataset = split("abcdefghijk", 4)
      assert.equal(2, #made.examples)
      assert.equal(2, dataset:size())
      assert.same({ 101, 102, 103, 104 }, dataset:get(2, "source"))
      assert.equal(11, made.tokens)
      assert.equal(4, made.length)
   end)

   it("need one block of text", function()
      assert.equal("x.txt: holds 3 tokens, expected at least a block of 4",
         files.failure(split, "abc", 4).message)
   end)
end)

describe("strided windows", function()
   it("predict every token but the first once", function()
      for n = 1, 40 do
         for stride = 1, 8 do
            local seen = {}
            for _, window in ipairs(windows.strided(n, 8, stride)) do
               assert.is_true(window.n <= 8 and window.scored < window.n)
               local last = window.first + window.n - 1
               for i = last - window.scored + 1, last do
                  assert.is_nil(seen[i])
                  seen[i] = true
               end
            end
            for i = 2, n do
               local opens = stride == 8 and (i - 1) % 8 == 0 -- no window has context for it
               assert.equal(not opens or nil, seen[i], ("%d of %d, stride %d"):format(i, n, stride))
            end
            assert.is_nil(seen[1])
         end
      end
   end)

   it("say how many of their tokens are predicted", function()
      local made, dataset = split("abcdefg", 4, 2)
      assert.same({ { first = 1, n = 4, scored = 3 }, { first = 3, n = 4, scored = 2 },
         { first = 5, n = 4, scored = 2 } }, made.examples)
      assert.equal(3, dataset:size())
      assert.same({ 101, 102, 103, 10 }, dataset:get(3, "source"))
   end)

   it("are of lines joined as rows of the data set", function()
      assert.equal("\n\n = A = \n\n\n\n\n b c \n", windows.joined(" \n = A = \n \n b c \n"))
   end)
end)

describe("a text", function()
   it("is refused when strides would leave tokens out", function()
      assert.equal("task wikitext2: windows of 4 tokens, 5 apart, would leave tokens out",
         files.failure(split, "abcdefg", 4, 5).message)
   end)

   it("is refused when it is empty or not UTF-8", function()
      files.in_directory(function(dir)
         local function fault(text)
            core.sys.write_file(dir .. "/x.txt", text)
            return files.failure(language_model.read, dir .. "/x.txt").message:gsub("^.*/", "")
         end
         assert.equal("x.txt: holds no text", (fault(" \n")))
         assert.equal("x.txt:2:3: byte 0xff is not UTF-8", (fault("a\nbc\255")))
      end)
   end)
end)

describe("words", function()
   it("are what blanks separate, and the end of each line", function()
      assert.equal(8, windows.count_words(" \n = A = \n b c\n"))
   end)
end)

describe("perplexity", function()
   it("is named after its blocks", function()
      local sum = windows.scorer((split("abcdefghijk", 4)))
      sum:add(2, { nll = 6, tokens = 3 })
      sum:add(1, { nll = 3, tokens = 3 })
      local result = sum:result()
      assert.equal("perplexity (disjoint blocks of 4)", result.metric)
      near(math.exp(1.5), result.value)
      near(math.exp(1.5), result.metrics.perplexity_blocks_4)
   end)

   it("is named after its windows, and goes with that of words", function()
      local sum = windows.scorer((split("ab cd\nef", 4, 2)))
      sum:add(1, { nll = 8, tokens = 4 })
      local result = sum:result()
      assert.equal("perplexity (windows of 4, stride 2)", result.metric)
      near(math.exp(2), result.metrics.perplexity_windows_4_stride_2)
      near(math.exp(8 / 5), result.metrics.word_perplexity)
   end)

   it("of words is not given where windows leave tokens out", function()
      local sum = windows.scorer((split("ab cd\nef", 4, 4)))
      sum:add(1, { nll = 8, tokens = 4 })
      assert.is_nil(sum:result().metrics.word_perplexity)
   end)
end)

describe("WikiText-2", function()
   it("has the published counts", function()
      local path = files.shared("data/wikitext2/wiki.test.raw", pending)
      if not path then return end
      assert.equal(245569, windows.count_words(core.sys.read_file(path)))
      assert.equal(279, #windows.blocks(286221, 1024))
      assert.equal(559, #windows.blocks(286221, 512))
   end)
end)

describe("what a window predicts", function()
   it("is the sum over its last labels, as many as are scored", function()
      local labels = { { 1, 2, 3, 4 }, { 1, 2, 3, -100 } }
      local batch = { labels = core.tensor.from_table(labels, "i32") }
      local outputs = { nll = core.tensor.from_table({ { 1, 1, 1, 1 }, { 1, 2, 4, 8 } }, "f32") }
      local function predict(example)
         local found = language_model.predict(batch, outputs, 2, example)
         return { found.nll, found.tokens }
      end
      assert.same({ 7, 3 }, predict(nil))
      assert.same({ 6, 2 }, predict { scored = 2 })
      assert.same({ 7, 3 }, predict { scored = 9 })
   end)
end)
