--- T5, v1.0 and v1.1, tied and untied, and mT5 as graphs built from config.json.
--
-- Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
-- Transformer", JMLR 2020; v1.1 has gated GELU and an untied head, and so has mT5 (mt5.lua).
-- Parameters bear their Hugging Face names. Attention takes the table of relative position biases
-- itself: every block is one use of its stack's table, so that no stage sends a bias to another.

local activations = require("ftpipe.model.activations")
local blocks = require("ftpipe.model.blocks")
local check = require("ftpipe.model.check")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local shown = require("ftpipe.base.shown")

local M = {}

-- What config.json may leave out.
local presets = {
   relative_attention_num_buckets = 32,
   relative_attention_max_distance = 128,
   dropout_rate = 0.1,
   layer_norm_epsilon = 1e-6,
   initializer_factor = 1.0,
   feed_forward_proj = "relu",
   pad_token_id = 0,
   eos_token_id = 1,
   decoder_start_token_id = 0,
   tie_word_embeddings = true,
}

-- What that is in mT5 instead.
local presets_of_mt5 = copy(presets,
   { feed_forward_proj = "gated-gelu", tie_word_embeddings = false })

local required = { "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads" }

--- Other names in older files (ftpipe.model.forms): the tied embedding was written several times.
M.forms = {
   aliases = {
      ["shared.weight"] = {
         "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
      },
   },
   ignored = { "^decoder%.block%.0%.layer%.1%.EncDecAttention%.relative_attention_bias%.weight$" },
}

-- name = { d_model, d_kv, d_ff, layers, heads }; sizes of the published checkpoints.
local v1_0 = {
   ["t5-small"] = { 512, 64, 2048, 6, 8 },
   ["t5-base"] = { 768, 64, 3072, 12, 12 },
   ["t5-large"] = { 1024, 64, 4096, 24, 16 },
   ["t5-3b"] = { 1024, 128, 16384, 24, 32 },
   ["t5-11b"] = { 1024, 128, 65536, 24, 128 },
}
local v1_1 = {
   ["t5-v1_1-small"] = { 512, 64, 1024, 8, 6 },
   ["t5-v1_1-base"] = { 768, 64, 2048, 12, 12 },
   ["t5-v1_1-large"] = { 1024, 64, 2816, 24, 16 },
   ["t5-v1_1-xl"] = { 2048, 64, 5120, 24, 32 },
   ["t5-v1_1-xxl"] = { 4096, 64, 10240, 24, 64 },
}

local function sized(size, gated)
   return {
      model_type = "t5",
      architectures = { "T5ForConditionalGeneration" },
      is_encoder_decoder = true,
      vocab_size = 32128,
      d_model = size[1],
      d_kv = size[2],
      d_ff = size[3],
      num_layers = size[4],
      num_heads = size[5],
      feed_forward_proj = gated and "gated-gelu" or "relu",
      tie_word_embeddings = not gated,
   }
end

--- The configuration of a published size, or nil.
-- @tparam string name `t5-small` ... `t5-11b`, `t5-v1_1-small` ... `t5-v1_1-xxl`
function M.builtin(name)
   if v1_0[name] then return sized(v1_0[name], false) end
   if v1_1[name] then return sized(v1_1[name], true) end
   return nil
end

--- Names that `builtin` knows, sorted.
function M.builtin_names()
   return keys(v1_0, v1_1)
end

--- What `presets` gave defaults for, and may be anything in config.json.
local function check_values(config)
   check.ids(config, { "pad_token_id", "decoder_start_token_id" })
   check.ends(config)
   check.positive(config, { "layer_norm_epsilon" }, 1)
   check.positive(config, { "initializer_factor" })
   check.rates(config, { "dropout_rate" })
   check.flags(config, { "tie_word_embeddings" })
   -- Half of the buckets are for one direction, half of those for exact distances.
   check.sizes(config, { "relative_attention_num_buckets", "relative_attention_max_distance" })
   local buckets, farthest = config.relative_attention_num_buckets,
      config.relative_attention_max_distance
   if buckets < 4 or farthest <= buckets / 2 then
      check.refuse("%d buckets of relative positions up to distance %d, expected at least 4 buckets"
         .. " and a distance above half of them", buckets, farthest)
   end
