--- Types of values: those of Lua, `int`, `any`, and classes by the __name of their metatable, which
-- of those made in C begins with "ftpipe.".

local M = {}

--- The class of an object, nil of what has none.
function M.of(value)
   local meta = (type(value) == "table" or type(value) == "userdata") and getmetatable(value)
   return type(meta) == "table" and rawget(meta, "__name") or nil
end

local function is_whole(value)
   return type(value) == "number" and value % 1 == 0 and math.abs(value) <= 2 ^ 53
end

--- Whether a value is of one of the kinds: "string|graph".
function M.is(value, kinds)
   for kind in kinds:gmatch("[^|]+") do
      if type(value) == kind or M.of(value) == kind or kind == "any" and value ~= nil
         or kind == "int" and is_whole(value)
      then
         return true
      end
   end
   return false
end

--- "a string or a graph".
function M.words(kinds)
   local words = {}
   for kind in kinds:gmatch("[^|]+") do
      words[#words + 1] = kind == "any" and "a value" or kind == "int" and "an integer"
         or "a " .. kind
   end
   return table.concat(words, " or ")
end

--- A value in a message that expected another: "3", "a string", "a graph", "nothing".
function M.told(value)
   if value == nil then return "nothing" end
   local kind = M.of(value) or type(value)
   return (kind == "number" or kind == "boolean") and tostring(value) or "a " .. kind
end

--- A value that was to be read as another one: "'x'", "'3'", "a table".
function M.quoted(value)
   local kind = type(value)
   if kind ~= "string" and kind ~= "number" then return M.told(value) end
   return ("'%s'"):format((tostring(value):gsub("%c", "?")))
end

return M
