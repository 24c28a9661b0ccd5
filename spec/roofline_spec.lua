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

   it("prices steps in every precision that a card has for the model", function()
      local out = process.ftpipe { "tools/roofline.lua", "bert-large" }
      local ms, share = {}, {}
      for _, numbers in ipairs { "f32", "tf32", "bf16", "f16" } do
         local times, shares = out:match("a step in " .. numbers .. " +([^\n]+)\n"
            .. " +of the peak of such products +([^\n]+)")
         ms[numbers], share[numbers] = {}, {}
         for cell in times:gmatch("%S+") do table.insert(ms[numbers], cell) end
         for cell in shares:gsub(" %%", ""):gmatch("%S+") do table.insert(share[numbers], cell) end
         assert.equal(5, #ms[numbers])
         assert.equal(5, #share[numbers])
      end
      assert.same({ "-", "-" }, { ms.bf16[1], ms.tf32[1] }) -- a 2080 Ti rounds to f16 alone
      local gflop = tonumber(out:match("\n   step +%d+ +([%d.]+)"))
      local h100 = { f32 = 67e12, tf32 = 494.5e12, bf16 = 989e12, f16 = 989e12 }
      for numbers, peak in pairs(h100) do
         local expected = 100 * gflop * 1e9 / (ms[numbers][4] / 1e3) / peak
         assert.near(expected, share[numbers][4], 0.51)
      end
      assert.is_true(tonumber(ms.bf16[4]) < tonumber(ms.tf32[4]))
      assert.is_true(tonumber(ms.tf32[4]) < tonumber(ms.f32[4]))
   end)

   it("says which models there are when there is none of a name", function()
      local out, err, code = process.ftpipe { "tools/roofline.lua", "bert-larg" }
      assert.same({ "", "roofline: model 'bert-larg', expected one of t5-3b, gpt2-xl, bert-large\n",
         2 }, { out, err, code })
   end)

   it("has no f16 for a model that outgrows it", function()
      local out = process.ftpipe { "tools/roofline.lua", "t5-3b" }
      assert.matches("a step in bf16", out)
      assert.not_matches("a step in f16", out)
   end)
end)
