--- ftpipe plan MODEL|GRAPHFILE|RECIPE: how a model would be cut and run, without running it.

local batch_parts = require("ftpipe.base.batch_parts")
local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local over = require("ftpipe.placement.over")
local placement = require("ftpipe.placement")
local remedies = require("ftpipe.plan.remedies")
local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local copy = require("ftpipe.base.copy")
local options = require("ftpipe.plan.options")
local schedules = require("ftpipe.schedule")
local script = require("ftpipe.recipe.script")
local suggest = require("ftpipe.base.suggest")
local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")

local M = { help = "how a model, a graph file or a recipe would be cut, and how fast that is" }

local FORMATS = { "table", "json", "html", "svg", "dot", "graphml" }

M.declared = copy(options.flags("explore"), {
   "Plans a model (a directory, or a built-in configuration) or a graph from a file (PipeDream's\n"
      .. "profiles, device-placement JSON, GraphML, ftpipe's own) on devices that need not exist.\n"
      .. "Of a recipe (FILE.lua) it is the plan of its --dry-run, by the recipe's own flags.",
   "ftpipe plan t5-3b --devices sim:4x11GB --partition mixed --max-source 320",
   "ftpipe plan t5-3b --devices sim:4x11GB --batch 40 --max-source 320 --search",
   "ftpipe plan gnmt.txt --devices sim:4x2080ti --compare",
   "ftpipe plan gpt2-xl --devices sim:8x2080ti --format html > plan.html",
   "ftpipe plan recipes/t5_rte.lua --model t5-3b --devices sim:8x11GB",
   compare = { type = "boolean", default = false, help = "all partitioners side by side" },
   search = { type = "boolean", default = false,
      help = "try what is not given of micro-batches, schedule, partition, stages" },
   mem = { type = "boolean", default = false, help = "memory by class" },
   format = { choices = FORMATS, default = "table", help = "what is printed" },
   depth = { type = "int", min = 1, max = 16, default = 2, help = "of scopes, in pictures" },
})

local function usage(format, ...)
   core.fail("invalid argument", format:format(...) .. "; see ftpipe plan --help", 2)
end

-- Flags that are for some formats alone, and those formats.
local FORMATS_OF = {
   { "compare", "table, json, html" },
   { "depth", "html, svg, dot, graphml" },
   { "mem", "table, json, html" },
}

--- Refuses flags that nothing of what is printed would come from.
local function check_shown(flags, given, is_graph)
   for _, row in ipairs(FORMATS_OF) do
      local name, formats = unpack(row)
      if given[name] and not formats:find(flags.format, 1, true) then
         usage("--%s is for formats %s, not for %s; leave it out, or give another --format", name,
            formats, flags.format)
      end
   end
   if given.cost and not flags.compare and not is_graph then
      usage("%s", require("ftpipe.planner.explore").no_cost(flags))
   end
end

--- Options of ft.explore; of a model --compare alone counts --cost, and of a partition that does
-- not search --effort.
local function options_of(flags, of_model)
   local o = options.pick("explore", flags)
   if of_model then o.cost = nil end
   if flags.compare and not placement.searches(flags.partition) then o.effort = nil end
   return o
end

local function check_batch(flags)
   local problem = batch_parts(flags)
   if problem then usage("%s", problem) end
end

--- The same for ft.planner: what was not given is left open.
local function open_options(flags, given, of_model)
   local o = options_of(flags, of_model)
   for _, key in ipairs { "micro_batches", "schedule", "partition" } do
      if not given[key] then o[key] = nil end
   end
   return o
end

-- ---------------------------------------------------------------------------------------------
-- What is printed.

