--- mT5: T5 v1.1 with a vocabulary of a hundred languages (Xue et al., "mT5: A massively
-- multilingual pre-trained text-to-text transformer", NAACL 2021).

local copy = require("ftpipe.base.copy")
local t5 = require("ftpipe.model.t5")

local M = setmetatable({}, { __index = t5 })

local VOCABULARY = 250112

--- The configuration of a published size, or nil.
-- @tparam string name `mt5-small` ... `mt5-xxl`
function M.builtin(name)
   local size = name:match("^mt5%-(%w+)$")
   local raw = size and t5.builtin("t5-v1_1-" .. size)
   return raw and copy(raw, {
      model_type = "mt5", architectures = { "MT5ForConditionalGeneration" },
      vocab_size = VOCABULARY,
   })
end

--- Names that `builtin` knows, sorted.
function M.builtin_names()
   local names = {}
   for _, name in ipairs(t5.builtin_names()) do
      local size = name:match("^t5%-v1_1%-(%w+)$")
      if size then names[#names + 1] = "mt5-" .. size end
   end
   return names
end

return M
