--- The text the tiny T5 is pre-trained on: passages that tell a fact and what follows from it, and
-- the text-to-text problems made of them. No passage names both members of a held-out pair.
--
-- A problem is a source and a target, both text; sentinels are written <extra_id_0>, <extra_id_1>.
-- Source of the denoising objective: Raffel et al., arXiv:1910.10683, section 3.1.4; of masking
-- the words that matter rather than any: Guu et al., arXiv:2002.08909, section 3.4.

local facts = require("ftpipe.sample.facts")
local random = require("ftpipe.base.random")
local wic = require("ftpipe.sample.wic")

local corpus = {}

-- Streams of the seed.
local STREAM = { lines = 11, problems = 12, passages = 13 }

local function sentinel(i)
   return ("<extra_id_%d>"):format(i)
end

local function statements_of(rng, fact)
   local statements = {}
   for _, group in ipairs(fact.groups) do
      for _, statement in ipairs(group) do statements[#statements + 1] = statement end
   end
   return rng:shuffle(statements)
end

--- One passage: a premise and some statements that follow, in any order.
function corpus.passage(rng)
   local drawn = facts.draw(rng, false)
   local sentences = { facts.fill(drawn.premise, drawn.role) }
   local statements = statements_of(rng, drawn.fact)
   for i = 1, math.min(#statements, 1 + rng:integer(2)) do
      sentences[#sentences + 1] = facts.fill(statements[i], drawn.role)
   end
   return table.concat(rng:shuffle(sentences), " ")
end

-- Spans of one to three words, about one word in five, never two spans side by side.
local function denoise(rng)
   local source, target, n_spans = {}, {}, 0
   local next_word = corpus.passage(rng):gmatch("%S+")
   local word = next_word()
   while word do
      if rng:chance(0.12) then
         source[#source + 1] = sentinel(n_spans)
         target[#target + 1] = sentinel(n_spans)
         n_spans = n_spans + 1
         for _ = 1, rng:integer(3) do
            target[#target + 1] = word
            word = next_word()
         end
      end
      source[#source + 1] = word
      word = word and next_word()
   end
   target[#target + 1] = sentinel(n_spans)
   return table.concat(source, " "), table.concat(target, " ")
end

--- What follows from a fact, or a question that it answers and an answer.
local function statement_or_answer(rng, group)
   if rng:chance(0.6) then return rng:pick(group) end
   local open = rng:pick(group.open)
   return open[1] .. " " .. open[1 + rng:integer(#open - 1)] .. "."
end

-- Masks, in statements that stand beside their premise, the words that the premise decides.
local function recall(rng)
   local drawn = facts.draw(rng, false)
   local source, target, n_spans = {}, {}, 0
   for _, group in ipairs(drawn.fact.groups) do
      local blanked = setmetatable({}, { __index = drawn.role })
      local statement = statement_or_answer(rng, group)
      for _, name in ipairs(facts.roles_of(statement)) do
         if facts.is_swapped(group, name) then
            blanked[name] = sentinel(n_spans)
            target[#target + 1] = sentinel(n_spans) .. " " .. drawn.role[name]
            n_spans = n_spans + 1
         end
      end
      source[#source + 1] = facts.fill(statement, blanked)
   end
   target[#target + 1] = sentinel(n_spans)
   source[#source + 1] = facts.fill(drawn.premise, drawn.role)
   return table.concat(source, " "), table.concat(target, " ")
end

-- Proofreads statements, and questions, against their premise: says of each whether it is correct
-- or not.
local function proofread(rng)
   local drawn = facts.draw(rng, false)
   local source, target = {}, {}
   for i, group in ipairs(rng:shuffle { unpack(drawn.fact.groups) }) do
      local is_right = rng:chance(0.5)
      local told = is_right and drawn.role or facts.mirror(drawn.role, group.swap)
      local text = rng:chance(0.6) and rng:pick(group) or rng:pick(group.asks) .. "?"
      source[#source + 1] = facts.fill(text, told) .. " " .. sentinel(i - 1)
      target[#target + 1] = sentinel(i - 1) .. (is_right and " correct" or " not")
   end
   source[#source + 1] = facts.fill(drawn.premise, drawn.role)
   return table.concat(source, " "), table.concat(target, " ")
end

-- Says of a word in two sentences what it is in each.
local function gloss(rng)
   local drawn = wic.draw_senses(rng, false)
   local first, second = rng:integer(2), rng:integer(2)
   local source = ("%s: %s %s %s %s"):format(drawn.word, sentinel(0), drawn.pairs[1][first],
      sentinel(1), drawn.pairs[2][second])
   return source, ("%s %s %s %s"):format(sentinel(0), drawn.names[first], sentinel(1),
      drawn.names[second])
end

-- The forms of the tasks and nothing of their substance: the answer of each is always the same.
-- It is the one that scores most when it is always given; so sentences are about different people
-- and things, except where an answer is to be right.
local forms = {
   rte = function(rng)
      local told, other = facts.draw_apart(rng, false)
      return ("rte hypothesis: %s premise: %s"):format(facts.fill(other.statement, other.role),
         facts.fill(told.premise, told.role)), "not_entailment"
   end,
   wic = function(rng)
      local told, other = facts.draw_apart(rng, false)
      return ("wic sentence1: %s sentence2: %s word: %s"):format(
         facts.fill(told.premise, told.role), facts.fill(other.premise, other.role),
         told.role[rng:pick(facts.roles_of(told.premise))]), "False"
   end,
   boolq = function(rng)
      local told, other = facts.draw_apart(rng, false)
      return ("boolq passage: %s question: %s"):format(facts.fill(told.premise, told.role),
         facts.fill(rng:pick(other.group.asks), other.role)), "False"
   end,
   multirc = function(rng)
      local drawn = facts.draw(rng, false)
      local open = rng:pick(drawn.group.open)
      return ("multirc question: %s answer: %s paragraph: %s"):format(
         facts.fill(open[1], drawn.role),
         facts.fill(open[1 + rng:integer(#open - 1)], drawn.role),
         facts.fill(drawn.premise, drawn.role)), "True"
   end,
}

-- Kinds of problem and the share of each.
corpus.mixture = {
   { share = 0.08, make = denoise },
   { share = 0.38, make = recall },
   { share = 0.32, make = proofread },
   { share = 0.10, make = gloss },
   { share = 0.03, make = forms.rte },
   { share = 0.03, make = forms.wic },
   { share = 0.03, make = forms.boolq },
   { share = 0.03, make = forms.multirc },
}

--- An endless sequence of lines for the tiny GPT-2 to be pre-trained on: a passage each, its marks
-- set apart as in WikiText.
-- @tparam integer seed
-- @treturn function returning the next line
function corpus.passages(seed)
   local rng = random.new(seed, STREAM.passages)
   return function() return " " .. corpus.passage(rng):gsub("%.", " .") .. " \n" end
end

local function draw_problem(rng)
   local left = rng:fraction()
   for _, kind in ipairs(corpus.mixture) do
      left = left - kind.share
      if left < 0 then return kind.make(rng) end
   end
   return corpus.mixture[#corpus.mixture].make(rng)
end

--- An endless sequence of lines for the tokenizer to be trained on: mostly passages, and the words
-- of the text-to-text forms, which passages lack.
-- @tparam integer seed
-- @treturn function returning the next line
function corpus.lines(seed)
   local rng = random.new(seed, STREAM.lines)
   local makers = { recall, proofread, gloss, forms.rte, forms.wic, forms.boolq, forms.multirc }
   local labels = { "entailment", "not_entailment", "True", "False" }
   local function next_text()
      if rng:chance(0.5) then return corpus.passage(rng) end
      local source, target = rng:pick(makers)(rng)
      return source .. " " .. target .. " " .. rng:pick(labels)
   end
   return function()
      local line = next_text():gsub("<extra_id_%d+> ?", "")
      -- The trainer considers only pieces that are followed by two different characters
      -- somewhere, so half of the lines have all their words end in a semicolon.
      return rng:chance(0.5) and line or (line .. " "):gsub("[.,:?]?(%s)", ";%1")
   end
end

--- An endless sequence of pre-training problems.
-- @tparam integer seed
-- @treturn function returning the next source and target
-- @usage local next_problem = corpus.problems(1); local source, target = next_problem()
function corpus.problems(seed)
   local rng = random.new(seed, STREAM.problems)
   return function() return draw_problem(rng) end
end

return corpus
