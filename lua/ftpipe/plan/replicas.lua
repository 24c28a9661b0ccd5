--- Stages on several devices each: what --replicas asks for.

local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local usage = require("ftpipe.base.usage")

local M = {}

--- "2-1": two replicas of the first stage, one of the second; a list of numbers in Lua.
local function counts_of(o)
   local said = o.replicas
   local text = type(said) == "table" and table.concat(said, "-") or tostring(said)
   local counts = {}
   for word in (text .. "-"):gmatch("([^-]*)-") do
      counts[#counts + 1] = word:match("^[1-9]%d?%d?$") and tonumber(word) or nil
      if #counts == 0 or not word:match("^[1-9]%d?%d?$") then
         usage("%s: expected numbers with '-' between them, as 2-1",
            named.value(o, "replicas", text))
      end
   end
   return counts, text
end

--- How many replicas each stage has; all devices are taken, in their order.
-- @tparam table o replicas, devices, stages (may be nil)
-- @treturn {int,...}
-- @treturn table by stage its device, or the list of them
function M.of(o)
   local counts, text = counts_of(o)
   local places, n, n_devices = {}, 0, #core.engine.devices(o.devices)
   for s, count in ipairs(counts) do
      places[s] = {}
      for i = 1, count do places[s][i] = n + i end
      if count == 1 then places[s] = n + 1 end
      n = n + count
   end
   if n ~= n_devices then
      usage("%s takes %d devices, and there are %d", named.value(o, "replicas", text), n,
         n_devices)
   end
   if o.stages and o.stages ~= #counts then
      usage("%s is for %d stages, %s asks for %d", named.value(o, "replicas", text), #counts,
         named.name(o, "stages"), o.stages)
   end
   return counts, places
end

--- Refuses a cut that has its devices, and others than were asked for.
function M.check(o, places)
   if not o.replicas then return end
   local _, text = counts_of(o)
   local found = {}
   for s, place in ipairs(places) do found[s] = type(place) == "table" and #place or 1 end
   if table.concat(found, "-") ~= text then
      usage("%s: the partition has its own replicas, %s", named.value(o, "replicas", text),
         table.concat(found, "-"))
   end
end

return M
