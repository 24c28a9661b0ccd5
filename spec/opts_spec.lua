local files = require("spec.support.files")
local opts = require("ftpipe.base.opts")
local suggest = require("ftpipe.base.suggest")

local rules = {
   stages = { type = "int", min = 1, max = 64, required = true, help = "pieces" },
   memory = { type = "bytes", default = "10 GiB" },
   schedule = { choices = { "gpipe", "1f1b" }, default = "1f1b" },
   tied = { default = false },
   shape = {
      type = function(v) return type(v) == "table" and #v == 2 and v or nil, "two sizes" end,
   },
}

local function check(given)
   return function() opts.check("plan", rules, given) end
end

describe("opts", function()
   it("fills in defaults and converts to base units", function()
      assert.same({ stages = 4, memory = 10 * 2 ^ 30, schedule = "1f1b", tied = false },
         opts.check("plan", rules, { stages = 4 }))
      assert.same({ 1, 2 }, opts.check("plan", rules, { stages = "4", shape = { 1, 2 } }).shape)
   end)

   it("blames the line of the caller", function()
      local line = debug.getinfo(1, "l").currentline + 1
      local _, problem = pcall(check { stages = 1, scheduel = "gpipe" })
      assert.matches("spec/opts_spec%.lua:%d+: plan: unknown option 'scheduel'", problem.message)
      assert.matches("did you mean 'schedule'", problem.message)
      assert.matches("expected one of: memory, schedule, shape, stages, tied", problem.message)
      assert.equal(2, problem.exit)
      assert.matches(": unknown option a table %(", files.failure(check { [{}] = 1 }).message)
      assert.is_true(line > 0)
   end)

   it("says what is wrong with a value", function()
      assert.fails_with(check {}, "option 'stages' is missing %(pieces%)")
      assert.fails_with(check { stages = 2.5 }, "expected an integer, got '2%.5'")
      for _, digits in ipairs { "9007199254740993", "36028797018963968", "-9007199254740993" } do
         assert.fails_with(check { stages = digits }, "expected an integer of at most 2^53, got '"
            .. digits:gsub("%-", "%%-") .. "'")
      end
      assert.equal(2 ^ 53, opts.convert({ type = "int" }, "9007199254740992"))
      assert.equal(7, opts.convert({ type = "int" }, "007"))
      assert.fails_with(check { stages = 0 }, "expected 1 to 64, got 0")
      assert.fails_with(check { stages = 1, memory = "10 GX" }, "expected a size")
      assert.fails_with(check { stages = 1, schedule = "1fb1" }, "did you mean '1f1b'")
      assert.fails_with(check { stages = 1, tied = 1 }, "expected true or false")
      assert.fails_with(check { stages = 1, shape = {} }, "two sizes")
      assert.fails_with(check(7), "expected a table of options, got a number")
   end)

   it("lets a default follow from other values, and what is given stand", function()
      local pieces = {
         whole = { type = "int", default = 6 },
         parts = { type = "int", default = 4, follows = function(o, default)
            return math.min(o.whole, default)
         end },
      }
      assert.same({ whole = 6, parts = 4 }, opts.check("cut", pieces, {}))
      assert.same({ whole = 3, parts = 3 }, opts.check("cut", pieces, { whole = 3 }))
      assert.same({ whole = 3, parts = 5 }, opts.check("cut", pieces, { whole = 3, parts = 5 }))
      pieces.parts.default = nil
      assert.same({ whole = 3 }, opts.check("cut", pieces, { whole = 3 }))
   end)

   it("describes every rule", function()
      local text = opts.help(rules)
      for name in pairs(rules) do assert.matches(name, text) end
   end)
end)

