--- What families build their blocks from: a builder holds a graph, a configuration and the dropout
-- rate, and adds to the graph.
--
--    local Builder = blocks.class { bias = true, transposed = true }
--    local b = Builder.new(config, dropout)
--    x = b:join(b:linear(x, "h.0.mlp.c_proj", c.width, c.inner), x)
--
-- Values are numbers of the graph; names are those of parameters in a checkpoint.

local adapters = require("ftpipe.model.adapters")
local core = require("ftpipe.core")

local M = {}

local Blocks = {}

local RELU = 1 -- an activation of the row `linear`

--- A class of builders, to which a family adds methods of its own.
-- @tparam table form bias (true: products and norms have one), transposed (true: weights are stored
--   (in, out)), width and eps (keys of the configuration: numbers of a hidden state, and what layer
--   norms add to the variance)
function M.class(form)
   local Builder = setmetatable({}, { __index = Blocks })
   Builder.__index = Builder
   --- A builder with a graph of its own.
   -- @tparam table config of the family
   -- @tparam[opt=0] number|table dropout one rate, or { hidden =, attention =, embedding = }, of
   --   which the last two are as the first where they are absent
   function Builder.new(config, dropout)
      local rates = type(dropout) == "table" and dropout or { hidden = dropout }
      local hidden = rates.hidden or 0
      return setmetatable({
         g = core.graph.new(), c = config, form = form, dropout = hidden,
         attention_dropout = rates.attention or hidden,
         embedding_dropout = rates.embedding or hidden,
      }, Builder)
   end
   return Builder
end

--- What comes after logits as an output of the graph: next, the likeliest token, or the logits
-- themselves where they are asked for.
function Blocks:output_next(logits, asked)
   if asked then
      self.g:output("logits", logits)
   else
      self.g:output("next", self.g:add("argmax", { logits }))
   end
end

--- Layer norm of x over its last axis.
function Blocks:layer_norm(x, name)
   local c, form = self.c, self.form
   local weight = self.g:param(name .. ".weight", { c[form.width] })
   local bias = self.g:param(name .. ".bias", { c[form.width] })
   return self.g:add("layer_norm", { x, weight, bias }, { eps = c[form.eps] })
end

--- The product of x with a weight, its bias added where the family has one.
-- @tparam value x
-- @tparam string name of the product: its weight is "name.weight"
-- @tparam int n_out numbers that it gives for each position
-- @tparam int n_in numbers that it reads
-- @tparam[opt=0] int activation of the row `linear`
function Blocks:product(x, name, n_out, n_in, activation)
   local form = self.form
   local inputs = {
      x, self.g:param(name .. ".weight", form.transposed and { n_in, n_out } or { n_out, n_in }),
   }
   if form.bias then inputs[3] = self.g:param(name .. ".bias", { n_out }) end
   return self.g:add("linear", inputs,
      { transposed = form.transposed, activation = activation or 0 })
end

--- The same, with an adapter beside it where the configuration has one of that name.
function Blocks:linear(x, name, n_out, n_in, activation)
   local lora = self.c.lora
   if not lora or not adapters.is_target(lora, name) then
      return self:product(x, name, n_out, n_in, activation)
   end
   local y = adapters.add(self.g, lora, x, self:product(x, name, n_out, n_in),
      { name = name, n_out = n_out, n_in = n_in })
   return activation == RELU and self.g:add("relu", { y }) or y
end

--- dropout(x)
-- @tparam value x
-- @tparam[opt] number rate of hidden states if absent
function Blocks:drop(x, rate)
   rate = rate or self.dropout
   if rate == 0 then return x end
   return self.g:add("dropout", { x }, { p = rate })
end

--- residual + dropout(x)
function Blocks:join(x, residual)
   if self.dropout == 0 then return self.g:add("add", { residual, x }) end
   return self.g:add("dropout_add", { x, residual }, { p = self.dropout })
end

--- The configuration's activation of a product.
function Blocks:activated(x, name, n_out, n_in)
   local activation = self.c.activation
   local y = self:linear(x, name, n_out, n_in, activation.fused)
   return activation.row and self.g:add(activation.row, { y }) or y
end

--- dropout of it. relu and dropout are one row: its gradient is one as well, and needs what it
-- gives alone, which the next product keeps anyway.
function Blocks:dropped(x, name, n_out, n_in)
   if self.c.activation.fused ~= RELU or self.dropout == 0 then
      return self:drop(self:activated(x, name, n_out, n_in))
   end
   return self.g:add("relu_dropout", { self:linear(x, name, n_out, n_in) }, { p = self.dropout })
end

--- Two products with the configuration's activation between them.
-- @tparam value x
-- @tparam string first name of the product that widens
-- @tparam string second name of the one that narrows
-- @tparam int inner width between them
function Blocks:feed_forward(x, first, second, inner)
   local width = self.c[self.form.width]
   return self:linear(self:activated(x, first, inner, width), second, width, inner)
end

return M
