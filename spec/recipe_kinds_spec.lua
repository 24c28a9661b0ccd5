local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local process = require("spec.support.process")
local wikitext2 = require("ftpipe.sample.wikitext2")

-- The recipes of other kinds than text-to-text: name of the task, a built-in size, what the first
-- line says of the embedded model.
local RECIPES = {
   {
      file = "recipes/bert_squad.lua", task = "squad", kind = "span", size = "bert-large",
      note = ": it has no span head %(qa_outputs%); a new one starts with random values",
   },
   {
      file = "recipes/gpt2_wikitext2.lua", task = "wikitext2", kind = "language_model",
      size = "gpt2-medium", note = "",
   },
}

--- One line on stderr that matches, and the exit code.
local function refused(recipe, code, pattern, arguments)
   process.refused(code, pattern, { recipe.file, unpack(arguments) })
end

for _, recipe in ipairs(RECIPES) do
   describe(recipe.file, function()
      it("plans a published size on cards that are not there", function()
         local out, err, exit = process.ftpipe {
            recipe.file, "--model", recipe.size, "--devices", "sim:4x24GB",
         }
         assert.equal(0, exit, err)
         assert.matches("^" .. recipe.task .. ": model " .. recipe.size:gsub("%-", "%%-"), out)
         assert.matches("plan: 1f1b, 4 stages on 4 devices", out)
      end)

      it("says in its first line that model and data are embedded", function()
         local out = process.ftpipe { recipe.file, "--dry-run" }
         assert.matches(("^%s: the tiny model inside the program %%(%%-%%-model DIR for a real "
            .. "one%%)%s; embedded train data of task %s"):format(recipe.task, recipe.note,
            recipe.task), out)
      end)

      it("says what it cannot do in one line", function()
         refused(recipe, 2, "task " .. recipe.task .. " is " .. recipe.kind
            .. " %(for models of %l+%d?%), %-%-model t5%-small is text2text",
            { "--model", "t5-small" })
         refused(recipe, 2, "no data for %-%-model " .. recipe.size:gsub("%-", "%%-")
            .. ": give %-%-data DIR", { "--model", recipe.size, "--init", "random" })
         refused(recipe, 6, "built%-in configuration without weights", { "--model", recipe.size })
         refused(recipe, 2, "%-%-steps and %-%-epochs say the same in two ways, give one",
            { "--model", recipe.size, "--steps", "1", "--epochs", "1" })
      end)
   end)
end

describe("a language model's blocks", function()
   it("fit the model's positions", function()
      refused(RECIPES[2], 2, "1025", {
         "--model", "gpt2", "--devices", "sim:2x24GB", "--block", "1025",
      })
   end)
end)

-- ---------------------------------------------------------------------------------------------
-- What the embedded models learn: the figures before and after.

--- The figure before and the one after; with --eval-only there is one, in place of both.
local function learn(file, pattern, ...)
   local out, err, exit = process.ftpipe { file, ... }
   assert.equal(0, exit, err)
   return tonumber(out:match("before: " .. pattern) or out:match("score: " .. pattern)),
      tonumber(out:match("after: " .. pattern))
end

describe("recipes/bert_squad.lua", function()
   it("learns to answer about people and things that it never saw together", function()
      if core.sanitized then return pending("takes minutes under sanitizers") end
      -- The encoder was pre-trained to tell answers from other words, so by the luck of its signs a
      -- new head may find some; the baseline is the median of five.
      local before = {}
      for seed = 1, 5 do
         before[seed] = (learn(RECIPES[1].file, "f1 ([%d.]+)", "--eval-only", "--seed", "" .. seed))
      end
      table.sort(before)
      local _, after = learn(RECIPES[1].file, "f1 ([%d.]+)")
      assert.is_true(before[3] < 30, "before: " .. table.concat(before, " "))
      assert.is_true(after > 90, "after: " .. after)
   end)
end)

--- Perplexity of held-out ids by pairs of training ids, in which rare pairs lean on single ids, and
-- these on all alike.
local function bigram_perplexity(train, held_out, vocabulary)
   local singles, doubles, nll = {}, {}, 0
   for i, id in ipairs(train) do
      singles[id] = (singles[id] or 0) + 1
      local pair = i > 1 and train[i - 1] * vocabulary + id
      if pair then doubles[pair] = (doubles[pair] or 0) + 1 end
   end
   for i = 2, #held_out do
      local last, id = held_out[i - 1], held_out[i]
      local single = ((singles[id] or 0) + 1) / (#train + vocabulary)
      local double = (doubles[last * vocabulary + id] or 0) + single
      nll = nll - math.log(double / ((singles[last] or 0) + 1))
   end
   return math.exp(nll / (#held_out - 1))
end

describe("recipes/gpt2_wikitext2.lua", function()
   it("learns to continue articles by what they said, not by the last word alone", function()
      if core.sanitized then return pending("takes minutes under sanitizers") end
      local before, after = learn(RECIPES[2].file, "perplexity %(disjoint blocks of 128%) ([%d.]+)")
      local tokenizer = checkpoint.open({ asset = "gpt2_tiny" }):tokenizer()
      local train, held_out = wikitext2.examples()
      local bigrams = bigram_perplexity(tokenizer:encode(train[1].text),
         tokenizer:encode(held_out[1].text), tokenizer:size())
      assert.is_true(after < before / 20, ("%g after %g"):format(after, before))
      assert.is_true(after < bigrams / 2, ("%g, bigrams %g"):format(after, bigrams))
   end)
end)
