--- Groups of parameters: what is frozen takes nothing and stays as it is, whatever the pipeline.

local assert_judged = require("spec.support.judged")
local cases = require("spec.support.cases")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local groups = require("ftpipe.trained.groups")
local late = require("spec.support.late")
local patterns = require("ftpipe.base.pattern")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

local function initial(o)
   local plan, full = pipeline.plan(o)
   local tensors, values = {}, {}
   for _, param in ipairs(plan.graphs[1]:params()) do
      tensors[param.name] = core.tensor.zeros(param.dims, "f32")
   end
   plan.options.model:initialize(tensors, full.seed)
   for name, tensor in pairs(tensors) do values[name] = tensor:totable() end
   return values, plan
end

--- Trains, and checks what is frozen: no gradient, no state, no change, and the memory planned.
local function train(o)
   local run = pipeline.train(o)
   local before, plan = initial(o)
   local optimizer, trained = 0, 0
   for _, param in ipairs(plan.graphs[1]:params()) do
      local same = late.distance(before[param.name], run.params[param.name]) == 0
      assert.equal(param.frozen, same, param.name)
      local n = 4
      for _, dim in ipairs(param.dims) do n = n * dim end
      trained = trained + (param.frozen and 0 or n)
   end
   for _, row in ipairs(run.planned) do optimizer = optimizer + row.optimizer end
   local numbers = o.staleness == "gap-aware" and 3 or 2 -- of each parameter
   assert.is_true(optimizer < (numbers + 0.5) * trained + 256 * #plan.graphs[1]:params(),
      "state of AdamW")
   pipeline.assert_memory(run.plan, run.measured)
   return run
end

local FREEZE = {
   t5 = { "shared.weight: frozen; encoder.*: frozen", "*.layer.0.*: frozen",
      "decoder.*: frozen; shared.*: frozen" },
   bert = { "bert.embeddings.*: frozen; bert.encoder.layer.0.*: frozen",
      "*: frozen; *.attention.*: trained", "qa_outputs.*: frozen" },
   gpt2 = { "transformer.wpe.*: frozen; transformer.wte.*: frozen; transformer.h.0.*: frozen",
      "transformer.h.1.*: frozen", "*: frozen; transformer.wte.*: trained" },
}

local SCHEDULES = { "sequential", "gpipe", "1f1b", "interleaved", "zero-bubble", "zb-v" }

local CONTROLS = { "none", "stash", "vertical", "predict", "gap-aware", "2bw" }

local function options(family, groups_text, more)
   local o = { family = family, groups = groups_text, steps = 4, gated = true, clip = 1 }
   for key, value in pairs(more or {}) do o[key] = value end
   return o
end

