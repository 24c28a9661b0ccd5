--- ftpipe trace RUN: some batches of a run's timeline, for ui.perfetto.dev.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local small_file = require("ftpipe.base.small_file")
local usage = require("ftpipe.base.usage")

local M = { help = "some batches of what a run's devices did, as JSON for Perfetto" }

local MOST_BYTES = 2 ^ 30

local declared = {
   "Prints what the devices of a run did in some batches of its last leg (counted from 0), as the\n"
      .. "JSON that ui.perfetto.dev and chrome://tracing read.",
   "ftpipe trace out/rte --batches 3-5 > window.json",
   batches = { type = "string", default = "0-9", value = "A-B", help = "first and last" },
}

--- The events of batches first to last, with the waits between them, and the names of all.
function M.window(events, first, last)
   local start, stop = math.huge, -math.huge
   local function inside(event)
      local batch = type(event.args) == "table" and tonumber(event.args.batch)
      return event.ph == "X" and batch and batch >= first and batch <= last
   end
   for _, event in ipairs(events) do
      if inside(event) then
         start, stop = math.min(start, event.ts), math.max(stop, event.ts + event.dur)
      end
   end
   local list = {}
   for _, event in ipairs(events) do
      local is_wait = event.cat == "wait" and event.ts >= start and event.ts + event.dur <= stop
      if event.ph == "M" or is_wait or inside(event) then list[#list + 1] = event end
   end
   return list, start < stop
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
   local file = path .. "/timeline.json"
   local trace = core.json.decode(small_file(file, MOST_BYTES), file)
   if type(trace) ~= "table" or type(trace.traceEvents) ~= "table" then
      core.fail("malformed data", file .. ": has no traceEvents")
   end
   local list, any = M.window(trace.traceEvents, first, last)
   if not any then
      core.fail("not found", ("%s: its last leg has no batch %d to %d"):format(file, first, last))
   end
   local lines = {}
   for i, event in ipairs(list) do lines[i] = core.json.encode(event, { sort = true }) end
   io.stdout:write('{"displayTimeUnit":"ms","traceEvents":[\n', table.concat(lines, ",\n"),
      "\n]}\n")
end

return M
