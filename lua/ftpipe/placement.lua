--- Stages of a recipe by ft.partition's methods: what --partition mixed and its like mean.

local core = require("ftpipe.core")
local contract = require("ftpipe.graph.contract")
local graphs = require("ftpipe.graph")
local partition = require("ftpipe.partition")

local M = {}

local function unsupported(format, ...)
   core.fail("unsupported", format:format(...), 2)
end

-- Options of ft.partition by what --partition says; `seq` has its own, exact in the graph's order.
local METHODS = {
   mixed = { method = "mixed", restarts = 4 },
   pipedream = { method = "pipedream" },
   ["pipedream-straight"] = { method = "pipedream", straight = true },
   greedy = { method = "greedy" },
   best = { method = "best", restarts = 4 },
}

--- What --partition may say beside seq and a file, sorted.
function M.names()
   local there, names = {}, {}
   for _, row in ipairs(partition.methods) do there[row.name] = true end
   for name, options in pairs(METHODS) do
      if there[options.method] then names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

function M.is(name)
   for _, known in ipairs(M.names()) do
      if known == name then return true end
   end
   return false
end

-- Stages of `mixed` for each device when nobody says how many.
local STAGES_PER_DEVICE = 2

local function options_of(name, n_devices, stages)
   local options = {}
   for key, value in pairs(METHODS[name]) do options[key] = value end
   if options.method == "mixed" or options.method == "best" then
      options.blocks = stages or STAGES_PER_DEVICE * n_devices
   end
   return options
end

-- What a placement must respect, tried in this order: with activations, without them (recomputed),
-- and without memory, so that the plan can say what is missing.
local ATTEMPTS = { {}, { recompute = true }, { recompute = true, unlimited = true } }

-- Bytes that training keeps for a byte of parameters: weight, gradient, state of the optimizer, and
-- for products on CPUs what is packed.
local MEMORY_FACTOR = { adamw = 4, adafactor = 2.1, sgd = 3 }

local function attempt(graph, o, how, budget)
   local problem = graph:problem {
      devices = o.devices, micro_batches = o.micro_batches,
      memory_factor = budget and budget.factor or MEMORY_FACTOR[o.optimizer],
      recompute = how.recompute, in_flight = o.micro_batches, flat = o.schedule == "gpipe",
   }
   for _, device in ipairs(problem.devices) do
      if how.unlimited then
         device.memory_bytes = 0
      elseif budget then
         device.memory_bytes = math.max(1, device.memory_bytes - budget.others)
      end
   end
   return problem
end

local function check_runnable(name, result)
   for s, replicas in ipairs(result.stage_replicas) do
      if replicas > 1 then
         unsupported("--partition %s puts stage %d on %d devices, and runs have one device for a "
            .. "stage; expected pipedream-straight, which replicates nothing, or %s", name, s,
            replicas, "mixed")
      end
   end
end

--- The first attempt that a placement is found for; raises what the last one says.
local function first_that_fits(weighted, name, o, budget)
   local n_devices, failure = #core.engine.devices(o.devices), nil
   for _, how in ipairs(ATTEMPTS) do
      local never, always = o.recompute == "never", o.recompute == "always"
      local fits_rule = how.recompute and not never or not how.recompute and not always
      if how.unlimited and not budget or fits_rule and not how.unlimited then
         local options = options_of(name, n_devices, o.stages)
         options.blocks = options.blocks and math.min(options.blocks, #weighted.nodes)
         local ok, result = pcall(partition, attempt(weighted, o, how, budget), options)
         if ok then return result end
         failure = result
         if type(result) ~= "table" or result.status ~= "plan infeasible" then break end
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

--- Assigns the forward nodes of a graph to stages, and stages to devices. Nodes of one scope stay
-- together.
-- @tparam graph graph of operators, or one of ft.graph
-- @tparam string name one of `names`
-- @tparam table o devices (text), stages (at most; 2 for each device), micro_batches, schedule,
--   recompute (always, never, auto), optimizer, costs (of a profile)
-- @tparam[opt] table budget what a plan showed: factor (bytes kept for a byte of parameters),
--   others (bytes that a device needs beside them)
-- @treturn table stage by node, device by stage, name, result of ft.partition
-- @raise unsupported — the result replicates stages
function M.solve(graph, name, o, budget)
   local weighted = type(graph) == "userdata" and graphs.of(graph, o.devices, o.costs)
      or graph
   local small, of = contract.by_scope(weighted)
   local result = first_that_fits(small or weighted, name, o, budget)
   check_runnable(name, result)
   local stage = small and spread(result.stage, of) or result.stage
   return { stage = stage, device = result.stage_device, name = name, result = result }
end

return M
