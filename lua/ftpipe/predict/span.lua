--- Predictions of models that find spans: the answer to a question in a context.

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

--- Answers every question, in order: { index =, id =, question =, answer =, score = its share, from
-- 0 to 1, among the best answers }.
function M.run(job)
   local model, questions = job.model, questions_of(job)
   local dataset, split = windows_of(job, questions)
   local scorer = job.task:scorer(split)
   local size = {
      batch = math.min(job.flags.batch, dataset:size()), source = dataset:longest("source"),
   }
   local graph = evaluate.graph(model, size)
   local params, by_name = {}, weights.load(model, size)
   for i, param in ipairs(graph:params()) do params[i] = by_name[param.name] end
   local program = core.program.new(graph, { threads = job.threads })
   local batches = core.data.batcher {
      dataset = dataset, batch = size.batch, buckets = { size.source },
      columns = model.family.columns(model.config), shuffle = false, prefetch = 0,
   }
   local said = 0
   for batch in function() return batches:next() end do
      feed.weigh(model.family, batch, 1)
      local outputs = program:run(params, feed.list(graph:inputs(), batch))
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
   end
end

return M
