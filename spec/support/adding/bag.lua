--- A bag of words: the mean of their embeddings, and a head with a logit for each label.

local core = require("ftpipe.core")

local M = { kind = "label" }

--- Nothing is built in.
function M.builtin() return nil end

--- See builtin.
function M.builtin_names() return {} end

--- The configuration of config.json.
function M.config(raw)
   return { vocab_size = raw.vocab_size, width = raw.width, labels = raw.labels, dropout_rate = 0 }
end

M.losses = { { weight = "label_weight", labels = "label", share = 1 } }

--- Columns of a batch.
function M.columns()
   return {
      { name = "input_ids", field = "source", as = "ids", pad = 0 },
      { name = "label", field = "label", as = "scalar" },
   }
end

--- The training graph of one micro-batch; size.logits hands out the logits.
function M.training(config, size)
   local g = core.graph.new()
   local ids = g:input("input_ids", "i32", { size.batch, size.source })
   local label = g:input("label", "i32", { size.batch })
   local weight = g:input("label_weight", "f32", { 1 })
   g:scope("embed")
   local x = g:add("embedding", { ids, g:param("embed.weight",
      { config.vocab_size, config.width }) })
   g:scope("head")
   x = g:add("mean", { x }, { axis = 1 })
   local logits = g:add("linear", { x, g:param("head.weight", { config.labels, config.width }) })
   local loss = g:add("cross_entropy", { logits, label, weight })
   g:output("loss", loss)
   if size.logits then g:output("logits", logits) end
   if size.grads ~= false then g:grad(loss) end
   return g
end

--- Standard deviation of initial values.
function M.init_scale() return 0.1 end

return M
