--- Which colour has it? A task of one's own is one file: what it is called, which files hold its
-- data, how a row becomes an example, what counts, and, if it likes, a sample.
--
-- A row of colour/train.jsonl, or of the sample:
--    { "story": "Ben has a red kite.", "thing": "kite", "colour": "red" }

local ft = require("ftpipe")

local PEOPLE = { "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Henry" }
local THINGS = { "kite", "ball", "doll", "pear", "hammer", "saw", "coat", "scarf", "shirt" }
local COLOURS = { "red", "blue", "green", "yellow", "black", "white" }

--- Two people with a thing each, and one of the things; every fifth row is held out.
local function sample()
   local train, held_out = {}, {}
   local n = #THINGS * #COLOURS
   for i = 0, 24 * n - 1 do
      local function pick(list, offset) return list[(i + offset) % #list + 1] end
      local one, other = pick(THINGS, 0), pick(THINGS, 1 + math.floor(i / n))
      local colour, wrong = pick(COLOURS, math.floor(i / 9)), pick(COLOURS, 1 + math.floor(i / 54))
      local told = { ("%s has a %s %s."):format(pick(PEOPLE, 0), colour, one),
         ("%s has a %s %s."):format(pick(PEOPLE, 3), wrong, other) }
      local rows = i % 5 == 4 and held_out or train
      rows[#rows + 1] = {
         story = told[i % 2 + 1] .. " " .. told[2 - i % 2], thing = one, colour = colour,
      }
   end
   return train, held_out
end

local answers = {}
for i, colour in ipairs(COLOURS) do answers[i] = { label = colour, target = colour } end

return ft.task.define {
   kind = "text2text",
   name = "colour",
   answers = answers,
   label = "colour",
   layouts = {
      {
         name = "JSON lines",
         train = "train.jsonl",
         eval = "val.jsonl",
         template = "question: Which colour has the {thing}? paragraph: {story}",
      },
   },
   metric = "accuracy",
   max_source = 64,
   max_target = 4,
   sample = sample,
}
