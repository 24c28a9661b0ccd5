--- How much the tests see: puts one fault at a time into a copy of the sources and runs the tests
-- that should fail.
--
--    build/release/ftpipe tools/mutate.lua [--jobs N] [--only TEXT] [--list] [--skip N]
--
-- Faults are in tools/faults/ROOM.lua, each a table:
--
--    { "src/optim/rate.c", "step < warmup", "step <= warmup", "c/optim", "a longer warm-up" }
--
-- a file, what stands there exactly once, what stands there instead, the tests to run (a regular
-- expression over names, as of `./dev test`), and what is wrong then. A fault must compile, and the
-- tests must pass without it. Not part of the test suite: it takes seconds for each fault.
--
-- Every job works in a copy of its own, build/mutate/N, whose build is incremental. What was not
-- seen is printed, and the share that was; the exit code is 1 when that is under 95 %.

local core = require("ftpipe.core")

local LEAST_SHARE = 0.95
local TEST_SECONDS = 300 -- a fault may make a test wait for ever

-- Faults ------------------------------------------------------------------------------------------

--- All faults, with those of one file behind each other, so that little is built anew.
local function read_faults(only)
   local list = {}
   local names = core.sys.list_dir("tools/faults")
   table.sort(names)
   for _, name in ipairs(names) do
      local room = name:match("^(.*)%.lua$")
      for i, row in ipairs(room and dofile("tools/faults/" .. name) or {}) do
         local fault = {
            id = ("%s %d"):format(room, i), path = row[1], old = row[2], new = row[3],
            tests = row[4], says = row[5],
         }
         assert(#row == 5, fault.id .. ": expected five strings: file, old, new, tests, what")
         local text = ("%s %s %s"):format(fault.id, fault.path, fault.says)
         if not only or text:find(only, 1, true) then list[#list + 1] = fault end
      end
   end
   return list
end

--- The text with the fault in; nil and why not, when what is to be replaced is not there once.
local function with_fault(text, fault)
   local first, last = text:find(fault.old, 1, true)
   if not first then return nil, "its text is not in the file" end
   if text:find(fault.old, first + 1, true) then return nil, "its text is there twice" end
   return text:sub(1, first - 1) .. fault.new .. text:sub(last + 1)
end

-- One job -----------------------------------------------------------------------------------------

local function quiet(directory, command)
   return os.execute(("cd '%s' && %s >>mutate.log 2>&1 </dev/null"):format(directory, command)) == 0
end

--- A copy of what is committed and of what is changed, built.
local function prepare(directory)
   local copied = os.execute(([[
      mkdir -p '%s' &&
      find '%s' -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} + &&
      git ls-files -co --exclude-standard -z | tar --null --files-from - -cf - | tar -xf - -C '%s'
   ]]):format(directory, directory, directory)) == 0
   assert(copied, directory .. ": the sources could not be copied")
   assert(quiet(directory, "cmake --preset release && ninja -C build/release -j 1"),
      directory .. ": the sources do not build, see mutate.log there")
end

--- What is to be built for tests, as targets of the build.
local function targets_of(directory, tests)
   local pipe = assert(io.popen(("ctest --test-dir '%s/build/release' -N -R '%s'"):format(directory,
      tests)))
   local targets, seen = {}, {}
   for line in pipe:lines() do
      local kind, name = line:match("^ *Test +#%d+: (%l+)/(%S+)")
      local target = ({ c = "test_", fuzz = "fuzz_" })[kind]
      target = target and target .. name or "ftpipe"
      if kind and not seen[target] then
         seen[target], targets[#targets + 1] = true, target
      end
   end
   pipe:close()
   return table.concat(targets, " ")
end

local function run_tests(directory, tests)
   return quiet(directory, ("ctest --test-dir build/release --no-tests=error --stop-on-failure "
      .. "--timeout %d -R '%s'"):format(TEST_SECONDS, tests))
end

--- What became of a fault: "seen", "missed", or what is wrong with the fault itself.
local function try(directory, fault)
   local path = directory .. "/" .. fault.path
   if not core.sys.exists(path) then return "stale: its file is not there" end
   local text = core.sys.read_file(path)
   local changed, problem = with_fault(text, fault)
   if not changed then return "stale: " .. problem end
   core.sys.write_file(path, changed)
   local builds = quiet(directory, "ninja -C build/release -j 1 "
      .. targets_of(directory, fault.tests))
   local passed = builds and run_tests(directory, fault.tests)
   core.sys.write_file(path, text)
   if not builds then return "stale: it does not compile" end
   return passed and "missed" or "seen"
end

--- Prints "id<TAB>result" for every n-th fault, beginning with the job's number.
local function work(faults, job, jobs)
   local directory = ("build/mutate/%d"):format(job)
   prepare(directory)
   local each = math.ceil(#faults / jobs)
   for i = (job - 1) * each + 1, math.min(job * each, #faults) do
      print(faults[i].id .. "\t" .. try(directory, faults[i]))
      io.stdout:flush()
   end
end

-- All of them -------------------------------------------------------------------------------------

local function start(job, jobs, only)
   return assert(io.popen(("'%s' tools/mutate.lua --job %d --jobs %d %s"):format(
      "build/release/ftpipe", job, jobs, only and ("--only '%s'"):format(only) or "")))
end

--- Runs all jobs beside each other; results by id.
local function collect(faults, jobs, only)
   local pipes, results = {}, {}
   for job = 1, jobs do pipes[job] = start(job, jobs, only) end
   for _, pipe in ipairs(pipes) do
      for line in pipe:lines() do
         local id, result = line:match("^(.-)\t(.*)$")
         if id then results[id] = result end
      end
      pipe:close()
   end
   for _, fault in ipairs(faults) do
      results[fault.id] = results[fault.id] or "stale: its job ended early"
   end
   return results
end

local function report(faults, results)
   local seen, tried, stale = 0, 0, 0
   for _, fault in ipairs(faults) do
      local result = results[fault.id]
      if result == "seen" then seen = seen + 1 end
      if result == "seen" or result == "missed" then tried = tried + 1 else stale = stale + 1 end
      if result ~= "seen" then
         print(("%s: %s: %s (%s; tests %s)"):format(fault.id, result, fault.says, fault.path,
            fault.tests))
      end
   end
   print(("%d faults, %d seen, %d missed (%.1f %% seen), %d stale"):format(#faults, seen,
      tried - seen, tried > 0 and 100 * seen / tried or 0, stale))
   return stale == 0 and tried > 0 and seen >= LEAST_SHARE * tried
end

local o = require("ftpipe.recipe.args").read({
   "Puts faults into copies of the sources and counts those that the tests see.",
   jobs = { default = 2, min = 1, help = "copies that are worked on at the same time" },
   only = { type = "string", value = "TEXT", help = "faults with this in room, file or words" },
   list = { type = "boolean", default = false, help = "print the faults, run nothing" },
   job = { type = "int", min = 1, help = "be this job, for the program itself" },
}, arg, "tools/mutate.lua")

local faults = read_faults(o.only)
if o.list then
   for _, fault in ipairs(faults) do print(fault.id, fault.path, fault.says) end
elseif o.job then
   work(faults, o.job, o.jobs)
else
   local jobs = math.min(o.jobs, math.max(1, #faults))
   os.exit(report(faults, collect(faults, jobs, o.only)) and 0 or 1, true)
end
