--- Is somebody glad or sad? Rows { "text": "Ben smiles.", "label": "glad" }.

local task = require("ftpipe.task")

local PEOPLE = { "Anna", "Ben", "Clara", "David", "Emma" }
local WORDS = { glad = { "red", "blue", "green" }, sad = { "kite", "ball", "coat" } }

local function sample()
   local train, held_out = {}, {}
   for i, person in ipairs(PEOPLE) do
      for _, label in ipairs { "glad", "sad" } do
         for _, word in ipairs(WORDS[label]) do
            local rows = i == #PEOPLE and held_out or train
            rows[#rows + 1] = { text = person .. " has a " .. word, label = label }
         end
      end
   end
   return train, held_out
end

return task.define {
   kind = "label",
   name = "mood",
   labels = { "glad", "sad" },
   layouts = { { name = "JSON lines", train = "train.jsonl", eval = "val.jsonl" } },
   max_source = 16,
   sample = sample,
}
