--- One field of each row, as a list.
-- @tparam {table,...} rows
-- @param field its key
-- @treturn table by number of the row; nil where a row has none
return function(rows, field)
   local list = {}
   for i, row in ipairs(rows) do list[i] = row[field] end
   return list
end
