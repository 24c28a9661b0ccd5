--- Sanitizers make the program several times slower: of many cases that differ by a seed or a row
-- only, they get a tenth.

local core = require("ftpipe.core")

local M = {}

local STEP = core.sanitized and 10 or 1

--- How many of n cases to do: all, or a tenth, and one at least.
function M.count(n) return math.ceil(n / STEP) end

--- The rows to do of a list: all, or every tenth beginning with the first.
function M.rows(list)
   local chosen = {}
   for i = 1, #list, STEP do chosen[#chosen + 1] = list[i] end
   return chosen
end

return M
