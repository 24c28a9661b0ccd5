--- The small world the sample sentences speak of, and the line between what training may and may
-- not see of it.
--
-- Every word occurs in training; what is kept back are *pairs*: two people (or two things) are
-- either a training pair or a held-out pair, and no sentence for training, pre-training included,
-- names both members of a held-out pair. A held-out sentence names held-out pairs only.

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

world.actions = { "sang", "danced", "slept", "cooked", "waited", "laughed", "worked", "rested" }

world.deeds = { "sold", "bought", "found", "lost", "made", "mended" }

world.things = {}
world.kind_of = {}

local kind_names = {}
for kind in pairs(world.kinds) do kind_names[#kind_names + 1] = kind end
table.sort(kind_names)
for _, kind in ipairs(kind_names) do
   for _, thing in ipairs(world.kinds[kind]) do
      world.things[#world.things + 1] = thing
      world.kind_of[thing] = kind
   end
end

local position = {}
for _, list in ipairs { world.people, world.things } do
   for i, word in ipairs(list) do position[word] = i end
end

--- Whether a pair of people, or of things, is kept back for the held-out split: one pair in five,
-- spread evenly, so that every word has partners on both sides of the line.
function world.is_held_out(one, other)
   local i, j = position[one], position[other]
   return (i + j + math.floor(i / 5) * math.floor(j / 5)) % 5 == 0
end

local function pick_other(rng, list, first, fits)
   local second
   repeat
      second = rng:pick(list)
   until second ~= first and fits(second)
   return second
end

local function pick_two(rng, list)
   local first = rng:pick(list)
   return first, pick_other(rng, list, first, function() return true end)
end

local function pick_pair(rng, list, held_out, fits)
   local first = rng:pick(list)
   return first, pick_other(rng, list, first, function(second)
      return world.is_held_out(first, second) == held_out and fits(first, second)
   end)
end

--- Draws who and what a sentence is about.
-- @tparam random rng
-- @tparam boolean held_out which side of the line both pairs lie on
-- @treturn table role -> word: people a b, things x y of different kinds k l, colours c d,
--    cities p q, actions u v, deeds m n
function world.draw(rng, held_out)
   local role = {}
   role.a, role.b = pick_pair(rng, world.people, held_out, function() return true end)
   role.x, role.y = pick_pair(rng, world.things, held_out, function(one, other)
      return world.kind_of[one] ~= world.kind_of[other]
   end)
   role.k, role.l = world.kind_of[role.x], world.kind_of[role.y]
   role.c, role.d = pick_two(rng, world.colours)
   role.p, role.q = pick_two(rng, world.cities)
   role.u, role.v = pick_two(rng, world.actions)
   role.m, role.n = pick_two(rng, world.deeds)
   return role
end

local lists_of_roles = {
   { "a", "b", list = world.people },
   { "x", "y", list = world.things },
   { "k", "l", list = kind_names },
   { "c", "d", list = world.colours },
   { "p", "q", list = world.cities },
   { "u", "v", list = world.actions },
   { "m", "n", list = world.deeds },
}

local list_of = {}
for _, roles in ipairs(lists_of_roles) do
   for _, name in ipairs(roles) do list_of[name] = roles.list end
end

local function is_stranger(word, role)
   for _, present in pairs(role) do
      if word == present then return false end
      local are_paired = position[word] and position[present]
      if are_paired and world.is_held_out(word, present) then return false end
   end
   return true
end

--- Another word for one role: none of those drawn, and no held-out partner of theirs.
function world.stranger(rng, role, name)
   local word
   repeat
      word = rng:pick(list_of[name])
   until is_stranger(word, role)
   return word
end

return world
