--- Scores the windows of SQuAD questions as their logits come, in any order.
--
-- A window is reduced to its best spans at once; a question is answered and scored with its last
-- window, and then only its answers are kept.

local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local metric = require("ftpipe.data.metric.squad")
local metrics = require("ftpipe.data.metric")

local M = {}
local Scorer = {}
Scorer.__index = Scorer

--- @tparam table split of kind/span.lua
function M.new(split)
   return setmetatable({
      split = split,
      questions = split.questions(),
      encoder = split.encoder,
      tokenizer = split.encoder.tokenizer,
      open = {}, -- by question: spans, and windows still to come
      best = {}, -- by question: its answers (spans:answer)
      sum = metric.sum(),
   }, Scorer)
end

--- Answers a question from what its windows gave, and scores it.
local function close_question(scorer, number, spans)
   local question = scorer.questions[number]
   local answers = scorer.tokenizer:answer(spans, scorer.encoder:context(question.context))
   scorer.best[number] = answers
   if #question.answers > 0 then
      local text = answers:answer(1)
      scorer.sum:add(text, column(question.answers, "text"))
   end
end

--- Takes the logits of one window.
-- @tparam int i number of the window in split.examples
-- @tparam table prediction start, end: logits (B, L) from [CLS] on; row: that of the window
function Scorer:add(i, prediction)
   local split, example = self.split, self.split.examples[i]
   local number = example.question
   local open = self.open[number]
   if not open then
      open = { spans = core.data.spans(), missing = split.windows[number] }
      self.open[number] = open
   end
   local windows = self.encoder:windows(split.pieces[number], split.query[number])
   open.spans:add(windows, example.window, split.query[number], prediction.start,
      prediction["end"], prediction.row)
   open.missing = open.missing - 1
   if open.missing == 0 then
      self.open[number] = nil
      close_question(self, number, open.spans)
   end
end

--- The score over all questions of the split; one whose windows did not all come has no answer.
-- @treturn table as of metric/init.lua, with the figures em and f1
function Scorer:result()
   local sum = metric.sum()
   sum.n, sum.em, sum.f1 = #self.questions, self.sum.em, self.sum.f1
   return metrics.result({ name = "f1", unit = "%", better = "higher", beside = { "em" } },
      sum:result())
end

--- An object in the order of the questions, a member a line.
local function object_text(scorer, value)
   local lines = {}
   for number, question in ipairs(scorer.questions) do
      local best = scorer.best[number]
      if best then
         lines[#lines + 1] = core.json.encode(question.id) .. ": " .. value(best)
      end
   end
   return "{\n" .. table.concat(lines, ",\n") .. "\n}\n"
end

--- All answers of a question as JSON.
local function all_text(best)
   local list = {}
   for i = 1, best:answers() do
      local text, probability, start, stop = best:answer(i)
      list[i] = { text = text, probability = probability, start_logit = start, end_logit = stop }
   end
   return core.json.encode(list)
end

--- What there is to say of a question and its answer, as a line of JSON.
local function line_text(scorer, number, best)
   local question, answer = scorer.questions[number], (best:answer(1))
   local golds = column(question.answers, "text")
   local row = { index = number, id = question.id, question = question.text,
      context = question.context, gold = core.json.array(golds), answer = answer }
   if #golds > 0 then
      local em, f1 = metric.score(answer, golds)
      row.em, row.f1 = 100 * em, 100 * f1
   end
   return core.json.encode(row) .. "\n"
end

--- Writes predictions.json (the answer of each question by its id, as the official evaluation
-- reads it), nbest_predictions.json (the best answers with probabilities and logits), and
-- predictions.jsonl (questions, gold answers and the answer with its own em and f1).
-- @tparam string dir
function Scorer:write(dir)
   local lines = {}
   for number in ipairs(self.questions) do
      local best = self.best[number]
      lines[#lines + 1] = best and line_text(self, number, best)
   end
   core.sys.write_file(dir .. "/predictions.jsonl", table.concat(lines))
   core.sys.write_file(dir .. "/predictions.json",
      object_text(self, function(best) return core.json.encode((best:answer(1))) end))
   core.sys.write_file(dir .. "/nbest_predictions.json",
      object_text(self, all_text))
end

return M
