--- The text of a file that ought to be small, whoever wrote it.

local core = require("ftpipe.core")
local usage = require("ftpipe.base.usage")

--- @tparam string path of a file; a link to one will do, a pipe or a device will not
-- @tparam int most bytes that it may have
-- @treturn string its bytes
-- @raise not found; malformed data: it is no file, or larger
return function(path, most)
   if type(path) ~= "string" then usage("expected a file's path, got a %s", type(path)) end
   local kind, size = core.sys.exists(path)
   if kind and kind ~= "file" then
      core.fail("malformed data", path .. ": is no file")
   end
   if kind and size > most then
      core.fail("malformed data", ("%s: %.0f bytes, expected at most %.0f"):format(path, size,
         most))
   end
   return core.sys.read_file(path)
end