end

local function is_given(value) return value ~= nil and value ~= core.json.null end

--- Refuses what would be computed otherwise than config.json asks.
local function check_form(config, raw)
   check.absent(raw, { "tie_encoder_decoder" }, "an encoder and a decoder of their own")
   if raw.model_type == "t5" and not is_given(raw.decoder_start_token_id)
      and config.pad_token_id ~= config.decoder_start_token_id then
      check.refuse("'decoder_start_token_id' is missing, expected the id before the first of an "
         .. "answer; in most T5s it is pad_token_id, here %d", config.pad_token_id)
   end
end

-- What a value of feed_forward_proj stands for, where it is not what the name says.
local renamed = { ["gated-gelu"] = "gelu_new" }

--- Adds the activation of feed-forward blocks, and whether they are gated: feed_forward_proj says
-- both, and the keys in which transformers saves what it made of it say it again.
local function add_feed_forward(config, raw)
   local said = config.feed_forward_proj
   local name = type(said) == "string" and said:match("^gated%-(.*)$")
   config.gated = type(name) == "string"
   config.activation = activations.of("feed_forward_proj", renamed[said] or name or said,
      config.gated and "gated-" or nil)
   if is_given(raw.dense_act_fn) then
      config.activation = activations.of("dense_act_fn", raw.dense_act_fn)
   end
   if is_given(raw.is_gated_act) then
      check.flags(raw, { "is_gated_act" })
      config.gated = raw.is_gated_act
   end
end

--- Whether what the decoder gives is scaled before the head: in T5 unless config.json asks for a
-- head of its own, in mT5 never.
local function check_scaled(config, raw)
   if raw.model_type ~= "t5" then return false end
   if not is_given(raw.scale_decoder_outputs) then return config.tie_word_embeddings end
   check.flags(raw, { "scale_decoder_outputs" })
   return raw.scale_decoder_outputs
end

--- Fills in what config.json leaves out and refuses what is not T5.
-- @tparam table raw config.json as decoded
-- @tparam[opt] boolean untied as `untied` says of the weights
-- @treturn table every field below, numbers and booleans
function M.config(raw, untied)
   if raw.model_type ~= "t5" and raw.model_type ~= "mt5" then
      check.refuse("model_type is '%s', expected 't5' or 'mt5'", shown(raw.model_type))
   end
   local config = check.with_presets(raw, raw.model_type == "t5" and presets or presets_of_mt5,
      required)
   check.sizes(config, required)
   config.num_decoder_layers = raw.num_decoder_layers
   if not is_given(raw.num_decoder_layers) then config.num_decoder_layers = raw.num_layers end
   check.layers(config, { "num_layers", "num_decoder_layers" })
   check_values(config)
   check_form(config, raw)
   add_feed_forward(config, raw)
   config.tied = not untied
   if untied == nil then config.tied = config.tie_word_embeddings end
   config.scaled = check_scaled(config, raw)
   return config
end

--- Whether a checkpoint holds a head of its own beside the embedding: one that config.json asks
-- for, or that differs from it. Without one the embedding is the head, whatever config.json asks.
-- @tparam checkpoint ckpt
-- @treturn boolean nil when it holds no weights
function M.untied(ckpt)
   if #ckpt:names() == 0 then return nil end
   if not ckpt:spec("lm_head.weight") then return false end
   for _, name in ipairs({ "shared.weight", "encoder.embed_tokens.weight" }) do
      if ckpt:spec(name) then
         return ckpt.config.tie_word_embeddings == false
            or not ckpt:tensors_equal("lm_head.weight", name)
      end
   end
   return false
end

-- ---------------------------------------------------------------------------------------------
-- What it eats: the tensors of a batch, made of fields of a dataset, and which labels are scored.

M.kind = "text2text"

M.losses = { { weight = "loss_weight", labels = "labels", share = 1 } }

