--- The modules inside the program that are in one directory.

--- Their names, sorted: modules("ftpipe.task") has "rte" for ftpipe.task.rte.
-- @tparam string directory
-- @treturn {string,...}
return function(directory)
   local names = {}
   local pattern = "^" .. directory:gsub("%.", "%%.") .. "%.([%w_]+)$"
   for module in pairs(package.preload) do names[#names + 1] = module:match(pattern) end
   table.sort(names)
   return names
end
