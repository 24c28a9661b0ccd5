--- Runs on emulated cards whose launches come again are given to them as graphs: with the same bits
-- as one by one.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"
local RUN = "spec/support/resume_run.lua --devices cpu:2 --save-every %d --steps %d --out '%s/run'"

--- Trains so many steps: { launches =, graphs =, weights =, said = }.
local function train(dir, steps, environment, flags)
   local _, err, exit = process.shell(("EMULATED_FAIL_AT=0 %s '%s' "):format(environment or "",
      PROGRAM) .. RUN:format(steps, steps, dir) .. " " .. (flags or ""))
   assert.equal(0, exit, err)
   local launches, graphs = err:match("(%d+) launches, (%d+) graphs")
   return {
      launches = tonumber(launches), graphs = tonumber(graphs), said = err,
      weights = core.sys.read_file(dir .. "/run/checkpoints/latest/hf/model.safetensors"),
   }
end

describe("a run on cards", function()
   if core.sys.exists(PROGRAM) ~= "file" then
      return it("is emulated", function() pending("skipped: there is no ftpipe_emu") end)
   end

   local function run(environment, flags)
      local result
      files.in_directory(function(dir) result = train(dir, 8, environment, flags) end)
      return result
   end

   it("launches graphs, with the bits of kernels one by one", function()
      local graphs, alone = run(), run("EMULATED_NO_GRAPHS=2") -- no memory
      print(("8 steps: %d launches and %d graphs, or %d launches"):format(graphs.launches,
         graphs.graphs, alone.launches))
      assert.is_true(graphs.graphs > 0 and alone.graphs == 0)
      assert.is_true(graphs.weights == alone.weights)
      assert.is_true(2 * graphs.launches < alone.launches)
      assert.not_matches("one by one", graphs.said .. alone.said)
   end)

   it("gives kernels the room that they need on cards of 9.0, in graphs too", function()
      local flags = "--precision bf16 --family bert"
      local graphs = run("EMULATED_CAPABILITY=90", flags)
      local alone = run("EMULATED_CAPABILITY=90 EMULATED_NO_GRAPHS=2", flags)
      assert.is_true(graphs.graphs > 0 and alone.graphs == 0)
      assert.is_true(graphs.weights == alone.weights)
      assert.not_matches("one by one", graphs.said)
   end)

   it("goes on without graphs where a card refuses them, and says so once", function()
      local graphs, refused = run(), run("EMULATED_NO_GRAPHS=801")
      assert.is_true(refused.graphs == 0 and graphs.weights == refused.weights)
      for d = 0, 1 do
         local _, n = refused.said:gsub(("\ndevice cpu:%d: making a graph failed: EMULATED_FAILURE "
            .. "%%(801, as told%%); from here on its kernels are launched one by one, without "
            .. "graphs: slower\n"):format(d), "")
         assert.equal(1, n, refused.said)
      end
   end)
end)
