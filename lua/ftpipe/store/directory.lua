--- The directory of a run, --out, but for its checkpoints (state.lua).
--
--    run.json                       what was asked for, and how it stands (record.lua)
--    recipe.lua                     the script that made the run, as it was
--    log.txt                        what was said, with times; of all its starts
--    plan.txt, plan-evaluate.txt    the plans
--    metrics.jsonl                  a row for each step and each evaluation
--    events.out.tfevents.ftpipe     the same for TensorBoard, with --events
--    timeline.json                  what the devices did in the last leg, for Perfetto
--    summary.json                   what came of it
--    watchdog.txt                   who waited for whom when nothing moved (run/watchdog.lua)
--    lock                           held by the process that writes here

local above = require("ftpipe.base.above")
local core = require("ftpipe.core")
local events = require("ftpipe.store.events")
local keys = require("ftpipe.base.keys")
local left = require("ftpipe.store.left")
local named = require("ftpipe.base.named")
local own = require("ftpipe.store.own")
local peft = require("ftpipe.model.peft")
local records = require("ftpipe.store.record")
local replace = require("ftpipe.model.replace")
local run_name = require("ftpipe.store.name")
local small_file = require("ftpipe.base.small_file")
local states = require("ftpipe.store.state")
local usage = require("ftpipe.base.usage")

local M = {}

local MOST_BYTES = 2 ^ 30 -- of metrics.jsonl, some millions of rows, and of log.txt
local MOST_RECIPE_BYTES = 2 ^ 20
local Directory = {}
Directory.__index = Directory

local function lock_file(path) return path .. "/lock" end

--- The process that writes in a run's directory: its number, 0 when that is not known; nil when
-- none does. Not for a process that writes there itself.
function M.writer(path) return core.io.lock_holder(lock_file(path)) end

local function refuse_running(args, holder)
   usage.of(args, "{out=%s}: %s is running there; wait for it, or give another directory", args.out,
      holder > 0 and "process " .. holder or "another process")
end

--- Takes the lock, unless it is there already.
local function lock(directory)
   if directory.lock then return end
   local path = directory.path
   local taken, answer = core.io.lock(lock_file(path))
   directory.lock = taken
   if taken and not answer then
      io.stderr:write(named.words(directory.args, "{out=%s}: its file system has no locks, "
         .. "nothing keeps another process out\n"):format(path))
   end
   if not taken then refuse_running(directory.args, answer) end
end

--- The directory args.out, which need not be there before `begin`.
-- @raise invalid argument: another process has it
function M.new(args)
   local directory = setmetatable({ args = args, path = args.out, evaluated = {}, early = {},
      refused = {} }, Directory)
   if core.sys.exists(args.out) then lock(directory) end
   return directory
end

-- ---------------------------------------------------------------------------------------------
-- What is there already.

-- Names that only runs, or only models, have.
local OF_RUNS = { "run.json", "metrics.jsonl" }
local OF_MODELS = { "hf", "config.json", peft.files[1], peft.files[2],
   unpack(core.io.weight_files) }

local function first_of(path, names)
   for _, name in ipairs(names) do
      if core.sys.exists(path .. "/" .. name) then return path .. "/" .. name end
   end
   return nil
end

--- What a directory holds, whatever links in it are lost.
-- @treturn string "run", "model" or nil
-- @treturn string what shows it
local function contents(path)
   local sign = states.find(path) or first_of(path, OF_RUNS)
   if sign then return "run", sign end
   sign = first_of(path, OF_MODELS)
   return sign and "model", sign
end

--- Refuses to write over a model, or a run that is not to go on.
local function check_unused(args)
   local out = args.out
   local what, sign = contents(out)
   if not what then return end
   if what == "run" and args.resume then
      if states.find(out) or not core.sys.exists(out .. "/hf") then return end
      usage.of(args, "{resume}: %s/hf is a model, and there is no checkpoint to go on from: give "
         .. "another directory", out)
   end
   local or_resume = what == "run" and not args.eval_only
   usage.of(args, "{out=%s} holds a %s (%s): give %sanother directory", out, what, sign,
      or_resume and named.words(args, "{resume} to go on with it, or ") or "")
end

--- Refuses a directory that cannot be made, or written to.
local function check_writable(args)
   local out = args.out
   local there = above(out)
   if core.sys.exists(there) ~= "directory" then
      usage.of(args, "{out=%s}: %s is not a directory", out, there)
   end
   if not core.sys.may_write(there) then
      usage.of(args, "{out=%s}: %s cannot be written to", out, there)
   end
end

