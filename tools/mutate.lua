--- How much the tests see: puts one fault at a time into a copy of the sources and runs the tests
-- that should fail.
--
--    build/release/ftpipe tools/mutate.lua [--jobs N] [--only TEXT,...] [--list] [--check] [...]
--
-- Faults are in tools/faults/ROOM.lua, each a table:
--
--    { "src/optim/rate.c", "step < warmup", "step <= warmup", "c/optim", "a longer warm-up" }
--
-- a file, what stands there exactly once, what stands there instead, the tests to run (names as of
-- `./dev test`, with a blank between them; "c/data*" is every one that begins so), and what is then
-- wrong. Not part of the test suite: it takes seconds for each fault.
--
-- A fault is stale, and counts as not seen, when its text does not stand in its file once, when it
-- does not compile, when a test of that name does not exist, or when one fails without the fault.
-- --check looks for the first three of these without building; of C it does not ask a compiler.
--
-- Every job works in a copy of its own, build/mutate/N, whose build is incremental. What was not
-- seen is printed, and the share that was; the exit code is 1 when that is under 95 %.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")

local LEAST_SHARE = 0.95

-- Faults ------------------------------------------------------------------------------------------

--- Whether one of the texts, which have commas between them, is in what is said of a fault.
local function is_meant(only, text)
   for part in only:gmatch("[^,]+") do
      if text:find(part, 1, true) then return true end
   end
   return false
end