-- By format: subject, further tables, flags -> text.
local printers = {
   table = function(subject, tables, flags)
      local parts = { subject:text(flags.mem) }
      for _, entry in ipairs(tables) do
         parts[#parts + 1] = entry.title .. ":\n" .. words.columns(entry.cells)
         parts[#parts + 1] = entry.note
      end
      return table.concat(parts, "\n") .. "\n"
   end,
   json = function(subject, tables)
      local data = subject:data()
      for _, entry in ipairs(tables) do
         data[entry.key] = core.json.array(entry.data)
      end
      return core.json.encode(data, { sort = true }) .. "\n"
   end,
   html = function(subject, tables, flags)
      return require("ftpipe.planner.page").html(subject, tables, flags.depth)
   end,
}
for _, form in ipairs { "svg", "dot", "graphml" } do
   printers[form] = function(subject, _, flags)
      return subject.graph:format(form,
         { result = subject.result, names = subject.names, depth = flags.depth })
   end
end

--- A model as a graph that is to be cut: blocks of its scopes. Memory is counted and does not
-- bound: rows say what they are over their budgets by.
local function model_parts(subject)
   local o = subject.options
   local rule = o.recompute == "always" and "always" or "never"
   local graph = subject.graph:by_scope() or subject.graph
   local factor = placement.MEMORY_FACTOR[o.optimizer]
   local problem = graph:problem {
      devices = o.devices, micro_batches = o.micro_batches, in_flight = o.micro_batches,
      flat = schedules.is_flat(o.schedule), recompute = rule,
      memory_factor = factor,
   }
   local budgets = {}
   for d, device in ipairs(problem.devices) do
      budgets[d], device.memory_bytes = device.memory_bytes, 0
   end
   return { graph = graph, options = o, problem = problem, factor = factor, rule = rule }, budgets
end

-- What the row of the best is of.
local BEST = "best is that of the lines above with the shortest slowest device by cost model %s, "
   .. "each stage on one device; --partition best takes the fastest by simulation, of replicas too"

--- All partitioners side by side, on the subject's graph.
local function comparison(subject, flags)
   local compare = require("ftpipe.planner.compare")
   local parts, budgets, how = subject.parts, {}, ""
   if subject.plan then
      parts, budgets = model_parts(subject)
      how = " by time alone, of whole blocks; a plan cuts between them and makes its cut fit"
   end
   for d, device in ipairs(subject.plan and {} or parts.problem.devices) do
      budgets[d] = device.memory_bytes or 0
   end
   -- of a graph file with room for what its plan holds
   local problem = subject.fits and parts.asked or parts.problem
   local rows = compare.all(problem, {
      cost = flags.cost, seed = flags.seed, effort = flags.effort,
      blocks = placement.blocks("mixed", #problem.devices, #problem.names, flags.stages),
      budgets = budgets,
      memory = function(result)
         return require("ftpipe.planner.planned_graph").memory(parts, result)
      end,
   })
   return {
      title = ("partitioners%s; slowest and fullest device, cost model %s"):format(how,
         flags.cost),
      key = "compare", cells = compare.cells(rows), data = compare.data(rows),
      note = BEST:format(flags.cost),
   }
end

-- ---------------------------------------------------------------------------------------------

--- Raises exit 3 with the device that is over, and what would help; of a graph file alone.
local function check_fits(subject, model, o)
   if subject.fits then return end
   local most, culprit = over.worst(subject.memory)
   local help = model
      and remedies.words(require("ftpipe.planner").remedies(model, o, most))
      or require("ftpipe.planner.held").remedies(subject.graph, subject.options)
   local row, bound = subject.memory[culprit],
      over.bound(subject.memory, subject.least, subject.options.optimizer) or subject.unswapped
   core.fail("plan infeasible", ("device %s needs %.1f MB of memory, its budget is %.1f MB: "
      .. "%s too much%s; %s"):format(subject.names[culprit], row.total / 1e6, row.budget / 1e6,
      units.format_bytes(row.total - row.budget), bound and "; " .. bound or "", help))
end

--- The best plan of a search, and the table of what was tried; exit 3 when nothing fits.
local function search(model, flags, given)
   if given.micro_batches then check_batch(flags) end
   local found = require("ftpipe.planner").search(model,
      open_options(flags, given, not model.nodes))
   if not found.best then
      io.stderr:write(tostring(found), "\n")
      local row = found.rows[1]
      if row.problem then core.fail("plan infeasible", row.problem) end
      check_fits(row.subject, not model.nodes and model or nil, row.options)
   end
   return found.best.subject, model, found.best.options, {
      title = "tried", key = "search", cells = found:cells(), data = found:data(),
      note = found:summary(),
   }
end

local function plan_file(path, flags, given)
   local graphs, explore = require("ftpipe.graph"), require("ftpipe.planner.explore")
   local graph = graphs.load(path)
   if not flags.devices and not graph.devices then
      usage("%s names no devices; give --devices, such as sim:4x11GB", path)
   end
   for _, row in ipairs(options.of_models("explore")) do
      if given[row.flag] then
         usage("--%s is for models, %s is a graph", row.flag:gsub("_", "-"), path)
      end
   end
   if flags.search then
      given.micro_batches = true -- costs are those of one, of whatever size
      local subject, _, o, tried = search(graph, flags, given)
      return subject, nil, o, tried
   end
   check_batch(flags)
   return explore.file(graph, options_of(flags))
end

local function plan_model(name, flags, given)
   local model = require("ftpipe.model")(named.flags { model = name })
   flags.devices = flags.devices or "cpu"
   if flags.search then return search(model, flags, given) end
   check_batch(flags)
   local o = options_of(flags, true)
   return require("ftpipe.planner.explore").model(model, o), model, o
end

-- Flags of this command that a recipe's plan has no use for: it says the memory by class anyway.
local OF_MODELS_ALONE = { compare = true, search = true, mem = true, format = true, depth = true }

--- The words for a recipe that is only planned.
local function recipe_words(argv, path)
   local kept = { "--dry-run" }
   for _, word in ipairs(argv) do
      local name = word:match("^%-%-([^=]+)") -- a recipe may have --search-width
      if OF_MODELS_ALONE[name] then
         usage("--%s is for models and graph files; %s is planned once, by its own flags, with its "
            .. "memory by class; one of its own that is called so goes with --dry-run", name, path)
      end
      kept[#kept + 1] = word
   end
   return kept
end

-- How names of files end that are planned; what is not there, and ends in none of them, is looked
-- for among models.
local ENDINGS = { lua = "recipe", graph = "file", graphml = "file", json = "file", txt = "file" }

--- Refuses a recipe or a graph's file that is not there.
local function check_there(path)
   local what = ENDINGS[path:match("%.(%l+)$") or ""]
   if what and not core.sys.exists(path) then
      usage("there is no %s '%s'%s", what, path, suggest.file_hint(path))
   end
end

function M.words() return require("ftpipe.model").builtin_names() end

--- @tparam {string,...} argv the words after "plan"
function M.run(argv)
   local path = argvs.word(argv)
   if path and path:find("%.lua$") and core.sys.exists(path) == "file" then
      return script(path, recipe_words(argv, path))
   end
   if path then check_there(path) end
   local flags, given = args.read(M.declared, argv, "plan MODEL|GRAPHFILE|RECIPE")
   if not path then usage("plan needs a model or a graph file") end
   local is_graph = core.sys.exists(path) == "file"
   check_shown(flags, given, is_graph)
   local tables, subject, model, o = {}
   if is_graph then
      subject, model, o, tables[1] = plan_file(path, flags, given)
   else
      subject, model, o, tables[1] = plan_model(path, flags, given)
   end
   if flags.compare then tables[#tables + 1] = comparison(subject, flags) end
   io.stdout:write(printers[flags.format](subject, tables, flags))
   check_fits(subject, model, o)
end

return M
