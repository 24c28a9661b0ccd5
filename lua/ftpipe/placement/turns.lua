--- Stages in the order of the model that go to devices in turns, moved so that devices have equal
-- work.
--
-- A cut that makes the longest stage short says nothing of the others: where one stage is long by
-- itself, as a head of many words is, those that are on its device should be shorter for it. What
-- is made small here is the sum of squares of what devices take and of what stages take: the first
-- makes devices equal, the second keeps stages even where devices allow it.

local M = {}

--- Nodes by stage, then by number: an order of the graph.
local function order_of(stage)
   local order = {}
   for n in ipairs(stage) do order[n] = n end
   table.sort(order, function(a, b)
      if stage[a] ~= stage[b] then return stage[a] < stage[b] end
      return a < b
   end)
   return order
end

--- By place in the order, bytes of values and their gradients that pass it on their way from the
-- nodes before it to those behind.
local function crossing_bytes(problem, order)
   local place, last, bytes = {}, {}, {}
   for p, n in ipairs(order) do place[n], bytes[p] = p, 0 end
   for e, from in ipairs(problem.edge_from) do
      local value = from .. " " .. (problem.edge_value[e] > 0 and problem.edge_value[e] or -e)
      local known = last[value] or { from = place[from], to = 0, bytes = 0 }
      known.to = math.max(known.to, place[problem.edge_to[e]])
      known.bytes = math.max(known.bytes, problem.edge_bytes[e] + problem.edge_grad_bytes[e])
      last[value] = known
   end
   for _, value in pairs(last) do
      bytes[value.from] = bytes[value.from] + value.bytes
      if bytes[value.to] then bytes[value.to] = bytes[value.to] - value.bytes end
   end
   for p = 2, #bytes do bytes[p] = bytes[p] + bytes[p - 1] end
   return bytes
end

--- By place in the order, what the nodes up to it take together, of each kind of device.
local function running_sums(problem, order)
   local sums = {}
   for k, times in ipairs(problem.node_ns) do
      local sum = { [0] = 0 }
      for p, n in ipairs(order) do sum[p] = sum[p - 1] + times[n] end
      sums[k] = sum
   end
   return sums
end

--- What stage s takes from one place to another; cuts beside other devices pass bytes on.
local function stage_ns(cut, s, from, to)
   local row, own = cut.devices[s], cut.device_of[s]
   local sum, rate = cut.sums[row.kind or 1], row.bytes_per_s
   local ns = (sum[to] - sum[from]) * (row.slowdown or 1)
   if rate and rate > 0 then
      local before, behind = cut.device_of[s - 1] or own, cut.device_of[s + 1] or own
      local bytes = (before ~= own and cut.bytes[from] or 0)
         + (behind ~= own and cut.bytes[to] or 0)
      ns = ns + bytes / rate * 1e9
   end
   return ns
end

--- The end of stage s goes to the nearest place that makes the sum of squares less; false: there is
-- none. The nearest, so that many stages give a little before one gives all it has.
local function move_end(cut, s)
   local a, b, ends, loads = cut.device_of[s], cut.device_of[s + 1], cut.ends, cut.loads
   local from, old, to = s > 1 and ends[s - 1] or 0, ends[s], ends[s + 1]
   local mine, theirs = stage_ns(cut, s, from, old), stage_ns(cut, s + 1, old, to)
   local rest_a, rest_b = loads[a] - mine, loads[b] - theirs
   if a == b then rest_a, rest_b = rest_a - theirs, 0 end
   --- What counts when the stages take x and y.
   local function cost(x, y)
      local p, q = rest_a + x, rest_b + y
      if a == b then p, q = p + y, 0 end
      return p * p + q * q + x * x + y * y
   end
   local least = cost(mine, theirs) * (1 - 1e-9)
   local function try(at)
      if at <= from or at >= to then return false end
      local x, y = stage_ns(cut, s, from, at), stage_ns(cut, s + 1, at, to)
      if cost(x, y) >= least then return false end
      ends[s] = at
      loads[a] = loads[a] - mine + x
      loads[b] = loads[b] - theirs + y
      return true
   end
   for away = 1, to - from do
      if try(old - away) or try(old + away) then return true end
   end
   return false
end

local ROUNDS = 100 -- over all stages; most stop long before

--- Moves nodes between stages that follow each other.
-- @tparam table problem what ft.partition solved: node_ns by kind, edges, devices by stage
-- @tparam {int,...} stage by node; along every edge it stays or grows
-- @tparam {int,...} device_of by stage its device
-- @treturn {int,...} stage by node: as many, in the same order
function M.balance(problem, stage, device_of)
   local order = order_of(stage)
   local cut = {
      n = #order, devices = problem.devices, device_of = device_of, ends = {}, loads = {},
      sums = running_sums(problem, order), bytes = crossing_bytes(problem, order),
   }
   for p, n in ipairs(order) do cut.ends[stage[n]] = p end
   for s, at in ipairs(cut.ends) do
      local d = device_of[s]
      cut.loads[d] = (cut.loads[d] or 0) + stage_ns(cut, s, cut.ends[s - 1] or 0, at)
   end
   for _ = 1, ROUNDS do
      local moved = false
      for s = 1, #cut.ends - 1 do moved = move_end(cut, s) or moved end
      if not moved then break end
   end
   local result, s = {}, 1
   for p, n in ipairs(order) do
      if p > cut.ends[s] then s = s + 1 end
      result[n] = s
   end
   return result
end

return M
