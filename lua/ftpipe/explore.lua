--- Plans of models and of graph files as one thing to look at: what `ftpipe plan` prints.
--
-- A subject is { title =, graph = (weighted), problem =, result = { stage =, device = (by node) },
-- cut = (ft stages), stages =, memory =, seconds = (of a batch), samples_per_second =, idle = (by
-- device), bound = whether it fits }.

local core = require("ftpipe.core")
local compare = require("ftpipe.compare")
local graphs = require("ftpipe.graph")
local partition = require("ftpipe.partition")
local plans = require("ftpipe.plan")
local stages = require("ftpipe.stages")
local units = require("ftpipe.units")
local words = require("ftpipe.words")

local M = {}
local Subject = {}
Subject.__index = Subject

-- Batches that predictions are taken from: the difference of two legs has no warm-up in it.
local SHORT, LONG = 2, 6

--- Seconds of a batch in the long run.
local function steady(play)
   return (play(LONG) - play(SHORT)) / (LONG - SHORT) / 1e9
end

local function idle_of(played)
   local idle = {}
   for d, busy in ipairs(played.busy_ns) do idle[d] = 1 - busy / played.end_ns end
   return idle
end

local function sent_by_stage(cut)
   local sent = {}
   for s = 1, #cut.stages do sent[s] = 0 end
   for _, edge in ipairs(cut.edges) do
      local crosses = cut.stages[edge.from].device ~= cut.stages[edge.to].device
      sent[edge.from] = sent[edge.from] + (crosses and edge.bytes or 0)
      sent[edge.to] = sent[edge.to] + (crosses and edge.grad_bytes or 0)
   end
   return sent
end

--- Stage rows, from the cut and what the schedule keeps in flight.
local function stage_rows(cut, in_flight, names)
   local rows, sent = {}, sent_by_stage(cut)
   for s, stage in ipairs(cut.stages) do
      rows[s] = {
         stage = s, device = names[stage.device] or tostring(stage.device), nodes = stage.nodes,
         first = stage.first, last = stage.last, replicas = stage.replicas,
         forward_ms = stage.forward_ns / 1e6, backward_ms = stage.backward_ns / 1e6,
         in_flight = in_flight[s], parameter_bytes = stage.parameter_bytes, sends_bytes = sent[s],
      }
   end
   return rows
end

-- ---------------------------------------------------------------------------------------------
-- Graph files.

local function file_memory(cut, in_flight, problem, factor)
   local rows = {}
   for d, device in ipairs(problem.devices) do
      rows[d] = {
         budget = device.memory_bytes or 0,
         parts = { parameters = 0, activations = 0, workspace = 0 },
      }
   end
   for s, stage in ipairs(cut.stages) do
      for d = stage.device, stage.device + stage.replicas - 1 do
         local parts = rows[d].parts
         parts.parameters = parts.parameters + stage.parameter_bytes * factor
         parts.activations = parts.activations + stage.saved_bytes * in_flight[s]
         -- stages of one device work one at a time
         parts.workspace = math.max(parts.workspace, stage.again_bytes or 0)
      end
   end
   for _, row in ipairs(rows) do
      row.total = row.parts.parameters + row.parts.activations + row.parts.workspace
   end
   return rows
end

local function all_fit(memory)
   for _, row in ipairs(memory) do
      if row.budget > 0 and row.total > row.budget then return false end
   end
   return true
end

local function device_names(o, problem)
   local names = {}
   for d, device in ipairs(o.devices and core.engine.devices(o.devices) or problem.devices) do
      names[d] = device.name or ("%d (kind %d)"):format(d, device.kind or 1)
   end
   return names
end

