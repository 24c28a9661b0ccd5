--- A run whose device hangs or fails: it ends with one error that names it, and goes on from its
-- checkpoint to the bits of a run that nothing happened to.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local watch = require("ftpipe.base.watch")
local watchdog = require("ftpipe.run.watchdog")

local FLAGS = "recipes/t5_rte.lua --steps 12 --save-every 2 --eval-limit 8 --batch 8 "
   .. "--profile modelled"

-- A device that hangs. Its thread, and those that wait for it, end with the program, not joined.
local HANGS = 'TSAN_OPTIONS="$TSAN_OPTIONS:report_thread_leaks=0" CHECK_STALL_LAUNCH=9000'

-- A run that holds behind some of its steps.
local HELD = "spec/support/held.lua --eval-limit 8 --batch 8 --profile modelled"

--- The program whose devices check what is asked of them, and fail or hang when they are told to.
local function checking()
   return core.sys.executable():match("^(.*)/[^/]*$") .. "/ftpipe_check"
end

describe("a run", function()
   local directory, whole

   setup(function()
      directory = files.directory()
      local _, err, code = process.shell(("timeout 900 %s %s --out %s/whole"):format(
         core.sys.executable(), FLAGS, directory))
      assert(code == 0, err)
      whole = core.sys.read_file(directory .. "/whole/hf/model.safetensors")
   end)

   teardown(function() files.remove(directory) end)

   --- A run on devices of which one does what `fault` says; then one that goes on from there.
   local function disturbed(name, fault, flags)
      local out = directory .. "/" .. name
      local _, err, code = process.shell(("%s timeout 900 %s %s --out %s %s"):format(fault,
         checking(), FLAGS, out, flags or ""))
      local step = tonumber(io.popen(("readlink %s/checkpoints/latest"):format(out)):read("*a")
         :match("(%d+)"))
      local _, problem, resumed = process.shell(("timeout 900 %s %s --out %s --resume"):format(
         core.sys.executable(), FLAGS, out))
      assert.equal(0, resumed, problem)
      assert.is_true(whole == core.sys.read_file(out .. "/hf/model.safetensors"))
      return err:match("ftpipe: .*"), code, step, out
   end

   it("in which a device hangs says who waits for whom and exits with 5", function()
      local said, code, step, out = disturbed("hung", HANGS, "--watchdog 10")
      assert.equal(5, code, said)
      assert.matches("^ftpipe: nothing moved for %d+ s:\n", said)
      local stuck, at = said:match("\n(cpu:%d): action [^\n]*, (%w+) of stage %d+, batch %d+, "
         .. "micro%-batch %d+, at work, for [%d.]+ s\n")
      assert.truthy(stuck and at, said)
      assert.matches("waits for data of edge %d+, %u%d>%u%d %([^\n]*%d+ bytes%), by " .. stuck
         .. ", for ", said)
      assert.matches(("the checkpoint of step %d is whole, %%-%%-resume goes on from it\n"):format(
         step), said)
      assert.matches(("engine: device %s does not come back from what it does\n$"):format(stuck),
         said)
      local dump = core.sys.read_file(out .. "/watchdog.txt")
      assert.matches("^nothing moved for", dump)
      assert.matches("\ncpu:0, the last %d+ of %d+:\n  %u%d.%d.%d from [%d.]+ to [%d.]+ ms", dump)
      assert.matches("\ncpu:1, the last %d+ of %d+:\n", dump)
   end)

   it("in which a device fails ends with one error that names it", function()
      local said, code = disturbed("failed", "CHECK_FAIL_LAUNCH=9000")
      assert.equal(1, code, said)
      assert.matches("^ftpipe: device cpu:%d: [%a-]+ of stage %d+, batch %d+.*failed, as it was "
         .. "told to\n$", said)
      assert.equal(1, select(2, said:gsub("\n", "")), said)
   end)

   it("answers SIGQUIT with who waits for whom, and goes on", function()
      local out, err, code = process.shell(([[dir=%s
         env --default-signal=QUIT GATES=$dir HOLD_AT=3 %s %s --steps 12 2>$dir/said & pid=$!
         until [ -e $dir/at-3 ] || ! kill -0 $pid; do sleep 0.05; done
         kill -QUIT $pid; : >$dir/on-3
         wait $pid; code=$?; cat $dir/said >&2; (exit $code)]]):format(directory,
         core.sys.executable(), HELD))
      assert.equal(0, code, err)
      assert.matches("after: accuracy", out)
      assert.matches("\ncpu:%d: action %d+ of %d+, %w+ of stage %d", err)
   end)
end)

