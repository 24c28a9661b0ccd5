--- From model and cluster to a plan: graphs, partition, blueprint, prediction.

local adapters = require("ftpipe.model.adapters")
local arguments = require("ftpipe.plan.arguments")
local arrange = require("ftpipe.plan.arrange")
local clusters = require("ftpipe.placement.cluster")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local costs = require("ftpipe.plan.costs")
local describe = require("ftpipe.plan.describe")
local divisor = require("ftpipe.base.divisor")
local draw = require("ftpipe.plan.draw")
local edit = require("ftpipe.plan.edit")
local evaluate = require("ftpipe.data.evaluate")
local evaluation = require("ftpipe.plan.evaluation")
local explain = require("ftpipe.plan.explain")
local fit = require("ftpipe.plan.fit")
local givens = require("ftpipe.plan.given")
local groups = require("ftpipe.plan.groups")
local late = require("ftpipe.schedule.late")
local links = require("ftpipe.placement.links")
local guard = require("ftpipe.base.guard")
local named = require("ftpipe.base.named")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local html = require("ftpipe.page.html")
local packing = require("ftpipe.placement.packing")
local packs = require("ftpipe.schedule.packs")
local picture = require("ftpipe.plan.picture")
local placement = require("ftpipe.placement")
local over = require("ftpipe.plan.over")
local playing = require("ftpipe.schedule.played")
local rates = require("ftpipe.plan.rate")
local remedies = require("ftpipe.plan.remedies")
local replicas = require("ftpipe.placement.replicas")
local precision = require("ftpipe.plan.precision")
local rows = require("ftpipe.schedule.rows")
local schedules = require("ftpipe.schedule")
local partitions = require("ftpipe.plan.partition")
local swaps = require("ftpipe.plan.swaps")
local texts = require("ftpipe.schedule.text")
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

--- The plan with devices that are alike changed about, where that makes it faster.
local function with_good_links(plan)
   local o, devices = plan.options, arrange.devices(plan)
   if not devices then return plan end
   local partition = copy(plan.partition)
   partition.device = devices
   local other = draw.blueprint(o, plan.graphs, partition, plan.recompute)
   local batches = math.min(o.batches, fit.COMPARED)
   local ns, before = other.blueprint:simulate(batches).end_ns,
      plan.blueprint:simulate(batches).end_ns
   return ns < before and other or plan
end

