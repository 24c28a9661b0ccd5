local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local flags = require("ftpipe.recipe.args")
local ft = require("ftpipe")
local partition = require("ftpipe.placement.partition")
local process = require("spec.support.process")
local random = require("ftpipe.base.random")
local solved = require("ftpipe.placement.solved")
local ties = require("ftpipe.placement.ties")
local turns = require("ftpipe.placement.turns")

local RECIPE = "recipes/t5_rte.lua"

-- A recipe with a partitioner of its own, whose flags say what it answers.
local OWN = [[
local ft = require("ftpipe")
local args = ft.args {
   "Fine-tune T5 with a partitioner of one's own.", preset = "t5", steps = { default = 3 },
   profile = { default = "modelled" }, eval_limit = { default = 20 },
   cut = { type = "number", help = "share of the nodes in the first stage" },
   first = { type = "int", default = 2, help = "device of the first stage" },
   short = { type = "boolean", default = false, help = "answer with two nodes" },
}
local function own(problem)
   if args.short then return { 1, 2 } end
   local on, n = {}, #problem.names
   for i = 1, n do on[i] = i <= args.cut * n and args.first or 1 end
   return on
end
if args.cut or args.short then args.partition = own end
return ft.fine_tune { args = args, task = ft.task.rte { max_source = args.max_source } }
]]

local function run(...) return process.ftpipe { RECIPE, ... } end

local function options(changes)
   local model = ft.model { model = "t5-small" }
   local o = {
      model = model, devices = "sim:2x11GB", batch = 8, micro_batches = 4, buckets = { 64 },
      lengths = { target = 8 }, partition = "mixed", schedule = "1f1b", recompute = "auto",
      optimizer = "adamw", hypers = {}, clip = 0, seed = 1, dropout = 0.1, steps = 2, batches = 2,
   }
   for key, value in pairs(changes or {}) do o[key] = value end
   return o
end

