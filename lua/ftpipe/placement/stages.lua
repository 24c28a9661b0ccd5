--- Stages of a partitioned graph: what each weighs, what passes between them, and how a schedule
-- plays over them.

local class = require("ftpipe.base.class")
local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local guard = require("ftpipe.base.guard")
local opts = require("ftpipe.base.opts")
local recompute = require("ftpipe.graph.recompute")
local schedules = require("ftpipe.schedule")

local M = {}
local Cut = { __name = "cut" }

--- Forward and backward time of a node on a device of the problem.
local function times_on(node, device)
   local kind, slowdown = device.kind or 1, device.slowdown or 1
   local forward, backward = node.forward_ns, node.backward_ns
   local own = forward + backward
   local ns = kind > 1 and node["ns" .. kind] or nil
   if not ns then return forward * slowdown, backward * slowdown end
   if own == 0 then return ns * slowdown, 0 end
   return ns * slowdown * forward / own, ns * slowdown * backward / own
end

local function new_stages(result)
   local stages = {}
   for s, device in ipairs(result.stage_device) do
      stages[s] = {
         device = device, replicas = result.stage_replicas and result.stage_replicas[s] or 1,
         forward_ns = 0, backward_ns = 0, weight_ns = 0, update_ns = 0, parameter_bytes = 0,
         frozen_bytes = 0, saved_bytes = 0, nodes = 0,
      }
   end
   return stages
end

--- The share of a node's backward that is for gradients of weights: those of all weights are as
-- much work as those of inputs, and what is frozen has none.
local function weight_share(node)
   local trained = node.parameter_bytes - (node.frozen_bytes or 0)
   return trained > 0 and trained / (node.parameter_bytes + trained) or 0
end

local function add_node(stage, node, device)
   local forward, backward = times_on(node, device)
   stage.nodes = stage.nodes + 1
   stage.forward_ns = stage.forward_ns + forward / stage.replicas
   stage.backward_ns = stage.backward_ns + backward / stage.replicas
   stage.weight_ns = stage.weight_ns + backward * weight_share(node) / stage.replicas
   local update = (node["update" .. (device.kind or 1)] or 0) * (device.slowdown or 1)
   stage.update_ns = stage.update_ns + update -- each replica has all parameters
   stage.parameter_bytes = stage.parameter_bytes + node.parameter_bytes
   stage.frozen_bytes = stage.frozen_bytes + (node.frozen_bytes or 0)
   stage.saved_bytes = stage.saved_bytes + node.saved_bytes
   local name = node.scope or node.name or node.id
   stage.first, stage.last = stage.first or name, name
end

--- The link between two devices: what the slower end carries; nothing costs within a device.
local function transfer_ns(bytes, from, to)
   if from == to then return 0 end
   local ns = 0
   for _, device in ipairs { from, to } do
      local rate = device.bytes_per_s or 0
      if rate > 0 then ns = math.max(ns, 1e9 * bytes / rate) end
   end
   return ns
end

--- The devices of a stage: its replicas follow its own in the list.
local function devices_of(stage) return stage.device, stage.device + stage.replicas - 1 end

--- Bytes that a replica sends, and receives, for the sum of its stage's gradients, in a ring: twice
-- all but its own part.
local function sum_bytes(stage)
   local trained = stage.parameter_bytes - stage.frozen_bytes
   return 2 * trained * (stage.replicas - 1) / stage.replicas
end

--- What that takes by the slowest link of the replicas.
local function sum_ns(stage, devices)
   local ns, first, last = 0, devices_of(stage)
   for d = first + 1, last do
      ns = math.max(ns, transfer_ns(sum_bytes(stage), devices[d - 1], devices[d]))
   end
   return ns
end

