--- Predictions of language models and of spans, with small random models and tokenizers of words.

local core = require("ftpipe.core")
local checkpoint = require("ftpipe.model.checkpoint")
local column = require("ftpipe.base.column")
local files = require("spec.support.files")
local models = require("ftpipe.model")
local named = require("ftpipe.base.named")
local records = require("ftpipe.text.records")
local tasks = require("ftpipe.task")

local WORDS = 50

--- A tokenizer whose pieces are words w1, w2, ...; w1 is [CLS], w2 is [SEP].
local tokenizer
tokenizer = {
   special = function(_, name) return name == "cls" and 1 or 2 end,
   encode = function(_, text)
      local ids = {}
      for number in text:gmatch("w(%d+)") do ids[#ids + 1] = tonumber(number) end
      return ids
   end,
   encode_pair = function(_, text) return tokenizer:encode(text) end,
   vector = function(_, text) return core.data.ids(tokenizer:encode(text)) end,
   answer = function(_, spans, context)
      local vocab = { "[UNK]" }
      for id = 1, 200 do vocab[id + 1] = "w" .. id end
      local made = core.data.wordpiece { vocab = table.concat(vocab, "\n"), name = "words" }
      return made:answer(spans, context)
   end,
   decode = function(_, ids)
      local words = {}
      for i, id in ipairs(ids) do words[i] = "w" .. id end
      return table.concat(words, " ")
   end,
}

--- Calls body(model) with a random model that was saved and opened.
local function with_model(raw, size, body)
   files.in_directory(function(dir)
      local family = require("ftpipe.model." .. raw.model_type)
      local config, params = family.config(raw), {}
      size.dropout, size.grads = 0, false
      for _, param in ipairs(family.training(config, size):params()) do
         params[param.name] = core.tensor.zeros(param.dims):draw("normal", 0.3, #param.name)
      end
      checkpoint.save(dir .. "/m", { config = raw, tensors = params })
      local model = models.open { model = dir .. "/m" }
      model.opened = tokenizer
      body(model)
   end)
end

--- The rows that a prediction emits.
local function predict(model, items, flags, task)
   local rows = {}
   items.path = items.path or "here"
   require("ftpipe.data.kind").of(model).answer {
      model = model, items = items, flags = flags, task = task, threads = 1,
      emit = function(row) rows[#rows + 1] = row end,
      usage = function(...) core.fail("invalid argument", string.format(...), 2) end,
   }
   return rows
end

local GPT2 = {
   model_type = "gpt2", vocab_size = WORDS, n_embd = 12, n_layer = 2, n_head = 2, n_positions = 24,
   bos_token_id = 49, eos_token_id = 49,
}

describe("predictions of a language model", function()
   local function with(body) with_model(GPT2, { batch = 1, source = 8 }, body) end

   it("go on with texts as the tokenizer has them for its model", function()
      with(function(model)
         local wanted = predict(model, { { text = "w49 w3 w4" } }, { batch = 1, tokens = 6 })
         model.opened = setmetatable({
            encode_pair = function(_, text) return tokenizer:encode("w49 " .. text) end,
         }, { __index = tokenizer })
         assert.same(wanted, predict(model, { { text = "w3 w4" } }, { batch = 1, tokens = 6 }))
      end)
   end)

   it("go on with texts, whatever the others are", function()
      with(function(model)
         local items = { { text = "w3 w4 w5" }, { text = "w7" }, { text = "w9 w8 w7 w6" } }
         local rows = predict(model, items, { batch = 8, tokens = 6 })
         assert.equal(3, #rows)
         for i, item in ipairs(items) do
            assert.equal(i, rows[i].index)
            assert.is_true(#tokenizer:encode(rows[i].answer) <= 6)
            local alone = predict(model, { item }, { batch = 8, tokens = 6 })
            assert.equal(rows[i].answer, alone[1].answer)
         end
         assert.same(rows, predict(model, items, { batch = 2, tokens = 6 }))
      end)
   end)

   it("take the field text of rows, and say when it is missing", function()
      with(function(model)
         local rows = { path = "a.jsonl", records.numbered({ text = "w3 w4" }, 1),
            records.numbered({ t = "w3" }, 2) }
         local function items(n) return { rows = rows, { row = rows[n] } } end
         assert.same(predict(model, { { text = "w3 w4" } }, { batch = 1, tokens = 3 }),
            predict(model, items(1), { batch = 1, tokens = 3 }))
         assert.matches("^a%.jsonl:2: field 'text' is missing %(have: t%)",
            files.failure(predict, model, items(2), { batch = 1, tokens = 3 }).message)
         rows[2].text = ""
         assert.matches("^a%.jsonl:2: the text is empty",
            files.failure(predict, model, items(2), { batch = 1, tokens = 3 }).message)
      end)
   end)
end)

local BERT = {
   model_type = "bert", vocab_size = WORDS, hidden_size = 12, intermediate_size = 20,
   num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 20,
   type_vocab_size = 2, hidden_act = "relu",
}

describe("predictions of spans", function()
   local CONTEXT = "w11 w12 w13 w14 w15 w16 w17 w18 w19 w20 w21 w22 w23 w24"

   local function with(body)
      with_model(BERT, { batch = 1, source = 16 }, function(model)
         body(model, tasks.squad { max_source = 12, stride = 4, max_query = 3 })
      end)
   end

   it("are parts of the context, the same for any batch and way in", function()
      with(function(model, task)
         local items = {
            { text = "w5 w6", context = CONTEXT }, { text = "w7", context = "w30 w31" },
            { text = "w8", context = CONTEXT },
         }
         local rows = predict(model, items, { batch = 8 }, task)
         assert.equal(3, #rows)
         for i, row in ipairs(rows) do
            assert.equal(i, row.index)
            assert.equal(items[i].text, row.question)
            assert.truthy(items[i].context:find(row.answer, 1, true))
            assert.is_true(row.score > 0 and row.score <= 1)
         end
         for i, row in ipairs(predict(model, items, { batch = 1 }, task)) do
            assert.equal(rows[i].answer, row.answer)
            assert.is_true(math.abs(rows[i].score - row.score) < 1e-5)
         end
         local qas = {}
         for i, item in ipairs(items) do
            qas[i] = { context = item.context, qas = { { id = "q" .. i, question = item.text } } }
         end
         local document = core.json.encode { data = { { title = "t", paragraphs = qas } } }
         for i, row in ipairs(predict(model, { document = document }, { batch = 8 }, task)) do
            assert.equal("q" .. i, row.id)
            assert.equal(rows[i].answer, row.answer)
         end
      end)
   end)

   it("have the ids of their rows as texts, else the numbers of the rows", function()
      with(function(model, task)
         local function ids(...)
            local rows, items = { path = "a.jsonl" }, {}
            for i, id in ipairs { ... } do
               rows[i] = records.numbered(core.json.decode(
                  ('{ "question": "w5", "context": "w11 w12"%s }'):format(id)), i)
               items[i] = { row = rows[i], line = i }
            end
            items.rows = rows
            return column(predict(model, items, { batch = 8 }, task), "id")
         end
         assert.same({ "q7", "77", "-3", "9007199254740992", "1000000000000000", "1.5" },
            ids(', "id": "q7"', ', "id": 77.0', ', "id": -3', ', "id": 9007199254740992',
               ', "id": 1e15', ', "id": 1.5'))
         assert.same({ "1", "2", "3" }, ids("", ', "id": null', ', "id": true'))
      end)
   end)

   it("name the flag of windows that are longer than the model's positions", function()
      with_model(BERT, { batch = 1, source = 16 }, function(model)
         local task = tasks.squad { max_source = 24, stride = 4, max_query = 3 }
         local function fails(flags)
            local items = { { text = "w5", context = CONTEXT .. " " .. CONTEXT } }
            return files.failure(predict, model, items, flags, task).message
         end
         assert.matches("sequences of 24 tokens .* give fewer with %-%-max%-source$",
            fails(named.flags { batch = 1 }))
         assert.matches("give fewer with source$", fails { batch = 1 })
      end)
   end)

   it("need a context", function()
      with(function(model, task)
         assert.matches("a question needs a context: give %-%-context",
            files.failure(predict, model, { { text = "w5" } }, { batch = 1, text = "w5" },
               task).message)
         local rows = { path = "a.jsonl", records.numbered({ question = "w5" }, 1) }
         assert.matches("a%.jsonl:1: field 'context' is missing",
            files.failure(predict, model, { rows = rows, { row = rows[1] } }, { batch = 1 },
               task).message)
      end)
   end)
end)
