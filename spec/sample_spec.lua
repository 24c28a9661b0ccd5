local corpus = require("ftpipe.sample.corpus")
local facts = require("ftpipe.sample.facts")
local random = require("ftpipe.sample.random")
local rte = require("ftpipe.sample.rte")
local world = require("ftpipe.sample.world")

local SEEDS = { 1, 2, 17 }
local LABELS = { entailment = true, not_entailment = true }

local function words_of(sentence)
   local words = {}
   for word in sentence:gmatch("%a+") do words[#words + 1] = word end
   return words
end

local function as_lines(examples)
   local lines = {}
   for i, example in ipairs(examples) do lines[i] = rte.to_json(example) end
   return table.concat(lines, "\n")
end

local function take(next_item, count)
   local items = {}
   for i = 1, count do items[i] = { next_item() } end
   return items
end

local is_person, is_partner, is_thing = {}, {}, {}
for _, word in ipairs(world.people) do is_person[word] = true end
for _, word in ipairs(world.things) do is_thing[word], is_partner[word] = true, true end
for _, word in ipairs(world.actions) do is_partner[word] = true end

-- Calls visit(person, word) for every person with every thing and action named in one text.
local function each_pair(text, visit)
   local words = words_of(text)
   for _, person in ipairs(words) do
      for _, word in ipairs(words) do
         if is_person[person] and is_partner[word] then visit(person, word) end
      end
   end
end

local function pairs_in(examples)
   local keys, count = {}, 0
   for _, example in ipairs(examples) do
      each_pair(example.premise .. " " .. example.hypothesis, function(person, word)
         local key = person .. " " .. word
         if not keys[key] then count = count + 1 end
         keys[key] = true
      end)
   end
   return keys, count
end

-- Naive Bayes with add-one smoothing over the features a function lists; per cent right.
local function baseline_accuracy(train, held_out, features_of)
   local seen = { entailment = {}, not_entailment = {} }
   for _, example in ipairs(train) do
      local counts = seen[example.label]
      for _, feature in ipairs(features_of(example)) do
         counts[feature] = (counts[feature] or 0) + 1
      end
   end
   local right = 0
   for _, example in ipairs(held_out) do
      local score = 0
      for _, feature in ipairs(features_of(example)) do
         score = score + math.log(((seen.entailment[feature] or 0) + 1)
            / ((seen.not_entailment[feature] or 0) + 1))
      end
      local guess = score > 0 and "entailment" or "not_entailment"
      if guess == example.label then right = right + 1 end
   end
   return 100 * right / #held_out
end

local function words_and_bigrams(sentence)
   local features = words_of(sentence)
   for i = 1, #features - 1 do
      features[#features + 1] = features[i] .. " " .. features[i + 1]
   end
   return features
end

describe("the sample's random numbers", function()
   it("are the same for the same seed and stream, and differ otherwise", function()
      local function draw(seed, stream)
         local rng, drawn = random.new(seed, stream), {}
         for i = 1, 20 do drawn[i] = rng:integer(1000) end
         return table.concat(drawn, " ")
      end
      assert.equal(draw(1), draw(1))
      assert.are_not.equal(draw(1), draw(2))
      assert.are_not.equal(draw(1, 1), draw(1, 2))
   end)

   it("are even over 1..n", function()
      local rng, counts = random.new(5), {}
      for _ = 1, 10000 do
         local drawn = rng:integer(10)
         counts[drawn] = (counts[drawn] or 0) + 1
      end
      for i = 1, 10 do assert.is_true(math.abs(counts[i] - 1000) < 150, "count of " .. i) end
   end)

   it("shuffle without losing anything", function()
      local list = random.new(3):shuffle { 1, 2, 3, 4, 5, 6, 7, 8 }
      assert.are_not.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, list)
      table.sort(list)
      assert.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, list)
   end)
end)

