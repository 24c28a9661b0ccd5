--- By how much the weights of forwards are late, in a table.

local column = require("ftpipe.base.column")
local words = require("ftpipe.base.words")

local M = {}

--- Whether some forward reads weights that are late.
-- @tparam {table,...} stages as of schedule_plan:describe
function M.is_any(stages)
   for _, stage in ipairs(stages) do
      if stage.most_staleness > 0 then return true end
   end
   return false
end

--- By stage, how many updates the weights of its forwards are late at most; nil where none are.
function M.most(stages)
   return M.is_any(stages) and column(stages, "most_staleness") or nil
end

local function range(least, most)
   return least == most and ("%d"):format(most) or ("%d to %d"):format(least, most)
end

--- "1 x 3, 0": the lags of a batch's micro-batches, in their order.
local function runs(lags)
   local parts, at = {}, 1
   while at <= #lags do
      local n = 1
      while lags[at + n] == lags[at] do n = n + 1 end
      parts[#parts + 1] = n > 1 and ("%d x %d"):format(lags[at], n) or ("%d"):format(lags[at])
      at = at + n
   end
   return table.concat(parts, ", ")
end

--- By how many updates the weights of each stage's forwards are late, as rows of words, the head
-- first.
-- @tparam {table,...} stages as of schedule_plan:describe
-- @tparam[opt] table seen by stage, { least, most } of a run
function M.cells(stages, seen)
   local cells = { { "stage", "in flight", "versions", "late", "mean", "by micro-batch" } }
   if seen then table.insert(cells[1], 5, "seen") end
   for s, stage in ipairs(stages) do
      local row = {
         tostring(s - 1), ("%d"):format(stage.in_flight), ("%d"):format(stage.versions),
         range(stage.least_staleness, stage.most_staleness),
         ("%.2f"):format(stage.mean_staleness), runs(stage.lags),
      }
      if seen then table.insert(row, 5, seen[s] and range(seen[s][1], seen[s][2]) or "-") end
      cells[s + 1] = row
   end
   return cells
end

--- The cells as lines of a table under a heading; nil where no weights are late.
function M.text(stages, seen)
   if not M.is_any(stages) then return nil end
   return "updates that weights of forwards are late, when the pipeline is full:\n"
      .. words.columns(M.cells(stages, seen))
end

return M
