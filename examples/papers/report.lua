--- Tables of published figures beside ours, for the scripts of this directory.
--
-- A row that differs by more than 10 % is marked; `note` says which assumption closes the gap, and
-- a row without one is a residual that we cannot explain by a switch.

local M = {}
local Report = {}
Report.__index = Report

local TOLERANCE = 0.1

function M.new()
   return setmetatable({ rows = 0, noted = 0, residuals = {}, worst = 0 }, Report)
end

--- A heading, and where the published figures are from.
function Report:section(title, source)
   if self.rows > 0 then print() end
   print(title)
   print(("   published: %s"):format(source))
   print(("   %-34s %14s %14s %9s"):format("", "published", "ours", "differs"))
end

local function show(format, value)
   if type(format) == "function" then return format(value) end
   return (format or "%.4g"):format(value)
end

--- One figure. o: format (of string.format, or a function) of both, note.
function Report:row(name, published, ours, o)
   o = o or {}
   local differs = published == ours and 0 or ours / published - 1
   local far = math.abs(differs) > TOLERANCE
   local mark = ""
   self.rows = self.rows + 1
   if far and o.note then
      self.noted = self.noted + 1
      mark = "  " .. o.note
   elseif far then
      self.residuals[#self.residuals + 1] = name
      mark = "  residual"
   end
   if not far then self.worst = math.max(self.worst, math.abs(differs)) end
   print(("   %-34s %14s %14s %+8.1f%%%s"):format(name, show(o.format, published),
      show(o.format, ours), 100 * differs, mark))
end

--- A line below a table.
function Report.line(_, format, ...)
   print("   " .. format:format(...))
end

--- What a table has instead of figures.
function Report.skip(_, what, why)
   print(("   %-34s skipped: %s"):format(what, why))
end

--- The last line: how many figures, and how far.
function Report:finish()
   print()
   local n = #self.residuals
   print(("%d figures: %d within 10 %% (at most %.1f %%), %d with the assumption named, %s"):format(
      self.rows, self.rows - self.noted - n, 100 * self.worst, self.noted,
      ("%d residual%s"):format(n, n == 1 and "" or "s")))
end

return M
