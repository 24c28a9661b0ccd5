--- Emulated cards of several processes: what passes by channels, with NCCL emulated as well, gives
-- the bits of one process; so does what goes by way of the host.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local several = require("spec.support.several")

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"
local missing = core.sys.exists(PROGRAM) ~= "file" and "there is no ftpipe_emu"
   or several.missing()

--- The command of several.command, of emulated cards.
local function emulated(n, list, before)
   return several.command(n, list, 300, before, PROGRAM)
end

-- Words in front of a program: says its exit code. For that no launcher is to end it with another.
local TELLS = [[sh -c '"$@"; echo "exit code $?" >&2' sh ]]
local LETS_END = "OMPI_MCA_orte_abort_on_non_zero_status=0 "

--- Runs arguments in n processes of emulated cards, by rank with more in their environment.
-- @param[opt] tells whether each says its exit code
local function start(n, arguments, environments, tells)
   local before = {}
   for rank = 0, n - 1 do
      before[rank] = ("%senv EMULATED_FAIL_AT=0 %s"):format(tells and TELLS or "",
         environments and environments[rank] or "")
   end
   return process.shell((tells and LETS_END or "") .. emulated(n, arguments, before)
      .. " </dev/null")
end

--- The same of code.
local function play(n, code, environments) return start(n, { "-e", code }, environments) end

--- Passes of all processes, things that they left open, and how many errors were told.
local function told(err)
   local passes, open, errors = 0, 0, 0
   for left, n in err:gmatch("emulated: %d+ calls, (%d+) things left open[^\n]* (%d+) passes") do
      passes, open = passes + tonumber(n), open + tonumber(left)
   end
   for _ in err:gmatch("ftpipe: [^\n]*") do errors = errors + 1 end
   return passes, open, errors
end

-- In three steps of one layer, with micro-batches of one sample, each asynchronous case has losses
-- of its own already.
local ALL = [[
   require("spec.support.several_cases").print(%d, "%s", { steps = 3, layers = 1, batch = 4 })]]
local ONE = [[
   local run = require("spec.support.pipeline").train {
      devices = "%s", steps = 2, layers = 1, batch = 4, clip = 0.5 }
   print(run.losses[1], run.losses[2], run.norms[2])]]
local DEMANDED = [[
   require("spec.support.pipeline").train {
      devices = "hosts:%dxemu:1", steps = 1, layers = 1, transport = "nccl" }
   print("trained")]]
local HELD = [[
   print(require("spec.support.several_cases").train({ name = "gpipe", options = {
      schedule = "gpipe", micro_batches = 8, steps = 1, layers = 1 } }, "%s"))]]

