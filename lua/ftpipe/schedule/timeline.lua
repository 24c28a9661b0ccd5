--- A simulated leg as a drawing: what every device does when, and below it the bytes of activations
-- that it holds meanwhile. Where it waits a bar at the foot says for what. What reads weights that
-- are late has a black line above it, the thicker, the later.

local core = require("ftpipe.core")
local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")
local xml = require("ftpipe.text.xml")

local M = {}

local SIZE = { left = 120, width = 1000, top = 20, row = 22, bar = 4, curve = 26, gap = 10 }
local NARROWEST = 14 -- box that a number fits into

-- Colours of kinds of actions, apart for all eyes; grey is what takes its moment once a batch.
local COLOURS = {
   forward = "#56B4E9", backward = "#E69F00", ["backward-input"] = "#E69F00",
   ["backward-weight"] = "#F0E442", recompute = "#009E73",
}
local OTHER = "#999999"

--- What the devices compute: rows of the trace, without what is on its way between them.
local function actions_of(played, n_devices)
   local list = {}
   for _, event in ipairs(core.json.decode(played.trace).traceEvents) do
      local computes = event.ph == "X" and event.pid < n_devices and event.args.batch
         and event.cat ~= "send" and event.cat ~= "receive" and not event.cat:find("^swap")
      if computes then list[#list + 1] = event end
   end
   return list
end

--- What the devices wait for: rows of the trace.
local function waits_of(played, n_devices)
   local list = {}
   for _, event in ipairs(core.json.decode(played.trace).traceEvents) do
      if event.cat == "wait" and event.pid < n_devices then list[#list + 1] = event end
   end
   return list
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
   return (", weights of version %d (%d update%s late)"):format(args.version, lag,
      lag == 1 and "" or "s")
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
   return ('<polyline points="%s"><title>activations, at most %s</title></polyline>'
      .. '<text x="%d" y="%g" class="w">%s</text>'):format(table.concat(points, " "),
      units.format_bytes(memory.peak), 4, bottom - 6, units.format_bytes(memory.peak))
end

--- @tparam table played a simulation with its trace and memory; without memory, that is left out
-- @tparam {string,...} names of the devices
-- @treturn string
function M.svg(played, names)
   local scale = SIZE.width / played.end_ns
   local step = SIZE.row + (played.memory and SIZE.curve or 0) + SIZE.gap
   local width, height = SIZE.left + SIZE.width + 20, SIZE.top + #names * step
   local lines = {
      ('<svg class="timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" '
         .. 'height="%d">'):format(width, height, width, height),
      "<style>.timeline text{font:12px sans-serif}.timeline .w{font-size:10px}"
         .. ".timeline .n{font-size:10px;text-anchor:middle}"
         .. ".timeline polyline{fill:none;stroke:#555}"
         .. ".timeline .v{stroke:#000;stroke-opacity:0.6}</style>",
      ('<text x="%d" y="12" class="w">0</text>'):format(SIZE.left),
      ('<text x="%d" y="12" class="w" style="text-anchor:end">%s</text>'):format(
         SIZE.left + SIZE.width, units.format_seconds(played.end_ns / 1e9)),
   }
   local most = 0
   for d, name in ipairs(names) do
      lines[#lines + 1] = ('<text x="4" y="%g">%s</text>'):format(
         SIZE.top + (d - 1) * step + SIZE.row - 7, xml.escape(words.short(name, 16)))
      most = math.max(most, played.memory and played.memory[d].peak or 0)
   end
   local actions = actions_of(played, #names)
   local shades = shades_of(actions)
   for _, event in ipairs(actions) do
      lines[#lines + 1] = box(event, SIZE.left + event.ts * 1e3 * scale,
         SIZE.top + event.pid * step, event.dur * 1e3 * scale, shades[event.tid])
   end
   for _, event in ipairs(waits_of(played, #names)) do
      lines[#lines + 1] = wait_bar(event, SIZE.left + event.ts * 1e3 * scale,
         SIZE.top + event.pid * step, event.dur * 1e3 * scale)
   end
   for d in ipairs(played.memory and names or {}) do
      lines[#lines + 1] = curve(played.memory[d], SIZE.top + (d - 1) * step + SIZE.row, scale, most)
   end
   lines[#lines + 1] = "</svg>\n"
   return table.concat(lines, "\n")
end

return M
