--- What a step minimizes and how it is measured does not depend on how the batch and the model are
-- cut; what decays is what the recipe says.

local core = require("ftpipe.core")
require("ftpipe.base.tensor") -- pointer()
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

local function assert_close(wanted, found, tolerance, where)
   assert.is_true(math.abs(found - wanted) <= tolerance * math.abs(wanted),
      ("%s: %.9g, expected %.9g"):format(where, found, wanted))
end

--- Labels per micro-batch that differ a lot, one micro-batch of four with none.
local function ragged(batch)
   local sizes = { 5, 5, 4, 1, 0, 0, 1, 5 }
   local row_of = batch.labels or batch.start_positions
   batch.counts = { labels = 0, start_positions = 0, end_positions = 0 }
   for b, size in ipairs(sizes) do
      if batch.labels then
         for t = 1, batch.labels:shape()[2] do
            batch.labels:set(b, t, t <= size and (7 * b + t) % 59 + 2 or -100)
         end
         batch.counts.labels = batch.counts.labels + size
      else
         local counts = size > 1
         row_of:set(b, counts and b or -100)
         batch.end_positions:set(b, counts and b + 1 or -100)
         batch.counts.start_positions = batch.counts.start_positions + (counts and 1 or 0)
         batch.counts.end_positions = batch.counts.start_positions
      end
   end
end

describe("the loss", function()
   for _, family in ipairs { "t5", "bert", "gpt2" } do
      it("is the mean over the labels of the whole batch, however it is cut: " .. family, function()
         local options = { family = family, gated = true, tied = false, shape = ragged, clip = 1e9,
            optimizer = "sgd", rate = 1e-3, steps = 3 }
         local function train(micro_batches)
            options.micro_batches = micro_batches
            return pipeline.train(options)
         end
         local whole = train(1)
         for _, micro_batches in ipairs { 2, 4, 8 } do
            local run = train(micro_batches)
            for step = 1, 3 do
               local where = ("%d micro-batches, step %d"):format(micro_batches, step)
               assert_close(whole.losses[step], run.losses[step], 1e-6, where)
               assert_close(whole.norms[step], run.norms[step], 1e-5, where .. ", norm")
            end
         end
      end)
   end
end)

