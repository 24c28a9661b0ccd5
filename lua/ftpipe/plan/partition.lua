--- The partition of a plan: by forward node its stage, by stage its device.

local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local copy = require("ftpipe.base.copy")
local packs = require("ftpipe.schedule.packs")
local placement = require("ftpipe.placement")
local replicas = require("ftpipe.placement.replicas")
local schedules = require("ftpipe.schedule")
local texts = require("ftpipe.schedule.text")
local usage = require("ftpipe.base.usage")

local M = {}

-- Partitions that nobody has to ask for.
local DEFAULTS = { seq = true, mixed = true }

--- How many stages there are.
function M.count(stage)
   local most = 0
   for _, s in ipairs(stage) do most = math.max(most, s) end
   return most
end

--- Refuses another number of stages than a cut has that is there already.
local function check_count(o, stage)
   local n = M.count(stage)
   if o.stages and o.stages ~= n then
      usage("%s: the partition has its own stages, %d", named.value(o, "stages", o.stages), n)
   end
end

--- Refuses the stages of nodes that a plan has for another graph, and stages without nodes.
-- @tparam string name of the plan, for people
-- @tparam {int,...} node_stage by forward node
-- @tparam graph graph
-- @tparam int n_stages of the plan
function M.check_nodes(name, node_stage, graph, n_stages)
   local n_forward = graph:counts().forward
   if #node_stage ~= n_forward then
      usage("%s: the plan is for a graph of %d forward nodes, this one has %d: expected the model, "
         .. "dropout and adapters that it was made for", name, #node_stage, n_forward)
   end
   local has_node = {}
   for _, stage in ipairs(node_stage) do has_node[stage] = true end
   for s = 1, n_stages do
      if not has_node[s] then
         usage("%s: stage %d of %d has no node: give it one in node-stage", name, s - 1, n_stages)
      end
   end
end

--- The last device of places, from 1.
local function last_of(places)
   local last = 0
   for _, place in ipairs(places) do
      last = math.max(last, type(place) == "table" and math.max(unpack(place)) or place)
   end
   return last
end

--- How many devices the stages of a plan file need.
-- @tparam string path
-- @treturn int
function M.devices_of(path)
   return last_of(texts.from_file(path, core.schedule.parse):head().device)
end

--- Refuses places that are not among the devices.
local function check_places(name, places, devices)
   local n_devices, last = #core.engine.devices(devices), last_of(places)
   if last > n_devices then
      usage("%s: the plan has stages on %d devices, there are %d", name, last, n_devices)
   end
end

--- Stages from a plan file.
local function from_file(path, graph, devices)
   local plan = texts.from_file(path, core.schedule.parse):head()
   M.check_nodes(path, plan.node_stage, graph, #plan.device)
   check_places(path, plan.device, devices)
   return { stage = plan.node_stage, device = plan.device, name = path }
end

--- Stages that begin at the given scopes: { "decoder/block.0", ... } makes two of them.
local function from_scopes(graph, scopes)
   local stage, at = {}, 1
   for n = 1, graph:counts().forward do
      local scope = graph:node(n).scope
      if scopes[at] and (scope == scopes[at] or scope:sub(1, #scopes[at] + 1) == scopes[at] .. "/")
      then
         at = at + 1
      end
      stage[n] = at
   end
   if at <= #scopes then
      usage("partition: no node after the cut before it is in scope '%s'", scopes[at])
   end
   return { stage = stage }
end

--- The whole model in one stage.
local function whole(graph, places)
   local stage = {}
   for n = 1, graph:counts().forward do stage[n] = 1 end
   return { stage = stage, device = places, name = "one stage" }
end

--- Whether what is said of replicas, and no partition, says on which devices stages are.
function M.has_places(o)
   return placement.is(o.partition) and (o.replicas ~= nil or
      schedules.replicates(o.rule or o.schedule))
end

--- Refuses more stages than the model can be cut into; `swaps`: whether state may be swapped.
function M.check_stages(graph, o, swaps)
   local own = M.has_places(o) and copy(o, { partition = "seq" }) or o
   placement.check_stages_of(graph, own, swaps)
end

--- Stages in the order of the model, each on every device.
local function everywhere(graph, o, n_stages, n_devices)
   local places = {}
   for s = 1, n_stages do
      places[s] = {}
      for d = 1, n_devices do places[s][d] = d end
      if n_devices == 1 then places[s] = 1 end
   end
   if n_stages == 1 then return whole(graph, places) end
   local result = copy(placement.solve(graph, "seq", copy(o, {
      partition = "seq", stages = n_stages,
   })))
   result.device = places
   return result
end

--- Stages in the order of the model, each on as many devices as --replicas says, or on every
-- device.
local function spread(graph, o)
   if not DEFAULTS[o.partition] then
      usage("%s says where stages are, %s too: leave one out", o.replicas
         and named.value(o, "replicas", tostring(o.replicas))
         or named.value(o, "schedule", schedules.name(o.rule or o.schedule)),
         named.value(o, "partition", placement.title(o.partition)))
   end
   local n = #core.engine.devices(o.devices)
   if not o.replicas then
      local several = schedules.groups(o.rule or o.schedule)
      return everywhere(graph, o, o.stages or several and n or 1, n)
   end
   local counts, places = replicas.of(o)
   if #places == 1 then return whole(graph, places) end
   local own = copy(o, { partition = "seq", stages = #places, replicas = counts })
   local result = copy(placement.solve(graph, "seq", own))
   result.device = places
   return result
end

--- Assigns forward nodes to stages.
-- @tparam graph graph with gradients
-- @tparam table o partition (what placement.solve knows, a partitioner of one's own among it; the
--   path of a plan file; or a list of scopes at which stages begin), and the options of
--   placement.solve
-- @treturn table { stage = by node, device = by stage (a list where it has replicas) or nil (in
--   turn), name = for people }
function M.of(graph, o)
   local how = o.partition
   if M.has_places(o) then return spread(graph, o) end
   if placement.is(how) then return placement.solve(graph, how, o) end
   local result
   if type(how) == "table" then
      result = from_scopes(graph, how)
      check_count(o, result.stage)
      result.device = o.replicas and select(2, replicas.of(copy(o, { stages = #how + 1 })))
      result.name = placement.title(how)
      return result
   end
   if type(how) ~= "string" or not core.sys.exists(how) then
      usage("%s is neither a plan file nor one of: %s", named.value(o, "partition", how),
         table.concat(placement.names(), ", "))
   end
   result = from_file(how, graph, o.devices)
   check_count(o, result.stage)
   replicas.check(o, result.device)
   return result
end

--- Whether two have the same nodes on the same devices.
function M.are_same(a, b)
   for _, key in ipairs { "stage", "device" } do
      local x, y = a[key] or {}, b[key] or {}
      if #x ~= #y then return false end
      for i, value in ipairs(x) do
         if value ~= y[i] then return false end
      end
   end
   return true
end

--- Stage s runs on device s; when there are more stages than devices, as the schedule has them, in
-- turns where it does not say: of one stage, or of a pack.
-- @tparam table o rule or schedule, packs
-- @tparam int n_stages
-- @tparam int n_devices
function M.place(o, n_stages, n_devices)
   local device, run = {}, packs.run(o)
   for s = 1, n_stages do
      device[s] = schedules.device_of(o.rule or o.schedule, s, n_devices, run)
   end
   return device
end

--- Stages numbered without those that no node is in; their devices likewise.
function M.without_empty(stage, device)
   local used, number, devices = {}, {}, {}
   for _, s in ipairs(stage) do used[s] = true end
   for s = 1, M.count(stage) do
      if used[s] then
         devices[#devices + 1] = device[s]
         number[s] = #devices
      end
   end
   local result = {}
   for n, s in ipairs(stage) do result[n] = number[s] end
   return result, devices
end

return M
