--- Schedules in Lua, plans by themselves, and questions to plans.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")
local with = require("ftpipe.base.copy")
local xml = require("ftpipe.text.xml")

local function stages(n, costs)
   local list = {}
   for s = 1, n do
      list[s] = { device = s }
      for key, value in pairs(costs or { forward_ns = 10, backward_ns = 20 }) do
         list[s][key] = value
      end
   end
   return list
end

--- FTPipe's depth with a supremum of staleness: g(D) at the first stage, one less behind it.
local function virtual_depths(n, supremum)
   local g, depth = math.min(n, supremum - 1), {}
   for d = n - 1, 0, -1 do
      g = math.max(0, g - 1)
      depth[d] = g
   end
   return depth
end

describe("schedules", function()
   it("are listed with what they do, and described in doc/schedules.md", function()
      local names, page = {}, io.open("doc/schedules.md"):read("*a")
      for _, row in ipairs(ft.schedule.list()) do
         names[row.name] = true
         assert.is_true(#row.doc > 10)
         assert.is_truthy(page:find("| `" .. row.name .. "` |", 1, true), row.name)
      end
      for name in ("sequential gpipe 1f1b async 2bw zero-bubble zb-v interleaved harmony-pp "
         .. "data-parallel harmony-dp"):gmatch("%S+") do
         assert.is_true(names[name], name)
      end
   end)

   it("give the published orders of four stages", function()
      local rows = {
         async = { "FFFFBFBFBFBFBBBB", "FFFBFBFBFBFBFBBB", "FFBFBFBFBFBFBFBB",
            "FBFBFBFBFBFBFBFB" },
         gpipe = { "FFFFBBBBFFFFBBBB", "FFFFBBBBFFFFBBBB", "FFFFBBBBFFFFBBBB", "FFFFBBBBFFFFBBBB" },
         ["1f1b"] = { "FFFFBBBBFFFFBBBB", "FFFBFBBBFFFBFBBB", "FFBFBFBBFFBFBFBB",
            "FBFBFBFBFBFBFBFB" },
      }
      for name, letters in pairs(rows) do
         local plan = ft.schedule.play {
            stages = stages(4), micro_batches = 4, batches = 2, schedule = name }
         for s = 1, 4 do assert.equal(letters[s], plan:letters(s)) end
      end
   end)

   it("are rules of Lua", function()
      for _, row in ipairs { { 8, 4, "0 0 0 0 0 0 1 2" },
         { 16, 8, "0 0 0 0 0 0 0 0 0 0 1 2 3 4 5 6" }, { 15, 8, "0 0 0 0 0 0 0 0 0 1 2 3 4 5 6" },
         { 4, 4, "0 0 1 2" } } do
         local depth = virtual_depths(row[1], row[2])
         assert.equal(row[3], table.concat(depth, " ", 0, row[1] - 1))
         local plan = ft.schedule.play {
            stages = stages(row[1]), micro_batches = 1, batches = 30,
            schedule = ft.schedule {
               name = "virtual-1f1b",
               next = function(s)
                  return s.forwards - s.backwards <= depth[s.depth] and "F" or "B"
               end,
            },
         }
         for s, stage in ipairs(plan:describe().stages) do
            assert.equal(depth[row[1] - s], stage.most_staleness)
            assert.equal(depth[row[1] - s] + 1, stage.in_flight)
         end
      end
   end)

   it("refuse rules that fail or say what cannot be", function()
      local function play(next)
         return pcall(ft.schedule.play, { stages = stages(2), micro_batches = 2, batches = 2,
            schedule = ft.schedule { name = "mine", next = next } })
      end
      local _, err = play(function() error("no idea") end)
      assert.matches("schedule mine: next: .*no idea", tostring(err))
      _, err = play(function() return "X" end)
      assert.matches("the next action is neither forward nor backward: next gave 'X', expected 'F' "
         .. "or 'B'$", tostring(err))
      _, err = play(function() end)
      assert.matches(": next gave nil, expected 'F' or 'B'$", tostring(err))
      _, err = pcall(ft.schedule.play, { stages = stages(2), micro_batches = 2, batches = 2,
         schedule = ft.schedule { splits = true, next = function() return 1 end } })
      assert.matches(": next gave number, expected 'F', 'I' or 'G'$", tostring(err))
      _, err = play(function(stage) return stage.forward < 2 and "F" or "B" end)
      assert.matches("next: .*a stage has no 'forward', it has depth height micro_batches forwards "
         .. "backwards weights$", tostring(err))
      _, err = play(function() return "B" end)
      assert.matches("is a backward without its forward", tostring(err))
      _, err = play(function() return "G" end)
      assert.matches("is half a backward, expected a whole one", tostring(err))
      assert.error_matches(function() ft.schedule { name = "x" } end, "next")
      assert.error_matches(function() ft.schedule { name = "x", nxt = 1 } end, "nxt")
   end)

   it("pass on what rules raise: words of the API, and that the script is to end", function()
      local function play(next)
         return files.failure(ft.schedule.play, { stages = stages(2), micro_batches = 2,
            batches = 2, schedule = ft.schedule { name = "mine", next = next } })
      end
      local problem = play(function() core.json.decode("{") end)
      assert.matches("^schedule mine: next: JSON text:1:1: ", problem.message)
      assert.equal("invalid argument", problem.status)
      local function raising(words)
         return play(function() error(setmetatable({}, { __tostring = words })) end)
      end
      assert.matches("^schedule mine: next: so$", raising(function() return "so" end).message)
      problem = raising(error)
      assert.matches("^schedule mine: next: raised what has no words$", problem.message)
      assert.matches("next: raised what has no words$", play(function() error({}) end).message)
      problem = play(function() core.fail("cancelled", "interrupted") end)
      assert.matches("^schedule mine: next: .*interrupted$", problem.message)
      assert.equal("cancelled", problem.status)
   end)

   it("refuse more replicas than devices are listed", function()
      local function refused(replicas)
         local make = core.schedule.make
         return files.failure(make, { replicas = replicas, device = { 1 }, devices = 1 }).message
      end
      assert.matches("option 'replicas': stages 1 to 1 have more than the 1 that 'device' lists",
         refused { 2 ^ 31 - 1, 1 })
      assert.matches("stages 1 to 2 have more than the 1", refused { 1, 2 ^ 31 - 1 })
   end)

   it("refuse bytes that are no number of them", function()
      local plan = core.schedule.make {
         replicas = { 1 }, device = { 1 }, forward_ns = { 1 }, backward_ns = { 1 },
      }
      for _, bytes in ipairs { -1, 1e300, 0 / 0 } do
         assert.matches("option 'saved_bytes': .* bytes of stage 1, expected 0 to 2^53",
            files.failure(plan.simulate, plan, { saved_bytes = { bytes } }).message)
      end
   end)

   it("play replicas, halves and versions", function()
      local plan = ft.schedule.play {
         stages = { { device = { 1, 2, 3 }, forward_ns = 30, backward_ns = 60 },
            { device = 4, forward_ns = 10, backward_ns = 20 } },
         micro_batches = 3, batches = 20, schedule = "async", staleness = "stash", slots = 4,
      }
      local first = plan:describe().stages[1]
      assert.same({ 1, 2, 3 }, first.devices)
      assert.equal(first.most_staleness + 1, first.versions)
      local halves = ft.schedule.play {
         stages = stages(4, { forward_ns = 10, backward_input_ns = 10, backward_weight_ns = 10 }),
         micro_batches = 8, batches = 1, schedule = "zero-bubble" }
      assert.equal(8 * 30 + 3 * 10, halves:simulate().end_ns)
   end)

   it("take halves of a backward for equal where a stage does not say", function()
      local function time(costs)
         return ft.schedule.play { stages = stages(4, costs), micro_batches = 8, batches = 1,
            schedule = "zero-bubble" }:simulate().end_ns
      end
      assert.equal(8 * 30 + 3 * 10, time { forward_ns = 10, backward_ns = 20 })
      local unequal = time { forward_ns = 10, backward_input_ns = 12, backward_weight_ns = 8 }
      assert.equal(unequal, time { forward_ns = 10, backward_ns = 20, backward_weight_ns = 8 })
      assert.equal(unequal, time { forward_ns = 10, backward_ns = 20, backward_input_ns = 12 })
      assert.is_true(unequal > 8 * 30 + 3 * 10)
      assert.equal(3 * 30, ft.schedule.play { stages = stages(1, { forward_ns = 10,
         backward_input_ns = 12, backward_weight_ns = 8 }), micro_batches = 3, batches = 1,
         schedule = "1f1b" }:simulate().end_ns)
   end)

   it("refuse what a stage cannot say", function()
      local function play(stage)
         return pcall(ft.schedule.play, { stages = { stage }, micro_batches = 1, batches = 1,
            schedule = "1f1b" })
      end
      local _, problem = play { bakward_ns = 20 }
      assert.matches("stage 1: unknown option 'bakward_ns' %(did you mean 'backward_ns'",
         tostring(problem))
      _, problem = play { forward_ns = "long" }
      assert.matches("stage 1: option 'forward_ns': expected a number", tostring(problem))
      for told, device in pairs { ["'0'"] = 0, ["'a'"] = "a", ["'1.5'"] = 1.5,
         ["a table"] = { {} },
         ["'32768'"] = 2 ^ 15 } do
         _, problem = play { device = device }
         assert.matches("stage 1: 'device': expected a number from 1 to 32767, or a list of them, "
            .. "got " .. told, tostring(problem))
      end
      _, problem = play { device = {} }
      assert.matches("stage 1: 'device': expected one at least", tostring(problem))
   end)

   it("name the option of the caller that is wrong", function()
      local function refused(o, words)
         assert.fails_with(function() return ft.schedule.play(o) end, words)
      end
      refused({ stages = {}, micro_batches = 1, batches = 1, schedule = "1f1b" },
         "ft.schedule.play: 'stages': expected at least one")
      refused({ stages = stages(2), micro_batches = 1, batches = 1, schedule = "foo" },
         "option 'schedule': 'foo' is not available %(expected one of: sequential, gpipe, ")
      for words, more in pairs {
         ["edge 1: option 'to' is missing %(stage, from 1 on%)"] = { edges = { { from = 1 } } },
         ["edge 2: 'from' is stage 3, expected 1 to 2"] = {
            edges = { { from = 1, to = 2 }, { from = 3, to = 2 } } },
         ["edge 1 joins 'Q' to 'Q', expected letters of actions"] = {
            edges = { { from = 1, to = 2, kind = "Q" } } },
         ["'devices' is 1, and stages are on 2"] = { devices = 1 },
         ['schedule = "1f1b" drains, its weights are never late'] = { staleness = "stash" },
      } do
         more.stages, more.micro_batches, more.batches, more.schedule = stages(2), 1, 1, "1f1b"
         local problem = files.failure(ft.schedule.play, more)
         assert.matches(words, problem.message)
      end
      local played = ft.schedule.play { stages = stages(2), micro_batches = 1, batches = 1,
         schedule = "1f1b" }
      assert.fails_with(function() return played:letters(3) end,
         "played:letters: 'stage': expected one from 1 to 2, got 3")
   end)

   it("simulate shared links", function()
      local plan = ft.schedule.play {
         stages = stages(2), micro_batches = 4, batches = 2, schedule = "gpipe", bytes = 1000 }
      local free = plan:simulate()
      local machine = { links = { { from = 1, to = 2, bytes_per_s = 1e9, latency_ns = 5 } } }
      local slow = plan:simulate { machine = machine }
      assert.is_true(slow.end_ns > free.end_ns)
      assert.equal(16 * 1000, slow.link_ns[1])
      assert.is_true(slow.critical.forward > 0)
      assert.error_matches(function()
         plan:simulate { machine = { links = {} } }
      end, "no way from place 0 to place 1")
      assert.error_matches(function() plan:simulate { delay = 5 } end, "unknown option 'delay'")
   end)

   it("come back from files", function()
      local plan = ft.schedule.play {
         stages = stages(3), micro_batches = 2, batches = 50, schedule = "2bw", slots = 4 }
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/plan.txt", plan:text())
         assert.equal(plan:text(), ft.schedule.load(dir .. "/plan.txt"):text())
      end)
      assert.error_matches(function() ft.schedule.parse("ftpipe-plan 1\nstages 1\n") end,
         "there is no line 'devices'")
   end)
end)

