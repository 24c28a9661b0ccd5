--- ftpipe runs ls|show|diff|events|reindex|rm: the run directories that are there.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local directories = require("ftpipe.store.directory")
local events = require("ftpipe.store.events")
local indexes = require("ftpipe.sweep.index")
local keys = require("ftpipe.base.keys")
local left = require("ftpipe.store.left")
local own = require("ftpipe.store.own")
local records = require("ftpipe.store.record")
local run_name = require("ftpipe.store.name")
local small_file = require("ftpipe.base.small_file")
local spark = require("ftpipe.base.spark")
local suggest = require("ftpipe.base.suggest")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")
local columns = require("ftpipe.base.words").columns

local M = { help = "the runs in a directory: ls, show, diff, events, reindex, rm" }

local MOST_BYTES = 2 ^ 24
local DEEPEST = 4 -- directories below the one that is listed

M.declared = {
   "ls [DIR] lists the runs in a directory (out) and those below it; show RUN says what one is;\n"
      .. "diff A B what two have different, with exit code 1 when anything is; rm RUN... removes;\n"
      .. "events RUN... writes their metrics as event files, which TensorBoard reads;\n"
      .. "reindex SWEEP... makes the index of a sweep anew, of its sweep.jsonl.",
   "ftpipe runs ls out",
   "ftpipe runs diff out/a out/b",
   "ftpipe runs rm out/a --yes",
   format = { choices = { "table", "json" }, default = "table", help = "of ls and show" },
   yes = { type = "boolean", default = false, help = "remove" },
}

--- What a directory says of its run.
local function read(path)
   local record = records.read(path)
   local readable, summary = pcall(left.summary, path)
   local process = directories.writer(path)
   return {
      path = path, id = record.id, task = record.task.name,
      command = argvs.line(record.command), commit = record.commit, host = record.host,
      started = record.started, ended = record.ended, wall_seconds = record.wall_seconds,
      flags = record.flags, summary = readable and summary or {}, process = process,
      state = records.state(record, process ~= nil), exit = record.exit, problem = record.problem,
   }
end

