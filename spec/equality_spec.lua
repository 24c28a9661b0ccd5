--- Some of the synchronous runs of every model and schedule compute what one device computes, to
-- the bit; bench/equality.lua runs all of them.

local equality = require("spec.support.equality")

local OF_EACH = 3 -- family and schedule
local SEED = 1

describe("ten steps of a synchronous run", function()
   local check, refused, all = equality.checker(), 0, equality.some(SEED, OF_EACH)

   for _, case in ipairs(all) do
      it("compute what one device computes: " .. equality.name(case), function()
         local found, why = check(case)
         assert.is_nil(found)
         refused = refused + (why and 1 or 0)
         collectgarbage()
      end)
   end

   it("were hardly ever refused", function()
      assert.is_true(refused <= #all / 10, ("%d of %d"):format(refused, #all))
   end)

   it("are found to differ where they do", function()
      assert.matches("^a%.2: ", equality.difference({ 0, 1 }, { 0, 1 + 2 ^ -52 }, "a"))
      assert.is_nil(equality.difference({ 0, { 0 / 0 } }, { 0, { 0 / 0 } }, "a"))
   end)
end)
