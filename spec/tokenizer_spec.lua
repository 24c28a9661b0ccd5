local core = require("ftpipe.core")
local files = require("spec.support.files")

local function real_tokenizer()
   local path = files.shared("data/vocab/t5/spiece.model", pending)
   return path and core.data.tokenizer { path = path }
end

-- The vectors in a file. One text has a NUL in it, which the reader of JSON refuses: it comes in as
-- a character that no text has.
local function read_vectors(path)
   local stand_in = "\238\128\128" -- U+E000
   local text = core.sys.read_file(path):gsub("\\u0000", "\\uE000")
   local vectors = core.json.decode(text, path)
   for _, vector in ipairs(vectors) do vector.text = vector.text:gsub(stand_in, "\0") end
   return vectors
end

describe("the T5 tokenizer", function()
   it("numbers the sentinels downwards from the last id", function()
      local tokenizer = real_tokenizer()
      if not tokenizer then return end
      assert.equal(32100, tokenizer:size())
      assert.equal(32100, #tokenizer)
      assert.equal("<extra_id_0>", tokenizer:piece(32099))
      assert.equal("</s>", tokenizer:piece(1))
      assert.is_nil(tokenizer:piece(32100))
      assert.is_nil(tokenizer:piece(-1))
      assert.same({ 37, 32099, 10681, 16, 32098, 2447 },
         tokenizer:encode("The <extra_id_0> walks in <extra_id_1> park"))
   end)

   it("agrees with the published vectors", function()
      local path = files.shared("data/tokvec/transformersjs/vectors.json", pending)
      local tokenizer = real_tokenizer()
      if not path or not tokenizer then return end
      local models = { ["Xenova/t5-small"] = true, ["google-t5/t5-small"] = true }
      local n = 0
      for _, vector in ipairs(read_vectors(path)) do
         if models[vector.model] then
            local ids = tokenizer:encode(vector.text)
            ids[#ids + 1] = 1
            assert.same(setmetatable(vector.ids, nil), ids, vector.name)
            n = n + 1
         end
      end
      assert.equal(58, n)
   end)

   it("is the same from a file and from memory", function()
      local bytes = core.asset("t5_tiny/spiece.model")
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/spiece.model", bytes)
         local text = "Anna is older than Karl. <extra_id_3>"
         local here = core.data.tokenizer { bytes = bytes }
         local there = core.data.tokenizer { path = dir .. "/spiece.model" }
         assert.same(here:encode(text), there:encode(text))
      end)
   end)

   it("decodes what it encoded, special tokens left out or not", function()
      local tokenizer = core.data.tokenizer { bytes = core.asset("t5_tiny/spiece.model") }
      local ids = tokenizer:encode("not_entailment")
      ids[#ids + 1] = 1
      assert.equal("not_entailment", tokenizer:decode(ids))
      assert.equal("not_entailment</s>", tokenizer:decode(ids, false))
      assert.equal("", tokenizer:decode {})
      assert.same({}, tokenizer:encode(""))
   end)

   it("refuses text that is not UTF-8, unknown ids and broken models", function()
      local tokenizer = core.data.tokenizer { bytes = core.asset("t5_tiny/spiece.model") }
      assert.equal("malformed data", files.failure(tokenizer.encode, tokenizer, "a\255").status)
      assert.matches("id " .. tokenizer:size(),
         files.failure(tokenizer.decode, tokenizer, { tokenizer:size() }).message)
      assert.has_error(function() tokenizer:decode { 1.5 } end)
      assert.has_error(function() tokenizer:decode { "1" } end)
      assert.equal("malformed data",
         files.failure(core.data.tokenizer, { bytes = "no model" }).status)
      assert.equal("not found",
         files.failure(core.data.tokenizer, { path = "/nowhere/x.model" }).status)
   end)

   it("refuses use after free", function()
      local tokenizer = core.data.tokenizer { bytes = core.asset("t5_tiny/spiece.model") }
      tokenizer:free()
      tokenizer:free()
      assert.has_error(function() tokenizer:encode("a") end)
      assert.equal("tokenizer (freed)", tostring(tokenizer))
   end)

   it("takes either a path or bytes", function()
      assert.has_error(function() core.data.tokenizer {} end)
      assert.has_error(function() core.data.tokenizer { path = "a", bytes = "b" } end)
      assert.has_error(function() core.data.tokenizer { file = "a" } end)
   end)
end)
