--- Words of a command line.

local argvs = require("ftpipe.base.argv")
local process = require("spec.support.process")

describe("a line of words", function()
   it("gives a shell the same words", function()
      local words = { "", "a b", "it's", "*", "--groups=*.bias: frozen; x", "$HOME", "é", "a\nb",
         "--lr=1e-3", "\\", "~", "cpu:2/2GB@1GB/s" }
      local printed = process.shell("printf '<%s>' " .. argvs.line(words))
      assert.equal("<" .. table.concat(words, "><") .. ">", printed)
   end)

   it("has quotes where a shell needs them alone", function()
      assert.equal("ftpipe recipes/t5_rte.lua --lr=0.001 'a b'",
         argvs.line { "ftpipe", "recipes/t5_rte.lua", "--lr=0.001", "a b" })
   end)
end)
