--- Evaluation through the stages of training: the same loss however it is cut, in planned memory.

local core = require("ftpipe.core")
local decode = require("ftpipe.data.decode")
local evaluate = require("ftpipe.data.evaluate")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local with = require("ftpipe.base.copy")

local EXAMPLES = 21 -- the last batch of eight has five rows

local function ids(n, seed)
   local list = {}
   for i = 1, n do list[i] = (7 * seed + 3 * i * i) % 59 + 2 end
   return list
end

local function make_dataset(n)
   local dataset = core.data.dataset { "source", "target" }
   for i = 1, n do
      dataset:add { source = ids(16 - i % 9, i), target = ids(1 + i % 5, i + 50) }
   end
   return dataset
end

--- A run of `pipeline.plan` with initial weights.
local function start(options)
   local plan, o = pipeline.plan(options)
   local run = { plan = plan, engine = plan.blueprint:run(), params = {}, options = o }
   for i, param in ipairs(plan.graphs[1]:params()) do
      run.params[param.name] = run.engine:param(i)
   end
   plan.options.model:initialize(run.params, o.seed)
   run.engine:refresh()
   return run
end

--- The loss of a run on a data set, and the ids it answers with.
local function loss_of(run, dataset, threaded)
   local o, answers = run.plan.options, {}
   local loss = evaluate.run {
      model = o.model, engine = run.engine, inputs = run.plan.graphs[1]:inputs(), dataset = dataset,
      batch = o.batch, micro_batches = o.micro_batches, buckets = o.buckets, lengths = o.lengths,
      threaded = threaded, beside = run.plan.beside,
      take = function(number, rows) answers[number] = rows end,
   }
   return loss, answers
end

--- The mean loss by a program of the whole model, one example at a time.
local function judge(run, dataset)
   local o = run.plan.options
   local batches = core.data.batcher {
      dataset = dataset, batch = 1, buckets = o.buckets, lengths = o.lengths,
      columns = o.model.family.columns(o.model.config), shuffle = false,
   }
   local total, labels = 0, 0
   for batch in function() return batches:next() end do
      local graph = evaluate.graph(o.model, {
         batch = 1, source = o.buckets[batch.bucket], target = o.lengths.target, dropout = 0.1,
      })
      local list = {}
      for i, param in ipairs(graph:params()) do list[i] = run.params[param.name] end
      batch.loss_weight = core.tensor.zeros({ 1 }):fill(1)
      local inputs = require("ftpipe.data.feed").list(graph:inputs(), batch)
      total = total + core.program.new(graph, {}):run(list, inputs).loss:get()
      labels = labels + batch.counts.labels
   end
   return total / labels
end

