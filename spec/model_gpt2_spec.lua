local buckets = require("ftpipe.data.buckets")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local gpt2 = require("ftpipe.model.gpt2")
local judge = require("spec.support.reference")
local named = require("ftpipe.base.named")
local rates_of = require("spec.support.rates")
require("ftpipe.base.tensor") -- pointer()

local function raw_config(changes)
   local raw = {
      model_type = "gpt2", vocab_size = 23, n_embd = 12, n_layer = 2, n_head = 3, n_positions = 11,
      n_inner = 17, activation_function = "gelu_new", layer_norm_epsilon = 1e-5,
   }
   for key, value in pairs(changes or {}) do raw[key] = value end
   return raw
end

--- Random parameters of a graph: a list of tensors, and their numbers by name.
local function random_params(graph)
   local list, numbers = {}, {}
   for i, param in ipairs(graph:params()) do
      list[i] = core.tensor.zeros(param.dims):draw("normal", 0.3, 5, i)
      numbers[param.name] = list[i]:totable()
   end
   return list, numbers
end

local function ints(rows) return core.tensor.from_table(rows, "i32") end

-- Two samples of seven tokens; labels are the next tokens, of the second some do not count.
local IDS = { { 5, 9, 2, 14, 22, 1, 7 }, { 11, 4, 6, 20, 3, 0, 0 } }
local LABELS = { { 9, 2, 14, 22, 1, 7, -100 }, { 4, -100, 20, 3, -100, -100, -100 } }
local COUNTED = 9
local SIZE = { batch = 2, source = 7, logits = true }

describe("a GPT-2 configuration", function()
   it("fills in what config.json leaves out", function()
      local config = gpt2.config {
         model_type = "gpt2", vocab_size = 30, n_embd = 8, n_layer = 1, n_head = 2,
         n_inner = core.json.null,
      }
      assert.same({ "gelu_new", 1024, 32, 1e-5, true, -1, 0, 0.1 }, {
         config.activation_function, config.n_positions, config.n_inner,
         config.layer_norm_epsilon, config.tied, config.eos_token_id, config.pad_token_id,
         config.dropout_rate,
      })
      assert.is_false(gpt2.config(raw_config(), true).tied)
      assert.is_false(gpt2.config(raw_config { tie_word_embeddings = false }).tied)
   end)

   it("knows an activation by all its names in transformers", function()
      local function activation(name)
         return gpt2.config(raw_config { activation_function = name }).activation
      end
      for _, name in ipairs { "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh",
         "gelu_python_tanh" } do
         assert.same(activation("gelu_new"), activation(name))
      end
      assert.same(activation("gelu"), activation("gelu_python"))
      assert.same(activation("silu"), activation("swish"))
   end)

   it("ends texts with the first of several ends of answers", function()
      assert.equal(3, gpt2.config(raw_config { eos_token_id = { 3, 5 } }).eos_token_id)
      assert.matches("'eos_token_id' is 23, expected an id below vocab_size, 23",
         files.failure(gpt2.config, raw_config { eos_token_id = { 23, 5 } }).message)
   end)

   it("refuses what is not this GPT-2, with the key, the value and what was expected", function()
      local function refused(changes, pattern)
         files.unsupported(pattern, gpt2.config, raw_config(changes))
      end
      refused({ model_type = "gptj" }, "model_type is 'gptj', expected 'gpt2'")
      refused({ activation_function = "sillu" }, "'activation_function' is sillu, expected one of: "
         .. "gelu, gelu_10, gelu_accurate, .*, swish, tanh %(did you mean 'silu'%?%)$")
      refused({ activation_function = "xielu_of_2025" }, "is xielu_of_2025, expected .*, tanh$")
      refused({ n_head = 5 }, "n_embd 12 is not a multiple of n_head, 5")
      refused({ n_layer = 0 }, "'n_layer' is 0, expected a positive integer")
      refused({ n_layer = 4097 }, "'n_layer' is 4097, expected at most 4096 layers")
      refused({ n_inner = -1 }, "'n_inner' is %-1, expected a positive integer")
      refused({ layer_norm_epsilon = 0 }, "'layer_norm_epsilon' is 0, expected a number above 0")
      refused({ layer_norm_epsilon = 1.5 }, "'layer_norm_epsilon' is 1.5, .* above 0, at most 1$")
      refused({ attn_pdrop = 1 }, "'attn_pdrop' is 1, expected a number from 0 to below 1")
      refused({ eos_token_id = 23 }, "'eos_token_id' is 23, expected an id below vocab_size, 23")
      refused({ scale_attn_weights = 0 }, "'scale_attn_weights' is 0, expected true or false")
      refused({ add_cross_attention = true }, "'add_cross_attention' is true")
      refused({ tie_word_embeddings = 1 }, "'tie_word_embeddings' is 1, expected true or false")
   end)
end)