--- By value and device that it passes to, the edge that it is charged to: of those to several
-- stages of the device the one to the stage that works first. What only comes back, and has a
-- number, is a gradient: its edges go from the nodes that read it to the one that makes it.
local function charged_edges(graph, result)
   local charged, users, keys = {}, {}, {}
   for e, edge in ipairs(graph.edges) do
      local from, to = result.stage[edge.from], result.stage[edge.to]
      if from ~= to then
         local back, is_gradient = from > to, edge.bytes == 0 and edge.value ~= nil
         local maker, user = edge.from, to
         if is_gradient then maker, user = edge.to, from end
         local key = ("%d %s %d %s %s"):format(maker, tostring(edge.value),
            result.stage_device[user], tostring(back), tostring(is_gradient))
         local known, last_first = users[key], back ~= is_gradient
         keys[e] = key
         if not known or last_first and user > known or not last_first and user < known then
            charged[key], users[key] = e, user
         end
      end
   end
   return charged, keys
end

--- Adds an edge of nodes to the edge of their stages; a value that several nodes of a device use
-- passes once, and the sum of its gradients comes back. What gradients pass to an earlier stage
-- goes back along an edge to a later one.
local function join_edges(graph, result)
   local edges, by_ends, charged, keys = {}, {}, charged_edges(graph, result)
   for e, edge in ipairs(graph.edges) do
      local from, to = result.stage[edge.from], result.stage[edge.to]
      local back = from > to
      local low, high = math.min(from, to), math.max(from, to)
      if low ~= high then
         local ends = low .. " " .. high
         local row = by_ends[ends]
         if not row then
            row = { from = low, to = high, bytes = 0, grad_bytes = 0 }
            edges[#edges + 1], by_ends[ends] = row, row
         end
         if charged[keys[e]] == e then
            row.bytes = row.bytes + (back and 0 or edge.bytes)
            row.grad_bytes = row.grad_bytes + edge.grad_bytes + (back and edge.bytes or 0)
         end
      end
   end
   return edges
end

--- Refuses a result that is not of this graph, or is on other devices.
local function check_result(graph, devices, result)
   local stage, on = result.stage, result.stage_device
   if type(stage) ~= "table" or type(on) ~= "table" or #stage ~= #graph.nodes then
      opts.fail("ft.stages.of", "'result': expected what ft.partition gives for the %d nodes of "
         .. "the graph", #graph.nodes)
   end
   for _, d in ipairs(on) do
      if type(devices[d]) ~= "table" then
         opts.fail("ft.stages.of", "'devices': there is no device %s, expected those of the "
            .. "problem", class.quoted(d))
      end
   end
end

--- Stages of a graph.
-- @tparam graph graph
-- @tparam table devices of the problem
-- @tparam table result stage by node, stage_device (of ft.partition)
-- @treturn table stages { device =, replicas =, forward_ns =, backward_ns =, weight_ns = (what of
--   backward_ns is for gradients of weights), sum_ns = (of the gradients of its replicas, once a
--   batch), update_ns = (of its parameters, once a batch), parameter_bytes =, frozen_bytes = (of
--   these, what is not trained), saved_bytes =, nodes =, first =, last = (names) }, edges
--   { from =, to =, bytes =, grad_bytes =, ns =, grad_ns = }
function M.of(graph, devices, result)
   check_result(graph, devices, result)
   local stages, edges = new_stages(result), join_edges(graph, result)
   for i, node in ipairs(graph.nodes) do
      local stage = stages[result.stage[i]]
      add_node(stage, node, devices[stage.device])
   end
   for _, edge in ipairs(edges) do
      local from, to = devices[stages[edge.from].device], devices[stages[edge.to].device]
      edge.ns = transfer_ns(edge.bytes, from, to)
      edge.grad_ns = transfer_ns(edge.grad_bytes, from, to)
   end
   for _, stage in ipairs(stages) do stage.sum_ns = sum_ns(stage, devices) end
   return setmetatable({ stages = stages, edges = edges, n_devices = #devices }, Cut)
end

--- Has what passes between devices go over the links that they share. Sums of gradients of replicas
-- go around a ring, in as many steps as pass its parts twice, at the pace of its slowest link.
-- @tparam table cut of `of`
-- @tparam cluster cluster of its devices
function M.wire(cut, cluster)
   cut.machine = cluster.machine
   for _, stage in ipairs(cut.stages) do
      local first, last = devices_of(stage)
      for d = first, stage.replicas > 1 and last or first - 1 do
         local link = cluster:link(d, d < last and d + 1 or first)
         stage.sum_ns = math.max(stage.sum_ns, 1e9 * sum_bytes(stage) / link.bytes_per_s
            + 2 * (stage.replicas - 1) * link.latency_ns)
      end
   end
end

--- By stage, whether it is to recompute.
local function flags_of(cut, which)
   if type(which) == "table" then
      if #which == #cut.stages then return which end
      opts.fail("ft.stages.recompute", "'which': expected a value for each of %s, got %d",
         counted(#cut.stages, "stage"), #which)
   end
   for _, rule in ipairs(recompute.rules) do
      if rule == which then return recompute.flags(rule, #cut.stages) end
   end
   opts.fail("ft.stages.recompute", "'which': '%s' is no rule, expected one of %s", which,
      table.concat(recompute.rules, ", "))
end

--- Makes stages run their forwards again before their backwards: what waits is what arrives, and
-- what one micro-batch saves is there while it is worked on (`again_bytes`). Once for a cut.
-- @tparam table cut
-- @tparam string|table which always (every stage), but-last (every one but the last, as FTPipe
--   does), never, or a list by stage, true: it does
function M.recompute(cut, which)
   for s, flag in ipairs(flags_of(cut, which)) do
      local stage = cut.stages[s]
      if flag then
         stage.backward_ns = stage.backward_ns + stage.forward_ns
         stage.again_bytes, stage.saved_bytes = stage.saved_bytes, 0
      end
   end
   for _, edge in ipairs(cut.edges) do
      local stage = cut.stages[edge.to]
      if stage.again_bytes then stage.saved_bytes = stage.saved_bytes + edge.bytes end
   end
end

--- Bytes that pass between devices for a batch: values and gradients of its micro-batches, and sums
-- of gradients of replicas.
-- @tparam table cut
-- @tparam int micro_batches
function M.moved_bytes(cut, micro_batches)
   local bytes = 0
   for _, edge in ipairs(cut.edges) do
      if cut.stages[edge.from].device ~= cut.stages[edge.to].device then
         bytes = bytes + (edge.bytes + edge.grad_bytes) * micro_batches
      end
   end
   for _, stage in ipairs(cut.stages) do bytes = bytes + sum_bytes(stage) * stage.replicas end
   return bytes
end

--- Whether it is forwards alone that are played: no gradient comes back then.
local function has_no_backwards(o) return o.schedule == "evaluate" end

--- Costs of stages and of their edges, as core.schedule takes them. An edge of stages is one of
-- values and one of gradients.
-- @tparam table cut
-- @tparam table o schedule; factors: by stage, how many times as long it takes
local function costs_of(cut, o)
   local costs = {
      forward_ns = {}, backward_ns = {}, backward_input_ns = {}, backward_weight_ns = {},
      recompute_ns = {}, transfer_ns = {}, update_ns = {},
   }
   for s, stage in ipairs(cut.stages) do
      local factor = o.factors and o.factors[s] or 1
      costs.forward_ns[s] = stage.forward_ns * factor
      costs.recompute_ns[s] = costs.forward_ns[s]
      costs.backward_ns[s] = stage.backward_ns * factor
      costs.backward_input_ns[s] = (stage.backward_ns - stage.weight_ns) * factor
      costs.backward_weight_ns[s] = stage.weight_ns * factor
      costs.update_ns[s] = stage.sum_ns + stage.update_ns * factor -- links keep their pace
   end
   for _, edge in ipairs(cut.edges) do
      local ns = costs.transfer_ns
      ns[#ns + 1] = edge.ns
      ns[#ns + 1] = not has_no_backwards(o) and edge.grad_ns or nil
   end
   return costs
end

--- Options of core.schedule.make, which are also costs of a simulation.
local function pipeline(cut, o)
   local p = costs_of(cut, { schedule = o.schedule })
   p.replicas, p.device, p.edges, p.devices = {}, {}, {}, cut.n_devices
   p.schedule, p.micro_batches, p.batches = o.schedule, o.micro_batches, o.batches
   p.staleness = o.staleness ~= "none" and o.staleness or nil -- that of the schedule
   p.max_staleness = o.max_staleness
   for s, stage in ipairs(cut.stages) do p.replicas[s], p.device[s] = 1, stage.device end
   local back = schedules.splits(o.schedule) and "I" or "B"
   for _, edge in ipairs(cut.edges) do
      local edges = p.edges
      edges[#edges + 1] = { from = edge.from, to = edge.to, kind = "F", bytes = edge.bytes }
      edges[#edges + 1] = not has_no_backwards(o)
         and { from = edge.to, to = edge.from, kind = back, bytes = edge.grad_bytes } or nil
   end
   return p
end

-- Buffers of an edge to begin with; a schedule that cannot complete with them gets more.
local SLOTS = 2

local function make(p)
   p.most_slots = p.micro_batches * p.batches + #p.replicas
   for _, edge in ipairs(p.edges) do
      -- what passes over stages waits at its reader while those work on it, a slot for each
      edge.slots = math.min(SLOTS * math.abs(edge.to - edge.from), p.most_slots)
   end
   return core.schedule.make(p)
end

--- The plan of a schedule. The k replicas of a stage count as one device that is k times as fast
-- and sums their gradients as it updates.
-- @tparam table cut of `of`; its machine, if it has one, has the links that transfers share
-- @tparam table o schedule, staleness, max_staleness, micro_batches, batches, factors (by stage,
--   how many times as long it takes)
-- @treturn schedule_plan
-- @treturn table costs, and machine, to simulate it with
function M.plan(cut, o)
   local costs = costs_of(cut, o)
   costs.machine = cut.machine
   return make(pipeline(cut, o)), costs
end

--- The events of a trace, those of the first device of a stage told of its replicas as well.
local function repeated(trace, replicas)
   local head, events, tail = trace:match("^(.-%[\n)(.*)(\n%].*)$")
   local lines = {}
   for line in (events .. "\n"):gmatch("([^\n]+)\n") do
      line = line:gsub(",$", "")
      lines[#lines + 1] = line
      local before, pid, behind = line:match('^(.-"pid":)(%d+)(.*)$')
      local is_name = line:find('"name":"process_name"', 1, true)
      for _, d in ipairs(not is_name and replicas[tonumber(pid) + 1] or {}) do
         lines[#lines + 1] = before .. d - 1 .. behind
      end
   end
   return head .. table.concat(lines, ",\n") .. tail
end

--- Plays a schedule.
-- @tparam table cut as of `plan`
-- @tparam table o as of `plan`; trace
-- @treturn table as of schedule_plan:simulate, with stages as of schedule_plan:describe
function M.play(cut, o)
   local plan, options = M.plan(cut, o)
   options.trace = o.trace
   options.saved_bytes = o.trace and column(cut.stages, "saved_bytes") or nil
   local played = plan:simulate(options)
   local replicas = {}
   for _, stage in ipairs(cut.stages) do -- what one of the replicas does all of them do
      local first, last = devices_of(stage)
      for d = first + 1, last do
         replicas[first] = replicas[first] or {}
         replicas[first][d - first] = d
         for _, key in ipairs { "busy_ns", "waits", "stalls", "memory" } do
            if played[key] then played[key][d] = played[key][first] end
         end
      end
   end
   if played.trace and next(replicas) then played.trace = repeated(played.trace, replicas) end
   played.stages = plan:describe().stages
   return played
end

function Cut:__tostring()
   local lines = {
      ("%s on %s"):format(counted(#self.stages, "stage"), counted(self.n_devices, "device")),
   }
   for s, stage in ipairs(self.stages) do
      lines[s + 1] = ("  stage %d on device %d: %s, forward %.2f ms, backward %.2f ms, %s .. %s")
         :format(s - 1, stage.device - 1, counted(stage.nodes, "node"), stage.forward_ns / 1e6,
            stage.backward_ns / 1e6, stage.first, stage.last)
   end
   return table.concat(lines, "\n")
end

guard("ft.stages", M, {
   of = "graph: graph, devices: table, result: table", recompute = "cut: cut, which: string|table",
   moved_bytes = "cut: cut, micro_batches: int", plan = "cut: cut, o: table",
   play = "cut: cut, o: table", wire = "cut: cut, cluster: cluster",
})

return M
