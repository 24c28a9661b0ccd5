--- Whole runs on emulated cards in which a call of the card's library fails: one error, nothing is
-- left open, and the last checkpoint goes on to the same bits.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"
local RUN = "spec/support/resume_run.lua --steps 4 --save-every 2 --devices cpu:2 --out '%s/run' %s"

--- Runs it with the n-th call failing (0: none): what it said, { calls =, open =, exit = }.
local function train(dir, n, more)
   local _, err, exit = process.shell(("EMULATED_FAIL_AT=%d '%s' "):format(n, PROGRAM)
      .. RUN:format(dir, more or ""))
   local calls, open = err:match("emulated: (%d+) calls, (%d+) things left open")
   return err, { calls = tonumber(calls), open = tonumber(open), exit = exit }
end

local function weights(dir)
   return core.sys.read_file(dir .. "/run/checkpoints/latest/hf/model.safetensors")
end

describe("a card whose library fails", function()
   if core.sys.exists(PROGRAM) ~= "file" then
      return it("is emulated", function() pending("skipped: there is no ftpipe_emu") end)
   end

   it("ends the run with one error, and the last checkpoint can be resumed", function()
      files.in_directory(function(whole)
         local _, good = train(whole, 0)
         assert.equal(0, good.exit)
         assert.equal(0, good.open)
         for _, share in ipairs { 0.01, 0.4, 0.9 } do
            files.in_directory(function(dir)
               local said, bad = train(dir, math.floor(share * good.calls))
               assert.equal(0, bad.open, said)
               assert.is_true(bad.exit ~= 0, said)
               assert.matches("device cpu:%d: ", said)
               local _, errors = said:gsub("failed[^\n]*[( ]999[,)]", "") -- what that call answered
               assert.equal(1, errors, said)
               if share < 0.5 then return end -- before the first checkpoint
               local more, again = train(dir, 0, "--resume")
               assert.equal(0, again.exit, more)
               assert.is_true(weights(whole) == weights(dir))
            end)
         end
      end)
   end)
end)
