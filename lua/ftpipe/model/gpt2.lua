--- GPT-2 as graphs built from config.json.
--
-- Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; the shapes of GPT-3,
-- for planning, from Brown et al., arXiv:2005.14165, table 2.1. Parameters bear the names and
-- layouts of Hugging Face's GPT2LMHeadModel: weights of blocks are stored (in, out), and one
-- product gives queries, keys and values together.

local activations = require("ftpipe.model.activations")
local blocks = require("ftpipe.model.blocks")
local check = require("ftpipe.model.check")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local shown = require("ftpipe.base.shown")

local M = {}

--- What the model is for: the next token of its source.
M.kind = "language_model"

-- What config.json may leave out.
local presets = {
   n_positions = 1024,
   activation_function = "gelu_new",
   layer_norm_epsilon = 1e-5,
   resid_pdrop = 0.1,
   embd_pdrop = 0.1,
   attn_pdrop = 0.1,
   initializer_range = 0.02,
   tie_word_embeddings = true,
   scale_attn_weights = true,
   scale_attn_by_inverse_layer_idx = false,
   reorder_and_upcast_attn = false,
}

local required = { "vocab_size", "n_embd", "n_layer", "n_head" }

--- Names in other files (model/forms.lua): those of the hub have no prefix and carry the causal
-- masks, others have heads of classifiers.
M.forms = {
   names = {
      { "^wte%.", "transformer.wte." },
      { "^wpe%.", "transformer.wpe." },
      { "^h%.", "transformer.h." },
      { "^ln_f%.", "transformer.ln_f." },
   },
   aliases = { ["transformer.wte.weight"] = { "lm_head.weight" } },
   ignored = {
      "^transformer%.h%.%d+%.attn%.bias$", "^transformer%.h%.%d+%.attn%.masked_bias$",
      "^score%.", "^classifier%.", "^multiple_choice_head%.",
   },
}

local VOCABULARY, END_OF_TEXT = 50257, 50256

-- name = { width, layers, heads, positions }. Table 2.1 has a width of 5140 for 13 billion
-- parameters, which its 40 heads of 128 do not give.
local published = {
   ["gpt2"] = { 768, 12, 12, 1024 },
   ["gpt2-medium"] = { 1024, 24, 16, 1024 },
   ["gpt2-large"] = { 1280, 36, 20, 1024 },
   ["gpt2-xl"] = { 1600, 48, 25, 1024 },
   ["gpt3-13b"] = { 5120, 40, 40, 2048 },
   ["gpt3-175b"] = { 12288, 96, 96, 2048 },
}

--- The configuration of a published size, or nil.
-- @tparam string name `gpt2`, `gpt2-medium`, `gpt2-large`, `gpt2-xl`; `gpt3-13b`, `gpt3-175b`
function M.builtin(name)
   local size = published[name]
   return size and copy(presets, {
      model_type = "gpt2",
      architectures = { "GPT2LMHeadModel" },
      vocab_size = VOCABULARY,
      n_embd = size[1],
      n_layer = size[2],
      n_head = size[3],
      n_positions = size[4],
      n_ctx = size[4],
      bos_token_id = END_OF_TEXT,
      eos_token_id = END_OF_TEXT,
   })
end

--- Names that `builtin` knows, sorted.
function M.builtin_names()
   return keys(published)
end

-- ---------------------------------------------------------------------------------------------
-- Configuration.

local function check_form(config, raw)
   check.flags(config, {
      "tie_word_embeddings", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
      -- asks for scores in f32, which they are
      "reorder_and_upcast_attn",
   })
   check.absent(raw, { "add_cross_attention" }, "a model of its own")
   config.activation = activations.of("activation_function", config.activation_function)
   if config.n_embd % config.n_head ~= 0 then
      check.refuse("n_embd %d is not a multiple of n_head, %d", config.n_embd, config.n_head)
   end
end

--- One rate of dropout where all are the same, else each.
local function dropout_of(config)
   local hidden, attention = config.resid_pdrop, config.attn_pdrop
   local embedding = config.embd_pdrop
   if hidden == attention and hidden == embedding then return hidden end
   return { hidden = hidden, attention = attention, embedding = embedding }
end

--- Tokens that config.json may leave out.
local function add_ids(config, raw)
   local function is_absent(key) return raw[key] == nil or raw[key] == core.json.null end
   config.eos_token_id, config.pad_token_id = raw.eos_token_id, raw.pad_token_id
   if is_absent("eos_token_id") then
      config.eos_token_id = END_OF_TEXT < config.vocab_size and END_OF_TEXT or -1
   else
      check.ends(config)
   end
   if is_absent("pad_token_id") then
      config.pad_token_id = math.max(config.eos_token_id, 0)
   else
      check.ids(config, { "pad_token_id" })
   end
