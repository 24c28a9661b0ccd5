--- What a run knows of the sweep that it is a trial of: FTPIPE_TRIAL=NUMBER:DIR in its environment,
-- and FTPIPE_METRIC=NAME where the sweep names a number that counts.

local indexes = require("ftpipe.sweep.index")
local result = require("ftpipe.sweep.result")
local trial = require("ftpipe.base.trial")
local usage = require("ftpipe.base.usage")

local M = {}

M.TRIAL, M.METRIC = trial.NAME, "FTPIPE_METRIC"

--- Number and index of the trial; nil outside a sweep. Who asks closes the index.
local function own()
   local number, path = trial.own()
   if not number then return nil end
   return number, indexes.open(path, true)
end

--- The name of the number that counts, where the sweep says one.
function M.metric()
   local name = os.getenv(M.METRIC)
   return name ~= "" and name or nil
end

--- Says what an evaluation on the way gave.
-- @tparam table row step, value, better ("higher" or "lower"), and where the sweep names another
--   number, this one or `metrics`; without it nothing is said
-- @treturn boolean whether the sweep gives this run up; false outside a sweep
function M.ends(row)
   local number, index = own()
   if not number then return false end
   local metric, value, lower = M.metric(), row.value, row.better == "lower"
   if metric then
      value, lower = result.number(row, metric), index:get("goal") == "min"
   end
   local ends = value and index:report(number, row.step, lower and value or -value) or false
   index:close()
   return ends
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
