--- Plans of models and of graph files as one thing to look at: what `ftpipe plan` prints.
--
--    local plan = ft.explore("t5-3b", { devices = "sim:4x11GB", batch = 40, source = 320 })
--    print(plan, plan.seconds, plan.fits)
--
-- A subject is { title =, graph = (weighted), problem =, result = { stage =, device = (by node) },
-- cut = (ft stages), stages =, memory =, seconds = (of a batch), samples_per_second =, played =
-- (a simulation), play = (gives one of so many batches, with its trace when asked for), steady =
-- (gives seconds of a batch, with factors by stage when given), proof =, fits = (whether it is
-- within its budgets) }.

local clusters = require("ftpipe.placement.cluster")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local describe = require("ftpipe.plan.describe")
local explain = require("ftpipe.plan.explain")
local feasible = require("ftpipe.base.feasible")
local graphs = require("ftpipe.graph")
local guard = require("ftpipe.base.guard")
local late = require("ftpipe.schedule.late")
local models = require("ftpipe.model")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local over = require("ftpipe.plan.over")
local page = require("ftpipe.planner.page")
local partition = require("ftpipe.placement.partition")
local placement = require("ftpipe.placement")
local precision = require("ftpipe.trained.precision")
local plans = require("ftpipe.plan")
local playing = require("ftpipe.schedule.played")
local characters = require("ftpipe.schedule.rows")
local divisor = require("ftpipe.base.divisor")
local schedules = require("ftpipe.schedule")
local stages = require("ftpipe.placement.stages")
local swaps = require("ftpipe.plan.swaps")
local staleness = require("ftpipe.schedule.staleness")
local units = require("ftpipe.base.units")
local waits = require("ftpipe.schedule.waits")
local words = require("ftpipe.base.words")

local M = {}
local Subject = {}
Subject.__index = Subject
Subject.__name = "subject"

--- Batches of two legs, see schedule/played.lua; those of a plan's file may not drain.
local function legs(o, n_stages)
   local drains = not o.plan and schedules.is_synchronous(o.schedule)
   return playing.legs(drains, o.micro_batches, n_stages)
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

--- The links that the devices share, where they are described.
local function machine_of(devices)
   local wired = devices and clusters.wired(devices)
   return type(wired) == "table" and wired.machine or nil
end

--- Stage rows, from the cut and what the plan says of each: micro-batches in flight, and updates by
-- which weights are late.
local function stage_rows(cut, planned, names)
   local rows, sent = {}, sent_by_stage(cut)
   for s, stage in ipairs(cut.stages) do
      rows[s] = {
         stage = s, device = names[stage.device] or tostring(stage.device), nodes = stage.nodes,
         first = stage.first, last = stage.last, replicas = stage.replicas,
         forward_ms = stage.forward_ns / 1e6, backward_ms = stage.backward_ns / 1e6,
         in_flight = planned[s].in_flight, least_staleness = planned[s].least_staleness,
         most_staleness = planned[s].most_staleness, parameter_bytes = stage.parameter_bytes,
         mean_staleness = planned[s].mean_staleness, versions = planned[s].versions,
         lags = core.json.array(planned[s].lags),
         sends_bytes = sent[s],
      }
   end
   return rows
end

-- ---------------------------------------------------------------------------------------------
-- Options.

local OPTIONS = options.rules("explore")

--- Options as they are taken here: checked, with those of `ftpipe plan` where they are absent.
-- @tparam string what the function in messages
-- @tparam[opt] table given
-- @local
function M.options(what, given)
   local o = opts.check(what, OPTIONS, given)
   if o.batch % o.micro_batches ~= 0 then
      opts.fail(what, "batch %d is not a multiple of micro_batches %d, give micro_batches = %d",
         o.batch, o.micro_batches, divisor(o.batch, o.micro_batches))
   end
   return o
end

--- Options of one plan, not of a search that tries several schedules.
local function options_of_plan(given)
   local o = M.options("ft.explore", given)
   late.check(o)
   return o
end

-- ---------------------------------------------------------------------------------------------
-- Graph files.