end

--- Fills in what config.json leaves out and refuses what is not GPT-2.
-- @tparam table raw config.json as decoded
-- @tparam[opt] boolean untied the file holds a head of its own that differs from `wte`
-- @treturn table every field above; n_inner; tied; eos_token_id (-1: none) and ends (check.ends);
--   pad_token_id, which stands where nothing counts; dropout_rate: what a run takes when it is not
--   told another
function M.config(raw, untied)
   if raw.model_type ~= "gpt2" then
      check.refuse("model_type is '%s', expected 'gpt2'", shown(raw.model_type))
   end
   local config = check.with_presets(raw, presets, required)
   check.sizes(config, required)
   check.layers(config, { "n_layer" })
   config.n_inner = raw.n_inner
   if raw.n_inner == nil or raw.n_inner == core.json.null then config.n_inner = 4 * raw.n_embd end
   check.sizes(config, { "n_positions", "n_inner" })
   check.positive(config, { "layer_norm_epsilon" }, 1)
   check.positive(config, { "initializer_range" })
   check.rates(config, { "resid_pdrop", "embd_pdrop", "attn_pdrop" })
   check_form(config, raw)
   add_ids(config, raw)
   config.tied = config.tie_word_embeddings and not untied
   config.dropout_rate = dropout_of(config)
   return config
end

--- Whether a checkpoint holds a head of its own that differs from the embedding.
-- @tparam checkpoint ckpt
function M.untied(ckpt)
   local head, embedding = ckpt:name_of("lm_head.weight"), ckpt:name_of("transformer.wte.weight")
   return head ~= nil and embedding ~= nil and not ckpt:tensors_equal(head, embedding)
end

--- The longest sequence that the model takes.
function M.positions(config) return config.n_positions end

--- How rows of a data set become the inputs of the graph.
function M.columns(config)
   return {
      { name = "input_ids", field = "source", as = "ids", pad = config.pad_token_id },
      { name = "labels", field = "source", as = "shift_left", pad = -100 },
   }
end

--- The weights of the losses.
M.losses = { { weight = "loss_weight", labels = "labels", share = 1 } }

--- Adapters (model/adapters.lua): what peft calls the task, the products that have them, and how
-- the weights of these are stored.
M.lora = { task = "CAUSAL_LM", targets = { "c_attn" }, transposed = true }

-- ---------------------------------------------------------------------------------------------
-- Blocks.

local Builder = blocks.class {
   bias = true, transposed = true, width = "n_embd", eps = "layer_norm_epsilon",
}

--- Embedded ids; `place` gives the embedded positions out of their table.
function Builder:embed(ids, place)
   local c, g = self.c, self.g
   g:scope("embed")
   local tokens = g:param("transformer.wte.weight", { c.vocab_size, c.n_embd })
   local positions = g:param("transformer.wpe.weight", { c.n_positions, c.n_embd })
   return self:drop(g:add("add", { g:add("embedding", { ids, tokens }), place(positions) }),
      self.embedding_dropout)
end

--- Attention of block i; scores are scaled as config.json asks.
function Builder:attend(inputs, i)
   local c = self.c
   local scale = c.scale_attn_weights and (c.n_embd / c.n_head) ^ -0.5 or 1
   if c.scale_attn_by_inverse_layer_idx then scale = scale / (i + 1) end
   return self.g:add("attention", inputs, {
      heads = c.n_head, causal = true, scale = scale, dropout = self.attention_dropout,
   })
end

--- One block.
-- @tparam value x
-- @tparam int i its number, from 0
-- @tparam function attend what becomes of queries, keys and values, packed
function Builder:block(x, i, attend)
   local c = self.c
   local prefix = ("transformer.h.%d."):format(i)
   self.g:scope(("block.%d/attn"):format(i))
   local h = self:layer_norm(x, prefix .. "ln_1")
   local y = attend(self:linear(h, prefix .. "attn.c_attn", 3 * c.n_embd, c.n_embd), i)
   x = self:join(self:linear(y, prefix .. "attn.c_proj", c.n_embd, c.n_embd), x)
   self.g:scope(("block.%d/ff"):format(i))
   h = self:layer_norm(x, prefix .. "ln_2")
   return self:join(self:feed_forward(h, prefix .. "mlp.c_fc", prefix .. "mlp.c_proj", c.n_inner),
      x)