--- Why it is not trained in f16, whose numbers end at 65504.
M.outgrows_f16 = "what T5's feed-forward layers give is too large for it (65504 at most); take "
   .. "bf16, tf32 or f32"

--- Adapters (model/adapters.lua): what peft calls the task, and the products that have them.
M.lora = { task = "SEQ_2_SEQ_LM", targets = { "q", "v" } }

--- Columns of a batch, as core.data.batcher takes them.
function M.columns(config)
   local pad = config.pad_token_id
   return {
      { name = "input_ids", field = "source", as = "ids", pad = pad },
      { name = "mask", field = "source", as = "mask" },
      {
         name = "decoder_ids", field = "target", as = "shift_right",
         first = config.decoder_start_token_id, pad = pad,
      },
      { name = "labels", field = "target", as = "ids", pad = -100 },
   }
end

-- ---------------------------------------------------------------------------------------------
-- Blocks.

local Builder = blocks.class {}

function Builder:norm(x, name)
   local weight = self.g:param(name .. ".weight", { self.c.d_model })
   return self.g:add("rms_norm", { x, weight }, { eps = self.c.layer_norm_epsilon })
end

--- Attention of x to `memory` (x itself when it is self-attention).
-- opts: name, mask, table_name (relative bias), causal, bidirectional
function Builder:attention(x, memory, opts)
   local c = self.c
   local inner = c.num_heads * c.d_kv
   local q = self:linear(x, opts.name .. ".q", inner, c.d_model)
   local k = self:linear(memory, opts.name .. ".k", inner, c.d_model)
   local v = self:linear(memory, opts.name .. ".v", inner, c.d_model)
   local y = self:attend({ q, k, v, opts.mask or false }, opts)
   return self:linear(y, opts.name .. ".o", c.d_model, inner)
end

--- The attention row itself; inputs are q, k, v, mask and, appended here, the bias table.
function Builder:attend(inputs, opts)
   local c = self.c
   if opts.table_name then
      inputs[5] = self.g:param(opts.table_name, { c.relative_attention_num_buckets, c.num_heads })
   end
   if opts.position then
      inputs[5] = inputs[5] or false
      inputs[6] = opts.position
   end
   return self.g:add("attention", inputs, {
      heads = c.num_heads,
      causal = opts.causal or false,
      bidirectional = opts.bidirectional or false,
      max_distance = c.relative_attention_max_distance,
      dropout = self.dropout,
   })
end

--- The activation of one product, times another product.
function Builder:gate(x, name)
   local c = self.c
   local whole = c.activation.gate
   local gate = self[whole and "linear" or "activated"](self, x, name .. ".wi_0", c.d_ff, c.d_model)
   local value = self:linear(x, name .. ".wi_1", c.d_ff, c.d_model)
   return self.g:add(whole or "mul", { gate, value })
end

function Builder:feed_forward(x, prefix)
   local c = self.c
   local name = prefix .. ".DenseReluDense"
   local h = c.gated and self:drop(self:gate(x, name))
      or self:dropped(x, name .. ".wi", c.d_ff, c.d_model)
   return self:linear(h, name .. ".wo", c.d_model, c.d_ff)
end

local bias_names = {
   encoder = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
   decoder = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
}

function Builder:embed(ids, stack)
   self.g:scope(stack .. "/embed")
   local shared = self.g:param("shared.weight", { self.c.vocab_size, self.c.d_model })
   return self:drop(self.g:add("embedding", { ids, shared }))
end

--- One block of the encoder.
function Builder:encoder_block(x, mask, i)
   local prefix = ("encoder.block.%d.layer."):format(i)
   self.g:scope(("encoder/block.%d/attn"):format(i))
   local h = self:norm(x, prefix .. "0.layer_norm")
   local y = self:attention(h, h, {
      name = prefix .. "0.SelfAttention",
      mask = mask,
      table_name = bias_names.encoder,
      bidirectional = true,
   })
   x = self:join(y, x)
   self.g:scope(("encoder/block.%d/ff"):format(i))
   h = self:norm(x, prefix .. "1.layer_norm")
   return self:join(self:feed_forward(h, prefix .. "1"), x)
