--- Curves as SVG.

local colour = require("ftpipe.page.colour")
local xml = require("ftpipe.text.xml")

local M = {}

local WIDTH, HEIGHT = 480, 200
local SIDE = 75 -- beside the outer axes, for their words
local LEFT, RIGHT, TOP, BOTTOM = 52, 18, 8, 24
local BUCKETS = 300 -- of a curve: of each the least and the most are drawn

--- The points of a curve, of so many that two of each bucket of x say as much.
function M.thinned(points, buckets)
   if #points <= 2 * buckets then return points end
   local thin = {}
   for b = 1, buckets do
      local first, last = math.floor((b - 1) * #points / buckets) + 1,
         math.floor(b * #points / buckets)
      local low, high = first, first
      for i = first, last do
         if points[i][2] < points[low][2] then low = i end
         if points[i][2] > points[high][2] then high = i end
      end
      thin[#thin + 1] = points[math.min(low, high)]
      if low ~= high then thin[#thin + 1] = points[math.max(low, high)] end
   end
   return thin
end

--- The least step of 1, 2 or 5 times a power of ten that is at least so large.
local function round_step(least)
   local power = 10 ^ math.floor(math.log(least) / math.log(10))
   for _, factor in ipairs { 1, 2, 5, 10 } do
      if factor * power >= least * (1 - 1e-9) then return factor * power end
   end
end

--- Round numbers within a range, about n.
local function ticks(low, high, n)
   local step, list = round_step((high - low) / n), {}
   for i = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do
      list[#list + 1] = i == 0 and 0 or i * step -- no "-0"
   end
   return list
end

local function range_of(series, k)
   local low, high = math.huge, -math.huge
   for _, row in ipairs(series) do
      for _, point in ipairs(row.points) do
         low, high = math.min(low, point[k]), math.max(high, point[k])
      end
   end
   if low > high then return 0, 1 end
   if low == high then return low - math.max(1e-9, math.abs(low) / 2), high
      + math.max(1e-9, math.abs(high) / 2) end
   return low, high
end

--- A figure of curves over one axis.
-- @tparam string title
-- @tparam table series { { name =, points = { { x, y }, ... }, dots = (dots, no line) }, ... }
-- @tparam[opt="step"] string x_name
-- @treturn string nil when there is nothing to draw
function M.lines(title, series, x_name)
   local any = false
   for _, row in ipairs(series) do any = any or #row.points > 0 end
   if not any then return nil end
   local x0, x1 = range_of(series, 1)
   local y0, y1 = range_of(series, 2)
   local function px(x) return LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT) end
   local function py(y) return HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM) end
   local lines = { ('<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" width="%d" '
      .. 'height="%d" role="img"><g font-family="sans-serif" font-size="12" fill="#555">'):format(
      xml.escape(title), WIDTH, HEIGHT, WIDTH, HEIGHT) }
   for _, y in ipairs(ticks(y0, y1, 4)) do
      lines[#lines + 1] = ('<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" '
         .. 'text-anchor="end">%g</text>'):format(LEFT, py(y), WIDTH - RIGHT, LEFT - 4, py(y) + 4,
         y)
   end
   for _, x in ipairs(ticks(x0, x1, 5)) do
      lines[#lines + 1] = ('<text x="%.1f" y="%d" text-anchor="middle">%g</text>'):format(px(x),
         HEIGHT - 8, x)
   end
   lines[#lines + 1] = "</g>"
   for i, row in ipairs(series) do
      local words = {}
      for k, point in ipairs(M.thinned(row.points, BUCKETS)) do
         local x, y = px(point[1]), py(point[2])
         words[k] = row.dots and ('<circle cx="%.1f" cy="%.1f" r="3"><title>%g: %g</title>'
            .. "</circle>"):format(x, y, point[1], point[2]) or ("%.1f,%.1f"):format(x, y)
      end
      lines[#lines + 1] = row.dots and ('<g fill="%s">%s</g>'):format(colour(i),
         table.concat(words))
         or ('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.4"/>'):format(
            table.concat(words, " "), colour(i))
   end
   local names = {}
   for i, row in ipairs(series) do
      names[#names + 1] = #row.points > 0 and ('<span class="key"><span style="color:%s">&#9632;'
         .. "</span> %s</span>"):format(colour(i), xml.escape(row.name)) or nil
   end
   lines[#lines + 1] = ("</svg><div>%s by %s</div></figure>"):format(table.concat(names, " "),
      x_name or "step")
   return table.concat(lines, "\n")
end

--- Those of the words beside an axis that do not lie upon others; the best one first.
local function apart(list)
   table.sort(list, function(a, b)
      if (a.best or false) ~= (b.best or false) then return a.best or false end
      return a.y < b.y
   end)
   local kept = {}
   for _, word in ipairs(list) do
      local free = true
      for _, other in ipairs(kept) do free = free and math.abs(other.y - word.y) >= 13 end
      if free then kept[#kept + 1] = word end
   end
   return kept
end

--- Lines through parallel axes, one for each parameter and one for the value.
-- @tparam {string,...} axes names
-- @tparam table rows { places = (0 to 1 on each axis), words = (on each axis), best = (bool) }; the
--   best is drawn last, above the others
function M.parallel(axes, rows)
   local step = (WIDTH * 2 - 2 * SIDE) / math.max(1, #axes - 1)
   local height = 260
   local function at(k, place) return SIDE + (k - 1) * step, height - 30 - place * (height - 60) end
   local lines = { ('<div class="wide"><svg viewBox="0 0 %d %d" width="%d" height="%d" '
      .. 'font-family="sans-serif" font-size="12">'):format(WIDTH * 2, height, WIDTH * 2, height) }
   for k, name in ipairs(axes) do
      local x = at(k, 0)
      lines[#lines + 1] = ('<path d="M%.1f 30V%d" stroke="#999"/><text x="%.1f" y="18" '
         .. 'text-anchor="middle">%s</text>'):format(x, height - 30, x, xml.escape(name))
   end
   local words_at, best = {}, nil
   for k in ipairs(axes) do words_at[k] = {} end
   for _, row in ipairs(rows) do
      local words = {}
      for k, place in ipairs(row.places) do
         local x, y = at(k, place)
         words[k] = ("%.1f,%.1f"):format(x, y)
         table.insert(words_at[k], { y = y, text = row.words[k], best = row.best })
      end
      local line = ('<polyline points="%s" fill="none" stroke="%s" stroke-width="%s" '
         .. 'stroke-opacity="%s"><title>%s</title></polyline>'):format(table.concat(words, " "),
         row.best and "#D55E00" or "#56B4E9", row.best and "3" or "1.2", row.best and "1" or "0.7",
         xml.escape(table.concat(row.words, "  ")))
      if row.best then best = line else lines[#lines + 1] = line end
   end
   lines[#lines + 1] = best
   for k, list in ipairs(words_at) do
      for _, word in ipairs(apart(list)) do
         -- of the first axis outside of it; others stand on the lines, with white around them
         lines[#lines + 1] = ('<text x="%.1f" y="%.1f"%s stroke="#fff" stroke-width="3" '
            .. 'paint-order="stroke"%s>%s</text>'):format(at(k, 0) + (k == 1 and -5 or 5),
            word.y + 4, k == 1 and ' text-anchor="end"' or "",
            word.best and ' font-weight="bold"' or ' fill="#555"', xml.escape(word.text))
      end
   end
   lines[#lines + 1] = "</svg></div>"
   return table.concat(lines, "\n")
end

return M
