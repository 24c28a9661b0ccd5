--- A run from a plan that is there: what an edit decides is what runs, or it is refused.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local givens = require("ftpipe.plan.given")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local records = require("ftpipe.store.record")

local options = {
   devices = "cpu:2", schedule = "1f1b", partition = { "decoder/block.0" }, steps = 6,
}

local function with(changes) return copy(options, changes) end

--- What a schedule would do with the options, as a plan by itself.
local function made(changes)
   return core.schedule.parse(pipeline.plan(with(changes or {})):text())
end

--- What stage 1 does in its first batch, from a timeline: "F0 F1 B0".
local function order_of(timeline)
   local rows = {}
   for _, event in ipairs(core.json.decode(timeline.trace).traceEvents) do
      local kind, micro = event.name:match("^([FB]) stage 0 mb (%d+)$")
      if kind and event.args.batch == 0 then
         rows[#rows + 1] = { at = event.ts, name = kind .. micro }
      end
   end
   table.sort(rows, function(a, b) return a.at < b.at end)
   for i, row in ipairs(rows) do rows[i] = row.name end
   return table.concat(rows, " ")
end

local function assert_same_numbers(a, b)
   assert.same(a.losses, b.losses)
   assert.same(a.params, b.params)
end

local function refused(pattern, act)
   local problem = files.failure(act)
   assert.matches(pattern, problem.message)
end

describe("a plan that is given", function()
   local judge = pipeline.train(options)

   it("runs from a file as what it was made from", function()
      files.in_directory(function(dir)
         local path = dir .. "/plan.txt"
         made():save(path)
         local run = pipeline.train(with { plan = path, schedule = "gpipe", trace = true })
         assert_same_numbers(judge, run)
         assert.equal("F0 F1 B0 F2 B1 F3 B2 B3", order_of(run.timeline))
         assert.equal(core.sys.read_file(path), run.plan:text())
      end)
   end)

   it("has the slots of an edit", function()
      local plan = made():edit { ["edge F0>F1 bytes 4032 slots 2"] = "edge F0>F1 bytes 1 slots 7" }
      local run = pipeline.train(with { plan = plan })
      assert_same_numbers(judge, run)
      assert.matches("\nedge F0>F1 bytes 4032 slots 7\n", run.plan:text())
      local slot = 4032 + 2 * 64
      assert.is_true(run.planned[2].buffers - judge.planned[2].buffers >= 5 * 4032)
      assert.is_true(run.planned[2].buffers - judge.planned[2].buffers <= 5 * slot)
      assert.equal(judge.planned[1].total, run.planned[1].total)
   end)

   it("moves to host memory and back what an edit says", function()
      local plan = made():edit(function(text)
         return (text:gsub("( U(%d+)%.(%d+))", " L%2.%3.0:optimizer%1 O%2.%3.0:optimizer"))
      end)
      local run = pipeline.train(with { plan = plan, trace = true })
      assert_same_numbers(judge, run)
      local _, moved = run.timeline.trace:gsub("\"L[^\"]* stage", "")
      assert.equal(2 * options.steps, moved)
      refused("drops what is nowhere else", function()
         made():edit(function(text) return (text:gsub("( U1%.(%d+))", "%1 D1.%2.0:weights", 1)) end)
      end)
   end)

   it("stands still where an edit says that nothing is in flight", function()
      local plan = made():edit(function(text)
         return (text:gsub("( U(%d+)%.(%d+))", "%1 Z%2.%3"))
      end)
      assert_same_numbers(judge, pipeline.train(with { plan = plan }))
      refused("Z0.0 stands where something is in flight", function()
         made():edit(function(text) return (text:gsub(" B0%.0%.0", " Z0.0%0", 1)) end)
      end)
   end)

   it("is refused where shared weights would be later than it says", function()
      --- Both batches written out, each device's actions behind each other in one line.
      local function unrolled(text, change)
         local lists = { [0] = "", "" }
         text = text:gsub("body ([01])( [^\n]*)\n?", function(device, actions)
            device = tonumber(device)
            lists[device] = lists[device] .. actions
            return ""
         end):gsub("body%-(%w+) %d", "body-%1 0")
         for d = 0, 1 do
            local again = lists[d]:gsub("(%u%d)%.0", "%1.1")
            text = ("%s\nwarm-up %d%s\n"):format(text, d, change(lists[d] .. again))
         end
         return text
      end
      local plan = made { steps = 2 }
      plan:edit(function(text) return unrolled(text, function(list) return list end) end)
      refused("F1.1.0 reads weights that it takes over from stage 0 1 updates late", function()
         plan:edit(function(text)
            return unrolled(text, function(list)
               return (list:gsub(" W1%.0( F1%.1%.0)", "%1 W1.0"))
            end)
         end)
      end)
   end)

   it("says what training refuses, in its words", function()
      local plan = pipeline.plan(with { plan = made():edit(function(text)
         return (text:gsub("\n\nnodes", "\norder 0 policy%0"))
      end) })
      local words = "device 0 chooses its order by policy, which can be simulated but not executed"
      local line = tostring(plan):match("\nnot executed: ([^\n]*)")
      assert.matches(words, line)
      refused((line:gsub("%p", "%%%0")), function() plan.blueprint:run() end)
      assert.is_true(plan:simulate(3).seconds > 0)
      assert.is_nil(tostring(pipeline.plan(options)):find("not executed", 1, true))
   end)

   it("sends and receives by itself where an edit says so", function()
      local ends, edges = {}, 0
      local function with_copies(text)
         for from, to in text:gmatch("\nedge (%w+)>(%w+)") do
            ends["S" .. from], ends["V" .. to] = " S%s.%s.%d:" .. edges, " V%s.%s.%d:" .. edges
            edges = edges + 1
         end
         local pattern = " ([FB])(%d)%.(%d+)%.(%d+)%-?(%d*)"
         return (text:gsub(pattern, function(kind, stage, batch, first, last)
            local list = {}
            for micro = tonumber(first), tonumber(last) or first do
               local function add(what)
                  local of_edge = ends[what .. kind .. stage]
                  if of_edge then list[#list + 1] = of_edge:format(stage, batch, micro) end
               end
               add("V")
               list[#list + 1] = (" %s%s.%s.%d"):format(kind, stage, batch, micro)
               add("S")
            end
            return table.concat(list)
         end))
      end
      local run = pipeline.train(with { plan = made():edit(with_copies), trace = true })
      assert_same_numbers(judge, run)
      local _, sent = run.timeline.trace:gsub("\"S[^\"]* stage", "")
      local _, received = run.timeline.trace:gsub("\"V[^\"]* stage", "")
      assert.equal(2 * 4 * options.steps, sent)
      assert.equal(sent, received)
      -- a place at each end, as large as a slot
      local slot = 4032 + 64
      assert.equal(judge.planned[1].buffers + 2 * slot, run.planned[1].buffers)
      assert.equal(judge.planned[2].buffers + 2 * slot, run.planned[2].buffers)
      pipeline.assert_memory(run.plan, run.measured)
      refused("S0.0.0:9 names edge 9 of", function()
         made():edit { ["body 0 F0.0.0-1"] = "body 0 F0.0.0-1 S0.0.0:9" }
      end)
      refused("S0.1.0:0 is out of its order, missing or twice", function()
         made():edit { ["body 0 F0.0.0-1"] = "body 0 F0.0.0-1 S0.0.0:0" }
      end)
   end)

   it("has the order of an edit, and the memory that it needs", function()
      local plan = made():edit {
         ["F0.0.0-1 B0.0.0 F0.0.2 B0.0.1 F0.0.3 B0.0.2-3"] = "F0.0.0-2 B0.0.0-1 F0.0.3 B0.0.2-3",
      }
      local run = pipeline.train(with { plan = plan, trace = true })
      assert_same_numbers(judge, run)
      assert.equal("F0 F1 F2 B0 B1 F3 B2 B3", order_of(run.timeline))
      assert.equal(3, run.plan.blueprint:stages()[1].in_flight)
      assert.equal(3 / 2, run.planned[1].activations / judge.planned[1].activations)
   end)

   it("has the cut of an edit", function()
      local plan = made():edit { ["node-stage 0*42 1*62"] = "node-stage 0*51 1*53" }
      local run = pipeline.train(with { plan = plan })
      assert_same_numbers(judge, run)
      assert.matches("\nnode%-stage 0%*51 1%*53\n", run.plan:text())
      assert.is_true(run.planned[1].weights > judge.planned[1].weights)
   end)

   it("has the lag of an edit", function()
      local async = with { schedule = "async", micro_batches = 1, tied = false, steps = 5 }
      local function edited(changes) return made(async):edit(changes) end
      local late = {
         ["body-repeats 4"] = "body-repeats 3",
         ["warm-up 0 F0.0.0"] = "warm-up 0 F0.0.0 F0.1.0~1",
         ["body 0 F0.1.0~1"] = "body 0 F0.2.0~2",
         ["drain 0 B0.4.0"] = "drain 0 B0.3.0 R0.3 U0.3 B0.4.0",
         ["drain 1 F1.4.0"] = "drain 1 F1.3.0 B1.3.0 R1.3 U1.3 F1.4.0",
      }
      local own = with { micro_batches = 1, tied = false, steps = 5, plan = edited(late) }
      local run = pipeline.train(own)
      own.threaded = false
      local replay = pipeline.train(own)
      assert_same_numbers(run, replay)
      assert.equal(2, run.plan.blueprint:stages()[1].most_staleness)
      local prompt = {
         ["warm-up 0 F0.0.0\nbody 0 F0.1.0~1"] = "body 0 F0.0.0",
         ["drain 0 B0.4.0"] = "drain 0 F0.4.0 B0.4.0",
      }
      local drained = pipeline.train(with { plan = edited(prompt), micro_batches = 1,
         tied = false, steps = 5 })
      assert.is_true(drained.plan.options.synchronous)
      assert_same_numbers(drained, pipeline.train(with {
         micro_batches = 1, tied = false, steps = 5,
      }))
      assert.not_same(drained.losses, run.losses)
      refused("line %d+: device 0: F0.1.0 reads a version of the weights that does not", function()
         edited { ["F0.1.0~1"] = "F0.1.0" }
      end)
   end)

   it("is refused with what it lacks, or what is not there", function()
      refused("no edge U0>W1, but with these stages 'shared.weight' has to pass there", function()
         local plan = made():edit(function(text)
            return (text:gsub("edge U0>W1[^\n]*\n", ""):gsub("\nbody 1 W1.0", ""))
         end)
         pipeline.plan(with { plan = plan })
      end)
      refused("stage 0 updates without those of stage 1: expected an edge R1>U0, or", function()
         local plan = made():edit { ["edge R1>U0 bytes 0 slots 2\n"] = "" }
         pipeline.plan(with { plan = plan, clip = 1 })
      end)
      refused("given: the plan is for 2 devices, devices names 3", function()
         pipeline.plan(with { plan = made(), devices = "cpu:3" })
      end)
      refused("^given: stage 2 of 3 has no node: give it one in node%-stage", function()
         local plan = made { devices = "cpu:3", partition = "seq" }:edit(function(text)
            return (text:gsub("(\nnode%-stage[^\n]* )2%*", "%11*"))
         end)
         pipeline.plan(with { plan = plan, devices = "cpu:3" })
      end)
      refused("a graph of 104 forward nodes, this one has 103", function()
         pipeline.plan(with { plan = made(), tied = false })
      end)
      local other = made { batch = 6, micro_batches = 3 }
      refused("batch = 8 is not a multiple of the 3 micro%-batches of plan, give batch = 9$",
         function() pipeline.plan(with { plan = other }) end)
      refused("the orders of this plan are given", function()
         pipeline.plan(with { plan = made() }):move("encoder/block.0", 2)
      end)
      refused("plan decides what effort says, leave one out", function()
         ft.plan { model = ft.model "t5-small", plan = made(), effort = 2 }
      end)
      refused("the plan is of training", function()
         pipeline.plan(with { plan = made(), eval_only = true, eval_batches = 2 })
      end)
   end)

   it("has memory for the batches that its order needs at once", function()
      local own = {
         devices = "cpu:1", partition = { "decoder/block.0" }, micro_batches = 1, steps = 8,
         eval_only = true, eval_batches = 8,
      }
      local plan = pipeline.plan(own)
      local wide = plan:edit(function(text)
         local first, second = {}, {}
         for i = 0, 7 do first[i + 1], second[i + 1] = "F0." .. i .. ".0", "F1." .. i .. ".0" end
         return (text:gsub("slots %d+", "slots 8"):gsub("body%-batches 1", "body-batches 0")
            :gsub("body%-repeats 8", "body-repeats 0")
            :gsub("\nbody 0 [^\n]*", "\nwarm-up 0 " .. table.concat(first, " ") .. " "
               .. table.concat(second, " ")))
      end)
      assert.is_true(wide:memory_bytes()[1] > plan:memory_bytes()[1])
      local run = wide.blueprint:run()
      local batch = pipeline.fed(wide, { family = "t5", batch = 8, micro_batches = 1 }, 1)
      run:refresh()
      run:begin(8, 1, false)
      for _ = 1, 8 do
         assert.is_true(run:wants())
         run:feed(batch.inputs, batch.bucket, 0)
      end
      for step = 1, 8 do assert.equal(step, run:next(600).step) end
      run:finish()
   end)

   it("of a model is edited as one", function()
      local plan = pipeline.plan(options)
      local wider = plan:edit { ["edge F0>F1 bytes 4032 slots 2"] = "edge F0>F1 bytes 1 slots 3" }
      assert.matches("edge F0>F1 bytes 4032 slots 3", wider:text())
      assert.is_true(wider:memory_bytes()[2] > plan:memory_bytes()[2])
      assert.matches("^plan: 1f1b, 2 stages", tostring(wider))
   end)

   it("outlives the rule that made it", function()
      local calls = 0
      local rule = ft.schedule {
         name = "own", synchronous = true,
         next = function(s)
            calls = calls + 1
            local begun = s.forwards - math.floor(s.backwards / s.micro_batches) * s.micro_batches
            local left = s.forwards - s.backwards
            return begun < s.micro_batches and left <= s.depth and "F" or "B"
         end,
      }
      local plan = pipeline.plan(with { schedule = rule })
      local held = setmetatable({ rule.next }, { __mode = "v" })
      local before = calls
      rule.next, plan.options.rule = nil, nil
      collectgarbage()
      collectgarbage()
      assert.is_nil(held[1])
      local run = pipeline.train(with { plan = core.schedule.parse(plan:text()) })
      plan.blueprint:run():free()
      assert_same_numbers(judge, run)
      assert.equal(before, calls)
   end)
end)

describe("--plan", function()
   local function recipe(...)
      local out, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--profile", "modelled", ... }
      return exit, err, out
   end

   it("runs the file", function()
      files.in_directory(function(dir)
         local first, second = dir .. "/first", dir .. "/second"
         local function losses(out)
            local list = {}
            for line in core.sys.read_file(out .. "/metrics.jsonl"):gmatch("[^\n]+") do
               list[#list + 1] = core.json.decode(line).loss
            end
            return list
         end
         assert.equal(0, (recipe("--steps", "2", "--out", first)))
         local text = core.sys.read_file(first .. "/plan.txt")
         local edited, n = text:gsub("(edge F0>F1 bytes %d+ slots) %d+", "%1 5")
         assert.equal(1, n)
         core.sys.write_file(dir .. "/plan.txt", edited)
         local exit, err = recipe("--steps", "2", "--out", second, "--plan", dir .. "/plan.txt")
         assert.equal(0, exit, err)
         assert.same(losses(first), losses(second))
         local function without_memory(path)
            return (core.sys.read_file(path):gsub("\nmemory [^\n]*", ""))
         end
         local expected = without_memory(dir .. "/plan.txt")
         assert.equal(expected, without_memory(second .. "/plan.txt"))
         exit, err = recipe("--steps", "4", "--out", second, "--plan", dir .. "/plan.txt",
            "--resume")
         assert.equal(0, exit, err)
         assert.equal(expected, without_memory(second .. "/plan.txt"))
      end)
   end)

   it("is not needed by a run that goes on: it has its own, or flags ask for another", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         local function plan() return core.sys.read_file(out .. "/plan.txt") end
         local function go(...)
            local exit, err = recipe("--save-every", "2", "--out", out, ...)
            assert.equal(0, exit, err)
         end
         go("--steps", "2")
         local edited = plan():gsub("(edge F0>F1 bytes %d+ slots) %d+", "%1 5")
         core.sys.write_file(out .. "/plan.txt", edited)
         go("--steps", "4", "--resume")
         assert.matches("\nedge F0>F1 bytes %d+ slots 5\n", plan())
         go("--steps", "6", "--resume", "--schedule", "gpipe")
         assert.matches("\nschedule gpipe\n", plan())
         assert.is_nil(plan():find(" slots 5\n", 1, true))
      end)
   end)

   it("is made anew by a run that goes on with any other flag that plans are made by", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         local function go(...)
            local exit, err = recipe("--clip", "0", "--save-every", "2", "--out", out, ...)
            assert.equal(0, exit, err)
            return core.sys.read_file(out .. "/plan.txt")
         end
         local first = go("--steps", "2")
         assert.is_false(first == go("--steps", "4", "--resume", "--update", "device"))
         local flags = copy(records.read(out).flags, { resume = true })
         assert.is_table(givens.recorded(flags, 2))
         for name, value in pairs { update = "end", swap_dir = dir, effort = 2, lora = 2,
            lora_dropout = 0.1, lora_targets = "v", adapter = dir, freeze = "encoder.*",
            train_only = "*.wo.weight" }
         do
            assert.is_nil(givens.recorded(copy(flags, { [name] = value }), 2), name)
         end
      end)
   end)

   it("of ftpipe plan shows what a file would take", function()
      files.in_directory(function(dir)
         local explored = ft.explore("t5-small", { devices = "cpu:2", batch = 8,
            micro_batches = 4, source = 64, partition = "seq" })
         explored.plan:edit(function(text)
            return (text:gsub("(edge F0>F1 bytes %d+ slots) %d+", "%1 9"))
         end):save(dir .. "/plan.txt")
         local out, err, exit = process.ftpipe { "plan", "t5-small", "--devices", "cpu:2",
            "--batch", "8", "--max-source", "64", "--format", "json", "--plan",
            dir .. "/plan.txt" }
         assert.equal(0, exit, err)
         local data, before = core.json.decode(out), explored:data()
         assert.equal(before.micro_batches, data.micro_batches)
         assert.equal(#before.stages, #data.stages)
         process.refused(2, "/plan.txt: the plan is for 2 devices, %-%-devices names 1\n$",
            { "plan", "t5-small", "--devices", "cpu:1", "--plan", dir .. "/plan.txt" })
      end)
   end)

   it("is named where flags are of weights that are late, and its own never are", function()
      files.in_directory(function(dir)
         local exit, err = recipe("--steps", "1", "--devices", "cpu:1", "--schedule", "async",
            "--out", dir .. "/run")
         assert.equal(0, exit, err)
         local path = dir .. "/run/plan.txt"
         for flag, words in pairs {
            ["--gaps"] = "--gaps is of weights that are late, and with %s none are: leave it "
               .. "out\n",
            ["--look-ahead=lag"] = "--look-ahead is for weights that are late, and those of %s "
               .. "never are: leave it out\n",
         } do
            exit, err = recipe("--devices", "cpu:1", "--plan", path, flag)
            assert.equal(2, exit)
            assert.equal("ftpipe: " .. words:format(path), err)
         end
      end)
   end)

   it("decides what other flags say", function()
      local exit, err = recipe("--plan", "x.txt", "--schedule", "gpipe")
      assert.equal(2, exit)
      assert.matches("%-%-plan decides what %-%-schedule says, leave one out", err)
      exit, err = recipe("--plan", "/nowhere/x.txt")
      assert.is_true(exit ~= 0)
      assert.matches("/nowhere/x.txt", err)
   end)
end)
