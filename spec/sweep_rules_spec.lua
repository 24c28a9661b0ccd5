--- What rules of sweeps decide, by hand.

local controllers = require("ftpipe.sweep.controller")
local core = require("ftpipe.core")
local ends = require("ftpipe.sweep.ends")
local files = require("spec.support.files")
local ft = require("ftpipe")
local indexes = require("ftpipe.sweep.index")
local keys = require("ftpipe.base.keys")
local methods = require("ftpipe.sweep.methods")
local process = require("spec.support.process")
local prune = require("ftpipe.sweep.prune")
local random = require("ftpipe.base.random")
local results = require("ftpipe.sweep.result")
local spaces = require("ftpipe.sweep.space")
local texts_of = require("ftpipe.sweep.text")

local LINE = spaces.parameters { x = ft.sweep.linear(0, 1) }

--- The first coordinate that TPE tries next, after trials { coordinate, loss }, for 40 seeds.
local function tried(parameters, trials)
   local found, list = {}, {}
   for i, trial in ipairs(trials) do found[i] = { point = { trial[1] }, loss = trial[2] } end
   for seed = 1, 40 do
      list[seed] = methods.point("tpe", parameters, #found + 1, found, { seed = seed })[1]
   end
   return list
end

describe("a recipe that is given as a sweep", function()
   it("is refused, and no recipe behind it", function()
      local words = rawget(_G, "arg")
      local ok, problem = pcall(require("ftpipe.command.sweep").run, { "recipes/t5_rte.lua" })
      assert.is_false(ok)
      assert.matches("recipes/t5_rte.lua is no sweep file", problem.message)
      assert.equal(words, rawget(_G, "arg"))
      rawset(_G, "arg", { [0] = "recipe.lua", "--steps", "3" })
      local read, args = pcall(ft.args, { steps = { default = 1 } })
      rawset(_G, "arg", words)
      assert.same({ true, 3 }, { read, read and args.steps or args.message })
   end)
end)

describe("a rule that gives trials up", function()
   it("looks at the best report of a trial, where it is the median", function()
      local reports = { { trial = 9, step = 1, loss = 1 } }
      for trial = 1, 3 do reports[#reports + 1] = { trial = trial, step = 2, loss = trial + 1 } end
      local rule = { kind = "median", min = 1 }
      assert.is_false(prune.ends(rule, reports, { trial = 9, step = 2, loss = 9 }))
      assert.is_true(prune.ends(rule, reports, { trial = 8, step = 2, loss = 9 }))
   end)

   it("counts trials whose first report is beyond a rung, where it is ASHA", function()
      local rule = { kind = "asha", min = 2, eta = 2 }
      local reports = { { trial = 1, step = 5, loss = 1 }, { trial = 2, step = 5, loss = 2 } }
      assert.is_true(prune.ends(rule, reports, { trial = 3, step = 2, loss = 3 }))
      assert.is_false(prune.ends(rule, reports, { trial = 3, step = 2, loss = 0.5 }))
   end)
end)

describe("what a sweep gives up", function()
   it("is by ASHA what a replay of the reports gives up", function()
      local rule = { kind = "asha", min = 2, eta = 3 }
      local reports, ended = {}, {}
      local draws = random.new(12345)
      local at, quality = {}, {}
      for trial = 1, 27 do at[trial], quality[trial] = 0, draws:fraction() end
      for _ = 1, 600 do -- in any order, as processes beside each other report
         local trial = draws:integer(27)
         if not ended[trial] and at[trial] < 18 then
            at[trial] = at[trial] + 1
            local report = { trial = trial, step = at[trial],
               loss = quality[trial] + 1 / at[trial] }
            report.ends = prune.ends(rule, reports, report)
            ended[trial] = report.ends or nil
            reports[#reports + 1] = report
         end
      end
      local before, n_ended, last = {}, 0, 0
      for i, report in ipairs(reports) do
         assert.equal(report.ends, prune.ends(rule, before, report), i)
         if report.ends then
            n_ended = n_ended + 1
            local rung = prune.rung(rule, report.step)
            assert.is_true(report.step == 2 or report.step == 6 or report.step == 18, rung)
         end
         if report.step == 18 then last = last + 1 end
         before[i] = report
      end
      assert.is_true(n_ended >= 14, n_ended)
      assert.is_true(last >= 1 and last <= 9, last)
   end)

   it("is by the median what is worse than half of the others", function()
      local rule, reports = { kind = "median", min = 1 }, {}
      for trial, loss in ipairs { 1, 2, 3, 4 } do
         reports[trial] = { trial = trial, step = 1, loss = loss }
      end
      local function gives_up(loss)
         return prune.ends(rule, reports, { trial = 9, step = 1, loss = loss })
      end
      assert.is_false(gives_up(2.4))
      assert.is_true(gives_up(2.6))
      assert.is_true(gives_up(0 / 0))
      assert.is_false(prune.ends(rule, reports, { trial = 9, step = 2, loss = 9 })) -- nobody there
   end)
end)

describe("a trial that does not start", function()
   it("is said to be none, in the words of its log", function()
      files.in_directory(function(dir)
         local log = dir .. "/log"
         core.sys.write_file(log, "ftpipe: /x cannot be started: Permission denied\n")
         assert.equal("the program could not be started: /x cannot be started: Permission denied",
            ends.note(127, log))
         assert.equal("the program could not be started", ends.note(126, dir .. "/none"))
      end)
   end)
end)

describe("trials that end alike", function()
   local SPACE = spaces.parameters { a = { 1, 2 }, b = { "x" }, c = ft.sweep.linear(0, 1) }

   --- Whether a sweep with these trials ends: each has a, c, code and note.
   local function ends_with(trials)
      local rows = {}
      for i, t in ipairs(trials) do
         rows[i] = { number = i, flags = { a = t[1], b = "x", c = t[2] }, code = t[3], note = t[4],
            state = t[3] and t[3] > 0 and "failed" or t[3] and "done" or "running" }
      end
      return ends.hopeless(rows, SPACE) ~= nil
   end

   it("end the sweep where all that changes has changed, from the third", function()
      assert.is_true(ends_with { { 1, 0.1, 2, "x" }, { 2, 0.1, 2, "x" }, { 1, 0.3, 2, "x" } })
      assert.is_false(ends_with { { 1, 0.1, 2, "x" }, { 2, 0.2, 2, "x" } })
      assert.is_false(ends_with { { 1, 0.1, 2, "x" }, { 1, 0.2, 2, "x" }, { 1, 0.3, 2, "x" } })
      assert.is_false(ends_with { { 1, 0.1, 2, "x" }, { 2, 0.1, 2, "x" }, { 1, 0.1, 2, "x" } })
      assert.is_true(ends_with { { 1, 0.1, 2, "x" }, { 2, 0.2, 2, "x" }, { 1, 0.3 },
         { 1, 0.4, 2, "x" } }) -- the third runs
   end)

   it("are no others, nor what their values did", function()
      local two = { { 1, 0.1, 2, "x" }, { 2, 0.2, 2, "x" } }
      assert.is_false(ends_with { two[1], two[2], { 1, 0.3, 2, "y" } })
      assert.is_false(ends_with { two[1], two[2], { 1, 0.3, 0 }, { 1, 0.4, 2, "x" } })
      for _, code in ipairs { 3, 4 } do
         assert.is_false(ends_with { { 1, 0.1, code, "x" }, { 2, 0.2, code, "x" },
            { 1, 0.3, code, "x" } })
      end
      for _, code in ipairs { 1, 5, 6, 137 } do
         assert.is_true(ends_with { { 1, 0.1, code, "x" }, { 2, 0.2, code, "x" },
            { 1, 0.3, code, "x" } })
      end
   end)

   it("say the same in directories of their own", function()
      assert.is_true(ends_with { { 1, 0.1, 6, "o/trials/0001: x" },
         { 2, 0.2, 6, "o/trials/0002: x" }, { 1, 0.3, 6, "o/trials/0003: x" } })
      assert.is_false(ends_with { { 1, 0.1, 6, "o/trials/0001: x" },
         { 2, 0.2, 6, "o/trials/0001: x" }, { 1, 0.3, 6, "o/trials/0001: x" } })
   end)
end)

describe("the number that counts", function()
   local left = { steps = 3, better = "higher", list = { 1, 2 }, copies = { batches = 4 },
      metrics = { f1 = 5, em = core.json.null } }

   it("is found by the names that there are", function()
      left.list = core.json.array(left.list)
      assert.same({ "copies.batches", "f1", "steps" }, results.names(left))
      for i, name in ipairs { "steps", "copies.batches", "f1", "metrics.f1" } do
         assert.equal(({ 3, 4, 5, 5 })[i], (results.number(left, name)))
      end
      assert.same({ nil, true }, { results.number(left, "em") }) -- there, and no number
      assert.same({ nil, false }, { results.number(left, "f2") })
   end)
end)

describe("the flags of a trial", function()
   local function word(value) return controllers.flag_words({}, { lr = value })[1] end

   it("have its numbers to the last bit", function()
      local numbers = random.new(7, 11)
      for _ = 1, 2000 do
         local value = (numbers:fraction() - 0.5) * 10 ^ (600 * numbers:fraction() - 300)
         assert.equal(value, tonumber(word(value):match("^%-%-lr=(.+)$")))
      end
      assert.equal("--lr=0.30000000000000004", word(0.1 + 0.2))
      assert.equal("--lr=9007199254740991", word(2 ^ 53 - 1))
   end)

   it("have no more digits than a number needs", function()
      local texts = { "0.001", "0.0003", "3e-05", "0.1", "-2.5", "1e+21", "123456789012345" }
      for _, text in ipairs(texts) do assert.equal("--lr=" .. text, word(tonumber(text))) end
      assert.equal("b2=0.99995  lr=0.001", texts_of.flags { lr = 1e-3, b2 = 0.99995 })
   end)
end)

describe("a point of a sweep", function()
   it("has four digits, and more where a range is narrow", function()
      local wide = spaces.parameters { lr = ft.sweep.log(1e-4, 1e-2) }[1]
      for i = 0, 99 do
         local value = spaces.value(wide, i / 100)
         assert.equal(tonumber(("%.4g"):format(value)), value)
      end
      local ranges = { ft.sweep.linear(0.99991, 0.99999), ft.sweep.log(0.99991, 0.99999),
         ft.sweep.linear(1e6, 1e6 + 10), ft.sweep.linear(1, 1 + 2 ^ -50) }
      for k, range in ipairs(ranges) do
         local narrow, seen, n = spaces.parameters { x = range }[1], {}, 0
         for i = 0, 999 do
            local value = spaces.value(narrow, i / 1000)
            assert.is_true(value >= range.low and value <= range.high)
            if not seen[value] then seen[value], n = true, n + 1 end
         end
         assert.is_true(k == 4 and n >= 4 or n > 500, n) -- of the last there are no more
      end
   end)

   it("is no other trial's, until a space that ends has no more", function()
      local few = spaces.parameters {
         n = ft.sweep.whole(1, 3), x = { "a", "b", "a" }, y = { true },
      }
      assert.equal(6, spaces.size(few))
      for _, method in ipairs(methods.names) do
         local rows, found, o, seen = {}, {}, { seed = 1, grid_steps = 5 }, {}
         assert.equal(6, methods.size(method, few, o), method)
         for number = 1, 6 do
            local point = methods.new_point(method, few, number, found, o, rows)
            rows[number] = { flags = spaces.values(few, point) }
            found[number] = { point = point, loss = number }
            seen[rows[number].flags.n .. rows[number].flags.x] = true
         end
         assert.same({ "1a", "1b", "2a", "2b", "3a", "3b" }, keys(seen), method)
         assert.is_nil(methods.new_point(method, few, 7, found, o, rows))
      end
      assert.is_nil(spaces.size(LINE))
   end)

   it("is the middle of its part of a range, on a grid", function()
      for i = 1, 4 do
         local point = methods.point("grid", LINE, i, {}, { grid_steps = 4 })
         assert.near((i - 0.5) / 4, point[1], 1e-12)
      end
   end)

   it("is on a grid each whole number of a range once, where there are fewer than steps", function()
      local whole = spaces.parameters { n = ft.sweep.whole(2, 4), x = { "a", "b" } }
      local seen, o = {}, { grid_steps = 5 }
      for i = 1, 6 do
         local values = spaces.values(whole, methods.point("grid", whole, i, {}, o))
         seen[i] = values.n .. values.x
      end
      assert.equal("2a 2b 3a 3b 4a 4b", table.concat(seen, " "))
      assert.equal(6, methods.size("grid", whole, o))
      local wide = spaces.parameters { n = ft.sweep.whole(1, 100) }
      assert.equal(5, methods.size("grid", wide, o))
   end)

   it("is by TPE like the best tenth of trials, rounded up", function()
      local three = spaces.parameters { kind = { "a", "b", "c" } }
      local trials = { { 0.1, 1 }, { 0.5, 2 } } -- of "a" and of "b", and nine of "c"
      for i = 3, 11 do trials[i] = { 0.9, i } end
      local seen = {}
      for _, u in ipairs(tried(three, trials)) do seen[spaces.value(three[1], u)] = true end
      assert.same({ a = true, b = true }, seen)
   end)

   it("is by TPE unlike the other trials", function()
      local trials = { { 0.5, 1 } }
      for i = 2, 10 do trials[i] = { 0.38 + 0.01 * i, i } end -- beside the best one
      for _, u in ipairs(tried(LINE, trials)) do assert.is_true(math.abs(u - 0.5) > 0.15, u) end
   end)
end)

describe("a sweep", function()
   it("is refused in one line when it makes no sense", function()
      local cases = {
         ["run begins with a recipe"] = { run = {}, space = { a = { 1 } }, trials = 1 },
         ["space.a: expected a list"] = { run = { "x" }, space = { a = 3 }, trials = 1 },
         ["a is in run and in space"] = { run = { "x", a = 1 }, space = { a = { 1 } }, trials = 1 },
         ["metric and goal go together"] = { run = { "recipes/t5_rte.lua" }, space = { lr = { 1 } },
            trials = 1, goal = "max" },
         ["without both the recipe's own"] = { run = { "recipes/t5_rte.lua" }, trials = 1,
            space = { lr = { 1 } }, metric = "samples_per_second" },
         ["there is no file 'recipes/none.lua'"] = { run = { "recipes/none.lua" }, trials = 1,
            space = { lr = { 1 } } },
         ["metric and goal say"] = { run = { "plan" }, space = { a = { 1 } }, trials = 1 },
         ["space.a: a table is no value of a flag"] = { run = { "x" }, space = { a = { {} } } },
         ["space.a: inf is no value of a flag"] = { run = { "x" }, space = { a = { 1 / 0 } } },
         ["run.b: a function is no value"] = { run = { "x", b = print }, space = { a = { 1 } } },
         ["space: 'a%-b' is no name of a flag, expected a_b"] = { run = { "x" },
            space = { ["a-b"] = { 1 } } },
         ["space.a: expected a list of values or"] = { run = { "x" },
            space = { a = { 1, b = 2 } } },
         ["space%[1%] has no name"] = { run = { "x" }, space = { { 1 } } },
         ["run%[2%] is a number, expected a word"] = { run = { "x", 3 }, space = { a = { 1 } } },
         ["out: the sweep gives each trial"] = { run = { "recipes/t5_rte.lua", out = "x" },
            space = { lr = { 1 } } },
         ["resume: the sweep gives each trial"] = { run = { "recipes/t5_rte.lua", "--resume" },
            space = { lr = { 1 } } },
         ["out: the sweep gives each trial of"] = { run = { "recipes/t5_rte.lua", "--out", "x" },
            space = { lr = { 1 } } },
         ["eval_every is in run and in space"] = { run = { "recipes/t5_rte.lua",
            "--eval-every=1" }, space = { eval_every = { 1 } } },
         ["run says lr twice"] = { run = { "x", "--lr", "1", lr = 2 }, space = { a = { 1 } } },
         ["devices hosts:2xcpu are of several processes, and a trial is one: give it"] = {
            run = { "recipes/t5_rte.lua", devices = "hosts:2xcpu" }, space = { lr = { 1 } } },
         ["devices hosts:3xcpu:1 are of several"] = { run = { "recipes/t5_rte.lua", "--devices",
            "hosts:3xcpu:1" }, space = { lr = { 1 } } },
         ["devices hosts:4xcpu are of several"] = { run = { "recipes/t5_rte.lua" },
            space = { devices = { "cpu:2", "hosts:4xcpu" } } },
         ["grid_steps is for method grid, and method tpe has no steps: leave it out"] = {
            run = { "recipes/t5_rte.lua" }, space = { lr = { 1 } }, grid_steps = 3 },
         ["prune: eta is for kind asha, and kind median has none: leave it out"] = {
            run = { "recipes/t5_rte.lua" }, space = { lr = { 1 } },
            prune = { kind = "median", min = 1, eta = 2 } },
         ["prune: 'plan' is no recipe"] = { run = { "plan" }, space = { a = { 1 } }, metric = "m",
            goal = "min", prune = { kind = "median", min = 1 } },
         ["'metod' %(did you mean 'method'"] = { run = { "x" }, space = {}, metod = "grid" },
      }
      for pattern, definition in pairs(cases) do
         assert.matches(pattern, files.failure(ft.sweep, definition).message)
      end
      assert.matches("expected a larger end", files.failure(ft.sweep.log, 1, 1).message)
      assert.matches("expected ends that are finite", files.failure(ft.sweep.log, 1, 1 / 0).message)
   end)
end)

describe("ftpipe sweep ls", function()
   it("lists sweeps behind one whose index is damaged", function()
      files.in_directory(function(directory)
         for _, name in ipairs { "a", "b", "c" } do
            core.sys.mkdir(directory .. "/" .. name)
            indexes.open(directory .. "/" .. name):close()
         end
         core.sys.write_file(directory .. "/b/sweep.db", "junk")
         local out, err, code = process.ftpipe { "sweep", "ls", directory }
         assert.equal(0, code, err)
         assert.matches("^%S+/a +0 trials  none has ended\n"
            .. "%S+/b +unreadable: [^\n]+; ftpipe runs reindex %S+/b makes it anew\n"
            .. "%S+/c +0 trials  none has ended\n$", out)
      end)
   end)
end)
