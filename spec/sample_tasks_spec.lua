--- The sample data of every task: balanced, told by no part alone, new in its held-out split.

local sample = require("spec.support.sample")
local world = require("ftpipe.sample.world")

local SEEDS = { 1, 17 }

--- Sentences of a text, one by one.
local function sentences_of(text)
   local list = {}
   for sentence in text:gmatch("[^.]+") do list[#list + 1] = sentence end
   return list
end

-- For every task: `examples(row)`, a list of { label = boolean, parts = texts by name, told = texts
-- that each speak of one thing }; `balanced`, parts over each of which labels are even.
local TASKS = {
   rte = {
      balanced = { "premise", "hypothesis" },
      examples = function(row)
         return { {
            label = row.label == "entailment",
            parts = { premise = row.premise, hypothesis = row.hypothesis },
            told = { row.premise .. " " .. row.hypothesis },
         } }
      end,
   },
   wic = {
      balanced = { "sentence1", "sentence2" },
      examples = function(row)
         return { {
            label = row.label,
            parts = { sentence1 = row.sentence1, sentence2 = row.sentence2, word = row.word },
            told = { row.sentence1 .. " " .. row.sentence2 },
         } }
      end,
   },
   boolq = {
      balanced = { "passage", "question" },
      examples = function(row)
         return { {
            label = row.label,
            parts = { passage = row.passage, question = row.question },
            told = { row.question, unpack(sentences_of(row.passage)) },
         } }
      end,
   },
   multirc = {
      balanced = { "asked" },
      examples = function(row)
         local list = {}
         for _, question in ipairs(row.passage.questions) do
            for _, answer in ipairs(question.answers) do
               local asked = question.question .. " " .. answer.text
               list[#list + 1] = {
                  label = answer.label == 1,
                  parts = { paragraph = row.passage.text, asked = asked },
                  told = { asked, unpack(sentences_of(row.passage.text)) },
               }
            end
         end
         return list
      end,
   },
}

--- All parts of an example in one text.
local function whole(example)
   local names, texts = {}, {}
   for name in pairs(example.parts) do names[#names + 1] = name end
   table.sort(names)
   for i, name in ipairs(names) do texts[i] = example.parts[name] end
   return table.concat(texts, " | ")
end

local function examples_of(task, rows)
   local list = {}
   for _, row in ipairs(rows) do
      for _, example in ipairs(task.examples(row)) do list[#list + 1] = example end
   end
   return list
end

local function describe_split(name, seed)
   local task, module = TASKS[name], require("ftpipe.sample." .. name)
   local train_rows, held_out_rows = module.examples { seed = seed }
   local train = examples_of(task, train_rows)
   local held_out = examples_of(task, held_out_rows)

   it("is the same every time", function()
      local train_again, held_out_again = module.examples { seed = seed }
      assert.same(train_rows, train_again)
      assert.same(held_out_rows, held_out_again)
   end)

   it("has the sizes asked for, rows numbered from 0, no two examples alike", function()
      assert.equal(module.defaults.train, #train_rows)
      assert.equal(module.defaults.held_out, #held_out_rows)
      for i, row in ipairs(held_out_rows) do assert.equal(i - 1, row.idx) end
      assert.is_true(#train >= 2900 and #train <= 3300, "train: " .. #train)
      assert.is_true(#held_out >= 360 and #held_out <= 440, "held out: " .. #held_out)
      local seen = {}
      for _, split in ipairs { train, held_out } do
         for _, example in ipairs(split) do
            local key = whole(example)
            assert(not seen[key], key)
            seen[key] = true
         end
      end
   end)

   it("balances the labels, over each text too", function()
      for _, split in ipairs { train, held_out } do
         local excess, of_text = 0, {}
         for _, example in ipairs(split) do
            local sign = example.label and 1 or -1
            excess = excess + sign
            for _, part in ipairs(task.balanced) do
               local key = part .. ": " .. example.parts[part]
               of_text[key] = (of_text[key] or 0) + sign
            end
         end
         assert.equal(0, excess)
         for key, sum in pairs(of_text) do assert(sum == 0, key) end
      end
   end)

   it("joins people with things and actions in the held-out split as training never does",
      function()
         local wrong, keys, count = {}, {}, 0
         local function expect(text, is_held_out)
            sample.each_pair(text, function(person, word)
               local key = person .. " " .. word
               if world.is_held_out(person, word) ~= is_held_out then wrong[#wrong + 1] = key end
               if is_held_out and not keys[key] then keys[key], count = true, count + 1 end
            end)
         end
         for _, example in ipairs(train) do expect(whole(example), false) end
         for _, example in ipairs(held_out) do
            for _, text in ipairs(example.told) do expect(text, true) end
         end
         assert.same({}, wrong)
         assert.is_true(count > 40, "held-out pairs: " .. count)
      end)

   it("uses no word in the held-out split that training lacks", function()
      local known = {}
      for _, example in ipairs(train) do
         for _, word in ipairs(sample.words_of(whole(example))) do known[word] = true end
      end
      for _, example in ipairs(held_out) do
         for _, word in ipairs(sample.words_of(whole(example))) do
            assert(known[word], word)
         end
      end
   end)

   it("cannot be told from one part, from all words in a bag, nor from lengths", function()
      local cues = { ["all words"] = whole }
      for part in pairs(held_out[1].parts) do
         cues[part] = function(example) return example.parts[part] end
      end
      cues.lengths = function(example)
         return ("x"):rep(#sample.words_of(whole(example)))
      end
      for cue, text_of in pairs(cues) do
         local accuracy = sample.baseline_accuracy(train, held_out, text_of)
         assert.is_true(math.abs(accuracy - 50) <= 6, cue .. ": " .. accuracy)
      end
   end)
end

for name in pairs(TASKS) do
   for _, seed in ipairs(SEEDS) do
      describe(("the sample of %s, seed %d,"):format(name, seed), function()
         describe_split(name, seed)
      end)
   end

   describe(("the sample of %s"):format(name), function()
      it("refuses a number of rows that is not whole groups", function()
         local module = require("ftpipe.sample." .. name)
         assert.has_error(function() module.examples { train = 2 * module.size + 1 } end,
            ("%s: train is %d, expected a multiple of %d"):format(name, 2 * module.size + 1,
               module.size))
      end)
   end)
end

describe("the sample of wic", function()
   it("says where the word stands, in characters from 0", function()
      for _, row in ipairs((require("ftpipe.sample.wic").examples())) do
         assert.equal(row.word, row.sentence1:sub(row.start1 + 1, row.end1))
         assert.equal(row.word, row.sentence2:sub(row.start2 + 1, row.end2))
      end
   end)
end)

describe("the sample of multirc", function()
   it("has questions with any number of right answers, numbered over the split", function()
      local n_questions, n_answers, of_right = 0, 0, {}
      for _, row in ipairs((require("ftpipe.sample.multirc").examples())) do
         for _, question in ipairs(row.passage.questions) do
            assert.equal(n_questions, question.idx)
            n_questions = n_questions + 1
            local right = 0
            for _, answer in ipairs(question.answers) do
               assert.equal(n_answers, answer.idx)
               n_answers, right = n_answers + 1, right + answer.label
            end
            assert.is_true(#question.answers >= 2 and #question.answers <= 4)
            of_right[right] = (of_right[right] or 0) + 1
         end
      end
      for right = 0, 3 do assert.is_true((of_right[right] or 0) > 20, right .. " right") end
   end)
end)

-- The embedded model's vocabulary has all of it.
describe("the tokenizer inside the program", function()
   it("spells no word of the samples letter by letter", function()
      local tokenizer = require("spec.support.task_files").tokenizer()
      local seen = {}
      for name, task in pairs(TASKS) do
         for _, rows in ipairs { require("ftpipe.sample." .. name).examples() } do
            for _, example in ipairs(examples_of(task, rows)) do
               for _, word in ipairs(sample.words_of(whole(example))) do
                  if not seen[word] then assert.equal(1, #tokenizer:encode(word), word) end
                  seen[word] = true
               end
            end
         end
      end
   end)
end)
