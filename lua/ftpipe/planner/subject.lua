--- What is known of a plan of a model or of a graph file, and the words, tables and pictures of it:
-- what ft.explore gives.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local copy = require("ftpipe.base.copy")
local counted = require("ftpipe.base.counted")
local describe = require("ftpipe.plan.describe")
local guard = require("ftpipe.base.guard")
local opts = require("ftpipe.base.opts")
local over = require("ftpipe.placement.over")
local page = require("ftpipe.planner.page")
local precision = require("ftpipe.trained.precision")
local playing = require("ftpipe.schedule.played")
local characters = require("ftpipe.schedule.rows")
local recompute = require("ftpipe.graph.recompute")
local schedules = require("ftpipe.schedule")
local staleness = require("ftpipe.schedule.staleness")
local swaps = require("ftpipe.plan.swaps")
local units = require("ftpipe.base.units")
local waits = require("ftpipe.schedule.waits")
local words = require("ftpipe.base.words")

local M = {}

local MOST_PLAYED = 2 ^ 24 -- micro-batches of a simulation, each of several events a stage

local Subject = {}
Subject.__index = Subject
Subject.__name = "subject"

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

--- A subject.
-- @tparam table known title, graph, problem, result, cut, names, options, asked (stages at most,
--   where somebody said how many), method, memory, recompute, moved_bytes, played, plays and lasts
--   (functions that `play` and `steady` call); of a model plan and made_of (gives that of another
--   plan), of a graph's file note (a line)
-- @tparam table planned by stage, what the plan says of it
-- @treturn subject
-- @local
function M.new(known, planned)
   known.fits = over.worst(known.memory) == 0
   known.stages = stage_rows(known.cut, planned, known.names)
   known.proof = playing.proof(planned)
   known.seconds = known.lasts(nil)
   known.samples_per_second = known.options.batch / known.seconds
   return setmetatable(known, Subject)
end

-- ---------------------------------------------------------------------------------------------
-- Asking.

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
   return self.made_of(need_plan(self, "move"):move(block, device))
end

--- Writes the plan of a model as text, which --plan and ft.plan.load read.
-- @tparam string path
function Subject:save(path)
   need_plan(self, "save"):save(path)
   return self
end

--- A simulation of the first batches.
-- @tparam int batches 1 or more; of a model at most those that plan:simulate plays
-- @tparam[opt=false] boolean trace whether its .trace is made
-- @treturn table as played:simulate gives it
function Subject:play(batches, trace)
   local most = math.floor(MOST_PLAYED / self.options.micro_batches)
   if batches < 1 or batches > most then
      opts.fail("subject:play", "batches is %g, expected 1 to %d of this many micro-batches",
         batches, most)
   end
   return playing.speak(self.plays(batches, trace or false))
end

--- Seconds of a batch in the long run, as `seconds`, when each stage takes so many times as long.
-- @tparam[opt] table factors numbers, by stage
-- @treturn number
function Subject:steady(factors)
   if not factors then return self.seconds end
   if #factors ~= #self.stages then
      opts.fail("subject:steady", "'factors': expected a number for each of %s, got %d",
         counted(#self.stages, "stage"), #factors)
   end
   for s, factor in ipairs(factors) do
      if type(factor) ~= "number" or not (factor >= 0 and factor < math.huge) then
         opts.fail("subject:steady", "factor of stage %d: expected a number of at least 0, got %s",
            s - 1, class.told(factor))
      end
   end
   return self.lasts(factors)
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
   for _, part in ipairs(by_class and { "parameters", unpack(describe.classes) } or {}) do
      local most = 0
      for _, row in ipairs(self.memory) do most = math.max(most, row.parts[part] or 0) end
      if most > 0 then classes[#classes + 1], cells[1][#cells[1] + 1] = part, part end
   end
   for d, row in ipairs(self.memory) do
      local line = {
         self.names[d], units.format_bytes(row.total),
         row.budget > 0 and units.format_bytes(row.budget) or "none",
         ("%.0f %%"):format(100 * idle[d]),
      }
      for _, part in ipairs(classes) do
         line[#line + 1] = units.format_bytes(row.parts[part] or 0)
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
   local o, recomputed, n = self.options, recompute.count(self.recompute), #self.stages
   local fewer = self.asked and self.asked > n and (" (%d at most)"):format(self.asked) or ""
   return ("partition %s, schedule %s, %s%s on %s, %s%s"):format(self.method,
      schedules.name(o.schedule), counted(n, "stage"), fewer, counted(#self.names, "device"),
      counted(o.micro_batches, "micro-batch", "micro-batches"),
      recomputed > 0 and (", %s recomputed"):format(counted(recomputed, "stage")) or "")
end

--- The prediction, in a line. A graph's file does not say how many samples its micro-batches have.
function Subject:prediction()
   local o = self.options
   local each = self.plan and "" or (" of %g a micro-batch"):format(o.batch / o.micro_batches)
   return ("predicted: %s a batch, %s samples/s%s, %s moved a batch"):format(
      units.format_seconds(self.seconds), units.format_rate(self.samples_per_second), each,
      units.format_bytes(self.moved_bytes))
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
   lines[#lines + 1] = self.plan and describe.budgets(self.plan.devices)
   lines[#lines + 1] = self.plan and self.plan.profile
      and "costs: " .. describe.costs(self.plan, self.options.optimizer)
   for _, line in ipairs(self.swaps or {}) do lines[#lines + 1] = line end
   lines[#lines + 1] = self.plan and swaps.none(self.plan, self.swaps)
   lines[#lines + 1] = staleness.text(self.stages)
   lines[#lines + 1] = self.note
   lines[#lines + 1] = self.plan and precision.words(self.plan.options.precision,
      self.plan.devices[1])
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
      moved_bytes = self.moved_bytes,
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
   local events = core.json.decode(self:play(o.batches, true).trace).traceEvents
   return characters.text(events, self.names, o)
end

M.takes = { ["subject:timeline"] = characters.options }

guard("subject", Subject, {
   play = "batches: int, trace?: boolean", steady = "factors?: table", stage_cells = "",
   memory_cells = "by_class?: boolean",
   wait_cells = "", setting = "", prediction = "", limits = "",
   text = "by_class?: boolean", data = "", json = "", svg = "path: string, depth?: int",
   html = "path: string, depth?: int", timeline = "o?: table", why = "node: string|number",
   move = "block: string|number, device: string|number", save = "path: string",
})

return M
