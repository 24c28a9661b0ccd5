--- The directory of a run, --out, but for its checkpoints (state.lua).
--
--    run.json                       what was asked for (record.lua)
--    plan.txt, plan-evaluate.txt    the plans
--    metrics.jsonl                  a row for each step and each evaluation
--    timeline.json                  what the devices did in the last leg, for Perfetto
--    summary.json                   what came of it
--    lock                           held by the process that writes here

local core = require("ftpipe.core")
local records = require("ftpipe.run.record")
local small_file = require("ftpipe.small_file")

local M = {}

local MOST_BYTES = 2 ^ 30 -- of metrics.jsonl, some millions of rows
local Directory = {}
Directory.__index = Directory

--- Takes the lock, unless it is there already.
local function lock(directory)
   if directory.lock then return end
   local path = directory.path
   local taken, holder = core.io.lock(path .. "/lock")
   directory.lock = taken
   if taken then return end
   core.fail("invalid argument", ("--out %s: %s is running there; wait for it, or give another "
      .. "directory"):format(path, holder > 0 and "process " .. holder or "another process"), 2)
end

--- The directory of that path, which need not be there before `begin`.
-- @raise invalid argument: another process has it
function M.new(path)
   local directory = setmetatable({ path = path, evaluated = {} }, Directory)
   if core.sys.exists(path) then lock(directory) end
   return directory
end

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

--- Writes what is known before the first step.
-- @tparam plan plan
-- @tparam string record for run.json
-- @tparam int done steps that the run goes on from
function Directory:begin(plan, record, done)
   core.sys.mkdir(self.path)
   lock(self)
   self:write("plan.txt", plan:text())
   local evaluation = plan:evaluation_text()
   if evaluation then self:write("plan-evaluate.txt", evaluation) end
   core.sys.write_file(records.path(self.path), record)
   local metrics = self.path .. "/metrics.jsonl"
   core.sys.write_file(metrics, table.concat(keep_rows(self, metrics, done)))
   self.metrics = assert(io.open(metrics, "a"))
end

--- Replaces a file, whole or not at all.
function Directory:write(name, text) core.sys.write_file(self.path .. "/" .. name, text) end

--- Appends a row to metrics.jsonl; of evaluations after one step, the first.
function Directory:note(row)
   if row.eval_loss then
      if self.evaluated[row.step] then return end
      self.evaluated[row.step] = true
   end
   self.metrics:write(core.json.encode(row), "\n")
   self.metrics:flush()
end

--- Ends it: another process may have the directory.
-- @tparam table summary for summary.json
function Directory:close(summary)
   self:write("summary.json", core.json.encode(summary, { indent = 2 }) .. "\n")
   self.metrics:close()
   self.lock:free()
end

return M
