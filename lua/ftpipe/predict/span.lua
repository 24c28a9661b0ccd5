--- Predictions of models that find spans: the answer to a question in a context.

local batches = require("ftpipe.predict.batches")
local core = require("ftpipe.core")
local evaluate = require("ftpipe.evaluate")
local feed = require("ftpipe.feed")
local reader = require("ftpipe.squad.reader")
local records = require("ftpipe.records")
local weights = require("ftpipe.predict.weights")

local M = {}

--- Questions as the reader gives them: of a document, of rows { question, context, id }, or one.
local function questions_of(job)
   local items = job.items
   if items.document then return reader.parse(items.document, items.path, true) end
   local list = { path = items.path }
   for i, item in ipairs(items) do
      local question = { id = tostring(i), text = item.text, context = item.context, answers = {} }
      if item.row then
         question.text = records.string(items.rows, item.row, "question")
         question.context = records.string(items.rows, item.row, "context")
         question.id = type(item.row.id) == "string" and item.row.id or question.id
      elseif not question.context then
         job.usage("a question needs a context: %s", job.flags.text and "give --context"
            or "expected rows with fields 'question' and 'context', or SQuAD's JSON")
      end
      list[i] = question
   end
   return list
end

--- The windows of the questions as a data set, and the split that the scorer wants.
local function windows_of(job, questions)
   local task = job.task or job.usage("--task says how contexts are cut into windows")
   local kind = task.rows
   task.tokenizer = job.model:tokenizer()
   local dataset, notes = kind.prepare(task, nil, questions, { unlabelled = true })
   return dataset, kind.split(task, nil, notes, function() return questions end)
end

--- Programs by length of their inputs.
local function programs_of(job, size)
   local model, by_name = job.model, weights.load(job.model, size)
   return batches.lazily(function(length)
      local graph = evaluate.graph(model, { batch = size.batch, source = length })
      local params = {}
      for i, param in ipairs(graph:params()) do params[i] = by_name[param.name] end
      local program = core.program.new(graph, { threads = job.threads })
      return function(batch)
         feed.weigh(model.family, batch, 1)
         return program:run(params, feed.list(graph:inputs(), batch))
      end
   end)
end

--- Answers every question, in order: { index =, id =, question =, answer =, score = its share, from
-- 0 to 1, among the best answers }.
function M.run(job)
   local model, questions = job.model, questions_of(job)
   local dataset, split = windows_of(job, questions)
   local scorer = job.task:scorer(split)
   local size = {
      batch = math.min(job.flags.batch, dataset:size()), source = dataset:longest("source"),
   }
   local programs, said = programs_of(job, size), 0
   batches.each(model, dataset, size.batch, function(batch, length)
      local outputs = programs[length](batch)
      for row, number in ipairs(batch.index) do
         if number > 0 then scorer:add(number, evaluate.predict(model, batch, outputs, row)) end
      end
      while scorer.best[said + 1] do
         said = said + 1
         local best, question = scorer.best[said], questions[said]
         job.emit {
            index = said, id = question.id, question = question.text, answer = best.text,
            score = best.probability,
         }
      end
   end)
end

return M
