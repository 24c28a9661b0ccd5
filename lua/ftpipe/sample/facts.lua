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
      name = "transfer",
      premises = {
         "{a} {gave} the {c} {x} to {b}.",
         "{b} {got} the {c} {x} from {a}.",
         "{a} {gave} the {c} {x} to {b} at the {p}.",
         "At the {p} {b} {got} the {c} {x} from {a}.",
      },
      groups = {
         { swap = { "x", "y" }, "{b} {got} the {x}.", "{a} {gave} the {x} to {b}." },
         { swap = { "x", "y", "k", "l" }, "{b} {got} a {k}.", "{a} {gave} away a {k}." },
         { swap = { "c", "d" }, "The {x} is {c}.", "{b} {got} the {c} {x}." },
      },
   },
   {
      name = "belongings",
      premises = {
         "{a} has a {x} and {b} has a {y}.",
         "The {x} belongs to {a} and the {y} belongs to {b}.",
         "{a} has a {c} {x} and {b} has a {d} {y}.",
         "While {b} has the {y}, {a} has the {x}.",
      },
      groups = {
         { swap = { "a", "b" }, "{a} has a {x}.", "The {y} belongs to {b}." },
         { swap = { "x", "y", "k", "l" }, "{a} has a {k}.", "The {x} belongs to {a}." },
      },
   },
   {
      name = "colours",
      premises = {
         "The {x} is {c} and the {y} is {d}.",
         "{a} has a {c} {x} and {b} has a {d} {y}.",
         "{a} painted the {x} {c} and {b} painted the {y} {d}.",
      },
      groups = {
         { swap = { "c", "d" }, "The {x} is {c}.", "The {y} is {d}." },
         { swap = { "c", "d" }, "The {k} is {c}.", "There is a {c} {x}." },
      },
   },
   {
      name = "places",
      premises = {
         "{a} went to the {p} and {b} went to the {q}.",
         "{a} left the {q} and came to the {p}, but {b} stayed at the {q}.",
         "{b} is at the {q} and {a} is at the {p} with the {x}.",
      },
      groups = {
         { swap = { "a", "b" }, "{a} is at the {p}.", "{b} is at the {q}." },
         { swap = { "p", "q" }, "{a} is at the {p}.", "{b} is not at the {p}." },
      },
   },
}

--- The roles with the pairs of a group exchanged: {"x", "y", "k", "l"} exchanges x with y, k with l.
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
