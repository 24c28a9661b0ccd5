--- What steps cost on paper.

local process = require("spec.support.process")

describe("tools/roofline.lua", function()
   it("counts the arithmetic of a step as formulas do", function()
      local out, err, code = process.ftpipe { "tools/roofline.lua", "bert-large" }
      assert.equal("", err)
      assert.equal(0, code)
      local gflop = tonumber(out:match("\n   step +%d+ +([%d.]+)"))
      -- three products for each weight of a layer and token, and attention's seven
      local tokens, layers, width = 24 * 384, 24, 1024
      local weights = layers * 12 * width ^ 2
      local expected = (6 * weights * tokens + 14 * layers * tokens * 384 * width) / 1e9
      assert.is_true(math.abs(gflop / expected - 1) < 0.03, ("%g, %g"):format(gflop, expected))
   end)

   it("has no time shorter than the arithmetic takes at the card's rate", function()
      local out = process.ftpipe { "tools/roofline.lua", "gpt2-xl" }
      local shares = out:match("of the rate that f32 products reach([^\n]+)")
      local n = 0
      for share in shares:gmatch("(%d+) %%") do
         n = n + 1
         assert.is_true(tonumber(share) > 50 and tonumber(share) <= 100)
      end
      assert.equal(5, n)
   end)
end)
