--- From model and cluster to a plan: graphs, partition, blueprint, prediction.

local adapters = require("ftpipe.model.adapters")
local candidates = require("ftpipe.plan.candidates")
local clusters = require("ftpipe.placement.cluster")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local costs = require("ftpipe.plan.costs")
local describe = require("ftpipe.plan.describe")
local draw = require("ftpipe.plan.draw")
local edit = require("ftpipe.plan.edit")
local evaluate = require("ftpipe.data.evaluate")
local explain = require("ftpipe.plan.explain")
local fit = require("ftpipe.plan.fit")
local givens = require("ftpipe.plan.given")
local groups = require("ftpipe.trained.groups")
local guard = require("ftpipe.base.guard")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local html = require("ftpipe.page.html")
local packing = require("ftpipe.placement.packing")
local packs = require("ftpipe.schedule.packs")
local partitions = require("ftpipe.plan.partition")
local picture = require("ftpipe.plan.picture")
local placement = require("ftpipe.placement")
local over = require("ftpipe.placement.over")
local playing = require("ftpipe.schedule.played")
local recompute = require("ftpipe.graph.recompute")
local remedies = require("ftpipe.plan.remedies")
local precision = require("ftpipe.trained.precision")
local rows = require("ftpipe.schedule.rows")
local settled = require("ftpipe.plan.settled")
local swaps = require("ftpipe.plan.swaps")
local texts = require("ftpipe.schedule.text")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")

local M = {}
local Plan = {}
Plan.__index = Plan
Plan.__name = "plan"

--- The graphs of a plan, one for each bucket, with those of evaluation as `evaluation` and those of
-- forwards of several micro-batches as `joint`.
-- @tparam table o options of a plan
-- @tparam table device of the first kind
local function build_graphs(o, device)
   local joint = packs.together(o)
   local graphs = { evaluation = o.eval_batches and {}, joint = joint > 1 and {} or nil }
   local function training(size)
      local graph = o.model.family.training(o.eval_only and o.model.config
         or adapters.training_config(o.model), size)
      adapters.check(o, o.model, graph)
      groups.freeze(o, graph)
      graph:grad(graph:find("loss"))
      precision.apply(o.precision, graph, device)
      return graph
   end
   for i, source in ipairs(o.buckets) do
      local size = named.like(o, { batch = o.batch / o.micro_batches, source = source })
      size.dropout = o.eval_only and 0 or o.dropout
      for field, length in pairs(o.lengths or {}) do size[field] = length end
      size.grads = false -- until it is known what is trained
      graphs[i] = training(size)
      if graphs.joint then
         graphs.joint[i] = training(copy(size, { batch = joint * size.batch }))
      end
      if graphs.evaluation then
         graphs.evaluation[i] = evaluate.graph(o.model, size)
         precision.apply(o.precision, graphs.evaluation[i], device)
      end
   end
   return graphs
end

--- The plan that is drawn; where its work takes longer, or its values are larger, than a plan can
-- say, the batch is to blame.
local function draw_best(o, graphs)
   local ok, plan = pcall(candidates.best, o, graphs)
   if ok then return plan end
   local message = type(plan) == "table" and plan.status == "invalid argument" and plan.message
      or ""
   local fault = message:match("^cost: (.*)") or message:match("^partition: (.* than 2%^%d+.*)")
   if not fault then error(plan, 0) end
   return usage("%s in %s: %s", named.value(o, "batch", o.batch),
      counted(o.micro_batches, "micro-batch", "micro-batches"), fault)
end