describe("a GPT-2 graph", function()
   it("obeys the rules of graphs and comes back from its text", function()
      for _, act in ipairs(judge.activations) do
         local config = gpt2.config(raw_config { activation_function = act })
         local graph = gpt2.training(config, { batch = 2, source = 9, dropout = 0.1 })
         graph:verify()
         local again = core.graph.parse(graph:text())
         again:verify()
         assert.equal(graph:text(), again:text())
         assert.equal(graph:counts().params + 1, graph:counts().grads) -- the embedding is the head
      end
   end)

   it("drops embeddings, probabilities and residuals at the rates of config.json", function()
      local raw = raw_config { n_layer = 1, embd_pdrop = 0.3, attn_pdrop = 0.2, resid_pdrop = 0.1 }
      local config = gpt2.config(raw)
      local function rates(dropout)
         return rates_of(gpt2.training(config,
            { batch = 1, source = 4, dropout = dropout, grads = false }))
      end
      assert.same({ "dropout 0.3", "attention 0.2", "dropout_add 0.1", "dropout_add 0.1" },
         rates(config.dropout_rate))
      assert.same({ "dropout 0.5", "attention 0.5", "dropout_add 0.5", "dropout_add 0.5" },
         rates(0.5))
   end)

   it("has no more positions than the model", function()
      local problem = files.failure(gpt2.training, gpt2.config(raw_config()),
         { batch = 1, source = 12 })
      assert.matches("12 tokens are too long for the model: it has 11 positions", problem.message)
   end)

   it("says by which flag its sequences get shorter", function()
      local function refused(flags)
         local size = named.flags({ batch = 1, source = 12 }, flags)
         return files.failure(gpt2.training, gpt2.config(raw_config()), size).message
      end
      assert.matches("give fewer with %-%-block$", refused { block = "default" })
      assert.matches("give fewer with %-%-max%-source$", refused {})
   end)

   it("has batches that are padded to its positions at most", function()
      local model = { family = gpt2, config = gpt2.config(raw_config()) }
      assert.same({ 8, 11 }, buckets.of(model, 11))
   end)

   for i, name in ipairs(judge.activations) do
      it("computes what the paper's equations give, " .. name, function()
         local raw = raw_config { activation_function = name, tie_word_embeddings = i % 2 == 0 }
         local graph = gpt2.training(gpt2.config(raw), SIZE)
         local params, numbers = random_params(graph)
         local out = core.program.new(graph, { grads = true }):run(params,
            { ints(IDS), ints(LABELS), core.tensor.zeros({ 1 }):fill(1 / COUNTED) })
         local loss = 0
         for b, ids in ipairs(IDS) do
            for t, logits in ipairs(judge.gpt2(raw, numbers, ids)) do
               for v, logit in ipairs(logits) do
                  assert.is_true(math.abs(logit - out.logits:get(b, t, v)) < 2e-5)
               end
               local label = LABELS[b][t]
               if label >= 0 then loss = loss + judge.nll(logits, label) / COUNTED end
            end
         end
         assert.is_true(math.abs(loss / out.loss:get() - 1) < 1e-5)
      end)
   end
end)
