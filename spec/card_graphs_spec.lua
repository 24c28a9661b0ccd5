--- Runs on emulated cards whose launches come again are given to them as graphs: with the same bits
-- as one by one.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"
local RUN = "spec/support/resume_run.lua --devices cpu:2 --save-every %d --steps %d --out '%s/run'"

--- Trains so many steps: { launches =, graphs =, weights = }.
local function train(dir, steps, environment)
   local _, err, exit = process.shell(("EMULATED_FAIL_AT=0 %s '%s' "):format(environment or "",
      PROGRAM) .. RUN:format(steps, steps, dir))
   assert.equal(0, exit, err)
   local launches, graphs = err:match("(%d+) launches, (%d+) graphs")
   return {
      launches = tonumber(launches), graphs = tonumber(graphs),
      weights = core.sys.read_file(dir .. "/run/checkpoints/latest/hf/model.safetensors"),
   }
end

describe("a run on cards", function()
   if core.sys.exists(PROGRAM) ~= "file" then
      return it("is emulated", function() pending("skipped: there is no ftpipe_emu") end)
   end

   it("launches graphs, with the bits of kernels one by one", function()
      local function run(environment)
         local result
         files.in_directory(function(dir) result = train(dir, 8, environment) end)
         return result
      end
      local graphs, alone = run(), run("EMULATED_NO_GRAPHS=1")
      print(("8 steps: %d launches and %d graphs, or %d launches"):format(graphs.launches,
         graphs.graphs, alone.launches))
      assert.is_true(graphs.graphs > 0 and alone.graphs == 0)
      assert.is_true(graphs.weights == alone.weights)
      assert.is_true(2 * graphs.launches < alone.launches)
   end)
end)
