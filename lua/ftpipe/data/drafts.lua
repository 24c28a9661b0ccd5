--- Greedy decoding by forwards over whole answers: drafts are verified instead of tokens made.
--
-- A forward over a draft gives the likeliest token after every prefix of it. Up to the first one
-- that is not the draft's, these are the tokens of greedy decoding; the rest is drafted anew and
-- verified by the next forward (Stern et al., "Blockwise Parallel Decoding for Deep Autoregressive
-- Models", NeurIPS 2018: predict, verify, accept). An answer never depends on its drafts, only the
-- number of its forwards does: one when the first draft is the answer, and one for each token at
-- most.

local M = {}
local Drafts = {}
Drafts.__index = Drafts

--- @tparam table ends the tokens that end an answer, as a set
-- @tparam int most tokens of an answer, the end token included
function M.new(ends, most) return setmetatable({ last = ends, most = most, known = {} }, Drafts) end

local function key(ids, n) return table.concat(ids, " ", 1, n) end

--- Lets later drafts be this answer where it begins as they have to.
function Drafts:learn(answer)
   if self.known[key(answer, #answer)] then return end
   for n = 1, #answer do
      local prefix = key(answer, n)
      self.known[prefix] = self.known[prefix] or answer
   end
end

--- Whether an answer is whole with its token t.
function Drafts:ends(ids, t) return self.last[ids[t]] or t == self.most end

--- Verifies a draft.
-- @tparam table draft ids, an end token last if it has one
-- @tparam table likeliest `most` ids: the one after each prefix of the draft, from the empty one on
-- @treturn table ids: those that are verified, and where they are not whole, likely ones
-- @treturn int how many are verified; nil when they are whole
function Drafts:verify(draft, likeliest)
   local ids, verified = {}, nil
   for t = 1, self.most do
      ids[t] = likeliest[t]
      if self:ends(ids, t) then break end
      if not verified and ids[t] ~= draft[t] then verified = t end
   end
   if not verified then self:learn(ids) end
   return ids, verified
end

--- The draft to verify next: a known answer that begins with what is verified, if there is one,
-- else what the last forward gave (Santilli et al., "Accelerating Transformer Inference for
-- Translation via Parallel Decoding", ACL 2023: Jacobi decoding).
-- @tparam table ids
-- @tparam int verified as `verify` gave them
function Drafts:next(ids, verified) return self.known[key(ids, verified)] or ids end

return M