describe("parameters that are frozen", function()
   for family, list in pairs(FREEZE) do
      for number, text in ipairs(list) do
         local judge
         local function same(more)
            judge = judge or train(options(family, text))
            local run = train(options(family, text, more))
            assert.same(judge.losses, run.losses)
            assert.same(judge.norms, run.norms)
            assert.same(judge.params, run.params)
         end
         for _, schedule in ipairs(cases.rows(SCHEDULES)) do
            it(("leave one device's bits: %s %d, %s"):format(family, number, schedule), function()
               same {
                  schedule = schedule, devices = "cpu:2",
                  stages = (schedule == "interleaved" or schedule == "zb-v") and 4 or 2,
                  recompute = number == 2 and "always" or "never",
               }
            end)
         end
         it(("leave one device's bits on mixed stages: %s %d"):format(family, number), function()
            same { devices = "cpu:3", partition = "mixed" }
         end)
         for _, control in ipairs(cases.rows(CONTROLS)) do
            it(("are the same to workers and a replay: %s %d, %s"):format(family, number, control),
               function()
                  local o = options(family, text, {
                     devices = "cpu:3", clip = 0, schedule = control == "2bw" and "2bw" or "async",
                     staleness = control ~= "2bw" and control or nil,
                  })
                  local run = train(o)
                  o.threaded = false
                  local replay = train(o)
                  assert.same(replay.losses, run.losses)
                  assert.same(replay.params, run.params)
               end)
         end
      end
   end

   for family, list in pairs(FREEZE) do
      for number, text in ipairs(list) do
         it(("stay in host memory between uses: %s %d"):format(family, number), function()
            local one = pipeline.train(options(family, text))
            for _, schedule in ipairs { "1f1b", "harmony-pp" } do
               local run = pipeline.train(options(family, text, {
                  devices = "cpu:2", stages = 6, swap = "always", schedule = schedule,
               }))
               assert_judged(one, run)
            end
         end)
      end
   end

   it("have no backward below what is trained, and no activations there", function()
      local o = options("bert", FREEZE.bert[1], {
         devices = "cpu:2", partition = { "encoder/block.1" }, recompute = "never",
         precision = pipeline.packing(),
      })
      local plan = pipeline.plan(o)
      local graph, below = plan.graphs[1], 0
      for n = graph:counts().forward + 1, graph:counts().nodes do
         local scope = graph:node(graph:node(n).origin).scope
         assert.is_nil(scope:find("^embed") or scope:find("block%.0"), scope)
         below = below + 1
      end
      assert.is_true(below > 0)
      local row, stages = plan.memory[1], plan.blueprint:stages()
      assert.equal(0, row.activations + row.gradients + row.optimizer)
      assert.equal(0, stages[1].backward_ns)
      for _, transfer in ipairs(plan.blueprint:transfers()) do
         assert.is_true(transfer.from < transfer.to) -- no gradient comes back
      end
      local all = pipeline.plan(options("bert", nil, { devices = "cpu:2",
         partition = { "encoder/block.1" }, recompute = "never",
         precision = pipeline.packing() }))
      assert.same({ 0, all.memory[1].packed }, { row.turned, row.packed })
   end)

   it("move a balanced cut towards the input, where there is nothing to go back for", function()
      local function first_stage(text)
         local plan = ft.plan {
            model = ft.model "t5-small", devices = "sim:2x11GB", batch = 8, micro_batches = 4,
            buckets = { 64 }, lengths = { target = 64 }, batches = 2, groups = text,
         }
         local n = 0
         for _, stage in ipairs(plan.partition.stage) do n = n + (stage == 1 and 1 or 0) end
         return n, plan
      end
      local n, plan = first_stage(nil)
      local frozen, light = first_stage("encoder.*: frozen; shared.*: frozen")
      assert.is_true(frozen > n + 5, ("%d nodes, %d where nothing is frozen"):format(frozen, n))
      assert.is_true(light:simulate(2).seconds < 0.8 * plan:simulate(2).seconds)
      assert.is_true(light:memory_bytes()[1] < 0.7 * plan:memory_bytes()[1])
      assert.matches("\ntrained: %S+ M of 60.51 M parameters\n", tostring(light))
   end)

   it("take nothing of a budget but their weights", function()
      local function over(text)
         local subject = ft.explore("t5-base", {
            devices = "sim:2x1GB", batch = 8, micro_batches = 8, source = 64, groups = text,
         })
         return subject.fits
      end
      assert.is_false(over(nil))
      assert.is_true(over("*: frozen; decoder.block.11.*: trained"))
   end)
end)

