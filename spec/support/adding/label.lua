--- Kind label: a text has one of a few labels.
--
-- The definition of a task has `labels`, and rows have fields `text` and `label`.

local batches = require("ftpipe.data.predict.batches")
local core = require("ftpipe.core")
local evaluate = require("ftpipe.data.evaluate")
local feed = require("ftpipe.data.feed")
local metrics = require("ftpipe.data.metric")
local records = require("ftpipe.text.records")
local weights = require("ftpipe.data.predict.weights")

local M = {}

local METRIC = { name = "accuracy", unit = "%", better = "higher" }

M.definition = {
   labels = { type = "table", items = "string", required = true },
   max_source = { type = "int", min = 1, required = true },
}
M.overrides = { max_source = { type = "int", min = 1 } }
M.load = {}

--- Nothing that the task does not say.
function M.options() return {} end

local function add(dataset, tokenizer, text, most, label)
   local ids = tokenizer:vector(text)
   dataset:add { source = ids:part(1, math.min(#ids, most)), label = { label } }
end

--- Rows as a data set; notes: the number of each label.
function M.prepare(task, _, rows, o)
   local dataset, notes, numbers = core.data.dataset { "source", "label" }, { labels = {} }, {}
   for i, label in ipairs(task.definition.labels) do numbers[label] = i end
   for i, row in ipairs(rows) do
      local label = numbers[records.string(rows, row, "label")]
      if not label then
         core.fail("malformed data", records.where(rows, row) .. ": no such label")
      end
      notes.labels[i] = label
      add(dataset, o.tokenizer, records.string(rows, row, "text"), task.max_source, label - 1)
   end
   return dataset, notes
end

--- The rest of a split.
function M.split(_, _, notes)
   local examples = {}
   for i, label in ipairs(notes.labels) do examples[i] = { label = label } end
   return { examples = examples, remarks = {} }
end

--- Share of labels that are right.
function M.scorer(_, split)
   local right, n = 0, 0
   return {
      add = function(_, i, label)
         right, n = right + (split.examples[i].label == label and 1 or 0), n + 1
      end,
      result = function() return metrics.result(METRIC, { accuracy = 100 * right / n }) end,
   }
end

M.asks = "logits"

--- The likeliest label of a row.
function M.predict(_, outputs, row)
   local logits, best = evaluate.row(outputs.logits, row), 1
   for i, value in ipairs(logits) do
      if value > logits[best] then best = i end
   end
   return best
end

--- What the scorer gets.
function M.note(score, number, label)
   score.predictions[number] = { index = number, label = label }
   return label
end

M.flags = {}

--- The label of every input, in order.
function M.answer(job)
   local model, dataset = job.model, core.data.dataset { "source", "label" }
   for _, item in ipairs(job.items) do
      add(dataset, model:tokenizer(), item.text, job.task.max_source, 0)
   end
   local size = { batch = 1, source = dataset:longest("source") }
   local params = weights.load(model, size)
   local take = batches.in_order(job.emit)
   batches.each(model, dataset, size.batch, function(batch, length)
      local graph = evaluate.graph(model, { batch = size.batch, source = length })
      local list = {}
      for i, param in ipairs(graph:params()) do list[i] = params[param.name] end
      feed.weigh(model.family, batch, 1)
      local outputs = core.program.new(graph, { finite = true }):run(list,
         feed.list(graph:inputs(), batch))
      local label = job.task.definition.labels[M.predict(batch, outputs, 1)]
      take(batch.index[1], { index = batch.index[1], answer = label })
   end)
end

return M
