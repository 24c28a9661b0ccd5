--- Runs of several processes that start again when one is lost: ftpipe run --restart N.
--
-- A launcher of MPI ends all processes of a run when one of them ends, so this stands outside: it
-- starts mpirun, passes on what is said, and hears there who was lost. The next start has the
-- processes that are left, goes on from the last checkpoint, and plans for the devices it has.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local directories = require("ftpipe.store.directory")
local schedules = require("ftpipe.schedule")
local usage = require("ftpipe.base.usage")

local M = {}

-- How long mpirun may take to end a run of which a process was lost: it waits for the word of the
-- machine, for a quarter of an hour where that is gone.
M.PATIENCE_SECONDS = 10

-- What it gets then, and how much later; the second SIGTERM ends it at once.
local SIGTERM, SIGKILL, SIGQUIT = 15, 9, 3
local ENDS = {
   { seconds = 0, signal = SIGTERM }, { seconds = 1, signal = SIGTERM },
   { seconds = 3, signal = SIGKILL },
}

local POLL_SECONDS = 0.05
local REFUSED = 2 -- exit code of what was started with flags that do not go together
local PASSED_ON = { save = 10, trace = 12 } -- SIGUSR1 and SIGUSR2, which mpirun gives to all
local GONE = "ended" -- of a process; else its machine does not answer either

-- ---------------------------------------------------------------------------------------------
-- Jobs: argv (a recipe and its flags, without devices), n (processes), each (what one has), hosts
-- (rows of name and slots; nil: all on this machine), out (its directory), changes (whether starts
-- that go on may change the schedule), fixed (words that take as many devices as now; may be nil),
-- late (the schedule, where its weights are late).

