--- What a run has left in its directory, read back. What is not as a run writes it is left out, so
-- that who shows it need not ask of what kind it is: a run directory may come from anywhere.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local small_file = require("ftpipe.base.small_file")

local M = {}

local MOST_BYTES = 2 ^ 30 -- of a file

local function is_number(value)
   return type(value) == "number" and value > -math.huge and value < math.huge
end

local function is_count(value) return is_number(value) and value >= 0 and value < 2 ^ 53 end

local function is_whole(value) return is_count(value) and value % 1 == 0 end

local function is_text(value) return type(value) == "string" end

local function is_table(value) return type(value) == "table" end

--- Whether a value is a list whose entries are all of a kind.
local function is_list(value, is)
   if not is_table(value) then return false end
   for key, inner in pairs(value) do
      if type(key) ~= "number" or not is(inner) then return false end
   end
   return true
end

local function is_numbers(value) return is_list(value, is_number) end

--- Whether a value is a table whose entries have texts as names and are all of a kind.
local function is_map(value, is)
   if not is_table(value) then return false end
   for key, inner in pairs(value) do
      if not is_text(key) or not is(inner) then return false end
   end
   return true
end

--- Shares of a device's time (schedule/waits.lua), and of all devices.
local function is_share(row)
   if not is_table(row) or not is_number(row.computed) then return false end
   for name, value in pairs(row) do
      local is = name == "edges" and function(edges)
         return is_map(edges, function(edge) return is_map(edge, is_number) end)
      end or is_number
      if not is(value) then return false end
   end
   return is_table(row.edges)
end

local function is_shares(value) return is_list(value, is_share) end

--- Copies of devices by class (schedule/copies.lua).
local function is_copies(value)
   return is_table(value) and is_count(value.batches) and is_list(value.devices, function(device)
      return is_map(device, function(row)
         return is_map(row, is_count) and row.bytes_in and row.bytes_out and row.ns
            and row.exposed_ns
      end)
   end) and (value.sent == nil or is_list(value.sent, function(device)
      return is_map(device, is_count)
   end))
end

--- Without the fields that are not of the kind that they should be; others stay.
local function fit(row, kinds)
   for name, is in pairs(kinds) do
      if row[name] ~= nil and not is(row[name]) then row[name] = nil end
   end
   return row
end

-- ---------------------------------------------------------------------------------------------
-- metrics.jsonl and summary.json.

-- Fields that are shown or reckoned with.
local ROW = {
   time = is_count, epoch = is_number, loss = is_number, loss_mean = is_number, lr = is_number,
   gnorm = is_number, gap = is_numbers, step_s = is_count, tokens = is_count,
   tokens_per_second = is_count, samples_per_second = is_count, idle_percent = is_numbers,
   memory_bytes = is_numbers, leg_steps = is_count, leg_s = is_count, shares_percent = is_shares,
   metric = is_text, unit = is_text, value = is_number, eval_loss = is_number,
}

local SUMMARY = {
   task = is_text, metric = is_text, unit = is_text, value = is_number, eval_examples = is_whole,
   example = is_text, steps = is_whole, seconds = is_count, samples_per_second = is_count,
   devices = is_text, schedule = is_text, partition = is_text,
   step_seconds_predicted = is_count, step_seconds_measured = is_count,
   memory_measured_bytes = is_numbers, memory_budget_bytes = is_numbers,
   shares_percent = is_shares, copies = is_copies,
}

--- A row of a line of metrics.jsonl; nil when it is none: the last may be cut, as of a run that was
-- killed.
function M.row(line)
   local ok, row = pcall(core.json.decode, line)
   return ok and is_table(row) and is_whole(row.step) and fit(row, ROW) or nil
end

--- The rows of metrics.jsonl of a run's directory; none when there is no such file.
-- @treturn {table,...} rows
-- @treturn[opt] string what there is beside them, for people; nil: nothing, or a last line that was
--   cut
function M.rows(dir)
   local rows, path, damaged = {}, dir .. "/metrics.jsonl", 0
   if not core.sys.exists(path) then return rows end
   for line, finish in small_file(path, MOST_BYTES):gmatch("([^\n]+)(\n?)") do
      local row = M.row(line)
      rows[#rows + 1] = row
      if not row and finish == "\n" then damaged = damaged + 1 end
   end
   return rows, damaged > 0 and ("%s: %s left out, damaged"):format(path,
      counted(damaged, "line")) or nil
end

local function read_json(path)
   local value = core.json.decode(small_file(path, MOST_BYTES), path)
   if is_table(value) and getmetatable(value) ~= core.json.array_meta then return value end
   return core.fail("malformed data", path .. ": not what a run writes, expected a JSON object")
end

--- summary.json of a run's directory; nil before its end.
-- @raise malformed data
function M.summary(dir)
   local path = dir .. "/summary.json"
   return core.sys.exists(path) and fit(read_json(path), SUMMARY) or nil
end

-- ---------------------------------------------------------------------------------------------
-- timeline.json.

local ARGS = { batch = is_whole, micro = is_whole, lag = is_whole, version = is_whole }

-- By the kind of an event, `ph`: a slice of a device's time, a counter, a name.
local EVENTS = {
   X = function(event)
      return is_text(event.cat) and is_count(event.ts) and is_count(event.dur)
         and is_whole(event.tid) and is_table(event.args)
   end,
   C = function(event)
      return is_count(event.ts) and is_table(event.args) and is_count(event.args.bytes)
   end,
   M = function(event) return event.args == nil or is_table(event.args) end,
}

local function is_event(event)
   local is = is_table(event) and EVENTS[event.ph]
   return is and is_text(event.name) and is_whole(event.pid)
      and event.pid < core.engine.most_devices
      and is(event)
end

--- The events of timeline.json of a run's directory: slices ("X": name, cat, pid (the device), tid,
-- ts, dur, args), counters ("C": name, pid, ts, args.bytes) and names ("M"); nil when there is no
-- such file.
-- @raise malformed data
function M.events(dir)
   local path, events = dir .. "/timeline.json", {}
   if not core.sys.exists(path) then return nil end
   local rows = read_json(path).traceEvents
   if not is_table(rows) then core.fail("malformed data", path .. ": has no traceEvents") end
   for _, event in ipairs(rows) do
      if is_event(event) then
         fit(event.args or {}, ARGS)
         events[#events + 1] = event
      end
   end
   return events
end

return M
