--- What can be said in the sample world, and what follows from it.
--
-- A fact has ways to be told (`premises`) and groups of statements that follow from each of them.
-- A group also names two roles; with the two exchanged, the same premise and the same statement
-- are about the *mirror* of the fact. A statement never follows from the mirror's premise. So of
-- the four pairings of {premise, mirror premise} x {statement, mirror statement} two are
-- entailments and two are not, and neither side alone tells which.
--
-- Where both roles of a group occur in the premise, the pairs differ in nothing but the order of
-- words; where only one does, a word is replaced.

local world = require("ftpipe.sample.world")

local facts = {}

facts.list = {
   {
      name = "actions",
      premises = {
         "{a} {u} in {p} and {b} {v} in {q}.",
         "While {a} {u} in {p}, {b} {v} in {q}.",
         "In {q} {b} {v}, but {a} {u} in {p}.",
      },
      groups = {
         { swap = { "u", "v" }, "{a} {u}.", "{b} {v}.", "It was {a} who {u}." },
         { swap = { "p", "q" }, "Someone {u} in {p}.", "In {q} someone {v}." },
         { swap = { "a", "b" }, "{a} was in {p}.", "{b} was seen in {q}." },
      },
   },
   {
      name = "deeds",
      premises = {
         "{a} {m} a {c} {x} and {b} {n} a {d} {y}.",
         "While {a} {m} a {x}, {b} {n} a {y}.",
         "The {y} was {n} by {b} and the {x} was {m} by {a}.",
      },
      groups = {
         { swap = { "m", "n" }, "{a} {m} something.", "It was {b} who {n} something." },
         { swap = { "x", "y", "k", "l" }, "Someone {m} a {x}.", "{a} {m} a {k}." },
         { swap = { "x", "y", "k", "l" }, "{b} {n} a {y}.", "Someone {n} a {l}." },
      },
   },
   {
      name = "colours",
      premises = {
         "{a} has a {c} {x} and {b} has a {d} {y}.",
         "The {x} is {c} and the {y} is {d}.",
         "The {y} of {b} is {d}, the {x} of {a} is {c}.",
      },
      groups = {
         { swap = { "c", "d" }, "The {x} is {c}.", "There is a {d} {y}." },
         { swap = { "c", "d" }, "There is a {c} {k}.", "The {l} is {d}." },
      },
   },
   {
      name = "journeys",
      premises = {
         "{a} took a {x} to {p} and {b} took a {y} to {q}.",
         "{b} went to {q} with a {y}, but {a} went to {p} with a {x}.",
      },
      groups = {
         { swap = { "p", "q" }, "{a} went to {p}.", "{b} went to {q}." },
         { swap = { "x", "y", "k", "l" }, "{a} took a {x}.", "{b} took a {l}." },
         { swap = { "x", "y" }, "Someone took a {x} to {p}.", "The {y} is in {q}." },
      },
   },
   {
      name = "together",
      premises = {
         "{a} and {b} {u} in {p}.",
         "In {p} {a} {u} with {b}.",
         "{b} had a {c} {x} and {u} in {p} with {a}.",
      },
      groups = {
         { swap = { "u", "v" }, "{a} {u}.", "{b} {u}.", "Someone {u} in {p}." },
         { swap = { "p", "q" }, "{a} was in {p}.", "{b} was seen in {p}." },
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
-- @treturn table {role, premise, statement, swap, fact}
function facts.draw(rng, held_out)
   local fact = rng:pick(facts.list)
   local group = rng:pick(fact.groups)
   return {
      fact = fact,
      role = world.draw(rng, held_out),
      premise = rng:pick(fact.premises),
      statement = rng:pick(group),
      swap = group.swap,
   }
end

return facts
