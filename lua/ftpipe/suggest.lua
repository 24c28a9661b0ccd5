--- The nearest name to a misspelt one.

local M = {}

local min = math.min

--- Insertions, deletions, replacements and swaps of neighbours that turn a into b (Damerau's
-- distance, each letter touched once).
function M.distance(a, b)
   local before, previous = nil, {}
   for j = 0, #b do previous[j] = j end
   for i = 1, #a do
      local row = { [0] = i }
      for j = 1, #b do
         local same = a:byte(i) == b:byte(j)
         row[j] = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (same and 0 or 1))
         if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
            row[j] = min(row[j], before[j - 2] + 1)
         end
      end
      before, previous = previous, row
   end
   return previous[#b]
end

--- The name of the list nearest to `wrong`, nil when none is near (more than a third of its letters
-- differ). Of equals the first.
function M.nearest(wrong, names)
   local best, best_distance
   for _, name in ipairs(names) do
      local d = M.distance(wrong:lower(), name:lower())
      if not best or d < best_distance then best, best_distance = name, d end
   end
   if best and best_distance <= math.max(1, math.floor(#wrong / 3)) then return best end
   return nil
end

--- " (did you mean 'x'?)", or "".
function M.hint(wrong, names)
   local name = M.nearest(wrong, names)
   return name and (" (did you mean '%s'?)"):format(name) or ""
end

return M
