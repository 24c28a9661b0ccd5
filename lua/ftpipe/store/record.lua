--- run.json of a run directory: what a run was asked for, and how it stands, as data.
--
--    id       a name that no other run has (name.lua), the same when it goes on
--    ftpipe   the version that wrote it
--    command  the words that started it
--    commit   of git, where the recipe lies in a tree of it (commit.lua)
--    host     the machine's name
--    processor  its own, and the kernels that run on it; of several processes that differ, which
--             ranks have which
--    devices  their names
--    started  when, as 2026-11-23T01:00:00Z; of a run that goes on, when that began
--    state    "running" until its end; then "done", "stopped" by a signal, or "failed"
--    exit     the exit code of its end; ended, when that was; wall_seconds, since `started`;
--             problem, what was said of it
--    flags    the flags of the recipe with their values; of --warmup, --lr-schedule, --schedule,
--             --groups and a partition of the recipe's own, what was used
--    origins  where each of them is from: the command line, a sweep, the recipe, a default
--    partition  its name, the same when the run goes on with the plan that it has
--    stages   where each stage begins and ends, for people
--    task     its name and what it was made with; of a task of one's own, what predictions need of
--             it (Task:record)
--
-- Nothing in a run directory is ever executed, and no file that it names: it may come from
-- anywhere.

local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local commit = require("ftpipe.store.commit")
local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local processors = require("ftpipe.base.processors")
local run_name = require("ftpipe.store.name")
local shown = require("ftpipe.base.shown")
local small_file = require("ftpipe.base.small_file")

local M = {}

local NAME = "run.json"
local FORMAT = 1
local MOST_BYTES = 2 ^ 20

-- Entries of a task.
local TASK = {
   name = "string", settings = "object", file = "string", sha256 = "string", kind = "string",
   layouts = "table",
}

-- Entries that are left out when they are of another type.
local OPTIONAL = {
   id = "string", commit = "string", partition = "string", host = "string",
   started = "string", state = "string", ended = "string", problem = "string",
   exit = "number", wall_seconds = "number",
}

--- Where the record of a run directory is.
function M.path(dir) return dir .. "/" .. NAME end

--- What JSON can say of a value: nil of functions and objects.
local function plain(value)
   local kind = type(value)
   if kind == "number" then return math.abs(value) < math.huge and value or tostring(value) end
   if kind == "string" or kind == "boolean" then return value end
   if kind ~= "table" then return nil end
   local result = {}
   local is_list = #value > 0
   for key, inner in pairs(value) do result[is_list and key or tostring(key)] = plain(inner) end
   return result
end

--- A text as JSON can have it: of one that is no UTF-8 what it can.
local function legible(text)
   return core.data.utf8_fault(text) and text:gsub("[\128-\255]", "?") or text
end

local function now() return os.date("!%Y-%m-%dT%H:%M:%SZ") end