end

function Builder:encoder(ids, mask)
   local x = self:embed(ids, "encoder")
   for i = 0, self.c.num_layers - 1 do x = self:encoder_block(x, mask, i) end
   self.g:scope("encoder/norm")
   return self:drop(self:norm(x, "encoder.final_layer_norm"))
end

--- One block of the decoder over the whole target.
function Builder:decoder_block(x, encoded, mask, i)
   local prefix = ("decoder.block.%d.layer."):format(i)
   self.g:scope(("decoder/block.%d/attn"):format(i))
   local h = self:norm(x, prefix .. "0.layer_norm")
   local y = self:attention(h, h, {
      name = prefix .. "0.SelfAttention",
      table_name = bias_names.decoder,
      causal = true,
   })
   x = self:join(y, x)
   self.g:scope(("decoder/block.%d/cross"):format(i))
   h = self:norm(x, prefix .. "1.layer_norm")
   y = self:attention(h, encoded, { name = prefix .. "1.EncDecAttention", mask = mask })
   x = self:join(y, x)
   self.g:scope(("decoder/block.%d/ff"):format(i))
   h = self:norm(x, prefix .. "2.layer_norm")
   return self:join(self:feed_forward(h, prefix .. "2"), x)
end

--- Logits of the decoder's last hidden state.
function Builder:head(x)
   local c, g = self.c, self.g
   g:scope("head")
   x = self:drop(self:norm(x, "decoder.final_layer_norm"))
   if c.scaled then x = g:add("scale", { x }, { factor = c.d_model ^ -0.5 }) end
   return self:product(x, c.tied and "shared" or "lm_head", c.vocab_size, c.d_model)
end

-- ---------------------------------------------------------------------------------------------
-- Graphs.

--- The training graph of one micro-batch.
--
-- Inputs: input_ids (B, S), mask (B, S), decoder_ids (B, T), labels (B, T) with -100
-- where nothing counts, loss_weight (1): one over the number of labels that count in the whole
-- batch. Output: loss; when asked for, logits, and likeliest (B, T): the token of the largest logit
-- after each of decoder_ids.
-- @tparam table config from `config`
-- @tparam table size batch, source, target; dropout; logits (true: keep them); likeliest (true);
--   grads (false: none)
-- @treturn graph
function M.training(config, size)
   if not size.target then
      core.fail("invalid argument", "a T5 gives answers, and nothing says how long they are: "
         .. "expected lengths = { target = 8 }, or any number of ids", 2)
   end
   local b = Builder.new(config, size.dropout)
   local g = b.g
   local ids = g:input("input_ids", "i32", { size.batch, size.source })
   local mask = g:input("mask", "i32", { size.batch, size.source })
   local decoder_ids = g:input("decoder_ids", "i32", { size.batch, size.target })
   local labels = g:input("labels", "i32", { size.batch, size.target })
   local weight = g:input("loss_weight", "f32", { 1 })
   local encoded = b:encoder(ids, mask)
   local x = b:embed(decoder_ids, "decoder")
   for i = 0, config.num_decoder_layers - 1 do x = b:decoder_block(x, encoded, mask, i) end
   local logits = b:head(x)
   local loss = g:add("cross_entropy", { logits, labels, weight })
   g:output("loss", loss)
   if size.logits then g:output("logits", logits) end
   if size.likeliest then g:output("likeliest", g:add("argmax", { logits })) end
   if size.grads ~= false then g:grad(loss) end
   return g
end

--- The graph that runs once per batch of inputs before decoding.
--
-- Inputs: input_ids, mask. Outputs: cross_k.i and cross_v.i of every decoder block.
function M.encoding(config, size)
   local b = Builder.new(config, 0)
   local g = b.g
   local ids = g:input("input_ids", "i32", { size.batch, size.source })
   local mask = g:input("mask", "i32", { size.batch, size.source })
   local encoded = b:encoder(ids, mask)
   local inner = config.num_heads * config.d_kv
   for i = 0, config.num_decoder_layers - 1 do
      local name = ("decoder.block.%d.layer.1.EncDecAttention"):format(i)
      g:scope(("decoder/block.%d/cross"):format(i))
      g:output("cross_k." .. i, b:linear(encoded, name .. ".k", inner, config.d_model))
      g:output("cross_v." .. i, b:linear(encoded, name .. ".v", inner, config.d_model))
   end
   return g