--- The numbers of a tensor's table, one after the other.
local function flat(values, list)
   list = list or {}
   for _, value in ipairs(values) do
      if type(value) == "table" then flat(value, list) else list[#list + 1] = value end
   end
   return list
end

describe("--layer-decay", function()
   --- By the name of a parameter, how many layers it is below the head.
   local LAYERS = {
      bert = { ["bert.embeddings.word_embeddings.weight"] = 4,
         ["bert.encoder.layer.0.output.dense.weight"] = 3,
         ["bert.encoder.layer.2.output.dense.weight"] = 1, ["qa_outputs.weight"] = 0 },
      gpt2 = { ["transformer.wte.weight"] = 4, ["transformer.wpe.weight"] = 4,
         ["transformer.h.0.mlp.c_fc.weight"] = 3, ["transformer.h.2.ln_1.weight"] = 1,
         ["transformer.ln_f.weight"] = 0 },
      t5 = { ["shared.weight"] = 7, ["encoder.block.0.layer.0.SelfAttention.q.weight"] = 6,
         ["encoder.final_layer_norm.weight"] = 4,
         ["decoder.block.0.layer.1.EncDecAttention.q.weight"] = 3,
         ["decoder.block.2.layer.2.DenseReluDense.wo.weight"] = 1,
         ["decoder.final_layer_norm.weight"] = 0 },
   }
   for family, wanted in pairs(LAYERS) do
      it("gives each layer the rate of the one above it times a factor: " .. family, function()
         local plan = pipeline.plan { family = family, layer_decay = 0.5,
            groups = family == "gpt2" and "*ln_*: rate 3" or nil }
         local factors, n = groups.rate_factors(plan.options, plan.graphs[1]), 0
         for i, param in ipairs(plan.graphs[1]:params()) do
            local below = wanted[param.name]
            if below then
               assert.near(0.5 ^ below * (param.name:find("ln_") and 3 or 1), factors[i], 1e-15,
                  param.name)
               n = n + 1
            end
         end
         for _ in pairs(wanted) do n = n - 1 end
         assert.equal(0, n)
      end)
   end

   it("is what parameters are trained with, on any cut", function()
      local o = { family = "bert", steps = 3, layer_decay = 1e-6, rate = 1e-2 }
      local one = pipeline.train(o)
      local before, plan = initial(o)
      for _, param in ipairs(plan.graphs[1]:params()) do
         local moved = late.distance(before[param.name], one.params[param.name])
         local head = param.name:find("^qa_outputs")
         assert.is_true(head and moved > 1e-3 or not head and moved < 1e-6, param.name)
      end
      assert.matches("\nlayer decay: 5 layers, the first has 1e%-24 times the rate of the head$",
         tostring(plan))
      o.devices = "cpu:3"
      assert.same(one.params, pipeline.train(o).params)
   end)
end)

describe("groups of parameters", function()
   --- The same run with what a group says done by hand: rates and decays of one optimizer step.
   local function by_hand(o, factor, decay)
      local before = initial(o)
      local plain, changed = pipeline.train(o), {}
      for key, value in pairs(o) do changed[key] = value end
      changed.groups = ("*.output.dense.weight: rate %g, decay %g"):format(factor, decay)
      local run = pipeline.train(changed)
      local n = 0
      for name, values in pairs(run.params) do
         local inside = name:find("%.output%.dense%.weight$")
         local start, end_ = flat(before[name]), flat(plain.params[name])
         for i, value in ipairs(flat(values)) do
            local was, usual = start[i], end_[i]
            local rate = o.rate * (inside and factor or 1)
            local update = (was * (1 - o.rate * o.hypers.weight_decay) - usual) / o.rate
            local wanted = inside and was * (1 - rate * decay) - rate * update or usual
            assert.near(wanted, value, 2e-6, name)
         end
         n = n + (inside and 1 or 0)
      end
      assert.is_true(n > 0)
   end

   it("have a rate and a decay of their own, as the formula of AdamW says", function()
      by_hand({ family = "bert", steps = 1, rate = 1e-2, devices = "cpu:2",
         hypers = { weight_decay = 0.1 } }, 0.25, 0.5)
   end)

   it("of rate 1 and the usual decay change no bit", function()
      local o = { family = "gpt2", steps = 3, devices = "cpu:2", hypers = { weight_decay = 0.1 } }
      local plain = pipeline.train(o)
      o.groups = "transformer.*: rate 1, decay 0.1"
      assert.same(plain.params, pipeline.train(o).params)
   end)

   it("predict late weights with their own rate", function()
      -- a rate of 0 moves nothing: the weights that are predicted are those that there are
      local o = options("bert", "*: rate 0", {
         devices = "cpu:3", schedule = "async", clip = 0, steps = 6, optimizer = "sgd", rate = 0.05,
      })
      local plain = pipeline.train(o)
      o.staleness = "predict"
      assert.same(plain.losses, pipeline.train(o).losses)
      o.groups = "*: rate 1"
      assert.is_true(late.distance(plain.losses, pipeline.train(o).losses) > 1e-3)
   end)

   it("are decided by the last one that says something", function()
      local plan = pipeline.plan(options("t5", "*: frozen, rate 3; encoder.*: trained; "
         .. "encoder.block.1.*: rate 0.5"))
      local factors = groups.rate_factors(plan.options, plan.graphs[1])
      for i, param in ipairs(plan.graphs[1]:params()) do
         assert.equal(not param.name:find("^encoder"), param.frozen, param.name)
         assert.equal(param.name:find("^encoder%.block%.1%.") and 0.5 or 3, factors[i], param.name)
      end
   end)

   it("match whole names, * any characters and ? one", function()
      assert.is_true(patterns.matches("a.*.c", "a.b.x.c"))
      assert.is_true(patterns.matches("a.?.c", "a.b.c"))
      assert.is_false(patterns.matches("a.?.c", "a.bb.c"))
      assert.is_false(patterns.matches("a", "a.b"))
      assert.is_false(patterns.matches("a.b", "axb"))
      assert.is_true(patterns.matches("h.[1]-%w", "h.[1]-%w"))
   end)

   it("are the same as a text and as a table", function()
      local text = groups.of { groups = " a.* : frozen,rate 0.5 ;b: trained, decay 1e-2; " }
      local list = groups.of { groups = { { "a.*", frozen = true, rate = 0.5 },
         { "b", frozen = false, decay = 0.01 } } }
      assert.same(list, text)
      assert.equal("a.*: frozen, rate 0.5; b: trained, decay 0.01", groups.text(text))
      assert.same(text, groups.of { groups = groups.text(text) })
   end)

   it("are said by lists of names as well: of what is trained, of what is frozen", function()
      local list = groups.of { train_only = "*.bias, qa_outputs.*", freeze = { "b.*" },
         groups = "c: trained" }
      assert.equal("*: frozen; *.bias: trained; qa_outputs.*: trained; b.*: frozen; c: trained",
         groups.text(list))
      local function names(o)
         local found = {}
         o.family = "bert"
         for _, param in ipairs(pipeline.plan(o).graphs[1]:params()) do
            if not param.frozen then found[#found + 1] = param.name end
         end
         return found
      end
      for _, name in ipairs(names { train_only = "*.bias" }) do assert.matches("%.bias$", name) end
      assert.same(names { groups = "*: frozen; *.bias: trained" }, names { train_only = "*.bias" })
      assert.same({ "qa_outputs.weight", "qa_outputs.bias" }, names { freeze = "bert.*" })
   end)

   it("by lists are refused under the name of the list", function()
      for problem, o in pairs {
         ["train_only: 'encodr.*' is the name of no parameter; near it are encoder."] = {
            train_only = "encodr.*" },
         ["freeze: 'x' is the name of no parameter"] = { freeze = { "x" } },
         ["freeze: there is no name in it"] = { freeze = "," },
         ["train_only and adapters both say what is trained; with adapters, groups \"NAME: "
            .. "trained\" trains more"] = { train_only = "*", lora = 2 },
         ["freeze: every parameter is frozen"] = { freeze = "*" },
      } do
         local fault = files.failure(pipeline.plan, o)
         assert.equal("invalid argument", fault.status)
         assert.is_truthy(fault.message:find(problem, 1, true), fault.message)
      end
   end)

   it("of biases alone are trained to the same bits on any cut, beside less memory", function()
      local o = { family = "bert", steps = 4, train_only = "*.bias", recompute = "never" }
      local one = pipeline.train(o)
      o.devices = "cpu:3"
      local run = train(o)
      assert.same(one.params, run.params)
      local full = pipeline.plan { family = "bert", recompute = "never" }
      assert.is_true(one.measured[1].optimizer + one.measured[1].gradients
         < 0.2 * (full.memory[1].optimizer + full.memory[1].gradients))
   end)

   it("that make no sense are refused, with names that are near", function()
      for text, problem in pairs {
         ["encodr.*: frozen"] = "'encodr.%*' is the name of no parameter; near it are encoder%.",
         ["*: frozen"] = "every parameter is frozen, nothing is left to be trained",
         ["encoder.*"] = "'encoder.%*' is not PATTERN: WHAT",
         ["a: frozn"] = "'frozn' of 'a' is none of: frozen, trained, rate NUMBER, decay NUMBER",
         ["a: rat 1"] = "'rat' of 'a' is not known %(did you mean 'rate'%?%)",
         ["a: rate -1"] = "'rate' of 'a': expected at least 0, got %-1",
         ["a: rate x"] = "'rate' of 'a': expected a number, got 'x'",
         ["a: rate 1, rate 2"] = "'rate' of 'a' is said twice",
         ["a: "] = "'' of 'a' is none of",
         [" ; "] = "there is no group in it",
      } do
         local fault = files.failure(pipeline.plan, { groups = text })
         assert.equal("invalid argument", fault.status, text)
         assert.matches("^[^\n]*groups: " .. problem, fault.message)
      end
      for problem, list in pairs {
         ["entry 1 is not { PATTERN, ... }"] = { { frozen = true } },
         ["'a' says nothing"] = { { "a" } },
         ["a table of 'a' is not known"] = { { "a", [{}] = 1 } },
         ["'frozen' of 'a': expected true or false, got '1'"] = { { "a", frozen = 1 } },
      } do
         local fault = files.failure(pipeline.plan, { groups = list })
         assert.is_truthy(fault.message:find(problem, 1, true), fault.message)
      end
   end)

   it("are kept by a run, which goes on with no others", function()
      files.in_directory(function(dir)
         local out = dir .. "/out"
         local function run(steps, text, ...)
            return process.ftpipe { "recipes/bert_squad.lua", "--devices", "cpu:2",
               "--steps", steps, "--eval-limit", "4", "--save-every", "2", "--out", out,
               "--profile", "modelled", "--lr-schedule", "constant", "--warmup", "0",
               "--groups", text, ... }
         end
         local text = "bert.embeddings.*: frozen; bert.encoder.layer.0.*: frozen"
         local _, err, exit = run("2", text)
         assert.equal(0, exit, err)
         local record = core.json.decode(core.sys.read_file(out .. "/run.json"), "run.json")
         assert.equal(text, record.flags.groups)
         local _, problem = run("4", text .. "; qa_outputs.bias: frozen", "--resume")
         assert.matches("%-%-groups, %-%-freeze or %-%-train%-only was bert[^\n]*frozen, is bert"
            .. "[^\n]*qa_outputs.bias: frozen\n$", problem)
         local _, fault, goes_on = run("4", text, "--resume")
         assert.equal(0, goes_on, fault)
         local archive = core.io.archive(out .. "/checkpoints/latest/state/state.safetensors")
         for _, name in ipairs(archive:names()) do
            assert.is_nil(name:find("embeddings", 1, true) or name:find("layer.0.", 1, true), name)
         end
         archive:close()
      end)
   end)
end)
