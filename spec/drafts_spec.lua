--- Drafts give what decoding one token at a time gives, for any model: here one is a function from
-- a prefix to the token after it.

local drafts = require("ftpipe.data.drafts")

local EOS, MOST, VOCABULARY = 1, 6, 5
local ENDS = { [EOS] = true, [3] = true }

--- A model whose next token depends on every token of the prefix.
local function model(seed)
   return function(ids, n)
      local hash = seed
      for i = 1, n do hash = (hash * 31 + ids[i] * 7 + i) % 1009 end
      return hash % VOCABULARY
   end
end

local function greedy(next_id)
   local ids = {}
   for t = 1, MOST do
      ids[t] = next_id(ids, t - 1)
      if ENDS[ids[t]] then break end
   end
   return ids
end

--- The answer by drafts from a first one, and the forwards that it took.
local function decode(book, next_id, draft)
   for forwards = 1, MOST do
      local padded, likeliest = {}, {}
      for t = 1, MOST do padded[t] = draft[t] or 0 end
      for t = 1, MOST do likeliest[t] = next_id(padded, t - 1) end
      local ids, verified = book:verify(draft, likeliest)
      if not verified then return ids, forwards end
      draft = book:next(ids, verified)
   end
   return error("more forwards than tokens")
end

describe("drafts", function()
   it("end in the greedy answer, whatever they are and whatever is known", function()
      for seed = 1, 400 do
         local next_id = model(seed)
         local wanted = greedy(next_id)
         local alone, book = drafts.new(ENDS, MOST), drafts.new(ENDS, MOST)
         for other = seed + 1, seed + 5 do book:learn(greedy(model(other))) end
         for _, draft in ipairs { {}, { EOS }, { 2, 3, EOS }, { 4, 4, 4, 4, 4, 4 }, wanted } do
            assert.same(wanted, (decode(alone, next_id, draft)))
            assert.same(wanted, (decode(book, next_id, draft)))
         end
      end
   end)

   it("take one forward when they are right, two when the answer is a known one", function()
      for seed = 1, 400 do
         local next_id = model(seed)
         local wanted, book = greedy(next_id), drafts.new(ENDS, MOST)
         assert.equal(1, select(2, decode(book, next_id, wanted)))
         assert.is_true(select(2, decode(book, next_id, { wanted[1] + 1, EOS })) <= 2)
      end
   end)
end)
