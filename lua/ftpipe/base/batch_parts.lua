--- A batch and its micro-batches: the one is a multiple of the other.

local divisor = require("ftpipe.base.divisor")
local named = require("ftpipe.base.named")

--- What is wrong with them, in the words of whoever gave them, and the nearest pairs that are
-- right; nil when nothing is.
-- @tparam table o options with batch and micro_batches
-- @treturn ?string
return function(o)
   local batch, parts = o.batch, o.micro_batches
   if batch % parts == 0 then return nil end
   local fewer = divisor(batch, parts)
   local nearest = math.max(1, math.floor(batch / parts + 0.5)) * parts
   return ("%s is not a multiple of %s, give %s or %s"):format(named.value(o, "batch", batch),
      named.value(o, "micro_batches", parts), named.value(o, "batch", nearest),
      named.value(o, "micro_batches", fewer))
end
