--- A plan as one HTML page that needs nothing else: tables, bars of memory, its first batches in
-- time and the graph as SVG.

local column = require("ftpipe.base.column")
local copies = require("ftpipe.schedule.copies")
local colour = require("ftpipe.page.colour")
local draw = require("ftpipe.graph.draw")
local html = require("ftpipe.page.html")
local timeline = require("ftpipe.schedule.timeline")
local xml = require("ftpipe.text.xml")

local M = {}

local BATCHES = 2 -- of the timeline

--- A bar of the classes of a device's memory, as wide as the budget or as what is needed.
local function memory_bar(name, row, classes)
   local parts = {}
   for i, class in ipairs(classes) do
      local bytes = row.parts[class] or 0
      parts[i] = { ("%s %.1f MB"):format(class, bytes / 1e6), bytes, colour(i) }
   end
   return html.bar(name, math.max(row.total, row.budget), parts)
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

--- @tparam table subject of ftpipe.planner.explore
-- @tparam[opt] table tables further ones: { { title =, cells =, note = }, ... }
-- @tparam[opt=2] int depth of scopes in the drawing
-- @treturn string
function M.html(subject, tables, depth)
   local classes = classes_of(subject.memory)
   local parts = {
      ("<p>%s</p><p>proved: %s<br>%s<br>%s</p>"):format(xml.escape(subject:setting()),
         subject.proof,
         xml.escape(subject:prediction()), xml.escape(subject:limits())),
      "<h2>Stages</h2>", html.table(subject:stage_cells()),
      "<h2>Memory</h2>", html.table(subject:memory_cells()), html.legend(classes),
   }
   for d, row in ipairs(subject.memory) do
      parts[#parts + 1] = memory_bar(subject.names[d], row, classes)
   end
   parts[#parts + 1] = "<h2>Time</h2><p>What devices do of it: compute, or wait, and for what.</p>"
   parts[#parts + 1] = html.table(subject:wait_cells())
   local played, budgets = subject:play(BATCHES, true), column(subject.memory, "budget")
   local copied = copies.add(nil, played, BATCHES)
   if copies.any(copied) then
      parts[#parts + 1] = "<h2>Copies</h2><p>From host memory and to it. Hidden is the share of "
         .. "their time in which the device computes, or waits for something else.</p>"
      parts[#parts + 1] = html.table(copies.cells(copied, subject.names))
   end
   for _, entry in ipairs(tables or {}) do
      parts[#parts + 1] = ("<h2>%s</h2>"):format(xml.escape(entry.title))
      parts[#parts + 1] = html.table(entry.cells)
      if entry.note then parts[#parts + 1] = "<pre>" .. xml.escape(entry.note) .. "</pre>" end
   end
   parts[#parts + 1] = ("<h2>First %d batches</h2><p>%s</p>"):format(BATCHES,
      "What each device computes, with the numbers of micro-batches: forwards blue, backwards "
      .. "orange, once a batch grey, stages of one device in shades. Below, the bytes of "
      .. "activations that it holds; where state moves, its copies from host memory and to it, and "
      .. "the bytes of all that it holds, below its budget. A bar at the foot of a row is a wait.")
   parts[#parts + 1] = ('<div class="wide">%s</div>'):format(
      timeline.svg(played, subject.names, budgets))
   parts[#parts + 1] = "<h2>Graph</h2><details open><summary>coloured by device</summary>"
   parts[#parts + 1] = draw.svg(subject.graph,
      { result = subject.result, names = subject.names, depth = depth })
   parts[#parts + 1] = "</details>"
   return html.page(subject.title, parts)
end

return M
