--- The report of a sweep: its trials as a table and as lines through the parameters, and how much
-- each parameter says of the value.

local chart = require("ftpipe.page.chart")
local copy = require("ftpipe.base.copy")
local html = require("ftpipe.page.html")
local indexes = require("ftpipe.sweep.index")
local keys = require("ftpipe.base.keys")
local number_text = require("ftpipe.base.number_text")
local text = require("ftpipe.sweep.text")
local xml = require("ftpipe.text.xml")

local M = {}

local BINS = 4 -- of a parameter of numbers that are all different

local function names_of(rows)
   local flags = {}
   for _, row in ipairs(rows) do flags = copy(flags, row.flags) end
   return keys(flags)
end

local function ended(rows)
   local list = {}
   for _, row in ipairs(rows) do
      if row.value then list[#list + 1] = row end
   end
   return list
end

--- By row, where its value of a parameter stands among those of all, from 0 to 1: by coordinate of
-- the space, which parameters of a sweep are sorted like.
local function place(row, k) return row.point[k] end

--- The value of a flag in words.
local function shown(value)
   return type(value) == "number" and number_text(value) or tostring(value)
end

--- The share of the values' variance between groups of like values of a parameter (eta squared);
-- nil when there is none.
function M.importance(rows, name, k)
   local groups, mean, n, distinct, n_distinct = {}, 0, #rows, {}, 0
   for _, row in ipairs(rows) do
      mean = mean + row.value / n
      local value = tostring(row.flags[name])
      if not distinct[value] then distinct[value], n_distinct = true, n_distinct + 1 end
   end
   for _, row in ipairs(rows) do
      local key = n_distinct <= BINS and tostring(row.flags[name])
         or math.floor(place(row, k) * BINS)
      groups[key] = groups[key] or { sum = 0, n = 0 }
      groups[key].sum, groups[key].n = groups[key].sum + row.value, groups[key].n + 1
   end
   local whole, between = 0, 0
   for _, row in ipairs(rows) do whole = whole + (row.value - mean) ^ 2 end
   for _, group in pairs(groups) do
      between = between + group.n * (group.sum / group.n - mean) ^ 2
   end
   return whole > 0 and between / whole or nil
end

local function importance_part(rows, names)
   local cells = { { "parameter", "share of the variance" } }
   for k, name in ipairs(names) do
      local share = M.importance(rows, name, k)
      cells[k + 1] = { name, share and ("%.0f %%"):format(100 * share) or "-" }
   end
   return "<h2>What matters</h2><p>How much of the variance of the values is between trials that "
      .. "differ in a parameter, taken alone.</p>" .. html.table(cells)
end

local function parallel_part(rows, names, best)
   local low, high = math.huge, -math.huge
   for _, row in ipairs(rows) do
      low, high = math.min(low, row.value), math.max(high, row.value)
   end
   local axes, lines = { unpack(names) }, {}
   axes[#axes + 1] = "value"
   for i, row in ipairs(rows) do
      local places, words = {}, {}
      for k, name in ipairs(names) do
         places[k], words[k] = place(row, k), shown(row.flags[name])
      end
      places[#axes] = high > low and (row.value - low) / (high - low) or 0.5
      words[#axes] = ("%.5g"):format(row.value)
      lines[i] = { places = places, words = words, best = row == best }
   end
   return "<h2>Trials</h2>" .. chart.parallel(axes, lines)
end

local function best_line(best)
   return ("<p><b>best %.6g</b>: trial %d, %s</p>"):format(best.value, best.number,
      xml.escape(text.flags(best.flags)))
end

--- Values in the order in which trials began.
local function values_part(rows)
   local points = {}
   for i, row in ipairs(rows) do points[i] = { row.number, row.value } end
   return chart.lines("Value", { { name = "of a trial", points = points, dots = true } }, "trial")
end

--- All trials, a row each.
local function trials_part(rows, names)
   local cells = { { "trial", "state", "value", "step", "note" } }
   for k, name in ipairs(names) do table.insert(cells[1], 2 + k, name) end
   for i, row in ipairs(rows) do
      local line = { tostring(row.number), row.state }
      for _, name in ipairs(names) do line[#line + 1] = shown(row.flags[name]) end
      line[#line + 1] = row.value and ("%.6g"):format(row.value) or "-"
      line[#line + 1] = row.step and ("%d"):format(row.step) or "-"
      line[#line + 1] = row.note or ""
      cells[i + 1] = line
   end
   return html.table(cells)
end

--- The page of a sweep's directory.
function M.page(dir)
   local index = indexes.open(dir, true)
   local all, goal = index:trials(), index:get("goal")
   index:close()
   local rows, names, best = ended(all), names_of(all), text.best(all, goal)
   local parts = { "<p>No trial has ended with a value.</p>" }
   if best then
      parts = { best_line(best), parallel_part(rows, names, best), importance_part(rows, names),
         values_part(rows) }
   end
   parts[#parts + 1] = trials_part(all, names)
   return html.page("sweep: " .. dir, parts)
end

return M
