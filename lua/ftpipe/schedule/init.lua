--- Schedules: the order in which every stage works, and plans of them by themselves.
--
--    local eager = ft.schedule {
--       name = "eager",
--       next = function(state) return state.forwards - state.backwards < 4 and "F" or "B" end,
--    }
--    print(ft.plan { model = model, args = args, schedule = eager })
--
-- A rule sees one stage in a leg that never ends: depth (0 is the last stage), height (0 is the
-- first), micro_batches per update, and how many forwards, backwards and weights (backward-weights)
-- are done. It says what comes next: "F" or "B", or, when it `splits`, "F", "I" or "G".

local class = require("ftpipe.base.class")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local guard = require("ftpipe.base.guard")
local opts = require("ftpipe.base.opts")
local playing = require("ftpipe.schedule.played")
local rows = require("ftpipe.schedule.rows")
local texts = require("ftpipe.schedule.text")
local timeline = require("ftpipe.schedule.timeline")

local M = {}

local MOST_DEVICES = 2 ^ 15 - 1 -- of a plan that is only played

local rule_options = {
   name = { type = "string", default = "custom", help = "letters, digits, '-', '_' and '.'" },
   doc = { type = "string", help = "one line for people" },
   next = { type = "function", required = true, help = "from state to letter" },
   synchronous = { type = "boolean", default = false, help = "every batch is drained" },
   splits = { type = "boolean", default = false, help = "backwards come in halves" },
}

--- A schedule from a rule in Lua.
-- @tparam table o name, next, synchronous (false), splits (false), doc
-- @treturn table what ft.plan and ft.schedule.play take as `schedule`
function M.rule(o)
   return opts.check("schedule", rule_options, o)
end

--- The schedules of the program: { name =, doc = (one line), weights = ("own", or which it reads
-- when they are late), synchronous =, splits =, interleaves =, groups =, folds =, replicates =,
-- flat = (every stage holds all micro-batches of a batch), serial = (one is under way at a time) }.
function M.list() return core.schedule.list() end

--- The name of a schedule (a name, or a rule).
function M.name(schedule) return type(schedule) == "table" and schedule.name or schedule end

--- What a schedule (a name, or a rule) says of itself.
local function row_of(schedule)
   if type(schedule) == "table" then return schedule end
   for _, row in ipairs(core.schedule.list()) do
      if row.name == schedule then return row end
   end
   return { synchronous = true, weights = "own" } -- that of evaluation
end

--- Whether every batch of the schedule (a name, or a rule) ends before the next one begins.
function M.is_synchronous(schedule) return row_of(schedule).synchronous or false end

--- Whether its backwards come in halves.
function M.splits(schedule) return row_of(schedule).splits or false end

--- Whether a --staleness may be chosen for it: it does not drain, and has no way of its own with
-- weights that are late.
function M.may_be_stale(schedule)
   return not M.is_synchronous(schedule) and (row_of(schedule).weights or "own") == "own"
end

--- Which weights are read when: the row of core.schedule.weights, by the schedule's own way or by
-- --staleness.
function M.way(schedule, staleness)
   local own = row_of(schedule).weights or "own"
   local name = own ~= "own" and own or staleness or "none"
   for _, way in ipairs(core.schedule.weights()) do
      if way.name == name then return way end
   end
end

--- Whether stages of a device take turns, s, s + P, s + 2P ... on device s.
function M.interleaves(schedule) return row_of(schedule).interleaves or false end

--- Whether stages go down the devices and up again, two on each.
function M.folds(schedule) return row_of(schedule).folds or false end

--- Whether the schedule says on which device a stage is.
function M.places(schedule) return M.interleaves(schedule) or M.folds(schedule) end

