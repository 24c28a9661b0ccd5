--- What the devices of a graph file hold while it is played, and how a cut leaves room for it.
--
-- A partitioner counts what nodes keep. What a stage needs to run its forward again, how many
-- versions of weights there are and what waits between stages is known of a cut alone.

local copy = require("ftpipe.base.copy")
local named = require("ftpipe.base.named")
local recompute = require("ftpipe.graph.recompute")
local remedies = require("ftpipe.plan.remedies")
local units = require("ftpipe.base.units")

local M = {}

--- By device what it holds, its budget, and the parts.
-- @tparam table cut of ft.stages
-- @tparam table planned by stage, as schedule_plan:describe has it
-- @tparam table problem
-- @tparam number factor bytes that training keeps for one of parameters
function M.memory(cut, planned, problem, factor)
   local rows = {}
   for d, device in ipairs(problem.devices) do
      rows[d] = {
         budget = device.memory_bytes or 0,
         parts = { parameters = 0, versions = 0, activations = 0, workspace = 0, buffers = 0 },
      }
   end
   for s, stage in ipairs(cut.stages) do
      for d = stage.device, stage.device + stage.replicas - 1 do
         local parts, trained = rows[d].parts, stage.parameter_bytes - stage.frozen_bytes
         -- what is frozen has no gradients, no optimizer state, and no other versions
         parts.parameters = parts.parameters + trained * factor + stage.frozen_bytes
         parts.versions = parts.versions + trained * (planned[s].versions - 1)
         parts.activations = parts.activations + stage.saved_bytes * planned[s].in_flight
         parts.buffers = parts.buffers + planned[s].buffer_bytes
         -- stages of one device work one at a time
         parts.workspace = math.max(parts.workspace, stage.again_bytes or 0)
      end
   end
   for _, row in ipairs(rows) do
      local parts = row.parts
      row.total = parts.parameters + parts.versions + parts.activations + parts.workspace
         + parts.buffers
   end
   return rows
end

--- A problem with room for what a cut by it would hold beside what it counts.
-- @tparam table problem
-- @tparam graph graph
-- @tparam[opt] table room share (of what nodes save for a micro-batch, counted once: what running
--   them again takes), spare (by device, bytes to keep free); nil: none
-- @tparam[opt] table rates by device, in place of its own link's
function M.with_room(problem, graph, room, rates)
   if not room and not rates then return problem end
   room = room or { share = 0, spare = {} }
   local fixed, devices = {}, {}
   for i, node in ipairs(graph.nodes) do
      fixed[i] = problem.fixed_bytes[i] + math.floor(room.share * node.saved_bytes)
   end
   for d, device in ipairs(problem.devices) do
      local bytes = device.memory_bytes or 0
      devices[d] = copy(device, {
         memory_bytes = bytes > 0 and math.max(1, math.floor(bytes - (room.spare[d] or 0))) or 0,
         bytes_per_s = rates and rates[d] or device.bytes_per_s,
      })
   end
   return copy(problem, { fixed_bytes = fixed, devices = devices })
end

--- By device, what it holds beside what the partitioner counted.
local function uncounted(memory, problem, result)
   local counted, more, n_stages = {}, {}, #result.stage_device
   for i, d in ipairs(result.device) do
      local held = problem.in_flight or 1
      if not problem.flat then held = math.min(held, n_stages - result.stage[i] + 1) end
      counted[d] = (counted[d] or 0) + problem.fixed_bytes[i] + problem.saved_bytes[i] * held
   end
   for d, row in ipairs(memory) do
      more[d] = counted[d] and math.max(0, row.total - counted[d]) or 0
   end
   return more
end

-- What nodes save counts once where stages recompute: all of it where a device has one stage, less
-- where several take turns in the same room.
local SHARES = { 1, 0.5 }

--- What is kept free for what the partitioner does not count: on each device what it held, then,
-- where stages have changed their places, on all of them the most that any held.
local ROUNDS = {
   function(more) return more end,
   function(more)
      local most, all = math.max(unpack(more)), {}
      for d in ipairs(more) do all[d] = most end
      return all
   end,
}

--- Plans until one fits: a cut that is over a budget is made again with room for what it holds
-- beside what the partitioner counts.
-- @tparam function plan from room, nil at first, to a subject; nil where nothing has that room
-- @tparam string rule by which stages recompute
-- @tparam function better of two subjects
-- @treturn subject
function M.fit(plan, rule, better)
   local best = plan(nil)
   if best.fits then return best end
   for _, share in ipairs(rule == recompute.rules[1] and { 0 } or SHARES) do
      local last = share == 0 and best or plan { share = share, spare = {} }
      for round = 0, #ROUNDS do
         if last and round > 0 then
            local more = uncounted(last.memory, last.parts.asked, last.parts.result)
            last = plan { share = share, spare = ROUNDS[round](more) }
         end
         if not last then break end
         best = better(best, last)
         if last.fits then return best end
      end
   end
   return best
end

--- What would help a graph that does not fit, in words.
-- @tparam graph graph
-- @tparam table o options of the plan
function M.remedies(graph, o)
   local lines = { "more devices", "another partition or schedule" }
   if o.recompute == "never" then table.insert(lines, 1, named.value(o, "recompute", "auto")) end
   local fixed = graph.memory_factor -- as the file says
   for _, name in ipairs(not fixed and remedies.smaller_optimizers(o.optimizer) or {}) do
      lines[#lines + 1] = named.value(o, "optimizer", name)
   end
   return remedies.words(lines)
end

--- What the nodes keep whatever the cut, beside what the devices have, in words.
-- @tparam table problem
function M.amounts(problem)
   local bytes, budgets = 0, 0
   for _, fixed in ipairs(problem.fixed_bytes) do bytes = bytes + fixed end
   for _, device in ipairs(problem.devices) do
      if (device.memory_bytes or 0) == 0 then return "" end
      budgets = budgets + device.memory_bytes
   end
   return ("; parameters and what training keeps beside them are %s, the devices have %s together")
      :format(units.format_bytes(bytes), units.format_bytes(budgets))
end

return M