--- By time alone, and as it fits.
local function draw_once(o, graphs, partition)
   partition = partition or partitions.of(graphs[#graphs], o)
   local flags = draw.recompute_flags(o.recompute, partitions.count(partition.stage))
   local first = draw.blueprint(o, graphs, partition, flags)
   return first, fit.fit(first)
end

--- Whether all devices do forwards alone, then backwards alone, and nobody says with which stages.
local function has_phases(o)
   local schedule = o.rule or o.schedule
   return schedules.is_flat(schedule) and not schedules.groups(schedule) and not o.searched
      and type(o.partition) == "string" and placement.is(o.partition)
      and not partitions.has_places(o)
end

--- The plan to train by, and others that may be faster: where swaps may make room as well as
-- recomputation does, those cut for time alone, and for memory alone; where devices have good links
-- but their neighbours in the pipeline are behind worse ones, those cut for these; where all
-- forwards of a batch stand before its backwards, those cut for one of the two: each takes as long
-- as its slowest device, wherever the other is.
local function draw_training(o, graphs)
   local first, plan = draw_once(o, graphs)
   local others = {}
   if swaps.mode(o).over and plan ~= first then others = { first, fit.balanced(first) } end
   local slower = placement.is(o.partition) and clusters.neighbour_rates(o.devices)
   if slower then
      local own = copy(o, { link_rates = slower })
      local partition = partitions.of(graphs[#graphs], own)
      local same = fit.worst_over(first) == 0 and partitions.are_same(partition, first.partition)
      others[#others + 1] = not same and select(2, draw_once(own, graphs, partition)) or nil
   end
   for _, phase in ipairs(has_phases(o) and { "forward", "backward" } or {}) do
      others[#others + 1] = select(2, draw_once(copy(o, { phase = phase }), graphs))
   end
   return plan, others
end

--- What a plan that is there already means for the graphs.
local function draw_given(o, graphs)
   local own = o.eval_only and graphs.evaluation or graphs
   local partition, flags = givens.partition(o.given, own[1])
   return draw.blueprint(o.eval_only and copy(o, { clip = 0 }) or o, own, partition, flags)
end

-- Options of a plan besides those of options.lua.
local RULES = copy(options.rules("plan"), {
   model = { type = "model", required = true,
      help = 'what ft.model gives, as ft.model "t5-small"' },
   buckets = { type = "table", items = "int", help = "lengths of a source, ascending" },
   lengths = { type = "table", help = "of other fields, by name: { target = 8 }" },
   batches = { type = "int", min = 1, help = "of the longest leg" },
   hypers = { type = "table", help = "of the optimizer, by name" },
   eval_batches = { type = "int", min = 1, help = "of the longest evaluation; none when absent" },
   train = { type = "any", help = "a data set, for how often its lengths are" },
   evaluated = { type = "any", help = "the data set of eval_only, for its lengths" },
   shares = { type = "table", items = "number",
      help = "of batches by bucket; all in the last one when absent" },
   placements = { type = "table", help = "of earlier plans, see ftpipe.placement" },
   searched = { type = "boolean", default = false,
      help = "one of many that are compared: it is not compared with other cuts, nor --recompute "
         .. "auto with other rules" },
})

-- The same when they follow from a recipe's flags and data.
local OF_RECIPES = {
   model = RULES.model,
   args = { type = "table", required = true, help = "what ft.args gives" },
   data = { type = "any", help = "what the task has loaded" },
   schedule = { type = "string|table", help = "in place of --schedule, as in ft.plan" },
   partition = { type = "any", help = "in place of --partition, as in ft.plan" },
   groups = { type = "string|table", help = "in place of --groups, as in ft.plan" },
}

--- The options of a plan from what is given: those themselves, or flags and data of a recipe.
local function options_of(given)
   if given.args then
      local o = opts.check("ft.plan", OF_RECIPES, given)
      for _, name in ipairs(o.args.plan and { "schedule", "partition" } or {}) do
         if o[name] then usage.of(o.args, "{plan} decides what %s says, leave one out", name) end
      end
      local args = copy(o.args, {
         schedule = o.schedule, partition = o.partition, groups = o.groups,
      })
      return arguments.of(o.model, o.data, args), args
   end
   return opts.check("ft.plan", RULES, given)
end

--- Refuses, before anything is measured, stages that a schedule which places them cannot have.
local function check_turns(o)
   local schedule, how = o.rule or o.schedule, o.partition
   if o.given or o.eval_only or not schedules.places(schedule) or not placement.is(how) then
      return
   end
   if type(how) == "string" and not placement.is_in_order(how) then
      usage("%s needs %s, whose stages are in the order of the model; %s puts them on any device",
         named.value(o, "schedule", o.schedule), named.value(o, "partition", "seq"),
         named.value(o, "partition", how))
   end
   local n_devices = #core.engine.devices(o.devices)
   local n_groups = o.replicas and #replicas.of(o) or n_devices
   if schedules.folds(schedule) then o.stages = o.stages or 2 * n_groups end
   schedules.check_turns(schedule, o.replicas and select(2, replicas.of(o))
      or partitions.place(o, o.stages or n_devices, n_devices), o.micro_batches)
end

--- Refuses --look-ahead where there is nothing that it could decide.
local function check_look_ahead(o)
   if not o.look_ahead then return end
   if o.synchronous then
      usage.of(o, "{look_ahead} is for weights that are late; {schedule=%s} drains, its are never "
         .. "late", o.schedule)
   elseif not core.engine.looks_ahead(o) then
      usage.of(o, "{look_ahead} goes by an optimizer's momentum; {optimizer=%s} has none",
         o.optimizer)
   elseif o.staleness or not schedules.may_be_stale(o.rule or o.schedule) then
      local name = o.staleness and "staleness" or "schedule"
      usage("%s is for the newest weights; %s says itself which weights it reads",
         named.name(o, "look_ahead"), named.value(o, name, o[name]))
   end
end

-- What --update may say. A stage updates `when`: "device", at once behind its backwards, or "end",
-- when the gradients of all stages are there; nil: as the schedule does. Of what moves, `place` is
-- where: "device", "host", or "auto" for what is faster.
local UPDATES = {
   auto = { place = "auto" },
   device = { when = "device", place = "device" },
   ["end"] = { when = "end", place = "device" },
   host = { place = "host" },
}

--- Refuses a directory of swaps where nothing can lie there.
local function check_swap_dir(o, at_home)
   if o.swap_dir == "" then
      usage("%s: expected a directory", named.value(o, "swap_dir", ""))
   elseif not swaps.may(o) then
      usage.of(o, "{swap_dir=%s} is for state that moves: expected {swap=auto}", o.swap_dir)
   elseif at_home then
      usage.of(o, "{update=host} works in host memory, and with {swap_dir} the state is on disk: "
         .. "leave one out")
   end
end

--- Decides `update` and `update_place`, columns of UPDATES. Clipping by the norm of all gradients
-- needs those of all stages.
local function settle_update(o)
   if o.plan or o.given then return end -- as it is there
   local how = UPDATES[o.update or "auto"]
   local at_home = how.place == "host"
   if how.when == "device" and o.clip > 0 then
      usage("%s: a stage would update before the gradients of all are there, which %s needs; "
         .. "expected %s or %s", named.value(o, "update", o.update),
         named.value(o, "clip", o.clip), named.value(o, "update", "end"),
         named.value(o, "clip", 0))
   end
   if o.swap_dir then check_swap_dir(o, at_home) end
   if at_home and not swaps.may(o) then
      usage("%s is for state that moves to host memory: expected %s",
         named.value(o, "update", o.update), named.value(o, "swap", "auto"))
   end
   local early = schedules.groups(o.rule or o.schedule) and o.clip == 0
   o.update_place = o.swap_dir and "device" or how.place
   o.update = how.when or (early and "device" or "end")
end

--- Refuses --gnorm where the norm of all gradients is recorded without it.
local function check_gnorm(o)
   local together = not o.given and o.synchronous and o.update ~= "device"
   if o.clip > 0 or together then
      local name = o.clip > 0 and "clip" or "schedule"
      usage("%s is not needed here: with %s the norm of all gradients is recorded anyway",
         named.name(o, "gnorm"), named.value(o, name, o[name]))
   end
end

-- What has no default: it is given, or decided by something else.
local NEEDED = { "buckets", "batches" }
local NEEDED_TO_EVALUATE = { "buckets", "batches", "eval_batches" }

--- The options with what follows from each other: a rule has a name, a plan that is there decides
-- what it says, a rate depends on whether the pipeline drains.
local function settled(given)
   local o, args = options_of(given)
   local rule = type(o.schedule) == "table" and o.schedule or nil
   if o.staleness == "none" then o.staleness = nil end -- that of the schedule
   o.hypers, o.groups = o.hypers or {}, groups.of(o)
   o.model = adapters.adapt(o.model, o)
   if rule then o.rule, o.schedule = rule, rule.name end
   if o.plan then
      o = givens.decide(o, type(o.plan) == "table" and o.plan.said and o.plan
         or givens.open(o.plan))
   end
   if o.synchronous == nil then
      o.synchronous = schedules.is_synchronous(o.rule or o.schedule)
   end
   o.rate = args and rates.of(args, o.synchronous, o.steps)
   for _, key in ipairs(o.eval_only and NEEDED_TO_EVALUATE or NEEDED) do
      if o[key] == nil then opts.fail("ft.plan", "option '%s' is missing", key) end
   end
   if o.batch % o.micro_batches ~= 0 then
      usage("%s is not a multiple of %s, give %s", named.value(o, "batch", o.batch),
         named.value(o, "micro_batches", o.micro_batches),
         named.value(o, "micro_batches", divisor(o.batch, o.micro_batches)))
   end
   if not o.given then replicas.check_shares(o) end
   check_turns(o)
   check_look_ahead(o)
   if o.gaps then late.check_gaps(o) end
   settle_update(o)
   if o.gnorm then check_gnorm(o) end
   swaps.mode(o)
   o.placements = o.placements or {}
   o.devices = links.join(o.devices, o.profile)
   return o
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
   local plan, others
   if o.given then
      plan = draw_given(o, graphs)
   elseif o.eval_only then
      plan = draw.evaluation(o, graphs, evaluation.partition(o, graphs))
   else
      plan, others = draw_training(o, graphs)
   end
   -- devices in a file are somebody's choice; interleaved stages have theirs by number
   local chosen = type(o.partition) == "string" and core.sys.exists(o.partition)
   local fixed = chosen or o.given or o.eval_only or schedules.places(o.rule or o.schedule)
   if not fixed then plan = with_good_links(plan) end
   if not o.given and not o.eval_only then plan = swaps.fit(plan) end
   for _, other in ipairs(others or {}) do
      plan = fit.better(plan, swaps.fit(fixed and other or with_good_links(other)))
   end
   plan = swaps.settle(plan)
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
--   options of plan/options.lua and those above. schedule: a name, or what ft.schedule gives;
--   partition: a name, a plan file, a list of scopes, or a function, see ftpipe.plan.partition
-- @treturn plan .only: it can be looked at but not run (--dry-run, or devices that are not there)
function M.new(given)
   if type(given) ~= "table" then
      opts.fail("ft.plan", "expected a table of options with a model, as { model = "
         .. 'ft.model "t5-small", args = ft.args { preset = "fine_tune" } }')
   end
   local plan, args = make(settled(given)), given.args
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
      draw.recompute_flags(o.recompute, #partition.device))
   return keep(plan, swaps.settle(swaps.fit(fit.squeeze(drawn))))
end

--- A plan with other options, as a row of ftpipe.plan.remedies: costs are modelled, since a
-- measured profile is of one shape.
local function try(o)
   o = copy(o, { profile = "modelled" })
   o.costs, o.plan, o.given, o.placements = nil, nil, nil, {}
   local ok, plan = pcall(make, o)
   if not ok then
      if type(plan) ~= "table" or plan.status == "cancelled" then error(plan, 0) end
      return { options = o, problem = plan.message }
   end
   local batches = math.min(o.batches, fit.COMPARED)
   return {
      options = o, over_bytes = fit.worst_over(plan),
      seconds = plan:simulate(batches).seconds / batches,
   }
end

--- What would make the plan fit, in lines; none of evaluation alone.
function Plan:remedies()
   if self.options.eval_only then return {} end
   return remedies.find(try, self.options, fit.worst_over(self))
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

--- What a step takes at least where its swap directory is slower than the rest of it, in a line;
-- nil where it is not.
-- @tparam number rate bytes per second of the directory; 0: there is none
-- @local
function Plan:slow_disk(rate) return swaps.slow_disk(self, rate) end

--- Where a stage begins and ends, for people: "encoder/block.0 .. decoder/block.1".
function Plan:span(stage)
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
   local lines = { ("%.1f samples/s in a leg of %s, idle %s"):format(self.samples_per_second,
      counted(self.batches, "batch", "batches"), playing.percents(self.bubble)), self.limits,
      unpack(self.swaps) }
   return table.concat(lines, "\n")
end

--- Plays a leg of `batches` batches, with its warm-up and drain, against modelled costs; transfers
-- of described devices share links.
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
   return keep(self, draw_given(o, self.graphs))
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

M.takes = { ["ft.plan"] = RULES, ["plan:timeline"] = rows.options }

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
