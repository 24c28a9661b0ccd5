--- Kind span: the answer to a question is a span of a context, which is read in windows.
--
-- The definition of a task has, beside what every task has (see task/init.lua):
--    max_source  ids of a window at most, [CLS] and both [SEP] included
--    stride      pieces from the start of a window to that of the next
--    max_query   pieces of a question at most
-- A row is { id =, text = the question, context =, answers = list of { text =, at = byte } }, as
-- squad/reader.lua gives it. An example is a window.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local batches = require("ftpipe.data.predict.batches")
local evaluate = require("ftpipe.data.evaluate")
local features = require("ftpipe.data.squad.features")
local feed = require("ftpipe.data.feed")
local keys = require("ftpipe.base.keys")
local named = require("ftpipe.base.named")
local reader = require("ftpipe.data.squad.reader")
local records = require("ftpipe.text.records")
local scorers = require("ftpipe.data.squad.scorer")
local shown = require("ftpipe.base.shown")
local squad = require("ftpipe.data.metric.squad")
local usage = require("ftpipe.base.usage")
local weights = require("ftpipe.data.predict.weights")

local M = {}

local NOWHERE = -100 -- a label that is not scored

local function fail(status, format, ...)
   core.fail(status, format:format(...))
end

local sizes = {
   max_source = { type = "int", min = 8, help = "ids of a window at most" },
   stride = { type = "int", min = 1, help = "pieces from window to window" },
   max_query = { type = "int", min = 1, help = "pieces of a question at most" },
}

M.example = "window"
M.definition = sizes
M.overrides = sizes
M.load = {}

-- Tokenised data depends on what these do.
M.modules = { "ftpipe.data.squad.features", "ftpipe.data.squad.reader" }

--- What a model and the flags of a recipe say about loading: nothing that the task does not say.
function M.options() return {} end

--- "--max-query 12" where that is a flag, else "max_query = 12", of the task.
local function told(o, name, value)
   return named.value(named.origins(o or {})[name] and o or {}, name, value)
end

--- Refuses windows that have no room for pieces of a context.
-- @tparam table task
-- @tparam[opt] table o as whoever asks for them knows the sizes
local function check_sizes(task, o)
   local most, query = task.max_source, task.max_query
   if most >= query + 4 then return end -- [CLS], two [SEP] and a piece
   usage("task %s: windows of %d ids leave no room beside questions of %d: give %s or more, or %s "
      .. "or less", task.name, most, query, told(o, "max_source", query + 4),
      told(o, "max_query", most - 4))
end

local function encoder_of(task)
   return features.encoder {
      tokenizer = task.tokenizer, max_source = task.max_source, stride = task.stride,
      max_query = task.max_query,
   }
end

