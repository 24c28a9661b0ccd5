--- A run that was stopped, killed, or met a full disk goes on to the same bits.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local SCRIPT = "spec/support/resume_run.lua"
local STEPS = 20

--- Starts the run of spec/support/resume_run.lua and follows it.
-- @tparam table o flags (a list); limit (512-byte blocks that a file may have); at (a step), act
--   (a function(pid), called when that step was printed); goes_on: without waiting for it
-- @treturn table steps (numbers printed), exit, err (what was said on stderr)
local function follow(dir, o)
   local words = { core.sys.executable(), SCRIPT, "--steps", tostring(STEPS), unpack(o.flags) }
   if o.at and not o.goes_on then words[#words + 1] = "--wait-at=" .. o.at end
   local limit = o.limit and ("ulimit -f %d; "):format(o.limit) or ""
   local inner = ("%secho $$; exec %s"):format(limit, argvs.line(words))
   local pipe = assert(io.popen(("%s 2>%s/err; echo exit $?"):format(
      argvs.line { "sh", "-c", inner }, dir)))
   local pid, result = pipe:read("*l"), { steps = {} }
   for line in pipe:lines() do
      local step = tonumber(line:match("^step (%d+)$"))
      if step then
         result.steps[#result.steps + 1] = step
         if o.at and step == o.at then o.act(pid) end
      end
      result.exit = tonumber(line:match("^exit (%d+)$"))
   end
   pipe:close()
   result.err = core.sys.read_file(dir .. "/err")
   return result
end

local function with(list, ...)
   local all = {}
   for _, flag in ipairs(list) do all[#all + 1] = flag end
   for _, flag in ipairs { ... } do all[#all + 1] = flag end
   return all
end

--- Bytes of the newest checkpoint: what has to be the same.
local function result_of(out)
   local latest = out .. "/checkpoints/latest"
   return core.sys.read_file(latest .. "/hf/model.safetensors")
      .. core.sys.read_file(latest .. "/state/state.safetensors")
end

local function latest_step(out)
   return tonumber((core.io.link_target(out .. "/checkpoints/latest") or ""):match("%d+$"))
end

--- Directories in checkpoints/ that are no whole checkpoint.
local function half_written(out)
   local n = 0
   for _, name in ipairs(core.sys.list_dir(out .. "/checkpoints")) do
      n = n + (name:find("%.tmp") and 1 or 0)
   end
   return n
end

local references = {}

--- What the run computes that nobody stops.
local function reference(...)
   local flags = { ... }
   local key = table.concat(flags, " ")
   if not references[key] then
      files.in_directory(function(dir)
         local run = follow(dir, { flags = with(flags, "--out", dir .. "/run") })
         assert.equal(0, run.exit, run.err)
         references[key] = result_of(dir .. "/run")
      end)
   end
   return references[key]
end

local function synchronous_reference(...)
   return reference("--devices", "cpu:1", "--schedule", "sequential", ...)
end

local function kill(signal)
   return function(pid) os.execute(("kill -%s %s"):format(signal, pid)) end
end

--- Kills when a checkpoint is being written.
local function kill_in_save(out)
   return function(pid)
      local root, deadline = out .. "/checkpoints", core.sys.time_ns() + 2e9
      while core.sys.time_ns() < deadline do
         if core.sys.exists(root) and half_written(out) > 0 then break end
      end
      os.execute("kill -9 " .. pid)
   end
end

--- The faults: each runs with the flags until it happens, and leaves the run not done.
local faults = {}

faults["SIGTERM"] = function(dir, out, flags)
   local run = follow(dir, { flags = flags, at = 7, act = kill("TERM") })
   assert.equal(75, run.exit, run.err)
   assert.matches("stopped after step %d+ of 20; saved .*/checkpoints/step%-%d+, %-%-resume",
      run.err)
   assert.equal(run.steps[#run.steps], latest_step(out))
end

faults["SIGKILL during a step"] = function(dir, _, flags)
   local run = follow(dir, { flags = flags, at = 7, act = kill("KILL") })
   assert.equal(137, run.exit, run.err)
end

faults["SIGKILL during a save"] = function(dir, out, flags)
   for _ = 1, 5 do
      local at = (latest_step(out) or 0) + 2
      local run = follow(dir, {
         flags = with(flags, "--resume"), at = at, act = kill_in_save(out), goes_on = true,
      })
      if run.exit == 137 and half_written(out) > 0 then return end
      if run.exit == 0 then return end -- it was never caught at it: nothing is left to resume
   end
end

faults["a full disk"] = function(dir, out, flags)
   local run = follow(dir, { flags = flags, at = 7, act = kill("TERM") })
   assert.equal(75, run.exit, run.err)
   local before = latest_step(out)
   run = follow(dir, { flags = with(flags, "--resume"), limit = 160 })
   assert.equal(6, run.exit, run.err)
   assert.matches("step %d+ could not be saved: .*cannot write: File too large; .*/step%-" .. before
      .. " is whole, %-%-resume goes on from it", run.err)
   assert.equal(before, latest_step(out))
   assert.equal(0, half_written(out))
end

local function save_every(fault) return fault:find("save") and "1" or "5" end

describe("a run that is resumed", function()
   it("keeps the stages that an asynchronous run recorded, whatever a new profile says", function()
      if not core.engine.devices("cpu:1")[1].in_host then
         return pending("skipped: cards are not measured")
      end
      files.in_directory(function(dir)
         local out, whole = dir .. "/run", dir .. "/whole"
         local flags = { "--schedule", "async", "--devices", "cpu:2", "--save-every", "5" }
         local measured = with(flags, "--profile", "fresh", "--out", out)
         follow(dir, { flags = measured, at = 8, act = kill("KILL") })
         local run = follow(dir, { flags = with(measured, "--resume") })
         assert.equal(0, run.exit, run.err)
         run = follow(dir, {
            flags = with(flags, "--partition", out .. "/plan.txt", "--out", whole),
         })
         assert.equal(0, run.exit, run.err)
         assert.is_true(result_of(whole) == result_of(out))
      end)
   end)

   for fault, happen in pairs(faults) do
      for _, schedule in ipairs { "sequential", "gpipe", "1f1b", "async" } do
         it(("goes on to the same bits after %s: %s"):format(fault, schedule), function()
            files.in_directory(function(dir)
               local out, every = dir .. "/run", save_every(fault)
               local flags = { "--schedule", schedule, "--devices", "cpu:2", "--save-every", every,
                  "--out", out }
               happen(dir, out, flags)
               local stopped = latest_step(out)
               local run = follow(dir, { flags = with(flags, "--resume") })
               assert.equal(0, run.exit, run.err)
               assert.equal(STEPS, latest_step(out))
               assert.equal(0, half_written(out))
               local expected
               if schedule ~= "async" then
                  expected = synchronous_reference()
               elseif fault == "SIGTERM" or fault == "a full disk" then
                  expected = reference("--schedule", "async", "--devices", "cpu:2", "--save-every",
                     every, "--drain-at", tostring(stopped))
               else
                  expected = reference("--schedule", "async", "--devices", "cpu:2", "--save-every",
                     every)
               end
               assert.is_true(expected == result_of(out))
            end)
         end)
      end

      it(("goes on to the same bits after %s, on 4, 2 and 1 devices"):format(fault), function()
         files.in_directory(function(dir)
            local out = dir .. "/run"
            local flags = { "--save-every", save_every(fault), "--out", out }
            happen(dir, out, with(flags, "--schedule", "1f1b", "--devices", "cpu:4"))
            local first = latest_step(out) or 0
            local run = follow(dir, {
               flags = with(flags, "--schedule", "gpipe", "--devices", "cpu:2", "--resume"),
               at = first + 5, act = kill("INT"),
            })
            assert.is_true(run.exit == 130 or run.exit == 0, run.err)
            run = follow(dir, {
               flags = with(flags, "--schedule", "sequential", "--devices", "cpu:1", "--resume"),
            })
            assert.equal(0, run.exit, run.err)
            assert.is_true(synchronous_reference() == result_of(out))
         end)
      end)
   end

   for _, family in ipairs { "gpt2", "bert" } do
      for _, schedule in ipairs { "1f1b", "async" } do
         it(("goes on to the same bits with another family: %s, %s"):format(family, schedule),
            function()
               files.in_directory(function(dir)
                  local out = dir .. "/run"
                  local flags = { "--family", family, "--schedule", schedule, "--devices", "cpu:2",
                     "--save-every", "5" }
                  local all = with(flags, "--out", out)
                  faults["SIGKILL during a step"](dir, out, all)
                  local run = follow(dir, { flags = with(all, "--resume") })
                  assert.equal(0, run.exit, run.err)
                  local expected = schedule == "async" and reference(unpack(flags))
                     or synchronous_reference("--family", family)
                  assert.is_true(expected == result_of(out))
               end)
            end)
      end
   end

   for _, late in ipairs { { "--schedule", "async", "--staleness", "stash" },
      { "--schedule", "async", "--staleness", "vertical" },
      { "--schedule", "async", "--staleness", "predict" }, { "--schedule", "2bw" },
      { "--schedule", "async", "--staleness", "gap-aware" },
      { "--schedule", "async", "--staleness", "predict", "--replicas", "2-1" },
      { "--schedule", "async", "--staleness", "stash+gap-aware" },
      { "--schedule", "async", "--staleness", "vertical+gap-aware" },
      { "--schedule", "async", "--micro-batches", "1", "--max-staleness", "1" },
      { "--schedule", "async", "--clip", "0.5" } }
   do
      it("goes on to the same bits with older weights: " .. late[#late], function()
         files.in_directory(function(dir)
            local out = dir .. "/run"
            local flags = with(late, "--devices", "cpu:3", "--save-every", "5")
            local all = with(flags, "--out", out)
            faults["SIGKILL during a step"](dir, out, all)
            local run = follow(dir, { flags = with(all, "--resume") })
            assert.equal(0, run.exit, run.err)
            assert.is_true(reference(unpack(flags)) == result_of(out))
         end)
      end)
   end

   for _, late in ipairs { {}, { "--staleness", "stash+gap-aware" } } do
      it("goes on without draining, and back: " .. (late[2] or "none"), function()
         files.in_directory(function(dir)
            local drained = { "--schedule", "1f1b", "--devices", "cpu:2", "--save-every", "5" }
            local free = with(late, "--schedule", "async", "--devices", "cpu:3", "--save-every",
               "5", "--change-schedule", "--resume")
            local results, first = {}, dir .. "/run"
            faults["SIGKILL during a step"](dir, first, with(drained, "--out", first))
            local at = latest_step(first) + 2
            for i, kills in ipairs { true, false } do -- killed once more, or not
               local out = first .. i
               process.shell(("cp -a %s %s"):format(first, out))
               local flags = with(free, "--out", out)
               if kills then
                  local killed = follow(dir, { flags = flags, at = at, act = kill("KILL") })
                  assert.equal(137, killed.exit, killed.err)
               end
               local run = follow(dir, { flags = flags })
               assert.equal(0, run.exit, run.err)
               results[i] = result_of(out)
            end
            assert.is_true(results[1] == results[2])
            assert.is_false(results[1] == synchronous_reference())
         end)
      end)
   end

   it("goes on draining, whatever it did before, to the bits of any devices", function()
      local results = {}
      for i, devices in ipairs { "cpu:2", "cpu:1" } do
         files.in_directory(function(dir)
            local out = dir .. "/run"
            local flags = { "--out", out, "--save-every", "5" }
            faults["SIGKILL during a step"](dir, out, with(flags, "--schedule", "async",
               "--staleness", "stash", "--devices", "cpu:2"))
            local run = follow(dir, { flags = with(flags, "--schedule", "1f1b", "--devices",
               devices, "--change-schedule", "--resume") })
            assert.equal(0, run.exit, run.err)
            results[i] = result_of(out)
         end)
      end
      assert.is_true(results[1] == results[2])
      assert.is_false(results[1] == synchronous_reference())
   end)

   for _, flags in ipairs { { "--optimizer", "adafactor" },
      { "--optimizer", "sgd", "--clip", "0.5" } } do
      it("has the state of " .. flags[2] .. " by the names of parameters", function()
         files.in_directory(function(dir)
            local out = dir .. "/run"
            local all = with(flags, "--out", out)
            faults["SIGTERM"](dir, out, with(all, "--devices", "cpu:3"))
            local run = follow(dir, { flags = with(all, "--devices", "cpu:2", "--resume") })
            assert.equal(0, run.exit, run.err)
            assert.is_true(synchronous_reference(unpack(flags)) == result_of(out))
         end)
      end)
   end

   it("begins anew where there is no checkpoint, and says so", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         local run = follow(dir, { flags = { "--out", out, "--resume" } })
         assert.equal(0, run.exit, run.err)
         assert.matches("%-%-resume: no checkpoint in .*/run, starting at step 1", run.err)
         run = follow(dir, { flags = { "--out", out, "--resume" } })
         assert.equal(0, run.exit, run.err)
         assert.same({}, run.steps) -- nothing is left to do
      end)
   end)

   it("says when its processor is another, whose last bits may differ", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         local flags = { "--out", out, "--resume" }
         follow(dir, { flags = { "--out", out } })
         assert.not_matches("processor", follow(dir, { flags = flags }).err)
         local path = out .. "/checkpoints/latest/state/state.json"
         local record = core.json.decode(core.sys.read_file(path), path)
         local here = record.processor
         assert.matches(" %(" .. core.sys.kernels():gsub("%+", "%%+") .. "%)$", here)
         assert.equal(here, core.json.decode(core.sys.read_file(out .. "/run.json")).processor)
         record.processor = "Another (base)"
         core.sys.write_file(path, core.json.encode(record))
         local run = follow(dir, { flags = flags })
         assert.equal(0, run.exit, run.err)
         assert.is_truthy(run.err:find("--resume: the checkpoint was written on Another (base), "
            .. "this is " .. here .. ": numbers may differ", 1, true), run.err)
      end)
   end)

   it("keeps the rows of metrics.jsonl up to the checkpoint, each step once", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         local flags = { "--out", out, "--save-every", "5" }
         faults["SIGKILL during a step"](dir, out, flags)
         follow(dir, { flags = with(flags, "--resume") })
         local steps = {}
         for line in core.sys.read_file(out .. "/metrics.jsonl"):gmatch("[^\n]+") do
            local row = core.json.decode(line)
            if row.loss then steps[#steps + 1] = row.step end
         end
         local expected = {}
         for step = 1, STEPS do expected[step] = step end
         assert.same(expected, steps)
      end)
   end)

   it("keeps as many checkpoints as it was told", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         follow(dir, { flags = { "--out", out, "--save-every", "3", "--keep", "3" } })
         assert.same({ "latest", "step-15", "step-18", "step-20" },
            core.sys.list_dir(out .. "/checkpoints"))
      end)
   end)

   it("removes no checkpoint that is named when a process is lost", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         core.sys.write_file(dir .. "/script.lua", ([[
            local core = require("ftpipe.core")
            local said
            core.ranks.remark = function(words)
               if said then print("kept", (core.sys.exists(%q .. said .. "/hf"))) end
               said = words and words:match("step (%%d+) is whole")
            end
            dofile("spec/support/resume_run.lua")
         ]]):format(out .. "/checkpoints/step-"))
         local printed = process.ftpipe { dir .. "/script.lua", "--steps", "4", "--save-every", "1",
            "--keep", "1", "--out", out }
         assert.equal(("kept\tdirectory\n"):rep(3), (printed:gsub("step %d\n", "")))
         assert.same({ "latest", "step-4" }, core.sys.list_dir(out .. "/checkpoints"))
      end)
   end)
end)

describe("a run on a disk that is nearly full", function()
   --- Writes a script that runs where so many bytes are free, each time that is asked: the last
   -- number stays.
   local function write_script(dir, free)
      core.sys.write_file(dir .. "/script.lua", ([[
         local free = { %s }
         require("ftpipe.core").io.free_bytes = function()
            return #free > 1 and table.remove(free, 1) or free[1]
         end
         dofile("spec/support/resume_run.lua")
      ]]):format(free))
   end

   local function refused(dir, free, pattern)
      write_script(dir, free)
      local out = process.refused(6, pattern, { dir .. "/script.lua", "--steps", "4",
         "--save-every", "2", "--out", dir .. "/run" })
      assert.is_nil(core.sys.exists(dir .. "/run/checkpoints/latest"))
      return out
   end

   it("is refused before its first step, with what is missing", function()
      files.in_directory(function(dir)
         assert.equal("", refused(dir, "1e6", "/run: no room for a checkpoint: %d+%.%d MB are "
            .. "missing: a checkpoint needs %d+%.%d MB, its disk has 1%.0 MB left; there is no "
            .. "checkpoint yet\n$"))
      end)
   end)

   it("knows how many bytes a checkpoint has", function()
      files.in_directory(function(dir)
         local function run(free, name)
            write_script(dir, free)
            return process.ftpipe { dir .. "/script.lua", "--steps", "4", "--save-every", "2",
               "--out", dir .. name }
         end
         local _, err = run("1e6", "/refused")
         local needed = 1e6 * tonumber(err:match("a checkpoint needs ([%d.]+) MB"))
         assert.equal(0, (select(3, run("1e12", "/run"))))
         local bytes, at = 0, dir .. "/run/checkpoints/step-4"
         local pipe = assert(io.popen("find '" .. at .. "' -type f -printf '%s\\n'"))
         for line in pipe:lines() do bytes = bytes + tonumber(line) end
         pipe:close()
         -- A megabyte for other files, and the tensors, which are nearly all of it.
         local tensors = needed - 1e6
         assert.is_true(tensors > 0.8 * bytes and tensors < bytes + 5e4, needed .. ", " .. bytes)
      end)
   end)

   it("does not begin a checkpoint that has no room", function()
      files.in_directory(function(dir)
         local out = refused(dir, "1e12, 1e6",
            "no room for a checkpoint: .* there is no checkpoint")
         assert.equal("step 1\nstep 2\n", out)
         assert.same({}, core.sys.list_dir(dir .. "/run/checkpoints"))
      end)
   end)
end)

describe("a checkpoint", function()
   it("is on the disk before it has its name", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/script.lua", ([[
            local system, log = require("ftpipe.core").io, assert(io.open(%q, "w"))
            for _, name in ipairs { "sync", "exchange" } do
               local call = system[name]
               system[name] = function(...)
                  log:write(name, " ", table.concat({ ... }, " "), "\n")
                  log:flush()
                  return call(...)
               end
            end
            dofile("spec/support/resume_run.lua")
         ]]):format(dir .. "/log"))
         local _, err, exit = process.ftpipe { dir .. "/script.lua", "--steps", "2",
            "--save-every", "1", "--out", dir .. "/run" }
         assert.equal(0, exit, err)
         local synced, named = {}, 0
         for line in core.sys.read_file(dir .. "/log"):gmatch("[^\n]+") do
            local what, path, to = line:match("^(%l+) (%S+) ?(%S*)$")
            if what == "sync" then synced[path] = true end
            if to:find("/checkpoints/step%-%d+$") then
               assert.is_true(synced[path], line)
               named = named + 1
            end
         end
         assert.equal(2, named)
      end)
   end)
