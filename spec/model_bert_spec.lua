local bert = require("ftpipe.model.bert")
local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local judge = require("spec.support.reference")
local models = require("ftpipe.model")
local plans = require("ftpipe.plan")
local rates_of = require("spec.support.rates")
require("ftpipe.base.tensor") -- pointer()

local function raw_config(changes)
   local raw = {
      model_type = "bert", vocab_size = 23, hidden_size = 12, num_hidden_layers = 2,
      num_attention_heads = 3, intermediate_size = 17, max_position_embeddings = 11,
      hidden_act = "gelu", layer_norm_eps = 1e-12,
   }
   for key, value in pairs(changes or {}) do raw[key] = value end
   return raw
end

--- Random parameters of a graph: tensors by name. Biases and norms are random too.
local function random_params(graph)
   local params = {}
   for i, param in ipairs(graph:params()) do
      local tensor = core.tensor.zeros(param.dims):draw("normal", 0.3, 5, i)
      if param.name:find("LayerNorm.weight", 1, true) then
         for d = 1, param.dims[1] do tensor:set(d, tensor:get(d) + 1) end
      end
      params[param.name] = tensor
   end
   return params
end

local function list_of(graph, params)
   local list = {}
   for i, param in ipairs(graph:params()) do list[i] = params[param.name] end
   return list
end

local function ints(rows) return core.tensor.from_table(rows, "i32") end

-- Three samples of nine tokens, two with padding.
local IDS = {
   { 5, 9, 2, 14, 22, 1, 7, 7, 3 }, { 11, 4, 6, 20, 3, 0, 0, 0, 0 }, { 8, 3, 0, 0, 0, 0, 0, 0, 0 },
}
local TYPES = {
   { 0, 0, 0, 0, 1, 1, 1, 1, 1 }, { 0, 0, 1, 1, 1, 0, 0, 0, 0 }, { 0, 1, 0, 0, 0, 0, 0, 0, 0 },
}
local MASK = {
   { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0, 0, 0, 0, 0 },
}
local SIZE = { batch = 3, source = 9, logits = true }

local function run_training(config, params, starts, ends)
   local graph = bert.training(config, SIZE)
   local program = core.program.new(graph, { grads = true })
   local function weight(labels)
      local n = 0
      for _, label in ipairs(labels) do n = n + (label == -100 and 0 or 1) end
      return core.tensor.zeros({ 1 }):fill(0.5 / n)
   end
   local out = program:run(list_of(graph, params), {
      ints(IDS), ints(TYPES), ints(MASK), ints(starts), weight(starts), ints(ends), weight(ends),
   })
   return out, graph, program
end

