--- What a search over plans found, in words and as numbers: what ft.planner gives.

local column = require("ftpipe.base.column")
local columns = require("ftpipe.base.words").columns
local counted = require("ftpipe.base.counted")
local guard = require("ftpipe.base.guard")
local named = require("ftpipe.base.named")
local noise = require("ftpipe.planner.noise")
local schedules = require("ftpipe.schedule")
local units = require("ftpipe.base.units")

local M = {}
local Found = {}
Found.__index = Found
Found.__name = "found"

--- What was found.
-- @tparam table known model, rows, best, front
-- @local
function M.new(known) return setmetatable(known, Found) end

local function share(row) return ("%d %%"):format(100 * row.wins / noise.DRAWS + .5) end

-- Heads, and what stands below them.
local COLUMNS = {
   { "micro-batches", function(row) return tostring(row.options.micro_batches) end },
   { "schedule", function(row)
      local o = row.options
      local name = schedules.name(o.schedule)
      return o.packs and ("%s, packs %s"):format(name, o.packs) or name
   end },
   { "partition", function(row) return row.title end },
   { "stages", function(row) return tostring(row.stages) end },
   { "recompute", function(row) return ("%d/%d"):format(row.recomputed, row.stages) end },
   { "batch", function(row) return units.format_seconds(row.seconds) end },
   { "worst", function(row)
      return row.worst_seconds and units.format_seconds(row.worst_seconds) or "-"
   end },
   { "wins", function(row) return row.wins and share(row) or "-" end },
   { "memory", function(row) return units.format_bytes(row.memory_bytes) end },
   { "swapped", function(row)
      return row.swapped_bytes > 0 and ("%s, %.0f %% hidden"):format(
         units.format_bytes(row.swapped_bytes), 100 * row.hidden) or "-"
   end },
   { "late", function(row) return tostring(row.staleness) end },
   { "moved", function(row) return units.format_bytes(row.moved_bytes) end },
   { "front", function(row) return row.front and "*" or "" end },
   { "why", function(row) return row.verdict end },
}

-- Columns of a choice, in front of what its plan is like.
local CHOICE_COLUMNS = 3

-- Behind these, where choices would look alike without it: the stages that a plan may have.
local AT_MOST = { "at most", function(row) return tostring(row.options.stages or "-") end }

--- The columns, of which the first so many say what was chosen.
local function columns_of(rows)
   local seen = {}
   for _, row in ipairs(rows) do
      local words = { tostring(row.stages) }
      for c = 1, CHOICE_COLUMNS do words[c + 1] = COLUMNS[c][2](row) end
      local key, bound = table.concat(words, "|"), AT_MOST[2](row)
      if seen[key] and seen[key] ~= bound then
         local shown = { unpack(COLUMNS) }
         table.insert(shown, CHOICE_COLUMNS + 1, AT_MOST)
         return shown, CHOICE_COLUMNS + 1
      end
      seen[key] = bound
   end
   return COLUMNS, CHOICE_COLUMNS
end

--- Rows that have a plan.
local function planned(found)
   local rows = {}
   for _, row in ipairs(found.rows) do rows[#rows + 1] = not row.problem and row or nil end
   return rows
end

--- Rows that have a plan, as words, the head first.
function Found:cells()
   local rows = planned(self)
   local shown, n_choice = columns_of(rows)
   local cells = { column(shown, 1), keys = n_choice }
   for i, row in ipairs(rows) do
      cells[i + 1] = {}
      for c, each in ipairs(shown) do cells[i + 1][c] = each[2](row) end
   end
   return cells
end

--- How many have none, and why, a line for each reason.
local function without_plan(found)
   local lines, reasons, count = {}, {}, {}
   for _, row in ipairs(found.rows) do
      local why = row.problem
      if why then
         if not count[why] then reasons[#reasons + 1], count[why] = why, 0 end
         count[why] = count[why] + 1
      end
   end
   for i, why in ipairs(reasons) do
      lines[i] = ("%s without a plan: %s"):format(counted(count[why], "choice"), why)
   end
   return lines
end

-- What rows are compared by, as programs read it.
local FIGURES = {
   "problem", "stages", "recomputed", "memory_bytes", "over_bytes", "staleness", "moved_bytes",
   "swapped_bytes", "hidden", "front", "runs", "verdict",
}

--- Rows as numbers, for programs; "wins" is the share of draws in which a row is the fastest.
function Found:data()
   local list = {}
   for i, row in ipairs(self.rows) do
      local o = row.options
      list[i] = {
         micro_batches = o.micro_batches, schedule = schedules.name(o.schedule), packs = o.packs,
         partition = row.title, stages_at_most = o.stages,
         seconds_per_batch = row.seconds, worst_seconds_per_batch = row.worst_seconds,
         chosen = row == self.best, wins = row.wins and row.wins / noise.DRAWS,
      }
      for _, key in ipairs(FIGURES) do list[i][key] = row[key] end
   end
   return list
end

--- Options that give a row's plan.
local function options_of(row)
   local o = row.options
   local list = {
      { "micro_batches", o.micro_batches }, { "schedule", schedules.name(o.schedule) },
      { "partition", row.title },
   }
   for _, key in ipairs { "stages", "packs" } do
      if o[key] then list[#list + 1] = { key, o[key] } end
   end
   return named.list(o, list)
end

--- The row of the list that is least by a goal; of equals the first.
local function least(rows, goal)
   local best = rows[1]
   for _, row in ipairs(rows) do
      if row[goal] < best[goal] then best = row end
   end
   return best
end

--- What was found, in lines: the choice, and what is better than it in one way.
function Found:summary()
   local best, refused = self.best, without_plan(self)
   if not best then
      refused[#refused + 1] = "nothing fits"
      return table.concat(refused, "\n")
   end
   local lines = {
      "chosen: " .. options_of(best),
      ("at worst %s a batch, when all work takes %d %% longer; the fastest in %s of %d draws in "
         .. "which blocks are off by up to %d %%"):format(units.format_seconds(best.worst_seconds),
         100 * noise.SHARE, share(best), noise.DRAWS, 100 * noise.SHARE),
   }
   local function note(words, row)
      if row and row ~= best then
         lines[#lines + 1] = ("%s: %s (%s, %s)"):format(words, options_of(row), row.verdict,
            units.format_bytes(row.memory_bytes))
      end
   end
   local punctual = {}
   for _, row in ipairs(self.front) do
      if row.staleness == 0 then punctual[#punctual + 1] = row end
   end
   note("fastest of all", least(self.front, "seconds"))
   note("with no weights late", punctual[1])
   note("with least memory", least(self.front, "memory_bytes"))
   note("with least moved", least(self.front, "moved_bytes"))
   lines[#lines + 1] = "front (*): nothing is as fast, as small, as little late, with as little "
      .. "moved and as few stages"
   for _, line in ipairs(refused) do lines[#lines + 1] = line end
   return table.concat(lines, "\n")
end

function Found:__tostring()
   local cells = self:cells()
   return (cells[2] and columns(cells) .. "\n" or "") .. self:summary()
end

guard("found", Found, { cells = "", data = "", summary = "" })

return M
