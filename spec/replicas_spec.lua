--- Stages with replicas: what they compute, hold and send does not depend on order or timing, and a
-- replica adds its micro-batches before those of the next.

local ffi = require("ffi")

local core = require("ftpipe.core")
local costs = require("ftpipe.plan.costs")
local evaluations = require("ftpipe.data.evaluate")
local models = require("ftpipe.model")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

local FAMILIES = { "t5", "gpt2", "bert" }

local function train(family, replicas, options)
   local o = { family = family, replicas = replicas, steps = 4, clip = 1, gated = true }
   local n = 0
   for count in replicas:gmatch("%d") do n = n + tonumber(count) end
   o.devices = "cpu:" .. n
   for key, value in pairs(options) do o[key] = value end
   local run = pipeline.train(o)
   pipeline.assert_memory(run.plan, run.measured)
   return run
end

local function assert_same(a, b)
   assert.same(a.losses, b.losses)
   for step, norm in ipairs(a.norms) do -- without a flush there is none
      assert.is_true(norm == b.norms[step] or norm ~= norm and b.norms[step] ~= b.norms[step])
   end
   assert.same(a.params, b.params)
end

-- -- the order of sums -------------------------------------------------------------------------

local MICROS, BATCH = 4, 8
-- Ends of parameters with several uses: the gradient of each use is summed over replicas by itself.
local SHARED = { "shared.weight", "wte.weight", "relative_attention_bias.weight" }
-- Where stages are cut.
local CUTS = { t5 = "decoder/block.0", gpt2 = "block.1/ff", bert = "encoder/block.1" }

--- The micro-batches of a batch with these numbers, from 0, as a batch.
local function pick(input, micros)
   local rows = input:shape()[1] / MICROS
   local shape = input:shape()
   shape[1] = rows * #micros
   local result = core.tensor.zeros(shape, input:dtype())
   for i, m in ipairs(micros) do
      result:narrow(1, (i - 1) * rows + 1, rows):copy_from(input:narrow(1, m * rows + 1, rows))
   end
   return result
end

