--- The sample of BoolQ: passages and questions to be answered by yes or no, in SuperGLUE's format.
--
-- A passage tells one fact. Rows come in fours: the passage and its mirror, the question and its
-- mirror (see facts.lua), every pairing, so that neither side alone tells the answer.

local facts = require("ftpipe.sample.facts")
local groups = require("ftpipe.sample.groups")

local boolq = {
   name = "boolq",
   size = 4,
   defaults = { seed = 1, train = 3200, held_out = 400 },
   streams = { train = 31, held_out = 32 },
}

--- Two passages, two questions, every pairing.
function boolq.draw(rng, held_out)
   local drawn = facts.draw(rng, held_out)
   local question = rng:pick(drawn.group.asks)
   local rows, roles = {}, { drawn.role, facts.mirror(drawn.role, drawn.swap) }
   for i, passage_role in ipairs(roles) do
      for j, question_role in ipairs(roles) do
         rows[#rows + 1] = {
            question = facts.fill(question, question_role),
            passage = facts.fill(drawn.premise, passage_role),
            label = i == j,
         }
      end
   end
   return rows
end

function boolq.key(row)
   return row.passage .. "\n" .. row.question
end

--- Both splits, see groups.lua.
-- @treturn table of train rows {question, passage, label, idx}
-- @treturn table of held-out rows
-- @usage local train, held_out = boolq.examples { seed = 1 }
function boolq.examples(options)
   return groups.examples(boolq, options)
end

return boolq