--- Adds the runs of a directory, and of those in it, each once: a link may lead to one of those
-- above it.
-- @tparam string path
-- @tparam int depth
-- @tparam table list of runs
-- @tparam table seen by real path, whether a directory was looked at
local function collect(path, depth, list, seen)
   local real = core.sys.real_path(path)
   if seen[real or path] then return list end
   seen[real or path] = true
   local is_run = core.sys.exists(records.path(path))
   if is_run then
      local ok, run = pcall(read, path)
      list[#list + 1] = ok and run
         or { path = path, state = "unreadable", flags = {}, summary = {} }
   end
   if depth > DEEPEST or core.sys.exists(path) ~= "directory" then return list end
   for _, name in ipairs(core.sys.list_dir(path)) do
      local inner = path .. "/" .. name
      local beside = (core.io.link_target(inner) or "/"):find("/") == nil -- as `latest`
      local part = is_run and own.is_own(name)
      if not beside and not part and core.sys.exists(inner) == "directory" then
         collect(inner, depth + 1, list, seen)
      end
   end
   return list
end

local function need_run(path)
   if not path then usage("which run? give its directory, as ftpipe runs show out/rte") end
   records.need(path)
   return path
end

local function score_of(run)
   local value = run.summary.value
   return value and ("%s %.4g %s"):format(run.summary.metric or "?", value,
      run.summary.unit or "") or "-"
end

--- "  loss  (curve)  4.3422 to 0.0603" of the steps that were done, nil of none; and what of them
-- is damaged.
local function loss_line(path)
   local ok, rows, damaged = pcall(left.rows, path)
   local losses = {}
   for _, row in ipairs(ok and rows or {}) do
      if type(row.loss) == "number" then losses[#losses + 1] = row.loss end
   end
   return losses[1] and ("  %-24s %s  %.4f to %.4f"):format("loss by step", spark(losses),
      losses[1], losses[#losses]), damaged
end

--- A value as it is shown: sizes and times with their units, a few numbers side by side, and nil
-- for what is deeper, which --format json has.
local function told(name, value)
   if type(value) == "table" then
      local parts = {}
      for i, x in ipairs(value) do
         parts[i] = type(x) ~= "table" and told(name, x) or nil
      end
      local flat = #parts > 0 and #parts == #keys(value)
      return flat and table.concat(parts, ", ") or nil
   elseif type(value) ~= "number" then
      return tostring(value)
   elseif name:find("_bytes$") and value >= 0 then
      return units.format_bytes(value)
   elseif name:find("seconds$") then
      return units.format_seconds(value)
   end
   return (value % 1 == 0 and "%.0f" or "%.6g"):format(value)
end

--- Adds lines of a table's values, below a heading.
local function add_values(lines, heading, values)
   local deep = {}
   lines[#lines + 1] = "  " .. heading .. ":"
   for _, name in ipairs(keys(values)) do
      local text = told(name, values[name])
      if text then lines[#lines + 1] = ("    %-24s %s"):format(name, text) end
      deep[#deep + 1] = not text and name or nil
   end
   if deep[1] then
      lines[#lines + 1] = ("    by --format json also %s"):format(table.concat(deep, ", "))
   end
end

--- What a run's directory says of it, in lines.
-- @local
function M.lines(path)
   local run = read(path)
   local lines = { ("%s: %s, %s, %s"):format(run.path, run.task or "-", run.process
      and "running as process " .. run.process or run.state, score_of(run)) }
   local function add(format, ...) lines[#lines + 1] = format:format(...) end
   if run.command ~= "" then
      add("  last started %s on %s: %s", run.started or "?", run.host or "?", run.command)
   end
   if run.exit and not run.process then
      add("  ended %s after %s, exit code %.0f%s", run.ended or "?",
         units.format_seconds(run.wall_seconds or 0), run.exit,
         run.problem and ": " .. run.problem or "")
   end
   for _, name in ipairs { "id", "commit" } do
      if run[name] then add("  %-24s %s", name, run[name]) end
   end
   local loss, damaged = loss_line(path)
   lines[#lines + 1] = loss
   if damaged then add("  %s", damaged) end
   if next(run.summary) then add_values(lines, "results", run.summary) end
   add_values(lines, "options", run.flags)
   return lines
end

local ACTIONS = {}

function ACTIONS.ls(words, flags)
   local path = words[1] or "out"
   if words[1] and core.sys.exists(path) ~= "directory" then
      core.fail("not found", ("'%s' is no directory"):format(path))
   end
   local runs, cells = collect(path, 0, {}, {}), { all_left = true }
   if flags.format == "json" then return print(core.json.encode(core.json.array(runs))) end
   for i, run in ipairs(runs) do
      cells[i] = { run.path, records.state_words(run, run.process), run.task or "-",
         score_of(run), run.summary.steps
         and ("%s, %s"):format(counted(run.summary.steps, "step"),
            units.format_seconds(run.summary.seconds or 0)) or "-",
         run.started and run.started:gsub("T", " "):sub(1, 16) or "" }
   end
   print(cells[1] and columns(cells) or "no runs in " .. path)
end

function ACTIONS.show(words, flags)
   local path = need_run(words[1])
   if flags.format == "json" then return print(core.json.encode(read(path), { sort = true })) end
   print(table.concat(M.lines(path), "\n"))
end

-- What two runs of the same may have different: times and what follows from them (how full buffers
-- were), how long legs are, where they are, and what memory there was.
local ALIKE = { seconds = true, eval_seconds = true, samples_per_second = true, out = true,
   tokens_per_second = true, step_seconds_measured = true, step_seconds_predicted = true,
   shares_percent = true, resume = true,
   memory_measured_bytes = true, memory_budget_bytes = true, memory_bytes = true, time = true,
   step_s = true, leg_s = true, leg_steps = true, eval_s = true, idle_percent = true }

--- Lines of what two tables have different.
local function differences(a, b)
   local lines = {}
   for _, name in ipairs(keys(copy(a, b))) do
      local one, other = core.json.encode({ a[name] }, { sort = true }),
         core.json.encode({ b[name] }, { sort = true })
      if one ~= other and not ALIKE[name] then
         lines[#lines + 1] = ("  %-24s %s  %s"):format(name, a[name] == nil and "-"
            or one:sub(2, -2), b[name] == nil and "-" or other:sub(2, -2))
      end
   end
   return lines
end

--- By step, what metrics.jsonl says of it; what is damaged of the file is said.
local function steps_of(path)
   local rows, damaged = left.rows(path)
   local steps = {}
   for _, row in ipairs(rows) do steps[row.step] = copy(steps[row.step] or {}, row) end
   if damaged then print(damaged) end
   return steps
end

--- What the first step that is not alike has different, in lines; nil where all are.
local function first_difference(a, b)
   local one, other = steps_of(a), steps_of(b)
   for _, step in ipairs(keys(copy(one, other))) do
      local lines = differences(one[step] or {}, other[step] or {})
      if lines[1] then
         return ("metrics.jsonl, first of step %d:\n%s"):format(step, table.concat(lines, "\n"))
      end
   end
   return nil
end

function ACTIONS.diff(words)
   if #words < 2 then
      usage("which two runs? give the directories of both, as ftpipe runs diff out/a out/b")
   end
   local a, b = read(need_run(words[1])), read(need_run(words[2]))
   local any = false
   for _, part in ipairs { "flags", "summary" } do
      local lines = differences(a[part], b[part])
      if #lines > 0 then
         print(part .. ":")
         print(table.concat(lines, "\n"))
         any = true
      end
   end
   for _, name in ipairs { "plan.txt", "plan-evaluate.txt" } do
      local x, y = a.path .. "/" .. name, b.path .. "/" .. name
      if core.sys.exists(x) and core.sys.exists(y)
         and small_file(x, MOST_BYTES) ~= small_file(y, MOST_BYTES)
      then
         print(name .. " differs")
         any = true
      end
   end
   local first = first_difference(a.path, b.path)
   if first then print(first) end
   if any or first then os.exit(1, true) end
   print("no difference but in times")
end

--- Writes what metrics.jsonl says as an event file beside it, in place of the one before.
local function write_events(path)
   local from, to = path .. "/metrics.jsonl", path .. "/" .. events.NAME
   if not core.sys.exists(from) then core.fail("not found", from .. ": there is none") end
   local rows, damaged = left.rows(path)
   local text, n = events.text(rows, core.sys.unix_time())
   core.sys.write_file(to, text)
   print(("%s: %s%s"):format(to, counted(n, "row"), damaged and "; " .. damaged or ""))
end

function ACTIONS.events(words)
   if #words == 0 then need_run(nil) end
   for _, path in ipairs(words) do write_events(need_run(path)) end
end

function ACTIONS.reindex(words)
   if #words == 0 then usage("which sweep? give its directory, as ftpipe runs reindex out/lr") end
   for _, path in ipairs(words) do
      local trials, reports, n_lost = indexes.rebuild(path)
      local lost = n_lost > 0
         and ("; %s of sweep.jsonl cut or damaged, left out"):format(counted(n_lost, "line")) or ""
      print(("%s: %s, %s%s"):format(path, counted(trials, "trial"), counted(reports, "report"),
         lost))
   end
end

local function is_run(path)
   return core.sys.exists(records.path(path)) ~= nil or directories.writer(path) ~= nil
end

--- Raises where a directory is no run, or is one that must not be removed now.
local function check_removable(path)
   need_run(path)
   if directories.writer(path) then usage("%s: a process is running there", path) end
   local inner = own.below(path, is_run)
   if not inner then return end
   usage(directories.writer(inner) and "%s: a process is running in it, in %s: wait for that"
      or "%s: another run is in it, %s: remove that first, or move it", path, inner)
end

--- "notes.txt is not of the run and stays"; nil where all is of the run.
local function stays(path)
   local foreign = own.foreign(path)
   if not foreign[1] then return nil end
   local first, more = foreign[1]:sub(#path + 2), #foreign - 1
   return more == 0 and first .. " is not of the run and stays"
      or ("%s and %d more are not of the run and stay"):format(first, more)
end

--- Removes a run, and the link by which it was named.
local function remove(path, rest)
   local real, link = core.sys.real_path(path), path:gsub("/+$", "")
   local is_link = core.io.link_target(link) ~= nil
   own.remove(real)
   run_name.link(real)
   if rest then return print(("removed the run in %s; %s"):format(path, rest)) end
   if is_link and not core.sys.exists(link) then os.remove(link) end
   print("removed " .. (is_link and ("%s, to which %s was a link"):format(real, path) or path))
end

function ACTIONS.rm(words, flags)
   if #words == 0 then need_run(nil) end
   for _, path in ipairs(words) do check_removable(path) end
   for _, path in ipairs(words) do
      local is_left = core.sys.exists(path) -- else it was removed by another name
      local rest = is_left and stays(core.sys.real_path(path))
      if is_left and flags.yes then
         remove(path, rest)
      elseif is_left then
         print(("%s would be removed%s; give --yes"):format(path, rest and ", but " .. rest or ""))
      end
   end
end

-- By action the most words that it takes, where there is a limit, and its flag.
local TAKES = {
   ls = { words = 1, flag = "format" }, show = { words = 1, flag = "format" },
   diff = { words = 2 }, rm = { flag = "yes" }, events = {}, reindex = {},
}

--- Refuses what an action would pass over.
local function check(name, words, given)
   local takes = TAKES[name]
   for _, flag in ipairs(keys(given)) do
      if flag ~= takes.flag then usage("--%s: nothing that runs %s takes", flag, name) end
   end
   local stray = takes.words and words[takes.words + 1]
   if stray then
      usage("unexpected word '%s': runs %s takes %s at most", stray, name,
         counted(takes.words, "directory", "directories"))
   end
end

function M.words() return keys(ACTIONS) end

--- @tparam {string,...} argv the words after "runs"
function M.run(argv)
   local words = argvs.words(argv)
   local flags, given = args.read(M.declared, argv, "runs ls|show|diff|events|reindex|rm")
   local name = table.remove(words, 1)
   local action = ACTIONS[name or ""]
   if not action then
      usage("runs needs one of %s%s", table.concat(keys(ACTIONS), ", "),
         name and suggest.hint(name, keys(ACTIONS)) or "")
   end
   check(name, words, given)
   return action(words, flags)
end

return M
