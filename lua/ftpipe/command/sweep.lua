--- ftpipe sweep FILE.lua, and ftpipe sweep ls|show|best|stop|pause|go DIR.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local controllers = require("ftpipe.sweep.controller")
local core = require("ftpipe.core")
local ends = require("ftpipe.sweep.ends")
local indexes = require("ftpipe.sweep.index")
local keys = require("ftpipe.base.keys")
local methods = require("ftpipe.sweep.methods")
local spaces = require("ftpipe.sweep.space")
local suggest = require("ftpipe.base.suggest")
local sweeps = require("ftpipe.sweep")
local text = require("ftpipe.sweep.text")
local usage = require("ftpipe.base.usage")

local M = { help = "many runs of a recipe or a command, and which is best" }

M.declared = {
   "Runs what FILE.lua returns (ft.sweep), trial by trial; what is in DIR is looked at with\n"
      .. "ls [DIR], show DIR and best DIR; a sweep that runs is told to stop, pause or go on with\n"
      .. "stop DIR, pause DIR and go DIR.",
   "ftpipe sweep sweeps/t5_rte.lua",
   "ftpipe sweep sweeps/t5_rte.lua --trials 24 --resume",
   "ftpipe sweep best out/t5_rte",
   out = { default = false, help = "the sweep's directory (out/NAME of the file)" },
   jobs = { type = "int", min = 1, help = "trials at once, on CPUs of their own" },
   trials = { type = "int", min = 1, help = "at most" },
   time = { type = "seconds", above = 0, value = "90s|2h", help = "after which no trial begins" },
   resume = { type = "boolean", default = false,
      help = "go on: what has ended stays, what was under way or met no end of its own runs on" },
   dry_run = { type = "boolean", default = false, short = "-n",
      help = "what would be tried; a recipe plans its first trial" },
   format = { choices = { "table", "json" }, default = "table", help = "of show" },
}

-- ---------------------------------------------------------------------------------------------
-- Sweeps that are there.

local function open(path)
   if not path then usage("which sweep? give its directory, as ftpipe sweep show out/t5_rte") end
   return indexes.open(path, true)
end

local function set_control(value, word)
   return function(path)
      local index = open(path)
      if not core.io.lock_holder(path .. "/lock") then
         usage("%s: no process is running this sweep; ftpipe sweep FILE.lua --out %s --resume goes "
            .. "on", path, argvs.quoted(path))
      end
      index:set("control", value)
      print(("%s: %s"):format(path, word))
   end
end

--- What a directory says of its sweep, in a few words.
local function summary_of(dir)
   local index = indexes.open(dir, true)
   local rows, goal = index:trials(), index:get("goal")
   index:close()
   local best = text.best(rows, goal)
   return ("%4d trials  %s"):format(#rows, best
      and ("best %.6g: %s"):format(best.value, text.flags(best.flags)) or "none has ended")
end

local function list_of(path)
   local names = core.sys.exists(path) == "directory" and core.sys.list_dir(path) or {}
   local n = 0
   for _, name in ipairs(names) do
      local dir = path .. "/" .. name
      if core.sys.exists(dir .. "/sweep.db") then
         local ok, said = pcall(summary_of, dir)
         print(("%-30s %s"):format(dir, ok and said or "unreadable: " .. tostring(said)))
         n = n + 1
      end
   end
   if n == 0 then core.fail("not found", ("there is no sweep in %s"):format(path)) end
end

local ON_DIRECTORY = {
   ls = function(path) list_of(path or "out") end,
   show = function(path, flags)
      local index = open(path)
      local form, rows = flags.format == "json" and text.json or text.table, index:trials()
      for _, row in ipairs(rows) do -- of a sweep that was killed
         local is_left = row.state == "running" and not core.io.lock_holder(path .. "/lock")
         if is_left then row.state = "waiting" end
      end
      io.stdout:write((form(rows, index:get("goal")):gsub("\n?$", "\n")))
   end,
   best = function(path)
      local index = open(path)
      local best = text.best(index:trials(), index:get("goal"))
      if not best then core.fail("not found", path .. ": no trial has ended with a value") end
      local trial = controllers.trial_path(path, best.number)
      local place = core.sys.exists(trial) == "directory" and ", in " .. trial or ""
      print(("trial %d: %.6g%s"):format(best.number, best.value, place))
      local flags = argvs.line(controllers.flag_words({}, best.flags))
      print((("%s %s"):format(index:get("command"), flags):gsub(" $", "")))
   end,
   stop = set_control("stop", "stops; --resume goes on"),
   pause = set_control("pause", "begins no further trials until `ftpipe sweep go`"),
   go = set_control("go", "goes on"),
}

-- ---------------------------------------------------------------------------------------------
-- A sweep of a file.

local function load(path)
   local chunk, problem = loadfile(path)
   if not chunk then usage("%s", problem) end
   local words = rawget(_G, "arg")
   rawset(_G, "arg", { [-1] = words and words[-1], [0] = path, refusal = path
      .. " is no sweep file, it reads flags as a recipe does: a sweep file returns "
      .. "ft.sweep { run = RECIPE, space = { ... }, ... }" })
   local ok, sweep = xpcall(chunk, function(raised)
      return type(raised) == "string" and debug.traceback(raised, 2) or raised
   end)
   rawset(_G, "arg", words)
   if not ok then error(sweep, 0) end
   if not sweeps.is(sweep) then usage("%s does not return what ft.sweep gives", path) end
   return sweep
end

