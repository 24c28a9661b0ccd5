--- Placements that are found once for problems which differ in memory alone.
--
-- Where devices have no budget, bytes of nodes are in no price and bound nothing: what would help a
-- plan that is far too large asks for the same placement by another optimizer, and again with
-- swaps.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local partition = require("ftpipe.placement.partition")

local function is_bounded(problem)
   for _, device in ipairs(problem.devices) do
      if (device.memory_bytes or 0) > 0 then return true end
   end
   return problem.swaps or false
end

--- A problem without what has no say where nothing is bounded, as text. Whether anything is saved
-- decides how work is counted, which bounds a search.
local function key_of(problem, options)
   local own = copy(problem, { saved_bytes = problem.saved_bytes ~= nil })
   own.names, own.fixed_bytes = nil, nil
   return core.json.encode({ own, options }, { sort = true })
end

--- What ft.partition gives; of searches by `mixed` that nothing bounds, what it gave before.
-- @tparam table problem
-- @tparam table options
-- @tparam[opt] table known results, which is filled
-- @treturn table not to be changed
-- @raise as ft.partition does
return function(problem, options, known)
   if not known or options.method ~= "mixed" or is_bounded(problem) then
      return partition(problem, options)
   end
   local key = key_of(problem, options)
   known[key] = known[key] or partition(problem, options)
   return known[key]
end
