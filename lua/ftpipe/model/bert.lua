--- BERT with a span head, as graphs built from config.json.
--
-- Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
-- Understanding", NAACL 2019, section 4.2. Blocks normalise after the residual (post-norm), GELU is
-- the exact one. Parameters bear the names of Hugging Face's BertForQuestionAnswering; the pooler,
-- which a span head does not use, is not there.

local activations = require("ftpipe.model.activations")
local blocks = require("ftpipe.model.blocks")
local check = require("ftpipe.model.check")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local shown = require("ftpipe.base.shown")

local M = {}

--- What the model is for: a span of the source.
M.kind = "span"

-- What config.json may leave out.
local presets = {
   hidden_act = "gelu",
   hidden_dropout_prob = 0.1,
   attention_probs_dropout_prob = 0.1,
   max_position_embeddings = 512,
   type_vocab_size = 2,
   layer_norm_eps = 1e-12,
   initializer_range = 0.02,
   pad_token_id = 0,
   position_embedding_type = "absolute",
}

local required = {
   "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
}

--- Names in older files, in files of a bare encoder and of other heads (ftpipe.model.forms).
M.forms = {
   names = {
      { "^embeddings%.", "bert.embeddings." },
      { "^encoder%.", "bert.encoder." },
      { "%.LayerNorm%.gamma$", ".LayerNorm.weight" },
      { "%.LayerNorm%.beta$", ".LayerNorm.bias" },
   },
   ignored = {
      "^cls%.", "^classifier%.", "^pooler%.", "^bert%.pooler%.",
      "^bert%.embeddings%.position_ids$", "^bert%.embeddings%.token_type_ids$",
   },
   optional = { "^qa_outputs%." },
}

--- What a saved model is to Hugging Face, whatever the model was that it came from.
M.architecture = "BertForQuestionAnswering"

local UNCASED, CASED = 30522, 28996

-- name = { vocab_size, hidden_size, intermediate_size, layers, heads } of the published ones.
local published = {
   ["bert-base"] = { UNCASED, 768, 3072, 12, 12 },
   ["bert-base-uncased"] = { UNCASED, 768, 3072, 12, 12 },
   ["bert-base-cased"] = { CASED, 768, 3072, 12, 12 },
   ["bert-large"] = { UNCASED, 1024, 4096, 24, 16 },
   ["bert-large-uncased"] = { UNCASED, 1024, 4096, 24, 16 },
   ["bert-large-cased"] = { CASED, 1024, 4096, 24, 16 },
   ["bert-large-uncased-whole-word-masking"] = { UNCASED, 1024, 4096, 24, 16 },
   ["bert-large-cased-whole-word-masking"] = { CASED, 1024, 4096, 24, 16 },
}

--- The configuration of a published size, or nil.
-- @tparam string name `bert-base`, `bert-large`, with `-uncased`, `-cased`, and for the large one
--   `-whole-word-masking` after it
function M.builtin(name)
   local size = published[name]
   return size and copy(presets, {
      model_type = "bert",
      architectures = { M.architecture },
      vocab_size = size[1],
      hidden_size = size[2],
      intermediate_size = size[3],
      num_hidden_layers = size[4],
      num_attention_heads = size[5],
   })
end

--- Names that `builtin` knows, sorted.
function M.builtin_names()
   return keys(published)
end

-- ---------------------------------------------------------------------------------------------
-- Configuration.

local function check_values(config)
   check.sizes(config, required)
   check.layers(config, { "num_hidden_layers" })
   check.sizes(config, { "max_position_embeddings", "type_vocab_size" })
   check.positive(config, { "layer_norm_eps" }, 1)
   check.positive(config, { "initializer_range" })
   check.rates(config, { "hidden_dropout_prob", "attention_probs_dropout_prob" })
   check.ids(config, { "pad_token_id" })
   if config.hidden_size % config.num_attention_heads ~= 0 then
      check.refuse("hidden_size %d is not a multiple of num_attention_heads, %d",
         config.hidden_size, config.num_attention_heads)
   end
end

