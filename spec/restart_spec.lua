--- Runs that start again, with another program in the place of mpirun.

local core = require("ftpipe.core")
local ffi = require("ffi")
local files = require("spec.support.files")
local process = require("spec.support.process")
local restart = require("ftpipe.run.restart")

local GONE = "ftpipe: rank 1 (host a) has ended; it was at stage 1"
local SIGNALLED = "mpirun noticed that process rank 2 with PID 71 on node a exited on signal 9 "
   .. "(Killed)."

local directory

--- The environment of a program that finds such a script as its mpirun.
local function with_mpirun(script)
   core.sys.write_file(directory .. "/mpirun", "#!/bin/sh\ncd " .. directory .. "\n" .. script)
   process.shell("chmod +x " .. directory .. "/mpirun")
   return ("env PATH=%s:$PATH"):format(directory)
end

--- The words of a run of three processes that starts again.
local function words(...)
   local list = { core.sys.executable(), "run", "--restart", "1", "recipes/t5_rte.lua",
      "--devices", "hosts:3xcpu:1", "--out", directory .. "/out", ... }
   return table.concat(list, " ")
end

--- The command that runs it in the background, where a shell has signals ignored; its number is in
-- the file "pid".
local function in_background(environment)
   return ("%s timeout -k 5 60 env --default-signal=QUIT sh -c 'echo $$ >%s/pid; exec %s'"):format(
      environment, directory, words())
end

--- What a run says of such a mpirun, and its exit code.
local function said(script, ...)
   local _, err, code = process.shell(("%s timeout -k 5 60 %s"):format(with_mpirun(script),
      words(...)))
   return err, code
end

--- Whether a file in the directory is there.
local function there(name) return core.sys.exists(directory .. "/" .. name) ~= nil end

