--- EM and F1 of answers, as the official evaluation of SQuAD v1.1 has them.
--
-- Answers are compared in their normal form: lower case, without punctuation and articles. Exact
-- match asks for the same text, F1 counts the words that both have. A question is scored against
-- the gold answer that fits best, a question without prediction has 0, and all questions count
-- alike. Source: Rajpurkar et al., arXiv:1606.05250, section 6.1.

local core = require("ftpipe.core")

local M = {}

--- The words of a normal form, with how often each occurs, and their number.
local function count_words(text)
   local counts, n = {}, 0
   for word in text:gmatch("[^ ]+") do
      counts[word], n = (counts[word] or 0) + 1, n + 1
   end
   return counts, n
end

local function f1_of(a, b)
   local of_a, n_a = count_words(a)
   local of_b, n_b = count_words(b)
   local common = 0
   for word, n in pairs(of_a) do common = common + math.min(n, of_b[word] or 0) end
   if common == 0 then return 0 end
   local precision, recall = common / n_a, common / n_b
   return 2 * precision * recall / (precision + recall)
end

--- Scores one answer.
-- @tparam string prediction
-- @tparam {string,...} golds
-- @treturn number exact match, 0 or 1
-- @treturn number F1, 0 to 1
-- @usage local em, f1 = squad.score("the Broncos", { "Broncos", "Denver Broncos" })
function M.score(prediction, golds)
   local given, em, f1 = core.data.normal_answer(prediction), 0, 0
   for _, gold in ipairs(golds) do
      local wanted = core.data.normal_answer(gold)
      if wanted == given then em = 1 end
      f1 = math.max(f1, f1_of(given, wanted))
   end
   return em, f1
end

local Sum = {}
Sum.__index = Sum

--- A running score over questions.
-- @treturn table with :add(prediction or nil, golds) and :result()
function M.sum()
   return setmetatable({ n = 0, em = 0, f1 = 0 }, Sum)
end

--- Counts one question.
-- @tparam string|nil prediction nil: unanswered, which scores 0
-- @tparam {string,...} golds
function Sum:add(prediction, golds)
   self.n = self.n + 1
   if not prediction then return end
   local em, f1 = M.score(prediction, golds)
   self.em, self.f1 = self.em + em, self.f1 + f1
end

--- The means over all questions.
-- @treturn table em, f1, in percent
function Sum:result()
   return { em = 100 * self.em / self.n, f1 = 100 * self.f1 / self.n }
end

return M
