--- Runs of several processes, one after the other, and what rank 0 says of one that goes on.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local several = require("spec.support.several")

local missing = several.missing()

-- A recipe that trains twice, the first time in batches of FIRST, while what that has made is held,
-- and says what came of both.
local TWICE = [[
local ft = require("ftpipe")
local function train(batch)
   local args = ft.args { "Trains.", preset = "t5", steps = { default = 3 },
      batch = { default = batch }, micro_batches = { default = 2 } }
   local done, result = pcall(ft.fine_tune, {
      args = args, task = ft.task.rte { max_source = 64, max_target = 4 },
   })
   local text = tostring(type(result) == "table" and result.message or result)
   print(done and "came to " .. text:match("loss [^;]*") or "failed: " .. text)
   return result
end
local held = { train(FIRST), train(32) }
]]

-- A recipe that does something in its fifth step.
local IN_STEP_5 = [[
local core = require("ftpipe.core")
local ft = require("ftpipe")
local args = ft.args { "Trains.", preset = "t5", steps = { default = 20 } }
local task, model = ft.task.rte { max_source = 32, max_target = 4 }, ft.model(args)
local data = task:open(model, args)
local plan = ft.plan { model = model, data = data, args = args }
for step in ft.run { plan = plan, task = task, data = data, args = args }:train() do
   if step.step == 5 then WHAT end
end
]]

describe("several processes", function()
   if missing then
      pending("cannot be tried here: " .. missing)
      return
   end

   local scratch
   setup(function() scratch = files.directory() end)
   teardown(function() files.remove(scratch) end)

   --- What training twice says, by line.
   local function twice(ranks, first, before)
      local path = scratch .. "/twice.lua"
      core.sys.write_file(path, (TWICE:gsub("FIRST", first)))
      local words = { path, "--profile", "modelled", "--devices", ("hosts:%dxcpu:1"):format(ranks) }
      local out, err, code = process.shell(several.command(ranks, words, 300, before)
         .. " </dev/null")
      local lines = {}
      for line in out:gmatch("[^\n]+") do
         if line:match("^came to ") or line:match("^failed: ") then lines[#lines + 1] = line end
      end
      return lines, err, code
   end

   --- Trains as several processes and does something in the fifth step.
   local function in_step_5(ranks, what)
      local path = scratch .. "/step.lua"
      core.sys.write_file(path, (IN_STEP_5:gsub("WHAT", what)))
      return several.run(ranks, { path, "--profile", "modelled", "--devices",
         ("hosts:%dxcpu:1"):format(ranks) }, 300)
   end

   it("end with rank 0, which is not taken as lost", function()
      for _, word in ipairs { "--help", "--print-config", "--dry-run" } do
         local _, err, code = several.run(2, { "examples/own_task.lua", word, "--profile",
            "modelled", "--devices", "hosts:2xcpu:1" }, 300)
         assert.equal(0, code, word .. ": " .. err)
         assert.not_matches("has ended", err)
      end
      for what, expected in pairs { ["os.exit()"] = 0, ["os.exit(false)"] = 1,
         ["coroutine.wrap(os.exit)(7, true)"] = 7 } do
         local _, err, code = in_step_5(2, what)
         assert.equal(expected, code, what .. ": " .. err)
         assert.not_matches("has ended", err)
      end
   end)

   it("have runs one after the other, while what the first made is held", function()
      local lines, err, code = twice(2, 32)
      assert.equal(0, code, err)
      assert.equal(2, #lines, err)
      assert.matches("came to loss %d", lines[1])
      assert.equal(lines[1], lines[2])
   end)

   it("are told of by what they said last, and not as if they were here", function()
      if core.sanitized then
         return pending("a thread of MPI's may take the signal, which ThreadSanitizer calls a race")
      end
      local out, err, code = in_step_5(3, 'io.popen("kill -QUIT " .. core.sys.getpid()):close()')
      assert.equal(0, code, err)
      err = "\n" .. out .. err
      assert.matches("\n0/cpu:0: action %d+ of %d+, ", err)
      for rank = 1, 2 do
         assert.matches(("\n%d/cpu:0: action %%d+ of %%d+ when rank %d last told\n"):format(rank,
            rank), err)
      end
      assert.not_matches("in a circle", err)
   end)

   it("begin no run that one of them cannot have, and then another", function()
      if core.sanitized then return pending("a sanitizer needs what is limited") end
      local lines, err, code = twice(3, 8192, { [1] = "prlimit --as=700000000" })
      assert.equal(0, code, err)
      assert.equal(2, #lines, err)
      assert.matches("^failed: rank 1 %(host [^)]+%): .*no memory", lines[1])
      assert.matches("came to loss %d", lines[2])
   end)
end)
