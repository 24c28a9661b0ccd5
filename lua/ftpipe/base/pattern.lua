--- Patterns of names: * stands for any characters, ? for one, all else for itself.

local M = {}

local function lua_pattern(pattern)
   return "^" .. pattern:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
      .. "$"
end

--- Whether a pattern stands for a whole name.
-- @tparam string pattern
-- @tparam string name
function M.matches(pattern, name) return name:find(lua_pattern(pattern)) ~= nil end

--- Patterns that a text lists, "q,v"; a list is one already.
-- @tparam string|table given
-- @treturn {string,...}
function M.list(given)
   if type(given) == "table" then return given end
   local list = {}
   for word in given:gmatch("[^,%s]+") do list[#list + 1] = word end
   return list
end

--- Whether it stands for a name, or for what is behind one of its dots: "q" for "block.0.q".
function M.ends(pattern, name)
   return M.matches(pattern, name) or M.matches("*." .. pattern, name)
end

return M
