-- Tokenizers of BERT, GPT-2 and T5 against what other implementations published, with the real
-- vocabularies, through each form of the files.

local core = require("ftpipe.core")
local checkpoint = require("ftpipe.model.checkpoint")
local files = require("spec.support.files")

-- JSON as a table. One text has a NUL in it, which the reader of JSON refuses: it comes in as a
-- character that no text has.
local function read_json(path)
   return core.json.decode((core.sys.read_file(path):gsub("\\u0000", "\\uE000")), path)
end

local function with_nul(text)
   return (text:gsub("\238\128\128", "\0")) -- U+E000
end

local function plain(list)
   local copy = {}
   for i, value in ipairs(list) do copy[i] = value end
   return copy
end

-- Where the files of a vocabulary are, and which of them make a tokenizer.
local FORMS = {
   ["bert-base-uncased"] = { model_type = "bert", { "vocab.txt" }, { "tokenizer.json" } },
   ["bert-base-cased"] = { model_type = "bert", { "vocab.txt", do_lower_case = false } },
   gpt2 = { model_type = "gpt2", { "vocab.json", "merges.txt" }, { "tokenizer.json" } },
   t5 = { model_type = "t5", { "spiece.model" }, { "tokenizer.json" } },
}

-- A directory that holds a form of a vocabulary, opened as a checkpoint.
local function open_form(vocabulary, form)
   local root = files.shared("data/vocab/" .. vocabulary, pending)
   if not root then return nil end
   local tokenizer
   files.in_directory(function(dir)
      core.sys.write_file(dir .. "/config.json",
         core.json.encode { model_type = FORMS[vocabulary].model_type })
      if form.do_lower_case ~= nil then
         core.sys.write_file(dir .. "/tokenizer_config.json",
            core.json.encode { do_lower_case = form.do_lower_case })
      end
      for _, name in ipairs(form) do
         core.sys.write_file(dir .. "/" .. name, core.sys.read_file(root .. "/" .. name))
      end
      tokenizer = checkpoint.open(dir):tokenizer()
   end)
   return tokenizer
end

-- Runs body(tokenizer) with each form of a vocabulary; skips, visibly, without shared data.
local function each_form(vocabulary, body)
   for _, form in ipairs(FORMS[vocabulary]) do
      local tokenizer = open_form(vocabulary, form)
      if not tokenizer then return end
      body(tokenizer, table.concat(form, ", "))
   end
end

