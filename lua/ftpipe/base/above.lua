--- Directories that are there.

local core = require("ftpipe.core")

--- The path itself when something is there, else the nearest directory above it where something is.
-- @tparam string path
-- @treturn string
return function(path)
   local there = #path > 1 and path:gsub("/+$", "") or path
   while not core.sys.exists(there) and there ~= "." do
      there = there:match("^(.+)/[^/]*$") or (there:find("^/") and "/" or ".")
   end
   return there
end