--- Gradients of one step, by name, of some of its micro-batches: the momentum of SGD after it.
local function gradients(family, replicas, micros)
   local plan, o = pipeline.plan { family = family, replicas = replicas, batch = 2 * #micros,
      micro_batches = #micros, steps = 1, optimizer = "sgd", dropout = 0, devices =
         replicas == "1" and "cpu:1" or #replicas == 1 and "cpu:" .. replicas
         or ("cpu:%d"):format(replicas:sub(1, 1) + replicas:sub(3, 3)),
      partition = #replicas > 1 and { CUTS[family] } or nil }
   local all, whole = pipeline.plan { family = family, batch = BATCH, micro_batches = MICROS }
   local run, params = plan.blueprint:run(), {}
   for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
   plan.options.model:initialize(params, o.seed)
   run:refresh()
   run:begin(1, 1, true)
   local fed, inputs = pipeline.fed(all, whole, 0), {}
   for i, input in ipairs(fed.inputs) do inputs[i] = pick(input, micros) end
   run:feed(inputs, fed.bucket, 0.1)
   run:next(600)
   run:finish()
   local found = {}
   for i, param in ipairs(plan.graphs[1]:params()) do
      local momentum = run:state(i)[1].tensor
      found[param.name] = momentum:view { momentum:count() }:totable()
   end
   run:free()
   return found
end

local ALL = { 0, 1, 2, 3 }

--- What n replicas have to find: one device's gradients of the micro-batches of the first, to which
-- are added those of the second, and so on.
local function by_rank(family, n)
   local sum
   for r = 0, n - 1 do
      local micros = {}
      for m = r, MICROS - 1, n do micros[#micros + 1] = m end
      local own = gradients(family, "1", micros)
      for name, values in pairs(sum or {}) do
         for i, x in ipairs(own[name]) do values[i] = tonumber(ffi.new("float", values[i] + x)) end
      end
      sum = sum or own
   end
   return sum
end

local function is_shared(name)
   for _, last in ipairs(SHARED) do
      if name:sub(-#last) == last then return true end
   end
   return false
end

local function is_same(a, b)
   for i, x in ipairs(a) do
      if x ~= b[i] then return false end
   end
   return true
end

local function assert_close(a, b, name)
   for i, x in ipairs(a) do
      assert.is_true(math.abs(x - b[i]) <= 1e-5 * math.max(1, math.abs(x)), name)
   end
end

describe("gradients of replicas", function()
   for _, family in ipairs(FAMILIES) do
      it("are summed replica by replica, " .. family, function()
         local wanted = { by_rank(family, 1), by_rank(family, 2), [4] = by_rank(family, 4) }
         for _, n in ipairs { 2, 4 } do
            for name, found in pairs(gradients(family, tostring(n), ALL)) do
               assert_close(found, wanted[n][name], name)
               assert.is_true(is_shared(name) or is_same(found, wanted[n][name]), name)
            end
         end
         -- in a stage with replicas as in two of the whole, in one without as on one device
         local ahead, behind = gradients(family, "2-1", ALL), gradients(family, "1-2", ALL)
         local as_two = 0
         for name, found in pairs(ahead) do
            local two = is_same(found, wanted[2][name])
            if two then as_two = as_two + 1 end
            assert.is_true(is_shared(name) or two or is_same(found, wanted[1][name]), name)
            assert.is_true(is_shared(name)
               or is_same(behind[name], wanted[two and 1 or 2][name])
               or is_same(wanted[1][name], wanted[2][name]), name)
            assert_close(found, wanted[1][name], name)
         end
         assert.is_true(as_two > 10)
      end)
   end
end)

describe("evaluation", function()
   local BATCHES = 3

   --- Losses and outputs of batches, and how many forwards each device did.
   local function evaluate(family, replicas)
      local n = 0
      for count in replicas:gmatch("%d") do n = n + tonumber(count) end
      local plan, o = pipeline.plan { family = family, replicas = replicas, devices = "cpu:" .. n,
         eval_batches = BATCHES, vocab_size = 600 }
      local run, params = plan.blueprint:run(), {}
      for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
      plan.options.model:initialize(params, o.seed)
      run:refresh()
      local beside = { graphs = plan.graphs.evaluation, options = plan.options }
      local found, fed, forwards = {}, 0, {}
      run:begin(BATCHES, 1, true, true)
      while #found < BATCHES do
         while fed < BATCHES and run:wants() do
            local batch = pipeline.fed(beside, o, fed)
            run:feed(batch.inputs, batch.bucket, 0)
            fed = fed + 1
         end
         local result, outputs = run:next(600), {}
         for name, tensor in pairs(result.outputs) do outputs[name] = tensor:totable() end
         found[#found + 1] = { loss = result.loss, outputs = outputs }
      end
      for _, event in ipairs(core.json.decode(run:finish(true).trace).traceEvents) do
         if event.cat == "forward" then
            forwards[event.pid + 1] = (forwards[event.pid + 1] or 0) + 1
         end
      end
      run:free()
      return found, forwards
   end

   for _, family in ipairs(FAMILIES) do
      it("goes through all replicas, and gives what one device gives, " .. family, function()
         local all = BATCHES * MICROS
         local one = evaluate(family, "1")
         assert.is_truthy(next(one[1].outputs))
         for replicas, wanted in pairs {
            ["2"] = { all / 2, all / 2 }, ["4"] = { all / 4, all / 4, all / 4, all / 4 },
            ["2-1"] = { all / 2, all / 2, all }, ["1-2"] = { all, all / 2, all / 2 },
         } do
            local found, forwards = evaluate(family, replicas)
            assert.same(one, found)
            assert.same(wanted, forwards)
         end
      end)
   end

   it("is refused by its stage, not its replica, where it reads what training has not", function()
      local model = models.open("embedded:gpt2_tiny")
      local size = { batch = 1, source = 8, dropout = 0 }
      local function planned(graph, schedule, device)
         local stage, n = {}, graph:counts().forward
         for i = 1, n do stage[i] = i <= n / 2 and 1 or 2 end
         return { graphs = { graph }, plan = core.engine.plan {
            graphs = { graph }, node_stage = stage, stage_device = { { 1, 2 }, device },
            devices = "cpu:3", micro_batches = 2, schedule = schedule,
         } }
      end
      local options = planned(model.family.training(model.config, size), "1f1b", 3)
      options.evaluation = planned(evaluations.graph(model, size), "evaluate", 1)
      options.devices, options.micro_batch_size, options.optimizer = "cpu:3", 1, "sgd"
      assert.fails_with(function() core.engine.blueprint(options) end,
         "in stage 1 on device 0, where training does not have it")
   end)
end)

describe("stages with replicas", function()
   for _, family in ipairs(FAMILIES) do
      it("draw what one device draws, " .. family, function()
         local one = train(family, "1", { steps = 2 })
         for _, replicas in ipairs { "2", "4", "2-1", "1-2" } do
            assert.equal(one.losses[1], train(family, replicas, { steps = 2 }).losses[1])
         end
      end)

      it("compute the same in every order, " .. family, function()
         for _, replicas in ipairs { "2", "2-1", "1-2", "2-2" } do
            local first
            for _, schedule in ipairs { "gpipe", "1f1b" } do
               for _, recompute in ipairs { "never", "always" } do
                  local run = train(family, replicas, {
                     schedule = schedule, recompute = recompute, threaded = schedule == "1f1b",
                  })
                  first = first or run
                  assert_same(first, run)
               end
            end
         end
      end)
   end

   it("add up as two replicas of the whole do, wherever the cut is", function()
      assert_same(train("t5", "2", {}), train("t5", "2-2", {}))
   end)

   for _, family in ipairs(FAMILIES) do
      it("add up so where groups of devices have several stages in turns, " .. family, function()
         local judge = train(family, "2", {})
         for _, schedule in ipairs { "1f1b", "interleaved", "zb-v", "zero-bubble", "harmony-pp" } do
            local run = train(family, "2-2", {
               schedule = schedule, stages = 4, threaded = schedule ~= "zero-bubble",
            })
            assert_same(judge, run)
            for s, stage in ipairs(run.plan.blueprint:stages()) do
               local folded = schedule == "zb-v" and s > 2
               local group = folded and { 2, 1 } or { 1, 2 }
               local first = 2 * group[(s - 1) % 2 + 1] - 1
               assert.same({ first, first + 1 }, stage.devices)
            end
         end
      end)
   end

   it("do not depend on timing without a flush", function()
      for _, staleness in ipairs { "none", "stash", "vertical", "predict", "gap-aware",
         "stash+gap-aware" } do
         for _, replicas in ipairs { "2-1", "1-2" } do
            local o = { schedule = "async", staleness = staleness, steps = 6,
               stages = replicas == "2-1" and 5 or nil }
            local run = train("t5", replicas, o)
            o.threaded = false
            assert_same(run, train("t5", replicas, o))
         end
      end
   end)

   it("do in a run what they do in its simulation", function()
      for _, schedule in ipairs { "1f1b", "async" } do
         local plan, o = pipeline.plan { family = "gpt2", replicas = "2-1", devices = "cpu:3",
            schedule = schedule, steps = 3 }
         o.trace = true
         local run = plan.blueprint:run()
         local params = {}
         for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
         plan.options.model:initialize(params, o.seed)
         run:refresh()
         local _, _, timeline = pipeline.steps(run, plan, o, 1, 3)
         run:free()
         local function order_of(trace)
            local lists = {}
            for _, event in ipairs(core.json.decode(trace).traceEvents) do
               if event.ph == "X" and event.args.batch then
                  lists[event.pid] = lists[event.pid] or {}
                  table.insert(lists[event.pid], ("%s %d %d"):format(event.name, event.args.batch,
                     event.args.micro or -1))
               end
            end
            return lists
         end
         local planned = order_of(plan:simulate(3, true).trace)
         local text = table.concat(planned[0], "\n")
         assert.matches("B stage 0 mb 2 0 2\nX stage 0 batch 0 .-\nW stage 0", text)
         assert.same(planned, order_of(timeline.trace))
      end
   end)

   it("come from schedules, partitions and flags", function()
      local plan = pipeline.plan { devices = "cpu:2", schedule = "data-parallel" }
      assert.matches("data%-parallel, 1 stage on 2 devices", tostring(plan))
      assert.matches("stage 0 on cpu:0, cpu:1: encoder", tostring(plan))
      assert.same({ 1, 2 }, plan.blueprint:stages()[1].devices)
      plan = pipeline.plan { devices = "cpu:3", partition = "pipedream", micro_batches = 6,
         batch = 6 }
      local n = 0
      for _, stage in ipairs(plan.blueprint:stages()) do n = n + #stage.devices end
      assert.equal(3, n)
   end)

   it("get as much of the model as their devices are faster", function()
      local plan = pipeline.plan { devices = "cpu:4", replicas = { 3, 1 }, micro_batches = 6,
         batch = 6, family = "gpt2" }
      local first, second = unpack(plan.blueprint:stages())
      local share = (first.forward_ns + first.backward_ns)
         / (second.forward_ns + second.backward_ns)
      assert.is_true(share > 2 and share < 4, tostring(share))
   end)

   it("share the optimizer's state of several stages, whichever has the largest weights", function()
      local options = {
         family = "bert", devices = "cpu:4", schedule = "data-parallel", d_model = 48, d_ff = 192,
      }
      local whole = pipeline.plan(options).memory
      options.stages = 12 -- most of which have one large weight
      for d, memory in ipairs(pipeline.plan(options).memory) do
         assert.near(whole[d].optimizer, memory.optimizer, .05 * whole[d].optimizer)
      end
   end)

   it("are those of a plan's file", function()
      local options = { replicas = "2-1", devices = "cpu:3" }
      local made = pipeline.plan(options)
      local path = os.tmpname()
      made:save(path)
      local again = pipeline.plan { partition = path, devices = "cpu:3" }
      local given = pipeline.plan { plan = path, devices = "cpu:3" }
      os.remove(path)
      assert.equal(made:text(), again:text())
      assert.equal(made:text(), given:text())
      assert.matches("\nedge X0>R0 bytes %d+ slots 1\n", made:text())
      assert.matches("\nedge U0>W0 bytes %d+ slots 1\n", made:text())
   end)

   it("are refused where micro-batches do not go round, before anything is measured", function()
      local profile = costs.profile
      for words, options in pairs {
         ["expected a multiple of 3, as micro_batches = 6, batch = 12$"] = { replicas = "3" },
         ["expected a multiple of 3, as micro_batches = 6$"] =
            { schedule = "data-parallel", batch = 12 },
         ["the 3 replicas of a stage alike: expected a multiple of 6, as micro_batches = 6$"] =
            { replicas = "2-3", devices = "cpu:5", batch = 12 },
      } do
         options.devices = options.devices or "cpu:3"
         costs.profile = function() error("it measures") end
         local ok, problem = pcall(pipeline.plan, options)
         costs.profile = profile
         assert.is_false(ok)
         assert.matches("micro_batches = 4 cannot be dealt to the ", problem.message, 1, true)
         assert.matches(words, problem.message)
      end
   end)

   -- A stage gets the values of the one before it from each replica of that, and few other things.
   it("evaluate with one example in a micro-batch, by an edge from each replica", function()
      for _, case in ipairs { { "t5_rte", "2-1", 4, 3 }, { "bert_squad", "3-1", 6, 4 } } do
         local recipe, replicas, batch, devices = unpack(case)
         local out, err, code = process.ftpipe { ("recipes/%s.lua"):format(recipe), "--steps", "1",
            "--replicas", replicas, "--batch", tostring(batch), "--devices", "cpu:" .. devices,
            "--eval-limit", "12", "--profile", "modelled" }
         assert.equal(0, code, err)
         assert.matches("\nafter: ", out)
      end
   end)

   it("are refused in words where they cannot be", function()
      local function refused(options, words)
         options.devices = options.devices or "cpu:3"
         local ok, problem = pcall(pipeline.plan, options)
         assert.is_false(ok)
         assert.matches(words, problem.message)
      end
      refused({ replicas = "2-1", partition = "greedy" }, "says where stages are")
      refused({ replicas = "2-1", schedule = "interleaved", micro_batches = 6,
         batch = 6 }, "stage 0 has 2 replicas and stage 1 has 1, expected as many of each")
      refused({ replicas = "2-2", devices = "cpu:4", schedule = "interleaved", micro_batches = 6,
         batch = 6 }, "3 micro%-batches for each replica, expected a multiple of the 2 groups")
      refused({ replicas = "2-2" }, "takes 4 devices, and there are 3: expected as many")
      refused({ replicas = "2-1", stages = 1 }, "is for 2 stages or more, .*stages asks for 1")
      refused({ replicas = "2-x" }, "expected numbers with '%-' between them, as 2%-1")
      refused({ replicas = "2-1", schedule = "harmony-dp" },
         "stage 0 has 2 replicas, expected 3: every stage on every device")
   end)
end)
