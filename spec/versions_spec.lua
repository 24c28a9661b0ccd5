--- Runs with older weights compute what the formulas of their controls say.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local late = require("spec.support.late")
local pipeline = require("spec.support.pipeline")

-- BERT ties no weights: its stages are a chain. By number of stages: cuts, and what the last
-- parameters of each stage but the last are called.
local cuts = {
   [2] = { "encoder/block.1" },
   [3] = { "encoder/block.1", "head" },
   [4] = { "encoder/block.0", "encoder/block.1", "encoder/block.2" },
}
local stages = {
   [2] = function(layer) return layer < 1 and 0 or 1 end,
   [3] = function(layer) return layer < 1 and 0 or layer < 3 and 1 or 2 end,
   [4] = function(layer) return math.min(layer + 1, 3) end,
}

local function stage_of(P)
   return function(name)
      local layer = name:match("layer%.(%d)") or (name:find("embeddings", 1, true) and -1 or 3)
      return stages[P](tonumber(layer))
   end
end

--- Workers and the replay on one thread compute the same, in the memory that was planned.
local function assert_replayed(o)
   local run = pipeline.train(o)
   o.threaded = false
   local replay = pipeline.train(o)
   assert.same(replay.losses, run.losses)
   assert.same(replay.params, run.params)
   pipeline.assert_memory(run.plan, run.measured)
end

local function options(P, micro_batches, way, more)
   local o = {
      family = "bert", dropout = 0, devices = "cpu:" .. P, stages = P, partition = cuts[P],
      steps = 30, micro_batches = micro_batches, optimizer = "sgd", rate = 1e-2, hypers = {},
      schedule = way == "2bw" and way or "async", staleness = way ~= "2bw" and way or nil,
      version = late.versions[way], longest = true,
   }
   for key, value in pairs(more or {}) do o[key] = value end
   return o
end

-- How far what is the same may be off: the judge is of the CPU, and has other layouts of weights.
local in_host = core.engine.devices("cpu:1")[1].in_host
local NONE = in_host and 0 or 1e-6

