--- What specs of the sample data ask about texts of the sample world.

local world = require("ftpipe.sample.world")

local M = {}

function M.words_of(text)
   local words = {}
   for word in text:gmatch("%a+") do words[#words + 1] = word end
   return words
end

local is_person, is_partner = {}, {}
for _, word in ipairs(world.people) do is_person[word] = true end
for _, list in ipairs { world.things, world.actions } do
   for _, word in ipairs(list) do is_partner[word] = true end
end

--- Whether a word names a person, a thing or an action.
function M.is_told(word) return is_person[word] or is_partner[word] end

--- Calls visit(person, word) for every person with every thing and action named in one text.
function M.each_pair(text, visit)
   local words = M.words_of(text)
   for _, person in ipairs(words) do
      for _, word in ipairs(words) do
         if is_person[person] and is_partner[word] then visit(person, word) end
      end
   end
end

--- Words, and pairs of adjacent ones; none across a "|".
local function words_and_bigrams(text)
   local features = {}
   for part in text:gmatch("[^|]+") do
      local words = M.words_of(part)
      for i, word in ipairs(words) do
         features[#features + 1] = word
         if words[i + 1] then features[#features + 1] = word .. " " .. words[i + 1] end
      end
   end
   return features
end

--- Per cent right of naive Bayes with add-one smoothing over words and pairs of adjacent words.
-- @tparam {table,...} train examples { label = boolean }
-- @tparam {table,...} held_out likewise
-- @tparam function text_of example -> the text that is looked at
function M.baseline_accuracy(train, held_out, text_of)
   local seen = { [true] = {}, [false] = {} }
   for _, example in ipairs(train) do
      local counts = seen[example.label]
      for _, feature in ipairs(words_and_bigrams(text_of(example))) do
         counts[feature] = (counts[feature] or 0) + 1
      end
   end
   local right = 0
   for _, example in ipairs(held_out) do
      local score = 0
      for _, feature in ipairs(words_and_bigrams(text_of(example))) do
         score = score + math.log(((seen[true][feature] or 0) + 1)
            / ((seen[false][feature] or 0) + 1))
      end
      if (score > 0) == example.label then right = right + 1 end
   end
   return 100 * right / #held_out
end

return M
