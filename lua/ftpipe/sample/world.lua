--- The small world the sample sentences speak of, and the line between what training may and may
-- not see of it.
--
-- Every word occurs in training; what is kept back are *pairs* of a person and what the person has
-- or does: no sentence for training, pre-training included, names both members of a held-out pair,
-- and in a held-out sentence every such pair is a held-out one.

local keys = require("ftpipe.base.keys")

local world = {}

world.people = {
   "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Henry", "Irene", "Jonas",
   "Karin", "Leo", "Maria", "Nils", "Olga", "Peter",
}

world.kinds = {
   toy = { "kite", "ball", "doll" },
   fruit = { "pear", "lemon", "cherry" },
   tool = { "hammer", "saw", "drill" },
   garment = { "coat", "scarf", "shirt" },
}

world.colours = { "red", "blue", "green", "yellow", "black", "white" }

world.cities = { "Rome", "Paris", "Oslo", "Vienna", "Cairo", "Delhi", "Quito", "Lima" }

world.actions = {
   "sang", "danced", "slept", "cooked", "waited", "laughed", "worked", "rested", "walked", "smiled",
}

world.deeds = { "sold", "bought", "found", "lost", "made", "mended" }

world.things = {}
world.kind_of = {}

for _, kind in ipairs(keys(world.kinds)) do
   for _, thing in ipairs(world.kinds[kind]) do
      world.things[#world.things + 1] = thing
      world.kind_of[thing] = kind
   end
end

local position, is_person = {}, {}
for _, list in ipairs { world.people, world.things, world.actions } do
   for i, word in ipairs(list) do position[word] = i end
end
for _, person in ipairs(world.people) do is_person[person] = true end

--- Whether a person and a thing, or a person and an action, are kept back for the held-out split:
-- one pair in five, spread evenly, so that every word has partners on both sides of the line.
function world.is_held_out(person, word)
   return (position[person] + position[word]) % 5 == 0
end

--- Whether any two words, in either order, are a pair that is kept back.
function world.are_held_out(one, other)
   if is_person[other] then one, other = other, one end
   return is_person[one] and not is_person[other] and position[other] ~= nil
      and world.is_held_out(one, other)
end

local function pick_fitting(rng, list, fits)
   local word
   repeat
      word = rng:pick(list)
   until fits(word)
   return word
end

local function pick_two(rng, list)
   local first = rng:pick(list)
   return first, pick_fitting(rng, list, function(word) return word ~= first end)
end

--- Two people; for the held-out split such as have the same partners.
local function pick_people(rng, held_out)
   local first = rng:pick(world.people)
   return first, pick_fitting(rng, world.people, function(word)
      local alike = (position[word] - position[first]) % 5 == 0
      return word ~= first and (alike or not held_out)
   end)
end

--- Two words that lie on the wanted side of the line with both people.
local function pick_partners(rng, list, role, held_out, differ)
   local function agrees(word)
      return world.is_held_out(role.a, word) == held_out
         and world.is_held_out(role.b, word) == held_out
   end
   local first = pick_fitting(rng, list, agrees)
   return first, pick_fitting(rng, list, function(word)
      return agrees(word) and differ(first, word)
   end)
end

--- Draws who and what a sentence is about.
-- @tparam random rng
-- @tparam boolean held_out which side of the line its pairs lie on
-- @treturn table role -> word: people a b, things x y of different kinds k l, colours c d,
--    cities p q, actions u v, deeds m n
function world.draw(rng, held_out)
   local role = {}
   role.a, role.b = pick_people(rng, held_out)
   role.x, role.y = pick_partners(rng, world.things, role, held_out, function(one, other)
      return world.kind_of[one] ~= world.kind_of[other]
   end)
   role.k, role.l = world.kind_of[role.x], world.kind_of[role.y]
   role.c, role.d = pick_two(rng, world.colours)
   role.p, role.q = pick_two(rng, world.cities)
   role.u, role.v = pick_partners(rng, world.actions, role, held_out, function(one, other)
      return one ~= other
   end)
   role.m, role.n = pick_two(rng, world.deeds)
   return role
end

return world
