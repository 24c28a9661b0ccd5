--- Ends the reading of a file or a text that is not what it should be.

local core = require("ftpipe.core")
local shown = require("ftpipe.base.shown")

--- Raises `malformed data` with what is wrong and where.
-- @tparam string format of string.format; it begins with the place
-- @tparam string where a file, or a place in it
-- @param ... further values; what is no number is shown as base/shown.lua does
return function(format, where, ...)
   local words = { ... }
   for i = 1, select("#", ...) do
      if type(words[i]) ~= "number" then words[i] = shown(words[i]) end
   end
   core.fail("malformed data", format:format(where:gsub("%c", "?"), unpack(words)))
end