--- Adds the windows of one question to the data set. An answer that the words of the context do not
-- hold counts in no loss.
local function add_question(dataset, encoder, notes, row)
   local context, query, is_cut = encoder:context(row.context), encoder:query(row.text)
   local first, last
   if row.answers[1] then first, last = encoder:span(context, row.answers[1]) end
   for _, window in ipairs(encoder:windows(#context.ids, #query)) do
      local ids, segments = encoder:sequence(context, query, window)
      local from, to = NOWHERE, NOWHERE
      if first then from, to = features.place(window, #query, first, last) end
      dataset:add { source = ids, segments = segments, start = { from }, ["end"] = { to } }
   end
   local n = #notes.pieces + 1
   notes.pieces[n], notes.query[n] = #context.ids, #query
   if not first then notes.unplaced = notes.unplaced + 1 end
   if is_cut then notes.cut = notes.cut + 1 end
   return #context.ids > 0
end

--- Tokenises rows; o.unlabelled (optional): they need no answers.
-- @treturn dataset of fields source and segments, start, end
-- @treturn table notes: by question, pieces of its context and of itself; unplaced (how many
--    answers are not in the words at answer_start); cut (how many questions were too long)
-- @raise malformed data: a context without text, no answer in its place
function M.prepare(task, _, rows, o)
   check_sizes(task, o)
   local dataset = core.data.dataset { { "source", "segments" }, "start", "end" }
   local encoder, notes = encoder_of(task), { pieces = {}, query = {}, unplaced = 0, cut = 0 }
   for _, row in ipairs(rows) do
      if not add_question(dataset, encoder, notes, row) then
         fail("malformed data", "%s: the context of question '%s' has no text that the tokenizer "
            .. "knows", rows.path, shown(row.id))
      end
   end
   if notes.unplaced == #rows and not (o and o.unlabelled) then
      fail("malformed data", "%s: none of its %d answers is where answer_start says", rows.path,
         #rows)
   end
   return dataset, notes
end

--- A split: `examples` (a list of { question =, window = } by number), `windows` (by question, how
-- many), `pieces` and `query` (by question), `unplaced`, `encoder`, `questions()` (the rows),
-- `remarks`.
function M.split(task, _, notes, read_rows)
   local encoder = encoder_of(task)
   local split = {
      examples = {}, windows = {}, pieces = notes.pieces, query = notes.query,
      unplaced = notes.unplaced, encoder = encoder, questions = read_rows, remarks = {},
   }
   if notes.unplaced > 0 then
      split.remarks[1] = counted(notes.unplaced, "answer") .. " not where answer_start says"
   end
   if notes.cut > 0 then
      table.insert(split.remarks, ("%s cut to %d ids"):format(counted(notes.cut, "question"),
         task.max_query))
   end
   for number, pieces in ipairs(notes.pieces) do
      local windows = #encoder:windows(pieces, notes.query[number])
      split.windows[number] = windows
      for k = 1, windows do
         split.examples[#split.examples + 1] = { question = number, window = k }
      end
   end
   return split
end

--- A scorer: scorer:add(i, { start =, ["end"] = logits, row = that of window i }), scorer:result()
-- as of metric/init.lua, with the figures em and f1, scorer:write(dir) the predictions.
function M.scorer(_, split)
   return scorers.new(split)
end

--- The names of a score's figures.
function M.figures() return keys(squad.sum():result()) end

-- ---------------------------------------------------------------------------------------------
-- Evaluation.

M.asks = "logits"

--- Where the logits of a row are.
function M.predict(_, outputs, row)
   return { start = outputs.start_logits, ["end"] = outputs.end_logits, row = row }
end

--- What a scorer gets: the logits. It writes the answers itself.
function M.note(_, _, prediction) return prediction end

-- ---------------------------------------------------------------------------------------------
-- Prediction.

M.flags = { "context", "max_source" }

--- The id of a row as a text, which ids of a document are too; nil where it has none.
local function id_of(row)
   if type(row.id) == "number" then return core.json.encode(row.id) end
   return type(row.id) == "string" and row.id or nil
end

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
         question.id = id_of(item.row) or question.id
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
   local dataset, notes = kind.prepare(task, nil, questions,
      named.like(job.flags, { unlabelled = true }))
   if notes.cut > 0 then
      io.stderr:write(("%s: %d of %s cut to %d ids\n"):format(job.items.path, notes.cut,
         counted(#questions, "question"), task.max_query))
   end
   return dataset, kind.split(task, nil, notes, function() return questions end)
end

--- Programs by length of their inputs.
local function program_of(job, size)
   local model, by_name = job.model, weights.load(job.model, size)
   return batches.by_length(function(length)
      local graph = evaluate.graph(model, { batch = size.batch, source = length })
      local params = {}
      for i, param in ipairs(graph:params()) do params[i] = by_name[param.name] end
      local program = core.program.new(graph, { threads = job.threads, finite = true })
      return function(batch)
         feed.weigh(model.family, batch, 1)
         return program:run(params, feed.list(graph:inputs(), batch))
      end
   end)
end

--- Answers every question, in order: { index =, id =, question =, answer =, score = its share, from
-- 0 to 1, among the best answers }.
function M.answer(job)
   local model, questions = job.model, questions_of(job)
   local dataset, split = windows_of(job, questions)
   local scorer = job.task:scorer(split)
   local size = named.like(job.flags, {
      batch = math.min(job.flags.batch, dataset:size()), source = dataset:longest("source"),
   })
   local run_of, said = program_of(job, size), 0
   batches.each(model, dataset, size.batch, function(batch, length)
      local outputs = run_of(length)(batch)
      for row, number in ipairs(batch.index) do
         if number > 0 then scorer:add(number, M.predict(batch, outputs, row)) end
      end
      while scorer.best[said + 1] do
         said = said + 1
         local question, text, probability = questions[said], scorer.best[said]:answer(1)
         job.emit {
            index = said, id = question.id, question = question.text, answer = text,
            score = probability,
         }
      end
   end)
end

return M
