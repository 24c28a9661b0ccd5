--- Plans of models and of graph files as one thing to look at: what `ftpipe plan` prints.
--
--    local plan = ft.explore("t5-3b", { devices = "sim:4x11GB", batch = 40, source = 320 })
--    print(plan, plan.seconds, plan.fits)
--
-- What comes of it, a subject, has
--
--    title, method       what it is of; the partition's name
--    options, names      options with what follows from them; names of devices
--    seconds             of a batch in the long run, without warm-up and drain
--    samples_per_second  in the long run
--    fits                whether all devices are within their budgets
--    memory              by device: total and budget (0: none) in bytes, parts = bytes by class
--    stages              by stage: device (its name), nodes, first and last (scopes), replicas,
--                        forward_ms and backward_ms of a micro-batch, in_flight (micro-batches),
--                        least_, most_ and mean_staleness (updates), lags (by micro-batch),
--                        versions (of weights), parameter_bytes, sends_bytes (a micro-batch)
--    recompute           by stage, whether it runs its forward again
--    moved_bytes         between devices in a batch: of a graph's file values and their gradients,
--                        of a model those of weights too
--    swapped_bytes       in a batch, from and to host memory; hidden: the share of the time of
--                        these copies for which no device waits; swaps: lines that say it
--                        (of models)
--    proof               what was proved of the order of work, in words
--    asked               how many stages there may be, where somebody said so
--    note                of a graph's file: what its partition leaves out, in a line
--    played              a simulation of several batches, as played:simulate gives it
--    plan                of a model: what ft.plan gives
--    graph, problem      with weights; what partitioners were asked
--    result              stage and device by node, stage_device and stage_replicas by stage
--    cut                 stages and the edges between them

local class = require("ftpipe.base.class")
local batch_parts = require("ftpipe.base.batch_parts")
local checks = require("ftpipe.model.check")
local core = require("ftpipe.core")
local graphs = require("ftpipe.graph")
local guard = require("ftpipe.base.guard")
local late = require("ftpipe.schedule.late")
local models = require("ftpipe.model")
local named = require("ftpipe.base.named")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local placement = require("ftpipe.placement")
local planned_graph = require("ftpipe.planner.planned_graph")
local planned_model = require("ftpipe.planner.planned_model")
local subjects = require("ftpipe.planner.subject")

local M = {}

local OPTIONS = options.rules("explore")

--- Options as they are taken here: checked, with those of `ftpipe plan` where they are absent.
-- @tparam string what the function in messages
-- @tparam[opt] table given
-- @local
function M.options(what, given)
   local o = opts.check(what, OPTIONS, given)
   local problem = batch_parts(o)
   if problem then opts.fail(what, "%s", problem) end
   return o
end

--- Why `cost` is refused beside a model, whose plan counts times and bytes of its own.
-- @tparam table o flags or options
-- @local
function M.no_cost(o)
   local compare = o.flagged and named.name(o, "compare") or "ft.compare"
   return ("%s is what %s counts; leave it out, or give %s"):format(named.name(o, "cost"), compare,
      o.flagged and compare or "it to " .. compare)
end

--- Refuses it, and tokens of answers that the model has none of.
-- @tparam string what the function in messages
-- @tparam model model
-- @tparam table o options of a plan, or of a search
-- @local
function M.check(what, model, o)
   if o.cost ~= OPTIONS.cost.default then opts.fail(what, "%s", M.no_cost(o)) end
   if o.target ~= OPTIONS.target.default then checks.answers(model, o) end
end

--- Options of one plan, not of a search that tries several schedules.
local function options_of_plan(given)
   local o = M.options("ft.explore", given)
   late.check(o)
   return o
end

--- A model that is given, or what ft.model takes as `model`; a graph, or a graph's file.
-- @local
function M.open(what)
   if type(what) == "string" and core.sys.exists(what) == "file" then return graphs.load(what) end
   if type(what) == "table" and what.nodes then return what end
   if type(what) == "string" then return models.open { model = what } end
   if type(what) == "table" and what.family then return what end
   opts.fail("ft.explore", 'expected a model, its name or directory, as "t5-small", got %s',
      class.told(what))
end

--- Plans a graph from a file.
-- @tparam graph graph
-- @tparam[opt] table given devices (those of the file when absent), partition, cost, stages,
--   schedule, recompute, optimizer, micro_batches, batch, seed
-- @tparam[opt] table known partitions of earlier plans of this graph on these devices; gets this
--   one
-- @treturn subject it may be over a budget, see `fits`
function M.file(graph, given, known)
   for _, row in ipairs(options.of_models("explore")) do
      local value = given and given[row.lua]
      if value ~= nil and value ~= OPTIONS[row.lua].default then
         opts.fail("ft.explore", "option '%s' is for models, %s is a graph", row.lua,
            graph.path or "this")
      end
   end
   local o = options_of_plan(given)
   placement.check_effort(o)
   return planned_graph.plan(graph, o, known)
end

--- Plans a model.
-- @param what a model, or what ft.model takes as `model`
-- @tparam[opt] table given devices ("cpu"), batch, micro_batches, source, target, partition,
--   stages, schedule, staleness, recompute, optimizer, profile (as of ft.plan), seed
-- @tparam[opt] table placements of earlier plans, see ftpipe.placement
-- @treturn subject .plan; it may be over a budget, see `fits`
-- @raise invalid argument: also where `cost` is given, which is for graphs
function M.model(what, given, placements)
   local o, model = options_of_plan(given), M.open(what)
   M.check("ft.explore", model, o)
   return planned_model.plan(model, o, placements)
end

M.takes = { ["ft.explore"] = OPTIONS, ["subject:timeline"] = subjects.takes["subject:timeline"] }

guard("ft.explore", M, {
   file = "graph: graph, given?: table, known?: table",
   model = "what?: any, given?: table, placements?: table",
})

--- Plans a model, or a graph: what `model` and `file` do.
-- @param what a model, its name or directory, a graph of ft.graph, or a graph's file
-- @tparam[opt] table o those options that are not as they are below
-- @treturn subject what they give
-- @raise invalid argument, not found, malformed data: of what was given; plan infeasible: a
--   partitioner found no cut of the graph that fits (a plan that does not fit is given, see `fits`)
return setmetatable(M, { __call = function(_, what, o)
   opts.known("ft.explore", OPTIONS, o or {})
   what = M.open(what)
   return (what.nodes and M.file or M.model)(what, o)
end })
