--- What an evaluation shows, where it is cut, and how much of the data it looks at.

local core = require("ftpipe.core")
local evaluate = require("ftpipe.data.evaluate")
local evaluation = require("ftpipe.plan.evaluation")
local files = require("spec.support.files")
local models = require("ftpipe.model")
local process = require("spec.support.process")
local progress = require("ftpipe.base.progress")

--- A line of progress by a clock of one's own: add(seconds) counts an example then.
local function follow(total, terminal)
   local said, now = {}, 0
   local line = progress.evaluation(total, {
      terminal = terminal, columns = 30, now = function() return now end,
      write = function(text) said[#said + 1] = text end,
   })
   return function(seconds)
      now = seconds * 1e9
      line:add()
   end, said, line
end

describe("the progress of an evaluation", function()
   it("is a line now and then on a terminal, and gone at its end", function()
      local add, said, line = follow(10, true)
      add(0.1)
      assert.equal(0, #said)
      add(0.5)
      add(0.6)
      add(2)
      line:close()
      assert.same({
         "\revaluated 2/10  4.0 samples/s\27[K", "\revaluated 4/10  2.0 samples/s\27[K",
         "\r\27[K",
      }, said)
   end)

   it("is plain lines elsewhere, when it takes long", function()
      local add, said, line = follow(10, false)
      for second = 1, 6 do add(second) end
      line:close()
      assert.same({ "evaluated=5 of=10 samples_per_second=1.0 eta=0:05\n" }, said)
   end)
end)

describe("the line of a step", function()
   it("keeps what counts most where there is no room for all", function()
      local parts = { { "step 1/2", 1 }, { "mean 3", 4 }, { "ETA 0:05", 2 }, { "9 MB", 3 } }
      assert.equal("step 1/2  mean 3  ETA 0:05  9 MB", progress.fitted(parts))
      assert.equal("step 1/2  mean 3  ETA 0:05  9 MB", progress.fitted(parts, 33))
      assert.equal("step 1/2  ETA 0:05  9 MB", progress.fitted(parts, 32))
      assert.equal("step 1/2  ETA 0:05", progress.fitted(parts, 19))
      assert.equal("step 1/2", progress.fitted(parts, 4))
   end)
end)

--- The graph of evaluation of a small model with many words, so that the head is most of the work.
local function wordy(name, size)
   local model = models.open { model = "embedded:" .. name }
   model.config.vocab_size = 30000
   return { model = model, training = model.family.training(model.config, size),
      graph = evaluate.graph(model, size) }
end

--- The forward nodes of some operator.
local function nodes_of(graph, op)
   local list = {}
   for n = 1, graph:counts().forward do
      if graph:node(n).op == op then list[#list + 1] = n end
   end
   return list
end

--- The bytes that pass between stages, of the largest value.
local function largest_sent(graph, stage)
   local weights, most = graph:weights(), 0
   for e, from in ipairs(weights.edge_from) do
      if stage[from] ~= stage[weights.edge_to[e]] then
         most = math.max(most, weights.edge_bytes[e])
      end
   end
   return most
end

describe("the cut of an evaluation", function()
   local size = { batch = 2, source = 16, target = 8, dropout = 0 }

   for _, name in ipairs { "t5_tiny", "gpt2_tiny" } do
      local it_is = wordy(name, size)
      local logits = 2 * (name == "t5_tiny" and 8 or 16) * 30000 * 4

      it("is not between logits and what is made of them: " .. name, function()
         for _, method in ipairs { "seq", "mixed", "pipedream-straight" } do
            local partition = evaluation.partition({
               model = it_is.model, devices = "cpu:2", batch = 8, micro_batches = 4,
               partition = method, optimizer = "adamw", recompute = "auto", schedule = "1f1b",
            }, { it_is.training, evaluation = { it_is.graph } })
            local most = 0
            for _, s in ipairs(partition.stage) do most = math.max(most, s) end
            assert.is_true(most >= 2, method)
            assert.is_true(largest_sent(it_is.graph, partition.stage) < logits / 4, method)
         end
      end)

      it("takes the loss back to the logits beside training: " .. name, function()
         local stage, loss = {}, nodes_of(it_is.training, "cross_entropy")[1]
         for n = 1, it_is.training:counts().forward do stage[n] = n < loss and 1 or 2 end
         local found = evaluation.stages(it_is.training, stage, it_is.graph)
         assert.equal(it_is.graph:counts().forward, #found)
         for _, s in ipairs(found) do assert.equal(1, s) end
         stage[loss - 1] = 2 -- a node with parameters stays where they are
         found = evaluation.stages(it_is.training, stage, it_is.graph)
         assert.equal(2, found[nodes_of(it_is.graph, "cross_entropy")[1]])
      end)
   end
end)

describe("nodes that stay with what they read", function()
   it("use no parameter", function()
      for _, name in ipairs { "t5_tiny", "gpt2_tiny", "bert_tiny" } do
         local graph = wordy(name, { batch = 2, source = 16, target = 8, dropout = 0 }).graph
         local staying = 0
         for n, first in ipairs(evaluation.leaders(graph)) do
            assert.is_true(first == n or #graph:node(n).params == 0, graph:node(n).op)
            staying = staying + (first ~= n and 1 or 0)
         end
         assert.is_true(staying > 0, name)
      end
   end)

   it("stay where they get all from one place, and give at most half of it", function()
      local edges = { { 1, 2, 100 }, { 1, 3, 100 }, { 1, 4, 100 }, { 3, 4, 51 }, { 1, 5, 100 },
         { 2, 5, 50 }, { 5, 6, 10 } }
      local weights = { edge_from = {}, edge_to = {}, edge_bytes = {},
         output_bytes = { 100, 50, 51, 10, 10, 1 } }
      for e, edge in ipairs(edges) do
         weights.edge_from[e], weights.edge_to[e], weights.edge_bytes[e] = unpack(edge)
      end
      local graph = {
         weights = function() return weights end,
         counts = function() return { forward = 6 } end,
         node = function(_, n) return { params = (n == 1 or n == 6) and { "w" } or {} } end,
      }
      assert.same({ 1, 1, 3, 4, 1, 6 }, evaluation.leaders(graph))
   end)
end)

describe("evaluation alone", function()
   if core.sanitized then
      return it("is slow", function() pending("takes minutes under sanitizers") end)
   end

   it("says what was predicted of all passes, with what the main thread does", function()
      local cores, counted = 4, core.sys.cores
      core.sys.cores = function() return cores end -- of a machine that is not this one
      finally(function() core.sys.cores = counted end)
      local passes = { { batches = 3, seconds = 0.3, host_seconds = 0.15 },
         { batches = 1, seconds = 0.05, host_seconds = 0.01 },
         { batches = 2, seconds = 0.15, host_seconds = 0.02 } }
      local plan = { devices = { { threads = 1 } } }
      function plan.simulate(_, batches) return { seconds = batches / 12, bubble = { 0.2 } } end
      local forecast = require("ftpipe.run.forecast")
      local function lines() return forecast.evaluation(plan, passes) end
      assert.equal("evaluation of 3 batches: predicted 300.00 ms, measured 300.00 ms (+0.0 %); "
         .. "making batches and scoring, beside it: 150.00 ms\n2 further passes over answers that "
         .. "were not whole, of 3 batches: predicted 270.00 ms, measured 200.00 ms (-25.9 %); "
         .. "making batches and scoring, beside it: 30.00 ms", lines())
      passes = { { batches = 12, seconds = 2, host_seconds = 1.2 } } -- longer than the devices
      assert.matches("predicted 1200.00 ms, ", lines()) -- a twelfth alone, and the rest beside
      -- As many threads as cores: 4/5 of a second each, and what the main thread does.
      plan.devices[1].threads, passes[1].host_seconds = cores, 0.6 * cores
      assert.matches(("predicted %.2f ms, "):format(1e3 * (0.05 * cores
         + math.max(1, 0.55 * cores, 0.8 + 0.55))), lines())
   end)

   it("is planned with measured costs", function()
      local out, err, exit = process.ftpipe { "recipes/bert_squad.lua", "--eval-only",
         "--eval-limit", "4", "--profile", "fresh" }
      assert.equal(0, exit, err)
      assert.matches("\ncosts: measured", out)
      assert.matches("\nevaluation of 1 batch: predicted [%d.]+ ms, measured [%d.]+ ms "
         .. "%([+-][%d.]+ %%%); making batches and scoring, beside it: [%d.]+ ms\n", "\n" .. err)
      out = process.ftpipe { "recipes/bert_squad.lua", "--eval-only", "--dry-run" }
      assert.matches("\ncosts: measured", out)
   end)
end)

describe("--eval-limit", function()
   if core.sanitized then
      return it("is slow", function() pending("takes minutes under sanitizers") end)
   end

   local cases = {
      { recipe = "t5_rte", n = "7 held%-out examples" },
      { recipe = "t5_multirc", n = "%d+ held%-out examples" },
      { recipe = "gpt2_wikitext2", n = "7 held%-out windows" },
      { recipe = "bert_squad", n = "7 held%-out windows" },
      { recipe = "gpt2_wikitext2", n = "7 held%-out windows", stride = "32" },
   }
   for _, case in ipairs(cases) do
      it("looks at the first rows alone: " .. case.recipe, function()
         local out, err, exit = process.ftpipe { "recipes/" .. case.recipe .. ".lua", "--eval-only",
            "--eval-limit", "7", "--profile", "modelled", case.stride and "--stride", case.stride }
         assert.equal(0, exit, err)
         assert.matches("score: [^\n]* on " .. case.n, out)
      end)
   end

   it("scores the same through stages, and replicas, that are asked for", function()
      local function score(...)
         local out, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--eval-only",
            "--eval-limit", "16", ... } -- with costs that are measured
         assert.equal(0, exit, err)
         return out:match("score: [^\n]+"), out
      end
      local wanted = score("--devices", "cpu:1")
      local found, out = score("--devices", "cpu:2", "--stages", "4")
      assert.equal(wanted, found)
      assert.matches("\n  stage 3 on cpu:1: ", out)
      found, out = score("--devices", "cpu:3", "--replicas", "2-1")
      assert.equal(wanted, found)
      assert.matches("\n  stage 0 on cpu:0, cpu:1: [^\n]*\n  stage 1 on cpu:2: ", out)
   end)

   it("scores what a file of these rows alone scores", function()
      files.in_directory(function(dir)
         local rows = {}
         for i = 1, 9 do
            rows[i] = core.json.encode { premise = "Anna has a kite.", hypothesis = "Anna has it.",
               label = i % 3 == 0 and "entailment" or "not_entailment" }
         end
         core.sys.write_file(dir .. "/all.jsonl", table.concat(rows, "\n") .. "\n")
         core.sys.write_file(dir .. "/some.jsonl", table.concat(rows, "\n", 1, 4) .. "\n")
         local function score(file, ...)
            local out, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--eval-only",
               "--eval-file", dir .. "/" .. file, "--profile", "modelled", ... }
            assert.equal(0, exit, err)
            return out:match("score: [^\n]+")
         end
         assert.equal(score("some.jsonl"), score("all.jsonl", "--eval-limit", "4"))
         assert.not_equal(score("all.jsonl"), score("some.jsonl"))
      end)
   end)
end)
