--- Which of several devices that are alike gets which stages: those that pass much to each other
-- get devices with a good link between them. Partitioners see the link of each device alone.

local core = require("ftpipe.core")

local M = {}

local RATES = { "kind", "memory_bytes", "flops_per_s", "bytes_per_s", "link_bytes_per_s" }

local function alike(a, b)
   for _, key in ipairs(RATES) do
      if a[key] ~= b[key] then return false end
   end
   return true
end

--- Whether it matters where a device is: not when all ways are alike.
local function differ(ways, n)
   local latency, per_byte = ways.latency_ns, ways.ns_per_byte
   for from = 1, n do
      for to = 1, n do
         local way = (from - 1) * n + to
         if from ~= to and (latency[way] ~= latency[2] or per_byte[way] ~= per_byte[2]) then
            return true
         end
      end
   end
   return false
end

--- By device, the transfers that its stages have a part in.
local function transfers_of(plan, home)
   local list = {}
   for d in ipairs(plan.devices) do list[d] = {} end
   for _, t in ipairs(plan.blueprint:transfers()) do
      local from, to = list[home[t.from]], list[home[t.to]]
      from[#from + 1] = t
      if to ~= from then to[#to + 1] = t end
   end
   return list
end

--- The time of transfers of a batch, one after the other, when the stages of device d are on
-- place[d]; of those that device `but` has a part in, none.
local function price(transfers, home, place, ways, but)
   local ns = 0
   for _, t in ipairs(transfers) do
      local from, to = home[t.from], home[t.to]
      if from ~= but and to ~= but then
         local way = (place[from] - 1) * #place + place[to]
         ns = ns + t.messages * ways.latency_ns[way] + t.bytes * ways.ns_per_byte[way]
      end
   end
   return ns
end

--- What the transfers of two devices take.
local function price_of(transfers, a, b, home, place, ways)
   return price(transfers[a], home, place, ways) + price(transfers[b], home, place, ways, a)
end

-- The part of a time by which another has to be less: sums in other orders differ in rounding.
local ROUNDING = 1e-12

--- Swaps pairs of devices while that makes transfers cheaper.
local function improve(plan, home, place, ways)
   local transfers = transfers_of(plan, home)
   local better, improved = true, false
   while better do
      better = false
      for a = 1, #place do
         for b = a + 1, #place do
            if alike(plan.devices[place[a]], plan.devices[place[b]]) then
               local before = price_of(transfers, a, b, home, place, ways)
               place[a], place[b] = place[b], place[a]
               if price_of(transfers, a, b, home, place, ways) < before * (1 - ROUNDING) then
                  better, improved = true, true
               else
                  place[a], place[b] = place[b], place[a]
               end
            end
         end
      end
   end
   return improved
end

--- Of the messages between its stages, the mean.
local function message_bytes(plan)
   local bytes, messages = 0, 0
   for _, t in ipairs(plan.blueprint:transfers()) do
      bytes, messages = bytes + t.bytes, messages + t.messages
   end
   return messages > 0 and math.floor(bytes / messages) or 0
end

--- By stage, a device that is as good as the one the plan has, with less to pay for transfers.
-- @tparam plan plan drawn, on described devices
-- @treturn[opt] {int,...} devices; nil when those of the plan are as good
function M.devices(plan)
   if not plan.machine then return nil end
   local ways, home, place = {}, {}, {}
   ways.latency_ns, ways.ns_per_byte = core.schedule.ways {
      machine = plan.machine, devices = #plan.devices, bytes = message_bytes(plan),
   }
   if not differ(ways, #plan.devices) then return nil end
   for s, stage in ipairs(plan.blueprint:stages()) do
      if #stage.devices > 1 then return nil end -- partitioners of replicas see the links
      home[s] = stage.device
   end
   for d in ipairs(plan.devices) do place[d] = d end
   if not improve(plan, home, place, ways) then return nil end
   local list = {}
   for s, device in ipairs(home) do list[s] = place[device] end
   return list
end

return M
