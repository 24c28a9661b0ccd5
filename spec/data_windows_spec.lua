local files = require("spec.support.files")
local core = require("ftpipe.core")
local windows = require("ftpipe.windows")

-- A tokenizer whose ids are bytes.
local bytes = { encode = function(_, text) return { text:byte(1, #text) } end }

local function split(text, length, stride)
   return windows.split {
      text = text, path = "x.txt", tokenizer = bytes, length = length, stride = stride,
   }
end

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

   it("are examples without labels of their own", function()
      local made = split("abcdefghijk", 4)
      assert.equal(2, made.dataset:size())
      assert.same({ 101, 102, 103, 104 }, made.dataset:get(2, "source"))
      assert.same({ { "source" } }, made.dataset:groups())
      assert.equal(11, made.tokens)
   end)

   it("need one block of text", function()
      assert.equal("x.txt: has 3 tokens, expected at least a block of 4",
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

   it("carry labels, of which those seen before do not count", function()
      local made = split("abcdefg", 4, 2)
      assert.equal(3, made.dataset:size())
      assert.same({ 98, 99, 100, -100 }, made.dataset:get(1, "labels"))
      assert.same({ -100, 101, 102, -100 }, made.dataset:get(2, "labels"))
      assert.same({ 101, 102, 103, 10 }, made.dataset:get(3, "source"))
      assert.same({ -100, 103, 10, -100 }, made.dataset:get(3, "labels"))
   end)

   it("are of lines joined as rows of the data set", function()
      assert.equal("\n\n = A = \n\n\n\n\n b c \n", windows.joined(" \n = A = \n \n b c \n"))
   end)
end)

describe("words", function()
   it("are what blanks separate, and the end of each line", function()
      assert.equal(8, windows.count_words(" \n = A = \n b c\n"))
   end)
end)

describe("perplexity", function()
   it("is named after its blocks", function()
      local sum = windows.scorer(split("abcdefghijk", 4))
      sum:add(2, { nll = 6, tokens = 3 })
      sum:add(1, { nll = 3, tokens = 3 })
      local result = sum:result()
      assert.equal("perplexity (disjoint blocks of 4)", result.metric)
      near(math.exp(1.5), result.value)
      near(math.exp(1.5), result.metrics.perplexity_blocks_4)
   end)

   it("is named after its windows, and goes with that of words", function()
      local sum = windows.scorer(split("ab cd\nef", 4, 2))
      sum:add(1, { nll = 8, tokens = 4 })
      local result = sum:result()
      assert.equal("perplexity (windows of 4, stride 2)", result.metric)
      near(math.exp(2), result.metrics.perplexity_windows_4_stride_2)
      near(math.exp(8 / 5), result.metrics.word_perplexity)
   end)

   it("of words is not given where windows leave tokens out", function()
      local sum = windows.scorer(split("ab cd\nef", 4, 4))
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
