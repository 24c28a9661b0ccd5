--- --transport where nothing may pass by NCCL: refused, since it would decide nothing. What it
-- decides is in card_channels_spec.lua.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local ranks = require("ftpipe.run.ranks")
local restart = require("ftpipe.run.restart")

local HERE = core.sys.executable():match("^(.*)/")
local EMULATED = HERE .. "/ftpipe_emu"

local function words(devices, ...)
   return { "recipes/t5_rte.lua", "--steps", "2", "--profile", "modelled", "--devices", devices,
      ... }
end

describe("a transport", function()
   it("is refused without cards of several processes, with the reason", function()
      for devices, why in pairs {
         ["cpu:2"] = "are of one process, which needs neither",
         ["hosts:2xcpu:1"] = "have no cards: between their processes everything passes by MPI",
         ["sim:2x11GB"] = "are of one process, which needs neither",
      } do
         for _, way in ipairs { "nccl", "mpi" } do
            process.refused(2, "^ftpipe: %-%-transport " .. way .. " is for cards of several "
               .. "processes, and the devices " .. why .. "; leave it out, or give %-%-devices "
               .. "hosts:2xcuda:0\n$", words(devices, "--transport", way, "--dry-run"))
         end
      end
      process.refused(2, "^ftpipe: %-%-transport: 'tcp' is not available %(expected one of: auto, "
         .. "nccl, mpi%)\n$", words("cpu:2", "--transport", "tcp"))
   end)

   it("is refused by a run whose plan is for other devices than its flags say", function()
      local plan = pipeline.plan { devices = "cpu:1", steps = 1, layers = 1 }
      local problem = files.failure(ranks.run, plan, { transport = "nccl" })
      assert.equal('transport = "nccl" is for cards of several processes, and the devices are of '
         .. 'one process, which needs neither; leave it out, or give devices = "hosts:2xcuda:0"',
         problem.message)
      ranks.run(plan, { transport = "auto" }):free()
      problem = files.failure(plan.blueprint.run, plan.blueprint, nil, "tcp")
      assert.matches("transport is 'tcp', expected auto, nccl or mpi", tostring(problem))
   end)

   it("is not taken along to one process that is left of several", function()
      local list = { "x.lua", "--transport", "nccl", "--devices", "hosts:3xcuda:0", "--out", "o" }
      local function command(job) return table.concat(restart.command(job), " ") end
      local two = restart.without(restart.job(list), { rank = 1, how = "ended" })
      assert.matches("%-n 2 .* x.lua %-%-transport nccl %-%-out o ", command(two))
      assert.matches("%-n 1 .* x.lua %-%-out o %-%-devices hosts:1xcuda:0 ",
         command(restart.without(two, { rank = 0, how = "ended" })))
   end)

   it("is rehearsed with --dry-run", function()
      if core.sys.exists(EMULATED) ~= "file" then
         pending("there is no ftpipe_emu")
         return
      end
      local function try(environment)
         local list = table.concat(words("hosts:2xemu:1", "--transport", "nccl", "--dry-run"), " ")
         return process.shell(("%s timeout 300 '%s' %s </dev/null"):format(environment, EMULATED,
            list))
      end
      local _, err, code = try("")
      assert.equal(0, code, err)
      _, err, code = try("EMULATED_NO_NCCL=1")
      assert.equal(2, code, err)
      assert.equal("ftpipe: transport nccl: NCCL is not found: as told; transport auto goes by way "
         .. "of the host then\n", err)
   end)
end)
