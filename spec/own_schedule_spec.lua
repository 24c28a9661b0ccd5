--- Recipes with a schedule made in Lua: what is said of it, what --out records, what goes on.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

-- WHERE: what is given where.
local SCRIPT = [[
local ft = require("ftpipe")
local args = ft.args { preset = "t5" }
local function rule(name, synchronous)
   return ft.schedule {
      name = name, synchronous = synchronous,
      next = function(s)
         local ahead = s.forwards - s.backwards
         local drains = synchronous and ahead > 0 and s.forwards %% s.micro_batches == 0
         return not drains and ahead <= s.depth and "F" or "B"
      end,
   }
end
local task = ft.task.rte { max_source = 32, max_target = 4 }
%s
]]

local IN_CALL = 'ft.fine_tune { args = args, task = task, schedule = rule("%s", %s) }'
local IN_ARGS = 'args.schedule = rule("%s", %s) ft.fine_tune { args = args, task = task }'

describe("a recipe", function()
   it("that names no model is told to", function()
      local path = os.tmpname()
      core.sys.write_file(path, 'require("ftpipe").fine_tune { args = require("ftpipe").args '
         .. '{ preset = "fine_tune" }, task = require("ftpipe").task.rte {} }')
      process.refused(2, "nothing says which model, give %-%-model DIR; of recipes some presets",
         { path, "--data", "embedded", "--steps", "2" })
      os.remove(path)
   end)
end)

describe("a recipe's own schedule", function()
   local function run(dir, body, ...)
      core.sys.write_file(dir .. "/own.lua", SCRIPT:format(body))
      return process.ftpipe({ dir .. "/own.lua", "--max-source", "32", "--max-target", "4",
         "--batch", "8", "--micro-batches", "2", "--steps", "2", "--eval-limit", "4",
         "--devices", "cpu:2", "--profile", "modelled", "--out", dir .. "/out", ... }, "", 120)
   end

   local function recorded(dir, file)
      return core.json.decode(core.sys.read_file(dir .. "/out/" .. file))
   end

   it("is named by the plan and by what --out leaves, wherever it is given", function()
      for _, form in ipairs { IN_CALL, IN_ARGS } do
         files.in_directory(function(dir)
            local out, err, exit = run(dir, form:format("lazy", "true"))
            assert.equal(0, exit, err)
            assert.matches("\nplan: lazy, 2 stages on 2 devices ", out)
            assert.matches("\nschedule lazy\n", core.sys.read_file(dir .. "/out/plan.txt"))
            assert.equal("lazy", recorded(dir, "run.json").flags.schedule)
            assert.equal("lazy", recorded(dir, "summary.json").schedule)
         end)
      end
   end)

   it("is from the recipe in run.json, as a partition is", function()
      local forms = {
         { IN_CALL:format("lazy", "true"), "seq", "default" },
         { IN_ARGS:format("lazy", "true"), "seq", "default" },
         { 'ft.fine_tune { args = args, task = task, schedule = rule("lazy", true), partition = '
            .. "function(p) local on = {} for i in ipairs(p.names) do on[i] = i < 9 and 1 or 2 end "
            .. "return on end }", "custom", "recipe" },
      }
      for _, form in ipairs(forms) do
         local body, partition, from = unpack(form)
         files.in_directory(function(dir)
            local _, err, exit = run(dir, body)
            assert.equal(0, exit, err)
            local record = recorded(dir, "run.json")
            assert.same({ "lazy", partition }, { record.flags.schedule, record.flags.partition })
            local origins = record.origins
            assert.same({ "recipe", from, "command line", "default" },
               { origins.schedule, origins.partition, origins.batch, origins.seed })
         end)
      end
   end)

   it("goes on as it is, not as another one on which the numbers depend", function()
      files.in_directory(function(dir)
         local _, err, exit = run(dir, IN_CALL:format("lazy", "false"))
         assert.equal(0, exit, err)
         _, err, exit = run(dir, IN_CALL:format("lazy", "false"), "--resume")
         assert.equal(0, exit, err)
         local function refused(message, body, ...)
            _, err, exit = run(dir, body, "--resume", ...)
            assert.equal(2, exit)
            assert.matches("^[^\n]*was made with other arguments: [^\n]*" .. message
               .. "; %-%-change%-schedule goes on with another schedule\n$", err)
         end
         refused("%-%-schedule was lazy, is eager", IN_CALL:format("eager", "false"))
         refused("%-%-schedule was lazy, is async", "ft.fine_tune { args = args, task = task }",
            "--schedule", "async")
         refused("%-%-schedule was async, is synchronous[^\n]*",
            "ft.fine_tune { args = args, task = task }")
      end)
   end)

   it("stands beside a partition of one's own, and not beside --plan", function()
      local body = [[
         local function halves(problem)
            local on, n = {}, #problem.names
            for i = 1, n do on[i] = i <= n / 2 and 1 or 2 end
            return on
         end
         ft.fine_tune { args = args, task = task, schedule = rule("lazy", true),
            partition = halves }]]
      files.in_directory(function(dir)
         local out, err, exit = run(dir, body, "--dry-run")
         assert.equal(0, exit, err)
         assert.matches("\nplan: lazy, 2 stages [^\n]*, partition custom\n", out)
         local _, problem, code = run(dir, "args.plan = 'plan.txt'" .. body)
         assert.equal(2, code)
         assert.matches("^[^\n]*%-%-plan decides what schedule says, leave one out\n$", problem)
         for flags, words in pairs {
            ["--schedule gpipe"] = "%-%-schedule gpipe says nothing here: the script gives its "
               .. "own, leave the flag out",
            ["--partition greedy"] = "%-%-partition greedy says nothing here: the script gives "
               .. "its own, leave the flag out",
            ["--stages 2"] = "%-%-stages says nothing here: the script's own partitioner gives "
               .. "each node a device, leave the flag out",
         } do
            local name, value = flags:match("^(%S+) (%S+)$")
            _, problem, code = run(dir, body, "--dry-run", name, value)
            assert.equal(2, code)
            assert.matches("^[^\n]*" .. words .. "\n$", problem)
         end
      end)
   end)

   it("of a plan that is made apart is what run.json records", function()
      files.in_directory(function(dir)
         local _, err, exit = run(dir, [[
            local model = ft.model(args)
            local data = task:open(model, args)
            local plan = ft.plan {
               model = model, data = data, args = args, schedule = rule("lazy", true),
            }
            local run = ft.run { plan = plan, task = task, data = data, args = args }
            for _ in run:train() do end
            run:close(run:evaluate())]])
         assert.equal(0, exit, err)
         assert.equal("lazy", recorded(dir, "run.json").flags.schedule)
      end)
   end)
end)
