--- What a simulation says of itself: which device is idle, which link is taken, and what the end
-- waited for.
--
-- A simulation is what blueprint:simulate and schedule_plan:simulate give.

local counted = require("ftpipe.base.counted")
local units = require("ftpipe.base.units")

local M = {}

--- "5 % 12 %" of shares.
function M.percents(shares)
   local parts = {}
   for i, share in ipairs(shares) do parts[i] = ("%.0f %%"):format(100 * share) end
   return table.concat(parts, " ")
end

--- The share of the time in which a device computes nothing, by device.
function M.idle(played)
   local idle = {}
   for d, busy in ipairs(played.busy_ns) do idle[d] = 1 - busy / played.end_ns end
   return idle
end

--- Seconds of a batch in the long run: of two legs whose difference has neither warm-up nor drain.
-- A pipeline that never drains may come to its pace late, while less and less waits in front of the
-- slowest device: a batch takes no less than what any device, or link, has to do for it.
-- @tparam int short batches of one of them; 0: it is left out
-- @tparam int long of the other
-- @tparam function play gives the simulation of so many batches
function M.steady(short, long, play)
   local whole, before = play(long), short > 0 and play(short) or nil
   local most = whole.end_ns - (before and before.end_ns or 0)
   for _, key in ipairs { "busy_ns", "link_ns" } do
      for i, ns in ipairs(whole[key] or {}) do
         most = math.max(most, ns - (before and before[key][i] or 0))
      end
   end
   return most / (long - short) / 1e9
end

--- Batches of two legs for `steady`: where batches drain one is like the other, else a pipeline is
-- full when as many micro-batches as it has stages are in it.
-- @tparam boolean drains
-- @tparam int micro_batches
-- @tparam int n_stages
-- @tparam[opt] int most that a leg may have
-- @treturn int short
-- @treturn int long
function M.legs(drains, micro_batches, n_stages, most)
   local short = math.max(2, drains and 0 or math.ceil(2 * n_stages / micro_batches))
   if most and most < 3 * short then return math.floor(most / 3), most end
   return short, 3 * short
end

--- What was proved of a plan: that it completes on any timing, with so many buffers between stages.
-- @tparam table stages of blueprint:stages or schedule_plan:describe
function M.proof(stages)
   local buffers = 0
   for _, stage in ipairs(stages) do buffers = buffers + stage.buffers end
   return ("completes on any timing with %s between stages"):format(counted(buffers, "buffer"))
end

-- Shares below this one round to nothing, and are not worth a word.
local LEAST = 0.005

--- The link that is taken for most of the time.
-- @tparam table played
-- @tparam[opt] table machine of the devices
-- @treturn[opt] string its name; nil when next to nothing passes over links
-- @treturn number share of the time
function M.busiest_link(played, machine)
   local most, name = 0, nil
   for i, ns in ipairs(machine and played.link_ns or {}) do
      if ns > most then most, name = ns, machine.links[i].name end
   end
   local share = most / played.end_ns
   return share >= LEAST and name or nil, share
end

--- "backward 65 %, forward 33 %, transfers 2 %": what the longest chain of actions, of which each
-- waited for the one before it, is made of.
function M.critical(played)
   local parts, words, rest = {}, {}, 1
   for kind, ns in pairs(played.critical) do
      if kind ~= "events" then
         parts[#parts + 1] = { kind = kind, share = ns / played.end_ns }
         rest = rest - ns / played.end_ns
      end
   end
   table.sort(parts, function(a, b)
      return a.share > b.share or a.share == b.share and a.kind < b.kind
   end)
   parts[#parts + 1] = { kind = "transfers", share = rest }
   for _, part in ipairs(parts) do
      if part.share >= LEAST then
         words[#words + 1] = ("%s %.0f %%"):format(part.kind, 100 * part.share)
      end
   end
   return table.concat(words, ", ")
end

--- "critical path: ...; busiest link: host a, 65 %": what holds a plan back.
function M.limits(played, machine)
   local link, share = M.busiest_link(played, machine)
   return "critical path: " .. M.critical(played)
      .. (link and ("; busiest link: %s, %.0f %%"):format(link, 100 * share) or "")
end

--- The simulation with a tostring.
function M.speak(played, machine)
   return setmetatable(played, { __tostring = function()
      return ("%s, idle %s\n%s"):format(units.format_seconds(played.end_ns / 1e9),
         M.percents(M.idle(played)), M.limits(played, machine))
   end })
end

return M