end

--- Logits of the last hidden state.
function Builder:head(x)
   local c, g = self.c, self.g
   g:scope("head")
   x = self:layer_norm(x, "transformer.ln_f")
   local weight = g:param(c.tied and "transformer.wte.weight" or "lm_head.weight",
      { c.vocab_size, c.n_embd })
   return g:add("linear", { x, weight })
end

-- ---------------------------------------------------------------------------------------------
-- Graphs.

--- The training graph of one micro-batch.
--
-- Inputs, in this order: input_ids (B, T), labels (B, T), already shifted by one, with -100 where
-- nothing counts, loss_weight (1): one over the number of labels that count in the whole batch.
-- Output: loss; and logits (B, T, V) when asked for.
-- @tparam table config from `config`
-- @tparam table size batch, source; dropout (a number, or { hidden =, attention =, embedding = });
--   logits (true: keep them); grads (false: none)
-- @treturn graph
-- @raise invalid argument: the model has fewer positions than `source`
function M.training(config, size)
   check.length(config, "n_positions", size.source, check.length_option(size))
   local b = Builder.new(config, size.dropout)
   local g = b.g
   local ids = g:input("input_ids", "i32", { size.batch, size.source })
   local labels = g:input("labels", "i32", { size.batch, size.source })
   local weight = g:input("loss_weight", "f32", { 1 })
   local x = b:embed(ids, function(positions)
      return g:add("slice", { positions }, { axis = 0, count = size.source })
   end)
   for i = 0, config.n_layer - 1 do
      x = b:block(x, i, function(packed) return b:attend({ packed }, i) end)
   end
   local logits = b:head(x)
   local loss = g:add("cross_entropy", { logits, labels, weight })
   g:output("loss", loss)
   if size.logits then g:output("logits", logits) end
   if size.grads ~= false then g:grad(loss) end
   return g
end

--- Attention of new tokens to themselves and to those in a block's caches.
function Builder:attend_cached(packed, step, i)
   local c, g = self.c, self.g
   local function part(n)
      return g:add("slice", { packed }, { axis = 2, from = n * c.n_embd, count = c.n_embd })
   end
   local cache = {}
   for n, kind in ipairs { "k", "v" } do
      local name = ("%s.%d"):format(kind, i)
      local old = g:input(name, "f32", { step.batch, step.target, c.n_embd })
      cache[kind] = g:add("cache_append", { old, part(n), step.position })
      g:output(name .. ".next", cache[kind])
   end
   return self:attend({ part(0), cache.k, cache.v, false, false, step.position }, i)
end

--- The graph that makes one token from `length` more ones.
--
-- Inputs: input_ids (B, L), positions (L), their places, position (1), the first of these, then by
-- block k.i, v.i (B, T, n_embd), what is known of the tokens before. Outputs: next (B, 1), the
-- likeliest token after the last one, or its logits (B, 1, V) where size.logits asks for them, and
-- k.i.next, v.i.next, the caches with these tokens in them.
-- @tparam table config
-- @tparam table size batch, length, target (positions of a cache)
-- @raise invalid argument: the model has fewer positions than `target`
function M.decoding(config, size)
   check.length(config, "n_positions", size.target,
      size.flagged and "--tokens" or "tokens")
   local b = Builder.new(config, 0)
   local g = b.g
   local ids = g:input("input_ids", "i32", { size.batch, size.length })
   local places = g:input("positions", "i32", { size.length })
   local step = { batch = size.batch, target = size.target }
   step.position = g:input("position", "i32", { 1 })
   local x = b:embed(ids, function(positions) return g:add("embedding", { places, positions }) end)
   for i = 0, config.n_layer - 1 do
      x = b:block(x, i, function(packed) return b:attend_cached(packed, step, i) end)
   end
   x = g:add("slice", { x }, { axis = 1, from = size.length - 1, count = 1 })
   b:output_next(b:head(x), size.logits)
   return g
end

--- Standard deviation of a parameter's initial values, nil for weights that start at one.
-- Projections into the residual stream start smaller the more of them there are (section 2.3).
function M.init_scale(config, name)
   if name:find("%.bias$") then return 0 end
   if name:find("%.ln_[12f]%.weight$") then return nil end
   local scale = config.initializer_range
   return name:find("%.c_proj%.weight$") and scale * (2 * config.n_layer) ^ -0.5 or scale
end

return M