--- The plan of settled options.
local function make(o)
   packing.check_joint(o)
   packing.check(o)
   local devices = core.engine.devices(o.devices)
   precision.check(o, devices)
   local graphs = build_graphs(o, devices[1])
   packing.check_stages(o, graphs[1])
   local profile = costs.profile(o, graphs[#graphs], devices)
   if profile then
      o.costs = (o.eval_only and costs.evaluation or costs.average)(profile, o, graphs)
   end
   if not o.given and not o.placements.tried then
      local cut = o.eval_only and graphs.evaluation or graphs
      partitions.check_stages(cut[#cut], o, swaps.may(o))
   end
   local plan = draw_best(o, graphs)
   swaps.check_dir(plan)
   plan.beside = plan.graphs.evaluation ~= nil
   plan.profile = profile
   plan.scales = precision.scales(o.precision) -- losses, which may skip steps
   plan.groups = groups.texts(o.groups)
   plan.modules = o.model.lora and adapters.modules(o, graphs[1])
   plan.devices_name = clusters.name_of(o.devices)
   plan.only = not devices[1].executes
   return setmetatable(plan, Plan)
end

--- A plan for training.
-- @tparam table given either model, data (as the task loads it, or nil), args (of ft.args), with
--   schedule and partition in place of theirs if they are given; or model, buckets, batches, the
--   options below. schedule: a name, or what ft.schedule gives; partition: a name, a plan file, a
--   list of scopes, or a function
-- @treturn plan with options (what follows from those given, too); devices (rows with name,
--   memory_bytes, ...); partition (stage by forward node, device by stage, name); n_stages; memory
--   (by device: bytes by class, and total); recompute (by stage, whether); graphs (by bucket);
--   sends (by device: bytes of a leg by kind of action); blueprint; profile (where costs were
--   measured); only (it can be looked at but not run: --dry-run, or devices that are not there)
-- @raise invalid argument, plan infeasible; unsupported: a device has no kernel for it
function M.new(given)
   if type(given) ~= "table" then
      opts.fail("ft.plan", "expected a table of options with a model, as { model = "
         .. 'ft.model "t5-small", args = ft.args { preset = "fine_tune" } }')
   end
   local plan, args = make(settled.of(given)), given.args
   plan.only = plan.only or args ~= nil and args.dry_run
   return plan
end

--- A plan of the same options, with what is known of them.
local function keep(plan, drawn)
   for _, key in ipairs { "beside", "only", "profile", "devices_name", "groups", "modules" } do
      drawn[key] = plan[key]
   end
   return setmetatable(drawn, Plan)
end

--- The plan with another partition.
local function redraw(plan, partition)
   local o = plan.options
   if o.given then
      usage("the orders of this plan are given (%s): with other stages they would have to be made "
         .. "anew, give %s instead of %s", o.given.name, named.name(o, "partition"),
         named.name(o, "plan"))
   end
   local drawn = draw.blueprint(o, plan.graphs, partition,
      recompute.flags(o.recompute, #partition.device))
   return keep(plan, swaps.settle(swaps.fit(fit.squeeze(drawn))))
end

--- A plan with other options, as a row of ftpipe.plan.remedies. What was measured for this plan
-- holds as long as micro-batches have the same size; of other sizes costs are modelled, corrected
-- by what was measured. Costs decide where the model is cut, and so what fits. The leg is as long
-- as memory and time of a batch in the long run ask for, as those of `ftpipe plan` are. What moves
-- is not chosen for speed, which takes ten times as long and needs no less memory.
local function try(plan, o, quick, solved)
   local same_work = o.micro_batches == plan.options.micro_batches
   o = copy(o, { profile = "modelled", hasty = true })
   o.calibration = not same_work and plan.profile and plan.profile:calibration() or nil
   if not same_work then o.costs = nil end
   o.plan, o.given, o.placements = nil, nil, { tried = true, solved = solved }
   o.searched = quick or plan.options.searched
   local most_stages = placement.stages(#core.engine.devices(o.devices), o.stages)
   local _, long = playing.legs(o.synchronous, o.micro_batches, most_stages)
   o.batches = math.min(o.batches, long)
   local ok, other = pcall(make, o)
   if not ok then
      if type(other) ~= "table" or other.status == "cancelled" then error(other, 0) end
      return { options = o, problem = other.message }
   end
   local batches = fit.compared(other)
   return {
      options = o, over_bytes = fit.worst_over(other), hasty = other.unmoved ~= nil,
      unswapped = other.unswapped ~= nil,
      seconds = other:simulate(batches).seconds / batches,
   }
end

--- What would make the plan fit, in lines; none of evaluation alone.
function Plan:remedies()
   if self.options.eval_only then return {} end
   local solved = {}
   return remedies.find(function(o, quick) return try(self, o, quick, solved) end, self.options,
      fit.worst_over(self))
end

--- Raises `plan infeasible` when a device is over its budget, with what would help; else gives the
-- plan back.
function Plan:check()
   local ok, problem = pcall(self.blueprint.check_memory, self.blueprint)
   if ok then return self end
   if fit.worst_over(self) == 0 then error(problem, 0) end
   local why = self.unswapped and "; " .. over.unswapped(self) or ""
   core.fail(problem.status, problem.message .. why .. "; " .. remedies.words(self:remedies()))
end

--- Refuses a swap directory that is not there, or not to be written to.
-- @raise invalid argument
-- @local
function Plan:check_swap_dir() swaps.check_there(self.options) end

--- What a step takes at least where its swap directory is slower than the rest of it, in a line;
-- nil where it is not.
-- @tparam number rate bytes per second of the directory; 0: there is none
-- @local
function Plan:slow_disk(rate) return swaps.slow_disk(self, rate) end

--- Where a stage begins and ends, for people: "encoder/block.0 .. decoder/block.1".
function Plan:span(stage)
   local n_stages = #self.blueprint:stages()
   if stage < 1 or stage > n_stages then
      opts.fail("plan:span", "'stage': expected one from 1 to %d, got %d", n_stages, stage)
   end
   local graph, first, last = self.graphs[#self.graphs], nil, nil
   for n, s in ipairs(self.partition.stage) do
      if s == stage then
         first = first or graph:node(n).scope
         last = graph:node(n).scope
      end
   end
   return ("%s .. %s"):format(first, last)
end

local Prediction = {}

function Prediction:__tostring()
   local said = ("%s samples/s in a leg of %s, idle %s"):format(
      units.format_rate(self.samples_per_second), counted(self.batches, "batch", "batches"),
      playing.percents(self.bubble))
   local lines = { said, self.limits, unpack(self.swaps) }
   return table.concat(lines, "\n")
end

--- Plays a leg of `batches` batches, with its warm-up and drain, against modelled costs; transfers
-- of described devices share links. A leg is at most as long as the plan's: `steps` and `batches`
-- of ft.plan, some warm-ups for a plan to look at.
-- @tparam int batches
-- @tparam[opt=false] boolean trace
-- @treturn table seconds, batches, samples_per_second, bubble (by device, 0..1), limits (what holds
--   it back, in words), swaps (lines: what moves between devices and host memory, and what that
--   costs), stalls (by device, ns by the kind of action that computing waited for), trace when
--   asked for; with a tostring
function Plan:simulate(batches, trace)
   local played = self.blueprint:simulate(batches, trace)
   local seconds = played.end_ns / 1e9
   return setmetatable({
      seconds = seconds, batches = batches,
      samples_per_second = batches * self.options.batch / seconds,
      bubble = playing.idle(played),
      limits = playing.limits(played, self.machine),
      stalls = played.stalls, swaps = swaps.lines(self, played, batches), trace = played.trace,
   }, Prediction)
end

--- Writes the first batches in time.
-- @tparam string path of a drawing (.svg), or of a trace for Perfetto (.json)
-- @tparam[opt=2] int batches
function Plan:draw(path, batches)
   local form = path:match("%.(%l+)$")
   if form ~= "svg" and form ~= "json" then
      usage("plan:draw: %s is neither .svg nor .json", path)
   end
   local svg, trace = picture.timeline(self, batches or 2)
   core.sys.write_file(path, form == "svg" and svg or trace)
   return self
end

--- Writes the first batches in time as a drawing.
-- @tparam string path
-- @tparam[opt=2] int batches
function Plan:svg(path, batches)
   core.sys.write_file(path, (picture.timeline(self, batches or 2)))
   return self
end

--- Writes what it says, its memory and its first batches in time as a page that needs nothing else.
-- @tparam string path
-- @tparam[opt=2] int batches
function Plan:html(path, batches)
   local shown = { picture.memory(self), (picture.timeline(self, batches or 2)) }
   core.sys.write_file(path, html.of(tostring(self), shown))
   return self
end

--- Its stages, the memory of its devices and what is predicted, as JSON; the whole is its text.
function Plan:json() return core.json.encode(picture.data(self), { sort = true }) .. "\n" end

--- The first batches in time as a row of characters for each device.
-- @tparam[opt] table o batches (1), columns (of a row; as the terminal is wide), ascii (true: no
--   other characters; as the locale says)
-- @treturn string
function Plan:timeline(o)
   o = opts.check("plan:timeline", rows.options, o)
   local trace = core.json.decode(self.blueprint:simulate(o.batches, true).trace)
   return rows.text(trace.traceEvents, column(self.devices, "name"), o)
end

--- Planned bytes of every device.
function Plan:memory_bytes() return column(self.memory, "total") end

--- The plan's text, as in plan.txt.
function Plan:text() return self.blueprint:plan_text() end

--- The text of the plan of evaluation, as in plan-evaluate.txt; nil when that is the plan itself,
-- or there is none.
function Plan:evaluation_text()
   return self.beside and self.blueprint:plan_text(true) or nil
end

function Plan:__tostring() return describe.text(self) end

--- Why a forward node (its number) or everything in a scope is where it is: what the plan would be
-- with it on each device.
-- @treturn string
function Plan:why(node) return explain.why(self, node) end

--- How another plan of the same model differs.
-- @treturn table list of lines with a tostring
function Plan:diff(other) return explain.diff(self, other) end

--- The plan with a node, or everything in a scope, on another device (its number or name). Stages
-- are cut before and behind it, and neighbours on one device become one; recomputation is chosen
-- anew.
-- @treturn plan a new one
function Plan:move(block, device)
   local set = edit.find(self, block)
   return redraw(self, edit.partition(self, set, edit.device(self, device)))
end

--- The plan with other words in its text, as edit of plans by themselves: slots, orders, the stages
-- of nodes and what else it says, checked, for the same model.
-- @tparam table|function changes
-- @treturn plan a new one
function Plan:edit(changes)
   local edited = texts.edit(core.schedule.parse(self:text()), changes)
   local o = givens.decide(self.options, givens.open(edited))
   return keep(self, candidates.given(o, self.graphs))
end

--- Writes the plan as text, which --partition and ft.plan.load read.
-- @function plan:save
-- @tparam string path
Plan.save = texts.save

--- The order of work of a plan by itself, from a file, checked.
-- @function ft.plan.load
-- @tparam string path
-- @treturn played
M.load = texts.load

--- The same from its text.
-- @function ft.plan.parse
-- @tparam string text
-- @treturn played
M.parse = texts.parse

--- The same from a table, as `examples/my_schedule.lua` writes one.
-- @function ft.plan.of
-- @tparam table o
-- @treturn played
M.of = texts.of

M.takes = { ["ft.plan"] = settled.rules, ["plan:timeline"] = rows.options }

guard("plan", Plan, {
   remedies = "", check = "", span = "stage: int", simulate = "batches: int, trace?: boolean",
   draw = "path: string, batches?: int", svg = "path: string, batches?: int",
   html = "path: string, batches?: int", json = "", timeline = "o?: table", memory_bytes = "",
   text = "", evaluation_text = "",
   why = "node: string|number", diff = "other: plan", move = "block: string|number, "
      .. "device: string|number", edit = "changes: table|function", save = "path: string",
})
guard("ft.plan", M, { load = "path: string", parse = "text: string", of = "o: table" })

return setmetatable(M, { __call = function(_, o) return M.new(o) end })
