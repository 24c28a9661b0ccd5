--- The sample task: sentence pairs in SuperGLUE's RTE format, made by the generator.
--
-- Examples come in fours that share their words (see facts.lua): two premises, two hypotheses,
-- every pairing. Labels are therefore balanced exactly, over each premise and each hypothesis too.

local facts = require("ftpipe.sample.facts")
local random = require("ftpipe.sample.random")

local rte = {}

rte.defaults = { seed = 1, train = 3200, held_out = 400 }

-- Streams of the seed.
local STREAM = { train = 1, held_out = 2 }

local function four_pairs(drawn)
   local mirrored = facts.mirror(drawn.role, drawn.swap)
   local premises = { facts.fill(drawn.premise, drawn.role), facts.fill(drawn.premise, mirrored) }
   local hypotheses = {
      facts.fill(drawn.statement, drawn.role),
      facts.fill(drawn.statement, mirrored),
   }
   local pairs_of_four = {}
   for i, premise in ipairs(premises) do
      for j, hypothesis in ipairs(hypotheses) do
         pairs_of_four[#pairs_of_four + 1] = {
            premise = premise,
            hypothesis = hypothesis,
            label = i == j and "entailment" or "not_entailment",
         }
      end
   end
   return pairs_of_four
end

local function is_new(seen, four)
   for _, example in ipairs(four) do
      if seen[example.premise .. "\n" .. example.hypothesis] then return false end
   end
   return true
end

local function make_split(rng, count, held_out)
   local examples, seen = {}, {}
   while #examples < count do
      local drawn = facts.draw(rng, held_out)
      -- A statement that repeats its premise word for word asks nothing.
      local four = four_pairs(drawn)
      if drawn.premise ~= drawn.statement and is_new(seen, four) then
         for _, example in ipairs(four) do
            seen[example.premise .. "\n" .. example.hypothesis] = true
            examples[#examples + 1] = example
         end
      end
   end
   rng:shuffle(examples)
   for i, example in ipairs(examples) do example.idx = i - 1 end
   return examples
end

--- Makes both splits.
-- @tparam[opt] table options `seed`, and the numbers of examples `train` and `held_out`,
--    multiples of four
-- @treturn table of train examples {premise, hypothesis, label, idx}
-- @treturn table of held-out examples, whose people and things meet in no train sentence
-- @usage local train, held_out = rte.examples { seed = 1 }
function rte.examples(options)
   options = options or {}
   local seed = options.seed or rte.defaults.seed
   local function split(name, held_out)
      local count = options[name] or rte.defaults[name]
      if count % 4 ~= 0 then
         error(("rte: %s is %d, expected a multiple of four"):format(name, count), 3)
      end
      return make_split(random.new(seed, STREAM[name]), count, held_out)
   end
   return split("train", false), split("held_out", true)
end

--- One example as a line of a jsonl file, keys in SuperGLUE's order. The words need no escapes.
function rte.to_json(example)
   return ('{"premise": "%s", "hypothesis": "%s", "label": "%s", "idx": %d}'):format(
      example.premise, example.hypothesis, example.label, example.idx)
end

return rte