describe("a run that starts again", function()
   before_each(function() directory = files.directory() end)
   after_each(function() files.remove(directory) end)

   it("passes each signal on once", function()
      local environment = with_mpirun([[
         trap 'echo TERM >>heard' TERM
         : >heard; : >ready
         for i in $(seq 600); do
            [ $(wc -l <heard) -lt 2 ] || break
            sleep 0.05
         done
         exit 1]])
      local _, err = process.shell(([[
         DIR=%s
         %s & timer=$!
         until [ -e $DIR/ready ] || ! kill -0 $timer; do sleep 0.02; done
         for times in 1 2; do
            kill -TERM $(cat $DIR/pid)
            until [ $(wc -l <$DIR/heard) -ge $times ] || ! kill -0 $timer; do sleep 0.02; done
            sleep 0.4
            wc -l <$DIR/heard >>$DIR/counts
         done
         wait $timer]]):format(directory, in_background(environment)))
      assert.equal("1\n2\n", core.sys.read_file(directory .. "/counts"), err)
      assert.is_nil(err:find("starts again", 1, true), err)
   end)

   it("hears of a loss from mpirun, where no process says it", function()
      local script = [[
         [ ! -e again ] || { echo "made of: $*" >again; exit 0; }
         : >again
         echo "%s" >&2
         exit 137]]
      local err, code = said(script:format(SIGNALLED))
      assert.matches("ftpipe: starts again without rank 2: 1 of 1, as hosts:2xcpu:1\n", err)
      assert.equal(0, code)
      assert.matches("made of: %-n 2 .* %-%-devices hosts:2xcpu:1 %-%-resume\n$",
         core.sys.read_file(directory .. "/again"))
      os.remove(directory .. "/again")
      err = said(script:format(SIGNALLED .. "\n" .. GONE))
      assert.matches("starts again without rank 1: 1 of 1", err)
   end)

   it("ends an mpirun that waits for a machine which is gone", function()
      local environment = with_mpirun(([[
         [ ! -e again ] || exit 0
         : >again
         echo "%s" >&2
         trap '' TERM
         exec sleep 30]]):format(GONE))
      local _, err, code = process.shell(([[%s timeout -k 5 60 %s -e '
         local restart = require("ftpipe.run.restart")
         restart.PATIENCE_SECONDS = 0.2
         local words = { "x.lua", "--devices", "hosts:2xcpu:1", "--out", "o" }
         os.exit(restart.run(restart.job(words), 1))']]):format(environment,
         core.sys.executable()))
      assert.equal(0, code, err)
      assert.matches("ftpipe: mpirun still waits 0 s after rank 1 was lost, and is ended\n", err)
      assert.matches("starts again without rank 1", err)
   end)

   it("goes on with the program that has taken its place", function()
      local copy = directory .. "/program"
      local environment = with_mpirun(([[
         [ ! -e again ] || exec "$7" -e "io.stderr:write('began')"
         : >again
         cp program other; mv other program
         echo "%s" >&2
         exit 1]]):format(GONE))
      local _, err, code = process.shell(("cp %s %s; %s timeout -k 5 60 %s"):format(
         core.sys.executable(), copy, environment, (words():gsub("^%S+", copy))))
      assert.equal(0, code, err)
      assert.matches("began$", err)
   end)

   it("prints where it is told to, if that is a socket", function()
      ffi.cdef [[
         int socketpair(int domain, int type, int protocol, int *ends);
         int dup(int file);
         int dup2(int from, int to);
         int close(int file);
         long read(int file, void *bytes, size_t size);
      ]]
      local environment = with_mpirun("echo printed")
      local argv = { "/bin/sh", "-c", environment .. " " .. words() }
      local ends, kept = ffi.new("int[2]"), ffi.C.dup(1)
      assert.equal(0, ffi.C.socketpair(1, 1, 0, ends))
      io.stdout:flush()
      ffi.C.dup2(ends[1], 1)
      local pid = core.process.start(argv, nil, directory .. "/err", {})
      ffi.C.dup2(kept, 1)
      ffi.C.close(ends[1])
      ffi.C.close(kept)
      local bytes = ffi.new("char[100]")
      local n = tonumber(ffi.C.read(ends[0], bytes, 100)) -- waits until the other end is closed
      ffi.C.close(ends[0])
      local code
      repeat
         core.process.sleep(0.01)
         code = core.process.poll(pid)
      until code
      assert.same({ 0, "printed\n" }, { code, ffi.string(bytes, n) },
         core.sys.read_file(directory .. "/err"))
   end)

   it("is refused where what is left could not go on", function()
      for flags, why in pairs {
         ["--replicas 2-1"] = "%-%-replicas 2%-1 takes as many as now: give %-%-restart 0, or "
            .. "leave %-%-replicas 2%-1 out",
         ["--plan=two.plan"] = "%-%-plan two.plan takes as many as now: give %-%-restart 0, or "
            .. "leave %-%-plan two.plan out",
         ["--schedule async"] = "other numbers with %-%-schedule async: allow that by "
            .. "%-%-change%-schedule, or give %-%-restart 0",
      } do
         local err, code = said(": >started", flags)
         assert.same({ 2, false }, { code, there("started") }, err)
         assert.matches("^ftpipe: %-%-restart 1: a start without a process that was lost has fewer "
            .. "devices, and " .. why .. "\n$", err)
         err, code = said(": >started", flags, "--restart=0")
         assert.same({ 0, true }, { code, there("started") }, err)
         os.remove(directory .. "/started")
      end
   end)

   it("gives --change-schedule to what is left alone", function()
      local _, code = said(([[
         echo "made of: $*" >>starts
         [ ! -e again ] || exit 0
         : >again
         echo "%s" >&2
         exit 1]]):format(GONE), "--schedule async", "--change-schedule")
      assert.equal(0, code)
      local first, second = core.sys.read_file(directory .. "/starts"):match("^(.-)\n(.-)\n$")
      assert.matches("%-%-schedule async %-%-devices hosts:3xcpu:1$", first)
      assert.matches("%-%-devices hosts:2xcpu:1 %-%-resume %-%-change%-schedule$", second)
   end)

   it("says what to do where what is left was refused", function()
      local err, code = said(([[
         [ ! -e again ] || exit 2
         : >again
         echo "%s" >&2
         exit 1]]):format(GONE))
      assert.equal(2, code)
      assert.matches("ftpipe: hosts:2xcpu:1 was refused, as said above; the run goes on from its "
         .. "last checkpoint by %-%-resume, with flags for these devices or with those that it "
         .. "had\n$", err)
   end)

   it("is none where a recipe only prints", function()
      for _, flag in ipairs { "--help", "-h", "--print-config" } do
         local printed = process.ftpipe { "recipes/t5_rte.lua", flag }
         assert.is_truthy(#printed > 0)
         local out, err, code = process.ftpipe { "run", "--restart", "1", "recipes/t5_rte.lua",
            flag }
         assert.same({ 0, printed }, { code, out }, err)
      end
   end)

   it("says what to install where there is no mpirun", function()
      local _, err, code = process.shell("PATH=/none " .. words())
      assert.equal(2, code)
      assert.equal("ftpipe: there is no mpirun in PATH, which starts the processes: install Open "
         .. "MPI, as by apt-get install openmpi-bin\n", err)
   end)

   it("says who to ask for a report where it does not know rank 0", function()
      local environment = with_mpirun(": >ready; while [ ! -e on ]; do sleep 0.05; done")
      local _, err, code = process.shell(([[
         DIR=%s
         %s 2>$DIR/err & timer=$!
         until [ -e $DIR/ready ] || ! kill -0 $timer; do sleep 0.02; done
         kill -QUIT $(cat $DIR/pid)
         until [ -s $DIR/err ] || ! kill -0 $timer; do sleep 0.02; done
         : >$DIR/on
         cat $DIR/err >&2
         wait $timer]]):format(directory, in_background(environment)))
      assert.equal(0, code, err)
      assert.matches("^ftpipe: rank 0 says who waits for whom when it gets SIGQUIT; it is not "
         .. "known here as the process that writes in %S+/out: ftpipe runs show", err)
   end)

   it("knows a loss in the words of mpirun", function()
      assert.same({ rank = 2, how = "ended" }, restart.read_signalled(SIGNALLED))
      assert.is_nil(restart.read_signalled(GONE))
      assert.is_nil(restart.read_signalled("say " .. SIGNALLED))
   end)
end)
