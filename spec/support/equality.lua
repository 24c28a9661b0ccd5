--- The table of synchronous runs that have to compute what one device computes, to the bit.
--
-- A case is { family =, schedule =, partition =, recompute =, devices = }: every kind of model,
-- every synchronous schedule that runs, seq, mixed with 2, 3 and 4 stages for each device and
-- random partitions where it takes them, recomputation never, always and where memory asks for it,
-- 1 to 4 devices.

local pipeline = require("spec.support.pipeline")
local random = require("ftpipe.base.random")
local schedules = require("ftpipe.schedule")

local M = {}

local STEPS = 10
local FAMILIES = { "t5", "gpt2", "bert" }

--- A partitioner that changes the device at random: stages as they come, on any of the devices.
function M.at_random(seed)
   return function(problem)
      local draw, device, list = random.new(seed, 3), 1, {}
      for i = 1, #problem.node_ns[1] do
         if draw:fraction() < 0.12 then
            device = 1 + math.floor(draw:fraction() * #problem.devices)
         end
         list[i] = device
      end
      return list
   end
end

--- So many stages for each device, in the order of the model.
local function in_order(per_device)
   return { "seq " .. per_device, function(devices)
      return { partition = "seq", stages = per_device * devices }
   end }
end

--- Rows of partitions for a schedule: a name, and what it is for so many devices. Where stages have
-- their devices by number there are but those in order.
local function partitions(schedule)
   if schedule.folds then return { in_order(2) } end
   if schedule.interleaves then return { in_order(1), in_order(2), in_order(3), in_order(4) } end
   local rows = { in_order(1) }
   for per_device = 2, 4 do
      rows[#rows + 1] = { "mixed " .. per_device, function(devices)
         return { partition = "mixed", stages = per_device * devices }
      end }
   end
   for seed = 1, 2 do
      rows[#rows + 1] = { "random " .. seed, function()
         return { partition = M.at_random(seed) }
      end }
   end
   return rows
end

--- All cases, in an order that does not change.
function M.cases()
   local list = {}
   for _, family in ipairs(FAMILIES) do
      for _, row in ipairs(schedules.list()) do
         local meant = row.synchronous and not row.replicates and schedules.runs(row.name)
         for _, partition in ipairs(meant and partitions(row) or {}) do
            for _, recompute in ipairs { "never", "always", "auto" } do
               for devices = 1, 4 do
                  list[#list + 1] = { family = family, schedule = row.name,
                     partition = partition[1], cut = partition[2](devices), recompute = recompute,
                     devices = devices }
               end
            end
         end
      end
   end
   return list
end

--- So many of the cases of each family and schedule, drawn with a seed.
function M.some(seed, of_each)
   local groups, names, list, draw = {}, {}, {}, random.new(seed, 4)
   for _, case in ipairs(M.cases()) do
      local name = case.family .. " " .. case.schedule
      if not groups[name] then
         names[#names + 1], groups[name] = name, {}
      end
      table.insert(groups[name], case)
   end
   for _, name in ipairs(names) do
      for _ = 1, of_each do
         local group = groups[name]
         list[#list + 1] = table.remove(group, 1 + math.floor(draw:fraction() * #group))
      end
   end
   return list
end

--- "t5, interleaved, mixed 2, recompute auto, 3 devices"
function M.name(case)
   return ("%s, %s, %s, recompute %s, %d device%s"):format(case.family, case.schedule,
      case.partition, case.recompute, case.devices, case.devices == 1 and "" or "s")
end

--- The options of training; micro-batches that so many devices can take in turns.
local function options_of(case)
   local o = { family = case.family, devices = "cpu:" .. case.devices, schedule = case.schedule,
      recompute = case.recompute, batch = 12, micro_batches = case.devices == 3 and 6 or 4,
      steps = STEPS, clip = 0.5 }
   for key, value in pairs(case.cut) do o[key] = value end
   return o
end

--- Budgets with which some stages have to recompute and others need not, where that is so.
local function with_budget(o)
   local bytes = {}
   for i, recompute in ipairs { "never", "always" } do
      o.recompute = recompute
      bytes[i] = math.max(unpack(pipeline.plan(o):memory_bytes()))
   end
   o.recompute = "auto"
   if bytes[2] < bytes[1] then
      o.devices = ("%s/%dB"):format(o.devices, math.ceil((bytes[1] + bytes[2]) / 2))
   end
   return o
end

--- Where two tables of numbers differ in a bit; nil when they do not.
function M.difference(a, b, where)
   if type(a) ~= "table" then
      if a == b or (a ~= a and b ~= b) then return nil end
      return ("%s: %s and %s"):format(where, tostring(a), tostring(b))
   end
   for key, value in pairs(a) do
      local found = M.difference(value, b[key], ("%s.%s"):format(where, tostring(key)))
      if found then return found end
   end
   return nil
end

--- Functions that run cases and remember what one device computes.
-- @treturn function from a case to what differs (nil: nothing), why it was refused before the run
--   (nil: it was not), and how many of its stages recompute, of how many
function M.checker()
   local judges = {}
   local function judge(o)
      local key = o.family .. o.micro_batches
      if not judges[key] then
         local own = {}
         for name, value in pairs(o) do own[name] = value end
         own.devices, own.schedule, own.partition, own.stages = "cpu:1", "sequential", "seq", 1
         own.recompute, own.threaded = "never", false
         judges[key] = pipeline.train(own)
      end
      return judges[key]
   end
   return function(case)
      local o = options_of(case)
      local planned, plan = pcall(function()
         if case.recompute == "auto" then o = with_budget(o) end
         return pipeline.plan(o):check()
      end)
      if not planned then
         local status = type(plan) == "table" and plan.status
         if status == "invalid argument" or status == "plan infeasible" then
            return nil, plan.message
         end
         error(plan, 0)
      end
      local recomputed = 0
      for _, flag in ipairs(plan.recompute) do recomputed = recomputed + (flag and 1 or 0) end
      local run, expected = pipeline.train(o), judge(o)
      for _, key in ipairs { "losses", "norms", "params" } do
         local found = #run.losses ~= STEPS and "not all steps were done"
            or M.difference(expected[key], run[key], key)
         if found then return found end
      end
      return nil, nil, recomputed, #plan.recompute
   end
end

return M
