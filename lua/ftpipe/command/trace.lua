--- ftpipe trace RUN: some batches of a run's timeline, for ui.perfetto.dev.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local rows = require("ftpipe.schedule.rows")
local small_file = require("ftpipe.base.small_file")
local usage = require("ftpipe.base.usage")

local M = { help = "some batches of what a run's devices did, for Perfetto or in characters" }

local MOST_BYTES = 2 ^ 30
local LEAST_US = 0.001 -- what a trace can say

local declared = {
   "Prints what the devices of a run did in some batches of its last leg (counted from 0), as the\n"
      .. "JSON that ui.perfetto.dev and chrome://tracing read: slices, waits, arrows from what\n"
      .. "made values to what took them. With --text a row of characters for each device.",
   "ftpipe trace out/rte --batches 3-5 --out window.json.gz",
   "ftpipe trace out/rte --batches 3 --text",
   batches = { type = "string", default = "0-9", value = "A-B", help = "first and last" },
   text = { type = "boolean", default = false, help = "rows of characters" },
   out = { type = "string", value = "FILE",
      help = "where to write it, compressed if that ends in .gz [stdout]" },
}

local function is_slice(event)
   return event.ph == "X" and type(event.args) == "table" and type(event.cat) == "string"
      and type(event.name) == "string" and tonumber(event.ts) and tonumber(event.dur)
      and tonumber(event.pid) and tonumber(event.tid)
end

--- The events of batches first to last, with the waits between them, and the names of all.
function M.window(events, first, last)
   local start, stop = math.huge, -math.huge
   local function inside(event)
      local batch = is_slice(event) and tonumber(event.args.batch)
      return batch and batch >= first and batch <= last
   end
   for _, event in ipairs(events) do
      if inside(event) then
         start, stop = math.min(start, event.ts), math.max(stop, event.ts + event.dur)
      end
   end
   local list = {}
   for _, event in ipairs(events) do
      local is_wait = event.cat == "wait" and is_slice(event) and event.ts >= start
         and event.ts + event.dur <= stop
      if event.ph == "M" or is_wait or inside(event) then list[#list + 1] = event end
   end
   return list, start < stop
end

--- "F0 29 3" of forwards of stage 0, batch 29, micro-batch 3.
local function key_of(letter, stage, of)
   return ("%s%s %s %s"):format(letter, stage, tostring(of.batch), tostring(of.micro))
end

--- When a value leaves: within the slice that made it, and no later than it is taken, which clocks
-- that are read on two threads may say.
local function leaves(maker, taker)
   return math.max(maker.ts, math.min(maker.ts + maker.dur - LEAST_US, taker.ts))
end

--- Arrows along the edges of a plan: a pair of events for each value that was made and taken in the
-- window.
-- @tparam table list events of `window`
-- @tparam string plan the text of plan.txt
local function arrows(list, plan)
   local slices, found = {}, {}
   for _, event in ipairs(list) do
      local letter, stage = (event.name or ""):match("^(%u) stage (%d+) ")
      if letter and is_slice(event) then slices[key_of(letter, stage, event.args)] = event end
   end
   for from, a, to, b in ("\n" .. plan):gmatch("\nedge (%u)(%d+)>(%u)(%d+)") do
      for _, maker in ipairs(list) do
         local made = is_slice(maker) and maker.name:find(("^%s stage %s "):format(from, a))
         local taker = made and slices[key_of(to, b, maker.args)]
         if taker then
            local id = #found / 2 + 1
            local name = ("%s%s>%s%s"):format(from, a, to, b)
            found[#found + 1] = { ph = "s", id = id, cat = "flow", name = name, pid = maker.pid,
               tid = maker.tid, ts = leaves(maker, taker) }
            found[#found + 1] = { ph = "f", bp = "e", id = id, cat = "flow", name = name,
               pid = taker.pid, tid = taker.tid, ts = taker.ts }
         end
      end
   end
   return found
end

--- The window of a run's trace, checked.
local function read(path, first, last)
   local file = path .. "/timeline.json"
   local trace = core.json.decode(small_file(file, MOST_BYTES), file)
   if type(trace) ~= "table" or type(trace.traceEvents) ~= "table" then
      core.fail("malformed data", file .. ": has no traceEvents")
   end
   local list, any = M.window(trace.traceEvents, first, last)
   if not any then
      core.fail("not found", ("%s: its last leg has no batch %d to %d"):format(file, first, last))
   end
   return list
end

--- "device 0" and the others, as the trace has them.
local function names_of(list)
   local names = {}
   for _, event in ipairs(list) do
      if event.name == "process_name" and tonumber(event.pid) then
         names[event.pid + 1] = ("device %d"):format(event.pid)
      end
   end
   return names
end

local function json_of(list)
   local lines = {}
   for i, event in ipairs(list) do lines[i] = core.json.encode(event, { sort = true }) end
   return ('{"displayTimeUnit":"ms","traceEvents":[\n%s\n]}\n'):format(table.concat(lines, ",\n"))
end

--- @tparam {string,...} argv the words after "trace"
function M.run(argv)
   local path = argvs.word(argv)
   local flags = args.read(declared, argv, "trace RUN")
   if not path then usage("trace needs the directory of a run") end
   local first, last = flags.batches:match("^(%d+)%-(%d+)$")
   first = tonumber(first or flags.batches:match("^%d+$"))
   last = tonumber(last) or first
   if not first or last < first then
      usage("--batches %s: expected one, as 3, or the first and the last, as 3-5", flags.batches)
   end
   local list = read(path, first, last)
   local text
   if flags.text then
      text = rows.text(list, names_of(list)) .. "\n"
   else
      local plan = path .. "/plan.txt"
      for _, event in ipairs(core.sys.exists(plan)
         and arrows(list, small_file(plan, MOST_BYTES)) or {})
      do
         list[#list + 1] = event
      end
      text = json_of(list)
   end
   if not flags.out then return io.stdout:write(text) end
   if flags.out:find("%.gz$") then text = core.sys.gzip(text) end
   core.sys.write_file(flags.out, text)
   print(("%s: %d events, %d kB"):format(flags.out, #list, math.ceil(#text / 1000)))
end

return M
