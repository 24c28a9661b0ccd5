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

   it("are wrapped between each other, but for tables and code", function()
      assert.equal("one two\nthree", words.wrapped("one two three", 8))
      assert.equal("éé éé\néé\n\nab cd", words.wrapped("éé éé éé\n\nab cd", 5))
      assert.equal("- one\n  two\n  three", words.wrapped("- one two three", 7))
      assert.equal("a longword\nb", words.wrapped("a longword b", 10))
      assert.equal("a\nverylongword\nb", words.wrapped("a verylongword b", 5))
      for _, kept in ipairs { "| one | two | three |", "    one two three", "", "one two" } do
         assert.equal(kept, words.wrapped(kept, 7))
      end
   end)
end)