--- All faults, with those of one file behind each other, so that little is built anew.
local function read_faults(directory, only)
   local list = {}
   local names = core.sys.list_dir(directory)
   table.sort(names)
   for _, name in ipairs(names) do
      local room = name:match("^(.*)%.lua$")
      for i, row in ipairs(room and dofile(directory .. "/" .. name) or {}) do
         local fault = {
            id = ("%s %d"):format(room, i), path = row[1], old = row[2], new = row[3],
            tests = row[4], says = row[5],
         }
         assert(#row == 5, fault.id .. ": expected five strings: file, old, new, tests, what")
         local text = ("%s %s %s"):format(fault.id, fault.path, fault.says)
         if not only or is_meant(only, text) then list[#list + 1] = fault end
      end
   end
   return list
end

--- The text of the fault's file in a directory, and that with the fault in; nil and why not.
local function texts_of(directory, fault)
   local path = directory .. "/" .. fault.path
   if not core.sys.exists(path) then return nil, "its file is not there" end
   local text = core.sys.read_file(path)
   local first, last = text:find(fault.old, 1, true)
   if not first then return nil, "its text is not in the file" end
   if text:find(fault.old, first + 1, true) then return nil, "its text is there twice" end
   local changed = text:sub(1, first - 1) .. fault.new .. text:sub(last + 1)
   if path:find("%.lua$") and not loadstring(changed) then return nil, "it does not compile" end
   return text, changed
end

-- Tests -------------------------------------------------------------------------------------------

--- Names of all tests of a build.
local function tests_of(build)
   local names = {}
   local pipe = assert(io.popen(argvs.line { "ctest", "--test-dir", build, "-N" }))
   for line in pipe:lines() do
      names[#names + 1] = line:match("^ *Test +#%d+: (%S+)")
   end
   pipe:close()
   return names
end

local function matches(pattern, name)
   local begin = pattern:match("^(.*)%*$")
   return begin and name:sub(1, #begin) == begin or pattern == name
end

--- Of the names, those that a fault's tests stand for; nil and why, when one stands for none.
local function chosen_of(names, fault)
   local chosen = {}
   for pattern in fault.tests:gmatch("%S+") do
      local n = #chosen
      for _, name in ipairs(names) do
         if matches(pattern, name) then chosen[#chosen + 1] = name end
      end
      if #chosen == n then return nil, ("no test is named '%s'"):format(pattern) end
   end
   if #chosen == 0 then return nil, "it names no test" end
   return chosen
end

--- Runs tests of a build, until the first that fails unless all are asked for: how each of those
-- that failed did ("Failed", "Timeout", ...), by name.
local function failures(build, chosen, all)
   local log = build .. "/mutate.tests.log"
   local words = { "ctest", "--test-dir", build, "--no-tests=error", "-R",
      ("^(%s)$"):format(table.concat(chosen, "|")), not all and "--stop-on-failure" or nil }
   local done = os.execute(("%s >%s 2>&1 </dev/null"):format(argvs.line(words),
      argvs.quoted(log))) == 0
   local failed, n = {}, 0
   for name, how in core.sys.read_file(log):gmatch("\n%s*%d+ %- (%S+) %((.-)%)") do
      failed[name], n = how, n + 1
   end
   assert(done == (n == 0), log .. ": what failed is not told")
   return failed
end

-- One job -----------------------------------------------------------------------------------------

local function quiet(directory, command)
   return os.execute(("cd %s && %s >>mutate.log 2>&1 </dev/null"):format(
      argvs.quoted(directory), command)) == 0
end

-- Copies what is committed and what is changed, but no file that is the same there: one that was
-- last built with a fault in it has to stay newer than what was built. Removes what is not here.
local COPY = [[
   set -e
   to=%s
   mkdir -p "$to"
   git ls-files -co --exclude-standard | while read -r file; do
      [ -f "$file" ] || continue
      cmp -s "$file" "$to/$file" && continue
      mkdir -p "$(dirname "$to/$file")"
      cp "$file" "$to/$file"
   done
   (cd "$to" && find . -path ./build -prune -o -type f -print) | while read -r file; do
      [ -f "$file" ] || rm "$to/$file"
   done]]

--- A copy of the sources, built.
local function prepare(directory)
   assert(os.execute(COPY:format(argvs.quoted(directory))) == 0,
      directory .. ": the sources could not be copied")
   assert(quiet(directory, "cmake --preset release && ninja -C build/release -j 1"),
      directory .. ": the sources do not build, see mutate.log there")
end

--- The programs that a spec runs: besides ftpipe those that it names.
local function programs_of(spec)
   local path = ("spec/%s_spec.lua"):format(spec)
   local text = core.sys.exists(path) and core.sys.read_file(path) or ""
   local programs = "ftpipe"
   for _, name in ipairs { "ftpipe_check", "ftpipe_emu" } do
      if text:find(name, 1, true) then programs = programs .. " " .. name end
   end
   return programs
end

--- What is to be built for tests, as targets of the build.
local function targets_of(chosen)
   local targets, seen = {}, {}
   for _, name in ipairs(chosen) do
      local kind, rest = name:match("^(%l+)/(.*)$")
      local prefix = ({ c = "test_", fuzz = "fuzz_" })[kind]
      local target = prefix and prefix .. rest or kind == "check" and "ftpipe_check ftpipe_emu"
         or kind == "spec" and programs_of(rest) or "ftpipe"
      if not seen[target] then seen[target], targets[#targets + 1] = true, target end
   end
   return table.concat(targets, " ")
end

--- What became of a fault: "seen by TEST", "missed", or what is wrong with the fault itself.
-- @tparam table job directory, names (of all tests), broken (tests that fail without a fault)
local function try(job, fault)
   local chosen, problem = chosen_of(job.names, fault)
   if not chosen then return "stale: " .. problem end
   for _, name in ipairs(chosen) do
      if job.broken[name] then return "stale: without it as well, failed: " .. name end
   end
   local text, changed = texts_of(job.directory, fault)
   if not text then return "stale: " .. changed end
   local path = job.directory .. "/" .. fault.path
   core.sys.write_file(path, changed)
   local builds = quiet(job.directory, "ninja -C build/release -j 1 " .. targets_of(chosen))
   local name, how = nil, nil
   if builds then name, how = next(failures(job.build, chosen)) end
   core.sys.write_file(path, text)
   if not builds then return "stale: it does not compile" end
   return name and ("seen by %s (%s)"):format(name, how) or "missed"
end

--- Names of all tests that faults ask for, each once.
local function asked_for(names, faults)
   local asked, seen = {}, {}
   for _, fault in ipairs(faults) do
      for _, name in ipairs(chosen_of(names, fault) or {}) do
         if not seen[name] then seen[name], asked[#asked + 1] = true, name end
      end
   end
   return asked
end

--- Prints "id<TAB>result" for the faults of a job.
local function work(faults, number, jobs)
   local directory = ("build/mutate/%d"):format(number)
   local each = math.ceil(#faults / jobs)
   local mine = { unpack(faults, (number - 1) * each + 1, math.min(number * each, #faults)) }
   if #mine == 0 then return end
   prepare(directory)
   local job = { directory = directory, build = directory .. "/build/release" }
   job.names = tests_of(job.build)
   local asked = asked_for(job.names, mine)
   job.broken = #asked > 0 and failures(job.build, asked, true) or {}
   for _, fault in ipairs(mine) do
      print(fault.id .. "\t" .. try(job, fault))
      io.stdout:flush()
   end
end

-- All of them -------------------------------------------------------------------------------------

local function start(job, o)
   return assert(io.popen(argvs.line { core.sys.executable(), "tools/mutate.lua",
      "--job=" .. job, "--jobs=" .. o.jobs, "--faults=" .. o.faults,
      o.only and "--only=" .. o.only or nil }))
end

--- Runs all jobs beside each other; results by id.
local function collect(faults, o)
   local pipes, results = {}, {}
   for job = 1, o.jobs do pipes[job] = start(job, o) end
   for _, pipe in ipairs(pipes) do
      for line in pipe:lines() do
         local id, result = line:match("^(.-)\t(.*)$")
         if id then
            results[id] = result
            io.stderr:write(id, ": ", result, "\n") -- it takes long
         end
      end
      pipe:close()
   end
   for _, fault in ipairs(faults) do
      results[fault.id] = results[fault.id] or "stale: its job ended early"
   end
   return results
end

local function is_seen(result) return result:find("^seen") ~= nil end

--- Every fault and what became of it, as lines of a file.
local function write_log(path, faults, results)
   local lines = {}
   for _, fault in ipairs(faults) do
      lines[#lines + 1] = ("%s\t%s\t%s\t%s\n"):format(fault.id, fault.path, fault.says,
         results[fault.id])
   end
   core.sys.write_file(path, table.concat(lines))
end

--- Prints what was not seen, and the share that was; true when that is enough.
local function report(faults, results)
   local seen, stale, late = 0, 0, 0
   for _, fault in ipairs(faults) do
      local result = results[fault.id]
      if is_seen(result) then
         seen = seen + 1
         if result:find("(Timeout)", 1, true) then late = late + 1 end
      else
         if result ~= "missed" then stale = stale + 1 end
         print(("%s: %s: %s (%s; tests %s)"):format(fault.id, result, fault.says, fault.path,
            fault.tests))
      end
   end
   local share = #faults > 0 and seen / #faults or 0
   print(("%d faults, %d seen (%.1f %%; %d of them by a time limit), %d missed, %d stale"):format(
      #faults, seen, 100 * share, late, #faults - seen - stale, stale))
   return share >= LEAST_SHARE
end

--- Prints the faults that are stale already as their text stands; true when there are none.
local function check(faults)
   local names, n = tests_of(core.sys.executable():match("^(.*)/")), 0
   for _, fault in ipairs(faults) do
      local found, problem = texts_of(".", fault)
      if found then found, problem = chosen_of(names, fault) end
      if not found then
         n = n + 1
         print(("%s: stale: %s (%s; tests %s)"):format(fault.id, problem, fault.path, fault.tests))
      end
   end
   print(("%d faults, %d stale"):format(#faults, n))
   return n == 0
end

local o = require("ftpipe.recipe.args").read({
   "Puts faults into copies of the sources and counts those that the tests see.",
   jobs = { default = 2, min = 1, help = "copies that are worked on at the same time" },
   only = { type = "string", value = "TEXT,...", help = "faults with one in room, file or words" },
   faults = { type = "string", default = "tools/faults", value = "DIR", help = "where faults are" },
   list = { type = "boolean", default = false, help = "print the faults, run nothing" },
   check = { type = "boolean", default = false, help = "print the stale faults, run nothing" },
   log = { type = "string", value = "FILE", help = "write what became of every fault there" },
   job = { type = "int", min = 1, help = "be this job, for the program itself" },
}, arg, "tools/mutate.lua")

local faults = read_faults(o.faults, o.only)
if o.list then
   for _, fault in ipairs(faults) do print(fault.id, fault.path, fault.says) end
elseif o.check then
   os.exit(check(faults) and 0 or 1, true)
elseif o.job then
   work(faults, o.job, o.jobs)
else
   o.jobs = math.min(o.jobs, math.max(1, #faults))
   local results = collect(faults, o)
   if o.log then write_log(o.log, faults, results) end
   os.exit(report(faults, results) and 0 or 1, true)
end
