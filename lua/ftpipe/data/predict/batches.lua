--- Inputs in batches of like lengths, so that little is padded; their answers in the order in which
-- the inputs came.

local core = require("ftpipe.core")
local buckets = require("ftpipe.data.buckets")

local M = {}

--- Calls visit(batch, length) for each batch, the longest examples first; they are padded to
-- `length`.
-- @tparam model model
-- @tparam dataset dataset with a field source
-- @tparam int size examples of a batch
-- @tparam function visit
function M.each(model, dataset, size, visit)
   local lengths = buckets.of(model, dataset:longest("source"))
   local batches = core.data.batcher {
      dataset = dataset, batch = size, buckets = lengths, shuffle = false, longest_first = true,
      columns = model.family.columns(model.config), prefetch = 0,
   }
   for batch in function() return batches:next() end do visit(batch, lengths[batch.bucket]) end
end

--- What `make` gives for a length, kept until another length is asked for.
function M.by_length(make)
   local made, known
   return function(length)
      if length ~= known then
         made = nil
         collectgarbage() -- what was made for the length before has memory that Lua does not count
         made, known = make(length), length
      end
      return made
   end
end

--- A function (number, row) that emits rows by number, from 1, each as soon as all before it are
-- there.
function M.in_order(emit)
   local waiting, said = {}, 0
   return function(number, row)
      waiting[number] = row
      while waiting[said + 1] do
         said = said + 1
         emit(waiting[said])
         waiting[said] = nil
      end
   end
end

return M