--- Refuses to write where the run reads.
local function check_apart(args)
   local out = core.sys.real_path(args.out)
   if not out then return end
   for _, flag in ipairs { "model", "adapter", "data", "train_file", "eval_file" } do
      local path = args[flag] and core.sys.real_path(args[flag])
      if path and (path .. "/"):sub(1, #out + 1) == out .. "/" then
         usage.of(args, "%s is in {out=%s}, where this run writes: give another {out}",
            named.value(args, flag, args[flag]), args.out)
      end
   end
end

--- The run that a directory is in, nil when it is in none.
local function run_around(out)
   local path = core.sys.real_path(above(out))
   if core.sys.exists(out) then path = path:match("^(.*)/") end
   while path and path ~= "" do
      if core.sys.exists(records.path(path)) then return path end
      path = path:match("^(.*)/")
   end
   return nil
end

--- Refuses a place for a new run that is in another run, or somebody else's.
local function check_place(args)
   local out = args.out
   if contents(out) then return end
   local around = run_around(out)
   if around then
      usage.of(args, "{out=%s} is inside the run %s: give a directory outside of it", out, around)
   end
   local foreign = core.sys.exists(out) and own.foreign(out)[1]
   if foreign then
      usage.of(args, "{out=%s} holds what is no run's (%s): choose an empty or new directory", out,
         foreign)
   end
end

local function is_planning(args)
   return args.devices ~= nil and not core.engine.devices(args.devices)[1].executes
end

--- Refuses a directory that commands cannot be given, and texts that run.json, which has them all,
-- cannot hold.
local function check_texts(args)
   if args.out == "-" then
      usage.of(args, "{out=-}: commands read their standard input where they are given '-': give a "
         .. "directory another name")
   end
   for _, name in ipairs(keys(args)) do
      if type(args[name]) == "string" and core.data.utf8_fault(args[name]) then
         usage.of(args, "{" .. name .. "} is not UTF-8, as run.json has to be: give another name")
      end
   end
end

--- Refuses an --out, or a --resume, that the run would stop at: before it has measured or planned
-- anything. What plans for devices that are not there writes nothing, and may name any.
-- @tparam table args of ft.args
-- @raise invalid argument
function M.check(args)
   if args.out == "" then usage.of(args, "{out} is empty: give it a directory") end
   if args.resume and not args.out then
      usage.of(args, "{resume} goes on from the checkpoints of {out}, give it too")
   end
   if args.events and not args.out then
      usage.of(args, "{events} is a file of the run directory, give {out} too")
   end
   if args.resume and args.eval_only then
      usage.of(args, "{resume} goes on with training and {eval_only} does not train, give one of "
         .. "them ({model=%s/hf} is what the run has left)", args.out)
   end
   if not args.out or is_planning(args) then return end
   check_texts(args)
   check_writable(args)
   check_unused(args)
   check_apart(args)
   check_place(args)
end

--- Raises when a file that a command is to write is a directory, or would be in none.
-- @raise invalid argument
function M.check_written(out)
   if core.sys.exists(out) == "directory" then
      usage("%s is a directory, expected a file", out)
   end
   local around = out:match("^(.*/)[^/]*$")
   if around and core.sys.exists(around) ~= "directory" then
      usage("%s: there is no directory %s", out, around)
   end
end

--- Raises when a file that a command is to write, with --out, is a directory or one of a run's own.
-- @tparam string run its directory
-- @tparam string out
-- @raise invalid argument
function M.check_file(run, out)
   M.check_written(out)
   local root, path = core.sys.real_path(run), core.sys.real_path(out)
   local inner = root and path and path:sub(1, #root + 1) == root .. "/" and path:sub(#root + 2)
   if inner and own.is_own(inner:match("^[^/]+")) then
      usage("%s is a file of the run itself: write to another path", out)
   end
end

--- Raises when another process has the directory args.out; writes nothing.
-- @raise invalid argument
function M.check_free(args)
   local holder = M.writer(args.out)
   if holder then refuse_running(args, holder) end
end

-- ---------------------------------------------------------------------------------------------
-- Writing.

--- Rows of metrics.jsonl up to a step: those after it will be written again. Notes which of them
-- are evaluations.
local function keep_rows(directory, path, step)
   local kept = {}
   if step == 0 or not core.sys.exists(path) then return kept end
   for line in small_file(path, MOST_BYTES):gmatch("[^\n]*\n") do
      local ok, row = pcall(core.json.decode, line)
      if ok and type(row) == "table" and (tonumber(row.step) or 0) <= step then
         kept[#kept + 1] = line
         if row.eval_loss then directory.evaluated[row.step] = true end
      end
   end
   return kept
end

--- The script that this process runs; nil at the prompt.
local function recipe_text()
   local path = run_name.script()
   local _, size = core.sys.exists(path or "")
   return path and size <= MOST_RECIPE_BYTES and core.sys.read_file(path) or nil
end

--- What log.txt has of earlier starts; nothing of what no run has left there.
local function said_before(path)
   local kind, size = core.sys.exists(path)
   return kind == "file" and size <= MOST_BYTES and core.sys.read_file(path) or ""
end

--- The id of the run that the directory has; nil where there is none, or nothing that says it.
local function id_before(path)
   local ok, record = pcall(records.read, path)
   return ok and record.id or nil
end

--- summary.json of the start that made all `done` steps; nil where there is none.
local function summary_after(path, done)
   local ok, summary = pcall(left.summary, path)
   return ok and summary and summary.steps == done and summary or nil
end

--- Removes what earlier starts have left that is not of this one: what came of them, and files and
-- models that killed processes had not made whole. Nobody else writes here while the lock is held.
local function clear(path)
   os.remove(path .. "/summary.json")
   for _, file in ipairs(own.unfinished(path)) do os.remove(file) end
   replace.sweep(path, "hf")
end

--- Writes what is known before the first step.
-- @tparam plan plan
-- @tparam table record for run.json (records.of)
-- @tparam int done steps that the run goes on from
function Directory:begin(plan, record, done)
   core.sys.mkdir(self.path)
   lock(self)
   self.earlier = summary_after(self.path, done)
   clear(self.path)
   self:write("plan.txt", plan:text())
   local evaluation = plan:evaluation_text()
   if evaluation then self:write("plan-evaluate.txt", evaluation) end
   record.id = id_before(self.path) or record.id
   self.record, self.start_ns = record, core.sys.time_ns()
   core.sys.write_file(records.path(self.path), records.text(record))
   run_name.link(self.path, true)
   local recipe = recipe_text()
   if recipe then self:write("recipe.lua", recipe) end
   local log = self.path .. "/log.txt"
   core.sys.write_file(log, said_before(log) .. table.concat(self.early))
   self.log_file = assert(io.open(log, "a"))
   local metrics = self.path .. "/metrics.jsonl"
   core.sys.write_file(metrics, table.concat(keep_rows(self, metrics, done)))
   self.metrics = assert(io.open(metrics, "a"))
   if self.args.events then
      local path = self.path .. "/" .. events.NAME
      core.sys.write_file(path, (events.text(left.rows(self.path), core.sys.unix_time())))
      self.event_file = assert(io.open(path, "ab"))
   end
end

--- Replaces a file, whole or not at all.
function Directory:write(name, text) core.sys.write_file(self.path .. "/" .. name, text) end

--- The same for what a run can do without: what cannot be written is said once for each file.
-- @treturn boolean whether it was
function Directory:offer(name, text)
   local ok, problem = pcall(self.write, self, name, text)
   if ok then return true end
   local why = type(problem) == "table" and problem.status
   if why ~= "input or output failed" then error(problem, 0) end
   if not self.refused[name] then
      self.refused[name] = true
      io.stderr:write(("%s; the run goes on without %s\n"):format(problem.message, name))
   end
   return false
end

--- Appends to a file that the run can do without: what cannot be written is said once.
local function append(directory, file, name, bytes, since)
   local written, problem = file:write(bytes)
   if written then written, problem = file:flush() end
   if written or directory.refused[name] then return end
   directory.refused[name] = true
   io.stderr:write(("%s/%s cannot be written%s: %s; the run goes on\n"):format(directory.path, name,
      since or "", problem))
end

--- Appends a row to metrics.jsonl, and with --events to the event file; of evaluations after one
-- step, the first.
function Directory:note(row)
   if row.eval_loss then
      if self.evaluated[row.step] then return end
      self.evaluated[row.step] = true
   end
   local since = (" from step %d on"):format(row.step)
   append(self, self.metrics, "metrics.jsonl", core.json.encode(row) .. "\n", since)
   if self.event_file then
      append(self, self.event_file, events.NAME, events.record_of(row), since)
   end
end

--- Keeps what was said in log.txt, with the time; before `begin` until then.
function Directory:log(text)
   local row = ("%s %s\n"):format(os.date("!%Y-%m-%dT%H:%M:%SZ"), text)
   if not self.log_file then
      self.early[#self.early + 1] = row
      return
   end
   append(self, self.log_file, "log.txt", row)
end

--- Has run.json say how the run has ended.
local function note_end(directory, problem)
   local seconds = (core.sys.time_ns() - directory.start_ns) / 1e9
   core.sys.write_file(records.path(directory.path),
      records.text(records.ended(directory.record, seconds, problem)))
end

--- What f gave; what it raised once more.
local function passed(ok, ...)
   if ok then return ... end
   error((...), 0)
end

--- Calls f: what it raises ends the run, and run.json says so. To be called behind `begin`.
-- @treturn ... what f gives
function Directory:noting_end(f, ...)
   self.on_failure = self.on_failure or function(problem)
      local written, lost = pcall(note_end, self, problem)
      if not written then
         io.stderr:write(("%s; %s does not say how the run ended\n"):format(tostring(lost),
            records.path(self.path)))
      end
      return type(problem) == "string" and debug.traceback(problem, 2) or problem
   end
   return passed(xpcall(f, self.on_failure, ...))
end

--- Ends it: another process may have the directory.
-- @tparam table summary for summary.json
function Directory:close(summary)
   self:write("summary.json", core.json.encode(summary, { indent = 2 }) .. "\n")
   note_end(self)
   self.metrics:close()
   self.log_file:close()
   if self.event_file then self.event_file:close() end
   self.lock:free()
end

return M
