--- Answers from the logits of a question's windows.
--
-- A window is reduced to its best spans as soon as its logits are there; the spans of all windows
-- of a question then compete. A token that lies in several windows counts in the one where it has
-- most context. Source: the program published with Devlin et al., arXiv:1810.04805, run_squad.py.

local M = {}

M.BEST = 20 -- starts, ends, and answers of a question that are kept
M.LONGEST = 30 -- pieces of an answer
local FULL_CONTEXT_WEIGHT = 0.01 -- of a window's length, against the nearer end of the context

--- The numbers of the `most` greatest of list[1 .. n], greatest first, earlier ones before equals.
-- What is not finite (a model that diverged) is left out.
local function greatest(list, n, most)
   local best, count = {}, 0
   for i = 1, n do
      local value = list[i]
      local finite = math.abs(value) < math.huge
      if finite and (count < most or value > list[best[count]]) then
         local k = count < most and count + 1 or count
         while k > 1 and list[best[k - 1]] < value do
            best[k] = best[k - 1]
            k = k - 1
         end
         best[k] = i
         if count < most then count = count + 1 end
      end
   end
   return best
end

--- The window, of those of a question, in which a piece has most context.
local function home(windows, piece)
   local best, most
   for number, window in ipairs(windows) do
      local before = piece - window.first
      local after = window.first + window.n - 1 - piece
      if before >= 0 and after >= 0 then
         local score = math.min(before, after) + FULL_CONTEXT_WEIGHT * window.n
         if not most or score > most then best, most = number, score end
      end
   end
   return best
end

--- The best spans of one window.
-- @tparam {table,...} windows all windows of the question, in order
-- @tparam int number of this one
-- @tparam int query pieces of the question
-- @tparam {number,...} starts logits from [CLS] on; what lies past the window is not looked at
-- @tparam {number,...} ends
-- @treturn {table,...} { first =, last = pieces of the context, start =, stop = logits, window =,
--    order = }
function M.candidates(windows, number, query, starts, ends)
   local window, found = windows[number], {}
   local before = query + 2
   local length = before + window.n + 1
   local best_ends = greatest(ends, length, M.BEST)
   for _, s in ipairs(greatest(starts, length, M.BEST)) do
      local first = s - before + window.first - 1
      local inside = s > before and s < length
      if inside and home(windows, first) == number then
         for _, e in ipairs(best_ends) do
            if e >= s and e < length and e - s < M.LONGEST then
               found[#found + 1] = {
                  first = first, last = first + e - s, start = starts[s], stop = ends[e],
                  window = number, order = #found,
               }
            end
         end
      end
   end
   return found
end

local function better(a, b)
   local sum_a, sum_b = a.start + a.stop, b.start + b.stop
   if sum_a ~= sum_b then return sum_a > sum_b end
   if a.window ~= b.window then return a.window < b.window end
   return a.order < b.order
end

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
-- @tparam {table,...} candidates of all its windows; gets sorted
-- @tparam function text of a candidate
-- @treturn {table,...} { text =, probability =, start_logit =, end_logit = }, best first; "empty"
--    when there is no candidate
function M.answers(candidates, text)
   local answers, seen = {}, {}
   table.sort(candidates, better)
   for _, candidate in ipairs(candidates) do
      if #answers == M.BEST then break end
      local answer = text(candidate)
      if not seen[answer] then
         seen[answer] = true
         answers[#answers + 1] = {
            text = answer, start_logit = candidate.start, end_logit = candidate.stop,
         }
      end
   end
   if #answers == 0 then answers[1] = { text = "empty", start_logit = 0, end_logit = 0 } end
   return set_probabilities(answers)
end

return M
