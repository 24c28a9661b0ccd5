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

   it("gives a shell every byte but NUL", function()
      local words, all = { "" }, {}
      for byte = 1, 255 do
         local letter = string.char(byte)
         words[#words + 1], words[#words + 2], all[byte] = letter, "a" .. letter .. "b", letter
      end
      words[#words + 1] = table.concat(all) -- each beside the next, and the other way round
      words[#words + 1] = table.concat(all):reverse()
      for _, shell in ipairs { "sh", "bash" } do
         local line = argvs.line { shell, "-c", "printf '<%s>' " .. argvs.line(words) }
         assert.equal("<" .. table.concat(words, "><") .. ">", (process.shell(line)))
      end
      assert.equal("A=b ", (process.shell("printf '%s ' " .. argvs.line { "A=b" })))
      local _, err = process.shell(argvs.line { "A=b" })
      assert.matches("A=b: .*not found", err) -- a command, and no variable
   end)

   it("has quotes where a shell needs them alone", function()
      assert.equal("ftpipe recipes/t5_rte.lua --lr=0.001 'a b'",
         argvs.line { "ftpipe", "recipes/t5_rte.lua", "--lr=0.001", "a b" })
   end)
end)
