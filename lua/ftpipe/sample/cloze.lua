--- What the tiny BERT is pre-trained on: a paragraph, a statement that follows from it with a word
-- blanked, and the place in the paragraph where the word stands. No sentence names both members of
-- a held-out pair.
--
-- This is the selection of recurring spans of Ram et al., "Few-Shot Question Answering by
-- Pretraining Span Selection", ACL 2021, arXiv:2101.00438, over sentences that are known to say
-- the same. Most statements repeat their sentence: to find a word by its neighbours is learnt
-- first, to find it in another wording follows.

local facts = require("ftpipe.sample.facts")
local paragraph = require("ftpipe.sample.paragraph")
local random = require("ftpipe.base.random")

local cloze = {}

local BLANK = "[MASK]"
local SENTENCES = 3 -- of a paragraph at most, two at least
local VERBATIM = 0.6 -- share of statements that stand in the paragraph as they are
local STREAM = 31 -- of the seed

--- Other ways to tell a fact, whole or in part.
local function tellings(told)
   local list = {}
   for _, premise in ipairs(told.fact.premises) do
      if premise ~= told.premise then list[#list + 1] = premise end
   end
   for _, group in ipairs(told.fact.groups) do
      for _, statement in ipairs(group) do list[#list + 1] = statement end
   end
   return list
end

--- What may be blanked in a template: roles that the premise has too, and "{c} {x}" at once.
local function blanks(template, premise)
   local list = {}
   for _, name in ipairs(facts.roles_of(template)) do
      local blank = ("{%s}"):format(name)
      if premise:find(blank, 1, true) then list[#list + 1] = blank end
   end
   local pair = "{c} {x}"
   if template:find(pair, 1, true) and premise:find(pair, 1, true) then list[#list + 1] = pair end
   return list
end

--- A statement with one word of it blanked, and the word: nil when it would say nothing else.
local function blanked(rng, told)
   local template = rng:chance(VERBATIM) and told.premise or rng:pick(tellings(told))
   if #facts.roles_of(template) < 2 then return nil end
   local list = blanks(template, told.premise)
   if #list == 0 then return nil end
   local blank = rng:pick(list)
   local from, to = template:find(blank, 1, true)
   local statement = template:sub(1, from - 1) .. BLANK .. template:sub(to + 1)
   if #facts.roles_of(statement) == 0 then return nil end
   return facts.fill(statement, told.role), facts.fill(blank, told.role)
end

--- An endless sequence of problems.
-- @tparam integer seed
-- @treturn function returning the next problem, as questions of SQuAD are: { id =, text = the
--    statement, context =, answers = { { text =, at = } } }
-- @usage local next_problem = cloze.problems(1); local problem = next_problem()
function cloze.problems(seed)
   local rng, waiting, count = random.new(seed, STREAM), {}, 0
   local function refill()
      local list, context = paragraph.draw(rng, 1 + rng:integer(SENTENCES - 1), false)
      for _, told in ipairs(list) do
         local text, words = blanked(rng, told)
         if text then
            count = count + 1
            waiting[#waiting + 1] = {
               id = tostring(count), text = text, context = context,
               answers = { paragraph.find(told, words) },
            }
         end
      end
   end
   return function()
      while #waiting == 0 do refill() end
      return table.remove(waiting)
   end
end

return cloze