-- Bytes that training keeps for a byte of parameters: weights, gradients, and what the optimizer
-- adds (Adafactor's rows and columns are next to nothing).
local MEMORY_FACTORS = { adamw = 4, adafactor = 2, sgd = 2 }

local function plan_file(graph, o, recompute)
   local factor = graph.memory_factor or MEMORY_FACTORS[o.optimizer or "adamw"]
   local problem = graph:problem {
      devices = o.devices, micro_batches = o.micro_batches, in_flight = o.micro_batches,
      flat = o.schedule == "gpipe", memory_factor = factor, recompute = recompute,
   }
   local result = partition(problem, {
      method = o.partition, cost = o.cost, seed = o.seed, blocks = o.stages,
   })
   local cut = stages.of(graph, problem.devices, result)
   local recomputed = {}
   for s = 1, #cut.stages do recomputed[s] = recompute and s < #cut.stages end
   if recompute then stages.recompute(cut) end
   local function play(batches)
      return stages.play(cut, {
         schedule = o.schedule, micro_batches = o.micro_batches, batches = batches,
      })
   end
   local played = play(LONG)
   local seconds = steady(function(batches) return play(batches).end_ns end)
   local names = device_names(o, problem)
   local memory = file_memory(cut, played.in_flight, problem, factor)
   return setmetatable({
      title = tostring(graph), graph = graph, problem = problem, result = result, cut = cut,
      names = names, options = o, method = result.method, fits = all_fit(memory),
      stages = stage_rows(cut, played.in_flight, names), memory = memory, recompute = recomputed,
      seconds = seconds, samples_per_second = o.batch / seconds, idle = idle_of(played),
   }, Subject)
end

--- Plans a graph from a file.
-- @tparam graph graph
-- @tparam table o devices (those of the file when absent), partition, cost, stages, schedule,
--   recompute ("auto": where memory asks for it; "always", else never), optimizer, micro_batches,
--   batch, seed
-- @treturn subject it may be over a budget, see `fits`
function M.file(graph, o)
   if o.recompute ~= "auto" then return plan_file(graph, o, o.recompute == "always") end
   local ok, subject = pcall(plan_file, graph, o, false)
   if ok and subject.fits then return subject end
   if not ok and (type(subject) ~= "table" or subject.status ~= "plan infeasible") then
      error(subject, 0)
   end
   return plan_file(graph, o, true)
end

-- ---------------------------------------------------------------------------------------------
-- Models.

local MEMORY_CLASSES = {
   "weights", "gradients", "optimizer", "versions", "packed", "activations", "workspace", "buffers",
}

local function model_memory(plan)
   local rows = {}
   for d, row in ipairs(plan.memory) do
      local parts = {}
      for _, class in ipairs(MEMORY_CLASSES) do parts[class] = row[class] end
      rows[d] = { total = row.total, budget = plan.devices[d].memory_bytes, parts = parts }
   end
   return rows
end

--- The options of ft.plan for a model that is only looked at.
function M.plan_options(model, o)
   local dropout = model.config.dropout_rate
   return {
      model = model, devices = o.devices, batch = o.batch, micro_batches = o.micro_batches,
      buckets = { o.source }, lengths = { target = o.target }, partition = o.partition,
      stages = o.stages, schedule = o.schedule, recompute = o.recompute, optimizer = o.optimizer,
      hypers = {}, clip = 0, seed = o.seed or 1, dropout = dropout, steps = LONG, batches = LONG,
   }
end

local function by_node(stage, devices)
   local list = {}
   for i, s in ipairs(stage) do list[i] = devices[s] end
   return list
end

--- Plans a model.
-- @tparam model model
-- @tparam table o devices, batch, micro_batches, source, target, partition, stages, schedule,
--   recompute, optimizer
-- @treturn subject .plan; it may be over a budget, see `fits`
function M.model(model, o)
   local plan = plans(M.plan_options(model, o))
   local graph = graphs.of(plan.graphs[#plan.graphs], o.devices)
   graph.title = model.name
   local problem = graph:problem { devices = o.devices, micro_batches = o.micro_batches }
   local in_flight, on, times = {}, {}, plan.blueprint:stages()
   for s, stage in ipairs(times) do in_flight[s], on[s] = stage.in_flight, stage.device end
   local result = {
      stage = plan.partition.stage, device = by_node(plan.partition.stage, on), stage_device = on,
   }
   local cut = stages.of(graph, problem.devices, result)
   for s, stage in ipairs(times) do -- with what is recomputed
      cut.stages[s].forward_ns, cut.stages[s].backward_ns = stage.forward_ns, stage.backward_ns
   end
   local names, memory = {}, model_memory(plan)
   for d, device in ipairs(plan.devices) do names[d] = device.name end
   local seconds = steady(function(batches) return plan.blueprint:simulate(batches).end_ns end)
   return setmetatable({
      title = ("%s, %d x %d source tokens"):format(model.name, o.batch, o.source),
      graph = graph, problem = problem, result = result, cut = cut, names = names, options = o,
      method = plan.partition.name, plan = plan, fits = all_fit(memory), memory = memory,
      stages = stage_rows(cut, in_flight, names), recompute = plan.recompute,
      seconds = seconds, samples_per_second = o.batch / seconds,
      idle = idle_of(plan.blueprint:simulate(LONG)),
   }, Subject)
end

-- ---------------------------------------------------------------------------------------------
-- Words.

local LONGEST_NAME = 28

--- Stage rows as words, the head first.
function Subject:stage_cells()
   local cells = {
      { "stage", "device", "nodes", "forward ms", "backward ms", "in flight", "parameters", "sends",
         "from .. to" },
   }
   for s, row in ipairs(self.stages) do
      local many = row.replicas > 1 and (" x %d"):format(row.replicas) or ""
      cells[s + 1] = {
         tostring(s), row.device .. many, tostring(row.nodes), ("%.2f"):format(row.forward_ms),
         ("%.2f"):format(row.backward_ms), tostring(row.in_flight),
         units.format_bytes(row.parameter_bytes), units.format_bytes(row.sends_bytes),
         ("%s .. %s"):format(words.short(row.first, LONGEST_NAME),
            words.short(row.last, LONGEST_NAME)),
      }
   end
   return cells
end

--- Memory as words, the head first; by class when asked for.
function Subject:memory_cells(by_class)
   local cells = { { "device", "memory", "budget", "idle" } }
   local classes = {}
   for _, class in ipairs(by_class and { "parameters", unpack(MEMORY_CLASSES) } or {}) do
      local most = 0
      for _, row in ipairs(self.memory) do most = math.max(most, row.parts[class] or 0) end
      if most > 0 then classes[#classes + 1], cells[1][#cells[1] + 1] = class, class end
   end
   for d, row in ipairs(self.memory) do
      local line = {
         self.names[d], units.format_bytes(row.total),
         row.budget > 0 and units.format_bytes(row.budget) or "none",
         ("%.0f %%"):format(100 * self.idle[d]),
      }
      for _, class in ipairs(classes) do
         line[#line + 1] = units.format_bytes(row.parts[class] or 0)
      end
      cells[d + 1] = line
   end
   return cells
end

--- What was planned, in a line.
function Subject:headline()
   local o, recomputed = self.options, 0
   for s = 1, #self.stages do recomputed = recomputed + (self.recompute[s] and 1 or 0) end
   return ("%s: partition %s, schedule %s, %d stages on %d devices, %d micro-batches%s"):format(
      self.title, self.method, o.schedule, #self.stages, #self.names, o.micro_batches,
      recomputed > 0 and (", %d stages recomputed"):format(recomputed) or "")
end

--- The prediction, in a line.
function Subject:prediction()
   return ("predicted: %s a batch, %.2f samples/s, %s moved a batch"):format(
      units.format_seconds(self.seconds), self.samples_per_second,
      units.format_bytes(stages.moved_bytes(self.cut) * self.options.micro_batches))
end

--- The whole, as text.
function Subject:text(by_class)
   return table.concat({
      self:headline(), compare.text(self:stage_cells()), compare.text(self:memory_cells(by_class)),
      self:prediction(),
   }, "\n")
end

function Subject:__tostring() return self:text() end

--- The whole, as a table for JSON.
function Subject:data()
   local o, memory = self.options, {}
   for d, row in ipairs(self.memory) do
      memory[d] = {
         device = self.names[d], bytes = row.total, budget_bytes = row.budget,
         idle = self.idle[d], classes = row.parts,
      }
   end
   return {
      title = self.title, partition = self.method, schedule = o.schedule,
      micro_batches = o.micro_batches, batch = o.batch, fits = self.fits,
      seconds_per_batch = self.seconds, samples_per_second = self.samples_per_second,
      moved_bytes = stages.moved_bytes(self.cut) * o.micro_batches,
      stages = core.json.array(self.stages), devices = core.json.array(memory),
      node_stage = core.json.array(self.result.stage),
   }
end

return M
