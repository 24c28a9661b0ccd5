--- ftpipe trace RUN: some batches of a run's timeline, for ui.perfetto.dev.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local directories = require("ftpipe.store.directory")
local left = require("ftpipe.store.left")
local passages = require("ftpipe.schedule.passages")
local records = require("ftpipe.store.record")
local rows = require("ftpipe.schedule.rows")
local texts = require("ftpipe.schedule.text")
local usage = require("ftpipe.base.usage")
local window = require("ftpipe.schedule.window")

local M = { help = "some batches of what a run's devices did, for Perfetto or in characters" }

local LEAST_US = 0.001 -- what a trace can say

M.declared = {
   "Prints what the devices of a run did in some batches of its last leg (counted from 0), as the\n"
      .. "JSON that ui.perfetto.dev and chrome://tracing read: slices, waits, arrows from what\n"
      .. "made values to what took them. With --text a row of characters for each device, and how\n"
      .. "much of the way of values between devices lies under their taker's work.",
   "ftpipe trace out/rte --batches 3-5 --out window.json.gz",
   "ftpipe trace out/rte --batches 3 --text",
   batches = { type = "string", default = "0-9", value = "A-B", help = "first and last" },
   text = { type = "boolean", default = false, help = "rows of characters" },
   out = { type = "string", value = "FILE",
      help = "where to write it, compressed if that ends in .gz [stdout, --text on a terminal]" },
}

--- When a value leaves: within the slice that made it, and no later than it is taken, which clocks
-- that are read on two threads may say.
local function leaves(maker, taker)
   return math.max(maker.ts, math.min(maker.ts + maker.dur - LEAST_US, taker.ts))
end

--- Arrows along the edges of a plan: a pair of events for each value that was made and taken in the
-- window.
-- @tparam table list slices
-- @tparam table edges as in schedule_plan:head
local function arrows(list, edges)
   local found = {}
   for id, passage in ipairs(passages.of(list, edges)) do
      local edge, maker, taker = passage.edge, passage.maker, passage.taker
      local name = ("%s%d>%s%d"):format(edge.kind, edge.from - 1, edge.to_kind, edge.to - 1)
      found[#found + 1] = { ph = "s", id = id, cat = "flow", name = name, pid = maker.pid,
         tid = maker.tid, ts = leaves(maker, taker) }
      found[#found + 1] = { ph = "f", bp = "e", id = id, cat = "flow", name = name,
         pid = taker.pid, tid = taker.tid, ts = taker.ts }
   end
   return found
end

--- The slices of some batches of a run's trace, and all its events.
local function read(path, first, last)
   local events = left.events(path)
   if not events then core.fail("not found", path .. "/timeline.json: there is none") end
   local list = window.of(events, first, last)
   if #list == 0 then
      core.fail("not found", ("%s/timeline.json: its last leg has no batch %.0f to %.0f, expected "
         .. "some of 0 to %.0f"):format(path, first, last, window.last_batch(events) or 0))
   end
   return list, events
end

--- Lists of events as one trace, and how many there are.
local function json_of(...)
   local lines = {}
   for _, list in ipairs { ... } do
      for _, event in ipairs(list) do
         lines[#lines + 1] = core.json.encode(event, { sort = true })
      end
   end
   return ('{"displayTimeUnit":"ms","traceEvents":[\n%s\n]}\n'):format(table.concat(lines, ",\n")),
      #lines
end

--- Batches first to last of a run's timeline: as JSON, or as rows of characters.
-- @treturn string
-- @treturn int how many events there are in it
-- @local
function M.text(path, first, last, in_characters)
   local slices, events = read(path, first, last)
   local plan = texts.head(path)
   if in_characters then
      local names = window.devices(events)
      local function computes(slice) return rows.computes(slice, #names) end
      local lines = { rows.text(slices, names) }
      lines[2] = plan and passages.words(slices, plan.edges, computes)
      return table.concat(lines, "\n") .. "\n", #slices
   end
   return json_of(window.names(events), slices, plan and arrows(slices, plan.edges) or {})
end

--- @tparam {string,...} argv the words after "trace"
function M.run(argv)
   local path = argvs.word(argv)
   local flags = args.read(M.declared, argv, "trace RUN")
   if not path then usage("trace needs the directory of a run, as ftpipe trace out/rte --text") end
   records.need(path)
   local first, last = flags.batches:match("^(%d+)%-(%d+)$")
   first = tonumber(first or flags.batches:match("^%d+$"))
   last = tonumber(last) or first
   if not first or last < first then
      usage("--batches %s: expected one, as 3, or the first and the last, as 3-5", flags.batches)
   end
   local in_characters = flags.text or not flags.out and core.sys.isatty(1)
   local text, n = M.text(path, first, last, in_characters)
   if not flags.out then return io.stdout:write(text) end
   directories.check_file(path, flags.out)
   if flags.out:find("%.gz$") then text = core.sys.gzip(text) end
   core.sys.write_file(flags.out, text)
   print(("%s: %s, %d kB"):format(flags.out, counted(n, "event"), math.ceil(#text / 1000)))
end

return M
