--- The sample task: articles about the people of the sample world, in the form of WikiText-2.
--
-- The words are those of the other samples, the form is not: titles between equals signs,
-- sentences of clauses, marks set apart. An article says most things twice, so a model does well
-- that looks back; people with what they have and do are others in the held-out part.

local facts = require("ftpipe.sample.facts")
local random = require("ftpipe.base.random")
local world = require("ftpipe.sample.world")

local wikitext2 = {}

wikitext2.defaults = { seed = 1, train = 700, held_out = 80 }

-- Streams of the seed.
local STREAM = { train = 41, held_out = 42 }

-- The ways to tell each part of an article, in its order. Roles are those of world.draw.
wikitext2.parts = {
   lead = {
      "{a} of {p} is known for a {c} {x} , which {a} {m} in {q} . {b} , a friend , is known for"
         .. " a {d} {y} .",
      "Born in {p} , {a} is the owner of a {c} {x} that was {m} in {q} . A {d} {y} belongs to {b} ,"
         .. " the best friend of {a} .",
      "{a} ( born in {p} ) and {b} are friends . The {x} of {a} , which was {m} in {q} , is {c} ;"
         .. " the {y} of {b} is {d} .",
   },
   life = {
      "While {b} {v} in {q} , {a} {u} in {p} . Until that year nobody {u} there but {a} .",
      "In {p} , where {a} was born , {a} often {u} . At the same time {b} {v} in {q} , far from"
         .. " {p} .",
      "For years {a} {u} in {p} . Then both were seen in {q} , where {b} {v} and {a} {u} again .",
   },
   works = {
      "Like every {k} that was {m} in {q} , the {x} is {c} . The {d} {y} , on the other hand , is a"
         .. " {l} , and {b} {n} it in {p} .",
      "The {c} {x} is the only {k} which {a} ever {m} . As for {b} , it was in {p} that the {d} {y}"
         .. " , a {l} , was {n} .",
      "Two works are well known : a {k} and a {l} . The {k} is the {c} {x} that {a} {m} , the {l}"
         .. " is the {d} {y} that {b} {n} in {p} .",
   },
   legacy = {
      "Both the {c} {x} and the {d} {y} are kept in {q} , and not in {p} , where {a} {u} .",
      "Since then {b} has lived in {q} with the {d} {y} , and {a} in {p} with the {c} {x} .",
      "Today the {c} {x} of {a} is shown in {p} . The {d} {y} of {b} was lost while {b} {v} .",
   },
}

local SECTIONS = {
   { part = "life", titles = { "Life", "Early years" } },
   { part = "works", titles = { "Works", "Collection" } },
   { part = "legacy", titles = { "Legacy", "Later years" } },
}

--- Lines of an article, as WikiText-2 has them: a blank at each end, blank lines around titles.
local function add_article(lines, rng, held_out)
   local role = world.draw(rng, held_out)
   local function add(text) lines[#lines + 1] = " " .. facts.fill(text, role) .. " \n" end
   local function title(text)
      lines[#lines + 1] = " \n"
      add(text)
      lines[#lines + 1] = " \n"
   end
   title("= {a} =")
   add(rng:pick(wikitext2.parts.lead))
   for _, section in ipairs(SECTIONS) do
      title("= = " .. rng:pick(section.titles) .. " = =")
      add(rng:pick(wikitext2.parts[section.part]))
   end
end

--- A text of that many articles.
local function make_split(seed, name, count, held_out)
   local rng, lines = random.new(seed, STREAM[name]), {}
   for _ = 1, count do add_article(lines, rng, held_out) end
   return { { text = table.concat(lines) } }
end

--- Makes both splits.
-- @tparam[opt] table options `seed`, and the numbers of articles `train` and `held_out`
-- @treturn table training rows: a list of one { text = }
-- @treturn table held-out rows; people, things and actions that its articles join meet in no
--    training article
-- @usage local train, held_out = wikitext2.examples { seed = 1 }
function wikitext2.examples(options)
   options = options or {}
   local seed = options.seed or wikitext2.defaults.seed
   local function split(name, held_out)
      return make_split(seed, name, options[name] or wikitext2.defaults[name], held_out)
   end
   return split("train", false), split("held_out", true)
end

return wikitext2
