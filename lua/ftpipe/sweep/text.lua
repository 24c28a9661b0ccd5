--- A sweep for people: a table of its trials, and the best one.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local number_text = require("ftpipe.base.number_text")

local M = {}

local BAR = 24 -- columns

--- The best trial; nil when none has a value.
-- @tparam table rows of index:trials()
-- @tparam string goal "max" or "min"
function M.best(rows, goal)
   local best
   for _, row in ipairs(rows) do
      local better = row.value and (not best or row.value ~= best.value
         and (row.value > best.value) == (goal == "max"))
      if better and (row.state == "done" or row.state == "pruned") then best = row end
   end
   return best
end

--- "lr=0.001 clip=1"
function M.flags(flags)
   local words = {}
   for name, value in pairs(flags) do
      words[#words + 1] = ("%s=%s"):format(name, type(value) == "number" and number_text(value)
         or tostring(value))
   end
   table.sort(words)
   return table.concat(words, "  ")
end

--- A bar as long as a value is good: none of the worst, all of the best.
local function bar(row, worst, best)
   if not row.value or worst == best then return "" end
   return ("#"):rep(math.floor(BAR * (row.value - worst) / (best - worst) + 0.5))
end

--- The table, and below it how many there are of each state.
function M.table(rows, goal)
   local best = M.best(rows, goal)
   local worst = M.best(rows, goal == "max" and "min" or "max")
   local longest, counts, states, lines = 5, {}, {}, {}
   for _, row in ipairs(rows) do longest = math.max(longest, #M.flags(row.flags)) end
   local form = "%5s  %-8s %-" .. longest .. "s  %6s  %12s  %s"
   lines[1] = form:format("trial", "state", "flags", "step", "value", ""):gsub("%s+$", "")
   for _, row in ipairs(rows) do
      if not counts[row.state] then states[#states + 1] = row.state end
      counts[row.state] = (counts[row.state] or 0) + 1
      lines[#lines + 1] = form:format(row.number, row.state, M.flags(row.flags),
         row.step and ("%d"):format(row.step) or "-",
         row.value and ("%.6g"):format(row.value) or "-",
         row == best and bar(row, worst.value, best.value) .. " best"
            or best and bar(row, worst.value, best.value) .. (row.note or "") or row.note or "")
         :gsub("%s+$", "")
   end
   for i, state in ipairs(states) do states[i] = ("%d %s"):format(counts[state], state) end
   lines[#lines + 1] = ("%s: %s"):format(counted(#rows, "trial"), table.concat(states, ", "))
   if best then
      lines[#lines + 1] = ("best %.6g: trial %d, %s"):format(best.value, best.number,
         M.flags(best.flags))
   end
   return table.concat(lines, "\n")
end

--- The rows as JSON.
function M.json(rows, goal)
   local best = M.best(rows, goal)
   return core.json.encode({ goal = goal, best = best and best.number,
      trials = core.json.array(rows) }, { indent = 2, sort = true }) .. "\n"
end

return M