local function compare(o, most)
   local run = pipeline.train(o)
   local judge = late.train(o, stage_of(o.stages))
   assert.equal(o.steps, #judge.losses)
   assert.is_true(run.losses[o.steps] < run.losses[1])
   local losses = late.distance(judge.losses, run.losses)
   local params = late.distance(judge.params, run.params)
   for s, stage in ipairs(run.plan.blueprint:stages()) do -- counted by the engine
      assert.same({ stage.least_staleness, stage.most_staleness }, run.timeline.staleness[s])
   end
   most = most * pipeline.rounding()
   if not in_host then most = math.max(most, 1e-4) end -- an H100 was 3.5e-5 off after thirty steps
   assert.is_true(losses <= most and params <= most,
      ("losses differ by %g, parameters by %g"):format(losses, params))
   pipeline.assert_memory(run.plan, run.measured)
end

describe("a run with older weights", function()
   for P = 2, 4 do
      for _, way in ipairs { "stash", "vertical", "2bw" } do
         if way ~= "2bw" or P == 2 then -- needs as many micro-batches as stages behind the first
            it(("has the parameters of its formula, bit for bit: %s, %d stages"):format(way, P),
               function() compare(options(P, 1, way), NONE) end)
         end
         if P < 4 then
            it(("has them with several micro-batches in a batch: %s, %d stages"):format(way, P),
               function() compare(options(P, 2, way), 1e-6) end)
         end
      end
   end

   it("has them with AdamW and weight decay", function()
      -- eps: the keys' biases have no gradient but rounding, which a smaller one would blow up
      local adamw = { optimizer = "adamw", rate = 5e-4, hypers = { eps = 1e-3,
         weight_decay = 0.01 } }
      for _, way in ipairs { "stash", "vertical", "2bw" } do
         compare(options(3, 2, way, adamw), 1e-6)
      end
   end)

   for _, way in ipairs { "stash", "vertical" } do
      it("has them where a bound is less than the stages would be late: " .. way, function()
         for _, micro_batches in ipairs { 1, 2 } do
            local bound = { max_staleness = 1, version = late.bounded(late.versions[way], 1) }
            local o = options(4, micro_batches, way, bound)
            o.steps = 12
            compare(o, micro_batches == 1 and NONE or 1e-6)
            o.version = late.versions[way]
            assert.is_true(late.distance(late.train(o, stage_of(4)).params,
               pipeline.train(o).params) > 1e-4)
         end
      end)
   end

   it("has those of a synchronous run where the bound is 0", function()
      local o = { devices = "cpu:3", stages = 5, steps = 8, schedule = "1f1b" }
      local judge = pipeline.train(o)
      for _, way in ipairs { "none", "stash", "vertical", "predict" } do
         o.schedule, o.staleness, o.max_staleness = "async", way, 0
         local run = pipeline.train(o)
         assert.same(judge.losses, run.losses)
         assert.same(judge.params, run.params)
         pipeline.assert_memory(run.plan, run.measured)
      end
   end)

   it("is not what another control gives", function()
      local o = options(3, 1, "stash")
      o.version = late.versions.vertical
      local judge = late.train(o, stage_of(3))
      assert.is_true(late.distance(judge.params, pipeline.train(o).params) > 1e-3)
   end)

   it("does not depend on the cut when every stage is one update late", function()
      local judge
      for devices = 1, 3 do
         for _, n_stages in ipairs { 3, 5 } do
            local run = pipeline.train {
               devices = "cpu:" .. devices, stages = n_stages, schedule = "2bw", steps = 8,
               recompute = devices == 2 and "always" or "never",
            }
            judge = judge or run
            assert.same(judge.losses, run.losses)
            assert.same(judge.params, run.params)
            pipeline.assert_memory(run.plan, run.measured)
         end
      end
   end)

   it("divides gradients by the gap, those of each micro-batch by its own", function()
      local rates = function(batch) return 1e-2 - 2e-4 * batch end
      for P = 2, 4 do
         for _, micro_batches in ipairs { 1, 2 } do
            local o = options(P, micro_batches, "stash", { rates = rates, gap_aware = true,
               staleness = "stash+gap-aware", steps = P == 3 and 30 or 15 })
            compare(o, 1e-6)
            o.gap_aware = false
            assert.is_true(late.distance(late.train(o, stage_of(P)).params,
               pipeline.train(o).params) > 1e-3)
         end
      end
   end)

   it("divides gradients by the gap to the version that every stage has read", function()
      for P = 2, 3 do
         for _, micro_batches in ipairs { 1, 2, 4 } do
            local o = options(P, micro_batches, "vertical", { gap_aware = true,
               staleness = "vertical+gap-aware", steps = 12 })
            compare(o, 1e-6)
            o.gap_aware = false
            assert.is_true(late.distance(late.train(o, stage_of(P)).params,
               pipeline.train(o).params) > 1e-4)
         end
      end
   end)

   it("divides gradients by the gap with AdamW, and clips what is left of them", function()
      -- a step is the difference of two weights, and has their rounding: an ulp of a weight is 1e-4
      -- of a step, here and in the formula, which is then as much of the next one
      local o = options(3, 2, "stash", { gap_aware = true, staleness = "stash+gap-aware",
         clip = 0.5, optimizer = "adamw", rate = 5e-4,
         hypers = { eps = 1e-3, weight_decay = 0.01 } })
      compare(o, 1e-5)
      o.steps = 5
      local run = pipeline.train(o)
      assert.is_true(late.distance(late.train(o, stage_of(3)).params, run.params) <= 1e-6)
      o.gap_aware = false
      assert.is_true(late.distance(late.train(o, stage_of(3)).params, run.params) > 1e-4)
   end)

   it("divides gradients by the gap on each replica, by a state that another one made", function()
      for _, counts in ipairs { { 2, 1 }, { 1, 2 } } do
         local o = options(2, 2, "stash", { gap_aware = true, staleness = "stash+gap-aware",
            steps = 12, devices = "cpu:3", replicas = table.concat(counts, "-"),
            version = late.replicated(counts) })
         compare(o, 1e-6)
         o.gap_aware = false
         assert.is_true(late.distance(late.train(o, stage_of(2)).params,
            pipeline.train(o).params) > 1e-3)
      end
   end)

   it("clips each stage by the last norms that it can know", function()
      for P = 2, 4 do
         for _, micro_batches in ipairs { 1, 2 } do
            local o = options(P, micro_batches, "stash", { clip = 1, steps = 20 })
            compare(o, 1e-6)
            local run, judge = pipeline.train(o), late.train(o, stage_of(P))
            assert.is_true(late.distance(judge.norms, run.norms) < 1e-6)
            o.threaded = false
            local replay = pipeline.train(o)
            assert.same(run.params, replay.params)
            assert.same(run.norms, replay.norms)
            o.clip = 0
            assert.is_true(late.distance(late.train(o, stage_of(P)).params, run.params) > 1e-3)
         end
      end
   end)

   it("clips as a synchronous run does where the bound is 0", function()
      local o = { devices = "cpu:3", stages = 4, steps = 8, schedule = "1f1b", clip = 0.5 }
      local judge = pipeline.train(o)
      o.schedule, o.max_staleness = "async", 0
      local run = pipeline.train(o)
      assert.same(judge.norms, run.norms)
      assert.same(judge.params, run.params)
   end)

   it("tells the norm of all gradients where nothing waits for it, when it is asked", function()
      local function norms(o, clip, gnorm)
         o.clip, o.gnorm = clip, gnorm
         return pipeline.train(o)
      end
      for _, o in ipairs {
         { devices = "cpu:3", schedule = "async" },
         { devices = "cpu:3", replicas = "2-1", schedule = "async" },
         { devices = "cpu:3", schedule = "async", staleness = "gap-aware" },
         { devices = "cpu:2", stages = 4, schedule = "harmony-pp", swap = "always" },
      } do
         o.steps = 4
         local judge = norms(o, 1e30) -- clips nothing, and knows the norm
         local run = norms(o, 0, true)
         assert.same(judge.norms, run.norms)
         assert.same(judge.params, run.params)
         run = norms(o, 0)
         assert.is_true(run.norms[o.steps] ~= run.norms[o.steps]) -- not a number
         assert.same(judge.params, run.params)
      end
      local o = { devices = "cpu:2", stages = 5, partition = "mixed", schedule = "async",
         steps = 4 }
      assert.same(norms(o, 0).params, norms(o, 0, true).params) -- by the same plan
      for words, needless in pairs {
         ["with clip = 1 the norm of all gradients is recorded anyway"] = { clip = 1,
            schedule = "async" },
         ["with schedule = \"gpipe\" the norm"] = { schedule = "gpipe", clip = 0 },
      } do
         needless.devices, needless.gnorm = "cpu:2", true
         assert.matches(words, files.failure(pipeline.plan, needless).message)
      end
   end)

   it("does not depend on what of it moves: gaps of micro-batches whose activations are away",
      function()
         for _, partition in ipairs { "seq", "mixed" } do
            local o = { devices = "cpu:2", stages = 4, partition = partition, steps = 6,
               schedule = "async", staleness = "gap-aware" }
            local judge = pipeline.train(o)
            files.in_directory(function(dir) -- its stages: what moves may make others faster
               o.partition, o.stages, o.swap = dir .. "/plan.txt", nil, "always"
               core.sys.write_file(o.partition, judge.plan:text())
               local run = pipeline.train(o)
               assert.is_true(run.plan.volumes[1].bytes_out.activations > 0)
               assert.same(judge.losses, run.losses)
               assert.same(judge.params, run.params)
            end)
         end
      end)

   for _, way in ipairs { "stash", "vertical", "gap-aware", "stash+gap-aware",
      "vertical+gap-aware" } do
      it("equals its replay on one thread, ties and several stages on a device: " .. way, function()
         for _, o in ipairs {
            { devices = "cpu:3" }, { devices = "cpu:2", stages = 5 },
            { devices = "cpu:3", stages = 5, partition = "mixed", recompute = "always" },
         } do
            o.schedule, o.staleness, o.steps = "async", way, 8
            assert_replayed(o)
         end
      end)
   end
end)

describe("a run with predicted weights", function()
   -- GPT-2's embeddings, whose gradients do not depend on them: the forward alone reads what was
   -- predicted, and the whole graph's gradient is the run's. The stage between has no weights.
   local NODES, EMBEDDINGS = 33, 2
   local first = { wte = true, wpe = true }

   local function predicting(dir, P, micro_batches, more)
      local lines = {
         "ftpipe-plan 1", "stages " .. P, "devices " .. P, "micro-batches 2", "batches 1",
         "body-batches 0", "body-repeats 0",
      }
      if more and more.replicas then -- of the first stage
         lines[3] = "devices " .. P + 1
         lines[#lines + 1] = "stage 0 device 0,1 replicas round-robin"
      end
      for s = more and more.replicas and 1 or 0, P - 1 do
         lines[#lines + 1] = ("stage %d device %d"):format(s, more and more.replicas and s + 1 or s)
      end
      lines[#lines + 1] = "nodes " .. NODES
      lines[#lines + 1] = ("node-stage 0*%d"):format(EMBEDDINGS)
      if P == 3 then lines[#lines + 1] = "node-stage 1*1" end
      lines[#lines + 1] = ("node-stage %d*%d"):format(P - 1, NODES - EMBEDDINGS - P + 2)
      local path = dir .. "/plan.txt"
      core.sys.write_file(path, table.concat(lines, "\n") .. "\n")
      local o = options(P, micro_batches, "stash", {
         family = "gpt2", tied = false, partition = path, staleness = "predict", predicts = true,
      })
      for key, value in pairs(more or {}) do o[key] = value end
      return o
   end

   local function stage_in(P)
      return function(name) return first[name:match("%.(w.e)%.")] and 0 or P - 1 end
   end

   local function compare_predicted(P, micro_batches, more)
      files.in_directory(function(dir)
         local o = predicting(dir, P, micro_batches, more)
         local run, judge = pipeline.train(o), late.train(o, stage_in(P))
         local most = late.distance(judge.params, run.params)
         assert.is_true(most <= 1e-6, ("parameters differ by %g"):format(most))
         pipeline.assert_memory(run.plan, run.measured)
         o.predicts = false
         assert.is_true(late.distance(late.train(o, stage_in(P)).params, run.params) > 1e-5)
      end)
   end

   for P = 2, 3 do
      it(("has the parameters of the formula: SGD with momentum, %d updates late"):format(P - 1),
         function()
            compare_predicted(P, 1, { rates = function(batch) return 3e-3 + 5e-4 * batch end })
         end)

      it(("has the parameters of the formula: AdamW, %d updates late"):format(P - 1), function()
         compare_predicted(P, 1, { optimizer = "adamw", rate = 5e-4,
            hypers = { eps = 1e-3, weight_decay = 0.01 } })
      end)

      it(("has the parameters of the formula: Adafactor's decay, %d updates late"):format(P - 1),
         function()
            compare_predicted(P, 1, { optimizer = "adafactor", rate = 1e-2,
               hypers = { eps1 = 1e-8, weight_decay = 1 } })
         end)
   end

   it("has them where micro-batches of a batch share a prediction", function()
      compare_predicted(3, 2)
   end)

   it("has them on each replica, by a state that another one made", function()
      for _, more in ipairs { {}, { optimizer = "adamw", rate = 5e-4,
         hypers = { eps = 1e-3, weight_decay = 0.01 } } } do
         more.replicas, more.devices, more.steps = "2-1", "cpu:3", 12
         more.version = late.replicated { 2, 1 }
         compare_predicted(2, 2, more)
      end
   end)

   it("has gradients divided by the gap where backwards read the newest weights", function()
      for P = 2, 3 do
         files.in_directory(function(dir)
            local o = predicting(dir, P, P - 1, { staleness = "gap-aware", predicts = false,
               gap_aware = true })
            local run, judge = pipeline.train(o), late.train(o, stage_in(P))
            assert.is_true(late.distance(judge.params, run.params) <= 1e-6)
            pipeline.assert_memory(run.plan, run.measured)
            o.gap_aware = false
            assert.is_true(late.distance(late.train(o, stage_in(P)).params, run.params) > 1e-5)
         end)
      end
   end)

   for _, more in ipairs {
      { optimizer = "adamw", rate = 5e-4, hypers = { eps = 1e-3, weight_decay = 0.01 } },
      { optimizer = "adafactor", rate = 1e-2, hypers = { eps1 = 1e-8, weight_decay = 0.1 } },
   } do
      it("has gradients divided by the gap that another optimizer's steps make: "
         .. more.optimizer, function()
         files.in_directory(function(dir)
            more.staleness, more.gap_aware, more.predicts, more.steps = "gap-aware", true, false, 12
            local o = predicting(dir, 2, 1, more)
            local run, judge = pipeline.train(o), late.train(o, stage_in(2))
            local most = late.distance(judge.params, run.params)
            assert.is_true(most <= 1e-5, ("parameters differ by %g"):format(most))
            pipeline.assert_memory(run.plan, run.measured)
            o.gap_aware = false
            assert.is_true(late.distance(late.train(o, stage_in(2)).params, run.params) > 1e-4)
         end)
      end)
   end

   it("is that of newest weights with Adafactor, which has no momentum to go by", function()
      local o = { devices = "cpu:3", schedule = "async", steps = 6, optimizer = "adafactor",
         rate = 1e-2, staleness = "predict" }
      local predicted = pipeline.train(o)
      o.staleness = nil
      local plain = pipeline.train(o)
      assert.same(plain.losses, predicted.losses)
      assert.same(plain.params, predicted.params)
   end)

   it("equals its replay on one thread, ties and several stages on a device", function()
      for _, o in ipairs {
         { devices = "cpu:3" }, { devices = "cpu:2", stages = 5, recompute = "always" },
      } do
         o.schedule, o.staleness, o.steps = "async", "predict", 8
         assert_replayed(o)
      end
   end)
end)
