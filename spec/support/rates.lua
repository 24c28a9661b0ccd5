--- Rates of dropout in a graph, by operator and in its order: "dropout_add 0.1".
return function(graph)
   local found = {}
   for row, attributes in graph:text():gmatch("node %S+ (%S+)([^\n]*)") do
      local rate = attributes:match(row == "attention" and "dropout=(%S+)" or "[^%w]p=(%S+)")
      if rate then found[#found + 1] = row .. " " .. rate end
   end
   return found
end
