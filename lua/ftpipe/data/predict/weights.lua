--- The weights of a model as tensors by name, without a run.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")

local M = {}

--- @tparam model model with a checkpoint
-- @tparam table size as family.training takes it
-- @treturn table tensors by name
-- @treturn table names of those that the checkpoint lacked and may lack (a new head)
-- @raise diverged: a weight is not finite
function M.load(model, size)
   local own = copy(size, { dropout = 0, grads = false })
   model:check_trainable()
   local list, params = model.family.training(model.config, own):params(), {}
   for _, param in ipairs(list) do params[param.name] = core.tensor.zeros(param.dims) end
   local fresh = model:fill(list, { tensor_of = function(i) return params[list[i].name] end })
   for _, param in ipairs(list) do
      if not params[param.name]:is_finite() then
         core.fail("diverged", ("the weights are not finite (%s holds a NaN or an infinity), "
            .. "expected those of a run that did not diverge"):format(param.name))
      end
   end
   return params, fresh
end

return M
