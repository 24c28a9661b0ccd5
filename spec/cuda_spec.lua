--- What ft.cuda says of cards: in the program ftpipe_emu there are two, emulated ones.

local core = require("ftpipe.core")
local ft = require("ftpipe")

local emulated = core.sys.executable():match("[^/]+$") == "ftpipe_emu"

describe("ft.cuda", function()
   it("says whether there are cards, and else why not", function()
      local there, why = ft.cuda.available()
      if emulated then assert.is_true(there) end
      if there then
         assert.is_nil(why)
      else
         assert.is_false(there)
         assert.matches("CUDA", why)
         assert.not_matches("device list", why)
      end
   end)

   it("has the cards, or an error with the same reason", function()
      local there, why = ft.cuda.available()
      if not there then
         local ok, failure = pcall(ft.cuda.devices)
         assert.is_false(ok)
         assert.matches(why, failure.message, 1, true)
         return
      end
      local list = ft.cuda.devices()
      if emulated then assert.equal(2, #list) end
      for i, card in ipairs(list) do
         assert.equal(("cuda:%d"):format(i - 1), card.name)
         assert.equal(i - 1, card.card)
         assert.is_true(card.memory_bytes > 0 and card.flops_per_s > 0 and card.bytes_per_s > 0)
         assert.is_nil(card.threads)
      end
   end)
end)
