--- A kind is one file that says what is read, handed out, scored and predicted.

local files = require("spec.support.files")
local kinds = require("ftpipe.data.kind")
local task = require("ftpipe.task")

local NEEDED = {
   "definition", "overrides", "load", "options", "prepare", "split", "sources", "scorer", "note",
   "flags", "answer",
}

describe("a kind", function()
   it("is whole", function()
      assert.same({ "language_model", "span", "text2text" }, kinds.names())
      for _, name in ipairs(kinds.names()) do
         local kind = kinds.find(name)
         for _, key in ipairs(NEEDED) do
            -- a text that goes on, and a question, are sources as they are
            local is_there = kind[key] ~= nil or (key == "sources" and name ~= "text2text")
            assert.is_true(is_there, name .. " has no " .. key)
         end
         assert.is_true((kind.predict == nil) ~= (kind.evaluate == nil), name)
      end
   end)

   it("is known by its name, and by its models", function()
      assert.equal(kinds.find("span"), kinds.of { family = { kind = "span" } })
      for _, name in ipairs { "spam", "", "a.b", "../span" } do assert.is_nil(kinds.find(name)) end
      assert.is_nil(kinds.find(nil))
      local problem = files.failure(task.define, { kind = "spam" })
      assert.matches("option 'kind' is 'spam', expected one of: language_model, span, text2text$",
         problem.message)
   end)
end)