describe("what takes options", function()
   it("says in one line what it is to be given", function()
      local ft = require("ftpipe")
      local function refuses(pattern, call, ...)
         local ok, problem = pcall(call, ...)
         assert.is_false(ok)
         assert.equal("table", type(problem), tostring(problem))
         assert.equal("invalid argument", problem.status)
         assert.matches(pattern, problem.message)
         assert.is_nil(problem.message:find("\n"))
      end
      refuses("ft.explore: expected a model, .*, got nothing$", ft.explore)
      refuses("ft.explore: expected a model, .*, got a table$", ft.explore, {})
      refuses("ft.plan: expected a table of options with a model", ft.plan)
      refuses("ft.plan: option 'model' is missing %(what ft.model gives, as ft.model", ft.plan, {})
      refuses("ft.plan: option 'buckets' is missing %(lengths of a source, ascending%)$", ft.plan,
         { model = ft.model "t5-small" })
      for problem, buckets in pairs {
         ["entry 2 is 8, expected more than 32"] = { 32, 8 },
         ["entry 2 is 8, expected more than 8"] = { 8, 8 },
         ["entry 1 is 0, expected more than 0"] = { 0, 8 },
      } do
         refuses("ft.plan: option 'buckets': " .. problem .. "$", ft.plan,
            { model = ft.model "t5-small", buckets = buckets, batches = 1 })
      end
      refuses("a T5 gives answers, and nothing says how long they are: expected lengths = "
         .. "{ target = 8 }", ft.plan, { model = ft.model "t5-small", buckets = { 8 }, batches = 1,
         profile = "modelled" })
      refuses("ft.graph: expected a file, a model, .*, got nothing$", ft.graph)
      refuses("ft.graph: .*, got a table$", ft.graph, {})
      refuses("ft.partition: expected a problem, as ft.graph", ft.partition)
      refuses("ft.partition: expected a problem, as ft.graph", ft.partition, {})
      refuses("ft.explore: expected a table of options, got a number", ft.explore, "t5-small", 3)
      refuses("ft.partition: expected a table of options, got a number", ft.partition,
         { node_ns = { { 1 } } }, 3)
      refuses("ft.partition: option 'in_order': expected true or false", ft.partition,
         { node_ns = { { 1 } } }, { method = function() return { 1 } end, in_order = 3 })
      refuses("ft.args: expected a table of flags, .*, got a nil$", ft.args)
      refuses("ft.cluster: expected a text .* or a table, got a nil$", ft.cluster)
      refuses("ft.task.load: 'path': expected a string, got nothing$", ft.task.load)
      refuses("ft.plan.load: 'path': expected a string, got nothing$", ft.plan.load)
      refuses("expected a table of options, got a number$", ft.task.rte, 3)
   end)

   it("names what it does not know before what is missing or wrong", function()
      local ft = require("ftpipe")
      for name, call in pairs {
         ["ft.plan"] = ft.plan,
         ["ft.run"] = ft.run,
         ["ft.fine_tune"] = ft.fine_tune,
         ["ft.sweep"] = ft.sweep,
         ["ft.model"] = ft.model,
         ["schedule"] = ft.schedule,
         ["ft.schedule.play"] = ft.schedule.play,
         ["task rte"] = ft.task.rte,
         ["swap"] = ft.swap.compose,
         ["swap.plan"] = ft.swap.plan,
         ["swap.volumes"] = function(o) return ft.swap.volumes("pp", o) end,
         ["ft.explore"] = function(o) return ft.explore("no model", o) end,
         ["ft.planner"] = function(o) return ft.planner("no model", o) end,
         ["ft.graph"] = function(o) return ft.graph("no model", o) end,
         ["graph:problem"] = function(o)
            return ft.graph("t5-small"):problem { devices = "nothing", bogus = o.bogus }
         end,
         ["ft.partition"] = function(o) return ft.partition({}, o) end,
         ["ft.compare"] = function(o) return ft.compare({}, o) end,
         ["ft.cluster"] = function(o) return ft.cluster(3, o) end,
         ["ft.profile"] = function(o) return ft.profile(ft.model "t5-small", "nothing", o) end,
      } do
         local ok, problem = pcall(call, { bogus = 1 })
         assert.is_false(ok)
         assert.equal("table", type(problem), tostring(problem))
         local words = name .. ": unknown option 'bogus' (expected "
         assert.truthy(problem.message:find(words, 1, true), problem.message)
      end
   end)
end)

describe("suggest", function()
   it("counts edits, swaps of neighbours as one", function()
      assert.equal(0, suggest.distance("abc", "abc"))
      assert.equal(1, suggest.distance("abc", "acb"))
      assert.equal(3, suggest.distance("", "abc"))
      assert.equal(3, suggest.distance("kitten", "sitting"))
   end)

   it("names only what is near", function()
      assert.equal("steps", suggest.nearest("step", { "batch", "steps", "stages" }))
      assert.is_nil(suggest.nearest("zzzzzz", { "batch", "steps" }))
      assert.is_nil(suggest.nearest("x", {}))
   end)
end)