describe("cards of several processes", function()
   if missing then
      pending("cannot be tried here: " .. missing)
      return
   end

   for _, shape in ipairs { { 2, 1 }, { 2, 2 } } do
      local ranks, each = shape[1], shape[2]
      it(("compute what those of one do: %d of %d"):format(ranks, ranks * each), function()
         local one, problem, ended = play(1, ALL:format(ranks * each, "emu:" .. ranks * each))
         assert.equal(0, ended, problem)
         local out, err, code = play(ranks, ALL:format(ranks * each,
            ("hosts:%dxemu:%d"):format(ranks, each)))
         assert.equal(0, code, err)
         assert.equal(one, out)
         local passes, open = told(err)
         assert.is_true(passes > 0, err)
         assert.equal(0, open, err)
      end)
   end

   it("pass along a pipeline of four processes", function()
      local one, problem, ended = play(1, ONE:format("emu:4"))
      assert.equal(0, ended, problem)
      local out, err, code = play(4, ONE:format("hosts:4xemu:1"))
      assert.equal(0, code, err)
      assert.equal(one, out)
      local passes, open, errors = told(err)
      assert.is_true(passes > 0, err)
      assert.same({ 0, 0 }, { open, errors }, err)
   end)

   -- The card of one process is far behind: what passes to it comes long before it has read what
   -- came before, in slots that are used again.
   for rank = 0, 1 do
      it("wait for what reads a slot that is filled again: rank " .. rank, function()
         local one = play(1, HELD:format("emu:2"))
         local out, err, ended = play(2, HELD:format("hosts:2xemu:1"),
            { [rank] = "EMULATED_HELD_US=4000" })
         assert.equal(0, ended, err)
         assert.equal(one, out)
         assert.is_true(told(err) > 0, err)
      end)
   end

   -- resume_run.lua waits in rank 0 behind step 3, so that the run has not ended then.
   it("leave a checkpoint that other numbers of them go on from, when one is killed", function()
      files.in_directory(function(dir)
         local function words(name, devices, ...)
            return { "spec/support/resume_run.lua", "--devices", devices, "--steps", "4",
               "--save-every", "2", "--out", dir .. "/" .. name, ... }
         end
         local function weights(name)
            return core.sys.read_file(("%s/%s/checkpoints/step-4/hf/model.safetensors"):format(dir,
               name))
         end
         local _, err, code = process.shell(emulated(1, words("whole", "emu:2")) .. " </dev/null")
         assert.equal(0, code, err)
         local command = emulated(2, words("run", "hosts:2xemu:1", "--wait-at", "3",
            "--transport", "nccl"),
            { [0] = "", [1] = ("sh -c 'echo $$ >%s/pid; exec \"$@\"' sh"):format(dir) })
         _, err, code = process.shell(([[
            %s </dev/null & launcher=$!
            until [ -e %s/run/checkpoints/latest ] || ! kill -0 $launcher; do sleep 0.1; done
            kill -9 $(cat %s/pid)
            wait $launcher]]):format(command, dir, dir))
         assert.not_equal(0, code, err)
         assert.matches("ftpipe: rank 1 %(host [^)]+%) has ended", err)
         process.shell(("cp -r '%s/run' '%s/more'"):format(dir, dir))
         for name, n in pairs { run = 1, more = 3 } do
            local list = words(name, ("hosts:%dxemu:1"):format(n), "--resume")
            if n > 1 then table.insert(list, "--transport=mpi") end
            _, err, code = process.shell(emulated(n, list) .. " </dev/null")
            assert.equal(0, code, err)
            assert.is_true(weights("whole") == weights(name), name)
         end
      end)
   end)

   for rank = 0, 1 do
      it("go by way of the host where a process has no NCCL: rank " .. rank, function()
         local one = play(1, ONE:format("emu:2"))
         local out, err, code = play(2, ONE:format("hosts:2xemu:1"),
            { [rank] = "EMULATED_NO_NCCL=1" })
         assert.equal(0, code, err)
         assert.equal(one, out)
         assert.same({ 0, 0, 0 }, { told(err) })
      end)
   end

   -- Of rank 2 rank 0 hears from rank 2 alone.
   it("end before they train where NCCL is demanded and one of them has none", function()
      for _, case in ipairs {
         { 2, 0, "EMULATED_NO_NCCL=1", "NCCL is not found: as told" },
         { 3, 2, "EMULATED_NO_NCCL=1", "NCCL is not found: as told" },
         { 2, 1, "EMULATED_NCCL_VERSION=21403", "NCCL is too old: its version is 21403, expected "
            .. "21800 %(2.18%) or newer" },
         { 2, 1, "EMULATED_NCCL_FAIL_AT=2", "device 1/emu:0: NCCL failed at meeting the other "
            .. "process: no more is known %(99%)" },
      } do
         local n, rank, environment, words = unpack(case)
         local out, err = start(n, { "-e", DEMANDED:format(n) }, { [rank] = environment }, true)
         assert.equal("", out)
         assert.equal(n, select(2, err:gsub("exit code 2\n", "")), err)
         assert.matches(("ftpipe: rank %d %%(host [^)]+%%): transport nccl: %s; transport auto "
            .. "goes by way of the host then\n"):format(rank, words), err)
         local _, open, errors = told(err)
         assert.same({ 0, 1 }, { open, errors }, err)
      end
   end)

   -- In a run of `mpi` no call of NCCL could fail.
   it("pass as --transport says, by one plan to the same bits", function()
      files.in_directory(function(dir)
         local kept = {}
         for _, way in ipairs { "nccl", "mpi" } do
            local path = dir .. "/" .. way
            local _, err, code = start(2, { "spec/support/resume_run.lua", "--devices",
               "hosts:2xemu:1", "--steps", "1", "--out", path, "--transport", way },
               { [0] = way == "mpi" and "EMULATED_NCCL_FAIL_AT=1" or "" })
            assert.equal(0, code, err)
            assert.equal(way == "nccl", told(err) > 0, err)
            assert.not_matches("goes by way of the host", err)
            local record = core.json.decode(core.sys.read_file(path .. "/run.json"))
            assert.equal(way, record.flags.transport)
            kept[way] = { core.sys.read_file(path .. "/plan.txt"),
               core.sys.read_file(path .. "/checkpoints/step-1/hf/model.safetensors") }
         end
         assert.is_true(kept.nccl[1] == kept.mpi[1] and kept.nccl[2] == kept.mpi[2])
      end)
   end)

   -- The first ones are made when processes meet, where an edge goes by way of the host then. Those
   -- below 0 ask for a state; how many a run makes of them depends on time.
   it("end with one error, or go by way of the host, when a call of NCCL fails", function()
      local one, ended = play(1, ONE:format("emu:2")), 0
      local calls = { [0] = { 1, 2, 12, 24, -9 }, { 1, 2, 3, 15, -3 } }
      for rank = 0, 1 do
         for _, n in ipairs(calls[rank]) do
            local out, err, code = play(2, ONE:format("hosts:2xemu:1"),
               { [rank] = "EMULATED_NCCL_FAIL_AT=" .. n })
            local _, open, errors = told(err)
            assert.equal(0, open, err)
            if code == 0 then
               assert.equal(one, out)
            else
               assert.equal(1, errors, err)
               assert.matches("NCCL failed at", err)
               ended = n > 0 and ended + 1 or ended
            end
         end
      end
      assert.is_true(ended >= 3, ended)
   end)

   -- Batches of two lengths are told together to a process that was away for a while.
   it("take what was told of each pass, when several were told at once", function()
      local code = [[
         local run = require("spec.support.pipeline").train { devices = "%s", steps = 16,
            layers = 1, batch = 2, micro_batches = 2, schedule = "async" }
         print(("%%.17g"):format(run.losses[16]))]]
      local pid = os.tmpname()
      finally(function() os.remove(pid) end)
      local one = play(1, code:format("emu:2"))
      local command = emulated(2, { "-e", code:format("hosts:2xemu:1") },
         { [0] = "", [1] = ("sh -c 'echo $$ >%s; exec \"$@\"' sh"):format(pid) })
      local out, err, ended = process.shell(([[
         %s </dev/null & launcher=$!
         until [ -s %s ] || ! kill -0 $launcher; do sleep 0.01; done
         while kill -s STOP $(cat %s) 2>/dev/null; do
            sleep 0.05; kill -s CONT $(cat %s); sleep 0.02
         done
         wait $launcher]]):format(command, pid, pid, pid))
      assert.equal(0, ended, err)
      assert.equal(one, out)
   end)

   it("name one that answers nothing, and end", function()
      local marker = os.tmpname()
      os.remove(marker)
      finally(function() os.remove(marker) end)
      local code = ([[
         local pipeline = require("spec.support.pipeline")
         local plan, o = pipeline.plan { devices = "hosts:2xemu:1", steps = 100000, layers = 1 }
         local run = require("ftpipe.run.ranks").run(plan)
         run:refresh()
         pipeline.steps(run, plan, o, 1, 2)
         require("ftpipe.core").sys.write_file(%q, "")
         pipeline.steps(run, plan, o, 3, 100000)]]):format(marker)
      local command = emulated(2, { "-e", code },
         { [0] = "", [1] = ("sh -c 'echo $$ >%s.pid; exec \"$@\"' sh"):format(marker) })
      local _, err, ended = process.shell(([[
         %s </dev/null & launcher=$!
         until [ -e %s ] || ! kill -0 $launcher; do sleep 0.1; done
         kill -s STOP $(cat %s.pid)
         wait $launcher; code=$?
         kill -9 $(cat %s.pid); rm %s.pid
         exit $code]]):format(command, marker, marker, marker, marker))
      assert.matches("ftpipe: rank 1 %(host [^)]+%) has said nothing for 8", err)
      assert.not_equal(124, ended, err)
   end)
end)
