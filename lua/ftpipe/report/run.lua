--- The report of a run: what its directory says, as one page.

local argvs = require("ftpipe.base.argv")
local chart = require("ftpipe.page.chart")
local column = require("ftpipe.base.column")
local copies = require("ftpipe.schedule.copies")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local colour = require("ftpipe.page.colour")
local counted = require("ftpipe.base.counted")
local directories = require("ftpipe.store.directory")
local html = require("ftpipe.page.html")
local keys = require("ftpipe.base.keys")
local left = require("ftpipe.store.left")
local number_text = require("ftpipe.base.number_text")
local records = require("ftpipe.store.record")
local texts = require("ftpipe.schedule.text")
local timeline = require("ftpipe.schedule.timeline")
local units = require("ftpipe.base.units")
local waits = require("ftpipe.schedule.waits")
local window = require("ftpipe.schedule.window")
local xml = require("ftpipe.text.xml")

local M = {}

local BATCHES = 2 -- of the timeline
local MOST_EVENTS = 3000 -- of it

-- ---------------------------------------------------------------------------------------------
-- Curves.

--- A curve of a field of the rows that have it; of lists, of entry i.
local function curve(name, rows, field, i, dots)
   local points = {}
   for _, row in ipairs(rows) do
      local value = row[field]
      if i then value = value and value[i] end
      if value then points[#points + 1] = { row.step, value } end
   end
   return { name = name, points = points, dots = dots }
end

--- A curve for each device, or stage; `name` gives what it is called.
local function by(name, rows, field)
   local n, series = 0, {}
   for _, row in ipairs(rows) do
      n = math.max(n, #(row[field] or {}))
   end
   for i = 1, n do series[i] = curve(name(i), rows, field, i) end
   return series
end

local function charts(rows, record)
   local metric = "score"
   for _, row in ipairs(rows) do metric = row.metric or metric end
   local list = {}
   local function add(title, series) list[#list + 1] = chart.lines(title, series) end
   add("Loss", { curve("of a batch", rows, "loss"), curve("running mean", rows, "loss_mean"),
      curve("held-out", rows, "eval_loss", nil, true) })
   add(metric:gsub("^%l", string.upper), { curve("held-out", rows, "value", nil, true) })
   add("Learning rate", { curve("rate", rows, "lr") })
   add("Norm of the gradient", { curve("before clipping", rows, "gnorm") })
   local gaps = by(function(s) return "stage " .. s - 1 end, rows, "gap")
   if #gaps > 0 then add("How far weights went between forward and backward", gaps) end
   add("Samples a second", { curve("so far", rows, "samples_per_second") })
   add("Tokens a second", { curve("without padding", rows, "tokens_per_second") })
   add("Waiting, percent of a leg", by(function(d)
      return records.device_name(record, d)
   end, rows, "idle_percent"))
   return '<h2>Steps</h2><div class="charts">' .. table.concat(list, "\n") .. "</div>"
end

-- ---------------------------------------------------------------------------------------------
-- Pictures.

--- Some batches out of the middle of a run's timeline, as timeline.svg takes them.
local function middle(events)
   local last = window.last_batch(events)
   if not last then return nil end
   local first = math.max(0, math.floor(last / 2) - math.floor(BATCHES / 2))
   local list, start, stop = window.of(events, first, first + BATCHES - 1)
   if #list == 0 then return nil end
   local shown = {}
   for i = 1, math.min(#list, MOST_EVENTS) do
      shown[i] = copy(list[i], { ts = list[i].ts - start })
   end
   local names, clocks = window.devices(events), window.clocks(events)
   return { trace = core.json.encode { traceEvents = core.json.array(shown) },
      end_ns = (stop - start) * 1e3, memory = window.memory(events, #names, start, stop) }, names,
      first, #clocks > 0 and " " .. xml.escape(table.concat(clocks, "; ")) .. "." or ""
end

local function timeline_part(dir, summary)
   local played, names, first, clocks = middle(left.events(dir) or {})
   if not played then return nil end
   return ("<h2>Batches %d to %d of the last leg</h2><p>What each device did, with the numbers of "
      .. "micro-batches: forwards blue, backwards orange, once a batch grey. A bar at the foot of "
      .. "a row is a wait. Below, the bytes of activations that it held; where state moves, its "
      .. "copies from host memory and to it, and all that it held, below its budget.%s</p>"
      .. "<div class=\"wide\">%s</div>"):format(first, first + BATCHES - 1, clocks,
      timeline.svg(played, names, summary.memory_budget_bytes))
end

--- Devices of a stage: "cpu:0", or "cpu:0, cpu:1" of replicas.
local function places_text(devices, record)
   local names = {}
   for i, device in ipairs(type(devices) == "table" and devices or { devices }) do
      names[i] = records.device_name(record, device)
   end
   return table.concat(names, ", ")
end

--- Operators in the order of the graph: those of one stage that stand one behind the other.
local function spells_of(node_stage)
   local spells, counts = {}, {}
   for _, stage in ipairs(node_stage) do
      local last = spells[#spells]
      if not last or last.stage ~= stage then
         last = { stage = stage, count = 0 }
         spells[#spells + 1] = last
      end
      last.count, counts[stage] = last.count + 1, (counts[stage] or 0) + 1
   end
   return spells, counts
end

--- Operators in the order of the graph, as boxes in the colours of their devices; of replicas the
-- first one's.
local function partition_part(plan, record)
   local total = #plan.node_stage
   if total == 0 then return nil end
   local spells, counts = spells_of(plan.node_stage)
   local cells, spans = { { "stage", "device", "operators", "from .. to" } }, record.stages
   for s, devices in ipairs(plan.device) do
      cells[s + 1] = { tostring(s - 1), places_text(devices, record), tostring(counts[s] or 0),
         spans[s] or "-" }
   end
   local parts, n_devices = {}, 0
   for i, spell in ipairs(spells) do
      local devices = plan.device[spell.stage]
      local device = type(devices) == "table" and devices[1] or devices
      n_devices = math.max(n_devices, device)
      parts[i] = { ("stage %d on %s: %s"):format(spell.stage - 1,
         records.device_name(record, device), counted(spell.count, "operator")), spell.count,
         colour(device) }
   end
   local names = records.device_names(record, n_devices)
   return ("<h2>Partition</h2>%s%s%s"):format(html.table(cells), html.legend(names),
      html.bar(counted(total, "operator") .. ", in the order of the graph", total, parts))
end

local function memory_part(plan, record, summary)
   if not plan.memory then return nil end
   local rows = { { "device", "planned", "measured", "of the plan" } }
   local classes, totals, bars = column(core.schedule.memory_classes(), "name"), {}, {}
   for d, bytes in ipairs(plan.memory) do
      totals[d] = 0
      for _, class in ipairs(classes) do totals[d] = totals[d] + bytes[class] end
   end
   local most = math.max(unpack(totals))
   for d, bytes in ipairs(plan.memory) do
      local measured = (summary.memory_measured_bytes or {})[d]
      -- where state moves, classes share places, and all of them are less than their sum
      local planned = (summary.memory_planned_bytes or totals)[d]
      rows[#rows + 1] = { records.device_name(record, d), units.format_bytes(planned),
         measured and units.format_bytes(measured) or "-",
         measured and ("%.1f %%"):format(100 * measured / planned) or "-" }
      local parts = {}
      for c, class in ipairs(classes) do
         parts[c] = { ("%s %s"):format(class, units.format_bytes(bytes[class])), bytes[class],
            colour(c) }
      end
      bars[d] = html.bar(records.device_name(record, d), most, parts)
   end
   return "<h2>Memory</h2>" .. html.table(rows) .. html.legend(classes) .. table.concat(bars, "\n")
end

-- ---------------------------------------------------------------------------------------------
-- Words.

--- What devices did with their time, and their copies.
local function time_part(record, summary)
   if not summary.shares_percent then return nil end
   local names = records.device_names(record, #summary.shares_percent)
   local text = "<h2>Time</h2><p>What devices did of it since the run was last started: "
      .. "computed, or waited, and for what.</p>"
      .. html.table(waits.cells(summary.shares_percent, names))
   if not summary.copies then return text end
   return text .. "<p>Copies from host memory and to it. Hidden is the share of their time in "
      .. "which the device computed, or waited for something else.</p>"
      .. html.table(copies.cells(summary.copies, names))
end

--- A value of a record in a cell.
local function shown(value)
   if type(value) == "table" then return core.json.encode(value, { sort = true }) end
   return type(value) == "number" and number_text(value) or tostring(value)
end

--- Flags, each with where its value is from, in the order of their names.
local function configuration(record)
   local rows = { { "flag", "value", "from" } }
   for _, name in ipairs(keys(record.flags)) do
      rows[#rows + 1] = { "--" .. name:gsub("_", "-"), shown(record.flags[name]),
         record.origins[name] or "" }
   end
   return "<h2>Configuration</h2>" .. html.table(rows)
end

--- How a run that has no result stands. What this process runs is as its record says.
local function state_line(dir, record, is_own)
   local state = is_own and record.state
      or records.state(record, directories.writer(dir) ~= nil)
   if state == "killed" then
      return "<p>Its process is gone, and had not said that it ends.</p>"
   end
   if not record.problem or state == "running" then return "<p>It has not ended.</p>" end
   return ("<p>It %s with exit code %.0f: %s</p>"):format(
      state == "stopped" and "was stopped" or "failed", record.exit or 1,
      xml.escape(record.problem))
end

local function result_line(summary)
   local function said(name) return xml.escape(summary[name] or "?") end
   return ("<p><b>%s %.4g %s</b> on %s after step %d of %d; training took %s%s; "
      .. "devices %s, schedule %s, partition %s.</p>"):format(said("metric"), summary.value,
      xml.escape(summary.unit or ""),
      counted(summary.eval_examples or 0, xml.escape(summary.example or "example")),
      summary.best_step or summary.steps or 0, summary.steps or 0,
      units.format_seconds(summary.seconds or 0),
      summary.samples_per_second
         and (" (%s samples/s)"):format(units.format_rate(summary.samples_per_second)) or "",
      said("devices"), said("schedule"), said("partition"))
end

--- What started it last, when and where; nil where run.json does not say.
local function started_line(record)
   if not record.command[1] then return nil end
   return ("<p>Last started %s on %s%s: <code>%s</code></p>"):format(
      xml.escape(record.started or "?"), xml.escape(record.host or "?"),
      record.commit and ", at commit " .. xml.escape(record.commit:sub(1, 12)) or "",
      xml.escape(argvs.line(record.command)))
end

local function prediction_line(summary)
   local said, was = summary.step_seconds_predicted, summary.step_seconds_measured
   if not said or not was then return nil end
   return ("<p>A step was predicted to take %s, and took %s.</p>"):format(
      units.format_seconds(said), units.format_seconds(was))
end

--- What the plan says of memory and stages, or why it says nothing; nil where there is none.
local function plan_part(dir, record, summary)
   local fine, plan = pcall(texts.head, dir)
   if not fine and type(plan) ~= "table" then error(plan, 0) end
   if not fine then return ("<p>No plan: %s</p>"):format(xml.escape(plan.message)) end
   if not plan then return nil end
   return (memory_part(plan, record, summary) or "") .. (partition_part(plan, record) or "")
end

--- The page of a run's directory.
-- @tparam string dir
-- @tparam[opt=false] boolean is_own it is of a run of this process, which has the lock of it
function M.page(dir, is_own)
   local record = records.read(dir)
   local summary = left.summary(dir) or {}
   local title = ("%s: %s"):format(record.task.name or "run", dir)
   local parts = { summary.value and result_line(summary) or state_line(dir, record, is_own) }
   local function add(part) parts[#parts + 1] = part end
   add(prediction_line(summary))
   add(started_line(record))
   local rows, damaged = left.rows(dir)
   add(charts(rows, record))
   add(damaged and ("<p>%s</p>"):format(xml.escape(damaged)))
   add(plan_part(dir, record, summary))
   add(time_part(record, summary))
   add(timeline_part(dir, summary))
   parts[#parts + 1] = configuration(record)
   return html.page(title, parts)
end

return M
