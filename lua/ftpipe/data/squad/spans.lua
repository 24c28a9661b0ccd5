--- Answers of a question, from the spans of its windows (core.data.spans).

local M = {}

M.BEST = 20 -- answers of a question that are kept

--- Shares that add up to 1, of the exponentials of the answers' logits.
local function set_probabilities(answers)
   local top, sum = answers[1].start_logit + answers[1].end_logit, 0
   for _, answer in ipairs(answers) do
      answer.probability = math.exp(answer.start_logit + answer.end_logit - top)
      sum = sum + answer.probability
   end
   for _, answer in ipairs(answers) do answer.probability = answer.probability / sum end
   return answers
end

--- The best answers of a question, each text once.
-- @tparam spans spans of all its windows; get sorted
-- @tparam function text (first, last) the text of a span of pieces
-- @treturn {table,...} { text =, probability =, start_logit =, end_logit = }, best first; "empty"
--    when there is no span
function M.answers(spans, text)
   local answers, seen = {}, {}
   spans:sort()
   for i = 1, #spans do
      if #answers == M.BEST then break end
      local first, last, start, stop = spans:get(i)
      local answer = text(first, last)
      if not seen[answer] then
         seen[answer] = true
         answers[#answers + 1] = { text = answer, start_logit = start, end_logit = stop }
      end
   end
   if #answers == 0 then answers[1] = { text = "empty", start_logit = 0, end_logit = 0 } end
   return set_probabilities(answers)
end

return M