describe("a signal that asks a run to end", function()
   --- What is said while a step is waited for, of which the first polls see the signals.
   local function said(signals, directory)
      local lines, polls, real = {}, 0, core.sys.interrupted
      core.sys.interrupted = function() return signals[polls] end
      local run = { args = { watchdog = 0 }, directory = directory }
      run.engine = {
         progress = function() return 0 end,
         next = function()
            polls = polls + 1
            return polls > #signals and "the step" or nil
         end,
      }
      run.say = function(_, text) lines[#lines + 1] = text end
      local ok, step = pcall(function() return watchdog.new(run):next() end)
      core.sys.interrupted = real
      assert.is_true(ok, step)
      assert.equal("the step", step)
      return lines
   end

   it("is answered once, while the step that it came in goes on", function()
      assert.same({}, said { false, false })
      assert.same({ "stopping: what is under way ends first; another signal may end the program at "
         .. "once, unsaved" }, said { false, 2, 2, 2 })
      assert.same({ "stopping: what is under way ends first, then the run is saved; another signal "
         .. "may end the program at once, unsaved" }, said({ 15 }, {}))
   end)
end)

describe("signals to a run", function()
   local STEPS = 60
   local directory

   before_each(function() directory = files.directory() end)

   after_each(function() files.remove(directory) end)

   --- A run that gets signals, each behind a step at which it waits for it: { step, signal, what it
   -- says to that }; what it said.
   local function signalled(name, flags, signals)
      local lines, steps = {}, {}
      for i, row in ipairs(signals) do
         steps[i] = row[1]
         lines[i] = ([[until [ -e $dir/at-%d ] || ! kill -0 $pid; do sleep 0.05; done
            kill -%s $pid; : >$dir/on-%d
            until grep -q '%s' $dir/said || ! kill -0 $pid; do sleep 0.05; done]]):format(row[1],
            row[2], row[1], row[3])
      end
      local out = directory .. "/" .. name
      local printed, err, code = process.shell(([[dir=%s
         env --default-signal=USR1,USR2 GATES=$dir HOLD_AT="%s" %s %s --steps %d --out %s %s \
            >$dir/said.out 2>$dir/said & pid=$!
         %s
         wait $pid; code=$?; cat $dir/said.out; cat $dir/said >&2; (exit $code)]]):format(directory,
         table.concat(steps, " "), core.sys.executable(), HELD, STEPS, out, flags,
         table.concat(lines, "\n")))
      assert.matches("after: accuracy", printed, err)
      assert.equal(0, code)
      return err, out
   end

   it("save it, trace ten steps, and change no bit of what a synchronous one computes", function()
      local err, out = signalled("told", "--keep 90", { { 3, "USR1", "the run goes on" },
         { 30, "USR2", "traced" } })
      local step = tonumber(err:match("saved %S+/checkpoints/step%-(%d+), the run goes on"))
      assert.is_true(step >= 3 and step < 30, err)
      assert.equal("directory", core.sys.exists(("%s/checkpoints/step-%d"):format(out, step)))
      local first, last = err:match("traced 10 steps in %S+/trace%-(%d+)%-(%d+)%.json")
      assert.equal(9, last - first, err)
      local events = core.json.decode(core.sys.read_file(("%s/trace-%d-%d.json"):format(out, first,
         last))).traceEvents
      local batches, n = {}, 0
      for _, event in ipairs(events) do
         if event.ph == "X" and event.args.batch and not batches[event.args.batch] then
            batches[event.args.batch], n = true, n + 1
         end
      end
      assert.equal(10, n)
      local _, quiet = signalled("quiet", "", {})
      assert.is_true(core.sys.read_file(quiet .. "/hf/model.safetensors")
         == core.sys.read_file(out .. "/hf/model.safetensors"))
      -- from the checkpoint that was asked for, to the same bits
      files.remove(("%s/checkpoints/step-%d"):format(out, STEPS))
      os.remove(out .. "/checkpoints/latest")
      for s = step + 1, STEPS - 1 do files.remove(("%s/checkpoints/step-%d"):format(out, s)) end
      files.remove(out .. "/hf")
      err = signalled("told", "--resume", {})
      assert.matches("goes on from %S+/step%-" .. step .. ",", err)
      assert.is_true(core.sys.read_file(quiet .. "/hf/model.safetensors")
         == core.sys.read_file(out .. "/hf/model.safetensors"))
   end)

   it("are answered without a run directory, too", function()
      local out, err, code = process.shell(([[dir=%s
         env --default-signal=USR1,USR2 GATES=$dir HOLD_AT=3 %s %s --steps 12 2>$dir/said & pid=$!
         until [ -e $dir/at-3 ] || ! kill -0 $pid; do sleep 0.05; done
         kill -USR1 $pid; kill -USR2 $pid; : >$dir/on-3
         wait $pid; code=$?; cat $dir/said >&2; (exit $code)]]):format(directory,
         core.sys.executable(), HELD))
      assert.equal(0, code, err)
      assert.matches("after: accuracy", out)
      assert.matches("nothing is saved without %-%-out, the run goes on\n", err)
      assert.matches("nothing is traced without %-%-out, the run goes on\n", err)
   end)
end)

describe("the watchdog", function()
   --- What its limit is, of a run whose plan predicts so many seconds for 8 steps.
   local function limit(flag, predicted, slowest, seconds)
      local guard = watchdog.new { args = { watchdog = flag }, watch = { slowest = slowest },
         plan = { options = { batches = 100 }, simulate = function(_, batches)
            return { seconds = predicted * batches }
         end } }
      return guard.limit(seconds or 1000)
   end

   it("waits for 20 steps, predicted or seen, and half a minute at least", function()
      assert.equal(30, limit(nil, 0.1, 0.2))
      assert.equal(60, limit(nil, 3, 1))
      assert.equal(80, limit(nil, 3, 4))
      assert.equal(30, limit(nil, 3, 4, 29)) -- the plan is not asked yet
   end)

   it("waits for as long as it is told to, or for ever", function()
      assert.equal(7, limit(7, 3, 4))
      assert.is_nil(limit(0, 3, 4))
   end)
end)

describe("a watch without a limit", function()
   it("waits on", function()
      local clock, real, polls = 0, core.sys.time_ns, 0
      core.sys.time_ns = function() return clock end
      local ok, found = pcall(function()
         return watch.new {
            limit = function() return nil end,
            engine = {
               progress = function() return 1 end,
               next = function()
                  clock, polls = clock + 1e12, polls + 1
                  return polls > 50 and "the batch" or nil
               end,
            },
         }:next()
      end)
      core.sys.time_ns = real
      assert.same({ true, "the batch" }, { ok, found })
   end)
end)
