local process = require("spec.support.process")

-- The recipes that have no embedded model: name of the task, a built-in size, one of another kind.
local RECIPES = {
   { file = "recipes/bert_squad.lua", task = "squad", kind = "span", size = "bert-large" },
   {
      file = "recipes/gpt2_wikitext2.lua", task = "wikitext2", kind = "language_model",
      size = "gpt2-medium",
   },
}

--- One line on stderr that matches, and the exit code.
local function refused(recipe, code, pattern, arguments)
   local _, err, exit = process.ftpipe { recipe.file, unpack(arguments) }
   assert.equal(code, exit, err)
   assert.matches(pattern, err)
   assert.equal(1, select(2, err:gsub("\n", "")), err)
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

      it("says what it cannot do in one line", function()
         refused(recipe, 2, "%-%-model is missing", {})
         refused(recipe, 2, "task " .. recipe.task .. " is " .. recipe.kind
            .. ", %-%-model t5%-small is text2text", { "--model", "t5-small" })
         refused(recipe, 2, "no data for %-%-model " .. recipe.size:gsub("%-", "%%-")
            .. ": give %-%-data DIR", { "--model", recipe.size })
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