end)

describe("a run that cannot be resumed", function()
   local function refused(dir, code, pattern, flags)
      local run = follow(dir, { flags = flags })
      assert.equal(code, run.exit, run.err)
      assert.matches(pattern, run.err)
      assert.same({}, run.steps)
      return run.err
   end

   it("says which arguments would change the numbers", function()
      files.in_directory(function(dir)
         local out = { "--out", dir .. "/run" }
         follow(dir, { flags = out })
         refused(dir, 2, "holds a run %(.*/step%-20%): give %-%-resume to go on with it", out)
         local resume = with(out, "--resume")
         refused(dir, 2, "made with other arguments: %-%-batch was 8, is 16; %-%-lr was 0%.003, "
            .. "is 0%.1", with(resume, "--lr", "0.1", "--batch", "16"))
         refused(dir, 2, "%-%-seed was 1, is 2", with(resume, "--seed", "2"))
         local said = refused(dir, 2, "%-%-schedule was synchronous, is async",
            with(resume, "--schedule", "async"))
         assert.is_nil(said:find("nil", 1, true), said)
         assert.is_nil(said:find("drain", 1, true), said)
         refused(dir, 2, "%-%-optimizer was adamw, is sgd", with(resume, "--optimizer", "sgd"))
         refused(dir, 2, "%-%-steps, to which %-%-lr%-schedule falls was 20, is 25",
            with(resume, "--steps", "25"))
         refused(dir, 2, "%-%-resume goes on from the checkpoints of %-%-out, give it too",
            { "--resume" })
         refused(dir, 2, "%-%-eval%-only does not train, give one of them %(%-%-model .*/run/hf is",
            with(resume, "--eval-only"))
      end)
   end)

   it("says what allows fewer devices where weights are late", function()
      files.in_directory(function(dir)
         local flags = { "--out", dir .. "/run", "--schedule", "async", "--resume" }
         follow(dir, { flags = with(flags, "--devices", "cpu:3") })
         refused(dir, 2, "%-%-resume: the plan in %S+/run/plan.txt has stages on 3 devices, and "
            .. "there are 2: give as many, or %-%-change%-schedule, which goes on with other "
            .. "stages and so other numbers\n", with(flags, "--devices", "cpu:2"))
      end)
   end)

   it("says which step it has reached where it would end before", function()
      files.in_directory(function(dir)
         local flags = { "--out", dir .. "/run", "--lr-schedule", "constant" }
         follow(dir, { flags = flags })
         local before = core.sys.read_file(dir .. "/run/run.json")
         refused(dir, 2, "%-%-resume: %S+/step%-20 was written after step 20, and %-%-steps 19 "
            .. "ends before: give %-%-steps 20 or more\n", with(flags, "--resume", "--steps", "19"))
         assert.equal(before, core.sys.read_file(dir .. "/run/run.json"))
      end)
   end)

   it("says which process is running there, and lets it go on", function()
      files.in_directory(function(dir)
         local flags = { "--out", dir .. "/run", "--save-every", "1" }
         core.sys.mkdir(dir .. "/other")
         local run = follow(dir, { flags = flags, at = 1, act = function(pid)
            local ok, problem = pcall(refused, dir .. "/other", 2, ("%%-%%-out .*/run: process %s "
               .. "is running there; wait for it, or give another directory"):format(pid),
               with(flags, "--resume"))
            core.sys.write_file(dir .. "/run.go", "")
            assert(ok, problem)
         end })
         assert.equal(0, run.exit, run.err)
         assert.equal(STEPS, #run.steps)
         refused(dir, 2, "holds a run", flags) -- and nobody is running there
      end)
   end)

   it("names what is wrong with its files", function()
      files.in_directory(function(dir)
         local out = dir .. "/run"
         follow(dir, { flags = { "--out", out } })
         local state = out .. "/checkpoints/latest/state/"
         local function broken(name, change, pattern)
            local bytes = core.sys.read_file(state .. name)
            core.sys.write_file(state .. name, change(bytes))
            refused(dir, 6, pattern, { "--out", out, "--resume" })
            core.sys.write_file(state .. name, bytes)
         end
         broken("state.json", function(s) return s:gsub('"format": 2', '"format": 7') end,
            "state%.json: the format is 7, expected 2 ")
         for format, told in pairs { ["{}"] = "an object", ["[2]"] = "a list", null = "null",
            ["false"] = "false" } do
            broken("state.json", function(s)
               return s:gsub('"format": 2', '"format": ' .. format)
            end, "state%.json: the format is " .. told .. ", expected 2 ")
         end
         broken("state.json", function(s) return s:gsub('"step": 20', '"best": 3, "step": 20') end,
            "state%.json: 'best' is not an evaluation")
         broken("state.json", function(s) return s:sub(1, 40) end, "state%.json:%d+:%d+")
         broken("state.json", function(s) return s:gsub('"step": 20', '"step": 19') end,
            "expected the losses of 19 steps")
         broken("state.safetensors", function(s) return s:sub(1, #s - 8) end,
            "state%.safetensors: tensors cover")
      end)
   end)
end)