--- The device of a stage of a schedule's: in turns, or down and up again.
-- @tparam string|table schedule
-- @tparam int stage
-- @tparam int n_devices
-- @tparam[opt=1] int run stages that a device gets at each turn
function M.device_of(schedule, stage, n_devices, run)
   if M.folds(schedule) and stage > n_devices then return math.max(1, 2 * n_devices + 1 - stage) end
   return math.floor((stage - 1) / (run or 1)) % n_devices + 1
end

--- Whether a device takes all micro-batches of a batch through one of its stages, then the next.
function M.groups(schedule) return row_of(schedule).groups or false end

--- Whether it is for stages with replicas alone: every device has the whole model.
function M.replicates(schedule) return row_of(schedule).replicates or false end

--- Whether every stage holds all micro-batches of a batch.
function M.is_flat(schedule) return row_of(schedule).flat or false end

--- Forward edges from each stage to the next, and backward ones.
local function chain(n, bytes, slots, kind)
   local edges = {}
   for s = 1, n - 1 do
      edges[#edges + 1] = { from = s, to = s + 1, bytes = bytes, slots = slots }
      edges[#edges + 1] = { from = s + 1, to = s, kind = kind, bytes = bytes, slots = slots }
   end
   return edges
end

-- An edge of `play`.
local EDGE = {
   from = { type = "int", min = 1, required = true, help = "stage, from 1 on" },
   to = { type = "int", min = 1, required = true, help = "stage, from 1 on" },
   kind = { type = "string" }, to_kind = { type = "string" },
   bytes = { type = "int", min = 0 }, slots = { type = "int", min = 1 },
}

--- Refuses edges between stages that are not there.
local function check_edges(edges, n_stages)
   for i, edge in ipairs(edges or {}) do
      local what = ("ft.schedule.play: edge %d"):format(i)
      edge = opts.check(what, EDGE, edge)
      for _, name in ipairs { "from", "to" } do
         if edge[name] > n_stages then
            opts.fail(what, "'%s' is stage %d, expected 1 to %d", name, edge[name], n_stages)
         end
      end
   end
end

--- Devices of all stages in one list, and how many each has.
local function flatten(stages)
   local device, replicas, most = {}, {}, 0
   for s, stage in ipairs(stages) do
      local list = type(stage.device) == "table" and stage.device or { stage.device or s }
      replicas[s] = #list
      if #list == 0 then
         opts.fail(("ft.schedule.play: stage %d"):format(s), "'device': expected one at least")
      end
      for _, d in ipairs(list) do
         if not class.is(d, "int") or d < 1 or d > MOST_DEVICES then
            opts.fail(("ft.schedule.play: stage %d"):format(s),
               "'device': expected a number from 1 to %d, or a list of them, got %s", MOST_DEVICES,
               class.quoted(d))
         end
         device[#device + 1] = d
         most = math.max(most, d)
      end
   end
   return device, replicas, most
end

local COSTS = {
   "forward_ns", "backward_ns", "reduce_ns", "update_ns", "adopt_ns", "backward_input_ns",
   "backward_weight_ns", "recompute_ns", "predict_ns", "attenuate_ns", "all_reduce_ns",
   "exchange_ns",
}

-- What a stage of `play` may say.
local STAGE = { device = { type = "any" } }
for _, key in ipairs(COSTS) do STAGE[key] = { type = "number", min = 0 } end

--- Stages with what follows of a backward: equal halves, or what one of them leaves; of halves
-- alone the whole.
local function with_halves(stages)
   local list = {}
   for s, stage in ipairs(stages) do
      stage = opts.check(("ft.schedule.play: stage %d"):format(s), STAGE, stage)
      local whole, input, weight = stage.backward_ns, stage.backward_input_ns,
         stage.backward_weight_ns
      if whole then
         input = input or math.max(0, whole - (weight or whole / 2))
         weight = weight or math.max(0, whole - input)
      end
      list[s] = copy(stage, {
         backward_ns = whole or (input or 0) + (weight or 0), backward_input_ns = input,
         backward_weight_ns = weight,
      })
   end
   return list
end

--- Costs of the stages as lists, zero where a stage names none.
local function add_costs(o, stages)
   for _, key in ipairs(COSTS) do
      local list = {}
      for s, stage in ipairs(stages) do list[s] = stage[key] or 0 end
      o[key] = list
   end
   return o
end

local TIMELINE = { columns = rows.options.columns, ascii = rows.options.ascii }

local Played = {}
Played.__index = Played
Played.__name = "played"

function Played:__tostring() return tostring(self.plan) end

--- The plan's text.
function Played:text() return self.plan:text() end

--- What the plan says of its stages: devices, depth, in_flight, versions, staleness.
function Played:describe() return self.plan:describe() end

--- "FFBFBB": forwards and backwards of a stage in their order.
function Played:letters(stage)
   if stage < 1 or stage > #self.stages then
      opts.fail("played:letters", "'stage': expected one from 1 to %d, got %d", #self.stages, stage)
   end
   return self.plan:letters(stage)
end

--- Plays the plan against the costs of its stages.
-- @tparam[opt] table o machine (as a cluster has it: the links that devices share; else a transfer
--   waits for no other), delay_ns (by which an action takes longer at most, by chance of `seed`),
--   trace (true: with the trace and the memory); and costs by stage in place of those of the
--   stages, such as forward_ns
-- @treturn table with a tostring: end_ns; events (how many); by device busy_ns, waits (ns that it
--   stood idle, by what for: between, batches, data, slots, copies, replicas, over; edges = rows
--   { name = "F0>F1", data =, slots = }), stalls (ns, by the kind of action that it waited for) and
--   copies (by class: bytes_in and bytes_out of host memory, ns, and exposed_ns, in which computing
--   waited); critical (ns by kind on the critical path, its `events`); link_ns (by link of the
--   machine, of its busier direction); staleness (by stage { least, most }, in updates); with
--   `trace` also trace (JSON for Perfetto) and memory (by device: peak in bytes, points = {
--   { ns, bytes } }, is_all: also of what stays)
-- @raise invalid argument: a cost, or the machine, is none
function Played:simulate(o)
   local all = copy(add_costs({}, self.stages), o)
   return playing.speak(self.plan:simulate(all), all.machine)
end

--- What the devices do, by the costs of the stages, which say nothing of bytes; and their names.
local function traced(self)
   local played, names = self:simulate { trace = true }, {}
   for d = 1, #played.busy_ns do names[d] = ("device %d"):format(d - 1) end
   played.memory = nil
   return played, names
end

--- All batches in time as a row of characters for each device.
-- @tparam[opt] table o columns (of a row; as the terminal is wide), ascii (true: no other
--   characters; as the locale says)
-- @treturn string
function Played:timeline(o)
   o = opts.check("played:timeline", TIMELINE, o)
   local played, names = traced(self)
   return rows.text(core.json.decode(played.trace).traceEvents, names, o)
end

--- Writes all batches in time as a drawing.
-- @tparam string path
function Played:svg(path)
   local played, names = traced(self)
   if played.end_ns == 0 then
      opts.fail("played:svg", "no stage has a cost (forward_ns, backward_ns): nothing takes time")
   end
   core.sys.write_file(path, timeline.svg(played, names))
   return self
end

--- The same with its timeline.
function Played:__shown() return tostring(self) .. "\n" .. self:timeline() end

local PLAY = {
   stages = { type = "table", required = true, help = "each { device =, forward_ns = }" },
   micro_batches = { type = "int", min = 1, required = true },
   batches = { type = "int", min = 1, required = true },
   schedule = { type = "string|table", required = true, choices = column(M.list(), "name") },
   staleness = { type = "string" },
   max_staleness = { type = "int", min = 0 },
   devices = { type = "int", min = 1 }, edges = { type = "table" },
   bytes = { type = "number", min = 0 }, slots = { type = "int", min = 1 },
   reduces = { type = "any" }, replica_rule = { type = "any" },
}

--- Plays a schedule over stages that are given by their costs alone.
-- @tparam table o stages (each { device = a number or a list, forward_ns =, backward_ns =, ... };
--   halves of a backward are equal where neither backward_input_ns nor backward_weight_ns is said),
--   micro_batches, batches, schedule, staleness, max_staleness, and either edges or bytes and slots
--   of a chain;
--   reduces, replica_rule
-- @treturn table plan with text, describe, letters and simulate
function M.play(o)
   o = opts.check("ft.schedule.play", PLAY, o)
   if #o.stages == 0 then opts.fail("ft.schedule.play", "'stages': expected at least one") end
   local stages = with_halves(o.stages)
   local device, replicas, most = flatten(stages)
   check_edges(o.edges, #stages)
   if o.devices and o.devices < most then
      opts.fail("ft.schedule.play", "'devices' is %d, and stages are on %d", o.devices, most)
   end
   require("ftpipe.schedule.late").check(o)
   local kind = M.splits(o.schedule) and "I" or "B"
   local plan = core.schedule.make(add_costs({
      replicas = replicas, device = device, devices = math.max(most, o.devices or 0),
      micro_batches = o.micro_batches, batches = o.batches, reduces = o.reduces,
      edges = o.edges or chain(#stages, o.bytes or 0, o.slots or 2, kind),
      schedule = o.schedule, staleness = o.staleness, max_staleness = o.max_staleness,
      replica_rule = o.replica_rule,
   }, stages))
   return setmetatable({ plan = plan, stages = stages }, Played)
end

--- Whether the engine executes what the schedule makes, with the weights that --staleness asks for;
-- what it does not can be planned and simulated. The engine is asked, with a small plan.
function M.runs(schedule, staleness)
   local row = row_of(schedule)
   local devices = row.replicates and { { 1, 2 } } or row.interleaves and { 1, 2, 1, 2 }
      or row.folds and { 1, 2, 2, 1 } or { 1, 2 }
   local stages = {}
   for s, device in ipairs(devices) do
      stages[s] = { device = device, forward_ns = 1, backward_ns = 2 }
   end
   local made, played = pcall(M.play, {
      stages = stages, micro_batches = 4, batches = 4, slots = 4, schedule = schedule,
      staleness = staleness,
   })
   if not made then return true end -- the plan that is wanted says what is wrong
   return (core.engine.runs(played.plan))
end

--- Raises what a schedule has against stages in the order of the model, by their devices.
-- @local
function M.check_turns(schedule, places, micro_batches)
   local stages = {}
   for s, place in ipairs(places) do stages[s] = { device = place } end
   M.play { stages = stages, micro_batches = micro_batches, batches = 1, schedule = schedule }
end

M.takes = { ["ft.schedule.play"] = PLAY, ["played:timeline"] = TIMELINE }

guard("ft.schedule", M, {
   list = "", is_synchronous = "schedule: string|table", splits = "schedule: string|table",
   may_be_stale = "schedule: string|table", way = "schedule: string|table, staleness?: string",
   interleaves = "schedule: string|table",
   groups = "schedule: string|table", folds = "schedule: string|table",
   places = "schedule: string|table", replicates = "schedule: string|table",
   device_of = "schedule: string|table, stage: int, n_devices: int, run?: int",
   is_flat = "schedule: string|table", runs = "schedule: string|table, staleness?: string",
})
guard("played", Played, {
   text = "", describe = "", letters = "stage: int", simulate = "o?: table",
   timeline = "o?: table", svg = "path: string",
})

-- Plans from text and files, checked.
--- A plan's order of work from its text: ft.plan.parse.
-- @function ft.schedule.parse
-- @tparam string text
M.parse = texts.parse

--- The same from a file: ft.plan.load.
-- @function ft.schedule.load
-- @tparam string path
M.load = texts.load

return setmetatable(M, { __call = function(_, o) return M.rule(o) end })
