--- A leg as a drawing: what every device does when, and below it the bytes of activations that it
-- holds meanwhile. Where it waits a bar at the foot says for what. What reads weights that are late
-- has a black line above it, the thicker, the later. Where state moves, thin rows below a device's
-- have its copies from host memory and to it, in colours of classes, with sends and receives of
-- their own, and the bytes are all that it holds, below its budget.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")
local xml = require("ftpipe.text.xml")

local M = {}

local SIZE = { left = 120, width = 1000, top = 20, row = 22, bar = 4, curve = 26, gap = 10,
   copy = 8, legend = 18 }
local NARROWEST = 14 -- box that a number fits into

-- Colours of kinds of actions, apart for all eyes; grey is what takes its moment once a batch.
local COLOURS = {
   forward = "#56B4E9", backward = "#E69F00", ["backward-input"] = "#E69F00",
   ["backward-weight"] = "#F0E442", recompute = "#009E73",
}
local OTHER = "#999999"

-- Classes of memory in the order of the legend: those that move have colours, and what passes
-- between stages through host memory has another.
local CLASSES, CLASS_COLOURS = {}, {}
local PALETTE, PASSED = { "#0072B2", "#D55E00", "#CC79A7", "#F0E442", "#009E73" }, "#8C564B"
local moving = 0
for i, class in ipairs(core.schedule.memory_classes()) do
   moving = moving + (class.moves and 1 or 0)
   CLASSES[i], CLASS_COLOURS[class.name] = class.name, class.moves and PALETTE[moving] or PASSED
end

-- Streams of copies, from top to bottom: name, and by what an action on it is, its number; what is
-- in no class passes to another device, and is grey.
local STREAMS = { "in", "out" }
local COPIED = { ["swap-in"] = 1, receive = 1, ["swap-out"] = 2, send = 2 }

