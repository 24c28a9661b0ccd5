--- Runs the trials of a sweep as processes of their own, and notes how they end.
--
--    DIR/sweep.db          the index (index.lua)
--    DIR/sweep.jsonl       every change of it
--    DIR/sweep.lua         what was asked for, as it was
--    DIR/trials/0007/      the run directory of a recipe's trial
--    DIR/trials/0007.log   what it printed; of a command what it said, beside 0007.json

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local ends = require("ftpipe.sweep.ends")
local indexes = require("ftpipe.sweep.index")
local keys = require("ftpipe.base.keys")
local methods = require("ftpipe.sweep.methods")
local number_text = require("ftpipe.base.number_text")
local results = require("ftpipe.sweep.result")
local spaces = require("ftpipe.sweep.space")
local trial = require("ftpipe.sweep.trial")
local usage = require("ftpipe.base.usage")

local M = {}
local Controller = {}
Controller.__index = Controller

local SIGINT, SIGTERM = 2, 15
local POLL_SECONDS = 0.05
local ORPHAN_SECONDS = 120 -- for trials of a sweep that died, to save and end

-- ---------------------------------------------------------------------------------------------
-- Command lines.

--- Flags as words, in the order of their names: --micro-batches 4.
function M.flag_words(words, flags)
   for _, name in ipairs(keys(flags)) do
      local flag, value = "--" .. name:gsub("_", "-"), flags[name]
      if value == true then
         words[#words + 1] = flag
      elseif value ~= false then
         words[#words + 1] = flag .. "=" .. (type(value) == "number" and number_text(value)
            or tostring(value))
      end
   end
   return words
end

--- Words and named flags of `run`.
local function split_run(run)
   local words, flags = { core.sys.executable() }, {}
   for key, value in pairs(run) do
      if type(key) == "string" then flags[key] = value end
   end
   for _, word in ipairs(run) do words[#words + 1] = word end
   return words, flags
end

--- What a trial runs.
-- @tparam sweep sweep
-- @tparam table values flags that change
-- @tparam[opt] table more flags of the trial alone
function M.command(sweep, values, more)
   local words, flags = split_run(sweep.run)
   for _, part in ipairs { values, more or {} } do
      for name, value in pairs(part) do flags[name] = value end
   end
   return M.flag_words(words, flags)
end

--- What tells a trial which number counts.
function M.metric_variable(sweep) return trial.METRIC .. "=" .. (sweep.metric or "") end

-- ---------------------------------------------------------------------------------------------
-- Results.

local function read_json(path)
   if not core.sys.exists(path) then return nil end
   local ok, data = pcall(core.json.decode, core.sys.read_file(path))
   return ok and type(data) == "table" and data or nil
end

--- What a trial has left: its value, its steps, and whether more is better (nil: unknown).
function Controller:result(number)
   local sweep, data = self.sweep, self:left(number)
   if not data then return nil end
   if sweep.metric then
      local value = results.number(data, sweep.metric)
      return value and { value = value, step = data.steps }
   end
   local value = tonumber(data.best_value or data.value)
   return value and { value = value, step = data.steps, better = data.better }
end

--- What a trial wrote as JSON; nil when there is none.
function Controller:left(number)
   local path = self:path(number)
   return read_json(self.sweep.is_recipe and path .. "/summary.json" or path .. ".json")
end

-- ---------------------------------------------------------------------------------------------

--- Where a trial of a sweep's directory leaves what it makes.
function M.trial_path(dir, number) return ("%s/trials/%04d"):format(dir, number) end

--- Whether a directory is a sweep's: its index or its journal is there.
local function is_sweep(path)
   return core.sys.exists(path .. "/sweep.db") or core.sys.exists(path .. "/sweep.jsonl")
end

--- Whether a sweep makes it in its directory before it has an index.
local function comes_first(path, name)
   local inner = path .. "/" .. name
   return name == "lock" or name == "trials" and core.sys.exists(inner) == "directory"
      and #core.sys.list_dir(inner) == 0
end

--- Refuses a directory of something else.
local function check_place(path)
   local kind = core.sys.exists(path)
   if kind == "file" then usage("--out %s is a file: choose an empty or new directory", path) end
   if not kind or is_sweep(path) then return end
   for _, name in ipairs(core.sys.list_dir(path)) do
      if not comes_first(path, name) then
         usage("--out %s holds what is no sweep's (%s): choose an empty or new directory", path,
            name)
      end
   end
end

--- @tparam sweep sweep
-- @tparam string path of the sweep's directory
-- @raise invalid argument
function M.new(sweep, path)
   check_place(path)
   core.sys.mkdir(path .. "/trials")
   local lock, holder = core.io.lock(path .. "/lock")
   if not lock then
      usage("--out %s: process %s is running a sweep there", path, tostring(holder))
   end
   return setmetatable({
      sweep = sweep, dir = path, lock = lock, index = indexes.open(path), children = {},
      began = core.sys.unix_time(),
   }, Controller)
end

function Controller:path(number) return M.trial_path(self.dir, number) end

--- "max" or "min": what the definition says, or a recipe that has ended.
function Controller:goal() return self.sweep.goal or self.index:get("goal") end

--- Points that were tried, with losses: what a method goes by.
function Controller:found()
   local list, sign = {}, self:goal() == "max" and -1 or 1
   for _, row in ipairs(self.index:trials()) do
      if row.state ~= "running" and row.state ~= "waiting" then
         list[#list + 1] = { point = row.point, loss = row.value and sign * row.value }
      end
   end
   return list
end

--- Starts a trial, or the rest of one that was stopped.
local function start(controller, number, point, slot)
   local sweep, path = controller.sweep, controller:path(number)
   local values = spaces.values(sweep.parameters, point)
   local resumed = core.sys.exists(path) ~= nil
   local own = sweep.is_recipe and { out = path, resume = resumed or nil } or {}
   controller.index:begin(number, point, values)
   if not sweep.is_recipe then os.remove(path .. ".json") end
   local pid = core.process.start(M.command(sweep, values, own),
      path .. (sweep.is_recipe and ".log" or ".json"), path .. ".log",
      { ("%s=%d:%s"):format(trial.TRIAL, number, controller.dir), M.metric_variable(sweep) },
      controller:cpus(slot))
   controller.children[slot] = { pid = pid, number = number }
end

--- The CPUs of a slot, when there are several.
function Controller:cpus(slot)
   local jobs = self.sweep.jobs
   if jobs == 1 then return nil end
   local all, list = core.process.cpus(), {}
   for i = math.floor((slot - 1) * #all / jobs) + 1, math.floor(slot * #all / jobs) do
      list[#list + 1] = all[i]
   end
   return list
end

--- Whether a report of the trial said that it is to end.
local function was_pruned(controller, number)
   for _, report in ipairs(controller.index:reports()) do
      if report.trial == number and report.ends == 1 then return true end
   end
   return false
end

--- Why a trial that has ended well has no value. That there is nothing of the metric's name is
-- taken to be so in every trial, unless one has had it.
local function note_of_none(controller, number)
   local left, metric = controller:left(number), controller.sweep.metric
   if not left then
      return controller.sweep.is_recipe and "it left no summary.json"
         or "what it printed is no JSON"
   end
   if not metric then return "it left no value" end
   if select(2, results.number(left, metric)) then return metric .. " is no number" end
   for _, row in ipairs(controller.index:trials()) do
      if row.value then return "it left no " .. metric end
   end
   local names = results.names(left)
   controller.index:set("fault", results.unknown(metric, ("trial %d left"):format(number), names))
   return results.unknown(metric, "it left", names)
end

--- Notes how a trial ended. `code` nil: unknown, its sweep had died.
function Controller:note_end(number, code)
   local result = (code == 0 or code == nil) and self:result(number) or nil
   if result and result.better and not self.sweep.goal then
      self.index:set("goal", result.better == "higher" and "max" or "min")
   end
   local ended = { code = code }
   if result then
      ended.state = was_pruned(self, number) and "pruned" or "done"
      ended.value, ended.step = result.value, result.step
   elseif self.stopping or code == nil then
      ended.state = "waiting"
   else
      ended.state = "failed"
      ended.note = code ~= 0 and ends.note(code, self:path(number) .. ".log")
         or note_of_none(self, number)
   end
   self.index:finish(number, ended)
   self.looked = false
   if self.seen then self.seen(number, ended) end
end

--- Waits until the trials that a dead sweep left behind have ended, and notes what came of them.
function Controller:adopt()
   for _, row in ipairs(self.index:trials()) do
      if row.state == "running" then
         local path = self:path(row.number)
         local deadline = core.sys.time_ns() + ORPHAN_SECONDS * 1e9
         while self.sweep.is_recipe and core.io.lock_holder(path .. "/lock") do
            if core.sys.time_ns() > deadline or core.sys.interrupted() then
               core.fail("invalid argument", ("%s: another process still runs this trial"):format(
                  path), 2)
            end
            core.process.sleep(POLL_SECONDS)
         end
         self:note_end(row.number, nil)
      end
   end
end

--- The number of a new trial: the first that there is none of. Of a grid, whose neighbours differ
-- in little, the last one, where nothing but the same failure came of it so far: it tells whether
-- that comes of what they try.
local function new_number(sweep, rows)
   local there, number = {}, 1
   for _, row in ipairs(rows) do there[row.number] = true end
   if sweep.method == "grid" and ends.alike(rows)[1] and not there[sweep.trials] then
      return sweep.trials
   end
   while there[number] do number = number + 1 end
   return number
end

--- The next trial: one that waits, else a new one; nil when there is none.
local function next_trial(controller)
   local sweep, rows = controller.sweep, controller.index:trials()
   local running = {}
   for _, child in pairs(controller.children) do running[child.number] = true end
   for _, row in ipairs(rows) do
      if row.state == "waiting" and not running[row.number] then return row.number, row.point end
   end
   local over = sweep.time and core.sys.unix_time() - controller.began > sweep.time
   if over or #rows >= (sweep.trials or math.huge) then return nil end
   local number = new_number(sweep, rows)
   local point = methods.new_point(sweep.method, sweep.parameters, number, controller:found(),
      sweep, rows)
   return point and number, point
end

--- Ends the trials under way: they save, and wait for --resume.
function Controller:stop()
   self.stopping = true
   for _, child in pairs(self.children) do core.process.signal(child.pid, SIGTERM) end
   while next(self.children) do
      self:poll()
      core.process.sleep(POLL_SECONDS)
   end
end

--- Notes the trials that have ended.
function Controller:poll()
   for slot, child in pairs(self.children) do
      local code = core.process.poll(child.pid)
      if code then
         self.children[slot] = nil
         self:note_end(child.number, code)
      end
   end
end

--- Refuses to go on where no trial would have a value.
local function check_hope(controller)
   if controller.looked then return end
   controller.looked = true
   local fault = controller.index:get("fault")
   if fault and fault ~= "" then
      core.fail("invalid argument", fault .. "; correct `metric` and go on with --resume", 2)
   end
   local alike = ends.hopeless(controller.index:trials(), controller.sweep.parameters)
   if not alike then return end
   core.fail("invalid argument", ("%d trials ended alike, whatever they tried, and none "
      .. "otherwise: %s (%s.log has all of it); mend that and go on with --resume, or change `run` "
      .. "or `space` and give another directory"):format(#alike, alike[1].note,
      controller:path(alike[1].number)), 1)
end

--- Looks again at trials that have ended, where a sweep goes on: those that may end otherwise now
-- wait, and what others have left is read anew where another metric counts.
function Controller:revise()
   local metric, was = self.sweep.metric or "", self.index:get("metric")
   self.index:set("metric", metric)
   self.index:set("fault", "")
   for _, row in ipairs(self.index:trials()) do
      local has_ended = row.state == "done" or row.state == "pruned"
      local lacks = row.state == "failed" and row.code == 0 and self:left(row.number)
      if lacks or has_ended and was and was ~= metric then
         self:note_end(row.number, row.code)
      elseif row.state == "failed" and not ends.stays(row) then
         self.index:finish(row.number, { state = "waiting" })
      end
   end
end

--- Starts what there is room for; whether anything runs.
local function fill(controller)
   if controller.index:get("control") ~= "pause" then
      for slot = 1, controller.sweep.jobs do
         if not controller.children[slot] then
            local number, point = next_trial(controller)
            if not number then break end
            start(controller, number, point, slot)
         end
      end
   end
   return next(controller.children) ~= nil
end

--- All trials, to the end of the budget.
-- @tparam[opt] function seen called with the number of each trial that ended, and how
-- @raise cancelled: Ctrl-C, SIGTERM, or `ftpipe sweep stop`; invalid argument: no trial would have
--   a value
function Controller:run(seen)
   self.seen = seen
   core.sys.hold_interrupt(true)
   core.sys.pass_over_asks() -- sent to all processes of a job, they are for the trials
   local ok, problem = pcall(function()
      while true do
         local control = self.index:get("control")
         local signal = core.sys.interrupted()
         if signal or control == "stop" then
            self:stop()
            core.fail("cancelled", ("stopped; ftpipe sweep FILE.lua --out %s --resume goes on")
               :format(argvs.quoted(self.dir)), signal == SIGINT and 130 or 75)
         end
         check_hope(self)
         if not fill(self) and control ~= "pause" then break end
         core.process.sleep(POLL_SECONDS)
         self:poll()
      end
   end)
   if not ok then pcall(self.stop, self) end
   core.sys.hear_asks(false)
   if not ok then error(problem, 0) end
end

return M