local function file_memory(cut, planned, problem, factor)
   local rows = {}
   for d, device in ipairs(problem.devices) do
      rows[d] = {
         budget = device.memory_bytes or 0,
         parts = { parameters = 0, versions = 0, activations = 0, workspace = 0 },
      }
   end
   for s, stage in ipairs(cut.stages) do
      for d = stage.device, stage.device + stage.replicas - 1 do
         local parts = rows[d].parts
         parts.parameters = parts.parameters + stage.parameter_bytes * factor
         parts.versions = parts.versions + stage.parameter_bytes * (planned[s].versions - 1)
         parts.activations = parts.activations + stage.saved_bytes * planned[s].in_flight
         -- stages of one device work one at a time
         parts.workspace = math.max(parts.workspace, stage.again_bytes or 0)
      end
   end
   for _, row in ipairs(rows) do
      local parts = row.parts
      row.total = parts.parameters + parts.versions + parts.activations + parts.workspace
   end
   return rows
end

local function all_fit(memory) return over.worst(memory) == 0 end

local function device_names(o, problem)
   local names = {}
   for d, device in ipairs(o.devices and core.engine.devices(o.devices) or problem.devices) do
      names[d] = device.name or ("%d (kind %d)"):format(d - 1, device.kind or 1)
   end
   return names
end

--- A partition, which does not depend on the schedule but for how long activations stay.
local function partition_once(problem, o, recompute, known)
   local how = o.partition
   local key = type(how) == "string" and ("%s %s %s %s"):format(how, tostring(o.stages),
      tostring(schedules.is_flat(o.schedule)), tostring(recompute))
   local result = known and known[key] or partition(problem, {
      method = how, cost = o.cost, seed = o.seed, effort = o.effort, blocks = o.stages,
   })
   if known and key then known[key] = result end
   return result
end

--- What a function gives; where it refuses an argument, the message names the file.
local function of_file(graph, f, ...)
   local ok, result = pcall(f, ...)
   if ok then return result end
   if type(result) ~= "table" or result.status ~= "invalid argument" then error(result, 0) end
   return core.fail(result.status, ("%s: %s"):format(graph.path, result.message), result.exit)
end

