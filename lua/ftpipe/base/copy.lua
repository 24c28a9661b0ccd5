--- A table with the entries, and the metatable, of another one, changed in some of them.
-- @tparam table given
-- @tparam[opt] table changes entries that take the place of those given
-- @treturn table a new one; what the entries hold is shared
return function(given, changes)
   local result = setmetatable({}, getmetatable(given))
   for key, value in pairs(given) do result[key] = value end
   for key, value in pairs(changes or {}) do result[key] = value end
   return result
end
