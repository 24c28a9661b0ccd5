local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local keys = require("ftpipe.base.keys")
local task = require("ftpipe.task")

-- A tokenizer whose ids are bytes.
local bytes = { vector = function(_, text) return core.data.ids { text:byte(1, #text) } end }

local TEXT = " \n = A = \n \n Some words of text . \n"

local function with_data(contents, overrides, body)
   files.in_directory(function(dir)
      for name, text in pairs(contents) do core.sys.write_file(dir .. "/" .. name, text) end
      local wikitext = task.wikitext2(overrides)
      body(wikitext:load { data = dir, tokenizer = bytes }, wikitext)
   end)
end

local function fault(contents, overrides)
   return (files.fault(with_data, contents, overrides or { block = 8 }, function() end))
end

describe("the WikiText-2 task", function()
   it("trains and evaluates on disjoint blocks of the whole file", function()
      with_data({ ["wiki.train.raw"] = TEXT:rep(3), ["wiki.test.raw"] = TEXT }, { block = 8 },
         function(data, wikitext)
         assert.equal("language_model", wikitext.kind)
         assert.equal("raw", data.train.layout)
         assert.equal(math.floor(3 * #TEXT / 8), data.train.dataset:size())
         assert.equal(math.floor(#TEXT / 8), #data.eval.examples)
         assert.same({ TEXT:byte(9, 16) }, data.eval.dataset:get(2, "source"))
         local scorer = wikitext:scorer(data.eval)
         scorer:add(1, { nll = 14, tokens = 7 })
         local result = scorer:result()
         assert.equal("perplexity (disjoint blocks of 8)", result.metric)
         assert.is_true(math.abs(result.value - math.exp(2)) < 1e-9)
         assert.equal(result.value, result.metrics.perplexity_blocks_8)
         assert.same(keys(result.metrics), wikitext:figures(data.eval))
      end)
   end)

   it("evaluates on windows when a stride is given, and trains on blocks all the same", function()
      with_data({ ["wiki.train.tokens"] = TEXT, ["wiki.test.tokens"] = TEXT },
         { block = 8, stride = 4 }, function(data, wikitext)
         assert.equal("tokens", data.train.layout)
         assert.equal(math.floor(#TEXT / 8), #data.train.examples)
         assert.is_nil(data.train.stride)
         local scored = 0
         for _, example in ipairs(data.eval.examples) do scored = scored + example.scored end
         assert.equal(data.eval.tokens - 1, scored)
         local scorer = wikitext:scorer(data.eval)
         scorer:add(1, { nll = 22, tokens = 11 })
         assert.equal("perplexity (windows of 8, stride 4)", scorer:result().metric)
         assert.same(keys(scorer:result().metrics), wikitext:figures(data.eval))
         assert.is_true(math.abs(scorer:result().metrics.word_perplexity
            - math.exp(22 / data.eval.words)) < 1e-9)
      end)
   end)

   it("takes other text as it is", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/book.txt", ("x"):rep(20))
         local data = task.wikitext2 { block = 8 }:load {
            train_file = dir .. "/book.txt", eval_file = dir .. "/book.txt", tokenizer = bytes,
         }
         assert.equal(2, data.eval.dataset:size())
      end)
   end)

   it("says what it looks for, and what is wrong with a file", function()
      assert.matches("holds no data of task wikitext2, expected wiki.train.raw and wiki.test.raw "
         .. "%(raw%) or wiki.train.tokens and wiki.test.tokens %(tokens%) or train.txt and "
         .. "test.txt %(text%); it holds: x.md$", (fault { ["x.md"] = TEXT }))
      assert.equal("wiki.train.raw: holds no text",
         (fault { ["wiki.train.raw"] = "\n", ["wiki.test.raw"] = TEXT }))
      assert.equal("wiki.train.raw: holds 3 tokens, expected at least a block of 8",
         (fault { ["wiki.train.raw"] = "abc", ["wiki.test.raw"] = TEXT }))
      assert.equal("wiki.train.raw:2:2: byte 0xff is not UTF-8",
         (fault { ["wiki.train.raw"] = "a\nb\255", ["wiki.test.raw"] = TEXT }))
      assert.equal("task wikitext2: windows of 8 tokens, 9 apart, would leave tokens out",
         (fault({ ["wiki.train.raw"] = TEXT, ["wiki.test.raw"] = TEXT },
            { block = 8, stride = 9 })))
   end)
end)

describe("published WikiText-2", function()
   local function open(overrides)
      local dir = files.shared("golden/gpt2_wikitext_real", pending)
      local path = files.shared("data/wikitext2/wiki.test.raw", pending)
      if not dir or not path then return nil end
      return task.wikitext2(overrides):load {
         eval_file = path, eval_only = true,
         tokenizer = checkpoint.open(dir):tokenizer(),
      }.eval
   end

   it("has 286,221 tokens as one text, 279 blocks of 1024", function()
      local split = open {}
      if not split then return end
      assert.equal(286221, split.tokens)
      assert.equal(279, #split.examples)
      assert.equal(559, #open({ block = 512 }).examples)
   end)

   it("has 287,644 tokens with its lines joined, those of the reference", function()
      local split = open { stride = 512 }
      if not split then return end
      assert.equal(287644, split.tokens)
      assert.equal(245569, split.words)
      local reference = core.sys.read_file(files.shared(
         "data/tokvec/derived/wikitext2_test_raw_gpt2_ids_joined.u16le", pending))
      for number, window in ipairs(split.examples) do
         local ids = split.dataset:get(number, "source")
         for i, id in ipairs(ids) do
            local low, high = reference:byte(2 * (window.first + i) - 3, 2 * (window.first + i) - 2)
            if id ~= low + 256 * high then error(("token %d differs"):format(window.first + i)) end
         end
      end
   end)
end)