describe("evaluation", function()
   local dataset = make_dataset(EXAMPLES)
   local reference

   local cases = {
      { devices = "cpu:1" }, { devices = "cpu:2" }, { devices = "cpu:3" }, { devices = "cpu:4" },
      { devices = "cpu:2x2" }, { devices = "cpu:2", stages = 5 }, { devices = "cpu:1", stages = 4 },
      { devices = "cpu:2", schedule = "async" }, { devices = "cpu:3", tied = true, stages = 7 },
      { devices = "cpu:3", partition = { "encoder/block.1", "head" } },
   }
   for i, case in ipairs(cases) do
      local name = ("%s, stages %s"):format(case.devices, tostring(case.stages or case.partition))
      for _, alone in ipairs { false, true } do
         it(("gives the same bits on %s (case %d, %s)"):format(name, i,
            alone and "alone" or "beside training"), function()
            case.eval_batches, case.eval_only = 3, alone
            local run = start(case)
            local loss, answers = loss_of(run, dataset, true)
            reference = reference or { loss = loss, answers = answers }
            assert.equal(reference.loss, loss)
            assert.same(reference.answers, answers)
            assert.equal(loss, (loss_of(run, dataset, false)))
         end)
      end
   end

   --- Runs that evaluate, train two steps and evaluate again do so with the same numbers.
   local function assert_alike(still, moved)
      for _, run in ipairs { still, moved } do
         run.losses = { loss_of(run, dataset, true), loss_of(run, dataset, false) }
         pipeline.steps(run.engine, run.plan, run.options, 1, 2)
         table.insert(run.losses, (loss_of(run, dataset, true)))
         run.values = {}
         for name, param in pairs(run.params) do run.values[name] = param:totable() end
      end
      assert.same(still.losses, moved.losses)
      assert.same(still.values, moved.values)
   end

   it("reads copies that training makes on the device alone", function()
      local case = {
         devices = "cpu:1", stages = 6, eval_batches = 3, profile = "modelled",
         precision = pipeline.packing(),
      }
      local least = start(with(case, { swap = "always" })).plan.memory[1].total
      local made = start(with(case, {
         swap = "auto", devices = ("cpu:1/%dB@20MB/s"):format(math.ceil(1.2 * least)),
      }))
      assert.is_true(made.plan.volumes[1].makes > 0)
      assert_alike(start(case), made)
   end)

   for _, case in ipairs {
      { devices = "cpu:1", stages = 6 }, { devices = "cpu:2", stages = 7, tied = false },
      { devices = "cpu:3", stages = 12, schedule = "harmony-pp" },
   } do
      it("reads weights that training moves: stages " .. case.stages .. " on " .. case.devices,
         function()
            local o = with(case, { eval_batches = 3, precision = pipeline.packing() })
            local still = start(o)
            local moved = start(with(o, { swap = "always" }))
            local text = moved.plan:evaluation_text()
            assert.matches(" L%d+%.0%.0:weights ", text)
            assert.matches(" D%d+%.%d+%.%d+:packed", text)
            assert_alike(still, moved)
            for d, memory in ipairs(moved.engine:measured()) do
               local volume = moved.plan.volumes[d]
               assert.is_true(volume.bytes_in.weights > 0 and volume.bytes_in.packed > 0)
               assert.is_true(memory.total <= moved.plan.memory[d].total)
               assert.is_true(moved.plan.memory[d].total < still.plan.memory[d].total)
            end
         end)
   end

   it("is the mean over labels, whatever the batch: missing rows do not count", function()
      local run = start { devices = "cpu:2", eval_batches = 3 }
      local loss, answers = loss_of(run, dataset)
      assert.is_true(math.abs(loss - judge(run, dataset)) < 1e-6 * loss)
      assert.equal(EXAMPLES, #answers)
      local other = start { devices = "cpu:2", batch = 6, micro_batches = 3, eval_batches = 4 }
      local other_loss, other_answers = loss_of(other, dataset)
      assert.is_true(math.abs(loss - other_loss) < 1e-6 * loss)
      assert.same(answers, other_answers)
   end)

   it("answers what decoding one token at a time answers", function()
      local run = start { devices = "cpu:3", eval_batches = 3, tied = false }
      -- Small next to what the blocks add, so that a token is not followed by itself.
      run.params["shared.weight"]:draw("normal", 0.05, 3, 1)
      run.engine:refresh()
      local _, answers = loss_of(run, dataset)
      local o, different, longest = run.plan.options, {}, 0
      local source = o.buckets[#o.buckets]
      local decoder = decode.greedy(o.model, run.params,
         { batch = EXAMPLES, source = source, target = o.lengths.target })
      local batch = core.data.batcher({
         dataset = dataset, batch = EXAMPLES, buckets = { source }, lengths = o.lengths,
         columns = o.model.family.columns(o.model.config), shuffle = false,
      }):next()
      assert.same(decode.run(decoder, batch.input_ids, batch.mask), answers)
      for _, answer in ipairs(answers) do
         different[table.concat(answer, " ")], longest = true, math.max(longest, #answer)
      end
      assert.is_not_nil(next(different, (next(different))))
      assert.equal(o.lengths.target, longest)
   end)

   it("leaves training as it is, in the memory that was planned", function()
      local function train(evaluates)
         local run = start { devices = "cpu:3", eval_batches = evaluates and 3 or nil, steps = 6 }
         local losses = pipeline.steps(run.engine, run.plan, run.options, 1, 3)
         if evaluates then loss_of(run, dataset) end
         for _, loss in ipairs(pipeline.steps(run.engine, run.plan, run.options, 4, 3)) do
            losses[#losses + 1] = loss
         end
         if evaluates then pipeline.assert_memory(run.plan, run.engine:measured()) end
         return losses
      end
      assert.same(train(false), train(true))
   end)

   it("needs neither gradients nor optimizer state when it is all there is", function()
      local run = start { devices = "cpu:2", eval_batches = 3, eval_only = true }
      loss_of(run, dataset)
      for d, planned in ipairs(run.plan.memory) do
         assert.equal(0, planned.gradients + planned.optimizer + planned.activations, d)
      end
      pipeline.assert_memory(run.plan, run.engine:measured())
   end)

   it("is a plan of forwards alone, proven and readable", function()
      local plan = pipeline.plan { devices = "cpu:2", eval_batches = 3 }
      local text = plan:evaluation_text()
      assert.matches("\nforward%-only\n", text)
      assert.is_nil(text:find(" [BRUW]%d"))
      assert.equal("evaluate", core.schedule.parse(text):describe().schedule)
      assert.is_nil(plan:text():find("forward%-only"))
   end)

   it("does not run while training does", function()
      local run = start { devices = "cpu:2", eval_batches = 3 }
      run.engine:begin(3, 1, true)
      assert.matches("a leg is running already",
         files.failure(run.engine.begin, run.engine, 1, 1, true, true).message)
      run.engine:finish()
   end)

   it("is not there unless it was planned", function()
      local run = start { devices = "cpu:2" }
      assert.fails_with(function() run.engine:begin(1, 1, true, true) end, "has no evaluation")
   end)
end)

--- A family whose training graph is another's, of another kind.
local function as_kind(family, kind)
   return setmetatable({ kind = kind }, { __index = family })
end

describe("evaluation by kind", function()
   --- What each example gives, and the loss.
   local function predictions(options, dataset, kind, examples)
      options.eval_batches = 3
      local run = start(options)
      local o, list = run.plan.options, {}
      local loss = evaluate.run {
         model = o.model, engine = run.engine, inputs = run.plan.graphs[1]:inputs(),
         dataset = dataset, examples = examples, batch = o.batch,
         micro_batches = o.micro_batches, buckets = o.buckets,
         lengths = kind ~= "span" and o.lengths or {}, beside = run.plan.beside,
         take = function(number, prediction)
            if kind == "span" then -- logits stay where they are until the next batch
               for _, key in ipairs { "start", "end" } do
                  prediction[key] = evaluate.row(prediction[key], prediction.row)
               end
               prediction.row = nil
            end
            list[number] = prediction
         end,
      }
      assert.equal(kind, o.model.family.kind)
      return list, loss
   end

   it("gives a language model's sums over labels, of those that are scored", function()
      local family = package.loaded["ftpipe.model.t5"]
      package.loaded["ftpipe.model.t5"] = as_kind(family, "language_model")
      local ok, problem = pcall(function()
         local dataset = make_dataset(EXAMPLES)
         local list, loss = predictions({ devices = "cpu:2" }, dataset, "language_model")
         assert.same(list, (predictions({ devices = "cpu:3", stages = 5 }, dataset,
            "language_model")))
         local nll, tokens = 0, 0
         for i = 1, EXAMPLES do
            assert.equal(1 + i % 5, list[i].tokens)
            nll, tokens = nll + list[i].nll, tokens + list[i].tokens
         end
         assert.is_true(math.abs(nll / tokens - loss) < 1e-5)
         local examples = {}
         for i = 1, EXAMPLES do examples[i] = { scored = 1 } end
         for i, row in ipairs((predictions({ devices = "cpu:2" }, dataset, "language_model",
            examples))) do
            assert.equal(1, row.tokens)
            assert.is_true(i % 5 == 0 or row.nll < list[i].nll)
         end
      end)
      package.loaded["ftpipe.model.t5"] = family
      assert(ok, tostring(problem))
   end)

   it("gives the logits of spans, of every window once", function()
      local dataset = core.data.dataset { { "source", "segments" }, "start", "end" }
      for i = 1, EXAMPLES do
         local source, segments = ids(16 - i % 9, i), {}
         for t = 1, #source do segments[t] = t > 4 and 1 or 0 end
         dataset:add {
            source = source, segments = segments, start = { i % 3 == 0 and -100 or i % 5 },
            ["end"] = { i % 3 == 0 and -100 or i % 5 + 1 },
         }
      end
      local function get(options)
         options.family = "bert"
         return predictions(options, dataset, "span")
      end
      local list, loss = get { devices = "cpu:1" }
      assert.equal(EXAMPLES, #list)
      local again, loss_again = get { devices = "cpu:3", stages = 4 }
      assert.same({ list, loss }, { again, loss_again })
      -- The loss by the logits: half the start's and half the end's, over the labels that count.
      local sum, n = 0, 0
      local function nll(logits, label)
         local exps = 0
         for _, x in ipairs(logits) do exps = exps + math.exp(x) end
         return math.log(exps) - logits[label + 1]
      end
      for i, row in ipairs(list) do
         if i % 3 ~= 0 then
            sum = sum + (nll(row.start, i % 5) + nll(row["end"], i % 5 + 1)) / 2
            n = n + 1
         end
      end
      assert.is_true(math.abs(sum / n - loss) < 1e-5, sum / n .. " and " .. loss)
   end)
end)
