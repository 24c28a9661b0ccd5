--- A batch and its micro-batches: the one is a multiple of the other.

local divisor = require("ftpipe.base.divisor")
local named = require("ftpipe.base.named")

--- What is wrong with them, in the words of whoever gave them, and the nearest pairs that are
-- right; nil when nothing is.
-- @tparam table o options with batch and micro_batches, the latter of `plan` where that is given
-- @treturn ?string
return function(o)
   local batch, parts = o.batch, o.micro_batches
   if batch % parts == 0 then return nil end
   local nearest = named.value(o, "batch", math.max(1, math.floor(batch / parts + 0.5)) * parts)
   if o.plan then
      return ("%s is not a multiple of the %d micro-batches of %s, give %s"):format(
         named.value(o, "batch", batch), parts, named.name(o, "plan"), nearest)
   end
   return ("%s is not a multiple of %s, give %s or %s"):format(named.value(o, "batch", batch),
      named.value(o, "micro_batches", parts), nearest,
      named.value(o, "micro_batches", divisor(batch, parts)))
end