local function plan_file(graph, o, recompute, known)
   local factor = graph.memory_factor or placement.MEMORY_FACTOR[o.optimizer]
   local problem = graph:problem {
      devices = o.devices, micro_batches = o.micro_batches, in_flight = o.micro_batches,
      flat = schedules.is_flat(o.schedule), memory_factor = factor, recompute = recompute,
   }
   local result = of_file(graph, partition_once, problem, o, recompute, known)
   local cut = stages.of(graph, problem.devices, result)
   local recomputed = {}
   for s = 1, #cut.stages do recomputed[s] = recompute and s < #cut.stages end
   if recompute then stages.recompute(cut) end
   cut.machine = machine_of(o.devices)
   local function play(batches, trace, factors)
      return stages.play(cut, {
         factors = factors,
         schedule = o.schedule, staleness = o.staleness, max_staleness = o.max_staleness,
         micro_batches = o.micro_batches, batches = batches, trace = trace,
      })
   end
   local short, long = legs(o, #cut.stages)
   local played = of_file(graph, play, long)
   local function steady(factors)
      return playing.steady(short, long, function(batches)
         return play(batches, false, factors).end_ns
      end)
   end
   local seconds = steady(nil)
   if seconds == 0 then
      core.fail("malformed data", ("%s: a batch takes no time, expected nodes with forward_ns or "
         .. "backward_ns above 0"):format(graph.path))
   end
   local names = device_names(o, problem)
   local memory = file_memory(cut, played.stages, problem, factor)
   return setmetatable({
      title = tostring(graph), graph = graph, problem = problem, result = result, cut = cut,
      names = names, options = o, method = result.method, fits = all_fit(memory),
      stages = stage_rows(cut, played.stages, names), proof = playing.proof(played.stages),
      memory = memory, recompute = recomputed, seconds = seconds,
      samples_per_second = o.batch / seconds, played = played, play = play, steady = steady,
   }, Subject)
end

--- Plans a graph from a file.
-- @tparam graph graph
-- @tparam[opt] table given devices (those of the file when absent), partition, cost, stages,
--   schedule, recompute, optimizer, micro_batches, batch, seed
-- @tparam[opt] table known partitions of earlier plans of this graph on these devices; gets this
--   one
-- @treturn subject it may be over a budget, see `fits`
function M.file(graph, given, known)
   local o = options_of_plan(given)
   if o.recompute ~= "auto" then return plan_file(graph, o, o.recompute == "always", known) end
   local kept = feasible(plan_file, graph, o, false, known)
   return kept and kept.fits and kept or plan_file(graph, o, true)
end

-- ---------------------------------------------------------------------------------------------
-- Models.

local function model_memory(plan)
   local rows = {}
   for d, row in ipairs(plan.memory) do
      local parts = {}
      for _, class in ipairs(describe.classes) do parts[class] = row[class] end
      rows[d] = { total = row.total, budget = plan.devices[d].memory_bytes, parts = parts }
   end
   return rows
end

--- The options of ft.plan for a model that is only looked at.
-- @local
function M.plan_options(model, o)
   local dropout = model.config.dropout_rate
   local stages_at_most = placement.stages(#core.engine.devices(o.devices), o.stages)
   local _, long = legs(o, stages_at_most)
   local plan_options = copy(o, {
      model = model, buckets = { o.source }, lengths = { target = o.target }, hypers = {}, clip = 0,
      dropout = dropout, steps = long, batches = long,
   })
   plan_options.source, plan_options.target, plan_options.cost = nil, nil, nil
   return plan_options
end

local function by_node(stage, devices)
   local list = {}
   for i, s in ipairs(stage) do list[i] = devices[s] end
   return list
end

--- A model that is given, or what ft.model takes as `model`; a graph, or a graph's file.
-- @local
function M.open(what)
   if type(what) == "string" and core.sys.exists(what) == "file" then return graphs.load(what) end
   if type(what) == "table" and what.nodes then return what end
   if type(what) == "string" then return models.open { model = what } end
   if type(what) == "table" and what.family then return what end
   opts.fail("ft.explore", 'expected a model, its name or directory, as "t5-small", got a %s',
      type(what))
end

--- A plan of a model, with the options that it was made from.
local function of_plan(plan, given)
   local model = plan.options.model
   local o = copy(given, { schedule = plan.options.rule or plan.options.schedule,
      micro_batches = plan.options.micro_batches })
   local graph = graphs.of(plan.graphs[#plan.graphs], o.devices)
   graph.title = model.name
   local problem = graph:problem { devices = o.devices, micro_batches = o.micro_batches }
   local on, replicas, times = {}, {}, plan.blueprint:stages()
   for s, stage in ipairs(times) do on[s], replicas[s] = stage.device, #stage.devices end
   local result = {
      stage = plan.partition.stage, device = by_node(plan.partition.stage, on), stage_device = on,
      stage_replicas = replicas,
   }
   local cut = stages.of(graph, problem.devices, result)
   cut.machine = plan.machine
   for s, stage in ipairs(times) do -- with what is recomputed
      cut.stages[s].forward_ns, cut.stages[s].backward_ns = stage.forward_ns, stage.backward_ns
   end
   local names, memory = column(plan.devices, "name"), model_memory(plan)
   local long = plan.options.batches
   local function play(batches, trace, factors)
      return plan.blueprint:simulate(batches, trace, factors)
   end
   local subject = setmetatable({
      title = ("%s, %d x %d source tokens"):format(model.name, o.batch, o.source),
      graph = graph, problem = problem, result = result, cut = cut, names = names, options = o,
      method = plan.partition.name, plan = plan, fits = all_fit(memory), memory = memory,
      least = not swaps.may(o) and over.least(plan) or nil, unswapped = over.unswapped(plan),
      stages = stage_rows(cut, times, names), proof = playing.proof(times),
      recompute = plan.recompute, played = play(long), play = play,
      steady = function(factors) return explain.seconds(plan, factors) end,
   }, Subject)
   subject.swaps = swaps.lines(plan, subject.played, long)
   subject.swapped_bytes, subject.hidden = swaps.total(plan, subject.played, long)
   subject.seconds = subject.steady(nil)
   subject.samples_per_second = o.batch / subject.seconds
   return subject
end

--- Plans a model.
-- @param what a model, or what ft.model takes as `model`
-- @tparam[opt] table given devices ("cpu"), batch, micro_batches, source, target, partition,
--   stages, schedule, staleness, recompute, optimizer, profile (as of ft.plan), seed
-- @tparam[opt] table placements of earlier plans, see ftpipe.placement
-- @treturn subject .plan; it may be over a budget, see `fits`
function M.model(what, given, placements)
   local o = options_of_plan(given)
   local model = M.open(what)
   o.devices = o.devices or "cpu"
   local plan_options = M.plan_options(model, o)
   plan_options.placements, plan_options.searched = placements, placements ~= nil
   return of_plan(plans(plan_options), o)
end

--- Its plan; what is called on a graph file has none.
local function need_plan(subject, name)
   if subject.plan then return subject.plan end
   opts.fail("subject:" .. name, "%s is a graph from a file: only a model has a plan",
      subject.title)
end

--- Why a node, or everything in a scope, of a model is where it is: as plan:why.
-- @treturn string
function Subject:why(node) return need_plan(self, "why"):why(node) end

--- The same of a model with a node, or everything in a scope, on another device: as plan:move.
-- @treturn subject a new one
function Subject:move(block, device)
   return of_plan(need_plan(self, "move"):move(block, device), self.options)
end

--- Writes the plan of a model as text, which --plan and ft.plan.load read.
-- @tparam string path
function Subject:save(path)
   need_plan(self, "save"):save(path)
   return self
end

--- Seconds of a batch when each stage takes so many times as long.
-- @tparam[opt] table factors numbers, by stage
function Subject:seconds_with(factors)
   for s, factor in pairs(factors or {}) do
      if type(factor) ~= "number" then
         opts.fail("subject:seconds_with", "factor of stage %s: expected a number, got %s",
            tostring(s), type(factor))
      end
   end
   return self.steady(factors)
end

-- ---------------------------------------------------------------------------------------------
-- Words.

local LONGEST_NAME = 28

--- "1 to 2": updates that forwards of a stage are behind, in the long run.
local function late_words(row)
   if row.least_staleness == row.most_staleness then return tostring(row.most_staleness) end
   return ("%d to %d"):format(row.least_staleness, row.most_staleness)
end

--- Stage rows as words, the head first.
function Subject:stage_cells()
   local cells = {
      { "stage", "device", "nodes", "forward ms", "backward ms", "recompute", "in flight", "late",
         "parameters", "sends", "from .. to" },
   }
   for s, row in ipairs(self.stages) do
      local many = row.replicas > 1 and (" x %d"):format(row.replicas) or ""
      cells[s + 1] = {
         tostring(s - 1), row.device .. many, tostring(row.nodes), ("%.2f"):format(row.forward_ms),
         ("%.2f"):format(row.backward_ms), self.recompute[s] and "yes" or "-",
         tostring(row.in_flight), late_words(row),
         units.format_bytes(row.parameter_bytes), units.format_bytes(row.sends_bytes),
         ("%s .. %s"):format(words.short(row.first, LONGEST_NAME),
            words.short(row.last, LONGEST_NAME)),
      }
   end
   return cells
end

--- Memory as words, the head first; by class when asked for.
function Subject:memory_cells(by_class)
   local cells, idle = { { "device", "memory", "budget", "idle" } }, playing.idle(self.played)
   local classes = {}
   for _, class in ipairs(by_class and { "parameters", unpack(describe.classes) } or {}) do
      local most = 0
      for _, row in ipairs(self.memory) do most = math.max(most, row.parts[class] or 0) end
      if most > 0 then classes[#classes + 1], cells[1][#cells[1] + 1] = class, class end
   end
   for d, row in ipairs(self.memory) do
      local line = {
         self.names[d], units.format_bytes(row.total),
         row.budget > 0 and units.format_bytes(row.budget) or "none",
         ("%.0f %%"):format(100 * idle[d]),
      }
      for _, class in ipairs(classes) do
         line[#line + 1] = units.format_bytes(row.parts[class] or 0)
      end
      cells[d + 1] = line
   end
   return cells
end

--- What the devices do with their time, as words, the head first.
function Subject:wait_cells()
   return waits.cells(waits.percent(waits.add(nil, self.played)), self.names)
end

--- What was chosen, in a line.
function Subject:setting()
   local o, recomputed = self.options, 0
   for s = 1, #self.stages do recomputed = recomputed + (self.recompute[s] and 1 or 0) end
   return ("partition %s, schedule %s, %s on %s, %s%s"):format(self.method,
      schedules.name(o.schedule), counted(#self.stages, "stage"), counted(#self.names, "device"),
      counted(o.micro_batches, "micro-batch", "micro-batches"),
      recomputed > 0 and (", %s recomputed"):format(counted(recomputed, "stage")) or "")
end

--- The prediction, in a line.
function Subject:prediction()
   return ("predicted: %s a batch, %.2f samples/s, %s moved a batch"):format(
      units.format_seconds(self.seconds), self.samples_per_second,
      units.format_bytes(stages.moved_bytes(self.cut) * self.options.micro_batches))
end

--- What holds the prediction back, in a line.
function Subject:limits() return playing.limits(self.played, self.cut.machine) end

--- The whole, as text; what does not fit says so first.
function Subject:text(by_class)
   local lines = over.lines(self.memory, self.names, self.least, self.options.optimizer,
      self.unswapped)
   for _, line in ipairs {
      self.title .. ": " .. self:setting(), words.columns(self:stage_cells()),
      words.columns(self:memory_cells(by_class)),
      (self.fits and "proved: " or "proved, were there room: ") .. self.proof,
      self:prediction(), self:limits(), words.columns(self:wait_cells()),
   } do
      lines[#lines + 1] = line
   end
   for _, line in ipairs(self.swaps or {}) do lines[#lines + 1] = line end
   lines[#lines + 1] = staleness.text(self.stages)
   lines[#lines + 1] = self.plan and precision.words(self.plan.options.precision,
      not self.plan.devices[1].executes)
   for _, line in ipairs(self.plan and describe.trained(self.plan) or {}) do
      lines[#lines + 1] = line
   end
   return table.concat(lines, "\n")
end

function Subject:__tostring() return self:text() end

--- The whole, as a table for JSON, where stages are counted from 0 as they are on the screen.
function Subject:data()
   local o, memory, idle = self.options, {}, playing.idle(self.played)
   local rows, node_stage = {}, {}
   for s, row in ipairs(self.stages) do rows[s] = copy(row, { stage = s - 1 }) end
   for i, stage in ipairs(self.result.stage) do node_stage[i] = stage - 1 end
   local link, share = playing.busiest_link(self.played, self.cut.machine)
   for d, row in ipairs(self.memory) do
      memory[d] = {
         device = self.names[d], bytes = row.total, budget_bytes = row.budget,
         idle = idle[d], classes = row.parts,
      }
   end
   return {
      title = self.title, partition = self.method, schedule = schedules.name(o.schedule),
      micro_batches = o.micro_batches, batch = o.batch, fits = self.fits,
      seconds_per_batch = self.seconds, samples_per_second = self.samples_per_second,
      moved_bytes = stages.moved_bytes(self.cut) * o.micro_batches,
      swapped_bytes = self.swapped_bytes, swaps_hidden = self.hidden,
      critical_ns = self.played.critical, busiest_link = link, busiest_share = share,
      shares_percent = core.json.array(waits.percent(waits.add(nil, self.played))),
      stages = core.json.array(rows), devices = core.json.array(memory),
      node_stage = core.json.array(node_stage),
   }
end

--- The data as JSON.
function Subject:json() return core.json.encode(self:data(), { sort = true }) .. "\n" end

--- Writes the graph, coloured by device, as a drawing.
-- @tparam string path
-- @tparam[opt=2] int depth of scopes
function Subject:svg(path, depth)
   core.sys.write_file(path, self.graph:format("svg",
      { result = self.result, names = self.names, depth = depth or 2 }))
   return self
end

--- Writes all that is known of it as a page that needs nothing else.
-- @tparam string path
-- @tparam[opt=2] int depth of scopes, in the drawing
function Subject:html(path, depth)
   core.sys.write_file(path, page.html(self, nil, depth or 2))
   return self
end

--- The first batches in time as a row of characters for each device.
-- @tparam[opt] table o batches (1), columns (of a row; as the terminal is wide), ascii (true: no
--   other characters; as the locale says)
-- @treturn string
function Subject:timeline(o)
   o = opts.check("subject:timeline", characters.options, o)
   local events = core.json.decode(self.play(o.batches, true).trace).traceEvents
   return characters.text(events, self.names, o)
end

M.takes = { ["ft.explore"] = OPTIONS, ["subject:timeline"] = characters.options }

guard("ft.explore", M, {
   file = "graph: graph, given?: table, known?: table",
   model = "what?: any, given?: table, placements?: table",
})
guard("subject", Subject, {
   seconds_with = "factors?: table", stage_cells = "", memory_cells = "by_class?: boolean",
   wait_cells = "", setting = "", prediction = "", limits = "",
   text = "by_class?: boolean", data = "", json = "", svg = "path: string, depth?: int",
   html = "path: string, depth?: int", timeline = "o?: table", why = "node: string|number",
   move = "block: string|number, device: string|number", save = "path: string",
})

--- Plans a model, or a graph: what `model` and `file` do.
-- @param what a model, its name or directory, a graph of ft.graph, or a graph's file
-- @tparam[opt] table o those options that are not as they are below
-- @treturn subject what they give
return setmetatable(M, { __call = function(_, what, o)
   opts.known("ft.explore", OPTIONS, o or {})
   what = M.open(what)
   return (what.nodes and M.file or M.model)(what, o)
end })