--- Refuses to mix two sweeps in a directory, and a second one that was not asked for.
local function check_directory(controller, sweep, flags)
   local index = controller.index
   local words = controllers.command(sweep, {})
   local space = {}
   for i, p in ipairs(sweep.parameters) do
      space[i] = p.name .. ": " .. (p.range and tostring(p.range)
         or core.json.encode(core.json.array(p.values)))
   end
   local definition = core.json.encode({ command = table.concat(words, " ", 2),
      space = core.json.array(space), method = sweep.method, seed = sweep.seed,
      grid_steps = sweep.method == "grid" and sweep.grid_steps or nil }, { sort = true })
   local was = index:get("definition")
   if was and was ~= definition then
      usage("--out %s holds another sweep, or this one before it was changed: give another "
         .. "directory", controller.dir)
   end
   if was and not flags.resume then
      usage("--out %s holds this sweep: give --resume to go on, or another directory",
         controller.dir)
   end
   index:set("definition", definition)
   words = controllers.command(sweep, {}, sweep.is_recipe and { out = "auto" } or nil)
   words[1] = "ftpipe"
   index:set("command", argvs.line(words))
   index:set("prune", core.json.encode(sweep.prune or {}))
   index:set("control", "go")
   if sweep.goal then index:set("goal", sweep.goal) end
end

--- What would be tried.
local function dry_run(sweep)
   local shown = math.min(sweep.trials or 5, 5)
   print(tostring(sweep))
   local rows = {}
   for number = 1, shown do
      local point = methods.new_point(sweep.method, sweep.parameters, number, {}, sweep, rows)
      rows[number] = { flags = spaces.values(sweep.parameters, point) }
      print(("%5d  %s"):format(number, text.flags(rows[number].flags)))
   end
   if sweep.trials and sweep.trials > shown then print("  ...") end
   if not sweep.is_recipe then return end
   local words = controllers.command(sweep, rows[1].flags, { dry_run = true })
   io.stdout:flush() -- the trial prints behind it
   local pid = core.process.start(words, nil, nil, { controllers.metric_variable(sweep) })
   local code = core.process.poll(pid)
   while not code do
      core.process.sleep(0.02)
      code = core.process.poll(pid)
   end
   if code ~= 0 then core.fail("invalid argument", "the first trial would fail", code) end
end

--- Lines as trials end.
local function announce(controller)
   return function(number, ended)
      local done = 0
      for _, row in ipairs(controller.index:trials()) do
         if row.state ~= "running" and row.state ~= "waiting" then done = done + 1 end
      end
      io.stderr:write(("trial=%d state=%s value=%s done=%d%s\n"):format(number, ended.state,
         ended.value and ("%.6g"):format(ended.value) or "-", done,
         ended.note and " note=\"" .. ended.note .. "\"" or ""))
   end
end

local function run(path, flags)
   local sweep = load(path)
   for _, name in ipairs { "jobs", "trials", "time" } do
      if flags[name] then sweep[name] = flags[name] end
   end
   sweeps.check_end(sweep)
   local size = methods.size(sweep.method, sweep.parameters, sweep)
   if size then sweep.trials = math.min(sweep.trials, size) end
   local cpus = #core.process.cpus()
   if sweep.jobs > cpus then
      usage("%s: there are %d CPUs, and trials share none", flags.jobs and "--jobs " .. flags.jobs
         or ("%s: jobs = %d"):format(path, sweep.jobs), cpus)
   end
   if flags.dry_run then return dry_run(sweep) end
   local out = flags.out or "out/" .. path:match("([^/]*)$"):gsub("%.lua$", "")
   local controller = controllers.new(sweep, out)
   check_directory(controller, sweep, flags)
   core.sys.write_file(out .. "/sweep.lua", core.sys.read_file(path))
   controller:adopt()
   controller:revise()
   controller:run(announce(controller))
   local rows, goal = controller.index:trials(), controller:goal()
   print(text.table(rows, goal))
   if sweep.prune and #controller.index:reports() == 0 then
      io.stderr:write(("prune has given nothing up: no trial said its %s at an evaluation on its "
         .. "way (of recipes: eval_every)\n"):format(sweep.metric or "value"))
   end
   if not text.best(rows, goal) then
      if not rows[1] then core.fail("invalid argument", "no trial has begun in --time", 1) end
      local alike, first = ends.alike(rows)[1], rows[1].note
      core.fail("invalid argument", ("no trial has a value%s; what they said is in %s/trials")
         :format(alike and ", all ended alike: " .. alike.note
            or first and ", the first one: " .. first or "", out), 1)
   end
end

function M.words() return keys(ON_DIRECTORY) end

--- @tparam {string,...} argv the words after "sweep"
function M.run(argv)
   local words = argvs.words(argv)
   local flags, given = args.read(M.declared, argv, "sweep FILE.lua")
   if not words[1] then usage("sweep needs a file, or one of ls, show, best, stop, pause, go") end
   local on_directory, there = ON_DIRECTORY[words[1]], core.sys.exists(words[1])
   if on_directory and there ~= "file" then
      for name in pairs(given) do
         if name ~= "format" or words[1] ~= "show" then
            usage("--%s: nothing that sweep %s takes", name:gsub("_", "-"), words[1])
         end
      end
      if words[3] then
         usage("unexpected word '%s': sweep %s takes one directory", words[3], words[1])
      end
      return on_directory(words[2], flags)
   end
   if words[2] then
      usage("unexpected word '%s' behind %s: sweep takes one file, and flags", words[2], words[1])
   end
   if given.format then usage("--format: of sweep show alone") end
   if there == "directory" then
      usage("%s is a directory: ftpipe sweep show %s shows the sweep in it", words[1], words[1])
   elseif there ~= "file" then
      usage("there is no sweep '%s'%s", words[1], suggest.hint(words[1], keys(ON_DIRECTORY)))
   end
   return run(words[1], flags)
end

return M
