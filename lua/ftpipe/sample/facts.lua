--- What can be said in the sample world, and what follows from it.
--
-- A fact has ways to be told (`premises`) and groups of statements that follow from each of them.
-- A group also names two roles; with the two exchanged, the same premise and the same statement
-- are about the *mirror* of the fact. A statement never follows from the mirror's premise. So of
-- the four pairings of {premise, mirror premise} x {statement, mirror statement} two are
-- entailments and two are not, and neither side alone tells which.
--
-- The second role of a group never stands in the premise, so a word of the statement is either
-- borne out by the premise, itself or by a name for its kind, or it is not.

local world = require("ftpipe.sample.world")

local facts = {}

--- Every group has, beside its statements, questions whose answer is yes (`asks`) when the
-- statement follows, and open questions with what answers them (`open`); the former name a role of
-- those exchanged, the latter leave it to the answers.
facts.list = {
   {
      name = "actions",
      premises = { "{a} {u} in {p}.", "In {p} {a} {u}.", "It was in {p} that {a} {u}." },
      groups = {
         {
            swap = { "u", "v" }, "{a} {u}.", "Someone {u} in {p}.", "It was {a} who {u}.",
            asks = { "was it {a} who {u}", "is there someone who {u} in {p}" },
            open = {
               { "What was there in {p}?", "someone who {u}", "{a}, who {u}" },
               { "Who was {a}?", "someone who {u}", "someone who {u} in {p}" },
            },
         },
         {
            swap = { "p", "q" }, "{a} was in {p}.", "Someone {u} in {p}.",
            asks = { "was {a} in {p}", "was it in {p} that {a} {u}" },
            open = { { "Where was {a}?", "in {p}", "in {p}, where someone {u}" } },
         },
         {
            swap = { "a", "b" }, "{a} {u}.", "{a} was in {p}.",
            asks = { "was it {a} who {u}", "was {a} in {p}" },
            open = {
               { "Who {u}?", "{a}", "{a}, in {p}" },
               { "Who was in {p}?", "{a}", "{a}, who {u}" },
            },
         },
      },
   },
   {
      name = "deeds",
      premises = {
         "{a} {m} a {c} {x} in {p}.",
         "In {p} {a} {m} a {c} {x}.",
         "The {c} {x} was {m} by {a} in {p}.",
      },
      groups = {
         {
            swap = { "x", "y", "k", "l" }, "{a} {m} a {x}.", "Someone {m} a {x}.",
            asks = { "was a {x} {m} by {a}", "is there a {x} in {p}" },
            open = { { "What was {m} by {a}?", "a {x}", "a {c} {x}", "a {k}" } },
         },
         {
            swap = { "x", "y", "k", "l" }, "{a} {m} a {k}.", "Someone {m} a {k} in {p}.",
            asks = { "was a {k} {m} by {a}", "was a {k} {m} in {p}" },
            open = { { "What was there in {p}?", "a {k}", "a {c} {k}", "a {c} {x}" } },
         },
         {
            swap = { "m", "n" }, "{a} {m} something.", "It was {a} who {m} the {x}.",
            asks = { "was it {a} who {m} the {x}", "was something {m} in {p}" },
            open = {
               { "Who was {a}?", "someone who {m} something", "someone who {m} a {x}" },
               { "What is the {x}?", "something {m} by {a}", "something {m} in {p}" },
            },
         },
         {
            swap = { "c", "d" }, "The {x} is {c}.", "There is a {c} {k}.",
            asks = { "is the {x} {c}", "is there a {c} {k}" },
            open = { { "What is the {x}?", "{c}", "a {c} {k}", "something {c}" } },
         },
         {
            swap = { "p", "q" }, "{a} was in {p}.", "The {x} was in {p}.",
            asks = { "was {a} in {p}", "was the {x} {m} in {p}" },
            open = { { "Where was the {x}?", "in {p}", "in {p}, {m} by {a}" } },
         },
      },
   },
   {
      name = "belongings",
      premises = { "{a} has a {c} {x}.", "The {c} {x} belongs to {a}.", "The {x} of {a} is {c}." },
      groups = {
         {
            swap = { "x", "y", "k", "l" }, "{a} has a {x}.", "{a} has a {k}.",
            asks = { "has {a} a {x}", "has {a} a {k}" },
            open = { { "What belongs to {a}?", "a {x}", "a {k}", "a {c} {k}" } },
         },
         {
            swap = { "c", "d" }, "The {x} is {c}.", "{a} has a {c} {k}.",
            asks = { "is the {x} {c}", "has {a} a {c} {k}" },
            open = { { "What belongs to {a}?", "a {c} {x}", "a {c} {k}", "something {c}" } },
         },
         {
            swap = { "a", "b" }, "{a} has a {x}.", "The {k} belongs to {a}.",
            asks = { "has {a} a {x}", "is it {a} who has a {k}" },
            open = { { "Who has a {x}?", "{a}", "it belongs to {a}" } },
         },
      },
   },
}

--- The roles with the pairs of a group exchanged: {"x", "y", "k", "l"} exchanges x with y, k with
-- l.
function facts.mirror(role, swap)
   local mirrored = {}
   for name, word in pairs(role) do mirrored[name] = word end
   for i = 1, #swap, 2 do
      mirrored[swap[i]], mirrored[swap[i + 1]] = role[swap[i + 1]], role[swap[i]]
   end
   return mirrored
end

--- Whether a role is one of those that a group exchanges.
function facts.is_swapped(group, name)
   for _, swapped in ipairs(group.swap) do
      if swapped == name then return true end
   end
   return false
end

--- A template with its roles filled in: "{a} has a {x}." -> "Anna has a kite."
function facts.fill(template, role)
   return (template:gsub("{(%a+)}", role))
end

--- The roles a template mentions, in order, as a list of names.
function facts.roles_of(template)
   local names = {}
   for name in template:gmatch("{(%a+)}") do names[#names + 1] = name end
   return names
end

--- Draws one fact: roles, a premise and a statement that follows, all as templates still.
-- @treturn table {role, premise, statement, swap, fact, group}
function facts.draw(rng, held_out)
   local fact = rng:pick(facts.list)
   local group = rng:pick(fact.groups)
   return {
      fact = fact,
      group = group,
      role = world.draw(rng, held_out),
      premise = rng:pick(fact.premises),
      statement = rng:pick(group),
      swap = group.swap,
   }
end

--- The words that a fact, its mirror and what follows from them name, as a set.
local function words_of(drawn)
   local words = {}
   for _, names in ipairs { facts.roles_of(drawn.premise), drawn.swap } do
      for _, name in ipairs(names) do
         local word = drawn.role[name]
         words[word] = true
         words[world.kind_of[word] or word] = true
      end
   end
   return words
end

--- Whether two facts share no word, and for training make no held-out pair together.
local function are_apart(one, other, held_out)
   local words, others = words_of(one), words_of(other)
   for word in pairs(words) do
      if others[word] then return false end
      for other_word in pairs(others) do
         if not held_out and world.are_held_out(word, other_word) then return false end
      end
   end
   return true
end

--- Draws two facts that have nothing to do with each other: nothing that follows from one, or from
-- its mirror, is borne out by the other.
function facts.draw_apart(rng, held_out)
   local one, other
   repeat
      one, other = facts.draw(rng, held_out), facts.draw(rng, held_out)
   until are_apart(one, other, held_out)
   return one, other
end

return facts
