--- A seventh task: one file, and a recipe over it, without another line of the program.

local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local loop_start = require("spec.support.loop")
local process = require("spec.support.process")
local task = require("ftpipe.task")
local task_files = require("spec.support.task_files")

local TASK = "examples/tasks/colour.lua"

local RECIPE = [[
local ft = require("ftpipe")
local args = ft.args { "Fine-tune T5 to name colours.", preset = "t5", steps = { default = 4 } }
return ft.fine_tune { args = args, task = ft.task.load("examples/tasks/colour.lua") {} }
]]

local ROWS = [[
{ "story": "Ben has a red kite. Anna has a blue ball.", "thing": "ball", "colour": "blue" }
{ "story": "Ben has a red kite. Anna has a blue ball.", "thing": "kite", "colour": "red" }
]]

-- Prints the steps that were done and the loss on held-out data, in all digits; %s are the steps,
-- what is done after one, and in the end.
local LOOP = loop_start .. [[
local function steps()
   local batches = require("ftpipe.data.feed").batches(plan.options, data.train.dataset, model)
   return run:steps(batches, plan.options.steps)
end
for step in %s do if step.step == 2 then %s end end
%s
local score = run:evaluate()
print(run.done, ("%%.17g"):format(score.loss))
local summary = run:close(score)
print(summary.steps, #run.losses)
]]

-- A task whose metric gives what is returned at the end, and how to train it.
local SCORED = [[
local ft = require("ftpipe")
local args = ft.args { "Colours.", preset = "t5", steps = { default = 4 } }
local colour = ft.task.load("examples/tasks/colour.lua") {}.definition
local calls = 0
local make = ft.task.define { kind = "text2text", name = "own", answers = colour.answers,
   label = colour.label, layouts = colour.layouts, sample = colour.sample, max_source = 64,
   max_target = 4, metric = { name = "mine", better = "higher", start = function()
      return { add = function() end, result = function() %s end }
   end } }
return ft.fine_tune { args = args, task = make {} }
]]

-- Prints what runs say that lack an option; the flags are --eval-every 2.
local LACKING = [[
local ft = require("ftpipe")
local args = ft.args { "A loop.", preset = "t5", steps = { default = 2 } }
local model = ft.model(args)
local task = ft.task.rte {}
local data = task:open(model, args)
local plan = ft.plan { model = model, data = data, args = args }
local function told(f, ...)
   print((tostring(select(2, pcall(f, ...))):gsub("^%S+:%d+: ", "")))
end
local bare, fed = ft.run { plan = plan, args = args }, ft.run { plan = plan, data = data,
   args = args }
told(bare.train, bare)
told(bare.evaluate, bare)
told(fed.train, fed)
told(fed.evaluate, fed)
local trained = ft.run { plan = plan, data = { train = data.train }, task = task, args = args }
told(trained.train, trained)
told(trained.evaluate, trained)
local judged = ft.run { plan = plan, data = { eval = data.eval }, task = task, args = args }
told(judged.train, judged)
args.out = arg[0] .. ".out"
told(ft.run, { plan = plan, data = data, args = args })
args.resume = true
told(ft.run, { plan = plan, task = task, args = args })
]]

describe("a training loop", function()
   it("says in a line which option of its run it lacks", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/loop.lua", LACKING)
         local out, err, exit = process.ftpipe { dir .. "/loop.lua", "--profile", "modelled",
            "--eval-every", "2" }
         assert.equal(0, exit, err)
         local function lacks(name, what)
            return ("ft.run: option '%s' is missing: %s needs it\n"):format(name, what)
         end
         local function lacks_part(name, what)
            return ("ft.run: option 'data': there is no '%s' in it: %s needs it\n"):format(name,
               what)
         end
         assert.equal(lacks("data", "run:train()") .. lacks("data", "run:evaluate()")
            .. lacks("task", "--eval-every") .. lacks("task", "run:evaluate()")
            .. lacks_part("eval", "--eval-every") .. lacks_part("eval", "run:evaluate()")
            .. lacks_part("train", "run:train()")
            .. lacks("task", "--out") .. lacks("data", "--resume"), out)
      end)
   end)

   it("is told from a recipe, which trains with it", function()
      local path = "examples/tasks/colour.lua"
      for _, command in ipairs { "plan", "run" } do
         process.refused(2, "^ftpipe: examples/tasks/colour%.lua only defines a task; expected a "
            .. "recipe, which trains with it, as examples/own_task%.lua does\n$", { command, path })
      end
   end)

   it("trains no plan that is only to be looked at, and writes nothing for it", function()
      files.in_directory(function(dir)
         local script, out = "examples/own_task.lua", dir .. "/run"
         for _, words in ipairs {
            { script, "--dry-run" }, { "plan", script }, { script, "--devices", "sim:2x11GB" },
         } do
            for _, word in ipairs { "--profile", "modelled", "--out", out, "--steps", "5" } do
               words[#words + 1] = word
            end
            local printed, err, exit = process.ftpipe(words)
            assert.equal(0, exit, err)
            assert.matches("\n1f1b\t2\nplan: 1f1b, 2 stages .*\npredicted: [^\n]+\n", printed)
            assert.not_matches("accuracy", printed)
            assert.is_nil(core.sys.exists(out))
         end
      end)
   end)

   it("may be left, or evaluate in its middle: the weights are those after run.done steps",
      function()
         files.in_directory(function(dir)
            local loop = "run:train()"
            local function go(inside, after, ...)
               core.sys.write_file(dir .. "/loop.lua", LOOP:format(loop, inside, after))
               local out, err, exit = process.ftpipe { dir .. "/loop.lua", "--profile", "modelled",
                  ... }
               assert.equal(0, exit, err)
               return out:match("^(%d+)\t(%S+)\n(%d+)\t(%d+)\n$")
            end
            local done, loss, steps, n = go("break", "", "--out", dir .. "/run")
            assert.is_true(tonumber(done) >= 2 and tonumber(done) < 6, done)
            assert.same({ done, done }, { steps, n })
            assert.equal(loss, select(2, go("", "", "--steps", done)))
            assert.equal(tonumber(done), core.json.read(dir .. "/run/summary.json").steps)
            assert.equal("step-" .. done, core.io.link_target(dir .. "/run/checkpoints/latest"))

            local whole = { go("", "") }
            assert.equal("6", whole[1])
            assert.same(whole, { go("break", "for _ in run:train() do end") })
            assert.same(whole, { go("run:evaluate()", "") })

            loop = "steps()"
            done, loss = go("break", "")
            assert.equal(loss, select(2, go("", "", "--steps", done)))
         end)
      end)
end)

describe("a metric of one's own", function()
   it("is named where it gives no number, and the run goes on with another", function()
      files.in_directory(function(dir)
         local words = { dir .. "/r.lua", "--profile", "modelled", "--eval-limit", "4",
            "--eval-every", "2", "--out", dir .. "/run" }
         local function go(result)
            core.sys.write_file(dir .. "/r.lua", SCORED:format(result))
            return process.ftpipe(words)
         end
         -- of both splits a score for each of six answers, one before training, that of step 2
         local _, err, exit = go("calls = calls + 1 return { mine = calls == 14 and 0 / 0 or 1 }")
         assert.equal(2, exit, err)
         assert.matches("\nftpipe: task own: metric 'mine' gave %-?nan in the evaluation after "
            .. "step 2: expected a finite number; %S+/step%-2 is whole, %-%-resume goes on "
            .. "from it\n$", err)
         words[#words + 1] = "--resume"
         _, err, exit = go("return { mine = 1 }")
         assert.equal(0, exit, err)
         assert.matches("after step 2 of 4\nstep 2: mine 1.0 %%", err)
      end)
   end)
end)

describe("a task of one's own", function()
   it("is of the file that defines it, however that is run", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/colours.lua", core.sys.read_file(TASK))
         core.sys.write_file(dir .. "/recipe.lua", 'package.path = "' .. dir .. '/?.lua"\n'
            .. 'print(require("colours") {}:record().file)\n'
            .. ('print(dofile("%s/colours.lua") {}:record().file)\n'):format(dir)
            .. 'local make = require("ftpipe").task.define { kind = "text2text", name = "x", '
            .. 'answers = { { label = "a", target = "a" } }, label = "y", metric = "accuracy", '
            .. 'max_source = 8, max_target = 4, layouts = { { name = "rows", '
            .. 'train = "train.jsonl", eval = "val.jsonl", template = "{x}" } } }\n'
            .. 'print(make {}:record().file)\n')
         local out, err, exit = process.ftpipe { dir .. "/recipe.lua" }
         assert.equal(0, exit, err)
         assert.equal(("%s/colours.lua\n%s/colours.lua\n%s/recipe.lua\n"):format(dir, dir, dir),
            out)
         assert.same({ "", "", 0 }, { process.ftpipe { dir .. "/colours.lua" } })
      end)
   end)

   it("trains, evaluates and predicts like those inside", function()
      files.in_directory(function(dir)
         local function run(code, ...)
            local out, err, exit = process.ftpipe { ... }
            assert.equal(code, exit, err)
            return out, err
         end
         local recipe, rows, out = dir .. "/recipe.lua", dir .. "/rows.jsonl", dir .. "/run"
         core.sys.write_file(recipe, RECIPE)
         core.sys.write_file(rows, ROWS)
         assert.matches("^colour: the tiny model .*; embedded train data of task colour",
            run(0, recipe, "--dry-run"))
         files.tiny_model(dir .. "/model")
         run(0, recipe, "--model", dir .. "/model", "--train-file", rows, "--eval-file", rows,
            "--batch", "8", "--out", out)
         local summary = core.json.read(out .. "/summary.json")
         assert.same({ "colour", "accuracy", 4 }, { summary.task, summary.metric, summary.steps })

         local first = run(0, "predict", out, "--task", TASK, "--file", rows):match("[^\n]+")
         local text = "question: Which colour has the ball? paragraph: Ben has a red kite. Anna "
            .. "has a blue ball."
         assert.equal((first:gsub(', "line": 1', "")),
            run(0, "predict", out .. "/hf", "--text", text):match("[^\n]+"))
         assert.equal(first, run(0, "predict", out, "--file", rows):match("[^\n]+"))
      end)
   end)

   it("is of a run what can be said without functions; else the file is asked for, and compared",
      function()
         files.in_directory(function(dir)
            local out, file, rows = dir .. "/run", dir .. "/task.lua", dir .. "/rows.jsonl"
            local with_function = core.sys.read_file(TASK):gsub("template = ",
               "clean = function(text) return text end, %0")
            core.sys.write_file(file, with_function)
            core.sys.write_file(rows, ROWS)
            core.sys.write_file(dir .. "/recipe.lua", (RECIPE:gsub("examples/tasks/colour", dir
               .. "/task")))
            local _, err, exit = process.ftpipe { dir .. "/recipe.lua", "--eval-only", "--out",
               out }
            assert.equal(0, exit, err)
            process.refused(2, "its task 'colour' makes texts of rows with functions, and nothing "
               .. "that a run names is executed by itself: give %-%-task /.*/task.lua",
               { "predict", out, "--file", rows })
            local words = { "predict", out, "--file", rows, "--task", file }
            local answers
            answers, err, exit = process.ftpipe(words)
            assert.equal("0 ", exit .. " " .. err)
            core.sys.write_file(file, with_function .. "\n-- changed")
            local again
            again, err, exit = process.ftpipe(words)
            assert.equal(0, exit, err)
            assert.equal(answers, again)
            assert.matches("^%-%-task .*/task.lua: not the file as it was when the run was made\n$",
               err)
         end)
      end)

   it("is nothing that a run directory could have executed, or that it could break", function()
      files.in_directory(function(dir)
         local out, rows, marker = dir .. "/run", dir .. "/rows.jsonl", dir .. "/marker"
         core.sys.write_file(rows, ROWS)
         core.sys.mkdir(out)
         files.tiny_model(out .. "/hf")
         core.sys.write_file(dir .. "/evil.lua", ("io.open(%q, 'w'):close()"):format(marker))
         local digest = core.sys.sha256(core.sys.read_file(dir .. "/evil.lua"))
         local evil = dir .. "/evil.lua"
         local layout = { name = "a", train = "a.jsonl", template = "{story}" }
         for pattern, own in pairs {
            ["run.json: no task is called '/.*evil.lua'"] = { name = evil },
            ["run.json: no task is called 'load'"] = { name = "load" },
            ["give %-%-task /.*evil.lua"] = { name = "x", kind = "text2text", file = evil,
               sha256 = digest },
            ["run.json: task: option 'kind' is 'io', expected one of"] = { name = "x", kind = "io",
               layouts = { layout } },
            ["run.json: layout of task x: expected a table of options, got a number"] = {
               name = "x", kind = "text2text", layouts = { 3 } },
            ["run.json: layout of task x: option 'template' is missing"] = { name = "x",
               kind = "text2text", layouts = { { name = "a", train = "a.jsonl" } } },
            ["run.json: task x: option 'max_source': expected an integer"] = { name = "x",
               kind = "text2text", layouts = { layout }, settings = { max_source = "many" } },
            ["rows.jsonl: task x has no layout of .jsonl files"] = { name = "x",
               kind = "text2text", layouts = { a = layout } },
            ["run.json: 'layouts' is no table"] = { name = "x", kind = "text2text", layouts = 1 },
            ["run.json: 'task' is no object"] = 7,
            ["rows.jsonl:1: field 'other' is missing"] = { name = "x", kind = "text2text",
               layouts = { { name = "a", train = "a.jsonl", template = "{other}" } } },
         } do
            core.sys.write_file(out .. "/run.json", core.json.encode { format = 1, task = own })
            local _, err, exit = process.ftpipe { "predict", out, "--file", rows }
            assert.is_true(exit == 2 or exit == 6, err)
            assert.matches(pattern, err)
            assert.equal(1, select(2, err:gsub("\n", "")), err)
            assert.is_nil(core.sys.exists(marker))
         end
      end)
   end)

   it("is a file that returns a task", function()
      files.in_directory(function(dir)
         local function problem(text)
            core.sys.write_file(dir .. "/task.lua", text)
            local found = files.failure(task.load, dir .. "/task.lua")
            assert.equal("malformed data", found.status)
            return found.message:gsub("^/tmp/[^/]*/", "")
         end
         assert.matches("^task.lua: .*:1: '=' expected near 'is'", problem("this is no Lua"))
         assert.equal("task.lua: returns a number, expected what ft.task.define gives",
            problem("return 3"))
         assert.equal("task.lua: returns a function, expected what ft.task.define gives",
            problem("return function() end"))
         assert.equal("not found", files.failure(task.load, dir .. "/none.lua").status)
      end)
   end)

   it("is refused with what is wrong in its layouts and answers", function()
      local function problem(layouts, answers)
         return files.failure(task.define, {
            kind = "text2text", name = "mine", metric = "accuracy", max_source = 8, max_target = 8,
            layouts = layouts or { { train = "a.jsonl", eval = "b.jsonl", template = "{x}" } },
            answers = answers or { { label = 1, target = "yes" } },
         }).message:gsub("^.*task mine", "task mine")
      end
      assert.matches("^task mine: option 'layouts' is no list of layouts", problem({}))
      assert.matches("task mine, layout 1: option 'template' is missing",
         problem { { train = "a.jsonl", eval = "b.jsonl" } })
      assert.matches("^task mine, layout 1: option 'eval' is missing",
         problem { { train = "a.jsonl", template = "{x}" } })
      assert.matches("unknown option 'tempalte' %(did you mean 'template'%?%)",
         problem { { train = "a.jsonl", eval = "b.jsonl", tempalte = "{x}" } })
      assert.matches("^task mine: option 'answers' is no list", problem(nil, { yes = 1 }))
      assert.matches("^task mine: answer 2: expected { label = a value, target = a text }",
         problem(nil, { { label = 1, target = "yes" }, { label = 2, target = 5 } }))
      assert.matches("^task mine: answer 2: label '1' is that of answer 1",
         problem(nil, { { label = 1, target = "yes" }, { label = 1, target = "no" } }))
      assert.matches("^task mine: answers 1 and 3 have the same target 'yes': give each a text",
         problem(nil, { { label = 1, target = "yes" }, { label = 2, target = "no" },
            { label = 3, target = "yes" } }))
   end)

   it("is named where its definition is wrong, with what loads it or without", function()
      files.in_directory(function(dir)
         local path, text = dir .. "/mine.lua", core.sys.read_file(TASK)
         core.sys.write_file(path, (text:gsub("max_source", "max_sorce")))
         core.sys.write_file(dir .. "/r.lua", RECIPE:gsub("examples/tasks/colour.lua", path))
         local said = "^ftpipe: " .. path .. ": task: unknown option 'max_sorce'"
         process.refused(2, said, { dir .. "/r.lua" })
         files.tiny_model(dir .. "/m")
         process.refused(2, said, { "predict", dir .. "/m", "--task", path, "--text", "x" })
      end)
   end)

   it("says of which row its functions give something else", function()
      local function fault(layout)
         layout.name, layout.train, layout.eval = "rows", "train.jsonl", "val.jsonl"
         layout.template = "{text}"
         local text = ('{"text": "a", "label": 1}\n'):rep(2)
         return (task_files.fault(task.define { kind = "text2text", name = "mine", max_source = 8,
            max_target = 8, metric = "accuracy", answers = { { label = 1, target = "yes" } },
            layouts = { layout } } {}, { ["train.jsonl"] = text, ["val.jsonl"] = text }))
      end
      local calls = 0
      local function second(value)
         return function(text)
            calls = calls + 1
            if calls % 2 == 0 then return value end
            return text
         end
      end
      assert.equal("train.jsonl:2: task mine: 'clean' of its layout gives nothing, "
         .. "expected the text", fault { clean = second(nil) })
      calls = 0
      assert.equal("train.jsonl:2: task mine: 'clean' of its layout gives 3, expected the text",
         fault { clean = second(3) })
      assert.equal("train.jsonl:1: task mine: 'expand' of its layout gives nothing, "
         .. "expected a list of rows", fault { expand = function() end })
      assert.equal("train.jsonl:1: task mine: 'expand' of its layout gives a string, "
         .. "expected rows, which are tables", fault { expand = function() return { "x" } end })
   end)

   it("says what its own reader gives instead of rows", function()
      local function fault(read)
         return (task_files.fault(task.define { kind = "text2text", name = "mine", max_source = 8,
            max_target = 8, metric = "accuracy", answers = { { label = 1, target = "yes" } },
            layouts = { { train = "train.jsonl", eval = "val.jsonl", template = "{text}",
               read = read } } } {}, { ["train.jsonl"] = "x", ["val.jsonl"] = "x" }))
      end
      local function said(what)
         return "^train.jsonl: task mine: 'read' of its layout gives " .. what
            .. ", expected a list of rows, which are tables$"
      end
      assert.matches(said("nothing"), fault(function() end))
      assert.matches(said("a string"), fault(function() return "rows" end))
      assert.matches(said("as row 2 5"), fault(function()
         return { { text = "a", label = 1 }, 5 }
      end))
      assert.matches("^train.jsonl:1: field 'text' is missing %(have: label%)$",
         fault(function() return { { label = 1 } } end))
      assert.matches("^train.jsonl: its rows hold no example$", fault(function() return {} end))
   end)

   it("has fields of any name in its templates, and at least one", function()
      local function define(template)
         return task.define { kind = "text2text", name = "mine", max_source = 32, max_target = 8,
            metric = "accuracy", answers = { { label = 1, target = "yes" } },
            layouts = { { train = "train.jsonl", eval = "val.jsonl", template = template } } }
      end
      local split = task_files.eval_of(define "{text-a} {gr\195\182\195\159e} { b } {" {},
         '{"text-a": "a kite", "gr\195\182\195\159e": "red", " b ": "ball", "label": 1}\n')
      assert.equal("a kite red ball {", split.examples[1].source)
      for _, template in ipairs { "mood: {text", "{}", "" } do
         assert.matches("task mine, layout 1: option 'template': expected the name of a field in "
            .. "it, as {text}$", files.fault(define, template))
      end
   end)

   it("says of which row its group is nothing that rows can share", function()
      local function fault(layout, group)
         layout.train, layout.eval, layout.template = "train.jsonl", "val.jsonl", "{text}"
         local text = '\n{"text": "a", "label": 1, "of": 3}\n{"text": "b", "label": 1}\n'
         return (task_files.fault(task.define { kind = "text2text", name = "mine", max_source = 8,
            max_target = 8, metric = "grouped_f1", answers = { { label = 1, target = "yes" } },
            group = group, layouts = { layout } } {}, { ["train.jsonl"] = text,
            ["val.jsonl"] = text }))
      end
      local function said(line, what)
         return ("^train.jsonl:%d: task mine: 'group' gives %s, expected a text or a finite "
            .. "number$"):format(line, what)
      end
      assert.matches(said(3, "nothing"), fault({}, function(row) return row.of end))
      assert.matches(said(3, "nothing"), fault({
         expand = function(_, row) return { { text = "c", label = 1, of = row.of } } end,
      }, function(row) return row.of end))
      assert.matches(said(2, "%-?nan"), fault({}, function(row) return row.of * (0 / 0) end))
      assert.matches(said(2, "inf"), fault({}, function(row) return row.of * math.huge end))
      assert.matches(said(2, "false"), fault({}, function() return false end))
      assert.matches(said(2, "a table"), fault({}, function(row) return { row.of } end))
      assert.matches(said(2, "null"), fault({}, function() return core.json.null end))
   end)

   it("has groups that are texts or numbers", function()
      local mine = task.define { kind = "text2text", name = "mine", max_source = 8, max_target = 8,
         metric = "grouped_f1", answers = { { label = 0, target = "no" },
            { label = 1, target = "yes" } }, group = function(row) return row.of end,
         layouts = { { train = "train.jsonl", eval = "val.jsonl", template = "{text}" } } } {}
      local split = task_files.eval_of(mine, '{"text": "a", "label": 1, "of": 0}\n'
         .. '{"text": "b", "label": 0, "of": 0}\n{"text": "c", "label": 1, "of": "x"}\n')
      assert.same({ 0, 0, "x" }, column(split.examples, "group"))
      assert.equal(50, task_files.score(mine, split, { "yes", "no", "no" }).metrics.em)
   end)
end)
