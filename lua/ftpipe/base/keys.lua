--- The keys of tables, all of one kind, sorted, each once for each table.
return function(...)
   local keys = {}
   for i = 1, select("#", ...) do
      for key in pairs((select(i, ...))) do keys[#keys + 1] = key end
   end
   table.sort(keys)
   return keys
end
