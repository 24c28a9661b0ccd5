--- Many texts at once: what each would give alone.

local task_files = require("spec.support.task_files")

describe("encoding many texts", function()
   it("gives for each what it gives alone", function()
      local tokenizer, texts, alone = task_files.tokenizer(), {}, {}
      for i = 1, 500 do
         texts[i] = i % 7 == 0 and "" or ("Ben has %d kites. "):format(i):rep(i % 5)
         alone[i] = tokenizer:encode(texts[i])
      end
      assert.same(alone, tokenizer:encode_all(texts))
      assert.same({}, tokenizer:encode_all({}))
      assert.same({ alone[1] }, tokenizer:encode_all({ texts[1] }))
   end)

   it("reports the first that is not UTF-8", function()
      local tokenizer, texts = task_files.tokenizer(), {}
      for i = 1, 100 do texts[i] = ("x"):rep(i) .. (i >= 40 and "\255" or "") end
      local ok, first = pcall(tokenizer.encode, tokenizer, texts[40])
      assert.is_false(ok)
      for _ = 1, 20 do
         local good, problem = pcall(tokenizer.encode_all, tokenizer, texts)
         assert.is_false(good)
         assert.equal(first.message, problem.message)
      end
   end)

   it("refuses what is no list of texts", function()
      local tokenizer = task_files.tokenizer()
      assert.fails_with(function() tokenizer:encode_all({ "a", 3 }) end, "element 2 is not a text")
      assert.has_error(function() tokenizer:encode_all("a") end)
   end)
end)

describe("sources that are too long", function()
   it("are cut, their end token is kept, and they are counted", function()
      local function bytes(text) return { text:byte(1, #text) } end
      local tokenizer = {
         encode = function(_, text) return bytes(text) end,
         encode_all = function(_, texts)
            local list = {}
            for i, text in ipairs(texts) do list[i] = bytes(text) end
            return list
         end,
      }
      local rows = { path = "rows.jsonl" }
      for i, text in ipairs { "abc", "abcd", "abcdefgh" } do
         rows[i] = { text = text, label = 0, line = i }
      end
      local task = { name = "own", definition = {
         label = "label", answers = { { label = 0, target = "x" } },
      } }
      local dataset, notes = require("ftpipe.data.kind.text2text").prepare(task,
         { template = "{text}" }, rows,
         { tokenizer = tokenizer, max_source = 4, max_target = 4, eos_id = 1 })
      assert.equal(2, notes.cut_sources)
      for i = 1, 3 do assert.same({ 97, 98, 99, 1 }, dataset:get(i, "source")) end
   end)
end)