--- Where a flag is in a command line, its value, and whether both are one word; nil without it.
local function find(argv, flag)
   for i, word in ipairs(argv) do
      if word == flag then return i, argv[i + 1], false end
      if word:sub(1, #flag + 1) == flag .. "=" then return i, word:sub(#flag + 2), true end
   end
end

--- Takes a flag out of a command line: its value; nil where it is not there.
local function take(argv, flag)
   local i, value, is_joined = find(argv, flag)
   if not i then return nil end
   table.remove(argv, i)
   if not is_joined then table.remove(argv, i) end
   return value
end

--- Takes a flag without a value out: whether it was there.
local function take_switch(argv, flag)
   local i = find(argv, flag)
   if i then table.remove(argv, i) end
   return i ~= nil
end

--- Takes --devices out: processes, and what each has.
local function take_devices(argv)
   local n, each = (take(argv, "--devices") or ""):match("^hosts:(%d+)x(.+)$")
   if n then return tonumber(n), each end
   usage("--restart is for a run of several processes: expected --devices hosts:NxLIST behind the "
      .. "recipe, as hosts:2xcpu:4")
end

--- "anna:2,berta:1" as rows.
local function parse_hosts(text, n)
   local rows, slots = {}, 0
   for entry in (text .. ","):gmatch("([^,]*),") do
      local name, count = entry:match("^([^:]+):?(%d*)$")
      if not name then usage("--hosts %s: expected names with slots, as anna:1,berta:2", text) end
      rows[#rows + 1] = { name = name, slots = count == "" and 1 or tonumber(count) }
      slots = slots + rows[#rows].slots
   end
   if slots < n then
      usage("--hosts %s has room for %s, and --devices is of %d", text,
         counted(slots, "process", "processes"), n)
   end
   return rows
end

--- @tparam {string,...} argv a recipe and its flags
-- @tparam[opt] string hosts as mpirun's --host has them
-- @treturn table a job
-- @raise invalid argument
function M.job(argv, hosts)
   local words = { unpack(argv) }
   local n, each = take_devices(words)
   local job = { argv = words, n = n, each = each, hosts = hosts and parse_hosts(hosts, n),
      resumes = find(words, "--resume") ~= nil, changes = take_switch(words, "--change-schedule") }
   job.out = select(2, find(words, "--out"))
   if not job.out then
      usage("--restart goes on from checkpoints: expected --out behind the recipe")
   end
   for _, flag in ipairs { "--replicas", "--plan" } do
      local value = select(2, find(words, flag))
      job.fixed = job.fixed or value and flag .. " " .. value
   end
   local schedule = select(2, find(words, "--schedule"))
   job.late = schedule and not schedules.is_synchronous(schedule) and schedule or nil
   return job
end

--- The words that start a job.
function M.command(job)
   local words = { "/usr/bin/env", "mpirun", "-n", tostring(job.n), "--bind-to", "none",
      "--map-by", "slot" }
   if job.hosts then
      local entries = {}
      for i, row in ipairs(job.hosts) do entries[i] = row.name .. ":" .. row.slots end
      words[#words + 1] = "--host"
      words[#words + 1] = table.concat(entries, ",")
   end
   words[#words + 1] = core.sys.executable()
   for _, word in ipairs(job.argv) do words[#words + 1] = word end
   words[#words + 1] = "--devices"
   words[#words + 1] = ("hosts:%dx%s"):format(job.n, job.each)
   if job.resumes then words[#words + 1] = "--resume" end
   if job.resumes and job.changes then words[#words + 1] = "--change-schedule" end
   return words
end

--- The job of those who are left; nil when nobody is.
-- @tparam table job
-- @tparam table lost rank (from 0), how: GONE, or its host does not answer
function M.without(job, lost)
   local left = copy(job, { n = job.n - 1, resumes = true })
   if job.hosts then
      local before, slots = 0, 0
      left.hosts = {}
      for _, row in ipairs(job.hosts) do
         local stays, its = row.slots, lost.rank >= before and lost.rank < before + row.slots
         if its then stays = lost.how == GONE and stays - 1 or 0 end
         before, slots = before + row.slots, slots + stays
         if stays > 0 then left.hosts[#left.hosts + 1] = { name = row.name, slots = stays } end
      end
      left.n = math.min(left.n, slots)
   end
   if left.n == 1 then -- nothing passes between processes
      left.argv = { unpack(job.argv) }
      take(left.argv, "--transport")
   end
   return left.n > 0 and left or nil
end

-- ---------------------------------------------------------------------------------------------
-- Running.

--- Who was lost, by a line of what is said: rank and how; nil in any other.
function M.read_loss(line)
   local rank, how = line:match("^ftpipe: rank (%d+) %(host [^)]*%) (.*)$")
   if not rank then return nil end
   if how:find("^has ended") then return { rank = tonumber(rank), how = GONE } end
   if how:find("^has said nothing for") or how:find("^cannot be reached") then
      return { rank = tonumber(rank), how = "silent" }
   end
   return nil
end

--- The same by what mpirun says of a process that a signal has ended: all that there is of one on
-- another machine, or before the processes have met.
function M.read_signalled(line)
   local rank = line:match("^%S+ noticed that process rank (%d+) with PID %d+ on node %S+ exited "
      .. "on signal %d+")
   return rank and { rank = tonumber(rank), how = GONE }
end

--- Passes on what came behind what was read of a file; finds the first loss that is in it.
local function pass_on(start)
   start.file:seek("cur", 0) -- its end may have moved
   local text = start.file:read("*a")
   if text == "" then return end
   io.stderr:write(text)
   start.rest = start.rest .. text
   start.rest = start.rest:gsub("([^\n]*)\n", function(line)
      start.named = start.named or M.read_loss(line)
      start.signalled = start.signalled or M.read_signalled(line)
      start.full = start.full or line:find("not enough slots", 1, true) ~= nil
      return ""
   end)
   start.lost = start.named or start.signalled
   if start.lost then start.since = start.since or core.sys.time_ns() end
end

--- Whether a process was started by another one, or by one of those that it started.
local function is_below(pid, above)
   while pid and pid > 1 and pid ~= above do
      local file = io.open(("/proc/%d/status"):format(pid))
      pid = file and tonumber(file:read("*a"):match("\nPPid:%s*(%d+)"))
      if file then file:close() end
   end
   return pid == above
end

--- The process of rank 0, which writes in the directory; nil where it is not on this machine, or
-- has not begun.
local function find_writer(start)
   local known, writer = pcall(directories.writer, start.job.out)
   return known and writer and is_below(writer, start.pid) and writer or nil
end

--- Asks rank 0 who waits for whom; mpirun passes this signal on to nobody.
local function ask_for_report(start)
   local out, writer = start.job.out, find_writer(start)
   if writer then
      core.process.signal(writer, SIGQUIT)
      return
   end
   io.stderr:write(("ftpipe: rank 0 says who waits for whom when it gets SIGQUIT; it is not known "
      .. "here as the process that writes in %s: ftpipe runs show, on its machine, has its "
      .. "number\n"):format(out))
end

--- Passes on the signals that came, each once. The first one that ends the run is for rank 0, which
-- takes the time that it needs to save; mpirun gives processes a second.
local function hear(start)
   local signal = core.sys.interrupted()
   if signal then
      core.sys.clear_interrupt()
      core.process.signal(not start.asked and find_writer(start) or start.pid, signal)
      start.asked = true
   end
   for what, number in pairs(PASSED_ON) do
      if core.sys.asked(what) then core.process.signal(start.pid, number) end
   end
   if core.sys.asked("report") then ask_for_report(start) end
end

--- Ends mpirun where it waits for a machine that was lost.
local function end_late(start)
   local row = start.since and ENDS[start.n_ends + 1]
   if not row then return end
   local seconds = (core.sys.time_ns() - start.since) / 1e9
   if seconds < M.PATIENCE_SECONDS + row.seconds then return end
   if start.n_ends == 0 then
      io.stderr:write(("ftpipe: mpirun still waits %.0f s after rank %d was lost, and is ended\n")
         :format(seconds, start.lost.rank))
   end
   start.n_ends = start.n_ends + 1
   core.process.signal(start.pid, row.signal)
end

--- Runs a job to its end.
-- @treturn table code (its exit code), lost (who was; may be nil), asked (whether a signal asked to
--   end it)
local function run(job)
   local path = os.tmpname()
   local start = { job = job, file = assert(io.open(path)), rest = "", n_ends = 0 }
   start.pid = core.process.start(M.command(job), nil, path, {})
   repeat
      core.process.sleep(POLL_SECONDS)
      hear(start)
      start.code = core.process.poll(start.pid)
      pass_on(start)
      if not start.code then end_late(start) end
   until start.code
   start.file:close()
   os.remove(path)
   if start.full and start.code ~= 0 then
      io.stderr:write(("ftpipe: mpirun knows fewer places than hosts:%dx%s has processes: say "
         .. "where they run, as --hosts localhost:%d\n"):format(job.n, job.each, job.n))
   end
   return start
end

--- Refuses a job that could not start again.
local function check(job, times)
   if times > 0 and job.fixed then
      usage("--restart %d: a start without a process that was lost has fewer devices, and %s takes "
         .. "as many as now: give --restart 0, or leave %s out", times, job.fixed, job.fixed)
   end
   if times > 0 and job.late and not job.changes then
      usage("--restart %d: a start without a process that was lost has fewer devices, and other "
         .. "numbers with --schedule %s: allow that by --change-schedule, or give --restart 0",
         times, job.late)
   end
   for directory in (os.getenv("PATH") or ""):gmatch("[^:]+") do
      if core.sys.exists(directory .. "/mpirun") == "file" then return end
   end
   usage("there is no mpirun in PATH, which starts the processes: install Open MPI, as by "
      .. "apt-get install openmpi-bin")
end

--- Runs a job, and what is left of it when a process was lost, `times` times at most.
-- @treturn int the exit code of the last start
-- @raise invalid argument: it could not start again, or there is no mpirun
function M.run(job, times)
   check(job, times)
   core.sys.hold_interrupt(true)
   core.sys.hear_asks(true)
   for n = 0, times do
      local start = run(job)
      if n > 0 and start.code == REFUSED then
         io.stderr:write(("ftpipe: hosts:%dx%s was refused, as said above; the run goes on from "
            .. "its last checkpoint by --resume, with flags for these devices or with those that "
            .. "it had\n"):format(job.n, job.each))
      end
      local lost = start.lost
      local left = lost and not start.asked and M.without(job, lost)
      if not left or n == times then return start.code end
      io.stderr:write(("ftpipe: starts again without rank %d: %d of %d, as hosts:%dx%s\n"):format(
         lost.rank, n + 1, times, left.n, left.each))
      job = left
   end
end

return M