describe("--partition", function()
   it("mixed puts several stages on a device, and scopes stay whole", function()
      local plan = ft.plan(options {
         model = ft.model { model = "t5-3b" }, devices = "sim:4x11GB", optimizer = "adafactor",
      })
      assert.equal("mixed", plan.partition.name)
      assert.is_true(plan.n_stages > 4)
      local stage_of, graph = {}, plan.graphs[1]
      for n, stage in ipairs(plan.partition.stage) do
         local scope = graph:node(n).scope
         assert.equal(stage_of[scope] or stage, stage, scope)
         stage_of[scope] = stage
      end
   end)

   it("balances what devices compute when all stages recompute, the last one too", function()
      local model = ft.model { model = "bert-base", init = "random" }
      for _, how in ipairs { "mixed", "best", "seq" } do
         local plan = ft.plan(options { model = model, lengths = {}, devices = "cpu:2",
            partition = how, recompute = "always", profile = "modelled" })
         local busy = { 0, 0 }
         for _, stage in ipairs(plan.blueprint:stages()) do
            local d = stage.device
            busy[d] = busy[d] + stage.forward_ns + stage.backward_ns
         end
         local ratio = busy[1] / busy[2]
         assert.is_true(ratio > 0.9 and ratio < 1.1, how .. " " .. ratio)
      end
   end)

   it("gives devices that take stages in turns equal work, beside one long stage", function()
      local model = ft.model { model = "gpt2", init = "random" } -- the head is a third of it
      for _, schedule in ipairs { "interleaved", "harmony-pp" } do
         local function plan(searched)
            return ft.plan(options { model = model, lengths = {}, devices = "cpu:2", stages = 12,
               partition = "seq", schedule = schedule, recompute = "never", searched = searched })
         end
         local even, first = plan(), plan(true) -- one of many that are searched is cut once
         local busy, before = { 0, 0 }, { 0, 0 }
         for s, stage in ipairs(even.blueprint:stages()) do
            local other, d = first.blueprint:stages()[s], stage.device
            assert.equal(other.device, d)
            busy[d] = busy[d] + stage.forward_ns + stage.backward_ns
            before[d] = before[d] + other.forward_ns + other.backward_ns
         end
         assert.equal(12, even.n_stages)
         assert.is_true(math.max(unpack(busy)) < 0.9 * math.max(unpack(before)))
         assert.is_true(even:simulate(2).seconds < first:simulate(2).seconds)
      end
   end)

   it("puts what reads one weight on one device where passing it takes longer", function()
      local function plan(changes)
         return ft.plan(options(copy({ devices = "sim:4x11GB", batch = 4, micro_batches = 2,
            schedule = "async", steps = 20, batches = 20 }, changes)))
      end
      --- By scope the device of its first node.
      local function places(found)
         local on = {}
         for n, stage in ipairs(found.partition.stage) do
            local scope = found.graphs[1]:node(n).scope
            on[scope] = on[scope] or found.partition.device[stage]
         end
         return on
      end
      for _, how in ipairs { "mixed", "best" } do
         local tied = plan { partition = how }
         local on = places(tied)
         assert.equal(on["encoder/embed"], on["head"])
         assert.equal(on["decoder/embed"], on["head"])
         -- what blocks share is small: they are on several devices
         assert.not_equal(on["encoder/block.0/attn"], on["encoder/block.5/attn"])
         local apart = plan { partition = function(problem) -- which knows nothing of them
            return ft.partition(problem, { method = how, effort = 5, blocks = 8 }).device
         end }
         assert.is_true(tied:simulate(20).seconds < apart:simulate(20).seconds / 2)
         assert.is_true(tied:check() == tied)
         local searched = plan { partition = how, searched = true }
         assert.is_true(searched:simulate(20).seconds < apart:simulate(20).seconds / 2)
      end
   end)

   it("has best end no later than contiguous stages do, where both fit", function()
      local devices = "sim:4x2080ti"
      local function explore(how)
         return ft.explore("gpt2", { devices = devices, partition = how })
      end
      local seq, mixed, best = explore("seq"), explore("mixed"), explore("best")
      assert.is_true(seq.fits and mixed.fits and seq.seconds < mixed.seconds)
      assert.equal(seq.seconds, best.seconds)
      assert.equal("seq", best.plan.partition.name)
      local asked = ft.explore("gpt2", { devices = devices, partition = "best", stages = 8 })
      assert.equal("best", asked.plan.partition.name) -- seq takes a number of stages exactly
   end)

   it("tries fewer stages than a placement would take, and takes those that end first", function()
      local function explore(stages)
         return ft.explore("gpt2-xl", { devices = "sim:4x2080ti", stages = stages })
      end
      local found, fastest = explore(), math.huge
      for _, stages in ipairs { 4, 5, 6, 8 } do
         fastest = math.min(fastest, explore(stages).seconds)
      end
      assert.equal(fastest, found.seconds)
      assert.is_true(found.seconds < explore(8).seconds)
   end)

   it("takes fewer where the schedule has no plan of so many", function()
      local o = { devices = "sim:3x4GB", schedule = "2bw", micro_batches = 4 }
      for _, how in ipairs { "mixed", "best" } do
         local found = ft.explore("t5-small", copy(o, { partition = how }))
         assert.is_true(found.fits and #found.stages < 6)
      end
      local ok, failure = pcall(ft.explore, "t5-small", copy(o, { stages = 6 }))
      assert.is_false(ok)
      assert.equal("plan infeasible", failure.status)
   end)

   it("has such a cut fit by moving state, too", function()
      local devices = { devices = "sim:4x320MB", swap = "auto", batch = 32, micro_batches = 8,
         source = 128, target = 64, partition = "mixed" }
      local found = ft.explore("t5-small", devices) -- no other cut fits there
      assert.is_true(found.fits and found.swapped_bytes > 0)
   end)

   it("keeps stages of a device apart where their state is to come and go", function()
      local function explore(how)
         return ft.explore("gpt2", { devices = "sim:1x1500MB", swap = "auto", stages = 12,
            batch = 8, source = 64, partition = how })
      end
      local asked = explore("seq")
      assert.is_true(asked.fits and asked.swapped_bytes > 0)
      for _, how in ipairs { "mixed", "best" } do
         local found = explore(how)
         assert.is_true(found.fits and found.seconds <= asked.seconds)
      end
   end)

   it("ties nodes by weights that are trained and large alone", function()
      local o = { devices = "sim:2x11GB", micro_batches = 4 }
      local function found(freeze)
         local graph = ft.plan(options { partition = "seq", freeze = freeze }).graphs[1]
         local of = {}
         for n = 1, graph:counts().forward do of[n] = n end
         return ties.of(graph, of, ft.graph(graph, { devices = o.devices }), o), graph
      end
      local list, graph = found()
      for n, number in ipairs(list) do
         local scope = graph:node(n).scope
         local reads = scope == "head" or scope:find("^%w+/embed$") ~= nil
         assert.is_true(number == -1 or reads, scope)
      end
      assert.is_nil((found("shared.*")))
   end)

   --- A chain of nodes with some edges that leave out neighbours, cut into stages of about as many
   -- nodes, which devices take in turns.
   local function chain_of(draw, n, n_stages, n_devices, bytes_per_s)
      local problem, stage, on = { node_ns = { {} }, edge_from = {}, edge_to = {}, edge_bytes = {},
         edge_grad_bytes = {}, edge_value = {}, devices = {} }, {}, {}
      for s = 1, n_stages do
         on[s] = (s - 1) % n_devices + 1
         problem.devices[s] = { kind = 1, slowdown = 1, bytes_per_s = bytes_per_s }
      end
      for i = 1, n do
         problem.node_ns[1][i] = 1e6 * draw(20)
         stage[i] = math.floor((i - 1) * n_stages / n) + 1
         problem.edge_from[i], problem.edge_to[i] = i, math.min(n, i + draw(4))
         problem.edge_bytes[i], problem.edge_grad_bytes[i] = draw(100000), draw(100000)
         problem.edge_value[i] = 0
      end
      return problem, stage, on
   end

   --- The sum of squares of what devices take and of what stages take.
   local function squares(times, stage, on)
      local taken, sum = {}, 0
      for n, s in ipairs(stage) do
         for _, key in ipairs { "device " .. on[s], "stage " .. s } do
            taken[key] = (taken[key] or 0) + times[n]
         end
      end
      for _, ns in pairs(taken) do sum = sum + ns * ns end
      return sum
   end

   it("moves nodes between neighbours alone, and keeps every stage", function()
      local draws, gained = random.new(7), 0
      local function draw(most) return draws:integer(most) end
      for case = 1, 60 do
         local free = case % 2 == 0
         local problem, stage, on = chain_of(draw, 12 + draw(30), 1 + draw(9), draw(4),
            free and 0 or 1e9)
         local result = turns.balance(problem, stage, on)
         for n, s in ipairs(result) do
            local before = result[n - 1] or 0
            assert.is_true(s == before or s == before + 1)
         end
         assert.equal(stage[#stage], result[#stage])
         if free then -- nothing but work counts
            local before = squares(problem.node_ns[1], stage, on)
            local now = squares(problem.node_ns[1], result, on)
            assert.is_true(now <= before)
            gained = gained + (now < 0.98 * before and 1 or 0)
         end
      end
      assert.is_true(gained > 10)
   end)

   it("trains to the same bits however the model is cut", function()
      local found = {}
      for _, how in ipairs { "seq", "mixed", "best", "pipedream-straight" } do
         local out, err, exit = run("--partition", how, "--steps", "3", "--devices", "cpu:2")
         assert.equal(0, exit, err)
         found[how] = out:match("after: [^\n]+")
         assert.truthy(found[how])
         assert.equal(found.seq, found[how], how)
      end
   end)

   it("may be a partitioner of one's own, which trains to the same bits", function()
      files.in_directory(function(dir)
         local recipe = dir .. "/recipe.lua"
         core.sys.write_file(recipe, OWN)
         local out, err, exit = process.ftpipe { recipe, "--cut", "0.3" }
         assert.equal(0, exit, err)
         assert.matches("partition custom\n  stage 0 on cpu:1: encoder/embed", out)
         local seq = process.ftpipe { recipe, "--partition", "seq" }
         assert.matches("partition seq\n", seq)
         assert.equal(seq:match("after: [^\n]+"), out:match("after: [^\n]+"))
         process.refused(2, "gave a list whose %[1%] is '3', expected a device, 1 to 2\n$",
            { recipe, "--cut", "0.3", "--first", "3" })
         process.refused(2, "gave 2 devices, expected one for each of %d+ nodes\n$",
            { recipe, "--short" })
      end)
   end)

   it("raises what a partitioner of one's own raises, whenever it is asked", function()
      local asked = 0
      local function first_alone(problem)
         asked = asked + 1
         if asked > 3 then error("asked once more") end -- for memory, when there is a plan
         local on = {}
         for i = 1, #problem.names do on[i] = 1 end
         return on
      end
      assert.fails_with(function()
         ft.plan(options { devices = "sim:2x700MB", partition = first_alone })
      end, "asked once more")
   end)

   it("may be a function in ft.plan, ft.explore and ft.planner", function()
      local function halves(problem)
         local on, n = {}, #problem.names
         for i = 1, n do on[i] = i <= n / 2 and 1 or 2 end
         return on
      end
      local devices = "sim:2x11GB"
      local of_names = ft.plan(options { partition = halves })
      assert.equal("custom", of_names.partition.name)
      local args = flags.parse({ preset = "t5" }, { "--model", "t5-small", "--devices", devices,
         "--steps", "2" })
      local of_args = ft.plan { model = ft.model(args), args = args, partition = halves }
      assert.same(of_names.partition.stage, of_args.partition.stage)
      local subject = ft.explore("t5-small", { devices = devices, partition = halves })
      assert.same(of_names.partition.stage, subject.plan.partition.stage)
      assert.matches("partition custom, schedule 1f1b, 2 stages", tostring(subject))
      local found = ft.planner("t5-small", {
         devices = devices, partition = halves, schedule = "1f1b", micro_batches = 4,
      })
      assert.matches("\n +4 +1f1b +custom +2 ", tostring(found))
      assert.equal("custom", found:data()[1].partition)
      local function last(problem)
         local on = halves(problem)
         for i = 1, #on - 1 do on[i] = 1 end
         return on
      end
      found = ft.planner("t5-small", {
         devices = devices, partitions = { halves, last }, schedule = "1f1b", micro_batches = 4,
      })
      assert.matches("\n +4 +1f1b +custom 1 .*\n +4 +1f1b +custom 2 ", tostring(found))
      assert.matches('\nchosen: [^\n]*, partition = "custom 1"\n', tostring(found))
      local other = ft.explore("t5-small", { devices = devices, partition = last })
      local beside = tostring(ft.compare(other, subject, subject:move("head", 1), other))
      assert.matches("^  plan +schedule [^\n]*\n  custom 1  +1f1b .*\n  custom 2  +1f1b .*\n"
         .. "  custom 2, edited  +1f1b .*\n  custom 1  +1f1b ", beside)
      for _, answer in ipairs { { 0 }, { 1.5 }, { "1" }, 7, {} } do
         local ok, problem = pcall(ft.plan, options { partition = function() return answer end })
         assert.is_false(ok)
         assert.matches("a partitioner of one's own gave ", problem.message)
      end
      local ok, problem = pcall(ft.plan, options { partition = function() error("no idea") end })
      assert.is_false(ok)
      assert.matches("^a partitioner of one's own failed: [^\n]*placement_spec.lua:%d+: no idea$",
         problem.message)
      for _, raised in ipairs { {}, false } do
         problem = files.failure(ft.plan, options { partition = function() error(raised) end })
         assert.equal("a partitioner of one's own raised what has no words", problem.message)
      end
      assert.is_false((pcall(ft.plan, options { partition = 7 })))
   end)

   it("that is there has its own stages, and others are refused", function()
      files.in_directory(function(dir)
         local path = dir .. "/plan.txt"
         ft.plan(options { partition = "seq", stages = 4 }):save(path)
         for said, o in pairs {
            ["stages = 3: the partition has its own stages, 4"] = { partition = path, stages = 3 },
            ["stages = 1: the partition has its own stages, 2"] = {
               partition = { "decoder/block.0" }, stages = 1 },
         } do
            local problem = files.failure(ft.plan, options(o))
            assert.same({ said, 2 }, { problem.message, problem.exit })
         end
         assert.equal(4, ft.plan(options { partition = path, stages = 4 }).n_stages)
         local found = ft.planner("t5-small", { devices = "sim:2x11GB", batch = 8, source = 64,
            micro_batches = 4, schedule = "1f1b", partition = path })
         assert.equal(4, found.best.stages)
      end)
   end)

   it("seq gives unequal devices stages by their own rates, in their order", function()
      local o = options {
         partition = "seq", devices = "sim:1x2080ti,1xh200", batch = 64, buckets = { 512 },
      }
      local slow, fast = unpack(ft.plan(o).blueprint:stages())
      assert.same({ 1, 2 }, { slow.device, fast.device })
      local function seconds(stage) return stage.forward_ns + stage.backward_ns end
      assert.is_true(math.abs(seconds(slow) / seconds(fast) - 1) < 0.25,
         seconds(slow) .. " and " .. seconds(fast))
   end)

   it("seq looks at the memory of each device", function()
      local function device(memory)
         return { memory = memory, flops = 1e13, bandwidth = "500GB/s", link = "12GB/s" }
      end
      local plan = ft.plan(options {
         partition = "seq", model = ft.model { model = "t5-large" }, buckets = { 128 },
         devices = ft.cluster { devices = { device("4GB"), device("14GB") } },
      })
      assert.has_no.errors(function() plan:check() end)
      assert.is_true(plan.memory[2].weights > 2 * plan.memory[1].weights)
   end)

   it("mixed takes described clusters", function()
      local device = { memory = "11GB", flops = 1e13, bandwidth = "500GB/s", link = "12GB/s" }
      local plan = ft.plan(options { devices = ft.cluster { devices = { device, device } } })
      assert.has_no.errors(function() plan:check() end)
   end)

   it("takes as many stages as --stages says, at most", function()
      for how, most in pairs { seq = 3, mixed = 3, greedy = 3, best = 3 } do
         local plan = ft.plan(options {
            partition = how, stages = most, devices = "sim:4x11GB", micro_batches = 4,
         })
         assert.is_true(plan.n_stages <= most, how)
      end
   end)

   it("says that a plan has fewer, and refuses more than there can be", function()
      local graph = ft.graph.read("ftpipe weighted graph 1\nnode a forward_ns=9e6\n"
         .. "node b forward_ns=1e6\nnode c forward_ns=1e6\nedge a b bytes=8\nedge b c bytes=8\n",
         "graph")
      local function explore(stages)
         return tostring(ft.explore(graph, { devices = "sim:2x11GB", stages = stages }))
      end
      assert.matches(" 2 stages %(3 at most%) on 2 devices", explore(3))
      assert.matches(" 2 stages on 2 devices", explore(2))
      for _, how in ipairs { "mixed", "best", "seq", "greedy", "pipedream" } do
         local ok, failure = pcall(ft.explore, graph, { devices = "sim:2x11GB", stages = 4,
            partition = how })
         assert.is_false(ok)
         assert.matches("stages = 4: there can be 3 at most, since the graph has 3 nodes",
            failure.message)
         ok, failure = pcall(ft.explore, "t5-small", { devices = "sim:2x11GB", stages = 198,
            partition = how })
         assert.is_false(ok)
         assert.matches("stages = 198: there can be %d+ at most, since .*; give no more$",
            failure.message)
      end
      -- blocks stay whole but for seq, which is tried too where state may be swapped
      for own, most in pairs { [{ stages = 35 }] = 34, [{ stages = 34 }] = false,
         [{ stages = 35, partition = "seq" }] = false,
         [{ stages = 35, swap = "auto" }] = false } do
         own = copy({ devices = "sim:2x11GB", partition = "mixed" }, own)
         local ok, failure = pcall(ft.explore, "t5-small", own)
         assert.equal(not most, ok)
         if most then assert.matches("there can be " .. most .. " at most", failure.message) end
      end
   end)

   it("is found once for problems that differ in bytes which nothing bounds", function()
      local known, all = {}, {}
      local function solve(own, memory_bytes)
         local problem = ft.graph("t5-small", { devices = "sim:3x11GB", batch = 4 }):by_scope()
            :problem(copy({ devices = "sim:3x11GB", recompute = "but-last", in_flight = 4 }, own))
         for _, device in ipairs(problem.devices) do device.memory_bytes = memory_bytes or 0 end
         local asked = { method = "mixed", effort = .2, blocks = 6 }
         local found = solved(problem, asked, known)
         assert.same(ft.partition(problem, asked).device, found.device)
         all[#all + 1] = found
      end
      solve { memory_factor = 16 }
      solve { memory_factor = 8 }
      solve { memory_factor = 8, recompute = "always" } -- takes longer
      solve({ memory_factor = 8 }, 1e9)
      assert.equal(all[1], all[2])
      for i = 3, 4 do assert.are_not.equal(all[1], all[i]) end
   end)

   it("balances forwards and backwards apart for gpipe, which does one after the other", function()
      files.in_directory(function(dir)
         -- of few words out, forwards are most of the time, of many, backwards
         for target, most in pairs { [4] = 0.95, [64] = 0.98 } do
            local o = {
               model = ft.model "t5-small", devices = "cpu:2", batch = 32, micro_batches = 8,
               buckets = { 128 }, lengths = { target = target }, batches = 4, optimizer = "sgd",
               freeze = "encoder.*,shared.*", -- there forwards are all there is
            }
            local function plan(schedule, how)
               o.schedule, o.partition = schedule, how
               return ft.plan(o)
            end
            local cut = dir .. "/plan.txt"
            core.sys.write_file(cut, plan("1f1b", "seq"):text())
            local usual, own = plan("gpipe", cut):simulate(4), plan("gpipe", "seq"):simulate(4)
            assert.is_true(own.seconds < most * usual.seconds,
               ("%g and %g s"):format(own.seconds, usual.seconds))
         end
      end)
   end)

   it("looks at memory again when a first plan does not fit", function()
      local model = ft.model { model = "t5-3b" }
      local plan = ft.plan(options {
         model = model, devices = "sim:4x11GB", batch = 40, micro_batches = 5, buckets = { 320 },
         optimizer = "adafactor",
      })
      assert.has_no.errors(function() plan:check() end)
   end)

   it("puts a stage on the devices of its replicas", function()
      local solve = partition.solve
      finally(function() partition.solve = solve end)
      partition.solve = function(...)
         local result = solve(...)
         for n in ipairs(result.stage) do result.stage[n] = 1 end
         result.stage_device, result.stage_replicas = { 1 }, { 2 }
         return result
      end
      local plan = ft.plan(options { partition = "pipedream", devices = "cpu:2" })
      assert.same({ 1, 2 }, plan.blueprint:stages()[1].devices)
      assert.is_true(plan.blueprint:is_executable())
   end)

   it("tells a recipe that does not fit what would help, with what that saves", function()
      local out, err, exit = run("--devices", "cpu:2/4MB", "--steps", "2", "--dry-run",
         "--recompute", "always", "--profile", "modelled")
      assert.equal(3, exit)
      assert.matches("does not fit: cpu:%d needs [%d.]+ MB of its 4.0 MB", out)
      assert.matches("what would help: .*: fits, .*: saves [%d.]+ MB, still ", err)
      assert.not_matches("%-%-recompute", err)
      assert.equal(1, select(2, err:gsub("\n", "")), err)
   end)

   it("says what there is", function()
      local _, err, exit = run("--partition", "mixd", "--dry-run")
      assert.equal(2, exit)
      assert.matches("%-%-partition mixd is neither a plan file nor one of: best, .*mixed, .*seq",
         err)
      process.refused(2, "%-%-effort is for partitioners that search %(best, mixed%), and "
         .. "%-%-partition greedy does not: leave it out\n", { RECIPE, "--partition", "greedy",
         "--effort", "1", "--dry-run" })
   end)
end)

describe("weights of graphs", function()
   it("have gradients come back along the chain in which uses are summed", function()
      local graph = core.graph.new()
      local x, w = graph:input("x", "f32", { 2, 3 }), graph:param("w", { 3, 3 })
      local a = graph:add("linear", { x, w })
      local b, c = graph:add("linear", { a, w }), graph:add("linear", { a, w })
      local sum = graph:add("mean", { graph:add("add", { b, c }) })
      graph:grad(graph:output("loss", sum) and sum)
      local weights, found = graph:weights(), {}
      for e, from in ipairs(weights.edge_from) do
         if weights.edge_grad_bytes[e] > 0 then
            found[#found + 1] = from .. "-" .. weights.edge_to[e]
         end
         assert.is_true(from < weights.edge_to[e])
      end
      table.sort(found)
      assert.truthy(table.concat(found, " "):find("2-3", 1, true), table.concat(found, " "))
      assert.same({ 36, 0, 0 }, {
         weights.parameter_bytes[1], weights.parameter_bytes[2], weights.parameter_bytes[3],
      })
   end)
end)
