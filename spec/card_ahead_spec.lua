--- Workers of emulated cards give them actions without waiting for those before, and hear of them
-- once a batch.

local core = require("ftpipe.core")
local process = require("spec.support.process")

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"

--- How often the host waited for cards, the part of the time that sums of gradients took, and how
-- many forwards took none.
local function play(micro_batches, steps, devices, slow_ms)
   local out, err, exit = process.shell(("EMULATED_FAIL_AT=0 EMULATED_SLOW_MS=%d '%s' "
      .. "spec/support/ahead_run.lua %d %d %d </dev/null"):format(slow_ms or 0, PROGRAM,
      micro_batches, steps, devices))
   assert.equal(0, exit, err)
   return tonumber(err:match("(%d+) waits of the host")), tonumber(out:match("sums ([%d.]+)")),
      tonumber(out:match("(%d+) forwards without time"))
end

describe("a worker of a card", function()
   if core.sys.exists(PROGRAM) ~= "file" then
      return it("is emulated", function() pending("skipped: there is no ftpipe_emu") end)
   end

   it("waits for it once a batch, whatever the number of micro-batches", function()
      for _, micro_batches in ipairs { 2, 6 } do
         for devices = 1, 2 do
            local each = (play(micro_batches, 7, devices) - play(micro_batches, 4, devices)) / 3
            -- one wait before gradients are summed, one for the end of the batch
            assert.equal(2 * devices, each)
         end
      end
   end)

   it("knows from the card when that computed, and not when it was told to", function()
      local _, sums = play(1, 6, 1)
      assert.is_true(sums < 0.3, sums) -- told to sum, the worker waits for all that came before
   end)

   it("has a timeline that begins with the run, however far off the card's clock is", function()
      for _, behind_ms in ipairs { 1000, -1000 } do
         local _, sums, none = play(2, 3, 2, behind_ms)
         assert.equal(0, none)
         assert.is_true(sums > 0 and sums < 1, sums)
      end
   end)
end)
