--- What a run leaves of its answers: enough to look at every mistake.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

--- A short run of a recipe: its rows of predictions.jsonl, its summary, and what it printed.
local function evaluated(recipe)
   local rows, summary, out = {}, nil, nil
   files.in_directory(function(dir)
      local problem, code
      out, problem, code = process.ftpipe { "recipes/" .. recipe .. ".lua", "--steps", "2",
         "--eval-limit", "6", "--profile", "modelled", "--cache", "none", "--out", dir .. "/run" }
      assert.equal(0, code, problem)
      for line in io.lines(dir .. "/run/predictions.jsonl") do
         rows[#rows + 1] = core.json.decode(line, "a row")
      end
      summary = core.json.read(dir .. "/run/summary.json")
   end)
   for i, row in ipairs(rows) do assert.equal(i, row.index) end
   return rows, summary, out
end

--- The mean of a field of rows.
local function mean(rows, field)
   local sum = 0
   for _, row in ipairs(rows) do
      local value = row[field]
      sum = sum + (type(value) == "boolean" and (value and 100 or 0) or value)
   end
   return sum / #rows
end

describe("predictions.jsonl", function()
   it("has input, gold and line of every example, and whether its answer is right", function()
      local rows, summary, out = evaluated("t5_rte")
      assert.equal(6, #rows)
      for i, row in ipairs(rows) do
         assert.matches("^rte hypothesis: .* premise: ", row.input)
         assert.is_true(row.gold == "entailment" or row.gold == "not_entailment")
         assert.equal(row.answer == row.gold, row.right)
         assert.equal(i, row.line)
      end
      assert.near(summary.metrics.accuracy, mean(rows, "right"), 1e-9)
      assert.matches("after: accuracy %S+ %% on 6 held", out) -- one figure, nothing beside it
   end)

   it("has question, context and gold answers of every question, with its em and f1", function()
      local rows, summary, out = evaluated("bert_squad")
      assert.equal(6, #rows)
      for _, row in ipairs(rows) do
         assert.is_truthy(row.context:find(row.answer, 1, true), row.answer)
         assert.is_truthy(row.context:find(row.gold[1], 1, true), row.gold[1])
         assert.matches("%?$", row.question)
      end
      assert.near(summary.metrics.em, mean(rows, "em"), 1e-9)
      assert.near(summary.metrics.f1, mean(rows, "f1"), 1e-9)
      assert.matches(("after: f1 %.1f %% (em %.1f %%) on 6 held-out windows,"):format(
         summary.metrics.f1, summary.metrics.em):gsub("%p", "%%%0"), out)
   end)

   it("is told with both figures of MultiRC", function()
      local _, summary, out = evaluated("t5_multirc")
      local figures = summary.metrics
      assert.matches(("after: average %.1f %% (f1a %.1f %%, em %.1f %%) on"):format(figures.average,
         figures.f1a, figures.em):gsub("%p", "%%%0"), out)
      assert.near(figures.average, (figures.f1a + figures.em) / 2, 1e-9)
   end)

   it("has the place of every block of a text, and what its tokens cost", function()
      local rows, summary = evaluated("gpt2_wikitext2")
      local nll, tokens = 0, 0
      for i, row in ipairs(rows) do
         nll, tokens = nll + row.nll, tokens + row.tokens
         assert.equal(128 * (i - 1) + 2, row.first)
      end
      assert.near(summary.value, math.exp(nll / tokens), 1e-6 * summary.value)
   end)
end)
