local core = require("ftpipe.core")
local ft = require("ftpipe")
local partition = require("ftpipe.partition")
local process = require("spec.support.process")

local RECIPE = "recipes/t5_rte.lua"

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

   it("looks at memory again when a first plan does not fit", function()
      local model = ft.model { model = "t5-3b" }
      local plan = ft.plan(options {
         model = model, devices = "sim:4x11GB", batch = 40, micro_batches = 5, buckets = { 320 },
         optimizer = "adafactor",
      })
      assert.has_no.errors(function() plan:check() end)
   end)

   it("refuses replicated stages, naming what would run", function()
      local solve = partition.solve
      finally(function() partition.solve = solve end)
      partition.solve = function(...)
         local result = solve(...)
         result.stage_replicas[1] = 2
         return result
      end
      local ok, problem = pcall(ft.plan, options { partition = "pipedream" })
      assert.is_false(ok)
      assert.equal("unsupported", problem.status)
      assert.matches("puts stage 0 on 2 devices", problem.message)
      assert.matches("pipedream%-straight", problem.message)
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
      assert.matches("'mixd' is neither a plan file nor one of: best, .*mixed, .*seq", err)
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