--- What changes the computation in ways that are not built here.
local function check_form(config, raw)
   config.activation = activations.of("hidden_act", config.hidden_act)
   if config.position_embedding_type ~= "absolute" then
      check.refuse("position_embedding_type is '%s', expected 'absolute'",
         shown(config.position_embedding_type))
   end
   check.absent(raw, { "is_decoder", "add_cross_attention" }, "an encoder")
end

--- Fills in what config.json leaves out and refuses what is not BERT.
-- @tparam table raw config.json as decoded
-- @treturn table every field above; dropout_rate: what `training` takes when a run is not told
--   another; padding: the id whose embedding is not trained, -1 for none
function M.config(raw)
   if raw.model_type ~= "bert" then
      check.refuse("model_type is '%s', expected 'bert'", shown(raw.model_type))
   end
   local config = check.with_presets(raw, presets, required)
   check_values(config)
   check_form(config, raw)
   local hidden, attention = config.hidden_dropout_prob, config.attention_probs_dropout_prob
   config.dropout_rate = hidden == attention and hidden
      or { hidden = hidden, attention = attention }
   config.padding = raw.pad_token_id == core.json.null and -1 or config.pad_token_id
   return config
end

--- What a user should know of a checkpoint: lines.
function M.notes(ckpt)
   if ckpt:name_of("qa_outputs.weight") or ckpt:name_of("qa_outputs.bias") then return {} end
   return { "it has no span head (qa_outputs); a new one starts with random values" }
end

--- The longest sequence that the model takes.
function M.positions(config) return config.max_position_embeddings end

--- How rows of a data set become the inputs of the graph.
-- @raise unsupported: the model has one kind of segment, where a question and its context are two
function M.columns(config)
   if config.type_vocab_size < 2 then
      check.refuse("'type_vocab_size' is %d, expected at least 2: a question and its context are "
         .. "segments of two kinds", config.type_vocab_size)
   end
   return {
      { name = "input_ids", field = "source", as = "ids", pad = config.pad_token_id },
      { name = "token_type_ids", field = "segments", as = "ids", pad = 0 },
      { name = "mask", field = "source", as = "mask" },
      { name = "start_positions", field = "start", as = "scalar" },
      { name = "end_positions", field = "end", as = "scalar" },
   }
end

--- The weights of the losses: half of each mean.
M.losses = {
   { weight = "start_weight", labels = "start_positions", share = 0.5 },
   { weight = "end_weight", labels = "end_positions", share = 0.5 },
}

--- Adapters (model/adapters.lua): what peft calls the task, the products that have them, and what
-- is trained whole beside them.
M.lora = { task = "QUESTION_ANS", targets = { "query", "value" }, heads = { "qa_outputs" } }

-- ---------------------------------------------------------------------------------------------
-- Blocks.

local Builder = blocks.class { bias = true, width = "hidden_size", eps = "layer_norm_eps" }

function Builder:embed(ids, types, length)
   local c, g = self.c, self.g
   local name = "bert.embeddings."
   g:scope("embed")
   local function tensor(kind, rows) return g:param(name .. kind .. "_embeddings.weight",
      { rows, c.hidden_size }) end
   local x = g:add("embedding", { ids, tensor("word", c.vocab_size) }, { padding = c.padding })
   x = g:add("add", { x, g:add("embedding", { types, tensor("token_type", c.type_vocab_size) }) })
   local positions = tensor("position", c.max_position_embeddings)
   x = g:add("add", { x, g:add("slice", { positions }, { axis = 0, count = length }) })
   return self:drop(self:layer_norm(x, name .. "LayerNorm"), self.embedding_dropout)
end

function Builder:attention(x, mask, name)
   local c = self.c
   local function project(kind)
      return self:linear(x, name .. ".self." .. kind, c.hidden_size, c.hidden_size)
   end
   local y = self.g:add("attention", { project("query"), project("key"), project("value"), mask }, {
      heads = c.num_attention_heads,
      scale = (c.hidden_size / c.num_attention_heads) ^ -0.5,
      dropout = self.attention_dropout,
   })
   return self:linear(y, name .. ".output.dense", c.hidden_size, c.hidden_size)
