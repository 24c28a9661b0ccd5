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

--- Whether it stands for a name, or for what is behind one of its dots: "q" for "block.0.q".
function M.ends(pattern, name)
   return M.matches(pattern, name) or M.matches("*." .. pattern, name)
end

return M
