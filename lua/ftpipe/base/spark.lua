--- A list of numbers as one row of characters, from the lowest to the highest of them.

local words = require("ftpipe.base.words")

local UNICODE = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }
local ASCII = { "_", ".", ":", "-", "=", "+", "*", "#" }

--- The means of so many pieces of a list, as equal as they can be.
local function means(values, n)
   local list = {}
   for i = 1, n do
      local first, last = math.floor((i - 1) * #values / n) + 1, math.floor(i * #values / n)
      local sum = 0
      for k = first, last do sum = sum + values[k] end
      list[i] = sum / (last - first + 1)
   end
   return list
end

--- @tparam {number,...} values finite ones
-- @tparam[opt=40] int columns at most
-- @tparam[opt] boolean ascii no other characters; as the locale says when it is absent
-- @treturn string "" of no values
return function(values, columns, ascii)
   if ascii == nil then ascii = not words.is_unicode() end
   local marks = ascii and ASCII or UNICODE
   local list = means(values, math.min(#values, columns or 40))
   local low, high = math.huge, -math.huge
   for _, value in ipairs(list) do low, high = math.min(low, value), math.max(high, value) end
   for i, value in ipairs(list) do
      local place = high > low and (value - low) / (high - low) or 0
      list[i] = marks[1 + math.floor(place * (#marks - 1) + 0.5)]
   end
   return table.concat(list)
end
