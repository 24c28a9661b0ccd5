--- Files that come with the program: recipes, sweeps, examples.

local core = require("ftpipe.core")

--- Where one of them is: as it is named, else beside the program as it was installed.
-- @tparam string path as "recipes/t5_rte.lua"
-- @treturn[opt] string nil where there is none
return function(path)
   if core.sys.exists(path) == "file" then return path end
   local found, program = pcall(core.sys.executable) -- not where it was removed while it runs
   local root = found and program:match("^(.*)/bin/[^/]*$")
   local installed = root and ("%s/share/ftpipe/%s"):format(root, path)
   return installed and core.sys.exists(installed) == "file" and installed or nil
end
