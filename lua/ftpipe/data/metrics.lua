--- Metrics of answers that are text, one example at a time.
--
-- A metric is a function of the task that gives an accumulator: `add(example, answer)`, then
-- `result()` -> the name of the figure that counts, and all figures by name, in percent.

local M = {}

--- Share of answers that are the target to the letter.
function M.accuracy()
   local right, n = 0, 0
   return {
      add = function(example, answer)
         n = n + 1
         if answer == example.target then right = right + 1 end
      end,
      result = function()
         return "accuracy", { accuracy = 100 * right / n }
      end,
   }
end

--- F1 of the true answers over all answers (F1a), share of questions of which every answer is
-- right (EM), and their mean, which SuperGLUE ranks by. Examples of a question have one `group`.
-- Khashabi et al., "Looking Beyond the Surface", NAACL 2018, section 5; what is neither of the two
-- answers counts as the wrong one, as in T5's evaluation.
-- @tparam task task whose last answer is the true one
function M.grouped_f1(task)
   local answers = task.definition.answers
   local positive = answers[#answers].target
   local both, given, wanted = 0, 0, 0
   local wrong, groups = {}, 0
   return {
      add = function(example, answer)
         local right, is_positive = answer == example.target, example.target == positive
         local says_positive = right == is_positive
         if is_positive then wanted = wanted + 1 end
         if says_positive then given = given + 1 end
         if is_positive and says_positive then both = both + 1 end
         if wrong[example.group] == nil then
            wrong[example.group], groups = false, groups + 1
         end
         if not right then wrong[example.group] = true end
      end,
      result = function()
         local missed = 0
         for _, is_wrong in pairs(wrong) do missed = missed + (is_wrong and 1 or 0) end
         local f1 = both > 0 and 200 * both / (given + wanted) or 0
         local exact = groups > 0 and 100 * (groups - missed) / groups or 0
         return "average", { average = (f1 + exact) / 2, f1a = f1, em = exact }
      end,
   }
end

return M
