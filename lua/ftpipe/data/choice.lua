--- The next token of an answer: the likeliest one, of those that the rules of the answer leave.
--
-- Rules are a table:
--    start      the token that a decoder begins with
--    ends       the tokens that end an answer, as a set
--    penalty    what a token that was there before is held down by: scores above 0 are divided by
--               it, others multiplied (Keskar et al., "CTRL", arXiv:1909.05858, section 4.1)
--    ngram      so many tokens in a row never come twice; 0: any may
--    shortest   tokens, with those before the answer, until which none of `ends` may come
--    least      new tokens until which none of `ends` may come
-- They are applied in this order, as Hugging Face transformers does it.

require("ftpipe.base.tensor") -- pointer()

local M = {}

--- The rules of greedy decoding.
-- @tparam table config of a model: eos_token_id (below 0: none), or ends where there are several;
--   decoder_start_token_id
function M.plain(config)
   local ends = {}
   for _, id in ipairs(config.ends or { config.eos_token_id }) do ends[id] = id >= 0 or nil end
   return {
      start = config.decoder_start_token_id, ends = ends,
      penalty = 1, ngram = 0, shortest = 0, least = 0,
   }
end

--- Whether scores are needed, and not the likeliest token alone.
function M.scored(rules)
   return rules.penalty ~= 1 or rules.ngram > 0 or rules.shortest > 0 or rules.least > 0
end

local function hold_down(scores, penalty, ids)
   local seen = {}
   for _, id in ipairs(ids) do
      if not seen[id] then
         scores[id] = scores[id] < 0 and scores[id] * penalty or scores[id] / penalty
      end
      seen[id] = true
   end
end

--- Whether n ids from `first` on are the last n ones.
local function repeats(ids, first, n)
   for k = 0, n - 1 do
      if ids[first + k] ~= ids[#ids - n + 1 + k] then return false end
   end
   return true
end

--- Rules out what would complete n tokens in a row that were there before.
local function ban_repeats(scores, n, ids)
   for last = n, #ids do
      if repeats(ids, last - n + 1, n - 1) then scores[ids[last]] = -math.huge end
   end
end

local function ban_ends(scores, ends)
   for id in pairs(ends) do scores[id] = -math.huge end
end

--- The next token of a row.
-- @tparam table rules
-- @tparam tensor logits (B, 1, V) f32, which are changed
-- @tparam int b the row, from 1
-- @tparam table ids the row's tokens so far, with what was there before its answer
-- @tparam int new how many of them are of the answer
-- @treturn int
function M.pick(rules, logits, b, ids, new)
   local n = logits:shape()[3]
   local scores, best = logits:pointer() + (b - 1) * n, 0
   if rules.penalty ~= 1 then hold_down(scores, rules.penalty, ids) end
   if rules.ngram > 0 then ban_repeats(scores, rules.ngram, ids) end
   if #ids < rules.shortest or new < rules.least then ban_ends(scores, rules.ends) end
   for id = 1, n - 1 do
      if scores[id] > scores[best] then best = id end
   end
   return best
end

return M
