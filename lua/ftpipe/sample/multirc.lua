--- The sample of MultiRC: paragraphs, questions about them and answers any number of which are
-- right, in SuperGLUE's format.
--
-- A paragraph tells one fact and has a question about it. Rows come in twos, a paragraph and its
-- mirror (see facts.lua), with the same question and answers: what is right in one is wrong in the
-- other. So half of the answers are right, and neither the paragraph nor question and answer alone
-- tell which.

local facts = require("ftpipe.sample.facts")
local groups = require("ftpipe.sample.groups")

local multirc = {
   name = "multirc",
   size = 2,
   defaults = { seed = 1, train = 1040, held_out = 132 }, -- of some three answers each
   streams = { train = 41, held_out = 42 },
}

local MOST_ANSWERS = 4

--- A question about a fact, with two to four of the answers that are right of it or of its mirror.
local function ask(rng, drawn)
   local open = rng:pick(drawn.group.open)
   local mirrored = facts.mirror(drawn.role, drawn.swap)
   local answers = {}
   for i = 2, #open do
      answers[#answers + 1] = { text = facts.fill(open[i], drawn.role), is_mirrored = false }
      answers[#answers + 1] = { text = facts.fill(open[i], mirrored), is_mirrored = true }
   end
   rng:shuffle(answers)
   local most = math.min(#answers, MOST_ANSWERS)
   return {
      text = facts.fill(open[1], drawn.role),
      answers = { unpack(answers, 1, 1 + rng:integer(most - 1)) },
   }
end

--- A question as a row has it.
local function question_of(asked, is_mirrored)
   local question = { question = asked.text, answers = {} }
   for i, answer in ipairs(asked.answers) do
      question.answers[i] = {
         text = answer.text, label = answer.is_mirrored == is_mirrored and 1 or 0,
      }
   end
   return question
end

--- A paragraph and its mirror.
function multirc.draw(rng, held_out)
   local drawn = facts.draw(rng, held_out)
   local asked, rows = ask(rng, drawn), {}
   for i, role in ipairs { drawn.role, facts.mirror(drawn.role, drawn.swap) } do
      rows[i] = {
         passage = {
            text = facts.fill(drawn.premise, role), questions = { question_of(asked, i == 2) },
         },
      }
   end
   return rows
end

function multirc.key(row)
   return row.passage.text .. "\n" .. row.passage.questions[1].question
end

--- Numbers questions and answers over a split, as the published files do.
local function number(rows)
   local n_questions, n_answers = 0, 0
   for _, row in ipairs(rows) do
      for _, question in ipairs(row.passage.questions) do
         question.idx, n_questions = n_questions, n_questions + 1
         for _, answer in ipairs(question.answers) do
            answer.idx, n_answers = n_answers, n_answers + 1
         end
      end
   end
   return rows
end

--- Both splits, see groups.lua.
-- @treturn table of train rows
--    {idx, passage = {text, questions = {{question, idx, answers = {{text, label, idx}}}}}}
-- @treturn table of held-out rows
-- @usage local train, held_out = multirc.examples { seed = 1 }
function multirc.examples(options)
   local train, held_out = groups.examples(multirc, options)
   return number(train), number(held_out)
end

return multirc
