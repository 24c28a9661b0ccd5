--- What pages are made of: a frame that asks nothing of a network, tables, bars of memory.

local colour = require("ftpipe.page.colour")
local xml = require("ftpipe.text.xml")

local M = {}

local STYLE = [[
body{font:15px/1.4 sans-serif;margin:1.2em auto;padding:0 1em;max-width:75em;color:#222;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:1.6em}
table{border-collapse:collapse;margin:.6em 0}td,th{border:1px solid #ccc;padding:.2em .6em;
text-align:left;vertical-align:top}td{overflow-wrap:break-word}.n{text-align:right;
white-space:nowrap}.long{min-width:12em}td:first-child,.key{white-space:nowrap}
.key{margin-right:1em}
.wide{overflow-x:auto}
.bar{display:flex;height:1.3em;max-width:50em;background:#eee;margin:.2em 0}.bar div{height:100%}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25em),1fr));gap:1em}
figure{margin:0}figcaption{font-weight:bold}svg{max-width:100%;height:auto}
.wide svg{max-width:none;width:100%;min-width:44em}
.picture{overflow-x:auto}.picture svg{max-width:max(100%,44em)}
@media(max-width:32em){table{font-size:13px}td,th{padding:.15em .35em}}
@media print{td{overflow-wrap:anywhere}.long{min-width:0}body{max-width:none;font-size:11px}
.charts{grid-template-columns:1fr 1fr}
.wide,.picture{overflow:visible}.wide svg{min-width:0}.picture svg{max-width:100%}
h2{break-after:avoid}figure{break-inside:avoid}}
:root{color-scheme:light dark}
@media screen and (prefers-color-scheme:dark){body{background:#1b1d20;color:#ddd}
td,th{border-color:#555}.bar{background:#333}svg{background:#fff;color:#222}}]]

--- A whole page: its title and its parts. It may load nothing, from nowhere.
function M.page(title, parts)
   return table.concat({
      "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
      '<meta name="viewport" content="width=device-width, initial-scale=1">',
      '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
         .. 'style-src \'unsafe-inline\'">',
      ("<title>%s</title><style>%s</style></head><body>"):format(xml.escape(title), STYLE),
      ("<h1>%s</h1>"):format(xml.escape(title)),
      table.concat(parts, "\n"), "</body></html>\n",
   }, "\n")
end

--- A page of what an object says of itself, whose first line is the title, and of pictures.
-- @tparam string text
-- @tparam {string,...} pictures SVG
function M.of(text, pictures)
   local title, rest = text:match("^([^\n]-):?\n(.*)$")
   if not title then title, rest = text, "" end
   local parts = { '<div class="wide"><pre>' .. xml.escape(rest) .. "</pre></div>" }
   for _, picture in ipairs(pictures) do
      parts[#parts + 1] = '<div class="picture">' .. picture .. "</div>"
   end
   return M.page(title, parts)
end

local LONG = 24 -- characters of a cell that is to have some width

--- Rows of texts, the first of them a head.
function M.table(cells)
   local lines = { '<div class="wide"><table>' }
   for i, row in ipairs(cells) do
      local tag, words = i == 1 and "th" or "td", {}
      for c, word in ipairs(row) do
         -- what is said instead of numbers takes the rest of the row
         local span = c == #row and c < #cells[1] and (' colspan="%d"'):format(#cells[1] - c + 1)
            or ""
         local class = word:find("^%-?%d[%d.e+-]*%s?[%a%%]*$") and ' class="n"'
            or #word > LONG and ' class="long"' or ""
         words[c] = ("<%s%s%s>%s</%s>"):format(tag, span, class, xml.escape(word), tag)
      end
      lines[#lines + 1] = "<tr>" .. table.concat(words) .. "</tr>"
   end
   lines[#lines + 1] = "</table></div>"
   return table.concat(lines, "\n")
end

--- A bar of parts, as wide as the whole.
-- @tparam string name in front of it
-- @tparam number whole
-- @tparam table parts { { words, number, colour }, ... }
function M.bar(name, whole, parts)
   local boxes = {}
   for _, part in ipairs(parts) do
      if part[2] > 0 and whole > 0 then
         boxes[#boxes + 1] = ('<div style="width:%.2f%%;background:%s" title="%s"></div>'):format(
            100 * part[2] / whole, part[3], xml.escape(part[1]))
      end
   end
   return ("<div>%s</div><div class=\"bar\">%s</div>"):format(xml.escape(name),
      table.concat(boxes))
end

--- What the colours of a list of words are.
function M.legend(words)
   local parts = {}
   for i, word in ipairs(words) do
      parts[i] = ('<span class="key"><span style="background:%s">&nbsp;&nbsp;&nbsp;</span> %s'
         .. '</span>'):format(colour(i), xml.escape(word))
   end
   return "<p>" .. table.concat(parts, " ") .. "</p>"
end

return M
