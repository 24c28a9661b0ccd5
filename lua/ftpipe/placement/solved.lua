--- Placements that are found once for problems which differ in memory alone.
--
-- Where devices have no budget, bytes of nodes are in no price and bound nothing: what would help a
-- plan that is far too large asks for the same placement by another optimizer, and again with
-- swaps.

local partition = require("ftpipe.placement.partition")

-- What has no say where nothing is bounded.
local WITHOUT_A_SAY = { names = true, fixed_bytes = true, saved_bytes = true }

local function is_bounded(problem)
   for _, device in ipairs(problem.devices) do
      if (device.memory_bytes or 0) > 0 then return true end
   end
   return problem.swaps or false
end

--- A value as text that no other value has; keys in an order of their own.
local function text_of(value, without)
   if type(value) == "number" then return ("%.17g"):format(value) end
   if type(value) ~= "table" then return ("%s %q"):format(type(value), tostring(value)) end
   local keys, parts = {}, {}
   for key in pairs(value) do
      if not (without and without[key]) then keys[#keys + 1] = key end
   end
   table.sort(keys, function(a, b)
      if type(a) == type(b) then return a < b end
      return type(a) == "number"
   end)
   for i, key in ipairs(keys) do parts[i] = ("%s=%s"):format(key, text_of(value[key])) end
   return "{" .. table.concat(parts, ",") .. "}"
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
   -- whether anything is saved decides how work is counted, which bounds a search
   local key = text_of(problem, WITHOUT_A_SAY) .. tostring(problem.saved_bytes ~= nil)
      .. text_of(options)
   known[key] = known[key] or partition(problem, options)
   return known[key]
end
