--- A value of a file as it may stand in a message: on one line, not too long.

local core = require("ftpipe.core")

local MOST = 120 -- bytes

--- @param value anything that a file can hold
-- @treturn string text without control characters; of a list or an object, that it is one
return function(value)
   if value == nil then return "missing" end
   if value == core.json.null then return "null" end
   if getmetatable(value) == core.json.array_meta then return "a list" end
   if type(value) == "table" then return "an object" end
   local text = tostring(value):gsub("%c", "?")
   if #text <= MOST then return text end
   return text:sub(1, MOST):gsub("[\192-\255][\128-\191]*$", "") .. "..." -- no part of a character
end