describe("a BERT configuration", function()
   it("tells questions and contexts apart by two kinds of segments", function()
      assert.equal(5, #bert.columns(bert.config(raw_config())))
      assert.matches("'type_vocab_size' is 1, expected at least 2: a question and its context",
         files.failure(bert.columns, bert.config(raw_config { type_vocab_size = 1 })).message)
   end)

   it("fills in what config.json leaves out", function()
      local config = bert.config {
         model_type = "bert", vocab_size = 30, hidden_size = 8, num_hidden_layers = 1,
         num_attention_heads = 2, intermediate_size = 16, pad_token_id = core.json.null,
      }
      assert.same({ "gelu", 512, 2, 1e-12, 0, -1, 0.1 }, {
         config.hidden_act, config.max_position_embeddings, config.type_vocab_size,
         config.layer_norm_eps, config.pad_token_id, config.padding, config.dropout_rate,
      })
      assert.equal(0, bert.config(raw_config()).padding)
   end)

   it("refuses what is not this BERT, with the key, the value and what was expected", function()
      local function refused(changes, pattern)
         files.unsupported(pattern, bert.config, raw_config(changes))
      end
      refused({ model_type = "roberta" }, "model_type is 'roberta', expected 'bert'")
      refused({ position_embedding_type = "relative_key" },
         "position_embedding_type is 'relative_key', expected 'absolute'")
      refused({ position_embedding_type = "a\127\n" }, "type is 'a%?%?', expected 'absolute'")
      refused({ model_type = "b\127" }, "model_type is 'b%?', expected 'bert'")
      refused({ hidden_act = "gelu_nwe" },
         "'hidden_act' is gelu_nwe, expected one of: gelu, .* %(did you mean 'gelu_new'%?%)$")
      refused({ hidden_act = 3 }, "'hidden_act' is 3")
      refused({ is_decoder = true }, "'is_decoder' is true, expected an encoder")
      refused({ is_decoder = 1 }, "'is_decoder' is 1, expected an encoder")
      refused({ num_attention_heads = 5 },
         "hidden_size 12 is not a multiple of num_attention_heads, 5")
      refused({ hidden_size = -8 }, "'hidden_size' is %-8, expected a positive integer")
      refused({ intermediate_size = 1.5 }, "'intermediate_size' is 1.5")
      refused({ vocab_size = 2 ^ 40 }, "'vocab_size' is 1099511627776")
      refused({ num_hidden_layers = 4097 },
         "'num_hidden_layers' is 4097, expected at most 4096 layers")
      refused({ num_hidden_layers = core.json.null }, "'num_hidden_layers'")
      refused({ type_vocab_size = 0 }, "'type_vocab_size' is 0, expected a positive integer")
      refused({ max_position_embeddings = "long" },
         "'max_position_embeddings' is the string 'long'")
      refused({ layer_norm_eps = 0 }, "'layer_norm_eps' is 0, expected a number above 0")
      refused({ layer_norm_eps = 1.5 }, "'layer_norm_eps' is 1.5, expected .* above 0, at most 1$")
      refused({ initializer_range = "x" }, "'initializer_range' is the string 'x'")
      refused({ hidden_dropout_prob = 1 }, "'hidden_dropout_prob' is 1, expected a number from 0")
      refused({ attention_probs_dropout_prob = -0.1 }, "'attention_probs_dropout_prob' is %-0.1")
      refused({ pad_token_id = 23 }, "'pad_token_id' is 23, expected an id below vocab_size, 23")
   end)
end)

describe("a built-in BERT", function()
   it("has as many parameters as the published one, without its pooler", function()
      local published = {
         ["bert-base"] = 108893186, ["bert-base-uncased"] = 108893186,
         ["bert-base-cased"] = 107721218, ["bert-large"] = 334094338,
         ["bert-large-uncased"] = 334094338, ["bert-large-cased"] = 332531714,
         ["bert-large-uncased-whole-word-masking"] = 334094338,
         ["bert-large-cased-whole-word-masking"] = 332531714,
      }
      assert.equal(8, #bert.builtin_names())
      for _, name in ipairs(bert.builtin_names()) do
         local config = bert.config(bert.builtin(name))
         local total = 0
         for _, param in ipairs(bert.training(config, { batch = 1, source = 8, grads = false })
            :params()) do
            local n = 1
            for _, dim in ipairs(param.dims) do n = n * dim end
            total = total + n
         end
         assert.equal(published[name], total, name)
      end
   end)

   it("opens by its name and trains only with initial values", function()
      local model = models.open { model = "bert-large-uncased-whole-word-masking" }
      assert.equal("span", model.family.kind)
      assert.equal("model bert-large-uncased-whole-word-masking (bert)", tostring(model))
      assert.equal(6, files.failure(model.check_trainable, model).exit)
   end)
end)

describe("a BERT graph", function()
   it("obeys the rules of graphs and comes back from its text", function()
      for _, act in ipairs(judge.activations) do
         local config = bert.config(raw_config { hidden_act = act })
         local graph = bert.training(config, { batch = 2, source = 9, dropout = 0.1 })
         graph:verify()
         local again = core.graph.parse(graph:text())
         again:verify()
         assert.equal(graph:text(), again:text())
         local counts = graph:counts()
         assert.equal(counts.params, counts.grads)
      end
   end)

   it("takes what its columns and losses make", function()
      local config, filled = bert.config(raw_config()), {}
      for _, column in ipairs(bert.columns(config)) do filled[column.name] = true end
      for _, row in ipairs(bert.losses) do
         assert.is_true(filled[row.labels])
         filled[row.weight] = true
      end
      for _, input in ipairs(bert.training(config, SIZE):inputs()) do
         assert.is_true(filled[input.name], input.name)
         filled[input.name] = nil
      end
      assert.is_nil(next(filled))
   end)

   it("drops hidden states and probabilities at the rates of config.json", function()
      local config = bert.config(raw_config { attention_probs_dropout_prob = 0.25 })
      assert.same({ hidden = 0.1, attention = 0.25 }, config.dropout_rate)
      local function rates(dropout)
         return rates_of(bert.training(config,
            { batch = 1, source = 4, dropout = dropout, grads = false }))
      end
      local block = { "attention 0.25", "dropout_add 0.1", "dropout_add 0.1" }
      assert.same({ "dropout 0.1", block[1], block[2], block[3], block[1], block[2], block[3] },
         rates(config.dropout_rate))
      assert.equal("attention 0.5", rates(0.5)[2])
      assert.equal("dropout_add 0.5", rates(0.5)[3])
      assert.same({ "attention 0", "attention 0" }, rates(nil))
   end)

   it("refuses sequences longer than its positions", function()
      local config = bert.config(raw_config())
      local problem = files.failure(bert.training, config, { batch = 1, source = 12 })
      assert.equal(2, problem.exit)
      assert.equal("sequences of 12 tokens are too long for the model: it has 11 positions "
         .. "(max_position_embeddings in config.json); give fewer with source",
         problem.message)
   end)

   it("is planned for lengths up to its positions and no further", function()
      local model = models.open { model = "bert-base" }
      model.config = bert.config(raw_config { max_position_embeddings = 20 })
      local longest
      local dataset = {
         groups = function() return { { "source", "segments" }, { "start", "end" } } end,
         longest = function(_, field) return field == "source" and longest or 1 end,
         size = function() return 8 end,
      }
      local function buckets(tokens)
         longest = tokens
         return plans.new { model = model, data = {
            train = { dataset = dataset }, eval = { dataset = dataset },
         }, args = {
            devices = "cpu:1", batch = 4, micro_batches = 2, partition = "seq", schedule = "1f1b",
            recompute = "never", optimizer = "sgd", clip = 0, seed = 1, steps = 2,
            profile = "modelled",
         } }.options.buckets
      end
      assert.same({ 8, 16, 20 }, buckets(18))
      assert.same({ 8, 16 }, buckets(16))
      assert.matches("24 tokens are too long for the model: it has 20 positions",
         files.failure(buckets, 21).message)
   end)

   for i, act in ipairs(judge.activations) do
      it("computes what the paper's equations give, " .. act, function()
         local raw = raw_config { hidden_act = act, type_vocab_size = 2 + i % 2 }
         local config = bert.config(raw)
         local params = random_params(bert.training(config, SIZE))
         local numbers = {}
         for name, tensor in pairs(params) do numbers[name] = tensor:totable() end
         -- The second sample's end does not count; padding takes part in the softmax.
         local starts, ends = { 4, 1, 8 }, { 6, -100, 0 }
         local out = run_training(config, params, starts, ends)
         local loss = 0
         for b = 1, 3 do
            local first, last = judge.bert(raw, numbers, IDS[b], TYPES[b], MASK[b])
            for t = 1, 9 do
               assert.is_true(math.abs(first[t] - out.start_logits:get(b, t)) < 2e-5)
               assert.is_true(math.abs(last[t] - out.end_logits:get(b, t)) < 2e-5)
            end
            loss = loss + judge.nll(first, starts[b]) / 6
            if ends[b] >= 0 then loss = loss + judge.nll(last, ends[b]) / 4 end
         end
         assert.is_true(math.abs(loss / out.loss:get() - 1) < 1e-5)
      end)
   end

   it("answers without labels as it does in training", function()
      local config = bert.config(raw_config())
      local params = random_params(bert.training(config, SIZE))
      local out = run_training(config, params, { 0, 1, 2 }, { 0, 1, 2 })
      local graph = bert.predicting(config, { batch = 3, source = 9 })
      local answers = core.program.new(graph):run(list_of(graph, params),
         { ints(IDS), ints(TYPES), ints(MASK) })
      assert.same(out.start_logits:totable(), answers.start_logits:totable())
      assert.same(out.end_logits:totable(), answers.end_logits:totable())
   end)

   it("trains every embedding but the padding's, as PyTorch does", function()
      for _, case in ipairs { { 0, 0 }, { core.json.null, nil } } do
         local config = bert.config(raw_config { pad_token_id = case[1] })
         local params = random_params(bert.training(config, SIZE))
         local _, graph, program = run_training(config, params, { 0, 1, 2 }, { 0, 1, 2 })
         for i, param in ipairs(graph:params()) do
            if param.name == "bert.embeddings.word_embeddings.weight" then
               local rows = program:grad(i):totable()
               local padding = 0
               for _, x in ipairs(rows[1]) do padding = padding + math.abs(x) end
               assert.equal(case[2] == 0, padding == 0)
               assert.is_true(rows[6][1] ~= 0 and rows[19][1] == 0)
            end
         end
      end
   end)
end)

-- A directory with the given tensors and config.json.
local function write_model(dir, named, raw)
   local list = {}
   for name, tensor in pairs(named) do list[#list + 1] = { name = name, tensor = tensor } end
   core.sys.write_file(dir .. "/config.json", core.json.encode(raw))
   core.io.write(dir .. "/model.safetensors", list)
end

--- The parameters that a directory gives; and the names of the fresh ones.
local function load_model(dir, seed)
   local model = models.open { model = dir }
   local list = bert.training(model.config, { batch = 1, source = 4, grads = false }):params()
   local loaded = {}
   for i, param in ipairs(list) do loaded[i] = core.tensor.zeros(param.dims):fill(9) end
   local fresh = model:fill(list, { tensor_of = function(i) return loaded[i] end, seed = seed })
   local by_name = {}
   for i, param in ipairs(list) do by_name[param.name] = loaded[i]:totable() end
   return by_name, fresh, model
end

describe("a BERT checkpoint", function()
   local raw = raw_config { architectures = { "BertModel" } }
   local params = random_params(bert.training(bert.config(raw), SIZE))

   local function numbers()
      local list = {}
      for name, tensor in pairs(params) do list[name] = tensor:totable() end
      return list
   end

   --- The parameters under other names; what a name becomes nil for is left out.
   local function renamed(rename)
      local list = {}
      for name, tensor in pairs(params) do
         local new = rename(name)
         if new then list[new] = tensor end
      end
      return list
   end

   it("may have names of older files, and parts that a span head does not use", function()
      files.in_directory(function(dir)
         local old = renamed(function(name)
            return (name:gsub("LayerNorm%.weight$", "LayerNorm.gamma")
               :gsub("LayerNorm%.bias$", "LayerNorm.beta"))
         end)
         old["cls.predictions.transform.LayerNorm.gamma"] = core.tensor.zeros { 12 }
         old["cls.seq_relationship.weight"] = core.tensor.zeros { 2, 12 }
         old["classifier.weight"] = core.tensor.zeros { 3, 12 }
         old["bert.pooler.dense.weight"] = core.tensor.zeros { 12, 12 }
         old["bert.embeddings.position_ids"] = core.tensor.zeros({ 1, 11 }, "i64")
         old["bert.embeddings.token_type_ids"] = core.tensor.zeros({ 1, 11 }, "i64")
         write_model(dir, old, raw)
         local loaded, fresh, model = load_model(dir)
         assert.same(numbers(), loaded)
         assert.same({}, fresh)
         assert.same({}, model.notes)
      end)
   end)

   it("may be a bare encoder, which gets a new head and says so", function()
      files.in_directory(function(dir)
         local bare = renamed(function(name)
            return not name:find("qa_outputs", 1, true) and name:gsub("^bert%.", "") or nil
         end)
         bare["pooler.dense.bias"] = core.tensor.zeros { 12 }
         bare["embeddings.position_ids"] = core.tensor.zeros({ 1, 11 }, "i64")
         write_model(dir, bare, raw)
         local loaded, fresh, model = load_model(dir, 3)
         table.sort(fresh)
         assert.same({ "qa_outputs.bias", "qa_outputs.weight" }, fresh)
         assert.same({ 0, 0 }, loaded["qa_outputs.bias"])
         local sum = 0
         for _, row in ipairs(loaded["qa_outputs.weight"]) do
            for _, x in ipairs(row) do sum = sum + x * x / 24 end
         end
         assert.is_true(sum ^ 0.5 > 0.01 and sum ^ 0.5 < 0.03)
         assert.same(loaded, (load_model(dir, 3)))
         assert.are_not.same(loaded["qa_outputs.weight"],
            load_model(dir, 4)["qa_outputs.weight"])
         assert.equal(("model %s (bert): it has no span head (qa_outputs); a new one starts with "
            .. "random values"):format(dir), tostring(model))
         loaded["qa_outputs.weight"], loaded["qa_outputs.bias"] = nil, nil
         for name, values in pairs(loaded) do assert.same(params[name]:totable(), values) end
      end)
   end)

   it("is saved as what it is now, with every key of its source", function()
      files.in_directory(function(dir)
         core.sys.mkdir(dir .. "/bare")
         write_model(dir .. "/bare", renamed(function(name)
            return not name:find("qa_outputs", 1, true) and name or nil
         end), raw_config { architectures = { "BertModel" }, extra = { 1, 2 } })
         local model = models.open { model = dir .. "/bare" }
         checkpoint.save(dir .. "/hf",
            { config = model:saved_config(), tensors = params, source = model.files })
         local again = models.open { model = dir .. "/hf" }
         assert.same({ "BertForQuestionAnswering" }, { unpack(again.raw.architectures) })
         assert.same({ 1, 2 }, { unpack(again.raw.extra) })
         assert.same({ "BertModel" }, { unpack(model.raw.architectures) })
         assert.same(numbers(), (load_model(dir .. "/hf")))
         assert.is_not_nil(again.checkpoint:spec("bert.encoder.layer.1.output.LayerNorm.weight"))
      end)
   end)

   it("that misses a part or has half a head is refused", function()
      local function refused(change, pattern)
         files.in_directory(function(dir)
            local all = renamed(function(name) return name end)
            change(all)
            write_model(dir, all, raw)
            local problem = files.failure(load_model, dir)
            assert.matches(pattern, problem.message)
         end)
      end
      refused(function(all) all["qa_outputs.bias"] = nil end, "1 missing: qa_outputs.bias")
      refused(function(all) all["bert.encoder.layer.1.output.dense.bias"] = nil end,
         "1 missing: bert.encoder.layer.1.output.dense.bias %(nearest in the file: ")
      refused(function(all) all["bert.encoder.norm.weight"] = core.tensor.zeros { 12 } end,
         "1 unexpected: bert.encoder.norm.weight")
      refused(function(all) all["qa_outputs.weight"] = core.tensor.zeros { 3, 12 } end,
         "qa_outputs.weight is %(3, 12%), expected %(2, 12%)")
   end)
end)

describe("published BERT checkpoints", function()
   --- The largest difference of a tensor's numbers, in order, from a nested list of any depth.
   local function difference(tensor, list)
      local data, at, worst = tensor:pointer(), 0, 0
      local function walk(value)
         if type(value) == "table" then
            for _, part in ipairs(value) do walk(part) end
         else
            worst = math.max(worst, math.abs(data[at] - value))
            at = at + 1
         end
      end
      walk(list)
      assert.equal(tensor:count(), at)
      return worst
   end

   it("give the hidden states of a real encoder", function()
      local dir = files.shared("data/ckpt/tiny_bert_mit", pending)
      if not dir then return end
      local golden = core.json.read(files.shared("data/ckpt_derived/tiny_bert_mit_forward.json",
         pending))
      local model = models.open { model = dir }
      assert.equal(1, #model.notes)
      local batch = golden.batch
      local graph = bert.encoding(model.config, { batch = 1, source = #batch.input_ids })
      local params = {}
      model:fill(graph:params(), { tensor_of = function(i)
         params[i] = core.tensor.zeros(graph:params()[i].dims)
         return params[i]
      end })
      local out = core.program.new(graph):run(params,
         { ints { batch.input_ids }, ints { batch.token_type_ids }, ints { batch.attention_mask } })
      assert.is_true(difference(out.hidden, golden.last_hidden_state) < 1e-5)
   end)

   it("give the loss, logits and slopes that another program found in f64", function()
      local dir = files.shared("data/ckpt_derived/bert_qa", pending)
      if not dir then return end
      local golden = core.json.read(dir .. "/golden.json")
      local model, batch = models.open { model = dir }, golden.batch
      local graph = bert.training(model.config,
         { batch = 1, source = #batch.input_ids, logits = true })
      local params, program = {}, core.program.new(graph, { grads = true })
      model:fill(graph:params(), { tensor_of = function(i)
         params[i] = core.tensor.zeros(graph:params()[i].dims)
         return params[i]
      end })
      local half = core.tensor.zeros({ 1 }):fill(0.5)
      local out = program:run(params, {
         ints { batch.input_ids }, ints { batch.token_type_ids }, ints { batch.attention_mask },
         ints { batch.start_positions }, half, ints { batch.end_positions }, half,
      })
      assert.is_true(math.abs(out.loss:get() - golden.loss) < 1e-5 * golden.loss)
      local first, last = {}, {}
      for t, row in ipairs(golden.logits) do first[t], last[t] = row[1], row[2] end
      assert.is_true(difference(out.start_logits, first) < 1e-5)
      assert.is_true(difference(out.end_logits, last) < 1e-5)
      local grads, n = {}, 0
      for i, param in ipairs(graph:params()) do grads[param.name] = program:grad(i):pointer() end
      for _, row in ipairs(golden.grad) do
         local name, index, slope = row[1], row[2], row[3]
         assert.is_true(math.abs(grads[name][index] - slope) < 1e-5 * math.abs(slope) + 1e-6, name)
         n = n + 1
      end
      assert.is_true(n > 50)
   end)
end)
