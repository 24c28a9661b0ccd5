--- Tables of published figures beside ours, for the scripts of this directory.
--
-- A row that differs by more than 10 % is a residual, whatever might close its gap: a switch that
-- is fitted to one row explains nothing. `why` says in a sentence what is probably missing. Figures
-- that ours are calibrated to, or that a parameter was worked back from, are shown and not counted.

local M = {}
local Report = {}
Report.__index = Report

local TOLERANCE = 0.1

function M.new()
   return setmetatable({ rows = 0, shown = 0, fitted = 0, residuals = {}, worst = 0 }, Report)
end

--- A heading, and where the published figures are from.
function Report:section(title, source)
   self:reasons()
   if self.shown > 0 then print() end
   self.whys, self.why_of = {}, {}
   print(title)
   print(("   published: %s"):format(source))
   print(("   %-34s %14s %14s %9s"):format("", "published", "ours", "differs"))
end

local function show(format, value)
   if type(format) == "function" then return format(value) end
   return (format or "%.4g"):format(value)
end

--- The number of a reason in its table.
local function number_of(report, why)
   if not report.why_of[why] then
      table.insert(report.whys, why)
      report.why_of[why] = #report.whys
   end
   return report.why_of[why]
end

--- Why figures of the last table differ, as far as is known.
function Report:reasons()
   for i, why in ipairs(self.whys or {}) do print(("   (%d) %s"):format(i, why)) end
end

--- One figure. o: format (of string.format, or a function) of both; why (what is probably missing
-- where it differs); fitted (ours is made of this figure: it is not counted).
function Report:row(name, published, ours, o)
   o = o or {}
   local differs = published == ours and 0 or ours / published - 1
   local far = math.abs(differs) > TOLERANCE
   local mark = ""
   self.shown = self.shown + 1
   if o.fitted then
      self.fitted = self.fitted + 1
      mark = "  fitted"
   else
      self.rows = self.rows + 1
      if not far then self.worst = math.max(self.worst, math.abs(differs)) end
      if far then
         self.residuals[#self.residuals + 1] = name
         mark = "  residual" .. (o.why and (" (%d)"):format(number_of(self, o.why)) or "")
      end
   end
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
   self:reasons()
   print()
   local n = #self.residuals
   print(("%d figures: %d within 10 %% (at most %.1f %%), %s; %d fitted and not counted"):format(
      self.rows, self.rows - n, 100 * self.worst, ("%d residual%s"):format(n, n == 1 and "" or "s"),
      self.fitted))
end

return M
