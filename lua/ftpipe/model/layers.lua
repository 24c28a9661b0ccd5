--- The layers of a model, counted from the loss: what --layer-decay goes by.
--
-- Scopes say them: what stands before the first block is layer 0, each block one more, in the order
-- of the graph (of T5 first those of the encoder, then those of the decoder), and what stands
-- behind the last block is one more. A parameter is of the layer that uses it first.

local M = {}

--- The block of a scope, as "encoder/block.3"; nil outside of blocks.
local function block_of(scope) return scope:match("^(.-block%.%d+)") end

--- By forward node its layer, and the number of the last one.
local function layers_of(graph)
   local list, numbers, last, at = {}, {}, 0, 0
   local n_forward, last_block = graph:counts().forward, 0
   for n = 1, n_forward do
      if block_of(graph:node(n).scope) then last_block = n end
   end
   for n = 1, n_forward do
      local block = block_of(graph:node(n).scope)
      if block and not numbers[block] then
         last = last + 1
         numbers[block] = last
      end
      at = block and numbers[block] or n > last_block and last + 1 or at
      list[n] = at
   end
   return list, last + 1
end

--- By parameter, how many layers it is below the head: 0 in the head, 1 in the last block.
-- @tparam graph graph
-- @treturn {int,...}
function M.below_head(graph)
   local layer, head = layers_of(graph)
   local depth, params = {}, graph:params()
   for n = 1, graph:counts().forward do
      for _, p in ipairs(graph:node(n).params) do depth[p] = depth[p] or head - layer[n] end
   end
   for p in ipairs(params) do depth[p] = depth[p] or 0 end -- that no node uses
   return depth
end

return M
