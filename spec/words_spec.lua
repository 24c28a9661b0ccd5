local words = require("ftpipe.base.words")

describe("words", function()
   it("are as wide as they have characters", function()
      assert.same({ 0, 3, 3 }, { words.width(""), words.width("abc"), words.width("aé→") })
   end)

   it("are cut between characters", function()
      assert.equal("abcd", words.short("abcd", 4))
      assert.equal("a...", words.short("abcde", 4))
      assert.equal("éé...", words.short("éééééé", 5))
      assert.equal(5, words.width(words.short(("→"):rep(9), 5)))
   end)
end)
