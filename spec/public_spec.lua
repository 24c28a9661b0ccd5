--- What users call, with arguments and options of wrong types: what fails says so in one line, with
-- the name of what was wrong, and is never a fault inside the program.

local args = require("ftpipe.recipe.args")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

local NOWHERE = "/dev/null/at/all" -- which nobody can make

--- Values of every type; those of a name that is right are no fault.
local function wrong_values()
   return {
      { -1.5 }, { 0 }, { NOWHERE }, { true }, { {} }, { { 1, "x", {} } }, { function() end },
      { core.tensor.zeros { 2 } }, { coroutine.create(function() end) }, { nil },
   }
end

--- Calls f: what it said, nil when it worked. Notes in `faults` what is no error object of one
-- line.
local function check(faults, what, f, ...)
   local ok, problem = pcall(f, ...)
   if ok then return nil end
   local message = type(problem) == "table" and problem.message
   if type(message) ~= "string" or message:find("\n") or message:find("lua/ftpipe", 1, true) then
      faults[#faults + 1] = ("%s: %s"):format(what, tostring(problem))
   end
   return message
end

local function told(value)
   return type(value) == "string" and value or type(value) == "number" and tostring(value)
      or type(value) == "boolean" and tostring(value) or "a " .. type(value)
end

-- ---------------------------------------------------------------------------------------------

local flags = { "x", preset = "fine_tune", steps = { default = 2 } }

--- One object of every class that the reference has methods of.
local function make_objects()
   local graph = ft.graph("t5-small", { devices = "sim:2x11GB", batch = 1, source = 8 }):by_scope(2)
   local plan = pipeline.plan { devices = "cpu:2" }
   local task = ft.task.rte {}
   local given = args.parse(flags, {})
   local problem = graph:problem { devices = "sim:2x11GB" }
   local result = ft.partition(problem, { method = "seq" })
   local stages = {}
   for s = 1, 2 do stages[s] = { forward_ns = 1, backward_ns = 2 } end
   local card = ft.cuda.open("cpu:1")
   local stream = card:stream()
   return {
      card = card, stream = stream, event = stream:record(),
      graph = graph, plan = plan, task = task, problem = problem, result = result,
      cluster = ft.cluster("sim:2x11GB"), model = plan.options.model,
      subject = ft.explore(graph, { devices = "sim:2x11GB", batch = 8, micro_batches = 2 }),
      found = ft.planner.search(plan.options.model, { devices = "sim:2x11GB", batch = 4,
         counts = { 2 }, schedules = { "1f1b" }, partitions = { "seq" }, source = 16 }),
      profile = ft.profile(plan.graphs[1], "sim:1x11GB"),
      played = ft.schedule.play { stages = stages, micro_batches = 2, batches = 2,
         schedule = "1f1b" },
      cut = ft.stages.of(graph, problem.devices, result),
      run = ft.run { plan = plan, task = task, args = given },
      rows = ft.compare(problem, { effort = 0.01 }), args = given,
      tensor = ft.tensor.randn({ 2, 2 }, 1),
   }
end

--- Arguments that are right, by the names that the reference has for them.
local function good_arguments(objects)
   local o = { devices = "sim:2x11GB" }
   return {
      declaration = flags, declared = flags, argv = {}, script = "x.lua", what = "sim:2x11GB",
      devices = objects.problem.devices, from = 1, to = 2, problem = objects.problem, o = o,
      graph = objects.graph, factors = nil, text = "", path = NOWHERE, form = "txt", rule = {},
      value = 1, rules = {}, format = "x", device = objects.result.device, stage = 1,
      cost = "overlap", batches = 1, node = 1, other = objects.plan, block = 1,
      changes = {}, subject = objects.plan.graphs[1], dir = NOWHERE, schedule = "1f1b",
      cut = objects.cut, result = objects.result, definition = {}, model = objects.model,
      args = objects.args, where = "cpu:1", f = function() end, event = objects.event,
      earlier = objects.event,
      split = {}, name = "rte", dims = { 2 }, first = 1, last = 2, step = 1,
      bytes = 1, seconds = 1, rows = objects.rows, batcher = {}, n = 1,
   }
end

--- The names of the arguments of a call of the reference, and its function.
local function resolve(call, objects)
   local words, list = call:match("%((.-)%)"), {}
   for word in words:gmatch("[%w_]+") do list[#list + 1] = word end
   if call:find("^ft%.tensor%.ops%.NAME") then return list, ft.tensor.ops.softmax end
   if call:find("^ft%.task%.NAME") then return list, ft.task.rte end
   local part, name = call:match("^ft%.([%w_]+)%.?([%w_]*)%(")
   if part then return list, name == "" and ft[part] or ft[part][name] end
   local class, method = call:match("^(%w+):([%w_]+)%(")
   local object = objects[class]
   assert(object, call)
   return list, function(...) return object[method](object, ...) end, object[method]
end

-- Calls that would do what they are for: end the program, train, leave signals to nobody; and those
-- of ft.swap that take what others of it have made, whose inside they do not check.
local LEFT_OUT = { ["ft.args.read"] = true, ["run:train"] = true, ["run:stop"] = true,
   ["ft.swap.bytes"] = true, ["ft.swap.peak_bytes"] = true, ["ft.swap.estimate"] = true,
   ["ft.sys.hold_interrupt"] = true, ["ft.sys.hear_asks"] = true, ["tensor:free"] = true }

describe("what users call", function()
   local objects, good

   setup(function()
      objects = make_objects()
      good = good_arguments(objects)
   end)

   it("fails in one line for arguments of any type, whatever the others are", function()
      local calls, faults = dofile("tools/reference.lua").calls(), {}
      assert.is_true(#calls > 80)
      for _, call in ipairs(calls) do
         local names, f = resolve(call, objects)
         for i = LEFT_OUT[call:match("^[^(]*")] and math.huge or 1, #names do
            for _, wrong in ipairs(wrong_values()) do
               local given = {}
               for k, name in ipairs(names) do given[k] = good[name] end
               given[i] = wrong[1]
               check(faults, ("%s with %s = %s"):format(call, names[i], told(wrong[1])), f,
                  unpack(given, 1, #names))
            end
         end
      end
      assert.equal("", table.concat(faults, "\n"))
   end)

   it("says of methods that they are called without their object", function()
      for _, call in ipairs(dofile("tools/reference.lua").calls()) do
         local names, _, method = resolve(call, objects)
         if method and not LEFT_OUT[call:match("^[^(]*")] then
            local message = check({}, call, method, unpack({}, 1, #names))
            assert.matches(call:find("^tensor:") and "expected a tensor"
               or "called on nothing, expected a %l+ in front of the colon", message, call)
         end
      end
   end)

   it("fails in one line for every option of any type", function()
      local tables = {
         ["ft.cluster"] = function(o) return ft.cluster("sim:2x11GB", o) end,
         ["ft.compare"] = function(o) return ft.compare(objects.problem, o) end,
         ["ft.explore"] = function(o) return ft.explore(objects.model, o) end,
         ["ft.explore of a graph"] = function(o) return ft.explore(objects.graph, o) end,
         ["ft.fine_tune"] = ft.fine_tune,
         ["ft.graph"] = function(o) return ft.graph(objects.model, o) end,
         ["graph:problem"] = function(o) return objects.graph:problem(o) end,
         ["ft.partition"] = function(o) return ft.partition(objects.problem, o) end,
         ["ft.plan"] = function(o)
            o.model = o.model == nil and objects.model or o.model
            if o.args == nil then
               o.buckets, o.batches = o.buckets or { 8 }, o.batches or 1
               o.hypers, o.lengths = o.hypers or {}, o.lengths or { target = 4 }
            end
            return ft.plan(o)
         end,
         ["ft.plan.of"] = ft.plan.of,
         ["ft.planner"] = function(o)
            if not o.counts then o.counts = { 1 } end
            if not o.schedules and not o.schedule then o.schedules = { "1f1b" } end
            if not o.partitions and not o.partition then o.partitions = { "seq" } end
            return ft.planner(objects.model, o)
         end,
         ["ft.profile"] = function(o) return ft.profile(objects.model, "sim:1x11GB", o) end,
         ["ft.run"] = ft.run,
         ["ft.schedule"] = ft.schedule,
         ["ft.schedule.play"] = ft.schedule.play,
         ["task:load"] = function(o) return objects.task:load(o) end,
         ["ft.task.define"] = function(o)
            o.kind = o.kind == nil and "text2text" or o.kind
            return ft.task.define(o)
         end,
         ["ft.task.rte"] = ft.task.rte,
         ["ft.swap.plan"] = ft.swap.plan,
      }
      local faults = {}
      for what, f in pairs(tables) do
         local message = check(faults, what, f, { no_such_option = 1 })
         assert.matches("unknown option 'no_such_option'", message, what)
         local names = message:match("expected one of: ([^)]*)")
         for name in names:gmatch("[%w_]+") do
            for _, wrong in ipairs(wrong_values()) do
               check(faults, ("%s with %s = %s"):format(what, name, told(wrong[1])), f,
                  { [name] = wrong[1] })
            end
         end
      end
      assert.equal("", table.concat(faults, "\n"))
   end)

   it("names options as Lua does, and flags as a command line does", function()
      local cases = {
         { [[model = "nothing" is no file]], 'ft.model("nothing")', "--model nothing" },
         { "batch = 8 is not a multiple of micro_batches = 3, give batch = 9 or "
            .. "micro_batches = 2",
            'ft.plan { model = ft.model "t5-small", buckets = { 8 }, batches = 1, batch = 8, '
               .. "micro_batches = 3 }", "--batch 8 --micro-batches 3" },
         { [[partition = "nothing" is neither]],
            'ft.plan { model = ft.model "t5-small", buckets = { 8 }, batches = 1, '
               .. 'lengths = { target = 4 }, partition = "nothing" }', "--partition nothing" },
         { [[profile = "nothing" is neither]],
            'ft.plan { model = ft.model "t5-small", buckets = { 8 }, batches = 1, '
               .. 'lengths = { target = 4 }, profile = "nothing" }', "--profile nothing" },
         { [[schedule = "interleaved" needs partition = "seq"]],
            'ft.explore("t5-small", { schedule = "interleaved", partition = "mixed" })',
            "--schedule interleaved --partition mixed --dry-run" },
      }
      for _, case in ipairs(cases) do
         local lua = case[1]
         process.refused(lua:find("^model") and 6 or 2, lua:gsub("%p", "%%%0"),
            { "-e", 'local ft = require("ftpipe") ' .. case[2] })
         local flagged = lua:gsub("([%l_]+) = ", function(name)
            return "--" .. name:gsub("_", "-") .. " "
         end):gsub('"', "")
         local words = { "recipes/t5_rte.lua" }
         for word in case[3]:gmatch("%S+") do words[#words + 1] = word end
         process.refused(lua:find("^model") and 6 or 2, flagged:gsub("%p", "%%%0"), words)
      end
   end)

   it("fails in one line at the prompt", function()
      local lines = {
         { 'ft.explore("t5-small", { devices = 3 })',
            "option 'devices': expected a string or a table, got 3" },
         { 'ft.explore("t5-small", { schedule = print })', "expected a string or a table, got "
            .. "a function; a rule of your own is ft%.schedule { next = FUNCTION }" },
         { "ft.plann", "ft has no 'plann' %(did you mean 'plan'%?%)" },
         { "ft.help", "ft has no 'help'" },
         { "ft.tensor()", "bad argument #1" },
         { "nothing.at.all", "there is no global 'nothing'" },
      }
      for _, line in ipairs(lines) do
         local _, err = process.ftpipe({ "-i" }, line[1] .. "\n")
         assert.matches(line[2], err)
         assert.equal(1, select(2, err:gsub("\n", "")), err)
      end
   end)

   it("gives objects that print themselves", function()
      local directory = files.directory()
      for name, object in pairs(objects) do
         if name ~= "problem" and name ~= "args" then
            assert.is_nil(tostring(object):find("^table: 0x"), name)
         end
      end
      files.remove(directory)
      local script = [[local ft = require("ftpipe")
         local args = ft.args { preset = "t5", steps = { default = 2 } }
         print(ft.fine_tune { args = args, task = ft.task.rte { max_source = 64 } })]]
      local out = process.ftpipe({ "-" }, script)
      assert.matches("\nrte: accuracy %S+ %% on 400 examples; 2 steps in [^\n]*\n$", out)
   end)
end)
