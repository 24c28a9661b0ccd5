--- Stages of a recipe by ft.partition's methods: what --partition mixed and its like mean.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local contract = require("ftpipe.graph.contract")
local feasible = require("ftpipe.base.feasible")
local graphs = require("ftpipe.graph")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local packs = require("ftpipe.schedule.packs")
local schedules = require("ftpipe.schedule")
local solved = require("ftpipe.placement.solved")
local ties = require("ftpipe.placement.ties")
local turns = require("ftpipe.placement.turns")
local usage = require("ftpipe.base.usage")

local M = {}

-- Of mixed and best, when nobody says how much: scopes are few, and a search asks for many plans.
local EFFORT = 5
M.EFFORT = EFFORT

-- What --partition says. `asks`: options of ft.partition; with `in_order` stage s is on device s,
-- and on from the first one again when there are more stages; nodes keep their order, and scopes
-- need not stay together. `anywhere`: stages of a device need not follow each other. `also`: a plan
-- cuts by that one too, and simulates both.
local METHODS = {
   seq = { asks = { method = "seq", in_order = true } },
   mixed = { asks = { method = "mixed", effort = EFFORT }, anywhere = true },
   pipedream = { asks = { method = "pipedream" } },
   ["pipedream-straight"] = { asks = { method = "pipedream", straight = true } },
   greedy = { asks = { method = "greedy" } },
   best = { asks = { method = "best", effort = EFFORT }, anywhere = true, also = "seq" },
}

--- What --partition may say beside a file, sorted.
function M.names()
   return opts.names(METHODS)
end

--- What is known of a partition: a name, or a function from a problem to devices by node.
local function row_of(how)
   return METHODS[how] or type(how) == "function" and { asks = { method = how } } or nil
end

--- Whether `solve` takes it.
function M.is(how) return row_of(how) ~= nil end

--- Whether its stages go to the devices in turns, in the order of the model.
function M.is_in_order(how)
   local row = row_of(how)
   return row and row.asks.in_order or false
end

--- Refuses a partition that puts stages on any device where the schedule says on which they are.
-- @tparam table o partition, schedule
function M.check_places(o)
   local how = o.partition
   local anywhere = type(how) == "string" and not M.is_in_order(how)
   if not anywhere or not schedules.places(o.schedule) then return end
   usage("%s needs %s, whose stages are one behind the other; %s puts them on any device",
      named.value(o, "schedule", o.schedule), named.value(o, "partition", "seq"),
      named.value(o, "partition", how))
end

--- Whether it searches, for as long as an effort says.
function M.searches(how)
   local row = row_of(how)
   return row ~= nil and row.asks.effort ~= nil
end

