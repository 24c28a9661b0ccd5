--- Stages on several devices each: what --replicas asks for.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local named = require("ftpipe.base.named")
local packs = require("ftpipe.schedule.packs")
local schedules = require("ftpipe.schedule")
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

--- How many devices each group has, which make all of them in their order; stages go to the groups
-- in turns, as the schedule has them, where they are more.
-- @tparam table o replicas, devices, stages (may be nil: one for each group), schedule or rule
-- @treturn {int,...}
-- @treturn table by stage its device, or the list of them
function M.of(o)
   local counts, text = counts_of(o)
   local groups, n, n_devices = {}, 0, #core.engine.devices(o.devices)
   for g, count in ipairs(counts) do
      groups[g] = {}
      for i = 1, count do groups[g][i] = n + i end
      if count == 1 then groups[g] = n + 1 end
      n = n + count
   end
   if n ~= n_devices then
      usage("%s takes %s, and there are %d: expected as many, by %s or %s",
         named.value(o, "replicas", text), counted(n, "device"), n_devices,
         named.name(o, "replicas"), named.name(o, "devices"))
   end
   if o.stages and o.stages < #counts then
      usage("%s is for %s or more, %s asks for %d", named.value(o, "replicas", text),
         counted(#counts, "stage"), named.name(o, "stages"), o.stages)
   end
   local places = {}
   for s = 1, o.stages or #counts do
      places[s] = groups[schedules.device_of(o.rule or o.schedule, s, #counts, packs.run(o))]
   end
   return counts, places
end

local function gcd(a, b) return b == 0 and a or gcd(b, a % b) end

--- How many micro-batches, or a multiple of them, can be dealt to the replicas of each stage alike.
-- @tparam table o replicas, devices, stages, schedule or rule, micro_batches
-- @treturn int 1 without replicas
-- @treturn[opt] int replicas of the first stage that o.micro_batches cannot be dealt to
function M.dealt(o)
   local n_devices, all, odd = #core.engine.devices(o.devices), 1, nil
   local counts = o.replicas and M.of(o)
      or { schedules.replicates(o.rule or o.schedule) and n_devices or nil }
   for _, n in ipairs(counts) do
      all = all * n / gcd(all, n)
      if o.micro_batches % n ~= 0 then odd = odd or n end
   end
   return all, odd
end

--- Refuses micro-batches that cannot be dealt to replicas alike, and says which can.
-- @tparam table o what `dealt` takes, and batch
function M.check_shares(o)
   local all, odd = M.dealt(o)
   if not odd then return end
   local micro = math.ceil(o.micro_batches / all) * all
   local batch = math.ceil(o.batch / micro) * micro
   usage("%s cannot be dealt to the %d replicas of a stage alike: expected a multiple of %d, as %s",
      named.value(o, "micro_batches", o.micro_batches), odd, all, named.list(o, {
         { "micro_batches", micro }, batch ~= o.batch and { "batch", batch } or nil,
      }))
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