describe("plans of models", function()
   local function plan_of(o)
      o.devices, o.steps = o.devices or "sim:2x1GB", 4
      return (pipeline.plan(o))
   end

   it("take a schedule from Lua", function()
      local rule = ft.schedule { name = "two-ahead",
         next = function(s) return s.forwards - s.backwards < 2 and "F" or "B" end }
      local plan = plan_of { schedule = rule }
      assert.matches("schedule two%-ahead", plan:text())
      assert.matches("plan: two%-ahead, 2 stages", tostring(plan))
   end)

   it("count the bytes of weight versions", function()
      local plan = plan_of { schedule = "2bw" }
      for _, row in ipairs(plan.memory) do -- in one place, where weights have a guard each
         assert.is_true(row.versions < row.weights and row.versions > 0.9 * row.weights)
      end
   end)

   it("say how late weights are, what the end waits for, and what is proved", function()
      local text = tostring(plan_of { schedule = "async", micro_batches = 1, batch = 2 })
      assert.matches("stage 0 on [^\n]*, 2 in flight, weights 1 update late\n", text)
      assert.matches("stage 1 on [^\n]*, 1 in flight\n", text)
      assert.matches("\nproved: completes on any timing with %d+ buffers between stages\n", text)
      local path, sum = text:match("\ncritical path: ([^\n;]+)"), 0
      for share in path:gmatch("%l (%d+) %%") do sum = sum + share end
      assert.is_true(sum >= 97 and sum <= 102, path)
      assert.not_matches("late", tostring(plan_of {}))
   end)

   it("are drawn in time, and answer in words", function()
      files.in_directory(function(dir)
         local plan = plan_of {}
         plan:draw(dir .. "/plan.svg", 3):draw(dir .. "/plan.json")
         local svg = core.sys.read_file(dir .. "/plan.svg")
         assert.equal("svg", xml.read(svg, "plan.svg").name)
         local boxes = select(2, svg:gsub("</title><rect", "")) -- those of waits have theirs inside
         assert.equal(3 * 2 * (4 + 4 + 2) + 3, boxes) -- 3: adopted ties
         local trace = core.json.decode(core.sys.read_file(dir .. "/plan.json"))
         assert.is_true(#trace.traceEvents > 40)
         assert.error_matches(function() plan:draw(dir .. "/plan.png") end,
            "plan.png is neither .svg nor .json")
         assert.matches("^[%d.]+ samples/s in a leg of 2 batches, idle %d+ %% %d+ %%\n"
            .. "critical path: backward %d+ %%", tostring(plan:simulate(2)))
         assert.matches("in a leg of 1 batch, idle", tostring(plan:simulate(1)))
      end)
      local played = ft.schedule.play {
         stages = stages(2), micro_batches = 4, batches = 2, schedule = "gpipe",
      }:simulate()
      assert.equal("0 us, idle 20 % 20 %\ncritical path: backward 67 %, forward 33 %",
         tostring(played))
   end)

   it("have in time the activations that they have in memory", function()
      for _, schedule in ipairs { "gpipe", "1f1b", "async" } do
         local plan = plan_of { schedule = schedule, devices = "sim:3x1GB" }
         for d, memory in ipairs(plan.blueprint:simulate(4, true).memory) do
            assert.equal(plan.memory[d].activations, memory.peak)
            assert.equal(0, memory.points[#memory.points][2])
         end
      end
   end)

   it("say why a block is where it is, and move it", function()
      local plan = plan_of {}
      local why = plan:why("decoder/block.2")
      assert.matches("^decoder/block.2 %(%d+ nodes%) is in stage 1 on sim:1 card\n", why)
      assert.matches("on sim:0 card: [%d.]+ samples/s %([-+][%d.]+ %%%), 4 stages", why)
      assert.is_nil(why:find("on sim:1 card:", 1, true))
      local moved = plan:move("decoder/block.2", 1)
      assert.equal(4, moved.n_stages)
      assert.matches(
         "decoder/block.2: stage 1 on sim:1 card %-> stage 2 on sim:0 card %(%d+ nodes%)",
         tostring(plan:diff(moved)))
      assert.equal(0, #plan:diff(plan))
      local other = "\n" .. tostring(plan:diff(plan_of { clip = 2, max_staleness = 1,
         schedule = "async" }))
      for _, words in ipairs { "schedule: 1f1b -> async", "max_staleness: not given -> 1",
         "clip: 0 -> 2" } do
         assert.truthy(other:find("\n" .. words .. "\n", 1, true), other)
      end
      assert.equal(0, #plan:diff(moved:move("decoder/block.2", "sim:1 card")))
      assert.equal(0, #plan:diff(moved:move("decoder/block.2", "sim:1")))
      assert.error_matches(function() plan:move("decoder/block.2", "sim:7") end, "device 'sim:7'")
      assert.error_matches(function() plan:move("decoder/block.9", 1) end, "no forward node is")
      assert.error_matches(function() plan:move("decoder/block.2", 3) end, "no device '3'")
   end)

   it("are saved and loaded", function()
      files.in_directory(function(dir)
         local path = dir .. "/plan.txt"
         local plan = plan_of {}:move("decoder/block.2", 1):save(path)
         assert.equal(plan:text(), ft.schedule.load(path):text())
         assert.same(plan.partition.stage, plan_of { partition = path }.partition.stage)
         assert.matches(": the plan has stages on 2 devices, there are 1$", files.failure(function()
            plan_of { partition = path, devices = "cpu:1" }
         end).message)
      end)
   end)

   it("name the file in which something is wrong, and the line", function()
      files.in_directory(function(dir)
         local path = dir .. "/plan.txt"
         core.sys.write_file(path, "ftpipe-plan 1\nshcedule 1f1b\n")
         for _, read in ipairs {
            function() ft.schedule.load(path) end, function() plan_of { partition = path } end,
         } do
            local problem = files.failure(read)
            assert.equal("malformed data", problem.status)
            assert.equal(path .. ": plan, line 2: unknown word 'shcedule'", problem.message)
         end
      end)
   end)
end)

describe("the engine", function()
   it("refuses what it cannot execute yet by name", function()
      local plan = pipeline.plan { devices = "cpu:2", steps = 1, micro_batches = 2 }
      local again = plan:edit(function(text)
         return (text:gsub(" B0%.0%.0%-1", " D0.0.0:activations C0.0.0%0", 1))
      end)
      local ok, err = pcall(again.blueprint.run, again.blueprint)
      assert.is_false(ok)
      assert.equal("unsupported", err.status)
      assert.matches("recompute actions, as stage 0 has on device 0, can be planned and simulated "
         .. "but not executed yet", err.message)
   end)

   it("waits for times that there are", function()
      local run = pipeline.plan { devices = "cpu:1", steps = 1 }.blueprint:run()
      for _, seconds in ipairs { -1, 0 / 0 } do
         for _, wait in ipairs { run.next, run.give_up } do
            assert.matches("expected seconds, 0 or more, got ",
               tostring(files.failure(wait, run, seconds)))
         end
      end
      assert.is_nil(run:give_up(math.huge)) -- nothing is under way
      run:free()
   end)

   it("takes costs of as many devices as there may be", function()
      local plan = pipeline.plan { profile = "fresh", devices = "cpu:1", stages = 1, steps = 1 }
      local row, devices, costs = core.engine.devices("cpu:1")[1], {}, {}
      for d = 1, 1024 do devices[d], costs[d] = row, with(plan.said.costs[1], {}) end
      local o = with(plan.said, { devices = devices, costs = costs })
      assert.matches("the plan is for 1 devices, there are 1024$", -- said after all were read
         files.failure(core.engine.blueprint, o).message)
   end)
end)

describe("interleaved pipelines", function()
   it("compute what one device computes", function()
      local function losses(o)
         o.steps = 4
         return pipeline.train(o).losses
      end
      local one = losses { schedule = "sequential" }
      local two = losses { schedule = "interleaved", devices = "cpu:2", stages = 4 }
      assert.same(one, two)
   end)

   it("have two stages for each of several devices, unless it is said how many", function()
      for devices, rows in pairs { ["cpu:1"] = { 1, 3 }, ["cpu:2"] = { 4, 6 } } do
         local o = { schedule = "interleaved", devices = devices, batch = 12, micro_batches = 6 }
         assert.equal(rows[1], pipeline.plan(o).n_stages)
         o.stages = rows[2]
         assert.equal(rows[2], pipeline.plan(o).n_stages)
      end
   end)
end)
