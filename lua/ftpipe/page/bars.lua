--- Bars with words beside them, as SVG.

local colour = require("ftpipe.page.colour")
local words = require("ftpipe.base.words")
local xml = require("ftpipe.text.xml")

local SIZE = { name = 210, bar = 400, words = 230, row = 20, head = 26, margin = 8 }
local LONGEST_NAME, LONGEST_WORDS = 30, 36

local function row_svg(row, y, most)
   local width = most > 0 and row.value / most * SIZE.bar or 0
   return ('<text x="%d" y="%d">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s">'
      .. '<title>%s: %s</title></rect><text x="%.1f" y="%d" fill="#555">%s</text>'):format(
      SIZE.margin, y + 14, xml.escape(words.short(row.name, LONGEST_NAME)), SIZE.name, y + 2,
      math.max(width, 0.5), SIZE.row - 4, colour(row.colour or 1), xml.escape(row.name),
      xml.escape(row.words), SIZE.name + width + 6, y + 14,
      xml.escape(words.short(row.words, LONGEST_WORDS)))
end

--- @tparam table groups { { title =, rows = { { name =, value =, words =, colour = (number) }, ...
--   } }, ... }; the bars of each are as wide as its largest value
-- @treturn string
return function(groups)
   local lines, y = {}, SIZE.margin
   for _, group in ipairs(groups) do
      local most = 0
      for _, row in ipairs(group.rows) do most = math.max(most, row.value) end
      lines[#lines + 1] = ('<text x="%d" y="%d" font-weight="bold">%s</text>'):format(SIZE.margin,
         y + 15, xml.escape(group.title))
      y = y + SIZE.head
      for _, row in ipairs(group.rows) do
         lines[#lines + 1] = row_svg(row, y, most)
         y = y + SIZE.row
      end
      y = y + SIZE.margin
   end
   local width = SIZE.name + SIZE.bar + SIZE.words
   return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
      .. 'font-family="sans-serif" font-size="12">\n%s\n</svg>\n'):format(width, y, width, y,
      table.concat(lines, "\n"))
end
