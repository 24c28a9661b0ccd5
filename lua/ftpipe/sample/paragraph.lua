--- Paragraphs of the sample world: facts about different people whose words all differ, so that
-- what is asked about one of them has one answer.
--
-- Each sentence lies on one side of the line that world.lua draws between what training may see of
-- people with what they have or do, and what it may not.

local facts = require("ftpipe.sample.facts")
local world = require("ftpipe.sample.world")

local paragraph = {}

-- The lists that roles are drawn from; k follows from x.
local LISTS = {
   a = world.people, u = world.actions, p = world.cities, m = world.deeds, c = world.colours,
   x = world.things,
}

-- The roles of a fact in the order in which they are drawn.
local ROLES = {
   actions = { "a", "u", "p" },
   deeds = { "a", "x", "m", "c", "p" },
   belongings = { "a", "x", "c" },
}

local IS_PARTNER = { x = true, u = true }

--- A word that no fact of the paragraph has, nil when there is none.
local function draw_word(rng, role, name, held_out, used)
   local free = {}
   for _, word in ipairs(LISTS[name]) do
      local fits = not IS_PARTNER[name] or world.is_held_out(role.a, word) == held_out
      if fits and not used[word] and not used[world.kind_of[word]] then free[#free + 1] = word end
   end
   return free[1] and rng:pick(free)
end

--- Roles of one fact, nil when the words that are left do not make any.
local function draw_role(rng, fact, held_out, used)
   local role = {}
   for _, name in ipairs(ROLES[fact.name]) do
      role[name] = draw_word(rng, role, name, held_out, used)
      if not role[name] then return nil end
      used[role[name]] = true
   end
   if role.x then
      role.k = world.kind_of[role.x]
      used[role.k] = true
   end
   return role
end

local function try_draw(rng, count, held_out)
   local list, used = {}, {}
   for i = 1, count do
      local fact = rng:pick(facts.list)
      local role = draw_role(rng, fact, held_out, used)
      if not role then return nil end
      list[i] = { fact = fact, role = role, premise = rng:pick(fact.premises) }
   end
   return list
end

--- Draws a paragraph.
-- @tparam random rng
-- @tparam int count sentences, at most 4: there are no more kinds of things
-- @tparam boolean held_out the side of the line
-- @treturn {table,...} told facts: { fact = of facts.list, role = words by role, premise = the
--    template that tells it, text = the sentence, at = the byte of the paragraph where it starts }
-- @treturn string the paragraph
function paragraph.draw(rng, count, held_out)
   local list
   repeat
      list = try_draw(rng, count, held_out)
   until list
   local sentences, at = {}, 1
   for i, told in ipairs(list) do
      told.text, told.at = facts.fill(told.premise, told.role), at
      sentences[i] = told.text
      at = at + #told.text + 1
   end
   return list, table.concat(sentences, " ")
end

--- Where words stand in a told fact, as SQuAD's answers are: their text and its place.
-- @tparam table told of `draw`
-- @tparam string words
-- @treturn table { text =, at = byte of the paragraph }, nil when the sentence does not have them
function paragraph.find(told, words)
   local at = told.text:find("%f[%w]" .. words .. "%f[%W]")
   return at and { text = words, at = told.at + at - 1 }
end

return paragraph
