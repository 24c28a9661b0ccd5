-- A Unigram tokenizer.json is executed as the library `tokenizers` executes it: golden ids of
-- chains of all their parts, and parts that are refused.

local core = require("ftpipe.core")
local checkpoint = require("ftpipe.model.checkpoint")
local files = require("spec.support.files")

local golden = core.json.read("spec/golden/unigram.json")
local MARK = "\226\150\129"

local function plain(list)
   local copy = {}
   for i, value in ipairs(list) do copy[i] = value end
   return copy
end

local function from_hex(text)
   return (text:gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The file of a row, after change(root): pieces, character map and what is put around texts are
-- those of all rows.
local function read(row, change)
   local root = core.json.decode(core.json.encode(golden.base), row.name)
   root.normalizer, root.pre_tokenizer = row.normalizer, row.pre_tokenizer
   for _, token in ipairs(row.more or {}) do table.insert(root.added_tokens, token) end
   root.model = { type = "Unigram", unk_id = 2, vocab = golden.vocab,
      byte_fallback = row.byte_fallback }
   if change then change(root) end
   local bytes = core.json.encode(root):gsub("CHARSMAP", golden.charsmap)
   return core.data.tokenizer_json { bytes = bytes, name = "own" }
end

local function row_of(name)
   for _, row in ipairs(golden.rows) do
      if row.name == name then return row end
   end
end

describe("a Unigram tokenizer.json", function()
   for _, row in ipairs(golden.rows) do
      it("has the ids that tokenizers gives: " .. row.name, function()
         local tokenizer = read(row)
         assert.equal("unigram", tokenizer:kind())
         for i, text in ipairs(golden.texts) do
            local ids = tokenizer:encode_pair(from_hex(text))
            assert.same(plain(row.ids[i]), ids, from_hex(text))
         end
         local ids, segments = tokenizer:encode_pair(from_hex(golden.texts[1]),
            from_hex(golden.texts[2]))
         assert.same(plain(row.pair[1]), ids)
         assert.same(plain(row.pair[2]), segments)
      end)
   end

   it("reads a score as an integer over a power of ten, which is not always the nearest", function()
      -- two pieces or one: between the nearest numbers, and those that are read, the sum goes from
      -- one side of the one's score to the other
      local rows = { { -9.224745532394369, -0.7247455323943681, 2 },
         { -9.216383533952527, -0.716383533952528, 1 } }
      for _, scores in ipairs(rows) do
         local tokenizer = read({ name = "own" }, function(root)
            root.added_tokens, root.post_processor = core.json.array {}, nil
            root.model.vocab = core.json.array {
               core.json.array { "<unk>", 0 }, core.json.array { "q", scores[1] },
               core.json.array { "z", 8.5 }, core.json.array { "qz", scores[2] } }
            root.model.unk_id = 0
         end)
         assert.equal(scores[3], #tokenizer:encode("qz"))
      end
   end)

   it("prints marks as spaces, but for those of the first piece", function()
      local tokenizer = read(row_of("hub"))
      assert.equal("the fix", tokenizer:decode(tokenizer:encode("the fix")))
      assert.equal("a</s> the", tokenizer:decode(tokenizer:encode("a</s> the"), false))
      tokenizer = read(row_of("bytes"))
      assert.equal("\195\182\195\182a", tokenizer:decode(tokenizer:encode("\195\182\195\182a")))
   end)

   it("has tabs and line ends for blanks where its normalizer is Nmt", function()
      local tokenizer = read(row_of("nmt"), function(root)
         root.normalizer = { type = "Sequence", normalizers = core.json.array {
            { type = "Nmt" }, { type = "Replace", pattern = { String = " " }, content = "the" },
         } }
         root.pre_tokenizer = nil
      end)
      local blank = tokenizer:encode("a fix")
      assert.same(blank, tokenizer:encode("a\tfix"))
      assert.same(blank, tokenizer:encode("a\nfix"))
   end)

   it("needs no piece for what is unknown while nothing is", function()
      local tokenizer = read(row_of("runs"), function(root)
         root.model.unk_id = core.json.null
      end)
      assert.same({ 5 }, tokenizer:encode("the"))
      assert.matches("no piece has the character at 'q', and no piece is the unknown one",
         files.failure(tokenizer.encode, tokenizer, "theq").message)
   end)

   local function normalizer(part)
      return function(root) root.normalizer = part end
   end
   local function cutter(part)
      return function(root) root.pre_tokenizer = part end
   end
   local function regex(text)
      return normalizer { type = "Replace", pattern = { Regex = text }, content = " " }
   end
   local function processor(change)
      return function(root) change(root.post_processor) end
   end
   local REFUSED = {
      { normalizer { type = "BertNormalizer" }, "own: normalizer 'BertNormalizer' of a Unigram" },
      { normalizer { type = "Sequence", normalizers = { { type = "ByteLevel" } } }, "'ByteLevel'" },
      { cutter { type = "UnicodeScripts" }, "own: pre_tokenizer 'UnicodeScripts' of a Unigram" },
      { cutter { type = "Metaspace", replacement = "ab" }, "'Metaspace' has a replacement" },
      { cutter { type = "Metaspace", replacement = MARK, prepend_scheme = "last" },
         "'Metaspace' has a prepend_scheme" },
      { cutter { type = "Split", pattern = { String = "a" }, behavior = "Kept" }, "a behavior" },
      { cutter { type = "Split", behavior = "Removed" }, "has no pattern" },
      { regex "(?<=a)b", "is not supported from '%(%?<=a%)b' on" },
      { regex "a\\w", "is not supported from '\\w' on" },
      { regex "[[:alpha:]]", "is not supported from" },
      { regex "(a", "has a malformed regular expression" },
      { regex "a*", "a pattern that matches an empty text" },
      { normalizer { type = "Precompiled", precompiled_charsmap = "*" }, "not base64 at byte 0" },
      { normalizer { type = "Precompiled", precompiled_charsmap = "AAAA" }, "character map" },
      { normalizer { type = "Prepend" }, "has no 'prepend'" },
      { normalizer { type = "Replace", pattern = { String = "a" } }, "has no 'content'" },
      { function(root) root.model.unk_id = 99 end, "unk_id is not a piece of the 42" },
      { function(root) root.model.vocab = { { "a" }, { "b", 0 }, { "c", 0 } } end,
         "model.vocab%[0%] is not" },
      { processor(function(p) p.single = {} end), "post_processor: a template is empty" },
      { processor(function(p) p.single = { { Other = {} } } end), "an item is neither" },
      { processor(function(p) p.special_tokens = {} end), "a token has no ids" },
      { processor(function(p) p.special_tokens["</s>"].ids = { 99 } end),
         "none of the tokenizer's" },
   }
   it("is refused by the name of what is not executed", function()
      for _, case in ipairs(REFUSED) do
         assert.matches(case[2], files.failure(read, row_of("hub"), case[1]).message)
      end
      local many = { type = "Sequence", normalizers = {} }
      for i = 1, 17 do many.normalizers[i] = { type = "NFC" } end
      assert.matches("more than 16 steps of the normalizer",
         files.failure(read, row_of("hub"), normalizer(many)).message)
   end)

   it("with a NUL in a string is refused in words", function()
      local message = files.failure(core.data.tokenizer_json,
         { bytes = '{"model": {"type": "Uni\\u0000gram"}}', name = "own" }).message
      assert.matches("own:1:%d+: a string has a NUL character %(\\u0000%) in it", message)
      assert.not_matches("JSON_", message)
   end)
end)

describe("a checkpoint's tokenizer_config.json", function()
   local WORDS = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "\195\169",
      "\228\184\173\228\184\173", "Hello" }
   local function open(model_type, contents, config)
      local opened
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/config.json",
            core.json.encode { model_type = model_type, vocab_size = 384 })
         for name, bytes in pairs(contents) do core.sys.write_file(dir .. "/" .. name, bytes) end
         core.sys.write_file(dir .. "/tokenizer_config.json",
            type(config) == "string" and config or core.json.encode(config))
         opened = checkpoint.open(dir):tokenizer()
      end)
      return opened
   end
   local function bert(config)
      return open("bert", { ["vocab.txt"] = table.concat(WORDS, "\n") }, config)
   end

   it("says how words of vocab.txt are cut", function()
      local text = "Hello \195\169 \228\184\173\228\184\173"
      assert.same({ 5, 1, 1, 1 }, bert {}:encode(text))
      assert.same({ 8, 6, 1, 1 }, bert { do_lower_case = false }:encode(text))
      assert.same({ 5, 6, 1, 1 }, bert { strip_accents = false }:encode(text))
      assert.same({ 5, 1, 7 }, bert { tokenize_chinese_chars = false }:encode(text))
   end)

   it("says it by its own keys, not by those of what is in it", function()
      local text = "Hello \195\169 \228\184\173\228\184\173"
      assert.same({ 5, 1, 1, 1 }, bert [[{
         "init": { "do_lower_case": false, "word_tokenizer_type": "mecab" },
         "model_max_length": 1000000000000000019884624838656, "strip_accents": null }]]
         :encode(text))
      assert.same({ 5, 6, 1, 1 }, bert [[{
         "note": "\"strip_accents\": true", "strip_accents": false }]]:encode(text))
      local kept = open("t5", {}, [[{ "tokenizer_class": "ByT5Tokenizer", "eos_token":
         { "content": "</s>", "note": { "lstrip": false }, "lstrip": true } }]])
      assert.same({ 1, 35, 124 }, kept:encode(" </s> y")) -- of transformers 5.24.0
   end)

   it("is refused where it is cut off, or no object", function()
      for text, words in pairs {
         ['{"do_lower_case": false,'] = "/tokenizer_config.json:1:%d+: ",
         ["[1]"] = "/tokenizer_config.json: expected a JSON object",
         ["7"] = "/tokenizer_config.json: expected a JSON object",
      } do
         local problem = files.failure(bert, text)
         assert.matches(words, problem.message)
         assert.equal("malformed data", problem.status)
      end
   end)

   it("is refused where words are cut by another program", function()
      for _, case in ipairs {
         { { word_tokenizer_type = "mecab" }, 'word_tokenizer_type "mecab" is not supported: cut' },
         { { word_tokenizer_type = "basic", subword_tokenizer_type = "character" },
            'subword_tokenizer_type "character" is not supported: take' },
      } do
         local problem = files.failure(bert, case[1])
         assert.matches(case[2], problem.message)
         assert.equal("unsupported", problem.status)
      end
      assert.same({ 5 }, bert { word_tokenizer_type = "basic",
         subword_tokenizer_type = "wordpiece" }:encode("hello"))
   end)

   it("names ByT5, whose ids are bytes", function()
      local tokenizer = open("t5", {}, { tokenizer_class = "ByT5Tokenizer" })
      assert.equal("bytes", tokenizer:kind())
      assert.equal(384, tokenizer:size())
      assert.same({ 0, 1, 2 },
         { tokenizer:special("pad"), tokenizer:special("eos"), tokenizer:special("unk") })
      -- of transformers 5.23.0
      assert.same({ 107, 198, 172, 35, 259, 123, 1, 124, 1 },
         (tokenizer:encode_pair("h\195\169 <extra_id_0>x </s> y")))
      assert.same({ 262, 1, 271 }, tokenizer:encode("<extra_id_3> </s>  <extra_id_12>"))
      assert.same({ 100, 1, 101, 1 }, (tokenizer:encode_pair("a", "b")))
      assert.equal("A<pad>\195\169<extra_id_0></s>",
         tokenizer:decode({ 236, 68, 0, 198, 172, 259, 1 }, false))
      assert.equal("", tokenizer:decode { 198 })
      local kept = open("t5", {}, { tokenizer_class = "ByT5Tokenizer", extra_ids = 5,
         eos_token = { content = "</s>", lstrip = false, rstrip = false } })
      assert.equal(264, kept:size())
      assert.same({ 35, 1, 35, 124 }, kept:encode(" </s> y"))
      assert.same({ 100, 0, 101 }, kept:encode("a <pad> b"))
   end)
end)
