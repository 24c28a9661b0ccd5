--- The text the tiny T5 is pre-trained on: passages that tell a fact and what follows from it, and
-- the text-to-text problems made of them. No passage names both members of a held-out pair.
--
-- A problem is a source and a target, both text; sentinels are written <extra_id_0>, <extra_id_1>.
-- Source of the denoising objective: Raffel et al., arXiv:1910.10683, section 3.1.4; of masking
-- the words that matter rather than any: Guu et al., arXiv:2002.08909, section 3.4.

local facts = require("ftpipe.sample.facts")
local random = require("ftpipe.sample.random")
local world = require("ftpipe.sample.world")

local corpus = {}

-- Streams of the seed.
local STREAM = { lines = 11, problems = 12 }

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

-- Masks, in statements that stand beside their premise, the words that the premise decides.
local function recall(rng)
   local drawn = facts.draw(rng, false)
   local source, target, n_spans = {}, {}, 0
   for _, group in ipairs(drawn.fact.groups) do
      local blanked = setmetatable({}, { __index = drawn.role })
      local statement = rng:pick(group)
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

-- Proofreads statements against their premise: says of each whether it is correct or not.
local function proofread(rng)
   local drawn = facts.draw(rng, false)
   local source, target = {}, {}
   for i, group in ipairs(rng:shuffle { unpack(drawn.fact.groups) }) do
      local is_right = rng:chance(0.5)
      local told = is_right and drawn.role or facts.mirror(drawn.role, group.swap)
      source[#source + 1] = facts.fill(rng:pick(group), told) .. " " .. sentinel(i - 1)
      target[#target + 1] = sentinel(i - 1) .. (is_right and " correct" or " not")
   end
   source[#source + 1] = facts.fill(drawn.premise, drawn.role)
   return table.concat(source, " "), table.concat(target, " ")
end

local PEOPLE, PARTNERS = { "a", "b" }, { "x", "y", "u", "v" }

--- Whether two sets of roles share no person and no thing, and make no held-out pair together.
local function are_strangers(one, other)
   for _, person in ipairs(PEOPLE) do
      for _, partner in ipairs(PARTNERS) do
         if world.is_held_out(one[person], other[partner])
            or world.is_held_out(other[person], one[partner]) then
            return false
         end
      end
   end
   return one.a ~= other.a and one.a ~= other.b and one.b ~= other.a and one.b ~= other.b
      and one.x ~= other.x and one.x ~= other.y and one.y ~= other.x and one.y ~= other.y
end

-- The form of the task and nothing of its substance: sentences about different people and things,
-- where the answer is always the same.
local function unrelated(rng)
   local drawn, other
   repeat
      drawn, other = facts.draw(rng, false), facts.draw(rng, false)
   until are_strangers(drawn.role, other.role)
   local source = "rte hypothesis: " .. facts.fill(other.statement, other.role)
      .. " premise: " .. facts.fill(drawn.premise, drawn.role)
   return source, "not_entailment"
end

-- Kinds of problem and the share of each.
corpus.mixture = {
   { share = 0.10, make = denoise },
   { share = 0.45, make = recall },
   { share = 0.40, make = proofread },
   { share = 0.05, make = unrelated },
}

--- An endless sequence of lines for the tokenizer to be trained on: mostly passages, and the words
-- of the text-to-text forms, which passages lack.
-- @tparam integer seed
-- @treturn function returning the next line
function corpus.lines(seed)
   local rng = random.new(seed, STREAM.lines)
   local labels = { "entailment", "not_entailment" }
   local function next_text()
      if rng:chance(0.6) then return corpus.passage(rng) end
      local source, target = rng:pick { proofread, unrelated }(rng)
      return source .. " " .. target .. " " .. rng:pick(labels)
   end
   return function()
      local line = next_text():gsub("<extra_id_%d+> ?", "")
      -- The trainer considers only pieces that are followed by two different characters
      -- somewhere, so half of the lines have all their words end in a semicolon.
      return rng:chance(0.5) and line or (line .. " "):gsub("[.,:]?(%s)", ";%1")
   end
end

--- An endless sequence of pre-training problems.
-- @tparam integer seed
-- @treturn function returning the next source and target
-- @usage local next_problem = corpus.problems(1); local source, target = next_problem()
function corpus.problems(seed)
   local rng = random.new(seed, STREAM.problems)
   return function()
      local left = rng:fraction()
      for _, kind in ipairs(corpus.mixture) do
         left = left - kind.share
         if left < 0 then return kind.make(rng) end
      end
      return corpus.mixture[#corpus.mixture].make(rng)
   end
end

return corpus
