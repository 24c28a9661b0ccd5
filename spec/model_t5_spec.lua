local choice = require("ftpipe.data.choice")
local core = require("ftpipe.core")
local decode = require("ftpipe.data.decode")
local files = require("spec.support.files")
local models = require("ftpipe.model")
local pipeline = require("spec.support.pipeline")
local t5 = require("ftpipe.model.t5")

local function raw_config(changes)
   local raw = {
      model_type = "t5", vocab_size = 61, d_model = 24, d_kv = 5, d_ff = 40, num_layers = 2,
      num_heads = 3,
   }
   for key, value in pairs(changes or {}) do raw[key] = value end
   return raw
end

describe("a T5 configuration", function()
   it("fills in what config.json leaves out", function()
      local config = t5.config(raw_config())
      assert.equal(2, config.num_decoder_layers)
      assert.equal(32, config.relative_attention_num_buckets)
      assert.equal(128, config.relative_attention_max_distance)
      assert.equal(1e-6, config.layer_norm_epsilon)
      assert.same({ 0, 1, 0 },
         { config.pad_token_id, config.eos_token_id, config.decoder_start_token_id })
      assert.is_false(config.gated)
      assert.is_true(config.tied)
      assert.is_true(config.scaled)
   end)

   it("takes null for what is left out, and decoders of another depth", function()
      local config = t5.config(raw_config {
         num_decoder_layers = core.json.null, layer_norm_epsilon = core.json.null,
      })
      assert.equal(2, config.num_decoder_layers)
      assert.equal(1e-6, config.layer_norm_epsilon)
      assert.equal(5, t5.config(raw_config { num_decoder_layers = 5 }).num_decoder_layers)
   end)

   it("knows the forms of v1.1", function()
      local config = t5.config(raw_config {
         feed_forward_proj = "gated-gelu", tie_word_embeddings = false,
      })
      assert.is_true(config.gated)
      assert.is_false(config.tied)
      assert.is_false(config.scaled)
      assert.is_true(t5.config(raw_config {
         feed_forward_proj = "gated-gelu", dense_act_fn = "gelu_new", is_gated_act = true,
      }).gated)
      -- transformers 5 writes it so: a head of its own in the file, scaling said apart
      config = t5.config(raw_config { scale_decoder_outputs = false }, true)
      assert.is_false(config.tied)
      assert.is_false(config.scaled)
   end)

   it("keeps what is between the products of a feed-forward layer once", function()
      local function counts(dropout)
         local config, n = t5.config(raw_config()), {}
         local graph = t5.training(config, { batch = 1, source = 3, target = 2, dropout = dropout })
         for i = 1, graph:counts().nodes do
            local op = graph:node(i).op
            n[op] = (n[op] or 0) + 1
         end
         return n
      end
      local n = counts(0.1)
      assert.same({ 4, 4, nil }, { n.relu_dropout, n.relu_dropout_grad, n.relu_grad })
      n = counts(0)
      assert.same({ nil, 4 }, { n.relu_dropout, n.relu_grad })
   end)

   it("has the activation that feed_forward_proj says, or what transformers made of it", function()
      local function rows(changes)
         local config, list = t5.config(raw_config(changes)), {}
         local graph = t5.training(config, { batch = 1, source = 3, target = 2, grads = false })
         for n = 1, graph:counts().forward do
            local node = graph:node(n)
            if node.scope == "encoder/block.0/ff" then list[#list + 1] = node.op end
         end
         graph:verify()
         return table.concat(list, " ")
      end
      local function has(wanted, changes)
         assert.equal("rms_norm " .. wanted .. " linear add", rows(changes))
      end
      has("linear", {})
      has("linear silu", { feed_forward_proj = "silu" })
      has("linear gelu_erf", { feed_forward_proj = "gelu" })
      has("linear linear gated_gelu", { feed_forward_proj = "gated-gelu" })
      has("linear linear gated_gelu", { feed_forward_proj = "gated-gelu_new" })
      has("linear silu linear mul", { feed_forward_proj = "gated-silu" })
      has("linear linear mul", { feed_forward_proj = "gated-relu" })
      has("linear silu linear mul",
         { feed_forward_proj = "gated-silu", dense_act_fn = "silu", is_gated_act = true })
      has("linear gelu_erf linear mul",
         { feed_forward_proj = "gated-gelu", dense_act_fn = "gelu", is_gated_act = true })
      has("linear gelu", { dense_act_fn = "gelu_new", is_gated_act = core.json.null })
      has("linear linear mul", { is_gated_act = true, dense_act_fn = core.json.null })
   end)

   it("knows the forms of mT5", function()
      local config = t5.config(raw_config { model_type = "mt5" })
      assert.is_true(config.gated)
      assert.is_false(config.tied)
      assert.is_false(config.scaled)
      config = t5.config(raw_config { model_type = "mt5", tie_word_embeddings = true }, false)
      assert.is_true(config.tied)
      assert.is_false(config.scaled)
      config = t5.config(raw_config { model_type = "mt5", feed_forward_proj = "relu" })
      assert.is_false(config.gated)
   end)

   it("has the embedding for a head where the weights hold no other", function()
      local raw = raw_config { tie_word_embeddings = false }
      assert.is_false(t5.config(raw).tied) -- no weights: what is asked for
      assert.is_true(t5.config(raw, false).tied)
      assert.is_false(t5.config(raw, false).scaled)
   end)

   it("scales logits where it is said, whatever the head is", function()
      for _, scaled in ipairs { true, false } do
         local config = t5.config(raw_config {
            tie_word_embeddings = not scaled, scale_decoder_outputs = scaled,
         })
         local graph, found = t5.training(config, { batch = 1, source = 4, target = 4 }), false
         for n = 1, graph:counts().forward do found = found or graph:node(n).op == "scale" end
         assert.equal(scaled, found)
         assert.is_false(t5.config(raw_config {
            model_type = "mt5", scale_decoder_outputs = scaled,
         }).scaled) -- mT5 of transformers has no such key
      end
   end)

   it("ends texts with the first of several ends of answers", function()
      assert.equal(7, t5.config(raw_config { eos_token_id = { 7, 1 } }).eos_token_id)
   end)

   it("refuses what is not T5, with the key, the value and what was expected", function()
      local function refused(changes, pattern)
         files.unsupported(pattern, t5.config, raw_config(changes))
      end
      refused({ model_type = "bert" }, "model_type is 'bert', expected 't5'")
      refused({ layer_norm_epsilon = 1.5 }, "'layer_norm_epsilon' is 1.5, .* above 0, at most 1$")
      refused({ feed_forward_proj = "sillu" },
         "'feed_forward_proj' is sillu, expected one of: gelu, .* %(did you mean 'silu'%?%)$")
      refused({ feed_forward_proj = "gated-sillu" }, "'feed_forward_proj' is gated%-sillu, "
         .. "expected 'gated%-' and one of: gelu, .* %(did you mean 'gated%-silu'%?%)$")
      refused({ feed_forward_proj = "gated-gated-silu" }, "is gated%-gated%-silu, expected 'gated")
      refused({ feed_forward_proj = "gated-" }, "_proj' is gated%-, expected 'gated%-' and one of")
      refused({ feed_forward_proj = true }, "'feed_forward_proj' is true, expected one of: gelu, ")
      refused({ dense_act_fn = "gelux" }, "'dense_act_fn' is gelux, expected one of: gelu, ")
      refused({ is_gated_act = 1 }, "'is_gated_act' is 1, expected true or false")
      refused({ scale_decoder_outputs = 1 },
         "'scale_decoder_outputs' is 1, expected true or false")
      refused({ tie_encoder_decoder = true }, "'tie_encoder_decoder' is true, expected an encoder")
      refused({ pad_token_id = 5 }, "'decoder_start_token_id' is missing, expected .* here 5")
      refused({ d_model = 0 }, "'d_model' is 0, expected a positive integer")
      refused({ d_model = "24" }, "'d_model' is the string '24', expected a positive integer")
      refused({ d_kv = core.json.array {} }, "'d_kv' is a list, expected a positive integer")
      refused({ num_layers = 10000000 },
         "'num_layers' is 10000000, expected at most 4096 layers")
      refused({ num_decoder_layers = 4097 },
         "'num_decoder_layers' is 4097, expected at most 4096 layers")
      refused({ num_heads = 2.5 }, "'num_heads' is 2.5")
      refused({ vocab_size = core.json.null }, "'vocab_size'")
      refused({ num_decoder_layers = -1 }, "'num_decoder_layers' is %-1")
      refused({ relative_attention_num_buckets = 0 }, "'relative_attention_num_buckets' is 0")
      refused({ relative_attention_num_buckets = 2 },
         "2 buckets .* up to distance 128, expected at least 4")
      refused({ relative_attention_max_distance = 16 }, "32 buckets .* up to distance 16, expected")
      refused({ relative_attention_max_distance = "x" },
         "'relative_attention_max_distance' is the string 'x'")
      refused({ layer_norm_epsilon = "tiny" },
         "'layer_norm_epsilon' is the string 'tiny', expected a number above 0")
      refused({ initializer_factor = {} }, "'initializer_factor' is an object")
      refused({ tie_word_embeddings = "yes" },
         "'tie_word_embeddings' is the string 'yes', expected true or false")
      refused({ eos_token_id = 61 }, "'eos_token_id' is 61, expected an id below vocab_size, 61")
      refused({ eos_token_id = core.json.array { 1, 61 } },
         "'eos_token_id' is 61, expected an id below vocab_size, 61")
      refused({ eos_token_id = core.json.array {} },
         "'eos_token_id' is no id and no list of ids")
      refused({ pad_token_id = -1 }, "'pad_token_id' is %-1")
      refused({ decoder_start_token_id = "0" },
         "'decoder_start_token_id' is the string '0', expected an id")
   end)
end)

describe("a model of another family", function()
   it("is refused by the name of that family, in one line that says which there are", function()
      for _, family in ipairs { "longt5", "umt5", "roberta", "distilbert" } do
         files.in_directory(function(dir)
            core.sys.write_file(dir .. "/config.json", core.json.encode(
               raw_config { model_type = family }))
            local problem = files.failure(models.open, { model = dir })
            assert.equal(6, problem.exit)
            assert.equal(("%s: model_type is '%s', expected one of: bert, gpt2, mt5, t5"):format(
               dir, family), problem.message)
         end)
      end
   end)
end)

describe("a built-in T5", function()
   local published = {
      ["t5-small"] = 60506624, ["t5-base"] = 222903552, ["t5-large"] = 737668096,
      ["t5-3b"] = 2851598336, ["t5-11b"] = 11307321344,
      ["t5-v1_1-small"] = 76961152, ["t5-v1_1-base"] = 247577856, ["t5-v1_1-large"] = 783150080,
      ["t5-v1_1-xl"] = 2849757184, ["t5-v1_1-xxl"] = 11135332352,
   }

   local function parameters_of(family, raw)
      local graph, total = family.training(family.config(raw),
         { batch = 1, source = 8, target = 4, grads = false }), 0
      for _, param in ipairs(graph:params()) do
         local n = 1
         for _, dim in ipairs(param.dims) do n = n * dim end
         total = total + n
      end
      return total
   end

   it("of mT5 has as many parameters as the published one", function()
      local mt5 = require("ftpipe.model.mt5")
      assert.same({ "mt5-base", "mt5-large", "mt5-small", "mt5-xl", "mt5-xxl" },
         mt5.builtin_names())
      local raw = mt5.builtin("mt5-small")
      assert.equal("mt5", models.open("mt5-small").raw.model_type)
      assert.equal(300176768, parameters_of(mt5, raw))
      assert.is_nil(mt5.builtin("mt5-tiny"))
   end)

   it("has as many parameters as the published one", function()
      assert.equal(10, #t5.builtin_names())
      for _, name in ipairs(t5.builtin_names()) do
         assert.equal(published[name], parameters_of(t5, t5.builtin(name)), name)
      end
   end)

   it("of 3 billion parameters becomes a graph in under 0.2 s of a processor", function()
      local config = t5.config(t5.builtin("t5-3b"))
      local best = math.huge
      for _ = 1, 3 do
         collectgarbage()
         local start = os.clock()
         t5.training(config, { batch = 8, source = 320, target = 8, dropout = 0.1 })
         best = math.min(best, os.clock() - start)
      end
      assert.is_true(best < 0.2, ("%.3f s"):format(best))
   end)

   it("trains only with initial values, and says so", function()
      local problem = files.failure(function()
         models.open({ model = "t5-small" }):check_trainable()
      end)
      assert.equal(6, problem.exit)
      assert.matches("built%-in configuration without weights", problem.message)
      models.open({ model = "t5-small", init = "random" }):check_trainable()
      problem = files.failure(models.open, { model = "t5-smal" })
      assert.equal(6, problem.exit)
      assert.matches("model = \"t5%-smal\" is no file or directory, nor in %S+, nor a built%-in "
         .. "configuration %(did you mean 't5%-small'%?%)$",
         problem.message)
   end)

   it("is shown as a tree: parameters once each, and the arithmetic of a forward", function()
      local S, T = 64, 4
      local tree = models("t5-large"):tree { source = S, target = T }
      local width, ff = 1024, 4096
      -- four products of attention and two of ff, attention itself; two FLOP for a number
      local encoder = 4 * width * width + 2 * width * ff
      local flops = 2 * (encoder * S + 2 * S * S * width) / 1e9
      local n, params, gflop = tree:match("\n  encoder/block%.1 %.%. 23 +(%d+) x ([%d.]+) +23 x "
         .. "([%d.]+)  with encoder%.block%.0%.layer%.0%.SelfAttention%.relative_attention_bias")
      assert.equal("23", n, tree)
      assert.near(encoder / 1e6, tonumber(params), 0.01)
      assert.near(flops, tonumber(gflop), 0.02 * flops)
      assert.matches("\n  head +0%.00 +[%d.]+  with shared%.weight\n", tree)
      assert.near(737.7, tonumber(tree:match("\n  all +([%d.]+)")), 0.1)
      assert.fails_with(function() models("t5-small"):tree { source = 0 } end,
         "model:tree: option ")
   end)

   it("opens by a name alone, and says what it expects instead of others", function()
      assert.equal("t5-small", models("t5-small").name)
      for wrong, words in pairs {
         [7] = "expected a name or a directory, as \"t5%-small\" or { model = DIR }",
         [{}] = "option 'model' is missing %(a name or a directory, as t5%-small%)",
         [{ model = 7 }] = "option 'model': expected a string, got 7",
         [{ model = "t5-small", init = "weight" }] = "option 'init': 'weight' is not available "
            .. "%(did you mean 'weights'%?%)",
      } do
         assert.fails_with(function() models(wrong) end, "ft.model: " .. words)
      end
   end)
end)

describe("a T5 graph", function()
   local forms = {
      ["v1.0"] = { gated = false, tied = true }, ["v1.1"] = { gated = true, tied = false },
   }
   for name, form in pairs(forms) do
      local function graph()
         return t5.training(pipeline.model(form).config,
            { batch = 2, source = 9, target = 4, dropout = 0.1, logits = true })
      end

      it("obeys the rules of graphs, " .. name, function()
         graph():verify()
      end)

      it("comes back from its text, " .. name, function()
         local text = graph():text()
         local again = core.graph.parse(text)
         again:verify()
         assert.equal(text, again:text())
         assert.same(graph():params(), again:params())
         assert.same(graph():counts(), again:counts())
      end)

      it("has its parameters in one gradient each, tied ones in several, " .. name, function()
         local g = graph()
         local counts = g:counts()
         -- The embedding has two uses and a tied head a third; each block uses its stack's table of
         -- position biases, of which there are three a stack.
         local extra = 1 + (form.tied and 1 or 0) + 2 + 2
         assert.equal(counts.params + extra, counts.grads)
      end)
   end
end)

describe("greedy decoding with a cache", function()
   local BATCH, SOURCE, TARGET = 3, 9, 6

   local function inputs()
      local ids = core.tensor.zeros({ BATCH, SOURCE }, "i32")
      local mask = core.tensor.zeros({ BATCH, SOURCE }, "i32")
      for b = 1, BATCH do
         for t = 1, SOURCE - 2 * b + 2 do
            ids:set(b, t, (11 * b + 7 * t) % 59 + 2)
            mask:set(b, t, 1)
         end
      end
      return ids, mask
   end

   --- The likeliest token after `prefix` of every row, from the whole decoder at once.
   local function likeliest(model, params, ids, mask, rows, t)
      local graph = t5.training(model.config,
         { batch = BATCH, source = SOURCE, target = TARGET, logits = true, grads = false })
      local decoder_ids = core.tensor.zeros({ BATCH, TARGET }, "i32")
      local labels = core.tensor.zeros({ BATCH, TARGET }, "i32"):fill(-100)
      for b = 1, BATCH do
         for k = 1, t - 1 do decoder_ids:set(b, k + 1, rows[b][k] or 0) end
      end
      local list = {}
      for i, param in ipairs(graph:params()) do list[i] = params[param.name] end
      local weight = core.tensor.zeros({ 1 }):fill(1)
      local out = core.program.new(graph):run(list, { ids, mask, decoder_ids, labels, weight })
      local best = {}
      for b = 1, BATCH do
         local most = -math.huge
         for v = 1, model.config.vocab_size do
            local logit = out.logits:get(b, t, v)
            if logit > most then most, best[b] = logit, v - 1 end
         end
      end
      return best
   end

   for _, gated in ipairs { false, true } do
      it("gives what the whole decoder finds likeliest, gated " .. tostring(gated), function()
         local model = pipeline.model { gated = gated, tied = not gated }
         local params = {}
         for _, param in ipairs(t5.training(model.config, { batch = 1, source = 8, target = 4 })
            :params()) do
            params[param.name] = core.tensor.zeros(param.dims)
         end
         model:initialize(params, 3)
         -- Small next to what the blocks add, so that a token is not followed by itself.
         params["shared.weight"]:draw("normal", 0.05, 3, 1)
         local ids, mask = inputs()
         for _, threads in ipairs { 1, 2 } do
            local decoder = decode.greedy(model, params,
               { batch = BATCH, source = SOURCE, target = TARGET, threads = threads })
            local rows = decode.run(decoder, ids, mask)
            local different = {}
            for t = 1, TARGET do
               local best = likeliest(model, params, ids, mask, rows, t)
               for b = 1, BATCH do
                  if rows[b][t] then
                     assert.equal(best[b], rows[b][t], ("row %d, token %d"):format(b, t))
                     different[rows[b][t]] = true
                  end
               end
            end
            assert.is_not_nil(next(different, (next(different)))) -- not one token all the time
            assert.same(rows, decode.run(decoder, ids, mask)) -- caches start empty each time
         end
      end)
   end
end)

describe("initial values", function()
   it("depend on the seed and the parameter's name alone", function()
      local model = pipeline.model()
      local function filled(names, seed)
         local params = {}
         for _, name in ipairs(names) do params[name] = core.tensor.zeros { 24, 24 } end
         model:initialize(params, seed)
         return params
      end
      local name = "encoder.block.0.layer.0.SelfAttention.q.weight"
      local other = "encoder.block.1.layer.0.SelfAttention.q.weight"
      local values = filled({ name }, 5)[name]:totable()
      assert.same(values, filled({ other, name }, 5)[name]:totable())
      assert.are_not.same(values, filled({ name }, 6)[name]:totable())
      assert.are_not.same(values, filled({ other }, 5)[other]:totable())
      local sum = 0
      for _, row in ipairs(values) do
         for _, x in ipairs(row) do sum = sum + x * x end
      end
      local deviation = (sum / 576) ^ 0.5
      assert.is_true(math.abs(deviation / (24 * 5) ^ -0.5 - 1) < 0.1)
      assert.same({ 1, 1 }, { filled({ "encoder.final_layer_norm.weight" }, 5)
         ["encoder.final_layer_norm.weight"]:get(1, 1), 1 })
   end)
end)

describe("greedy decoding", function()
   it("ends a row with its end token, and all when every row has ended", function()
      local script, step, last = { { 7, 8 }, { 1, 8 }, { 9, 1 }, { 9, 9 } }, 0, nil
      local ids = core.tensor.zeros({ 2, 1 }, "i32")
      local decoder = {
         rules = choice.plain { decoder_start_token_id = 0, eos_token_id = 1 },
         size = { batch = 2, target = 4 },
         encode = { params = {}, program = { run = function() return {} end } },
         next = {
            params = {}, inputs = { { name = "decoder_ids" }, { name = "position" } },
            program = { run = function(_, _, inputs)
               step, last = step + 1, inputs[2]:get(1)
               for b = 1, 2 do ids:set(b, 1, script[step][b]) end
               return { next = ids }
            end },
         },
      }
      assert.same({ { 7, 1 }, { 8, 8, 1 } }, decode.run(decoder))
      assert.same({ 3, 2 }, { step, last }) -- positions count from 0
   end)
end)

--- Names of the parameters of a graph whose gradients are not all zero, of one step on inputs of a
-- batch.
local function moved(graph, batch)
   local params, inputs, names = {}, {}, {}
   for i, param in ipairs(graph:params()) do
      params[i] = core.tensor.zeros(param.dims):draw("normal", 0.4, 7, i)
   end
   for i, input in ipairs(graph:inputs()) do inputs[i] = batch[input.name] end
   local program = core.program.new(graph, { grads = true })
   program:run(params, inputs)
   for i, param in ipairs(graph:params()) do
      local stats = program:grad(i):stats()
      if stats.max ~= 0 or stats.min ~= 0 then names[#names + 1] = param.name end
   end
   return names
end

describe("attention to one key", function()
   local function ints(rows) return core.tensor.from_table(rows, "i32") end
   local batch = {
      input_ids = ints { { 5, 0, 0 }, { 9, 0, 0 } }, mask = ints { { 1, 0, 0 }, { 0, 0, 1 } },
      decoder_ids = ints { { 0 }, { 0 } }, labels = ints { { 7 }, { 30 } },
      loss_weight = core.tensor.from_table { 0.5 },
   }

   it("has no gradient of its scores, not what rounding leaves", function()
      for _, dropout in ipairs { 0, 0.1 } do
         local names = moved(t5.training(t5.config(raw_config()),
            { batch = 2, source = 3, target = 1, dropout = dropout }), batch)
         assert.is_true(#names > 20)
         for _, name in ipairs(names) do
            assert.is_nil(name:match("%.[qk]%.weight$") or name:match("relative_attention_bias"),
               name)
         end
      end
   end)
end)
