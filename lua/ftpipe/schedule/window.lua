--- Some batches out of a trace, as a run leaves it in timeline.json, which may come from anywhere.

local shown = require("ftpipe.base.shown")

local M = {}

local function is_slice(event)
   return type(event) == "table" and event.ph == "X" and type(event.args) == "table"
      and type(event.cat) == "string" and type(event.name) == "string" and tonumber(event.ts)
      and tonumber(event.dur) and tonumber(event.pid) and tonumber(event.tid)
end

local function is_counter(event)
   return type(event) == "table" and event.ph == "C" and type(event.args) == "table"
      and tonumber(event.args.bytes) and tonumber(event.ts) and tonumber(event.pid)
end

local function is_name(event) return type(event) == "table" and event.ph == "M" end

--- The number of the last batch; nil without one.
function M.last_batch(events)
   local last
   for _, event in ipairs(events) do
      local batch = is_slice(event) and tonumber(event.args.batch)
      last = batch and math.max(last or batch, batch) or last
   end
   return last
end

--- The slices of batches first to last, in their order, and behind them the waits and counters
-- between them.
-- @treturn table list of events; empty where there is no such batch
-- @treturn number microseconds of its first and of its last moment
-- @treturn number
function M.of(events, first, last)
   local start, stop, list = math.huge, -math.huge, {}
   for _, event in ipairs(events) do
      local batch = is_slice(event) and tonumber(event.args.batch)
      if batch and batch >= first and batch <= last then
         start, stop = math.min(start, event.ts), math.max(stop, event.ts + event.dur)
         list[#list + 1] = event
      end
   end
   for _, event in ipairs(events) do
      local waits = is_slice(event) and event.cat == "wait" and event.ts >= start
         and event.ts + event.dur <= stop
      local counts = is_counter(event) and event.ts >= start and event.ts <= stop
      if waits or counts then list[#list + 1] = event end
   end
   return list, start, stop
end

--- What devices held between two moments, as timeline.svg takes it; nil where the trace says
-- nothing of that.
-- @tparam table events
-- @tparam int n_devices
-- @tparam number start
-- @tparam number stop
function M.memory(events, n_devices, start, stop)
   local list, any = {}, false
   for d = 1, n_devices do list[d] = { peak = 0, points = {} } end
   for _, event in ipairs(events) do
      local row = is_counter(event) and event.ts <= stop and list[event.pid + 1]
      if row then
         if event.ts <= start then row.points = {} end -- what is held when they begin
         any, row.is_all = true, event.name == "memory"
         table.insert(row.points, { math.max(0, event.ts - start) * 1e3, event.args.bytes })
      end
   end
   for _, row in ipairs(list) do
      for _, point in ipairs(row.points) do row.peak = math.max(row.peak, point[2]) end
   end
   return any and list or nil
end

--- The events that name devices and threads.
function M.names(events)
   local list = {}
   for _, event in ipairs(events) do list[#list + 1] = is_name(event) and event or nil end
   return list
end

local function numbered(pid) return ("device %d"):format(pid) end

--- The devices that a trace names: "cpu:0", or "device 0" where that is not a text.
function M.devices(events)
   local names = {}
   for _, event in ipairs(M.names(events)) do
      if event.name == "process_name" and tonumber(event.pid) then
         local name = type(event.args) == "table" and event.args.name
         names[event.pid + 1] = type(name) == "string" and shown(name) or numbered(event.pid)
      end
   end
   return names
end

--- What is said of the clocks of devices, where they are not that of the trace: "cpu:1: clock to
-- 0.120 ms".
function M.clocks(events)
   local list, devices = {}, M.devices(events)
   for _, event in ipairs(M.names(events)) do
      local words = event.name == "process_labels" and event.args and event.args.labels
      if type(words) == "string" and tonumber(event.pid) then
         local name = devices[event.pid + 1] or numbered(event.pid)
         list[#list + 1] = ("%s: %s"):format(name, words)
      end
   end
   return list
end

return M
