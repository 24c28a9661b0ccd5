local corpus = require("ftpipe.sample.corpus")
local facts = require("ftpipe.sample.facts")
local random = require("ftpipe.base.random")
local sample = require("spec.support.sample")
local world = require("ftpipe.sample.world")

local each_pair, words_of = sample.each_pair, sample.words_of

local function take(next_item, count)
   local items = {}
   for i = 1, count do items[i] = { next_item() } end
   return items
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
            for _, list in ipairs { group, group.asks, unpack(group.open) } do
               for _, template in ipairs(list) do templates[#templates + 1] = template end
            end
         end
         for _, template in ipairs(templates) do
            assert.is_nil(facts.fill(template, role):find("[{}]"), template)
         end
      end
   end)
end)

describe("a fact of the sample world", function()
   local function each_group(visit)
      for _, fact in ipairs(facts.list) do
         for _, group in ipairs(fact.groups) do visit(group, fact.name) end
      end
   end

   local function names_swapped(group, template)
      for _, name in ipairs(facts.roles_of(template)) do
         if facts.is_swapped(group, name) then return true end
      end
      return false
   end

   it("is asked for by naming what its mirror exchanges, or by leaving it open", function()
      each_group(function(group)
         for _, statement in ipairs(group) do assert.is_true(names_swapped(group, statement)) end
         for _, question in ipairs(group.asks) do
            assert.is_true(names_swapped(group, question), question)
         end
         for _, open in ipairs(group.open) do
            assert.is_false(names_swapped(group, open[1]), open[1])
            for i = 2, #open do assert.is_true(names_swapped(group, open[i]), open[i]) end
         end
      end)
   end)

   it("shares no word of weight with one that is drawn apart from it", function()
      local rng, common = random.new(4), { a = true, the = true, something = true, someone = true }
      for i = 1, 300 do
         local one, other = facts.draw_apart(rng, i % 2 == 0)
         local told = {}
         for _, role in ipairs { one.role, facts.mirror(one.role, one.swap) } do
            for _, text in ipairs { one.premise, one.statement } do
               for _, word in ipairs(words_of(facts.fill(text, role))) do told[word] = true end
            end
         end
         for _, name in ipairs(facts.roles_of(other.premise)) do
            local word = other.role[name]
            assert.is_falsy(told[word] and not common[word], word)
         end
      end
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

   it("numbers sentinels from 0; one more may close the target", function()
      local closed = 0
      for _, item in ipairs(problems) do
         local source, target = item[1], item[2]
         local n_spans, expected = 0, 0
         for number in source:gmatch("<extra_id_(%d+)>") do
            assert.equal(n_spans, tonumber(number))
            n_spans = n_spans + 1
         end
         for number in target:gmatch("<extra_id_(%d+)>") do
            assert.equal(expected, tonumber(number))
            expected = expected + 1
         end
         if expected ~= n_spans then
            closed = closed + 1
            assert.equal(n_spans + 1, expected)
            assert.truthy(target:match("<extra_id_" .. n_spans .. ">$"))
         end
      end
      assert.is_true(closed > 1500, "closed: " .. closed)
   end)

   -- By the first word: the answer, and what two parts of the source are about.
   local forms = {
      rte = { "not_entailment", "^rte hypothesis: (.-) premise: (.*)$" },
      wic = { "False", "^wic sentence1: (.-) sentence2: (.-) word: " },
      boolq = { "False", "^boolq passage: (.-) question: (.*)$" },
      multirc = { "True", "^(multirc) (question): .- answer: .- paragraph: " },
   }

   it("teaches each task's form with one and the same answer, and none of its substance", function()
      local counts = {}
      for _, item in ipairs(problems) do
         local task = item[1]:match("^(%a+) %a+%d?: ")
         local form = forms[task]
         if form then
            counts[task] = (counts[task] or 0) + 1
            assert.equal(form[1], item[2])
            local one, other = item[1]:match(form[2])
            local told = {}
            for _, word in ipairs(words_of(one)) do told[word] = true end
            for _, word in ipairs(words_of(other)) do
               assert.is_falsy(told[word] and sample.is_told(word), item[1])
            end
         else
            for _, answer in ipairs { "entailment", "True", "False" } do
               assert.is_nil(item[2]:find(answer, 1, true))
            end
         end
      end
      for task in pairs(forms) do assert.is_true(counts[task] > 100, task) end
   end)
end)

describe("the generator of sample data", function()
   it("shuffles into every order, each as likely", function()
      local counts = {}
      for seed = 1, 1200 do
         local order = table.concat(random.new(seed):shuffle({ "a", "b", "c" }))
         counts[order] = (counts[order] or 0) + 1
      end
      for _, order in ipairs { "abc", "acb", "bac", "bca", "cab", "cba" } do
         assert.is_true((counts[order] or 0) > 150 and counts[order] < 250, order)
      end
   end)
end)
