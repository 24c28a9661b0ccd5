--- From model and cluster to a plan: graphs, partition, blueprint, prediction.

local clusters = require("ftpipe.cluster")
local core = require("ftpipe.core")
local describe = require("ftpipe.plan.describe")
local edit = require("ftpipe.plan.edit")
local evaluate = require("ftpipe.evaluate")
local explain = require("ftpipe.plan.explain")
local placement = require("ftpipe.placement")
local playing = require("ftpipe.played")
local profiles = require("ftpipe.profile")
local shares = require("ftpipe.profile.shares")

local M = {}
local Plan = {}
Plan.__index = Plan

local function usage(format, ...)
   core.fail("invalid argument", format:format(...), 2)
end

-- ---------------------------------------------------------------------------------------------
-- Partition: forward node -> stage.

--- Stages from a plan file.
local function from_file(path, n_forward)
   local plan = core.engine.parse_plan(core.sys.read_file(path))
   if #plan.node_stage ~= n_forward then
      usage("%s: the plan is for a graph of %d forward nodes, this one has %d", path,
         #plan.node_stage, n_forward)
   end
   return { stage = plan.node_stage, device = plan.device }
end

--- Stages that begin at the given scopes: { "decoder/block.0", ... } makes two of them.
local function from_scopes(graph, scopes)
   local stage, at = {}, 1
   for n = 1, graph:counts().forward do
      local scope = graph:node(n).scope
      if scopes[at] and (scope == scopes[at] or scope:sub(1, #scopes[at] + 1) == scopes[at] .. "/")
      then
         at = at + 1
      end
      stage[n] = at
   end
   if at <= #scopes then
      usage("partition: no node after the cut before it is in scope '%s'", scopes[at])
   end
   return { stage = stage }
end

--- Assigns forward nodes to stages; placement.solve knows the other methods.
-- @tparam graph graph with gradients
-- @param how "seq" (the balanced contiguous optimum over modelled costs), the path of a plan file,
--   or a list of scopes at which stages begin
-- @tparam int stages for "seq"
-- @param device the kind to model: a text or a cluster
-- @tparam[opt=1] int micro_batches per update
-- @tparam[opt] number memory bytes of a stage for parameters, see graph:partition
-- @tparam[opt] table costs of the graph's nodes, as a profile has them; modelled without
-- @treturn table { stage = by node, device = by stage or nil, name = for people }
function M.partition(graph, how, stages, device, micro_batches, memory, costs)
   if type(how) == "table" then
      local result = from_scopes(graph, how)
      result.name = table.concat(how, ",")
      return result
   end
   if how == "seq" then
      local result = graph:partition(stages, device, memory, micro_batches, costs)
      result.name = "seq"
      return result
   end
   if not core.sys.exists(how) then
      usage("--partition '%s' is neither a plan file nor one of: seq, %s", how,
         table.concat(placement.names(), ", "))
   end
   local result = from_file(how, graph:counts().forward)
   result.name = how
   return result
end

-- ---------------------------------------------------------------------------------------------
-- Plans.

local function count_stages(stage)
   local most = 0
   for _, s in ipairs(stage) do most = math.max(most, s) end
   return most
end

--- Stage s runs on device s; when there are more stages than devices, in turns.
local function place_stages(n_stages, n_devices)
   local device = {}
   for s = 1, n_stages do device[s] = (s - 1) % n_devices + 1 end
   return device
end

-- Whether stages recompute to begin with; "auto" turns it on where memory does not suffice.
local recompute_rules = { always = true, never = false, auto = false }

local function recompute_flags(rule, n_stages)
   local first = recompute_rules[rule]
   if first == nil then
      usage("--recompute '%s', expected always, never or auto", tostring(rule))
   end
   local flags = {}
   for s = 1, n_stages do flags[s] = first end
   return flags
end

--- Lengths to pad to: at most four, multiples of 8, the last one holds every example. A model may
-- have a longest length of its own.
local function length_buckets(longest, most)
   local buckets = {}
   for quarter = 1, 4 do
      local length = math.max(8, math.ceil(longest * quarter / 4 / 8) * 8)
      if longest <= most then length = math.min(length, most) end
      if length ~= buckets[#buckets] then buckets[#buckets + 1] = length end
   end
   return buckets
end

local function longest_of(data, field)
   local longest = 0
   for _, split in pairs(data) do longest = math.max(longest, split.dataset:longest(field)) end
   return longest
end

--- Length buckets of the first length group of the data, and the lengths of the others by their
-- first field; a split whose examples are all equally long says so in `length`. Without data: as
-- long as the flags allow.
local function lengths_of(model, data, args)
   if not data then return { args.block or args.max_source }, { target = args.max_target } end
   local positions = model.family.positions
   local most = positions and positions(model.config) or math.huge
   local buckets, lengths
   local split = select(2, next(data))
   for _, group in ipairs(split.dataset:groups()) do
      local longest = longest_of(data, group[1])
      if lengths then
         lengths[group[1]] = longest
      else
         buckets = split.length and { split.length } or length_buckets(longest, most)
         lengths = {}
      end
   end
   return buckets, lengths
end

-- Updates in a plan that is only looked at, when there is no data to count epochs of.
local PLANNED_STEPS = 100

--- Updates of the whole run: --steps, or as many as --epochs makes.
local function count_steps(args, data)
   if not args.epochs then return args.steps end
   if not data then return PLANNED_STEPS end -- only possible when planning, see Task:open
   if not data.train then return 1 end -- --eval-only
   return math.max(1, math.ceil(args.epochs * data.train.dataset:size() / args.batch))
end

--- Costs come from a profile taken here when training on devices that are here.
local function profile_rule(args)
   if args.profile then return args.profile end
   local here = core.engine.devices(args.devices)[1].kind == "cpu"
   return here and not args.eval_only and "measured" or "modelled"
end

--- Where the stages come from. What an asynchronous run computes depends on them, and a profile
-- taken another time may give others: it goes on with those that it recorded.
local function partition_rule(args)
   local recorded = args.resume and args.out and args.out .. "/plan.txt"
   if recorded and args.schedule == "async" and args.partition == "seq"
      and core.sys.exists(recorded)
   then
      return recorded
   end
   return args.partition
end

-- Batches of an evaluation whose data is not there; more of them need no more memory.
local UNKNOWN_BATCHES = 64

--- Batches of an evaluation; nil when there is nothing to evaluate on, as in pre-training.
local function count_eval_batches(data, batch)
   if not data then return UNKNOWN_BATCHES end
   return data.eval and evaluate.count_batches(data.eval.dataset, batch)
end

--- What ft.args gives, as options of `new`.
local function options_of(model, data, args)
   if args.patience and not args.eval_every then
      usage("--patience counts evaluations, give --eval-every too")
   end
   local steps = count_steps(args, data)
   local buckets, lengths = lengths_of(model, data, args)
   return {
      model = model,
      devices = args.devices,
      batch = args.batch,
      micro_batches = args.micro_batches,
      train = data and data.train and data.train.dataset,
      buckets = buckets,
      lengths = lengths,
      partition = partition_rule(args),
      stages = args.stages,
      schedule = args.schedule,
      staleness = args.staleness ~= "none" and args.staleness or nil,
      recompute = args.recompute,
      optimizer = args.optimizer,
      hypers = args.optimizer ~= "adafactor" and { weight_decay = args.weight_decay } or {},
      decay_exempt = args.decay_exempt,
      clip = args.clip,
      seed = args.seed,
      precision = args.precision,
      profile = profile_rule(args),
      dropout = args.dropout or model.config.dropout_rate,
      steps = steps,
      batches = math.min(args.eval_every or steps, args.save_every or steps, steps),
      eval_batches = count_eval_batches(data, args.batch),
      eval_only = args.eval_only,
      eval_every = args.eval_every,
      save_every = args.save_every,
   }
end

--- Evaluation through the stages of a partition, as an option of the blueprint; nil without any.
local function beside(o, graphs, partition)
   if not graphs.evaluation then return nil end
   return {
      graphs = graphs.evaluation,
      node_stage = evaluate.stages(graphs[1], partition.stage, graphs.evaluation[1]),
      batches = o.eval_batches,
   }
end

--- Which parameters weight decay leaves alone, by number: with "vectors" those of one dimension,
-- which are the biases and the norms of every family.
local function exempt_flags(rule, graph)
   if rule ~= "vectors" then return nil end
   local flags = {}
   for i, param in ipairs(graph:params()) do flags[i] = #param.dims == 1 end
   return flags
end

--- Devices in a word: the text, or the name of a cluster.
local function name_of(devices)
   return type(devices) == "string" and devices or devices.name or "described"
end

--- The profile that --profile asks for, nil when costs are modelled.
local function take_profile(o, graph, devices)
   local how = o.profile or "modelled"
   if how == "modelled" then return nil end
   if how ~= "measured" and how ~= "fresh" then
      if core.sys.exists(how) ~= "file" then
         usage("--profile '%s' is neither measured, fresh, modelled nor a profile's file", how)
      end
      return profiles.load(how)
   end
   if devices[1].kind ~= "cpu" then
      usage("--profile %s: devices %s are not here to be measured", how, name_of(o.devices))
   end
   local ok, profile = pcall(profiles, graph, o.devices, {
      measure = true, fresh = how == "fresh", recompute = o.recompute == "always",
      accumulate = o.micro_batches > 1, optimizer = o.optimizer, hypers = o.hypers,
      dtype = o.precision,
   })
   if ok then return profile end
   if profile.status ~= "out of memory" then error(profile, 0) end
   return nil -- a block that does not fit here is modelled; the plan says whether a run would
end

--- Costs of a profile, averaged over the length buckets that batches fall into.
local function average_costs(profile, o, graphs)
   local part = o.shares or o.train and shares.of(o.train, o.buckets, o.batch)
   return shares.blend(profile:costs(graphs[#graphs]), graphs, part, o.devices)
end

--- Costs by device: all of a list are alike.
local function by_device(costs, n)
   local list = {}
   for d = 1, n do list[d] = costs end
   return costs and list
end

--- The blueprint of a partition, with its memory by device.
local function draw(o, graphs, partition, flags)
   local n_stages = count_stages(partition.stage)
   local wired = clusters.wired(o.devices)
   local devices = core.engine.devices(wired)
   local blueprint = core.engine.blueprint {
      evaluation = beside(o, graphs, partition),
      graphs = graphs,
      node_stage = partition.stage,
      stage_device = partition.device or place_stages(n_stages, #devices),
      recompute = flags,
      devices = wired,
      micro_batches = o.micro_batches,
      micro_batch_size = o.batch / o.micro_batches,
      schedule = o.rule or o.schedule,
      staleness = o.staleness,
      batches = o.batches,
      optimizer = o.optimizer,
      hypers = o.hypers,
      no_decay = exempt_flags(o.decay_exempt, graphs[1]),
      clip = o.clip,
      seed = o.seed,
      costs = by_device(o.costs, #devices),
   }
   return {
      options = o, graphs = graphs, devices = devices, partition = partition, n_stages = n_stages,
      recompute = flags, blueprint = blueprint, memory = blueprint:memory(),
      machine = type(wired) == "table" and wired.machine or nil,
   }
end

local function is_over(plan, device)
   return plan.memory[device].total > plan.devices[device].memory_bytes
end

--- Recomputes in the stages of devices that are over their budgets, until none of them can help.
local function recompute_where_needed(plan)
   local changed = true
   while changed do
      changed = false
      for s, stage in ipairs(plan.blueprint:stages()) do
         if is_over(plan, stage.device) and not plan.recompute[s] then
            plan.recompute[s], changed = true, true
         end
      end
      if changed then plan = draw(plan.options, plan.graphs, plan.partition, plan.recompute) end
   end
   return plan
end

--- Bytes that a stage's parameters may weigh (at four times their size, as graph:partition counts)
-- when everything else takes what it takes in this plan.
local function parameter_budget(plan)
   local budget, weights, kept = math.huge, 0, 0
   for d, row in ipairs(plan.memory) do
      local others = row.activations + row.workspace + row.buffers
      budget = math.min(budget, plan.devices[d].memory_bytes - others)
      weights = weights + row.weights
      kept = kept + row.weights + row.gradients + row.optimizer + row.packed
   end
   return math.max(1, math.floor(budget * 4 * weights / kept))
end

--- The same for placement.solve: bytes that training keeps for a byte of parameters, and the most
-- that a device needs beside them.
local function budget_of(plan)
   local others, weights, kept = 0, 0, 0
   for _, row in ipairs(plan.memory) do
      others = math.max(others, row.activations + row.workspace + row.buffers)
      weights = weights + row.weights
      kept = kept + row.weights + row.gradients + row.optimizer + row.packed
   end
   return { factor = kept / weights, others = others }
end

local function any_over(plan)
   for d in ipairs(plan.devices) do
      if is_over(plan, d) then return true end
   end
   return false
end

--- The plan of a partition, recomputing where --recompute auto finds it needed.
local function settle(o, graphs, partition)
   local plan = draw(o, graphs, partition,
      recompute_flags(o.recompute, count_stages(partition.stage)))
   return o.recompute == "auto" and recompute_where_needed(plan) or plan
end

--- The same plan with the least memory that recomputing gives it.
local function leanest(plan)
   if plan.options.recompute ~= "auto" then return plan end
   return draw(plan.options, plan.graphs, plan.partition,
      recompute_flags("always", plan.n_stages))
end

-- Placements that are tried one after the other, each with less memory for parameters: what the one
-- before it left for them.
local PLACEMENTS = 3

local function fit_placed(plan)
   local others = 0
   for _ = 1, PLACEMENTS do
      if not any_over(plan) then break end
      local budget = budget_of(leanest(plan))
      if budget.others <= others then break end
      others = budget.others
      local ok, partition = pcall(placement.solve, plan.graphs[#plan.graphs],
         plan.options.partition, plan.options, budget)
      if not ok then break end
      plan = settle(plan.options, plan.graphs, partition)
   end
   return plan
end

--- What is balanced by time alone may not fit; a partition that also looks at memory may, when the
-- stages that need it recompute.
local function fit(plan)
   local o, graphs = plan.options, plan.graphs
   if o.recompute == "auto" then plan = recompute_where_needed(plan) end
   if placement.is(o.partition) then return fit_placed(plan) end
   if not any_over(plan) or o.partition ~= "seq" then return plan end
   local ok, partition = pcall(M.partition, graphs[#graphs], "seq", plan.n_stages, o.devices,
      o.micro_batches, parameter_budget(leanest(plan)), o.costs)
   return ok and settle(o, graphs, partition) or plan
end

local function copy(options)
   local result = {}
   for key, value in pairs(options) do result[key] = value end
   return result
end

--- Stages numbered without those that no node is in; their devices likewise.
local function without_empty(stage, device)
   local used, number, devices = {}, {}, {}
   for _, s in ipairs(stage) do used[s] = true end
   for s = 1, count_stages(stage) do
      if used[s] then
         devices[#devices + 1] = device[s]
         number[s] = #devices
      end
   end
   local result = {}
   for n, s in ipairs(stage) do result[n] = number[s] end
   return result, devices
end

--- A plan of forwards alone: no gradients, no optimizer.
local function draw_evaluation(o, graphs, partition)
   local n_devices = #core.engine.devices(o.devices)
   local device = partition.device or place_stages(count_stages(partition.stage), n_devices)
   local stage
   stage, device = without_empty(
      evaluate.stages(graphs[1], partition.stage, graphs.evaluation[1]), device)
   local own = copy(o)
   own.schedule, own.rule, own.staleness = "evaluate", nil, nil
   own.batches, own.clip = o.eval_batches, 0
   return draw(own, graphs.evaluation, { stage = stage, device = device, name = partition.name },
      recompute_flags("never", #device))
end

--- The graphs of a plan, one for each bucket, with those of evaluation as `evaluation`.
local function build_graphs(o)
   local graphs = { evaluation = o.eval_batches and {} }
   for i, source in ipairs(o.buckets) do
      local size = { batch = o.batch / o.micro_batches, source = source, dropout = o.dropout }
      for field, length in pairs(o.lengths or {}) do size[field] = length end
      graphs[i] = o.model.family.training(o.model.config, size)
      if graphs.evaluation then graphs.evaluation[i] = evaluate.graph(o.model, size) end
      if o.precision == "bf16" then
         graphs[i]:bf16()
         if graphs.evaluation then graphs.evaluation[i]:bf16() end
      end
   end
   return graphs
end

--- A plan for training.
-- @tparam table o either model, data (as the task loads it, or nil) and args (of ft.args); or
--   model, devices (text or cluster), batch, micro_batches, buckets (lengths of a source,
--   ascending), lengths (of other fields, by name: { target = 8 }), partition, stages, schedule (a
--   name, or what ft.schedule gives), staleness, recompute, optimizer, hypers, decay_exempt
--   ("vectors", else "none"), clip, seed, precision ("bf16", else "f32"), dropout, steps, batches
--   (of the longest leg); eval_batches (of the longest evaluation; nil: there is none), eval_only
--   (true: there is nothing else); profile ("modelled", which is the preset, "measured", "fresh":
--   not from the cache, or a profile's file), shares (of batches by bucket; all in the last one,
--   when absent)
-- @treturn plan .only: it can be looked at but not run (--dry-run, or devices that are not there)
function M.new(o)
   local args = o.args
   local rule = type(o.schedule) == "table" and o.schedule or nil
   o = args and options_of(o.model, o.data, args) or copy(o)
   if rule then o.rule, o.schedule = rule, rule.name end
   if o.batch % o.micro_batches ~= 0 then
      usage("--batch %d is not a multiple of --micro-batches %d", o.batch, o.micro_batches)
   end
   local devices = core.engine.devices(o.devices)
   local graphs = build_graphs(o)
   local profile = not o.eval_only and take_profile(o, graphs[#graphs], devices) or nil
   if profile then o.costs = average_costs(profile, o, graphs) end
   local partition = placement.is(o.partition) and placement.solve(graphs[#graphs], o.partition, o)
      or M.partition(graphs[#graphs], o.partition, o.stages or #devices, o.devices,
         o.micro_batches, nil, o.costs)
   local flags = recompute_flags(o.recompute, count_stages(partition.stage))
   local plan = o.eval_only and draw_evaluation(o, graphs, partition)
      or fit(draw(o, graphs, partition, flags))
   plan.beside = plan.graphs.evaluation ~= nil
   plan.profile = profile
   plan.devices_name = name_of(o.devices)
   plan.only = devices[1].kind == "sim" or args ~= nil and args.dry_run
   return setmetatable(plan, Plan)
end

--- The plan with another partition.
local function redraw(plan, partition)
   local o = plan.options
   local drawn = draw(o, plan.graphs, partition, recompute_flags(o.recompute, #partition.device))
   if o.recompute == "auto" then drawn = recompute_where_needed(drawn) end
   for _, key in ipairs { "beside", "only", "profile", "devices_name" } do
      drawn[key] = plan[key]
   end
   return setmetatable(drawn, Plan)
end

--- Raises `plan infeasible` when a device is over its budget; else gives the plan back.
function Plan:check()
   self.blueprint:check_memory()
   return self
end

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

--- Plays `batches` batches against modelled costs; transfers of described devices share links.
-- @treturn table seconds, samples_per_second, bubble (by device, 0..1), critical (what the end
--   waited for, in words), busiest_link (name, nil without one), busiest_share (0..1), trace when
--   asked for
function Plan:simulate(batches, trace)
   local timeline = self.blueprint:simulate(batches, trace)
   local seconds = timeline.end_ns / 1e9
   local link, share = playing.busiest_link(timeline, self.machine)
   return {
      seconds = seconds,
      samples_per_second = batches * self.options.batch / seconds,
      bubble = playing.idle(timeline),
      critical = playing.critical(timeline),
      busiest_link = link,
      busiest_share = share,
      trace = timeline.trace,
   }
end

--- Planned bytes of every device.
function Plan:memory_bytes()
   local list = {}
   for d, row in ipairs(self.memory) do list[d] = row.total end
   return list
end

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

--- Writes the plan as text, which --partition and ft.schedule.load read.
function Plan:save(path)
   core.sys.write_file(path, self:text())
   return self
end

return setmetatable(M, { __call = function(_, o) return M.new(o) end })
