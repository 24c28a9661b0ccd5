--- A metric says its unit and which way is better; what compares and prints values asks it.

local files = require("spec.support.files")
local metrics = require("ftpipe.data.metric")
local scores = require("ftpipe.run.score")
local task = require("ftpipe.task")
local task_files = require("spec.support.task_files")

--- How far the lengths of answers are from those of the targets, on average.
local distance = {
   name = "distance", unit = "letters", better = "lower",
   start = function()
      local sum, n = 0, 0
      return {
         add = function(example, answer)
            sum, n = sum + math.abs(#answer - #example.target), n + 1
         end,
         result = function() return { distance = sum / n } end,
      }
   end,
}

local function define(metric, group)
   return task.define {
      kind = "text2text", name = "own", max_source = 32, max_target = 8, metric = metric,
      group = group,
      answers = { { label = 0, target = "entailment" }, { label = 1, target = "not" } },
      layouts = {
         { name = "l", train = "train.jsonl", eval = "val.jsonl", template = "{text}" },
      },
   }
end

local function problem_of(metric)
   local problem = files.failure(define, metric)
   assert.equal("invalid argument", problem.status)
   return problem.message:gsub("^[^:]+:%d+: ", "")
end

describe("a metric", function()
   it("says its figures before there are any, unless it is a function of a task's own", function()
      assert.same({ "accuracy" }, define("accuracy")():figures {})
      assert.is_nil(define(distance)():figures {})
   end)

   it("is better one way", function()
      local higher, lower = { better = "higher" }, { better = "lower" }
      for _, case in ipairs { { 1, 2 }, { 2, 1 }, { 1, 1 } } do
         assert.equal(case[1] > case[2], metrics.beats(higher, case[1], case[2]))
         assert.equal(case[1] < case[2], metrics.beats(lower, case[1], case[2]))
      end
      for _, metric in ipairs { higher, lower } do
         assert.is_true(metrics.beats(metric, 1, 0 / 0))
         assert.is_false(metrics.beats(metric, 0 / 0, 1))
      end
   end)

   it("prints its own unit", function()
      assert.equal("93.2 %", metrics.text({ unit = "%" }, 93.21))
      assert.equal("4.31", metrics.text({ unit = "" }, 4.312))
      assert.equal("0.52 points", metrics.text({ unit = "points" }, 0.52))
   end)

   it("of one's own task is in all that is said and written of it", function()
      local own = define(distance) {}
      local text = '{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n{"text": "c", '
         .. '"label": 1}\n'
      task_files.with(own, { ["train.jsonl"] = text, ["val.jsonl"] = text }, function(load)
         local split = load().eval
         assert.same({ answer = "not", value = 7 / 3 }, split.majority)
         local score = task_files.score(own, split, { "not", "not", "not" })
         score.loss, score.examples, score.example = 0.5, 3, split.example
         score.majority = split.majority.value
         score = scores.new(score)
         assert.equal("distance 2.33 letters on 3 held-out examples (majority 2.33 letters), loss "
            .. "0.5000", tostring(score))
         local row = score:row(3)
         assert.same({ "distance", "letters", "lower", 7 / 3 },
            { row.metric, row.unit, row.better, row.value })
      end)
   end)

   it("is computed over all examples, of many rows too", function()
      local own, lines = define("accuracy") {}, {}
      for i = 1, 300 do lines[i] = ('{"text": "%d", "label": %d}\n'):format(i, i % 2) end
      local text = table.concat(lines)
      task_files.with(own, { ["train.jsonl"] = text, ["val.jsonl"] = text }, function(load)
         local split = load().eval
         assert.same({ 300, 300 }, { #split.examples, split.dataset:size() })
         assert.equal(50, split.majority.value)
      end)
   end)

   it("of groups is the mean of F1 over answers and of whole questions", function()
      local task_of = { definition = { answers = { { target = "False" }, { target = "True" } } } }
      local score = require("ftpipe.data.metric.answers").convert("grouped_f1").start(task_of)
      for _, row in ipairs { { "a", "True", "True" }, { "a", "False", "True" },
         { "b", "True", "False" }, { "b", "False", "False" }, { "c", "False", "neither" },
         { "d", "True", "True" } } do
         score.add({ group = row[1], target = row[2] }, row[3])
      end
      -- 2 of 3 true ones are among the 4 that count as said to be; one question of 4 is right
      local found, f1 = score.result(), 100 * 2 * 2 / (3 + 4)
      assert.is_true(math.abs(found.f1a - f1) < 1e-9)
      assert.equal(25, found.em)
      assert.is_true(math.abs(found.average - (f1 + 25) / 2) < 1e-9)
   end)

   it("that is none is one line that lists those there are", function()
      local there = " (expected one of: accuracy, grouped_f1; or a table { name =, unit =, "
         .. "better =, start = })"
      assert.equal("task: option 'metric': no metric is 'acuracy' (did you mean 'accuracy'?)"
         .. there, (problem_of("acuracy")))
      assert.equal("task: option 'metric': no metric is a function" .. there,
         (problem_of(function() end)))
      assert.equal("metric: option 'better': 'more' is not available (expected one of: higher, "
         .. "lower)", (problem_of { name = "x", better = "more", start = print }))
      assert.equal("metric: option 'better' is missing (which value is better)",
         (problem_of { name = "x", start = print }))
      assert.equal("metric: unknown option 'direction' (expected one of: beside, better, name, "
         .. "needs, start, unit)", (problem_of { name = "x", direction = "lower", start = print }))
   end)

   it("that needs groups is refused without", function()
      assert.equal("task: metric 'grouped_f1' needs option 'group' (function(row) -> what the "
         .. "examples of a question share)", (problem_of("grouped_f1")))
      assert.is_function(define("grouped_f1", function(row) return row.text end))
   end)

   local function load_fault(start)
      local own = define { name = "x", better = "lower", start = start } {}
      local text = '{"text": "a", "label": 0}\n'
      return files.failure(task_files.with, own,
         { ["train.jsonl"] = text, ["val.jsonl"] = text }, function(load) load() end).message
   end

   it("has to give its figure", function()
      assert.equal("task own: result() of metric 'x' gives no figure of that name",
         load_fault(function()
            return { add = function() end, result = function() return {} end }
         end))
   end)

   it("has to start with what adds and gives a result", function()
      local function nothing() end
      for _, score in ipairs { false, {}, { add = nothing }, { result = nothing } } do
         assert.equal("task own: start() of metric 'x' gives no accumulator, expected { add = "
            .. "function(example, answer), result = function() -> figures by name }",
            load_fault(function() return score or nil end))
      end
   end)
end)
