--- Graphs as pictures: DOT for Graphviz, and SVG that needs nothing.

local collapse = require("ftpipe.graph.collapse")
local colour = require("ftpipe.page.colour")
local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")
local xml = require("ftpipe.text.xml")

local M = {}

-- Ink on the dark ones.
local DARK = { ["#0072B2"] = true }

--- "encoder/block.3", "12 nodes, 3.20 ms, 12.6 MB", "stage 2, sim:0": what a box says.
local function lines_of(node, names)
   local parts = {}
   if node.count > 1 then parts[1] = ("%d nodes"):format(node.count) end
   parts[#parts + 1] = ("%.2f ms"):format((node.forward_ns + node.backward_ns) / 1e6)
   if node.parameter_bytes > 0 then
      parts[#parts + 1] = units.format_bytes(node.parameter_bytes)
   end
   local place = node.stage and ("stage %d, %s"):format(node.stage - 1,
      names and names[node.device]:match("^%S*") or ("device %d"):format(node.device - 1)) or ""
   return node.id, table.concat(parts, ", "), place
end

local function dot_text(text)
   return (text:gsub('[\\"]', "\\%0"):gsub("%c", " "))
end

--- DOT, nodes of one scope joined.
-- @tparam graph graph
-- @tparam[opt] table o depth (2) of scopes, result of ft.partition, names of its devices
-- @treturn string
function M.dot(graph, o)
   o = o or {}
   local groups = collapse.groups(graph, o.depth or 2, o.result)
   local lines = {
      "digraph model {", "  node [shape=box, style=filled, fontname=sans];",
      "  edge [fontname=sans, fontsize=10];",
   }
   for i, node in ipairs(groups.nodes) do
      local name, weight, place = lines_of(node, o.names)
      local fill = colour(node.device)
      lines[#lines + 1] = ('  n%d [label="%s\\n%s%s", fillcolor="%s"%s];'):format(i,
         dot_text(name), dot_text(weight), place ~= "" and "\\n" .. dot_text(place) or "", fill,
         DARK[fill] and ", fontcolor=white" or "")
   end
   for _, edge in ipairs(groups.edges) do
      local label = ""
      if edge.bytes > 0 then label = (' [label="%s"]'):format(units.format_bytes(edge.bytes)) end
      lines[#lines + 1] = ("  n%d -> n%d%s;"):format(edge.from, edge.to, label)
   end
   lines[#lines + 1] = "}\n"
   return table.concat(lines, "\n")
end

-- ---------------------------------------------------------------------------------------------
-- SVG: layers from top to bottom, in each of them nodes in the order of the graph.

local BOX = { width = 300, height = 40, gap_x = 24, gap_y = 34, margin = 16, swing = 90 }
local LONGEST_NAME = 30

local function places_of(groups)
   local layer, places, filled, widest = collapse.layers(groups), {}, {}, 1
   for i = 1, #groups.nodes do
      local row = layer[i]
      filled[row] = (filled[row] or 0) + 1
      widest = math.max(widest, filled[row])
      places[i] = { row = row, column = filled[row] }
   end
   for _, place in ipairs(places) do
      -- every row stands in the middle
      local free = (widest - filled[place.row]) / 2
      place.x = BOX.margin + (place.column - 1 + free) * (BOX.width + BOX.gap_x)
      place.y = BOX.margin + (place.row - 1) * (BOX.height + BOX.gap_y)
   end
   return places, 2 * BOX.margin + widest * (BOX.width + BOX.gap_x) - BOX.gap_x + BOX.swing,
      2 * BOX.margin + #filled * (BOX.height + BOX.gap_y) - BOX.gap_y
end

local function box_svg(node, place, names)
   local name, weight, where = lines_of(node, names)
   local fill = colour(node.device)
   return ([[<g fill="%s"><title>%s: %s</title><rect x="%g" y="%g" width="%d" height="%d" rx="5" ]]
      .. [[fill="%s" stroke="#555"/><text x="%g" y="%g">%s</text><text x="%g" y="%g" class="e">]]
      .. [[%s</text><text x="%g" y="%g" class="w">%s</text></g>]])
      :format(DARK[fill] and "#FFF" or "#000", xml.escape(name), xml.escape(weight), place.x,
         place.y, BOX.width, BOX.height, fill, place.x + 8, place.y + 17,
         xml.escape(words.short(name, LONGEST_NAME)), place.x + BOX.width - 8, place.y + 17,
         xml.escape(where), place.x + 8, place.y + 32, xml.escape(weight))
end

local function edge_svg(edge, places)
   local from, to = places[edge.from], places[edge.to]
   local x1, y1 = from.x + BOX.width / 2, from.y + BOX.height
   local x2, y2 = to.x + BOX.width / 2, to.y
   local rows = math.abs(to.row - from.row)
   local out1, out2, down = 0, 0, BOX.gap_y
   if rows > 1 then -- beside the boxes between, from side to side, the longer the further out
      x1, y1, x2, y2 = from.x + BOX.width, y1 - BOX.height / 2, to.x + BOX.width,
         y2 + BOX.height / 2
      local swing = math.max(x1, x2) + BOX.swing * (1 - 1 / rows)
      out1, out2, down = swing - x1, swing - x2, 0
   end
   return ([[<path d="M%g %g C%g %g %g %g %g %g"><title>%s</title></path>]]):format(x1, y1,
      x1 + out1, y1 + down, x2 + out2, y2 - down, x2, y2, units.format_bytes(edge.bytes))
end

--- A drawing, nodes of one scope joined.
-- @tparam graph graph
-- @tparam[opt] table o depth (2) of scopes, result of ft.partition, names of its devices
-- @treturn string
function M.svg(graph, o)
   o = o or {}
   local groups = collapse.groups(graph, o.depth or 2, o.result)
   local places, width, height = places_of(groups)
   local lines = {
      ([[<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g">]])
         :format(width, height, width, height),
      "<style>text{font:12px sans-serif}.w,.e{font-size:10px}.e{text-anchor:end}"
         .. "path{fill:none;stroke:#888}</style>",
   }
   for _, edge in ipairs(groups.edges) do lines[#lines + 1] = edge_svg(edge, places) end
   for i, node in ipairs(groups.nodes) do lines[#lines + 1] = box_svg(node, places[i], o.names) end
   lines[#lines + 1] = "</svg>\n"
   return table.concat(lines, "\n")
end

return M
