--- What a run knows of the sweep that it is a trial of: FTPIPE_TRIAL=NUMBER:DIR in its environment,
-- and FTPIPE_METRIC=NAME where the sweep names a number that counts.

local indexes = require("ftpipe.sweep.index")
local result = require("ftpipe.sweep.result")
local usage = require("ftpipe.base.usage")

local M = {}

M.TRIAL, M.METRIC = "FTPIPE_TRIAL", "FTPIPE_METRIC"

--- Number and index of the trial; nil outside a sweep. Who asks closes the index.
local function own()
   local number, path = (os.getenv(M.TRIAL) or ""):match("^(%d+):(.+)$")
   if not number then return nil end
   return tonumber(number), indexes.open(path, true)
end

--- Says what an evaluation gave.
-- @tparam int step
-- @tparam number value
-- @tparam string better "higher" or "lower"
-- @treturn boolean whether the sweep gives this run up; false outside a sweep
function M.ends(step, value, better)
   local number, index = own()
   if not number then return false end
   local ends = index:report(number, step, better == "lower" and value or -value)
   index:close()
   return ends
end

--- The name of the number that counts, where the sweep says one.
function M.metric()
   local name = os.getenv(M.METRIC)
   return name ~= "" and name or nil
end

--- Refuses the metric, which no trial would have; tells the sweep, which then ends.
-- @tparam string whose "a run of task rte leaves"
-- @tparam {string,...} names of what there is
-- @raise invalid argument
function M.refuse_metric(whose, names)
   local problem = result.unknown(M.metric(), whose, names)
   local number, index = own()
   if number then
      index:set("fault", problem)
      index:close()
   end
   usage("%s", problem)
end

return M