--- The words of this process, the program first.
local function command()
   local words = core.json.array {}
   local first = 0
   while arg and arg[first - 1] do first = first - 1 end
   for i = first, arg and #arg or -1 do
      words[#words + 1] = arg[i] and legible(arg[i]) -- without a script there is no arg[0]
   end
   return words
end

local function host()
   local file = io.open("/proc/sys/kernel/hostname")
   local name = file and file:read("*l")
   if file then file:close() end
   return name
end

--- The commit of the script that runs; nil without one.
local function commit_of_script()
   local path = run_name.script()
   return path and commit(path:match("^(.*/)[^/]*$") or ".")
end

--- Where each stage begins and ends.
local function spans_of(plan)
   local spans = {}
   for s = 1, plan.n_stages do spans[s] = plan:span(s) end
   return spans
end

--- The flags of a run as they were used, and where each is from.
local function flags_of(run)
   local o = run.plan.options
   local args = copy(run.args, o.instead)
   local origins, is_named = named.origins(args), type(args.partition) == "string"
   if args.plan then origins.schedule = named.FOLLOWS end
   if args.warmup and args.warmup ~= run.rate.warmup then origins.warmup = named.FOLLOWS end
   return plain(copy(args, {
      warmup = run.rate.warmup, lr_schedule = run.rate.schedule, schedule = o.schedule,
      groups = run.plan.groups.all, partition = not is_named and run.plan.partition.name or nil,
   })), origins
end

--- What run.json says of a run that begins.
-- @treturn table for M.text
function M.of(run)
   local flags, origins = flags_of(run)
   return {
      format = FORMAT,
      id = run_name.of(run.out),
      ftpipe = core.version,
      command = command(),
      commit = commit_of_script(),
      host = host(),
      processor = processors.all(),
      devices = core.json.array(column(run.plan.devices, "name")),
      started = now(),
      state = "running",
      flags = flags,
      origins = origins,
      partition = run.plan.partition.name,
      stages = core.json.array(spans_of(run.plan)),
      task = plain(run.task:record()),
   }
end

--- The same of one that has ended.
-- @tparam table record of M.of
-- @tparam number seconds since it began
-- @param[opt] problem what was raised; nil: it is done
function M.ended(record, seconds, problem)
   local raised = type(problem) == "table" and problem or {}
   local state = not problem and "done" or raised.status == "cancelled" and "stopped" or "failed"
   return copy(record, {
      state = state, exit = not problem and 0 or raised.exit or 1, ended = now(),
      wall_seconds = seconds, problem = problem and legible(tostring(problem):match("^[^\n]*")),
   })
end

--- What a device of a run is called: its name, or its number where the record does not say it.
-- @tparam table record of M.read
-- @tparam int d
function M.device_name(record, d)
   local name = record.devices[d]
   return name and shown(name) or ("device %d"):format(d - 1)
end

--- The same of its first n devices.
function M.device_names(record, n)
   local names = {}
   for d = 1, n do names[d] = M.device_name(record, d) end
   return names
end

--- How a run stands.
-- @tparam table record of M.read
-- @tparam boolean has_process whether one has its directory
-- @treturn string "running", "done", "stopped", "failed"; "killed": its process is gone, and had
--   not said that it ends; "ended" where the record does not say
function M.state(record, has_process)
   if has_process then return "running" end
   return record.state == "running" and "killed" or record.state or "ended"
end

--- The same with the exit code where that is not 0: "stopped 130".
function M.state_words(record, has_process)
   local state = M.state(record, has_process)
   local is_bad = record.exit and (state == "stopped" or state == "failed")
   return is_bad and ("%s %.0f"):format(state, record.exit) or state
end

--- The text of run.json.
function M.text(record) return core.json.encode(record, { indent = 2, sort = true }) .. "\n" end

local function is_object(value)
   return type(value) == "table" and getmetatable(value) ~= core.json.array_meta
end

--- Raises unless entry `name` of a record is a `kind`, or missing; "object" is a table of names.
local function check_entry(path, table, name, kind)
   local value = table[name]
   local fine = value == nil or (kind == "object" and is_object(value)) or type(value) == kind
   if fine then return end
   core.fail("malformed data", ("%s: '%s' is no %s"):format(path, name, kind))
end

--- What a list of texts has, or a table of them; other entries are left out.
local function texts_of(value)
   local texts = {}
   for key, text in pairs(type(value) == "table" and value or {}) do
      texts[key] = type(text) == "string" and text or nil
   end
   return texts
end

--- Raises unless a directory is one of a run.
function M.need(dir)
   if core.sys.exists(M.path(dir)) then return end
   core.fail("not found", ("'%s' is no run: there is no run.json in it"):format(dir))
end

--- Reads run.json.
-- @treturn table flags, origins, stages, command and devices (lists, empty where that is not
--   known); id, commit, partition, host, started, state, ended and problem (texts), exit and
--   wall_seconds (numbers; nil where they are not); task = what Task:record gives, where only
--   `settings` has to be there
-- @raise not found; malformed data: it is not what a run writes
function M.read(dir)
   M.need(dir)
   local path = M.path(dir)
   local record = core.json.decode(small_file(path, MOST_BYTES), path)
   if not is_object(record) or record.format ~= FORMAT then
      core.fail("malformed data", ("%s: not what a run writes, expected a JSON object of format %d")
         :format(path, FORMAT))
   end
   for _, name in ipairs { "flags", "task" } do check_entry(path, record, name, "object") end
   local task = record.task or {}
   for name, kind in pairs(TASK) do check_entry(path, task, name, kind) end
   task.settings = task.settings or {}
   local read = { flags = record.flags or {}, origins = texts_of(record.origins),
      stages = texts_of(record.stages), command = texts_of(record.command),
      devices = texts_of(record.devices), task = task }
   for key, kind in pairs(OPTIONAL) do
      read[key] = type(record[key]) == kind and record[key] or nil
   end
   return read
end

return M
