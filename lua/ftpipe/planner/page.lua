--- A plan as one HTML page that needs nothing else: tables, bars of memory, its first batches in
-- time and the graph as SVG.

local draw = require("ftpipe.graph.draw")
local timeline = require("ftpipe.schedule.timeline")
local xml = require("ftpipe.text.xml")

local M = {}

local STYLE = [[
body{font:14px sans-serif;margin:2em;max-width:75em}table{border-collapse:collapse;margin:1em 0}
td,th{border:1px solid #ccc;padding:.25em .6em;text-align:left;white-space:nowrap}
.n{text-align:right}
.bar{display:flex;height:1.4em;width:50em;background:#eee;margin:.2em 0}.bar div{height:100%}
svg{max-width:100%;height:auto}]]

local BATCHES = 2 -- of the timeline

local function table_html(cells)
   local lines = { "<table>" }
   for i, row in ipairs(cells) do
      local tag, words = i == 1 and "th" or "td", {}
      for c, word in ipairs(row) do
         -- what is said instead of numbers takes the rest of the row
         local span = c == #row and c < #cells[1] and (' colspan="%d"'):format(#cells[1] - c + 1)
            or ""
         local number = word:find("^[%d.-]") and ' class="n"' or ""
         words[c] = ("<%s%s%s>%s</%s>"):format(tag, span, number, xml.escape(word), tag)
      end
      lines[#lines + 1] = "<tr>" .. table.concat(words) .. "</tr>"
   end
   lines[#lines + 1] = "</table>"
   return table.concat(lines, "\n")
end

--- A bar of the classes of a device's memory, as wide as the budget or as what is needed.
local function memory_bar(name, row, classes)
   local whole = math.max(row.total, row.budget)
   local parts = {}
   for i, class in ipairs(classes) do
      local bytes = row.parts[class] or 0
      if bytes > 0 and whole > 0 then
         parts[#parts + 1] = ('<div style="width:%.2f%%;background:%s" title="%s %.1f MB"></div>')
            :format(100 * bytes / whole, draw.colour(i), class, bytes / 1e6)
      end
   end
   return ("<div>%s</div><div class=\"bar\">%s</div>"):format(xml.escape(name),
      table.concat(parts))
end

local function classes_of(memory)
   local seen, classes = {}, {}
   for _, row in ipairs(memory) do
      for class, bytes in pairs(row.parts) do
         if bytes > 0 and not seen[class] then
            seen[class], classes[#classes + 1] = true, class
         end
      end
   end
   table.sort(classes)
   return classes
end

local function legend(classes)
   local parts = {}
   for i, class in ipairs(classes) do
      parts[i] = ('<span style="background:%s">&nbsp;&nbsp;&nbsp;</span> %s'):format(
         draw.colour(i), class)
   end
   return "<p>" .. table.concat(parts, " &nbsp; ") .. "</p>"
end

--- @tparam table subject of ftpipe.planner.explore
-- @tparam[opt] table tables further ones: { { title =, cells =, note = }, ... }
-- @tparam[opt=2] int depth of scopes in the drawing
-- @treturn string
function M.html(subject, tables, depth)
   local classes = classes_of(subject.memory)
   local parts = {
      "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
      ("<title>%s</title><style>%s</style></head><body>"):format(xml.escape(subject.title), STYLE),
      ("<h1>%s</h1><p>%s</p><p>proved: %s<br>%s<br>%s</p>"):format(xml.escape(subject.title),
         xml.escape(subject:setting()), subject.proof,
         xml.escape(subject:prediction()), xml.escape(subject:limits())),
      "<h2>Stages</h2>", table_html(subject:stage_cells()),
      "<h2>Memory</h2>", table_html(subject:memory_cells()), legend(classes),
   }
   for d, row in ipairs(subject.memory) do
      parts[#parts + 1] = memory_bar(subject.names[d], row, classes)
   end
   parts[#parts + 1] = "<h2>Time</h2><p>What devices do of it: compute, or wait, and for what.</p>"
   parts[#parts + 1] = table_html(subject:wait_cells())
   for _, entry in ipairs(tables or {}) do
      parts[#parts + 1] = ("<h2>%s</h2>"):format(xml.escape(entry.title))
      parts[#parts + 1] = table_html(entry.cells)
      if entry.note then parts[#parts + 1] = "<pre>" .. xml.escape(entry.note) .. "</pre>" end
   end
   parts[#parts + 1] = ("<h2>First %d batches</h2><p>%s</p>"):format(BATCHES,
      "What each device computes, with the numbers of micro-batches: forwards blue, backwards "
      .. "orange, once a batch grey, stages of one device in shades. Below, the bytes of "
      .. "activations that it holds. A bar at the foot of a row is a wait.")
   parts[#parts + 1] = timeline.svg(subject.play(BATCHES, true), subject.names)
   parts[#parts + 1] = "<h2>Graph</h2><details open><summary>coloured by device</summary>"
   parts[#parts + 1] = draw.svg(subject.graph,
      { result = subject.result, names = subject.names, depth = depth })
   parts[#parts + 1] = "</details></body></html>\n"
   return table.concat(parts, "\n")
end

return M
