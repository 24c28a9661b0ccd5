--- Words of a chunk at the prompt.

local words = require("ftpipe.prompt.words")

describe("the outermost locals of a chunk", function()
   it("are globals, however many there are", function()
      local function expect(text, expected, any)
         local kept, had = words.without_locals(text)
         assert.same({ expected, any }, { kept, had })
      end
      expect("local a, b, c", "      a, b, c = nil", true)
      expect("local a, b = 1, 2", "      a, b = 1, 2", true)
      expect("local a local b", "      a = nil       b = nil", true)
      expect("local function f() local x end", "      function f() local x end", true)
      expect("do local a end", "do local a end", false)
   end)
end)