end

--- One block of the decoder for one new token, with its caches.
function Builder:decoder_step(x, step, i)
   local c, g = self.c, self.g
   local inner = c.num_heads * c.d_kv
   local prefix = ("decoder.block.%d.layer."):format(i)
   g:scope(("decoder/block.%d/attn"):format(i))
   local h = self:norm(x, prefix .. "0.layer_norm")
   local name = prefix .. "0.SelfAttention"
   local cache = {}
   for _, kind in ipairs({ "k", "v" }) do
      local old = g:input(("self_%s.%d"):format(kind, i), "f32", { step.batch, step.target, inner })
      local new = self:linear(h, ("%s.%s"):format(name, kind), inner, c.d_model)
      cache[kind] = g:add("cache_append", { old, new, step.position })
      g:output(("self_%s.%d"):format(kind, i) .. ".next", cache[kind])
   end
   local q = self:linear(h, name .. ".q", inner, c.d_model)
   local y = self:attend({ q, cache.k, cache.v, false }, {
      table_name = bias_names.decoder,
      causal = true,
      position = step.position,
   })
   x = self:join(self:linear(y, name .. ".o", c.d_model, inner), x)
   g:scope(("decoder/block.%d/cross"):format(i))
   h = self:norm(x, prefix .. "1.layer_norm")
   name = prefix .. "1.EncDecAttention"
   q = self:linear(h, name .. ".q", inner, c.d_model)
   local k = g:input("cross_k." .. i, "f32", { step.batch, step.source, inner })
   local v = g:input("cross_v." .. i, "f32", { step.batch, step.source, inner })
   y = self:attend({ q, k, v, step.mask }, {})
   x = self:join(self:linear(y, name .. ".o", c.d_model, inner), x)
   g:scope(("decoder/block.%d/ff"):format(i))
   h = self:norm(x, prefix .. "2.layer_norm")
   return self:join(self:feed_forward(h, prefix .. "2"), x)
end

--- The graph that makes one token from the last one.
--
-- Inputs: decoder_ids (B, 1), position (1), mask (B, S), then by block self_k.i, self_v.i (B, T,
-- I), cross_k.i, cross_v.i (B, S, I). Outputs: next (B, 1), the likeliest token, or the logits
-- (B, 1, V) where size.logits asks for them, and self_k.i.next, self_v.i.next, the caches with this
-- position in them.
function M.decoding(config, size)
   local b = Builder.new(config, 0)
   local g = b.g
   local ids = g:input("decoder_ids", "i32", { size.batch, 1 })
   local step = { batch = size.batch, source = size.source, target = size.target }
   step.position = g:input("position", "i32", { 1 })
   step.mask = g:input("mask", "i32", { size.batch, size.source })
   local x = b:embed(ids, "decoder")
   for i = 0, config.num_decoder_layers - 1 do x = b:decoder_step(x, step, i) end
   b:output_next(b:head(x), size.logits)
   return g
end

--- Standard deviation of a parameter's initial values, nil for weights that start at one.
-- The scales with which the published models started (Mesh TensorFlow's T5 layers).
function M.init_scale(config, name)
   local f, d, inner = config.initializer_factor, config.d_model, config.num_heads * config.d_kv
   if name:find("norm.weight", 1, true) then return nil end
   if name == "shared.weight" or name == "lm_head.weight" then return f end
   if name:find("%.q%.weight$") then return f * (d * config.d_kv) ^ -0.5 end
   if name:find("%.[kv]%.weight$") then return f * d ^ -0.5 end
   if name:find("%.o%.weight$") then return f * inner ^ -0.5 end
   if name:find("%.wo%.weight$") then return f * config.d_ff ^ -0.5 end
   return f * d ^ -0.5 -- wi, wi_0, wi_1 and the bias tables
end

return M
