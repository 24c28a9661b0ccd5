--- Adapters of low rank: what peft computes, the same bits on any pipeline, files that peft reads.

local adapters = require("ftpipe.model.adapters")
local cases = require("spec.support.cases")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local golden = require("ftpipe.data.golden")
local late = require("spec.support.late")
local models = require("ftpipe.model")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

local FAMILIES = { "t5", "gpt2", "bert" }

-- ---------------------------------------------------------------------------------------------
-- What peft computes (spec/golden/NAME_lora, tools/make_golden_adapters.py).

local function golden_dir(family) return "spec/golden/" .. family .. "_lora" end

describe("adapters that peft has written", function()
   for _, family in ipairs(FAMILIES) do
      it("have its loss, logits, gradients and steps of AdamW: " .. family, function()
         local report = golden.check(golden_dir(family))
         local text = table.concat(report:lines(), "\n")
         assert.equal(0, report.failed, text)
         assert.equal(family == "bert" and 5 or 4, #report.rows, text)
      end)

      it("are told to differ where a gradient does: " .. family, function()
         local report = golden.check(golden_dir(family), { tamper = function(name, gradient)
            if name:find("lora_A", 1, true) then gradient:set(1, 1, gradient:get(1, 1) + 0.1) end
         end })
         assert.equal(1, report.failed, table.concat(report:lines(), "\n"))
      end)

      it("give peft's logits when they are merged: " .. family, function()
         files.in_directory(function(dir)
            local out, problem, code = process.ftpipe { "convert", golden_dir(family), "--out",
               dir .. "/merged" }
            assert.equal(0, code, problem)
            assert.matches("with %d+ adapters added to their weights\n$", out)
            -- the same reference, with the merged model's logits and nothing else to compare
            local outputs, list = core.io.archive(golden_dir(family) .. "/golden.safetensors"), {}
            for _, name in ipairs(outputs:names()) do
               local own = name:match("^merged%.(.*)")
               if own then
                  list[#list + 1] = { name = own, tensor = core.tensor.zeros(
                     outputs:spec(name).dims) }
                  outputs:read(name, list[#list].tensor)
               end
            end
            core.io.write(dir .. "/merged/golden.safetensors", list)
            local root = core.json.read(golden_dir(family) .. "/golden.json")
            root.losses = nil
            core.sys.write_file(dir .. "/merged/golden.json", core.json.encode(root))
            local report = golden.check(dir .. "/merged")
            assert.equal(0, report.failed, table.concat(report:lines(), "\n"))
            assert.equal(1 + #list, #report.rows)
         end)
      end)
   end
end)

-- ---------------------------------------------------------------------------------------------
-- Training.

local function options(family, more)
   return copy({ family = family, lora = 3, lora_dropout = 0.2, steps = 4, gated = true, clip = 1 },
      more)
end

--- The parameters before training, by name.
local function initial(plan, seed)
   local tensors, values = {}, {}
   for _, param in ipairs(plan.graphs[1]:params()) do
      tensors[param.name] = core.tensor.zeros(param.dims, "f32")
   end
   plan.options.model:initialize(tensors, seed)
   for name, tensor in pairs(tensors) do values[name] = tensor:totable() end
   return values
end

--- Trains, and checks that adapters (and new heads) alone have changed, and the planned memory.
local function train(o)
   local run = pipeline.train(o)
   local before = initial(run.plan, 7)
   for _, param in ipairs(run.plan.graphs[1]:params()) do
      local trained = adapters.is(param.name) or param.name:find("^qa_outputs%.")
      local moved = late.distance(before[param.name], run.params[param.name])
      assert.equal(trained and true or false, moved > 0, param.name)
      assert.equal(not trained, param.frozen, param.name)
   end
   if not o.swap and not o.replicas then pipeline.assert_memory(run.plan, run.measured) end
   return run
end

local PIPELINES = {
   { schedule = "gpipe", devices = "cpu:2" },
   { schedule = "1f1b", devices = "cpu:3", recompute = "always" },
   { schedule = "interleaved", devices = "cpu:2", stages = 4 },
   { schedule = "zero-bubble", devices = "cpu:3" },
   { schedule = "zb-v", devices = "cpu:2", stages = 4, recompute = "always" },
   { schedule = "1f1b", devices = "cpu:3", partition = "mixed" },
   { schedule = "harmony-pp", devices = "cpu:2", stages = 6, swap = "always" },
}

describe("a model with adapters", function()
   for _, family in ipairs(FAMILIES) do
      for _, row in ipairs(cases.rows(PIPELINES)) do
         it(("has one device's bits: %s, %s on %s"):format(family, row.schedule, row.devices),
            function()
               local judge = train(options(family))
               local run = train(options(family, row))
               assert.same(judge.losses, run.losses)
               assert.same(judge.norms, run.norms)
               assert.same(judge.params, run.params)
            end)
      end

      it("is the same to workers and a replay, with late weights: " .. family, function()
         for _, control in ipairs { "none", "stash", "predict" } do
            local o = options(family, { devices = "cpu:3", schedule = "async", clip = 0,
               staleness = control })
            local run = train(o)
            o.threaded = false
            assert.same(train(o).params, run.params)
         end
      end)

      it("has replicas: " .. family, function()
         local run = train(options(family, { devices = "cpu:3", replicas = { 2, 1 } }))
         local other = train(options(family, { devices = "cpu:2", replicas = { 1, 1 } }))
         assert.near(other.losses[4], run.losses[4], 1e-5)
      end)

      it("begins as the model without, bit for bit: " .. family, function()
         local o = options(family, { steps = 1, clip = 0 })
         local plain = pipeline.train(copy(o, { dropout = 0 }))
         o.lora, o.lora_dropout = nil, nil
         assert.same(pipeline.train(copy(o, { dropout = 0 })).losses, plain.losses)
      end)
   end

   it("begins with A from -1/sqrt(in) to 1/sqrt(in), B with zeros", function()
      local plan = pipeline.plan(options("gpt2", { lora = 8 }))
      for name, values in pairs(initial(plan, 7)) do
         if name:find("lora_A", 1, true) then
            local sum, squares, most, n = 0, 0, 0, 0
            for _, row in ipairs(values) do
               for _, value in ipairs(row) do
                  sum, squares, n = sum + value, squares + value * value, n + 1
                  most = math.max(most, math.abs(value))
               end
            end
            local bound = (n / 8) ^ -0.5
            assert.is_true(most <= bound and most > 0.97 * bound, name)
            assert.near(0, sum / n, 0.15 * bound)
            assert.near(bound ^ 2 / 3, squares / n, 0.1 * bound ^ 2)
         elseif name:find("lora_B", 1, true) then
            for _, row in ipairs(values) do
               for _, value in ipairs(row) do assert.equal(0, value) end
            end
         end
      end
      -- names and the seed alone decide the numbers
      local other = initial(pipeline.plan(options("gpt2", { lora = 8, lora_targets = "*" })), 7)
      local name = "transformer.h.1.attn.c_attn.lora_A.weight"
      assert.same(initial(plan, 7)[name], other[name])
      assert.is_false(late.distance(other[name], initial(plan, 8)[name]) == 0)
   end)

   it("is the factor alpha / rank times its adapters", function()
      -- W + 2 B A with alpha twice as large is the same as B twice as large
      local function loss(alpha, factor)
         local o = options("bert", { steps = 1, dropout = 0, lora_dropout = 0, lora_alpha = alpha })
         o.plant = function(params)
            for key, tensor in pairs(params) do
               if key:find("lora_B", 1, true) then tensor:draw("uniform", factor, 5) end
            end
         end
         return pipeline.train(o).losses[1]
      end
      assert.near(loss(6, 1), loss(3, 2), 1e-6)
      assert.is_true(math.abs(loss(6, 1) - loss(3, 1)) > 1e-4)
   end)

   it("drops some of what adapters read, in training alone", function()
      local function loss(rate)
         local o = options("t5", { steps = 1, dropout = 0, lora_dropout = rate })
         o.plant = function(params)
            for key, tensor in pairs(params) do
               if adapters.is(key) then tensor:draw("uniform", 0.5, 3) end
            end
         end
         local run = pipeline.train(o)
         for n = 1, run.plan.graphs[1]:counts().forward do
            if run.plan.graphs[1]:node(n).op == "dropout" then return run.losses[1], true end
         end
         return run.losses[1], false
      end
      local whole, none = loss(0)
      local dropped, some = loss(0.5)
      assert.is_false(none)
      assert.is_true(some and math.abs(whole - dropped) > 1e-4)
      local plan = pipeline.plan(options("t5", { dropout = 0, eval_batches = 2 }))
      for n = 1, plan.graphs.evaluation[1]:counts().forward do
         assert.not_equal("dropout", plan.graphs.evaluation[1]:node(n).op)
      end
   end)

   it("does not depend on the rank where all of a rank's parts are the same", function()
      -- alpha / r times the sum of r equal products
      local function loss(rank, alpha)
         local o = options("t5", { steps = 1, dropout = 0, lora_dropout = 0, lora = rank,
            lora_alpha = alpha })
         o.plant = function(params)
            for key, tensor in pairs(params) do
               if adapters.is(key) then tensor:fill(0.3) end
            end
         end
         return pipeline.train(o).losses[1]
      end
      assert.near(loss(1, 4), loss(5, 4), 1e-5)
      assert.is_true(math.abs(loss(1, 4) - loss(1, 8)) > 1e-3)
   end)

   it("has gradients and optimizer state of what is trained alone, and says what that saves",
      function()
         local plan = pipeline.plan(options("t5"))
         local all = pipeline.plan { family = "t5", gated = true }
         local trained, bytes = 0, 0
         for _, param in ipairs(plan.graphs[1]:params()) do
            trained = trained + (param.frozen and 0 or param.dims[1] * param.dims[2])
         end
         for _, row in ipairs(plan.memory) do bytes = bytes + row.gradients + row.optimizer end
         local slack = 64 * 3 * #plan.graphs[1]:params()
         assert.is_true(bytes >= 12 * trained and bytes <= 12 * trained + slack)
         local row = all.memory[1]
         assert.matches("\ntrained: %S+ M of %S+ M parameters\n"
            .. "gradients and optimizer: %S+ kB, %S+ kB if all were trained\n"
            .. "adapters: rank 3, alpha 8, dropout 0.2 on q, v, 18 products$", tostring(plan))
         local told = tonumber(tostring(plan):match("([%d.]+) kB if all"))
         assert.near(row.gradients + row.optimizer, 1e3 * told, 0.1 * (row.gradients
            + row.optimizer))
      end)

   it("has adapters where names say, by their last pieces or patterns", function()
      for targets, count in pairs {
         ["c_attn"] = 3, ["c_attn, c_fc"] = 6, ["*"] = 12, ["c_proj"] = 6, ["attn.c_proj"] = 3,
         ["transformer.h.1.*"] = 4, ["h.?.mlp.c_fc"] = 3,
      } do
         local plan = pipeline.plan(options("gpt2", { lora_targets = targets }))
         assert.equal(count, adapters.count(plan.graphs[1]), targets)
      end
   end)

   it("is refused where it makes no sense", function()
      for problem, more in pairs {
         ["lora_targets: 'x' is the name of no product that can have an adapter; products are "
            .. "called query, key, value, dense"] = { lora_targets = "query,x" },
         ["lora_targets: there is no name in it"] = { lora_targets = " , " },
         ["lora 25: no product with an adapter has a side of as many numbers, expected a rank of 1 "
            .. "to 24"] = { lora = 25, lora_targets = "*" },
         ["lora: bert.encoder.layer.0.output.dense.bias cannot be trained beside adapters, since "
            .. "bert.encoder.layer.0.output.dense.weight of the same module is not"] = {
            groups = "bert.encoder.layer.0.output.dense.bias: trained" },
         ["its module has an adapter"] = { groups = "*.query.*: trained" },
      } do
         local fault = files.failure(pipeline.plan, options("bert", more))
         assert.equal("invalid argument", fault.status, problem)
         assert.is_truthy(fault.message:find(problem, 1, true), fault.message)
      end
      assert.matches("lora_alpha is of adapters, give lora too",
         files.fault(pipeline.plan, { lora_alpha = 4 }))
      local fault = files.failure(pipeline.plan, options("t5", { groups = "shared.*: trained" }))
      assert.matches("since it is used in several places", fault.message)
   end)
end)

-- ---------------------------------------------------------------------------------------------
-- Files, as a user meets them.

local BASE = { "recipes/bert_squad.lua", "--devices", "cpu:2", "--eval-limit", "4", "--profile",
   "modelled", "--cache", "none" }
local RATE = { "--lr-schedule", "constant", "--warmup", "0" }

local function program(...)
   local words = {}
   for _, list in ipairs { BASE, ... } do
      for _, word in ipairs(list) do words[#words + 1] = word end
   end
   return process.ftpipe(words)
end

local function recipe(...) return program(RATE, { ... }) end

local function read_tensor(archive, name)
   local tensor = core.tensor.zeros(archive:spec(name).dims)
   archive:read(name, tensor)
   return tensor
end

describe("a run with adapters", function()
   local dir, first
   setup(function()
      dir = files.directory()
      local out, problem, code = recipe("--lora", "4", "--lora-targets", "*.query,value", "--steps",
         "4", "--save-every", "2", "--out", dir .. "/run")
      assert.equal(0, code, problem)
      first = out
   end)
   teardown(function() files.remove(dir) end)

   it("leaves them as peft reads them, and no weights of the model", function()
      local config = core.json.read(dir .. "/run/hf/adapter_config.json")
      assert.equal("LORA", config.peft_type)
      assert.equal("QUESTION_ANS", config.task_type)
      assert.equal("embedded:bert_tiny", config.base_model_name_or_path)
      assert.equal(4, config.r)
      assert.equal(8, config.lora_alpha)
      assert.same({ "qa_outputs" }, { unpack(config.modules_to_save) })
      assert.equal("bert.encoder.layer.0.attention.self.query", config.target_modules[1])
      assert.is_nil(core.sys.exists(dir .. "/run/hf/model.safetensors"))
      assert.is_nil(core.sys.exists(dir .. "/run/hf/config.json"))
      local archive, n = core.io.archive(dir .. "/run/hf/adapter_model.safetensors"), 0
      for _, name in ipairs(archive:names()) do
         assert.matches("^base_model%.model%.", name)
         n = n + 1
      end
      assert.equal(2 * 2 * 3 + 2, n)
      archive:close()
   end)

   it("goes on to the same bits, and with no other adapters", function()
      local out = dir .. "/resumed"
      local words = { "--lora", "4", "--lora-targets", "*.query,value", "--save-every", "2",
         "--out", out }
      local _, problem, code = recipe("--steps", "2", unpack(words))
      assert.equal(0, code, problem)
      _, problem, code = recipe("--steps", "2", "--resume", "--save-every", "2", "--out", out)
      assert.equal(2, code)
      assert.matches("%-%-lora, .* was rank 4, alpha 8 on .*, is not given\n$", problem)
      _, problem, code = recipe("--steps", "4", "--resume", "--lora-alpha", "4", unpack(words))
      assert.equal(2, code)
      assert.matches("%-%-lora, %-%-lora%-alpha, .* was rank 4, alpha 8 on .*, is rank 4, alpha 4 "
         .. "on ", problem)
      _, problem, code = recipe("--steps", "4", "--resume", unpack(words))
      assert.equal(0, code, problem)
      for _, name in ipairs { "adapter_model.safetensors", "adapter_config.json" } do
         assert.equal(core.sys.read_file(dir .. "/run/hf/" .. name),
            core.sys.read_file(out .. "/hf/" .. name), name)
      end
   end)

   it("is evaluated, predicts, and merges to a model with the same answers", function()
      local score = first:match("after: ([^\n]*)")
      local merged = dir .. "/merged"
      local _, problem, code = process.ftpipe { "convert", dir .. "/run", "--out", merged }
      assert.equal(0, code, problem)
      local function told(...)
         local out, fault, exit = program { "--eval-only", "--data", "embedded", ... }
         assert.equal(0, exit, fault)
         return out:match("score: (.-), loss")
      end
      assert.equal(score:match("^(.-), loss"), told("--model", dir .. "/run/hf"))
      assert.equal(told("--model", merged), told("--model", dir .. "/run/hf"))
      assert.equal(told("--model", merged), told("--model", "embedded:bert_tiny", "--adapter",
         dir .. "/run/hf"))
      local function answer(path)
         local out, fault, exit = process.ftpipe { "predict", path, "--text", "Who has the ball?",
            "--context", "Anna has the ball in Cairo ." }
         assert.equal(0, exit, fault)
         return core.json.decode(out, "answer")
      end
      local ours, theirs = answer(dir .. "/run"), answer(merged)
      assert.near(theirs.score, ours.score, 1e-4)
      assert.equal(theirs.answer, ours.answer)
   end)

   it("is where others begin from: what is trained are the same adapters", function()
      local out = dir .. "/more"
      local text, problem, code = recipe("--model", dir .. "/run/hf", "--data", "embedded",
         "--steps", "2", "--lr", "1e-3", "--optimizer", "adamw", "--out", out)
      assert.equal(0, code, problem)
      assert.matches("adapters: rank 4, alpha 8 on query, value, 6 products\n", text)
      local a = core.io.archive(dir .. "/run/hf/adapter_model.safetensors")
      local b = core.io.archive(out .. "/hf/adapter_model.safetensors")
      assert.same(a:names(), b:names())
      local name = "base_model.model.bert.encoder.layer.0.attention.self.query.lora_B.weight"
      local change = late.distance(read_tensor(a, name):totable(), read_tensor(b, name):totable())
      assert.is_true(change > 0 and change < 0.01, change)
   end)

   it("says what is wrong with files of adapters", function()
      local base = "embedded:bert_tiny"
      local function fault_of(changes, tensors)
         return files.fault(function()
            files.in_directory(function(other)
               local config = core.json.read(dir .. "/run/hf/adapter_config.json")
               core.sys.write_file(other .. "/adapter_config.json",
                  core.json.encode(copy(config, changes)))
               local archive = core.io.archive(dir .. "/run/hf/adapter_model.safetensors")
               local list = {}
               for _, name in ipairs(archive:names()) do
                  local renamed, tensor = name, read_tensor(archive, name)
                  if tensors then renamed, tensor = tensors(name, tensor) end
                  if renamed then list[#list + 1] = { name = renamed, tensor = tensor } end
               end
               core.io.write(other .. "/adapter_model.safetensors", list)
               local model = models.open { model = base, adapter = other }
               local graph = model.family.training(model.config, { batch = 1, source = 4 })
               local params = graph:params()
               model:fill(params, { tensor_of = function(i)
                  return core.tensor.zeros(params[i].dims)
               end })
            end)
         end)
      end
      for problem, changes in pairs {
         ["adapter_config.json: 'peft_type' is IA3, expected \"LORA\""] = { peft_type = "IA3" },
         ["'use_dora' is true, expected nothing"] = { use_dora = true },
         ["'r' is 0, expected a positive integer"] = { r = 0 },
         ["'bias' is all, expected \"none\""] = { bias = "all" },
         ["query.lora_A.weight is (4, 64), expected (5, 64)"] = { r = 5 },
      } do
         local message = fault_of(changes)
         assert.is_truthy(message:find(problem, 1, true), message)
      end
      for problem, change in pairs {
         ["layer.0.attention.self.query.lora_B.weight is missing"] = function(name, tensor)
            return not name:find("layer.0.*query.lora_B") and name, tensor
         end,
         ["lora_B.weight is of no parameter of the model"] = function(name, tensor)
            return name:gsub("layer%.0%.attention%.self%.query%.lora_A", "x.lora_A"), tensor
         end,
         ["does not begin with 'base_model.model.'"] = function(name, tensor)
            return name:gsub("^base_", ""), tensor
         end,
      } do
         local message = fault_of(nil, change)
         assert.is_truthy(message:find(problem, 1, true), message)
      end
      local _, problem, code = process.ftpipe { "predict", dir .. "/run/hf", "--text", "Who?",
         "--context", "Ann.", "--adapter", dir }
      assert.equal(6, code)
      assert.matches("holds no adapter_config.json\n$", problem)
      _, problem, code = recipe("--model", dir .. "/run/hf", "--lora", "2", "--data", "embedded",
         "--steps", "1")
      assert.equal(2, code)
      assert.matches("has adapters already, which are trained on: leave %-%-lora out\n$", problem)
   end)

   it("names the model that is not here", function()
      files.in_directory(function(other)
         local config = core.json.read(dir .. "/run/hf/adapter_config.json")
         config.base_model_name_or_path = "google-bert/none"
         core.sys.write_file(other .. "/adapter_config.json", core.json.encode(config))
         core.sys.write_file(other .. "/adapter_model.safetensors",
            core.sys.read_file(dir .. "/run/hf/adapter_model.safetensors"))
         local message = files.fault(models.open, { model = other })
         assert.matches("holds adapters of the model 'google%-bert/none', which is not here: give "
            .. "its directory as model and this one as adapter", message)
      end)
   end)
end)
