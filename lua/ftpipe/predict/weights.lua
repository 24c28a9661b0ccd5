--- The weights of a model as tensors by name, without a run.

local copy = require("ftpipe.copy")
local core = require("ftpipe.core")
local checkpoint = require("ftpipe.checkpoint")

local M = {}

--- @tparam model model with a checkpoint
-- @tparam table size as family.training takes it
function M.load(model, size)
   local own = copy({ dropout = 0, grads = false }, size)
   model:check_trainable()
   local list, params = model.family.training(model.config, own):params(), {}
   for _, param in ipairs(list) do params[param.name] = core.tensor.zeros(param.dims) end
   checkpoint.load(model.checkpoint, list, function(_, param) return params[param.name] end)
   return params
end

return M
