--- Sweeps: what is tried next, what is given up, and what survives.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local indexes = require("ftpipe.sweep.index")
local methods = require("ftpipe.sweep.methods")
local process = require("spec.support.process")
local prune = require("ftpipe.sweep.prune")
local spaces = require("ftpipe.sweep.space")

local ftpipe = process.ftpipe

local KILL, CONTINUE, STOP = 9, 18, 19 -- signals

--- Branin's function with a choice beside it: three minima of 0.3979, further off by the choice.
local function branin(values)
   local x, y = values.x, values.y
   local b, c = 5.1 / (4 * math.pi ^ 2), 5 / math.pi
   return (y - b * x ^ 2 + c * x - 6) ^ 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
      + (values.kind == "right" and 0 or 20)
end

local SPACE = spaces.parameters {
   x = ft.sweep.linear(-5, 10), y = ft.sweep.linear(0, 15), kind = { "wrong", "right", "left" },
}

--- The least loss in so many trials.
local function best_of(method, seed, trials)
   local found, best = {}, math.huge
   for number = 1, trials do
      local point = methods.point(method, SPACE, number, found, { seed = seed, grid_steps = 4 })
      local loss = branin(spaces.values(SPACE, point))
      found[number] = { point = point, loss = loss }
      best = math.min(best, loss)
   end
   return best
end

describe("what a sweep tries", function()
   it("is by TPE better than by chance, over 50 seeds", function()
      local wins, logs = 0, 0
      for seed = 1, 50 do
         local tpe, chance = best_of("tpe", seed, 50), best_of("random", seed, 50)
         if tpe < chance then wins = wins + 1 end
         logs = logs + math.log(tpe) - math.log(chance)
      end
      assert.is_true(wins >= 33, wins .. " of 50") -- by chance alone once in 60
      assert.is_true(logs < 0, logs)
   end)

   it("is every point of a grid once, and then nothing", function()
      local seen, o = {}, { seed = 1, grid_steps = 4 }
      for number = 1, 48 do
         local values = spaces.values(SPACE, methods.point("grid", SPACE, number, {}, o))
         local key = ("%s %s %s"):format(values.kind, values.x, values.y)
         assert.is_nil(seen[key])
         seen[key] = true
      end
      assert.is_nil(methods.point("grid", SPACE, 49, {}, o))
   end)

   it("fills space evenly with halton: fewer holes than by chance", function()
      local line = spaces.parameters { x = ft.sweep.linear(0, 1) }
      local function widest(method, seed)
         local all = {}
         for i = 1, 64 do all[i] = methods.point(method, line, i, {}, { seed = seed })[1] end
         table.sort(all)
         local gap = all[1] + 1 - all[64]
         for i = 2, 64 do gap = math.max(gap, all[i] - all[i - 1]) end
         return gap
      end
      for seed = 1, 20 do
         assert.is_true(widest("halton", seed) <= 2 / 64 + 1e-9)
         assert.is_true(widest("random", seed) > 2 / 64)
      end
   end)

   it("is of the kinds that were asked for", function()
      local space = spaces.parameters { a = ft.sweep.log(1e-4, 1e-2), b = ft.sweep.whole(2, 4) }
      local seen, below = {}, 0
      for number = 1, 200 do
         local values = spaces.values(space, methods.point("random", space, number, {},
            { seed = 3 }))
         assert.is_true(values.a >= 1e-4 and values.a <= 1e-2)
         seen[values.b] = (seen[values.b] or 0) + 1
         if values.a < 1e-3 then below = below + 1 end
      end
      assert.is_true(below > 70 and below < 130, below)
      assert.is_true(seen[2] > 40 and seen[3] > 40 and seen[4] > 40)
      assert.is_nil(seen[1] or seen[5])
   end)
end)

