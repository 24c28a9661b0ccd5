-- WordPiece, byte-level BPE and tokenizer.json on small vocabularies of our own.

local core = require("ftpipe.core")
local checkpoint = require("ftpipe.model.checkpoint")
local files = require("spec.support.files")

local WORDS = {
   "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "run", "##ning", "##n", "world", ",",
   "!", "e", "##e", "\228\184\173", "Hello", "'", "s",
}
local PAD, UNK, CLS, SEP, MASK = 0, 1, 2, 3, 4
local HELLO, RUN, NING, WORLD, COMMA, MARK = 5, 6, 7, 9, 10, 11

local function wordpiece(options)
   options = options or {}
   options.vocab = options.vocab or table.concat(WORDS, "\n") .. "\n"
   return core.data.wordpiece(options)
end

describe("WordPiece", function()
   it("cuts words into the longest pieces, or not at all", function()
      local tokenizer = wordpiece()
      assert.equal("wordpiece", tokenizer:kind())
      assert.same({ HELLO, COMMA, RUN, NING, MARK }, tokenizer:encode("Hello, running!"))
      assert.same({ UNK, WORLD }, tokenizer:encode("runningx world"))
      assert.same({ "run", "##ning" }, tokenizer:pieces("r\195\188nning"))
      assert.same({}, tokenizer:encode(" \t\r\n\1\226\128\139"))
      assert.same({ UNK }, tokenizer:encode(("e"):rep(101)))
      assert.equal(100, #tokenizer:encode(("e"):rep(100)))
   end)

   it("reads lines that end as on Windows", function()
      local tokenizer = wordpiece { vocab = table.concat(WORDS, "\r\n") .. "\r\n" }
      assert.same({ "hello", "!" }, tokenizer:pieces("hello!"))
   end)

   it("keeps special tokens whole, in text and by name", function()
      local tokenizer = wordpiece()
      assert.same({ HELLO, MASK, WORLD }, tokenizer:encode("hello[MASK]world"))
      assert.same({ PAD, UNK, CLS, SEP, MASK }, {
         tokenizer:special("pad"), tokenizer:special("unk"), tokenizer:special("cls"),
         tokenizer:special("sep"), tokenizer:special("mask"),
      })
      assert.is_nil(tokenizer:special("eos"))
      assert.is_nil(tokenizer:special("no such"))
   end)

   it("puts pairs together with their segments", function()
      local ids, segments = wordpiece():encode_pair("hello", "world!")
      assert.same({ CLS, HELLO, SEP, WORLD, MARK, SEP }, ids)
      assert.same({ 0, 0, 0, 1, 1, 1 }, segments)
      ids, segments = wordpiece():encode_pair("hello")
      assert.same({ CLS, HELLO, SEP }, ids)
      assert.same({ 0, 0, 0 }, segments)
   end)

   it("keeps case and accents when it is told to", function()
      local tokenizer = wordpiece { lower = false }
      assert.same({ 15, UNK }, tokenizer:encode("Hello r\195\188nning"))
      assert.same({ "HeLLo", "!" }, tokenizer:basic("HeLLo!"))
      assert.same({ "hello", "!" }, tokenizer:basic("HeLLo!", true))
   end)

   it("cuts words as BERT does", function()
      local tokenizer = wordpiece()
      assert.same({ "hello", "!", "how", "are", "you", "?" },
         tokenizer:basic(" \tHeLLo!how  \n Are yoU?  "))
      assert.same({ "ah", "\229\141\154", "\230\142\168", "zz" },
         tokenizer:basic("ah\229\141\154\230\142\168zz"))
      assert.same({ "i", "[", "mask", "]" }, tokenizer:basic("\196\176[MASK]"))
      assert.same({ "hello" }, tokenizer:basic("he\194\173l\239\191\189lo")) -- U+00AD, U+FFFD
      assert.same({ "a\205\184b" }, tokenizer:basic("a\205\184b")) -- U+0378, which is not assigned
      for _, han in ipairs { "\228\184\128", "\233\191\191" } do -- U+4E00, U+9FFF
         assert.same({ "a", han, "b" }, tokenizer:basic("a" .. han .. "b"))
      end
   end)

   it("joins pieces by spaces", function()
      local tokenizer = wordpiece()
      local ids = tokenizer:encode_pair("hello running", "world!")
      assert.equal("hello running world !", tokenizer:decode(ids))
      assert.equal("[CLS] hello running [SEP] world ! [SEP]", tokenizer:decode(ids, false))
      assert.equal("##ning", tokenizer:decode { NING })
   end)

   it("refuses vocabularies without [UNK], and bytes that are no text", function()
      local problem = files.failure(wordpiece, { vocab = "a\nb\n", name = "d/vocab.txt" })
      assert.equal("malformed data", problem.status)
      assert.equal("d/vocab.txt: holds no piece [UNK], expected one for what is unknown",
         problem.message)
      assert.equal("vocab.txt: not UTF-8: byte 0xff at position 2",
         files.failure(wordpiece, { vocab = "a\n\255" }).message)
      assert.equal("vocab.txt:2: NUL byte",
         files.failure(wordpiece, { vocab = "[UNK]\n\0\n" }).message)
      assert.equal("text is not UTF-8: byte 0xff at position 1",
         files.failure(wordpiece().encode, wordpiece(), "a\255").message)
   end)
end)

-- All 256 bytes as vocab.json writes them, then these pieces.
local function bpe_vocabulary(extra)
   local pieces, next_code = {}, 256
   local function utf8(code)
      if code < 128 then return string.char(code) end
      return string.char(192 + math.floor(code / 64), 128 + code % 64)
   end
   for byte = 0, 255 do
      local printable = (byte >= 33 and byte <= 126) or (byte >= 161 and byte <= 172)
         or byte >= 174
      pieces[utf8(printable and byte or next_code)] = byte
      if not printable then next_code = next_code + 1 end
   end
   for i, piece in ipairs(extra) do pieces[piece] = 255 + i end
   return pieces
end

local SPACE = "\196\160" -- how a space is written
local EXTRA = { "he", "ll", "hell", "hello", SPACE .. "hello", "aa", "<|endoftext|>" }
local MERGES = { "h e", "l l", "he ll", "hell o", SPACE .. " hello", "a a" }

local function byte_bpe(options)
   options = options or {}
   options.vocab = options.vocab or core.json.encode(bpe_vocabulary(EXTRA))
   options.merges = options.merges or "#version: 0.2\n" .. table.concat(MERGES, "\n") .. "\n"
   return core.data.byte_bpe(options)
end

local function bpe_json(change)
   local root = {
      added_tokens = { { id = 262, content = "<|endoftext|>", special = true } },
      pre_tokenizer = { type = "ByteLevel", add_prefix_space = false },
      model = { type = "BPE", vocab = bpe_vocabulary(EXTRA), merges = MERGES },
   }
   if change then change(root) end
   return { bytes = core.json.encode(root) }
end

describe("byte-level BPE", function()
   it("merges by rank, each word with its space", function()
      local tokenizer = byte_bpe()
      assert.equal("byte_bpe", tokenizer:kind())
      assert.equal(263, tokenizer:size())
      assert.same({ 259, 260, 33 }, tokenizer:encode("hello hello!"))
      assert.same({ 261, 97 }, tokenizer:encode("aaa"))
      assert.same({ 259, 262, 259 }, tokenizer:encode("hello<|endoftext|>hello"))
      assert.equal(262, tokenizer:special("eos"))
      assert.is_nil(tokenizer:special("cls"))
      local prefixed = byte_bpe { prefix_space = true }
      assert.same({ 260 }, prefixed:encode("hello"))
      assert.same({ 260 }, prefixed:encode(" hello"))
   end)

   it("has an id for every byte of a text", function()
      local characters, bytes = {}, {}
      for code = 0x80, 0x7FF do
         characters[#characters + 1] = string.char(192 + math.floor(code / 64), 128 + code % 64)
      end
      local text = table.concat(characters)
      for i = 1, #text do bytes[i] = text:byte(i) end
      assert.same(bytes, byte_bpe({ merges = "" }):encode(text))
   end)

   it("gives every text back, and U+FFFD for a cut character", function()
      local tokenizer = byte_bpe()
      for _, text in ipairs { "", "a\0b", "caf\195\169 \240\159\152\128\n\t  x ",
         "\238\128\128" } do
         assert.equal(text, tokenizer:decode(tokenizer:encode(text)))
      end
      assert.equal("\239\191\189", tokenizer:decode { 0xF0, 0x9F, 0x98 })
      assert.equal("\239\191\189\239\191\189a", tokenizer:decode { 0xFF, 0xC3, 97 })
   end)

   it("remembers words and takes none for another", function()
      -- Without merges a word has the ids of its bytes; there are more words than are remembered.
      local tokenizer = byte_bpe { merges = "" }
      local function letters(number, n)
         local word = {}
         for i = 1, n do
            word[i] = string.char(97 + number % 26)
            number = math.floor(number / 26)
         end
         return table.concat(word)
      end
      for pass = 1, 2 do
         for number = 0, 40000, 40 do
            local words = {}
            for k = 0, 39 do words[k + 1] = letters(number + k, 4) end
            for n = 1, 32 do words[#words + 1] = letters(number, n) end
            local text = table.concat(words, " ")
            local ids = tokenizer:encode(text)
            assert.equal(#text, #ids)
            for i = 1, #text do
               if ids[i] ~= text:byte(i) then
                  error(("pass %d: byte %d of '%s' has the id %d"):format(pass, i, text, ids[i]))
               end
            end
         end
      end
   end)

   it("takes words of millions of bytes", function()
      local tokenizer = byte_bpe()
      local n = 2000001
      local ids = tokenizer:encode(("a"):rep(n))
      assert.equal(1000001, #ids)
      assert.same({ 261, 97 }, { ids[1], ids[#ids] })
      assert.equal(n, #tokenizer:encode((" "):rep(n)))
   end)

   it("names the line of a file that is wrong", function()
      local cases = {
         { { merges = "h e\nx\n" }, "%./merges%.txt:2: 'x' is not two pieces" },
         { { merges = "#version\nh e\nh q\n" }, "%./merges%.txt:3: 'hq' is not in the vocab" },
         { { vocab = "{\"a\": 0,\n \"a\": 1}" }, "%./vocab%.json:2:" },
         { { vocab = "[]" }, "vocabulary is not an object" },
         { { vocab = '{"a": 0, "b": 2}' }, "no piece has id 1, and another one has 2" },
         { { vocab = '{"a": 0, "b": 0}' }, "id 0 is that of 'a' and of 'b'" },
         { { vocab = '{"a": -1}' }, "piece 'a' has no id" },
         { { vocab = '{"a": 99999999}' }, "piece 'a' has id 99999999 of 1 pieces" },
      }
      for _, case in ipairs(cases) do
         local problem = files.failure(byte_bpe, case[1])
         assert.equal("malformed data", problem.status)
         assert.matches(case[2], problem.message)
      end
      local small = byte_bpe { vocab = '{"a": 0}', merges = "" }
      assert.matches("no piece for byte 0x62", files.failure(small.encode, small, "ab").message)
   end)

   it("is the same from tokenizer.json, with merges of either form", function()
      local text = "hello  hello<|endoftext|> aaa\n"
      local expected = byte_bpe():encode(text)
      assert.same(expected, core.data.tokenizer_json(bpe_json()):encode(text))
      local pairs_form = bpe_json(function(root)
         root.model.merges = {}
         for i, merge in ipairs(MERGES) do
            root.model.merges[i] = { merge:match("^(%S+) (%S+)$") }
         end
      end)
      assert.same(expected, core.data.tokenizer_json(pairs_form):encode(text))
   end)

   it("refuses parts of tokenizer.json that do something else", function()
      local cases = {
         { function(root) root.normalizer = { type = "NFC" } end, "normalizer of BPE 'NFC'" },
         { function(root) root.pre_tokenizer = { type = "Split" } end, "of BPE 'Split'" },
         { function(root) root.model.dropout = 0.1 end, "BPE with 'dropout'" },
         { function(root) root.model.type = "WordLevel" end, "model '.*' is not supported" },
      }
      for _, case in ipairs(cases) do
         local problem = files.failure(core.data.tokenizer_json, bpe_json(case[1]))
         assert.equal("unsupported", problem.status)
         assert.matches(case[2], problem.message)
      end
   end)
end)

-- The ids are those of tokenizers 0.23.3.
describe("added tokens of tokenizer.json", function()
   local NEW, OTHER = #WORDS, #WORDS + 1

   local function with_added(...)
      local vocab = {}
      for i, word in ipairs(WORDS) do vocab[word] = i - 1 end
      return core.data.tokenizer_json { bytes = core.json.encode {
         added_tokens = { ... }, normalizer = { type = "BertNormalizer" },
         pre_tokenizer = { type = "BertPreTokenizer" },
         model = { type = "WordPiece", vocab = vocab },
      } }
   end

   it("are found in normalized text, behind those that are found in text as it is", function()
      local tokenizer = with_added({ id = NEW, content = "Caf\195\169 X", normalized = true },
         { id = OTHER, content = "\195\137", normalized = false })
      assert.same({ HELLO, NEW, WORLD }, tokenizer:encode("hello CAF\195\169\tx world"))
      assert.same({ HELLO, NEW, WORLD }, tokenizer:encode("hellocafe\204\129 Xworld"))
      assert.same({ HELLO, UNK, OTHER, UNK }, tokenizer:encode("hello CAF\195\137 x"))
      assert.equal("hello Caf\195\169 X", tokenizer:decode { HELLO, NEW })
   end)

   it("that have to be words of their own hide what is inside them", function()
      local tokenizer = with_added({ id = NEW, content = "<run>", single_word = true },
         { id = OTHER, content = "un" })
      assert.same({ HELLO, NEW, OTHER }, tokenizer:encode("hello <run> un"))
      assert.same({ HELLO, UNK, RUN, UNK }, tokenizer:encode("hello<run>"))
      assert.same({ UNK, NEW, UNK }, tokenizer:encode("\194\189<run>\226\130\132")) -- 1/2, low 4
      for _, word in ipairs { "\226\147\144", "\226\128\141", "\204\129", "_", "7" } do
         assert.is_not.equal(NEW, tokenizer:encode("<run>" .. word)[1])
      end
   end)
end)

describe("a checkpoint's tokenizer", function()
   local function with(model_type, contents, body)
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/config.json",
            core.json.encode { model_type = model_type, vocab_size = 300 })
         for name, bytes in pairs(contents) do core.sys.write_file(dir .. "/" .. name, bytes) end
         body(checkpoint.open(dir))
      end)
   end

   it("is that of the files which are there", function()
      with("bert", { ["vocab.txt"] = table.concat(WORDS, "\n"),
         ["tokenizer_config.json"] = '{"do_lower_case": false}' }, function(ckpt)
         assert.same({ 15 }, ckpt:tokenizer():encode("Hello"))
      end)
      with("bert", { ["vocab.txt"] = table.concat(WORDS, "\n"),
         ["added_tokens.json"] = '{"covid": 18, "<e>": 19}',
         ["special_tokens_map.json"] = '{"cls_token": "<e>"}' }, function(ckpt)
         local tokenizer = ckpt:tokenizer()
         assert.same({ HELLO, 18, 19 }, tokenizer:encode("helloCovid<e>"))
         assert.same({ 20, 19, SEP },
            { tokenizer:size(), tokenizer:special("cls"), tokenizer:special("sep") })
         assert.equal("hello covid", tokenizer:decode { 19, HELLO, 18 })
      end)
      with("gpt2", { ["tokenizer.json"] = bpe_json().bytes }, function(ckpt)
         assert.equal("byte_bpe", ckpt:tokenizer():kind())
      end)
      local function marked(flags, text)
         flags.content = "<|endoftext|>"
         local ids
         with("gpt2", { ["tokenizer.json"] = bpe_json().bytes }, function(ckpt)
            core.sys.write_file(ckpt.path .. "/vocab.json", core.json.encode(bpe_vocabulary(EXTRA)))
            core.sys.write_file(ckpt.path .. "/merges.txt", table.concat(MERGES, "\n"))
            core.sys.write_file(ckpt.path .. "/special_tokens_map.json",
               core.json.encode { mask_token = flags })
            os.remove(ckpt.path .. "/tokenizer.json")
            ids = checkpoint.open(ckpt.path):tokenizer():encode(text)
         end)
         return ids
      end
      local text, end_id, space = "hello <|endoftext|> hello", 262, 32
      assert.same({ 259, space, end_id, 260 }, marked({}, text))
      assert.same({ 259, end_id, 260 }, marked({ lstrip = true }, text))
      assert.same({ 259, space, end_id, 259 }, marked({ rstrip = true }, text))
      assert.same({ end_id, end_id },
         marked({ lstrip = true, rstrip = true }, "<|endoftext|> <|endoftext|>"))
      assert.same({ 259, space, end_id }, marked({ single_word = true }, "hello <|endoftext|>"))
      local inside = marked({ single_word = true }, "hello<|endoftext|>")
      assert.is_true(#inside > 2 and inside[#inside] ~= end_id)
      with("gpt2", { ["vocab.txt"] = "a" }, function(ckpt)
         assert.matches("expected tokenizer.json or vocab.json with merges.txt",
            files.failure(ckpt.tokenizer, ckpt).message)
      end)
      with("bert", { ["vocab.txt"] = table.concat(WORDS, "\n"), ["added_tokens.json"] = "{" },
         function(ckpt)
            assert.matches("^/tmp/.*/added_tokens.json:1:1: ",
               files.failure(ckpt.tokenizer, ckpt).message)
         end)
   end)

   -- Each as transformers 5.24 has it.
   it("follows tokenizer_config.json where tokenizer.json says something else", function()
      local CAFE, PLAIN, HAN = #WORDS, #WORDS + 1, 14
      local vocab = {}
      for i, word in ipairs(WORDS) do vocab[word] = i - 1 end
      vocab["caf\195\169"], vocab.cafe = CAFE, PLAIN
      local uncased = core.json.encode {
         normalizer = { type = "BertNormalizer", lowercase = true, strip_accents = true },
         pre_tokenizer = { type = "BertPreTokenizer" },
         model = { type = "WordPiece", vocab = vocab },
      }
      local function encoded(model_type, json, settings, text)
         local ids
         with(model_type, { ["tokenizer.json"] = json, ["tokenizer_config.json"] = settings },
            function(ckpt) ids = ckpt:tokenizer():encode(text) end)
         return ids
      end
      local text = "Hello caf\195\169 \228\184\173e"
      assert.same({ HELLO, PLAIN, HAN, 12 }, encoded("bert", uncased, "{}", text))
      assert.same({ 15, PLAIN, HAN, 12 },
         encoded("bert", uncased, '{"do_lower_case": false}', text))
      assert.same({ HELLO, CAFE, HAN, 12 },
         encoded("bert", uncased, '{"strip_accents": false}', text))
      assert.same({ HELLO, PLAIN, HAN, 13 },
         encoded("bert", uncased, '{"tokenize_chinese_chars": false}', text))
      assert.same({ HELLO, PLAIN, HAN, 12 }, encoded("bert", uncased,
         '{"do_lower_case": false, "tokenizer_class": "PreTrainedTokenizerFast"}', text))
      local bpe = bpe_json().bytes
      assert.same({ 259 }, encoded("gpt2", bpe, '{"add_prefix_space": null}', "hello"))
      assert.same({ 260 }, encoded("gpt2", bpe, '{"add_prefix_space": true}', "hello"))
      assert.same({ 259 }, encoded("gpt2", bpe,
         '{"add_prefix_space": true, "tokenizer_class": "TokenizersBackend"}', "hello"))
   end)

   it("is refused where a setting alone puts tokens around texts", function()
      local bpe = {
         ["vocab.json"] = core.json.encode(bpe_vocabulary(EXTRA)),
         ["merges.txt"] = table.concat(MERGES, "\n"),
      }
      for _, key in ipairs { "add_bos_token", "add_eos_token" } do
         bpe["tokenizer_config.json"] = core.json.encode { [key] = true }
         with("gpt2", bpe, function(ckpt)
            local problem = files.failure(ckpt.tokenizer, ckpt)
            assert.equal("unsupported", problem.status)
            assert.matches("/tokenizer_config.json: " .. key .. " is supported with tokenizer",
               problem.message)
         end)
         bpe["tokenizer_config.json"] = core.json.encode { [key] = false }
         with("gpt2", bpe, function(ckpt)
            assert.same({ 259 }, (ckpt:tokenizer():encode_pair("hello")))
         end)
      end
   end)

   it("has the tokens that tokenizer_config.json names", function()
      with("bert", { ["vocab.txt"] = table.concat(WORDS, "\n"), ["tokenizer_config.json"] = [[{
         "added_tokens_decoder": {
            "18": { "content": "covid", "normalized": true },
            "19": { "content": "<e>", "lstrip": true, "rstrip": true, "special": true } },
         "cls_token": "<e>", "add_bos_token": false, "model_max_length": 1000000000000000019 }]]
      }, function(ckpt)
         local tokenizer = ckpt:tokenizer()
         assert.same({ HELLO, 18, 19, HELLO }, tokenizer:encode("helloCovid <e> hello"))
         assert.same({ 20, 19, SEP },
            { tokenizer:size(), tokenizer:special("cls"), tokenizer:special("sep") })
      end)
      local renamed = table.concat(WORDS, "\n"):gsub("%[UNK%]", "<unk>")
      local asked = '{"unk_token": {"content": "<unk>"}}'
      for _, name in ipairs { "tokenizer_config.json", "special_tokens_map.json" } do
         with("bert", { ["vocab.txt"] = renamed, [name] = asked }, function(ckpt)
            assert.same({ HELLO, UNK }, ckpt:tokenizer():encode("hello zzz"))
         end)
      end
      with("bert", { ["vocab.txt"] = renamed }, function(ckpt)
         assert.matches("vocab.txt: holds no piece %[UNK%], expected one for what is unknown$",
            files.failure(ckpt.tokenizer, ckpt).message)
      end)
   end)
end)
