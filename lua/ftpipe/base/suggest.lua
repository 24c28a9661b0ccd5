--- The nearest name to a misspelt one.

local core = require("ftpipe.core")

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

-- A hint is not worth more than this: so many names, and so many letters of a name.
local MOST_NAMES = 10000
local MOST_LETTERS = 255

--- The name of the list nearest to `wrong`, nil when none is near (more than a third of its letters
-- differ). Of equals the first. Longer lists and longer names are not looked through.
function M.nearest(wrong, names)
   if #wrong > MOST_LETTERS or #wrong == 1 then return nil end -- of one letter any is near
   local most = math.max(1, math.floor(#wrong / 3))
   local best, best_distance = nil, most + 1
   for i = 1, min(#names, MOST_NAMES) do
      local name = names[i]
      -- letters that one of them has more are all different
      if math.abs(#name - #wrong) < best_distance then
         local d = M.distance(wrong:lower(), name:lower())
         if d < best_distance then best, best_distance = name, d end
      end
   end
   return best
end

--- " (did you mean 'x'?)", or "".
function M.hint(wrong, names)
   local name = M.nearest(wrong, names)
   return name and (" (did you mean '%s'?)"):format(name) or ""
end

--- The same for a file: " (did you mean 'recipes/t5_rte.lua'?)", of those in its directory.
function M.file_hint(path)
   local directory, name = path:match("^(.*/)([^/]*)$")
   local found, names = pcall(core.sys.list_dir, directory or ".")
   return found and M.hint(name or path, names) or ""
end

return M
