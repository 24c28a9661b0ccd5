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
