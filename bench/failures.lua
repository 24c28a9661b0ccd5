--- Short runs on emulated cards in each of which one call of the card's library fails: a run for
-- every call there is.
--
--    ftpipe bench/failures.lua [FROM [TO [STEP]]]
--
-- All of it takes hours of one core; parts of it can be run beside each other, and added.
--
-- A run of two steps on two cards, with a checkpoint after each, makes so many calls; then call
-- number FROM (1) to TO (the last), every STEP-th (1), fails in a run of its own. Such a run ends
-- with one error that has what the call answered, or, where the call gives something back or is of a
-- graph, as if nothing had been; it leaves nothing open, and each of its checkpoints has the bytes of that of the
-- whole run. The table says what became of the calls, by what they were for.

package.path = "./?.lua;" .. package.path
local core = require("ftpipe.core")
local files = require("spec.support.files")

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"
local RUN = "EMULATED_FAIL_AT=%d '%s' spec/support/resume_run.lua --steps 2 --save-every 1"
   .. " --batch 2 --micro-batches 2 --devices cpu:2 --out '%s/run' 2>&1 >'%s/steps'; echo \"|$?\""
local FILES = { "hf/model.safetensors", "state/state.safetensors" }

--- Runs it with the n-th call failing (0: none): what it said, how it ended.
local function train(dir, n)
   local pipe = assert(io.popen(RUN:format(n, PROGRAM, dir, dir)))
   local said, exit = pipe:read("*a"):match("^(.*)|(%d+)\n$")
   pipe:close()
   local calls, open = said:match("emulated: (%d+) calls, (%d+) things left open")
   return { said = said, exit = tonumber(exit), calls = tonumber(calls), open = tonumber(open) }
end

--- The checkpoints of a run, as bytes by file, and whether `latest` is one of them.
local function checkpoints(dir)
   local found, path = {}, dir .. "/run/checkpoints"
   if core.sys.exists(path) ~= "directory" then return found, true end
   for _, name in ipairs(core.sys.list_dir(path)) do
      if name:find("^step%-%d+$") then
         for _, file in ipairs(FILES) do
            found[name .. "/" .. file] = core.sys.read_file(("%s/%s/%s"):format(path, name, file))
         end
      end
   end
   local latest = core.sys.exists(path .. "/latest/" .. FILES[1]) == "file"
   return found, next(found) == nil or latest
end

--- What is wrong with a run in which a call failed; nil when nothing is.
local function fault_of(run, dir, whole)
   local _, errors = run.said:gsub("failed[^\n]*[( ]999[,)]", "")
   if run.open ~= 0 then return ("%s things are left open"):format(run.open or "who knows what") end
   if run.exit ~= 0 and errors ~= 1 then return ("%d errors are told"):format(errors) end
   if run.exit > 100 then return ("it ended with %d"):format(run.exit) end
   local has, latest = checkpoints(dir)
   if not latest then return "its checkpoint is not there" end
   for name, bytes in pairs(has) do
      if bytes ~= whole[name] then return name .. " is not that of the whole run" end
   end
   return nil
end

local whole, calls
files.in_directory(function(dir)
   local run = train(dir, 0)
   assert(run.exit == 0 and run.open == 0, run.said)
   whole, calls = checkpoints(dir), run.calls
end)

local from, to, step = tonumber(arg[1]) or 1, tonumber(arg[2]) or calls, tonumber(arg[3]) or 1
local rows, order, failed, told = {}, {}, 0, 0
for n = from, math.min(to, calls), step do
   files.in_directory(function(dir)
      local run = train(dir, n)
      local fault = fault_of(run, dir, whole)
      local without = run.said:find("launched one by one", 1, true)
      local what = run.exit == 0 and (without and "(nothing: its launches are given)"
            or "(nothing: it gives something back)")
         or run.said:match(".*device %a+:%d+: ([^\n]-) failed") or "(no device is named)"
      what = what:gsub("[%d.]+ MB", "N MB"):gsub("the kernel ft_[%w_]+", "a kernel")
      if not rows[what] then rows[what], order[#order + 1] = { n = 0, bad = 0 }, what end
      rows[what].n = rows[what].n + 1
      told = told + 1
      if fault then
         rows[what].bad = rows[what].bad + 1
         failed = failed + 1
         print(("call %d: %s\n%s"):format(n, fault, run.said))
      end
   end)
end
print(("%-52s %6s %6s"):format("what failed", "calls", "bad"))
for _, what in ipairs(order) do
   print(("%-52s %6d %6d"):format(what, rows[what].n, rows[what].bad))
end
print(("%d of %d calls of the run failed, one in each of %d runs; %d ended otherwise than they should")
   :format(told, calls, told, failed))
print(("gate failures-bad %d"):format(failed))
os.exit(failed == 0 and told > 0 and 0 or 1, true)