-- What transformers takes away after decoding (clean_up_tokenization_spaces).
local function clean_up(text)
   local rules = {
      { " %.", "." }, { " %?", "?" }, { " !", "!" }, { " ,", "," }, { " ' ", "'" },
      { " n't", "n't" }, { " 'm", "'m" }, { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
   }
   for _, rule in ipairs(rules) do text = text:gsub(rule[1], rule[2]) end
   return text
end

local MODELS = {
   ["Xenova/bert-base-uncased"] = { "bert-base-uncased", 30 },
   ["Xenova/bert-base-cased"] = { "bert-base-cased", 8 },
   ["Xenova/gpt2"] = { "gpt2", 26 },
   ["Xenova/t5-small"] = { "t5", 29 },
   ["google-t5/t5-small"] = { "t5", 29 },
}

describe("transformers.js vectors", function()
   for model, row in pairs(MODELS) do
      it("of " .. model .. " are met, ids and text", function()
         local path = files.shared("data/tokvec/transformersjs/vectors.json", pending)
         if not path then return end
         local all = read_json(path)
         each_form(row[1], function(tokenizer, form)
            local n = 0
            for _, vector in ipairs(all) do
               if vector.model == model then
                  local what = form .. ": " .. vector.name
                  local ids = tokenizer:encode_pair(with_nul(vector.text), vector.text_pair)
                  assert.same(plain(vector.ids), ids, what)
                  assert.equal(with_nul(vector.decoded), clean_up(tokenizer:decode(ids, false)),
                     what)
                  n = n + 1
               end
            end
            assert.equal(row[2], n)
         end)
      end)
   end
end)

local SWIFT = {
   ["google-bert/bert-base-uncased"] = "bert-base-uncased", distilgpt2 = "gpt2", ["t5-base"] = "t5",
}
local LONG = {
   bert_uncased_encoded = "bert-base-uncased", gpt2_encoded_tokens = "gpt2", t5_base_encoded = "t5",
}

describe("swift-transformers vectors", function()
   for model, vocabulary in pairs(SWIFT) do
      it("of " .. model .. " are met", function()
         local path = files.shared("data/tokvec/swift/tokenizer_tests.json", pending)
         if not path then return end
         local vectors = read_json(path)[model]
         assert.equal(18, #vectors)
         each_form(vocabulary, function(tokenizer, form)
            for _, vector in ipairs(vectors) do
               local ids, segments = tokenizer:encode_pair(with_nul(vector.input))
               assert.same(plain(vector.encoded.input_ids), ids, form .. ": " .. vector.input)
               if vector.encoded.token_type_ids then
                  assert.same(plain(vector.encoded.token_type_ids), segments)
               end
               for _, case in ipairs { { false, "decoded_with_special" },
                  { true, "decoded_without_special" } } do
                  local text = tokenizer:decode(ids, case[1])
                  assert.equal(clean_up(with_nul(vector[case[2]])), clean_up(text), vector.input)
               end
            end
         end)
      end)
   end

   for name, vocabulary in pairs(LONG) do
      it("of a long text for " .. vocabulary .. " are met", function()
         local path = files.shared("data/tokvec/swift/" .. name .. ".json", pending)
         if not path then return end
         local vector = read_json(path)
         each_form(vocabulary, function(tokenizer)
            local ids, expected = tokenizer:encode_pair(vector.text), plain(vector.token_ids)
            assert.same(expected, ids)
         end)
      end)
   end
end)

-- Cases of llama.cpp, and the ids of each, a line.
local function llama_cases(name)
   local path = files.shared("data/tokvec/llamacpp/ggml-vocab-" .. name .. ".gguf.inp", pending)
   if not path then return {} end
   local text = core.sys.read_file(path)
   local cases, from = {}, 1
   while true do
      local first, last = text:find("\n__ggml_vocab_test__\n", from, true)
      if not first then break end
      cases[#cases + 1] = { text = text:sub(from, first - 1), ids = {} }
      from = last + 1
   end
   local n = 0
   for line in core.sys.read_file((path:gsub("inp$", "out"))):gmatch("([^\n]*)\n") do
      n = n + 1
      for id in line:gmatch("%d+") do table.insert(cases[n].ids, tonumber(id)) end
   end
   return cases
end

describe("llama.cpp vectors", function()
   for name, vocabulary in pairs { ["gpt-2"] = "gpt2", ["bert-bge"] = "bert-base-uncased" } do
      it("of " .. name .. " are met", function()
         local cases = llama_cases(name)
         each_form(vocabulary, function(tokenizer)
            assert.equal(46, #cases)
            for _, case in ipairs(cases) do
               assert.same(case.ids, tokenizer:encode(case.text), case.text)
            end
         end)
      end)
   end
end)

describe("SQuAD questions", function()
   it("have the words, the pieces and the ids that BERT gives them", function()
      local path = files.shared("data/tokvec/squad_dev_questions/question_tokens.json", pending)
      if not path then return end
      local questions = read_json(path)
      local ids = read_json((path:gsub("question_tokens", "tokenized_questions")))
      assert.equal(10570, #questions)
      each_form("bert-base-uncased", function(tokenizer)
         for i, question in ipairs(questions) do
            assert.same(plain(question.basic), tokenizer:basic(question.original))
            assert.same(plain(question.wordpiece), tokenizer:pieces(question.original))
            assert.same(plain(ids[i]), tokenizer:encode(question.original))
         end
      end)
   end)
end)

describe("WikiText-2", function()
   it("has the ids that GPT-2 gives it", function()
      local path = files.shared("data/tokvec/derived/wikitext2_test_raw_gpt2_ids_joined.u16le",
         pending)
      local text_path = files.shared("data/wikitext2/wiki.test.raw", pending)
      if not path or not text_path then return end
      local bytes, text = core.sys.read_file(path), core.sys.read_file(text_path)
      each_form("gpt2", function(tokenizer)
         local lines = {}
         -- as the lines of the published data set: a blank one is empty
         for line in text:gmatch("([^\n]*\n)") do lines[#lines + 1] = line:gsub("^ \n$", "") end
         local ids = tokenizer:encode(table.concat(lines, "\n\n"))
         assert.equal(287644, #ids)
         for i, id in ipairs(ids) do
            local low, high = bytes:byte(2 * i - 1, 2 * i)
            if low + 256 * high ~= id then assert.equal(low + 256 * high, id, "id " .. i) end
         end
      end)
   end)
end)