--- Rows of a trace: what the devices compute, what they wait for, and by stream their copies.
local function parts_of(trace, n_devices)
   local parts = { actions = {}, waits = {}, copies = {} }
   for i in ipairs(STREAMS) do parts.copies[i] = {} end
   for _, event in ipairs(trace) do
      local of_device = event.ph == "X" and event.pid < n_devices
      local list = of_device and (event.cat == "wait" and parts.waits
         or parts.copies[COPIED[event.cat]] or event.args.batch and parts.actions)
      if list then list[#list + 1] = event end
   end
   return parts
end

--- Stages of one device differ in shade: by stage, its number on its device.
local function shades_of(actions)
   local shades, counts = {}, {}
   for _, event in ipairs(actions) do
      if not shades[event.tid] then
         counts[event.pid] = (counts[event.pid] or 0) + 1
         shades[event.tid] = 1 - 0.3 * ((counts[event.pid] - 1) % 3)
      end
   end
   return shades
end

--- ", weights of version 3 (1 update late)" of an action that reads older ones; "" of others.
local function version_words(args)
   local lag = args.lag or 0
   if lag == 0 then return "" end
   return (", weights of version %d (%s late)"):format(args.version, counted(lag, "update"))
end

local function box(event, x, y, width, shade)
   local label = ""
   if event.args.micro and width >= NARROWEST then
      label = ('<text x="%.2f" y="%g" class="n">%d</text>'):format(x + width / 2,
         y + SIZE.row - 7, event.args.micro)
   end
   local lag = event.args.lag or 0
   if lag > 0 then -- a line above it for each update that its weights lack, to four
      label = label .. ('<path d="M%.2f %g h%.2f" class="v" stroke-width="%d"/>'):format(x,
         y + math.min(lag, 4) / 2, math.max(width, 0.3), math.min(lag, 4))
   end
   return ('<g><title>%s, batch %d%s: %.3f ms</title><rect x="%.2f" y="%g" width="%.2f" '
      .. 'height="%d" fill="%s" fill-opacity="%.1f"/>%s</g>'):format(xml.escape(event.name),
      event.args.batch, version_words(event.args), event.dur / 1e3, x, y, math.max(width, 0.3),
      SIZE.row, COLOURS[event.cat] or OTHER, shade, label)
end

--- A bar at the foot of a row, which says what for when it is pointed at.
local function wait_bar(event, x, y, width)
   return ('<rect x="%.2f" y="%g" width="%.2f" height="%d" fill="%s" fill-opacity="0.4"><title>'
      .. 'waits for %s: %.3f ms</title></rect>'):format(x, y + SIZE.row - SIZE.bar, width, SIZE.bar,
      OTHER, xml.escape(event.name), event.dur / 1e3)
end

--- A copy in the row of its stream.
local function copy_box(event, x, y, width)
   local args = event.args
   local name = event.name .. (args.edge and " along " .. args.edge or "")
   return ('<rect x="%.2f" y="%g" width="%.2f" height="%d" fill="%s"><title>%s, batch %d: %s%.3f '
      .. 'ms</title></rect>'):format(x, y, math.max(width, 0.3), SIZE.copy - 1,
      CLASS_COLOURS[args.class] or OTHER, xml.escape(name), args.batch,
      tonumber(args.bytes) and units.format_bytes(args.bytes) .. ", " or "", event.dur / 1e3)
end

--- What the colours of the classes are that were copied; "" where none was.
local function legend(copies, y)
   local seen, words_of, x = {}, {}, SIZE.left
   for _, list in ipairs(copies) do
      for _, event in ipairs(list) do seen[event.args.class or ""] = true end
   end
   for _, class in ipairs(CLASSES) do
      if seen[class] then
         words_of[#words_of + 1] = ('<rect x="%d" y="%g" width="10" height="10" fill="%s"/>'
            .. '<text x="%d" y="%g" class="w">%s</text>'):format(x, y, CLASS_COLOURS[class],
            x + 14, y + 9, class)
         x = x + 100
      end
   end
   return table.concat(words_of, "\n")
end

--- The budget of a device, where it is within the picture.
local function budget_line(budget, y, most)
   if not budget or budget > most then return "" end
   return ('<path d="M%d %.2f h%d" class="b"><title>budget %s</title></path>'):format(SIZE.left,
      y + SIZE.curve - budget / most * (SIZE.curve - 2), SIZE.width, units.format_bytes(budget))
end

--- Steps of the bytes held, as high as the largest of all devices.
local function curve(memory, y, scale, most)
   local bottom, points, height = y + SIZE.curve, {}, 0
   local function add(ns)
      points[#points + 1] = ("%.2f,%.2f"):format(SIZE.left + ns * scale, bottom - height)
   end
   add(0)
   for _, point in ipairs(memory.points) do
      add(point[1])
      height = most > 0 and point[2] / most * (SIZE.curve - 2) or 0
      add(point[1])
   end
   return ('<polyline points="%s"><title>%s, at most %s</title></polyline>'
      .. '<text x="%d" y="%g" class="w">%s</text>'):format(table.concat(points, " "),
      memory.is_all and "memory" or "activations", units.format_bytes(memory.peak), 4, bottom - 6,
      units.format_bytes(memory.peak))
end

--- The bytes that curves are as high as: those of the largest, or of a budget that is near.
local function highest(memory, budgets)
   local most = 0
   for _, row in ipairs(memory or {}) do most = math.max(most, row.peak) end
   for d, row in ipairs(memory or {}) do
      local budget = row.is_all and budgets[d] or 0
      if budget < 2 * row.peak then most = math.max(most, budget) end
   end
   return most
end

--- @tparam table played a timeline with its trace and memory; without memory, that is left out
-- @tparam {string,...} names of the devices
-- @tparam[opt] {int,...} budgets of the devices, bytes
-- @treturn string
function M.svg(played, names, budgets)
   budgets = budgets or {}
   local scale = SIZE.width / played.end_ns
   local parts = parts_of(core.json.decode(played.trace).traceEvents, #names)
   local swaps = 0
   for _, list in ipairs(parts.copies) do swaps = swaps + #list end
   local copies_height = swaps > 0 and #STREAMS * SIZE.copy or 0
   local step = SIZE.row + copies_height + (played.memory and SIZE.curve or 0) + SIZE.gap
   local width = SIZE.left + SIZE.width + 20
   local height = SIZE.top + #names * step + (swaps > 0 and SIZE.legend or 0)
   local lines = {
      ('<svg class="timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" '
         .. 'height="%d">'):format(width, height, width, height),
      "<style>.timeline text{font:12px sans-serif}.timeline .w{font-size:10px}"
         .. ".timeline .n{font-size:10px;text-anchor:middle}"
         .. ".timeline polyline{fill:none;stroke:#555}"
         .. ".timeline .v{stroke:#000;stroke-opacity:0.6}"
         .. ".timeline .b{stroke:#d00;stroke-dasharray:4 3}</style>",
      ('<text x="%d" y="12" class="w">0</text>'):format(SIZE.left),
      ('<text x="%d" y="12" class="w" style="text-anchor:end">%s</text>'):format(
         SIZE.left + SIZE.width, units.format_seconds(played.end_ns / 1e9)),
   }
   local most = highest(played.memory, budgets)
   for d, name in ipairs(names) do
      lines[#lines + 1] = ('<text x="4" y="%g">%s</text>'):format(
         SIZE.top + (d - 1) * step + SIZE.row - 7, xml.escape(words.short(name, 16)))
   end
   local shades = shades_of(parts.actions)
   local function place(event, below)
      return SIZE.left + event.ts * 1e3 * scale, SIZE.top + event.pid * step + below,
         event.dur * 1e3 * scale
   end
   for _, event in ipairs(parts.actions) do
      local x, y, length = place(event, 0)
      lines[#lines + 1] = box(event, x, y, length, shades[event.tid])
   end
   for _, event in ipairs(parts.waits) do lines[#lines + 1] = wait_bar(event, place(event, 0)) end
   for i, stream in ipairs(swaps > 0 and STREAMS or {}) do
      local below = SIZE.row + (i - 1) * SIZE.copy + 1
      for d in ipairs(names) do
         lines[#lines + 1] = ('<text x="%d" y="%g" class="w">%s</text>'):format(SIZE.left - 24,
            SIZE.top + (d - 1) * step + below + SIZE.copy - 1, stream)
      end
      for _, event in ipairs(parts.copies[i]) do
         lines[#lines + 1] = copy_box(event, place(event, below))
      end
   end
   for d in ipairs(played.memory and names or {}) do
      local memory, y = played.memory[d], SIZE.top + (d - 1) * step + SIZE.row + copies_height
      lines[#lines + 1] = curve(memory, y, scale, most)
      if memory.is_all then lines[#lines + 1] = budget_line(budgets[d], y, most) end
   end
   lines[#lines + 1] = legend(parts.copies, SIZE.top + #names * step)
   lines[#lines + 1] = "</svg>\n"
   return table.concat(lines, "\n")
end

return M
