--- Options on weights that are late, and the schedules that they are for.

local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local schedules = require("ftpipe.schedule")
local usage = require("ftpipe.base.usage")

local M = {}

--- The names of the schedules that leave it to --staleness which weights are read.
function M.schedules()
   local names = {}
   for _, row in ipairs(schedules.list()) do
      names[#names + 1] = schedules.may_be_stale(row.name) and row.name or nil
   end
   return names
end

local function refuse(o, option, why)
   usage("%s is for %s; %s %s", named.value(o, option, o[option]),
      table.concat(M.schedules(), ", "),
      named.value(o, "schedule", schedules.name(o.schedule)), why)
end

--- Refuses options on late weights with a schedule that has none, or says itself what is read.
-- @tparam table o options of a plan or flags: schedule, staleness, max_staleness
function M.check(o)
   local reads = o.staleness and o.staleness ~= "none"
   if schedules.is_synchronous(o.schedule) and (reads or o.max_staleness) then
      refuse(o, reads and "staleness" or "max_staleness", "drains, its weights are never late")
   elseif reads and not schedules.may_be_stale(o.schedule) then
      refuse(o, "staleness", "says itself which weights it reads")
   end
end

--- Refuses gaps = true where no weights are late, and where gaps are recorded without it.
-- @tparam table o options of a plan: synchronous, schedule or rule, staleness, devices
function M.check_gaps(o)
   local way = schedules.way(o.rule or o.schedule, o.staleness)
   if way.attenuates then
      usage.of(o, "{gaps} is not needed here: {staleness=%s} records its gaps anyway", way.name)
   elseif o.synchronous or o.max_staleness == 0 then
      local name = o.synchronous and "schedule" or "max_staleness"
      usage("%s is of weights that are late, and with %s none are: leave it out",
         named.name(o, "gaps"), o.synchronous and o.given and o.given.title
         or named.value(o, name, o[name]))
   elseif not core.engine.devices(o.devices)[1].gaps then
      usage.of(o, "{gaps} are measured on CPUs alone so far")
   end
end

return M
