--- The sample of WiC: two sentences and a word that means one of two things in each, in SuperGLUE's
-- format.
--
-- Rows come in fours: a sentence for each sense of the word, twice, every pairing. Labels are
-- therefore balanced exactly, over each sentence too, and only both together tell.
--
-- The senses are such as the words of a class have in common (regular polysemy: Apresjan,
-- "Regular polysemy", Linguistics 142, 1974): what people do and, figuratively, things; a place and
-- the people of it.

local facts = require("ftpipe.sample.facts")
local groups = require("ftpipe.sample.groups")
local world = require("ftpipe.sample.world")

local wic = {
   name = "wic",
   size = 4,
   defaults = { seed = 1, train = 3200, held_out = 400 },
   streams = { train = 21, held_out = 22 },
}

--- Roles whose words have two senses: `others` is exchanged between the two sentences, so that they
-- share the word and little else; `senses` has a name and sentences for each.
wic.words = {
   {
      role = "u",
      others = { "a", "b", "x", "y", "k", "l", "c", "d", "p", "q", "m", "n" },
      senses = {
         {
            name = "someone",
            "{a} {u} in {p}.", "In {p} {a} {u} with a {x}.", "It was {a} who {u}.",
            "{a} {u} with a {c} {x}.",
         },
         {
            name = "something",
            "The {x} of {a} {u}.", "In {p} the {x} of {a} {u}.", "It was the {x} of {a} that {u}.",
            "The {c} {x} {u} with {a}.",
         },
      },
   },
   {
      role = "p",
      others = { "a", "b", "x", "y", "k", "l", "c", "d", "u", "v", "m", "n" },
      senses = {
         {
            name = "in",
            "{a} was in {p}.", "In {p} {a} {m} a {x}.", "{a} {u} in {p}.",
            "The {x} was {m} in {p} by {a}.",
         },
         {
            name = "people",
            "{p} {u} with {a}.", "{p} {m} the {x} of {a}.", "The {x} of {a} was {m} by {p}.",
            "It was {p} that {m} a {x} with {a}.",
         },
      },
   },
}

--- Draws a word and a sentence for each sense, twice.
-- @treturn table { word =, pairs = {{ one of the first sense, one of the second }, { the same with
--    other words }}, names = of the senses }
function wic.draw_senses(rng, held_out)
   local kind, role = rng:pick(wic.words), world.draw(rng, held_out)
   local drawn = { word = role[kind.role], pairs = {}, names = {} }
   for i, told in ipairs { role, facts.mirror(role, kind.others) } do
      drawn.pairs[i] = {}
      for s, sense in ipairs(kind.senses) do
         drawn.pairs[i][s], drawn.names[s] = facts.fill(rng:pick(sense), told), sense.name
      end
   end
   return drawn
end

--- Where a word stands in a sentence: of its first byte and of the one after it, counted from 0.
local function place(sentence, word)
   local first, last = sentence:find("%f[%a]" .. word .. "%f[%A]")
   return first - 1, last
end

--- Two sentences of each sense, every pairing.
function wic.draw(rng, held_out)
   local drawn, rows = wic.draw_senses(rng, held_out), {}
   for s, first in ipairs(drawn.pairs[1]) do
      for t, second in ipairs(drawn.pairs[2]) do
         local row = { word = drawn.word, sentence1 = first, sentence2 = second, label = s == t }
         row.start1, row.end1 = place(first, drawn.word)
         row.start2, row.end2 = place(second, drawn.word)
         rows[#rows + 1] = row
      end
   end
   return rows
end

function wic.key(row)
   return table.concat({ row.word, row.sentence1, row.sentence2 }, "\n")
end

--- Both splits, see groups.lua.
-- @treturn table of train rows {word, sentence1, sentence2, label, idx, start1, end1, start2, end2}
-- @treturn table of held-out rows
-- @usage local train, held_out = wic.examples { seed = 1 }
function wic.examples(options)
   return groups.examples(wic, options)
end

return wic