-- A recipe that costs nothing: its value is best at lr = 1e-3; it notes that it ran, and does what
-- its environment asks of it.
local RECIPE = [[
local core, trial = require("ftpipe.core"), require("ftpipe.sweep.trial")
local o = {}
for _, word in ipairs(arg) do
   local key, value = word:match("^%-%-([%w-]+)=?(.*)$")
   o[key] = value == "" and true or tonumber(value) or value
end
core.sys.mkdir(o.out)
local lock = core.io.lock(o.out .. "/lock")
local log = io.open(os.getenv("RUNS"), "a")
log:write(o.out:match("%d+$"), o.resume and " resumed" or "", "\n")
log:close()
local value = 100 - math.abs(math.log(o.lr / 1e-3)) * 10
if o.lr > (tonumber(os.getenv("DIVERGES_ABOVE")) or math.huge) then
   io.stderr:write('ftpipe: loss "nan"\n')
   os.exit(4, true)
end
if tostring(o.kind):find(os.getenv("REFUSES") or "^$") then
   local kind = os.getenv("NAMES") and " " .. o.kind or ""
   io.stderr:write("ftpipe: ", o.out, ": no such kind", kind, "\n")
   os.exit(2, true)
end
if os.getenv("FILLS_DISK") then core.sys.write_file(o.out .. "/hf", ("x"):rep(1e6)) end
for step = 1, 4 do
   core.process.sleep(tonumber(os.getenv("SECONDS_A_STEP") or 0))
   if core.sys.interrupted() then os.exit(75, true) end
   if trial.ends { step = step, value = value + step, better = "higher",
      metrics = { other = -step - value } } then break end
end
core.sys.write_file(o.out .. "/summary.json",
   core.json.encode { value = value, better = "higher", steps = 4,
      metrics = { other = -value } })
lock:free()
]]

local SWEEP = [[
local ft = require("ftpipe")
return ft.sweep {
   run = { "%s/recipe.lua" }, space = { lr = ft.sweep.log(1e-4, 1e-2) }, method = "%s",
   trials = %d, jobs = %d, prune = %s,
}
]]

