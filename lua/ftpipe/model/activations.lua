--- Activations of all families, by their names in transformers.

local check = require("ftpipe.model.check")
local keys = require("ftpipe.base.keys")
local shown = require("ftpipe.base.shown")
local suggest = require("ftpipe.base.suggest")

local M = {}

-- What does a name's work: row, an operator; fused, an activation of the operator `linear`, which
-- needs no other; gate, an operator that multiplies by a second input as well.
local activations = { linear = { fused = 0 }, relu = { fused = 1 } }

for _, name in ipairs { "gelu_10", "leaky_relu", "mish", "quick_gelu", "relu2", "relu6",
   "sigmoid", "silu", "tanh" } do
   activations[name] = { fused = 0, row = name }
end
-- One function has several names in transformers, by how it is computed there.
activations.swish = activations.silu
for _, name in ipairs { "gelu", "gelu_python" } do
   activations[name] = { fused = 0, row = "gelu_erf" }
end
for _, name in ipairs { "gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast",
   "gelu_accurate" } do
   activations[name] = { fused = 0, row = "gelu", gate = "gated_gelu" }
end

--- How an activation is built, as above.
-- @tparam string key of config.json, for the message
-- @param name what transformers calls it, if it is anything that is built
-- @tparam[opt=""] string before what stands in front of names there, for the message
function M.of(key, name, before)
   if activations[name] then return activations[name] end
   local names, hint = keys(activations), ""
   before = before or ""
   if type(name) == "string" then
      local nearest = suggest.nearest(name, names)
      hint = nearest and (" (did you mean '%s%s'?)"):format(before, nearest) or ""
      name = before .. name
   end
   check.refuse("'%s' is %s, expected %sone of: %s%s", key, shown(name),
      before ~= "" and ("'%s' and "):format(before) or "", table.concat(names, ", "), hint)
end

return M