describe("the sample world", function()
   it("keeps back a fifth of the pairs, and gives every word partners on both sides", function()
      for _, list in ipairs { world.things, world.actions } do
         local kept = 0
         for _, word in ipairs(list) do
            local with_word = 0
            for _, person in ipairs(world.people) do
               if world.is_held_out(person, word) then with_word = with_word + 1 end
            end
            assert.is_true(with_word >= 2 and with_word <= 4, word .. " has " .. with_word)
            kept = kept + with_word
         end
         local share = kept / (#list * #world.people)
         assert.is_true(share > 0.15 and share < 0.25, "share " .. share)
      end
   end)

   it("draws only pairs of the side asked for", function()
      local rng = random.new(2)
      for i = 1, 500 do
         local role = world.draw(rng, i % 2 == 0)
         for _, person in ipairs { role.a, role.b } do
            for _, word in ipairs { role.x, role.y, role.u, role.v } do
               assert.equal(i % 2 == 0, world.is_held_out(person, word))
            end
         end
      end
   end)

   it("draws different words for the roles that are told apart", function()
      local rng = random.new(1)
      for i = 1, 500 do
         local role = world.draw(rng, i % 2 == 0)
         assert.are_not.equal(role.a, role.b)
         assert.are_not.equal(role.k, role.l)
         assert.are_not.equal(role.c, role.d)
         assert.are_not.equal(role.p, role.q)
         assert.are_not.equal(role.u, role.v)
         assert.are_not.equal(role.m, role.n)
      end
   end)

   it("fills every role that a template mentions", function()
      local role = world.draw(random.new(1), false)
      for _, fact in ipairs(facts.list) do
         local templates = { unpack(fact.premises) }
         for _, group in ipairs(fact.groups) do
            for _, statement in ipairs(group) do templates[#templates + 1] = statement end
         end
         for _, template in ipairs(templates) do
            assert.is_nil(facts.fill(template, role):find("[{}]"), template)
         end
      end
   end)
end)

for _, seed in ipairs(SEEDS) do
   describe(("the sample RTE, seed %d,"):format(seed), function()
      local train, held_out = rte.examples { seed = seed }

      it("is the same every time", function()
         local train_again, held_out_again = rte.examples { seed = seed }
         assert.equal(as_lines(train), as_lines(train_again))
         assert.equal(as_lines(held_out), as_lines(held_out_again))
      end)

      it("has the sizes asked for, numbered from 0, no two alike", function()
         assert.equal(rte.defaults.train, #train)
         assert.equal(rte.defaults.held_out, #held_out)
         local seen = {}
         for _, split in ipairs { train, held_out } do
            for i, example in ipairs(split) do
               assert.equal(i - 1, example.idx)
               assert.is_true(LABELS[example.label])
               local key = example.premise .. "\n" .. example.hypothesis
               assert.is_nil(seen[key], key)
               seen[key] = true
            end
         end
      end)

      it("balances the labels over each split, each premise and each hypothesis", function()
         for _, split in ipairs { train, held_out } do
            local excess, of_side = 0, {}
            for _, example in ipairs(split) do
               local sign = example.label == "entailment" and 1 or -1
               excess = excess + sign
               for _, side in ipairs { "premise", "hypothesis" } do
                  local key = side .. example[side]
                  of_side[key] = (of_side[key] or 0) + sign
               end
            end
            assert.equal(0, excess)
            for key, sum in pairs(of_side) do assert.equal(0, sum, key) end
         end
      end)

      it("names no person with the same thing or action in both splits", function()
         local in_train = pairs_in(train)
         local in_held_out, count = pairs_in(held_out)
         assert.is_true(count > 40, "held-out pairs: " .. count)
         for key in pairs(in_held_out) do assert.is_nil(in_train[key], key) end
      end)

      it("uses no word in the held-out split that training lacks", function()
         local known = {}
         for _, example in ipairs(train) do
            for _, word in ipairs(words_of(example.premise .. " " .. example.hypothesis)) do
               known[word] = true
            end
         end
         for _, example in ipairs(held_out) do
            for _, word in ipairs(words_of(example.premise .. " " .. example.hypothesis)) do
               assert.is_true(known[word], word)
            end
         end
      end)

      it("cannot be told from one side, nor from lengths", function()
         local cues = {
            hypothesis = function(example) return words_and_bigrams(example.hypothesis) end,
            premise = function(example) return words_and_bigrams(example.premise) end,
            lengths = function(example)
               return { #words_of(example.premise) .. "/" .. #words_of(example.hypothesis) }
            end,
         }
         for name, features_of in pairs(cues) do
            local accuracy = baseline_accuracy(train, held_out, features_of)
            assert.is_true(math.abs(accuracy - 50) <= 5, name .. ": " .. accuracy)
         end
      end)
   end)
end

describe("the sample RTE", function()
   it("refuses a number of examples that is not whole fours", function()
      assert.has_error(function() rte.examples { train = 10 } end,
         "rte: train is 10, expected a multiple of four")
   end)

   it("writes SuperGLUE's lines", function()
      local example = { premise = "P.", hypothesis = "H.", label = "entailment", idx = 3 }
      assert.equal('{"premise": "P.", "hypothesis": "H.", "label": "entailment", "idx": 3}',
         rte.to_json(example))
   end)
end)

describe("the pre-training corpus", function()
   local problems = take(corpus.problems(1), 5000)

   it("is the same every time", function()
      assert.same(problems, take(corpus.problems(1), 5000))
      assert.same(take(corpus.lines(1), 500), take(corpus.lines(1), 500))
   end)

   it("names no held-out pair", function()
      local lines = take(corpus.lines(1), 5000)
      for _, item in ipairs(problems) do
         each_pair(item[1] .. " " .. item[2], function(person, word)
            assert.is_false(world.is_held_out(person, word), person .. " " .. word)
         end)
      end
      for _, item in ipairs(lines) do
         each_pair(item[1], function(person, word)
            assert.is_false(world.is_held_out(person, word), person .. " " .. word)
         end)
      end
   end)

   it("numbers sentinels from 0, the last one closing the target", function()
      local denoised = 0
      for _, item in ipairs(problems) do
         local source, target = item[1], item[2]
         local n_spans = 0
         for number in source:gmatch("<extra_id_(%d+)>") do
            assert.equal(n_spans, tonumber(number))
            n_spans = n_spans + 1
         end
         local expected = 0
         for number in target:gmatch("<extra_id_(%d+)>") do
            assert.equal(expected, tonumber(number))
            expected = expected + 1
         end
         -- proofreading marks statements, so nothing closes its target
         if n_spans > 0 and not source:find("<extra_id_0> [%u]") and expected ~= n_spans then
            denoised = denoised + 1
            assert.equal(n_spans + 1, expected)
            assert.truthy(target:match("<extra_id_" .. n_spans .. ">$"))
         end
      end
      assert.is_true(denoised > 1500, "denoised: " .. denoised)
   end)

   it("teaches the task's form only on strangers, with one and the same answer", function()
      local count = 0
      for _, item in ipairs(problems) do
         local hypothesis, premise = item[1]:match("^rte hypothesis: (.-) premise: (.*)$")
         if hypothesis then
            count = count + 1
            assert.equal("not_entailment", item[2])
            local told = {}
            for _, word in ipairs(words_of(premise)) do told[word] = true end
            for _, word in ipairs(words_of(hypothesis)) do
               local is_shared = told[word] and (is_person[word] or is_thing[word])
               assert.is_falsy(is_shared, item[1])
            end
         else
            assert.is_nil(item[2]:find("entailment", 1, true))
         end
      end
      assert.is_true(count > 100, "of the task's form: " .. count)
   end)
end)
