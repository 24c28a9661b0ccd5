--- Runs of several processes that start again when one is lost: ftpipe run --restart N.
--
-- A launcher of MPI ends all processes of a run when one of them ends, so this stands outside: it
-- starts mpirun, passes on what is said, and hears there who was lost. The next start has the
-- processes that are left, goes on from the last checkpoint, and plans for the devices it has.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local usage = require("ftpipe.base.usage")

local M = {}

local POLL_SECONDS = 0.05
local PASSED_ON = { save = 10, trace = 12 } -- SIGUSR1 and SIGUSR2, which mpirun gives to all
local GONE = "ended" -- of a process; else its machine does not answer either

-- ---------------------------------------------------------------------------------------------
-- Jobs: argv (a recipe and its flags, without devices), n (processes), each (what one has), hosts
-- (rows of name and slots; nil: all on this machine).

--- Takes a flag out of a command line: its value; nil where it is not there.
local function take(argv, flag)
   for i, word in ipairs(argv) do
      local value = word:sub(1, #flag + 1) == flag .. "=" and word:sub(#flag + 2) or nil
      if value or word == flag then
         table.remove(argv, i)
         return value or table.remove(argv, i)
      end
   end
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
   local words, out, resumes = { unpack(argv) }, false, false
   local n, each = take_devices(words)
   for _, word in ipairs(words) do
      out = out or word == "--out" or word:find("^%-%-out=") ~= nil
      resumes = resumes or word == "--resume"
   end
   if not out then usage("--restart goes on from checkpoints: expected --out behind the recipe") end
   return { argv = words, n = n, each = each, hosts = hosts and parse_hosts(hosts, n),
      resumes = resumes }
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
   return words
end

--- The job of those who are left; nil when nobody is.
-- @tparam table job
-- @tparam table lost rank (from 0), how: GONE, or its host does not answer
function M.without(job, lost)
   local left = { argv = job.argv, each = job.each, n = job.n - 1, resumes = true }
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

--- Passes on what came behind what was read of a file; gives the first loss that is in it.
local function pass_on(said)
   said.file:seek("cur", 0) -- its end may have moved
   local text = said.file:read("*a")
   if text == "" then return end
   io.stderr:write(text)
   said.rest = said.rest .. text
   said.rest = said.rest:gsub("([^\n]*)\n", function(line)
      said.lost = said.lost or M.read_loss(line)
      said.full = said.full or line:find("not enough slots", 1, true) ~= nil
      return ""
   end)
end

--- Runs a job to its end: its exit code, who was lost, and the signal that asked to end it.
local function run(job)
   local path, asked = os.tmpname(), nil
   local said = { file = assert(io.open(path)), rest = "" }
   local pid = core.process.start(M.command(job), "/dev/stdout", path, {})
   local code
   repeat
      core.process.sleep(POLL_SECONDS)
      local signal = core.sys.interrupted()
      if signal then
         core.process.signal(pid, signal)
         asked = signal
      end
      for what, number in pairs(PASSED_ON) do
         if core.sys.asked(what) then core.process.signal(pid, number) end
      end
      core.sys.asked("report") -- nobody here has one
      code = core.process.poll(pid)
      pass_on(said)
   until code
   said.file:close()
   os.remove(path)
   if said.full and code ~= 0 then
      io.stderr:write(("ftpipe: mpirun knows fewer places than hosts:%dx%s has processes: say "
         .. "where they run, as --hosts localhost:%d\n"):format(job.n, job.each, job.n))
   end
   return code, said.lost, asked
end

--- Runs a job, and what is left of it when a process was lost, `times` times at most.
-- @treturn int the exit code of the last start
function M.run(job, times)
   core.sys.hold_interrupt(true)
   core.sys.hear_asks(true)
   for start = 0, times do
      local code, lost, asked = run(job)
      local left = lost and not asked and M.without(job, lost)
      if not left or start == times then return code end
      io.stderr:write(("ftpipe: starts again without rank %d: %d of %d, as hosts:%dx%s\n"):format(
         lost.rank, start + 1, times, left.n, left.each))
      job = left
   end
end

return M
