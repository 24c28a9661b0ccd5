--- What a run knows of the sweep that it is a trial of: FTPIPE_TRIAL=NUMBER:DIR in its environment.

local indexes = require("ftpipe.sweep.index")

local M = {}

M.VARIABLE = "FTPIPE_TRIAL"

--- Says what an evaluation gave.
-- @tparam int step
-- @tparam number value
-- @tparam string better "higher" or "lower"
-- @treturn boolean whether the sweep gives this run up; false outside a sweep
function M.ends(step, value, better)
   local number, path = (os.getenv(M.VARIABLE) or ""):match("^(%d+):(.+)$")
   if not number then return false end
   local index = indexes.open(path, true)
   local ends = index:report(tonumber(number), step, better == "lower" and value or -value)
   index:close()
   return ends
end

return M
