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

facts.list = {
   {
      name = "actions",
      premises = { "{a} {u} in {p}.", "In {p} {a} {u}.", "It was in {p} that {a} {u}." },
      groups = {
         { swap = { "u", "v" }, "{a} {u}.", "Someone {u} in {p}.", "It was {a} who {u}." },
         { swap = { "p", "q" }, "{a} was in {p}.", "Someone {u} in {p}." },
         { swap = { "a", "b" }, "{a} {u}.", "{a} was in {p}." },
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
         { swap = { "x", "y", "k", "l" }, "{a} {m} a {x}.", "Someone {m} a {x}." },
         { swap = { "x", "y", "k", "l" }, "{a} {m} a {k}.", "Someone {m} a {k} in {p}." },
         { swap = { "m", "n" }, "{a} {m} something.", "It was {a} who {m} the {x}." },
         { swap = { "c", "d" }, "The {x} is {c}.", "There is a {c} {k}." },
         { swap = { "p", "q" }, "{a} was in {p}.", "The {x} was in {p}." },
      },
   },
   {
      name = "belongings",
      premises = { "{a} has a {c} {x}.", "The {c} {x} belongs to {a}.", "The {x} of {a} is {c}." },
      groups = {
         { swap = { "x", "y", "k", "l" }, "{a} has a {x}.", "{a} has a {k}." },
         { swap = { "c", "d" }, "The {x} is {c}.", "{a} has a {c} {k}." },
         { swap = { "a", "b" }, "{a} has a {x}.", "The {k} belongs to {a}." },
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
