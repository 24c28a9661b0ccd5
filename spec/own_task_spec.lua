--- A seventh task: one file, and a recipe over it, without another line of the program.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local task = require("ftpipe.task")

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

describe("a task of one's own", function()
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
         assert.equal(first, run(0, "predict", out .. "/hf", "--text", text):match("[^\n]+"))
         assert.matches("no task is called 'colour' %(there are: .*, and FILE.lua%)",
            select(2, run(2, "predict", out, "--file", rows)))
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
end)
