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

local GRAPH = 29 -- calls that are passed over where one of a graph failed: about those of a graph

--- As train, with a call from n on that ends the run: one of a graph does not, which is said, and
-- its launches give the same weights.
local function fail_from(dir, n, expected)
   local said, run
   repeat
      said, run = train(dir, n)
      n = n + GRAPH
      if run.exit == 0 then
         assert.matches("launched one by one", said)
         assert.is_true(weights(dir) == expected)
         process.shell(("rm -r '%s/run'"):format(dir))
      end
   until run.exit ~= 0
   return said, run
end

-- What a script computes on a card itself.
local SCRIPT = [[
   local ft = require("ftpipe")
   local card = ft.cuda.open("emu:1")
   local x, one = ft.tensor.randn({ 8, 8 }, 1):to(card), ft.tensor.ones({ 8 }):to(card)
   local y = card:stream():run(function() return x:matmul(x):relu():sum(1) end)
   card:stream():record():synchronize()
   local _, dw = ft.tensor.ops.rms_norm_grad(x, x, one, one)
   print(y:to("cpu"):sum(), dw:sum(), card)
]]

describe("a card whose library fails", function()
   if core.sys.exists(PROGRAM) ~= "file" then
      return it("is emulated", function() pending("skipped: there is no ftpipe_emu") end)
   end

   it("ends a script with one error", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/x.lua", SCRIPT)
         local function play(n)
            local _, err, exit = process.shell(("EMULATED_FAIL_AT=%d '%s' '%s/x.lua'"):format(n,
               PROGRAM, dir))
            local calls, open = err:match("emulated: (%d+) calls, (%d+) things left open")
            assert.equal("0", open, err)
            return tonumber(calls), exit, select(2, err:gsub("device emu:0: [^\n]+ failed", ""))
         end
         local calls, exit = play(0)
         assert.equal(0, exit)
         for n = 1, calls, 9 do
            local _, bad, errors = play(n)
            assert.equal(bad == 0 and 0 or 1, errors) -- calls that give memory back are not told
            assert.is_true(bad ~= 0 or n > calls / 2)
         end
      end)
   end)

   it("ends the run with one error, and the last checkpoint can be resumed", function()
      files.in_directory(function(whole)
         local _, good = train(whole, 0)
         assert.equal(0, good.exit)
         assert.equal(0, good.open)
         for _, share in ipairs { 0.01, 0.4, 0.9 } do
            files.in_directory(function(dir)
               local said, bad = fail_from(dir, math.floor(share * good.calls), weights(whole))
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
