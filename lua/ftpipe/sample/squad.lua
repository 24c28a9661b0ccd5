--- The sample task: questions about paragraphs, as the reader of SQuAD v1.1 files gives them.

local facts = require("ftpipe.sample.facts")
local paragraph = require("ftpipe.sample.paragraph")
local random = require("ftpipe.base.random")

local squad = {}

squad.defaults = { seed = 1, train = 3200, held_out = 400 }

local SENTENCES = 4 -- of a paragraph; one question about each

-- Streams of the seed.
local STREAM = { train = 21, held_out = 22 }

-- What people do, as questions with "did" have it.
local PLAIN = {
   sang = "sing", danced = "dance", slept = "sleep", cooked = "cook", waited = "wait",
   laughed = "laugh", worked = "work", rested = "rest", walked = "walk", smiled = "smile",
   sold = "sell", bought = "buy", found = "find", lost = "lose", made = "make", mended = "mend",
}

--- By fact: questions and what answers them. {U} and {M} are {u} and {m} as PLAIN has them.
squad.questions = {
   actions = {
      { "Who {u} in {p}?", "{a}" },
      { "Who was in {p}?", "{a}" },
      { "Which person {u}?", "{a}" },
      { "In which city was {a}?", "{p}" },
      { "Where did {a} {U}?", "{p}" },
      { "What did {a} do in {p}?", "{u}" },
   },
   deeds = {
      { "Who {m} a {x}?", "{a}" },
      { "Who {m} the {c} {k}?", "{a}" },
      { "Who was in {p}?", "{a}" },
      { "What did {a} {M}?", "{c} {x}" },
      { "What was {m} in {p}?", "{c} {x}" },
      { "Where was the {x} {m}?", "{p}" },
      { "Where did {a} {M} a {k}?", "{p}" },
      { "What colour was the {x}?", "{c}" },
   },
   belongings = {
      { "Who has a {x}?", "{a}" },
      { "To whom does the {k} belong?", "{a}" },
      { "What colour is the {x}?", "{c}" },
      { "What colour is the {k} of {a}?", "{c}" },
      { "Which {k} does {a} have?", "{x}" },
      { "Which {k} is {c}?", "{x}" },
   },
}

local function ask(rng, told, context, id)
   local role = setmetatable({ U = PLAIN[told.role.u], M = PLAIN[told.role.m] },
      { __index = told.role })
   local question = rng:pick(squad.questions[told.fact.name])
   return {
      id = id,
      text = facts.fill(question[1], role),
      context = context,
      answers = { paragraph.find(told, facts.fill(question[2], role)) },
   }
end

local function make_split(seed, name, count, held_out)
   local rng, rows = random.new(seed, STREAM[name]), {}
   while #rows < count do
      local list, context = paragraph.draw(rng, SENTENCES, held_out)
      for _, told in ipairs(rng:shuffle(list)) do
         rows[#rows + 1] = ask(rng, told, context, ("%s-%05d"):format(name, #rows + 1))
      end
   end
   return rows
end

--- Makes both splits.
-- @tparam[opt] table options `seed`, and the numbers of questions `train` and `held_out`,
--    multiples of four
-- @treturn {table,...} training questions { id =, text =, context =, answers = { { text =, at = } }
--    }; the four of a paragraph follow each other
-- @treturn {table,...} held-out questions, whose people and things meet in no training sentence
-- @usage local train, held_out = squad.examples { seed = 1 }
function squad.examples(options)
   options = options or {}
   local seed = options.seed or squad.defaults.seed
   local function split(name, held_out)
      local count = options[name] or squad.defaults[name]
      if count % SENTENCES ~= 0 then
         error(("squad: %s is %d, expected a multiple of four"):format(name, count), 3)
      end
      return make_split(seed, name, count, held_out)
   end
   return split("train", false), split("held_out", true)
end

return squad