--- Refuses an effort that was given where nothing is searched for.
-- @tparam table o effort, partition
-- @tparam[opt] table hows partitions that are tried, where these are several
function M.check_effort(o, hows)
   hows = hows or { o.partition }
   if not named.is_given(o, "effort") then return end
   for _, how in ipairs(hows) do
      if M.searches(how) then return end
   end
   local names = {}
   for _, name in ipairs(M.names()) do names[#names + 1] = M.searches(name) and name or nil end
   usage("%s is for partitioners that search (%s), and %s does not: leave it out",
      named.name(o, "effort"), table.concat(names, ", "),
      named.value(o, "partition", M.title(hows[1])))
end

--- What else a plan tries: contiguous stages, which may end within a scope, one for each device.
-- Where state is swapped, as many as were asked for, if these are several a device: what may lie
-- anywhere joins neighbours of one device, and so would swap all of it at once.
-- @tparam graph graph of operators
-- @tparam table o partition, stages, devices
-- @tparam boolean swaps whether state may be swapped
-- @treturn[opt] string another partition; nil where there is none
function M.also(graph, o, swaps)
   local n, row = #core.engine.devices(o.devices), row_of(o.partition) or {}
   if math.max(n, o.stages or 0) > graph:counts().forward then return nil end
   if o.stages then return swaps and row.anywhere and o.stages > n and "seq" or nil end
   return n > 1 and row.also or nil
end

--- Numbers of stages that a plan also tries, fewer than it would take: a placement is judged by the
-- work of devices, and what their stages wait for is seen when it is simulated.
-- @tparam table o partition, stages, devices
-- @tparam[opt] int n devices, where `o` does not say it
-- @treturn {int,...} none where stages were asked for
function M.fewer_stages(o, n)
   n = n or #core.engine.devices(o.devices)
   if n == 1 or o.stages or not (row_of(o.partition) or {}).anywhere then return {} end
   local some, half = n + math.ceil(n / 4), n + math.floor(n / 2)
   return some < half and { n, some, half } or { n, half }
end

--- What the best is one of: the partitions that search nothing; none of another one.
function M.others(how)
   local names, row = {}, row_of(how)
   for _, name in ipairs(row and row.asks.method == "best" and M.names() or {}) do
      names[#names + 1] = not M.searches(name) and name or nil
   end
   return names
end

--- How ft.partition finds it, for graphs whose stages are bound to no order: method, straight.
function M.method(how)
   local row = row_of(how)
   if not row then return how end -- which is refused with the names there are
   return row.asks.method, row.asks.straight
end

--- A partition in a word: its name, "custom", or the scopes at which stages begin.
function M.title(how)
   if type(how) == "table" then
      local words = {}
      for i, scope in ipairs(how) do words[i] = tostring(scope) end
      return table.concat(words, ",")
   end
   return type(how) == "function" and "custom" or tostring(how)
end

--- What tells functions among partitions apart that stand beside each other.
-- @tparam table hows
-- @treturn table by function; none where there is one alone
function M.titles(hows)
   local titles, functions = {}, {}
   for _, how in ipairs(hows) do
      if type(how) == "function" and not titles[how] then
         functions[#functions + 1] = how
         titles[how] = ("%s %d"):format(M.title(how), #functions)
      end
   end
   return #functions > 1 and titles or {}
end

-- Stages of mixed and best for each device, at most, when nobody says how many.
local STAGES_PER_DEVICE = 2

--- Stages of mixed and best, at most: those that are asked for, if any are.
function M.stages(n_devices, asked) return asked or STAGES_PER_DEVICE * n_devices end

--- Blocks that ft.partition is to make, at most, of so many nodes; nil: it decides.
-- @param how a partition: a name, or a function
-- @tparam int n_devices
-- @tparam int n_nodes
-- @tparam[opt] int asked stages that are asked for
function M.blocks(how, n_devices, n_nodes, asked)
   local n = (row_of(how) or {}).anywhere and M.stages(n_devices, asked) or asked
   return n and math.min(n, n_nodes)
end

local function options_of(name, n_devices, n_nodes, stages, effort)
   local options = copy(row_of(name).asks)
   if options.in_order then return options end
   options.effort = options.effort and (effort or options.effort)
   options.blocks = M.blocks(name, n_devices, n_nodes, stages)
   return options
end

-- What a placement must respect, tried in this order: with activations, without them (recomputed),
-- and without memory, so that the plan can say what is missing. Where memory decides, the last
-- stage counts as one that keeps them: it holds the fewest micro-batches.
local ATTEMPTS = {
   {}, { recompute = "but-last" }, { recompute = "but-last", unlimited = true },
}
-- Stages in order are balanced by time alone, until a plan shows what else takes how much memory.
local BY_TIME = { { unlimited = true, bare = true } }
local BY_BUDGET = { { bare = true } }

-- A placement for memory alone, when nothing fits.
local BY_MEMORY = { { unlimited = true, bare = true, balanced = true } }

local function attempts_of(name, budget)
   if budget and budget.balances_memory then return BY_MEMORY end
   if not row_of(name).asks.in_order then return ATTEMPTS end
   return budget and BY_BUDGET or BY_TIME
end

--- Bytes that training with an optimizer keeps for a byte of parameters, by its name.
M.MEMORY_FACTOR = {}
for _, row in ipairs(core.engine.optimizers()) do M.MEMORY_FACTOR[row.name] = row.memory end

--- Leaves each device its memory for parameters. What it needs beside them depends on its stages:
-- where these may change their places, every device keeps the most for it.
local function limit_memory(devices, how, others, in_order)
   for d, device in ipairs(devices) do
      if how.unlimited then
         device.memory_bytes = 0
      elseif others then
         local own = in_order and others[d] or math.max(unpack(others))
         device.memory_bytes = math.max(1, device.memory_bytes - own)
      end
   end
end

--- A device for each group of them, as fast as they are together.
local function join(devices, replicas)
   local rows, first = {}, 1
   for g, n in ipairs(replicas) do
      rows[g] = copy(devices[first])
      rows[g].slowdown = (rows[g].slowdown or 1) / n
      first = first + n
   end
   return rows
end

--- A device for each stage. Those that are one share its memory.
-- @local
function M.take_turns(schedule, devices, n_stages, replicas, run)
   if replicas then devices = join(devices, replicas) end
   local every = schedules.replicates(schedule)
   local rows, share = {}, every and n_stages or math.ceil(n_stages / #devices)
   for s = 1, n_stages do
      local row = copy(devices[schedules.device_of(schedule, s, #devices, run)])
      row.memory_bytes = math.ceil((row.memory_bytes or 0) / share)
      rows[s] = row
   end
   return rows
end

--- Bytes of parameters stand for times, what a device has for its speed; transfers are free.
local function balance_memory(problem, devices)
   local most, bytes = 0, {}
   for d, device in ipairs(core.engine.devices(devices)) do
      bytes[d] = device.memory_bytes
      most = math.max(most, device.memory_bytes)
   end
   for d, device in ipairs(problem.devices) do
      device.kind, device.slowdown, device.bytes_per_s = 1, most / math.max(1, bytes[d]), 0
   end
   problem.node_ns, problem.last_ns = { problem.fixed_bytes }, nil
end

local function attempt(graph, name, o, how, budget)
   local in_order = row_of(name).asks.in_order
   local always = o.recompute == "always" and not in_order
   local problem = graph:problem {
      devices = o.devices, micro_batches = o.micro_batches,
      memory_factor = budget and budget.factor or o.memory_factor
         or M.MEMORY_FACTOR[o.optimizer],
      frozen_factor = budget and budget.frozen_factor or nil,
      recompute = always and "always" or how.recompute, in_flight = o.micro_batches,
      flat = schedules.is_flat(o.schedule), phase = o.phase,
   }
   problem.tie = o.ties or problem.tie
   for d, rate in ipairs(o.link_rates or {}) do problem.devices[d].bytes_per_s = rate end
   limit_memory(problem.devices, how, budget and budget.others, in_order)
   if how.bare then problem.saved_bytes = nil end
   if how.balanced then balance_memory(problem, o.devices) end
   if in_order then
      problem.devices = M.take_turns(o.rule or o.schedule, problem.devices,
         o.stages or #problem.devices, o.replicas, packs.run(o))
   end
   return problem
end

--- By stage its device, or the devices of its replicas, which follow each other.
local function places_of(result)
   local places = {}
   for s, first in ipairs(result.stage_device) do
      local n = result.stage_replicas[s]
      places[s] = first
      if n > 1 then
         places[s] = {}
         for i = 1, n do places[s][i] = first + i - 1 end
      end
   end
   return places
end

--- Whether --recompute allows what the attempt assumes.
local function is_allowed(how, rule)
   return how.bare or rule ~= (how.recompute and "never" or "always")
end

--- The first attempt that a placement is found for; raises what the last one says.
local function first_that_fits(weighted, name, o, budget)
   local n_devices, failure = #core.engine.devices(o.devices), nil
   for _, how in ipairs(attempts_of(name, budget)) do
      local is_last = how.unlimited and (not budget or how.balanced)
      if is_last or not how.unlimited and is_allowed(how, o.recompute) then
         local options = options_of(name, n_devices, #weighted.nodes, o.stages, o.effort)
         local result
         result, failure = feasible(solved, attempt(weighted, name, o, how, budget), options,
            (o.placements or {}).solved)
         if result then return result end
      end
   end
   error(failure, 0)
end

--- By node of a graph, what a contracted graph has by group.
local function spread(list, of)
   local result = {}
   for i, group in ipairs(of) do result[i] = list[group] end
   return result
end

--- The weights of a graph, and the same by scope; made once for all placements of it.
local function views_of(graph, o, known)
   if not known.views then
      local weighted = type(graph) == "userdata" and graphs.of(graph, o.devices, o.costs) or graph
      local small, of = contract.by_scope(weighted)
      known.views = { weighted = weighted, small = small, of = of }
   end
   return known.views
end

--- Refuses more stages than a graph can be cut into, by whichever partition.
-- @tparam table o options: partition, stages
-- @tparam int most
-- @tparam string why in words
function M.check_stages(o, most, why)
   if not o.stages or o.stages <= most or type(o.partition) == "function" then return end
   usage("%s: there can be %d at most, since %s; give no more",
      named.value(o, "stages", o.stages), most, why)
end

--- The same of a model: its scopes stay whole but for seq, and for what also tries that.
-- @tparam graph graph of operators
-- @tparam table o options of `solve`, with partition
-- @tparam boolean swaps whether state may be swapped
function M.check_stages_of(graph, o, swaps)
   if not o.stages or not M.is(o.partition) then return end
   local views, n = views_of(graph, o, o.placements), graph:counts().forward
   if not views.small or M.is_in_order(o.partition) or M.also(graph, o, swaps) == "seq" then
      return M.check_stages(o, n, ("the model has %d operators"):format(n))
   end
   n = #views.small.nodes
   M.check_stages(o, n, ("%s cuts between the %d blocks of the model, and seq alone within them")
      :format(named.value(o, "partition", M.title(o.partition)), n))
end

--- Whether devices have several stages each, which go to them in turns.
function M.takes_turns(o)
   local n = #core.engine.devices(o.devices)
   return M.is_in_order(o.partition) and not o.replicas and not schedules.replicates(o.schedule)
      and n > 1 and (o.stages or 0) > n
end

--- Stages in order, moved until devices have equal work.
local function even_stages(weighted, name, o, stage)
   local n, on = #core.engine.devices(o.devices), {}
   for s = 1, o.stages do on[s] = schedules.device_of(o.rule or o.schedule, s, n, packs.run(o)) end
   return turns.balance(attempt(weighted, name, o, BY_TIME[1]), stage, on)
end

--- By node of the graph that is cut, with which others it is to share a device, since they read
-- one weight; found once for all placements of a graph. Nil where none are, or where stages of a
-- device follow each other.
local function ties_of(views, graph, o)
   if not (row_of(o.partition) or {}).anywhere or type(graph) ~= "userdata" then return nil end
   if views.ties == nil then
      local of = views.of
      if not of then
         of = {}
         for n in ipairs(views.weighted.nodes) do of[n] = n end
      end
      views.ties = ties.of(graph, of, views.small or views.weighted, o) or false
   end
   return views.ties or nil
end

--- Whether nodes read weights that are worth having on one device.
function M.has_ties(graph, o)
   return ties_of(views_of(graph, o, o.placements or {}), graph, o) ~= nil
end

local function solve(graph, name, o, budget, known)
   local views = views_of(graph, o, known)
   if o.tied then o = copy(o, { ties = ties_of(views, graph, o) }) end
   if row_of(name).asks.in_order then
      local stage = first_that_fits(views.weighted, name, o, budget).stage
      if o.by_device and not budget then stage = even_stages(views.weighted, name, o, stage) end
      return { stage = stage, name = name }
   end
   local result = first_that_fits(views.small or views.weighted, name, o, budget)
   local stage = views.small and spread(result.stage, views.of) or result.stage
   return { stage = stage, device = places_of(result), name = M.title(name) }
end

--- Values as one text, those that are nil, too.
local function joined(...)
   local texts = {}
   for i = 1, select("#", ...) do texts[i] = tostring((select(i, ...))) end
   return table.concat(texts, " ")
end

--- What a placement depends on, of the options that plans of one model and batch differ in.
local function key_of(name, o, budget)
   return joined(name, o.stages, packs.run(o), o.effort, o.recompute, o.phase, o.by_device, o.tied,
      o.replicas and table.concat(o.replicas, "-"), schedules.is_flat(o.schedule),
      o.link_rates and table.concat(o.link_rates, " "),
      schedules.folds(o.schedule), schedules.replicates(o.schedule), budget and budget.factor,
      budget and budget.frozen_factor,
      budget and (budget.others and table.concat(budget.others, " ") or "balanced"))
end

--- Assigns the forward nodes of a graph to stages, and stages to devices. Nodes of one scope stay
-- together, but for seq.
-- @tparam graph graph of operators, or one of ft.graph
-- @param name one of `names`, or a function from a problem to a list of devices by node
-- @tparam table o devices (text or cluster), stages (at most; of seq exactly; 2 for each device,
--   of seq 1), micro_batches, schedule, recompute (always, never, auto), optimizer, memory_factor
--   (bytes kept for a byte of parameters, else what the optimizer needs), costs (of a profile),
--   effort (of mixed and best), link_rates (by device, in place of its own link), phase (balance
--   forwards or backwards alone), by_device (stages that devices take in turns give them equal
--   work, where no budget says more), tied (of mixed and best: nodes that read one weight share a
--   device), placements (a table that is filled, for calls that differ in
--   name, stages, packs, replicas, effort, schedule, recompute, link_rates, phase, by_device and
--   tied alone: many schedules ask for the same),
--   replicas (of seq: how many devices, in their order, each group has that stages go to in turns)
-- @tparam[opt] table budget what a plan showed: factor (bytes kept for a byte of parameters),
--   frozen_factor (for one of those that are not trained),
--   others (by device: bytes that it needs beside them), or balances_memory (true: time is no
--   matter)
-- @treturn table stage by node, device by stage (a list where it has replicas; nil: in turn), name;
--   not to be changed
function M.solve(graph, name, o, budget)
   local known, key = o.placements or {}, key_of(name, o, budget)
   if not known[key] then
      local found, failure = feasible(solve, graph, name, o, budget, known)
      known[key] = { found = found, failure = failure }
   end
   if known[key].failure then error(known[key].failure, 0) end
   return known[key].found
end

return M
