--- Faults of a run of several processes: what is left is whole, and goes on to the same bits.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local restart = require("ftpipe.run.restart")
local several = require("spec.support.several")
local tensor = require("ftpipe.base.tensor")

local missing = several.missing()

local STEPS = 60
local TRAINED = { "--steps", tostring(STEPS), "--save-every", "5" }
-- Steps that a run holds behind, so that it has not ended when something is done to it: the first
-- ones with a checkpoint in front of them, and the last.
local EARLY, LATE = 7, STEPS - 2

describe("several processes", function()
   if missing then
      pending("cannot be tried here: " .. missing)
      return
   end

   local scratch, wanted
   setup(function()
      scratch = files.directory()
      local out = scratch .. "/one"
      local _, err, code = process.ftpipe(several.flags("--devices", "cpu:2", "--out", out,
         unpack(TRAINED)))
      assert.equal(0, code, err)
      wanted = several.kept(out, STEPS)
   end)
   teardown(function() files.remove(scratch) end)

   local function words(name, ranks)
      return several.flags("--devices", ("hosts:%dxcpu:1"):format(ranks), "--out",
         scratch .. "/" .. name, unpack(TRAINED))
   end

   --- The same of a run that holds.
   local function held(...)
      local list = words(...)
      list[1] = "spec/support/held.lua"
      return list
   end

   --- What a run directory keeps is what one process leaves; `plan` false: but for its plan.
   local function assert_whole(name, plan)
      local found = several.kept(scratch .. "/" .. name, STEPS)
      if plan == false then found.plan = wanted.plan end
      assert.same(wanted, found)
   end

   --- Goes on with what is left as one process.
   local function resume(name)
      local _, err, code = process.ftpipe(several.flags("--devices", "cpu:2", "--out",
         scratch .. "/" .. name, "--resume", unpack(TRAINED)))
      assert.equal(0, code, err)
      assert_whole(name)
   end

   --- Files of a run beside its directory, which may be on a disk of its own.
   local function beside(name, what)
      return ("%s/%s.%s"):format(scratch, name:gsub("/", "-"), what)
   end

   --- Runs a shell script with OUT, which starts the run in the background: its process is
   -- $launcher, `saved` waits for its first checkpoint. Where its words are of `held`, it holds
   -- behind step `at` until `go_on`.
   local function try(name, at, command, script)
      return process.shell(([[
         OUT=%s/%s ERR=%s
         export HOLD_AT=%d GATES=%s
         mkdir $GATES
         wait_until() { until "$@" || ! kill -0 $launcher; do sleep 0.05; done; }
         saved() { wait_until [ -e $OUT/checkpoints/latest ]; }
         go_on() { : >$GATES/on-$HOLD_AT; }
         pids() { pgrep -f -- "--out $OUT " | while read pid; do
            tr '\0' '\n' </proc/$pid/environ | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo $pid
            done; }
         %s >%s 2>$ERR </dev/null & launcher=$!
         %s]]):format(scratch, name, beside(name, "err"), at, beside(name, "gates"), command,
         beside(name, "out"), script))
   end

   local function said(name) return core.sys.read_file(beside(name, "err")) end

   for rank = 0, 1 do
      it(("wait for one that starts late: rank %d"):format(rank), function()
         local name = "late" .. rank
         local _, err, code = process.shell(several.command(2, words(name, 2), nil,
            { [rank] = [[sh -c 'sleep 3; exec "$@"' sh]] }) .. " </dev/null")
         assert.equal(0, code, err)
         assert_whole(name)
      end)
   end

   it("say that they wait for one that does not start", function()
      local environment = several.environment("timeout -k 5 900 mpirun")
      local _, err = process.shell(([[
         %s -n 1 %s -e '' : -n 1 sleep 900 2>%s/waits </dev/null & launcher=$!
         until grep -q waited %s/waits || ! kill -0 $launcher; do sleep 0.1; done
         kill $launcher; wait $launcher
         cat %s/waits >&2]]):format(environment, core.sys.executable(), scratch, scratch, scratch))
      assert.matches("ftpipe: host %S+ has waited 8 s for the other processes of the run\n", err)
   end)

   it("need no model and no data besides where rank 0 is", function()
      local _, err, code = process.shell(several.command(2, words("apart", 2), nil,
         { [1] = [[sh -c 'cd / && exec "$@"' sh]] }) .. " </dev/null")
      assert.equal(0, code, err)
      assert_whole("apart")
   end)

   for rank = 0, 2 do
      it(("go on from what one leaves that is killed: rank %d of 3"):format(rank), function()
         local name = "killed" .. rank
         try(name, LATE, several.command(3, held(name, 3)),
            ("saved; sleep %.2f; kill -9 $(pids %d); wait $launcher"):format(math.random() / 5,
               rank))
         assert.matches(("ftpipe: rank %d %%(host [^)]+%%) has ended"):format(rank), said(name))
         resume(name)
      end)
   end

   it("end when the disk is full, and go on when it has room", function()
      local disk = scratch .. "/disk"
      core.sys.mkdir(disk)
      local _, err, code = process.shell(("mount -t tmpfs -o size=24m none %s"):format(disk))
      if code ~= 0 then return pending("no file system of its own: " .. err) end
      finally(function() process.shell("umount " .. disk) end)
      local _, _, ended = try("disk/run", EARLY, several.command(2, held("disk/run", 2)),
         "saved; cat /dev/zero >${OUT%/run}/filler 2>/dev/null; go_on; wait $launcher")
      assert.equal(6, ended, said("disk/run"))
      assert.equal(1, select(2, said("disk/run"):gsub("ftpipe: ", "")))
      local why = said("disk/run"):match("ftpipe: ([^\n]*)")
      assert.truthy(why:find("No space left on device") or why:find("no room for a checkpoint"),
         why)
      os.remove(disk .. "/filler")
      resume("disk/run")
   end)

   it("save what one of them owns that sees another file system", function()
      local _, _, code = process.shell("unshare -m true")
      if code ~= 0 then return pending("no mount namespaces") end
      local out = scratch .. "/blind"
      core.sys.mkdir(out)
      local _, err, ended = process.shell(several.command(2, words("blind", 2), nil,
         { [1] = ([[unshare -m sh -c 'mount -t tmpfs none %s && mkdir -p %s && exec "$@"' sh]])
            :format(out, out .. "/checkpoints") }) .. " </dev/null")
      assert.equal(0, ended, err)
      assert_whole("blind")
   end)

   -- What rank 1 sees at the path of the weights: nothing, or another file.
   for name, sees in pairs { nothing = "mount -t tmpfs none %s", another = "mount --bind %s %s" } do
      it("read weights where they see them: rank 1 sees " .. name, function()
         local _, _, code = process.shell("unshare -m true")
         if code ~= 0 then return pending("no mount namespaces") end
         local there, elsewhere = scratch .. "/weights", scratch .. "/others"
         local params = pipeline.plan({ devices = "cpu:2" }).graphs[1]:params()
         for dir, value in pairs { [there] = 3, [elsewhere] = 4 } do
            local list = {}
            for i, param in ipairs(params) do
               list[i] = { name = param.name, tensor = tensor.full(param.dims, value) }
            end
            core.sys.mkdir(dir)
            core.io.write(dir .. "/model.safetensors", list)
         end
         local out, err, ended = process.shell(several.command(2, { "-e", ([[
            local pipeline = require("spec.support.pipeline")
            local plan = pipeline.plan { devices = "hosts:2xcpu:1" }
            local run, list = require("ftpipe.run.ranks").run(plan), {}
            local params = plan.graphs[1]:params()
            for i, param in ipairs(params) do
               list[i] = { name = param.name, tensor = { param = i } }
            end
            run:read(%q, list, true)
            run:refresh()
            local wrong = 0
            local function look(value)
               if type(value) == "number" then wrong = wrong + (value == 3 and 0 or 1) return end
               for _, inner in ipairs(value) do look(inner) end
            end
            for i in ipairs(params) do look(run:param(i):totable()) end
            print(#params, wrong)]]):format(there) }, nil,
            { [1] = ([[unshare -m sh -c '%s && exec "$@"' sh]]):format(
               name == "nothing" and sees:format(there) or sees:format(elsewhere, there)) })
            .. " </dev/null")
         if name == "nothing" then
            assert.equal(0, ended, err)
            assert.equal(("%d\t0\n"):format(#params), out)
         else
            assert.equal(2, ended, err)
            assert.matches("ftpipe: rank 1 %(host [^)]+%): %S+/weights is not the file that rank 0 "
               .. "has there: expected the same one, or none", err)
         end
      end)
   end

   it("name who cannot write what it owns, and go on from what is whole", function()
      local name = "limit"
      local command = several.command(2, held(name, 2), nil,
         { [1] = [[sh -c 'trap "" XFSZ; exec "$@"' sh]] })
      local _, _, ended = try(name, EARLY, command, "saved; prlimit --fsize=512 --pid $(pids 1); "
         .. "go_on; wait $launcher")
      assert.equal(6, ended, said(name))
      assert.matches("ftpipe: step %d+ could not be saved: rank 1 %(host [^)]+%): /[^\n]*"
         .. "%.safetensors: cannot write: File too large; /[^\n]+ is whole, %-%-resume goes on "
         .. "from it", said(name))
      for _, file in ipairs(core.sys.list_dir(scratch .. "/limit/checkpoints")) do
         assert.is_nil(file:find("tmp", 1, true))
      end
      resume(name)
   end)

   it("go on, or name who was lost, when the network loses 30 % of what it carries", function()
      local why = several.no_machines("1e9", "0.1")
      if why then return pending("cannot be tried here: " .. why) end
      local name, set = "lossy", several.set_of_machines()
      local err, up = several.machines_up(set, 2, "1e9", "0.1")
      finally(function() several.machines_down(set, 2) end)
      assert.equal(0, up, err)
      local _, _, code = try(name, 0, several.on_machines(set, words(name, 2)), ([[
         saved; tools/netns.sh lose %d 30
         for i in $(seq 200); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
         tools/netns.sh lose %d 0
         wait $launcher]]):format(set, set))
      if code == 0 then return assert_whole(name) end
      assert.matches("ftpipe: rank %d %(host node%d%) has said nothing for", said(name))
      resume(name)
   end)

   it("save when their launcher is asked to, and go on", function()
      local name = "asked"
      local command = several.environment(("%s run --restart 1 %s"):format(core.sys.executable(),
         table.concat(held(name, 2), " ")))
      local _, _, code = try(name, LATE, "exec " .. command, [[saved; kill -USR1 $launcher
         sleep 0.5; kill -USR1 $(pids 1); kill -USR2 $(pids 1); go_on
         wait $launcher]])
      assert.equal(0, code, said(name))
      assert.matches("saved %S+, the run goes on", said(name))
      assert_whole(name)
   end)

   --- The command that starts such words again once; a shell has signals ignored behind its back.
   local function restarted(list)
      return "exec " .. several.environment((
         "env --default-signal=INT,QUIT %s run --restart 1 %s"):format(core.sys.executable(),
         table.concat(list, " ")))
   end

   for _, signal in ipairs { "INT", "TERM" } do
      it("save when what starts them again gets SIG" .. signal, function()
         local name = "stopped" .. signal
         local _, _, code = try(name, LATE, restarted(held(name, 2)), ([[
            wait_until [ -e $GATES/at-%d ]
            kill -s %s $launcher
            wait $launcher]]):format(LATE, signal))
         assert.not_equal(0, code)
         assert.matches("stopped after step %d+ of %d+; saved %S+, %-%-resume goes on", said(name))
         assert.is_nil(said(name):find("starts again", 1, true))
         resume(name)
      end)
   end

   it("take the time that they need to save, which mpirun does not give", function()
      local name = "slow"
      local _, _, code = try(name, LATE, "export HOLD_SECONDS=4; " .. restarted(held(name, 2)), ([[
         wait_until [ -e $GATES/at-%d ]
         kill -TERM $launcher
         wait $launcher]]):format(LATE))
      assert.not_equal(0, code)
      assert.matches("stopped after step %d+ of %d+; saved %S+, %-%-resume goes on", said(name))
   end)

   it("report who waits for whom when what starts them again is asked", function()
      local name = "report"
      local _, _, code = try(name, EARLY, restarted(held(name, 2)), ([[
         wait_until [ -e $GATES/at-%d ]
         kill -QUIT $launcher
         sleep 0.5; go_on
         wait $launcher]]):format(EARLY))
      assert.equal(0, code, said(name))
      assert.matches("0/cpu:0: action %d+ of %d+, .*1/cpu:0: action %d+ of", said(name))
      assert_whole(name)
   end)

   it("start again without one that ended before they had met", function()
      local name = "early"
      local _, _, code = try(name, 0, restarted(words(name, 3)), [[
         began() { [ "$(pids 1)" ]; }
         wait_until began
         kill -9 $(pids 1)
         wait $launcher]])
      assert.equal(0, code, said(name))
      assert.matches("ftpipe: starts again without rank 1: 1 of 1, as hosts:2xcpu:1\n", said(name))
      assert_whole(name)
   end)

   it("start again without one that was lost, as often as is said", function()
      local name = "again"
      local command = "timeout -k 5 900 " .. several.environment(("%s run --restart 2 %s"):format(
         core.sys.executable(), table.concat(held(name, 3), " ")))
      local _, _, code = try(name, LATE, command, [[saved; kill -9 $(pids 1)
         wait_until grep -q "goes on from /" $ERR
         kill -9 $(pids 0); go_on
         wait $launcher]])
      assert.equal(0, code, said(name))
      assert.matches("ftpipe: starts again without rank 1: 1 of 2, as hosts:2xcpu:1\n", said(name))
      assert.matches("ftpipe: starts again without rank 0: 2 of 2, as hosts:1xcpu:1\n", said(name))
      assert_whole(name, false)
      assert.is_truthy(core.sys.exists(scratch .. "/again/summary.json"))
   end)
end)

describe("a run that starts again", function()
   local function job(words, hosts)
      local list = {}
      for word in words:gmatch("%S+") do list[#list + 1] = word end
      return restart.job(list, hosts)
   end

   local function command(which) return table.concat(restart.command(which), " ") end

   it("is without the process that has ended", function()
      local left = restart.without(job("x.lua --devices hosts:3xcpu:2 --out o"),
         restart.read_loss("ftpipe: rank 1 (host a) has ended; it was at stage 1"))
      assert.matches("%-n 2 .* x.lua %-%-out o %-%-devices hosts:2xcpu:2 %-%-resume$",
         command(left))
   end)

   it("is without the machine that does not answer", function()
      local before = job("x.lua --out=o --devices=hosts:4xcpu:1", "anna:1,berta:2,carla")
      assert.matches("%-%-host anna:1,berta:2,carla:1 ", command(before))
      local ended = restart.without(before, restart.read_loss("ftpipe: rank 2 (host b) has ended"))
      assert.matches("%-n 3 .*%-%-host anna:1,berta:1,carla:1 .*hosts:3xcpu:1", command(ended))
      local silent = restart.without(before,
         restart.read_loss("ftpipe: rank 2 (host b) has said nothing for 8.0 s; it was at"))
      assert.matches("%-n 2 .*%-%-host anna:1,carla:1 .*hosts:2xcpu:1", command(silent))
   end)

   it("is none when nobody is left, or nobody was lost", function()
      local alone = job("x.lua --devices hosts:1xcpu:1 --out o")
      assert.is_nil(restart.without(alone, { rank = 0, how = "ended" }))
      assert.is_nil(restart.read_loss("ftpipe: rank 1 (host a) has failed with exit code 6"))
      assert.is_nil(restart.read_loss("rank 1 (host a) has ended"))
   end)

   it("is told where it may run when its machine has too few cores", function()
      if missing then return pending("cannot be tried here: " .. missing) end
      files.in_directory(function(dir)
         local n = core.sys.cores() + 1
         local words = ("OMPI_MCA_rmaps_base_oversubscribe=0 timeout -k 5 900 %s run --restart 1 "
            .. "%s --devices hosts:%dxcpu:1 --out %s/o"):format(core.sys.executable(),
            "recipes/t5_rte.lua", n, dir)
         local _, err, code = process.shell(several.environment(words))
         assert.matches(("ftpipe: mpirun knows fewer places than hosts:%dxcpu:1 has processes: say "
            .. "where they run, as %%-%%-hosts localhost:%d\n$"):format(n, n), err)
         assert.equal(1, code)
      end)
   end)

   it("is refused where nothing could start again", function()
      process.refused(2, "expected %-%-devices hosts:NxLIST", { "run", "--restart", "1",
         "recipes/t5_rte.lua", "--out", "o" })
      process.refused(2, "expected %-%-out", { "run", "--restart", "1", "recipes/t5_rte.lua",
         "--devices", "hosts:2xcpu:1" })
      process.refused(2, "has room for 1 process", { "run", "--restart", "1", "--hosts", "a",
         "recipes/t5_rte.lua", "--devices", "hosts:2xcpu:1", "--out", "o" })
      process.refused(2, "has room for 1 process", { "run", "recipes/t5_rte.lua", "--restart=1",
         "--devices", "hosts:2xcpu:1", "--hosts", "a", "--out", "o" })
      process.refused(2, "%-%-restart has no value, expected %-%-restart N", { "run",
         "recipes/t5_rte.lua", "--out", "o", "--restart" })
      process.refused(2, "unknown flag '%-%-restrat'", { "run", "recipes/t5_rte.lua", "--restrat",
         "1" })
      process.refused(2, "%-%-hosts is for %-%-restart", { "run", "--hosts", "a",
         "recipes/t5_rte.lua" })
   end)

   it("leaves a recipe its own flags of these names, behind a word", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/r.lua", "print(table.concat(arg, ' '))")
         process.refused(2, "%-%-hosts is for %-%-restart", { "run", dir .. "/r.lua", "--hosts",
            "a" })
         assert.equal("--lr 1 --hosts a --restart=2 --\n", (process.ftpipe { "run", dir .. "/r.lua",
            "--lr", "1", "--", "--hosts", "a", "--restart=2", "--" }))
      end)
   end)
end)