describe("the gradient norm", function()
   it("is the same to the bit for one to four stages, tied weights counted once", function()
      local norms
      for stages = 1, 4 do
         local run = pipeline.train { devices = "cpu:" .. stages, clip = 1e9, steps = 3,
            schedule = "gpipe" }
         norms = norms or run.norms
         assert.same(norms, run.norms)
      end
   end)

   it("is known without clipping, where stages update together", function()
      local clipped = pipeline.train { devices = "cpu:2", clip = 1e9, steps = 2 }
      local run = pipeline.train { devices = "cpu:2", clip = 0, steps = 2 }
      assert.same(clipped.norms, run.norms)
      run = pipeline.train { devices = "cpu:2", clip = 0, steps = 2, schedule = "async" }
      assert.is_true(run.norms[1] ~= run.norms[1])
   end)

   it("is that of each parameter's summed gradient", function()
      local batch, initial
      local options = { clip = 1e9, steps = 1, micro_batches = 1, dropout = 0,
         edit = function(it) batch = it end,
         plant = function(params)
            initial = {}
            for name, tensor in pairs(params) do
               initial[name] = core.tensor.from_table(tensor:totable(), "f32")
            end
         end,
      }
      local run = pipeline.train(options)
      local graph = run.plan.graphs[batch.bucket]
      local params, inputs = {}, {}
      for i, param in ipairs(graph:params()) do params[i] = initial[param.name] end
      for i, input in ipairs(graph:inputs()) do inputs[i] = batch[input.name] end
      local program = core.program.new(graph, { grads = true })
      program:run(params, inputs)
      local sum, terms = 0, graph:counts().grads
      for i in ipairs(params) do
         local gradient = program:grad(i)
         local data = gradient:pointer()
         for k = 0, gradient:count() - 1 do sum = sum + data[k] * data[k] end
      end
      assert.is_true(terms > #params) -- the embedding is used three times
      assert_close(math.sqrt(sum), run.norms[1], 1e-6, "norm")
   end)
end)

describe("weight decay", function()
   --- Parameters after a step of the given rate with decay, by name, as tensors' first numbers.
   local function after(options)
      options.steps, options.dropout, options.rate = 1, 0, 1e-2
      return pipeline.train(options).params
   end

   local function first(values)
      while type(values) == "table" do values = values[1] end
      return values
   end

   for _, optimizer in ipairs { "adamw", "adafactor", "sgd" } do
      it("leaves biases and norms alone where that is asked for: " .. optimizer, function()
         local o = { family = "bert", gated = true, optimizer = optimizer }
         local function with(decay, exempt)
            o.hypers, o.decay_exempt = { weight_decay = decay }, exempt
            return after(o)
         end
         local none, all, matrices = with(0), with(0.5, "none"), with(0.5, "vectors")
         local vectors, others = 0, 0
         for name, values in pairs(none) do
            local changed = first(all[name]) ~= first(values)
            if type(values[1]) == "table" then
               assert.same(all[name], matrices[name], name)
               others = others + (changed and 1 or 0)
            else
               assert.same(values, matrices[name], name)
               vectors = vectors + (changed and 1 or 0)
            end
         end
         assert.is_true(vectors >= 5 and others >= 15, ("%d and %d"):format(vectors, others))
      end)
   end
end)

describe("bf16", function()
   local on_cards = not core.engine.devices("cpu:1")[1].in_host -- in the program for them

   local function available()
      if on_cards or core.sys.has_bf16() then return true end
      pending("skipped: no bf16 on this CPU")
      return false
   end

   for _, family in ipairs { "t5", "bert", "gpt2" } do
      it("computes on a pipeline what one device computes, to the bit: " .. family, function()
         if not available() then return end
         local function train(devices, schedule, recompute, stages)
            return pipeline.train { family = family, precision = "bf16", devices = devices,
               schedule = schedule, recompute = recompute, stages = stages, steps = 6, clip = 1,
               gated = family ~= "t5" }
         end
         local judge = train("cpu:1", "sequential", "never")
         local ways = {
            { "cpu:2", "1f1b", "always" }, { "cpu:3", "gpipe", "never" },
            { "cpu:2", "1f1b", "never", 4 }, { "cpu:1x3", "1f1b", "never" },
         }
         for _, way in ipairs(ways) do
            local run = train(unpack(way))
            assert.same(judge.losses, run.losses)
            assert.same(judge.norms, run.norms)
            assert.same(judge.params, run.params)
            pipeline.assert_memory(run.plan, run.measured)
            assert.equal(0, run.timeline.allocations)
         end
         assert.is_true(judge.losses[6] < judge.losses[2])
      end)
   end

   it("is not f32, but close to it", function()
      if not available() then return end
      local half = pipeline.train { precision = "bf16", steps = 8 }
      local full = pipeline.train { steps = 8 }
      for step = 1, 8 do
         assert.not_equal(full.losses[step], half.losses[step])
         assert_close(full.losses[step], half.losses[step], 2e-2, "step " .. step)
      end
   end)

   it("packs weights in half the memory", function()
      if not available() then return end
      local function packed(precision)
         local plan = pipeline.plan { precision = precision, d_model = 128, d_kv = 64, d_ff = 512 }
         return plan.memory[1].packed
      end
      local whole = packed("f32")
      if on_cards then return pending("skipped: cards pack no weights in f32") end
      assert_close(0.5, packed("bf16") / whole, 0.1, "share")
   end)

   --- Plans a recipe in bf16 with kernels of CPUs that have none.
   local function plan_with(kernels, devices)
      return process.shell(("FTPIPE_KERNELS=%s %s recipes/t5_rte.lua --precision bf16 --dry-run "
         .. "--devices %s"):format(kernels, core.sys.executable(), devices))
   end

   it("is refused in one line where products cannot use it", function()
      if on_cards then return pending("skipped: cards have it") end
      for _, kernels in ipairs { "avx512", "avx2" } do
         local _, err, exit = plan_with(kernels, "cpu:2")
         assert.equal(2, exit, err)
         assert.matches("precision bf16 needs a CPU with avx512_bf16 instructions, which this one "
            .. "does not have or FTPIPE_KERNELS rules out; f32 runs everywhere\n$", err)
         assert.equal(1, select(2, err:gsub("\n", "\n")), err)
      end
   end)

   it("can be planned anywhere for devices that are not here", function()
      for _, kernels in ipairs { "avx512", "avx2" } do
         local out, err, exit = plan_with(kernels, "sim:2xl4")
         assert.equal(0, exit, err)
         assert.matches("predicted: ", out)
      end
   end)
end)