describe("ftpipe sweep", function()
   local directory, out

   before_each(function()
      directory = files.directory()
      out = directory .. "/out"
      core.sys.write_file(directory .. "/recipe.lua", RECIPE)
   end)

   after_each(function() files.remove(directory) end)

   local function write(method, trials, jobs, rule)
      core.sys.write_file(directory .. "/s.lua", SWEEP:format(directory, method, trials, jobs,
         rule or "nil"))
   end

   --- Runs the sweep in a shell, with variables in front.
   local function sweep(variables, more)
      return process.shell(("%s RUNS=%s/runs timeout 900 %s sweep %s/s.lua --out %s %s"):format(
         variables, directory, core.sys.executable(), directory, out, more or ""))
   end

   --- How often each trial began.
   local function begun()
      local counts = {}
      local path = directory .. "/runs"
      local text = core.sys.exists(path) and core.sys.read_file(path) or ""
      for number in text:gmatch("(%d+)[^\n]*\n") do
         counts[tonumber(number)] = (counts[tonumber(number)] or 0) + 1
      end
      return counts
   end

   --- What a method of the sweep's index gives.
   local function indexed(method)
      local index = indexes.open(out, true)
      local list = index[method](index)
      index:close()
      return list
   end

   local function rows() return indexed("trials") end

   local function wait_for(what)
      local deadline = core.sys.time_ns() + 600e9
      while not what() do
         assert.is_true(core.sys.time_ns() < deadline, "nothing happened")
         core.process.sleep(0.02)
      end
   end

   --- Starts the sweep as a process of its own.
   local function start(variables)
      local environment = { "RUNS=" .. directory .. "/runs" }
      for key, value in pairs(variables) do environment[#environment + 1] = key .. "=" .. value end
      return core.process.start({ core.sys.executable(), "sweep", directory .. "/s.lua", "--out",
         out, "--resume" }, directory .. "/said", directory .. "/said", environment)
   end

   local function await(pid)
      local code
      wait_for(function()
         code = core.process.poll(pid)
         return code
      end)
      return code
   end

   --- The process that holds the lock of a trial; nil when none does.
   local function holder_of(number)
      local path = ("%s/trials/%04d/lock"):format(out, number)
      if not core.sys.exists(path) then return nil end
      local lock, holder = core.io.lock(path)
      if lock then lock:free() end
      return not lock and holder > 0 and holder or nil
   end

   it("runs trials, gives up the worse, and shows the best", function()
      write("tpe", 16, 2, '{ kind = "asha", min = 1, eta = 2 }')
      local printed, err, code = sweep("")
      assert.equal(0, code, err)
      assert.matches("16 trials: ", printed)
      assert.matches("%d+ pruned", printed)
      local lr = printed:match("best [%d.]+: trial %d+, lr=(%S+)")
      assert.is_true(tonumber(lr) > 4e-4 and tonumber(lr) < 2.5e-3, printed)
      assert.equal(16, #begun())
      assert.equal(printed, (ftpipe { "sweep", "show", out }))
      local told = ftpipe { "sweep", "best", out }
      assert.matches("\nftpipe %S+/recipe.lua %-%-out=auto %-%-lr=" .. lr .. "\n", told)
      assert.is_not_nil(core.sys.exists(told:match("^trial %d+: [%d.]+, in (%S+)\n")
         .. "/summary.json"))
      assert.matches("16 trials  best", (ftpipe { "sweep", "ls", directory }))
      local data = core.json.decode((ftpipe { "sweep", "show", out, "--format", "json" }))
      assert.equal(16, #data.trials)
      -- every decision is what a replay of the reports decides
      local index, before = indexes.open(out), {}
      for i, report in ipairs(index:reports()) do
         local ends = prune.ends({ kind = "asha", min = 1, eta = 2 }, before, report)
         assert.equal(report.ends == 1, ends)
         before[i] = report
      end
      index:close()
      process.refused(2, "holds this sweep: give %-%-resume", { "sweep", directory .. "/s.lua",
         "--out", out })
   end)

   it("gives up by the number that it names, where evaluations have it", function()
      local rule = '{ kind = "asha", min = 1, eta = 2 }, goal = "max", metric = "%s"'
      write("random", 4, 1, rule:format("other"))
      local printed, err, code = sweep("")
      assert.equal(0, code, err)
      for _, report in ipairs(indexed("reports")) do assert.is_true(report.loss > 0) end
      assert.matches("pruned", printed)
      files.remove(out)
      write("random", 4, 1, rule:format("steps"))
      printed, err, code = sweep("")
      assert.equal(0, code, err)
      assert.matches("4 trials: 4 done", printed)
      assert.matches("\nprune has given nothing up: no trial said its steps at an evaluation", err)
   end)

   it("loses nothing when it is killed, nor when a trial is", function()
      write("random", 6, 2)
      local pid = start { SECONDS_A_STEP = 0.15 }
      wait_for(function()
         local ok, list = pcall(rows)
         return ok and list[3]
      end)
      core.process.signal(pid, KILL)
      await(pid)
      local shown = (ftpipe { "sweep", "show", out })
      assert.is_truthy(shown:find(" waiting ") and not shown:find("running"), shown)
      local kept = {}
      for _, row in ipairs(rows()) do
         if row.state == "done" then kept[row.number] = row.value end
      end
      assert.is_true(next(kept) ~= nil)
      pid = start { SECONDS_A_STEP = 0.3 }
      local victim
      local function stop_one() -- a trial that runs, stopped lest it ends before it is killed
         for _, row in ipairs(rows()) do
            local holder = row.state == "running" and holder_of(row.number)
            if holder then
               core.process.signal(holder, STOP)
               if holder_of(row.number) == holder then
                  victim = { row.number, holder }
                  return true
               end
               core.process.signal(holder, CONTINUE)
            end
         end
      end
      repeat -- one that had its result already, and not yet its end, counts as done
         wait_for(stop_one)
         core.process.signal(victim[2], KILL)
         wait_for(function() return rows()[victim[1]].state ~= "running" end)
      until rows()[victim[1]].state == "failed"
      assert.equal(0, await(pid))
      assert.equal("failed", rows()[victim[1]].state)
      assert.matches("signal 9", rows()[victim[1]].note)
      local after = begun()
      assert.equal(0, await(start {}))
      for number, row in ipairs(rows()) do
         assert.equal("done", row.state, number)
         assert.equal(kept[number] or row.value, row.value)
         if kept[number] then assert.equal(1, after[number], number) end
         assert.equal(after[number] + (number == victim[1] and 1 or 0), begun()[number], number)
      end
      assert.equal(6, #rows())
   end)

   it("goes on past trials that diverge, and past a full disk when there is room again", function()
      write("grid", 5, 1)
      local printed, err, code = sweep("DIVERGES_ABOVE=3e-3")
      assert.equal(0, code, err)
      assert.matches("it diverged: loss 'nan'\n", printed)
      assert.matches("4 done, 1 failed", printed)
      assert.equal(0, select(3, sweep("", "--resume")))
      assert.same({ 1, 1, 1, 1, 1 }, begun()) -- what diverged would again
      files.remove(out)
      os.remove(directory .. "/runs")
      printed, err, code = sweep("ulimit -f 500; FILLS_DISK=1") -- in blocks of 1 KiB
      assert.equal(1, code, printed)
      assert.matches("3 trials ended alike, .-: files could not be read or written: ", err)
      printed, err, code = sweep("FILLS_DISK=1", "--resume")
      assert.equal(0, code, err)
      assert.matches("5 trials: 5 done", printed)
      assert.same({ 2, 2, 1, 1, 2 }, begun()) -- three that failed alike were enough
   end)

   local TWO = [[local ft = require("ftpipe")
return ft.sweep { run = { "%s/recipe.lua", lr = 1e-3 }, method = "grid", jobs = 1,
   space = { kind = { "a", "b" }, lot = { 1, 2, 3, 4, 5 } } }]]

   it("ends early where all that it tries is refused alike, and goes on when that is mended",
      function()
      core.sys.write_file(directory .. "/s.lua", TWO:format(directory))
      local _, err, code = sweep("REFUSES=.")
      assert.equal(1, code, err)
      assert.matches("3 trials ended alike, whatever they tried, and none otherwise: it refused "
         .. "its flags: %S+/trials/0001: no such kind %(%S+/trials/0001.log has all of it%)", err)
      assert.same({ [1] = 1, [2] = 1, [10] = 1 }, begun()) -- neighbours, and what differs in all
      _, err, code = sweep("REFUSES=.", "--resume")
      assert.equal(1, code, err)
      assert.same({ [1] = 2, [2] = 2, [10] = 2 }, begun())
      local printed
      printed, err, code = sweep("", "--resume")
      assert.equal(0, code, err)
      assert.matches("10 trials: 10 done", printed)
      assert.same({ 3, 3, 1, 1, 1, 1, 1, 1, 1, 3 }, begun())
   end)

   it("goes on where some of what it tries is refused alike", function()
      core.sys.write_file(directory .. "/s.lua", TWO:format(directory))
      local printed, err, code = sweep("REFUSES=a")
      assert.equal(0, code, err)
      assert.matches("10 trials: 5 failed, 5 done", printed)
      assert.same({ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, begun())
      files.remove(out)
      printed, err, code = sweep("REFUSES=.", "--trials 4") -- of one kind
      assert.equal(1, code, printed)
      assert.matches("no trial has a value, all ended alike: it refused its flags: ", err)
      files.remove(out)
      printed, err, code = sweep("REFUSES=. NAMES=1") -- otherwise by what is tried
      assert.equal(1, code, printed)
      assert.matches("no trial has a value, the first one: it refused its flags: %S+/trials/0001: "
         .. "no such kind a; what they said is in ", err)
   end)

   it("ends with the first trial that lacks its metric, and reads it anew when that is mended",
      function()
      local text = SWEEP:format(directory, "random", 3, 1, "nil")
      local function with(metric, goal)
         core.sys.write_file(directory .. "/s.lua", (text:gsub("trials =",
            ('metric = "%s", goal = "%s", trials ='):format(metric, goal))))
      end
      with("valeu", "max")
      local printed, err, code = sweep("")
      assert.equal(2, code, printed)
      assert.matches("metric 'valeu': trial 1 left no such number %(did you mean 'value'%?%), but "
         .. "other, steps, value; correct `metric` and go on with %-%-resume", err)
      assert.same({ 1 }, begun())
      with("value", "max")
      printed, err, code = sweep("", "--resume")
      assert.equal(0, code, err)
      assert.matches("3 trials: 3 done\nbest 9", printed)
      with("steps", "min") -- of what is there
      printed, err, code = sweep("", "--resume")
      assert.equal(0, code, err)
      assert.matches("3 trials: 3 done\nbest 4: trial 1", printed)
      assert.same({ 1, 1, 1 }, begun())
   end)

   it("finds a metric that a recipe's task does not have before its first step", function()
      core.sys.write_file(directory .. "/s.lua", [[local ft = require("ftpipe")
         return ft.sweep { run = { "recipes/t5_rte.lua", steps = 2, eval_limit = 8,
               profile = "modelled" }, space = { lr = { 1e-4, 1e-3 } }, method = "grid",
            metric = "acuracy", goal = "max" }]])
      local words = "metric 'acuracy': a run of task rte leaves no such number %(did you mean "
         .. "'accuracy'%?%), but accuracy, best_step, "
      local _, err, code = sweep("")
      assert.equal(2, code, err)
      assert.matches("\nftpipe: " .. words, err)
      assert.equal(1, #rows())
      assert.is_nil(core.sys.exists(out .. "/trials/0001/metrics.jsonl"))
      _, err, code = sweep("", "--dry-run")
      assert.equal(2, code, err)
      assert.matches("^ftpipe: " .. words, err)
   end)

   it("stops, pauses and goes on when it is told to", function()
      write("random", 12, 1)
      local pid = start { SECONDS_A_STEP = 0.1 }
      wait_for(function() return pcall(rows) and rows()[1] end)
      for _, asks in ipairs { 3, 10, 12, 3 } do -- runs, not a sweep
         core.process.signal(pid, asks)
         core.process.sleep(0.2)
      end
      assert.matches("begins no further trials", (ftpipe { "sweep", "pause", out }))
      local n
      for _ = 1, 2 do -- one may be about to begin as the sweep is told
         wait_for(function() return rows()[#rows()].state == "done" end)
         n = #rows()
         core.process.sleep(0.3)
      end
      assert.equal(n, #rows())
      ftpipe { "sweep", "go", out }
      wait_for(function() return #rows() > n end)
      ftpipe { "sweep", "stop", out }
      assert.equal(75, await(pid))
      assert.equal(0, await(start {}))
      for _, row in ipairs(rows()) do assert.equal("done", row.state) end
      assert.equal(12, #rows())
   end)

   it("loses no report of 16 writers at once", function()
      local index = indexes.open(directory)
      local script = ([[local index = require("ftpipe.sweep.index").open("%s")
         for step = 1, 25 do index:report(tonumber(arg[1]), step, step) end]]):format(directory)
      core.sys.write_file(directory .. "/writer.lua", script)
      local pids = {}
      for w = 1, 16 do
         pids[w] = core.process.start({ core.sys.executable(), directory .. "/writer.lua",
            tostring(w) }, directory .. "/said", directory .. "/said", {})
      end
      for _, pid in ipairs(pids) do assert.equal(0, await(pid)) end
      local counts = {}
      for _, row in ipairs(index:reports()) do counts[row.trial] = (counts[row.trial] or 0) + 1 end
      for w = 1, 16 do assert.equal(25, counts[w]) end
      index:close()
   end)

   it("has an index that can be made anew of what was written beside it", function()
      write("tpe", 6, 1, '{ kind = "asha", min = 1, eta = 2 }')
      assert.equal(0, select(3, sweep("")))
      local function said(...) return (ftpipe { "sweep", "show", out, ... }) end
      local before, data, told = said(), said("--format", "json"), indexed("reports")
      for _, damage in ipairs { ("x"):rep(5000), false } do
         os.remove(out .. "/sweep.db")
         if damage then core.sys.write_file(out .. "/sweep.db", damage) end
         process.refused(6, "; ftpipe runs reindex %S+ makes it anew", { "sweep", "show", out })
         process.refused(6, "makes it anew", { "sweep", directory .. "/s.lua", "--out", out,
            "--resume" })
         local lock = core.io.lock(out .. "/lock")
         process.refused(2, "a process is running there", { "runs", "reindex", out })
         lock:free()
         local printed = ftpipe { "runs", "reindex", out }
         assert.equal(("%s: 6 trials, %d reports\n"):format(out, #told), printed)
         assert.same({ before, data }, { said(), said("--format", "json") })
         assert.same(told, indexed("reports"))
      end
      -- what a full disk has cut is dropped, and nothing behind it
      local file = io.open(out .. "/sweep.jsonl", "a")
      file:write('{"number":7,"wh')
      file:close()
      assert.equal(0, select(3, sweep("", "--resume --trials 8")))
      before = said()
      assert.matches("; 1 line of sweep.jsonl cut or damaged, left out\n$",
         (ftpipe { "runs", "reindex", out }))
      assert.equal(before, said())
      assert.same({ 1, 1, 1, 1, 1, 1, 1, 1 }, begun())
      core.sys.write_file(out .. "/sweep.jsonl", '{"what":"set","name":"goal","value":"max"}\n')
      process.refused(6, "does not begin where the sweep began", { "runs", "reindex", out })
      process.refused(6, "sweep.jsonl: there is none", { "runs", "reindex", directory })
      process.refused(2, "which sweep", { "runs", "reindex" })
   end)

   it("plans a sweep of plans, and refuses what is none", function()
      core.sys.write_file(directory .. "/p.lua", [[local ft = require("ftpipe")
         return ft.sweep { run = { "plan", "t5-small", devices = "sim:2x11GB", format = "json" },
            space = { micro_batches = { 1, 4 } }, method = "grid", metric = "seconds_per_batch",
            goal = "min" }]])
      local printed, err, code = ftpipe { "sweep", directory .. "/p.lua", "--out", out }
      assert.equal(0, code, err)
      assert.matches("2 trials: 2 done\nbest %S+: trial 2, micro_batches=4\n", printed)
      assert.matches("grid, 2 trials\n    1  micro_batches=1\n", (ftpipe { "sweep",
         directory .. "/p.lua", "--dry-run" }))
      process.refused(2, "does not return what ft.sweep gives", { "sweep", "recipes/../spec/support"
         .. "/files.lua" })
      process.refused(2, "recipes/t5_rte.lua is no sweep file, .*: a sweep file returns ft.sweep {",
         { "sweep", "recipes/t5_rte.lua" })
      process.refused(2, "there is no sweep 'nothing.lua'", { "sweep", "nothing.lua" })
      process.refused(2, "there is no sweep 'shw' %(did you mean 'show'", { "sweep", "shw" })
      process.refused(6, "is no sweep", { "sweep", "show", directory })
      for _, word in ipairs { "stop", "pause", "go" } do
         process.refused(2, "no process is running this sweep", { "sweep", word, out })
      end
      process.refused(2, "is a directory: ftpipe sweep show", { "sweep", out })
      process.refused(2, "%-%-jobs: nothing that sweep show takes", { "sweep", "show", out,
         "--jobs", "2" })
      process.refused(2, "unexpected word 'more': sweep show takes one directory", { "sweep",
         "show", out, "more" })
      process.refused(2, "unexpected word 'more' behind %S+p.lua: sweep takes one file", { "sweep",
         directory .. "/p.lua", "more", "--dry-run" })
      process.refused(2, "%-%-format: of sweep show alone", { "sweep", directory .. "/p.lua",
         "--format", "json" })
      process.refused(6, "there is no sweep in " .. out, { "sweep", "ls", out })
      core.sys.mkdir(directory .. "/own/trials")
      core.sys.write_file(directory .. "/own/trials/0001.log", "of somebody")
      for place, what in pairs { [directory .. "/own"] = "holds what is no sweep's %(trials%)",
         [directory .. "/p.lua"] = "is a file" } do
         process.refused(2, "%-%-out %S+ " .. what .. ": choose an empty or new directory", {
            "sweep", directory .. "/p.lua", "--out", place })
      end
      assert.same({ "trials" }, core.sys.list_dir(directory .. "/own"))
      core.sys.write_file(directory .. "/jobs.lua", core.sys.read_file(directory .. "/p.lua")
         :gsub("goal", "jobs = 4096, goal"))
      process.refused(2, "jobs.lua: jobs = 4096: there are %d+ CPUs", { "sweep",
         directory .. "/jobs.lua", "--dry-run" })
      process.refused(2, "^ftpipe: %-%-jobs 4097: there are %d+ CPUs", { "sweep",
         directory .. "/jobs.lua", "--dry-run", "--jobs", "4097" })
   end)

   it("is bounded by a flag where its file does not", function()
      core.sys.write_file(directory .. "/endless.lua", [[local ft = require("ftpipe")
         return ft.sweep { run = { "plan", "t5-small", format = "json" }, method = "random",
            space = { effort = ft.sweep.linear(1, 2) }, metric = "seconds_per_batch",
            goal = "min" }]])
      local words = { "sweep", directory .. "/endless.lua", "--dry-run" }
      process.refused(2, "method random does not end by itself in this space: give trials or time, "
         .. "or %-%-trials or %-%-time", words)
      process.refused(2, "%-%-time: expected more than 0, got 0\n", { unpack(words), "--time=0" })
      for flag, limit in pairs { ["--trials=2"] = "2 trials", ["--time=9s"] = "no limit" } do
         words[4] = flag
         local printed, err, code = ftpipe(words)
         assert.equal(0, code, err)
         assert.matches("random, " .. limit, printed)
      end
   end)

   it("gives the line of its best trial as a shell reads it", function()
      core.sys.write_file(directory .. "/p.lua", [[local ft = require("ftpipe")
         return ft.sweep { run = { "plan", "t5-small", devices = "sim:2x11GB", format = "json",
               seed = 123456789, groups = "*.q.*: frozen; encoder.*: decay 0" },
            space = { mem = { true, false }, recompute = { "never" }, micro_batches = { 4 } },
            method = "grid", metric = "seconds_per_batch", goal = "min" }]])
      assert.equal(0, select(3, ftpipe { "sweep", directory .. "/p.lua", "--out", out }))
      local line = (ftpipe { "sweep", "best", out }):match("\nftpipe ([^\n]+)\n$")
      assert.matches(" %-%-mem ", line .. " ") -- a flag without a value
      assert.matches("'%-%-groups=%*%.q%.%*: frozen; encoder", line)
      local printed, err, code = process.shell(core.sys.executable() .. " " .. line)
      assert.equal(0, code, err)
      assert.equal(core.json.decode((ftpipe { "sweep", "show", out, "--format", "json" }))
         .trials[1].value, core.json.decode(printed).seconds_per_batch)
   end)

   it("has sweeps of at most 25 lines", function()
      for _, name in ipairs(core.sys.list_dir("sweeps")) do
         local text = core.sys.read_file("sweeps/" .. name)
         assert.is_true(select(2, text:gsub("\n", "")) <= 25, name)
         local printed, err, code = ftpipe { "sweep", "sweeps/" .. name, "--dry-run" }
         assert.equal(0, code, err)
         assert.matches("trials\n    1  %S+=", printed)
      end
   end)
end)
