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

   local CELLS = {
      { "stage", "device", "forward ms", "what" },
      { "0", "cpu:0", "1.25", "encoder" },
      { "1", "cpu:1", "310.00", "é" },
      { "2", "has no place on any of them" },
   }

   it("stand in columns, numbers to the right", function()
      assert.equal(table.concat({
         "  stage  device  forward ms  what",
         "  0       cpu:0        1.25  encoder",
         "  1       cpu:1      310.00  é",
         "  2      has no place on any of them",
      }, "\n"), words.columns(CELLS))
      assert.equal(words.columns(CELLS), words.columns(CELLS, 36))
   end)

   it("keep their columns in front of what is said instead of the rest", function()
      assert.equal(table.concat({
         "  stage    device  forward ms  what",
         "  0         cpu:0        1.25  encoder",
         "  1      hosts[1]  has no place",
         "  2         cpu:2  nor has this",
      }, "\n"), words.columns {
         CELLS[1], CELLS[2], { "1", "hosts[1]", "has no place" }, { "2", "cpu:2", "nor has this" },
      })
   end)

   it("are divided where columns have no room, none wider than that but by one column", function()
      assert.equal(table.concat({
         "  stage  device  forward ms",
         "  0       cpu:0        1.25",
         "  1       cpu:1      310.00",
         "  2      has no place on any of them",
         "  stage  what",
         "  0      encoder",
         "  1      é",
      }, "\n"), words.columns(CELLS, 35))
      local keyed = { keys = 2, unpack(CELLS, 1, 3) }
      assert.equal(table.concat({
         "  stage  device  forward ms",
         "  0       cpu:0        1.25",
         "  1       cpu:1      310.00",
         "  stage  device  what",
         "  0       cpu:0  encoder",
         "  1       cpu:1  é",
      }, "\n"), words.columns(keyed, 10))
   end)
end)