end

--- Each half of a block is normalised after the residual.
function Builder:block(x, mask, i)
   local prefix = ("bert.encoder.layer.%d"):format(i)
   self.g:scope(("encoder/block.%d/attn"):format(i))
   local y = self:attention(x, mask, prefix .. ".attention")
   x = self:layer_norm(self:join(y, x), prefix .. ".attention.output.LayerNorm")
   self.g:scope(("encoder/block.%d/ff"):format(i))
   y = self:feed_forward(x, prefix .. ".intermediate.dense", prefix .. ".output.dense",
      self.c.intermediate_size)
   return self:layer_norm(self:join(y, x), prefix .. ".output.LayerNorm")
end

--- The last hidden state, and the inputs that it is made of.
local function encoder(config, size)
   check.length(config, "max_position_embeddings", size.source, check.length_option(size))
   local b = Builder.new(config, size.dropout)
   local dims = { size.batch, size.source }
   local ids = b.g:input("input_ids", "i32", dims)
   local types = b.g:input("token_type_ids", "i32", dims)
   local mask = b.g:input("mask", "i32", dims)
   local x = b:embed(ids, types, size.source)
   for i = 0, config.num_hidden_layers - 1 do x = b:block(x, mask, i) end
   return b, x
end

--- Logits of starts and of ends, each (B, T): the two columns of the head's product.
function Builder:head(x)
   self.g:scope("head")
   local both = self:product(x, "qa_outputs", 2, self.c.hidden_size)
   local function column(i)
      return self.g:add("slice", { both }, { axis = 2, from = i, drop = 1 })
   end
   return column(0), column(1)
end

-- ---------------------------------------------------------------------------------------------
-- Graphs.

--- The training graph of one micro-batch.
--
-- Inputs, in this order: input_ids, token_type_ids, mask (B, T), start_positions, end_positions (B)
-- with -100 where nothing counts, start_weight, end_weight (1): half of one over the number of
-- positions that count in the whole batch. Every one of the T positions takes part in the softmax.
-- Output: loss; and start_logits, end_logits (B, T) when asked for.
-- @tparam table config from `config`
-- @tparam table size batch, source; dropout (a number, or { hidden =, attention = }); logits (true:
--   keep them); grads (false: none)
-- @treturn graph
-- @raise invalid argument: the model has fewer positions than `source`
function M.training(config, size)
   local b, x = encoder(config, size)
   local g, logits, losses = b.g, {}, {}
   logits.start, logits["end"] = b:head(x)
   for i, what in ipairs { "start", "end" } do
      local labels = g:input(what .. "_positions", "i32", { size.batch })
      local weight = g:input(what .. "_weight", "f32", { 1 })
      losses[i] = g:add("cross_entropy", { logits[what], labels, weight })
   end
   local loss = g:add("add", losses)
   g:output("loss", loss)
   if size.logits then
      g:output("start_logits", logits.start)
      g:output("end_logits", logits["end"])
   end
   if size.grads ~= false then g:grad(loss) end
   return g
end

--- The graph that answers.
--
-- Inputs: input_ids, token_type_ids, mask (B, T). Outputs: start_logits, end_logits (B, T).
function M.predicting(config, size)
   local b, x = encoder(config, { batch = size.batch, source = size.source })
   local first, last = b:head(x)
   b.g:output("start_logits", first)
   b.g:output("end_logits", last)
   return b.g
end

--- The graph of the encoder alone.
--
-- Inputs as `predicting` has. Output: hidden (B, T, hidden_size), the last hidden state.
function M.encoding(config, size)
   local b, x = encoder(config, { batch = size.batch, source = size.source })
   b.g:output("hidden", x)
   return b.g
end

--- Standard deviation of a parameter's initial values, nil for weights that start at one.
function M.init_scale(config, name)
   if name:find("%.bias$") then return 0 end
   if name:find("LayerNorm.weight", 1, true) then return nil end
   return config.initializer_range
end

return M
