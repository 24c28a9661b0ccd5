--- Which trial of a sweep this process is: FTPIPE_TRIAL=NUMBER:DIR in its environment.

local M = { NAME = "FTPIPE_TRIAL" }

--- @treturn int its number; nil outside a sweep
-- @treturn string the sweep's directory
function M.own()
   local number, path = (os.getenv(M.NAME) or ""):match("^(%d+):(.+)$")
   return tonumber(number), path
end

return M
