local cloze = require("ftpipe.sample.cloze")
local core = require("ftpipe.core")
local corpus = require("ftpipe.sample.corpus")
local facts = require("ftpipe.sample.facts")
local files = require("spec.support.files")
local paragraph = require("ftpipe.sample.paragraph")
local process = require("spec.support.process")
local random = require("ftpipe.base.random")
local squad = require("ftpipe.sample.squad")
local wikitext2 = require("ftpipe.sample.wikitext2")
local world = require("ftpipe.sample.world")

local SEEDS = { 1, 17 }

local is_person, is_partner = {}, {}
for _, word in ipairs(world.people) do is_person[word] = true end
for _, list in ipairs { world.things, world.actions } do
   for _, word in ipairs(list) do is_partner[word] = true end
end

--- Calls visit(person, word) for every person with every thing and action of a text.
local function each_pair(text, visit)
   local words = {}
   for word in text:gmatch("%a+") do words[#words + 1] = word end
   for _, person in ipairs(words) do
      for _, word in ipairs(words) do
         if is_person[person] and is_partner[word] then visit(person, word) end
      end
   end
end

--- Every pair of a text lies on one side of the line; how many there are.
local function count_pairs(text, held_out)
   local count = 0
   each_pair(text, function(person, word)
      count = count + 1
      if world.is_held_out(person, word) ~= held_out then
         error(("%s and %s in: %s"):format(person, word, text))
      end
   end)
   return count
end

local function sentences_of(context) return context:gmatch("[^.]+%.") end

local function check_answer(question)
   local answer = question.answers[1]
   assert.equal(1, #question.answers)
   local there = question.context:sub(answer.at, answer.at + #answer.text - 1)
   if there ~= answer.text then error(("'%s' in '%s'"):format(answer.text, question.context)) end
end

describe("the sample's paragraphs", function()
   it("tell facts whose words all differ", function()
      local rng = random.new(1)
      for i = 1, 500 do
         local list, text = paragraph.draw(rng, 4, i % 2 == 0)
         local seen, from = {}, 1
         assert.equal(4, #list)
         for _, told in ipairs(list) do
            assert.equal(from, told.at)
            assert.equal(told.text, text:sub(told.at, told.at + #told.text - 1))
            from = from + #told.text + 1
            for _, word in pairs(told.role) do
               assert.is_nil(seen[word], word)
               seen[word] = true
            end
         end
      end
   end)

   it("place words, not parts of words", function()
      local told = { text = "Fred has a red kite.", at = 11 }
      assert.same({ text = "red kite", at = 22 }, paragraph.find(told, "red kite"))
      assert.is_nil(paragraph.find(told, "kit"))
   end)
end)

for _, seed in ipairs(SEEDS) do
   describe(("the sample SQuAD, seed %d,"):format(seed), function()
      local train, held_out = squad.examples { seed = seed }

      it("is the same every time, of the sizes asked for, no two questions alike", function()
         local train_again, held_out_again = squad.examples { seed = seed }
         assert.same(held_out, held_out_again)
         assert.same(train[#train], train_again[#train])
         assert.equal(squad.defaults.train, #train)
         assert.equal(squad.defaults.held_out, #held_out)
         local seen = {}
         for _, split in ipairs { train, held_out } do
            for _, question in ipairs(split) do
               for _, key in ipairs { question.id, question.text .. "\n" .. question.context } do
                  if seen[key] then error("twice: " .. key) end
                  seen[key] = true
               end
            end
         end
      end)

      it("has its answers where it says", function()
         for _, split in ipairs { train, held_out } do
            for _, question in ipairs(split) do check_answer(question) end
         end
      end)

      it("joins people in held-out sentences with what no training sentence has", function()
         local count = 0
         for i, split in ipairs { train, held_out } do
            for _, question in ipairs(split) do
               for sentence in sentences_of(question.context) do
                  count = count + count_pairs(sentence, i == 2)
               end
               count_pairs(question.text .. " " .. question.answers[1].text, i == 2)
            end
         end
         assert.is_true(count > #train)
      end)

      it("asks for one of several words of each kind, any of which comes first", function()
         -- Reading off what stands first of the answer's kind is right by chance alone.
         local right, counted = 0, 0
         for _, question in ipairs(held_out) do
            local answer = question.answers[1].text
            if is_person[answer] then
               for word in question.context:gmatch("%a+") do
                  if is_person[word] then
                     counted, right = counted + 1, right + (word == answer and 1 or 0)
                     break
                  end
               end
            end
         end
         assert.is_true(counted > 50)
         assert.is_true(right / counted < 0.4, "share " .. right / counted)
      end)
   end)

   describe(("the sample articles, seed %d,"):format(seed), function()
      local train, held_out = wikitext2.examples { seed = seed }

      it("are the same every time", function()
         assert.same({ { train, held_out } }, { { wikitext2.examples { seed = seed } } })
      end)

      it("join people in held-out articles with what no training article has", function()
         for i, split in ipairs { train, held_out } do
            local articles = 0
            local marked = split[1].text:gsub("( = %a+ = \n)", "\1%1")
            for article in marked:gmatch("\1([^\1]+)") do
               assert.is_true(count_pairs(article, i == 2) > 10)
               articles = articles + 1
            end
            assert.equal(i == 1 and wikitext2.defaults.train or wikitext2.defaults.held_out,
               articles)
         end
      end)

      it("have WikiText's form", function()
         for line in held_out[1].text:gmatch("[^\n]*\n") do assert.matches("^ .*\n$", line) end
         assert.is_nil(held_out[1].text:find("{", 1, true))
      end)
   end)
end

describe("the sample SQuAD", function()
   it("refuses a number of questions that is not whole paragraphs", function()
      assert.has_error(function() squad.examples { held_out = 10 } end,
         "squad: held_out is 10, expected a multiple of four")
   end)

   it("has questions that their facts answer, however they are told", function()
      for _, fact in ipairs(facts.list) do
         for _, premise in ipairs(fact.premises) do
            for _, question in ipairs(squad.questions[fact.name]) do
               assert.truthy(premise:find(question[2], 1, true), premise .. " " .. question[1])
            end
         end
      end
   end)
end)

describe("what the tiny models are pre-trained on", function()
   it("is the same every time", function()
      local one, other = cloze.problems(1), cloze.problems(1)
      local passage, same = corpus.passages(1), corpus.passages(1)
      for _ = 1, 100 do
         assert.same(one(), other())
         assert.equal(passage(), same())
      end
   end)

   it("names no held-out pair, and asks for words that stand in the paragraph", function()
      local next_problem, next_passage = cloze.problems(1), corpus.passages(1)
      for _ = 1, 3000 do
         local problem = next_problem()
         check_answer(problem)
         local filled, blanks = problem.text:gsub("%[MASK%]", problem.answers[1].text)
         assert.equal(1, blanks)
         assert.is_nil(problem.text:find("^%[MASK%]%.$"))
         count_pairs(filled, false)
         for sentence in sentences_of(problem.context) do count_pairs(sentence, false) end
         count_pairs(next_passage(), false)
      end
   end)
end)

describe("tools/make_vocabulary.lua", function()
   local MADE = { gpt2 = { "vocab.json", "merges.txt" }, bert = { "vocab.txt" } }

   it("makes the embedded vocabularies", function()
      if core.sanitized then return pending("takes long under sanitizers") end
      for family, names in pairs(MADE) do
         files.in_directory(function(dir)
            local _, err, exit = process.ftpipe { "tools/make_vocabulary.lua", family, dir }
            assert.equal(0, exit, err)
            for _, name in ipairs(names) do
               local made = core.sys.read_file(dir .. "/" .. name)
               assert.is_true(core.asset(family .. "_tiny/" .. name) == made, name)
            end
         end)
      end
   end)
end)
